// SPDX-License-Identifier: Apache-2.0
// What of a joined graph goes to the adjustment of all images, and what comes back into it. The
// adjustment is what the test says.
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "gpu/model/keyframe_map.h"
#include "gpu/model/rig_refine.h"
#include "tests/unit/gpu/fake_links.h"

#define N 3u

static struct rig_adjustment asked;
static struct rig_adjustment_image images[2 * N];
static struct rig_adjustment_step steps[8 * N];
static float first_px[2 * N][4]; // of each map
static int solve_rc;
static bool is_stopped;
static const double MOVED_M = 0.002;

int rig_adjustment_solve(const struct rig_adjustment *what, struct rig_adjustment_report *out)
{
    asked = *what;
    memcpy(images, what->images, what->n_images * sizeof *images);
    memcpy(steps, what->steps, what->n_steps * sizeof *steps);
    for (uint32_t i = 0; i < what->n_images; i++)
        memcpy(first_px[i], what->images[i].map, sizeof first_px[i]);
    is_stopped = what->stop && what->stop(what->user);
    *out = (struct rig_adjustment_report){.n_pairs = 7,
                                          .moved = {se3_identity(), fake_pose(MOVED_M, 0, 0, 0)}};
    for (uint32_t i = 0; i < what->n_images && solve_rc == 0; i++)
        what->images[i].T_world_image = fake_pose(i, 1, 0, 0);
    return solve_rc;
}

// One vertex, in the first pixel.
static float *one(float value)
{
    float *out = malloc(sizeof *out);
    assert_non_null(out);
    *out = value;
    return out;
}

static void give_vertex(struct align_image *image)
{
    image->width = fake_camera.width_px;
    image->n_level[0] = 1;
    image->cell = calloc(1, sizeof *image->cell);
    image->nx = one(0.6f);
    image->ny = one(0);
    image->nz = one(-0.8f);
}

// Its keyframe k at 1 s times k and first_s: depth first_id + k in its first pixel.
static struct graph *make(uint32_t first_id, double first_s, struct se3 T_odom_body[N])
{
    struct graph *g = fake_graph(64, 5);
    g->n_ever = first_id;
    for (uint32_t k = 0; k < N; k++) {
        T_odom_body[k] = fake_pose(0.05 * (k + first_s), 0, 0, 0);
        fake_keyframe(g, &T_odom_body[k], &T_odom_body[k]);
        give_vertex(g->images[k]);
        g->keyframes[k].time_ns = llround((first_s + k) * 1e9);
        if (k > 0)
            fake_edge(g, k - 1, k, true);
    }
    fake_edge(g, 0, 2, false); // which the images say themselves
    return g;
}

static bool yes(void *user)
{
    return user == &is_stopped;
}

static void goes_out_and_comes_back(void **state)
{
    (void)state;
    struct se3 of_front[N], of_side[N];
    const struct se3 T_body_side = fake_pose(0, 0.3, 0, 0);
    struct graph *front = make(10, 0, of_front), *side = make(20, 0.5, of_side), *joined;
    const struct graph_part parts[2] = {{front, se3_identity(), of_front, 0},
                                        {side, T_body_side, of_side, 0}};
    struct rig_adjustment_report report;
    assert_int_equal(graph_join(&joined, parts, 2, &fake_quiet), 0);
    const struct se3 before = joined->keyframes[3].T_map_camera;
    uint32_t n_ties = 0;
    for (uint32_t k = 0; k < joined->n_edges; k++) {
        struct edge *e = &joined->edges[k];
        const bool is_tie = joined->body[e->i].camera != joined->body[e->j].camera;
        n_ties += is_tie;
        for (int i = 0; i < 6 && is_tie; i++) {
            const double place = i < 3 ? LINK_PLACE_M : LINK_PLACE_RAD;
            e->link.information[7 * i] = 1 / (1e-6 + place * place);
        }
    }
    assert_true(n_ties > 0);

    solve_rc = -EDOM;
    assert_int_equal(rig_refine(joined, parts, 2, NULL, NULL, &report), -EDOM);
    assert_false(is_stopped);
    assert_memory_equal(&joined->keyframes[3].T_map_camera, &before, sizeof before);
    assert_true(joined->body[1].T_body_camera.t_m[0] == 0);

    solve_rc = 0;
    assert_int_equal(rig_refine(joined, parts, 2, yes, &is_stopped, &report), 0);
    assert_true(is_stopped);
    assert_int_equal(report.n_pairs, 7);
    assert_int_equal(asked.n_cameras, 2);
    assert_int_equal(asked.n_images, 2 * N);
    assert_int_equal(asked.map_level, KEYFRAME_MAP_LEVEL);
    assert_int_equal(asked.cameras[1].width_px, fake_camera.width_px << KEYFRAME_MAP_LEVEL);
    assert_true(asked.cameras[1].fx_px == fake_camera.fx_px * KEYFRAME_MAP_SCALE);
    assert_true(asked.place_m == LINK_PLACE_M && asked.place_rad == LINK_PLACE_RAD);
    for (uint32_t i = 0; i < 2 * N; i++) {
        assert_int_equal(images[i].camera, i % 2);
        const float expected[4] = {0.6f, 0, -0.8f, (float)((i % 2 ? 20 : 10) + i / 2)};
        assert_memory_equal(first_px[i], expected, sizeof expected);
    }
    // Two steps of each chain, and the ties as well as the body's motion is known.
    assert_int_equal(asked.n_steps, 4 + n_ties);
    for (uint32_t k = 0; k < asked.n_steps; k++)
        for (int i = 0; i < 6; i++) {
            const bool is_tie = images[steps[k].i].camera != images[steps[k].j].camera;
            const double worth = steps[k].information[7 * i] / (is_tie ? 1e6 : fake_chain_worth);
            assert_true(is_tie ? fabs(worth - 1) < 1e-3 : worth > 0);
        }
    // Poses, and where the cameras sit.
    struct graph_keyframe bodies[2 * N];
    graph_bodies(joined, bodies);
    for (uint32_t i = 0; i < 2 * N; i++) {
        const struct se3 T = fake_pose(i - (i % 2 ? MOVED_M : 0), i % 2 ? 0.7 : 1, 0, 0);
        assert_same_pose(&bodies[i].T_map_camera, &T);
        assert_same_pose(&bodies[i].T_odom_camera, i % 2 ? &of_side[i / 2] : &of_front[i / 2]);
    }
    // One camera alone has nobody to learn with.
    assert_int_equal(rig_refine(joined, parts, 1, NULL, NULL, &report), -ENODATA);
    assert_int_equal(rig_refine(joined, parts, RIG_ADJUSTMENT_MAX_CAMERAS + 1, NULL, NULL, &report),
                     -E2BIG);
    graph_destroy(&joined);
    graph_destroy(&front);
    graph_destroy(&side);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(goes_out_and_comes_back)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
