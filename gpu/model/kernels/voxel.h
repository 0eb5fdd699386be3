// SPDX-License-Identifier: Apache-2.0
// The volume: truncated signed distances on a lattice of voxel_m, kept only near surfaces, in
// blocks of 8 x 8 x 8 that a hash table finds by their place (Niessner, Zollhoefer, Izadi,
// Stamminger 2013), and what one measurement adds to one voxel (Curless, Levoy 1996, eq. 1 to 4).
//
// The distance of a voxel is the one to the tangent plane of the pixel that it projects to, as the
// point-to-plane residual of the alignment is: exact for planes at any angle. The distance along
// the ray instead errs by half a pixel's slope, millimetres on a grazing wall.
//
// Lattice point (i, j, k) is at (i, j, k) voxel_m; block (a, b, c) holds 8 a .. 8 a + 7 and so on.
#ifndef POSED_GPU_MODEL_KERNELS_VOXEL_H
#define POSED_GPU_MODEL_KERNELS_VOXEL_H

#include "gpu/base/camera.h"
#include "gpu/base/depth_noise.h"
#include "gpu/track/kernels/icp.h"

#define VOXEL_BLOCK_EDGE  8
#define VOXEL_BLOCK_COUNT 512 // voxels of a block, x fastest
#define VOXEL_NO_KEY      UINT64_MAX
#define VOXEL_NO_SLOT     UINT32_MAX
#define VOXEL_KEY_OFFSET  (1 << 20) // block numbers are within +- this

// Stored distances: 4 um a step, up to 0.13 m. Weights: 256 for a near surface seen squarely.
#define VOXEL_UNIT_M         4e-6f
#define VOXEL_WEIGHT_ONE     256.0f
#define VOXEL_WEIGHT_MAX     32768u // what lies beyond is forgotten: 128 near frames
#define VOXEL_TRUNCATION_MAX 0.12f  // metres

// Of voxel_band_steps: voxels of 2 mm and the longest band.
#define VOXEL_MAX_STEPS 19

// A surface seen more obliquely than this (cosine squared) is no measurement.
#define VOXEL_MIN_COS2 0.03f

struct model_voxel {
    int16_t distance; // in VOXEL_UNIT_M, positive on the camera's side
    uint16_t weight;  // 0: never seen
};

// Where voxels are found: on the host or on the device, by the twin's pointers.
struct voxel_volume {
    uint64_t *keys;  // of the hash table, linear probing; VOXEL_NO_KEY: empty
    uint32_t *slots; // of the same entry
    struct model_voxel *voxels;
    uint32_t mask; // entries - 1
    float voxel_m, inv_voxel;
};

KERNEL_FN uint64_t voxel_key(int32_t bx, int32_t by, int32_t bz)
{
    return (uint64_t)(uint32_t)(bx + VOXEL_KEY_OFFSET) << 42 |
           (uint64_t)(uint32_t)(by + VOXEL_KEY_OFFSET) << 21 |
           (uint64_t)(uint32_t)(bz + VOXEL_KEY_OFFSET);
}

struct voxel_place {
    int32_t x, y, z; // of a block
};

KERNEL_FN struct voxel_place voxel_place_of(uint64_t key)
{
    struct voxel_place out = {(int32_t)(key >> 42) - VOXEL_KEY_OFFSET,
                              (int32_t)(key >> 21 & 0x1fffff) - VOXEL_KEY_OFFSET,
                              (int32_t)(key & 0x1fffff) - VOXEL_KEY_OFFSET};
    return out;
}

KERNEL_FN uint32_t voxel_hash(uint64_t key, uint32_t mask)
{
    return (uint32_t)(key * UINT64_C(0x9E3779B97F4A7C15) >> 32) & mask;
}

// The slot of a block, VOXEL_NO_SLOT if there is none.
KERNEL_FN uint32_t voxel_find(const struct voxel_volume *volume, uint64_t key)
{
    for (uint32_t i = voxel_hash(key, volume->mask);; i = (i + 1) & volume->mask) {
        uint64_t found = volume->keys[i];
        if (found == key)
            return volume->slots[i];
        if (found == VOXEL_NO_KEY)
            return VOXEL_NO_SLOT;
    }
}

