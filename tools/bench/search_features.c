// SPDX-License-Identifier: Apache-2.0
#include "tools/bench/search_features.h"

#include "gpu/search/host.h"
#include "gpu/search/image_reduction.h"
#include "gpu/search/kernels/icp.h"

const char *const search_feature_names[SEARCH_N_FEATURES] = {"root of area",
                                                             "tight",
                                                             "free",
                                                             "wrong",
                                                             "plane",
                                                             "continued",
                                                             "ended",
                                                             "smooth",
                                                             "gate",
                                                             "free/match",
                                                             "wrong/match",
                                                             "root of ended",
                                                             "floor",
                                                             "merged",
                                                             "sharp",
                                                             "root of sharp",
                                                             "spread",
                                                             "root of volume",
                                                             "4th root of area",
                                                             "match",
                                                             "root of shown",
                                                             "root of edged",
                                                             "one",
                                                             "hidden",
                                                             "rough",
                                                             "agreed",
                                                             "told",
                                                             "root of crossed",
                                                             "root of jumps",
                                                             "root of deep",
                                                             "root of just"};

int search_features_at(struct search *search, const struct search_object *object,
                       const struct search_image *image, const struct se3 *T_camera_model,
                       float out[SEARCH_N_FEATURES])
{
    struct search_scene scene;
    struct search_candidate candidate;
    struct search_image searched;
    int err = search_reduce_image(search, image, &searched);
    err = err ? err : search_prepare(search, &searched, object, &scene);
    err = err ? err
              : search_ensure_drawings(search, object,
                                       searched.camera.width_px * searched.camera.height_px);
    if (err)
        return err;
    search_pose_inward(object, T_camera_model, &candidate);
    search_refine_all_drawn(search, &scene, object, &candidate, 1, SEARCH_POLISHED_ROUNDS, NULL);
    search_features(&candidate, out);
    return 0;
}
