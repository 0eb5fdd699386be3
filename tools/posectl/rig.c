// SPDX-License-Identifier: Apache-2.0
// posectl rig calibrate: tracks both recordings with the tracker's own settings, cuts their
// trajectories into motions over the same times, and hands these to proto/handeye. The cameras need
// no common view.
#include "tools/posectl/rig.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "capture/capture.h"
#include "gpu/track/track.h"
#include "proto/handeye.h"
#include "proto/se3.h"

#define LAG_NS    1500000000LL // of a motion: long enough to turn, short enough not to drift
#define STRIDE_NS 250000000LL
#define OVERLAP   ((double)LAG_NS / STRIDE_NS)
#define GAP_NS    100000000LL // no pose is interpolated over more
#define RAD_DEG   (180 / 3.14159265358979323846)

static struct {
    const char *recordings[2];
    size_t n_arguments;
    enum gpu_backend backend;
} options;

enum { KEY_BACKEND = 1200 };

static const struct argp_option argp_options[] = {
    {"backend", KEY_BACKEND, "NAME", 0, "auto (default), cpu or cuda", 0},
    {0},
};

static error_t on_option(int key, char *arg, struct argp_state *state)
{
    switch (key) {
    case KEY_BACKEND:
        for (int i = 0; posectl_backends[i]; i++)
            if (strcmp(arg, posectl_backends[i]) == 0) {
                options.backend = (enum gpu_backend)i;
                return 0;
            }
        argp_error(state, "--backend %s: auto, cpu or cuda is wanted", arg);
        return 0;
    case ARGP_KEY_ARG:
        if (options.n_arguments == 0 && strcmp(arg, "calibrate") != 0)
            argp_error(state, "%s: calibrate is wanted", arg);
        if (options.n_arguments == 3)
            argp_error(state, "two recordings are wanted, A and B");
        if (options.n_arguments > 0)
            options.recordings[options.n_arguments - 1] = arg;
        options.n_arguments++;
        return 0;
    case ARGP_KEY_END:
        if (options.n_arguments < 3)
            argp_error(state, "two recordings are wanted, as tum:DIR or synth:NAME");
        return 0;
    }
    return posectl_option(key, arg, state);
}

// ---- a camera's way ----

struct sight {
    int64_t time_ns;
    struct se3 T_odom_camera;
    uint32_t epoch;
};

struct way {
    struct sight *sights; // of frames that were tracked well
    size_t n;
};

// Of one recording, while it is tracked.
struct pass {
    struct capture *capture;
    struct gpu *gpu;
    struct track *track;
};

static int open_pass(struct pass *pass, const char *source)
{
    const struct capture_settings settings = {
        .source = source, .rate = CAPTURE_RATE_MAX, .log = posectl_log};
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
    gpu_settings_default(&gpu);
    track_settings_default(&track);
    gpu.camera = info->camera;
    gpu.units_per_m = info->units_per_m;
    gpu.log = posectl_log;
    status = gpu_open(&pass->gpu, options.backend, &gpu);
    return status < 0 ? status : track_create(&pass->track, pass->gpu, &track, &posectl_log);
}

static void close_pass(struct pass *pass)
{
    if (pass->track)
        track_destroy(&pass->track);
    if (pass->gpu)
        gpu_close(&pass->gpu);
    if (pass->capture)
        capture_close(&pass->capture);
}

static int track_all(struct pass *pass, struct way *way)
{
    size_t room = capture_info(pass->capture)->n_frames;
    struct capture_frame frame;
    struct track_result result;
    int status;
    way->sights = malloc(room * sizeof *way->sights);
    if (!way->sights)
        return -ENOMEM;
    while ((status = capture_read(pass->capture, -1, &frame)) == 0) {
        if (!frame.image.depth)
            continue;
        status = track_frame(pass->track, frame.image.depth, frame.image.time_ns, &result);
        if (status < 0)
            return status;
        bool good = result.state == TRACK_STATE_TRACKING || result.state == TRACK_STATE_INIT;
        if (good && way->n < room)
            way->sights[way->n++] =
                (struct sight){frame.image.time_ns, result.T_odom_camera, result.map_epoch};
    }
    return status == -ENODATA ? 0 : status;
}

