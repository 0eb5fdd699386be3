// SPDX-License-Identifier: Apache-2.0
// SaveMap, LoadMap, ListMaps, GetKeyframes. Names are plain: a client never names a path. The frame
// loop copies and orders the map in memory (20 ms for 29 MB); files are written and read here.
#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "daemon/handlers/handlers.h"
#include "daemon/map_export.h"
#include "daemon/map_saved.h"
#include "gpu/model/pose_graph.h"

#define MAX_KEYFRAMES 1024 // map.keyframes

// What is said of a map that a camera may not be found in. Half a turn in a room leaves 20 views.
#define FEW_VIEWS    4
#define MUCH_DROPPED 0.25f // of its frames

bool handlers_keeps_maps(struct handlers *handlers, posed_Reply *reply)
{
    bool is_set = handlers->config->map_folder[0];
    if (!is_set)
        handlers_fail(reply, posed_Code_FAILED_PRECONDITION, NULL,
                      "map.folder is not set: start posed with --set map.folder=DIR");
    return is_set;
}

uint32_t handlers_map_epoch(const struct handlers *handlers, const struct handlers_call *call)
{
    return call->turn ? call->turn->epoch : shared_map_epoch(handlers->shared);
}

void handlers_fail_epoch(const struct handlers *handlers, const struct handlers_call *call)
{
    const bool saves = call->request->which_what == posed_Request_save_map_tag;
    handlers_fail(call->reply, posed_Code_ABORTED, NULL,
                  "the map of epoch %u was given up before it was %s: epoch %u has begun",
                  handlers_map_epoch(handlers, call), saves ? "saved" : "read",
                  shared_map_epoch(handlers->shared));
}

// Copies the map of an epoch. False: the reply says that the frame loop did not; else *out_error is
// as of map_read, -ENOTSUP or -ESTALE. Where either is not well, *out is empty.
static bool copy_map(const struct handlers *handlers, const struct handlers_call *call,
                     uint32_t epoch, struct map_contents *out, struct intrinsics *out_camera,
                     int *out_error)
{
    const struct shared_command command = {.kind = SHARED_READ_MAP, .map = out, .map_epoch = epoch};
    struct shared_answer answer;
    *out = (struct map_contents){0};
    do {
        if (!handlers_command(handlers, &command, call, &answer)) {
            map_contents_free(out);
            return false;
        }
        if (answer.error != -ENOBUFS)
            break;
        answer.error = map_contents_reserve(out);
    } while (!answer.error);
    *out_camera = answer.camera;
    if (answer.error)
        map_contents_free(out);
    *out_error = answer.error;
    return true;
}

// Makes the copies of all that asked before this call. False: the reply says why not.
static bool copy_for_others(const struct handlers *handlers, const struct handlers_call *call)
{
    struct map_turn *turn;
    int error;
    while ((error = map_turn_before(call->turn, call->deadline_ns, &turn)) == 0 && turn) {
        const bool asked = copy_map(handlers, call, turn->epoch, &turn->map, &turn->camera, &error);
        map_turn_made(turn, asked && error == 0);
        if (!asked)
            return false;
    }
    if (error)
        handlers_fail(call->reply, posed_Code_DEADLINE_EXCEEDED, NULL,
                      "a request before this one copies the map still; nothing was changed. Give "
                      "it a longer deadline_ms (posectl: --timeout), or ask again");
    return error == 0;
}

bool handlers_command_ending_epoch(const struct handlers *handlers,
                                   const struct shared_command *command,
                                   const struct handlers_call *call, struct shared_answer *out)
{
    return (!call->turn || copy_for_others(handlers, call)) &&
           handlers_command(handlers, command, call, out);
}

