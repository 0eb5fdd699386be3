// SPDX-License-Identifier: Apache-2.0
// The device under a tracking backend, with the tracker and the map on it: opened, closed, and
// replaced after a failure as gpu.on_error says. For tracking_backend.c and what belongs to it.
#ifndef POSED_DAEMON_TRACKING_DEVICE_H
#define POSED_DAEMON_TRACKING_DEVICE_H

#include "daemon/tracking_backend_state.h"

// Returns 0, or with the reason in the log and nothing open -ENOSPC (map.memory_bytes is more than
// there is) or another negative errno (see gpu_open).
__attribute__((warn_unused_result)) int backend_open_device(struct backend *backend,
                                                            enum gpu_backend which);
void backend_close_device(struct backend *backend); // also where none is open

// A device and a tracker in place of the present ones, on the CPU when it has to be. Returns 0, or
// -EIO: none is open.
__attribute__((warn_unused_result)) int backend_open_again(struct backend *backend,
                                                           enum gpu_backend which);

// After a failure: a device and a tracker that start at the last pose. Returns 0, or -EIO when
// gpu.on_error says stop or nothing works any more.
__attribute__((warn_unused_result)) int backend_recover(struct backend *backend);

// Gives a new tracker the frame of call `last` of backend_track as its reference, at the pose that
// it has: then the poses stay connected. Only where that frame was kept. Returns 0 or the device's
// negative errno.
__attribute__((warn_unused_result)) int backend_prime(struct backend *backend, uint64_t last);

#endif
