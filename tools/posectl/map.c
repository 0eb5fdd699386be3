// SPDX-License-Identifier: Apache-2.0
// posectl map save NAME | load NAME | list | export OUT.ply | keyframes | optimise
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "capture/cloud/cloud.h"
#include "proto/file_suffix.h"
#include "tools/posectl/map_found.h"
#include "tools/posectl/output_look.h"
#include "tools/posectl/posectl.h"

#define DEGREES 57.29577951

static posed_Reply reply;
static const char *action, *name;
static double voxel_m, until_found_s;

static const struct {
    const char *name;
    bool takes_name;
} actions[] = {{"save", true},   {"load", true},       {"list", false},
               {"export", true}, {"keyframes", false}, {"optimise", false}};

static bool action_takes_name(bool *out_known)
{
    *out_known = false;
    for (size_t i = 0; action && i < sizeof actions / sizeof actions[0]; i++)
        if (strcmp(action, actions[i].name) == 0) {
            *out_known = true;
            return actions[i].takes_name;
        }
    return false;
}

static error_t on_option(int key, char *arg, struct argp_state *state)
{
    bool known;
    switch (key) {
    case 'x':
        voxel_m = argument_number(state, "voxel", arg, 0.001, 10);
        return 0;
    case 'u':
        until_found_s = argument_number(state, "until-found", arg, 1, 86400);
        return 0;
    case ARGP_KEY_ARG:
        if (state->arg_num == 0)
            action = arg;
        else if (state->arg_num == 1)
            name = arg;
        else
            argp_error(state, "\"%s\" is one word too many", arg);
        return 0;
    case ARGP_KEY_END:
        if (action_takes_name(&known) != (name != NULL) && known)
            argp_error(state, "%s %s %s", action, name ? "takes no" : "needs a",
                       strcmp(action, "export") ? "name" : "file, OUT.ply");
        if (!known)
            argp_error(state,
                       "save NAME, load NAME, list, export OUT.ply, keyframes or optimise is "
                       "wanted");
        if (voxel_m > 0 && strcmp(action, "export") != 0)
            argp_error(state, "--voxel is for export");
        if (until_found_s > 0 && strcmp(action, "load") != 0)
            argp_error(state, "--until-found is for load");
        return 0;
    }
    return posectl_option(key, arg, state);
}

static enum posectl_exit save(const struct posectl *ctl, posed_Request *request)
{
    request->which_what = posed_Request_save_map_tag;
    strcpy(request->what.save_map.name, name);
    enum posectl_exit result = posectl_request(ctl, request, &reply);
    if (result)
        return result;
    const posed_SavedMap *m = &reply.what.save_map;
    if (ctl->json)
        posectl_print_json(stdout,
                           json_pack("{s:s, s:I, s:I, s:I}", "name", m->name, "bytes",
                                     (json_int_t)m->bytes, "blocks", (json_int_t)m->blocks,
                                     "keyframes", (json_int_t)m->keyframes),
                           false);
    else
        printf("saved %s: %" PRIu32 " blocks, %" PRIu32 " views to find a camera by, %.1f MB\n",
               m->name, m->blocks, m->keyframes, (double)m->bytes * 1e-6);
    return POSECTL_OK;
}

static void print_found(const posed_Status *s)
{
    const posed_Vector3 *p = &s->map_from_odom.position;
    const posed_Quaternion *q = &s->map_from_odom.orientation;
    printf("found: map from odom %.4f %.4f %.4f  %.5f %.5f %.5f %.5f\n", p->x, p->y, p->z, q->x,
           q->y, q->z, q->w);
}

