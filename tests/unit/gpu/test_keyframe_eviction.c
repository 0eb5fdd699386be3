// SPDX-License-Identifier: Apache-2.0
// Which keyframe goes, how its neighbours are chained, and what the heir of its links gets: a link
// says the same of the poses as before, in another frame.
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "gpu/base/solve6.h"
#include "gpu/model/keyframe_eviction.h"
#include "tests/unit/gpu/fake_links.h"

#define N      12u
#define STEPS  64u
#define MOST_M 0.003

// Twelve keyframes, chained; the neighbours of number `gone` stand nearest to each other of all
// that may go, and it stands nearer to the one that came before it, or after.
static struct graph *chained(uint32_t gone, bool nearer_after)
{
    struct graph *g = fake_graph(32, 5);
    double x_m = 0;
    for (uint32_t i = 0; i < N; i++) {
        const bool short_step = i == gone || i == gone + 1;
        const double step_m = 0.3 + 0.01 * i;
        x_m += !short_step ? step_m : (i == gone) == nearer_after ? 0.15 : 0.1;
        const double roll[6] = {0, 0, 0, 0.015 * i, 0, -0.01 * i};
        const struct se3 upright = fake_pose(x_m, 0.02 * i, 0.01 * (i % 3), 0.02 * i);
        const struct se3 turn = se3_exp(roll), T = se3_compose(&upright, &turn);
        fake_keyframe(g, &T, &T);
        if (i > 0)
            fake_edge(g, i - 1, i, true);
    }
    return g;
}

static void the_least_missed_goes(void **state)
{
    (void)state;
    for (uint32_t gone = 0; gone < N; gone++) {
        struct graph *g = chained(gone, false);
        // The first and the newest half stay.
        const uint32_t goes = gone == 0 ? 1 : gone < N / 2 ? gone : gone == 6 ? 5 : 1;
        graph_make_room(g);
        assert_int_equal(g->n, N - 1);
        for (uint32_t i = 0; i < g->n; i++) {
            const uint32_t was = i + (i >= goes);
            assert_int_equal(g->keyframes[i].seq, was);
            assert_int_equal(g->arrival[i], was);
            assert_int_equal(fake_id(g->images[i]), was);
            assert_true(g->z_m[i][0] == (float)was);
        }
        assert_null(g->images[g->n]);
        for (uint32_t i = 0; i + 1 < g->n; i++)
            assert_true(graph_find_edge(g, g->n_edges, i, i + 1)->chain);
        assert_int_equal(g->n_edges, N - 2);
        graph_destroy(&g);
    }
}

static void set_worth(struct edge *e, double first)
{
    for (int i = 0; i < 36; i++)
        e->link.information[i] = i % 7 == 0 ? first + i : 3;
}

// What two steps err by, one after the other, of each of their twists by how it moves the end.
static void two_steps_covariance(const struct link *to, const struct link *on, double out[36])
{
    const struct se3 T = se3_compose(&on->T_j_i, &to->T_j_i), back = se3_inverse(&T);
    double first[36], j[36];
    assert_true(solve6_invert(to->information, 0, first));
    assert_true(solve6_invert(on->information, 0, out));
    for (int k = 0; k < 6; k++) {
        double twist[6] = {0}, column[6];
        twist[k] = 1e-6;
        const struct se3 err = se3_exp(twist), T_j_i = se3_compose(&err, &to->T_j_i),
                         moved = se3_compose(&on->T_j_i, &T_j_i), by = se3_compose(&moved, &back);
        se3_log(&by, column);
        for (int r = 0; r < 6; r++)
            j[6 * r + k] = column[r] * 1e6;
    }
    for (int r = 0; r < 6; r++)
        for (int c = 0; c < 6; c++)
            for (int m = 0; m < 6; m++)
                for (int k = 0; k < 6; k++)
                    out[6 * r + c] += j[6 * r + m] * first[6 * m + k] * j[6 * c + k];
}

