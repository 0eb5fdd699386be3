// SPDX-License-Identifier: Apache-2.0
#include "gpu/model/rig_refine.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "gpu/model/keyframe_map.h"
#include "gpu/model/pose_graph_private.h"
#include "proto/se3.h"

// The map of each keyframe of the joined graph, in `maps`, one behind the other as large as each
// camera's is.
static void fill_maps(const struct graph *joined, const struct graph_part *parts,
                      struct rig_adjustment_image *images, float *maps)
{
    for (uint32_t k = 0; k < joined->n; k++) {
        const uint32_t camera = joined->body[k].camera, at = joined->body[k].at;
        const struct graph *part = parts[camera].graph;
        keyframe_map_fill(&part->camera, part->images[at], part->z_m[at], maps);
        images[k] = (struct rig_adjustment_image){camera, maps, joined->keyframes[k].T_map_camera};
        maps += 4 * (size_t)part->camera.width_px * part->camera.height_px;
    }
}

static size_t size_of_maps(const struct graph_part *parts, uint32_t n_parts)
{
    size_t n = 0;
    for (uint32_t i = 0; i < n_parts; i++) {
        const struct intrinsics *camera = &parts[i].graph->camera;
        n += 4 * (size_t)parts[i].graph->n * camera->width_px * camera->height_px;
    }
    return n;
}

// The chains, and the ties without the doubt of the places. What is measured between keyframes of
// one camera the images say themselves. Returns how many.
static uint32_t list_steps(const struct graph *joined, struct rig_adjustment_step *out)
{
    uint32_t n = 0;
    for (uint32_t k = 0; k < joined->n_edges; k++) {
        const struct edge *e = &joined->edges[k];
        if (!e->chain)
            continue;
        struct rig_adjustment_step *step = &out[n++];
        *step = (struct rig_adjustment_step){.i = e->i, .j = e->j, .T_j_i = e->link.T_j_i};
        memcpy(step->information, e->link.information, sizeof step->information);
        for (int i = 0; i < 6 && joined->body[e->i].camera != joined->body[e->j].camera; i++) {
            const double place = i < 3 ? LINK_PLACE_M : LINK_PLACE_RAD;
            step->information[7 * i] = 1 / (1 / step->information[7 * i] - place * place);
        }
    }
    return n;
}

int rig_refine(struct graph *joined, const struct graph_part *parts, uint32_t n_parts,
               bool (*stop)(void *user), void *user, struct rig_adjustment_report *out)
{
    *out = (struct rig_adjustment_report){0};
    if (n_parts < 2)
        return -ENODATA;
    if (n_parts > RIG_ADJUSTMENT_MAX_CAMERAS || joined->n > RIG_ADJUSTMENT_MAX_IMAGES)
        return -E2BIG;
    float *maps = malloc(size_of_maps(parts, n_parts) * sizeof *maps);
    struct rig_adjustment_image *images = malloc(joined->n * sizeof *images);
    struct rig_adjustment_step *steps = malloc((joined->n_edges + 1) * sizeof *steps);
    struct rig_adjustment what = {.n_cameras = n_parts,
                                  .map_level = KEYFRAME_MAP_LEVEL,
                                  .place_m = LINK_PLACE_M,
                                  .place_rad = LINK_PLACE_RAD,
                                  .images = images,
                                  .n_images = joined->n,
                                  .steps = steps,
                                  .stop = stop,
                                  .user = user};
    int rc = maps && images && steps ? 0 : -ENOMEM;
    for (uint32_t i = 0; i < n_parts; i++)
        what.cameras[i] = keyframe_map_camera(&parts[i].graph->camera);
    if (rc == 0) {
        fill_maps(joined, parts, images, maps);
        what.n_steps = list_steps(joined, steps);
        rc = rig_adjustment_solve(&what, out);
    }
    for (uint32_t k = 0; k < joined->n && rc == 0; k++) {
        struct graph_mount *mount = &joined->body[k];
        // The body was where it was: it is the camera that sits elsewhere on it.
        const struct se3 *moved = &out->moved[mount->camera];
        struct graph_keyframe *keyframe = &joined->keyframes[k];
        mount->T_body_camera = se3_compose(&mount->T_body_camera, moved);
        keyframe->T_odom_camera = se3_compose(&keyframe->T_odom_camera, moved);
        keyframe->T_map_camera = images[k].T_world_image;
    }
    free(maps);
    free(images);
    free(steps);
    return rc;
}
