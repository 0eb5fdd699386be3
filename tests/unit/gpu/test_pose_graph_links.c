// SPDX-License-Identifier: Apache-2.0
// Which keyframes a new one is measured against, how far it is thought to be off, which old places
// are looked at again, and when a loop is closed: each limit from both sides.
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/unit/gpu/fake_links.h"

#define INSIDE  0.996
#define OUTSIDE 1.004

// Keyframes at x_m of odom, chained but for the newest; the map has them twice as far apart.
static struct graph *row(const double *x_m, uint32_t n, uint32_t max_links)
{
    struct graph *g = fake_graph(64, max_links);
    for (uint32_t i = 0; i < n; i++) {
        const struct se3 T_odom = fake_pose(x_m[i], 0, 0, 0),
                         T_map = fake_pose(2 * x_m[i], 0, 0, 0);
        fake_keyframe(g, &T_odom, &T_map);
        if (i > 0 && i + 1 < n)
            fake_edge(g, i - 1, i, true);
    }
    return g;
}

static void the_nearest_of_each_age(void **state)
{
    (void)state;
    static const double x_m[10] = {.0, .25, .1, .3, .35, .4, .05, .15, .45, .2};
    static const uint32_t expected[5] = {0, 1, 3, 4, 7};
    struct graph *g = row(x_m, 10, 5);
    assert_int_equal(graph_link_newest(g), 0);
    assert_int_equal(fake_n_asked, 5);
    assert_int_equal(fake_overlap_image, 9);
    double way[10] = {0};
    for (int i = 8; i >= 0; i--)
        way[i] = way[i + 1] + fabs(x_m[i + 1] - x_m[i]);
    for (uint32_t k = 0; k < 5; k++) {
        const uint32_t i = expected[k];
        const struct se3 T_j_i = fake_pose(2 * (x_m[i] - x_m[9]), 0, 0, 0);
        const struct se3 T_i_j = fake_pose(2 * (x_m[9] - x_m[i]), 0, 0, 0);
        assert_int_equal(fake_asked[k].other, i);
        assert_int_equal(fake_asked[k].image, 9);
        assert_same_pose(&fake_asked[k].link.T_j_i, &T_j_i);
        assert_true(fabs(fake_asked[k].link.doubt_m - 0.06 * way[i]) < 1e-12);
        assert_true(fabs(fake_overlap_doubt_m[i] - 0.06 * way[i]) < 1e-12);
        assert_same_pose(&fake_overlap_T[i], &T_i_j);
    }
    // The chain, as tracked, and the links.
    assert_int_equal(g->n_edges, 8 + 1 + 5);
    const struct edge *chain = graph_find_edge(g, g->n_edges, 8, 9);
    const struct se3 step = fake_pose(x_m[8] - x_m[9], 0, 0, 0);
    assert_true(chain && chain->chain && chain->span == 1 && !chain->loop);
    assert_same_pose(&chain->link.T_j_i, &step);
    const struct edge *link = graph_find_edge(g, g->n_edges, 1, 9);
    assert_true(link && !link->chain && !link->loop && !link->fresh && link->span == 8);
    assert_int_equal(g->keyframes[9].n_links, 5);
    graph_destroy(&g);
}

static bool is_linked(uint32_t i)
{
    for (uint32_t k = 0; k < fake_n_asked; k++)
        if (fake_asked[k].other == i)
            return true;
    return false;
}

static void nothing_bad(uint32_t image, uint32_t other, struct link *inout)
{
    (void)image;
    inout->good = other != 1;
}

static void enough_of_the_same_surface(void **state)
{
    (void)state;
    static const double x_m[4] = {0, 0.1, 0.2, 0.3};
    struct graph *g = row(x_m, 4, 5);
    fake_overlaps[0] = INSIDE * 0.4;
    fake_overlaps[1] = OUTSIDE * 0.4;
    fake_measure = nothing_bad;
    assert_int_equal(graph_link_newest(g), 0);
    assert_int_equal(fake_n_asked, 1);
    assert_true(is_linked(1));
    assert_null(graph_find_edge(g, g->n_edges, 1, 3)); // it was no good
    assert_int_equal(g->keyframes[3].n_links, 0);
    graph_destroy(&g);
}

static double measured_overlap;

static void overlaps_so(uint32_t image, uint32_t other, struct link *inout)
{
    (void)image;
    (void)other;
    inout->overlap = measured_overlap;
}

// Who took the camera's own error out of the images.
enum mended { NOBODY, GRAPH, GIVER, N_MENDED };

