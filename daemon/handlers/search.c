// SPDX-License-Identifier: Apache-2.0
// SearchPose and StopTracking.
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/handlers/handlers.h"
#include "proto/clock.h"

// A search takes some 40 bytes a pixel, and as many as the threads are, 8 more each: what a client
// uploads must not take gigabytes. No depth camera has more.
#define IMAGE_MAX_SIDE_PX 2048

// The image to search: pixels to free, or NULL with the reply filled.
static uint16_t *load_uploaded(const struct handlers *handlers, const struct handlers_call *call,
                               struct search_image *out)
{
    const posed_DepthImage *image = &call->request->what.search_pose.image;
    const uint32_t path[] = {posed_Request_search_pose_tag, posed_SearchPose_image_tag,
                             WIRE_DEPTH_IMAGE_DEPTH};
    const struct intrinsics *camera = &shared_info(handlers->shared)->capture.camera;
    const uint8_t *bytes;
    size_t n_bytes;
    wire_find_bytes(call->body, call->n_body, path, 3, &bytes, &n_bytes);
    if (image->width < 16 || image->height < 16 || image->width > IMAGE_MAX_SIDE_PX ||
        image->height > IMAGE_MAX_SIDE_PX ||
        n_bytes != (size_t)image->width * image->height * sizeof(uint16_t)) {
        handlers_fail(call->reply, posed_Code_INVALID_ARGUMENT, "search_pose.image.depth",
                      "%zu bytes for %u x %u pixels of 2 bytes (16 to %d each way)", n_bytes,
                      image->width, image->height, IMAGE_MAX_SIDE_PX);
        return NULL;
    }
    const struct {
        const char *field;
        double value;
    } numbers[] = {{"search_pose.image.units_per_m", image->units_per_m},
                   {"search_pose.image.fx", image->fx},
                   {"search_pose.image.fy", image->fy},
                   {"search_pose.image.cx", image->cx},
                   {"search_pose.image.cy", image->cy}};
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++)
        if (!(fabs(numbers[i].value) <= 1e6) || (i == 0 && numbers[i].value < 0)) {
            handlers_fail(call->reply, posed_Code_INVALID_ARGUMENT, numbers[i].field,
                          "a number within 1e6 is wanted%s", i == 0 ? ", not below 0" : "");
            return NULL;
        }
    out->camera = *camera;
    if (image->fx != 0 || image->fy != 0 || image->cx != 0 || image->cy != 0)
        out->camera = (struct intrinsics){image->fx, image->fy, image->cx, image->cy, 0, 0};
    out->camera.width_px = image->width;
    out->camera.height_px = image->height;
    out->frame =
        (struct depth_frame){.width_px = image->width,
                             .height_px = image->height,
                             .units_per_m = image->units_per_m > 0 ? image->units_per_m : 1000};
    uint16_t *depth = malloc(n_bytes);
    if (!depth) {
        handlers_fail_work(call->reply, -ENOMEM, NULL);
        return NULL;
    }
    memcpy(depth, bytes, n_bytes);
    out->frame.depth = depth;
    return depth;
}

static uint16_t *load_kept(const struct handlers *handlers, const struct handlers_call *call,
                           struct search_image *out)
{
    const posed_SearchPose *request = &call->request->what.search_pose;
    const struct intrinsics *size = &shared_info(handlers->shared)->capture.camera;
    uint16_t *depth = malloc((size_t)size->width_px * size->height_px * sizeof *depth);
    if (!depth) {
        handlers_fail_work(call->reply, -ENOMEM, NULL);
        return NULL;
    }
    uint64_t seq = request->frame_seq;
    int error = handlers_kept_frame(handlers, request->has_frame_seq, &seq, depth, &out->frame,
                                    &out->camera);
    if (error) {
        handlers_fail(call->reply, posed_Code_NOT_FOUND, "search_pose.frame_seq",
                      "the frame is not kept (requests.keep_frames = %u)",
                      handlers->config->requests.keep_frames);
        free(depth);
        return NULL;
    }
    call->reply->what.search_pose.frame_seq = seq;
    call->reply->what.search_pose.has_timestamp = true;
    call->reply->what.search_pose.timestamp = wire_timestamp(out->frame.time_ns);
    return depth;
}

