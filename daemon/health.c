// SPDX-License-Identifier: Apache-2.0
#include "daemon/health.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "proto/clock.h"
#include "proto/wire.h"

#define SLOW_BEATS   3         // a busy moment is none
#define SILENT_BEATS 60        // between two hints
#define SEARCH_NS    250000000 // in a beat: it is the search

void health_diagnose(const struct health_outputs *outputs, posed_State state, double rate_hz,
                     struct ros_health *out)
{
    struct shared *shared = outputs->shared;
    char why[EPOCH_LINK_TEXT_BYTES];
    posed_Status status;
    shared_status(shared, &status);
    *out = (struct ros_health){.n_captured = shared_counter(shared, SHARED_CAPTURED),
                               .n_lost = shared_counter(shared, SHARED_LOST),
                               .n_dropped = shared_counter(shared, SHARED_DROPPED),
                               .n_damaged = shared_counter(shared, SHARED_DAMAGED),
                               .map_epoch = status.map_epoch,
                               .rate_hz = rate_hz};
    if (shared_fault(shared, why)) {
        out->is_error = true;
    } else if (state == posed_State_STATE_LOST) {
        out->is_error = true;
        snprintf(why, sizeof why, "%s", status.reason_text);
    } else if (epoch_link_tell(outputs->link, clock_monotonic_ns(), why)) {
        out->is_warning = true;
    } else if (state == posed_State_STATE_DEGRADED) {
        out->is_warning = true;
        snprintf(why, sizeof why, "%s", status.reason_text);
    }
    snprintf(out->message, sizeof out->message, "%s%s%s", wire_state_name(state),
             why[0] ? ": " : "", why);
}

// Of a recording that is played as fast as it goes.
static void put_progress(const struct health_outputs *outputs, uint64_t n_captured, double rate_hz)
{
    const uint64_t n_frames = shared_info(outputs->shared)->capture.n_frames;
    char text[80];
    if (n_frames)
        snprintf(text, sizeof text, "%3.0f %%, %" PRIu64 " of %" PRIu64 " frames, %.0f frames/s",
                 100 * (double)n_captured / (double)n_frames, n_captured, n_frames, rate_hz);
    else
        snprintf(text, sizeof text, "%" PRIu64 " frames, %.0f frames/s", n_captured, rate_hz);
    log_show_status(outputs->terminal, text);
}

static struct health_frames frames_now(const struct shared *shared)
{
    return (struct health_frames){.n_captured = shared_counter(shared, SHARED_CAPTURED),
                                  .n_dropped = shared_counter(shared, SHARED_DROPPED),
                                  .n_damaged = shared_counter(shared, SHARED_DAMAGED),
                                  .n_tracked = shared_counter(shared, SHARED_TRACKED) +
                                               shared_counter(shared, SHARED_DEGRADED) +
                                               shared_counter(shared, SHARED_LOST)};
}

static struct health_frames since(const struct health_frames *before,
                                  const struct health_frames *now)
{
    return (struct health_frames){
        now->n_captured - before->n_captured, now->n_dropped - before->n_dropped,
        now->n_damaged - before->n_damaged, now->n_tracked - before->n_tracked};
}

static bool is_hint_due(struct health *health, const struct health_frames *newest)
{
    bool slow = 20 * newest->n_dropped > newest->n_captured;
    health->n_slow = slow ? health->n_slow + 1 : 0;
    if (health->n_silent > 0)
        health->n_silent--;
    if (health->n_slow < SLOW_BEATS || health->n_silent > 0)
        return false;
    health->n_silent = SILENT_BEATS;
    return true;
}

// newest: of the beats that are looked at.
static void look_for_fault(struct health *health, const struct health_outputs *outputs,
                           const struct health_frames *newest)
{
    char text[SHARED_FAULT_BYTES] = "";
    const bool is_at_fault =
        health->n_beats >= HEALTH_FAULT_BEATS && newest->n_captured > 1 && newest->n_tracked == 0;
    if (is_at_fault)
        snprintf(text, sizeof text,
                 "none of the last %" PRIu64 " frames could be tracked: %" PRIu64
                 " damaged, %" PRIu64 " dropped",
                 newest->n_captured, newest->n_damaged, newest->n_dropped);
    shared_set_fault(outputs->shared, text);
    if (health->n_fault_silent > 0)
        health->n_fault_silent--;
    if (is_at_fault && health->n_fault_silent == 0) {
        health->n_fault_silent = SILENT_BEATS;
        health->is_told = true;
        log_to(outputs->log, LOG_LEVEL_WARNING, "%s", text);
    } else if (health->is_told && newest->n_tracked > 0) {
        health->n_fault_silent = 0;
        health->is_told = false;
        log_to(outputs->log, LOG_LEVEL_NOTICE, "frames are tracked again");
    }
}

// Why frames were dropped.
static void fill_why(const struct health *health, char *out, size_t size_bytes)
{
    if (health->search_ns < SEARCH_NS)
        snprintf(out, size_bytes, HEALTH_TOO_SLOW);
    else
        snprintf(out, size_bytes,
                 "the search for the lost camera takes %.0f ms a frame, until it is found",
                 (double)health->search_ns * 1e-6 / (double)health->n_searched);
}

void health_searched(struct health *health, int64_t search_ns)
{
    health->n_searched += search_ns > 0;
    health->search_ns += search_ns;
}

void health_beat(struct health *health, const struct health_outputs *outputs, posed_State state,
                 double rate_hz)
{
    const struct health_frames now = frames_now(outputs->shared);
    const struct health_frames newest = since(&health->last[0], &now);
    const struct health_frames of_all = since(&health->last[HEALTH_FAULT_BEATS - 1], &now);
    if (is_hint_due(health, &newest)) {
        char why[200];
        fill_why(health, why, sizeof why);
        log_to(outputs->log, LOG_LEVEL_NOTICE,
               "%" PRIu64 " of the last %" PRIu64 " frames were dropped: %s", newest.n_dropped,
               newest.n_captured, why);
    }
    health->n_searched = 0;
    health->search_ns = 0;
    look_for_fault(health, outputs, &of_all);
    memmove(health->last + 1, health->last, sizeof health->last - sizeof *health->last);
    health->last[0] = now;
    health->n_beats++;
    if (outputs->ros) {
        struct ros_health diagnosis;
        health_diagnose(outputs, state, rate_hz, &diagnosis);
        ros_put_health(outputs->ros, outputs->camera, &diagnosis);
    }
    if (outputs->terminal && now.n_captured)
        put_progress(outputs, now.n_captured, rate_hz);
}