// The worth of the link from keyframe i to the newest, of what was measured; NAN: there is none.
static double worth_of(struct graph *g, uint32_t i, double overlap, enum mended mended)
{
    const float none[FAKE_PX] = {0};
    if (mended == GRAPH)
        assert_int_equal(graph_set_field(g, none), 0);
    g->settings.is_mended = mended == GIVER;
    measured_overlap = overlap;
    fake_measure = overlaps_so;
    assert_int_equal(graph_link_newest(g), 0);
    const struct edge *e = graph_find_edge(g, g->n_edges, i, g->n - 1);
    const double worth = e ? e->link.information[0] / 1e4 : NAN;
    for (int c = 7; e && c < 36; c += 7)
        assert_true(e->link.information[c] == e->link.information[0]);
    graph_destroy(&g);
    return worth;
}

// Where the chain went straight a link errs as it does, and tells as much less as the way was no
// detour, also where keyframes went meanwhile. Without the camera's own error it tells all.
static void what_the_chain_says_is_no_news(void **state)
{
    (void)state;
    static const double straight[4] = {0, 0.2, 0.4, 0.6}, back[5] = {0, 0.4, 0.8, 0.5, 0.2};
    static const double over[4] = {0, 0.4, 0.5, 0.2};
    for (enum mended mended = NOBODY; mended < N_MENDED; mended++) {
        // In the map, as far as the links say, all is twice as far.
        assert_true(worth_of(row(straight, 4, 5), 0, 1, mended) == (mended != NOBODY));
        double detour = 1 - 0.4 / 1.4, expected = mended != NOBODY ? 1 : detour * detour;
        assert_true(fabs(worth_of(row(back, 5, 5), 0, 1, mended) - expected) < 1e-12);
        struct graph *g = row(over, 4, 5);
        for (int k = 2; k < 4; k++)
            g->keyframes[k].walked += 0.6; // over one at 0.8
        assert_true(fabs(worth_of(g, 0, 1, mended) - expected) < 1e-12);
    }
}

static void the_rims_alone_are_no_link(void **state)
{
    (void)state;
    static const double back[5] = {0, 0.4, 0.8, 0.5, 0.2};
    assert_true(isnan(worth_of(row(back, 5, 5), 0, INSIDE * 0.4, NOBODY)));
    assert_true(worth_of(row(back, 5, 5), 0, OUTSIDE * 0.4, NOBODY) > 0);
    assert_true(worth_of(row(back, 5, 5), 0, INSIDE * 0.4, GRAPH) == 1);
    assert_true(worth_of(row(back, 5, 5), 0, INSIDE * 0.4, GIVER) == 1);
}

// Up to 0.2 m of doubt a keyframe is linked; beyond, it is a place to look at again.
static void what_is_in_doubt_is_no_link(void **state)
{
    (void)state;
    for (int outside = 0; outside < 2; outside++) {
        const double way = 0.2 / 0.06 * (outside ? OUTSIDE : INSIDE);
        const double x_m[5] = {0, 0.001, way / 2, 0.05, 0.05};
        struct graph *g = row(x_m, 5, 5);
        struct edge *e = &g->edges[2]; // from 2 to 3, the way back
        e->link.T_j_i.t_m[0] = way - way / 2;
        g->edges[0].link.T_j_i.t_m[0] = 0;
        g->edges[1].link.T_j_i.t_m[0] = way / 2;
        assert_int_equal(graph_link_newest(g), 0);
        assert_true(is_linked(0) == !outside);
        assert_true(is_linked(1) == !outside);
        graph_destroy(&g);
    }
}

// The shortest way over chain and links; a link adds 2 cm to its motion.
static void a_link_is_a_short_cut(void **state)
{
    (void)state;
    static const double x_m[6] = {0, 1, 2, 1, 0.3, 0.4};
    struct graph *g = row(x_m, 6, 5);
    fake_edge(g, 1, 3, false)->link.T_j_i = fake_pose(0.1, 0, 0, 0.05);
    fake_edge(g, 0, 2, false);
    assert_int_equal(graph_link_newest(g), 0);
    static const double way[5] = {1.97, 0.97, 1.8, 0.8, 0.1};
    // 1: 0.8 + 0.1 + 0.05 + 0.02; 0: a step of 1 more.
    for (int i = 0; i < 5; i++)
        assert_true(fabs(g->way[i] - way[i]) < 1e-12);
    assert_true(g->way[5] == 0);
    graph_destroy(&g);
}

