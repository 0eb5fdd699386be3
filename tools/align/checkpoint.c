// SPDX-License-Identifier: Apache-2.0
// A first line `posed-align checkpoint N I` (images, iterations), then a line an image: its name
// and the 12 numbers of its pose, all digits of them.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tools/align/align.h"

#define HEAD "posed-align checkpoint"

void checkpoint_write(const char *folder, const struct images *images,
                      const struct se3 *T_world_image, uint32_t n_iterations)
{
    char path[4200], fresh[4300];
    snprintf(path, sizeof path, "%s/checkpoint.txt", folder);
    snprintf(fresh, sizeof fresh, "%s.new", path);
    FILE *file = fopen(fresh, "w");
    if (!file)
        return; // the folder's own trouble shows when the results are written
    fprintf(file, HEAD " %u %u\n", images->n, n_iterations);
    for (uint32_t i = 0; i < images->n; i++) {
        fprintf(file, "%s", images->names[i]);
        for (int k = 0; k < 12; k++)
            fprintf(file, " %.17g", k < 9 ? T_world_image[i].r[k] : T_world_image[i].t_m[k - 9]);
        fprintf(file, "\n");
    }
    bool bad = ferror(file);
    bad = fclose(file) != 0 || bad;
    if (bad || rename(fresh, path) < 0)
        unlink(fresh);
}

bool checkpoint_read(const char *folder, const struct images *images, struct se3 *T_world_image,
                     uint32_t *out_n_iterations)
{
    char path[4200], name[1100];
    unsigned n, iterations;
    snprintf(path, sizeof path, "%s/checkpoint.txt", folder);
    FILE *file = fopen(path, "r");
    if (!file)
        return false;
    struct se3 *poses = malloc((images->n + 1) * sizeof *poses);
    bool good = poses && fscanf(file, HEAD " %u %u", &n, &iterations) == 2 && n == images->n;
    for (uint32_t i = 0; i < images->n && good; i++) {
        good = fscanf(file, "%1099s", name) == 1 && !strcmp(name, images->names[i]);
        for (int k = 0; k < 12 && good; k++)
            good = fscanf(file, "%lf", k < 9 ? &poses[i].r[k] : &poses[i].t_m[k - 9]) == 1;
    }
    if (good) {
        memcpy(T_world_image, poses, images->n * sizeof *poses);
        *out_n_iterations = iterations;
    }
    free(poses);
    fclose(file);
    return good;
}

void checkpoint_remove(const char *folder)
{
    char path[4200];
    snprintf(path, sizeof path, "%s/checkpoint.txt", folder);
    unlink(path);
}
