// SPDX-License-Identifier: Apache-2.0
// The registration as its callers see it: what it refuses, naming the field; that it finds a pose,
// from a start and from everywhere; that it can be stopped; the solve it rests on; the k-d tree.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "capture/cloud/cloud.h"
#include "gpu/register/cpu/kdtree.h"
#include "gpu/register/kernels/solve.h"
#include "gpu/register/register.h"
#include "proto/se3.h"

#define N 700

static struct registration *registration;
static float memory[2][6][N];
static struct point_set sets[2];
static struct se3 truth;
static char last_line[1024];

static void remember(void *user, enum log_level level, const char *line)
{
    (void)user;
    (void)level;
    snprintf(last_line, sizeof last_line, "%s", line);
}

static double uniform(void)
{
    static uint64_t state = 7;
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (double)(state >> 11) * 0x1p-53;
}

// Without the last term a half turn about x takes the surface onto itself.
static double lopsided = 0.15;

static void surface_at(double z, double phi, double out[3])
{
    double s = sqrt(1 - z * z), n[3] = {s * cos(phi), s * sin(phi), z};
    double r = 0.05 * (1 + 0.25 * sin(3 * n[0] + 1) + 0.2 * cos(4 * n[1] + 2 * n[2]) +
                       lopsided * sin(5 * n[2] - 2 * n[0]));
    out[0] = r * n[0] + 0.3;
    out[1] = 0.8 * r * n[1];
    out[2] = 1.2 * r * n[2] - 0.2;
}

// Unit normal by differences of the parameters.
static void normal_at(double z, double phi, double out[3])
{
    double a[3], b[3], p[3], length = 0;
    surface_at(z, phi, p);
    surface_at(z + (z > 0 ? -1e-5 : 1e-5), phi, a);
    surface_at(z, phi + (z > 0 ? 1e-5 : -1e-5), b);
    for (int i = 0; i < 3; i++) {
        int j = (i + 1) % 3, k = (i + 2) % 3;
        out[i] = (a[j] - p[j]) * (b[k] - p[k]) - (a[k] - p[k]) * (b[j] - p[j]);
        length += out[i] * out[i];
    }
    for (int i = 0; i < 3; i++)
        out[i] /= sqrt(length);
}

// A bumpy closed surface of 0.1 m far from the origin, and another sample of it moved by `truth`.
static void make_sets(const double twist[6])
{
    truth = se3_exp(twist);
    for (int side = 0; side < 2; side++) {
        for (size_t i = 0; i < N; i++) {
            double z = 1.998 * uniform() - 0.999, phi = 2 * M_PI * uniform(), p[3], n[3], q[3];
            surface_at(z, phi, p);
            normal_at(z, phi, n);
            se3_apply(&truth, p, q);
            for (int a = 0; a < 3; a++) {
                memory[side][a][i] = (float)(side ? q[a] : p[a]);
                memory[side][3 + a][i] = (float)n[a];
            }
        }
        sets[side] = (struct point_set){
            memory[side][0], memory[side][1], memory[side][2], NULL, NULL, NULL, N};
    }
}

static int set_up(void **state)
{
    (void)state;
    struct register_config config;
    register_config_default(&config);
    config.backend = GPU_BACKEND_CPU;
    config.n_threads = 2;
    config.log.write = remember;
    return registration_open(&registration, &config);
}

static int tear_down(void **state)
{
    (void)state;
    registration_close(&registration);
    return 0;
}

static double error_deg(const struct se3 *T)
{
    struct se3 d = se3_between(T, &truth);
    return se3_angle(&d) * 180 / M_PI;
}

static void expect_field(const char *expected, const struct register_settings *settings)
{
    const char *field = NULL;
    struct register_result result;
    last_line[0] = 0;
    assert_int_equal(
        registration_run(registration, &sets[0], &sets[1], settings, NULL, &result, &field),
        -EINVAL);
    assert_string_equal(field, expected);
    assert_non_null(strstr(last_line, expected));
}

