// SPDX-License-Identifier: Apache-2.0
#include <errno.h>
#include <stdlib.h>

#include "gpu/model/keyframe_recovery.h"
#include "gpu/model/pose_graph_private.h"
#include "proto/se3.h"

int graph_find(struct graph *g, const float *z_m, uint32_t attempt,
               enum relocalise_trust *out_trust, struct se3 *out_T_odom_camera, uint64_t *out_seq)
{
    float log_z[DEPTH_CELLS];
    struct align_image *image;
    struct recovery found;
    *out_trust = RELOCALISE_NOT_FOUND;
    struct recovery_place *places = malloc((g->n + 1) * sizeof *places);
    if (!places)
        return -ENOMEM;
    int rc = graph_make_image(g, z_m, &image);
    if (rc < 0) {
        free(places);
        return rc == -EINVAL ? 0 : rc; // too little depth
    }
    depth_cells_of(z_m, 1, g->camera.width_px, g->camera.height_px, log_z);
    for (uint32_t i = 0; i < g->n; i++)
        places[i] = (struct recovery_place){{g->images[i], g->z_m[i], g->log_z[i]},
                                            g->keyframes[i].T_odom_camera,
                                            g->keyframes[i].T_map_camera};
    const struct recovery_view frame = {image, z_m, log_z};
    rc = recovery_find(g->maker, &g->camera, &frame, places, g->n, attempt, graph_usual_rms_m(g),
                       &found);
    if (rc == 0 && found.trust) {
        *out_trust = found.trust;
        *out_T_odom_camera = found.T_odom_camera;
        *out_seq = g->keyframes[found.at].seq;
    }
    align_image_destroy(&image);
    free(places);
    return rc;
}

void graph_found(struct graph *g, uint64_t seq)
{
    for (uint32_t i = 0; i < g->n; i++)
        if (g->keyframes[i].seq == seq) {
            g->T_map_odom = graph_keyframe_T_map_odom(&g->keyframes[i]);
            g->is_found = true;
            g->pending.at = UINT32_MAX; // odom's step since then holds the find's
        }
}
