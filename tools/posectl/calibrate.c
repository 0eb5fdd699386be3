// SPDX-License-Identifier: Apache-2.0
// posectl calibrate: tracks the recordings with the tracker's own settings, hands every n-th frame
// to gpu/track/calibrate, and writes what comes of it.
#include "tools/posectl/calibrate.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "capture/capture.h"
#include "capture/overrides.h"
#include "gpu/track/calibrate.h"
#include "gpu/track/track.h"
#include "tools/posectl/output_look.h"
#include "tools/posectl/same_frames.h"
#include "tools/posectl/same_source.h"

#define MAX_RECORDINGS 16
#define FRAMES_WANTED  110  // of all recordings together
#define OTHERS_REDUCE  0.05 // the camera's own field lowers a residual by more than that
// That two recordings may have in common: images without noise of two rendered ones that begin at
// the same place, and equal checksums of images that differ.
#define FRAMES_ALIKE   10

struct options {
    const char *recordings[MAX_RECORDINGS];
    size_t n_recordings;
    const char *check, *serial;
    double fx_px, fy_px, cx_px, cy_px, depth_scale;
    enum gpu_backend backend;
};

enum { KEY_CHECK = 1100, KEY_SERIAL, KEY_CAMERA, KEY_SCALE, KEY_BACKEND };

static const struct argp_option argp_options[] = {
    {"check", KEY_CHECK, "FILE", 0, "Judge FILE by the recordings instead of learning", 0},
    {"serial", KEY_SERIAL, "S", 0, "Serial number of the camera, where recordings tell none", 0},
    {"camera", KEY_CAMERA, "FX,FY,CX,CY", 0, "Intrinsics, where recordings tell none", 0},
    {"depth-scale", KEY_SCALE, "N", 0, "Depth units per metre, where recordings tell none", 0},
    {"backend", KEY_BACKEND, "auto|cpu|cuda", 0, "What computes (default auto)", 0},
    {0},
};

static struct options options;

static error_t on_option(int key, char *arg, struct argp_state *state)
{
    int end = 0;
    switch (key) {
    case KEY_CHECK:
        options.check = arg;
        return 0;
    case KEY_SERIAL:
        if (strlen(arg) >= FIELD_SERIAL || strpbrk(arg, " \t\r\n") || !arg[0])
            argp_error(state, "--serial: 1 to %d characters without spaces", FIELD_SERIAL - 1);
        options.serial = arg;
        return 0;
    case KEY_CAMERA:
        if (sscanf(arg, "%lf,%lf,%lf,%lf%n", &options.fx_px, &options.fy_px, &options.cx_px,
                   &options.cy_px, &end) != 4 ||
            arg[end])
            argp_error(state, "--camera %s: FX,FY,CX,CY are wanted", arg);
        return 0;
    case KEY_SCALE:
        options.depth_scale = argument_number(state, "depth-scale", arg, 1, 1e6);
        return 0;
    case KEY_BACKEND:
        options.backend =
            (enum gpu_backend)argument_choose(state, "backend", arg, posectl_backends);
        return 0;
    case ARGP_KEY_ARG:
        if (options.n_recordings == MAX_RECORDINGS)
            argp_error(state, "at most %d recordings", MAX_RECORDINGS);
        options.recordings[options.n_recordings++] = arg;
        return 0;
    case ARGP_KEY_END:
        if (options.n_recordings == 0)
            argp_error(state, "a RECORDING is wanted, as tum:DIR or synth:NAME");
        return 0;
    }
    return posectl_option(key, arg, state);
}

// What the first recording said of its camera; the others must say the same. And what images each
// has.
struct camera {
    struct capture_info info;
    bool known;
    struct same_frames frames[MAX_RECORDINGS];
};

// What stands twice counts as twice the time, and what is kept aside was learnt from by its twin.
static int complain_same(size_t i, size_t k, const char *how)
{
    posectl_complain("%s and %s%s: the error is learnt from frames and judged by others that had "
                     "no part in it: name each recording once",
                     options.recordings[i], options.recordings[k], how);
    return -EINVAL;
}

