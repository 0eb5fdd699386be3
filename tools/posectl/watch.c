// SPDX-License-Identifier: Apache-2.0
// posectl status, posectl watch: what the daemon says of itself, once and as it comes.
#include <inttypes.h>
#include <string.h>
#include <time.h>

#include "proto/clock.h"
#include "tools/client/address.h"
#include "tools/posectl/posectl.h"
#include "tools/posectl/watch_lines.h"

#define MAX_TOPICS  16
#define MAX_CAMERAS 16
#define ASK_MS      1000
#define QUIET_NS    INT64_C(2000000000) // two heartbeats: what comes at all has come as a rule

static posed_Reply reply; // large

// The one that is written, and how the last one ended.
static void print_recording(const posed_Status *s)
{
    const posed_EndedRecording *last = &s->last_recording;
    const time_t seconds = (time_t)last->timestamp.seconds;
    char when[32] = "";
    struct tm local;
    if (s->recording[0])
        printf("%-11s %s\n", "recording", s->recording);
    if (!s->has_last_recording)
        return;
    if (localtime_r(&seconds, &local))
        strftime(when, sizeof when, "%Y-%m-%d %H:%M:%S", &local);
    printf("%-11s %s %s %s: %s\n", s->recording[0] ? "" : "recording", last->name,
           last->failed ? "FAILED" : "ended", when, last->detail);
}

// What there is to know of the map, and where odom lies in it.
static void print_map(const posed_Status *s)
{
    const posed_Vector3 *p = &s->map_from_odom.position;
    const posed_Quaternion *q = &s->map_from_odom.orientation;
    const char *name = "map";
    if (s->state == posed_State_STATE_SEARCHING) {
        printf("%-11s the camera is looked for in the loaded map, with %" PRIu64
               " frames so far: move it to where that was made, or posectl reset\n",
               name, s->searching_frames);
        name = "";
    }
    if (s->has_map_from_odom) {
        printf("%-11s from odom (map_from_odom): %.4f %.4f %.4f  %.5f %.5f %.5f %.5f\n", name, p->x,
               p->y, p->z, q->x, q->y, q->z, q->w);
        name = "";
    }
    if (s->map_left_out_blocks)
        printf("%-11s full: new places are left out, of one frame %" PRIu32 " blocks or more "
               "(map.memory_bytes, map.far_bytes)\n",
               name, s->map_left_out_blocks);
}

static void print_status(const posed_Status *s)
{
    printf("%-11s %s%s%s%s\n", "state", s->paused ? "paused, " : "", wire_state_name(s->state),
           s->reason_text[0] ? ": " : "", s->reason_text);
    for (pb_size_t i = 0; i < s->cameras_count; i++)
        printf("%-11s %s%s\n", i ? "" : "cameras", s->cameras[i],
               strcmp(s->cameras[i], s->camera) ? "" : " (this one)");
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
    if (s->reduced_frames)
        printf("%-11s less work on %" PRIu64 " frames (tracker.adapt)\n", "", s->reduced_frames);
    print_map(s);
    printf("%-11s %" PRIu64 " answered, %" PRIu64 " malformed, %" PRIu64 " rejected\n", "requests",
           s->requests, s->bad_requests, s->rejected_requests);
    print_recording(s);
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
        if (watch_lines_is_topic(arg) && strchr(arg, '/') && strchr(arg, '/')[1])
            argp_error(state, "\"%s\" is a topic of one camera: %.*s --camera %s watches it", arg,
                       (int)strcspn(arg, "/"), arg, strchr(arg, '/') + 1);
        if (!watch_lines_is_topic(arg) || strchr(arg, '/'))
            argp_error(state, "no topic \"%s\": " WATCH_LINES_TOPICS, arg);
        if (n_watch_topics <= MAX_TOPICS)
            watch_topics[n_watch_topics++] = arg;
        return 0;
    }
    return posectl_option(key, arg, state);
}

static bool is_watched(const char *topic)
{
    size_t n = strcspn(topic, "/"); // a camera's name may stand behind it
    for (size_t i = 1; i < n_watch_topics; i++)
        if (strlen(watch_topics[i]) == n && memcmp(watch_topics[i], topic, n) == 0)
            return true;
    return false;
}

static bool is_one_of(const char *topic, const char *const *names)
{
    const size_t n = strcspn(topic, "/");
    for (; *names; names++)
        if (strlen(*names) == n && memcmp(*names, topic, n) == 0)
            return true;
    return false;
}

// A healthy daemon may have none of them for hours, or but one.
static bool is_rare(const char *topic)
{
    static const char *const rare[] = {"event", "log", "calib", NULL};
    return is_one_of(topic, rare);
}

