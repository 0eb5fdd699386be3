// SPDX-License-Identifier: Apache-2.0
// One pose of several cameras: the mean against one found by a search that knows no derivative; the
// cameras' motions weighted by what their errors grow by, over many seeds against each alone; a
// camera that is covered, comes back in its old epoch or a new one, is found in its map, is silent,
// or ends; and stamps that differ.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <math.h>
#include <string.h>

#include "proto/pose_mean.h"
#include "proto/rig_fusion.h"
#include "proto/se3.h"

#define PERIOD_NS INT64_C(33333333)
#define N_FRAMES  300
#ifdef POSED_SANITIZED
#define N_TRIALS 10
#else
#define N_TRIALS 200
#endif

static uint64_t seed;

static double uniform(void)
{
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return (double)(seed >> 11) / 9007199254740992.0;
}

static double normal(void)
{
    return sqrt(-2 * log(1 - uniform())) * cos(6.283185307179586 * uniform());
}

static struct se3 random_pose(double range_m, double range_rad)
{
    double twist[6];
    for (int k = 0; k < 6; k++)
        twist[k] = (2 * uniform() - 1) * (k < 3 ? range_m : range_rad);
    return se3_exp(twist);
}

static void random_covariance(double out[36])
{
    double root[36];
    for (int i = 0; i < 36; i++)
        root[i] = normal() * (i / 6 < 3 ? 0.01 : 0.02);
    for (int i = 0; i < 36; i++) {
        out[i] = i % 7 == 0 ? 1e-6 : 0;
        for (int k = 0; k < 6; k++)
            out[i] += root[6 * (i / 6) + k] * root[6 * (i % 6) + k];
    }
}

// Errors as pose_error.h has them, by another way than rig_fusion.c: the rotation by its logarithm.
static double cost(const struct se3 *poses, const double (*covariances)[36], int n,
                   const struct se3 *at)
{
    double sum = 0;
    for (int i = 0; i < n; i++) {
        struct se3 a = poses[i], b = *at;
        double error[6], twist[6];
        for (int k = 0; k < 3; k++) {
            error[k] = a.t_m[k] - b.t_m[k];
            a.t_m[k] = b.t_m[k] = 0;
        }
        struct se3 back = se3_inverse(&b), turn = se3_compose(&a, &back);
        se3_log(&turn, twist);
        memcpy(error + 3, twist + 3, 3 * sizeof *twist);
        sum += pose_error_normalised2(error, covariances[i]);
    }
    return sum;
}

static struct se3 stepped(const struct se3 *from, int axis, double step)
{
    double twist[6] = {0};
    struct se3 out = *from;
    if (axis < 3) {
        out.t_m[axis] += step;
        return out;
    }
    twist[axis] = step;
    struct se3 turn = se3_exp(twist);
    out = se3_compose(&turn, from);
    memcpy(out.t_m, from->t_m, sizeof out.t_m);
    return out;
}

