// SPDX-License-Identifier: Apache-2.0
// A lost frame that is looked for among the keyframes of a graph: what recovery is given; and what
// becomes of the chain where the camera was found: it follows the map, not odom.
#include <errno.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "gpu/model/keyframe_eviction.h"
#include "gpu/model/keyframe_recovery.h"
#include "tests/unit/gpu/fake_links.h"

static struct recovery_place asked[8];
static uint32_t n_asked, n_finds, attempt_asked;
static double usual_asked_m;
static const float *frame_z_m;
static float frame_log_z[DEPTH_CELLS];
static struct recovery answer;
static int answer_rc;

int recovery_find(struct link_maker *maker, const struct intrinsics *camera,
                  const struct recovery_view *frame, const struct recovery_place *places,
                  uint32_t n, uint32_t attempt, double usual_rms_m, struct recovery *out)
{
    (void)maker;
    assert_true(camera->width_px == fake_camera.width_px);
    assert_int_equal(fake_id(frame->image), (uint32_t)frame->z_m[0]);
    memcpy(asked, places, n * sizeof *places);
    memcpy(frame_log_z, frame->log_z, sizeof frame_log_z);
    n_asked = n;
    n_finds++;
    attempt_asked = attempt;
    usual_asked_m = usual_rms_m;
    frame_z_m = frame->z_m;
    *out = answer;
    return answer_rc;
}

// n keyframes a metre apart in odom, 2 m in the map and its chain.
static struct graph *row(uint32_t n)
{
    struct graph *g = fake_graph(8, 2);
    for (uint32_t i = 0; i < n; i++) {
        const struct se3 T_odom = fake_pose(i, 0, 0, 0), T_map = fake_pose(2 * i, 0, 0, 0);
        fake_keyframe(g, &T_odom, &T_map);
        const struct se3 step = fake_pose(-2, 0, 0, 0);
        if (i > 0)
            fake_edge(g, i - 1, i, true)->link.T_j_i = step;
    }
    return g;
}

static void all_keyframes_are_given(void **state)
{
    (void)state;
    static const float lost_m[FAKE_PX] = {42, 1, 2, 3, 4, 5};
    enum relocalise_trust trust;
    struct se3 T;
    uint64_t seq = 77;
    struct graph *g = row(4);
    fake_edge(g, 0, 2, false)->link.rms_m = 0.006;
    answer = (struct recovery){RELOCALISE_FAIR, 2, fake_pose(5, 0, 0, 0)};
    g->keyframes[2].seq = 1234;
    assert_int_equal(graph_find(g, lost_m, 9, &trust, &T, &seq), 0);
    assert_int_equal(trust, RELOCALISE_FAIR);
    assert_int_equal(seq, 1234);
    assert_same_pose(&T, &answer.T_odom_camera);
    assert_int_equal(n_asked, 4);
    assert_int_equal(attempt_asked, 9);
    assert_true(usual_asked_m == 0.006 && frame_z_m == lost_m);
    assert_true(fabsf(frame_log_z[0] - logf(42)) < 1e-6f || isnan(frame_log_z[0]));
    for (uint32_t i = 0; i < 4; i++) {
        assert_true(asked[i].view.image == g->images[i] && asked[i].view.z_m == g->z_m[i]);
        assert_true(asked[i].view.log_z == g->log_z[i]);
        assert_same_pose(&asked[i].T_odom_camera, &g->keyframes[i].T_odom_camera);
        assert_same_pose(&asked[i].T_map_camera, &g->keyframes[i].T_map_camera);
    }
    // Nothing is found, with no depth nothing is asked, and no memory is told.
    answer.trust = RELOCALISE_NOT_FOUND;
    seq = 77;
    assert_int_equal(graph_find(g, lost_m, 0, &trust, &T, &seq), 0);
    assert_true(trust == RELOCALISE_NOT_FOUND && seq == 77);
    n_finds = 0;
    static const float nothing_m[FAKE_PX] = {-1};
    assert_int_equal(graph_find(g, nothing_m, 0, &trust, &T, &seq), 0);
    assert_true(trust == RELOCALISE_NOT_FOUND && n_finds == 0);
    answer_rc = -ENOMEM;
    answer.trust = RELOCALISE_SURE;
    assert_int_equal(graph_find(g, lost_m, 0, &trust, &T, &seq), -ENOMEM);
    assert_int_equal(trust, RELOCALISE_NOT_FOUND);
    answer_rc = 0;
    graph_destroy(&g);
}