static void name_topics(bool with_rare, char *out, size_t size_bytes)
{
    out[0] = 0;
    for (size_t i = 1, n = 0; i < n_watch_topics && n < size_bytes; i++)
        if (with_rare || !is_rare(watch_topics[i]))
            n += (size_t)snprintf(out + n, size_bytes - n, "%s%s", n > 0 ? ", " : "",
                                  watch_topics[i]);
}

// The topic that is watched alone, of those that not every daemon has; else "".
static const char *special_topic(void)
{
    static const char *const special[] = {"object", "imu", "rig", NULL};
    const char *found = "";
    for (size_t i = 1; i < n_watch_topics; i++)
        if (is_one_of(watch_topics[i], special))
            found = watch_topics[i];
        else if (!is_rare(watch_topics[i]))
            return "";
    return found;
}

// What a daemon does that sends nothing of what is watched, and what to do. Returns whether that is
// a pause.
static bool describe_quiet(const posed_Status *s, char *out, size_t size_bytes)
{
    const char *special = special_topic();
    const bool is_imu = strcmp(special, "imu") == 0, is_rig = strcmp(special, "rig") == 0;
    const bool is_paused = s->paused && !is_imu && !is_rig;
    if (is_rig) // any one of the cameras would do
        snprintf(out, size_bytes, "%s",
                 s->cameras_count > 1 ? "a rig has rig = FILE (posectl rig calibrate) in the "
                                        "section of each camera but the first"
                                      : "a rig is several cameras, and this daemon has one "
                                        "(OPERATIONS.md, Several cameras)");
    else if (is_imu && !s->live)
        snprintf(out, size_bytes,
                 "imu is of a live camera with an accelerometer, and this source is a recording or "
                 "synthetic");
    else if (is_paused)
        snprintf(out, size_bytes,
                 "the recording is paused: posectl replay resume goes on, replay step shows a "
                 "frame");
    else if (s->state == posed_State_STATE_NO_INPUT)
        snprintf(out, size_bytes, "the daemon waits for frames of %s (%s)", s->source,
                 s->reason_text[0] ? s->reason_text : "NO_INPUT");
    else if (strcmp(special, "object") == 0)
        snprintf(out, size_bytes,
                 "the daemon follows no object: posectl search --track has it follow one");
    else if (is_imu)
        snprintf(out, size_bytes, "the camera tells nothing of an accelerometer");
    else
        snprintf(out, size_bytes, "the daemon is %s at %.1f frames/s", wire_state_name(s->state),
                 s->rate_hz);
    return is_paused;
}

struct watched_camera {
    char name[POSECTL_TOPIC_BYTES]; // as it stands behind a topic; empty: the only one
    int64_t heard_ns;               // its newest message that is watched, at first any
    bool told_pause, told;
};

static struct watched_camera cameras[MAX_CAMERAS];
static size_t n_cameras;

// Of the camera that a topic names, from its first message on. NULL: one too many.
static struct watched_camera *find_camera(const char *topic, int64_t now_ns)
{
    const char *name = topic + strcspn(topic, "/");
    for (size_t i = 0; i < n_cameras; i++)
        if (strcmp(cameras[i].name, name) == 0)
            return &cameras[i];
    if (n_cameras == MAX_CAMERAS)
        return NULL;
    struct watched_camera *fresh = &cameras[n_cameras++];
    snprintf(fresh->name, sizeof fresh->name, "%s", name);
    fresh->heard_ns = now_ns;
    return fresh;
}

// What has no camera's name, as `rig`, comes from all of them.
static void hear(const char *topic, int64_t now_ns)
{
    const char *name = topic + strcspn(topic, "/");
    for (size_t i = 0; i < n_cameras && !is_rare(topic); i++)
        if (!name[0] || strcmp(cameras[i].name, name) == 0) {
            cameras[i].heard_ns = now_ns;
            cameras[i].told_pause = false;
        }
}

// Whether a topic is watched that each camera has by itself.
static bool is_of_cameras(void)
{
    for (size_t i = 1; i < n_watch_topics; i++)
        if (!is_rare(watch_topics[i]) && watch_lines_is_of_camera(watch_topics[i]))
            return true;
    return false;
}

