// SPDX-License-Identifier: Apache-2.0
// The fit and the comparison are its own, not the search's: a verdict that asked the search's own
// score would find every one of its mistakes allowed.
#include "tools/bench/search_ambiguity.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "gpu/base/solve6.h"
#include "gpu/search/cpu/raster.h"
#include "gpu/search/kernels/icp.h"
#include "gpu/search/kernels/raster.h"
#include "gpu/search/object/build.h"
#include "proto/se3.h"

#define STEP_DEG   5
#define GATE_M     0.03 // pairs of the fit
#define BORDER_PX  3
#define MIN_PIXELS 12 // of the fit

// Most turns are nothing: in every fourth pixel of every fourth row, after two steps, this share
// says otherwise by so many standard deviations.
#define COARSE_STRIDE 4
#define COARSE_ROUNDS 2
#define COARSE_SIGMAS 8
#define COARSE_SHARE  0.3
#define FINE_ROUNDS   6
#define SAME_AXIS     0.999

// The model drawn in a rectangle of the image that holds it at any turn: pixel (u, v) is the
// image's u0 + stride u, v0 + stride v.
struct drawing {
    int u0, v0, width, height, stride;
    struct raster_point *corners;
    float *value;
    float *z_m; // 0: not there
};

static void drawing_free(struct drawing *d)
{
    free(d->corners);
    free(d->value);
    free(d->z_m);
}

static double radius_about(const struct testscene_mesh *mesh, const double centre_m[3])
{
    double most = 0;
    for (size_t i = 0; i < mesh->n_vertices; i++) {
        double d2 = 0;
        for (int k = 0; k < 3; k++) {
            const double d = (double)mesh->vertices_m[3 * i + (size_t)k] - centre_m[k];
            d2 += d * d;
        }
        most = fmax(most, d2);
    }
    return sqrt(most);
}

static int drawing_create(const struct testscene_mesh *mesh, const struct testscene *scene,
                          const double centre_m[3], int stride, struct drawing *out)
{
    const struct intrinsics *c = &scene->camera;
    double at[3];
    se3_apply(&scene->T_camera_model, centre_m, at);
    const double radius = 1.2 * radius_about(mesh, centre_m);
    const double near = fmax(0.05, at[2] - radius), r = c->fx_px * radius / near + BORDER_PX;
    const double u = c->fx_px * at[0] / at[2] + c->cx_px, v = c->fy_px * at[1] / at[2] + c->cy_px;
    const double right = c->width_px, low = c->height_px;
    out->u0 = (int)fmin(right - 1, fmax(0, u - r));
    out->v0 = (int)fmin(low - 1, fmax(0, v - r));
    out->stride = stride;
    out->width = ((int)fmin(right, fmax(1, u + r)) - out->u0 + stride - 1) / stride;
    out->height = ((int)fmin(low, fmax(1, v + r)) - out->v0 + stride - 1) / stride;
    out->width = out->width > 0 ? out->width : 1;
    out->height = out->height > 0 ? out->height : 1;
    out->corners = malloc(mesh->n_vertices * sizeof *out->corners);
    out->value = malloc(mesh->n_vertices * sizeof *out->value);
    out->z_m = malloc((size_t)(out->width * out->height) * sizeof *out->z_m);
    return out->corners && out->value && out->z_m ? 0 : -ENOMEM;
}

static void draw(const struct testscene_mesh *mesh, const struct intrinsics *c, const struct se3 *T,
                 struct drawing *d)
{
    for (size_t i = 0; i < mesh->n_vertices; i++) {
        double p[3], q[3];
        for (int k = 0; k < 3; k++)
            p[k] = (double)mesh->vertices_m[3 * i + (size_t)k];
        se3_apply(T, p, q);
        const bool front = q[2] > 0.05;
        const double u = (c->fx_px * q[0] / q[2] + c->cx_px - d->u0) / d->stride;
        const double v = (c->fy_px * q[1] / q[2] + c->cy_px - d->v0) / d->stride;
        d->corners[i].x = raster_snap(front ? (float)u : 1e9f);
        d->corners[i].y = raster_snap(front ? (float)v : 1e9f);
        d->value[i] = (float)(-1 / q[2]);
    }
    const int n = d->width * d->height;
    for (int i = 0; i < n; i++)
        d->z_m[i] = INFINITY;
    const struct raster_mesh raster = {d->corners, d->value, mesh->triangles,
                                       (uint32_t)mesh->n_triangles};
    raster_draw(&raster, d->width, d->height, d->z_m, NULL);
    for (int i = 0; i < n; i++)
        d->z_m[i] = d->z_m[i] < INFINITY ? -1 / d->z_m[i] : 0;
}

// Nearest and farthest of a map around a pixel, a pixel each way; returns at how many of nine there
// is something.
static int around(const float *z_m, int width, int height, int u, int v, float *out_near,
                  float *out_far)
{
    int n = 0;
    *out_near = INFINITY;
    *out_far = 0;
    for (int y = v - 1; y <= v + 1; y++)
        for (int x = u - 1; x <= u + 1; x++) {
            if (x < 0 || y < 0 || x >= width || y >= height || z_m[y * width + x] == 0.f)
                continue;
            *out_near = fminf(*out_near, z_m[y * width + x]);
            *out_far = fmaxf(*out_far, z_m[y * width + x]);
            n++;
        }
    return n;
}

