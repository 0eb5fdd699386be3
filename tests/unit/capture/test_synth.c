// SPDX-License-Identifier: Apache-2.0
// The synthetic source: rays meet shapes where their equations say, the noise has the published
// size, motions have a hand's speed, events happen where they should, and the bits never change.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "capture/capture.h"
#include "capture/synth/kinect_noise.h"
#include "capture/synth/scene.h"
#include "capture/synth/shapes.h"
#include "capture/synth/synth.h"
#include "proto/se3.h"

#define WIDTH            640
#define HEIGHT           480
#define N_PX             (WIDTH * HEIGHT)
#define BITS_OF_FRAME_37 0x23567e8e35e9cf56u

static float z_image[N_PX];
static uint16_t depth[N_PX], depth_again[N_PX];
static char last_line[1024];

static void remember_line(void *user, enum log_level level, const char *line)
{
    (void)user;
    (void)level;
    snprintf(last_line, sizeof last_line, "%s", line);
}

static const struct log_sink sink = {remember_line, NULL};

static void assert_below(double value, double limit, const char *what)
{
    if (!(value <= limit))
        fail_msg("%s: %.6g, limit %.6g", what, value, limit);
}

// Signed "outside-ness" of a point of the shape's frame: negative inside, 0 on the surface.
static double implicit(const struct shape *s, const double p[3])
{
    const double *h = s->half_m;
    double x = p[0] / h[0], y = p[1] / h[1], z = p[2] / h[2];
    switch (s->kind) {
    case SHAPE_BOX:
    case SHAPE_ROOM:
        return fmax(fmax(fabs(p[0]) - h[0], fabs(p[1]) - h[1]), fabs(p[2]) - h[2]);
    case SHAPE_ELLIPSOID:
        return 0.5 * h[0] * (x * x + y * y + z * z - 1);
    case SHAPE_PIPE:
        return 0.5 * h[0] * (x * x + z * z - 1);
    case SHAPE_CONE:
        return 0.5 * h[0] * (x * x + z * z - y * y);
    case SHAPE_TORUS:
        return hypot(hypot(p[0], p[1]) - (h[0] - h[2]), p[2]) - h[2];
    case SHAPE_WAVES: {
        double a = x - rint(x), b = 1.5 * y - rint(1.5 * y);
        return -p[2] - h[2] * a * (8 - 16 * fabs(a)) * b * (8 - 16 * fabs(b));
    }
    }
    return NAN;
}

// Each kind from many sides: every hit lies on the surface, and the ray has not crossed it before.
static void test_rays_meet_the_surface(void **state)
{
    (void)state;
    static const double sizes[][3] = {
        [SHAPE_BOX] = {0.3, 0.2, 0.4},       [SHAPE_ROOM] = {2, 2, 2},
        [SHAPE_ELLIPSOID] = {0.3, 0.2, 0.4}, [SHAPE_PIPE] = {0.2, 0.4, 0.3},
        [SHAPE_CONE] = {0.2, 0.4, 0.2},      [SHAPE_TORUS] = {0.4, 0.4, 0.1},
        [SHAPE_WAVES] = {0.6, 0.5, 0.05},
    };
    float x_norm[100 + 16];
    for (int u = 0; u < 116; u++)
        x_norm[u] = (float)(u - 50) / 120;
    for (int kind = SHAPE_BOX; kind <= SHAPE_WAVES; kind++) {
        struct shape shape = {.kind = (enum shape_kind)kind, .T_world_shape = se3_identity()};
        memcpy(shape.half_m, sizes[kind], sizeof shape.half_m);
        long n_hits = 0;
        for (int view = 0; view < 24; view++) {
            double yaw = kind == SHAPE_WAVES ? 3.0 * view - 36 : 15.0 * view;
            struct se3 turn = motion_pose(0, 0, 0, yaw, 2.0 * view - 24, 5.0 * view);
            struct se3 back = motion_pose(0.05, -0.03, -1.5, 0, 0, 0);
            struct se3 T = se3_compose(&turn, &back);
            for (int v = -40; v <= 40; v++) {
                float y_norm = (float)v / 120, z[100];
                for (int u = 0; u < 100; u++)
                    z[u] = INFINITY;
                shape_trace_row(&shape, &T, x_norm, y_norm, 0, 100, z);
                for (int u = 0; u < 100; u++) {
                    if (z[u] > 1e6f)
                        continue;
                    n_hits++;
                    double p[3], in_camera[3] = {(double)x_norm[u] * z[u], (double)y_norm * z[u],
                                                 (double)z[u]};
                    se3_apply(&T, in_camera, p);
                    double off = implicit(&shape, p);
                    bool on_rim = kind == SHAPE_WAVES && off < 0 &&
                                  fmax(fabs(p[0]) - 0.6, fabs(p[1]) - 0.5) > -1e-5;
                    if (!on_rim)
                        assert_below(fabs(off), 3e-4, "distance from the surface");
                    if (kind == SHAPE_PIPE || kind == SHAPE_CONE || kind == SHAPE_ROOM)
                        continue; // may be seen from inside
                    for (double part = 0.3; part < 0.99; part += 0.02) {
                        double q[3] = {part * in_camera[0], part * in_camera[1],
                                       part * in_camera[2]};
                        se3_apply(&T, q, p);
                        if (kind != SHAPE_WAVES || (fabs(p[0]) < 0.6 && fabs(p[1]) < 0.5))
                            assert_true(implicit(&shape, p) > -1e-3);
                    }
                }
            }
        }
        assert_true(n_hits > 10000);
    }
}

