// SPDX-License-Identifier: Apache-2.0
// Least and most of settings. A room's header has them as macros (`0.002, 0.1`), which its own
// check and the daemon's table of keys both take.
#ifndef POSED_GPU_BASE_RANGE_H
#define POSED_GPU_BASE_RANGE_H

#include <stdbool.h>
#include <stddef.h>

#include "proto/log.h"

struct range {
    const char *name; // as posed.conf or the log calls it
    double value, low, high;
    bool is_float; // the value is kept as float, and 0.1f is not above 0.1
};

// Whether all values lie in their ranges, bounds included, NaN in none; the first that does not is
// named in the log (NULL: nowhere). Any thread. Returns 0 or -EINVAL.
__attribute__((warn_unused_result)) int ranges_check(const struct log_sink *log,
                                                     const struct range *ranges, size_t n_ranges);

#endif