static void refuses_bad_points(void **state)
{
    (void)state;
    const double twist[6] = {0};
    struct register_settings settings;
    register_settings_default(&settings);
    make_sets(twist);
    sets[0].n_points = 2;
    expect_field("source", &settings);
    sets[0].n_points = N;
    memory[1][2][N - 1] = NAN;
    expect_field("target", &settings);
    memory[1][2][N - 1] = INFINITY;
    expect_field("target", &settings);
    make_sets(twist);
    for (size_t i = 0; i < N; i++)
        for (int a = 0; a < 3; a++)
            memory[0][a][i] = 0.25f;
    expect_field("source", &settings);
    for (size_t i = 0; i < N; i++)
        for (int a = 0; a < 3; a++)
            memory[0][a][i] = 5 + (float)i * (0.5f + (float)a);
    expect_field("source", &settings);
    assert_non_null(strstr(last_line, "on a line"));
    make_sets(twist); // 0.1 m large: at 20 m floats keep it, at 200 km they are 16 mm apart
    for (size_t i = 0; i < N; i++)
        memory[1][1][i] += 20;
    struct register_result result;
    assert_int_equal(
        registration_run(registration, &sets[0], &sets[1], &settings, NULL, &result, NULL), 0);
    for (size_t i = 0; i < N; i++)
        memory[1][1][i] -= 200020;
    expect_field("target", &settings);
    assert_non_null(strstr(last_line, "far from the origin"));
    make_sets(twist);
    sets[1].n_points = REGISTER_MAX_POINTS + 1;
    expect_field("target", &settings);
}

static void refuses_bad_settings(void **state)
{
    (void)state;
    const double twist[6] = {0};
    struct register_settings good, bad;
    register_settings_default(&good);
    make_sets(twist);
    bad = good;
    bad.method = (enum register_method)7;
    expect_field("method", &bad);
    bad = good;
    bad.slack = -0.1;
    expect_field("slack", &bad);
    bad = good;
    bad.slack = NAN;
    expect_field("slack", &bad);
    bad = good;
    bad.sigma_last = -1;
    expect_field("sigma_last", &bad);
    bad = good;
    bad.n_points = 3;
    expect_field("n_points", &bad);
    bad = good;
    bad.n_iterations = 1u << 30;
    expect_field("n_iterations", &bad);
    bad = good;
    bad.n_starts = 1u << 30;
    expect_field("n_starts", &bad);
    bad = good;
    bad.T_target_source.r[0] = 3;
    expect_field("initial", &bad);
    bad = good;
    bad.T_target_source.t_m[2] = NAN;
    expect_field("initial", &bad);
    bad = good;
    bad.preset = REGISTER_PRESET_TAMAKI;
    bad.method = REGISTER_METHOD_ICP;
    expect_field("preset", &bad);
}

static void finds_the_pose_with_every_method(void **state)
{
    (void)state;
    const double twist[6] = {0.02, -0.01, 0.03, 0.25, -0.2, 0.15};
    make_sets(twist);
    for (int method = 0; method < 3; method++)
        for (int form = 0; form < (method == REGISTER_METHOD_ICP ? 1 : 2); form++) {
            struct register_settings settings;
            struct register_result result;
            register_settings_default(&settings);
            settings.method = (enum register_method)method;
            settings.form = (enum register_form)form;
            assert_int_equal(
                registration_run(registration, &sets[0], &sets[1], &settings, NULL, &result, NULL),
                0);
            // Two samples of 700 points: a spacing of 5 mm on 100 mm.
            if (!(error_deg(&result.T_target_source) < (method == REGISTER_METHOD_ICP ? 6 : 1.5)))
                fail_msg("%s: %f deg", register_method_name(settings.method),
                         error_deg(&result.T_target_source));
            assert_true(result.converged);
            assert_true(result.overlap_source > 0.7 && result.overlap_source <= 1);
            assert_true(result.overlap_target > 0.7 && result.overlap_target <= 1);
            assert_true(result.residual_rms_m > 0 && result.residual_rms_m < 0.01);
            for (int i = 0; i < 6; i++)
                assert_true(result.covariance[7 * i] > 0 && result.covariance[7 * i] < 1e-2);
        }
}

