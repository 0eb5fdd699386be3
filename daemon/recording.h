// SPDX-License-Identifier: Apache-2.0
// The daemon's recorder: made of the settings, told of to all cameras that are in a recording. What
// it writes, and how, is capture/recorder.
#ifndef POSED_DAEMON_RECORDING_H
#define POSED_DAEMON_RECORDING_H

#include "capture/recorder/recorder.h"
#include "daemon/camera.h"

struct recording {
    struct recorder *recorder; // NULL = no folder to record into
    struct camera *cameras;
    uint32_t n_cameras;
};

// Whether the settings of the recorder go together. Returns 0 or -EINVAL, with the key in the log.
__attribute__((warn_unused_result)) int recording_check(const struct config *config,
                                                        const struct log_sink *log);

// Makes the recorder, if the configuration, which recording_check took, has a folder; hands it to
// the cameras, which are open and, as `out` itself, stay until recording_destroy; and begins the
// recording that is to run from the first frame. Returns 0 or negative errno, with the reason in
// the log; recording_destroy is to be called all the same.
__attribute__((warn_unused_result)) int recording_create(struct recording *out,
                                                         const struct config *config,
                                                         struct camera *cameras, uint32_t n_cameras,
                                                         const struct log_sink *log);
void recording_destroy(struct recording *recording);

#endif
