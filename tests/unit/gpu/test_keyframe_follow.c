// SPDX-License-Identifier: Apache-2.0
// The window of keyframes: what the graph gets of a frame, when its results enter and by how much
// that moves the camera, and what becomes of an adjustment of all of them. The graph and that
// adjustment are what the test says.
#include <errno.h>
#include <math.h>
#include <sched.h>
#include <semaphore.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "gpu/model/keyframe_window.h"
#include "proto/clock.h"
#include "tests/unit/gpu/fake_gpu.h"

#define WIDTH  8 // of the graph's images
#define HEIGHT 6
#define N_PX   (WIDTH * HEIGHT)
#define MOST   16

struct graph {
    int unused;
};

struct track {
    int unused;
};

static struct graph graph, copied;
static struct track track;
static struct gpu_frame newest;
static struct keyframe_window *window;

static struct graph_keyframe added[MOST];
static float added_z_m[MOST][N_PX];
static int64_t began_add_ns[MOST], ended_add_ns[MOST];
static uint32_t n_added, n_listed, n_cleared, n_taken, n_said;
static struct se3 T_graph;
static int add_rc, read_rc, copy_rc, optimise_rc, take_rc;
static struct between_frames between; // as the copy was given them last
static float first_z_m, first_between_m[BETWEEN_FRAMES_MAX];
static enum track_state tracked = TRACK_STATE_TRACKING;
// What is found among the keyframes, and what was asked and told.
static enum relocalise_trust answer;
static struct se3 T_answer, T_relocated;
static uint64_t answer_seq, found_seq;
static uint32_t n_finds, attempt, n_relocated, n_told_found, n_added_then;
static int find_rc, relocate_rc;
static atomic_bool waits; // graph_add and optimise, for the test
static sem_t go_on;

int graph_create(struct graph **out, const struct intrinsics *camera,
                 const struct graph_settings *settings, const struct log_sink *log)
{
    (void)settings;
    (void)log;
    assert_true(camera->width_px == WIDTH && camera->height_px == HEIGHT);
    assert_true(camera->fx_px == 7 && camera->fy_px == 6 && camera->cx_px == 3.5 &&
                camera->cy_px == 2.5);
    *out = &graph;
    return 0;
}

void graph_destroy(struct graph **g)
{
    *g = NULL;
}

void graph_clear(struct graph *g)
{
    assert_true(g == &graph);
    n_cleared++;
    n_added = n_listed = 0;
    T_graph = se3_identity();
}

int graph_add(struct graph *g, uint64_t seq, int64_t time_ns, const float *z_m,
              const struct se3 *T_odom_camera)
{
    const int64_t began_ns = clock_monotonic_ns();
    if (waits)
        sem_wait(&go_on);
    if (add_rc < 0 || g != &graph || n_added >= MOST)
        return -ENOMEM;
    memcpy(added_z_m[n_added], z_m, sizeof *added_z_m);
    began_add_ns[n_added] = began_ns;
    ended_add_ns[n_added] = clock_monotonic_ns();
    added[n_added++] = (struct graph_keyframe){.seq = seq,
                                               .time_ns = time_ns,
                                               .T_odom_camera = *T_odom_camera,
                                               .T_map_camera = *T_odom_camera,
                                               .n_links = 1};
    n_listed = n_added;
    return 0;
}

uint32_t graph_keyframes(const struct graph *g, const struct graph_keyframe **out)
{
    (void)g;
    *out = added;
    return n_listed;
}

struct se3 graph_T_map_odom(const struct graph *g)
{
    (void)g;
    return T_graph;
}

struct se3 graph_keyframe_T_map_odom(const struct graph_keyframe *keyframe)
{
    struct se3 T = se3_identity();
    T.t_m[0] = 100 + (double)keyframe->seq;
    return T;
}

int graph_find(struct graph *g, const float *z_m, uint32_t n_attempt,
               enum relocalise_trust *out_trust, struct se3 *out_T_odom_camera, uint64_t *out_seq)
{
    assert_true(g == &graph && z_m[3] == first_z_m + 3);
    n_finds++;
    attempt = n_attempt;
    n_added_then = n_added;
    *out_trust = answer;
    *out_T_odom_camera = T_answer;
    *out_seq = answer_seq;
    return find_rc;
}

void graph_found(struct graph *g, uint64_t seq)
{
    if (g == &graph)
        n_told_found++;
    found_seq = seq;
}

