// SPDX-License-Identifier: Apache-2.0
// The volume seen from a pose, without marching along rays: each block is met once. Where the sign
// changes between neighbouring voxels, the crossing is drawn into an image of half the resolution
// as a square of a voxel's size, the nearest winning; each pixel of that then finds the surface on
// its own ray with three trilinear samples from there. What is drawn is only where to look: neither
// the order of the blocks nor their slots show in the result.
//
// A voxel covers several pixels, so that between pixels of one surface depth is interpolated;
// pixels at steps search for themselves.
#ifndef POSED_GPU_MODEL_KERNELS_VIEW_H
#define POSED_GPU_MODEL_KERNELS_VIEW_H

#include "gpu/model/kernels/voxel.h"

#define VIEW_NOTHING 0x7f800000u // bits of +infinity: nothing drawn yet

#define VIEW_CUBE_RADIUS 0.8661f // of the sphere around a cube, in its edges

// Half the edge of a drawn square in voxels: crossings of a surface lie up to sqrt(3) voxels apart.
#define VIEW_SPLAT_VOXELS 0.9f
#define VIEW_MAX_SPLAT_PX 24

// A surface is believed where the last sample is within this many voxels of it, and where the
// distance falls along the ray at least so fast.
#define VIEW_ARRIVED_VOXELS 0.1f
#define VIEW_AT_ONCE_VOXELS 0.02f // so near after the first step, another sample is saved
#define VIEW_MIN_FALL       0.1f

// Pixels of half the resolution see one surface when their depths differ by at most this share: up
// to 69 degrees off the ray at f = 525 px. The mean of depths errs on a plane by a quarter of its
// square, 50 um at 2 m, where the mean of 1/z would not, at five divisions a pixel.
#define VIEW_ONE_SURFACE 0.01f

// In single precision.
KERNEL_FN struct icp_pose view_pose_of(const struct se3 *T)
{
    struct icp_pose out;
    for (int i = 0; i < 9; i++)
        out.r[i] = (float)T->r[i];
    for (int i = 0; i < 3; i++)
        out.t_m[i] = (float)T->t_m[i];
    return out;
}

struct view_px_box {
    int32_t u0, u1, v0, v1; // u0 > u1: nothing
    float z_m;
};

// Depth as bits that order like the depth.
KERNEL_FN uint32_t view_bits(float z_m)
{
    union {
        float f;
        uint32_t u;
    } bits;
    bits.f = z_m;
    return bits.u;
}

KERNEL_FN float view_depth(uint32_t bits_of)
{
    union {
        float f;
        uint32_t u;
    } bits;
    bits.u = bits_of;
    return bits.f;
}

// Whether something in a sphere may be in the image: against the image's four planes.
KERNEL_FN bool view_sphere_visible(const struct level_camera *camera,
                                   const struct icp_pose *T_c_map, struct icp_vec3 centre,
                                   float radius_m, float depth_min_m, float depth_max_m)
{
    struct icp_vec3 q = icp_transform(T_c_map, centre);
    float near_z = q.z + radius_m;
    if (!(near_z > depth_min_m) || !(q.z - radius_m < depth_max_m))
        return false;
    // |u - centre of the image| of the sphere's middle, with room for the sphere at its depth.
    float inv_f_u = kernel_abs(camera->inv_fx), inv_f_v = kernel_abs(camera->inv_fy);
    float half_u = kernel_max(camera->cx_px, (float)camera->width_px - camera->cx_px) * inv_f_u;
    float half_v = kernel_max(camera->cy_px, (float)camera->height_px - camera->cy_px) * inv_f_v;
    float room_u = radius_m * (1.0f + half_u), room_v = radius_m * (1.0f + half_v);
    return kernel_abs(q.x) <= kernel_fma(half_u, near_z, room_u) &&
           kernel_abs(q.y) <= kernel_fma(half_v, near_z, room_v);
}

KERNEL_FN bool view_block_visible(const struct level_camera *camera, const struct icp_pose *T_c_map,
                                  float voxel_m, struct voxel_place place, float depth_min_m,
                                  float depth_max_m)
{
    const float edge_m = VOXEL_BLOCK_EDGE * voxel_m;
    const struct icp_vec3 centre = {((float)place.x + 0.5f) * edge_m,
                                    ((float)place.y + 0.5f) * edge_m,
                                    ((float)place.z + 0.5f) * edge_m};
    return view_sphere_visible(camera, T_c_map, centre, VIEW_CUBE_RADIUS * edge_m, depth_min_m,
                               depth_max_m);
}