static void neighbours_are_chained(void **state)
{
    (void)state;
    struct graph *g = chained(3, false);
    set_worth(&g->edges[2], 100);
    set_worth(&g->edges[3], 40);
    g->edges[2].span = 4;
    g->edges[3].span = 2;
    g->edges[2].link.T_j_i = fake_pose(0.1, 0.2, 0.3, 0.4);
    g->edges[3].link.T_j_i = fake_pose(0.5, -0.2, 0.1, -0.1);
    fake_edge(g, 2, 4, false); // says less
    const struct se3 T = se3_compose(&g->edges[3].link.T_j_i, &g->edges[2].link.T_j_i);
    const struct link to = g->edges[2].link, on = g->edges[3].link;
    graph_make_room(g);
    const struct edge *over = graph_find_edge(g, g->n_edges, 2, 3);
    assert_true(over->chain && !over->loop && !over->fresh);
    assert_int_equal(over->span, 6);
    assert_same_pose(&over->link.T_j_i, &T);
    double covariance[36];
    two_steps_covariance(&to, &on, covariance);
    for (int r = 0; r < 6; r++)
        for (int c = 0; c < 6; c++) {
            double sum = 0;
            for (int k = 0; k < 6; k++)
                sum += over->link.information[6 * r + k] * covariance[6 * k + c];
            assert_true(fabs(sum - (r == c)) < 1e-5);
        }
    assert_int_equal(g->n_edges, N - 2);
    graph_destroy(&g);
}

// What a link says against the poses as they are.
static double chi2_of(const struct graph *g, const struct edge *e)
{
    const struct se3 T_j_i =
        se3_between(&g->keyframes[e->j].T_map_camera, &g->keyframes[e->i].T_map_camera);
    const struct se3 back = se3_inverse(&T_j_i), lack = se3_compose(&e->link.T_j_i, &back);
    double x[6], sum = 0;
    se3_log(&lack, x);
    for (int i = 0; i < 6; i++)
        for (int j = 0; j < 6; j++)
            sum += x[i] * e->link.information[6 * i + j] * x[j];
    return sum;
}

// A link from the keyframe that goes to a newer one, or from an older one to it, whatever the
// poses of the other are then. The step to the heir is known.
static void the_nearer_inherits_its_links(void **state)
{
    (void)state;
    for (int after = 0; after < 2; after++)
        for (int newer = 0; newer < 2; newer++)
            for (int axis = 0; axis < 3; axis++) {
                const uint32_t at = newer ? 3 : 5, i = newer ? at : 0, j = newer ? 10 : at;
                struct graph *g = chained(at, after);
                for (uint32_t k = 0; k < g->n_edges; k++)
                    for (int d = 0; d < 36; d += 7)
                        g->edges[k].link.information[d] = 1e15;
                struct edge *e = fake_edge(g, i, j, false);
                e->loop = true;
                for (int k = 0; k < 36; k++) // symmetrical, and none is like another
                    e->link.information[k] = k % 7 == 0 ? 50 + k : (k / 6 + 1) * (k % 6 + 1);
                e->link.T_j_i.t_m[axis] += 0.05;
                struct se3 *other = &g->keyframes[newer ? j : i].T_map_camera;
                static const double twist[6] = {0.03, 0.2, -0.1, 0.05, 0.1, -0.07};
                const struct se3 away = se3_exp(twist);
                *other = se3_compose(other, &away);
                const double chi2 = chi2_of(g, e);
                const uint32_t span = e->span, heir = after ? at : at - 1; // at + 1 is at then
                graph_make_room(g);
                const struct edge *given = newer ? graph_find_edge(g, g->n_edges, heir, j - 1)
                                                 : graph_find_edge(g, g->n_edges, i, heir);
                assert_non_null(given);
                assert_true(given->loop && !given->chain && given->span == span);
                assert_true(fabs(chi2_of(g, given) - chi2) < 1e-9 * chi2);
                assert_int_equal(g->n_edges, N - 1);
                graph_destroy(&g);
            }
}

// A step to the heir that errs makes the link err as much more; where the map has the two is
// nothing that was measured.
static void an_heir_has_the_errors_of_both(void **state)
{
    (void)state;
    for (uint32_t after = 0; after < 2; after++)
        for (uint32_t newer = 0; newer < 2; newer++) {
            const uint32_t at = newer ? 3 : 5, i = newer ? at : 0, j = newer ? 10 : at;
            struct graph *g = chained(at, after);
            struct edge *e = fake_edge(g, i, j, false);
            set_worth(e, 50);
            struct edge *step = graph_find_edge(g, g->n_edges, after ? at : at - 1, at + after);
            set_worth(step, 20);
            const uint32_t heir = after ? at : at - 1; // at + 1 is at then
            const struct se3 aside = fake_pose(0, 0, 0.01, 0.3);
            g->keyframes[at].T_map_camera = se3_compose(&g->keyframes[at].T_map_camera, &aside);
            struct link to = newer ? step->link : e->link, on = newer ? e->link : step->link;
            if (after == newer) { // from the heir to the one that goes, or back
                struct link *turned = newer ? &to : &on;
                const struct se3 back = se3_inverse(&turned->T_j_i);
                graph_move_link(turned, &back);
                turned->T_j_i = back;
            }
            const struct se3 T = se3_compose(&on.T_j_i, &to.T_j_i);
            double covariance[36];
            two_steps_covariance(&to, &on, covariance);
            graph_make_room(g);
            const struct edge *given = newer ? graph_find_edge(g, g->n_edges, heir, j - 1)
                                             : graph_find_edge(g, g->n_edges, i, heir);
            assert_non_null(given);
            assert_same_pose(&given->link.T_j_i, &T);
            for (int r = 0; r < 6; r++)
                for (int c = 0; c < 6; c++) {
                    double sum = 0;
                    for (int k = 0; k < 6; k++)
                        sum += given->link.information[6 * r + k] * covariance[6 * k + c];
                    assert_true(fabs(sum - (r == c)) < 1e-4);
                }
            graph_destroy(&g);
        }
}

