// SPDX-License-Identifier: Apache-2.0
// calib.txt of a recording of raw disparity, up to the table of depths.
#include <stdlib.h>
#include <string.h>

#include "capture/recording/rawpgm.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes)
{
    char *text = malloc(n_bytes + 1);
    if (!text)
        return 0;
    memcpy(text, data, n_bytes);
    text[n_bytes] = '\0';
    static struct disparity_table table;
    static struct disparity_inverse inverse;
    struct intrinsics camera;
    struct disparity_model model;
    if (rawpgm_parse_calib(text, "fuzz", NULL, &camera, &model) == 0 &&
        disparity_table_fill(&model, &table) == 0) {
        disparity_inverse_fill(&table, &inverse);
        for (size_t i = 0; i < DISPARITY_N_RAW; i++)
            if (table.mm[i] && table.mm[inverse.raw[table.mm[i]]] != table.mm[i])
                abort();
    }
    free(text);
    return 0;
}
