// SPDX-License-Identifier: Apache-2.0
#include "capture/io/damage.h"

#include <stdarg.h>
#include <stdio.h>

#define MAX_TOLD 10u

void damage_tell(struct damage *damage, uint64_t at, const char *format, ...)
{
    char what[200];
    if (damage->n++ >= MAX_TOLD)
        return;
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(what, sizeof what, format, arguments);
    va_end(arguments);
    log_to(damage->log, LOG_LEVEL_WARNING, "%s: damaged at byte %llu: %s", damage->name,
           (unsigned long long)at, what);
}

void damage_end(const struct damage *damage)
{
    if (damage->n > MAX_TOLD)
        log_to(damage->log, LOG_LEVEL_WARNING, "%s: damaged at %zu places more", damage->name,
               damage->n - MAX_TOLD);
}
