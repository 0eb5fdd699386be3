// SPDX-License-Identifier: Apache-2.0
#include "gpu/align/residual_map.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>

#include "proto/se3.h"

// One target's residuals, added to each vertex' sum and count.
static void add_residuals(const struct align_image *image, const struct align_image *target,
                          const struct se3 *T_target_image, float gate_m, float *sum,
                          uint8_t *count)
{
    struct pair_gates gates = {gate_m, 0.7f, 0};
    struct pair_pose T;
    for (int k = 0; k < 9; k++)
        T.r[k] = (float)T_target_image->r[k];
    for (int k = 0; k < 3; k++)
        T.t_m[k] = (float)T_target_image->t_m[k];
    for (uint32_t k = 0; k < image->n_level[0]; k++) {
        struct pair_vec3 p = {image->x_m[k], image->y_m[k], image->z_m[k]};
        struct pair_vec3 n = {image->nx[k], image->ny[k], image->nz[k]};
        struct pair_vec3 q = pair_transform(&T, p);
        struct pair_cell cell =
            pair_project(target->projection, (int32_t)target->width, (int32_t)target->height, q);
        struct pair_plane plane = target->planes[(size_t)cell.v * target->width + (size_t)cell.u];
        struct pair_row row =
            pair_residual(&gates, cell.inside, q, pair_rotate(&T, n), 1.0f, plane);
        if (row.n != 0 && count[k] < UINT8_MAX) {
            sum[k] += kernel_abs(row.r_m);
            count[k]++;
        }
    }
}

int align_residual_map(const struct align_source *source, uint32_t image,
                       const struct se3 *T_world_image, const struct align_result *result,
                       double gate_m, struct align_image **out_image, float **out_map)
{
    struct align_image *own = NULL;
    float *sum = NULL, *map = NULL;
    uint8_t *count = NULL;
    int rc = source->load(source->user, image, &own);
    if (rc == 0) {
        sum = calloc(own->n_level[0], sizeof *sum);
        count = calloc(own->n_level[0], sizeof *count);
        map = malloc((size_t)own->width * own->height * sizeof *map);
        rc = sum && count && map ? 0 : -ENOMEM;
    }
    for (uint32_t k = 0; k < result->n_pairs && rc == 0; k++) {
        struct align_pair pair = result->pairs[k];
        if ((pair.i != image && pair.j != image) ||
            (result->solution.pairs && result->solution.pairs[k].state != ALIGN_PAIR_USED))
            continue;
        uint32_t other = pair.i == image ? pair.j : pair.i;
        struct align_image *target = NULL;
        rc = source->load(source->user, other, &target);
        if (rc < 0)
            break;
        struct se3 T = se3_between(&T_world_image[other], &T_world_image[image]);
        add_residuals(own, target, &T, (float)gate_m, sum, count);
        align_image_destroy(&target);
    }
    if (rc == 0) {
        for (size_t at = 0; at < (size_t)own->width * own->height; at++)
            map[at] = NAN;
        for (uint32_t k = 0; k < own->n_level[0]; k++)
            if (count[k])
                map[own->cell[k]] = sum[k] / (float)count[k];
    } else {
        free(map);
        map = NULL;
        align_image_destroy(&own);
    }
    free(sum);
    free(count);
    *out_image = own;
    *out_map = map;
    return rc;
}
