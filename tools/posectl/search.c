// SPDX-License-Identifier: Apache-2.0
// posectl search: where known objects are in a depth image. A running posed does the work or, with
// --local, this program.
#include "tools/posectl/search.h"

#include <errno.h>
#include <stdlib.h>

#include "proto/file_suffix.h"
#include "tools/posectl/search_daemon.h"
#include "tools/posectl/search_image.h"
#include "tools/posectl/search_local.h"
#include "tools/posectl/sought.h"

#define SEARCH_TIMEOUT_MS 30000 // for each object
#define TIMEOUT_OBJECTS   8     // that --all waits for: how many the daemon has is not known

static struct {
    bool local, track;
    const char *only_local; // an option that the daemon has settings of its own for
    struct objects objects;
    struct sought sought;
    struct search_image_files image;
    const char *plot;
    struct search_query query;
} options;

static posed_Reply reply;

enum {
    OPTION_LOCAL = 700,
    OPTION_TRACK,
    OPTION_OBJECT,
    OPTION_ALL,
    OPTION_OBJECTS,
    OPTION_DEPTH,
    OPTION_CALIBRATION,
    OPTION_SCALE,
    OPTION_PRESET,
    OPTION_BARE,
    OPTION_TOP,
    OPTION_PLOT,
    OPTION_VIEWS,
    OPTION_BACKEND,
    OPTION_REGION,
    OPTION_THRESHOLD,
};

static void take_region(struct argp_state *state, const char *text)
{
    unsigned r[4];
    char rest;
    if (sscanf(text, "%u,%u,%u,%u%c", &r[0], &r[1], &r[2], &r[3], &rest) != 4)
        argp_error(state, "--region %s: U0,V0,U1,V1 are wanted", text);
    for (int i = 0; i < 4; i++)
        options.image.region[i] = r[i];
}

static error_t on_option(int key, char *arg, struct argp_state *state)
{
    static const char *const presets[] = {"default", "germann", NULL};
    switch (key) {
    case OPTION_LOCAL:
        options.local = true;
        return 0;
    case OPTION_TRACK:
        options.track = true;
        return 0;
    case OPTION_OBJECT:
        return sought_add(&options.sought, arg) ? ENOMEM : 0;
    case OPTION_ALL:
        options.sought.all = true;
        return 0;
    case OPTION_OBJECTS:
        options.objects.folder = arg;
        options.only_local = "--objects";
        return 0;
    case OPTION_DEPTH:
        options.image.depth = arg;
        return 0;
    case OPTION_CALIBRATION:
        options.image.calibration = arg;
        return 0;
    case OPTION_SCALE:
        options.image.units_per_m = argument_number(state, "depth-scale", arg, 1, 1e6);
        return 0;
    case OPTION_PRESET:
        options.query.preset = (enum search_preset)argument_choose(state, "preset", arg, presets);
        return 0;
    case OPTION_BARE:
        options.query.refine = false;
        return 0;
    case OPTION_TOP:
        options.query.top = (uint32_t)argument_count(state, "top", arg, 1, SEARCH_TOP_MAX);
        return 0;
    case OPTION_PLOT:
        if (!file_suffix_fits(arg, ".png"))
            argp_error(state, "--plot: %s: a picture is written as .png", arg);
        options.plot = arg;
        return 0;
    case OPTION_VIEWS:
        options.objects.n_views =
            (uint32_t)argument_count(state, "views", arg, 64, SEARCH_VIEWS_MAX);
        return 0;
    case OPTION_THRESHOLD:
        options.query.threshold = (float)argument_number(state, "threshold", arg, 0, 1);
        return 0;
    case OPTION_REGION:
        take_region(state, arg);
        return 0;
    case OPTION_BACKEND:
        options.objects.backend =
            (enum gpu_backend)argument_choose(state, "backend", arg, posectl_backends);
        options.only_local = "--backend";
        return 0;
    case ARGP_KEY_ARG:
        argp_error(state, "too many words: %s", arg);
        return 0;
    }
    return posectl_option(key, arg, state);
}

