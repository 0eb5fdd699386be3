// SPDX-License-Identifier: Apache-2.0
// posed-synth: writes a synthetic recording to disk in TUM layout. The index depth.txt comes last,
// so that a run that was interrupted leaves nothing that looks like a recording.
#include <argp.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "capture/capture.h"
#include "capture/io/image.h"
#include "capture/synth/scene.h"
#include "capture/synth/synth.h"
#include "proto/trajectory.h"
#include "tools/argument.h"

#define PNG_LEVEL 3 // half the time of zlib's default for files 3 % larger

struct options {
    const char *name, *folder;
    unsigned long long seed;
    unsigned long n_frames;
    bool poses_only, list;
};

static const struct argp_option argp_options[] = {
    {"frames", 'n', "N", 0, "Write N frames (default: the recording's own length)", 0},
    {"seed", 's', "S", 0, "Seed of the noise (default 1); same seed, same bits", 0},
    {"poses-only", 'p', NULL, 0, "Write groundtruth.txt and no images", 0},
    {"list", 'l', NULL, 0, "List the recordings and exit", 0},
    {0},
};

static error_t parse_option(int key, char *arg, struct argp_state *state)
{
    struct options *options = state->input;
    switch (key) {
    case 'n':
        options->n_frames = argument_count(state, "frames", arg, 1, 10000000);
        break;
    case 's':
        options->seed = argument_count(state, "seed", arg, 0, UINT64_MAX);
        break;
    case 'p':
        options->poses_only = true;
        break;
    case 'l':
        options->list = true;
        break;
    case ARGP_KEY_ARG:
        if (state->arg_num > 1)
            argp_error(state, "unexpected argument %s", arg);
        *(state->arg_num == 0 ? &options->name : &options->folder) = arg;
        break;
    case ARGP_KEY_END:
        if (!options->list && !options->folder)
            argp_error(state, "NAME and OUTDIR are expected (--list shows the names)");
        break;
    default:
        return ARGP_ERR_UNKNOWN;
    }
    return 0;
}

static void write_line(void *user, enum log_level level, const char *line)
{
    (void)user;
    (void)level;
    fprintf(stderr, "posed-synth: %s\n", line);
}

static const struct log_sink log_sink = {write_line, NULL};

static int fail(const char *path, int error)
{
    log_to(&log_sink, LOG_LEVEL_ERROR, "%s: %s", path, strerror(error));
    return -error;
}

static void list_recordings(void)
{
    printf("%-18s %6s  %s\n", "NAME", "FRAMES", "WHAT");
    for (const struct synth_recording *r = synth_recordings(); r->name; r++)
        printf("%-18s %6u  %s\n", r->name, r->n_frames, r->summary);
    printf("\nOptions follow the name, each behind a comma (room,noise=off,seed=2):\n%s\n",
           SYNTH_OPTIONS);
}

// Opens FOLDER/NAME for writing with its first lines.
static FILE *open_text(const char *folder, const char *name, const char *head)
{
    char path[4200];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *file = fopen(path, "w");
    if (!file || fputs(head, file) < 0)
        fail(path, errno);
    return file;
}

static int close_text(FILE *file, const char *folder, const char *name)
{
    bool bad = ferror(file);
    bad = fclose(file) != 0 || bad;
    char path[4200];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    return bad ? fail(path, EIO) : 0;
}

static int make_folders(const char *folder, bool poses_only)
{
    char path[4200];
    struct stat status;
    if (strlen(folder) > 4096)
        return fail(folder, ENAMETOOLONG);
    snprintf(path, sizeof path, "%s/depth.txt", folder);
    if (stat(path, &status) == 0)
        return fail(path, EEXIST);
    if (mkdir(folder, 0777) < 0 && errno != EEXIST)
        return fail(folder, errno);
    snprintf(path, sizeof path, "%s/depth", folder);
    if (!poses_only && mkdir(path, 0777) < 0 && errno != EEXIST)
        return fail(path, errno);
    return 0;
}

