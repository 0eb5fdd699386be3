// SPDX-License-Identifier: Apache-2.0
#include "tools/align/views.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "proto/eigen.h"
#include "proto/se3.h"

#define STATUE_RINGS  512 // of the built-in model, and points a ring
#define STATUE_POINTS 700
#define STATUE_HEIGHT 13.0
#define DISTANCE      1.9 // of the camera from the middle, in model diameters
#define IMAGE_MARGIN  1.05

static uint64_t next_random(uint64_t *state) // splitmix64
{
    uint64_t z = *state += 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

static double uniform(uint64_t *state, double most)
{
    return most * ((double)(next_random(state) >> 11) * 0x1p-52 - 1);
}

// A seated figure's bulk with folds: a star-shaped body without any symmetry.
static double statue_radius(const double n[3])
{
    double x = n[0], y = n[1], z = n[2];
    return 1 + 0.18 * sin(2.1 * x + 1.3 * y + 0.4) + 0.14 * cos(2.7 * z - 1.9 * y) +
           0.06 * sin(7 * x - 3 * z + 1) * cos(5 * y + 2 * z) +
           0.03 * sin(13 * y + 5 * sin(3 * x + 2 * z)) + 0.02 * cos(17 * x + 11 * z - 4 * y) +
           0.008 * sin(41 * z + 7 * sin(5 * y)) * cos(37 * x - 5 * y);
}

static int make_statue(struct cloud *out)
{
    size_t n_points = (size_t)(STATUE_RINGS + 1) * STATUE_POINTS;
    int rc = cloud_alloc(out, n_points, false);
    out->triangles = rc ? NULL : malloc(6 * n_points * sizeof *out->triangles);
    if (!out->triangles)
        return -ENOMEM;
    double low = INFINITY, high = -INFINITY;
    for (uint32_t ring = 0; ring <= STATUE_RINGS; ring++)
        for (uint32_t k = 0; k < STATUE_POINTS; k++) {
            double theta = M_PI * ring / STATUE_RINGS, phi = 2 * M_PI * k / STATUE_POINTS;
            double n[3] = {sin(theta) * cos(phi), cos(theta), sin(theta) * sin(phi)};
            double r = statue_radius(n);
            size_t at = (size_t)ring * STATUE_POINTS + k;
            out->x_m[at] = (float)(0.75 * r * n[0]);
            out->y_m[at] = (float)(r * n[1]);
            out->z_m[at] = (float)(0.65 * r * n[2]);
            low = r * n[1] < low ? r * n[1] : low;
            high = r * n[1] > high ? r * n[1] : high;
            if (ring == STATUE_RINGS)
                continue;
            uint32_t a = (uint32_t)at, b = (uint32_t)(at - k + (k + 1) % STATUE_POINTS);
            uint32_t corners[6] = {
                a, b, a + STATUE_POINTS, b, b + STATUE_POINTS, a + STATUE_POINTS};
            memcpy(out->triangles + 3 * out->n_triangles, corners, sizeof corners);
            out->n_triangles += 2;
        }
    float scale = (float)(STATUE_HEIGHT / (high - low));
    for (size_t k = 0; k < n_points; k++) {
        out->x_m[k] *= scale;
        out->y_m[k] *= scale;
        out->z_m[k] *= scale;
    }
    return 0;
}

// Camera at `from` looking at `to`, its y axis down the model's -y.
static struct se3 look_at(const double from[3], const double to[3])
{
    double z[3], x[3], y[3], norm = 0;
    for (int i = 0; i < 3; i++) {
        z[i] = to[i] - from[i];
        norm += z[i] * z[i];
    }
    for (int i = 0; i < 3; i++)
        z[i] /= sqrt(norm);
    double horizontal = sqrt(z[0] * z[0] + z[2] * z[2]); // x = down x z, down = -y
    x[0] = -z[2] / horizontal;
    x[1] = 0;
    x[2] = z[0] / horizontal;
    for (int i = 0; i < 3; i++)
        y[i] = z[(i + 1) % 3] * x[(i + 2) % 3] - z[(i + 2) % 3] * x[(i + 1) % 3];
    struct se3 T = {.t_m = {from[0], from[1], from[2]}};
    for (int i = 0; i < 3; i++) {
        T.r[3 * i] = x[i];
        T.r[3 * i + 1] = y[i];
        T.r[3 * i + 2] = z[i];
    }
    return T;
}

struct se3 views_disturb(const struct se3 *T, const double middle_m[3], double most_m,
                         double most_rad, uint64_t *state)
{
    double twist[6];
    for (int k = 0; k < 6; k++)
        twist[k] = uniform(state, k < 3 ? most_m : most_rad);
    // Turned about the middle: exp(v, w) moves it by v alone.
    double turn[6] = {0, 0, 0, twist[3], twist[4], twist[5]}, moved[3];
    struct se3 step = se3_exp(turn);
    se3_apply(&step, middle_m, moved);
    for (int k = 0; k < 3; k++)
        step.t_m[k] = middle_m[k] - moved[k] + twist[k];
    return se3_compose(T, &step);
}

static int place_cameras(struct views *v, const double middle[3], double diameter)
{
    // Three heights, views of neighbouring heights half a step apart.
    static const double elevation_rad[3] = {0.12, -0.22, 0.5};
    uint64_t state = v->settings.seed;
    for (uint32_t k = 0; k < v->settings.n_views; k++) {
        double azimuth = 2 * M_PI * k / v->settings.n_views, up = elevation_rad[k % 3];
        if (v->settings.n_views < 12) // a single ring: a step between neighbours overlaps
            up = elevation_rad[0];
        double from[3] = {middle[0] + DISTANCE * diameter * cos(up) * sin(azimuth),
                          middle[1] + DISTANCE * diameter * sin(up),
                          middle[2] + DISTANCE * diameter * cos(up) * cos(azimuth)};
        v->T_world_truth[k] = look_at(from, middle);
        // The object's middle in the camera's frame.
        double centre[3] = {0, 0, DISTANCE * diameter};
        v->T_world_start[k] = k == 0
                                  ? v->T_world_truth[k]
                                  : views_disturb(&v->T_world_truth[k], centre, v->settings.start_m,
                                                  v->settings.start_rad, &state);
        v->names[k] = malloc(16);
        if (!v->names[k])
            return -ENOMEM;
        snprintf(v->names[k], 16, "view%03u", k);
    }
    return 0;
}

static uint32_t count_covered(const float *z_m, const struct intrinsics *camera)
{
    uint32_t n = 0;
    for (size_t k = 0; k < (size_t)camera->width_px * camera->height_px; k++)
        n += z_m[k] > 0;
    return n;
}

static void set_camera(struct views *v, double half_angle_rad, uint32_t side_px)
{
    double f = 0.5 * side_px / (tan(half_angle_rad) * IMAGE_MARGIN);
    v->camera =
        (struct intrinsics){f, f, 0.5 * (side_px - 1), 0.5 * (side_px - 1), side_px, side_px};
}

// The resolution at which images have the wanted number of vertices, from a few coarse ones.
static int choose_resolution(struct views *v, double diameter)
{
    double half_angle = asin(0.5 / DISTANCE), covered = 0;
    uint32_t n = v->settings.n_views, n_tried = n < 8 ? n : 8, side = 200;
    (void)diameter;
    set_camera(v, half_angle, side);
    float *z_m = malloc((size_t)side * side * sizeof *z_m);
    if (!z_m)
        return -ENOMEM;
    for (uint32_t k = 0; k < n_tried; k++) {
        int rc = views_render(v, k * n / n_tried, z_m);
        if (rc < 0) {
            free(z_m);
            return rc;
        }
        covered += count_covered(z_m, &v->camera);
    }
    free(z_m);
    covered /= n_tried;
    // Of the covered pixels 97 of 100 get a tangent plane: the rest is the rim.
    double scale = covered > 0 ? sqrt(v->settings.n_vertices / (0.97 * covered)) : 1;
    set_camera(v, half_angle, (uint32_t)(side * scale + 0.5));
    return 0;
}

int views_create(struct views *out, struct cloud *model, const struct views_settings *settings,
                 const struct log_sink *log)
{
    *out = (struct views){.settings = *settings, .model = *model};
    memset(model, 0, sizeof *model);
    uint32_t n = settings->n_views;
    int rc = out->model.n_points ? 0 : make_statue(&out->model);
    if (rc == 0 && out->model.n_triangles == 0) {
        log_to(log, LOG_LEVEL_ERROR, "the model has no triangles");
        rc = -EINVAL;
    }
    out->T_world_truth = calloc(n, sizeof *out->T_world_truth);
    out->T_world_start = calloc(n, sizeof *out->T_world_start);
    out->names = calloc(n, sizeof *out->names);
    if (rc == 0 && (!out->T_world_truth || !out->T_world_start || !out->names))
        rc = -ENOMEM;
    double low[3] = {INFINITY, INFINITY, INFINITY}, high[3] = {-INFINITY, -INFINITY, -INFINITY};
    for (size_t k = 0; k < out->model.n_points && rc == 0; k++) {
        const float p[3] = {out->model.x_m[k], out->model.y_m[k], out->model.z_m[k]};
        for (int i = 0; i < 3; i++) {
            low[i] = (double)p[i] < low[i] ? (double)p[i] : low[i];
            high[i] = (double)p[i] > high[i] ? (double)p[i] : high[i];
        }
    }
    double middle[3], diameter2 = 0;
    for (int i = 0; i < 3; i++) {
        middle[i] = 0.5 * (low[i] + high[i]);
        diameter2 += (high[i] - low[i]) * (high[i] - low[i]);
    }
    out->height_m = high[1] - low[1];
    if (rc == 0)
        rc = place_cameras(out, middle, sqrt(diameter2));
    if (rc == 0)
        rc = choose_resolution(out, sqrt(diameter2));
    if (rc == -ENOMEM)
        log_to(log, LOG_LEVEL_ERROR, "no memory for the views");
    if (rc < 0)
        views_free(out);
    return rc;
}

void views_free(struct views *views)
{
    for (uint32_t k = 0; k < views->settings.n_views && views->names; k++)
        free(views->names[k]);
    free(views->names);
    free(views->T_world_truth);
    free(views->T_world_start);
    cloud_free(&views->model);
    memset(views, 0, sizeof *views);
}

struct corner {
    double u, v, w; // pixel, and 1/z
};

// The triangle's pixels: 1/z is linear in the image.
static void draw(const struct intrinsics *camera, const struct corner c[3], float *inverse_z)
{
    double area = (c[1].u - c[0].u) * (c[2].v - c[0].v) - (c[2].u - c[0].u) * (c[1].v - c[0].v);
    if (fabs(area) < 1e-12)
        return;
    double u0 = fmin(c[0].u, fmin(c[1].u, c[2].u)), u1 = fmax(c[0].u, fmax(c[1].u, c[2].u));
    double v0 = fmin(c[0].v, fmin(c[1].v, c[2].v)), v1 = fmax(c[0].v, fmax(c[1].v, c[2].v));
    long left = lround(ceil(fmax(u0, 0))), top = lround(ceil(fmax(v0, 0)));
    long right = lround(floor(fmin(u1, camera->width_px - 1.0)));
    long bottom = lround(floor(fmin(v1, camera->height_px - 1.0)));
    for (long y = top; y <= bottom; y++)
        for (long x = left; x <= right; x++) {
            double du = (double)x - c[0].u, dv = (double)y - c[0].v;
            double b = (du * (c[2].v - c[0].v) - dv * (c[2].u - c[0].u)) / area;
            double d = (dv * (c[1].u - c[0].u) - du * (c[1].v - c[0].v)) / area;
            if (b < 0 || d < 0 || b + d > 1)
                continue;
            float w = (float)(c[0].w + b * (c[1].w - c[0].w) + d * (c[2].w - c[0].w));
            float *at = &inverse_z[(size_t)y * camera->width_px + (size_t)x];
            *at = w > *at ? w : *at;
        }
}

int views_render(const struct views *views, uint32_t view, float *out_z_m)
{
    const struct cloud *model = &views->model;
    const struct intrinsics *camera = &views->camera;
    struct corner *corners = malloc(model->n_points * sizeof *corners);
    if (!corners)
        return -ENOMEM;
    struct se3 T = se3_inverse(&views->T_world_truth[view]);
    for (size_t k = 0; k < model->n_points; k++) {
        double p[3] = {(double)model->x_m[k], (double)model->y_m[k], (double)model->z_m[k]}, q[3];
        se3_apply(&T, p, q);
        corners[k] = (struct corner){camera->fx_px * q[0] / q[2] + camera->cx_px,
                                     camera->fy_px * q[1] / q[2] + camera->cy_px, 1 / q[2]};
    }
    size_t n_px = (size_t)camera->width_px * camera->height_px;
    memset(out_z_m, 0, n_px * sizeof *out_z_m);
    for (size_t k = 0; k < model->n_triangles; k++) {
        const uint32_t *t = model->triangles + 3 * k;
        struct corner c[3] = {corners[t[0]], corners[t[1]], corners[t[2]]};
        if (c[0].w > 0 && c[1].w > 0 && c[2].w > 0)
            draw(camera, c, out_z_m);
    }
    free(corners);
    uint64_t state = views->settings.seed ^ (0x51ed270b7a2f3c1du * (view + 1));
    for (size_t k = 0; k < n_px; k++) {
        if (!(out_z_m[k] > 0))
            continue;
        double x = ((double)(k % camera->width_px) - camera->cx_px) / camera->fx_px;
        double y = ((double)(k / camera->width_px) - camera->cy_px) / camera->fy_px;
        double along = uniform(&state, views->settings.noise_m); // of the ray, not of z
        out_z_m[k] = (float)(1 / (double)out_z_m[k] + along / sqrt(1 + x * x + y * y));
    }
    return 0;
}

int views_load(void *user, uint32_t image, struct align_image **out)
{
    const struct views *views = user;
    size_t n_px = (size_t)views->camera.width_px * views->camera.height_px;
    float *z_m = malloc(n_px * sizeof *z_m);
    struct align_image_settings settings;
    align_image_settings_default(&settings);
    *out = NULL;
    int rc = z_m ? views_render(views, image, z_m) : -ENOMEM;
    // The noise of the generator is known; a plain image has a thousandth of a cell.
    settings.noise.a_m = (float)fmax(views->settings.noise_m / sqrt(3), 1e-5);
    if (rc == 0)
        rc = align_image_create_depth(out, z_m, &views->camera, &settings, views->names[image],
                                      NULL);
    free(z_m);
    return rc;
}

// Horn 1987: the rigid motion that takes points a best onto b, from their sums.
static struct se3 best_motion(const double m[9], const double a[3], const double b[3])
{
    double n[16] = {m[0] + m[4] + m[8],  m[5] - m[7], m[6] - m[2], m[1] - m[3], m[5] - m[7],
                    m[0] - m[4] - m[8],  m[1] + m[3], m[6] + m[2], m[6] - m[2], m[1] + m[3],
                    -m[0] + m[4] - m[8], m[5] + m[7], m[1] - m[3], m[6] + m[2], m[5] + m[7],
                    -m[0] - m[4] + m[8]};
    double values[4], vectors[16];
    eigen_symmetric(n, 4, values, vectors);
    double xyzw[4] = {vectors[13], vectors[14], vectors[15], vectors[12]}, zero[3] = {0}, at[3];
    struct se3 T = se3_from_quaternion(xyzw, zero);
    se3_apply(&T, a, at);
    for (int i = 0; i < 3; i++)
        T.t_m[i] = b[i] - at[i];
    return T;
}

static struct se3 onto_truth(const struct align_sketch *sketches, uint32_t n,
                             const struct se3 *T_world_image, const struct se3 *T_world_truth)
{
    double a[3] = {0}, b[3] = {0}, m[9] = {0}, count = 0;
    for (int pass = 0; pass < 2; pass++)
        for (uint32_t i = 0; i < n; i++)
            for (uint32_t k = 0; k < sketches[i].n_samples; k++) {
                double p[3], q[3], r[3];
                for (int c = 0; c < 3; c++)
                    p[c] = (double)sketches[i].sample_m[k][c];
                se3_apply(&T_world_image[i], p, q);
                se3_apply(&T_world_truth[i], p, r);
                for (int c = 0; c < 3 && pass == 0; c++) {
                    a[c] += q[c];
                    b[c] += r[c];
                }
                count += pass == 0;
                for (int c = 0; c < 9 && pass == 1; c++)
                    m[c] += (q[c / 3] - a[c / 3] / count) * (r[c % 3] - b[c % 3] / count);
            }
    for (int c = 0; c < 3; c++) {
        a[c] /= count;
        b[c] /= count;
    }
    return best_motion(m, a, b);
}

struct pose_errors views_errors(const struct align_sketch *sketches, uint32_t n,
                                const struct se3 *T_world_image, const struct se3 *T_world_truth)
{
    struct se3 onto = onto_truth(sketches, n, T_world_image, T_world_truth);
    struct pose_errors out = {0};
    double sum = 0, count = 0;
    for (uint32_t i = 0; i < n; i++) {
        struct se3 moved = se3_compose(&onto, &T_world_image[i]);
        struct se3 off = se3_between(&T_world_truth[i], &moved);
        double own = 0;
        for (uint32_t k = 0; k < sketches[i].n_samples; k++) {
            double p[3], q[3], d2 = 0;
            for (int c = 0; c < 3; c++)
                p[c] = (double)sketches[i].sample_m[k][c];
            se3_apply(&off, p, q);
            for (int c = 0; c < 3; c++)
                d2 += (q[c] - p[c]) * (q[c] - p[c]);
            own += sqrt(d2);
        }
        sum += own * sketches[i].n_vertices / sketches[i].n_samples;
        count += sketches[i].n_vertices;
        own /= sketches[i].n_samples;
        out.worst_m = own > out.worst_m ? own : out.worst_m;
        double angle = se3_angle(&off);
        out.worst_rad = angle > out.worst_rad ? angle : out.worst_rad;
    }
    out.mean_m = sum / count;
    return out;
}
