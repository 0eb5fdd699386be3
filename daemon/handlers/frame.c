// SPDX-License-Identifier: Apache-2.0
// GetDepth, GetCloud: a frame that is still kept, as its image or as points.
#include <errno.h>
#include <stdlib.h>
#include <time.h>

#include "daemon/backproject.h"
#include "daemon/handlers/handlers.h"

// The loop publishes a frame's pose, then keeps its depth, then tells the shared: what is under way
// is waited for.
static void await_pose(const struct shared *shared, uint64_t seq)
{
    const struct timespec pause = {0, 1000000};
    uint64_t oldest, next;
    pose_history_range(shared_history(shared), &oldest, &next);
    for (int i = 0; i < 50 && seq == next; i++) {
        nanosleep(&pause, NULL);
        pose_history_range(shared_history(shared), &oldest, &next);
    }
}

int handlers_kept_frame(const struct handlers *handlers, bool has_seq, uint64_t *seq,
                        uint16_t *out_depth, struct depth_frame *out, struct intrinsics *out_camera)
{
    if (has_seq)
        await_pose(handlers->shared, *seq);
    int error = has_seq ? frames_get(handlers->frames, *seq, out_depth, out, out_camera)
                        : frames_get_newest(handlers->frames, out_depth, out, out_camera, seq);
    if (!error && !has_seq)
        await_pose(handlers->shared, *seq);
    return error;
}

// Copies the frame to *out_depth, to be freed by the caller. False: the reply says why.
static bool load(const struct handlers *handlers, const struct handlers_call *call, bool has_seq,
                 const char *field, uint64_t *seq, struct depth_frame *out,
                 struct intrinsics *out_camera, uint16_t **out_depth)
{
    const struct intrinsics *size = &shared_info(handlers->shared)->capture.camera;
    uint16_t *depth = malloc((size_t)size->width_px * size->height_px * sizeof *depth);
    *out_depth = depth;
    if (!depth) {
        handlers_fail_work(call->reply, -ENOMEM, NULL);
        return false;
    }
    int error = handlers_kept_frame(handlers, has_seq, seq, depth, out, out_camera);
    if (error && has_seq)
        handlers_fail(call->reply, posed_Code_NOT_FOUND, field,
                      "frame %llu is not kept (requests.keep_frames = %u)",
                      (unsigned long long)*seq, handlers->config->requests.keep_frames);
    else if (error)
        handlers_fail(call->reply, posed_Code_NOT_FOUND, NULL,
                      "no frame is kept (requests.keep_frames = %u)",
                      handlers->config->requests.keep_frames);
    return !error;
}

void handlers_get_depth(struct handlers *handlers, const struct handlers_call *call)
{
    const posed_GetDepth *request = &call->request->what.get_depth;
    uint64_t seq = request->seq;
    struct depth_frame frame;
    struct intrinsics camera;
    uint16_t *depth;
    bool found =
        load(handlers, call, request->has_seq, "get_depth.seq", &seq, &frame, &camera, &depth);
    call->pieces->memory = depth;
    if (!found)
        return;
    call->reply->what.get_depth = (posed_DepthFrame){
        .has_timestamp = true,
        .timestamp = wire_timestamp(frame.time_ns),
        .seq = seq,
        .width = frame.width_px,
        .height = frame.height_px,
        .units_per_m = frame.units_per_m,
        .fx = camera.fx_px,
        .fy = camera.fy_px,
        .cx = camera.cx_px,
        .cy = camera.cy_px,
    };
    call->pieces->pieces[0] = (struct wire_piece){
        WIRE_DEPTH_FRAME_DEPTH, depth, (size_t)frame.width_px * frame.height_px * sizeof *depth};
    call->pieces->n_pieces = 1;
}

static void fill_pose(const struct handlers *handlers, uint64_t seq, posed_Cloud *out)
{
    struct past_pose pose;
    if (pose_history_get(shared_history(handlers->shared), seq, &pose) != 0 ||
        pose.state == posed_State_STATE_LOST)
        return;
    const double *q = pose.q_xyzw, *t = pose.t_m;
    out->has_pose = true;
    out->pose = (posed_Pose){true, {t[0], t[1], t[2]}, true, {q[0], q[1], q[2], q[3]}};
}

void handlers_get_cloud(struct handlers *handlers, const struct handlers_call *call)
{
    const posed_GetCloud *request = &call->request->what.get_cloud;
    const uint32_t max_points = handlers->config->requests.max_points;
    uint64_t seq = request->seq;
    struct depth_frame frame;
    struct intrinsics camera;
    uint16_t *depth;
    if (!load(handlers, call, request->has_seq, "get_cloud.seq", &seq, &frame, &camera, &depth))
        goto free_depth;
    uint32_t stride = request->stride ? request->stride : backproject_stride(&frame, max_points);
    size_t n = backproject_count(&frame, stride), n_values = 3 * n;
    if (n > max_points) {
        handlers_fail(call->reply, posed_Code_INVALID_ARGUMENT, "get_cloud.stride",
                      "%zu points exceed requests.max_points = %u; a larger stride helps", n,
                      max_points);
        goto free_depth;
    }
    float *points = malloc((n_values ? n_values : 1) * (request->normals ? 2 : 1) * sizeof *points);
    if (!points) {
        handlers_fail_work(call->reply, -ENOMEM, NULL);
        goto free_depth;
    }
    backproject_points(&frame, &camera, stride, 3, 1, points);
    if (request->normals)
        backproject_normals(&frame, &camera, stride, points + n_values);
    call->reply->what.get_cloud = (posed_Cloud){
        .has_timestamp = true,
        .timestamp = wire_timestamp(frame.time_ns),
        .seq = seq,
        .stride = stride,
        .n_points = (uint32_t)n,
    };
    fill_pose(handlers, seq, &call->reply->what.get_cloud);
    *call->pieces = (struct handlers_payload){
        .memory = points,
        .pieces = {{WIRE_CLOUD_POINTS, points, n_values * sizeof *points},
                   {WIRE_CLOUD_NORMALS, points + n_values, n_values * sizeof *points}},
        .n_pieces = request->normals ? 2 : 1,
    };
free_depth:
    free(depth);
}
