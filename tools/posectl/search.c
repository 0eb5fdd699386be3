// SPDX-License-Identifier: Apache-2.0
// posectl search: where a known object is in a depth image. A running posed does the work or, with
// --local, this program.
#include "tools/posectl/search.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "capture/io/folder.h"
#include "capture/io/image.h"
#include "capture/recording/sidecar.h"
#include "gpu/search/search.h"
#include "proto/file_suffix.h"
#include "proto/se3.h"
#include "tools/plot/search.h"
#include "tools/posectl/objects.h"
#include "tools/posectl/search_daemon.h"

#define SEARCH_TIMEOUT_MS 30000
#define MAX_FILE_BYTES    ((size_t)1 << 28)

static struct {
    bool local, track;
    struct objects objects;
    const char *object, *depth, *calibration, *plot;
    double units_per_m; // 0 = the calibration file's, else millimetres
    uint32_t region[4];
    struct search_query query;
} options;

static posed_Reply reply;

enum {
    OPTION_LOCAL = 700,
    OPTION_TRACK,
    OPTION_OBJECT,
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
        options.region[i] = r[i];
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
        options.object = arg;
        return 0;
    case OPTION_OBJECTS:
        options.objects.folder = arg;
        return 0;
    case OPTION_DEPTH:
        options.depth = arg;
        return 0;
    case OPTION_CALIBRATION:
        options.calibration = arg;
        return 0;
    case OPTION_SCALE:
        options.units_per_m = argument_number(state, "depth-scale", arg, 1, 1e6);
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
        return 0;
    case ARGP_KEY_ARG:
        argp_error(state, "too many words: %s", arg);
        return 0;
    }
    return posectl_option(key, arg, state);
}

// `fx fy cx cy [width height]`, or a 3x3 camera matrix: nine numbers.
static int read_calibration(const char *path, struct intrinsics *out)
{
    struct file_bytes file = {0};
    double units_per_m = 0;
    int n = 0, err = file_read(path, MAX_FILE_BYTES, &posectl_log, &file);
    if (err)
        goto free_file;
    char *text = (char *)file.data;
    for (const char *p = text; *p;) {
        p += strspn(p, " \t\r\n");
        if (*p == '#') {
            p += strcspn(p, "\n");
            continue;
        }
        n += *p != 0;
        p += strcspn(p, " \t\r\n");
    }
    err = n == 9 ? sidecar_parse_matrix(text, path, &posectl_log, out)
                 : sidecar_parse_calibration(text, path, &posectl_log, out, &units_per_m);
    if (!err && options.units_per_m == 0 && units_per_m > 0)
        options.units_per_m = units_per_m;
free_file:
    file_bytes_free(&file);
    return err;
}

// Reads the image; the pixels are the caller's to free.
static int read_depth(const char *path, const struct intrinsics *calibration,
                      struct search_image *out, uint16_t **out_pixels)
{
    struct file_bytes file = {0};
    uint32_t width = 0, height = 0;
    struct image_codec *codec = NULL;
    int err = file_read(path, MAX_FILE_BYTES, &posectl_log, &file);
    if (!err)
        err = image_peek(file.data, file.n_bytes, path, &posectl_log, &width, &height);
    if (!err)
        err = image_codec_create(&codec);
    *out_pixels = err ? NULL : malloc((size_t)width * height * sizeof **out_pixels);
    if (!err && !*out_pixels)
        err = -ENOMEM;
    if (!err)
        err = image_decode(codec, file.data, file.n_bytes, path, IMAGE_PGM_BIG_ENDIAN, width,
                           height, &posectl_log, *out_pixels);
    image_codec_destroy(&codec);
    file_bytes_free(&file);
    if (err)
        return err;
    *out = (struct search_image){.frame = {*out_pixels, width, height,
                                           options.units_per_m > 0 ? options.units_per_m : 1000, 0},
                                 .camera = *calibration,
                                 .u0 = options.region[0],
                                 .v0 = options.region[1],
                                 .u1 = options.region[2],
                                 .v1 = options.region[3]};
    if (out->camera.width_px == 0) {
        out->camera.width_px = width;
        out->camera.height_px = height;
    }
    return 0;
}