// No step along any axis, or any two, makes it less.
static void mean_is_the_least(void **state)
{
    (void)state;
    seed = 41;
    print_message("seed %d\n", (int)seed);
    for (int trial = 0; trial < 50; trial++) {
        const int n = 1 + trial % 4;
        struct se3 poses[4], truth = random_pose(2, 2), mean;
        double covariances[4][36], covariance[36];
        for (int i = 0; i < n; i++) {
            struct se3 error = random_pose(0.02, 0.02);
            poses[i] = se3_compose(&truth, &error);
            random_covariance(covariances[i]);
        }
        const double(*c)[36] = (const double(*)[36])covariances;
        assert_int_equal(pose_mean(poses, c, (uint32_t)n, &mean, covariance), 0);
        const double least = cost(poses, c, n, &mean);
        for (int i = 0; i < 6; i++)
            for (int j = 0; j < 6; j++)
                for (int sign = -1; sign <= 1; sign += 2) {
                    struct se3 moved = stepped(&mean, i, 1e-4);
                    if (i != j)
                        moved = stepped(&moved, j, sign * 1e-4);
                    else if (sign < 0)
                        moved = stepped(&mean, i, -1e-4);
                    // What Gauss-Newton leaves out is of second order in errors of 0.02 rad.
                    assert_true(cost(poses, c, n, &moved) > least - 1e-3 * (1 + least));
                }
        if (n == 1)
            for (int i = 0; i < 36; i++)
                assert_true(fabs(covariance[i] - covariances[0][i]) < 1e-9);
    }
    // Of equal covariances the mean has their n-th part.
    double same[4][36], part[36];
    struct se3 there[4], middle;
    random_covariance(same[0]);
    for (int i = 0; i < 4; i++) {
        memcpy(same[i], same[0], sizeof same[i]);
        there[i] = se3_identity();
    }
    assert_int_equal(pose_mean(there, (const double(*)[36])same, 4, &middle, part), 0);
    for (int i = 0; i < 36; i++)
        assert_true(fabs(part[i] - same[0][i] / 4) < 1e-9);
    double bad[1][36] = {{0}}, out[36];
    struct se3 T = se3_identity(), mean;
    assert_int_equal(pose_mean(&T, (const double(*)[36])bad, 1, &mean, out), -EDOM);
    assert_int_equal(pose_mean(&T, (const double(*)[36])bad, 0, &mean, out), -EDOM);
}

// --- Cameras that walk

struct walker {
    struct se3 T_base_camera, T_odom_base; // its own idea of where the body is, with its errors
    struct pose_error error;
    double sigma_m, sigma_rad; // that grow each frame
    uint32_t epoch, n_finds;
    struct se3 T_map_odom;
    bool has_map;
};

static struct se3 truth_at(int64_t time_ns)
{
    double s = (double)time_ns * 1e-9;
    double twist[6] = {0.5 * sin(s),       0.3 * s, 0.2 * cos(s),
                       0.3 * sin(0.7 * s), 0.4 * s, 0.2 * sin(0.5 * s)};
    return se3_exp(twist);
}

static struct rig_sight sight_of(struct walker *w, int64_t from_ns, int64_t to_ns,
                                 enum rig_quality quality)
{
    struct se3 from = truth_at(from_ns), to = truth_at(to_ns), step = se3_between(&from, &to);
    double twist[6];
    for (int i = 0; i < 6; i++)
        twist[i] = normal() * (i < 3 ? w->sigma_m : w->sigma_rad);
    struct se3 error = se3_exp(twist);
    step = se3_compose(&step, &error);
    double carried[36] = {0}, arm_m[3];
    struct se3 before = w->T_odom_base;
    w->T_odom_base = se3_compose(&w->T_odom_base, &step);
    for (int i = 0; i < 3; i++)
        arm_m[i] = w->T_odom_base.t_m[i] - before.t_m[i];
    pose_error_carry(arm_m, w->error.walk, carried);
    memcpy(w->error.walk, carried, sizeof carried);
    for (int i = 0; i < 6; i++)
        w->error.walk[7 * i] += i < 3 ? w->sigma_m * w->sigma_m : w->sigma_rad * w->sigma_rad;
    return (struct rig_sight){.time_ns = to_ns,
                              .T_odom_camera = se3_compose(&w->T_odom_base, &w->T_base_camera),
                              .error = w->error,
                              .T_map_odom = w->T_map_odom,
                              .has_map = w->has_map,
                              .epoch = w->epoch,
                              .n_finds = w->n_finds,
                              .quality = quality};
}

static struct walker walker(double sigma_m, const struct se3 *T_base_camera)
{
    return (struct walker){.T_base_camera = *T_base_camera,
                           .T_odom_base = truth_at(0),
                           .T_map_odom = se3_identity(),
                           .sigma_m = sigma_m,
                           .sigma_rad = sigma_m / 4};
}

static double off_m(const struct se3 *from, const struct se3 *to, int64_t time_ns)
{
    struct se3 start = truth_at(0), now = truth_at(time_ns);
    struct se3 truth = se3_between(&start, &now), moved = se3_between(from, to);
    double sum = 0;
    for (int i = 0; i < 3; i++)
        sum += pow(truth.t_m[i] - moved.t_m[i], 2);
    return sum;
}