static int add(struct graph *g, uint64_t seq, double x_m)
{
    const float z_m[FAKE_PX] = {(float)g->n_ever, 1, 1, 1, 1, 1};
    const struct se3 T = fake_pose(x_m, 0, 0, 0);
    return graph_add(g, seq, 0, z_m, &T);
}

// Odom has drifted to half of the map. A camera found by the second keyframe, 0.2 m from it,
// is there in the map, and its chain as long as the map has it, not as odom.
static void a_found_camera_is_where_its_keyframe_is(void **state)
{
    (void)state;
    for (int found = 0; found < 2; found++) {
        struct graph *g = row(5);
        graph_set_T_map_odom(g);
        for (int i = 0; i < 8; i++)
            fake_overlaps[i] = 0;
        graph_found(g, 99); // there is none
        assert_false(g->is_found);
        if (found)
            graph_found(g, 1);
        assert_int_equal(add(g, 20, 1.2), 0);
        const struct edge *chain = graph_find_edge(g, g->n_edges, 4, 5);
        assert_true(chain && chain->chain);
        const struct se3 odom = fake_pose(4 - 1.2, 0, 0, 0), map = fake_pose(8 - 2.2, 0, 0, 0);
        assert_same_pose(&chain->link.T_j_i, found ? &map : &odom);
        assert_int_equal(g->keyframes[5].is_found, found);
        if (found) {
            const struct se3 T = graph_T_map_odom(g);
            assert_true(fabs(g->keyframes[5].T_map_camera.t_m[0] - 2.2) < 1e-6);
            assert_true(fabs(T.t_m[0] - 1) < 1e-6);
        }
        // The next one is followed.
        assert_int_equal(add(g, 21, 1.3), 0);
        const struct se3 step = fake_pose(-0.1, 0, 0, 0);
        assert_false(g->keyframes[6].is_found);
        assert_same_pose(&graph_find_edge(g, g->n_edges, 5, 6)->link.T_j_i, &step);
        // Measured anew it is still no way in odom.
        g->n_edges = 0;
        g->n = 6;
        assert_int_equal(graph_link_again(g), 0);
        const struct se3 again =
            found ? se3_between(&g->keyframes[5].T_map_camera, &g->keyframes[4].T_map_camera)
                  : odom;
        assert_same_pose(&graph_find_edge(g, g->n_edges, 4, 5)->link.T_j_i, &again);
        g->n = 7;
        graph_destroy(&g);
    }
}

// The descriptors go with their keyframes, and with one that was found the next inherits that.
static void one_that_goes_hands_it_on(void **state)
{
    (void)state;
    struct graph *g = row(8);
    g->keyframes[2].T_odom_camera = g->keyframes[2].T_map_camera = fake_pose(1.01, 0, 0, 0);
    g->keyframes[1].T_map_camera = fake_pose(1, 0, 0, 0);
    g->keyframes[3].T_map_camera = fake_pose(1.02, 0, 0, 0);
    g->keyframes[2].is_found = true;
    for (uint32_t i = 0; i < g->n; i++)
        g->log_z[i][0] = (float)g->keyframes[i].seq;
    graph_make_room(g);
    assert_int_equal(g->n, 7);
    for (uint32_t i = 0; i < g->n; i++)
        assert_true(g->log_z[i][0] == (float)g->keyframes[i].seq);
    assert_int_equal(g->keyframes[2].seq, 3);
    assert_true(g->keyframes[2].is_found);
    graph_destroy(&g);
}

static void a_new_beginning_was_not_found(void **state)
{
    (void)state;
    struct graph *g = row(3);
    graph_found(g, 1);
    graph_clear(g);
    assert_int_equal(add(g, 20, 1.2), 0);
    assert_false(g->keyframes[0].is_found);
    graph_destroy(&g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_keyframes_are_given),
        cmocka_unit_test(a_found_camera_is_where_its_keyframe_is),
        cmocka_unit_test(one_that_goes_hands_it_on),
        cmocka_unit_test(a_new_beginning_was_not_found),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