static int check_sources(void)
{
    for (size_t k = 1; k < options.n_recordings; k++)
        for (size_t i = 0; i < k; i++)
            if (same_source(options.recordings[i], options.recordings[k]))
                return complain_same(i, k, " are the same recording");
    return 0;
}

static int check_frames(const struct camera *camera, size_t k)
{
    char how[80];
    for (size_t i = 0; i < k; i++) {
        const size_t n = same_frames_count(&camera->frames[k], &camera->frames[i]);
        if (n <= FRAMES_ALIKE)
            continue;
        snprintf(how, sizeof how, " have the same images (%zu of %zu)", n, camera->frames[k].n);
        return complain_same(i, k, how);
    }
    return 0;
}

static int check_same(const struct camera *camera, const struct capture_info *info)
{
    const struct capture_info *first = &camera->info;
    if (!camera->known)
        return 0;
    if (capture_info_is_same_camera(first, info) && strcmp(first->serial, info->serial) == 0)
        return 0;
    posectl_complain("%s: another camera than in %s (%s%s%g px, %s%s%g px): calibrate each by "
                     "itself",
                     info->description, first->description, info->serial,
                     info->serial[0] ? ", fx " : "fx ", info->camera.fx_px, first->serial,
                     first->serial[0] ? ", fx " : "fx ", first->camera.fx_px);
    return -EINVAL;
}

// All of the field is by the distances. A scale that is given, and not against the recording, is
// taken in spite of a doubt: other kinds of cameras may have steps like those of a wrong scale.
static int check_units(const char *source, const struct capture_info *info)
{
    const struct capture_told *told = &info->told;
    const bool is_float = info->float_per_m != 0;
    if (options.depth_scale != 0 && told->units_by[0]) {
        const double share = told->units_per_m / options.depth_scale;
        if (fmax(share, 1 / share) <= 1 + OVERRIDES_DOUBT)
            return 0;
        posectl_complain("%s: --depth-scale %g contradicts %s, which has %g units per metre: leave "
                         "it out%s",
                         source, options.depth_scale, told->units_by, told->units_per_m,
                         told->units_are_usual ? ", or say in the recording's calibration.txt (fx "
                                                 "fy cx cy width height units_per_metre) what is "
                                                 "right"
                                               : "");
        return -EINVAL;
    }
    if (!info->units_are_doubted || (options.depth_scale != 0 && !is_float))
        return 0;
    posectl_complain("%s: with %g units per metre, which seem wrong, no field is %s: see the "
                     "warning%s",
                     source, is_float ? info->float_per_m : info->units_per_m,
                     options.check ? "judged" : "learnt",
                     told->units_by[0] ? ". --depth-scale with the same number takes it as right"
                     : is_float        ? ""
                                       : ", and give --depth-scale");
    return -EINVAL;
}

// One recording's frames while it is tracked.
struct pass {
    bool is_again; // what there is to say of it has been said
    struct capture *capture;
    struct gpu *gpu;
    struct track *track;
    float *map;
};

static int take_frames(struct pass *pass, struct calibrate *calibrate, struct same_frames *frames,
                       uint32_t *group, uint64_t step, uint64_t n_most)
{
    struct capture_frame frame;
    struct track_result result;
    uint32_t epoch = 0;
    uint64_t n = 0, n_taken = 0;
    int status = 0;
    for (;; n++) {
        status = capture_read(pass->capture, -1, &frame);
        if (status < 0)
            break;
        if (!frame.image.depth)
            continue;
        status = track_frame(pass->track, frame.image.depth, frame.image.time_ns, &result);
        if (status < 0)
            break;
        *group += result.map_epoch != epoch;
        epoch = result.map_epoch;
        bool good = result.state == TRACK_STATE_TRACKING || result.state == TRACK_STATE_INIT;
        // Images that nothing is seen in are no sign of the same recording.
        if (good)
            status = same_frames_add(frames, frame.image.depth,
                                     (size_t)frame.image.width_px * frame.image.height_px);
        if (status < 0)
            break;
        if (n % step != 0 || n_taken >= n_most)
            continue;
        if (!good) {
            calibrate_leave_out(calibrate, result.reason);
            continue;
        }
        status = gpu_frame_read(pass->gpu, track_newest_frame(pass->track), CALIBRATE_MAP_LEVEL,
                                pass->map);
        if (status == 0)
            status = calibrate_add(calibrate, *group, frame.image.time_ns, pass->map,
                                   &result.T_odom_camera);
        n_taken++;
        if (status < 0)
            break;
    }
    ++*group;
    return status == -ENODATA || status == -ENOSPC ? 0 : status;
}