int graph_copy(struct graph **out, const struct graph *g, const struct between_frames *given)
{
    between = *given;
    between.z_m = NULL;
    for (uint32_t i = 0; i < given->n; i++)
        first_between_m[i] = between_frames_depth(given, i)[0];
    *out = copy_rc < 0 || g != &graph ? NULL : &copied;
    return copy_rc;
}

int graph_take(struct graph *g, struct graph *copy)
{
    if (g != &graph || copy != &copied)
        return -EINVAL;
    n_taken++;
    T_graph.t_m[1] = 0.25;
    return take_rc;
}

int optimise(struct graph *g, const atomic_bool *stop, const struct yield *yield,
             struct optimise_report *out_report)
{
    (void)yield;
    *out_report = (struct optimise_report){.n_links = 77};
    if (waits)
        sem_wait(&go_on);
    return g != &copied ? -EINVAL : atomic_load(stop) ? -ECANCELED : optimise_rc;
}

// Depth of pixel i: first_z_m + i.
int gpu_frame_read(struct gpu *gpu, const struct gpu_frame *frame, uint32_t level, float *out)
{
    assert_true(gpu == &fake_device && frame == &newest && level == GPU_LEVELS - 1);
    for (int i = 0; i < N_PX; i++) {
        const float map[4] = {-1, -2, -3, first_z_m + (float)i};
        memcpy(out + 4 * i, map, sizeof map);
    }
    return read_rc;
}

const struct gpu_frame *track_newest_frame(const struct track *t)
{
    assert_true(t == &track);
    return &newest;
}

int track_relocate(struct track *t, const struct se3 *T_odom_camera)
{
    assert_true(t == &track);
    n_relocated++;
    T_relocated = *T_odom_camera;
    return relocate_rc;
}

static int fake_answer(int i, const struct fake_call *call, struct gpu_alignment *out)
{
    (void)i;
    (void)call;
    (void)out;
    return 0;
}

static void say(void *user, enum log_level level, const char *text)
{
    (void)user;
    (void)level;
    (void)text;
    n_said++;
}

static int begin(void **state)
{
    (void)state;
    const struct intrinsics camera = {28, 24, 14, 10, 4 * WIDTH, 4 * HEIGHT};
    const struct graph_settings settings = {.max_keyframes = MOST, .max_links = 5};
    const struct log_sink log = {say, NULL};
    n_added = n_listed = n_cleared = n_taken = n_said = 0;
    add_rc = read_rc = copy_rc = optimise_rc = take_rc = 0;
    answer = RELOCALISE_NOT_FOUND;
    n_finds = n_relocated = n_told_found = 0;
    find_rc = relocate_rc = 0;
    waits = false;
    first_z_m = 1;
    T_graph = se3_identity();
    sem_init(&go_on, 0, 0);
    return keyframe_window_create(&window, &camera, &settings, NULL, &log);
}

static int end(void **state)
{
    (void)state;
    for (int i = 0; i < 8; i++)
        sem_post(&go_on); // whoever waits when a test has failed
    keyframe_window_destroy(&window);
    sem_destroy(&go_on);
    return window != NULL;
}

static int follow_rc(double x_m, uint64_t seq, double *out_moved_m)
{
    struct track_result result;
    memset(&result, 0, sizeof result);
    result.state = tracked;
    result.T_odom_camera = se3_identity();
    result.T_odom_camera.t_m[0] = x_m;
    return keyframe_window_follow(window, &fake_device, &track, &result, seq, (int64_t)seq * 1000,
                                  out_moved_m);
}

static double follow(double x_m, uint64_t seq)
{
    double moved_m = -1;
    assert_int_equal(follow_rc(x_m, seq, &moved_m), 0);
    return moved_m;
}

static double lies_at_m(void)
{
    const struct se3 T = keyframe_window_T_map_odom(window);
    return T.t_m[0];
}

// The whole frames, a metre apart: each is a keyframe when its turn comes.
static void follow_many(uint32_t n, uint64_t from)
{
    for (uint32_t i = 0; i < n; i++)
        follow((double)(from + i), from + i);
}

// The worker has done what they gave it.
static void follow_many_and_wait(uint32_t n)
{
    follow_many(n, 0);
    assert_true(keyframe_window_is_ready(window, INT64_MAX - 1));
}

