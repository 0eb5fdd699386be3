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
    struct keyframe_find find;
    struct graph *g = row(4);
    fake_edge(g, 0, 2, false)->link.rms_m = 0.006;
    answer = (struct recovery){RELOCALISE_FAIR, 2, fake_pose(5, 0, 0, 0), {.rms_m = 0.7}};
    g->keyframes[2].seq = 1234;
    assert_int_equal(graph_find(g, lost_m, 9, &find), 0);
    assert_int_equal(find.trust, RELOCALISE_FAIR);
    assert_int_equal(find.seq, 1234);
    assert_true(find.link.rms_m == 0.7);
    assert_same_pose(&find.T_odom_camera, &answer.T_odom_camera);
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
    assert_int_equal(graph_find(g, lost_m, 0, &find), 0);
    assert_int_equal(find.trust, RELOCALISE_NOT_FOUND);
    n_finds = 0;
    static const float nothing_m[FAKE_PX] = {-1};
    assert_int_equal(graph_find(g, nothing_m, 0, &find), 0);
    assert_true(find.trust == RELOCALISE_NOT_FOUND && n_finds == 0);
    answer_rc = -ENOMEM;
    answer.trust = RELOCALISE_SURE;
    assert_int_equal(graph_find(g, lost_m, 0, &find), -ENOMEM);
    assert_int_equal(find.trust, RELOCALISE_NOT_FOUND);
    answer_rc = 0;
    graph_destroy(&g);
}

static int add(struct graph *g, uint64_t seq, double x_m)
{
    const float z_m[FAKE_PX] = {(float)g->n_ever, 1, 1, 1, 1, 1};
    const struct se3 T = fake_pose(x_m, 0, 0, 0);
    return graph_add(g, seq, 0, z_m, &T);
}

// Found by keyframe `seq`, x_m from it along its x axis in its odom.
static struct keyframe_find found_by(const struct graph *g, uint64_t seq, double x_m)
{
    const struct se3 by = fake_pose(x_m, 0, 0, 0);
    struct keyframe_find find = {
        .trust = RELOCALISE_SURE, .seq = seq, .link = {.T_j_i = se3_inverse(&by), .rms_m = 0.003}};
    find.T_odom_camera = by;
    if (seq < g->n)
        find.T_odom_camera = se3_compose(&g->keyframes[seq].T_odom_camera, &by);
    for (int k = 0; k < 36; k += 7)
        find.link.information[k] = k < 18 ? 1e4 : 4e4;
    return find;
}

// Five keyframes, and another one at x_m of odom: its camera was lost and found by keyframe `seq`,
// 0.2 m from it. Nothing else overlaps.
static struct graph *lost_and_found(uint64_t seq, double x_m)
{
    struct graph *g = row(5);
    graph_set_T_map_odom(g);
    for (int i = 0; i < 8; i++)
        fake_overlaps[i] = 0;
    fake_overlaps[seq] = 1; // it is not measured a second time
    const struct keyframe_find find = found_by(g, seq, 0.2);
    graph_found(g, &find, 777);
    assert_int_equal(add(g, 20, x_m), 0);
    return g;
}

static double map_m(const struct graph *g, uint32_t i)
{
    return g->keyframes[i].T_map_camera.t_m[0];
}

static bool is_worth_nothing(const struct link *link)
{
    for (int k = 0; k < 36; k += 7)
        if (link->information[k] > 1e-3)
            return false;
    return true;
}

