// SPDX-License-Identifier: Apache-2.0
// The fixed error of the one depth camera that took all images: its field's nodes are further
// unknowns beside the poses, in one adjustment of inverse depths (gpu/track/calibrate.h, which the
// daemon's map uses, too). It is taken out of the images only where pairs kept aside say that this
// is worth it.
#ifndef POSED_TOOLS_ALIGN_CAMERA_ERROR_H
#define POSED_TOOLS_ALIGN_CAMERA_ERROR_H

#include "gpu/align/ranks.h"
#include "gpu/track/calibrate.h"
#include "tools/align/images.h"

struct camera_error {
    bool is_tried;  // false: the images are no camera's, or nobody wanted it
    bool is_learnt; // false: they are too few or show too little, see `reason`
    bool is_taken;  // it was worth to be taken out
    char reason[256];
    struct calibrate_report report;
    struct depth_error field; // where it is learnt
};

// Depth images with poses that are good to some millimetres: learns the field on the root from
// CALIBRATE_MAX_FRAMES of them at most, evenly, and tells all ranks. Where it is accepted
// images->field_per_m is set: images that are loaded from now on have it taken out. Collective.
// Returns 0 (also where nothing could be learnt), -ENOMEM, or what reading an image says.
__attribute__((warn_unused_result)) int camera_error_learn(struct images *images,
                                                           const struct se3 *T_world_image,
                                                           const struct align_ranks *ranks,
                                                           struct camera_error *out);

#endif
