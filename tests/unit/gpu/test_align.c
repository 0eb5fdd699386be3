// SPDX-License-Identifier: Apache-2.0
// The alignment of many images as a whole: it comes back from disturbed poses, with wrong pairs,
// too; the choice and the partition of pairs; what bad input is answered with.
#include <errno.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "gpu/align/align.h"
#include "gpu/align/sparse.h"
#include "gpu/align/system.h"
#include "proto/se3.h"
#include "tools/align/images.h"
#include "tools/align/views.h"

#define N_VIEWS 14

static char last_line[1024];

static void keep_line(void *user, enum log_level level, const char *line)
{
    (void)user;
    if (level <= LOG_LEVEL_WARNING)
        snprintf(last_line, sizeof last_line, "%s", line);
}

static const struct log_sink log_sink = {keep_line, NULL};

#ifndef POSED_HAVE_CUDA
static void keep_any_line(void *user, enum log_level level, const char *line)
{
    (void)level;
    snprintf(user, 256, "%s", line);
}
#endif

static void make_views(struct views *views)
{
    struct views_settings settings = {N_VIEWS, 2500, 0.005, 0.1, 0.03, 7};
    struct cloud none = {0};
    assert_int_equal(views_create(views, &none, &settings, &log_sink), 0);
}

static struct align_source source_of(struct views *views)
{
    return (struct align_source){views->settings.n_views, (const char *const *)views->names,
                                 views_load, views};
}

static int run(struct views *views, const struct align_settings *settings, struct se3 *poses,
               struct align_result *out)
{
    struct align_ranks one;
    struct align_source source = source_of(views);
    align_ranks_one(&one);
    return align_run(&source, &one, settings, poses, NULL, NULL, out);
}

static struct align_settings plain(void)
{
    struct align_settings settings;
    align_settings_default(&settings);
    settings.backend = GPU_BACKEND_CPU;
    settings.log = log_sink;
    return settings;
}

static void test_comes_back(void **state)
{
    (void)state;
    struct views views;
    struct align_settings settings = plain();
    struct align_result result;
    struct se3 poses[N_VIEWS], again[N_VIEWS];
    make_views(&views);
    memcpy(poses, views.T_world_start, sizeof poses);
    assert_int_equal(run(&views, &settings, poses, &result), 0);
    struct pose_errors e = views_errors(result.sketches, N_VIEWS, poses, views.T_world_truth);
    assert_true(e.mean_m < 0.004); // cells of 0.2 m
    assert_true(result.solution.converged);
    assert_memory_equal(&poses[0], &views.T_world_start[0], sizeof poses[0]); // kept its pose
    for (uint32_t i = 1; i < N_VIEWS; i++)
        for (int k = 0; k < 6; k++)
            assert_true(result.solution.covariance[36 * i + 7 * (uint32_t)k] > 0);
    align_result_free(&result);
    // One thread: the same bits.
    settings.n_threads = 1;
    memcpy(again, views.T_world_start, sizeof again);
    assert_int_equal(run(&views, &settings, again, &result), 0);
    assert_memory_equal(poses, again, sizeof poses);
    // Wrong pairs: opposite views.
    struct align_pair wrong[] = {{0, 7, 0, 0}, {3, 10, 0, 0}, {2, 8, 0, 0}};
    settings.extra = wrong;
    settings.n_extra = 3;
    align_result_free(&result);
    memcpy(again, views.T_world_start, sizeof again);
    assert_int_equal(run(&views, &settings, again, &result), 0);
    e = views_errors(result.sketches, N_VIEWS, again, views.T_world_truth);
    assert_true(e.mean_m < 0.006);
    align_result_free(&result);
    views_free(&views);
}