// Odom has drifted to half of the map. A camera found by the second keyframe, 0.2 m from it, and
// followed by 0.3 m since is there in the map, as measured and with the doubt of both; of its way
// from the keyframe before the loss nothing is known.
static void a_found_camera_is_where_its_keyframe_is(void **state)
{
    (void)state;
    struct graph *g = lost_and_found(1, 1.5);
    assert_true(g->keyframes[5].is_found && g->keyframes[5].found_ns == 777);
    const struct edge *chain = graph_find_edge(g, g->n_edges, 4, 5);
    assert_true(chain->chain && chain->lost && !chain->find && is_worth_nothing(&chain->link));
    const struct edge *find = graph_edge_of_find(g, 5);
    const struct se3 T_new_found = fake_pose(-0.5, 0, 0, 0);
    assert_true(find && find->i == 1 && !find->chain && !find->loop && find->span == 4);
    assert_same_pose(&find->link.T_j_i, &T_new_found);
    assert_true(find->link.rms_m == 0.003);
    assert_int_equal(g->keyframes[5].n_links, 1);
    // 1e4 and 4e4 of the find, 1e4 of each direction of the step; a turn 0.3 m off moves, too.
    assert_true(fabs(find->link.information[0] - 5e3) < 1e-6);
    assert_true(fabs(find->link.information[21] - 8e3) < 1e-6);
    assert_true(find->link.information[7] < 5e3 && find->link.information[7] > 4e3);
    const struct se3 T = graph_T_map_odom(g);
    assert_true(fabs(map_m(g, 5) - 2.5) < 1e-6 && fabs(T.t_m[0] - 1) < 1e-6);
    // The next one is followed.
    assert_int_equal(add(g, 21, 1.6), 0);
    const struct se3 step = fake_pose(-0.1, 0, 0, 0);
    assert_false(g->keyframes[6].is_found);
    assert_same_pose(&graph_find_edge(g, g->n_edges, 5, 6)->link.T_j_i, &step);
    // Measured anew nothing more is known.
    g->n_edges = 0;
    g->n = 6;
    assert_int_equal(graph_link_again(g), 0);
    chain = graph_find_edge(g, g->n_edges, 4, 5);
    assert_true(chain->lost && is_worth_nothing(&chain->link));
    g->n = 7;
    graph_destroy(&g);
}

// Found by the last keyframe before the loss the new one is chained to it as measured.
static void the_find_may_be_the_chain(void **state)
{
    (void)state;
    struct graph *g = lost_and_found(4, 4.2);
    const struct edge *chain = graph_find_edge(g, g->n_edges, 4, 5);
    const struct se3 T = fake_pose(-0.2, 0, 0, 0);
    assert_true(chain->chain && chain->find && !chain->lost && chain->span == 1);
    assert_same_pose(&chain->link.T_j_i, &T);
    assert_true(chain->link.information[0] > 4e3);
    assert_int_equal(g->n_edges, 5);
    assert_int_equal(g->keyframes[5].n_links, 0);
    graph_destroy(&g);
}

// What knows a place in odom has it of the keyframes that stand there: the nearest one has found
// it, tied to it as odom has the two, the less the farther it is. So it is where the keyframe that
// did went meanwhile, and where none was named.
static void a_find_in_odom_is_by_the_nearest(void **state)
{
    (void)state;
    const struct se3 near = fake_pose(1.2, 0, 0, 0);
    assert_int_equal(graph_find_at(NULL, 0, &near).trust, RELOCALISE_NOT_FOUND);
    for (int c = 0; c < 3; c++) {
        struct graph *g = row(5);
        for (int i = 0; i < 8; i++)
            fake_overlaps[i] = 0;
        struct keyframe_find find = graph_find_at(g->keyframes, g->n, &near);
        const struct se3 T_frame_k = fake_pose(-0.2, 0, 0, 0);
        assert_true(find.trust == RELOCALISE_SURE && find.seq == 1);
        assert_same_pose(&find.T_odom_camera, &near);
        assert_same_pose(&find.link.T_j_i, &T_frame_k);
        assert_true(fabs(fake_tie_motion - 0.2) < 1e-9);
        if (c == 1)
            find.seq = 99;
        if (c == 2)
            find.trust = RELOCALISE_NOT_FOUND, find.seq = 3;
        graph_found(g, &find, 777);
        assert_int_equal(add(g, 20, 1.5), 0);
        assert_true(g->keyframes[5].is_found && g->keyframes[5].found_ns == 777);
        assert_true(graph_find_edge(g, g->n_edges, 4, 5)->lost);
        const struct edge *e = graph_edge_of_find(g, 5);
        const struct se3 T_new_k = fake_pose(-0.5, 0, 0, 0);
        assert_true(e && e->i == 1);
        assert_same_pose(&e->link.T_j_i, &T_new_k);
        assert_true(fabs(map_m(g, 5) - 2.5) < 1e-6);
        graph_destroy(&g);
    }
    struct graph *g = fake_graph(8, 2);
    const struct keyframe_find none = graph_find_at(NULL, 0, &near);
    graph_found(g, &none, 777);
    assert_int_equal(add(g, 20, 1.2), 0);
    assert_false(g->keyframes[0].is_found);
    graph_destroy(&g);
}