static enum posectl_exit load(const struct posectl *ctl, posed_Request *request)
{
    enum posectl_exit result = POSECTL_OK;
    struct map_found_before before = {0};
    if (until_found_s > 0) {
        request->which_what = posed_Request_get_status_tag;
        result = posectl_request(ctl, request, &reply);
        before = (struct map_found_before){reply.what.get_status.map_epoch,
                                           reply.what.get_status.searching_frames};
    }
    if (result)
        return result;
    request->which_what = posed_Request_load_map_tag;
    strcpy(request->what.load_map.name, name);
    result = posectl_request(ctl, request, &reply);
    if (result)
        return result;
    const posed_MapLoaded m = reply.what.load_map;
    posed_Status status = posed_Status_init_zero;
    if (!ctl->json) {
        printf("loaded %s: %" PRIu32 " blocks, %" PRIu32 " views to find the camera by; from frame "
               "%" PRIu64 " on it is looked for there%s\n",
               name, m.blocks, m.keyframes, m.next_seq,
               until_found_s > 0
                   ? ""
                   : ": SEARCHING in posectl status until it is found, in sight of those views");
        fflush(stdout);
    }
    if (until_found_s > 0)
        result = map_found_wait(ctl, &before, until_found_s, &reply, &status);
    if (ctl->json)
        posectl_print_json(stdout,
                           json_pack("{s:s, s:I, s:I, s:I, s:o*}", "name", name, "next_seq",
                                     (json_int_t)m.next_seq, "blocks", (json_int_t)m.blocks,
                                     "keyframes", (json_int_t)m.keyframes, "map_from_odom",
                                     status.has_map_from_odom && !result
                                         ? wire_json_pose(&status.map_from_odom)
                                         : NULL),
                           false);
    else if (until_found_s > 0 && !result)
        print_found(&status);
    return result;
}

static void list_one(const posed_SavedMap *m, json_t *all)
{
    char when[32] = "";
    time_t seconds = (time_t)m->modified.seconds;
    struct tm local;
    if (all) {
        json_t *one = json_pack("{s:s, s:I}", "name", m->name, "bytes", (json_int_t)m->bytes);
        if (one && m->has_modified)
            json_object_set_new(one, "modified_s", json_real(wire_seconds(&m->modified)));
        json_array_append_new(all, one);
        return;
    }
    if (m->has_modified && localtime_r(&seconds, &local))
        strftime(when, sizeof when, "%Y-%m-%d %H:%M:%S", &local);
    printf("%-32s %10.1f MB  %s\n", m->name, (double)m->bytes * 1e-6, when);
}

// Asks for one page after another; `count` and `total` lie in the reply, `skip` in the request.
static enum posectl_exit each_page(const struct posectl *ctl, posed_Request *request,
                                   uint32_t *skip, const pb_size_t *count, const uint32_t *total,
                                   void (*show)(bool first, json_t *all), json_t *all)
{
    for (*skip = 0;; *skip += *count) {
        enum posectl_exit result = posectl_request(ctl, request, &reply);
        if (result)
            return result;
        show(*skip == 0, all);
        if (*count == 0 || *skip + *count >= *total)
            return POSECTL_OK;
    }
}

static void show_maps(bool first, json_t *all)
{
    const posed_SavedMaps *page = &reply.what.list_maps;
    (void)first;
    for (pb_size_t i = 0; i < page->maps_count; i++)
        list_one(&page->maps[i], all);
}

static enum posectl_exit list(const struct posectl *ctl, posed_Request *request)
{
    const posed_SavedMaps *page = &reply.what.list_maps;
    json_t *all = ctl->json ? json_array() : NULL;
    request->which_what = posed_Request_list_maps_tag;
    enum posectl_exit result = each_page(ctl, request, &request->what.list_maps.skip,
                                         &page->maps_count, &page->total, show_maps, all);
    if (all && !result)
        posectl_print_json(stdout, json_pack("{s:o}", "maps", all), false);
    else if (all)
        json_decref(all);
    return result;
}

static void keyframe_one(const posed_Keyframe *k, json_t *all)
{
    const posed_Vector3 *t = &k->pose.position;
    const posed_Quaternion *q = &k->pose.orientation;
    if (all)
        json_array_append_new(all,
                              json_pack("{s:I, s:f, s:I, s:o}", "seq", (json_int_t)k->seq, "time_s",
                                        wire_seconds(&k->timestamp), "links", (json_int_t)k->links,
                                        "pose", wire_json_pose(&k->pose)));
    else
        printf("%8" PRIu64 " %17.6f  %9.4f %9.4f %9.4f  %8.5f %8.5f %8.5f %8.5f  %" PRIu32 "\n",
               k->seq, wire_seconds(&k->timestamp), t->x, t->y, t->z, q->x, q->y, q->z, q->w,
               k->links);
}

static void show_keyframes(bool first, json_t *all)
{
    const posed_Keyframes *page = &reply.what.get_keyframes;
    if (first && !all)
        printf("map epoch %" PRIu32 ": %" PRIu32 " keyframes\n%8s %17s  %9s %9s %9s  %8s %8s "
               "%8s %8s  links\n",
               page->map_epoch, page->total, "frame", "time [s]", "x [m]", "y", "z", "qx", "qy",
               "qz", "qw");
    for (pb_size_t i = 0; i < page->keyframes_count; i++)
        keyframe_one(&page->keyframes[i], all);
}