// Where the newest keyframe is, seen from the first.
static struct se3 end_of(const struct graph *g)
{
    return se3_between(&g->keyframes[0].T_map_camera, &g->keyframes[g->n - 1].T_map_camera);
}

// A way of many steps, each of them half a centimetre off to one side, whose end saw keyframe 12
// again: it stays where that has it, whichever of those between go.
static void a_closed_loop_stays_closed(void **state)
{
    (void)state;
    struct graph *g = fake_graph(STEPS, 5);
    struct se3 T_true[STEPS];
    for (uint32_t i = 0; i < STEPS; i++) {
        const struct se3 T = fake_pose(0.1 * i, 0, 0.005 * i, 0.02 * i);
        T_true[i] = fake_pose(0.1 * i, 0, 0, 0.02 * i);
        fake_keyframe(g, &T, &T);
        if (i > 0)
            fake_edge(g, i - 1, i, true);
    }
    struct edge *loop = fake_edge(g, 12, STEPS - 1, false);
    loop->loop = true;
    loop->link.T_j_i = se3_between(&T_true[STEPS - 1], &T_true[12]);
    assert_int_equal(graph_adjust(g), 0);
    const struct se3 closed = end_of(g);
    double most_m = 0;
    while (g->n > STEPS / 3) {
        graph_make_room(g);
        assert_int_equal(graph_adjust(g), 0);
        const struct se3 now = end_of(g), moved = se3_between(&closed, &now);
        most_m = fmax(most_m, hypot(hypot(moved.t_m[0], moved.t_m[1]), moved.t_m[2]));
    }
    print_message("moved by %.2f mm at most\n", most_m * 1e3);
    assert_true(most_m < MOST_M);
    graph_destroy(&g);
}

// Across four keyframes at least, and not where there is such a link already.
static void what_is_not_inherited(void **state)
{
    (void)state;
    struct graph *g = chained(5, false);
    fake_edge(g, 1, 5, false); // three from the heir, 4
    fake_edge(g, 0, 5, false); // four
    graph_make_room(g);
    assert_null(graph_find_edge(g, g->n_edges, 1, 4));
    assert_non_null(graph_find_edge(g, g->n_edges, 0, 4));
    assert_int_equal(g->n_edges, N - 1);
    graph_destroy(&g);
    g = chained(5, false);
    fake_edge(g, 5, 10, false);
    fake_edge(g, 4, 10, false)->link.rms_m = 7;
    graph_make_room(g);
    assert_true(graph_find_edge(g, g->n_edges, 4, 9)->link.rms_m == 7);
    assert_int_equal(g->n_edges, N - 1);
    graph_destroy(&g);
}

// As long as the next two keyframes find room for theirs: eight each.
static void only_where_there_is_room(void **state)
{
    (void)state;
    for (uint32_t more = 0; more < 2; more++) {
        struct graph *g = chained(5, false);
        fake_edge(g, 5, 10, false);
        while (g->n_edges < g->enough_edges - 16 + more)
            fake_edge(g, 7, 11, false);
        const uint32_t n = g->n_edges;
        graph_make_room(g);
        assert_true(!graph_find_edge(g, g->n_edges, 4, 9) == (more == 1));
        assert_int_equal(g->n_edges, n - 1 - more);
        graph_destroy(&g);
    }
}

static void a_find_that_waits_moves_along(void **state)
{
    (void)state;
    static const uint32_t cases[5][4] = {// at, newest: before and after
                                         {2, 9, 2, 8},
                                         {4, 9, 3, 8},
                                         {3, 9, UINT32_MAX, 8},
                                         {1, 3, UINT32_MAX, 3},
                                         {1, 2, 1, 2}};
    for (int k = 0; k < 5; k++) {
        struct graph *g = chained(3, false);
        g->pending.at = cases[k][0];
        g->pending_newest = cases[k][1];
        graph_make_room(g);
        assert_int_equal(g->pending.at, cases[k][2]);
        assert_int_equal(g->pending_newest, cases[k][3]);
        graph_destroy(&g);
    }
}