// Within what doubt a link was sought is nothing that it says, also where a camera's find is handed
// on to it: the way over it is that of any link.
static void what_was_measured_is_in_no_doubt(void **state)
{
    (void)state;
    static const double x_m[6] = {0, 0.5, 1, 1.5, 2, 2.1};
    struct graph *g = row(x_m, 6, 5);
    g->n = 5;
    g->n_edges = 3;
    for (int i = 0; i < FAKE_KEYFRAMES; i++)
        fake_overlaps[i] = i == 1 ? 0.9 : 0;
    assert_int_equal(graph_link_newest(g), 0);
    assert_true(fabs(fake_asked[0].link.doubt_m - 0.06 * 1.5) < 1e-12);
    graph_find_edge(g, g->n_edges, 1, 4)->find = true;
    graph_find_edge(g, g->n_edges, 3, 4)->lost = true;
    g->n = 6;
    assert_int_equal(graph_link_newest(g), 0);
    const double motion = 0.1 + link_motion(&graph_find_edge(g, g->n_edges, 1, 4)->link.T_j_i);
    assert_true(fabs(g->way[1] - motion - 0.02) < 1e-12);
    graph_destroy(&g);
}

// Over keyframes that went the chain's way is as it was walked, however near its ends stand to each
// other: what lies behind a long one is in doubt.
static void a_detour_is_walked(void **state)
{
    (void)state;
    static const double x_m[5] = {0, 0.1, 0.2, 0.3, 0.4};
    for (int went = 0; went < 2; went++) {
        struct graph *g = row(x_m, 5, 5);
        g->edges[1].span = went ? 9 : 1; // from 1 to 2
        for (uint32_t i = 2; i < 5; i++)
            g->keyframes[i].walked += went ? 5 : 0;
        assert_int_equal(graph_link_newest(g), 0);
        for (uint32_t i = 0; i < 5; i++)
            assert_true(fabs(g->way[i] - 0.1 * (4 - i) - (went && i < 2 ? 5 : 0)) < 1e-12);
        assert_true(is_linked(2) && is_linked(1) == !went && is_linked(0) == !went);
        graph_destroy(&g);
    }
}

static void the_usual_residual(void **state)
{
    (void)state;
    static const double x_m[8] = {0, .01, .02, .03, .04, .05, .06, .07};
    struct graph *g = row(x_m, 8, 5);
    for (int i = 0; i < 8; i++)
        fake_overlaps[i] = 0;
    assert_int_equal(graph_link_newest(g), 0);
    assert_true(fake_usual_rms_m == 0 && fake_n_places == 0); // none yet: nothing is looked at
    g->n_edges--;
    fake_edge(g, 0, 3, false)->link.rms_m = 0.002;
    fake_edge(g, 1, 3, false)->link.rms_m = 0.005;
    fake_edge(g, 1, 5, false)->link.rms_m = 0.1; // too far apart
    assert_int_equal(graph_link_newest(g), 0);
    assert_true(fabs(fake_usual_rms_m - 0.0035) < 1e-12);
    g->edges[g->n_edges - 3].link.rms_m = g->edges[g->n_edges - 4].link.rms_m = 0.0005;
    g->n_edges--;
    assert_int_equal(graph_link_newest(g), 0);
    assert_true(fabs(fake_usual_rms_m - 0.001) < 1e-12);
    graph_destroy(&g);
}

// Eight keyframes, of which the first four are a long way off and the newest stands at T_map of the
// first. Their links among each other tell the usual residual.
static struct graph *come_back(const struct se3 *T_newest, double way, uint32_t n_old)
{
    struct graph *g = fake_graph(64, 5);
    for (uint32_t i = 0; i <= n_old + 1; i++) {
        const struct se3 T_odom = fake_pose(i > n_old ? way : i == n_old ? way - 0.01 : 0, 0, 0, 0);
        const struct se3 T_map = fake_pose(0.01 * i, 0, 0, 0);
        fake_keyframe(g, &T_odom, i > n_old ? T_newest : &T_map);
        if (i > 0 && i <= n_old)
            fake_edge(g, i - 1, i, true);
    }
    fake_edge(g, 0, 1, false)->link.T_j_i.t_m[0] = 9;
    return g;
}

// So many old places are looked at where the first old one is x_m and turn_rad from the newest.
static uint32_t places_at(double x_m, double turn_rad, double way)
{
    const struct se3 T = fake_pose(x_m, 0, 0, turn_rad);
    struct graph *g = come_back(&T, way, 1);
    assert_int_equal(graph_link_newest(g), 0);
    graph_destroy(&g);
    return fake_n_places;
}

