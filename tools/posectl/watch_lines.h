// SPDX-License-Identifier: Apache-2.0
// Messages of the topics as lines for a person, or as JSON, one object a line.
#ifndef POSED_TOOLS_POSECTL_WATCH_LINES_H
#define POSED_TOOLS_POSECTL_WATCH_LINES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define WATCH_LINES_TOPICS                                                                        \
    "pose, tf, calib, status, timing, event, imu, log, object, depth, normals, residual, cloud, " \
    "rig"

// A topic as it comes may end in a camera's name, "pose/left".
bool watch_lines_is_topic(const char *name);

// Whether each of several cameras has it.
bool watch_lines_is_of_camera(const char *name);

// Whether the topic is on the socket `img` instead of `pub`.
bool watch_lines_is_image(const char *name);

// The names of the columns of `pose`, on a terminal; elsewhere nothing.
void watch_lines_header(void);

// Prints a message to stdout. Returns false, with nothing printed, when the bytes are none of the
// topic.
bool watch_lines_print(const char *topic, const uint8_t *bytes, size_t n_bytes, bool json);

// A state's name, padded to `width`, in its colour on a terminal. Valid until the next call.
const char *show_state(const char *name, int width);

#endif