static void close_pass(struct pass *pass)
{
    free(pass->map);
    if (pass->track)
        track_destroy(&pass->track);
    if (pass->gpu)
        gpu_close(&pass->gpu);
    if (pass->capture)
        capture_close(&pass->capture);
}

static int open_pass(struct pass *pass, const char *source, struct camera *camera)
{
    const struct log_sink silent = {0}, log = pass->is_again ? silent : posectl_log;
    const struct capture_settings settings = {
        .source = source,
        .rate = CAPTURE_RATE_MAX,
        .fx_px = options.fx_px,
        .fy_px = options.fy_px,
        .cx_px = options.cx_px,
        .cy_px = options.cy_px,
        .depth_scale = options.depth_scale,
        .seed = CAPTURE_SEED,
        .log = log,
    };
    struct gpu_settings gpu;
    struct track_settings track;
    int status = capture_open(&pass->capture, &settings);
    if (status < 0)
        return status;
    const struct capture_info *info = capture_info(pass->capture);
    if (info->live || info->n_frames == 0) {
        posectl_complain("%s: a recording is wanted, not a camera", source);
        return -EINVAL;
    }
    status = check_units(source, info);
    if (status == 0)
        status = check_same(camera, info);
    if (status < 0)
        return status;
    camera->info = camera->known ? camera->info : *info;
    camera->known = true;
    gpu_settings_default(&gpu);
    track_settings_default(&track);
    gpu.camera = info->camera;
    gpu.units_per_m = info->units_per_m;
    gpu.log = log;
    pass->map = malloc(4 * sizeof *pass->map * info->camera.width_px * info->camera.height_px);
    status = pass->map ? gpu_open(&pass->gpu, options.backend, &gpu) : -ENOMEM;
    return status < 0 ? status : track_create(&pass->track, pass->gpu, &track, &log);
}

// Every recording gives its share of the frames.
static int collect(struct camera *camera, struct calibrate **out)
{
    uint32_t group = 0;
    uint64_t n_most = FRAMES_WANTED / options.n_recordings;
    int status = 0;
    for (size_t i = 0; i < options.n_recordings && status == 0; i++) {
        struct pass pass = {0};
        status = open_pass(&pass, options.recordings[i], camera);
        const bool is_open = status == 0;
        if (is_open && !*out)
            status = calibrate_create(out, &camera->info.camera, &posectl_log);
        if (status == 0) {
            uint64_t n_frames = capture_info(pass.capture)->n_frames;
            uint64_t step = (n_frames + n_most - 1) / n_most;
            status =
                take_frames(&pass, *out, &camera->frames[i], &group, step > 0 ? step : 1, n_most);
            same_frames_end(&camera->frames[i]);
        }
        // Why a recording cannot be opened has been said by what found it.
        if (status == -ENOMEM || (is_open && status < 0))
            posectl_complain("%s: %s", options.recordings[i], strerror(-status));
        else if (status == 0)
            status = check_frames(camera, i);
        close_pass(&pass);
    }
    return status;
}

// What a recording says by itself.
struct alone {
    struct calibrate *calibrate;
    struct depth_error field;
    bool is_learnt;
};