// Two visits of a place lie a metre apart in the map, and nobody knows which of them was found: the
// tie is worth no more, and the keyframe is in doubt.
static void visits_that_lie_apart_are_in_doubt(void **state)
{
    (void)state;
    const struct se3 between = fake_pose(1.4, 0, 0, 0);
    struct graph *g = row(5);
    for (int i = 0; i < 8; i++)
        fake_overlaps[i] = 0;
    const struct keyframe_find find = graph_find_at(g->keyframes, g->n, &between);
    assert_int_equal(find.seq, 1);
    assert_true(fabs(find.link.doubt_m - 1) < 1e-9);
    for (int k = 0; k < 3; k++) {
        assert_true(fabs(find.link.information[7 * k] - 1) < 1e-6);
        assert_true(find.link.information[21 + 7 * k] > 1e8); // not turned
    }
    graph_found(g, &find, 777);
    assert_int_equal(add(g, 20, 1.5), 0);
    assert_true(fabs(g->way[1] - (0.5 + 0.02 + 1 / 0.06)) < 1e-6);
    graph_destroy(&g);
}

// What was not measured says nothing of how well measurements fit.
static void a_tie_has_no_residual(void **state)
{
    (void)state;
    const struct se3 near = fake_pose(3.2, 0, 0, 0);
    struct graph *g = row(5);
    for (int i = 0; i < 8; i++)
        fake_overlaps[i] = 0;
    const struct keyframe_find find = graph_find_at(g->keyframes, g->n, &near);
    graph_found(g, &find, 777);
    assert_int_equal(add(g, 20, 3.3), 0);
    assert_true(graph_edge_of_find(g, 5)->i == 3 && graph_usual_rms_m(g) == 0);
    fake_edge(g, 2, 4, false)->link.rms_m = 0.006;
    assert_true(graph_usual_rms_m(g) == 0.006);
    graph_destroy(&g);
}

// The keyframes before the loss turn out to lie half a metre off: those after it stay where the
// camera was found, and are in no doubt for it.
static void a_drift_before_the_loss_is_not_pinned(void **state)
{
    (void)state;
    struct graph *g = lost_and_found(1, 1.2);
    fake_edge(g, 0, 4, false)->link.T_j_i = fake_pose(-7.5, 0, 0, 0);
    for (int k = 0; k < 36; k += 7)
        g->edges[g->n_edges - 1].link.information[k] = 1e8;
    assert_int_equal(graph_adjust(g), 0);
    assert_true(map_m(g, 4) < 7.6);
    assert_true(fabs(map_m(g, 5) - map_m(g, 1) - 0.2) < 1e-4);
    for (int i = 0; i < 8; i++)
        fake_overlaps[i] = 1;
    assert_int_equal(add(g, 21, 1.3), 0);
    assert_true(fabs(g->way[1] - 0.1 - 0.2 - 0.02) < 1e-6);
    assert_true(fabs(g->way[4] - g->way[1] - 6) < 1e-6); // not over the loss
    graph_destroy(&g);
}