static void results_enter_four_frames_later(void **state)
{
    (void)state;
    const struct graph_keyframe *listed;
    assert_true(follow(0, 7) == 0);
    T_graph.t_m[0] = 0.04;
    T_graph.t_m[1] = 0.03;
    for (uint64_t seq = 8; seq < 11; seq++) {
        assert_true(follow(1, seq) == 0);
        assert_true(lies_at_m() == 0);
        assert_int_equal(keyframe_window_list(window, &listed), 0);
    }
    assert_true(fabs(follow(2, 11) - 0.05) < 1e-12);
    assert_true(lies_at_m() == 0.04);
    assert_int_equal(keyframe_window_list(window, &listed), 1);
    assert_int_equal(listed[0].seq, 7);
    assert_int_equal(listed[0].time_ns, 7000);
    assert_true(listed[0].T_odom_camera.t_m[0] == 0);
    for (int i = 0; i < N_PX; i++)
        assert_true(added_z_m[0][i] == (float)(1 + i));
    // Frame 11 is the next, and its result moves nothing more.
    for (uint64_t seq = 12; seq < 16; seq++)
        assert_true(follow(2, seq) == 0);
    assert_int_equal(keyframe_window_list(window, &listed), 2);
    assert_int_equal(listed[1].seq, 11);
    assert_true(listed[1].T_odom_camera.t_m[0] == 2);
}

// Where time is short the next keyframe comes when nine times as long has gone by as the last one
// took, and not before.
static void where_time_is_short_they_rest(void **state)
{
    (void)state;
    const struct timespec took = {0, 50000000}, pause = {0, 5000000};
    const int64_t began_ns = clock_monotonic_ns();
    const struct graph_keyframe *listed;
    waits = true;
    keyframe_window_spare(window, true);
    follow(0, 0);
    nanosleep(&took, NULL);
    waits = false;
    sem_post(&go_on);
    uint64_t seq = 1;
    while (keyframe_window_list(window, &listed) < 2) {
        assert_true(clock_monotonic_ns() - began_ns < 60000000000);
        nanosleep(&pause, NULL);
        follow((double)seq, seq);
        seq++;
    }
    assert_true(began_add_ns[1] - ended_add_ns[0] >= 9 * (ended_add_ns[0] - began_add_ns[0]));
    // Not short any more: with the next frame, and what it gives enters four later.
    keyframe_window_spare(window, false);
    follow_many(5, seq);
    assert_int_equal(keyframe_window_list(window, &listed), 3);
}

// Where the map moved the next keyframe comes at half the motion.
static void a_map_that_moves_wants_them_sooner(void **state)
{
    (void)state;
    const struct graph_keyframe *listed;
    for (int moves = 0; moves < 2; moves++) {
        follow(10 * moves, 1);
        T_graph.t_m[0] += moves ? 0.01 : 0;
        for (int i = 0; i < 4; i++)
            follow(10 * moves + 0.04, 2); // of 0.06
        const uint32_t n = keyframe_window_list(window, &listed);
        for (int i = 0; i < 4; i++)
            follow(10 * moves + 0.04, 3);
        assert_int_equal(keyframe_window_list(window, &listed) - n, moves);
    }
}

static void another_epoch_begins_empty(void **state)
{
    (void)state;
    const struct graph_keyframe *listed;
    keyframe_window_enter(window, 0); // the same
    assert_int_equal(n_cleared, 0);
    T_graph.t_m[0] = 0.5;
    follow_many(5, 0);
    assert_true(lies_at_m() == 0.5);
    keyframe_window_enter(window, 3);
    assert_int_equal(keyframe_window_epoch(window), 3);
    assert_int_equal(n_cleared, 1);
    assert_true(lies_at_m() == 0);
    assert_int_equal(keyframe_window_list(window, &listed), 0);
    follow(4, 9); // the first is a keyframe wherever it is
    follow_many(4, 10);
    assert_int_equal(keyframe_window_list(window, &listed), 1);
    assert_int_equal(listed[0].seq, 9);
}

