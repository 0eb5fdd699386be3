// SPDX-License-Identifier: Apache-2.0
#include "gpu/base/range.h"

#include <errno.h>

static bool is_in(const struct range *r)
{
    if (r->is_float)
        return (float)r->value >= (float)r->low && (float)r->value <= (float)r->high;
    return r->value >= r->low && r->value <= r->high;
}

int ranges_check(const struct log_sink *log, const struct range *ranges, size_t n_ranges)
{
    for (size_t i = 0; i < n_ranges; i++) {
        const struct range *r = &ranges[i];
        if (!is_in(r)) {
            log_to(log, LOG_LEVEL_ERROR, "%s = %.9g is outside %g .. %g", r->name, r->value, r->low,
                   r->high);
            return -EINVAL;
        }
    }
    return 0;
}