// Independent errors: the mean of two equals has half the variance; beside one twice as bad it has
// 4/5 of the better one's.
static void means_are_better_than_each(void **state)
{
    (void)state;
    static const double ratios[] = {1, 2}, wanted[] = {0.5, 0.8};
    for (int k = 0; k < 2; k++) {
        double of_rig = 0, of_first = 0;
        seed = 7;
        print_message("seed %d\n", (int)seed);
        for (int trial = 0; trial < N_TRIALS; trial++) {
            struct se3 places[2] = {se3_identity(), random_pose(0.5, 2)};
            struct walker w[2] = {walker(0.002, &places[0]), walker(0.002 * ratios[k], &places[1])};
            struct rig *rig;
            struct rig_result result = {0};
            assert_int_equal(rig_create(&rig, places, 2, true), 0);
            struct se3 own_start = w[0].T_odom_base, start = se3_identity();
            for (int64_t i = 0; i < N_FRAMES; i++) {
                for (uint32_t c = 0; c < 2; c++) {
                    struct rig_sight s =
                        sight_of(&w[c], i ? (i - 1) * PERIOD_NS : 0, i * PERIOD_NS, RIG_TRACKED);
                    rig_put(rig, c, &s);
                }
                if (i == 0)
                    own_start = w[0].T_odom_base;
                assert_true(rig_next(rig, &result));
                if (i == 0)
                    start = result.T_odom_base;
                assert_int_equal(result.n_used, 2);
                assert_false(rig_next(rig, &result));
            }
            of_rig += off_m(&start, &result.T_odom_base, result.time_ns);
            of_first += off_m(&own_start, &w[0].T_odom_base, result.time_ns);
            rig_destroy(&rig);
        }
        print_message("variance of the rig, as a share of the better one's: %.3f, wanted %.2f\n",
                      of_rig / of_first, wanted[k]);
        // Three axes a trial: a share of two variances is good to 2 * sqrt(2 / n), twice over here.
        assert_true(of_rig / of_first < wanted[k] * (1 + 4 * sqrt(2.0 / (3 * N_TRIALS))));
    }
}

// A camera 2 m from the body's origin that may turn about z by sigma a frame: the body may move
// along y by 2 m times that, and turns as much.
static void errors_are_carried_to_the_body(void **state)
{
    (void)state;
    struct se3 places[1] = {se3_identity()};
    struct rig *rig;
    struct rig_result result = {0};
    const double sigma_rad = 0.001;
    places[0].t_m[0] = 2;
    assert_int_equal(rig_create(&rig, places, 1, true), 0);
    for (int64_t i = 0; i <= 100; i++) {
        struct rig_sight s = {.time_ns = i * PERIOD_NS, .quality = RIG_TRACKED};
        s.T_odom_camera = places[0];
        for (int k = 0; k < 6; k++) // the rest is known to a tenth of it
            s.error.walk[7 * k] = (double)i * sigma_rad * sigma_rad * (k == 5 ? 1 : 0.01);
        rig_put(rig, 0, &s);
        assert_true(rig_next(rig, &result));
    }
    const double wanted = 100 * sigma_rad * sigma_rad;
    // At least that, and at most twice: correlations are believed by half.
    assert_true(result.covariance[35] > 0.9 * wanted && result.covariance[35] < 2 * wanted);
    assert_true(result.covariance[7] > 0.9 * 4 * wanted && result.covariance[7] < 2 * 4 * wanted);
    assert_true(result.covariance[0] < 0.5 * wanted);
    rig_destroy(&rig);
}

// --- Coming and going

struct pair {
    struct rig *rig;
    struct walker w[2];
    struct rig_result result;
    int n_results;
};

static void begin(struct pair *pair, bool patient)
{
    struct se3 places[2] = {se3_identity(), random_pose(0.5, 2)};
    seed = 3;
    *pair = (struct pair){.w = {walker(1e-5, &places[0]), walker(1e-5, &places[1])}};
    assert_int_equal(rig_create(&pair->rig, places, 2, patient), 0);
}