static int find_way(const char *source, struct way *way)
{
    struct pass pass = {0};
    int status = open_pass(&pass, source);
    if (status == 0)
        status = track_all(&pass, way);
    if (status == 0 && way->n < 2) {
        posectl_complain("%s: no two frames of it were tracked", source);
        status = -ENODATA;
    } else if (status < 0) {
        posectl_complain("%s: %s", source, strerror(-status));
    }
    close_pass(&pass);
    return status;
}

// The pose at a time, between the two that were seen around it. Returns false where there are none
// near enough, or of different epochs.
static bool pose_at(const struct way *way, int64_t time_ns, struct sight *out)
{
    size_t low = 0, high = way->n - 1;
    if (time_ns < way->sights[0].time_ns || time_ns > way->sights[high].time_ns)
        return false;
    while (high - low > 1) {
        size_t middle = (low + high) / 2;
        *(way->sights[middle].time_ns <= time_ns ? &low : &high) = middle;
    }
    const struct sight *a = &way->sights[low], *b = &way->sights[high];
    if (b->time_ns - a->time_ns > GAP_NS || a->epoch != b->epoch)
        return false;
    double twist[6], part = (double)(time_ns - a->time_ns) / (double)(b->time_ns - a->time_ns);
    struct se3 moved = se3_between(&a->T_odom_camera, &b->T_odom_camera);
    se3_log(&moved, twist);
    for (int k = 0; k < 6; k++)
        twist[k] *= part;
    moved = se3_exp(twist);
    *out = (struct sight){time_ns, se3_compose(&a->T_odom_camera, &moved), a->epoch};
    return true;
}

static bool motion_at(const struct way *way, int64_t time_ns, struct se3 *out)
{
    struct sight begin, end;
    if (!pose_at(way, time_ns, &begin) || !pose_at(way, time_ns + LAG_NS, &end) ||
        begin.epoch != end.epoch)
        return false;
    *out = se3_between(&begin.T_odom_camera, &end.T_odom_camera);
    return true;
}

// ---- what comes of it ----

static int solve(const struct way ways[2], struct handeye_result *out, size_t *out_n)
{
    int64_t begin_ns = ways[0].sights[0].time_ns, end_ns = ways[0].sights[ways[0].n - 1].time_ns;
    size_t room = (size_t)((end_ns - begin_ns) / STRIDE_NS) + 1, n = 0;
    struct handeye_motion *motions = malloc(room * sizeof *motions);
    if (!motions)
        return -ENOMEM;
    for (size_t i = 0; i < room; i++) {
        int64_t time_ns = begin_ns + (int64_t)i * STRIDE_NS;
        n += motion_at(&ways[0], time_ns, &motions[n].A) &&
             motion_at(&ways[1], time_ns, &motions[n].B);
    }
    int status = handeye_solve(motions, n, OVERLAP, out);
    free(motions);
    *out_n = n;
    if (status == -ENODATA)
        posectl_complain(
            "%zu motions of %.1f s that both recordings have, %d are wanted: are their "
            "clocks the same, were both tracked?",
            n, (double)LAG_NS * 1e-9, HANDEYE_MIN_MOTIONS);
    if (status == -EDOM)
        posectl_complain("the rig turns about one axis only (%.1f degrees about the second one): "
                         "turn it about two",
                         out->spread_rad * RAD_DEG);
    return status;
}

// Standard deviation over the three axes together.
static double std_of(const struct handeye_result *r, int first)
{
    double sum = 0;
    for (int i = first; i < first + 3; i++)
        sum += r->covariance[7 * i];
    return sqrt(sum);
}

