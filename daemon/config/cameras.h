// SPDX-License-Identifier: Apache-2.0
// Several cameras: the sections [camera NAME]. Each has its own source and whatever of the keys of
// [capture], [camera] and [gpu] is to differ from the shared settings; it is kept as text, and laid
// over a copy of the shared settings when a camera is opened.
#ifndef POSED_DAEMON_CONFIG_CAMERAS_H
#define POSED_DAEMON_CONFIG_CAMERAS_H

#include "daemon/config/config.h"

// What files and frames of the pose of all cameras together are called; no camera is.
#define CAMERAS_RIG "rig"

// Behind the name of a place's file: the fields of the cameras A and B that it was made with, as
// posectl rig calibrate names them.
#define CAMERAS_FIELD_A ".A.field"
#define CAMERAS_FIELD_B ".B.field"

// Whether a key's name is one of a camera's own, "camera NAME.KEY".
bool cameras_owns(const char *name);

// A section begins. Returns its index, or with the reason in out_error -EINVAL (the name is not of
// A-Z a-z 0-9 _ -, begins with a dash or is too long), -EEXIST (there is one of that name, or one
// whose name is the beginning of the other: subscribers to its topics would be sent both) or
// -ENOSPC (CONFIG_MAX_CAMERAS).
__attribute__((warn_unused_result)) int cameras_add(struct config *config, const char *name,
                                                    const char *origin, char *out_error,
                                                    size_t error_bytes);

// Sets "camera NAME.KEY"; the camera is added where it is not there. Returns as config_set, or what
// cameras_add does.
__attribute__((warn_unused_result)) int cameras_set(struct config *config, const char *name,
                                                    const char *value, const char *origin,
                                                    char *out_error, size_t error_bytes);

// config_origin of "camera NAME.KEY".
const char *cameras_origin(const struct config *config, const char *name);

// Whether any camera says where it sits beside the first (camera.rig).
bool cameras_have_rig(const struct config *config);

// What no section can say alone: each camera has a source of its own and the daemon none beside
// them; where one says where it sits, all but the first do. Returns 0, or -EINVAL with the reason
// in the log.
__attribute__((warn_unused_result)) int cameras_check(const struct config *config,
                                                      const struct log_sink *log);

// The settings of camera `index`: the shared ones, with its own instead where it has some. Frames
// of the messages are called NAME/odom and NAME/camera (publish.odom_frame, publish.camera_frame),
// and NAME stands in the names of the files that the daemon writes, before their suffix. Of
// gpu.threads = 0 each camera has its share of the cores. A camera of a rig that names no field has
// the one that lies beside the file of its place. With config->n_cameras 0 a plain copy.
void cameras_config(const struct config *config, uint32_t index, struct config *out);

// After the field of a camera's settings (cameras_config) was refused: where it comes from a rig,
// says so to the log, as nobody has named the file, and how to do without.
void cameras_explain_field(const struct config *own, const struct log_sink *log);

// cameras_config for the pose of all cameras: its file and its odom frame.
void cameras_rig_config(const struct config *config, struct config *out);

bool cameras_are_same(const struct config *a, const struct config *b);
void cameras_dump(const struct config *config, FILE *file);

#endif
