// SPDX-License-Identifier: Apache-2.0
// The options of posed-bench align (align.c).
#ifndef POSED_TOOLS_BENCH_ALIGN_OPTIONS_H
#define POSED_TOOLS_BENCH_ALIGN_OPTIONS_H

#include "gpu/align/align.h"
#include "tools/align/views.h"

struct bench_align_options {
    struct views_settings views;
    struct align_settings settings;
    const char *conf;
    double disturb_rad, disturb_share, wrong_share;
    uint32_t n_seeds, iterations, n_parts;
    bool json, verbose;
};

// Defaults and what the command line says; ends the program where it is not understood.
void bench_align_options_read(int argc, char **argv, struct bench_align_options *out);

#endif