// One iteration cannot know that nothing is left.
static void one_step_is_not_converged(void **state)
{
    (void)state;
    const double twist[6] = {0.02, -0.01, 0.03, 0.25, -0.2, 0.15};
    make_sets(twist);
    struct register_settings settings;
    struct register_result result;
    register_settings_default(&settings);
    settings.method = REGISTER_METHOD_ICP;
    settings.n_iterations = 1;
    assert_int_equal(
        registration_run(registration, &sets[0], &sets[1], &settings, NULL, &result, NULL), 0);
    assert_int_equal(result.n_iterations, 1);
    assert_false(result.converged);
}

static void finds_a_half_turn_from_everywhere(void **state)
{
    (void)state;
    const double twist[6] = {0.3, 0.1, -0.5, 0.3, 2.9, -0.4};
    make_sets(twist);
    sets[1].n_points = N * 3 / 4;
    struct register_settings settings;
    struct register_result result;
    register_settings_default(&settings);
    settings.start = REGISTER_START_MANY;
    assert_int_equal(
        registration_run(registration, &sets[0], &sets[1], &settings, NULL, &result, NULL), 0);
    if (!(error_deg(&result.T_target_source) < 2))
        fail_msg("%f deg", error_deg(&result.T_target_source));
    assert_true(result.converged);
    assert_false(result.ambiguous);
    assert_true(result.ambiguity > 0 && result.ambiguity < REGISTER_AMBIGUOUS);
}

// From one start a pose turned by half ends in a wrong basin; the right one is the rival then.
static void one_start_in_a_wrong_basin_is_ambiguous(void **state)
{
    (void)state;
    const double twist[6] = {0.3, 0.1, -0.5, 0.3, 2.9, -0.4};
    make_sets(twist);
    struct register_settings settings;
    struct register_result result;
    register_settings_default(&settings);
    int n_wrong = 0;
    for (int method = REGISTER_METHOD_EMICP; method <= REGISTER_METHOD_ICP; method++) {
        settings.method = (enum register_method)method;
        assert_int_equal(
            registration_run(registration, &sets[0], &sets[1], &settings, NULL, &result, NULL), 0);
        bool wrong = error_deg(&result.T_target_source) > 20;
        print_message("%s: %.1f deg, ambiguity %.2f\n", register_method_name(settings.method),
                      error_deg(&result.T_target_source), result.ambiguity);
        assert_true(result.ambiguous == wrong);
        assert_true(!wrong || (result.has_second && error_deg(&result.T_second) < 2));
        n_wrong += wrong;
    }
    assert_true(n_wrong > 0);
}

// Two different surfaces: there is no right pose, and the result must say so.
static void unlike_sets_are_ambiguous(void **state)
{
    (void)state;
    const double twist[6] = {0};
    make_sets(twist);
    for (size_t i = 0; i < N; i++) { // a flat plate
        memory[1][0][i] = (float)(0.4 * uniform());
        memory[1][1][i] = (float)(0.1 * uniform());
        memory[1][2][i] = 0;
    }
    struct register_settings settings;
    struct register_result result;
    register_settings_default(&settings);
    settings.start = REGISTER_START_MANY;
    assert_int_equal(
        registration_run(registration, &sets[0], &sets[1], &settings, NULL, &result, NULL), 0);
    assert_true(result.ambiguous);
}

static void a_symmetric_object_is_ambiguous(void **state)
{
    (void)state;
    const double twist[6] = {0.02, -0.01, 0.03, 0.25, -0.2, 0.15};
    struct register_settings settings;
    struct register_result result;
    lopsided = 0;
    make_sets(twist);
    lopsided = 0.15;
    register_settings_default(&settings);
    settings.start = REGISTER_START_MANY;
    assert_int_equal(
        registration_run(registration, &sets[0], &sets[1], &settings, NULL, &result, NULL), 0);
    assert_true(result.has_second);
    assert_true(result.ambiguous);
    struct se3 between = se3_between(&result.T_target_source, &result.T_second);
    assert_float_equal(se3_angle(&between), M_PI, 0.1);
}

