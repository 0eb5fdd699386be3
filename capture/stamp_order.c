// SPDX-License-Identifier: Apache-2.0
#include "capture/stamp_order.h"

void stamp_order_add(struct stamp_order *order, int64_t time_ns)
{
    if (time_ns <= 0)
        return;
    if (time_ns >= order->newest_ns) {
        order->newest_ns = time_ns;
        return;
    }
    const int64_t back_ns = order->newest_ns - time_ns;
    order->n_back++;
    order->most_back_ns = back_ns > order->most_back_ns ? back_ns : order->most_back_ns;
}

void stamp_order_tell(const struct stamp_order *order, const struct log_sink *log, const char *name,
                      const char *topic)
{
    if (order->n_back)
        log_to(log, LOG_LEVEL_WARNING,
               "%s: %zu image%s of %s stamped earlier than one that was written before, by up to "
               "%.3f s; all are played in the order of their stamps",
               name, order->n_back, order->n_back == 1 ? "" : "s", topic,
               (double)order->most_back_ns * 1e-9);
}
