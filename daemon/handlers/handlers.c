// SPDX-License-Identifier: Apache-2.0
#include "daemon/handlers/handlers.h"

#include <errno.h>
#include <stdarg.h>
#include <string.h>

#include "daemon/fill_messages.h"

void handlers_fail(posed_Reply *reply, posed_Code code, const char *field, const char *format, ...)
{
    char message[sizeof reply->message];
    va_list args;
    va_start(args, format);
    vsnprintf(message, sizeof message, format, args);
    va_end(args);
    reply->code = code;
    reply->which_what = 0;
    wire_copy_text(reply->message, sizeof reply->message, message);
    wire_copy_text(reply->field, sizeof reply->field, field ? field : "");
}

void handlers_fail_work(posed_Reply *reply, int error, const char *field)
{
    switch (error) {
    case -ECANCELED:
        handlers_fail(reply, posed_Code_CANCELLED, field, "cancelled");
        return;
    case -ETIME:
        handlers_fail(reply, posed_Code_DEADLINE_EXCEEDED, field,
                      "the deadline passed: the work was given up. Give it a longer deadline_ms "
                      "(posectl: --timeout; at most requests.max_deadline_ms), or less to do");
        return;
    case -ENOMEM:
        handlers_fail(reply, posed_Code_RESOURCE_EXHAUSTED, field, "out of memory");
        return;
    default:
        handlers_fail(reply, posed_Code_INTERNAL, field, "the device failed: %s", strerror(-error));
    }
}

void handlers_fail_searching(posed_Reply *reply)
{
    handlers_fail(
        reply, posed_Code_FAILED_PRECONDITION, NULL,
        "the camera has not been found in the loaded map yet (SEARCHING): move it to where "
        "that was made, or begin a new one (posectl reset); the loaded one's file stays");
}

void handlers_progress(struct handlers *handlers, uint64_t request_id, double share,
                       const char *stage)
{
    posed_Event event;
    if (!handlers->publish)
        return;
    message_event(shared_info(handlers->shared), 0, posed_Event_Kind_PROGRESS, stage, &event);
    event.request_id = request_id;
    event.progress = (float)share;
    publish_post(handlers->publish, PUBLISH_EVENT, posed_Event_fields, &event);
}

void handlers_event(struct handlers *handlers, posed_Event_Kind kind, const char *text)
{
    posed_Event event;
    if (!handlers->publish)
        return;
    message_event(shared_info(handlers->shared), 0, kind, text, &event);
    publish_post(handlers->publish, PUBLISH_EVENT, posed_Event_fields, &event);
}

static void log_remark(void *user, enum log_level level, const char *line)
{
    const struct handlers *handlers = user;
    log_to(&handlers->log, level < LOG_LEVEL_INFO ? LOG_LEVEL_INFO : level, "request: %s", line);
}

struct log_sink handlers_log(struct handlers *handlers)
{
    return (struct log_sink){log_remark, handlers};
}

// Of each kind what it takes to run it (kinds.h).
struct handler {
    uint32_t kind;
    enum handlers_queue queue;
    void (*run)(struct handlers *handlers, const struct handlers_call *call);
    bool (*needs)(struct handlers *handlers, posed_Reply *reply);
    bool (*at_once)(struct handlers *handlers);
};

static const struct handler table[] = {
#define ROW(field, queue, needs, text, button, at_once) \
    {posed_Request_##field##_tag, HANDLERS_##queue, handlers_##field, needs, at_once},
    HANDLERS_KINDS(ROW)
#undef ROW
};

static const struct handler *find_handler(uint32_t kind)
{
    for (size_t i = 0; i < sizeof table / sizeof *table; i++)
        if (table[i].kind == kind)
            return &table[i];
    return NULL;
}

enum handlers_queue handlers_queue(struct handlers *handlers, uint32_t kind)
{
    const struct handler *handler = find_handler(kind);
    if (!handler || (handler->at_once && handler->at_once(handlers)))
        return HANDLERS_NOW;
    return handler->queue;
}

static struct handlers *find_camera(const struct handlers_common *common, const char *name)
{
    for (uint32_t i = 0; i < common->n_cameras; i++)
        if (!name[0] || strcmp(common->cameras[i].camera, name) == 0)
            return &common->cameras[i];
    return NULL;
}

// The reply says which cameras there are.
static void fail_camera(const struct handlers_common *common, const char *name, posed_Reply *reply)
{
    char names[200] = "";
    for (uint32_t i = 0; i < common->n_cameras; i++) {
        size_t n = strlen(names);
        snprintf(names + n, sizeof names - n, "%s%s", n ? ", " : "", common->cameras[i].camera);
    }
    if (names[0])
        handlers_fail(reply, posed_Code_NOT_FOUND, "camera", "no camera \"%s\": there are %s", name,
                      names);
    else
        handlers_fail(reply, posed_Code_NOT_FOUND, "camera",
                      "no camera \"%s\": there is one, and it has no name", name);
}

void handlers_accept(struct handlers *handlers, const posed_Request *request, struct map_turn *turn)
{
    const bool wants_map = request->which_what == posed_Request_save_map_tag ||
                           request->which_what == posed_Request_get_map_cloud_tag;
    const struct handlers *camera = find_camera(handlers->common, request->camera);
    if (camera)
        map_turn_enter(&handlers->common->turns, camera->shared, wants_map, turn);
}

void handlers_run(struct handlers *handlers, const struct handlers_call *call)
{
    const struct handler *handler = find_handler(call->request->which_what);
    if (!handler) {
        handlers_fail(call->reply, posed_Code_UNIMPLEMENTED, NULL,
                      "this daemon does not know the request");
        return;
    }
    const struct handlers_common *common = handlers->common;
    handlers = find_camera(common, call->request->camera);
    if (!handlers) {
        fail_camera(common, call->request->camera, call->reply);
        return;
    }
    call->reply->which_what = call->request->which_what;
    if (!handler->needs || handler->needs(handlers, call->reply))
        handler->run(handlers, call);
}

bool handlers_idle(struct handlers *handlers)
{
    struct handlers_common *common = handlers->common;
    if (!common->follow.active)
        return false;
    const struct follow_world world = {.shared = common->followed->shared,
                                       .frames = common->followed->frames,
                                       .objects = common->objects,
                                       .publish = common->followed->publish,
                                       .log = common->followed->log};
    follow_step(&common->follow, &world);
    return common->follow.active;
}

void handlers_open(struct handlers_common *common, struct handlers *cameras, uint32_t n_cameras)
{
    common->cameras = cameras;
    common->n_cameras = n_cameras;
    for (uint32_t i = 0; i < n_cameras; i++)
        cameras[i].common = common;
    pthread_mutex_init(&common->listed.mutex, NULL);
    map_turns_open(&common->turns);
}

void handlers_close(struct handlers_common *common)
{
    follow_stop(&common->follow);
    registration_close(&common->registration);
    objects_destroy(&common->objects);
    pthread_mutex_destroy(&common->listed.mutex);
    map_turns_close(&common->turns);
}

void handlers_yield(void *user, int64_t piece_ns)
{
    const struct handlers_common *common = user;
    for (uint32_t i = 0; i < common->n_cameras; i++)
        yield_frames_wait(common->cameras[i].yield_frames, piece_ns);
}