// The wall's depth in closed form, from a tilted pose.
static void test_wall_is_exact(void **state)
{
    (void)state;
    struct intrinsics camera = scene_default_camera();
    struct scene *scene;
    assert_int_equal(scene_create(&scene, "wall", &camera), 0);
    struct se3 T = motion_pose(0.2, -0.1, 0.3, 20, -10, 5);
    scene_render_exact(scene, &T, z_image);
    for (int v = 0; v < HEIGHT; v += 7)
        for (int u = 0; u < WIDTH; u += 3) {
            double x = (u - 319.5) / 525, y = (v - 239.5) / 525;
            double exact = (1.6 - 0.3) / (T.r[6] * x + T.r[7] * y + T.r[8]);
            assert_below(fabs((double)z_image[v * WIDTH + u] - exact), 5e-6, "wall depth");
        }
    scene_render_clean(scene, &T, depth);
    for (int i = 0; i < N_PX; i += 11)
        assert_below(fabs(depth[i] / SCENE_UNITS_PER_M - (double)z_image[i]), 1.01e-4, "rounding");
    scene_destroy(&scene);
    assert_null(scene);
    scene_destroy(&scene);
}

// Standard deviation in time and step of a plane that faces the camera, against Nguyen et al. (3).
static void test_noise_has_the_published_size(void **state)
{
    (void)state;
    struct intrinsics camera = {525, 525, 31.5, 23.5, 64, 48};
    struct kinect_noise *noise;
    assert_int_equal(kinect_noise_create(&noise, &camera), 0);
    static const double distances_m[] = {0.6, 1.0, 1.5, 2.0, 3.0, 4.0};
    for (size_t k = 0; k < sizeof distances_m / sizeof *distances_m; k++) {
        double z = distances_m[k], sum = 0, sum2 = 0, beside = 0;
        const int n_frames = 200, n_px = 64 * 48;
        long n = 0;
        for (int f = 0; f < n_frames; f++) {
            for (int i = 0; i < n_px; i++) // a little relief spreads the values over one step
                z_image[i] = (float)(z * (1 + 0.02 * (i % 64) / 64));
            kinect_noise_apply(noise, z_image, 7, (uint64_t)f, 5000, depth);
            double before = 0;
            for (int i = 0; i < n_px; i++) {
                if (i % 64 < 20) { // the projector's shadow and the border
                    before = 0;
                    continue;
                }
                assert_true(depth[i] > 0);
                double error = depth[i] / 5000.0 - (double)z_image[i];
                sum += error, sum2 += error * error, beside += error * before;
                before = error;
                n++;
            }
        }
        double sigma = sqrt(sum2 / (double)n), mean = sum / (double)n;
        double published = 0.0012 + 0.0019 * (z - 0.4) * (z - 0.4);
        assert_below(fabs(sigma / published - 1), 0.15, "noise against Nguyen et al.");
        assert_below(fabs(mean), 0.05 * published, "bias");
        double correlation = beside / (double)n / (sigma * sigma);
        assert_below(fabs(correlation - 0.55), 0.2, "correlation of neighbours");
    }
    // Steps: all values lie on the grid of 1/8 px of disparity, raw = 1090 - 8 b f / z.
    double raw_m = 8 * 0.075 * 525;
    for (int i = 0; i < 64 * 48; i++)
        if (depth[i]) {
            double raw = 1090 - raw_m * 5000.0 / depth[i];
            assert_below(fabs(raw - rint(raw)), 0.02, "raw disparity");
        }
    kinect_noise_destroy(&noise);
    kinect_noise_destroy(&noise);
}

