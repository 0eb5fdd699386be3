// SPDX-License-Identifier: Apache-2.0
// The order of the frames of an index: as the file has them, and by time as they are played.
#ifndef POSED_CAPTURE_MCAP_INDEX_ORDER_H
#define POSED_CAPTURE_MCAP_INDEX_ORDER_H

#include "capture/mcap/index.h"
#include "capture/stamp_order.h"

// Puts them in the order in which they were written (a chunk's index may be sorted by time), and
// returns what their stamps do in it.
struct stamp_order mcap_order_as_written(struct mcap_index *index);

// By time. Those whose time repeats are dropped and counted.
void mcap_put_in_order(struct mcap_index *index);

#endif
