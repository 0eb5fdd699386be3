// SPDX-License-Identifier: Apache-2.0
// The metadata.yaml of a ROS 2 recording: what is found are names, within the text.
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "capture/ros/bag_metadata.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes)
{
    char *text = malloc(n_bytes + 1), **names;
    size_t n;
    if (!text)
        return 0;
    memcpy(text, data, n_bytes);
    text[n_bytes] = '\0';
    int err = bag_metadata_files(text, &names, &n);
    if ((err && n) || (n > 0 && !names))
        abort();
    for (size_t i = 0; i < n; i++)
        if (names[i] < text || names[i] > text + n_bytes || !names[i][0] || strchr(names[i], '\n'))
            abort();
    free(names);
    free(text);
    return 0;
}