static void test_shadow_range_and_grazing(void **state)
{
    (void)state;
    struct intrinsics camera = {525, 525, 319.5, 239.5, WIDTH, HEIGHT};
    struct kinect_noise *noise;
    assert_int_equal(kinect_noise_create(&noise, &camera), 0);
    for (int i = 0; i < N_PX; i++) // a post at 1 m before a wall at 2 m
        z_image[i] = i % WIDTH >= 300 && i % WIDTH < 340 ? 1.0f : 2.0f;
    kinect_noise_apply(noise, z_image, 1, 0, 5000, depth);
    // The shadow is as wide as the disparities differ: 0.075 * 525 * (1 - 1/2) = 19.7 px.
    int n_shadow = 0, n_right = 0;
    for (int u = 250; u < 298; u++)
        n_shadow += depth[200 * WIDTH + u] == 0;
    for (int u = 343; u < 400; u++)
        n_right += depth[200 * WIDTH + u] == 0;
    assert_in_range(n_shadow, 16, 21);
    assert_int_equal(n_right, 0);
    static const float beyond[] = {0.3f, 8.5f, INFINITY};
    for (int k = 0; k < 3; k++) {
        for (int i = 0; i < N_PX; i++)
            z_image[i] = beyond[k];
        kinect_noise_apply(noise, z_image, 1, 0, 5000, depth);
        long n_valid = 0;
        for (int i = 0; i < N_PX; i++)
            n_valid += depth[i] > 0;
        assert_int_equal(n_valid, 0);
    }
    kinect_noise_destroy(&noise);
    // Beside the camera the corridor's walls are seen at 88 degrees and more: nothing.
    struct scene *scene;
    assert_int_equal(scene_create(&scene, "corridor", &camera), 0);
    struct se3 T = motion_pose(0, 0, 0, 0, 0, 0);
    scene_render_noisy(scene, &T, 1, 0, depth);
    assert_int_equal(depth[240 * WIDTH + 320], 0);
    assert_true(depth[240 * WIDTH + 20] > 0);
    scene_destroy(&scene);
}

static uint64_t hash_bits(const uint16_t *values, size_t n)
{
    uint64_t h = 14695981039346656037u; // FNV-1a
    for (size_t i = 0; i < n; i++)
        h = (h ^ values[i]) * 1099511628211u;
    return h;
}

// The bits that frame 37 has had since the scene was laid out; they are the same for every
// compiler, processor and optimisation. A change of the scene changes them, nothing else may.
static void test_bits_are_those_of_every_machine(void **state)
{
    (void)state;
    struct intrinsics camera = scene_default_camera();
    struct scene *scene;
    assert_int_equal(scene_create(&scene, "room", &camera), 0);
    struct se3 T = synth_pose(synth_find("room"), 37);
    scene_render_noisy(scene, &T, 20261120, 37, depth);
    scene_render_noisy(scene, &T, 20261120, 37, depth_again);
    assert_memory_equal(depth, depth_again, sizeof depth);
    assert_int_equal(hash_bits(depth, N_PX), BITS_OF_FRAME_37);
    scene_render_noisy(scene, &T, 20261121, 37, depth_again);
    assert_memory_not_equal(depth, depth_again, sizeof depth);
    scene_render_noisy(scene, &T, 20261120, 38, depth_again);
    assert_memory_not_equal(depth, depth_again, sizeof depth);
    scene_destroy(&scene);
}

