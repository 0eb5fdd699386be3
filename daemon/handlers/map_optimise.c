// SPDX-License-Identifier: Apache-2.0
// OptimiseMap: begun and asked for by way of the frame loop; the work is another thread's (window).
#include <errno.h>
#include <stdio.h>
#include <time.h>

#include "daemon/handlers/handlers.h"
#include "gpu/model/optimise.h"
#include "proto/clock.h"

#define ASK_EVERY_NS 20000000

static bool begin(struct handlers *handlers, const struct handlers_call *call)
{
    const struct shared_command command = {.kind = SHARED_OPTIMISE};
    struct shared_answer answer;
    const char *why = NULL;
    if (!handlers_command(handlers, &command, call, &answer))
        return false;
    switch (answer.error) {
    case 0:
        return true;
    case -ENOTSUP:
        why = "no keyframes are kept: map.keyframes is 0";
        break;
    case -EAGAIN:
        handlers_fail_searching(call->reply);
        return false;
    case -EALREADY:
        why = "the map is being optimised already: wait for it";
        break;
    case -ENODATA:
        why = "fewer than 3 keyframes: move the camera";
        break;
    default:
        handlers_fail_work(call->reply, answer.error, NULL);
        return false;
    }
    handlers_fail(call->reply, posed_Code_FAILED_PRECONDITION, NULL, "%s", why);
    return false;
}

// Waits for the end. Returns 0, -ESTALE (a new epoch), -ECANCELED (by the client), -ETIME, -EDOM
// and -ENOLINK (the poses cannot be solved for), -ENOMEM, or -EIO: the reply says why.
static int wait_for_end(struct handlers *handlers, const struct handlers_call *call,
                        struct optimise_report *out, uint64_t *out_next_seq)
{
    const struct timespec pause = {0, ASK_EVERY_NS};
    const struct shared_command command = {.kind = SHARED_OPTIMISED, .optimised = out};
    struct shared_answer answer = {.error = -EAGAIN};
    while (answer.error == -EAGAIN) {
        if (__atomic_load_n(&call->stop->requested, __ATOMIC_ACQUIRE))
            return -ECANCELED;
        if (clock_monotonic_ns() + ASK_EVERY_NS >= call->deadline_ns)
            return -ETIME;
        nanosleep(&pause, NULL);
        if (!handlers_command(handlers, &command, call, &answer))
            return call->reply->code == posed_Code_DEADLINE_EXCEEDED ? -ETIME : -EIO;
    }
    *out_next_seq = answer.next_seq;
    return answer.error == -ECANCELED || answer.error == -ENODATA ? -ESTALE : answer.error;
}

static void tell(struct handlers *handlers, const struct optimise_report *r)
{
    char text[200];
    snprintf(text, sizeof text,
             "map optimised: %u keyframes, the farthest moved by %.1f mm and %.2f degrees; the "
             "poses fit %u links to %.1f mm, those before to %.1f%s",
             r->n_keyframes, r->moved_m * 1e3, r->moved_rad * 57.29577951, r->n_links,
             r->apart_m * 1e3, r->apart_before_m * 1e3,
             r->has_field ? "; the camera's own error is taken out of them" : "");
    log_to(&handlers->log, LOG_LEVEL_NOTICE, "%s", text);
    handlers_event(handlers, posed_Event_Kind_MAP_MOVED, text);
}

void handlers_optimise_map(struct handlers *handlers, const struct handlers_call *call)
{
    struct optimise_report r;
    uint64_t next_seq;
    if (!begin(handlers, call))
        return;
    int error = wait_for_end(handlers, call, &r, &next_seq);
    if (error == -EIO)
        return;
    if (error == -ESTALE) {
        handlers_fail(call->reply, posed_Code_ABORTED, NULL,
                      "a new map epoch began meanwhile: its keyframes are others");
    } else if (error == -EDOM) {
        handlers_fail(
            call->reply, posed_Code_FAILED_PRECONDITION, NULL,
            "the keyframes cannot be solved for: their links leave some of them free. All "
            "are where they were: move the camera and ask again, or begin a new map "
            "(posectl reset)");
    } else if (error == -ENOLINK) {
        handlers_fail(
            call->reply, posed_Code_FAILED_PRECONDITION, NULL,
            "the keyframes cannot be solved for: nothing is measured between them but from "
            "each to the next. All are where they were: let the camera see again what it "
            "saw before, and ask again");
    } else if (error) {
        handlers_fail_work(call->reply, error, NULL);
    } else {
        tell(handlers, &r);
        call->reply->what.optimise_map =
            (posed_MapOptimised){.next_seq = next_seq,
                                 .keyframes = r.n_keyframes,
                                 .links = r.n_links,
                                 .residual_before_m = r.before,
                                 .residual_after_m = r.after,
                                 .moved_m = r.moved_m,
                                 .moved_rad = r.moved_rad,
                                 .has_own_error = r.has_field,
                                 .reduction = r.reduction,
                                 .links_before = r.n_links_before,
                                 .apart_before_m = r.apart_before_m,
                                 .apart_before_rad = r.apart_before_rad,
                                 .apart_m = r.apart_m,
                                 .apart_rad = r.apart_rad};
    }
}
