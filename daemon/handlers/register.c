// SPDX-License-Identifier: Apache-2.0
// Register: two point sets in, the transform between them out.
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/backproject.h"
#include "daemon/handlers/handlers.h"

// One set, as structure of arrays in one block of memory.
struct loaded_set {
    struct point_set set;
    float *memory;
};

static int take_memory(struct loaded_set *out, size_t n_points, bool has_normals)
{
    out->memory = malloc((n_points ? n_points : 1) * (has_normals ? 6 : 3) * sizeof(float));
    if (!out->memory)
        return -ENOMEM;
    float *m = out->memory;
    out->set = (struct point_set){.x_m = m, .y_m = m + n_points, .z_m = m + 2 * n_points};
    if (has_normals) {
        out->set.nx = m + 3 * n_points;
        out->set.ny = m + 4 * n_points;
        out->set.nz = m + 5 * n_points;
    }
    out->set.n_points = n_points;
    return 0;
}

static bool load_inline(const struct handlers_call *call, uint32_t set_field, const char *name,
                        uint32_t max_points, struct loaded_set *out)
{
    const uint32_t points_path[] = {posed_Request_register_sets_tag, set_field,
                                    WIRE_POINT_SET_POINTS};
    const uint32_t normals_path[] = {posed_Request_register_sets_tag, set_field,
                                     WIRE_POINT_SET_NORMALS};
    const uint8_t *points, *normals;
    size_t n_points, n_normals;
    char field[64];
    snprintf(field, sizeof field, "register_sets.%s.points", name);
    wire_find_bytes(call->body, call->n_body, points_path, 3, &points, &n_points);
    wire_find_bytes(call->body, call->n_body, normals_path, 3, &normals, &n_normals);
    if (n_points % 12 != 0) {
        handlers_fail(call->reply, posed_Code_INVALID_ARGUMENT, field,
                      "%zu bytes are no whole number of points (12 bytes each)", n_points);
        return false;
    }
    if (n_points / 12 > max_points) {
        handlers_fail(call->reply, posed_Code_INVALID_ARGUMENT, field,
                      "%zu points exceed requests.max_points = %u", n_points / 12, max_points);
        return false;
    }
    if (n_normals != 0 && n_normals != n_points) {
        snprintf(field, sizeof field, "register_sets.%s.normals", name);
        handlers_fail(call->reply, posed_Code_INVALID_ARGUMENT, field,
                      "%zu bytes of normals for %zu of points", n_normals, n_points);
        return false;
    }
    if (take_memory(out, n_points / 12, n_normals != 0) != 0) {
        handlers_fail_work(call->reply, -ENOMEM, field);
        return false;
    }
    wire_split_points(points, n_points / 12, out->memory);
    if (n_normals)
        wire_split_points(normals, n_points / 12, out->memory + 3 * (n_points / 12));
    return true;
}

static bool load_frame(struct handlers *handlers, const struct handlers_call *call,
                       const posed_PointSet *set, const char *name, uint32_t max_points,
                       struct loaded_set *out)
{
    const struct intrinsics *size = &shared_info(handlers->shared)->capture.camera;
    uint16_t *depth = malloc((size_t)size->width_px * size->height_px * sizeof *depth);
    struct depth_frame frame;
    struct intrinsics camera;
    uint64_t seq = set->frame_seq;
    char field[64];
    bool ok = false;
    snprintf(field, sizeof field, "register_sets.%s.frame_seq", name);
    if (!depth) {
        handlers_fail_work(call->reply, -ENOMEM, field);
    } else if (handlers_kept_frame(handlers, true, &seq, depth, &frame, &camera) != 0) {
        handlers_fail(call->reply, posed_Code_NOT_FOUND, field,
                      "frame %llu is not kept (requests.keep_frames = %u)",
                      (unsigned long long)set->frame_seq, handlers->config->requests.keep_frames);
    } else {
        uint32_t stride = set->stride ? set->stride : backproject_stride(&frame, max_points);
        size_t n = backproject_count(&frame, stride);
        if (n > max_points)
            handlers_fail(call->reply, posed_Code_INVALID_ARGUMENT, field,
                          "%zu points exceed requests.max_points = %u; a larger stride helps", n,
                          max_points);
        else if (take_memory(out, n, false) != 0)
            handlers_fail_work(call->reply, -ENOMEM, field);
        else
            ok = true;
        if (ok)
            backproject_points(&frame, &camera, stride, 1, n, out->memory);
    }
    free(depth);
    return ok;
}

static bool load_set(struct handlers *handlers, const struct handlers_call *call, bool has_set,
                     const posed_PointSet *set, uint32_t set_field, const char *name,
                     struct loaded_set *out)
{
    uint32_t max_points = handlers->config->requests.max_points;
    if (has_set && set->has_frame_seq)
        return load_frame(handlers, call, set, name, max_points, out);
    return load_inline(call, set_field, name, max_points, out);
}

