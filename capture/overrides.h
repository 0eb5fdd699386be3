// SPDX-License-Identifier: Apache-2.0
// What the settings put in place of what a source says of its own camera. Plain data, any thread.
#ifndef POSED_CAPTURE_OVERRIDES_H
#define POSED_CAPTURE_OVERRIDES_H

#include "capture/capture.h"

// info->told keeps camera and units as the driver filled them in; where a setting is given it takes
// the place of these.
void overrides_apply(struct capture_info *info, const struct capture_settings *settings);

// Warns of settings that are more than OVERRIDES_DOUBT off what the source says: a line for the
// intrinsics and one for the depth scale, with both values, each as "camera.KEY". Where nothing in
// the source says it, nothing is contradicted.
#define OVERRIDES_DOUBT 0.05 // of the value; of the image's side for the principal point
void overrides_tell(const struct capture_info *info, const struct capture_settings *settings,
                    const struct log_sink *log);

#endif
