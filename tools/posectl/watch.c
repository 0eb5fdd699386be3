// SPDX-License-Identifier: Apache-2.0
// posectl status, posectl watch: what the daemon says of itself, once and as it comes.
#include <inttypes.h>
#include <string.h>

#include "tools/posectl/posectl.h"

#define MAX_TOPICS 16

static posed_Reply reply; // large

static void print_status(const posed_Status *s)
{
    printf("%-11s %s%s%s%s\n", "state", s->paused ? "paused, " : "", wire_state_name(s->state),
           s->reason_text[0] ? ": " : "", s->reason_text);
    printf("%-11s %s\n", "source", s->source_description);
    printf("%-11s %s, reference %s\n", "backend", s->backend, wire_reference_name(s->reference));
    printf("%-11s %.1f frames/s\n", "rate", s->rate_hz);
    printf("%-11s %" PRIu64, "frames", s->captured_frames);
    if (s->expected_frames)
        printf(" of %" PRIu64, s->expected_frames);
    printf(": %" PRIu64 " tracked, %" PRIu64 " degraded, %" PRIu64 " lost, %" PRIu64
           " dropped, %" PRIu64 " damaged, %" PRIu64 " duplicates\n",
           s->tracked_frames, s->degraded_frames, s->lost_frames, s->dropped_frames,
           s->damaged_frames, s->duplicate_frames);
    printf("%-11s %" PRIu64 " answered, %" PRIu64 " malformed, %" PRIu64 " rejected\n", "requests",
           s->requests, s->bad_requests, s->rejected_requests);
    if (s->recording[0])
        printf("%-11s %s\n", "recording", s->recording);
    printf("%-11s %s, up %.1f s, %.1f MB resident\n", "daemon", s->version, s->uptime_s,
           (double)s->resident_bytes * 1e-6);
}

int posectl_status(struct posectl *ctl, int argc, char **argv)
{
    static const struct argp argp = {.parser = posectl_option,
                                     .children = posectl_common,
                                     .doc = "Shows what a running posed is doing."};
    posed_Request request = posed_Request_init_zero;
    posectl_parse(ctl, &argp, argc, argv);
    request.which_what = posed_Request_get_status_tag;
    enum posectl_exit result = posectl_request(ctl, &request, &reply);
    if (result)
        return (int)result;
    if (ctl->json)
        posectl_print_json(stdout, wire_json_status(&reply.what.get_status), false);
    else
        print_status(&reply.what.get_status);
    return (int)posectl_close(ctl, stdout);
}

// The first one is there for its heartbeat, by which a daemon without a camera shows its life.
static const char *watch_topics[1 + MAX_TOPICS] = {"status"};
static size_t n_watch_topics = 1;
static unsigned long watch_count;

static error_t on_watch_option(int key, char *arg, struct argp_state *state)
{
    switch (key) {
    case 'n':
        watch_count = argument_count(state, "count", arg, 1, UINT32_MAX);
        return 0;
    case ARGP_KEY_ARG:
        if (strcmp(arg, "pose") != 0 && strcmp(arg, "object") != 0 && strcmp(arg, "status") != 0 &&
            strcmp(arg, "event") != 0 && strcmp(arg, "log") != 0)
            argp_error(state, "no topic \"%s\": pose, object, status, event, log are shown", arg);
        if (n_watch_topics <= MAX_TOPICS)
            watch_topics[n_watch_topics++] = arg;
        return 0;
    }
    return posectl_option(key, arg, state);
}

static void show_odometry(const struct posectl *ctl, const posed_Odometry *o)
{
    if (ctl->json) {
        posectl_print_json(
            stdout,
            json_pack("{s:s, s:I, s:f, s:s, s:s, s:o, s:f, s:f, s:i, s:i, s:I, s:I, s:I, s:f, s:f}",
                      "topic", "pose", "seq", (json_int_t)o->seq, "time_s",
                      wire_seconds(&o->timestamp), "state", wire_state_name(o->state), "reason",
                      o->reason_text, "pose", wire_json_pose(&o->pose), "residual_rms_m",
                      o->residual_rms_m, "inlier_ratio", o->inlier_ratio, "iterations",
                      (int)o->iterations, "degenerate_mask", (int)o->degenerate_mask, "map_epoch",
                      (json_int_t)o->map_epoch, "dropped_frames", (json_int_t)o->dropped_frames,
                      "frame_index", (json_int_t)o->frame_index, "track_us",
                      (double)o->stages.track_us, "added_us", (double)o->stages.added_us),
            true);
        return;
    }
    const posed_Vector3 *p = &o->pose.position;
    const posed_Quaternion *q = &o->pose.orientation;
    printf("%7" PRIu64 " %15.6f %-8s %8.4f %8.4f %8.4f  %8.5f %8.5f %8.5f %8.5f  %6.2f ms %s\n",
           o->seq, wire_seconds(&o->timestamp), wire_state_name(o->state), p->x, p->y, p->z, q->x,
           q->y, q->z, q->w, (double)o->stages.track_us * 1e-3, o->reason_text);
}