// An answer of the daemon, object by object. What its poses hold is checked.
static int take_answers(const posed_FoundPoses *found, struct sought *sought)
{
    for (pb_size_t i = 0; i < found->poses_count; i++) {
        const posed_FoundPose *from = &found->poses[i];
        struct sought_object *object = sought_find(sought, from->object);
        const char *field;
        if (!object && sought->all)
            return -ENOMEM;
        if (!object || object->answer.n_poses == SEARCH_TOP_MAX)
            continue;
        struct search_pose *to = &object->answer.poses[object->answer.n_poses];
        if (wire_read_pose(&from->pose, &to->T_camera_model, &field) != 0)
            continue;
        to->confidence = from->confidence;
        to->accepted = from->accepted;
        to->visible = from->visible;
        to->contradicted = from->contradicted;
        to->residual_rms_m = from->residual_rms_m;
        to->n_pixels = from->pixels;
        to->view = from->view;
        to->error_px = from->error_px;
        if (!from->has_view_pose ||
            wire_read_pose(&from->view_pose, &to->T_camera_view, &field) != 0)
            to->T_camera_view = to->T_camera_model;
        object->answer.n_poses++;
    }
    return 0;
}

// Asks the daemon, with an image of ours or about its newest frame.
static enum posectl_exit ask_search(struct posectl *ctl)
{
    struct search_image image;
    struct sought *sought = &options.sought;
    uint16_t *pixels = NULL;
    const bool uploads = options.image.depth != NULL;
    if (options.plot) {
        posectl_complain("--plot draws the mesh, which is not asked of the daemon: add --local, or "
                         "give the mesh file as --object");
        return POSECTL_USAGE;
    }
    posectl_wait_at_least(ctl, SEARCH_TIMEOUT_MS *
                                   (sought->all ? TIMEOUT_OBJECTS : (unsigned)sought->n) *
                                   options.query.top);
    enum posectl_exit result = POSECTL_FAILED;
    if (!uploads || search_image_read(&options.image, &image, &pixels) == 0)
        result = posectl_send_search(ctl, sought, uploads ? &image : NULL, &options.query,
                                     options.image.region, options.track, &reply);
    free(pixels);
    if (result)
        return result;
    const posed_FoundPoses *found = &reply.what.search_pose;
    if (take_answers(found, sought) != 0) {
        posectl_complain("out of memory");
        return POSECTL_FAILED;
    }
    const struct sought_report report = {found->elapsed_ms, found->backend,
                                         options.query.preset == SEARCH_PRESET_GERMANN};
    return sought_print(ctl, sought, &report);
}

static enum posectl_exit work_here(const struct posectl *ctl)
{
    struct search_image image;
    uint16_t *pixels;
    enum posectl_exit result = POSECTL_FAILED;
    const struct search_local work = {options.objects, &image, &options.query, options.plot};
    if (search_image_read(&options.image, &image, &pixels) == 0)
        result = search_local(ctl, &work, &options.sought);
    free(pixels);
    return result;
}