static void put(struct pair *pair, uint32_t camera, int64_t from, int64_t to,
                enum rig_quality quality)
{
    struct rig_sight s = sight_of(&pair->w[camera], from * PERIOD_NS, to * PERIOD_NS, quality);
    rig_put(pair->rig, camera, &s);
    while (rig_next(pair->rig, &pair->result))
        pair->n_results++;
}

static void check_at(const struct pair *pair, int64_t frame, enum rig_quality quality,
                     uint32_t n_used, uint32_t epoch)
{
    const struct se3 start = se3_identity();
    assert_true(pair->result.time_ns == frame * PERIOD_NS);
    assert_int_equal(pair->result.quality, quality);
    assert_int_equal(pair->result.n_used, n_used);
    assert_int_equal(pair->result.epoch, epoch);
    // The walkers' errors alone: far less than a millimetre in 100 frames.
    assert_true(off_m(&start, &pair->result.T_odom_base, pair->result.time_ns) < 1e-6);
}

// Two cameras whose odometries drift apart and whose maps know better: the rig's odom drifts and
// its map does not, however the maps lie; a map that is new is laid where the rig's has the body; a
// camera without one is left out; half of what one map is moved by.
static void maps_agree(void **state)
{
    (void)state;
    struct se3 places[2] = {se3_identity(), random_pose(0.5, 2)};
    struct walker w[2] = {walker(0.01, &places[0]), walker(0.01, &places[1])};
    struct se3 lies[3], pushed = se3_identity();
    struct rig *rig;
    struct rig_result result = {0};
    seed = 5;
    for (int k = 0; k < 3; k++)
        lies[k] = random_pose(1, 2);
    pushed.t_m[2] = 0.1;
    assert_int_equal(rig_create(&rig, places, 2, true), 0);
    const struct se3 first = truth_at(0), back = se3_inverse(&first);
    struct se3 drifted = se3_identity(); // by when there is a map
    for (int64_t i = 0; i < 100; i++) {
        const struct se3 truth = truth_at(i * PERIOD_NS);
        const bool alone = i >= 60 && i < 70;
        w[1].epoch = i >= 70;
        for (uint32_t c = 0; c < 2; c++) {
            struct rig_sight s =
                sight_of(&w[c], i ? (i - 1) * PERIOD_NS : 0, i * PERIOD_NS, RIG_TRACKED);
            const struct se3 odom_back = se3_inverse(&w[c].T_odom_base);
            s.T_map_odom = se3_compose(&truth, &odom_back);
            if (c == 0 && i == 99)
                s.T_map_odom = se3_compose(&pushed, &s.T_map_odom);
            s.T_map_odom = se3_compose(&lies[c + w[c].epoch], &s.T_map_odom);
            s.has_map = c == 0 ? i >= 10 : i >= 20 && !alone;
            rig_put(rig, c, &s);
        }
        assert_true(rig_next(rig, &result));
        assert_int_equal(result.has_map, i >= 10);
        const struct se3 T_map_body = se3_compose(&result.T_map_odom, &result.T_odom_base);
        const struct se3 wanted = se3_compose(&back, &truth);
        const struct se3 none = se3_identity(), from = se3_inverse(&wanted);
        if (i < 10)
            assert_memory_equal(&none, &result.T_map_odom, sizeof none);
        else if (i == 10)
            drifted = se3_compose(&T_map_body, &from);
        const struct se3 there = se3_compose(&drifted, &wanted);
        const struct se3 off = se3_between(&there, &T_map_body);
        const double off_by_m = hypot(hypot(off.t_m[0], off.t_m[1]), off.t_m[2]);
        if (i >= 10 && i < 99)
            assert_true(off_by_m < 1e-6 && se3_angle(&off) < 1e-6);
        else if (i == 99)
            assert_true(fabs(off_by_m - 0.05) < 1e-3);
    }
    rig_destroy(&rig);
}

