// SPDX-License-Identifier: Apache-2.0
#include "proto/wire_json.h"

#include <inttypes.h>
#include <stdio.h>

double wire_seconds(const posed_Timestamp *timestamp)
{
    return (double)timestamp->seconds + timestamp->nanos * 1e-9;
}

static json_t *json_ended(const posed_EndedRecording *r)
{
    return json_pack("{s:s, s:s, s:f, s:b, s:s, s:I, s:I, s:I}", "name", r->name, "format",
                     r->format, "time_s", wire_seconds(&r->timestamp), "failed", r->failed,
                     "detail", r->detail, "frames", (json_int_t)r->frames, "dropped_frames",
                     (json_int_t)r->dropped_frames, "bytes", (json_int_t)r->bytes);
}

json_t *wire_json_status(const posed_Status *s)
{
#define COUNT(name) #name, (json_int_t)s->name
    char session[24];
    snprintf(session, sizeof session, "%016" PRIx64, s->session);
    json_t *cameras = s->cameras_count ? json_array() : NULL;
    for (pb_size_t i = 0; i < s->cameras_count; i++)
        json_array_append_new(cameras, json_string(s->cameras[i]));
    return json_pack(
        "{s:s, s:s, s:f, s:f, s:s, s:s, s:s, s:s, s:b, s:b, s:s, s:s, s:f,"
        " s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, "
        "s:I, "
        "s:b, s:s?, "
        "s:o*, s:s*, "
        "s:o*, s:o*}",
        "session", session, "version", s->version, "uptime_s", s->uptime_s, "time_s",
        wire_seconds(&s->timestamp), "state", wire_state_name(s->state), "reason", s->reason_text,
        "source", s->source, "source_description", s->source_description, "live", s->live, "paused",
        s->paused, "backend", s->backend, "reference", wire_reference_name(s->reference), "rate_hz",
        s->rate_hz, COUNT(captured_frames), COUNT(tracked_frames), COUNT(degraded_frames),
        COUNT(lost_frames), COUNT(dropped_frames), COUNT(damaged_frames), COUNT(duplicate_frames),
        COUNT(reduced_frames), COUNT(expected_frames), COUNT(requests), COUNT(bad_requests),
        COUNT(rejected_requests), COUNT(unsent_messages), COUNT(resident_bytes), COUNT(map_epoch),
        COUNT(failed_recordings), COUNT(map_left_out_blocks), COUNT(searching_frames), "keeps_map",
        s->keeps_map, "recording", s->recording[0] ? s->recording : NULL, "last_recording",
        s->has_last_recording ? json_ended(&s->last_recording) : NULL, "camera",
        s->camera[0] ? s->camera : NULL, "cameras", cameras, "map_from_odom",
        s->has_map_from_odom ? wire_json_pose(&s->map_from_odom) : NULL);
#undef COUNT
}

json_t *wire_json_calibration(const posed_CameraCalibration *c)
{
    return json_pack("{s:f, s:i, s:i, s:f, s:f, s:f, s:f, s:f, s:s, s:f, s:f, s:s}", "time_s",
                     wire_seconds(&c->timestamp), "width_px", (int)c->width, "height_px",
                     (int)c->height, "fx_px", c->K[0], "fy_px", c->K[4], "cx_px", c->K[2], "cy_px",
                     c->K[5], "units_per_m", c->units_per_m, "frame_id", c->frame_id,
                     "field_rms_per_m", c->field_rms_per_m, "field_reduction", c->field_reduction,
                     "field_serial", c->field_serial);
}

json_t *wire_json_pose(const posed_Pose *pose)
{
    const posed_Vector3 *p = &pose->position;
    const posed_Quaternion *q = &pose->orientation;
    return json_pack("{s:[fff], s:[ffff]}", "position_m", p->x, p->y, p->z, "orientation_xyzw",
                     q->x, q->y, q->z, q->w);
}