static bool read_settings(const posed_Register *request, struct register_settings *out,
                          posed_Reply *reply)
{
    const char *field;
    char path[64];
    register_settings_default(out);
    static const enum register_method methods[] = {REGISTER_METHOD_EMICP,
                                                   REGISTER_METHOD_SOFTASSIGN, REGISTER_METHOD_ICP,
                                                   REGISTER_METHOD_GICP};
    if ((unsigned)request->method > 3) {
        handlers_fail(reply, posed_Code_INVALID_ARGUMENT, "register_sets.method", "unknown method");
        return false;
    }
    if ((unsigned)request->form > 1 || (unsigned)request->preset > 1 ||
        (unsigned)request->start > 1) {
        handlers_fail(reply, posed_Code_INVALID_ARGUMENT,
                      (unsigned)request->form > 1     ? "register_sets.form"
                      : (unsigned)request->preset > 1 ? "register_sets.preset"
                                                      : "register_sets.start",
                      "unknown value");
        return false;
    }
    if (request->has_initial &&
        wire_read_pose(&request->initial, &out->T_target_source, &field) != 0) {
        snprintf(path, sizeof path, "register_sets.initial.%s", field);
        handlers_fail(reply, posed_Code_INVALID_ARGUMENT, path, "no valid pose");
        return false;
    }
    out->method = methods[request->method];
    out->form =
        request->form == posed_Register_Form_DENSE ? REGISTER_FORM_DENSE : REGISTER_FORM_STREAMING;
    out->preset = request->preset == posed_Register_Preset_TAMAKI ? REGISTER_PRESET_TAMAKI
                                                                  : REGISTER_PRESET_DEFAULT;
    out->start =
        request->start == posed_Register_Start_MANY ? REGISTER_START_MANY : REGISTER_START_IDENTITY;
    out->slack = request->slack;
    out->sigma_last = request->sigma_last;
    out->n_iterations = request->n_iterations;
    out->n_points = request->n_points;
    out->n_starts = request->n_starts;
    out->point_to_plane = !request->point_to_point;
    return true;
}

static bool open_registration(struct handlers *handlers, posed_Reply *reply)
{
    struct register_config config;
    if (handlers->common->registration)
        return true;
    register_config_default(&config);
    config.backend = gpu_backend_beside(handlers->config->backend);
    config.n_threads = handlers->config->gpu.n_threads;
    config.cuda_device = handlers->config->gpu.cuda_device;
    config.yield = (struct yield){handlers_yield, handlers->common};
    config.log = handlers_log(handlers);
    int error = registration_open(&handlers->common->registration, &config);
    if (error)
        handlers_fail(reply, posed_Code_UNAVAILABLE, NULL, "the registration cannot be opened: %s",
                      strerror(-error));
    return !error;
}

struct progress {
    struct handlers *handlers;
    uint64_t request_id;
};

static void tell_progress(void *user, double share, const char *stage)
{
    const struct progress *progress = user;
    handlers_progress(progress->handlers, progress->request_id, share, stage);
}

static void fill_result(const struct handlers *handlers, const struct register_result *result,
                        posed_Registered *out)
{
    *out = (posed_Registered){
        .has_pose = true,
        .pose = wire_pose(&result->T_target_source, NULL),
        .residual_rms_m = result->residual_rms_m,
        .overlap_source = result->overlap_source,
        .overlap_target = result->overlap_target,
        .covariance_count = 36,
        .iterations = result->n_iterations,
        .converged = result->converged,
        .ambiguity = result->ambiguity,
        .ambiguous = result->ambiguous,
        .has_second = result->has_second,
        .second = wire_pose(&result->T_second, NULL),
        .elapsed_ms = result->elapsed_ms,
    };
    memcpy(out->covariance, result->covariance, sizeof result->covariance);
    wire_copy_text(out->doubt, sizeof out->doubt, result->doubt);
    wire_copy_text(out->backend, sizeof out->backend,
                   registration_description(handlers->common->registration));
}

static void fail_run(const struct handlers *handlers, const struct handlers_call *call, int error,
                     const char *field)
{
    char path[64];
    posed_Reply *reply = call->reply;
    switch (error) {
    case -EINVAL:
        snprintf(path, sizeof path, "register_sets.%s", field ? field : "");
        handlers_fail(reply, posed_Code_INVALID_ARGUMENT, path, "%s",
                      registration_why(handlers->common->registration));
        return;
    default:
        handlers_fail_work(reply, error, NULL);
    }
}

void handlers_register_sets(struct handlers *handlers, const struct handlers_call *call)
{
    const posed_Register *request = &call->request->what.register_sets;
    struct loaded_set source = {.memory = NULL}, target = {.memory = NULL};
    struct register_settings settings;
    struct register_result result;
    const char *field = NULL;
    struct progress progress = {handlers, call->request->id};
    if (!read_settings(request, &settings, call->reply) ||
        !open_registration(handlers, call->reply) ||
        !load_set(handlers, call, request->has_source, &request->source, posed_Register_source_tag,
                  "source", &source) ||
        !load_set(handlers, call, request->has_target, &request->target, posed_Register_target_tag,
                  "target", &target))
        goto free_sets;
    call->stop->progress = tell_progress;
    call->stop->user = &progress;
    int error = registration_run(handlers->common->registration, &source.set, &target.set,
                                 &settings, call->stop, &result, &field);
    if (error)
        fail_run(handlers, call, error, field);
    else
        fill_result(handlers, &result, &call->reply->what.register_sets);
    if (error == -EIO)
        registration_close(&handlers->common->registration); // the next request opens it again
free_sets:
    free(source.memory);
    free(target.memory);
}
