// SPDX-License-Identifier: Apache-2.0
// StartRecording, StopRecording, ListRecordings. Names are plain: a client never names a path.
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "capture/ros/topic_name.h"
#include "daemon/handlers/handlers.h"
#include "proto/clock.h"

#define LOOK_NS 5000000 // between two looks whether the files are closed

static void fill_active(struct recorder *recorder, posed_Recording *out)
{
    struct recorder_status status;
    recorder_status(recorder, &status);
    wire_copy_text(out->name, sizeof out->name, status.name);
    wire_copy_text(out->format, sizeof out->format, recorder_format_name(status.format));
    out->frames = status.n_frames;
    out->dropped_frames = status.n_dropped;
    out->bytes = status.n_bytes;
    out->active = status.active;
}

// The camera that the request names, alone; else all that have not ended. Returns their number.
static uint32_t list_cameras(const struct handlers *handlers, const char *name,
                             struct recorder_camera out[RECORDER_MAX_CAMERAS])
{
    const struct handlers_common *common = handlers->common;
    uint32_t n = 0;
    for (uint32_t i = 0; i < common->n_cameras; i++) {
        const struct handlers *one = &common->cameras[i];
        if (!shared_has_ended(one->shared) && (!name[0] || one == handlers))
            out[n++] = (struct recorder_camera){
                .number = i,
                .name = one->camera,
                .info = &shared_info(one->shared)->capture,
                .T_rig_camera = one->T_rig_camera,
                .frame = shared_info(one->shared)->camera_frame,
                .odom_frame = shared_info(one->shared)->odom_frame,
                .T_base_optical = &one->T_base_optical,
                .ahead_ns = one->ahead_ns,
            };
    }
    if (n == 1)
        out[0].name = "";
    return n;
}

// Two that are one in topics of ROS 2; NULL: none.
static const char *names_fault(enum recorder_format format, const struct recorder_camera *cameras,
                               uint32_t n_cameras, char out[ROS_NAMES_FAULT_BYTES])
{
    const char *names[RECORDER_MAX_CAMERAS];
    for (uint32_t i = 0; i < n_cameras; i++)
        names[i] = cameras[i].name;
    return format == RECORDER_FORMAT_ROS2MCAP ? ros_names_fault(names, n_cameras, out) : NULL;
}

// Other devices than when they were listed.
static void recalibrate(const struct handlers *handlers, const struct recorder_camera *cameras,
                        uint32_t n_cameras)
{
    for (uint32_t i = 0; i < n_cameras; i++) {
        const uint32_t number = cameras[i].number;
        const struct shared *shared = handlers->common->cameras[number].shared;
        recorder_recalibrate(handlers->recorder, number, &shared_info(shared)->capture);
    }
}

void handlers_start_recording(struct handlers *handlers, const struct handlers_call *call)
{
    const posed_StartRecording *request = &call->request->what.start_recording;
    posed_Reply *reply = call->reply;
    struct recorder_camera cameras[RECORDER_MAX_CAMERAS];
    struct recorder_status status;
    char text[ROS_NAMES_FAULT_BYTES];
    const char *name = request->format[0] ? request->format : handlers->config->recorder.format;
    const uint32_t n_cameras = list_cameras(handlers, call->request->camera, cameras);
    int format = recorder_format_from_name(name);
    if (n_cameras == 0) {
        handlers_fail(reply, posed_Code_FAILED_PRECONDITION, NULL, "the camera has ended");
        return;
    }
    if (format < 0) {
        handlers_fail(reply, posed_Code_INVALID_ARGUMENT, "start_recording.format",
                      "\"%s\" is none of tum, klg, fakenect, mcap, ros2mcap", name);
        return;
    }
    if (n_cameras > 1 && !recorder_format_holds_several((enum recorder_format)format)) {
        handlers_fail(reply, posed_Code_INVALID_ARGUMENT, "start_recording.format",
                      "%s holds one camera, and there are %u: name one (--camera %s), or take mcap "
                      "or ros2mcap",
                      name, n_cameras, cameras[0].name);
        return;
    }
    const char *fault = names_fault((enum recorder_format)format, cameras, n_cameras, text);
    if (fault) {
        handlers_fail(reply, posed_Code_INVALID_ARGUMENT, "start_recording.format",
                      "%s: name one (--camera %s), or take mcap", fault, cameras[0].name);
        return;
    }
    if (!recorder_name_is_plain(request->name)) {
        handlers_fail(
            reply, posed_Code_INVALID_ARGUMENT, "start_recording.name",
            "1 to 64 of A-Z a-z 0-9 . _ - are wanted, without a point or dash in front or a "
            "suffix");
        return;
    }
    int error = recorder_start(handlers->recorder, request->name, (enum recorder_format)format,
                               cameras, n_cameras);
    if (!error)
        recalibrate(handlers, cameras, n_cameras);
    recorder_status(handlers->recorder, &status);
    switch (error) {
    case 0:
        fill_active(handlers->recorder, &reply->what.start_recording);
        return;
    case -EEXIST:
        handlers_fail(reply, posed_Code_ALREADY_EXISTS, "start_recording.name",
                      "there is a recording \"%s\"", request->name);
        return;
    case -EBUSY:
        handlers_fail(reply, posed_Code_FAILED_PRECONDITION, NULL,
                      "recording %s is being written already: posectl record stop ends it",
                      status.name);
        return;
    case -EINVAL:
        handlers_fail(reply, posed_Code_INVALID_ARGUMENT, "start_recording",
                      "this source cannot be recorded so; the log says why");
        return;
    case -ENOMEM:
        handlers_fail(reply, posed_Code_RESOURCE_EXHAUSTED, NULL, "%s", strerror(-error));
        return;
    default:
        handlers_fail(
            reply, error == -ENOSPC ? posed_Code_RESOURCE_EXHAUSTED : posed_Code_UNAVAILABLE, NULL,
            "recorder.folder %s: %s", handlers->config->recorder.folder, strerror(-error));
    }
}