// Does the surface lie between two neighbouring voxels?
KERNEL_FN bool view_crosses(struct model_voxel a, struct model_voxel b)
{
    return (a.weight > 0) & (b.weight > 0) & ((a.distance > 0) != (b.distance > 0));
}

// The crossing between lattice point (i, j, k) and its neighbour along `axis`, as a square of the
// image. `eye`: the camera in the map. Surfaces seen from behind are not drawn.
KERNEL_FN struct view_px_box view_crossing(const struct level_camera *camera,
                                           const struct icp_pose *T_c_map, struct icp_vec3 eye,
                                           float voxel_m, int32_t i, int32_t j, int32_t k, int axis,
                                           struct model_voxel a, struct model_voxel b)
{
    struct view_px_box out = {1, 0, 1, 0, 0};
    float from = (float)a.distance, to = (float)b.distance;
    float along = voxel_m * (from / (from - to));
    struct icp_vec3 p = {(float)i * voxel_m, (float)j * voxel_m, (float)k * voxel_m};
    float behind = axis == 0 ? eye.x - p.x : axis == 1 ? eye.y - p.y : eye.z - p.z;
    // The distance grows towards the camera.
    if ((to > from) != (behind > 0.0f))
        return out;
    p.x += axis == 0 ? along : 0.0f;
    p.y += axis == 1 ? along : 0.0f;
    p.z += axis == 2 ? along : 0.0f;
    struct icp_vec3 q = icp_transform(T_c_map, p);
    if (!(q.z > 0.05f))
        return out;
    float inv_z = 1.0f / q.z;
    float u = kernel_fma(q.x * inv_z, camera->fx_px, camera->cx_px);
    float v = kernel_fma(q.y * inv_z, camera->fy_px, camera->cy_px);
    float half = kernel_fma(VIEW_SPLAT_VOXELS * voxel_m * inv_z, kernel_abs(camera->fx_px), 0.5f);
    half = kernel_min(half, (float)VIEW_MAX_SPLAT_PX);
    float right = (float)(camera->width_px - 1), bottom = (float)(camera->height_px - 1);
    if (!((u + half >= 0.0f) & (u - half <= right) & (v + half >= 0.0f) & (v - half <= bottom)))
        return out;
    out.u0 = (int32_t)kernel_max(u - half + 0.5f, 0.0f);
    out.u1 = (int32_t)kernel_min(u + half, right);
    out.v0 = (int32_t)kernel_max(v - half + 0.5f, 0.0f);
    out.v1 = (int32_t)kernel_min(v + half, bottom);
    out.z_m = q.z;
    return out;
}

// The block that was found last, to be asked again before the table.
struct view_cache {
    uint64_t key;
    uint32_t slot;
};

KERNEL_FN uint32_t view_slot(const struct voxel_volume *volume, struct view_cache *cache,
                             uint64_t key)
{
    if (cache->key != key) {
        cache->key = key;
        cache->slot = voxel_find(volume, key);
    }
    return cache->slot;
}

// Trilinear distance at a point of the map. False where one of the eight voxels was never seen.
KERNEL_FN bool view_sample(const struct voxel_volume *volume, struct view_cache *cache,
                           struct icp_vec3 p_m, float *out_m)
{
    float gx = p_m.x * volume->inv_voxel, gy = p_m.y * volume->inv_voxel;
    float gz = p_m.z * volume->inv_voxel;
    int32_t ix = voxel_floor(gx), iy = voxel_floor(gy), iz = voxel_floor(gz);
    float fx = gx - (float)ix, fy = gy - (float)iy, fz = gz - (float)iz;
    float d[8];
    uint32_t least = 0xffff;
    if ((ix & 7) < 7 && (iy & 7) < 7 && (iz & 7) < 7) {
        uint32_t slot = view_slot(volume, cache, voxel_key(ix >> 3, iy >> 3, iz >> 3));
        if (slot == VOXEL_NO_SLOT)
            return false;
        const struct model_voxel *at = volume->voxels + (size_t)slot * VOXEL_BLOCK_COUNT +
                                       (uint32_t)((ix & 7) | (iy & 7) << 3 | (iz & 7) << 6);
        for (int c = 0; c < 8; c++) {
            struct model_voxel voxel = at[(c & 1) | (c & 2) << 2 | (c & 4) << 4];
            d[c] = (float)voxel.distance;
            least = voxel.weight < least ? voxel.weight : least;
        }
    } else {
        for (int c = 0; c < 8; c++) {
            int32_t x = ix + (c & 1), y = iy + (c >> 1 & 1), z = iz + (c >> 2);
            uint32_t slot = view_slot(volume, cache, voxel_key(x >> 3, y >> 3, z >> 3));
            if (slot == VOXEL_NO_SLOT)
                return false;
            struct model_voxel voxel =
                volume->voxels[(size_t)slot * VOXEL_BLOCK_COUNT +
                               (uint32_t)((x & 7) | (y & 7) << 3 | (z & 7) << 6)];
            d[c] = (float)voxel.distance;
            least = voxel.weight < least ? voxel.weight : least;
        }
    }
    if (least == 0)
        return false;
    float d00 = kernel_fma(fx, d[1] - d[0], d[0]), d10 = kernel_fma(fx, d[3] - d[2], d[2]);
    float d01 = kernel_fma(fx, d[5] - d[4], d[4]), d11 = kernel_fma(fx, d[7] - d[6], d[6]);
    float d0 = kernel_fma(fy, d10 - d00, d00), d1 = kernel_fma(fy, d11 - d01, d01);
    *out_m = VOXEL_UNIT_M * kernel_fma(fz, d1 - d0, d0);
    return true;
}