bool handlers_read_map(const struct handlers *handlers, const struct handlers_call *call,
                       struct map_contents *out, struct intrinsics *out_camera)
{
    int error = 0;
    if (!call->turn || !map_turn_begin(call->turn, out, out_camera)) {
        const bool asked =
            copy_map(handlers, call, handlers_map_epoch(handlers, call), out, out_camera, &error);
        if (call->turn)
            map_turn_end(call->turn);
        if (!asked)
            return false;
    }
    if (error == 0 && out->n_blocks == 0)
        error = -ENODATA; // of use to nobody: a file of it could not be loaded
    switch (error) {
    case 0:
        if (out->n_left_out > 0)
            snprintf(call->reply->message, sizeof call->reply->message,
                     "the map is not all that was seen: it is full, and at least %u blocks of one "
                     "frame were left out (map.memory_bytes, map.far_bytes)",
                     out->n_left_out);
        map_contents_order(out);
        return true;
    case -ESTALE:
        handlers_fail_epoch(handlers, call);
        return false;
    case -ENOTSUP:
        handlers_fail(call->reply, posed_Code_FAILED_PRECONDITION, NULL,
                      "no map is kept: start posed with --set map.folder=DIR or --reference model");
        return false;
    case -ENODATA:
        handlers_fail(call->reply, posed_Code_FAILED_PRECONDITION, NULL, "%s",
                      map_export_why_none(out->n_left_out));
        map_contents_free(out);
        return false;
    case -EAGAIN:
        handlers_fail_searching(call->reply);
        return false;
    default:
        handlers_fail_work(call->reply, error, NULL);
        return false;
    }
}

// The file of a map. False: the reply says what is wrong with the name.
static bool find_path(const struct handlers *handlers, posed_Reply *reply, const char *name,
                      const char *field, char out[CONFIG_TEXT_MAX + 96])
{
    bool is_plain = recorder_name_is_plain(name);
    if (!is_plain)
        handlers_fail(reply, posed_Code_INVALID_ARGUMENT, field,
                      "1 to 64 of A-Z a-z 0-9 . _ - are wanted, without a point or dash in front "
                      "or a suffix");
    snprintf(out, CONFIG_TEXT_MAX + 96, "%s/%s" MAP_SAVED_SUFFIX, handlers->config->map_folder,
             name);
    return is_plain;
}

// Behind what the message says already, where it fits.
static void add_remark(posed_Reply *reply, const char *text)
{
    const size_t n = strlen(reply->message), room = sizeof reply->message - n;
    if (strlen(text) + 2 < room)
        snprintf(reply->message + n, room, "%s%s", n > 0 ? "; " : "", text);
}

// Why a camera may not be found in a map, for who saves it, or loads it, and for the log.
static void remark_doubts(const struct handlers *handlers, const char *path,
                          const struct map_contents *map, posed_Reply *reply)
{
    char text[160];
    if (map->dropped >= MUCH_DROPPED) {
        snprintf(text, sizeof text,
                 "%.0f %% of its frames were dropped or damaged: what only these showed is not in "
                 "it (move slower; of a recording: --speed max)",
                 (double)map->dropped * 100);
        add_remark(reply, text);
    }
    if (map->n_keyframes < FEW_VIEWS) {
        snprintf(text, sizeof text, "few views: a camera is found in it only near where %s made",
                 map->n_keyframes == 1 ? "that one was" : "these were");
        add_remark(reply, text);
    }
    if (reply->message[0])
        log_to(&handlers->log, LOG_LEVEL_WARNING, "%s: %s", path, reply->message);
}

