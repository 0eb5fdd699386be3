// SPDX-License-Identifier: Apache-2.0
// Compiled once per instruction set with LOOPS_TABLE (the symbol) defined; see CMakeLists.txt.
#include "gpu/model/cpu/voxel_loops.h"

#define SLAB 64 // voxels of a layer of a block

static uint32_t band(const struct loops_camera *c, float voxel_m, int32_t y, uint64_t *out_keys)
{
    const struct map_px *map = c->map + (size_t)y * (size_t)c->camera.width_px;
    const float inv_voxel = 1.0f / voxel_m, ray_y = camera_ray_y(&c->camera, (float)y);
    uint64_t left[VOXEL_MAX_STEPS] = {0};
    uint32_t n = 0;
    for (int32_t x = 0; x < c->camera.width_px; x++) {
        const struct map_px px = map[x];
        if (!(px.z_m > 0.0f))
            continue;
        float ray_x = camera_ray_x(&c->camera, (float)x);
        float truncation_m = voxel_truncation(voxel_m, px.z_m);
        int32_t n_steps = voxel_band_steps(voxel_m, truncation_m);
        for (int32_t i = 0; i < n_steps; i++) {
            float z =
                kernel_fma(2.0f * (float)i / (float)(n_steps - 1) - 1.0f, truncation_m, px.z_m);
            const struct icp_vec3 q = {ray_x * z, ray_y * z, z};
            uint64_t key = voxel_key_at(icp_transform(&c->T_map_camera, q), inv_voxel);
            if (left[i] == key)
                continue;
            left[i] = key;
            if (key != VOXEL_NO_KEY && (n == 0 || out_keys[n - 1] != key))
                out_keys[n++] = key;
        }
    }
    return n;
}

// A layer as structure of arrays: plain vector loops around one gather.
static void integrate(const struct loops_camera *c, float voxel_m, struct voxel_place place,
                      struct model_voxel *voxels)
{
    const struct level_camera camera = c->camera;
    const struct icp_pose pose = c->T_camera_map;
    const struct map_px *restrict map = c->map;
    float qx[SLAB], qy[SLAB], qz[SLAB], u[SLAB], v[SLAB];
    int32_t index[SLAB], inside[SLAB];
    struct map_px target[SLAB];
    for (int32_t k = 0; k < VOXEL_BLOCK_EDGE; k++) {
        float z = (float)(VOXEL_BLOCK_EDGE * place.z + k) * voxel_m;
#pragma omp simd
        for (int32_t i = 0; i < SLAB; i++) {
            struct icp_vec3 p = {(float)(VOXEL_BLOCK_EDGE * place.x + (i & 7)) * voxel_m,
                                 (float)(VOXEL_BLOCK_EDGE * place.y + (i >> 3)) * voxel_m, z};
            struct icp_vec3 q = icp_transform(&pose, p);
            struct icp_px px = icp_project(&camera, q);
            qx[i] = q.x;
            qy[i] = q.y;
            qz[i] = q.z;
            u[i] = (float)px.u;
            v[i] = (float)px.v;
            index[i] = px.v * camera.width_px + px.u;
            inside[i] = px.inside ? 1 : 0;
        }
        for (int32_t i = 0; i < SLAB; i++)
            target[i] = map[index[i]];
        struct model_voxel *restrict layer = voxels + SLAB * k;
#pragma omp simd
        for (int32_t i = 0; i < SLAB; i++) {
            struct icp_vec3 q = {qx[i], qy[i], qz[i]};
            struct voxel_measurement m =
                voxel_measure(&camera, voxel_m, q, u[i], v[i], inside[i] != 0, target[i]);
            layer[i] = voxel_add(layer[i], m);
        }
    }
}

// Blocks are drawn by several threads at once; the nearest depth wins, whoever comes first.
static void draw_px(uint32_t *px, uint32_t bits)
{
    uint32_t seen = __atomic_load_n(px, __ATOMIC_RELAXED);
    while (bits < seen &&
           !__atomic_compare_exchange_n(px, &seen, bits, true, __ATOMIC_RELAXED, __ATOMIC_RELAXED))
        ;
}

static void draw_crossing(const struct loops_camera *c, const struct voxel_volume *volume,
                          struct voxel_place place, int32_t i, int axis, struct model_voxel a,
                          struct model_voxel b, uint32_t *image)
{
    const float *t = c->T_map_camera.t_m;
    const struct icp_vec3 eye = {t[0], t[1], t[2]};
    const struct view_px_box box = view_crossing(&c->camera, &c->T_camera_map, eye, volume->voxel_m,
                                                 VOXEL_BLOCK_EDGE * place.x + (i & 7),
                                                 VOXEL_BLOCK_EDGE * place.y + (i >> 3 & 7),
                                                 VOXEL_BLOCK_EDGE * place.z + (i >> 6), axis, a, b);
    for (int32_t v = box.v0; v <= box.v1; v++)
        for (int32_t u = box.u0; u <= box.u1; u++)
            draw_px(&image[v * c->camera.width_px + u], view_bits(box.z_m));
}

// What a voxel is, a byte each: unseen, in front, behind. A row of a block is one word, and where
// two words cross is a few operations on both.
#define IN_FRONT UINT64_C(0x0101010101010101)