static json_t *json_pose(const struct search_pose *pose)
{
    double q[4];
    const double *t = pose->T_camera_model.t_m, *r = pose->T_camera_model.r;
    se3_to_quaternion(&pose->T_camera_model, q);
    json_t *json = json_pack(
        "{s:{s:[f,f,f], s:[f,f,f,f]}, s:[[f,f,f,f],[f,f,f,f],[f,f,f,f],[f,f,f,f]], "
        "s:f, s:b, s:f, s:f, s:f, s:i}",
        "T_camera_model", "position_m", t[0], t[1], t[2], "orientation_xyzw", q[0], q[1], q[2],
        q[3], "matrix", r[0], r[1], r[2], t[0], r[3], r[4], r[5], t[1], r[6], r[7], r[8], t[2], 0.0,
        0.0, 0.0, 1.0, "confidence", (double)pose->confidence, "accepted", (int)pose->accepted,
        "visible", (double)pose->visible, "contradicted", (double)pose->contradicted,
        "residual_rms_m", (double)pose->residual_rms_m, "pixels", (int)pose->n_pixels);
    if (options.query.preset == SEARCH_PRESET_GERMANN) {
        t = pose->T_camera_view.t_m;
        se3_to_quaternion(&pose->T_camera_view, q);
        json_object_update_new(
            json, json_pack("{s:i, s:f, s:{s:[f,f,f], s:[f,f,f,f]}}", "view", (int)pose->view,
                            "view_error_px", (double)pose->error_px, "T_camera_view", "position_m",
                            t[0], t[1], t[2], "orientation_xyzw", q[0], q[1], q[2], q[3]));
    }
    return json;
}

static void print_answer(const struct posectl *ctl, const char *backend, double total_ms,
                         const struct search_answer *answer)
{
    if (ctl->json) {
        json_t *poses = json_array();
        for (uint32_t i = 0; i < answer->n_poses; i++)
            json_array_append_new(poses, json_pose(&answer->poses[i]));
        posectl_print_json(stdout,
                           json_pack("{s:o, s:s, s:f, s:s}", "poses", poses, "object",
                                     options.object, "time_ms", total_ms, "backend", backend),
                           false);
        return;
    }
    if (answer->n_poses == 0)
        printf("nothing there resembles the object\n");
    for (uint32_t i = 0; i < answer->n_poses; i++) {
        const struct search_pose *pose = &answer->poses[i];
        const double *t = pose->T_camera_model.t_m;
        double q[4];
        se3_to_quaternion(&pose->T_camera_model, q);
        printf("%u: %s, confidence %.3f; position %.4f %.4f %.4f m, quaternion x y z w %.5f %.5f "
               "%.5f %.5f; %.0f %% seen, residual %.2f mm over %u pixels\n",
               i + 1, pose->accepted ? "found" : "doubtful", (double)pose->confidence, t[0], t[1],
               t[2], q[0], q[1], q[2], q[3], 100 * (double)pose->visible,
               1e3 * (double)pose->residual_rms_m, pose->n_pixels);
    }
    printf("%.0f ms on %s\n", total_ms, backend);
}

static enum posectl_exit search_image_file(const struct posectl *ctl, struct search *search)
{
    struct intrinsics camera;
    struct search_image image;
    struct search_object *object = NULL;
    struct search_answer answer;
    uint16_t *pixels = NULL;
    char field[32] = "";
    int err = read_calibration(options.calibration, &camera);
    if (!err)
        err = read_depth(options.depth, &camera, &image, &pixels);
    if (!err)
        err = objects_open(&options.objects, search, options.object, &object);
    if (!err)
        err = search_run(search, object, &image, &options.query, &answer, field);
    double total_ms = 0;
    for (int i = 0; i < SEARCH_N_STAGES && !err; i++)
        total_ms += (double)answer.stage_ms[i];
    if (!err)
        print_answer(ctl, search_description(search), total_ms, &answer);
    if (!err && options.plot)
        err = plot_search(options.plot, object, &image, &answer, &posectl_log);
    search_object_destroy(search, &object);
    free(pixels);
    return err ? POSECTL_FAILED : POSECTL_OK;
}

