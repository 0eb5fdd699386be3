// SPDX-License-Identifier: Apache-2.0
// Channels without which images say little: calibration, and where the camera is on its robot. A
// replay without them goes on with other values, and looks no worse for it.
#ifndef POSED_CAPTURE_MCAP_NEEDED_CHANNELS_H
#define POSED_CAPTURE_MCAP_NEEDED_CHANNELS_H

#include "capture/mcap/records.h"
#include "proto/log.h"

// Warns of each such channel that has no message in the copy of the file called `name`, unless it
// had none before: n_said, where the file tells that, else NULL. Schemas and channels are whole,
// well-formed records; n_messages and n_said are by a channel's id.
void mcap_tell_of_needed(const struct mcap_bytes *schemas, const struct mcap_bytes *channels,
                         const uint64_t *n_messages, const uint64_t *n_said, const char *name,
                         const struct log_sink *log);

#endif