// Covered in turn, for 3 s and back in another epoch; never lost, and never a jump.
static void covered_cameras_are_left_out(void **state)
{
    (void)state;
    struct pair pair;
    begin(&pair, true);
    for (int64_t i = 0; i < 300; i++) {
        bool first_covered = i >= 50 && i < 140, second_covered = i >= 170 && i < 200;
        pair.w[0].epoch = i >= 140; // restarted, and at a place of its own
        if (i == 140)
            pair.w[0].T_odom_base = random_pose(1, 1);
        put(&pair, 0, i ? i - 1 : 0, i, first_covered ? RIG_LOST : RIG_TRACKED);
        put(&pair, 1, i ? i - 1 : 0, i, second_covered ? RIG_LOST : RIG_TRACKED);
        const bool first_out = first_covered || i == 140;
        check_at(&pair, i, RIG_TRACKED, 2u - first_out - second_covered, 0);
    }
    rig_destroy(&pair.rig);
}

// All lost: LOST with the last pose, and then the old epoch goes on, over what nobody saw.
static void lost_rigs_come_back(void **state)
{
    (void)state;
    struct pair pair;
    begin(&pair, true);
    for (int64_t i = 0; i < 100; i++) {
        bool covered = i >= 50 && i < 60;
        for (uint32_t c = 0; c < 2; c++)
            put(&pair, c, i ? i - 1 : 0, i, covered ? RIG_LOST : RIG_TRACKED);
        if (covered) {
            assert_int_equal(pair.result.quality, RIG_LOST);
            assert_true(pair.result.covariance[0] >= 1e5);
        } else {
            check_at(&pair, i, RIG_TRACKED, 2, 0);
        }
    }
    // Both in new epochs: one more of the rig, at the last pose.
    struct se3 last = pair.result.T_odom_base;
    for (uint32_t c = 0; c < 2; c++)
        put(&pair, c, 99, 100, RIG_LOST);
    for (uint32_t c = 0; c < 2; c++) {
        pair.w[c].epoch++;
        put(&pair, c, 100, 101, RIG_TRACKED);
    }
    assert_int_equal(pair.result.epoch, 1);
    assert_int_equal(pair.result.quality, RIG_TRACKED);
    assert_memory_equal(&last, &pair.result.T_odom_base, sizeof last);
    rig_destroy(&pair.rig);
}

// Odom goes on from a place in the map, 5 cm and 0.02 rad off what it has drifted to since.
static void find_in_map(struct walker *w)
{
    const double twist[6] = {0.03, 0.04, 0, 0, 0, 0.02};
    const struct se3 jump = se3_exp(twist), back = se3_inverse(&jump);
    w->T_odom_base = se3_compose(&jump, &w->T_odom_base);
    w->T_map_odom = se3_compose(&w->T_map_odom, &back);
    w->n_finds++;
}

static void check_map_at(const struct pair *pair)
{
    const struct se3 start = se3_identity();
    const struct se3 T = se3_compose(&pair->result.T_map_odom, &pair->result.T_odom_base);
    assert_true(pair->result.has_map);
    assert_true(off_m(&start, &T, pair->result.time_ns) < 1e-6);
}

// Covered and found in its map, twice: its odom jumps, the rig's does not, and the rig's map pose
// is right all the time. Each find is left out of one pose.
static void found_cameras_are_anchored_anew(void **state)
{
    (void)state;
    struct pair pair;
    begin(&pair, true);
    pair.w[0].has_map = true;
    for (int64_t i = 0; i < 100; i++) {
        const bool is_covered = (i >= 50 && i < 60) || (i >= 70 && i < 72);
        const bool is_found = i == 60 || i == 72;
        if (is_found)
            find_in_map(&pair.w[0]);
        put(&pair, 0, i ? i - 1 : 0, i, is_covered ? RIG_LOST : RIG_TRACKED);
        put(&pair, 1, i ? i - 1 : 0, i, RIG_TRACKED);
        check_at(&pair, i, RIG_TRACKED, 2u - is_covered - is_found, 0);
        check_map_at(&pair);
    }
    rig_destroy(&pair.rig);
}