// Speeds between neighbouring frames; events may not make jumps either (the gap is meant to).
static void test_motions_are_a_hand_s(void **state)
{
    (void)state;
    for (const struct synth_recording *r = synth_recordings(); r->name; r++) {
        double fastest_m_s = 0, fastest_deg_s = 0;
        struct se3 last = synth_pose(r, 0);
        double step[6], last_step[6];
        for (uint32_t i = 1; i < r->n_frames; i++) {
            struct se3 now = synth_pose(r, i), moved = se3_between(&last, &now);
            se3_log(&moved, step);
            double way = sqrt(step[0] * step[0] + step[1] * step[1] + step[2] * step[2]);
            bool gap = r->event == SYNTH_EVENT_GAP && i == r->event_frame;
            if (gap)
                assert_below(way, 0.05, "way during the gap");
            if (!gap && r->event != SYNTH_EVENT_DUPLICATES) {
                fastest_m_s = fmax(fastest_m_s, 30 * way);
                fastest_deg_s = fmax(fastest_deg_s, 30 * 180 / M_PI * se3_angle(&moved));
                if (i > 1 && i != r->event_frame + 1)
                    for (int k = 0; k < 6; k++)
                        assert_below(fabs(step[k] - last_step[k]), 2e-3, "change of a frame step");
            }
            last = now;
            memcpy(last_step, step, sizeof step);
        }
        assert_below(fastest_m_s, 0.5, r->name);
        assert_below(fastest_deg_s, 45, r->name);
        if (!strcmp(r->name, "room"))
            assert_true(fastest_m_s > 0.2 && fastest_deg_s > 20);
        if (r->motion == MOTION_STILL)
            assert_true(fastest_m_s == 0 && fastest_deg_s == 0);
    }
    const struct synth_recording *room = synth_find("room");
    struct se3 first = synth_pose(room, 0), closed = synth_pose(room, 600);
    struct se3 difference = se3_between(&first, &closed);
    assert_below(se3_angle(&difference), 1e-9, "the loop's end");
}

static void test_events(void **state)
{
    (void)state;
    const struct synth_recording *covered = synth_find("room-covered"),
                                 *gap = synth_find("room-gap");
    assert_false(synth_is_covered(covered, 149));
    assert_true(synth_is_covered(covered, 150));
    assert_true(synth_is_covered(covered, 179));
    assert_false(synth_is_covered(covered, 180));
    struct se3 before = synth_pose(covered, 149), after = synth_pose(covered, 180);
    assert_memory_equal(&before, &after, sizeof before);
    assert_int_equal(synth_time_ns(gap, 149), 4966666666);
    assert_int_equal(synth_time_ns(gap, 150), 7000000000);
    assert_int_equal(synth_time_ns(synth_find("room"), 3), 100000000);
    const struct synth_recording *twice = synth_find("room-duplicates");
    struct se3 one = synth_pose(twice, 4), same = synth_pose(twice, 5), next = synth_pose(twice, 6);
    assert_memory_equal(&one, &same, sizeof one);
    assert_memory_not_equal(&one, &next, sizeof one);
    assert_int_equal(synth_noise_frame(twice, 5), 4);
}

