// SPDX-License-Identifier: Apache-2.0
// What the tests of the recorder share: a folder and a camera for each test, frames that follow
// from their number, and what a recording of them must replay to.
#ifndef POSED_TESTS_UNIT_CAPTURE_RECORDING_H
#define POSED_TESTS_UNIT_CAPTURE_RECORDING_H

#include "capture/capture.h"
#include "tests/unit/camera.h"
#include "tests/unit/scratch.h"

#define RECORDING_WIDTH    64u
#define RECORDING_HEIGHT   48u
#define RECORDING_N_PIXELS (RECORDING_WIDTH * RECORDING_HEIGHT)

// Of the running test.
struct recording_test {
    struct scratch scratch;
    struct buffers *camera;
    enum recorder_event last_event;
    char last_detail[256];
};
extern struct recording_test recording;

// A Kinect's view: depths that its disparity can say.
extern const struct capture_info recording_info;

int recording_setup(void **state);
int recording_teardown(void **state);

// Into the test's folder; events go to recording.last_event.
struct recorder_settings recording_settings(void);

void recording_make_frame(uint64_t i, uint16_t pixels[RECORDING_N_PIXELS],
                          struct capture_frame *out);
void recording_push(struct recorder *recorder, uint64_t first, uint64_t end);

// The same of a clock that is another one from the first of them on, so much later.
void recording_push_later(struct recorder *recorder, uint64_t first, uint64_t end, int64_t by_ns);

// The same of a machine's clock that was set by so much.
void recording_push_set(struct recorder *recorder, uint64_t first, uint64_t end, int64_t set_ns);
void recording_wait_until_idle(struct recorder *recorder);

struct capture *recording_open(const char *format, const char *name);

// Reads frames `first`, first + 1, ... to the end; returns how many there were.
uint64_t assert_recording_replays(const char *format, const char *name, uint64_t first);

#endif
