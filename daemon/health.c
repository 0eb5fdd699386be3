// SPDX-License-Identifier: Apache-2.0
#include "daemon/health.h"

#include <inttypes.h>

#include "proto/wire.h"

#define SLOW_BEATS   3  // a busy moment is none
#define SILENT_BEATS 60 // between two hints

static void put_ros(const struct health_outputs *outputs, posed_State state, double rate_hz)
{
    struct shared *shared = outputs->shared;
    struct ros_health health = {.is_error = state == posed_State_STATE_LOST ||
                                            state == posed_State_STATE_NO_INPUT,
                                .is_warning = state == posed_State_STATE_DEGRADED,
                                .n_captured = shared_counter(shared, SHARED_CAPTURED),
                                .n_lost = shared_counter(shared, SHARED_LOST),
                                .n_dropped = shared_counter(shared, SHARED_DROPPED),
                                .n_damaged = shared_counter(shared, SHARED_DAMAGED),
                                .rate_hz = rate_hz};
    posed_Status status;
    const char *why = "";
    shared_status(shared, &status);
    if (state == posed_State_STATE_NO_INPUT)
        why = status.reason_text;
    if (state == posed_State_STATE_INIT && health.n_captured > 0 &&
        health.n_dropped + health.n_damaged >= health.n_captured) {
        health.is_warning = true;
        why = "none of the frames could be tracked";
    }
    snprintf(health.message, sizeof health.message, "%s%s%.48s", wire_state_name(state),
             why[0] ? ": " : "", why);
    ros_put_health(outputs->ros, outputs->camera, &health);
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

static bool is_hint_due(struct health *health, uint64_t n_captured, uint64_t n_dropped)
{
    bool slow = 20 * (n_dropped - health->n_dropped) > n_captured - health->n_captured;
    health->n_slow = slow ? health->n_slow + 1 : 0;
    if (health->n_silent > 0)
        health->n_silent--;
    if (health->n_slow < SLOW_BEATS || health->n_silent > 0)
        return false;
    health->n_silent = SILENT_BEATS;
    return true;
}

void health_beat(struct health *health, const struct health_outputs *outputs, posed_State state,
                 double rate_hz)
{
    const uint64_t n_captured = shared_counter(outputs->shared, SHARED_CAPTURED);
    const uint64_t n_dropped = shared_counter(outputs->shared, SHARED_DROPPED);
    if (is_hint_due(health, n_captured, n_dropped))
        log_to(outputs->log, LOG_LEVEL_NOTICE,
               "%" PRIu64 " of the last %" PRIu64 " frames were dropped: " HEALTH_TOO_SLOW,
               n_dropped - health->n_dropped, n_captured - health->n_captured);
    health->n_captured = n_captured;
    health->n_dropped = n_dropped;
    if (outputs->ros)
        put_ros(outputs, state, rate_hz);
    if (outputs->terminal && n_captured)
        put_progress(outputs, n_captured, rate_hz);
}