// A lost frame as the daemon hands it over, found at x_m or not.
static void lost(enum relocalise_trust trust, double x_m, uint64_t seq)
{
    struct track_result result;
    double moved_m;
    memset(&result, 0, sizeof result);
    result.state = TRACK_STATE_LOST;
    result.reason = TRACK_REASON_FEW_PAIRS;
    result.T_odom_camera = se3_identity();
    answer = trust;
    T_answer = se3_identity();
    T_answer.t_m[0] = x_m;
    assert_int_equal(keyframe_window_follow(window, &fake_device, &track, &result, seq,
                                            (int64_t)seq * 1000, &moved_m),
                     0);
    assert_int_equal(keyframe_window_relocate(window, &fake_device, &track, &result), 0);
}

// The frame after a keyframe is lost: it is looked for among all that came, also where the worker
// has not done; T_map_odom is that of the keyframe that found it, and the next frame that is
// followed is a keyframe of which the graph knows.
static void a_lost_camera_is_found_among_them(void **state)
{
    (void)state;
    assert_false(keyframe_window_has_any(window));
    follow_many(5, 0);
    assert_true(keyframe_window_has_any(window));
    T_graph.t_m[0] = 0.5;
    answer_seq = 4;
    first_z_m = 7;
    lost(RELOCALISE_NOT_FOUND, 3, 5);
    assert_int_equal(n_finds, 1);
    assert_int_equal(n_added_then, 2);
    assert_true(lies_at_m() == 0.5); // the result of 4 has entered
    lost(RELOCALISE_NOT_FOUND, 3, 6);
    assert_int_equal(attempt, 1);
    assert_int_equal(n_relocated, 0);
    lost(RELOCALISE_SURE, 3, 7);
    assert_int_equal(n_relocated, 1);
    assert_true(T_relocated.t_m[0] == 3);
    assert_true(lies_at_m() == 104);
    assert_int_equal(n_said, 1);
    follow(3, 8);
    assert_int_equal(
        keyframe_window_relocate(window, &fake_device, &track,
                                 &(struct track_result){.state = TRACK_STATE_TRACKING}),
        0);
    follow_many(4, 9);
    assert_int_equal(n_told_found, 1);
    assert_int_equal(found_seq, 4);
    assert_int_equal(added[2].seq, 8);
    assert_true(lies_at_m() == 0.5);
    lost(RELOCALISE_NOT_FOUND, 3, 13);
    assert_int_equal(attempt, 0); // of another loss
    follow_many(9, 14);
    assert_int_equal(n_told_found, 1);
}

// One that the next frame does not bear out was none; nor is one of which the tracker knows no
// frame.
static void what_is_not_borne_out_was_no_find(void **state)
{
    (void)state;
    follow_many(5, 0);
    answer_seq = 0;
    lost(RELOCALISE_SURE, 3, 5);
    assert_true(lies_at_m() == 100);
    lost(RELOCALISE_NOT_FOUND, 3, 6);
    assert_true(lies_at_m() == 0);
    relocate_rc = -ENODATA;
    lost(RELOCALISE_SURE, 3, 7);
    assert_int_equal(n_relocated, 2);
    assert_true(lies_at_m() == 0);
    find_rc = -ENOMEM;
    lost(RELOCALISE_SURE, 3, 8);
    assert_int_equal(n_relocated, 2);
    assert_int_equal(n_said, 1);
    follow_many(5, 9);
    assert_int_equal(n_told_found, 0);
    keyframe_window_enter(window, 1);
    lost(RELOCALISE_SURE, 3, 14);
    assert_int_equal(attempt, 0);
}

static void fair_finds_among_them_are_believed_in_a_row(void **state)
{
    (void)state;
    follow_many(5, 0);
    for (int far = 0; far < 2; far++) {
        const double step_m = far ? 0.151 : 0.149;
        n_relocated = 0;
        for (uint64_t i = 0; i < 3; i++) {
            assert_int_equal(n_relocated, 0);
            lost(RELOCALISE_FAIR, step_m * (double)i, 5 + i);
        }
        assert_int_equal(n_relocated, far ? 0 : 1);
        follow(0, 9);
        assert_int_equal(
            keyframe_window_relocate(window, &fake_device, &track,
                                     &(struct track_result){.state = TRACK_STATE_TRACKING}),
            0);
    }
    // Nothing to see, or nothing that sees.
    const enum track_reason reasons[] = {TRACK_REASON_NO_DEPTH, TRACK_REASON_DEVICE};
    const uint32_t n = n_finds;
    for (int i = 0; i < 2; i++)
        assert_int_equal(keyframe_window_relocate(window, &fake_device, &track,
                                                  &(struct track_result){.state = TRACK_STATE_LOST,
                                                                         .reason = reasons[i]}),
                         0);
    assert_int_equal(n_finds, n);
    read_rc = -EIO;
    assert_int_equal(keyframe_window_relocate(window, &fake_device, &track,
                                              &(struct track_result){.state = TRACK_STATE_LOST}),
                     -EIO);
}

