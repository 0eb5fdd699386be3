// SPDX-License-Identifier: Apache-2.0
// AddObject, ListObjects, RemoveObject: the objects that SearchPose looks for.
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/handlers/handlers.h"
#include "proto/clock.h"

static void describe(const struct handlers *handlers, size_t i, posed_Object *out)
{
    static const posed_Object_Symmetry symmetries[] = {
        posed_Object_Symmetry_NONE, posed_Object_Symmetry_FOLD, posed_Object_Symmetry_REVOLUTION,
        posed_Object_Symmetry_SPHERE};
    struct search_object_info info;
    search_object_describe(objects_get(handlers->common->objects, i), &info);
    *out = (posed_Object){
        .views = info.n_views,
        .triangles = info.n_triangles,
        .vertices = info.n_vertices,
        .radius_m = (double)info.radius_m,
        .symmetry = symmetries[info.symmetry],
        .fold = info.fold,
        .has_axis = true,
        .axis = {info.axis[0], info.axis[1], info.axis[2]},
    };
    wire_copy_text(out->name, sizeof out->name, objects_name(handlers->common->objects, i));
}

// After every change of them.
static void note_objects(struct handlers *handlers)
{
    struct listed_objects *listed = &handlers->common->listed;
    size_t n = objects_count(handlers->common->objects);
    pthread_mutex_lock(&listed->mutex);
    for (size_t i = 0; i < n; i++)
        describe(handlers, i, &listed->objects.objects[i]);
    listed->objects.objects_count = (pb_size_t)n;
    listed->known = true;
    pthread_mutex_unlock(&listed->mutex);
}

bool handlers_objects_can_list(struct handlers *handlers)
{
    pthread_mutex_lock(&handlers->common->listed.mutex);
    bool known = handlers->common->listed.known;
    pthread_mutex_unlock(&handlers->common->listed.mutex);
    return known;
}

bool handlers_objects_open(struct handlers *handlers, posed_Reply *reply)
{
    struct search_settings settings;
    if (handlers->common->objects_failed) { // what no folder keeps is gone
        follow_stop(&handlers->common->follow);
        objects_destroy(&handlers->common->objects);
        handlers->common->objects_failed = false;
    }
    if (handlers->common->objects)
        return true;
    search_settings_default(&settings);
    settings.backend = gpu_backend_beside(handlers->config->backend);
    settings.n_threads = handlers->config->gpu.n_threads;
    settings.cuda_device = handlers->config->gpu.cuda_device;
    settings.yield = (struct yield){handlers_yield, handlers->common};
    settings.log = handlers_log(handlers);
    int error = objects_create(&handlers->common->objects, &settings,
                               handlers->config->search.folder, &handlers->log);
    if (error)
        handlers_fail(reply, posed_Code_UNAVAILABLE, NULL, "the search cannot be opened: %s",
                      strerror(-error));
    else
        note_objects(handlers);
    return !error;
}

struct progress {
    struct handlers *handlers;
    const struct handlers_call *call;
    int64_t next_ns; // when to tell again
    bool late;
};

// Ends the drawing of views when the client has cancelled or the deadline has passed.
static int tell_progress(void *user, uint32_t n_done, uint32_t n_views)
{
    struct progress *progress = user;
    int64_t now_ns = clock_monotonic_ns();
    progress->late = now_ns >= progress->call->deadline_ns;
    if (progress->late || __atomic_load_n(&progress->call->stop->requested, __ATOMIC_ACQUIRE))
        return 1;
    if (now_ns >= progress->next_ns) {
        progress->next_ns = now_ns + 200000000;
        handlers_progress(progress->handlers, progress->call->request->id,
                          (double)n_done / (double)n_views, "drawing reference views");
    }
    return 0;
}

static void fail_add(posed_Reply *reply, int error, bool late)
{
    switch (error) {
    case -EEXIST:
        handlers_fail(reply, posed_Code_ALREADY_EXISTS, "add_object.name",
                      "there is an object of this name");
        return;
    case -ENOSPC:
        handlers_fail(reply, posed_Code_RESOURCE_EXHAUSTED, NULL, "%d objects are known already",
                      OBJECTS_MAX);
        return;
    case -EINVAL:
        handlers_fail(reply, posed_Code_INVALID_ARGUMENT, "add_object",
                      "no usable triangle, points on one line, or n_views out of range; the "
                      "log says which");
        return;
    default:
        handlers_fail_work(reply, error == -ECANCELED && late ? -ETIME : error, NULL);
    }
}

