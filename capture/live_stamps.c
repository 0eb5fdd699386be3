// SPDX-License-Identifier: Apache-2.0
#include "capture/live_stamps.h"

// What is between two stamps more than between their arrivals.
static int64_t ahead_ns(const struct live_time *from, const struct live_time *to)
{
    return to->stamp_ns - from->stamp_ns - (to->arrived_ns - from->arrived_ns);
}

static bool goes_on(const struct live_time *from, const struct live_time *to)
{
    return to->stamp_ns > from->stamp_ns && ahead_ns(from, to) <= LIVE_STAMPS_AHEAD_NS;
}

static enum live_stamp take(struct live_stamps *stamps, const struct live_time *time,
                            enum live_stamp as)
{
    stamps->newest = *time;
    stamps->odd = stamps->first_odd = (struct live_time){0};
    stamps->is_new_source = false;
    return as;
}

enum live_stamp live_stamps_judge(struct live_stamps *stamps, int64_t stamp_ns, int64_t arrived_ns)
{
    const struct live_time now = {stamp_ns, arrived_ns};
    const struct live_time *newest = &stamps->newest;
    if (newest->arrived_ns == 0 || goes_on(newest, &now))
        return take(stamps, &now, LIVE_STAMP_TAKEN);
    const bool is_back = stamp_ns <= newest->stamp_ns;
    const bool agrees = stamps->odd.arrived_ns != 0 && goes_on(&stamps->odd, &now);
    if (!is_back && (agrees || stamps->is_new_source))
        return take(stamps, &now, LIVE_STAMP_TAKEN);
    stamps->odd = now;
    if (!agrees)
        stamps->first_odd = now;
    if (is_back &&
        (stamps->is_new_source || arrived_ns - stamps->first_odd.arrived_ns >= LIVE_STAMPS_BACK_NS))
        return take(stamps, &now, LIVE_STAMP_NEW_CLOCK);
    return is_back ? LIVE_STAMP_BACK : LIVE_STAMP_AHEAD;
}

void live_stamps_new_source(struct live_stamps *stamps)
{
    stamps->is_new_source = stamps->newest.arrived_ns != 0;
}