static void test_no_overlap(void **state)
{
    (void)state;
    struct views views;
    struct align_settings settings = plain();
    struct align_result result;
    struct se3 poses[N_VIEWS];
    make_views(&views);
    for (uint32_t i = 0; i < N_VIEWS; i++) {
        poses[i] = views.T_world_truth[i];
        poses[i].t_m[0] += 1000.0 * i;
    }
    assert_int_equal(run(&views, &settings, poses, &result), -EINVAL);
    assert_non_null(strstr(last_line, "overlap"));
    // One image far away: it is named and stays, the others are aligned.
    memcpy(poses, views.T_world_start, sizeof poses);
    poses[5].t_m[0] += 1000;
    struct se3 away = poses[5];
    assert_int_equal(run(&views, &settings, poses, &result), 0);
    assert_memory_equal(&away, &poses[5], sizeof away);
    assert_true(result.fixed[5]);
    assert_int_equal(result.n_parts, 2);
    align_result_free(&result);
    views_free(&views);
}

// A ring of n images with steps of one and two.
static uint32_t ring(struct align_pair *pairs, uint32_t *weight, uint32_t n)
{
    uint32_t n_pairs = 0;
    for (uint32_t i = 0; i < n; i++) {
        weight[i] = 60000 + 1000 * (i * 37 % 53);
        for (uint32_t step = 1; step <= 2; step++) {
            uint32_t j = (i + step) % n;
            pairs[n_pairs++] = (struct align_pair){i < j ? i : j, i < j ? j : i, 1, 1};
        }
    }
    return n_pairs;
}

static void test_partition(void **state)
{
    (void)state;
    struct align_pair pairs[100];
    uint32_t weight[50], part[100], again[100];
    uint32_t n_pairs = ring(pairs, weight, 50);
    struct partition_settings settings;
    struct partition_result result, measured;
    partition_settings_default(&settings);
    settings.n_parts = 16;
    assert_int_equal(partition_pairs(pairs, n_pairs, weight, 50, &settings, part, &result), 0);
    assert_true(result.imbalance <= 0.03);
    assert_true((double)result.largest_weight <= 0.18 * (double)result.all_weight);
    assert_int_equal(partition_pairs(pairs, n_pairs, weight, 50, &settings, again, &result), 0);
    assert_memory_equal(part, again, sizeof part);
    assert_int_equal(partition_measure(pairs, n_pairs, weight, 50, 16, part, &measured), 0);
    assert_true(measured.largest_weight == result.largest_weight);
    settings.n_parts = 200; // more ranks than pairs
    assert_int_equal(partition_pairs(pairs, n_pairs, weight, 50, &settings, part, &result), 0);
    assert_true(result.n_idle >= 100);
    settings.n_parts = 1;
    assert_int_equal(partition_pairs(pairs, n_pairs, weight, 50, &settings, part, &result), 0);
    assert_int_equal(result.n_idle, 0);
}

