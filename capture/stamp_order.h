// SPDX-License-Identifier: Apache-2.0
// Stamps of a recording's images in the order in which they were written. Who sorts them takes
// images out of that order: after a clock that was set back that joins two motions, and is told.
#ifndef POSED_CAPTURE_STAMP_ORDER_H
#define POSED_CAPTURE_STAMP_ORDER_H

#include <stddef.h>
#include <stdint.h>

#include "proto/log.h"

struct stamp_order { // begins as all zero
    int64_t newest_ns, most_back_ns;
    size_t n_back;
};

// The next one. One that is 0 or below is no stamp and does not count.
void stamp_order_add(struct stamp_order *order, int64_t time_ns);

// Warns where stamps went back: how many, by how much. `name`: the file.
void stamp_order_tell(const struct stamp_order *order, const struct log_sink *log, const char *name,
                      const char *topic);

#endif
