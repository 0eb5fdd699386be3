// SPDX-License-Identifier: Apache-2.0
// posectl rig calibrate: tracks both recordings (rig_trajectory.h), finds by how much their clocks
// differ (proto/clock_offset), cuts their trajectories into motions over the same times and hands
// these to proto/handeye: for that the cameras need no common view. Where they have one,
// gpu/track/overlap makes it better.
#include "tools/posectl/rig.h"

#include <errno.h>
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "gpu/track/rig_extrinsics.h"
#include "proto/clock_offset.h"
#include "proto/handeye.h"
#include "proto/se3.h"
#include "tools/posectl/output_look.h"
#include "tools/posectl/rig_trajectory.h"
#include "tools/posectl/same_source.h"

#define LAG_NS    1500000000LL // of a motion: long enough to turn, short enough not to drift
#define STRIDE_NS 250000000LL
#define OVERLAP   ((double)LAG_NS / STRIDE_NS)
#define APART_NS  100000000LL // at most, of two images that are compared
#define CLOCK_STD 4.0         // a difference of less than so many of its own is taken for none
#define RAD_DEG   (180 / 3.14159265358979323846)

// Behind the name of the result: where the daemon looks for the fields (daemon/config/cameras.h).
static const char *const field_suffixes[2] = {".A.field", ".B.field"};

static struct {
    const char *recordings[2];
    size_t n_arguments;
    enum gpu_backend backend;
} options;

enum { KEY_BACKEND = 1200 };

static const struct argp_option argp_options[] = {
    {"backend", KEY_BACKEND, "auto|cpu|cuda", 0, "What computes (default auto)", 0},
    {0},
};