static int learn_alone(struct camera *camera, size_t i, struct alone *out)
{
    const struct log_sink silent = {0};
    struct pass pass = {.is_again = true};
    struct same_frames frames = {0};
    struct calibrate_report report = {0};
    uint32_t group = 0;
    int status = open_pass(&pass, options.recordings[i], camera);
    if (status == 0)
        status = calibrate_create(&out->calibrate, &camera->info.camera, &silent);
    if (status == 0) {
        const uint64_t n_frames = capture_info(pass.capture)->n_frames;
        const uint64_t step = (n_frames + FRAMES_WANTED - 1) / FRAMES_WANTED;
        status = take_frames(&pass, out->calibrate, &frames, &group, step, FRAMES_WANTED);
    }
    same_frames_free(&frames);
    close_pass(&pass);
    if (status == 0)
        status = calibrate_solve(out->calibrate, &out->field, &report);
    out->is_learnt = status == 0 && report.reduction >= FIELD_MIN_REDUCE;
    return status == -ENODATA ? 0 : status;
}

// Counts what is known: whether the one's field makes frames of the other agree worse.
static int judge_by(const struct alone *field, const struct alone *frames, unsigned *io_judged,
                    unsigned *io_worse)
{
    struct calibrate_report report;
    if (!field->is_learnt)
        return 0;
    const int status = calibrate_judge(frames->calibrate, &field->field, &report);
    if (status < 0)
        return status == -ENODATA ? 0 : status;
    ++*io_judged;
    *io_worse += report.reduction < 0;
    return 0;
}

static int check_two(size_t k, const struct alone *one, const struct alone *other)
{
    const char *a = options.recordings[k - 1], *b = options.recordings[k];
    unsigned n_judged = 0, n_worse = 0;
    int status = judge_by(one, other, &n_judged, &n_worse);
    if (status == 0)
        status = judge_by(other, one, &n_judged, &n_worse);
    if (status == 0 && n_judged > 0 && n_worse == n_judged) {
        posectl_complain("%s and %s: with the error that one alone shows the other's frames agree "
                         "worse: they seem to be of two cameras: calibrate each by itself",
                         a, b);
        return -EINVAL;
    }
    if (status == 0 && n_judged == 0)
        posectl_complain("%s and %s have no serial number, and neither alone shows enough to tell "
                         "whether one camera made both: they are taken to be of one",
                         a, b);
    return status;
}

// Recordings without serial numbers, of intrinsics that are the same: of one camera what each shows
// alone lowered the other's residual by 13 to 39 % (fr1_xyz and fr1_rpy, three synthetic cameras),
// of two cameras it raised it by 14 to 39 %.
static int check_cameras(struct camera *camera)
{
    struct alone before = {0};
    int status = 0;
    for (size_t k = 0; k < options.n_recordings && status == 0; k++) {
        struct alone now = {0};
        status = learn_alone(camera, k, &now);
        if (status == 0 && k > 0)
            status = check_two(k, &before, &now);
        calibrate_destroy(&before.calibrate);
        before = now;
    }
    calibrate_destroy(&before.calibrate);
    return status;
}

static void print_report(const struct posectl *ctl, const char *serial,
                         const struct calibrate_report *r, bool accepted)
{
    if (ctl->json) {
        posectl_print_json(stdout,
                           json_pack("{s:s, s:b, s:i, s:f, s:i, s:i, s:f, s:f, s:f, s:f, s:f, s:f}",
                                     "serial", serial, "accepted", accepted, "frames",
                                     (int)r->n_frames, "seconds", r->seconds, "pairs",
                                     (int)r->n_pairs, "pairs_aside", (int)r->n_pairs_aside,
                                     "before_per_m", r->before_per_m, "after_per_m", r->after_per_m,
                                     "reduction", r->reduction, "rms_per_m", r->rms_per_m,
                                     "node_std_per_m", r->std_per_m, "unseen", r->unseen),
                           false);
        return;
    }
    printf("frames           %u over %.1f s, %u pairs adjusted, %u kept aside\n", r->n_frames,
           r->seconds, r->n_pairs, r->n_pairs_aside);
    printf("field            %.2e /m RMS: %.1f mm at 1 m, %.1f mm at 2 m\n", r->rms_per_m,
           r->rms_per_m * 1e3, r->rms_per_m * 4e3);
    if (r->std_per_m > 0)
        printf("how sure         %.1e /m a node; %.0f %% of the image was hardly seen\n",
               r->std_per_m, r->unseen * 100);
    printf("kept aside       residual %.3e -> %.3e /m: %.1f %% less (%.0f %% are asked for)\n",
           r->before_per_m, r->after_per_m, r->reduction * 100, FIELD_MIN_REDUCE * 100);
}

