// SPDX-License-Identifier: Apache-2.0
// What the image says about a pose, rule by rule (gpu/search/kernels/score.h, normal.h).
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "gpu/search/kernels/normal.h"
#include "gpu/search/kernels/score.h"

#define WIDTH  160
#define HEIGHT 40
#define RADIUS 0.1f

static float z_m[WIDTH * HEIGHT], normal_z[4 * WIDTH * HEIGHT];
static const struct search_scene scene = {normal_z,
                                          {570, 570, WIDTH / 2, HEIGHT / 2, WIDTH, HEIGHT}};

// Columns from .. to - 1 lie at z, or on a slope: so many metres nearer with each column.
static void fill(int from, int to, float z, float nearer)
{
    for (int v = 0; v < HEIGHT; v++)
        for (int u = from; u < to; u++)
            z_m[v * WIDTH + u] = z > 0 ? z - nearer * (float)(u - from) : 0;
}

static void finish(void)
{
    for (int i = 0; i < WIDTH * HEIGHT; i++)
        search_normal_at(z_m, &scene.camera, i % WIDTH, i / WIDTH, normal_z + 4 * i);
}

static float behind(int u)
{
    return search_behind(z_m, &scene.camera, u, HEIGHT / 2);
}

static void a_shadow_lies_on_the_farther_surface(void **unused)
{
    (void)unused;
    fill(0, 60, 0.7f, 0);
    fill(60, 80, 0, 0);
    fill(80, WIDTH, 1.2f, 0);
    assert_true(behind(60) == 1.2f && behind(79) == 1.2f);
    fill(0, 60, 1.5f, 0);
    assert_true(behind(70) == 1.5f);
    // Nothing to one side, or too far away: unknown.
    fill(80, WIDTH, 0, 0);
    assert_true(behind(70) == 0);
    fill(0, 60, 0.7f, 0);
    fill(60 + SEARCH_SHADOW_PX + 2, WIDTH, 1.2f, 0);
    assert_true(behind(60) == 0);
    assert_true(behind(62) == 1.2f);
}

// The model's right end is at column 80, at 0.7 m; it faces so there.
static struct search_outline outline_facing(const float normal[3])
{
    struct search_outline outline = {0};
    finish();
    for (int v = 10; v < 30; v++) {
        const int in = search_score_inside(&scene, 80, v, 1, 0);
        search_score_edge(&scene, 80, v, 1, 0, in, 0.7f, normal, 0.7f, RADIUS, &outline);
    }
    assert_int_equal(outline.n, 20);
    return outline;
}

static struct search_outline outline_at_80(void)
{
    static const float to_camera[3] = {0, 0, -1};
    return outline_facing(to_camera);
}

static void an_edge_is_where_the_scene_falls_back(void **unused)
{
    (void)unused;
    fill(0, 81, 0.7f, 0);
    fill(81, WIDTH, 1.2f, 0);
    struct search_outline outline = outline_at_80();
    assert_int_equal(outline.n_ended, 20);
    assert_int_equal(outline.n_sharp, 20);
    // Three pixels later: an edge, but not a sharp one.
    fill(81, 84, 0.7f, 0);
    outline = outline_at_80();
    assert_int_equal(outline.n_ended, 20);
    assert_int_equal(outline.n_sharp, 0);
    // The sensor lost the pixels along the edge: as many as may be, and one more.
    fill(81 - SEARCH_INSIDE_PX, 81, 0, 0);
    fill(81, WIDTH, 1.2f, 0);
    outline = outline_at_80();
    assert_int_equal(outline.n_ended, 20);
    fill(80 - SEARCH_INSIDE_PX, 81, 0, 0);
    outline = outline_at_80();
    assert_int_equal(outline.n_ended, 0);
    // Beyond lies a shadow: the background's, then something's on the object itself.
    fill(0, 81, 0.7f, 0);
    fill(81, 100, 0, 0);
    outline = outline_at_80();
    assert_int_equal(outline.n_ended, 20);
    fill(100, WIDTH, 0.5f, 0);
    outline = outline_at_80();
    assert_int_equal(outline.n_ended, 0);
    assert_int_equal(outline.n_smooth + outline.n_continued + outline.n_floor, 0);
    // Nothing at all beyond: the end of a segmented object.
    fill(100, WIDTH, 0, 0);
    outline = outline_at_80();
    assert_int_equal(outline.n_ended, 20);
}

// A surface that goes on speaks against the model where it is the model's: a table that a bottle's
// side stands on goes on of course.
static void a_surface_goes_on_where_it_faces_as_the_model(void **unused)
{
    (void)unused;
    const float cosines[] = {1, SEARCH_FACES + 0.01f, SEARCH_FACES - 0.01f, 0};
    fill(0, WIDTH, 0.7f, 0);
    for (int i = 0; i < 4; i++) {
        const float normal[3] = {sqrtf(1 - cosines[i] * cosines[i]), 0, -cosines[i]};
        const struct search_outline outline = outline_facing(normal);
        assert_int_equal(outline.n_smooth, i < 2 ? 20 : 0);
        assert_int_equal(outline.n_continued, i < 2 ? 0 : 20);
    }
}