static enum posectl_exit keyframes(const struct posectl *ctl, posed_Request *request)
{
    const posed_Keyframes *page = &reply.what.get_keyframes;
    json_t *all = ctl->json ? json_array() : NULL;
    request->which_what = posed_Request_get_keyframes_tag;
    enum posectl_exit result = each_page(ctl, request, &request->what.get_keyframes.skip,
                                         &page->keyframes_count, &page->total, show_keyframes, all);
    if (all && !result)
        posectl_print_json(
            stdout,
            json_pack("{s:I, s:o}", "map_epoch", (json_int_t)page->map_epoch, "keyframes", all),
            false);
    else if (all)
        json_decref(all);
    return result;
}

static json_t *json_optimised(const posed_MapOptimised *m)
{
    return json_pack("{s:I, s:I, s:I, s:I, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:b, s:f}",
                     "next_seq", (json_int_t)m->next_seq, "keyframes", (json_int_t)m->keyframes,
                     "links_before", (json_int_t)m->links_before, "links", (json_int_t)m->links,
                     "residual_before_m", m->residual_before_m, "residual_after_m",
                     m->residual_after_m, "apart_before_m", m->apart_before_m, "apart_before_rad",
                     m->apart_before_rad, "apart_m", m->apart_m, "apart_rad", m->apart_rad,
                     "moved_m", m->moved_m, "moved_rad", m->moved_rad, "has_own_error",
                     m->has_own_error, "reduction", m->reduction);
}

// The poses were fitted to these links, so it is no judge of them.
static void print_fit(const posed_MapOptimised *m)
{
    printf("the poses fit their %" PRIu32 " link%s to %.1f mm, %.2f degrees, those before to "
           "%.1f mm, %.2f degrees: what they were fitted to, not how right they are. Poses fit "
           "links that all err alike, too, and are wrong then\n",
           m->links, m->links == 1 ? "" : "s", m->apart_m * 1e3, m->apart_rad * DEGREES,
           m->apart_before_m * 1e3, m->apart_before_rad * DEGREES);
}

static enum posectl_exit optimise(const struct posectl *ctl, posed_Request *request)
{
    request->which_what = posed_Request_optimise_map_tag;
    enum posectl_exit result = posectl_request(ctl, request, &reply);
    if (result)
        return result;
    const posed_MapOptimised *m = &reply.what.optimise_map;
    if (ctl->json) {
        posectl_print_json(stdout, json_optimised(m), false);
        return POSECTL_OK;
    }
    printf("%" PRIu32 " keyframes adjusted, the farthest moved by %.1f mm, %.2f degrees\n",
           m->keyframes, m->moved_m * 1e3, m->moved_rad * DEGREES);
    print_fit(m);
    printf(
        "%" PRIu32 " link%s now, %" PRIu32 " before: each laid onto the other by "
        "itself, two keyframes differ by %.2f mm, at the links before by %.2f. That is the "
        "camera's noise and error, whichever links there are, not how well all keyframes agree\n",
        m->links, m->links == 1 ? "" : "s", m->links_before, m->residual_after_m * 1e3,
        m->residual_before_m * 1e3);
    if (m->has_own_error)
        printf("the camera's own error is taken out of them: %.0f %% less residual on pairs kept "
               "aside. The tracker's frames still have it: posectl calibrate\n",
               m->reduction * 100);
    return POSECTL_OK;
}

static enum posectl_exit write_surface(const uint8_t *points, const uint8_t *normals)
{
    const size_t n = reply.what.get_map_cloud.n_points;
    float *all = malloc((6 * n + 1) * sizeof *all);
    if (!all) {
        posectl_complain("out of memory");
        return POSECTL_FAILED;
    }
    wire_split_points(points, n, all);
    wire_split_points(normals, n, all + 3 * n);
    const struct point_set set = {all,         all + n, all + 2 * n, all + 3 * n, all + 4 * n,
                                  all + 5 * n, n};
    int error = cloud_write_mesh(name, &set, NULL, 0, &posectl_log);
    free(all);
    return error ? POSECTL_FAILED : POSECTL_OK;
}

static void print_exported(const posed_MapCloud *cloud)
{
    printf("%s: %" PRIu32 " points with normals", name, cloud->n_points);
    if (cloud->voxel_m > 0)
        printf(", one in each cell of %.1f mm%s", cloud->voxel_m * 1e3,
               voxel_m > 0 ? "" : ": as fine as requests.max_points of the daemon allows");
    printf("\n");
}

