// SPDX-License-Identifier: Apache-2.0
#include "gpu/model/deformation_field.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>

#include "proto/se3.h"

// A keyframe saw a point whose depth is within this of its image, the band that is fused
// around a surface: three voxels, or a Kinect's noise.
#define SEEN_VOXELS 3
#define SEEN_PER_M  0.008 // times depth squared

// Neighbouring pixels farther apart than this share of their depth are of two surfaces.
#define ONE_SURFACE 0.1

// A frame weighs (1 / z)^4 in a voxel, nearer ones all the same.
#define NEAR_M 0.5

int deformation_field_create(struct deformation_field *out, const struct intrinsics *camera,
                             uint32_t max_n)
{
    const size_t n_px = (size_t)camera->width_px * camera->height_px;
    *out = (struct deformation_field){
        .camera = *camera,
        .keyframes = malloc((max_n + 1) * sizeof *out->keyframes),
        .z_mm = malloc((max_n + 1) * n_px * sizeof *out->z_mm),
    };
    if (out->keyframes && out->z_mm)
        return 0;
    deformation_field_free(out);
    return -ENOMEM;
}

uint16_t *deformation_field_add(struct deformation_field *c, const struct se3 *T_odom_camera,
                                const struct se3 *T_map_camera)
{
    struct deformation_keyframe *k = &c->keyframes[c->n];
    k->T_odom_camera = *T_odom_camera;
    k->T_camera_odom = se3_inverse(T_odom_camera);
    k->T_map_odom = se3_compose(T_map_camera, &k->T_camera_odom);
    return c->z_mm + c->n++ * (size_t)c->camera.width_px * c->camera.height_px;
}

void deformation_field_free(struct deformation_field *c)
{
    free(c->keyframes);
    free(c->z_mm);
    *c = (struct deformation_field){0};
}

// How far a point at depth z is from the surface that a keyframe saw at (u, v), where it is between
// neighbouring pixels of one surface: 0. Negative: nothing was seen there.
static double off_surface(const struct intrinsics *camera, const uint16_t *z_mm, double u, double v,
                          double z_m)
{
    const double u0 = floor(u), v0 = floor(v);
    const uint32_t width_px = camera->width_px;
    double nearest = -1, least = INFINITY, most = 0;
    for (int k = 0; k < 4; k++) {
        const double x = u0 + k % 2, y = v0 + k / 2;
        if (x < 0 || y < 0 || x >= width_px || y >= camera->height_px)
            continue;
        const double z = z_mm[(size_t)y * width_px + (size_t)x] * 1e-3;
        if (z == 0)
            continue;
        least = fmin(least, z);
        most = fmax(most, z);
        if (fabs(x - u) <= 0.5 && fabs(y - v) <= 0.5)
            nearest = z;
    }
    if (most - least <= ONE_SURFACE * least)
        return fmax(0, fmax(least - z_m, z_m - most));
    return nearest < 0 ? -1 : fabs(nearest - z_m);
}

// How much a point of odom is keyframe k's: 0 where it did not see it. *out_apart_m: of the point
// to the camera, more where it is out of sight.
static double share_of(const struct deformation_field *c, uint32_t k, double voxel_m,
                       const double p_m[3], double *out_apart_m)
{
    const struct intrinsics *camera = &c->camera;
    const size_t n_px = (size_t)camera->width_px * camera->height_px;
    double q[3];
    se3_apply(&c->keyframes[k].T_camera_odom, p_m, q);
    *out_apart_m = 2 * sqrt(q[0] * q[0] + q[1] * q[1] + q[2] * q[2]);
    if (q[2] <= 0)
        return 0;
    const double u = camera->fx_px * q[0] / q[2] + camera->cx_px;
    const double v = camera->fy_px * q[1] / q[2] + camera->cy_px;
    const double du = fmin(u + 0.5, camera->width_px - 0.5 - u);
    const double dv = fmin(v + 0.5, camera->height_px - 0.5 - v);
    if (!(du > 0 && dv > 0))
        return 0;
    *out_apart_m /= 2;
    const double off_m = off_surface(camera, c->z_mm + k * n_px, u, v, q[2]);
    const double limit_m = fmax(SEEN_VOXELS * voxel_m, SEEN_PER_M * q[2] * q[2]);
    if (off_m < 0 || off_m >= limit_m)
        return 0;
    // Without steps: less towards the image's edge and the limit.
    const double inside = fmin(1, 10 * fmin(du / camera->width_px, dv / camera->height_px));
    const double near = NEAR_M / fmax(NEAR_M, q[2]), off = off_m / limit_m;
    return inside * (1 - off * off) * near * near * near * near;
}

