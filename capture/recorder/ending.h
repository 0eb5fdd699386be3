// SPDX-License-Identifier: Apache-2.0
// Inside capture/ only: how a recording ended, in one line for people: why, what is kept of it, and
// what to do after an error.
#ifndef POSED_CAPTURE_RECORDER_ENDING_H
#define POSED_CAPTURE_RECORDER_ENDING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define ENDING_BYTES 320

struct ending {
    int error;                             // the negative errno that ended it, 0 = none did
    const char *reason;                    // where none did: "stopped"
    bool is_torn;                          // its files could not be completed
    bool is_folder;                        // of images
    const char *file;                      // its name in the folder of recordings
    uint64_t n_frames, n_bytes, n_dropped; // in its files; of removed ones, in them before
};

// Whether this error says that the recording's files have been removed, so that nothing is kept.
bool ending_is_removal(int error);

void ending_describe(const struct ending *ending, char out[ENDING_BYTES]);

#endif
