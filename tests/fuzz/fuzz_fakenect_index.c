// SPDX-License-Identifier: Apache-2.0
// INDEX.txt of a fakenect recording.
#include <stdlib.h>
#include <string.h>

#include "capture/io/folder.h"
#include "capture/recording/fakenect.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes)
{
    char *text = malloc(n_bytes + 1);
    if (!text)
        return 0;
    memcpy(text, data, n_bytes);
    text[n_bytes] = '\0';
    struct fakenect_index index;
    if (fakenect_index_parse(text, "fuzz", NULL, &index) == 0) {
        for (size_t i = 0; i < index.n_frames; i++) {
            if (!folder_name_is_safe(index.frames[i].name))
                abort();
            if (i > 0 && index.frames[i].time_ns <= index.frames[i - 1].time_ns)
                abort();
        }
        fakenect_index_free(&index);
    }
    free(text);
    return 0;
}