struct blend {
    double sum, quaternion[4], moved_m[3];
};

static void add_motion(struct blend *blend, const struct se3 *T_map_odom, double share,
                       const double p_m[3])
{
    double q[4], p[3], along = 0;
    se3_to_quaternion(T_map_odom, q);
    se3_apply(T_map_odom, p_m, p);
    for (int i = 0; i < 4; i++)
        along += q[i] * blend->quaternion[i];
    for (int i = 0; i < 4; i++)
        blend->quaternion[i] += along < 0 ? -share * q[i] : share * q[i];
    for (int i = 0; i < 3; i++)
        blend->moved_m[i] += share * p[i];
    blend->sum += share;
}

static struct se3 blended(const struct blend *blend, const double p_m[3])
{
    const double none[3] = {0, 0, 0};
    struct se3 T = se3_from_quaternion(blend->quaternion, none);
    double turned[3];
    se3_apply(&T, p_m, turned);
    for (int i = 0; i < 3; i++)
        T.t_m[i] = blend->moved_m[i] / blend->sum - turned[i];
    return T;
}

// What takes a surface point, and what is around it, from odom to the map.
struct se3 deformation_field_at(const struct deformation_field *c, double voxel_m,
                                const double p_m[3])
{
    struct blend blend = {0};
    double least_m = INFINITY;
    uint32_t nearest = 0;
    for (uint32_t k = 0; k < c->n; k++) {
        double apart_m, share = share_of(c, k, voxel_m, p_m, &apart_m);
        if (share > 0)
            add_motion(&blend, &c->keyframes[k].T_map_odom, share, p_m);
        if (apart_m < least_m) {
            least_m = apart_m;
            nearest = k;
        }
    }
    if (blend.sum <= 0) // keyframes that saw it have gone, or it is noise
        add_motion(&blend, &c->keyframes[nearest].T_map_odom, 1, p_m);
    return blended(&blend, p_m);
}

bool deformation_field_is_none(const struct deformation_field *c, double voxel_m)
{
    for (uint32_t k = 0; k < c->n; k++) {
        const struct se3 *T = &c->keyframes[k].T_map_odom;
        const double *from = c->keyframes[k].T_odom_camera.t_m;
        double to[3];
        se3_apply(T, from, to);
        const double moved_m = hypot(hypot(to[0] - from[0], to[1] - from[1]), to[2] - from[2]);
        // What it saw lies some metres off: less than an eighth of a voxel is nothing.
        if (moved_m + 3 * se3_angle(T) > voxel_m / 8)
            return false;
    }
    return true;
}

void deformation_field_of_places(const struct deformation_field *c, double voxel_m,
                                 struct relocalise_keyframe *keyframes, uint32_t n_keyframes)
{
    const struct intrinsics *camera = &c->camera;
    if (deformation_field_is_none(c, voxel_m))
        return;
    for (uint32_t i = 0; i < n_keyframes; i++) {
        struct relocalise_keyframe *k = &keyframes[i];
        struct blend blend = {0};
        // As what it saw goes, cell by cell.
        for (uint32_t cell = 0; cell < DEPTH_CELLS; cell++) {
            const double z = exp((double)k->log_z[cell]);
            const double u = (cell % DEPTH_CELLS_X + 0.5) * camera->width_px / DEPTH_CELLS_X;
            const double v = (cell / DEPTH_CELLS_X + 0.5) * camera->height_px / DEPTH_CELLS_Y;
            const double ray[3] = {z * (u - 0.5 - camera->cx_px) / camera->fx_px,
                                   z * (v - 0.5 - camera->cy_px) / camera->fy_px, z};
            double p[3];
            if (isnan(z))
                continue;
            se3_apply(&k->T_map_camera, ray, p);
            const struct se3 T = deformation_field_at(c, voxel_m, p);
            add_motion(&blend, &T, 1, k->T_map_camera.t_m);
        }
        if (blend.sum > 0) {
            const struct se3 T = blended(&blend, k->T_map_camera.t_m);
            k->T_map_camera = se3_compose(&T, &k->T_map_camera);
        }
    }
}