static void show_object(const struct posectl *ctl, const posed_ObjectPose *o)
{
    if (ctl->json) {
        posectl_print_json(
            stdout,
            json_pack("{s:s, s:I, s:f, s:s, s:b, s:o, s:f, s:f, s:f}", "topic", "object", "seq",
                      (json_int_t)o->seq, "time_s", wire_seconds(&o->timestamp), "object",
                      o->object, "lost", (int)o->lost, "T_camera_object", wire_json_pose(&o->pose),
                      "confidence", (double)o->confidence, "visible", (double)o->visible,
                      "residual_rms_m", (double)o->residual_rms_m),
            true);
        return;
    }
    const posed_Vector3 *p = &o->pose.position;
    const posed_Quaternion *q = &o->pose.orientation;
    printf("%7" PRIu64 " %15.6f %-8s %8.4f %8.4f %8.4f  %8.5f %8.5f %8.5f %8.5f  %s, confidence "
           "%.3f, %.0f %% seen\n",
           o->seq, wire_seconds(&o->timestamp), o->lost ? "LOST" : "SEEN", p->x, p->y, p->z, q->x,
           q->y, q->z, q->w, o->object, (double)o->confidence, (double)o->visible * 100);
}

// One message of a topic that is shown. Returns false when it is none.
static bool show_message(const struct posectl *ctl, const char *topic, const uint8_t *bytes,
                         size_t n_bytes)
{
    static union {
        posed_Odometry odometry;
        posed_ObjectPose object;
        posed_Status status;
        posed_Event event;
        posed_Log log;
    } m;
    if (strcmp(topic, "pose") == 0) {
        if (wire_decode(posed_Odometry_fields, bytes, n_bytes, &m.odometry) != 0)
            return false;
        show_odometry(ctl, &m.odometry);
    } else if (strcmp(topic, "object") == 0) {
        if (wire_decode(posed_ObjectPose_fields, bytes, n_bytes, &m.object) != 0)
            return false;
        show_object(ctl, &m.object);
    } else if (strcmp(topic, "status") == 0) {
        if (wire_decode(posed_Status_fields, bytes, n_bytes, &m.status) != 0)
            return false;
        if (ctl->json) {
            json_t *status = wire_json_status(&m.status);
            json_object_set_new(status, "topic", json_string("status"));
            posectl_print_json(stdout, status, true);
        } else {
            printf("status: %s, %" PRIu64 " frames, %.1f frames/s\n",
                   wire_state_name(m.status.state), m.status.captured_frames, m.status.rate_hz);
        }
    } else {
        bool is_event = strcmp(topic, "event") == 0;
        if (wire_decode(is_event ? posed_Event_fields : posed_Log_fields, bytes, n_bytes, &m) != 0)
            return false;
        const char *text = is_event ? m.event.message : m.log.message;
        if (ctl->json)
            posectl_print_json(stdout, json_pack("{s:s, s:s}", "topic", topic, "message", text),
                               true);
        else
            printf("%s: %s\n", topic, text);
    }
    return true;
}

static bool is_watched(const char *topic)
{
    for (size_t i = 1; i < n_watch_topics; i++)
        if (strcmp(watch_topics[i], topic) == 0)
            return true;
    return false;
}

// Shows messages until --count of them or until the daemon falls silent. Its heartbeat comes every
// second even without a camera.
static enum posectl_exit watch(const struct posectl *ctl, struct posectl_subscription *subscription)
{
    const char *endpoint = posectl_subscribed_to(subscription);
    unsigned long n_shown = 0;
    bool any = false;
    char topic[POSECTL_TOPIC_BYTES];
    const uint8_t *bytes;
    size_t n_bytes;
    while ((watch_count == 0 || n_shown < watch_count) &&
           posectl_receive(subscription, topic, &bytes, &n_bytes)) {
        any = true;
        if (is_watched(topic) && show_message(ctl, topic, bytes, n_bytes))
            n_shown++;
        if (ferror(stdout) || fflush(stdout) != 0)
            break;
    }
    if (ferror(stdout))
        return POSECTL_FAILED;
    if (!any) {
        posectl_explain_silence(subscription);
        return POSECTL_NO_ANSWER;
    }
    if (watch_count && n_shown < watch_count) {
        posectl_complain("%s has fallen silent after %lu messages", endpoint, n_shown);
        return POSECTL_NO_ANSWER;
    }
    if (!watch_count)
        posectl_complain("%s has fallen silent: the daemon has ended", endpoint);
    return POSECTL_OK;
}

int posectl_watch(struct posectl *ctl, int argc, char **argv)
{
    static const struct argp_option options[] = {{"count", 'n', "N", 0, "End after N messages", 0},
                                                 {0}};
    static const struct argp argp = {
        .options = options,
        .parser = on_watch_option,
        .args_doc = "[TOPIC...]",
        .children = posectl_common,
        .doc = "Shows poses as they come: frame, time, state, position, quaternion x y z w, time "
               "of tracking, reason. TOPIC: pose (default), object (one that search --track "
               "follows, in "
               "the camera's frame), status, event, log."};
    struct posectl_subscription *subscription;
    posectl_parse(ctl, &argp, argc, argv);
    if (n_watch_topics == 1)
        watch_topics[n_watch_topics++] = "pose";
    enum posectl_exit result = posectl_subscribe(&subscription, ctl, watch_topics, n_watch_topics);
    if (!result)
        result = watch(ctl, subscription);
    posectl_unsubscribe(&subscription);
    return (int)result;
}