static int write_frames(const struct synth_request *request, const char *folder,
                        struct scene *scene, struct image_codec *codec, uint16_t *depth)
{
    const struct intrinsics camera = scene_default_camera();
    for (uint32_t i = 0; i < request->n_frames; i++) {
        char path[4200];
        snprintf(path, sizeof path, "%s/depth/%06u.png", folder, i);
        synth_render(request, scene, i, depth);
        int status =
            image_write_png(codec, path, depth, camera.width_px, camera.height_px, PNG_LEVEL);
        if (status < 0)
            return fail(path, -status);
    }
    return 0;
}

static int write_truth(const struct synth_request *request, const char *folder)
{
    FILE *file = open_text(folder, "groundtruth.txt",
                           "# exact poses, camera to world\n# timestamp tx ty tz qx qy qz qw\n");
    if (!file)
        return -EIO;
    int status = 0;
    for (uint32_t i = 0; i < request->n_frames && !status; i++) {
        struct stamped_pose pose = {synth_stamp_ns(request, i), synth_camera_pose(request, i)};
        status = trajectory_write_tum(file, &pose);
    }
    int closed = close_text(file, folder, "groundtruth.txt");
    return status ? status : closed;
}

static int write_calibration(const char *folder)
{
    const struct intrinsics camera = scene_default_camera();
    FILE *file = open_text(folder, "calibration.txt", "");
    if (!file)
        return -EIO;
    fprintf(file, "%.10g %.10g %.10g %.10g\n", camera.fx_px, camera.fy_px, camera.cx_px,
            camera.cy_px);
    return close_text(file, folder, "calibration.txt");
}

static int write_index(const struct synth_request *request, const char *folder)
{
    FILE *file = open_text(folder, "depth.txt",
                           "# depth images, 5000 units per metre\n# timestamp filename\n");
    if (!file)
        return -EIO;
    for (uint32_t i = 0; i < request->n_frames; i++) {
        long long ns = synth_stamp_ns(request, i);
        fprintf(file, "%lld.%09lld depth/%06u.png\n", ns / 1000000000, ns % 1000000000, i);
    }
    return close_text(file, folder, "depth.txt");
}

static int write_images(const struct synth_request *request, const char *folder)
{
    const struct intrinsics camera = scene_default_camera();
    struct scene *scene = NULL;
    struct image_codec *codec = NULL;
    uint16_t *depth = malloc((size_t)camera.width_px * camera.height_px * sizeof *depth);
    int status = depth ? scene_create(&scene, request->recording->scene, &camera) : -ENOMEM;
    if (!status)
        status = synth_set_sensor(request, scene);
    if (!status)
        status = image_codec_create(&codec);
    if (status < 0)
        fail(request->recording->name, -status);
    else
        status = write_frames(request, folder, scene, codec, depth);
    image_codec_destroy(&codec);
    scene_destroy(&scene);
    free(depth);
    return status;
}

static int write_recording(const struct synth_request *request, const char *folder, bool poses_only)
{
    int status = make_folders(folder, poses_only);
    if (!status)
        status = write_truth(request, folder);
    if (status || poses_only)
        return status;
    status = write_calibration(folder);
    if (!status)
        status = write_images(request, folder);
    return status ? status : write_index(request, folder);
}

const char *argp_program_version = "posed-synth " POSED_VERSION;

int main(int argc, char **argv)
{
    static const struct argp argp = {
        argp_options,
        parse_option,
        "NAME OUTDIR",
        "Writes a synthetic depth recording with exact poses in TUM layout: depth/*.png (5000 "
        "units "
        "per metre), depth.txt, groundtruth.txt, calibration.txt.\v"
        "NAME is one of --list, with options: room,noise=off. An OUTDIR that holds a recording "
        "already is left alone.",
        NULL,
        NULL,
        NULL};
    struct options options = {.seed = CAPTURE_SEED};
    argp_err_exit_status = 2;
    argp_parse(&argp, argc, argv, 0, NULL, &options);
    if (options.list) {
        list_recordings();
        return 0;
    }
    struct synth_request request = {.seed = options.seed, .n_frames = (uint32_t)options.n_frames};
    if (synth_parse(options.name, &log_sink, &request) < 0)
        return 2;
    if (write_recording(&request, options.folder, options.poses_only) < 0)
        return 1;
    printf("%s: %u %s of %s written\n", options.folder, request.n_frames,
           options.poses_only ? "poses" : "frames", request.recording->name);
    return 0;
}