void handlers_save_map(struct handlers *handlers, const struct handlers_call *call)
{
    const char *name = call->request->what.save_map.name;
    posed_Reply *reply = call->reply;
    struct map_saved_place place = {.model = handlers->config->map};
    struct map_contents map;
    char path[CONFIG_TEXT_MAX + 96];
    uint64_t n_bytes;
    if (!find_path(handlers, reply, name, "save_map.name", path) ||
        !handlers_read_map(handlers, call, &map, &place.camera))
        return;
    if (map_contents_correct(&map, &place.model) != 0) {
        handlers_fail_work(reply, -ENOMEM, NULL);
        map_contents_free(&map);
        return;
    }
    int error = map_saved_write(path, &place, &map, &n_bytes);
    if (error == -EEXIST) {
        handlers_fail(reply, posed_Code_ALREADY_EXISTS, "save_map.name",
                      "%s" MAP_SAVED_SUFFIX " is there already, in map.folder: take another name",
                      name);
    } else if (error) {
        handlers_fail(reply,
                      error == -ENOSPC ? posed_Code_RESOURCE_EXHAUSTED : posed_Code_UNAVAILABLE,
                      "save_map.name", "%s: %s (map.folder)", path, strerror(-error));
    } else {
        posed_SavedMap *out = &reply->what.save_map;
        wire_copy_text(out->name, sizeof out->name, name);
        out->bytes = n_bytes;
        out->blocks = map.n_blocks;
        out->keyframes = map.n_keyframes;
        log_to(&handlers->log, LOG_LEVEL_NOTICE,
               "%s: %u blocks, %u views to find a camera by saved", path, map.n_blocks,
               map.n_keyframes);
        remark_doubts(handlers, path, &map, reply);
        error = map_saved_sync_name(path);
        if (error)
            log_to(&handlers->log, LOG_LEVEL_WARNING,
                   "%s: its folder is not synced (%s): a power failure may lose the name", path,
                   strerror(-error));
    }
    map_contents_free(&map);
}

static void fail_read(const struct handlers *handlers, posed_Reply *reply, int error,
                      const char *name, const char *text)
{
    posed_Code code = error == -ENOENT   ? posed_Code_NOT_FOUND
                      : error == -ENOSPC ? posed_Code_RESOURCE_EXHAUSTED
                      : error == -ENOMEM ? posed_Code_RESOURCE_EXHAUSTED
                      : error == -EBADMSG || error == -EXDEV || error == -EPROTONOSUPPORT
                          ? posed_Code_FAILED_PRECONDITION
                          : posed_Code_UNAVAILABLE;
    if (error == -ENOENT)
        handlers_fail(
            reply, code, "load_map.name",
            "there is no map \"%s\" in map.folder %s (a name stands without its " MAP_SAVED_SUFFIX
            ")",
            name, handlers->config->map_folder);
    else
        handlers_fail(reply, code, "load_map.name", "%s" MAP_SAVED_SUFFIX ": %s", name, text);
}

void handlers_load_map(struct handlers *handlers, const struct handlers_call *call)
{
    const char *name = call->request->what.load_map.name;
    posed_Reply *reply = call->reply;
    const struct map_saved_place place = {.camera = shared_info(handlers->shared)->capture.camera,
                                          .model = handlers->config->map};
    struct map_contents map;
    struct shared_answer answer;
    char path[CONFIG_TEXT_MAX + 96], why[MAP_SAVED_ERROR_BYTES];
    if (!find_path(handlers, reply, name, "load_map.name", path))
        return;
    int error = map_saved_read(path, &place, &map, why);
    if (error) {
        fail_read(handlers, reply, error, name, why);
        return;
    }
    if (map.n_keyframes == 0 || map.n_blocks == 0) {
        fail_read(handlers, reply, -EBADMSG, name, "empty: no camera could be found in it");
        map_contents_free(&map);
        return;
    }
    const struct shared_command command = {
        .kind = SHARED_LOAD_MAP, .map = &map, .camera = place.camera};
    if (handlers_command_ending_epoch(handlers, &command, call, &answer)) {
        if (answer.error == -EXDEV)
            handlers_fail(reply, posed_Code_FAILED_PRECONDITION, "load_map.name",
                          "the camera changed meanwhile: ask again");
        else if (answer.error)
            handlers_fail_work(reply, answer.error, NULL);
        else
            reply->what.load_map = (posed_MapLoaded){
                .next_seq = answer.next_seq, .blocks = map.n_blocks, .keyframes = map.n_keyframes};
        if (!answer.error)
            remark_doubts(handlers, path, &map, reply);
    }
    map_contents_free(&map);
}

static int is_map(const struct dirent *entry)
{
    char name[RECORDER_NAME_BYTES];
    const char *suffix = strrchr(entry->d_name, '.');
    if (!suffix || strcmp(suffix, MAP_SAVED_SUFFIX) != 0 ||
        suffix - entry->d_name >= (long)sizeof name)
        return 0;
    snprintf(name, sizeof name, "%.*s", (int)(suffix - entry->d_name), entry->d_name);
    return recorder_name_is_plain(name);
}

