// SPDX-License-Identifier: Apache-2.0
// The camera's own error among the unknowns of posed-align: images of the furnished room from known
// places, each depth put off by a field that this file makes up. The field is found, poses are
// better for it, and where there is none, or too few images, nothing is taken out.
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "capture/synth/motion.h"
#include "capture/synth/scene.h"
#include "proto/se3.h"
#include "tools/align/camera_error.h"

#define WIDTH  320u
#define HEIGHT 240u
#define N_PX   (WIDTH * HEIGHT)
#define N      48u
#define STEP_S 0.4   // of the camera swaying about
#define OFF_M  0.004 // start poses, and as much in rad

static const struct intrinsics camera = {262.5, 262.5, 159.5, 119.5, WIDTH, HEIGHT};
static const struct log_sink quiet = {NULL, NULL};
static struct se3 T_true[N], T_start[N];

// 4.5 mm at 1 m at the corners, of either sign.
static double field_per_m(double u_px, double v_px)
{
    double x = 2 * u_px / (WIDTH - 1) - 1, y = 2 * v_px / (HEIGHT - 1) - 1;
    return 4.5e-3 * (x * y + 0.5 * sin(3 * x) - 0.3 * cos(2.5 * y));
}

static void open_room(struct images *out, struct align_ranks *out_one, uint32_t n, double times)
{
    struct scene *scene;
    float *z_m = malloc(N_PX * sizeof *z_m);
    assert_non_null(z_m);
    assert_int_equal(scene_create(&scene, "room", &camera), 0);
    *out = (struct images){.n = n, .camera = camera, .units_per_m = SCENE_UNITS_PER_M};
    out->log = quiet;
    align_image_settings_default(&out->settings);
    out->names = calloc(n, sizeof *out->names);
    out->depth = calloc(n, sizeof *out->depth);
    out->T_world_image = calloc(n, sizeof *out->T_world_image);
    assert_true(out->names && out->depth && out->T_world_image);
    for (uint32_t i = 0; i < n; i++) {
        const double sign = i % 2 ? 1 : -1;
        const double twist[6] = {sign * OFF_M, 0, OFF_M, 0, sign * OFF_M, 0};
        const struct se3 off = se3_exp(twist);
        T_true[i] = motion_at(MOTION_SWAY, STEP_S * i);
        T_start[i] = i ? se3_compose(&T_true[i], &off) : T_true[i];
        scene_render_exact(scene, &T_true[i], z_m);
        out->depth[i] = malloc(N_PX * sizeof *out->depth[i]);
        assert_true(out->depth[i] && asprintf(&out->names[i], "image%u", i) > 0);
        for (uint32_t px = 0; px < N_PX; px++) {
            double w = 1 / (double)z_m[px] - times * field_per_m(px % WIDTH, px / WIDTH);
            out->depth[i][px] = (uint16_t)(w > 0.1 ? lround(SCENE_UNITS_PER_M / w) : 0);
        }
    }
    images_source_depth(out);
    align_ranks_one(out_one);
    scene_destroy(&scene);
    free(z_m);
}

static double correlation(const struct depth_error *field, double *out_gain)
{
    double sa = 0, sb = 0, saa = 0, sbb = 0, sab = 0, n = 0;
    for (uint32_t v = 0; v < HEIGHT; v += 4)
        for (uint32_t u = 0; u < WIDTH; u += 4, n++) {
            double a = depth_error_at(field, u, v), b = field_per_m(u, v);
            sa += a, sb += b, saa += a * a, sbb += b * b, sab += a * b;
        }
    *out_gain = (sab - sa * sb / n) / (sbb - sb * sb / n);
    return (sab - sa * sb / n) / sqrt((saa - sa * sa / n) * (sbb - sb * sb / n));
}