// Where the image has pixel (u, v) of the drawing.
static int image_at(const struct testscene *scene, const struct drawing *d, int u, int v)
{
    return (d->v0 + d->stride * v) * (int)scene->camera.width_px + d->u0 + d->stride * u;
}

// Share of the shown pixels at which the drawing says otherwise.
static double count_otherwise(const struct testscene *scene, const struct drawing *d,
                              double n_sigmas)
{
    const int width = (int)scene->camera.width_px, height = (int)scene->camera.height_px;
    int n_shown = 0, n_otherwise = 0;
    for (int v = 0; v < d->height; v++)
        for (int u = 0; u < d->width; u++) {
            const int at = image_at(scene, d, u, v);
            const float z = scene->z_m[at], off = (float)(n_sigmas * AMBIGUITY_Z_PER_M) * z * z;
            float near, far, scene_near, scene_far;
            const int n = around(d->z_m, d->width, d->height, u, v, &near, &far);
            if (scene->shown[at]) {
                n_shown++;
                n_otherwise += n == 0 || z < near - off || z > far + off;
            } else if (n == 9 && scene->depth[at] > 0) {
                around(scene->z_m, width, height, at % width, at / width, &scene_near, &scene_far);
                n_otherwise += scene_near > far + off;
            }
        }
    return n_shown ? (double)n_otherwise / n_shown : 1;
}

void ambiguity_axes_of(const struct search_object *object, struct ambiguity_axes *out)
{
    static const double model[3][3] = {{1, 0, 0}, {0, 1, 0}, {0, 0, 1}};
    memcpy(out->centre_m, object->info.centre_m, sizeof out->centre_m);
    memcpy(out->axes, model, sizeof model);
    search_principal_axes(object, out->axes + 3);
}

int ambiguity_share(const struct testscene_mesh *mesh, const struct ambiguity_axes *axes,
                    const struct testscene *scene, const struct se3 *T_camera_model,
                    double *out_share)
{
    struct drawing d = {0};
    int err = drawing_create(mesh, scene, axes->centre_m, 1, &d);
    if (!err) {
        draw(mesh, &scene->camera, T_camera_model, &d);
        *out_share = count_otherwise(scene, &d, 1);
    }
    drawing_free(&d);
    return err;
}

static void ray(const struct intrinsics *c, int u, int v, double out[3])
{
    out[0] = (u - c->cx_px) / c->fx_px;
    out[1] = (v - c->cy_px) / c->fy_px;
    out[2] = 1;
}

// Normal of the drawn surface from the pixels to the right and below; false at its edges.
static bool drawn_normal(const struct intrinsics *c, const struct drawing *d, int u, int v,
                         double out[3])
{
    if (u + 1 >= d->width || v + 1 >= d->height)
        return false;
    const double z = (double)d->z_m[v * d->width + u];
    const double right = (double)d->z_m[v * d->width + u + 1];
    const double below = (double)d->z_m[(v + 1) * d->width + u];
    if (z == 0 || right == 0 || below == 0 || fabs(right - z) > GATE_M || fabs(below - z) > GATE_M)
        return false;
    double p[3], a[3], b[3], length = 0;
    ray(c, d->u0 + d->stride * u, d->v0 + d->stride * v, p);
    ray(c, d->u0 + d->stride * (u + 1), d->v0 + d->stride * v, a);
    ray(c, d->u0 + d->stride * u, d->v0 + d->stride * (v + 1), b);
    for (int k = 0; k < 3; k++) {
        a[k] = a[k] * right - p[k] * z;
        b[k] = b[k] * below - p[k] * z;
    }
    for (int k = 0; k < 3; k++) {
        out[k] = a[(k + 1) % 3] * b[(k + 2) % 3] - a[(k + 2) % 3] * b[(k + 1) % 3];
        length += out[k] * out[k];
    }
    for (int k = 0; k < 3; k++)
        out[k] /= sqrt(length);
    return true;
}

