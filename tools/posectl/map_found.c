// SPDX-License-Identifier: Apache-2.0
#include "tools/posectl/map_found.h"

#include <inttypes.h>
#include <stdio.h>
#include <time.h>

#include "proto/clock.h"
#include "tools/posectl/progress.h"

#define ASK_EVERY_NS 200000000

static bool is_found(const posed_Status *s)
{
    return (s->state == posed_State_STATE_TRACKING || s->state == posed_State_STATE_DEGRADED) &&
           s->has_map_from_odom;
}

static void show(const posed_Status *s, uint64_t n_before)
{
    char text[160];
    if (s->paused)
        snprintf(text, sizeof text, "the recording is paused: posectl replay resume");
    else
        snprintf(text, sizeof text,
                 "%s, looked for with %" PRIu64 " frames: show it the map's place",
                 wire_state_name(s->state), s->searching_frames - n_before);
    progress_show(-1, text);
}

enum posectl_exit map_found_wait(const struct posectl *ctl, const struct map_found_before *before,
                                 double seconds, posed_Reply *reply, posed_Status *out_status)
{
    const struct timespec pause = {0, ASK_EVERY_NS};
    const int64_t until_ns = clock_monotonic_ns() + (int64_t)(seconds * 1e9);
    uint32_t epoch = 0;
    bool has_begun = false, was_lost = false;
    for (;;) {
        posed_Request request = posed_Request_init_zero;
        request.which_what = posed_Request_get_status_tag;
        enum posectl_exit result = posectl_request(ctl, &request, reply);
        const posed_Status *s = &reply->what.get_status;
        if (result) {
            progress_end();
            return result;
        }
        // A tracker that lost the camera and began anew is looked for in the same map.
        if (!has_begun || (was_lost && s->state == posed_State_STATE_SEARCHING))
            epoch = s->map_epoch;
        was_lost = s->state == posed_State_STATE_LOST;
        // Of the frames before there is nothing to be told. The state and its epoch are of the same
        // frame; captured_frames is not, and counts images that were left out. Another epoch may
        // have begun while the file was read, in which nothing was looked for.
        has_begun = has_begun ||
                    (s->map_epoch != before->epoch && s->searching_frames > before->n_searched);
        if (has_begun && is_found(s)) {
            progress_end();
            *out_status = *s;
            if (s->map_epoch == epoch)
                return POSECTL_OK;
            posectl_complain("another map epoch began meanwhile (a reset, or another request)");
            return POSECTL_FAILED;
        }
        if (clock_monotonic_ns() >= until_ns) {
            progress_end();
            posectl_complain("not found within %g s, with %" PRIu64
                             " frames%s: move the camera to where the map was made; it is looked "
                             "for on and on (posectl status), until posectl reset begins a new one",
                             seconds, s->searching_frames - before->n_searched,
                             s->paused ? ", and the recording is paused" : "");
            return POSECTL_FAILED;
        }
        show(s, before->n_searched);
        nanosleep(&pause, NULL);
    }
}
