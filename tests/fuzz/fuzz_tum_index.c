// SPDX-License-Identifier: Apache-2.0
// depth.txt of a TUM recording.
#include <stdlib.h>
#include <string.h>

#include "capture/io/folder.h"
#include "capture/recording/tum.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes)
{
    char *text = malloc(n_bytes + 1);
    if (!text)
        return 0;
    memcpy(text, data, n_bytes);
    text[n_bytes] = '\0';
    struct tum_index index;
    if (tum_index_parse(text, "fuzz", NULL, &index)) {
        free(text);
        return 0;
    }
    for (size_t i = 0; i < index.n_entries; i++) {
        if (!folder_name_is_safe(index.entries[i].path))
            abort();
        if (i > 0 && index.entries[i].time_ns <= index.entries[i - 1].time_ns)
            abort();
    }
    tum_index_free(&index);
    free(text);
    return 0;
}