// Views are what takes the memory: a client asks for any number of them.
static bool has_room(const struct handlers *handlers, uint32_t n_views, posed_Reply *reply)
{
    const uint32_t max = handlers->config->search.max_views;
    struct search_object_info info;
    size_t n_all = n_views;
    for (size_t i = 0; i < objects_count(handlers->common->objects); i++) {
        search_object_describe(objects_get(handlers->common->objects, i), &info);
        n_all += info.n_views;
    }
    if (n_all > max)
        handlers_fail(reply, posed_Code_RESOURCE_EXHAUSTED, "add_object.n_views",
                      "all objects together would have %zu views, search.max_views = %u", n_all,
                      max);
    return n_all <= max;
}

// Both arrays as they stand in the message, copied to where they are aligned.
void handlers_add_object(struct handlers *handlers, const struct handlers_call *call)
{
    const posed_AddObject *request = &call->request->what.add_object;
    const uint32_t vertices_path[] = {posed_Request_add_object_tag, WIRE_ADD_OBJECT_VERTICES};
    const uint32_t triangles_path[] = {posed_Request_add_object_tag, WIRE_ADD_OBJECT_TRIANGLES};
    const uint8_t *vertices, *triangles;
    size_t n_vertices, n_triangles, max = handlers->config->search.max_triangles;
    struct search_object_settings settings;
    struct progress progress = {.handlers = handlers, .call = call};
    wire_find_bytes(call->body, call->n_body, vertices_path, 2, &vertices, &n_vertices);
    wire_find_bytes(call->body, call->n_body, triangles_path, 2, &triangles, &n_triangles);
    const char *field = n_vertices == 0 || n_vertices % 12 || n_vertices / 12 > max
                            ? "add_object.vertices"
                            : "add_object.triangles";
    if (!recorder_name_is_plain(request->name)) {
        handlers_fail(
            call->reply, posed_Code_INVALID_ARGUMENT, "add_object.name",
            "1 to 64 of A-Z a-z 0-9 . _ - are wanted, without a point or dash in front or a "
            "suffix");
        return;
    }
    if (n_vertices == 0 || n_vertices % 12 || n_triangles % 12 || n_vertices / 12 > max ||
        n_triangles / 12 > max) {
        handlers_fail(call->reply, posed_Code_INVALID_ARGUMENT, field,
                      "up to %zu elements of 12 bytes are wanted, one vertex at least "
                      "(search.max_triangles)",
                      max);
        return;
    }
    search_object_settings_default(&settings);
    if (request->n_views)
        settings.n_views = request->n_views;
    if (!has_room(handlers, settings.n_views, call->reply))
        return;
    void *copy = malloc(n_vertices + n_triangles);
    if (!copy) {
        fail_add(call->reply, -ENOMEM, false);
        return;
    }
    memcpy(copy, vertices, n_vertices);
    if (n_triangles)
        memcpy((char *)copy + n_vertices, triangles, n_triangles);
    const struct search_mesh mesh = {.vertices_m = copy,
                                     .triangles = (uint32_t *)copy + n_vertices / 4,
                                     .n_vertices = n_vertices / 12,
                                     .n_triangles = n_triangles / 12};
    settings.choice = request->greedy ? SEARCH_CHOICE_GREEDY : SEARCH_CHOICE_EVEN;
    settings.progress = tell_progress;
    settings.user = &progress;
    int error = objects_add(handlers->common->objects, request->name, &mesh, &settings);
    free(copy);
    if (error == OBJECTS_NOT_KEPT) {
        snprintf(call->reply->message, sizeof call->reply->message,
                 "%s will be gone when the daemon ends: it could not be kept in search.folder (the "
                 "daemon's log says why)",
                 request->name);
    } else if (error) {
        handlers->common->objects_failed = error == -EIO;
        fail_add(call->reply, error, progress.late);
        return;
    }
    note_objects(handlers);
    describe(handlers, objects_count(handlers->common->objects) - 1, &call->reply->what.add_object);
}

void handlers_list_objects(struct handlers *handlers, const struct handlers_call *call)
{
    if (!handlers_objects_can_list(handlers) && !handlers_objects_open(handlers, call->reply))
        return;
    pthread_mutex_lock(&handlers->common->listed.mutex);
    call->reply->what.list_objects = handlers->common->listed.objects;
    pthread_mutex_unlock(&handlers->common->listed.mutex);
}

void handlers_remove_object(struct handlers *handlers, const struct handlers_call *call)
{
    const posed_RemoveObject *request = &call->request->what.remove_object;
    if (handlers->common->follow.active &&
        strcmp(handlers->common->follow.object, request->name) == 0)
        follow_stop(&handlers->common->follow);
    if (objects_remove(handlers->common->objects, request->name) != 0)
        handlers_fail(call->reply, posed_Code_NOT_FOUND, "remove_object.name", "no object \"%s\"",
                      request->name);
    note_objects(handlers);
}
