// SPDX-License-Identifier: Apache-2.0
// Frames of a third of the pixels: what is filled in lies on the surface that the measured pixels
// are of, on neither side of an edge, nowhere beyond what was measured; measured pixels and dense
// frames stay what they are.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "gpu/track/sparse_depth.h"
#include "gpu/track/track.h"
#include "proto/clock.h"

#define W     640
#define H     480
#define UNITS 5000.0

static struct gpu *gpu;
static struct sparse_depth *gaps;
static uint16_t full[W * H], thin[W * H];

static int open_gpu(void **state)
{
    struct gpu_settings settings;
    (void)state;
    gpu_settings_default(&settings);
    settings.camera = (struct intrinsics){525, 525, 319.5, 239.5, W, H};
    settings.units_per_m = UNITS;
    settings.n_threads = 1;
    return gpu_open(&gpu, GPU_BACKEND_CPU, &settings) || sparse_depth_create(&gaps, gpu);
}

static int close_gpu(void **state)
{
    (void)state;
    sparse_depth_destroy(&gaps);
    gpu_close(&gpu);
    return 0;
}

// A slanted plane, from column `edge` on another one behind it.
static double depth_units(int u, int v, int edge)
{
    const double w = 1.6 + 4e-4 * u - 6e-4 * v;
    return UNITS / (u < edge ? w : 0.7 * w);
}

static void draw(int edge)
{
    for (int v = 0; v < H; v++)
        for (int u = 0; u < W; u++)
            full[v * W + u] = (uint16_t)(depth_units(u, v, edge) + 0.5);
}

// Leaves a share of the pixels, and nothing in a border.
static void thin_out(double share, int border)
{
    uint64_t random = 7;
    for (int i = 0; i < W * H; i++) {
        random = random * 6364136223846793005u + 1442695040888963407u;
        const int u = i % W, v = i / W;
        const bool inside = u >= border && u < W - border && v >= border && v < H - border;
        thin[i] = inside && (double)(random >> 40) < share * (1 << 24) ? full[i] : 0;
    }
}

static void what_is_between_lies_on_the_plane(void **state)
{
    (void)state;
    draw(W);
    thin_out(0.34, 20);
    const double start_ms = clock_monotonic_ms();
    const uint16_t *filled = sparse_depth_fill(gaps, thin);
    const double ms = clock_monotonic_ms() - start_ms;
    int n_before = 0, n_after = 0, n_inside = (W - 40) * (H - 40), n_wrong = 0;
    assert_ptr_not_equal(filled, thin);
    for (int i = 0; i < W * H; i++) {
        const int u = i % W, v = i / W;
        n_before += thin[i] > 0;
        n_after += filled[i] > 0;
        if (thin[i])
            assert_int_equal(filled[i], thin[i]);
        // Rounded twice: what was measured, and what is between.
        if (filled[i] && !(fabs(filled[i] - depth_units(u, v, W)) <= 1.5))
            n_wrong++;
        if (u < 20 || u >= W - 20 || v < 20 || v >= H - 20)
            assert_int_equal(filled[i], 0);
    }
    double looked_ms = clock_monotonic_ms();
    for (int i = 0; i < 1000; i++)
        assert_true(sparse_depth_is_sparse(gaps, thin));
    looked_ms = clock_monotonic_ms() - looked_ms;
    print_message("%.1f %% measured, %.1f %% with what is between, %.2f ms; to tell %.1f us\n",
                  100.0 * n_before / n_inside, 100.0 * n_after / n_inside, ms, looked_ms);
    assert_int_equal(n_wrong, 0);
    assert_true(n_after > 0.97 * n_inside);
    assert_false(sparse_depth_is_sparse(gaps, filled));
}