// All lost, and one is found: where its map has the body, in the old epoch, without a jump. Without
// a map in the rig it is where the camera says, by its anchor.
static void found_cameras_take_up_the_rig(void **state)
{
    (void)state;
    for (int has_map = 0; has_map < 2; has_map++) {
        struct pair pair;
        begin(&pair, true);
        pair.w[0].has_map = has_map;
        for (int64_t i = 0; i < 70; i++) {
            const bool is_covered = i >= 50 && i < 60;
            if (i == 60)
                find_in_map(&pair.w[0]);
            put(&pair, 0, i ? i - 1 : 0, i, is_covered ? RIG_LOST : RIG_TRACKED);
            put(&pair, 1, i ? i - 1 : 0, i, i >= 50 ? RIG_LOST : RIG_TRACKED);
            if (is_covered) {
                assert_int_equal(pair.result.quality, RIG_LOST);
            } else if (has_map || i < 60) {
                check_at(&pair, i, RIG_TRACKED, i < 50 ? 2 : 1, 0);
            } else {
                const struct se3 start = se3_identity();
                const double off2 = off_m(&start, &pair.result.T_odom_base, pair.result.time_ns);
                assert_int_equal(pair.result.quality, RIG_TRACKED);
                assert_int_equal(pair.result.epoch, 0);
                assert_true(off2 > 0.03 * 0.03 && off2 < 0.1 * 0.1);
            }
            if (has_map && !is_covered)
                check_map_at(&pair);
        }
        rig_destroy(&pair.rig);
    }
}

// The second one's stamps lie between the first one's, one in five is missing; then it is silent,
// then the first one is.
static void clocks_need_no_common_beat(void **state)
{
    (void)state;
    struct pair pair;
    begin(&pair, false);
    const struct se3 start = se3_identity();
    for (int64_t i = 0, last = 0; i < 200; i++) {
        int64_t shift_ns = PERIOD_NS / 3, to = i * PERIOD_NS + shift_ns;
        put(&pair, 0, i ? i - 1 : 0, i, RIG_TRACKED);
        if (i % 5 == 4 || i >= 100)
            continue;
        struct rig_sight s = sight_of(&pair.w[1], last, to, RIG_TRACKED);
        last = to;
        rig_put(pair.rig, 1, &s);
        while (rig_next(pair.rig, &pair.result))
            pair.n_results++;
        assert_true(pair.result.time_ns >= (i - 2) * PERIOD_NS);
        // Interpolated over 67 ms of a hand's motion: the curvature is half a millimetre.
        assert_true(off_m(&start, &pair.result.T_odom_base, pair.result.time_ns) < 1e-5);
    }
    assert_int_equal(pair.n_results, 200); // it was waited for, then no longer
    assert_int_equal(pair.result.n_used, 1);
    for (int64_t i = 100; i < 300; i++)
        put(&pair, 1, i - 1, i, RIG_TRACKED);
    assert_true(pair.result.time_ns == 299 * PERIOD_NS); // the second one's stamps now
    rig_destroy(&pair.rig);
}

static void ended_cameras_are_not_waited_for(void **state)
{
    (void)state;
    struct pair pair;
    begin(&pair, true);
    for (int64_t i = 0; i < 60; i++)
        put(&pair, 0, i ? i - 1 : 0, i, RIG_TRACKED);
    assert_int_equal(pair.n_results, 0);
    assert_true(rig_ahead_ns(pair.rig, 0) == 59 * PERIOD_NS);
    assert_true(rig_ahead_ns(pair.rig, 1) == 0);
    rig_end(pair.rig, 1);
    while (rig_next(pair.rig, &pair.result))
        pair.n_results++;
    assert_int_equal(pair.n_results, 60);
    check_at(&pair, 59, RIG_TRACKED, 1, 0);
    rig_destroy(&pair.rig);
    rig_destroy(&pair.rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(mean_is_the_least),
        cmocka_unit_test(means_are_better_than_each),
        cmocka_unit_test(errors_are_carried_to_the_body),
        cmocka_unit_test(maps_agree),
        cmocka_unit_test(covered_cameras_are_left_out),
        cmocka_unit_test(lost_rigs_come_back),
        cmocka_unit_test(found_cameras_are_anchored_anew),
        cmocka_unit_test(found_cameras_take_up_the_rig),
        cmocka_unit_test(clocks_need_no_common_beat),
        cmocka_unit_test(ended_cameras_are_not_waited_for),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