static uint64_t row_signs(const struct model_voxel *row)
{
    uint64_t out = 0;
    for (int i = 0; i < 8; i++)
        out |= (uint64_t)(row[i].weight == 0 ? 0u : row[i].distance > 0 ? 1u : 2u) << 8 * i;
    return out;
}

static uint64_t row_crosses(uint64_t a, uint64_t b)
{
    return ((a & b >> 1) | (a >> 1 & b)) & IN_FRONT;
}

// The neighbours of the last layer along an axis are the first layer of the next block.
static void draw(const struct loops_camera *c, const struct voxel_volume *volume,
                 struct voxel_place place, const struct model_voxel *voxels, uint32_t *image)
{
    static const int32_t stride[3] = {1, 8, 64};
    const struct model_voxel *beyond[3];
    uint64_t signs[64], all = 0;
    for (int row = 0; row < 64; row++) {
        signs[row] = row_signs(voxels + 8 * row);
        all |= signs[row];
    }
    if (!all)
        return;
    for (int axis = 0; axis < 3; axis++) {
        uint32_t next = voxel_find(
            volume, voxel_key(place.x + (axis == 0), place.y + (axis == 1), place.z + (axis == 2)));
        beyond[axis] =
            next == VOXEL_NO_SLOT ? NULL : volume->voxels + (size_t)next * VOXEL_BLOCK_COUNT;
    }
    for (int axis = 0; axis < 3; axis++)
        for (int row = 0; row < 64; row++) {
            int32_t last = axis == 1 ? row & 7 : row >> 3;
            uint64_t next = 0;
            if (axis == 0)
                next = signs[row] >> 8 |
                       (beyond[0] ? row_signs(beyond[0] + 8 * row) << 56 : UINT64_C(0));
            else if (last < 7)
                next = signs[row + stride[axis] / 8];
            else if (beyond[axis])
                next = row_signs(beyond[axis] + 8 * row - 7 * stride[axis]);
            for (uint64_t crosses = row_crosses(signs[row], next); crosses;
                 crosses &= crosses - 1) {
                int32_t i = 8 * row + __builtin_ctzll(crosses) / 8;
                bool inside = (i / stride[axis] & 7) < 7;
                draw_crossing(
                    c, volume, place, i, axis, voxels[i],
                    inside ? voxels[i + stride[axis]] : beyond[axis][i - 7 * stride[axis]], image);
            }
        }
}

static void refine(const struct loops_camera *c, const struct voxel_volume *volume, int32_t y,
                   const uint32_t *image, float *out_z_m)
{
    struct view_cache cache = {VOXEL_NO_KEY, VOXEL_NO_SLOT};
    const uint32_t *row = image + (size_t)y * (size_t)c->camera.width_px;
    for (int32_t x = 0; x < c->camera.width_px; x++)
        out_z_m[x] =
            row[x] == VIEW_NOTHING
                ? 0.0f
                : view_refine(volume, &cache, &c->camera, &c->T_map_camera, (float)x, (float)y,
                              view_depth(row[x]), c->depth_min_m, c->depth_max_m);
}

static void between(const struct loops_camera *c, const struct voxel_volume *volume, int32_t y,
                    const float *z_m, int32_t width_px, int32_t height_px, float *out_z_m)
{
    struct view_cache cache = {VOXEL_NO_KEY, VOXEL_NO_SLOT};
    int32_t above = y / 2 < height_px ? y / 2 : height_px - 1;
    int32_t below = (y + 1) / 2 < height_px ? (y + 1) / 2 : height_px - 1;
    const float *row0 = z_m + (size_t)above * (size_t)width_px;
    const float *row1 = z_m + (size_t)below * (size_t)width_px;
    const int32_t w = c->camera.width_px;
    const int32_t n_pairs = w / 2 < width_px ? w / 2 : width_px;
    int32_t n_alone = 0;
    // Pixels x and x + 1 of the full resolution; the last pair has no neighbour to the right.
#pragma omp simd reduction(+ : n_alone)
    for (int32_t i = 0; i < n_pairs; i++) {
        int32_t right = i + 1 < width_px ? i + 1 : i;
        float a = row0[i], b = row0[right], d = row1[i], e = row1[right];
        bool down = view_one_surface(a, d);
        bool all = down & view_one_surface(a, b) & view_one_surface(a, e);
        out_z_m[2 * i] = down ? view_mean(a, a, d, d) : -1.0f;
        out_z_m[2 * i + 1] = all ? view_mean(a, b, d, e) : -1.0f;
        n_alone += !all;
    }
    if (n_alone == 0 && 2 * n_pairs == w)
        return;
    for (int32_t x = 0; x < w; x++) {
        if (x < 2 * n_pairs && out_z_m[x] >= 0.0f)
            continue;
        int32_t left = x / 2 < width_px ? x / 2 : width_px - 1;
        int32_t right = (x + 1) / 2 < width_px ? (x + 1) / 2 : width_px - 1;
        const float z[4] = {row0[left], row0[right], row1[left], row1[right]};
        out_z_m[x] = view_between(volume, &cache, &c->camera, &c->T_map_camera, x, y, z,
                                  c->depth_min_m, c->depth_max_m);
    }
}

const struct loops LOOPS_TABLE = {band, integrate, draw, refine, between};