static void normals_and_a_start_are_used(void **state)
{
    (void)state;
    const double twist[6] = {0.02, 0, 0, 0.1, 0.1, 0};
    make_sets(twist);
    for (size_t i = 0; i < N; i++) {
        const double n[3] = {memory[1][3][i], memory[1][4][i], memory[1][5][i]};
        for (int a = 0; a < 3; a++)
            memory[1][3 + a][i] = (float)(truth.r[3 * a] * n[0] + truth.r[3 * a + 1] * n[1] +
                                          truth.r[3 * a + 2] * n[2]);
    }
    sets[1].nx = memory[1][3];
    sets[1].ny = memory[1][4];
    sets[1].nz = memory[1][5];
    struct register_settings settings;
    struct register_result result;
    register_settings_default(&settings);
    const double offset[6] = {0.004, 0, -0.003, 0.03, -0.02, 0.02};
    struct se3 off = se3_exp(offset);
    settings.T_target_source = se3_compose(&truth, &off);
    assert_int_equal(
        registration_run(registration, &sets[0], &sets[1], &settings, NULL, &result, NULL), 0);
    if (!(error_deg(&result.T_target_source) < 1))
        fail_msg("%f deg", error_deg(&result.T_target_source));
}

// The unit of length must not matter: the same sets in millimetres.
static void has_no_unit(void **state)
{
    (void)state;
    const double twist[6] = {0.02, -0.01, 0.03, 0.25, -0.2, 0.15};
    struct register_settings settings;
    struct register_result metres, millimetres;
    register_settings_default(&settings);
    make_sets(twist);
    assert_int_equal(
        registration_run(registration, &sets[0], &sets[1], &settings, NULL, &metres, NULL), 0);
    for (int side = 0; side < 2; side++)
        for (int a = 0; a < 3; a++)
            for (size_t i = 0; i < N; i++)
                memory[side][a][i] *= 1024; // a power of two: the same digits
    assert_int_equal(
        registration_run(registration, &sets[0], &sets[1], &settings, NULL, &millimetres, NULL), 0);
    for (int i = 0; i < 9; i++)
        assert_float_equal(metres.T_target_source.r[i], millimetres.T_target_source.r[i], 1e-6);
    assert_float_equal(metres.residual_rms_m * 1024, millimetres.residual_rms_m, 1e-5);
}

static void count_stages(void *user, double share, const char *stage)
{
    (void)stage;
    assert_true(share >= 0 && share <= 1);
    ++*(int *)user;
}

static void can_be_stopped(void **state)
{
    (void)state;
    const double twist[6] = {0};
    int n_stages = 0;
    struct register_settings settings;
    struct register_result result;
    struct register_stop stop = {.requested = 1};
    register_settings_default(&settings);
    make_sets(twist);
    assert_int_equal(
        registration_run(registration, &sets[0], &sets[1], &settings, &stop, &result, NULL),
        -ECANCELED);
    stop = (struct register_stop){.deadline_mono_ns = 1};
    assert_int_equal(
        registration_run(registration, &sets[0], &sets[1], &settings, &stop, &result, NULL),
        -ETIME);
    stop = (struct register_stop){.progress = count_stages, .user = &n_stages};
    assert_int_equal(
        registration_run(registration, &sets[0], &sets[1], &settings, &stop, &result, NULL), 0);
    assert_true(n_stages >= 2);
}

// Horn's rotation maximises sum w x . R y: no rotation near it or far from it does better.
static void horn_is_the_maximum(void **state)
{
    (void)state;
    for (int trial = 0; trial < 500; trial++) {
        double s[9], q[4] = {0, 0, 0, 1};
        const double zero[3] = {0, 0, 0};
        for (int i = 0; i < 9; i++)
            s[i] = uniform() - 0.5;
        assert_true(register_horn(s, q));
        struct se3 R = se3_from_quaternion(q, zero);
        for (int k = 0; k < 30; k++) {
            double size = k < 15 ? 1e-3 : 3, gain = 0;
            const double twist[6] = {0,
                                     0,
                                     0,
                                     size * (uniform() - 0.5),
                                     size * (uniform() - 0.5),
                                     size * (uniform() - 0.5)};
            struct se3 turn = se3_exp(twist), other = se3_compose(&turn, &R);
            for (int a = 0; a < 3; a++)
                for (int b = 0; b < 3; b++)
                    gain += (other.r[3 * b + a] - R.r[3 * b + a]) * s[3 * a + b];
            assert_true(gain < 1e-12);
        }
    }
    const double line[9] = {1, 2, 3, 2, 4, 6, 3, 6, 9}, none[9] = {0};
    double q[4];
    assert_false(register_horn(line, q));
    assert_false(register_horn(none, q));
}

