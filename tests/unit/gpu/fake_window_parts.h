// SPDX-License-Identifier: Apache-2.0
// A window of keyframes whose graph, optimiser, tracker and device are what the test says. One
// inclusion a program, after cmocka's.
#ifndef POSED_TESTS_UNIT_GPU_FAKE_WINDOW_PARTS_H
#define POSED_TESTS_UNIT_GPU_FAKE_WINDOW_PARTS_H

#include <errno.h>
#include <semaphore.h>
#include <string.h>

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
static char said[120];
static struct se3 T_graph;
static int add_rc, read_rc, copy_rc, optimise_rc, take_rc;
static struct between_frames between; // as the copy was given them last
static float first_z_m, first_between_m[BETWEEN_FRAMES_MAX];
static enum track_state tracked = TRACK_STATE_TRACKING;
// What is found among the keyframes, and what was asked and told.
static enum relocalise_trust answer;
static struct se3 T_answer, T_relocated;
static uint64_t answer_seq;
static struct keyframe_find told_find; // to the graph
static int64_t told_find_ns;
static uint32_t n_finds, attempt, n_relocated, n_told_found, n_added_then;
static int find_rc, relocate_rc;
// graph_add and optimise, graph_copy, or graph_found, for the test
static atomic_bool waits, copy_waits, found_waits;
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

int graph_find(struct graph *g, const float *z_m, uint32_t n_attempt, struct keyframe_find *out)
{
    assert_true(g == &graph && z_m[3] == first_z_m + 3);
    n_finds++;
    attempt = n_attempt;
    n_added_then = n_added;
    *out = (struct keyframe_find){answer, answer_seq, T_answer, {.rms_m = 0.5}};
    return find_rc;
}

// The last of those listed has found it.
struct keyframe_find graph_find_at(const struct graph_keyframe *keyframes, uint32_t n,
                                   const struct se3 *T_odom_camera)
{
    struct keyframe_find out = {.T_odom_camera = *T_odom_camera, .link = {.rms_m = 0.25}};
    if (n > 0) {
        out.trust = RELOCALISE_SURE;
        out.seq = keyframes[n - 1].seq;
    }
    return out;
}

void graph_found(struct graph *g, const struct keyframe_find *find, int64_t time_ns)
{
    if (found_waits)
        sem_wait(&go_on);
    if (g == &graph)
        n_told_found++;
    told_find = *find;
    told_find_ns = time_ns;
}

int graph_copy(struct graph **out, const struct graph *g, const struct between_frames *given)
{
    if (copy_waits)
        sem_wait(&go_on);
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
    snprintf(said, sizeof said, "%s", text);
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
    waits = copy_waits = found_waits = false;
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

#endif
