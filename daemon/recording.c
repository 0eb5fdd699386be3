// SPDX-License-Identifier: Apache-2.0
#include "daemon/recording.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "daemon/config/origins.h"
#include "daemon/fill_messages.h"
#include "daemon/publish.h"
#include "proto/wire.h"

int recording_check(const struct config *config, const struct log_sink *log)
{
    const char *start = config->recorder.start, *format = config->recorder.format;
    if (recorder_format_from_name(format) < 0)
        log_to(log, LOG_LEVEL_ERROR,
               "recorder.format: \"%s\" is none of tum, klg, fakenect, mcap, ros2mcap", format);
    else if (start[0] && config->n_cameras > 1 &&
             !recorder_format_holds_several(
                 (enum recorder_format)recorder_format_from_name(format)))
        log_to(log, LOG_LEVEL_ERROR,
               "recorder.start: %s holds one camera, and there are %u: recorder.format = mcap or "
               "ros2mcap holds all",
               format, config->n_cameras);
    else if (start[0] && !config->recorder.folder[0])
        log_to(log, LOG_LEVEL_ERROR, "recorder.start: recorder.folder is not set");
    else if (start[0] && !recorder_name_is_plain(start))
        log_to(
            log, LOG_LEVEL_ERROR,
            "recorder.start: 1 to 64 of A-Z a-z 0-9 . _ - are wanted, without a point or dash in "
            "front or a suffix");
    else
        return 0;
    return -EINVAL;
}

static void fill_ended(const struct recorder_status *status, posed_EndedRecording *out)
{
    *out = (posed_EndedRecording){.has_timestamp = true,
                                  .timestamp = wire_timestamp(status->ended_unix_ns),
                                  .failed = status->failed,
                                  .frames = status->n_frames,
                                  .dropped_frames = status->n_dropped,
                                  .bytes = status->n_bytes};
    wire_copy_text(out->name, sizeof out->name, status->name);
    wire_copy_text(out->format, sizeof out->format, recorder_format_name(status->format));
    wire_copy_text(out->detail, sizeof out->detail, status->ended);
}

// Called by the recorder's thread, and by whoever starts a recording. Each camera that is in it
// tells of it.
static void on_recorder_event(void *user, enum recorder_event event, const char *name,
                              const char *detail)
{
    const struct recording *recording = user;
    struct recorder_status status;
    posed_EndedRecording ended;
    posed_Event message;
    char text[sizeof message.message];
    const bool started = event == RECORDER_EVENT_STARTED;
    recorder_status(recording->recorder, &status);
    fill_ended(&status, &ended);
    snprintf(text, sizeof text, "recording %s: %s", name, detail);
    for (uint32_t i = 0; i < recording->n_cameras; i++) {
        const struct camera *camera = &recording->cameras[i];
        if (!(status.cameras >> i & 1))
            continue;
        if (started)
            shared_begin_recording(camera->shared, name);
        else
            shared_end_recording(camera->shared, &ended);
        message_event(shared_info(camera->shared), 0,
                      started ? posed_Event_Kind_RECORDING_STARTED
                              : posed_Event_Kind_RECORDING_STOPPED,
                      text, &message);
        publish_post(camera->publish, PUBLISH_EVENT, posed_Event_fields, &message);
    }
}

static int start_recording(const struct recording *recording, const struct config *config,
                           const struct log_sink *log)
{
    struct origins origins = {config, NULL, *log};
    const struct log_sink sink = origins_log(&origins);
    struct recorder_camera cameras[CONFIG_MAX_CAMERAS];
    int format = recorder_format_from_name(config->recorder.format); // checked with the settings
    for (uint32_t i = 0; i < recording->n_cameras; i++) {
        const struct camera *camera = &recording->cameras[i];
        cameras[i] = (struct recorder_camera){
            .number = i,
            .name = recording->n_cameras > 1 ? camera->name : "",
            .info = capture_info(camera->capture),
            .T_rig_camera = camera->rig ? rig_pose_place(camera->rig, i) : NULL,
            .frame = shared_info(camera->shared)->camera_frame,
            .odom_frame = shared_info(camera->shared)->odom_frame,
            .T_base_optical = &camera->T_base_optical,
            .ahead_ns = camera->rig ? rig_pose_ahead_ns(camera->rig, i) : 0,
        };
    }
    const char *wanted = config->recorder.start;
    struct recorder_status status;
    // A service that starts again comes back, and nothing is written over.
    const int error = recorder_start_numbered(
        recording->recorder, wanted, (enum recorder_format)format, cameras, recording->n_cameras);
    recorder_status(recording->recorder, &status);
    if (!error && strcmp(status.name, wanted) != 0)
        log_to(&sink, LOG_LEVEL_NOTICE,
               "recorder.start: a recording \"%s\" is there already: this one is \"%s\"", wanted,
               status.name);
    return error;
}

int recording_create(struct recording *out, const struct config *config, struct camera *cameras,
                     uint32_t n_cameras, const struct log_sink *log)
{
    const struct recorder_frames ros_frames = {config->ros.map_frame, config->ros.odom_frame,
                                               config->ros.base_frame, config->ros.optical_frame};
    const struct recorder_settings settings = {
        .folder = config->recorder.folder,
        .queue_frames = config->recorder.queue_frames,
        .max_bytes = config->recorder.max_bytes,
        .max_duration_s = config->recorder.max_duration_s,
        .keep_bytes = config->recorder.keep_bytes,
        .keep_age_s = config->recorder.keep_age_s,
        .ros_frames = &ros_frames,
        .event = on_recorder_event,
        .event_user = out,
        .log = *log,
    };
    *out = (struct recording){.cameras = cameras, .n_cameras = n_cameras};
    if (!config->recorder.folder[0])
        return 0;
    int error = recorder_create(&out->recorder, &settings);
    for (uint32_t i = 0; i < n_cameras && !error; i++)
        cameras[i].recorder = out->recorder;
    return error || !config->recorder.start[0] ? error : start_recording(out, config, log);
}

void recording_destroy(struct recording *recording)
{
    recorder_destroy(&recording->recorder);
}