// Until the files are closed. Returns 0, -ECANCELED or -ETIME; it is written on all the same.
static int wait_for_files(struct recorder *recorder, const struct handlers_call *call,
                          struct recorder_status *out)
{
    const struct timespec pause = {0, LOOK_NS};
    for (recorder_status(recorder, out); out->busy; recorder_status(recorder, out)) {
        if (__atomic_load_n(&call->stop->requested, __ATOMIC_ACQUIRE))
            return -ECANCELED;
        if (clock_monotonic_ns() + LOOK_NS >= call->deadline_ns)
            return -ETIME;
        nanosleep(&pause, NULL);
    }
    return 0;
}

// There is none to stop: what became of the last one.
static void tell_last(const struct recorder_status *status, posed_Reply *reply)
{
    char when[32] = "";
    const time_t seconds = (time_t)(status->ended_unix_ns / 1000000000);
    struct tm local;
    if (localtime_r(&seconds, &local))
        strftime(when, sizeof when, "%Y-%m-%d %H:%M:%S", &local);
    if (!status->ended[0])
        handlers_fail(reply, posed_Code_FAILED_PRECONDITION, NULL, "nothing is being recorded");
    else if (status->failed)
        handlers_fail(reply, posed_Code_DATA_LOSS, NULL, "recording %s failed %s: %s", status->name,
                      when, status->ended);
    else
        handlers_fail(reply, posed_Code_FAILED_PRECONDITION, NULL,
                      "nothing is being recorded; %s ended %s: %s", status->name, when,
                      status->ended);
}

void handlers_stop_recording(struct handlers *handlers, const struct handlers_call *call)
{
    posed_Reply *reply = call->reply;
    struct recorder_status status;
    const bool stopped = recorder_stop(handlers->recorder) == 0;
    recorder_status(handlers->recorder, &status);
    if (!stopped && !status.busy) {
        tell_last(&status, reply);
        return;
    }
    int error = wait_for_files(handlers->recorder, call, &status);
    if (error == -ETIME)
        handlers_fail(reply, posed_Code_DEADLINE_EXCEEDED, NULL,
                      "recording %s has ended, but is still being written: do not use it before "
                      "list_recordings says that it is not active, or stop it again to wait",
                      status.name);
    else if (error)
        handlers_fail_work(reply, error, NULL);
    else if (status.failed)
        tell_last(&status, reply);
    else
        fill_active(handlers->recorder, &reply->what.stop_recording);
}

void handlers_list_recordings(struct handlers *handlers, const struct handlers_call *call)
{
    const posed_ListRecordings *request = &call->request->what.list_recordings;
    posed_Reply *reply = call->reply;
    posed_Recordings *page = &reply->what.list_recordings;
    const size_t page_max = sizeof page->recordings / sizeof page->recordings[0];
    struct recorder_entry *entries = NULL;
    struct recorder_status status;
    long n = recorder_list(handlers->recorder, &entries);
    if (n < 0) {
        handlers_fail(reply, posed_Code_UNAVAILABLE, NULL, "recorder.folder %s: %s",
                      handlers->config->recorder.folder, strerror((int)-n));
        return;
    }
    recorder_status(handlers->recorder, &status);
    page->total = (uint32_t)n;
    for (long i = request->skip; i < n && page->recordings_count < page_max; i++) {
        posed_Recording *out = &page->recordings[page->recordings_count++];
        wire_copy_text(out->name, sizeof out->name, entries[i].name);
        wire_copy_text(out->format, sizeof out->format, recorder_format_name(entries[i].format));
        out->bytes = entries[i].n_bytes;
        out->has_modified = true;
        out->modified = wire_timestamp(entries[i].modified_unix_ns);
        out->active = (status.active || status.busy) && status.format == entries[i].format &&
                      strcmp(status.name, entries[i].name) == 0;
        if (out->active) {
            out->frames = status.n_frames;
            out->dropped_frames = status.n_dropped;
        }
    }
    free(entries);
}

bool handlers_records(struct handlers *handlers, posed_Reply *reply)
{
    if (!handlers->recorder)
        handlers_fail(reply, posed_Code_FAILED_PRECONDITION, NULL,
                      "recorder.folder is not set: start posed with --set recorder.folder=DIR");
    return handlers->recorder;
}
