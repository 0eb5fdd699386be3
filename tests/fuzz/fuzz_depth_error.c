// SPDX-License-Identifier: Apache-2.0
// A camera's field from hostile text: whatever is read back is in range.
#include <math.h>
#include <stdlib.h>

#include "gpu/track/depth_error.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes)
{
    static struct depth_error field;
    const struct log_sink silent = {0};
    if (depth_error_parse((const char *)data, n_bytes, "fuzz", &silent, &field) != 0)
        return 0;
    for (int i = 0; i < FIELD_N_NODES; i++)
        if (!(fabs((double)field.node_per_m[i]) <= FIELD_MAX_PER_M * 1.0001))
            abort();
    double f = depth_error_at(&field, -5, 1e6);
    if (!(fabs(f) <= FIELD_MAX_PER_M * 1.0001) || field.camera.width_px < 32)
        abort();
    return 0;
}