KERNEL_FN float view_clamp(float x, float limit)
{
    return kernel_max(kernel_min(x, limit), -limit);
}

// The surface on the ray of pixel (u, v), searched from depth z: one step by the distance found,
// then secants. 0 where there is none.
KERNEL_FN float view_refine(const struct voxel_volume *volume, struct view_cache *cache,
                            const struct level_camera *camera, const struct icp_pose *T_map_c,
                            float u_px, float v_px, float z_m, float depth_min_m, float depth_max_m)
{
    const struct icp_vec3 ray = {camera_ray_x(camera, u_px), camera_ray_y(camera, v_px), 1.0f};
    const struct icp_vec3 direction = icp_rotate(T_map_c, ray);
    const float *eye = T_map_c->t_m;
    const float step_m = 4.0f * volume->voxel_m;
    float z[3], f[3], slope = -1.0f, found = 0.0f, off_m = 0.0f;
    z[0] = z_m;
    for (int i = 0; i < 3; i++) {
        struct icp_vec3 p = {kernel_fma(z[i], direction.x, eye[0]),
                             kernel_fma(z[i], direction.y, eye[1]),
                             kernel_fma(z[i], direction.z, eye[2])};
        if (!view_sample(volume, cache, p, &f[i]))
            return 0.0f;
        if (i > 0) {
            float moved = z[i] - z[i - 1];
            slope = kernel_abs(moved) > 1e-5f ? (f[i] - f[i - 1]) / moved : slope;
            if (!(slope <= -VIEW_MIN_FALL))
                return 0.0f;
        }
        found = z[i] + view_clamp(-f[i] / slope, step_m);
        off_m = kernel_abs(f[i]);
        if (i == 1 && off_m <= VIEW_AT_ONCE_VOXELS * volume->voxel_m)
            break;
        if (i < 2)
            z[i + 1] = found;
    }
    bool ok = (off_m <= VIEW_ARRIVED_VOXELS * volume->voxel_m) & (found >= depth_min_m) &
              (found <= depth_max_m);
    return ok ? found : 0.0f;
}

KERNEL_FN float view_mean(float a_m, float b_m, float c_m, float d_m)
{
    return 0.25f * ((a_m + b_m) + (c_m + d_m));
}

KERNEL_FN bool view_one_surface(float a_m, float b_m)
{
    return (a_m > 0.0f) & (b_m > 0.0f) &
           (kernel_abs(a_m - b_m) <= VIEW_ONE_SURFACE * kernel_min(a_m, b_m));
}

// Pixel (u, v) of the full resolution from the four of half the resolution around it (equal where
// it lies on one): their mean, or a search from the nearest.
KERNEL_FN float view_between(const struct voxel_volume *volume, struct view_cache *cache,
                             const struct level_camera *camera, const struct icp_pose *T_map_c,
                             int32_t u, int32_t v, const float z_m[4], float depth_min_m,
                             float depth_max_m)
{
    bool one = view_one_surface(z_m[0], z_m[1]) & view_one_surface(z_m[0], z_m[2]) &
               view_one_surface(z_m[0], z_m[3]);
    if (one)
        return view_mean(z_m[0], z_m[1], z_m[2], z_m[3]);
    float start = 0.0f;
    for (int i = 0; i < 4; i++)
        start = z_m[i] > 0.0f && (start == 0.0f || z_m[i] < start) ? z_m[i] : start;
    return start > 0.0f ? view_refine(volume, cache, camera, T_map_c, (float)u, (float)v, start,
                                      depth_min_m, depth_max_m)
                        : 0.0f;
}

#endif