// Root mean square of where the images come to lie.
static double aligned_error_m(const struct images *images, const struct align_ranks *one)
{
    struct align_settings settings;
    struct align_result result;
    struct se3 poses[N];
    double sum2 = 0;
    align_settings_default(&settings);
    settings.backend = GPU_BACKEND_CPU;
    settings.gate_m = 0.1;
    settings.solve.iterations[0] = settings.solve.iterations[1] = 0;
    memcpy(poses, T_start, sizeof poses);
    assert_int_equal(align_run(&images->source, one, &settings, poses, NULL, NULL, &result), 0);
    align_result_free(&result);
    for (uint32_t i = 0; i < images->n; i++) {
        struct se3 e = se3_between(&T_true[i], &poses[i]);
        sum2 += e.t_m[0] * e.t_m[0] + e.t_m[1] * e.t_m[1] + e.t_m[2] * e.t_m[2];
    }
    return sqrt(sum2 / images->n);
}

// What the root says to the others, played to one of them afterwards.
static unsigned char said[1 << 16];
static size_t n_said;

static void say(void *data, size_t n_bytes, uint32_t from)
{
    (void)from;
    assert_true(n_said + n_bytes <= sizeof said);
    memcpy(said + n_said, data, n_bytes);
    n_said += n_bytes;
}

static void hear(void *data, size_t n_bytes, uint32_t from)
{
    (void)from;
    memcpy(data, said, n_bytes);
    n_said -= n_bytes;
    memmove(said, said + n_bytes, n_said);
}

// A rank that learns nothing itself takes the same out of its images.
static void check_other_rank(const struct images *of_root)
{
    const struct align_ranks other = {
        .id = 1, .n = 2, .local_id = 1, .n_local = 2, .broadcast = hear};
    struct images images = *of_root;
    struct camera_error *error = calloc(1, sizeof *error);
    images.field_per_m = NULL;
    images.depth = NULL; // nor does it look at them
    assert_int_equal(camera_error_learn(&images, T_start, &other, error), 0);
    assert_int_equal(n_said, 0);
    assert_true(error->is_taken);
    assert_memory_equal(images.field_per_m, of_root->field_per_m, N_PX * sizeof(float));
    free(images.field_per_m);
    free(error);
}

static void field_is_found(void **state)
{
    (void)state;
    struct images images;
    struct align_ranks one;
    struct camera_error *error = calloc(1, sizeof *error);
    double gain;
    open_room(&images, &one, N, 1);
    double before_m = aligned_error_m(&images, &one);
    one.broadcast = say;
    assert_int_equal(camera_error_learn(&images, T_start, &one, error), 0);
    assert_true(error->is_tried && error->is_learnt && error->is_taken);
    check_other_rank(&images);
    align_ranks_one(&one);
    double found = correlation(&error->field, &gain), after_m = aligned_error_m(&images, &one);
    print_message("correlation %.4f, gain %.3f, %.0f %% less residual in %u pairs aside; images "
                  "%.2f mm off, then %.2f\n",
                  found, gain, 100 * error->report.reduction, error->report.n_pairs_aside,
                  1e3 * before_m, 1e3 * after_m);
    assert_true(found > 0.97);
    assert_true(gain > 0.9 && gain < 1.1);
    assert_true(after_m < before_m / 3);
    for (uint32_t px = 0; px < N_PX; px += 997) // what load takes out is the field
        assert_true(fabs((double)images.field_per_m[px] -
                         depth_error_at(&error->field, px % WIDTH, px / WIDTH)) < 1e-7);
    images_free(&images);
    free(error);
}

static void nothing_is_taken_where_there_is_none(void **state)
{
    (void)state;
    struct images images;
    struct align_ranks one;
    struct camera_error *error = calloc(1, sizeof *error);
#ifndef POSED_SANITIZED // how well alone
    open_room(&images, &one, N, 0);
    assert_int_equal(camera_error_learn(&images, T_start, &one, error), 0);
    assert_true(error->is_tried && error->is_learnt && !error->is_taken);
    assert_null(images.field_per_m);
    images_free(&images);
#endif
    open_room(&images, &one, 12, 1); // too few
    assert_int_equal(camera_error_learn(&images, T_start, &one, error), 0);
    assert_true(error->is_tried && !error->is_learnt && !error->is_taken);
    assert_non_null(strstr(error->reason, "12 frames"));
    assert_null(images.field_per_m);
    images_free(&images);
    free(error);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(field_is_found),
        cmocka_unit_test(nothing_is_taken_where_there_is_none),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
