// SPDX-License-Identifier: Apache-2.0
// Any bytes as posed-align's checkpoint: refused with the poses as they were, or taken and written
// again as it was read.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tools/align/align.h"

#define N_IMAGES 3

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static char folder[] = "/tmp/posed-fuzz-checkpoint-XXXXXX";
    static char path[64];
    static char *names[N_IMAGES] = {"a.png", "b", "c"};
    const struct images images = {.n = N_IMAGES, .names = names};
    struct se3 poses[N_IMAGES], again[N_IMAGES];
    uint32_t n_iterations = 77, n_again;
    if (!path[0]) {
        if (!mkdtemp(folder))
            abort();
        snprintf(path, sizeof path, "%s/checkpoint.txt", folder);
    }
    FILE *file = fopen(path, "wb");
    if (!file || fwrite(data, 1, size, file) != size || fclose(file) != 0)
        abort();
    memset(poses, 1, sizeof poses);
    memcpy(again, poses, sizeof poses);
    if (!checkpoint_read(folder, &images, poses, &n_iterations)) {
        if (n_iterations != 77 || memcmp(poses, again, sizeof poses) != 0)
            abort();
        return 0;
    }
    checkpoint_write(folder, &images, poses, n_iterations);
    for (int i = 0; i < N_IMAGES; i++)
        for (int k = 0; k < 12; k++)
            if ((k < 9 ? poses[i].r[k] : poses[i].t_m[k - 9]) !=
                (k < 9 ? poses[i].r[k] : poses[i].t_m[k - 9]))
                return 0; // a NaN is no pose, and not equal to itself
    if (!checkpoint_read(folder, &images, again, &n_again) || n_again != n_iterations ||
        memcmp(poses, again, sizeof poses) != 0)
        abort();
    return 0;
}