// The model is at 0.7 m all over and faces as the scene does (normal NULL) or otherwise; what is in
// front hides it from column `hidden` on.
static struct search_tally crossing(int hidden, const float *normal)
{
    struct search_tally tally = {0};
    finish();
    for (int v = 10; v < 30; v++)
        for (int u = hidden - 12; u < hidden + 12; u++)
            if (search_score_cross(&scene, u, v, false, 0.7f, 0.7f, RADIUS) > 0)
                search_score_border(&scene, u, v, u + SEARCH_CROSS_PX, v, 0.7f,
                                    normal ? normal : scene.normal_z + 4 * (v * WIDTH + u), &tally);
    return tally;
}

static void what_hides_begins_with_a_jump(void **unused)
{
    (void)unused;
    fill(0, 80, 0.7f, 0);
    fill(80, WIDTH, 0.6f, 0);
    struct search_tally tally = crossing(80, NULL);
    // Where normals reach over the jump there are none.
    assert_int_equal(tally.n_crossed, 20 * (SEARCH_CROSS_PX - SEARCH_NORMAL_PX));
    assert_int_equal(tally.n_merged, 0);
    // A surface that leans forwards through the model's: one thing, no occluder.
    const float gate_m = search_drawn_gate_m(RADIUS, 0.7f), slope = 0.0025f;
    fill(0, WIDTH, 0.7f + 60 * slope, slope);
    const int hidden = 60 + (int)(gate_m / slope) + 3;
    tally = crossing(hidden, NULL);
    assert_true(tally.n_crossed > 20);
    assert_int_equal(tally.n_merged, tally.n_crossed);
    // Where it faces otherwise than the model the sensor has rounded a step: nothing is asked.
    const float towards[3] = {0, 0, -1};
    tally = crossing(hidden, towards);
    assert_int_equal(tally.n_crossed, 0);
}

static void normals_tell_plane_cylinder_and_ball(void **unused)
{
    (void)unused;
    struct search_tally tally = {.n_match = 99999, .normals = {0, 0, 0, 0, 0, 6553600000}};
    float spread, volume;
    search_normals_spread(&tally, &spread, &volume);
    assert_true(spread < 1e-6f && volume < 1e-6f);
    tally.normals[0] = tally.normals[5] = 3276800000;
    search_normals_spread(&tally, &spread, &volume);
    assert_true(spread > 0.249f && spread < 0.251f && volume < 1e-6f);
    tally.normals[0] = tally.normals[3] = tally.normals[5] = 2184533333;
    search_normals_spread(&tally, &spread, &volume);
    assert_true(spread > 0.332f && spread < 0.334f && volume > 0.0369f && volume < 0.0371f);
}

// Half a gate off is still a match, but no longer in agreement; what hides says nothing.
static void pixels_agree_or_contradict(void **unused)
{
    (void)unused;
    const float z = 0.7f, gate_m = search_drawn_gate_m(RADIUS, z), sigma = search_sigma(z);
    const float on[4] = {0, 0, -1, z}, off[4] = {0, 0, -1, z + 2 * sigma};
    const float behind[4] = {0, 0, -1, z + 0.5f}, front[4] = {0, 0, -1, z - 0.1f};
    const float nothing[4] = {0, 0, 0, 0}, table[4] = {0, 0, -1, -z}, under[4] = {0, 0, -1, -0.8f};
    assert_true(search_score_agrees(on, z, 1, gate_m) == SEARCH_AGREE_MOST);
    assert_true(fabsf(search_score_agrees(off, z, 1, gate_m) - (SEARCH_AGREE_MOST - 4)) < 0.01f);
    // Of a surface seen at a slant the same distance says less.
    assert_true(fabsf(search_score_agrees(off, z, 0.5f, 2 * gate_m) - (SEARCH_AGREE_MOST - 1)) <
                0.01f);
    assert_true(search_score_agrees(behind, z, 1, gate_m) == -SEARCH_AGREE_MOST);
    assert_true(search_score_agrees(under, z, 1, gate_m) == -SEARCH_AGREE_MOST);
    assert_true(search_score_agrees(front, z, 1, gate_m) == 0);
    assert_true(search_score_agrees(nothing, z, 1, gate_m) == 0);
    assert_true(search_score_agrees(table, z, 1, gate_m) == 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_shadow_lies_on_the_farther_surface),
        cmocka_unit_test(an_edge_is_where_the_scene_falls_back),
        cmocka_unit_test(a_surface_goes_on_where_it_faces_as_the_model),
        cmocka_unit_test(what_hides_begins_with_a_jump),
        cmocka_unit_test(pixels_agree_or_contradict),
        cmocka_unit_test(normals_tell_plane_cylinder_and_ball),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