// How far from a surface at depth z distances are kept: some voxels, so that each has neighbours,
// or two sigmas of the sensor, so that what noise moves still meets.
KERNEL_FN float voxel_truncation(float voxel_m, float z_m)
{
    return kernel_min(kernel_max(3.0f * voxel_m, 2.0f * noise_sigma_m(z_m)), VOXEL_TRUNCATION_MAX);
}

// Steps along a ray through the band around a surface, a block's edge apart at most; the middle one
// is on the surface.
KERNEL_FN int32_t voxel_band_steps(float voxel_m, float truncation_m)
{
    return 2 * (int32_t)(truncation_m / (VOXEL_BLOCK_EDGE * voxel_m)) + 3;
}

KERNEL_FN int32_t voxel_floor(float x)
{
    int32_t i = (int32_t)x;
    return i - (x < (float)i ? 1 : 0);
}

// The block that a point in the map lies in; ok is false beyond the numbers that a key can hold.
KERNEL_FN uint64_t voxel_key_at(struct icp_vec3 p_m, float inv_voxel)
{
    const float inv_block = inv_voxel * (1.0f / VOXEL_BLOCK_EDGE);
    float x = p_m.x * inv_block, y = p_m.y * inv_block, z = p_m.z * inv_block;
    const float limit = VOXEL_KEY_OFFSET - 2;
    bool ok = (x > -limit) & (x < limit) & (y > -limit) & (y < limit) & (z > -limit) & (z < limit);
    return ok ? voxel_key(voxel_floor(x), voxel_floor(y), voxel_floor(z)) : VOXEL_NO_KEY;
}

// What pixel `target` (at u, v) says about the lattice point q of the camera's frame.
struct voxel_measurement {
    float distance_m; // to the pixel's tangent plane, truncated
    float weight;     // 0: nothing
};

KERNEL_FN struct voxel_measurement voxel_measure(const struct level_camera *camera, float voxel_m,
                                                 struct icp_vec3 q, float u_px, float v_px,
                                                 bool inside, struct map_px target)
{
    float z = target.z_m;
    float rx = camera_ray_x(camera, u_px), ry = camera_ray_y(camera, v_px);
    float nx = target.nx, ny = target.ny, nz = target.nz;
    float distance_m = kernel_fma(nx, kernel_fma(-rx, z, q.x),
                                  kernel_fma(ny, kernel_fma(-ry, z, q.y), nz * (q.z - z)));
    float slant = kernel_fma(nx, rx, kernel_fma(ny, ry, nz)); // n . ray
    float ray2 = kernel_fma(rx, rx, kernel_fma(ry, ry, 1.0f));
    float cos2 = slant * slant / ray2;
    float truncation_m = voxel_truncation(voxel_m, z);
    float sigma = ICP_SIGMA0_M / noise_sigma_m(z);
    bool seen = inside & (z > 0.0f) & (cos2 >= VOXEL_MIN_COS2) & (q.z - z <= truncation_m);
    struct voxel_measurement out;
    out.distance_m = kernel_max(kernel_min(distance_m, truncation_m), -truncation_m);
    out.weight = seen ? sigma * sigma * cos2 : 0.0f;
    return out;
}

KERNEL_FN float voxel_round(float x)
{
    return x + (x < 0.0f ? -0.5f : 0.5f); // to be cut to an integer
}

// The running weighted mean, in stored units.
KERNEL_FN struct model_voxel voxel_add(struct model_voxel voxel, struct voxel_measurement m)
{
    float old_weight = (float)voxel.weight, old = (float)voxel.distance;
    float added = (float)(int32_t)voxel_round(m.weight * VOXEL_WEIGHT_ONE);
    added = kernel_max(added, 1.0f);
    float sum = old_weight + added;
    float share = added / sum;
    float mean = kernel_fma(share, m.distance_m * (1.0f / VOXEL_UNIT_M) - old, old);
    struct model_voxel out;
    out.distance = (int16_t)(int32_t)voxel_round(mean);
    out.weight = (uint16_t)(int32_t)kernel_min(sum, (float)VOXEL_WEIGHT_MAX);
    return m.weight > 0.0f ? out : voxel;
}

#endif