// What the camera's own error is learnt from: frames of this epoch that were tracked, keyframes or
// not.
static void frames_between_are_kept(void **state)
{
    (void)state;
    const atomic_bool stop = false;
    struct optimise_report report;
    follow_many(4, 0); // of another epoch
    keyframe_window_enter(window, 1);
    tracked = TRACK_STATE_DEGRADED;
    follow_many(5, 10);
    tracked = TRACK_STATE_TRACKING;
    for (uint32_t i = 0; i < 20; i++) {
        first_z_m = (float)i;
        follow(0.1 * i, 100 + i);
    }
    assert_int_equal(keyframe_window_finish(window, true, &stop, NULL, &report), 0);
    assert_int_equal(between.n, 7);
    for (uint32_t i = 0; i < 7; i++) {
        assert_int_equal(between.frames[i].time_ns, 1000 * (100 + 3 * i));
        assert_true(fabs(between.frames[i].T_odom_camera.t_m[0] - 0.3 * i) < 1e-12);
        assert_true(first_between_m[i] == (float)(3 * i));
    }
}

static void a_failing_device_is_told(void **state)
{
    (void)state;
    double moved_m;
    read_rc = -EIO;
    assert_int_equal(follow_rc(0, 1, &moved_m), -EIO);
    read_rc = 0;
    const struct graph_keyframe *listed;
    follow_many(5, 0);
    assert_int_equal(keyframe_window_list(window, &listed), 1);
}

static void without_memory_keyframes_end(void **state)
{
    (void)state;
    const atomic_bool stop = false;
    struct optimise_report report;
    follow_many_and_wait(16);
    add_rc = -ENOMEM;
    follow_many(5, 16); // 20 learns what became of 16
    assert_int_equal(n_said, 1);
    add_rc = 0;
    follow_many(9, 21);
    assert_int_equal(n_added, 4);
    assert_int_equal(n_said, 1);
    assert_int_equal(keyframe_window_optimise(window), -ENODATA);
    assert_int_equal(keyframe_window_finish(window, true, &stop, NULL, &report), -ENODATA);
}

static void who_waits_says_until_when(void **state)
{
    (void)state;
    waits = true;
    follow(0, 0);
    assert_true(keyframe_window_is_ready(window, 1)); // nothing would be waited for yet
    follow(0, 1);
    follow(0, 2);
    assert_true(keyframe_window_is_ready(window, 1));
    follow(0, 3);
    assert_false(keyframe_window_is_ready(window, 1)); // the next would
    assert_true(keyframe_window_is_ready(window, INT64_MAX));
    sem_post(&go_on);
    waits = false;
    assert_true(keyframe_window_is_ready(window, INT64_MAX - 1));
    follow(0, 4);
}

// Asks until it is no longer under way.
static int optimised(struct optimise_report *report)
{
    int rc;
    while ((rc = keyframe_window_optimised(window, report)) == -EAGAIN)
        sched_yield();
    return rc;
}

static void all_are_adjusted_when_asked(void **state)
{
    (void)state;
    struct optimise_report report;
    assert_int_equal(keyframe_window_optimised(window, &report), -ENODATA);
    follow_many(12, 0);
    assert_int_equal(keyframe_window_optimise(window), -ENODATA); // two have entered
    follow_many(1, 12);
    waits = true;
    assert_int_equal(keyframe_window_optimise(window), 0);
    assert_int_equal(keyframe_window_optimise(window), -EALREADY);
    assert_int_equal(keyframe_window_optimised(window, &report), -EAGAIN);
    waits = false;
    for (int i = 0; i < 4; i++)
        sem_post(&go_on);
    assert_int_equal(optimised(&report), 0);
    assert_int_equal(report.n_links, 77);
    assert_int_equal(n_taken, 1);
    const struct se3 T = keyframe_window_T_map_odom(window);
    assert_true(T.t_m[1] == 0.25);
    assert_int_equal(keyframe_window_optimise(window), 0); // once more
    assert_int_equal(optimised(&report), 0);
    assert_int_equal(n_taken, 2);
}

