// SPDX-License-Identifier: Apache-2.0
// A temporary folder for tests that need files, and the last line that was logged.
#ifndef POSED_TESTS_UNIT_SCRATCH_H
#define POSED_TESTS_UNIT_SCRATCH_H

#include <ftw.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "proto/log.h"

struct scratch {
    char path[64];
    char line[1024]; // the last one logged
    int n_lines;
    enum log_level worst; // of the lines
};

static void scratch_remember(void *user, enum log_level level, const char *line)
{
    struct scratch *scratch = user;
    snprintf(scratch->line, sizeof scratch->line, "%s", line);
    scratch->n_lines++;
    scratch->worst = level < scratch->worst ? level : scratch->worst;
}

static inline struct log_sink scratch_log(struct scratch *scratch)
{
    return (struct log_sink){scratch_remember, scratch};
}

// Whether that line has `wanted` in it; prints both if not.
static inline bool scratch_said(const struct scratch *scratch, const char *wanted)
{
    if (strstr(scratch->line, wanted))
        return true;
    fprintf(stderr, "wanted '%s' in '%s'\n", wanted, scratch->line);
    return false;
}

static inline void scratch_create(struct scratch *scratch)
{
    *scratch = (struct scratch){.path = "/tmp/posed-test-XXXXXX", .worst = LOG_LEVEL_DEBUG};
    if (!mkdtemp(scratch->path))
        abort();
}

static inline const char *scratch_name(const struct scratch *scratch, const char *name,
                                       char out[256])
{
    snprintf(out, 256, "%s/%s", scratch->path, name);
    return out;
}

static inline void scratch_write(const struct scratch *scratch, const char *name, const void *data,
                                 size_t n_bytes)
{
    char path[256];
    FILE *file = fopen(scratch_name(scratch, name, path), "wb");
    if (!file || fwrite(data, 1, n_bytes, file) != n_bytes || fclose(file))
        abort();
}

static inline void scratch_write_text(const struct scratch *scratch, const char *name,
                                      const char *text)
{
    scratch_write(scratch, name, text, strlen(text));
}

static inline void scratch_make_folder(const struct scratch *scratch, const char *name)
{
    char path[256];
    if (mkdir(scratch_name(scratch, name, path), 0700))
        abort();
}

// To root every folder is writable: until scratch_be_root_again the test is nobody, if it was root.
static inline void scratch_be_nobody(void)
{
    if (geteuid() == 0 && setresuid(65534, 65534, 0) != 0)
        abort();
}

static inline void scratch_be_root_again(void)
{
    uid_t real, effective, saved;
    if (getresuid(&real, &effective, &saved) != 0 || setresuid(saved, saved, saved) != 0)
        abort();
}

static int scratch_unlink(const char *path, const struct stat *st, int type, struct FTW *walk)
{
    (void)st;
    (void)type;
    (void)walk;
    return remove(path);
}

static inline void scratch_remove(struct scratch *scratch)
{
    nftw(scratch->path, scratch_unlink, 8, FTW_DEPTH | FTW_PHYS);
}

#endif