static error_t on_option(int key, char *arg, struct argp_state *state)
{
    switch (key) {
    case KEY_BACKEND:
        options.backend =
            (enum gpu_backend)argument_choose(state, "backend", arg, posectl_backends);
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

// ---- what both did, and saw ----

static bool motion_at(const struct way *way, int64_t time_ns, struct se3 *out)
{
    struct way_sight begin, end;
    if (!way_pose_at(way, time_ns, &begin) || !way_pose_at(way, time_ns + LAG_NS, &end) ||
        begin.epoch != end.epoch)
        return false;
    *out = se3_between(&begin.T_odom_camera, &end.T_odom_camera);
    return true;
}

struct result {
    struct handeye_result motion;
    size_t n_motions;
    struct rig_extrinsics_result all; // the answer
    struct clock_offset clock;
    bool clock_known, clock_differs;
};

// By how much B's clock is ahead of A's; its stamps become A's. `T_a_b`: how they are turned to
// each other, NULL: not known yet.
static int set_clocks(struct way *ways, const struct se3 *T_a_b, struct result *out)
{
    const struct se3 identity = se3_identity();
    struct clock_offset_turn *a = way_turns(&ways[0], T_a_b ? &identity : NULL);
    struct clock_offset_turn *b = way_turns(&ways[1], T_a_b);
    struct clock_offset found;
    int status = a && b ? clock_offset_find(a, ways[0].n - 1, b, ways[1].n - 1, &found) : -ENOMEM;
    free(a);
    free(b);
    if (status == -ENOMEM)
        return status;
    if (status < 0) {
        out->clock.correlation = out->clock_known ? out->clock.correlation : found.correlation;
        return 0;
    }
    // Of what is left after the first time.
    found.offset_s += out->clock_differs ? out->clock.offset_s : 0;
    const bool differs = fabs(found.offset_s) > CLOCK_STD * found.std_s;
    const double now_s = differs ? found.offset_s : 0;
    const double before_s = out->clock_differs ? out->clock.offset_s : 0;
    way_set_clock(&ways[1], llround((now_s - before_s) * 1e9));
    out->clock = found;
    out->clock_known = true;
    out->clock_differs = differs;
    return 0;
}

static int64_t later(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

// Too few motions: too short, each for itself or where they overlap, or tracked with gaps.
static void complain_of_few(const struct way ways[2], size_t n_motions)
{
    const double wanted_s = (double)(LAG_NS + (HANDEYE_MIN_MOTIONS - 1) * STRIDE_NS) * 1e-9;
    int64_t begin_ns[2], end_ns[2];
    for (int i = 0; i < 2; i++) {
        begin_ns[i] = ways[i].sights[0].time_ns;
        end_ns[i] = ways[i].sights[ways[i].n - 1].time_ns;
    }
    const int64_t first_ns = later(begin_ns[0], begin_ns[1]),
                  both_ns = -later(-end_ns[0], -end_ns[1]) - first_ns;
    const double a_s = (double)(end_ns[0] - begin_ns[0]) * 1e-9,
                 b_s = (double)(end_ns[1] - begin_ns[1]) * 1e-9,
                 both_s = both_ns > 0 ? (double)both_ns * 1e-9 : 0;
    posectl_complain("%zu motions of %.1f s that both recordings have, %d are wanted: A is tracked "
                     "for %.1f s, B for %.1f s, both at once for %.1f s of at least %.1f: %s",
                     n_motions, (double)LAG_NS * 1e-9, HANDEYE_MIN_MOTIONS, a_s, b_s, both_s,
                     wanted_s,
                     a_s < wanted_s || b_s < wanted_s ? "record longer, half a minute is good"
                     : both_s < wanted_s              ? "are their clocks the same?"
                                         : "tracking was lost in between, look at both with posed");
}

static int solve_motion(const struct way ways[2], struct handeye_result *out, size_t *out_n)
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
        complain_of_few(ways, n);
    if (status == -EDOM)
        posectl_complain("the rig turns about one axis only (%.1f degrees about the second one): "
                         "turn it about two",
                         out->spread_rad * RAD_DEG);
    return status;
}

// Images of both, each of B with that of A which is nearest in time.
static size_t find_pairs(const struct way ways[2], struct rig_extrinsics_pair out[WAY_MAX_VIEWS])
{
    size_t n = 0;
    for (size_t i = 0; i < ways[1].n_views; i++) {
        const struct way_view *b = &ways[1].views[i], *nearest = NULL;
        int64_t apart_ns = APART_NS;
        struct way_sight at_b;
        for (size_t k = 0; k < ways[0].n_views; k++) {
            const struct way_view *a = &ways[0].views[k];
            int64_t passed_ns = llabs(a->sight.time_ns - b->sight.time_ns);
            if (passed_ns > apart_ns)
                continue;
            nearest = a;
            apart_ns = passed_ns;
        }
        if (nearest && way_pose_at(&ways[0], b->sight.time_ns, &at_b) &&
            nearest->sight.epoch == at_b.epoch)
            out[n++] = (struct rig_extrinsics_pair){
                nearest->map, b->map,
                se3_between(&nearest->sight.T_odom_camera, &at_b.T_odom_camera)};
    }
    return n;
}

static int solve(struct way ways[2], struct result *out)
{
    static struct rig_extrinsics_pair pairs[WAY_MAX_VIEWS];
    const struct intrinsics cameras[2] = {ways[0].camera, ways[1].camera};
    int status = set_clocks(ways, NULL, out);
    if (status == 0)
        status = solve_motion(ways, &out->motion, &out->n_motions);
    if (status == 0)
        status = set_clocks(ways, &out->motion.T_a_b, out);
    if (status == 0)
        status = solve_motion(ways, &out->motion, &out->n_motions);
    if (status == 0)
        status = rig_extrinsics_solve(cameras, pairs, find_pairs(ways, pairs),
                                      ways[0].is_corrected && ways[1].is_corrected,
                                      &out->motion.T_a_b, out->motion.covariance, &out->all);
    return status;
}

// ---- what comes of it ----

// Standard deviation over the three axes together, of an error of the place itself.
static double std_of(const double covariance[36], int first)
{
    double sum = 0;
    for (int i = first; i < first + 3; i++)
        sum += covariance[7 * i];
    return sqrt(sum);
}

static void print_json(const struct result *r, const double q[4])
{
    const double *t = r->all.T_a_b.t_m;
    json_t *covariance = json_array();
    for (int i = 0; i < 36; i++)
        json_array_append_new(covariance, json_real(r->all.covariance[i]));
    json_t *out = json_pack(
        "{s:[f,f,f], s:[f,f,f,f], s:f, s:f, s:i, s:i, s:f, s:f, s:o}", "translation_m", t[0], t[1],
        t[2], "quaternion_xyzw", q[0], q[1], q[2], q[3], "std_m", std_of(r->all.covariance, 0),
        "std_rad", std_of(r->all.covariance, 3), "motions", (int)r->n_motions, "motions_used",
        (int)r->motion.n_used, "shared_view", r->all.shared, "motion_std_m",
        std_of(r->motion.covariance, 0), "covariance", covariance);
    t = r->motion.T_a_b.t_m;
    json_object_set_new(out, "motion_translation_m", json_pack("[f,f,f]", t[0], t[1], t[2]));
    if (r->clock_known)
        json_object_set_new(out, "clock",
                            json_pack("{s:f, s:f, s:b}", "offset_s", r->clock.offset_s, "std_s",
                                      r->clock.std_s, "differs", r->clock_differs));
    posectl_print_json(stdout, out, false);
}

static void print_field(char name, const struct way *way)
{
    if (way->is_corrected)
        printf("own error of %c   %.1f mm at 1 m RMS, learnt: %.0f %% less residual\n", name,
               depth_error_rms_per_m(&way->field) * 1e3, way->field.reduction * 100);
    else
        printf("own error of %c   not learnt: the recording does not tell of one\n", name);
}

static void print_result(const struct posectl *ctl, const struct way ways[2],
                         const struct result *r)
{
    double q[4];
    const double *t = r->all.T_a_b.t_m;
    se3_to_quaternion(&r->all.T_a_b, q);
    if (ctl->json) {
        print_json(r, q);
        return;
    }
    printf("T_A_B            %.5f %.5f %.5f m, quaternion %.6f %.6f %.6f %.6f\n", t[0], t[1], t[2],
           q[0], q[1], q[2], q[3]);
    printf("how sure         %.1f mm, %.2f degrees (standard deviation)\n",
           std_of(r->all.covariance, 0) * 1e3, std_of(r->all.covariance, 3) * RAD_DEG);
    printf("motions          %zu of %.1f s, %zu agree to %.1f mm, %.2f degrees an axis\n",
           r->n_motions, (double)LAG_NS * 1e-9, r->motion.n_used, r->motion.sigma_m * 1e3,
           r->motion.sigma_rad * RAD_DEG);
    printf("common view      %.0f %% of the images%s\n", r->all.shared * 100,
           r->all.n_samples ? "" : ": the transform is from motions alone");
    print_field('A', &ways[0]);
    print_field('B', &ways[1]);
    if (r->clock_known)
        printf("clocks           B is %.1f ms ahead of A, +-%.1f: %s\n", r->clock.offset_s * 1e3,
               r->clock.std_s * 1e3, r->clock_differs ? "taken off" : "taken for one clock");
    else
        printf(
            "clocks           not compared: both turn too evenly, or not alike (%.2f); taken for "
            "one\n",
            r->clock.correlation);
}

static int write_result(const char *path, const struct result *r)
{
    double q[4];
    const double *t = r->all.T_a_b.t_m;
    FILE *file = fopen(path, "wxe");
    int status = file ? 0 : -errno;
    se3_to_quaternion(&r->all.T_a_b, q);
    if (file) {
        fprintf(file,
                "# %s\n# %s\n# T_A_B: x y z [m], quaternion x y z w; then its covariance, x y "
                "z rotX rotY rotZ\n%.9g %.9g %.9g %.9g %.9g %.9g %.9g\n",
                options.recordings[0], options.recordings[1], t[0], t[1], t[2], q[0], q[1], q[2],
                q[3]);
        for (int i = 0; i < 36; i++)
            fprintf(file, "%.6e%c", r->all.covariance[i], i % 6 == 5 ? '\n' : ' ');
        fprintf(file, "# B's stamp of a moment less A's [s]\nclock %.6f\n",
                r->clock_differs ? r->clock.offset_s : 0.0);
        status = ferror(file) ? -EIO : 0;
        status = fclose(file) != 0 && status == 0 ? -errno : status;
    }
    if (status < 0)
        posectl_complain("%s: %s", path, strerror(-status));
    return status;
}

static int name_field(const char *path, int camera, char out[PATH_MAX])
{
    const int n = snprintf(out, PATH_MAX, "%s%s", path, field_suffixes[camera]);
    return n < PATH_MAX ? 0 : -ENAMETOOLONG;
}

static int write_all(const char *path, const struct way ways[2], const struct result *r)
{
    char name[PATH_MAX];
    int status = write_result(path, r);
    for (int i = 0; i < 2 && status == 0; i++) {
        status = ways[i].is_corrected ? name_field(path, i, name) : 0;
        if (status == 0 && ways[i].is_corrected)
            status = depth_error_write(name, &ways[i].field, &posectl_log);
    }
    return status;
}

// Before the recordings are tracked. A field of an earlier run would be taken for this rig's where
// this one learns none.
static bool look_at_outputs(const char *path)
{
    char name[PATH_MAX];
    bool good = !path || output_look_new(path);
    for (int i = 0; i < 2 && good && path; i++)
        good = name_field(path, i, name) == 0 && output_look_new(name);
    return good;
}

// One recording beside itself has identity for an answer, and is sure of it.
static bool look_at_sources(void)
{
    const bool differ = !same_source(options.recordings[0], options.recordings[1]);
    if (!differ)
        posectl_complain(
            "%s and %s: A and B are the same source; of a file that holds both cameras "
            "each is mcap:FILE#NAME",
            options.recordings[0], options.recordings[1]);
    return differ;
}

// Whether there may be a time of both, before what takes long begins.
static bool look_at_times(void)
{
    int64_t first_ns[2], last_ns[2];
    for (int i = 0; i < 2; i++)
        if (!way_look_at_times(options.recordings[i], &first_ns[i], &last_ns[i]))
            return true; // it is told why when it is tracked
    const double apart_s = (double)later(first_ns[0] - last_ns[1], first_ns[1] - last_ns[0]) * 1e-9;
    const int earlier = first_ns[0] > first_ns[1];
    if (apart_s <= CLOCK_OFFSET_MAX_S)
        return true;
    posectl_complain("%s begins %.1f s after the end of %s: recordings that both cameras made at "
                     "the same time are wanted (their clocks may differ by %.0f s)",
                     options.recordings[!earlier], apart_s, options.recordings[earlier],
                     CLOCK_OFFSET_MAX_S);
    return false;
}

static int calibrate(const struct posectl *ctl)
{
    static struct way ways[2];
    static struct result result;
    int status = way_find(options.recordings[0], options.backend, &ways[0]);
    if (status == 0)
        status = way_find(options.recordings[1], options.backend, &ways[1]);
    if (status == 0)
        status = solve(ways, &result);
    if (status == 0)
        print_result(ctl, ways, &result);
    if (status == 0 && ctl->file)
        status = write_all(ctl->file, ways, &result);
    way_free(&ways[0]);
    way_free(&ways[1]);
    return status;
}

int posectl_rig(struct posectl *ctl, int argc, char **argv)
{
    static const struct argp argp = {
        argp_options,
        on_option,
        "calibrate A B [-o FILE]",
        "Finds where camera B of a rig sits beside camera A, with its covariance, from recordings "
        "that both made at the same time (20 s or more), and writes it to a new FILE; each "
        "camera's "
        "own error, where it could be learnt, to FILE.A.field and FILE.B.field.\vA and B are "
        "sources as posed takes them (tum:DIR, mcap:FILE). The cameras need no common view, but "
        "one makes the result better; the rig must be turned about two axes. Their clocks may "
        "differ by 2 s: by how much is found from how fast both turn.",
        posectl_common,
        NULL,
        NULL};
    ctl->takes_file = true;
    posectl_parse(ctl, &argp, argc, argv);
    const bool good = look_at_sources() && look_at_outputs(ctl->file) && look_at_times();
    return !good || calibrate(ctl) < 0 ? POSECTL_FAILED : POSECTL_OK;
}