static void sum_index(void *context, const float x[3], size_t index, float d2)
{
    (void)x;
    (void)d2;
    *(size_t *)context += index + 1;
}

static void kdtree_finds_what_a_plain_search_finds(void **state)
{
    (void)state;
    const double twist[6] = {0};
    make_sets(twist);
    for (size_t n = 1; n <= N; n = n * 3 + 1) {
        sets[1].n_points = n;
        struct kdtree *tree;
        assert_int_equal(kdtree_create(&tree, &sets[1], sets[1].n_points, NULL, NULL), 0);
        for (size_t i = 0; i < N; i += 7) {
            const float p[3] = {memory[0][0][i], memory[0][1][i], memory[0][2][i]};
            float best = INFINITY, got, radius2 = 4e-4f;
            size_t within = 0, found = 0;
            for (size_t j = 0; j < n; j++) {
                float x = memory[1][0][j] - p[0], y = memory[1][1][j] - p[1],
                      z = memory[1][2][j] - p[2], d2 = x * x + y * y + z * z;
                best = d2 < best ? d2 : best;
                within += d2 <= radius2 ? j + 1 : 0;
            }
            assert_true(kdtree_nearest(tree, p, INFINITY, &got) < n);
            assert_float_equal(got, best, 0);
            kdtree_within(tree, p, radius2, sum_index, &found);
            assert_int_equal(found, within);
        }
        kdtree_destroy(&tree);
    }
}

// Recorded pairs, 91.8 degrees apart: outside the reach of plain ICP.
static void recovers_the_recorded_pairs(void **state)
{
    (void)state;
    const char *data = getenv("POSED_DATA");
    if (!data) {
        printf("SKIP: POSED_DATA is not set (point_pairs)\n");
        return;
    }
    const double expected[12] = {0.078626717, -0.593931646, 0.800664124,  0.957784866,
                                 0.267786516, 0.104587435,  -0.276524844, 0.758640614,
                                 0.589913917, 0.012811937,  0.027846874,  0.066828816};
    const int counts[2] = {101, 504};
    for (int k = 0; k < 2; k++) {
        char path[1024];
        struct cloud clouds[2];
        struct log_sink log = {remember, NULL};
        for (int i = 0; i < 2; i++) {
            snprintf(path, sizeof path, "%s/point_pairs/%c%d.txt", data, "PQ"[i], counts[k]);
            assert_int_equal(cloud_read(path, &log, &clouds[i]), 0);
        }
        struct register_settings settings;
        struct register_result result;
        struct point_set p = cloud_points(&clouds[0]), q = cloud_points(&clouds[1]);
        register_settings_default(&settings);
        settings.start = REGISTER_START_MANY;
        assert_int_equal(registration_run(registration, &p, &q, &settings, NULL, &result, NULL), 0);
        for (int i = 0; i < 9; i++)
            assert_float_equal(result.T_target_source.r[i], expected[i], 1e-4);
        for (int i = 0; i < 3; i++)
            assert_float_equal(result.T_target_source.t_m[i], expected[9 + i], 1e-4);
        cloud_free(&clouds[0]);
        cloud_free(&clouds[1]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(refuses_bad_points),
        cmocka_unit_test(refuses_bad_settings),
        cmocka_unit_test(finds_the_pose_with_every_method),
        cmocka_unit_test(one_step_is_not_converged),
        cmocka_unit_test(finds_a_half_turn_from_everywhere),
        cmocka_unit_test(one_start_in_a_wrong_basin_is_ambiguous),
        cmocka_unit_test(unlike_sets_are_ambiguous),
        cmocka_unit_test(a_symmetric_object_is_ambiguous),
        cmocka_unit_test(normals_and_a_start_are_used),
        cmocka_unit_test(has_no_unit),
        cmocka_unit_test(can_be_stopped),
        cmocka_unit_test(horn_is_the_maximum),
        cmocka_unit_test(kdtree_finds_what_a_plain_search_finds),
        cmocka_unit_test(recovers_the_recorded_pairs),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
