// SPDX-License-Identifier: Apache-2.0
// Start poses of images of which none are known: each image is registered from everywhere
// (gpu/register, start many) with those that have a place already, its neighbours in the order
// first; the first answer that nothing is known against gives it its place.
#ifndef POSED_TOOLS_ALIGN_STARTS_H
#define POSED_TOOLS_ALIGN_STARTS_H

#include "gpu/align/align.h"
#include "tools/align/images.h"

// T_world_image: the first image's pose is taken as it is, all others are written. What fits to
// nothing begins a group of its own beside the others, with a warning that names it. All images are
// held at once, thinned. Returns 0, or a negative errno value with the reason in the log.
__attribute__((warn_unused_result)) int align_starts_find(const struct images *images,
                                                          const struct align_settings *settings,
                                                          bool quiet, struct se3 *T_world_image);

#endif
