// SPDX-License-Identifier: Apache-2.0
// posectl object, posectl search: known objects and where they are in a depth image. A running
// posed does the work or, with --local, this program; its objects then lie as files in one folder:
// NAME.object (mesh and reference views) and NAME.ply (what it was made of, in case the views are
// damaged).
#include "tools/posectl_search.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "capture/cloud.h"
#include "capture/image.h"
#include "capture/sidecar.h"
#include "gpu/search.h"
#include "proto/se3.h"
#include "tools/plot_search.h"
#include "tools/posectl_search_daemon.h"

#define SUFFIX ".object"

static struct {
    bool local, track;
    const char *objects; // folder, NULL = found
    const char *object, *depth, *calibration, *plot;
    const char *words[3]; // of `object`: action, name, file
    int n_words;
    double units_per_m;
    uint32_t n_views;
    uint32_t region[4];
    struct search_query query;
    enum search_choice choice;
    enum gpu_backend backend;
} options;

static void complain(void *user, enum log_level level, const char *line)
{
    (void)user;
    if (level <= LOG_LEVEL_WARNING)
        posectl_complain("%s", line);
}

static const struct log_sink sink = {complain, NULL};
static posed_Reply reply;

#define BUILD_TIMEOUT_MS  180000
#define SEARCH_TIMEOUT_MS 30000

enum {
    OPTION_LOCAL = 700,
    OPTION_TRACK,
    OPTION_OBJECT,
    OPTION_OBJECTS,
    OPTION_DEPTH,
    OPTION_CALIBRATION,
    OPTION_SCALE,
    OPTION_PRESET,
    OPTION_TOP,
    OPTION_PLOT,
    OPTION_VIEWS,
    OPTION_BACKEND,
    OPTION_REGION,
    OPTION_THRESHOLD,
    OPTION_GREEDY,
};

static double number(struct argp_state *state, const char *name, const char *text, double low,
                     double high)
{
    char *end;
    double value = strtod(text, &end);
    if (end == text || *end || !(value >= low && value <= high))
        argp_error(state, "--%s %s: a number from %g to %g is wanted", name, text, low, high);
    return value;
}

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
        options.objects = arg;
        return 0;
    case OPTION_DEPTH:
        options.depth = arg;
        return 0;
    case OPTION_CALIBRATION:
        options.calibration = arg;
        return 0;
    case OPTION_SCALE:
        options.units_per_m = number(state, "depth-scale", arg, 1, 1e6);
        return 0;
    case OPTION_PRESET:
        options.query.preset = SEARCH_PRESET_GERMANN;
        if (strcmp(arg, "germann") != 0 && strcmp(arg, "default") != 0)
            argp_error(state, "--preset %s: germann or default is wanted", arg);
        if (strcmp(arg, "default") == 0)
            options.query.preset = SEARCH_PRESET_DEFAULT;
        return 0;
    case OPTION_TOP:
        options.query.top = (uint32_t)number(state, "top", arg, 1, SEARCH_TOP_MAX);
        return 0;
    case OPTION_PLOT:
        options.plot = arg;
        return 0;
    case OPTION_VIEWS:
        options.n_views = (uint32_t)number(state, "views", arg, 64, SEARCH_VIEWS_MAX);
        return 0;
    case OPTION_THRESHOLD:
        options.query.threshold = (float)number(state, "threshold", arg, 0, 1);
        return 0;
    case OPTION_GREEDY:
        options.choice = SEARCH_CHOICE_GREEDY;
        return 0;
    case OPTION_REGION:
        take_region(state, arg);
        return 0;
    case OPTION_BACKEND:
        options.backend = strcmp(arg, "cpu") == 0    ? GPU_BACKEND_CPU
                          : strcmp(arg, "cuda") == 0 ? GPU_BACKEND_CUDA
                                                     : GPU_BACKEND_AUTO;
        if (options.backend == GPU_BACKEND_AUTO && strcmp(arg, "auto") != 0)
            argp_error(state, "--backend %s: auto, cpu or cuda is wanted", arg);
        return 0;
    case ARGP_KEY_ARG:
        if (options.n_words == 3)
            argp_error(state, "too many words: %s", arg);
        options.words[options.n_words++] = arg;
        return 0;
    case ARGP_KEY_INIT:
        state->child_inputs[0] = state->input;
        return 0;
    }
    return ARGP_ERR_UNKNOWN;
}

