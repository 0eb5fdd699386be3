// SPDX-License-Identifier: Apache-2.0
// Runs a fuzz target without libFuzzer, so that any compiler keeps its seeds: each seed as it is,
// each truncation of it, and each of its bits turned over. The inputs are the same in every run.
// Long seeds are truncated and turned at evenly spread places, MAX_PLACES of them.
#include <dirent.h>
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_PLACES     2000u
#define MAX_SEED_BYTES (1u << 20)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes);

// The target gets a copy of exactly n_bytes, so that AddressSanitizer sees each read behind it.
static int run(const uint8_t *data, size_t n_bytes)
{
    uint8_t *copy = malloc(n_bytes ? n_bytes : 1);
    if (!copy)
        return -ENOMEM;
    memcpy(copy, data, n_bytes);
    LLVMFuzzerTestOneInput(copy, n_bytes);
    free(copy);
    return 0;
}

static int run_variants(uint8_t *data, size_t n_bytes, size_t *n_inputs)
{
    int err = run(data, n_bytes);
    size_t step = n_bytes / MAX_PLACES + 1;
    for (size_t i = 0; !err && i < n_bytes; i += step) {
        err = run(data, i);
        *n_inputs += 1;
    }
    for (size_t bit = 0; !err && bit < 8 * n_bytes; bit += step) {
        data[bit / 8] ^= (uint8_t)(1u << bit % 8);
        err = run(data, n_bytes);
        data[bit / 8] ^= (uint8_t)(1u << bit % 8);
        *n_inputs += 1;
    }
    return err;
}

static int run_file(const char *path, size_t *n_inputs)
{
    int err = 0;
    uint8_t *data = malloc(MAX_SEED_BYTES);
    FILE *file = fopen(path, "rb");
    if (!data || !file) {
        err = -errno;
        goto out;
    }
    size_t n_bytes = fread(data, 1, MAX_SEED_BYTES, file);
    if (ferror(file) || fgetc(file) != EOF) {
        fprintf(stderr, "%s: unreadable, or over %u bytes\n", path, MAX_SEED_BYTES);
        err = -EFBIG;
        goto out;
    }
    *n_inputs += 1;
    err = run_variants(data, n_bytes, n_inputs);
out:
    if (file)
        fclose(file);
    free(data);
    return err;
}

int main(int argc, char **argv)
{
    if (argc != 2) {
        fprintf(stderr, "usage: %s FOLDER-OF-SEEDS\n", argv[0]);
        return 2;
    }
    struct dirent **entries;
    int n_entries = scandir(argv[1], &entries, NULL, alphasort);
    if (n_entries < 0) {
        fprintf(stderr, "%s: %s\n", argv[1], strerror(errno));
        return 1;
    }
    size_t n_seeds = 0, n_inputs = 0;
    int err = 0;
    for (int i = 0; i < n_entries; i++) {
        char path[4096];
        snprintf(path, sizeof path, "%s/%s", argv[1], entries[i]->d_name);
        if (!err && entries[i]->d_name[0] != '.') {
            printf("%s\n", path); // a crash is known by the last line
            fflush(stdout);
            err = run_file(path, &n_inputs);
            if (err)
                fprintf(stderr, "%s: %s\n", path, strerror(-err));
            n_seeds++;
        }
        free(entries[i]);
    }
    free(entries);
    if (!err && n_seeds == 0) {
        fprintf(stderr, "%s: no seeds\n", argv[1]);
        return 1;
    }
    printf("%zu seeds, %zu inputs\n", n_seeds, n_inputs);
    return err ? 1 : 0;
}