// Every third pixel of every third row: no gap in the middle of two measured ones.
static void a_thin_lattice_is_filled(void **state)
{
    (void)state;
    draw(W);
    memset(thin, 0, sizeof thin);
    for (int v = 1; v < H; v += 3)
        for (int u = 1; u < W; u += 3)
            thin[v * W + u] = full[v * W + u];
    const uint16_t *filled = sparse_depth_fill(gaps, thin);
    int n_empty = 0;
    for (int i = 0; i < W * H; i++) {
        n_empty += filled[i] == 0;
        assert_true(filled[i] == 0 || fabs(filled[i] - depth_units(i % W, i / W, W)) <= 1.5);
    }
    assert_true(n_empty < 4 * (W + H)); // the image's own rim
}

static void nothing_is_between_two_surfaces(void **state)
{
    (void)state;
    draw(W / 2);
    thin_out(0.34, 0);
    const uint16_t *filled = sparse_depth_fill(gaps, thin);
    int n_near_edge = 0;
    for (int i = 0; i < W * H; i++) {
        const int u = i % W, v = i / W;
        const double front = depth_units(u, v, W);
        const double back = depth_units(u, v, 0);
        if (!filled[i])
            continue;
        assert_true(fabs(filled[i] - front) <= 1.5 || fabs(filled[i] - back) <= 1.5);
        n_near_edge += abs(u - W / 2) < 4;
    }
    assert_true(n_near_edge > 2 * H); // of 7 a row
}

static void other_frames_are_left_alone(void **state)
{
    (void)state;
    draw(W);
    assert_ptr_equal(sparse_depth_fill(gaps, full), full);
    thin_out(0.9, 0); // 59 % with four neighbours
    assert_ptr_equal(sparse_depth_fill(gaps, thin), thin);
    thin_out(0.005, 0); // hardly anything: a covered lens
    assert_ptr_equal(sparse_depth_fill(gaps, thin), thin);
    memset(thin, 0, sizeof thin);
    assert_ptr_equal(sparse_depth_fill(gaps, thin), thin);
}

// What is out of range is no measurement: it is a gap, and nothing is taken from it.
static void out_of_range_is_a_gap(void **state)
{
    (void)state;
    draw(W);
    thin_out(0.34, 0);
    for (int i = 0; i < W * H; i++)
        if (thin[i] && i % 3 == 0)
            thin[i] = i % 2 ? UINT16_MAX : 100; // 2 cm
    const uint16_t *filled = sparse_depth_fill(gaps, thin);
    assert_ptr_not_equal(filled, thin);
    for (int i = 0; i < W * H; i++)
        assert_true(filled[i] == 0 || fabs(filled[i] - depth_units(i % W, i / W, W)) <= 1.5);
}

// What is looked at: the middle row of each sixth.
static int looked_row(int i)
{
    return (2 * i + 1) * H / 12;
}

// Rows of which `n` pixels are measured, `n_complete` of them with all four neighbours.
static void draw_rows(int n, int n_complete)
{
    memset(thin, 0, sizeof thin);
    for (int i = 0; i < 6; i++) {
        uint16_t *row = thin + looked_row(i) * W;
        for (int x = 2; x < n_complete + 4; x++)
            row[x - W] = row[x] = row[x + W] = 5000;
        for (int x = 0; x < n - n_complete - 2; x++)
            row[W - 2 - x] = 5000; // nothing above
    }
}

// Fewer than four in ten of the measured pixels.
static void where_sparse_begins(void **state)
{
    (void)state;
    draw_rows(500, 199);
    assert_true(sparse_depth_is_sparse(gaps, thin));
    draw_rows(500, 201);
    assert_false(sparse_depth_is_sparse(gaps, thin));
}

// Two pixels with a gap between them are one surface within 6 % of inverse depth.
static void where_an_edge_begins(void **state)
{
    (void)state;
    for (int apart = 0; apart < 2; apart++) {
        draw_rows(500, 100);
        uint16_t *row = thin + 240 * W;
        row[300] = 10000;
        row[302] = apart ? 10620 : 10618; // 0.0601 and 0.0599 of their mean
        assert_int_equal(sparse_depth_fill(gaps, thin)[240 * W + 301], apart ? 0 : 10300);
    }
}