// 0.3 m and 0.4 rad, and as much as the newest may be off.
static void old_places_in_reach(void **state)
{
    (void)state;
    for (double way = 4; way < 9; way += 3) {
        const double doubt = 0.06 * way;
        assert_int_equal(places_at(INSIDE * (0.3 + doubt), 0, way), 1);
        assert_int_equal(places_at(OUTSIDE * (0.3 + doubt), 0, way), 0);
        assert_int_equal(places_at(0, INSIDE * (0.4 + doubt), way), 1);
        assert_int_equal(places_at(0, OUTSIDE * (0.4 + doubt), way), 0);
        assert_int_equal(places_at(INSIDE * (0.3 + doubt), INSIDE * (0.4 + doubt), way), 1);
    }
    assert_int_equal(places_at(0, 0, OUTSIDE * 0.2 / 0.06), 1);
    assert_int_equal(places_at(0, 0, INSIDE * 0.2 / 0.06), 0); // near: a link
}

// The nearest first, four at most, none within three keyframes of one that is taken.
static void places_stand_apart(void **state)
{
    (void)state;
    const struct se3 T = fake_pose(0.052, 0, 0, 0);
    static const uint32_t expected[4] = {5, 8, 2, 12};
    struct graph *g = come_back(&T, 6, 20);
    g->keyframes[11].T_map_camera = fake_pose(0.2, 0, 0, 0);
    assert_int_equal(graph_link_newest(g), 0);
    assert_int_equal(fake_n_places, 4);
    for (int k = 0; k < 4; k++) {
        const struct revisit_place *place = &fake_places[k];
        assert_int_equal(place->at, expected[k]);
        assert_int_equal(fake_id(place->image), place->at);
        assert_same_pose(&place->T_map_camera, &g->keyframes[place->at].T_map_camera);
        assert_true(fabs(place->doubt_m - 0.06 * 6) < 1e-9 && place->doubt_rad == place->doubt_m);
    }
    graph_destroy(&g);
}

// One more keyframe, a step on, which finds itself at the first.
static void go_on(struct graph *g, bool found, bool agrees)
{
    const struct se3 last = g->keyframes[g->n - 1].T_odom_camera, by = fake_pose(0.02, 0, 0, 0.1);
    const struct se3 T_odom = se3_compose(&last, &by);
    fake_keyframe(g, &T_odom, &g->keyframes[g->n - 1].T_map_camera);
    fake_is_found = found;
    fake_agrees = agrees;
    fake_revisit = (struct revisit){.at = g->n % 2, .T_map_camera = fake_pose(0, 0, g->n, 0.2)};
    fake_revisit.link.T_j_i = fake_pose(0, 0, g->n, 0);
    assert_int_equal(graph_link_newest(g), 0);
}

static uint32_t n_loops(const struct graph *g)
{
    uint32_t n = 0;
    for (uint32_t k = 0; k < g->n_edges; k++)
        n += g->edges[k].loop;
    return n;
}

static void two_finds_close_a_loop(void **state)
{
    (void)state;
    const struct se3 T = fake_pose(0, 0, 0, 0);
    struct graph *g = come_back(&T, 6, 4); // newest is 5
    go_on(g, false, true);                 // 6
    go_on(g, true, true);                  // 7: nothing to agree with
    assert_int_equal(n_loops(g), 0);
    assert_int_equal(g->pending.at, 0);
    assert_int_equal(g->pending_newest, 7);
    go_on(g, false, true);
    go_on(g, false, true);
    go_on(g, false, true);
    go_on(g, true, true); // 11: within four
    assert_int_equal(n_loops(g), 2);
    const struct edge *first = graph_find_edge(g, g->n_edges, 0, 7);
    const struct edge *second = graph_find_edge(g, g->n_edges, 0, 11);
    assert_true(first && first->loop && first->fresh && !first->chain && first->span == 7);
    assert_true(second && second->loop && second->fresh && second->span == 11);
    assert_true(first->link.T_j_i.t_m[2] == 8 && second->link.T_j_i.t_m[2] == 12);
    assert_int_equal(g->pending.at, UINT32_MAX);
    // What was compared: the first find moved on as the tracker went.
    const struct se3 find = fake_pose(0, 0, 8, 0.2);
    const struct se3 step =
        se3_between(&g->keyframes[7].T_odom_camera, &g->keyframes[11].T_odom_camera);
    const struct se3 expected = se3_compose(&find, &step);
    assert_same_pose(&fake_agree_T[0], &expected);
    assert_true(fake_agree_T[1].t_m[2] == 12);
    assert_true(fabs(fake_agree_motion - link_motion(&step)) < 1e-12);
    graph_destroy(&g);
}