// Asks the daemon, with an image of ours or about its newest frame.
static enum posectl_exit ask_search(struct posectl *ctl)
{
    struct intrinsics camera;
    struct search_image image;
    uint16_t *pixels = NULL;
    const bool uploads = options.depth != NULL;
    if (options.plot) {
        posectl_complain("--plot draws the mesh, which is not asked of the daemon: add --local, or "
                         "give the mesh file as --object");
        return POSECTL_USAGE;
    }
    posectl_wait_at_least(ctl, SEARCH_TIMEOUT_MS);
    int err = uploads ? read_calibration(options.calibration, &camera) : 0;
    if (!err && uploads)
        err = read_depth(options.depth, &camera, &image, &pixels);
    enum posectl_exit result = POSECTL_FAILED;
    if (!err)
        result = posectl_send_search(ctl, options.object, uploads ? &image : NULL, &options.query,
                                     options.region, options.track, &reply);
    free(pixels);
    if (result)
        return result;
    const posed_FoundPoses *found = &reply.what.search_pose;
    struct search_answer answer = {0};
    for (pb_size_t i = 0; i < found->poses_count && answer.n_poses < SEARCH_TOP_MAX; i++) {
        const posed_FoundPose *from = &found->poses[i];
        struct search_pose *to = &answer.poses[answer.n_poses];
        const char *field;
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
        answer.n_poses++;
    }
    print_answer(ctl, found->backend, found->elapsed_ms, &answer);
    return posectl_close(ctl, stdout);
}

int posectl_search(struct posectl *ctl, int argc, char **argv)
{
    static const struct argp_option table[] = {
        {"local", OPTION_LOCAL, NULL, 0, "Work here, without a daemon; always so with a mesh file",
         0},
        {"object", OPTION_OBJECT, "NAME|FILE", 0,
         "What to look for: an object that was added, or a PLY mesh in metres", 0},
        {"objects", OPTION_OBJECTS, "DIR", 0, "Folder of the objects", 0},
        {"depth", OPTION_DEPTH, "FILE", 0,
         "16-bit depth image, PNG or PGM; left out: the newest frame of the daemon", 0},
        {"calibration", OPTION_CALIBRATION, "FILE", 0,
         "fx fy cx cy [width height], or a 3x3 camera matrix", 0},
        {"depth-scale", OPTION_SCALE, "S", 0,
         "Depth units in a metre (default: those of the calibration, else 1000)", 0},
        {"track", OPTION_TRACK, NULL, 0, "The daemon goes on following what it found: topic object",
         0},
        {"preset", OPTION_PRESET, "default|germann", 0, "default, or germann: the paper's search",
         0},
        {"no-refine", OPTION_BARE, NULL, 0, "germann: the bare view, not fitted to the image", 0},
        {"top", OPTION_TOP, "K", 0, "Distinct answers wanted (default 1)", 0},
        {"threshold", OPTION_THRESHOLD, "P", 0, "Confidence of an accepted answer (0.9)", 0},
        {"region", OPTION_REGION, "U0,V0,U1,V1", 0, "Look only here, pixels", 0},
        {"views", OPTION_VIEWS, "N", 0, "Reference views of a mesh given as file", 0},
        {"backend", OPTION_BACKEND, "auto|cpu|cuda", 0, "What computes (default auto)", 0},
        {"plot", OPTION_PLOT, "FILE", 0,
         "Draw image, outline and residual (PNG); with --local or a mesh file", 0},
        {0}};
    static const struct argp argp = {.options = table,
                                     .parser = on_option,
                                     .children = posectl_common,
                                     .doc = "Finds a known object in a depth image. The pose takes "
                                            "the model into the camera's optical frame."};
    search_query_default(&options.query);
    posectl_parse(ctl, &argp, argc, argv);
    if (options.objects.n_views == 0)
        options.objects.n_views =
            options.query.preset == SEARCH_PRESET_GERMANN ? 2048 : SEARCH_VIEWS_DEFAULT;
    bool file = options.object && !objects_is_name(options.object);
    bool local = options.local || file;
    if (!options.object) {
        posectl_complain("search: --object NAME or FILE.ply is missing: what to look for");
        return POSECTL_USAGE;
    }
    if (local && !options.depth) {
        posectl_complain("search %s: --depth FILE is missing: the image to look in",
                         file ? options.object : "--local");
        return POSECTL_USAGE;
    }
    if (options.depth && !options.calibration) {
        posectl_complain("search --depth %s: --calibration FILE is missing: fx fy cx cy, or a 3x3 "
                         "camera matrix",
                         options.depth);
        return POSECTL_USAGE;
    }
    if (local && options.track) {
        posectl_complain("--track is the daemon's: not with --local or a mesh file");
        return POSECTL_USAGE;
    }
    if (!local)
        return (int)ask_search(ctl);
    struct search *search;
    if (objects_open_search(&options.objects, &search) != 0)
        return POSECTL_FAILED;
    enum posectl_exit result = search_image_file(ctl, search);
    search_close(&search);
    return (int)(result ? result : posectl_close(ctl, stdout));
}