// Random positive definite systems against plain multiplication: a ring, a graph without order
// whose elimination fills in, images without a pair, and one image alone.
static void check_sparse(uint32_t n, uint32_t n_pairs, bool is_ring)
{
    struct align_pair *pairs = calloc(n_pairs + 1, sizeof *pairs);
    double *diagonal = calloc(36 * (size_t)n, sizeof *diagonal);
    double *beside = calloc(36 * ((size_t)n_pairs + 1), sizeof *beside);
    double *x = calloc(6 * (size_t)n, sizeof *x), *b = calloc(6 * (size_t)n, sizeof *b);
    struct sparse *sparse;
    assert_true(pairs && diagonal && beside && x && b);
    for (uint32_t k = 0; k < n_pairs; k++) {
        uint32_t i = is_ring ? k : (uint32_t)rand() % (n - 1), span = n - 1 - i;
        pairs[k].i = is_ring && k == n - 1 ? 0 : i;
        pairs[k].j = is_ring ? (k == n - 1 ? k : k + 1) : i + 1 + (uint32_t)rand() % span;
        for (uint32_t m = 0; m < 36; m++)
            beside[36 * k + m] = rand() / (double)RAND_MAX - 0.5;
    }
    for (uint32_t i = 0; i < n; i++)
        for (uint32_t k = 0; k < 6; k++) {
            diagonal[36 * i + 7 * k] = 90;
            for (uint32_t m = 0; m < k; m++)
                diagonal[36 * i + 6 * k + m] = diagonal[36 * i + 6 * m + k] =
                    rand() / (double)RAND_MAX - 0.5;
            x[6 * i + k] = rand() / (double)RAND_MAX;
        }
    for (uint32_t i = 0; i < 6 * n; i++)
        for (uint32_t k = 0; k < 6; k++)
            b[i] += diagonal[6 * i + k] * x[i / 6 * 6 + k];
    for (uint32_t k = 0; k < n_pairs; k++)
        for (uint32_t r = 0; r < 6; r++)
            for (uint32_t c = 0; c < 6; c++) {
                b[6 * pairs[k].i + r] += beside[36 * k + 6 * r + c] * x[6 * pairs[k].j + c];
                b[6 * pairs[k].j + c] += beside[36 * k + 6 * r + c] * x[6 * pairs[k].i + r];
            }
    assert_int_equal(sparse_create(&sparse, n, pairs, n_pairs), 0);
    assert_int_equal(sparse_factor(sparse, diagonal, beside), 0);
    sparse_solve(sparse, b, 1);
    for (uint32_t i = 0; i < 6 * n; i++)
        assert_true(b[i] - x[i] < 1e-12 && x[i] - b[i] < 1e-12);
    diagonal[36 * (n / 2) + 7] = -1;
    assert_int_equal(sparse_factor(sparse, diagonal, beside), -EDOM);
    diagonal[36 * (n / 2) + 7] = NAN;
    assert_int_equal(sparse_factor(sparse, diagonal, beside), -EDOM);
    sparse_destroy(&sparse);
    free(pairs);
    free(diagonal);
    free(beside);
    free(x);
    free(b);
}

static void test_sparse(void **state)
{
    (void)state;
    srand(3);
    check_sparse(9, 9, true);
    check_sparse(150, 400, false); // some twice: their blocks add up
    check_sparse(70, 20, false);
    check_sparse(1, 0, false);
}

static void write_file(const char *path, const char *text)
{
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fputs(text, file);
    fclose(file);
}

static void expect_conf(const char *folder, const char *text, const char *reason)
{
    char path[256];
    struct images images;
    snprintf(path, sizeof path, "%s/a.conf", folder);
    write_file(path, text);
    assert_int_equal(images_open_conf(&images, path, &log_sink), -EINVAL);
    if (!strstr(last_line, reason))
        fail_msg("'%s' does not say '%s'", last_line, reason);
    unlink(path);
}

static void test_bad_files(void **state)
{
    (void)state;
    char folder[] = "/tmp/posed-align-XXXXXX", path[256];
    struct images images;
    struct align_image *image;
    assert_non_null(mkdtemp(folder));
    expect_conf(folder, "bmesh a.ply 0 0 0 0 0 0 1\nbmesh a.ply 0 0 0 0 0 0 1\n", "named a.ply");
    expect_conf(folder, "bmesh a.ply\n", "a.conf:1: no pose");
    expect_conf(folder, "camera 0 0 0\n\nbmesh a.ply 0 0 0 0 0 0 2\n", "a.conf:3:");
    expect_conf(folder, "mesh a.ply 0 0 0 0 0 0 1\n", "a.conf:1:");
    expect_conf(folder, "", "no image");
    snprintf(path, sizeof path, "%s/a.ply", folder);
    write_file(path, "ply\nformat ascii 1.0\nelement vertex 1\nproperty float x\n"
                     "property float y\nproperty float z\nend_header\n0 0 1\n");
    snprintf(path, sizeof path, "%s/b.conf", folder);
    write_file(path, "bmesh a.ply 0 0 0 0 0 0 1\n");
    assert_int_equal(images_open_conf(&images, path, &log_sink), 0);
    assert_int_equal(images.source.load(images.source.user, 0, &image), -EINVAL);
    assert_non_null(strstr(last_line, "no range_grid"));
    unlink(images.paths[0]);
    images_free(&images);
    unlink(path);
    rmdir(folder);
}

