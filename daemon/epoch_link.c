// SPDX-License-Identifier: Apache-2.0
#include "daemon/epoch_link.h"

#include <stdio.h>

static const char *const reasons[] = {
    [EPOCH_BY_TRACKER] = "tracking was lost, and began anew at the last pose",
    [EPOCH_BY_REQUEST] = "",
    [EPOCH_BY_MAP] = "",
    [EPOCH_BY_CLOCK] = "the images' clock was set",
    [EPOCH_BY_CAMERA] = "the camera is another one",
    [EPOCH_BY_DEVICE] = "the device failed",
};

void epoch_link_expect(struct epoch_link *link, enum epoch_cause cause)
{
    if (cause == EPOCH_BY_MAP && link->next != EPOCH_BY_TRACKER)
        return; // what came before it has cut the way, or a reset has ended that
    link->next = cause;
    if (cause == EPOCH_BY_CAMERA || cause == EPOCH_BY_DEVICE)
        link->is_searched = false; // the loaded map went with it
}

void epoch_link_follow(struct epoch_link *link, uint32_t epoch, bool is_searching, int64_t now_ns)
{
    const enum epoch_cause cause = link->next;
    const bool begins = link->has_epoch && epoch != link->epoch;
    link->next = EPOCH_BY_TRACKER;
    link->has_epoch = true;
    link->epoch = epoch;
    if (begins && cause == EPOCH_BY_REQUEST) {
        link->is_cut = false;
    } else if (begins && cause != EPOCH_BY_MAP) {
        link->is_cut = true;
        link->cut_epoch = epoch;
        link->cause = cause;
        link->cut_ns = now_ns;
    } else if (!begins && link->is_searched && !is_searching) {
        link->is_cut = false; // found: what the map was made with is before it
    }
    link->is_searched = is_searching;
}

bool epoch_link_tell(const struct epoch_link *link, int64_t now_ns, char out[EPOCH_LINK_TEXT_BYTES])
{
    if (!link->is_cut || now_ns - link->cut_ns >= EPOCH_LINK_TOLD_NS)
        return false;
    snprintf(out, EPOCH_LINK_TEXT_BYTES,
             "the way since map epoch %u began is not connected to that before: %s",
             link->cut_epoch, reasons[link->cause]);
    return true;
}