static bool read_mask(const struct handlers_call *call, struct search_image *image)
{
    const uint32_t path[] = {posed_Request_search_pose_tag, WIRE_SEARCH_POSE_MASK};
    const uint8_t *mask;
    size_t n_mask;
    size_t n_px = (size_t)image->camera.width_px * image->camera.height_px;
    wire_find_bytes(call->body, call->n_body, path, 2, &mask, &n_mask);
    if (n_mask != 0 && n_mask != n_px) {
        handlers_fail(call->reply, posed_Code_INVALID_ARGUMENT, "search_pose.mask",
                      "%zu bytes for an image of %zu pixels", n_mask, n_px);
        return false;
    }
    image->mask = n_mask ? mask : NULL;
    return true;
}

// The client has cancelled, the daemon ends, or the deadline has passed.
static bool is_over(void *user)
{
    const struct handlers_call *call = user;
    return __atomic_load_n(&call->stop->requested, __ATOMIC_ACQUIRE) ||
           clock_monotonic_ns() >= call->deadline_ns;
}

static void fail_search(const struct handlers_call *call, int error, const char *field)
{
    posed_Reply *reply = call->reply;
    char path[64];
    if (error == -ECANCELED && !__atomic_load_n(&call->stop->requested, __ATOMIC_ACQUIRE))
        error = -ETIME;
    switch (error) {
    case -EINVAL:
        snprintf(path, sizeof path, "search_pose.%s", field);
        handlers_fail(reply, posed_Code_INVALID_ARGUMENT, path, "out of range");
        return;
    case -ENODATA:
        handlers_fail(reply, posed_Code_INVALID_ARGUMENT, "search_pose.image",
                      "no pixel has a valid depth");
        return;
    default:
        handlers_fail_work(reply, error, NULL);
    }
}

// Searches one object and appends what it finds, for which there is room. Returns false with the
// reply filled.
static bool search_one(struct handlers *handlers, const struct handlers_call *call, size_t i,
                       const struct search_image *image, const struct search_query *query)
{
    posed_FoundPoses *out = &call->reply->what.search_pose;
    struct search_answer answer;
    char field[32] = "";
    int error = search_run(objects_search(handlers->common->objects),
                           objects_get(handlers->common->objects, i), image, query, &answer, field);
    if (error) {
        handlers->common->objects_failed = error == -EIO;
        fail_search(call, error, field);
        return false;
    }
    for (uint32_t k = 0; k < answer.n_poses; k++) {
        const struct search_pose *from = &answer.poses[k];
        posed_FoundPose *to = &out->poses[out->poses_count++];
        *to = (posed_FoundPose){
            .has_pose = true,
            .pose = wire_pose(&from->T_camera_model, NULL),
            .confidence = from->confidence,
            .accepted = from->accepted,
            .visible = from->visible,
            .contradicted = from->contradicted,
            .residual_rms_m = from->residual_rms_m,
            .pixels = from->n_pixels,
            .error_px = from->error_px,
            .view = from->view,
            .has_view_pose = query->preset == SEARCH_PRESET_GERMANN,
            .view_pose = wire_pose(&from->T_camera_view, NULL),
        };
        wire_copy_text(to->object, sizeof to->object, objects_name(handlers->common->objects, i));
    }
    return true;
}

// Whether all that is asked for is known, and the answers have room. Returns false with the reply
// filled, before anything is searched.
static bool check_objects(const struct handlers *handlers, const struct handlers_call *call,
                          size_t n, uint32_t top)
{
    const posed_SearchPose *request = &call->request->what.search_pose;
    const posed_FoundPoses *out = &call->reply->what.search_pose;
    const size_t max = sizeof out->poses / sizeof out->poses[0];
    for (pb_size_t k = 0; k < request->objects_count; k++)
        if (objects_find(handlers->common->objects, request->objects[k]) < 0) {
            handlers_fail(call->reply, posed_Code_NOT_FOUND, "search_pose.objects",
                          "no object \"%s\"", request->objects[k]);
            return false;
        }
    if (top > SEARCH_TOP_MAX || n * top > max) {
        handlers_fail(call->reply, posed_Code_INVALID_ARGUMENT, "search_pose.top",
                      "%u answers of each of %zu objects: at most %d, and %zu of all", top, n,
                      SEARCH_TOP_MAX, max);
        return false;
    }
    return true;
}

