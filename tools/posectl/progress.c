// SPDX-License-Identifier: Apache-2.0
#include "tools/posectl/progress.h"

#include <stdint.h>
#include <stdio.h>
#include <unistd.h>

#include "proto/clock.h"

#define CLEAR_LINE "\r\033[K" // ECMA-48: to the first column, erase to the end
#define PAUSE_NS   100000000

static int64_t begin_ns, shown_ns;

bool progress_is_shown(void)
{
    return isatty(STDERR_FILENO);
}

void progress_show(double share, const char *stage)
{
    int64_t now_ns = clock_monotonic_ns();
    if (!progress_is_shown())
        return;
    if (!begin_ns)
        begin_ns = now_ns;
    if (shown_ns && now_ns - shown_ns < PAUSE_NS)
        return;
    shown_ns = now_ns;
    fputs(CLEAR_LINE, stderr);
    if (share >= 0)
        fprintf(stderr, "%3.0f %%, ", 100 * share);
    fprintf(stderr, "%.1f s%s%s", (double)(now_ns - begin_ns) * 1e-9, stage && *stage ? ", " : "",
            stage ? stage : "");
}

void progress_end(void)
{
    if (shown_ns)
        fputs(CLEAR_LINE, stderr);
    begin_ns = shown_ns = 0;
}
