// SPDX-License-Identifier: Apache-2.0
// StartRecording, StopRecording, ListRecordings. Names are plain: a client never names a path.
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/handlers/handlers.h"

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

void handlers_start_recording(struct handlers *handlers, const struct handlers_call *call)
{
    const posed_StartRecording *request = &call->request->what.start_recording;
    posed_Reply *reply = call->reply;
    const char *name = request->format[0] ? request->format : handlers->config->recorder.format;
    int format = recorder_format_from_name(name);
    if (shared_has_ended(handlers->shared)) {
        handlers_fail(reply, posed_Code_FAILED_PRECONDITION, NULL, "the camera has ended");
        return;
    }
    if (format < 0) {
        handlers_fail(reply, posed_Code_INVALID_ARGUMENT, "start_recording.format",
                      "\"%s\" is none of tum, klg, fakenect, mcap", name);
        return;
    }
    if (!recorder_name_is_plain(request->name)) {
        handlers_fail(
            reply, posed_Code_INVALID_ARGUMENT, "start_recording.name",
            "1 to 64 of A-Z a-z 0-9 . _ - are wanted, without a point or dash in front or a "
            "suffix");
        return;
    }
    const struct shared_info *info = shared_info(handlers->shared);
    int error = recorder_start(handlers->recorder, request->name, (enum recorder_format)format,
                               &info->capture);
    if (!error && shared_info(handlers->shared) != info) // another camera meanwhile
        recorder_recalibrate(handlers->recorder, &shared_info(handlers->shared)->capture);
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
                      "a recording is being written already");
        return;
    case -EINVAL:
        handlers_fail(reply, posed_Code_INVALID_ARGUMENT, "start_recording",
                      "this source cannot be recorded so; the log says why");
        return;
    case -ENOSPC:
    case -ENOMEM:
        handlers_fail(reply, posed_Code_RESOURCE_EXHAUSTED, NULL, "%s", strerror(-error));
        return;
    default:
        handlers_fail(reply, posed_Code_UNAVAILABLE, NULL, "%s: %s",
                      handlers->config->recorder.folder, strerror(-error));
    }
}

void handlers_stop_recording(struct handlers *handlers, const struct handlers_call *call)
{
    posed_Reply *reply = call->reply;
    fill_active(handlers->recorder, &reply->what.stop_recording);
    if (recorder_stop(handlers->recorder) != 0)
        handlers_fail(reply, posed_Code_FAILED_PRECONDITION, NULL, "nothing is being recorded");
    else
        reply->what.stop_recording.active = false;
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
    if (n < 0 && n != -ENOENT) {
        handlers_fail(reply, posed_Code_UNAVAILABLE, NULL, "%s: %s",
                      handlers->config->recorder.folder, strerror((int)-n));
        return;
    }
    recorder_status(handlers->recorder, &status);
    page->total = n > 0 ? (uint32_t)n : 0;
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
    const struct handlers *first = &handlers->common->cameras[0];
    if (!handlers->recorder && first->recorder)
        handlers_fail(reply, posed_Code_FAILED_PRECONDITION, "camera",
                      "recordings are of the first camera, %s, alone", first->camera);
    else if (!handlers->recorder)
        handlers_fail(reply, posed_Code_FAILED_PRECONDITION, NULL,
                      "recorder.folder is not set: start posed with --set recorder.folder=DIR");
    return handlers->recorder;
}