static void set_defaults(void)
{
    search_query_default(&options.query);
    options.units_per_m = 0; // the calibration file's, else millimetres
    options.n_views = 0;     // 2048 of germann, 8192 else
    options.backend = GPU_BACKEND_AUTO;
}

// ---- Objects

// Names become file names.
static bool is_name(const char *name)
{
    size_t n = strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-");
    return n > 0 && n <= 64 && name[n] == 0;
}

// The folder of the objects, made when missing: --objects, POSED_OBJECTS, or the user's data
// folder.
static int objects_folder(char *out, size_t size)
{
    const char *asked = options.objects ? options.objects : getenv("POSED_OBJECTS");
    const char *data = getenv("XDG_DATA_HOME"), *home = getenv("HOME");
    int n;
    if (asked)
        n = snprintf(out, size, "%s", asked);
    else if (data && data[0] == '/')
        n = snprintf(out, size, "%s/posed/objects", data);
    else
        n = snprintf(out, size, "%s/.local/share/posed/objects", home ? home : "");
    if (n < 0 || (size_t)n >= size)
        return -ENAMETOOLONG;
    for (char *slash = strchr(out + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
        *slash = 0;
        mkdir(out, 0777);
        *slash = '/';
    }
    if (mkdir(out, 0777) != 0 && errno != EEXIST)
        return -errno;
    return 0;
}

static int object_path(const char *name, const char *suffix, char *out, size_t size)
{
    char folder[3072];
    int err = objects_folder(folder, sizeof folder);
    if (err) {
        posectl_complain("%s: %s", folder, strerror(-err));
        return err;
    }
    return snprintf(out, size, "%s/%s%s", folder, name, suffix) < (int)size ? 0 : -ENAMETOOLONG;
}

static int show_progress(void *user, uint32_t n_done, uint32_t n_views)
{
    (void)user;
    if (isatty(STDERR_FILENO))
        fprintf(stderr, "\rdrawing views: %u of %u%s", n_done, n_views,
                n_done == n_views ? "\n" : "");
    return 0;
}

static uint32_t wanted_views(void)
{
    if (options.n_views)
        return options.n_views;
    return options.query.preset == SEARCH_PRESET_GERMANN ? 2048 : SEARCH_VIEWS_DEFAULT;
}

// Reads a mesh; vertices_m and triangles are the caller's to free.
static int read_mesh(const char *path, struct search_mesh *out)
{
    struct cloud cloud;
    memset(out, 0, sizeof *out);
    int err = cloud_read(path, &sink, &cloud);
    if (err)
        return err;
    float *vertices_m = malloc((cloud.n_points + 1) * 3 * sizeof *vertices_m);
    err = vertices_m ? 0 : -ENOMEM;
    for (size_t i = 0; !err && i < cloud.n_points; i++) {
        vertices_m[3 * i] = cloud.x_m[i];
        vertices_m[3 * i + 1] = cloud.y_m[i];
        vertices_m[3 * i + 2] = cloud.z_m[i];
    }
    *out = (struct search_mesh){vertices_m, cloud.triangles, cloud.n_points, cloud.n_triangles};
    cloud.triangles = NULL; // the caller's now
    cloud_free(&cloud);
    return err;
}

static void free_mesh(struct search_mesh *mesh)
{
    free((void *)(uintptr_t)mesh->vertices_m);
    free((void *)(uintptr_t)mesh->triangles);
}

static int build(struct search *search, const char *path, struct search_object **out)
{
    struct search_mesh mesh;
    int err = read_mesh(path, &mesh);
    struct search_object_settings settings;
    search_object_settings_default(&settings);
    settings.n_views = wanted_views();
    settings.choice = options.choice;
    settings.progress = show_progress;
    if (!err)
        err = search_object_create(search, &mesh, &settings, out);
    free_mesh(&mesh);
    return err;
}

static bool ends_with(const char *text, const char *end)
{
    size_t n = strlen(text), m = strlen(end);
    return n > m && strcmp(text + n - m, end) == 0;
}

// An object by name from the folder, or a mesh by path. Damaged views are drawn again.
static int open_object(struct search *search, const char *name, struct search_object **out)
{
    char path[4096], mesh[4096];
    if (!is_name(name))
        return build(search, name, out);
    int err = object_path(name, SUFFIX, path, sizeof path);
    if (!err)
        err = object_path(name, ".ply", mesh, sizeof mesh);
    if (!err)
        err = search_object_load(search, path, out);
    if (err == -ENOENT)
        posectl_complain("no object \"%s\": posectl object list shows those there are", name);
    if (err != -EBADMSG)
        return err;
    posectl_complain("%s: its views are drawn again from %s", name, mesh);
    err = build(search, mesh, out);
    return err ? err : search_object_save(*out, path, &sink);
}

static int open_search(struct search **out)
{
    struct search_settings settings;
    search_settings_default(&settings);
    settings.backend = options.backend;
    settings.log = sink;
    return search_open(out, &settings);
}

static const char *symmetry_name(const struct search_object_info *info)
{
    static char text[32];
    switch (info->symmetry) {
    case SEARCH_SYMMETRY_FOLD:
        snprintf(text, sizeof text, "%u-fold", info->fold);
        return text;
    case SEARCH_SYMMETRY_REVOLUTION:
        return "revolution";
    case SEARCH_SYMMETRY_SPHERE:
        return "sphere";
    case SEARCH_SYMMETRY_NONE:
        break;
    }
    return "none";
}

static json_t *json_object_info(const char *name, const struct search_object_info *info)
{
    return json_pack("{s:s, s:i, s:i, s:f, s:s, s:[f,f,f]}", "name", name, "views",
                     (int)info->n_views, "triangles", (int)info->n_triangles, "radius_m",
                     (double)info->radius_m, "symmetry", symmetry_name(info), "axis", info->axis[0],
                     info->axis[1], info->axis[2]);
}

static void print_info(const struct posectl *ctl, const char *name,
                       const struct search_object_info *info)
{
    if (ctl->json)
        posectl_print_json(stdout, json_object_info(name, info), true);
    else
        printf("%-24s %6u views, %7u triangles, radius %.4f m, symmetry %s\n", name, info->n_views,
               info->n_triangles, (double)info->radius_m, symmetry_name(info));
}

static int copy_file(const char *from, const char *to)
{
    FILE *in = fopen(from, "rb"), *out = in ? fopen(to, "wb") : NULL;
    int err = in && out ? 0 : -errno;
    static char buffer[1 << 16];
    size_t n;
    while (!err && (n = fread(buffer, 1, sizeof buffer, in)) > 0)
        err = fwrite(buffer, 1, n, out) == n ? 0 : -EIO;
    if (in)
        fclose(in);
    if (out && fclose(out) != 0 && !err)
        err = -EIO;
    if (err)
        posectl_complain("%s: cannot copy to %s: %s", from, to, strerror(-err));
    return err;
}

static int add_object(const struct posectl *ctl, struct search *search, const char *name,
                      const char *file)
{
    char path[4096], mesh[4096];
    if (!ends_with(file, ".ply")) {
        posectl_complain("%s: a PLY mesh is wanted", file);
        return -EINVAL;
    }
    struct search_object *object = NULL;
    int err = build(search, file, &object);
    if (!err)
        err = object_path(name, SUFFIX, path, sizeof path);
    if (!err)
        err = object_path(name, ".ply", mesh, sizeof mesh);
    if (!err)
        err = copy_file(file, mesh);
    if (!err)
        err = search_object_save(object, path, &sink);
    if (!err) {
        struct search_object_info info;
        search_object_describe(object, &info);
        print_info(ctl, name, &info);
    }
    search_object_destroy(search, &object);
    return err;
}

static int list_objects(const struct posectl *ctl, struct search *search)
{
    char folder[3072];
    int err = objects_folder(folder, sizeof folder);
    DIR *directory = err ? NULL : opendir(folder);
    if (!directory) {
        posectl_complain("%s: %s", folder, strerror(err ? -err : errno));
        return -ENOENT;
    }
    struct dirent *entry;
    while ((entry = readdir(directory))) {
        char name[300];
        if (!ends_with(entry->d_name, SUFFIX))
            continue;
        snprintf(name, sizeof name, "%.*s", (int)(strlen(entry->d_name) - strlen(SUFFIX)),
                 entry->d_name);
        struct search_object *object = NULL;
        if (!is_name(name) || open_object(search, name, &object) != 0)
            continue;
        struct search_object_info info;
        search_object_describe(object, &info);
        print_info(ctl, name, &info);
        search_object_destroy(search, &object);
    }
    closedir(directory);
    return 0;
}

static int remove_object(const char *name)
{
    char path[4096], mesh[4096];
    int err = object_path(name, SUFFIX, path, sizeof path);
    if (!err)
        err = object_path(name, ".ply", mesh, sizeof mesh);
    if (!err && unlink(path) != 0) {
        err = -errno;
        posectl_complain("no object \"%s\"", name);
    }
    if (!err)
        unlink(mesh);
    return err;
}

// What the daemon says of an object, as the local commands print it.
static void print_reply_object(const struct posectl *ctl, const posed_Object *object)
{
    struct search_object_info info = {
        .n_views = object->views,
        .n_triangles = object->triangles,
        .radius_m = (float)object->radius_m,
        .symmetry = (enum search_symmetry)object->symmetry,
        .fold = object->fold,
        .axis = {object->axis.x, object->axis.y, object->axis.z},
    };
    print_info(ctl, object->name, &info);
}

static enum posectl_exit ask_to_add(struct posectl *ctl)
{
    struct search_mesh mesh;
    struct search_object_settings settings;
    search_object_settings_default(&settings);
    settings.n_views = wanted_views();
    settings.choice = options.choice;
    if (ctl->timeout_ms < BUILD_TIMEOUT_MS) // drawing takes seconds, more than the default
        ctl->timeout_ms = BUILD_TIMEOUT_MS;
    enum posectl_exit result = POSECTL_FAILED;
    if (read_mesh(options.words[2], &mesh) == 0)
        result = posectl_send_object(ctl, options.words[1], &mesh, &settings, &reply);
    free_mesh(&mesh);
    if (result == POSECTL_OK)
        print_reply_object(ctl, &reply.what.add_object);
    return result;
}

static enum posectl_exit ask_object(struct posectl *ctl, bool add, bool drop)
{
    if (add)
        return ask_to_add(ctl);
    posed_Request request = posed_Request_init_zero;
    request.which_what = posed_Request_list_objects_tag;
    if (drop) {
        request.which_what = posed_Request_remove_object_tag;
        wire_copy_text(request.what.remove_object.name, sizeof request.what.remove_object.name,
                       options.words[1]);
    }
    enum posectl_exit result = posectl_request(ctl, &request, &reply);
    for (pb_size_t i = 0; !result && !drop && i < reply.what.list_objects.objects_count; i++)
        print_reply_object(ctl, &reply.what.list_objects.objects[i]);
    return result ? result : posectl_close(ctl, stdout);
}

int posectl_object(struct posectl *ctl, int argc, char **argv)
{
    static const struct argp_option table[] = {
        {"local", OPTION_LOCAL, NULL, 0, "Work here, without a daemon", 0},
        {"objects", OPTION_OBJECTS, "DIR", 0,
         "Folder of the objects (POSED_OBJECTS; default ~/.local/share/posed/objects)", 0},
        {"views", OPTION_VIEWS, "N", 0, "Reference views (default 8192)", 0},
        {"greedy", OPTION_GREEDY, NULL, 0, "Choose the views by their error, as the paper does", 0},
        {"backend", OPTION_BACKEND, "NAME", 0, "auto (default), cpu or cuda", 0},
        {0}};
    static const struct argp argp = {.options = table,
                                     .parser = on_option,
                                     .args_doc = "add NAME MODEL.ply\nlist\nremove NAME",
                                     .children = posectl_common,
                                     .doc = "Known objects: a mesh (metres) and its reference "
                                            "views."};
    set_defaults();
    posectl_parse(ctl, &argp, argc, argv);
    const char *action = options.words[0] ? options.words[0] : "";
    bool add = strcmp(action, "add") == 0 && options.n_words == 3;
    bool list = strcmp(action, "list") == 0 && options.n_words == 1;
    bool drop = strcmp(action, "remove") == 0 && options.n_words == 2;
    if (!add && !list && !drop) {
        posectl_complain("add NAME MODEL.ply, list or remove NAME is wanted");
        return POSECTL_USAGE;
    }
    if (!list && !is_name(options.words[1])) {
        posectl_complain("\"%s\" is no name: letters, digits, _ and -, at most 64",
                         options.words[1]);
        return POSECTL_USAGE;
    }
    if (!options.local)
        return (int)ask_object(ctl, add, drop);
    if (drop)
        return remove_object(options.words[1]) ? POSECTL_FAILED : POSECTL_OK;
    struct search *search;
    if (open_search(&search) != 0)
        return POSECTL_FAILED;
    int err = add ? add_object(ctl, search, options.words[1], options.words[2])
                  : list_objects(ctl, search);
    search_close(&search);
    return err ? POSECTL_FAILED : (int)posectl_close(ctl, stdout);
}

// ---- Search

// The whole of a file with a 0 behind it; NULL: said why.
static char *read_file(const char *path, size_t *out_size)
{
    FILE *file = fopen(path, "rb");
    char *data = NULL;
    struct stat status;
    if (file && fstat(fileno(file), &status) == 0 && S_ISREG(status.st_mode) &&
        status.st_size < 1 << 28 && (data = malloc((size_t)status.st_size + 1))) {
        *out_size = fread(data, 1, (size_t)status.st_size, file);
        data[*out_size] = 0;
    } else {
        posectl_complain("%s: cannot read: %s", path, errno ? strerror(errno) : "not a file");
    }
    if (file)
        fclose(file);
    return data;
}

// `fx fy cx cy [width height]`, or a 3x3 camera matrix: nine numbers.
static int read_calibration(const char *path, struct intrinsics *out)
{
    size_t size;
    char *text = read_file(path, &size);
    if (!text)
        return -ENOENT;
    double units_per_m = 0;
    int n = 0;
    for (const char *p = text; *p;) {
        p += strspn(p, " \t\r\n");
        if (*p == '#') {
            p += strcspn(p, "\n");
            continue;
        }
        n += *p != 0;
        p += strcspn(p, " \t\r\n");
    }
    int err = n == 9 ? sidecar_parse_matrix(text, path, &sink, out)
                     : sidecar_parse_calibration(text, path, &sink, out, &units_per_m);
    free(text);
    if (!err && options.units_per_m == 0 && units_per_m > 0)
        options.units_per_m = units_per_m;
    return err;
}

// Reads the image; the pixels are the caller's to free.
static int read_depth(const char *path, const struct intrinsics *calibration,
                      struct search_image *out, uint16_t **out_pixels)
{
    size_t size;
    uint32_t width, height;
    struct image_codec *codec = NULL;
    char *data = read_file(path, &size);
    int err = data ? image_peek(data, size, path, &sink, &width, &height) : -ENOENT;
    if (!err)
        err = image_codec_create(&codec);
    *out_pixels = err ? NULL : malloc((size_t)width * height * sizeof **out_pixels);
    if (!err && !*out_pixels)
        err = -ENOMEM;
    if (!err)
        err = image_decode(codec, data, size, path, IMAGE_PGM_BIG_ENDIAN, width, height, &sink,
                           *out_pixels);
    image_codec_destroy(&codec);
    free(data);
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
    return json_pack("{s:{s:[f,f,f], s:[f,f,f,f]}, s:[[f,f,f,f],[f,f,f,f],[f,f,f,f],[f,f,f,f]], "
                     "s:f, s:b, s:f, s:f, s:f, s:i}",
                     "T_camera_model", "position_m", t[0], t[1], t[2], "orientation_xyzw", q[0],
                     q[1], q[2], q[3], "matrix", r[0], r[1], r[2], t[0], r[3], r[4], r[5], t[1],
                     r[6], r[7], r[8], t[2], 0.0, 0.0, 0.0, 1.0, "confidence",
                     (double)pose->confidence, "accepted", (int)pose->accepted, "visible",
                     (double)pose->visible, "contradicted", (double)pose->contradicted,
                     "residual_rms_m", (double)pose->residual_rms_m, "pixels", (int)pose->n_pixels);
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
        err = open_object(search, options.object, &object);
    if (!err)
        err = search_run(search, object, &image, &options.query, &answer, field);
    double total_ms = 0;
    for (int i = 0; i < SEARCH_N_STAGES && !err; i++)
        total_ms += (double)answer.stage_ms[i];
    if (!err)
        print_answer(ctl, search_description(search), total_ms, &answer);
    if (!err && options.plot)
        err = plot_search(options.plot, object, &image, &answer, &sink);
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
        posectl_complain("--plot draws the mesh: it needs --local");
        return POSECTL_USAGE;
    }
    if (ctl->timeout_ms < SEARCH_TIMEOUT_MS)
        ctl->timeout_ms = SEARCH_TIMEOUT_MS;
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
        {"depth-scale", OPTION_SCALE, "S", 0, "Depth units in a metre (default 1000)", 0},
        {"track", OPTION_TRACK, NULL, 0, "The daemon goes on following what it found: topic object",
         0},
        {"preset", OPTION_PRESET, "NAME", 0, "default, or germann: the paper's search", 0},
        {"top", OPTION_TOP, "K", 0, "Distinct answers wanted (default 1)", 0},
        {"threshold", OPTION_THRESHOLD, "P", 0, "Confidence of an accepted answer (0.7)", 0},
        {"region", OPTION_REGION, "U0,V0,U1,V1", 0, "Look only here, pixels", 0},
        {"views", OPTION_VIEWS, "N", 0, "Reference views of a mesh given as file", 0},
        {"backend", OPTION_BACKEND, "NAME", 0, "auto (default), cpu or cuda", 0},
        {"plot", OPTION_PLOT, "FILE", 0, "Draw image, outline and residual (PNG)", 0},
        {0}};
    static const struct argp argp = {.options = table,
                                     .parser = on_option,
                                     .children = posectl_common,
                                     .doc = "Finds a known object in a depth image. The pose takes "
                                            "the model into the camera's optical frame."};
    set_defaults();
    posectl_parse(ctl, &argp, argc, argv);
    bool file = options.object && !is_name(options.object);
    bool local = options.local || file;
    if (!options.object || options.n_words > 0 || (local && !options.depth) ||
        (options.depth && !options.calibration)) {
        posectl_complain("--object is wanted, and --depth with --calibration%s",
                         local ? "" : " or a daemon with a camera");
        return POSECTL_USAGE;
    }
    if (!local)
        return (int)ask_search(ctl);
    struct search *search;
    if (open_search(&search) != 0)
        return POSECTL_FAILED;
    enum posectl_exit result = search_image_file(ctl, search);
    search_close(&search);
    return (int)(result ? result : posectl_close(ctl, stdout));
}
