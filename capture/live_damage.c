// SPDX-License-Identifier: Apache-2.0
#include "capture/live_damage.h"

void live_damage_note(struct live_damage *damage, int64_t now_ns, uint64_t index,
                      const char *format, ...)
{
    char what[160], meanwhile[80] = "";
    va_list args;
    damage->n++;
    if (damage->n > 1 && now_ns - damage->told_ns < LIVE_DAMAGE_QUIET_NS)
        return;
    const uint64_t n_before = damage->n - damage->n_told - 1;
    if (n_before > 0)
        snprintf(meanwhile, sizeof meanwhile, "; %llu before it were damaged, too",
                 (unsigned long long)n_before);
    va_start(args, format);
    vsnprintf(what, sizeof what, format, args);
    va_end(args);
    log_to(&damage->log, LOG_LEVEL_WARNING, "%s: frame %llu: %s%s", damage->name,
           (unsigned long long)index, what, meanwhile);
    damage->n_told = damage->n;
    damage->told_ns = now_ns;
}

void live_damage_end(const struct live_damage *damage)
{
    if (damage->n > 1)
        log_to(&damage->log, LOG_LEVEL_WARNING, "%s: %llu frames were damaged", damage->name,
               (unsigned long long)damage->n);
}