static void what_fails_is_told(void **state)
{
    (void)state;
    struct optimise_report report;
    int *const fails[] = {&copy_rc, &optimise_rc, &take_rc};
    follow_many(13, 0);
    for (int i = 0; i < 3; i++) {
        *fails[i] = -ENOMEM;
        assert_int_equal(keyframe_window_optimise(window), 0);
        assert_int_equal(optimised(&report), -ENOMEM);
        *fails[i] = 0;
        assert_int_equal(keyframe_window_finish(window, false, NULL, NULL, &report), 0);
    }
    assert_int_equal(keyframe_window_optimise(window), 0);
    assert_int_equal(optimised(&report), 0);
}

static void an_epoch_ends_it(void **state)
{
    (void)state;
    struct optimise_report report;
    follow_many(14, 0); // and a job under way
    waits = true;
    sem_post(&go_on);
    assert_int_equal(keyframe_window_optimise(window), 0);
    keyframe_window_enter(window, 2);
    for (int i = 0; i < 4; i++)
        sem_post(&go_on);
    assert_int_equal(optimised(&report), -ECANCELED);
    assert_int_equal(n_taken, 0);
}

static void the_end_of_a_recording(void **state)
{
    (void)state;
    struct optimise_report report;
    const struct graph_keyframe *listed;
    atomic_bool stop = false;
    T_graph.t_m[0] = 0.5;
    follow_many(9, 0);
    assert_int_equal(keyframe_window_list(window, &listed), 2);
    assert_int_equal(keyframe_window_finish(window, false, &stop, NULL, &report), 0);
    assert_int_equal(keyframe_window_list(window, &listed), 3); // the newest result
    assert_int_equal(report.n_links, 0);
    stop = true;
    assert_int_equal(keyframe_window_finish(window, true, &stop, NULL, &report), -ECANCELED);
    assert_int_equal(n_taken, 0);
    stop = false;
    assert_int_equal(keyframe_window_finish(window, true, &stop, NULL, &report), 0);
    assert_int_equal(report.n_links, 77);
    assert_int_equal(n_taken, 1);
    const struct se3 T = keyframe_window_T_map_odom(window);
    assert_true(T.t_m[1] == 0.25);
}

// What keyframes saw stays as long as they do: every second pixel, in millimetres.
static void what_they_saw_is_kept(void **state)
{
    (void)state;
    struct deformation_field field;
    for (int i = 0; i < 12; i++) {
        first_z_m = (float)(1 + i);
        follow(i, (uint64_t)i);
    }
    assert_true(keyframe_window_is_ready(window, INT64_MAX - 1));
    n_listed = 2;
    added[1] = added[2]; // the second goes
    follow(12, 12);
    assert_int_equal(keyframe_window_correction(window, &field), 0);
    assert_int_equal(field.n, 2);
    assert_int_equal(field.camera.width_px, WIDTH / 2);
    assert_int_equal(field.camera.height_px, HEIGHT / 2);
    assert_true(field.camera.fx_px == 3.5 && field.camera.cy_px == 1.25);
    for (uint32_t k = 0; k < 2; k++)
        for (uint32_t i = 0; i < N_PX / 4; i++) {
            const uint32_t px = 2 * (i / (WIDTH / 2)) * WIDTH + 2 * (i % (WIDTH / 2));
            assert_int_equal(field.z_mm[k * N_PX / 4 + i], 1000 * (1 + 8 * k + px));
            assert_true(field.keyframes[k].T_odom_camera.t_m[0] == 8 * k);
        }
    deformation_field_free(&field);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)
    const struct CMUnitTest tests[] = {
        TEST(results_enter_four_frames_later),
        TEST(where_time_is_short_they_rest),
        TEST(a_map_that_moves_wants_them_sooner),
        TEST(another_epoch_begins_empty),
        TEST(a_lost_camera_is_found_among_them),
        TEST(what_is_not_borne_out_was_no_find),
        TEST(fair_finds_among_them_are_believed_in_a_row),
        TEST(frames_between_are_kept),
        TEST(a_failing_device_is_told),
        TEST(without_memory_keyframes_end),
        TEST(who_waits_says_until_when),
        TEST(all_are_adjusted_when_asked),
        TEST(what_fails_is_told),
        TEST(an_epoch_ends_it),
        TEST(the_end_of_a_recording),
        TEST(what_they_saw_is_kept),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