static void test_locations(void **state)
{
    (void)state;
    struct synth_request request = {.seed = 5};
    assert_int_equal(synth_parse("", &sink, &request), 0);
    assert_string_equal(request.recording->name, "room");
    assert_int_equal(request.n_frames, 600);
    assert_true(request.noise);
    request = (struct synth_request){.seed = 5, .n_frames = 70};
    assert_int_equal(synth_parse("wall,noise=off,seed=18446744073709551615", &sink, &request), 0);
    assert_false(request.noise);
    assert_int_equal(request.seed, UINT64_MAX);
    assert_int_equal(request.n_frames, 70);
    assert_int_equal(synth_parse("wall,frames=9", &sink, &request), 0);
    assert_int_equal(request.n_frames, 9);
    assert_int_equal(synth_parse("room,mount=0.2:0:-0.05:0:90:0", &sink, &request), 0);
    struct se3 T_body = synth_pose(request.recording, 7), T_camera = synth_camera_pose(&request, 7);
    struct se3 mount = se3_between(&T_body, &T_camera);
    const double ahead[3] = {0, 0, 1}; // of a camera that looks to the right
    double seen[3];
    se3_apply(&mount, ahead, seen);
    assert_true(fabs(seen[0] - 1.2) < 1e-9 && fabs(seen[1]) < 1e-9 && fabs(seen[2] + 0.05) < 1e-9);
    assert_int_equal(synth_parse("kitchen", &sink, &request), -ENOENT);
    assert_non_null(strstr(last_line, "room-still"));
    static const char *const bad[] = {"room,noise=maybe",
                                      "room,seed=",
                                      "room,seed=-1",
                                      "room,frames=0",
                                      "room,frames=1e9",
                                      "room,",
                                      "room,seed=99999999999999999999",
                                      "room,frames=3x",
                                      "room,mount=1:2:3",
                                      "room,mount=1:2:3:4:5:6:7",
                                      "room,mount=11:0:0:0:0:0",
                                      "room,mount=0:0:0:nan:0:0",
                                      "room,cover=3",
                                      "room,cover=3:4:5",
                                      "room,cover=-1:4"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_int_equal(synth_parse(bad[i], &sink, &request), -EINVAL);
}

static void test_driver_delivers_frames_and_poses(void **state)
{
    (void)state;
    struct capture_settings settings = {
        .source = "synth:room-covered,noise=off", .log = sink, .n_frames = 200};
    struct capture *capture;
    assert_int_equal(capture_open(&capture, &settings), 0);
    assert_int_equal(capture_info(capture)->n_frames, 200);
    assert_int_equal(capture_info(capture)->period_ns / 1000000, 33);
    struct stamped_pose *poses;
    assert_int_equal(capture_ground_truth(capture, &poses), 200);
    struct intrinsics camera = capture_info(capture)->camera;
    struct scene *scene;
    assert_int_equal(scene_create(&scene, "room", &camera), 0);
    struct capture_frame frame;
    for (uint32_t i = 0; i < 200; i++) {
        assert_int_equal(capture_read(capture, 10000, &frame), 0);
        assert_int_equal(frame.index, i);
        assert_int_equal(frame.image.time_ns, poses[i].time_ns);
        if (i >= 150 && i < 180)
            assert_int_equal(frame.image.depth[1000] | frame.image.depth[200000], 0);
        if (i % 50 == 49) {
            scene_render_clean(scene, &poses[i].T_world_camera, depth);
            assert_memory_equal(frame.image.depth, depth, sizeof depth);
        }
    }
    assert_int_equal(capture_read(capture, 10000, &frame), -ENODATA);
    free(poses);
    scene_destroy(&scene);
    capture_close(&capture);
    // So many from the start on, as of any recording; also beyond the scene's own length.
    static const struct {
        double start_s;
        uint32_t n_frames, step, first;
    } parts[] = {
        {2, 90, 1, 60}, {12, 240, 1, 360}, {30, 5, 1, 900}, {0, 300, 3, 0}, {1, 250, 3, 30}};
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        settings.start_s = parts[i].start_s;
        settings.n_frames = parts[i].n_frames;
        settings.step = parts[i].step;
        for (uint32_t jitters = 0; jitters < 2; jitters++) {
            settings.source = jitters ? "synth:room,sensor=unkind" : "synth:room,noise=off";
            assert_int_equal(capture_open(&capture, &settings), 0);
            assert_int_equal(capture_info(capture)->n_frames, parts[i].n_frames);
            assert_int_equal(capture_read(capture, 10000, &frame), 0);
            assert_in_range(frame.index, parts[i].first, parts[i].first + jitters);
            capture_close(&capture);
        }
    }
    settings = (struct capture_settings){
        .source = "synth:room", .log = sink, .start_s = 1e6, .n_frames = 1, .step = 1};
    assert_int_equal(capture_open(&capture, &settings), -EINVAL);
    settings.source = "synth:nowhere";
    assert_int_equal(capture_open(&capture, &settings), -ENOENT);
    struct intrinsics huge = {525, 525, 0, 0, 0, 480};
    assert_int_equal(scene_create(&scene, "room", &huge), -EINVAL);
    assert_int_equal(scene_create(&scene, "kitchen", &camera), -ENOENT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rays_meet_the_surface),
        cmocka_unit_test(test_wall_is_exact),
        cmocka_unit_test(test_noise_has_the_published_size),
        cmocka_unit_test(test_shadow_range_and_grazing),
        cmocka_unit_test(test_bits_are_those_of_every_machine),
        cmocka_unit_test(test_motions_are_a_hand_s),
        cmocka_unit_test(test_events),
        cmocka_unit_test(test_locations),
        cmocka_unit_test(test_driver_delivers_frames_and_poses),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