// Both ends of the range are measurements.
static void the_range_includes_its_ends(void **state)
{
    (void)state;
    const struct gpu_settings *s = gpu_settings_get(gpu);
    const uint16_t least = (uint16_t)lround(ceil((double)s->depth_min_m * UNITS));
    const uint16_t most = (uint16_t)lround(floor((double)s->depth_max_m * UNITS));
    draw_rows(500, 100);
    uint16_t *row = thin + 240 * W;
    row[100] = least;
    row[200] = (uint16_t)(least - 1);
    row[300] = most;
    row[400] = (uint16_t)(most + 1);
    const uint16_t *filled = sparse_depth_fill(gaps, thin) + 240 * W;
    assert_int_equal(filled[100], least);
    assert_int_equal(filled[200], 0);
    assert_int_equal(filled[300], most);
    assert_int_equal(filled[400], 0);
}

static struct track_result first_frame(void)
{
    struct track_settings settings;
    struct track_result out;
    struct track *track;
    track_settings_default(&settings);
    assert_int_equal(track_create(&track, gpu, &settings, NULL), 0);
    assert_int_equal(track_frame(track, thin, 0, &out), 0);
    track_destroy(&track);
    return out;
}

// A tenth of the pixels has hardly a normal, also when gaps are filled: told from an empty frame,
// and from one of which little is seen, but densely.
static void too_sparse_is_told(void **state)
{
    (void)state;
    char text[TRACK_RESULT_TEXT_BYTES];
    draw(W);
    thin_out(0.04, 0);
    struct track_result out = first_frame();
    assert_int_equal(out.reason, TRACK_REASON_NO_DEPTH);
    track_result_text(&out, text);
    assert_non_null(strstr(text, "too sparse: 4 % measured, 0."));
    assert_non_null(strstr(text, " % have a normal"));

    for (int dense = 0; dense < 2; dense++) {
        memset(thin, 0, sizeof thin);
        for (int i = 0; dense && i < W * H; i++)
            thin[i] = i % W < W / 45 ? full[i] : 0;
        out = first_frame();
        assert_int_equal(out.reason, TRACK_REASON_NO_DEPTH);
        track_result_text(&out, text);
        assert_string_equal(text, track_reason_text(TRACK_REASON_NO_DEPTH));
    }
}

static uint32_t next_frame(struct track *track, const uint16_t *depth)
{
    static int64_t time_ns;
    struct track_result out;
    assert_int_equal(track_frame(track, depth, time_ns += 33333333, &out), 0);
    return out.n_valid_px;
}

// A frame after a dense one is aligned before it is asked: it is filled in all the same, and a
// dense one after it is what it was.
static void a_sensor_may_become_sparse(void **state)
{
    (void)state;
    struct track_settings settings;
    struct track *track;
    draw(W / 2);
    thin_out(0.33, 0);
    track_settings_default(&settings);
    assert_int_equal(track_create(&track, gpu, &settings, NULL), 0);
    const uint32_t dense = next_frame(track, full);
    assert_true(dense > 9 * (W * H) / 10);
    for (int i = 0; i < 2; i++) {
        const uint32_t filled = next_frame(track, thin);
        assert_true(filled > 6 * (W * H) / 10); // without filling 1 %
        assert_int_equal(next_frame(track, thin), filled);
        assert_int_equal(next_frame(track, full), dense);
        assert_int_equal(next_frame(track, full), dense);
    }
    track_destroy(&track);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_between_lies_on_the_plane),
        cmocka_unit_test(a_thin_lattice_is_filled),
        cmocka_unit_test(nothing_is_between_two_surfaces),
        cmocka_unit_test(other_frames_are_left_alone),
        cmocka_unit_test(out_of_range_is_a_gap),
        cmocka_unit_test(where_sparse_begins),
        cmocka_unit_test(where_an_edge_begins),
        cmocka_unit_test(the_range_includes_its_ends),
        cmocka_unit_test(too_sparse_is_told),
        cmocka_unit_test(a_sensor_may_become_sparse),
    };
    return cmocka_run_group_tests(tests, open_gpu, close_gpu);
}