// Defaults, as the headers have them.
static void test_defaults(void **state)
{
    (void)state;
    struct align_pair_settings pairs;
    struct align_iterate_settings solve;
    struct align_image_settings image;
    struct partition_settings partition;
    align_pair_settings_default(&pairs);
    align_iterate_settings_default(&solve);
    align_image_settings_default(&image);
    partition_settings_default(&partition);
    assert_true(pairs.gate_m == 0.05 && pairs.min_overlap == 0.04 && pairs.relative == 0.8);
    assert_true(fabs(pairs.max_view_rad - 1.5707963267948966) < 1e-12);
    assert_int_equal(pairs.max_an_image, 12);
    assert_true(solve.iterations[0] == 30 && solve.iterations[1] == 20);
    assert_true(solve.iterations[2] == 30 && solve.early_stop);
    assert_true(solve.gate_m == 0.05 && solve.stop_spacings == 2e-3 && solve.refuse_scales == 4);
    assert_true(fabs(solve.max_angle_rad - 0.7853981633974483) < 1e-12);
    assert_int_equal(image.normal_radius_px, 2);
    assert_true(fabs(image.max_slope_rad - 78 * 0.017453292519943295) < 1e-12 && image.jump == 4);
    assert_true(image.noise.a_m == 0);
    assert_true(partition.max_imbalance == 0.03 && partition.n_starts == 16);
    assert_int_equal(partition.n_moves, 2000);
}

#define GRID 24

// A plate of w x h cells of parallel rays, the middle one empty or not. The corners have no plane.
static int make_plate(uint32_t w, uint32_t h, bool hole, struct align_image **out)
{
    static float m[3][GRID * GRID];
    static uint32_t index[GRID * GRID];
    struct align_image_settings settings;
    for (uint32_t i = 0; i < w * h; i++) {
        const uint32_t row = i / w;
        const double u = i % w, v = row;
        m[0][i] = (float)(0.01 * u);
        m[1][i] = (float)(0.01 * v);
        m[2][i] = (float)(0.02 * sin(0.3 * u) + 0.02 * cos(0.25 * v));
        index[i] = hole && i == h / 2 * w + w / 2 ? ALIGN_GRID_EMPTY : i;
    }
    const struct align_grid grid = {m[0], m[1], m[2], (size_t)w * h, index, w, h};
    align_image_settings_default(&settings);
    settings.jump = 100;
    return align_image_create(out, &grid, &settings, "plate", &log_sink);
}

static void test_least_vertices(void **state)
{
    (void)state;
    struct align_image *image;
    assert_int_equal(make_plate(8, 13, false, &image), 0);
    assert_int_equal(image->n_level[0], 100);
    align_image_destroy(&image);
    assert_int_equal(make_plate(8, 13, true, &image), -EINVAL);
    assert_non_null(strstr(last_line, "99 vertices"));
    assert_null(image);
}

// The one rule of which twin runs (gpu_open_twin), and its reason in the log.
static void test_device(void **state)
{
    (void)state;
#ifndef POSED_HAVE_CUDA
    static char line[256];
    const struct log_sink keep = {keep_any_line, line};
    const struct align_device_settings settings = {1, 1, 1, -1, keep};
    struct align_device *device;
    assert_int_equal(align_device_open(&device, GPU_BACKEND_CUDA, &settings), -ENOTSUP);
    assert_null(device);
    assert_non_null(strstr(line, "alignment: CUDA was asked for: built without CUDA"));
    assert_int_equal(align_device_open(&device, GPU_BACKEND_AUTO, &settings), 0);
    assert_non_null(strstr(line, "alignment: on the CPU: built without CUDA"));
    assert_string_equal(align_device_name(device), "cpu");
    align_device_close(&device);
    assert_null(device);
#endif
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_comes_back), cmocka_unit_test(test_no_overlap),
        cmocka_unit_test(test_partition),  cmocka_unit_test(test_sparse),
        cmocka_unit_test(test_bad_files),  cmocka_unit_test(test_device),
        cmocka_unit_test(test_defaults),   cmocka_unit_test(test_least_vertices),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