// A loop closed over the loss is not judged by a way that nobody knows, but by what the camera was
// found by, as long as that holds, where it was measured.
static void a_loop_may_span_a_loss(void **state)
{
    (void)state;
    static const struct {
        double loop_off_m, find_off_m;
        bool is_tie, stays;
    } cases[] = {
        {0, 0, false, true}, {3, 0, false, false}, {0, 3, false, true}, {3, 0, true, true}};
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        struct graph *g = lost_and_found(1, 1.2);
        graph_find_edge(g, g->n_edges, 4, 5)->link.T_j_i.t_m[0] += 5;
        graph_find_edge(g, g->n_edges, 1, 5)->link.T_j_i.t_m[0] += cases[c].find_off_m;
        if (cases[c].is_tie)
            graph_find_edge(g, g->n_edges, 1, 5)->link.rms_m = 0;
        struct edge *loop = fake_edge(g, 3, 5, false);
        loop->link.T_j_i =
            se3_between(&g->keyframes[5].T_map_camera, &g->keyframes[3].T_map_camera);
        loop->link.T_j_i.t_m[0] += cases[c].loop_off_m;
        loop->loop = loop->fresh = true;
        assert_int_equal(add(g, 21, 1.3), 0);
        assert_int_equal(graph_find_edge(g, g->n_edges, 3, 5) != NULL, cases[c].stays);
        assert_true(cases[c].is_tie || fabs(map_m(g, 5) - map_m(g, 1) - 0.2) < 0.01);
        graph_destroy(&g);
    }
}

// Before the new keyframe comes the one that it was found by may go: its heir has found it then.
static void the_one_that_found_it_may_go(void **state)
{
    (void)state;
    struct graph *g = row(8);
    for (int i = 0; i < 16; i++)
        fake_overlaps[i] = 0;
    g->keyframes[2].T_map_camera = fake_pose(3.9, 0, 0, 0); // 1 and 3 are nearest to each other
    g->keyframes[3].T_map_camera = fake_pose(4, 0, 0, 0);
    graph_find_edge(g, g->n_edges, 2, 3)->link.T_j_i = fake_pose(-0.1, 0, 0, 0); // as measured
    const struct keyframe_find find = found_by(g, 2, 0.2);
    graph_found(g, &find, 777);
    assert_int_equal(add(g, 20, 2.2), 0);
    const struct edge *e = graph_edge_of_find(g, 7);
    const struct se3 T = fake_pose(-0.1, 0, 0, 0);
    assert_true(e && e->i == 2 && g->keyframes[2].seq == 3);
    assert_same_pose(&e->link.T_j_i, &T);
    graph_destroy(&g);
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
    g->keyframes[2].found_ns = 777;
    for (uint32_t i = 0; i < g->n; i++)
        g->log_z[i][0] = (float)g->keyframes[i].seq;
    graph_make_room(g);
    assert_int_equal(g->n, 7);
    for (uint32_t i = 0; i < g->n; i++)
        assert_true(g->log_z[i][0] == (float)g->keyframes[i].seq);
    assert_int_equal(g->keyframes[2].seq, 3);
    assert_true(g->keyframes[2].is_found && g->keyframes[2].found_ns == 777);
    graph_destroy(&g);
}

static void a_new_beginning_was_not_found(void **state)
{
    (void)state;
    struct graph *g = row(3);
    const struct keyframe_find find = found_by(g, 1, 0.2);
    graph_found(g, &find, 777);
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
        cmocka_unit_test(the_find_may_be_the_chain),
        cmocka_unit_test(a_find_in_odom_is_by_the_nearest),
        cmocka_unit_test(visits_that_lie_apart_are_in_doubt),
        cmocka_unit_test(a_tie_has_no_residual),
        cmocka_unit_test(a_drift_before_the_loss_is_not_pinned),
        cmocka_unit_test(a_loop_may_span_a_loss),
        cmocka_unit_test(the_one_that_found_it_may_go),
        cmocka_unit_test(one_that_goes_hands_it_on),
        cmocka_unit_test(a_new_beginning_was_not_found),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