static void search_all(struct handlers *handlers, const struct handlers_call *call,
                       const struct search_image *image)
{
    const posed_SearchPose *request = &call->request->what.search_pose;
    posed_FoundPoses *out = &call->reply->what.search_pose;
    struct search_query query;
    search_query_default(&query);
    query.preset = request->preset == posed_SearchPose_Preset_GERMANN ? SEARCH_PRESET_GERMANN
                                                                      : SEARCH_PRESET_DEFAULT;
    query.top = request->top ? request->top : 1;
    query.stopped = is_over;
    query.user = (void *)(uintptr_t)call;
    if (request->n_iterations)
        query.n_iterations = request->n_iterations;
    if (request->has_refine)
        query.refine = request->refine;
    if (request->threshold != 0)
        query.threshold = request->threshold;
    size_t n =
        request->objects_count ? request->objects_count : objects_count(handlers->common->objects);
    if (!check_objects(handlers, call, n, query.top))
        return;
    int64_t start_ns = clock_monotonic_ns();
    for (size_t k = 0; k < n; k++) {
        size_t i = request->objects_count
                       ? (size_t)objects_find(handlers->common->objects, request->objects[k])
                       : k;
        if (!search_one(handlers, call, i, image, &query))
            return;
    }
    out->elapsed_ms = (double)(clock_monotonic_ns() - start_ns) * 1e-6;
    wire_copy_text(out->backend, sizeof out->backend,
                   search_description(objects_search(handlers->common->objects)));
}

// From the most confident answer on.
static void start_following(struct handlers *handlers, posed_Reply *reply)
{
    const posed_FoundPoses *found = &reply->what.search_pose;
    const posed_FoundPose *best = NULL;
    struct se3 T_camera_object;
    const char *field;
    for (pb_size_t i = 0; i < found->poses_count; i++)
        if (found->poses[i].accepted && (!best || found->poses[i].confidence > best->confidence))
            best = &found->poses[i];
    follow_stop(&handlers->common->follow);
    handlers->common->followed = handlers;
    if (!best || wire_read_pose(&best->pose, &T_camera_object, &field) != 0) {
        handlers_fail(reply, posed_Code_NOT_FOUND, "search_pose.track",
                      "no answer was accepted, so there is nothing to follow");
        return;
    }
    if (follow_start(&handlers->common->follow, best->object, &T_camera_object, found->frame_seq,
                     &shared_info(handlers->shared)->capture.camera) != 0)
        handlers_fail_work(reply, -ENOMEM, NULL);
}

void handlers_search_pose(struct handlers *handlers, const struct handlers_call *call)
{
    const posed_SearchPose *request = &call->request->what.search_pose;
    struct search_image image = {
        .u0 = request->u0, .v0 = request->v0, .u1 = request->u1, .v1 = request->v1};
    if (objects_count(handlers->common->objects) == 0) {
        handlers_fail(call->reply, posed_Code_FAILED_PRECONDITION, "search_pose.objects",
                      "no object is known: posectl object add, or AddObject");
        return;
    }
    if ((unsigned)request->preset > 1) {
        handlers_fail(call->reply, posed_Code_INVALID_ARGUMENT, "search_pose.preset",
                      "unknown preset");
        return;
    }
    if (!(request->threshold >= 0 && request->threshold <= 1e6f)) {
        handlers_fail(call->reply, posed_Code_INVALID_ARGUMENT, "search_pose.threshold",
                      "a confidence of 0 to 1e6 is wanted");
        return;
    }
    if (request->track && request->has_image) {
        handlers_fail(call->reply, posed_Code_INVALID_ARGUMENT, "search_pose.track",
                      "only what the camera sees can be followed, not an uploaded image");
        return;
    }
    uint16_t *depth = request->has_image ? load_uploaded(handlers, call, &image)
                                         : load_kept(handlers, call, &image);
    if (depth && read_mask(call, &image)) {
        search_all(handlers, call, &image);
        if (request->track && call->reply->code == posed_Code_OK)
            start_following(handlers, call->reply);
    }
    free(depth);
}

void handlers_stop_tracking(struct handlers *handlers, const struct handlers_call *call)
{
    if (!handlers->common->follow.active)
        handlers_fail(call->reply, posed_Code_FAILED_PRECONDITION, NULL,
                      "no object is being followed");
    follow_stop(&handlers->common->follow);
}