// Keyframe j's camera was found by i: the edge, and of the chain before j nothing is known.
static void make_found(struct graph *g, uint32_t i, uint32_t j)
{
    g->keyframes[j].is_found = true;
    struct edge *chain = graph_find_edge(g, g->n_edges, j - 1, j);
    struct edge *e = i + 1 == j ? chain : fake_edge(g, i, j, false);
    chain->lost = chain != e;
    e->find = true;
    for (int k = 0; k < 36; k += 7)
        e->link.information[k] = 5e3;
}

// Whatever goes, what came after a loss is held by what it was found by, and of the way over the
// loss nothing is known but that.
static void what_found_a_camera_is_handed_on(void **state)
{
    (void)state;
    static const struct {
        uint32_t goes, by, found;
        bool nearer_after;
        uint32_t expected_by, expected_found;
        bool is_chain;
    } cases[] = {
        {2, 2, 9, false, 1, 8, false}, // the one that found it: the nearer
        {2, 2, 9, true, 2, 8, false},  //
        {3, 0, 3, false, 0, 3, false}, // the one that was found: the next, whichever is nearer
        {4, 1, 4, true, 1, 4, false},  //
        {2, 1, 3, false, 1, 2, true},  // the one between them
        {2, 2, 3, true, 1, 2, true},   // found by the one before
        {3, 2, 3, false, 2, 3, true},  //
        {4, 4, 6, true, 4, 5, true},   // the heir is the one before
        {4, 2, 4, false, 2, 4, false}, //
        {5, 1, 5, false, 1, 5, false},
    };
    for (uint32_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        struct graph *g = chained(cases[c].goes, cases[c].nearer_after);
        make_found(g, cases[c].by, cases[c].found);
        while (c % 2 && g->n_edges < g->enough_edges)
            fake_edge(g, 7, 11, false); // however little room there is
        graph_make_room(g);
        const uint32_t j = cases[c].expected_found;
        assert_true(g->keyframes[j].is_found);
        const struct edge *e = graph_edge_of_find(g, j);
        assert_true(e && e->i == cases[c].expected_by && e->chain == cases[c].is_chain);
        assert_true(!e->lost && e->link.information[0] > 100);
        const struct se3 T_j_i =
            se3_between(&g->keyframes[j].T_map_camera, &g->keyframes[e->i].T_map_camera);
        assert_same_pose(&e->link.T_j_i, &T_j_i);
        for (uint32_t i = 0; i + 1 < g->n; i++) {
            const struct edge *chain = graph_find_edge(g, g->n_edges, i, i + 1);
            assert_true(chain && chain->chain && chain->lost == (i + 1 == j && chain != e));
        }
        graph_destroy(&g);
    }
}

// An heir that is measured against it already has it for what it was found by.
static void a_find_may_be_there_already(void **state)
{
    (void)state;
    struct graph *g = chained(3, false);
    make_found(g, 3, 9);
    fake_edge(g, 2, 9, false)->link.rms_m = 7;
    const uint32_t n = g->n_edges;
    graph_make_room(g);
    const struct edge *e = graph_edge_of_find(g, 8);
    assert_true(e && e->i == 2 && e->link.rms_m == 7);
    assert_int_equal(g->n_edges, n - 2);
    graph_destroy(&g);
}

// What was seen between two losses stays.
static void one_alone_between_losses_stays(void **state)
{
    (void)state;
    struct graph *g = chained(3, false);
    make_found(g, 0, 3);
    make_found(g, 1, 4);
    graph_make_room(g);
    bool is_there = false;
    for (uint32_t i = 0; i < g->n; i++)
        is_there = is_there || g->keyframes[i].seq == 3;
    assert_true(is_there);
    graph_destroy(&g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_least_missed_goes),
        cmocka_unit_test(neighbours_are_chained),
        cmocka_unit_test(the_nearer_inherits_its_links),
        cmocka_unit_test(an_heir_has_the_errors_of_both),
        cmocka_unit_test(a_closed_loop_stays_closed),
        cmocka_unit_test(what_is_not_inherited),
        cmocka_unit_test(only_where_there_is_room),
        cmocka_unit_test(a_find_that_waits_moves_along),
        cmocka_unit_test(what_found_a_camera_is_handed_on),
        cmocka_unit_test(a_find_may_be_there_already),
        cmocka_unit_test(one_alone_between_losses_stays),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
