// SPDX-License-Identifier: Apache-2.0
#include "gpu/track/residual.h"

#include <math.h>

#include "gpu/track/kernels/icp.h"

static struct map_px map_at(const float *map, size_t i)
{
    return (struct map_px){map[4 * i], map[4 * i + 1], map[4 * i + 2], map[4 * i + 3]};
}

void residual_image(const struct intrinsics *camera, const struct gpu_align_settings *settings,
                    const float *frame_map, const float *reference_map,
                    const struct se3 *T_reference_frame, float *out_m)
{
    const struct level_camera level = camera_level(camera, 0);
    const struct icp_gates gates =
        icp_gates_first(settings->gate_distance_m, cosf(settings->gate_angle_rad));
    struct icp_pose pose;
    for (int i = 0; i < 9; i++)
        pose.r[i] = (float)T_reference_frame->r[i];
    for (int i = 0; i < 3; i++)
        pose.t_m[i] = (float)T_reference_frame->t_m[i];
    for (int32_t v = 0; v < level.height_px; v++)
        for (int32_t u = 0; u < level.width_px; u++) {
            size_t i = (size_t)v * camera->width_px + (size_t)u;
            struct map_px px = map_at(frame_map, i);
            const struct icp_vec3 p = {px.z_m * camera_ray_x(&level, (float)u),
                                       px.z_m * camera_ray_y(&level, (float)v), px.z_m};
            const struct icp_vec3 n = {px.nx, px.ny, px.nz};
            bool valid = px.z_m > 0 && (px.nx != 0 || px.ny != 0 || px.nz != 0);
            struct icp_vec3 q = icp_transform(&pose, p);
            struct icp_px hit = icp_project(&level, q);
            struct map_px target =
                map_at(reference_map, (size_t)hit.v * camera->width_px + (size_t)hit.u);
            struct icp_row row =
                icp_pair(&level, &gates, valid && hit.inside, q, icp_rotate(&pose, n), 1,
                         (float)hit.u, (float)hit.v, target);
            out_m[i] = row.pair > 0 ? row.r_m : NAN;
        }
}

double residual_sigmas(const struct gpu_alignment *alignment)
{
    if (alignment->n_pairs == 0)
        return 0;
    double e_m = alignment->residual_rms_m * sqrt(alignment->weight_sum / alignment->n_pairs);
    return e_m / (double)ICP_SIGMA0_M;
}