static void complain_little(double reduction)
{
    if (options.check && reduction > OTHERS_REDUCE)
        posectl_complain("not accepted: %s lowers the residual by %.1f %%, less than the %.0f %% "
                         "that are asked for: it may be another camera's, or too little was seen",
                         options.check, reduction * 100, FIELD_MIN_REDUCE * 100);
    else
        posectl_complain("not accepted: the residual of what was kept aside falls by %.1f %%, %.0f "
                         "%% are asked for%s",
                         reduction * 100, FIELD_MIN_REDUCE * 100,
                         options.check ? ": this is not the camera's field" : "");
}

static int run(const struct posectl *ctl)
{
    static struct depth_error field;
    struct camera camera = {0};
    struct calibrate *calibrate = NULL;
    struct calibrate_report report;
    int status = options.check ? depth_error_read(options.check, &posectl_log, &field) : 0;
    if (status == 0)
        status = check_sources();
    if (status == 0)
        status = collect(&camera, &calibrate);
    for (size_t i = 0; i < options.n_recordings; i++)
        same_frames_free(&camera.frames[i]);
    if (status == 0 && !options.check && options.n_recordings > 1 && !camera.info.serial[0])
        status = check_cameras(&camera);
    const char *serial = options.serial ? options.serial : camera.info.serial;
    if (status == 0 && options.check) {
        status = depth_error_check_camera(&field, &camera.info.camera, serial, options.check,
                                          &posectl_log);
        if (status == 0)
            status = calibrate_judge(calibrate, &field, &report);
    } else if (status == 0) {
        status = calibrate_solve(calibrate, &field, &report);
    }
    calibrate_destroy(&calibrate);
    if (status < 0)
        return status;
    bool accepted = report.reduction >= FIELD_MIN_REDUCE;
    print_report(ctl, serial, &report, accepted);
    if (!accepted) {
        complain_little(report.reduction);
        return -ERANGE;
    }
    if (!ctl->file)
        return 0;
    snprintf(field.serial, sizeof field.serial, "%s", serial);
    status = depth_error_write(ctl->file, &field, &posectl_log);
    if (status == 0 && !ctl->json)
        printf("written          %s (serial %s); posed --set camera.field=%s\n", ctl->file,
               serial[0] ? serial : "unknown: --serial", ctl->file);
    return status;
}

int posectl_calibrate(struct posectl *ctl, int argc, char **argv)
{
    static const struct argp argp = {
        argp_options,
        on_option,
        "RECORDING... -o FILE",
        "Learns a depth camera's own fixed error from recordings that it made (10 s or more of a "
        "hand that turns and moves it, things crossing the whole image) and writes it to a new "
        "FILE.\vRECORDING is a source as posed takes it (tum:DIR, sevenscenes:DIR, mcap:FILE, "
        "synth:room,sensor=unkind). What is learnt must lower the residual of frames that were "
        "kept aside by 15 %, or nothing is written.",
        posectl_no_daemon,
        NULL,
        NULL};
    ctl->takes_file = true;
    posectl_parse(ctl, &argp, argc, argv);
    if (options.check && ctl->file) {
        posectl_complain("--check %s -o %s: judging a field writes none: leave one of the two out",
                         options.check, ctl->file);
        return POSECTL_USAGE;
    }
    if (!options.check && !ctl->file)
        posectl_complain("no -o FILE: the field is learnt and judged, but not kept");
    if (!options.check && !output_look_new(ctl->file))
        return POSECTL_FAILED;
    return run(ctl) < 0 ? POSECTL_FAILED : POSECTL_OK;
}