static void print_result(const struct posectl *ctl, const struct handeye_result *r, size_t n)
{
    double q[4];
    const double *t = r->T_a_b.t_m;
    se3_to_quaternion(&r->T_a_b, q);
    if (ctl->json) {
        json_t *covariance = json_array();
        for (int i = 0; i < 36; i++)
            json_array_append_new(covariance, json_real(r->covariance[i]));
        posectl_print_json(stdout,
                           json_pack("{s:[f,f,f], s:[f,f,f,f], s:f, s:f, s:i, s:i, s:o}",
                                     "translation_m", t[0], t[1], t[2], "quaternion_xyzw", q[0],
                                     q[1], q[2], q[3], "std_m", std_of(r, 0), "std_rad",
                                     std_of(r, 3), "motions", (int)n, "motions_used",
                                     (int)r->n_used, "covariance", covariance),
                           false);
        return;
    }
    printf("T_A_B            %.5f %.5f %.5f m, quaternion %.6f %.6f %.6f %.6f\n", t[0], t[1], t[2],
           q[0], q[1], q[2], q[3]);
    printf("how sure         %.1f mm, %.2f degrees (standard deviation)\n", std_of(r, 0) * 1e3,
           std_of(r, 3) * RAD_DEG);
    printf("motions          %zu of %.1f s, %zu agree to %.1f mm, %.2f degrees an axis\n", n,
           (double)LAG_NS * 1e-9, r->n_used, r->sigma_m * 1e3, r->sigma_rad * RAD_DEG);
}

static int write_result(const char *path, const struct handeye_result *r)
{
    double q[4];
    const double *t = r->T_a_b.t_m;
    FILE *file = fopen(path, "wxe");
    int status = file ? 0 : -errno;
    se3_to_quaternion(&r->T_a_b, q);
    if (file) {
        fprintf(file,
                "# %s\n# %s\n# T_A_B: x y z [m], quaternion x y z w; then its covariance, x y "
                "z rotX rotY rotZ\n%.9g %.9g %.9g %.9g %.9g %.9g %.9g\n",
                options.recordings[0], options.recordings[1], t[0], t[1], t[2], q[0], q[1], q[2],
                q[3]);
        for (int i = 0; i < 36; i++)
            fprintf(file, "%.6e%c", r->covariance[i], i % 6 == 5 ? '\n' : ' ');
        status = ferror(file) ? -EIO : 0;
        status = fclose(file) != 0 && status == 0 ? -errno : status;
    }
    if (status < 0)
        posectl_complain("%s: %s", path, strerror(-status));
    return status;
}

static int calibrate(const struct posectl *ctl)
{
    struct way ways[2] = {{0}};
    struct handeye_result result;
    size_t n = 0;
    int status = find_way(options.recordings[0], &ways[0]);
    if (status == 0)
        status = find_way(options.recordings[1], &ways[1]);
    if (status == 0)
        status = solve(ways, &result, &n);
    free(ways[0].sights);
    free(ways[1].sights);
    if (status < 0)
        return status;
    print_result(ctl, &result, n);
    return ctl->file ? write_result(ctl->file, &result) : 0;
}

int posectl_rig(struct posectl *ctl, int argc, char **argv)
{
    static const struct argp argp = {
        argp_options,
        on_option,
        "calibrate A B [-o FILE]",
        "Finds where camera B of a rig sits beside camera A, with its covariance, from recordings "
        "that both made at the same time (20 s or more), and writes it to a new FILE.\vA and B are "
        "sources as posed takes them (tum:DIR, mcap:FILE), with one clock. The cameras need no "
        "common view, but the rig must be turned about two axes.",
        posectl_common,
        NULL,
        NULL};
    ctl->takes_file = true;
    posectl_parse(ctl, &argp, argc, argv);
    return calibrate(ctl) < 0 ? POSECTL_FAILED : POSECTL_OK;
}