// One step of point-to-plane ICP of the drawn model towards the true surface where it is shown.
// False when it cannot be solved.
static bool fit_step(const struct testscene_mesh *mesh, const struct testscene *scene,
                     const double centre_m[3], struct drawing *d, struct se3 *T)
{
    const struct intrinsics *c = &scene->camera;
    double h[6][6] = {{0}}, g[6] = {0}, centre[3];
    int n = 0;
    draw(mesh, c, T, d);
    se3_apply(T, centre_m, centre);
    for (int v = 0; v < d->height; v++)
        for (int u = 0; u < d->width; u++) {
            const int at = image_at(scene, d, u, v);
            const double off = (double)scene->z_m[at] - (double)d->z_m[v * d->width + u];
            double m[3], p[3], j[6], r = 0;
            if (!scene->shown[at] || fabs(off) > GATE_M || !drawn_normal(c, d, u, v, m))
                continue;
            ray(c, d->u0 + d->stride * u, d->v0 + d->stride * v, p);
            for (int k = 0; k < 3; k++) {
                r += m[k] * p[k] * off;
                p[k] = p[k] * (double)d->z_m[v * d->width + u] - centre[k];
            }
            for (int k = 0; k < 3; k++) {
                j[k] = m[k];
                j[3 + k] = p[(k + 1) % 3] * m[(k + 2) % 3] - p[(k + 2) % 3] * m[(k + 1) % 3];
            }
            for (int a = 0; a < 6; a++) {
                g[a] += j[a] * r;
                for (int b = 0; b <= a; b++)
                    h[a][b] += j[a] * j[b];
            }
            n++;
        }
    if (n < MIN_PIXELS)
        return false;
    // Rotations are of the size of the object: so that one damping fits all.
    const double size = sqrt((h[3][3] + h[4][4] + h[5][5]) / (h[0][0] + h[1][1] + h[2][2]));
    double x[6];
    for (int a = 0; a < 6; a++) {
        const double of_a = a < 3 ? 1 : size;
        g[a] /= of_a;
        for (int b = 0; b <= a; b++)
            h[a][b] /= of_a * (b < 3 ? 1 : size);
        h[a][a] += 1e-3 * n;
    }
    if (!solve6_double(h, g, 0, x))
        return false;
    // Turns about the object's centre.
    const double turn[6] = {0, 0, 0, x[3] / size, x[4] / size, x[5] / size};
    const struct se3 R = se3_exp(turn);
    struct se3 moved = *T;
    for (int k = 0; k < 3; k++)
        moved.t_m[k] -= centre[k];
    moved = se3_compose(&R, &moved);
    for (int k = 0; k < 3; k++)
        moved.t_m[k] += centre[k] + x[k];
    *T = moved;
    return true;
}

// The model turned about its centre, then fitted. Whether the image allows it.
static bool try_turn(const struct testscene_mesh *mesh, const struct ambiguity_axes *axes,
                     const struct testscene *scene, const struct se3 *turn, struct drawing *coarse,
                     struct drawing *fine, struct se3 *out)
{
    struct se3 about_centre = *turn;
    double centre[3];
    se3_apply(turn, axes->centre_m, centre);
    for (int k = 0; k < 3; k++)
        about_centre.t_m[k] = axes->centre_m[k] - centre[k];
    *out = se3_compose(&scene->T_camera_model, &about_centre);
    for (int round = 0; round < COARSE_ROUNDS; round++)
        if (!fit_step(mesh, scene, axes->centre_m, coarse, out))
            return false;
    draw(mesh, &scene->camera, out, coarse);
    if (count_otherwise(scene, coarse, COARSE_SIGMAS) > COARSE_SHARE)
        return false;
    bool allowed = false;
    for (int round = 0; round < FINE_ROUNDS && !allowed; round++) {
        if (!fit_step(mesh, scene, axes->centre_m, fine, out))
            return false;
        draw(mesh, &scene->camera, out, fine);
        allowed = count_otherwise(scene, fine, 1) <= AMBIGUITY_SHARE_MOST;
    }
    return allowed;
}

// Whether axis a is one of those before it.
static bool is_known(const struct ambiguity_axes *axes, int a)
{
    for (int b = 0; b < a; b++) {
        double dot = 0;
        for (int k = 0; k < 3; k++)
            dot += axes->axes[a][k] * axes->axes[b][k];
        if (fabs(dot) > SAME_AXIS)
            return true;
    }
    return false;
}

int ambiguity_poses(const struct testscene_mesh *mesh, const struct ambiguity_axes *axes,
                    const struct testscene *scene, struct se3 out[AMBIGUITY_MAX], uint32_t *out_n)
{
    struct drawing coarse = {0}, fine = {0};
    int err = drawing_create(mesh, scene, axes->centre_m, COARSE_STRIDE, &coarse);
    if (!err)
        err = drawing_create(mesh, scene, axes->centre_m, 1, &fine);
    out[0] = scene->T_camera_model;
    *out_n = 1;
    for (int a = 0; a < 6 && !err; a++)
        for (int i = 1; i < 2 * 360 / STEP_DEG && !is_known(axes, a); i++) {
            double twist[6] = {0}, half[6] = {0};
            for (int k = 0; k < 3; k++) {
                twist[3 + k] = axes->axes[a][k] * i * STEP_DEG * M_PI / 180;
                half[3 + k] = axes->axes[a / 3 * 3 + (a + 1) % 3][k] * M_PI;
            }
            const struct se3 about = se3_exp(twist), across = se3_exp(half);
            const struct se3 turn = i < 360 / STEP_DEG ? about : se3_compose(&about, &across);
            if (*out_n < AMBIGUITY_MAX &&
                try_turn(mesh, axes, scene, &turn, &coarse, &fine, &out[*out_n]))
                ++*out_n;
        }
    drawing_free(&coarse);
    drawing_free(&fine);
    return err;
}