static void a_find_alone_is_forgotten(void **state)
{
    (void)state;
    const struct se3 T = fake_pose(0, 0, 0, 0);
    struct graph *g = come_back(&T, 6, 4);
    go_on(g, true, true); // 6
    for (int k = 0; k < 4; k++)
        go_on(g, false, true);
    assert_int_equal(g->pending_newest, 6);
    go_on(g, true, true); // 11: too late, and the first of a new pair
    assert_int_equal(n_loops(g), 0);
    assert_int_equal(g->pending_newest, 11);
    go_on(g, true, false); // they do not agree: the newer one stays
    assert_int_equal(n_loops(g), 0);
    assert_int_equal(g->pending_newest, 12);
    go_on(g, true, true);
    assert_int_equal(n_loops(g), 2);
    graph_destroy(&g);
}

// Of the room for edges one place is kept for the next chain.
static void there_is_always_room_for_the_chain(void **state)
{
    (void)state;
    static const double x_m[4] = {0, 0.1, 0.2, 0.3};
    for (uint32_t left = 2; left <= 3; left++) {
        struct graph *g = row(x_m, 4, 5);
        while (g->n_edges + left < g->max_edges)
            fake_edge(g, 0, 1, true);
        const uint32_t n = g->n_edges;
        assert_int_equal(graph_link_newest(g), 0);
        assert_int_equal(fake_n_asked, 2);
        assert_int_equal(g->n_edges, n + left - 1);
        assert_int_equal(g->keyframes[3].n_links, left - 2);
        graph_destroy(&g);
    }
}

static bool measured_well;

static void as_measured(uint32_t image, uint32_t other, struct link *inout)
{
    assert_true(image == 3 && other == 2);
    inout->T_j_i = fake_pose(7, 0, 0, 0);
    inout->good = measured_well;
}

// Where the camera's own error is known a keyframe is chained as measured, if it can be.
static void the_chain_is_measured_without_that_error(void **state)
{
    (void)state;
    static const double x_m[4] = {0, 0.1, 0.2, 0.3};
    const struct se3 T_j_i = fake_pose(-0.2, 0, 0, 0); // as the map has it
    for (int well = 0; well < 3; well++) {
        struct graph *g = row(x_m, 4, 1);
        const float none[FAKE_PX] = {0};
        if (well < 2)
            assert_int_equal(graph_set_field(g, none), 0);
        for (int i = 0; i < 4; i++)
            fake_overlaps[i] = 0;
        fake_measure = as_measured;
        measured_well = well == 1;
        assert_int_equal(graph_link_newest(g), 0);
        assert_int_equal(fake_n_asked, well < 2);
        if (well < 2)
            assert_same_pose(&fake_asked[0].link.T_j_i, &T_j_i);
        const struct edge *chain = graph_find_edge(g, g->n_edges, 2, 3);
        assert_true(fabs(chain->link.T_j_i.t_m[0] - (well == 1 ? 7 : -0.1)) < 1e-12);
        assert_true(chain->chain);
        graph_destroy(&g);
    }
}

// Where nothing is in doubt any more: from all ages, however long the way.
static void linked_again_without_doubt(void **state)
{
    (void)state;
    static const double x_m[4] = {0, 9, 0.2, 0.3};
    struct graph *g = row(x_m, 4, 5);
    g->keyframes[3].n_links = 3;
    assert_int_equal(graph_link_again(g), 0);
    assert_int_equal(fake_n_asked, 2);
    assert_true(is_linked(0) && is_linked(1));
    assert_true(fake_asked[0].link.doubt_m == 0);
    assert_int_equal(g->keyframes[3].n_links, 2);
    assert_int_equal(fake_n_revisits, 0);
    graph_destroy(&g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_nearest_of_each_age),
        cmocka_unit_test(enough_of_the_same_surface),
        cmocka_unit_test(what_the_chain_says_is_no_news),
        cmocka_unit_test(the_rims_alone_are_no_link),
        cmocka_unit_test(what_is_in_doubt_is_no_link),
        cmocka_unit_test(a_link_is_a_short_cut),
        cmocka_unit_test(what_was_measured_is_in_no_doubt),
        cmocka_unit_test(a_detour_is_walked),
        cmocka_unit_test(the_usual_residual),
        cmocka_unit_test(old_places_in_reach),
        cmocka_unit_test(places_stand_apart),
        cmocka_unit_test(two_finds_close_a_loop),
        cmocka_unit_test(a_find_alone_is_forgotten),
        cmocka_unit_test(there_is_always_room_for_the_chain),
        cmocka_unit_test(the_chain_is_measured_without_that_error),
        cmocka_unit_test(linked_again_without_doubt),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