// What could be loaded: a file, or a link to one.
static bool find_file(const char *folder, const char *file, struct stat *out)
{
    char path[CONFIG_TEXT_MAX + 260];
    snprintf(path, sizeof path, "%s/%s", folder, file);
    return stat(path, out) == 0 && S_ISREG(out->st_mode);
}

// A map of the folder; one that has gone meanwhile is listed with 0 bytes.
static void fill_listed(const char *folder, const char *file, posed_SavedMap *out)
{
    char name[RECORDER_NAME_BYTES];
    struct stat status;
    snprintf(name, sizeof name, "%.*s", (int)(strlen(file) - strlen(MAP_SAVED_SUFFIX)), file);
    wire_copy_text(out->name, sizeof out->name, name);
    if (!find_file(folder, file, &status))
        return;
    out->bytes = (uint64_t)status.st_size;
    out->has_modified = true;
    out->modified =
        wire_timestamp((int64_t)status.st_mtim.tv_sec * 1000000000 + status.st_mtim.tv_nsec);
}

void handlers_list_maps(struct handlers *handlers, const struct handlers_call *call)
{
    const char *folder = handlers->config->map_folder;
    posed_SavedMaps *page = &call->reply->what.list_maps;
    const size_t page_max = sizeof page->maps / sizeof page->maps[0];
    struct dirent **files;
    struct stat status;
    int n = scandir(folder, &files, is_map, alphasort);
    if (n < 0) {
        handlers_fail(call->reply, posed_Code_UNAVAILABLE, NULL, "map.folder %s: %s", folder,
                      strerror(errno));
        return;
    }
    for (int i = 0; i < n; i++) {
        if (find_file(folder, files[i]->d_name, &status))
            files[page->total++] = files[i];
        else
            free(files[i]);
    }
    for (uint32_t i = call->request->what.list_maps.skip;
         i < page->total && page->maps_count < page_max; i++)
        fill_listed(folder, files[i]->d_name, &page->maps[page->maps_count++]);
    for (uint32_t i = 0; i < page->total; i++)
        free(files[i]);
    free(files);
}

void handlers_get_keyframes(struct handlers *handlers, const struct handlers_call *call)
{
    posed_Reply *reply = call->reply;
    posed_Keyframes *page = &reply->what.get_keyframes;
    const size_t page_max = sizeof page->keyframes / sizeof page->keyframes[0];
    if (handlers->config->map_keyframes == 0) {
        handlers_fail(reply, posed_Code_FAILED_PRECONDITION, NULL,
                      "no keyframes are kept: map.keyframes is 0");
        return;
    }
    struct graph_keyframe *keyframes = malloc(MAX_KEYFRAMES * sizeof *keyframes);
    if (!keyframes) {
        handlers_fail_work(reply, -ENOMEM, NULL);
        return;
    }
    const struct shared_command command = {.kind = SHARED_KEYFRAMES,
                                           .keyframes = keyframes,
                                           .max_keyframes = MAX_KEYFRAMES,
                                           .map_epoch = handlers_map_epoch(handlers, call)};
    struct shared_answer answer;
    if (!handlers_command(handlers, &command, call, &answer))
        goto free_keyframes;
    if (answer.error) {
        if (answer.error == -ESTALE)
            handlers_fail_epoch(handlers, call);
        else
            handlers_fail_searching(reply);
        goto free_keyframes;
    }
    page->total = answer.n_keyframes;
    page->map_epoch = answer.map_epoch;
    for (uint32_t i = call->request->what.get_keyframes.skip;
         i < answer.n_keyframes && page->keyframes_count < page_max; i++)
        page->keyframes[page->keyframes_count++] =
            (posed_Keyframe){.has_timestamp = true,
                             .timestamp = wire_timestamp(keyframes[i].time_ns),
                             .seq = keyframes[i].seq,
                             .has_pose = true,
                             .pose = wire_pose(&keyframes[i].T_map_camera, NULL),
                             .links = keyframes[i].n_links};
free_keyframes:
    free(keyframes);
}