// Without a word a quiet daemon looks like a hung program. Of each camera a pause is told of once
// until a message comes, anything else once; of what all cameras have together the first one tells.
static void tell_quiet(struct watched_camera *camera, const uint8_t *bytes, size_t n_bytes,
                       int64_t now_ns)
{
    posed_Status *s = &reply.what.get_status;
    const bool names_camera = is_of_cameras() && camera->name[0];
    camera = is_of_cameras() ? camera : &cameras[0];
    char topics[MAX_TOPICS * POSECTL_TOPIC_BYTES], why[800];
    name_topics(false, topics, sizeof topics);
    if (!topics[0] || now_ns - camera->heard_ns < QUIET_NS ||
        wire_decode(posed_Status_fields, bytes, n_bytes, s) != 0)
        return;
    bool *told = describe_quiet(s, why, sizeof why) ? &camera->told_pause : &camera->told;
    if (*told)
        return;
    *told = true;
    posectl_complain("no message of topic %s%s%s comes: %s", topics,
                     names_camera ? " of camera " : "", names_camera ? camera->name + 1 : "", why);
}

// Why nothing came, or nothing in time: perhaps the daemon has no such camera, or nothing to say.
// An address of `pub` alone cannot be asked.
static enum posectl_exit why_nothing(const struct posectl *ctl,
                                     const struct posectl_subscription *subscription)
{
    char address[ADDRESS_MAX];
    posed_Request request = posed_Request_init_zero;
    request.which_what = posed_Request_get_status_tag;
    address_find(ctl->endpoint, ADDRESS_REQ, address);
    const bool asks = (ctl->camera[0] || ctl->has_timeout) &&
                      strcmp(address, posectl_subscribed_to(subscription)) != 0 &&
                      posectl_is_connected(subscription);
    struct posectl brief = *ctl; // the time that was given is over
    brief.timeout_ms = ctl->timeout_ms < ASK_MS ? ctl->timeout_ms : ASK_MS;
    enum posectl_exit result = asks ? posectl_request(&brief, &request, &reply) : POSECTL_OK;
    if (result)
        return result; // and has been told
    if (!asks || !ctl->has_timeout) {
        posectl_explain_silence(subscription);
        return POSECTL_NO_ANSWER;
    }
    char topics[MAX_TOPICS * POSECTL_TOPIC_BYTES], why[800];
    name_topics(true, topics, sizeof topics);
    (void)describe_quiet(&reply.what.get_status, why, sizeof why);
    posectl_complain("no message of topic %s came in %g s (--timeout): %s", topics,
                     ctl->timeout_ms * 1e-3, why);
    return POSECTL_FAILED;
}

// Shows messages until --count of them, until none of the topics comes for as long as a --timeout
// says, or until the daemon falls silent. Its heartbeat comes every second even without a camera.
static enum posectl_exit watch(const struct posectl *ctl, struct posectl_subscription *subscription)
{
    const char *endpoint = posectl_subscribed_to(subscription);
    unsigned long n_shown = 0;
    bool any = false;
    int64_t shown_ns = clock_monotonic_ns();
    char topic[POSECTL_TOPIC_BYTES];
    const uint8_t *bytes;
    size_t n_bytes;
    if (is_watched("pose") && n_watch_topics == 2 && !ctl->json)
        watch_lines_header();
    while ((watch_count == 0 || n_shown < watch_count) &&
           posectl_receive(subscription, topic, &bytes, &n_bytes)) {
        any = true;
        const int64_t now_ns = clock_monotonic_ns();
        struct watched_camera *camera = find_camera(topic, now_ns);
        if (is_watched(topic))
            hear(topic, now_ns);
        if (is_watched(topic) && watch_lines_print(topic, bytes, n_bytes, ctl->json)) {
            n_shown++;
            shown_ns = now_ns;
        } else if (camera && strncmp(topic, "status", strlen("status")) == 0 &&
                   !is_watched(topic)) {
            tell_quiet(camera, bytes, n_bytes, now_ns);
        }
        if (ferror(stdout) || fflush(stdout) != 0)
            break;
        if (ctl->has_timeout && now_ns - shown_ns >= (int64_t)ctl->timeout_ms * 1000000)
            break;
    }
    if (ferror(stdout))
        return POSECTL_FAILED;
    if (posectl_is_refused(subscription)) { // its key was taken off the list meanwhile, perhaps
        posectl_explain_silence(subscription);
        return POSECTL_NO_ANSWER;
    }
    if (!any || (ctl->has_timeout && (watch_count == 0 || n_shown < watch_count)))
        return why_nothing(ctl, subscription);
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
        .doc = "Shows messages as they come. pose (default): frame, time, state, position, "
               "quaternion x y z w, time of tracking, reason; object: one that search --track "
               "follows, in the camera's frame; of images and clouds their size. "
               "TOPIC: " WATCH_LINES_TOPICS
               ". On a terminal with a header, and with colours unless NO_COLOR is set."};
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
