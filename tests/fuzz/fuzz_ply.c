// SPDX-License-Identifier: Apache-2.0
#include "capture/cloud/ply.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes)
{
    struct cloud cloud;
    if (ply_parse(data, n_bytes, "fuzz", NULL, &cloud) == 0)
        cloud_free(&cloud);
    return 0;
}
