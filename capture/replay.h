// SPDX-License-Identifier: Apache-2.0
// Plays a recording: a thread decodes ahead into a ring of buffers, the reader takes frames when
// they are due. Used by capture.c only.
//
// Pacing. The clock starts with the first replay_read; frame q is due (t_q - t_0) / rate after it.
// A pause of the recording longer than REPLAY_LONGEST_PAUSE_NS is shortened to that much (a broken
// clock must not stop the replay for years); time stamps are reported as recorded all the same. A
// frame is late when its successor is due already, or, where newer ones may wait, when as many more
// are; it is then handed out without pixels, and the decoder passes over it.
#ifndef POSED_CAPTURE_REPLAY_H
#define POSED_CAPTURE_REPLAY_H

#include "capture/driver.h"

#define REPLAY_LONGEST_PAUSE_NS INT64_C(10000000000)

struct replay; // opaque

// Takes over nothing: driver and state stay the caller's and must outlive the replay. Computes
// out_info->n_frames and period_ns for start, duration, step and loop of the settings.
// `info` holds image size and units_per_m. Returns 0, -ENOENT (no frame is left after start and
// duration), -ENOMEM or the error of pthread_create.
__attribute__((warn_unused_result)) int
replay_create(struct replay **out, const struct capture_driver *driver, void *state,
              const struct capture_settings *settings, struct capture_info *info);

// Starts the decode-ahead thread; decode belongs to it from now on. Returns 0 or -errno.
__attribute__((warn_unused_result)) int replay_start(struct replay *replay);

// Frame number, as the driver counts, of the q-th frame to be played.
uint64_t replay_entry(const struct replay *replay, uint64_t q);
uint64_t replay_round_frames(const struct replay *replay);

// capture_read's contract.
__attribute__((warn_unused_result)) int replay_read(struct replay *replay, int timeout_ms,
                                                    struct capture_frame *out_frame);
// capture_control's contract, of the same thread as replay_read.
__attribute__((warn_unused_result)) int replay_control(struct replay *replay,
                                                       enum capture_control control, double value,
                                                       struct capture_playback *out);
// Async-signal-safe.
void replay_interrupt(struct replay *replay);

// The memory that the frames are in, the same from create to destroy.
struct buffers *replay_buffers(struct replay *replay);

void replay_destroy(struct replay **replay);

#endif
