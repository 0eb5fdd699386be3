// SPDX-License-Identifier: Apache-2.0
#include "capture/io/damage.h"

#include <stdarg.h>
#include <stdio.h>

void damage_note(struct damage *damage, uint64_t at, const char *format, ...)
{
    const size_t i = damage->n++;
    if (i >= DAMAGE_MAX_TOLD)
        return;
    va_list arguments;
    va_start(arguments, format);
    damage->places[i].at = at;
    vsnprintf(damage->places[i].what, sizeof damage->places[i].what, format, arguments);
    va_end(arguments);
}

void damage_tell(const struct damage *damage, const char *name, const struct log_sink *log)
{
    for (size_t i = 0; i < damage->n && i < DAMAGE_MAX_TOLD; i++)
        log_to(log, LOG_LEVEL_WARNING, "%s: damaged at byte %llu: %s", name,
               (unsigned long long)damage->places[i].at, damage->places[i].what);
    if (damage->n > DAMAGE_MAX_TOLD)
        log_to(log, LOG_LEVEL_WARNING, "%s: damaged at %zu places more", name,
               damage->n - DAMAGE_MAX_TOLD);
}
