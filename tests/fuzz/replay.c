// SPDX-License-Identifier: Apache-2.0
// Runs a fuzz target without libFuzzer, so that any compiler keeps its seeds: each seed as it is,
// each truncation of it, and each of its bits turned over; and the seed as it is while the n-th of
// its allocations fails, and the n-th file that it opens. The inputs are the same in every run.
// Long seeds are truncated and turned at evenly spread places, MAX_PLACES of them; MAX_FAILURES
// calls fail.
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifdef POSED_SANITIZED // where libFuzzer goes on searching
#define MAX_PLACES 1000u
#else
#define MAX_PLACES 2000u
#endif
#define MAX_FAILURES   100
#define MAX_SEED_BYTES (1u << 20)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes);

// Linked with --wrap: what our code calls comes here, what libraries call does not.
enum call { MEMORY, OPEN, N_CALLS };
static struct {
    long n, failing; // calls since the target began; the one that fails, 0: none
} calls[N_CALLS];
static bool in_target;

void *__real_malloc(size_t n_bytes);
void *__real_calloc(size_t n, size_t n_bytes);
void *__real_realloc(void *memory, size_t n_bytes);
void *__real_aligned_alloc(size_t alignment, size_t n_bytes);
char *__real_strdup(const char *text);
FILE *__real_open_memstream(char **out, size_t *out_n_bytes);
int __real_open(const char *path, int flags, ...);
FILE *__real_fopen(const char *path, const char *mode);
FILE *__real_fdopen(int fd, const char *mode);

static bool fails(enum call call)
{
    if (!in_target || ++calls[call].n != calls[call].failing)
        return false;
    errno = call == MEMORY ? ENOMEM : EMFILE;
    return true;
}

#define WRAP(type, name, call, parameters, arguments)        \
    type __wrap_##name parameters;                           \
    type __wrap_##name parameters                            \
    {                                                        \
        return fails(call) ? NULL : __real_##name arguments; \
    }
WRAP(void *, malloc, MEMORY, (size_t n_bytes), (n_bytes))
WRAP(void *, calloc, MEMORY, (size_t n, size_t n_bytes), (n, n_bytes))
WRAP(void *, realloc, MEMORY, (void *memory, size_t n_bytes), (memory, n_bytes))
WRAP(void *, aligned_alloc, MEMORY, (size_t alignment, size_t n_bytes), (alignment, n_bytes))
WRAP(char *, strdup, MEMORY, (const char *text), (text))
WRAP(FILE *, open_memstream, MEMORY, (char **out, size_t *out_n_bytes), (out, out_n_bytes))
WRAP(FILE *, fopen, OPEN, (const char *path, const char *mode), (path, mode))
WRAP(FILE *, fdopen, OPEN, (int fd, const char *mode), (fd, mode))

int __wrap_open(const char *path, int flags, ...);
int __wrap_open(const char *path, int flags, ...)
{
    va_list rest;
    va_start(rest, flags);
    const int mode = flags & O_CREAT ? va_arg(rest, int) : 0;
    va_end(rest);
    return fails(OPEN) ? -1 : __real_open(path, flags, mode);
}

// The target gets a copy of exactly n_bytes, so that AddressSanitizer sees each read behind it.
static int run(const uint8_t *data, size_t n_bytes)
{
    uint8_t *copy = malloc(n_bytes ? n_bytes : 1);
    if (!copy)
        return -ENOMEM;
    memcpy(copy, data, n_bytes);
    calls[MEMORY].n = calls[OPEN].n = 0;
    in_target = true;
    LLVMFuzzerTestOneInput(copy, n_bytes);
    in_target = false;
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

static int run_failing(const uint8_t *data, size_t n_bytes, size_t *n_inputs)
{
    int err = run(data, n_bytes);
    for (enum call call = 0; call < N_CALLS; call++) {
        const long n = calls[call].n, step = n / MAX_FAILURES + 1;
        for (long i = 1; !err && i <= n; i += step) {
            calls[call].failing = i;
            err = run(data, n_bytes);
            *n_inputs += 1;
        }
        calls[call].failing = 0;
        err = err ? err : run(data, n_bytes); // what the failures left behind does no harm
    }
    return err;
}

static int run_file(const char *path, bool with_failures, size_t *n_inputs)
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
    if (with_failures)
        err = run_failing(data, n_bytes, n_inputs);
    if (!err)
        err = run_variants(data, n_bytes, n_inputs);
out:
    if (file)
        fclose(file);
    free(data);
    return err;
}

int main(int argc, char **argv)
{
    const bool with_failures = argc == 2;
    if (!with_failures && (argc != 3 || strcmp(argv[2], "--no-failures"))) {
        fprintf(stderr, "usage: %s FOLDER-OF-SEEDS [--no-failures]\n", argv[0]);
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
            err = run_file(path, with_failures, &n_inputs);
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