// Whether the options go together; else says on stderr what does not.
static bool check_options(bool local)
{
    const struct sought *sought = &options.sought;
    const struct sought_object *other, *twice = sought_twice(sought, &other);
    if (sought->n == 0 && !sought->all) {
        posectl_complain("search: --object NAME or FILE.ply is missing: what to look for; --all "
                         "for every object that is known");
        return false;
    }
    if (sought->n > 0 && sought->all) {
        posectl_complain("search: --all is every object that is known: not with --object %s",
                         sought->objects[0].given);
        return false;
    }
    if (twice) {
        posectl_complain("search: --object %s and --object %s: two of one name, %s", twice->given,
                         other->given, twice->name);
        return false;
    }
    if (local && !options.image.depth) {
        posectl_complain("search %s: --depth FILE is missing: the image to look in",
                         options.local ? "--local" : "for a mesh file");
        return false;
    }
    if (options.image.depth && !options.image.calibration) {
        posectl_complain("search --depth %s: --calibration FILE is missing: fx fy cx cy, or a 3x3 "
                         "camera matrix",
                         options.image.depth);
        return false;
    }
    if (!local && options.only_local) {
        posectl_complain("%s is for --local or a mesh file; the daemon has search.folder and "
                         "gpu.backend",
                         options.only_local);
        return false;
    }
    if (local && options.track) {
        posectl_complain("--track is the daemon's: not with --local or a mesh file");
        return false;
    }
    return true;
}

int posectl_search(struct posectl *ctl, int argc, char **argv)
{
    static const struct argp_option table[] = {
        {"local", OPTION_LOCAL, NULL, 0, "Work here, without a daemon; always so with a mesh file",
         0},
        {"object", OPTION_OBJECT, "NAME|FILE", 0,
         "What to look for: an object that was added, or a PLY mesh in metres; again for more", 0},
        {"all", OPTION_ALL, NULL, 0,
         "Every object that the daemon knows; with --local, all of the folder", 0},
        {"objects", OPTION_OBJECTS, "DIR", 0,
         "Folder of the objects, with --local (POSED_OBJECTS; default "
         "~/.local/share/posed/objects)",
         0},
        {"depth", OPTION_DEPTH, "FILE", 0,
         "16-bit depth image, PNG or PGM; left out: the newest frame of the daemon", 0},
        {"calibration", OPTION_CALIBRATION, "FILE", 0,
         "fx fy cx cy [width height], or a 3x3 camera matrix", 0},
        {"depth-scale", OPTION_SCALE, "S", 0,
         "Depth units in a metre (default: those of the calibration, else 1000)", 0},
        {"track", OPTION_TRACK, NULL, 0,
         "The daemon goes on following the best answer: topic object", 0},
        {"preset", OPTION_PRESET, "default|germann", 0, "default, or germann: the paper's search",
         0},
        {"no-refine", OPTION_BARE, NULL, 0, "germann: the bare view, not fitted to the image", 0},
        {"top", OPTION_TOP, "K", 0, "Look for up to K of each object (default 1)", 0},
        {"threshold", OPTION_THRESHOLD, "P", 0, "Confidence of an accepted answer (0.9)", 0},
        {"region", OPTION_REGION, "U0,V0,U1,V1", 0, "Look only here, pixels", 0},
        {"views", OPTION_VIEWS, "N", 0, "Reference views of a mesh given as file", 0},
        {"backend", OPTION_BACKEND, "auto|cpu|cuda", 0,
         "What computes (default auto); with --local", 0},
        {"plot", OPTION_PLOT, "FILE", 0,
         "Draw image, outlines and residuals (PNG); with --local or a mesh file", 0},
        {0}};
    static const struct argp argp = {
        .options = table,
        .parser = on_option,
        .children = posectl_common,
        .doc =
            "Finds known objects in a depth image. The pose takes the model into the camera's "
            "optical frame.\vExit code 6: an object that was named has no accepted answer (found); "
            "with --all, none has. Which, is told."};
    search_query_default(&options.query);
    posectl_parse(ctl, &argp, argc, argv);
    if (options.objects.n_views == 0)
        options.objects.n_views =
            options.query.preset == SEARCH_PRESET_GERMANN ? 2048 : SEARCH_VIEWS_DEFAULT;
    const bool local = options.local || options.sought.files;
    enum posectl_exit result = POSECTL_USAGE;
    if (check_options(local))
        result = local ? work_here(ctl) : ask_search(ctl);
    sought_free(&options.sought);
    enum posectl_exit closed = posectl_close(ctl, stdout);
    return (int)(closed ? closed : result);
}