static enum posectl_exit export_surface(const struct posectl *ctl, posed_Request *request)
{
    static const uint32_t paths[2][2] = {{posed_Reply_get_map_cloud_tag, WIRE_CLOUD_POINTS},
                                         {posed_Reply_get_map_cloud_tag, WIRE_CLOUD_NORMALS}};
    const posed_MapCloud *cloud = &reply.what.get_map_cloud;
    const uint8_t *points, *normals;
    size_t n_points, n_normals, n_bytes;
    uint8_t *bytes;
    if (!file_suffix_fits(name, ".ply")) {
        posectl_complain("%s: the map's surface is written as .ply", name);
        return POSECTL_USAGE;
    }
    if (!output_look_new(name))
        return POSECTL_FAILED;
    request->which_what = posed_Request_get_map_cloud_tag;
    request->what.get_map_cloud.voxel_m = voxel_m;
    enum posectl_exit result = posectl_request_large(ctl, request, &reply, &bytes, &n_bytes);
    if (result)
        return result;
    wire_find_bytes(bytes, n_bytes, paths[0], 2, &points, &n_points);
    wire_find_bytes(bytes, n_bytes, paths[1], 2, &normals, &n_normals);
    if (n_points != (size_t)cloud->n_points * 12 || n_normals != n_points) {
        posectl_complain("the daemon sent %zu and %zu bytes for %" PRIu32 " points", n_points,
                         n_normals, cloud->n_points);
        result = POSECTL_FAILED;
    } else {
        result = write_surface(points, normals);
    }
    free(bytes);
    if (result)
        return result;
    if (ctl->json)
        posectl_print_json(stdout,
                           json_pack("{s:s, s:I, s:f, s:I}", "file", name, "points",
                                     (json_int_t)cloud->n_points, "voxel_m", cloud->voxel_m,
                                     "map_epoch", (json_int_t)cloud->map_epoch),
                           false);
    else
        print_exported(cloud);
    return POSECTL_OK;
}

int posectl_map(struct posectl *ctl, int argc, char **argv)
{
    static const struct argp_option options[] = {
        {"voxel", 'x', "METRES", 0,
         "export: one point in each cell of this size; left out: as fine as may be sent", 0},
        {"until-found", 'u', "SECONDS", 0,
         "load: wait for so long until the camera is found in the map (exit code 1: it is not)", 0},
        {0}};
    static const struct argp argp = {
        .options = options,
        .parser = on_option,
        .args_doc = "save NAME\nload NAME\nlist\nexport OUT.ply\nkeyframes\noptimise",
        .children = posectl_common,
        .doc = "The map of the running posed. `save` writes it to the daemon's map.folder, `load` "
               "takes a saved one in place of the present one: the state is SEARCHING until the "
               "camera has found itself in it, which posectl status shows and --until-found waits "
               "for. `export` writes the surface, points with normals, "
               "to a new file here; `keyframes` shows the poses that are adjusted together; "
               "`optimise` learns the camera's own error from them and has all of them measured "
               "and adjusted anew, beside the tracking, and says how well the poses fit the links "
               "between them, before and after (JSON: apart_before_m, apart_m). That is what they "
               "are fitted to, not how right they are: where all links err alike, poses fit them "
               "and are wrong. The exit code of `optimise` is 0 where it was done, however they "
               "fit, and 1 where it could not be done."};
    posed_Request request = posed_Request_init_zero;
    ctl->timeout_ms = 120000; // files of hundreds of megabytes, on a busy machine
    posectl_parse(ctl, &argp, argc, argv);
    request.deadline_ms = ctl->timeout_ms;
    if (name && action[0] != 'e' && strlen(name) >= sizeof request.what.save_map.name) {
        posectl_complain("the name is too long");
        return POSECTL_USAGE;
    }
    enum posectl_exit result = strcmp(action, "save") == 0       ? save(ctl, &request)
                               : strcmp(action, "load") == 0     ? load(ctl, &request)
                               : strcmp(action, "list") == 0     ? list(ctl, &request)
                               : strcmp(action, "export") == 0   ? export_surface(ctl, &request)
                               : strcmp(action, "optimise") == 0 ? optimise(ctl, &request)
                                                                 : keyframes(ctl, &request);
    return (int)(result ? result : posectl_close(&(struct posectl){0}, stdout));
}
