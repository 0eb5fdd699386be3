// SPDX-License-Identifier: Apache-2.0
#include "capture/io/damage.h"

#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>

void damage_note(struct damage *damage, uint64_t at, const char *format, ...)
{
    const size_t i = damage->n++;
    damage->records_end = 0;
    if (i >= DAMAGE_MAX_TOLD)
        return;
    va_list arguments;
    va_start(arguments, format);
    damage->places[i].at = at;
    vsnprintf(damage->places[i].what, sizeof damage->places[i].what, format, arguments);
    va_end(arguments);
}

void damage_note_record(struct damage *damage, uint64_t begin, uint64_t end)
{
    const bool goes_on = damage->records_end && damage->records_end == begin;
    damage->n += !goes_on;
    damage->records_end = end;
    if (damage->n > DAMAGE_MAX_TOLD)
        return;
    const size_t i = damage->n - 1;
    damage->places[i].at = goes_on ? damage->places[i].at : begin;
    damage->places[i].n_bytes += end - begin;
    damage->places[i].n_records++;
}

static void tell_of_records(const struct damage *damage, size_t i, const char *name,
                            const struct log_sink *log)
{
    const unsigned long long at = damage->places[i].at, n_bytes = damage->places[i].n_bytes,
                             n = damage->places[i].n_records;
    if (n == 1)
        log_to(log, LOG_LEVEL_WARNING,
               "%s: damaged at byte %llu: a record cannot be read, %llu bytes", name, at, n_bytes);
    else
        log_to(log, LOG_LEVEL_WARNING,
               "%s: damaged at byte %llu: %llu records cannot be read, %llu bytes", name, at, n,
               n_bytes);
}

void damage_tell(const struct damage *damage, const char *name, const struct log_sink *log)
{
    for (size_t i = 0; i < damage->n && i < DAMAGE_MAX_TOLD; i++)
        if (damage->places[i].n_records)
            tell_of_records(damage, i, name, log);
        else
            log_to(log, LOG_LEVEL_WARNING, "%s: damaged at byte %llu: %s", name,
                   (unsigned long long)damage->places[i].at, damage->places[i].what);
    if (damage->n > DAMAGE_MAX_TOLD)
        log_to(log, LOG_LEVEL_WARNING, "%s: damaged at %zu places more", name,
               damage->n - DAMAGE_MAX_TOLD);
}
