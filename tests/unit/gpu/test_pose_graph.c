// SPDX-License-Identifier: Apache-2.0
// Poses of keyframes on a line, adjusted to links that pull at them: where they come to lie by the
// weights as they are said to be, which loops are taken out again, and what a graph takes over from
// its copy.
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "gpu/model/keyframe_eviction.h"
#include "tests/unit/gpu/fake_links.h"

#define INSIDE  0.996
#define OUTSIDE 1.004

static double pulled_m, pull_worth; // what a link says more than the chain does, and its worth

static void set_worth(struct link *link, double worth)
{
    memset(link->information, 0, sizeof link->information);
    for (int i = 0; i < 36; i += 7)
        link->information[i] = worth;
}

static void pull(uint32_t image, uint32_t other, struct link *inout)
{
    (void)image;
    (void)other;
    inout->T_j_i.t_m[0] -= pulled_m; // the newest stands farther on
    set_worth(inout, pull_worth);
}

static void add(struct graph *g, double x_m)
{
    const float z_m[FAKE_PX] = {(float)g->n_ever};
    const struct se3 T = fake_pose(x_m, 0, 0, 0);
    assert_int_equal(graph_add(g, g->n_ever, 0, z_m, &T), 0);
}

static double newest_m(const struct graph *g)
{
    return g->keyframes[g->n - 1].T_map_camera.t_m[0];
}

// So many steps of 5 cm on such a detour that the link from the first to the newest is all news.
static double pulled(uint32_t n_steps)
{
    struct graph *g = fake_graph(64, 5);
    for (int i = 0; i < FAKE_KEYFRAMES; i++)
        fake_overlaps[i] = 0;
    for (uint32_t i = 0; i < n_steps; i++)
        add(g, 0.05 * i);
    fake_overlaps[0] = 1;
    fake_measure = pull;
    g->keyframes[0].walked = -1e9;
    add(g, 0.05 * n_steps);
    assert_int_equal(fake_n_asked, 1);
    assert_true(fabs(g->keyframes[n_steps].walked - 0.05 * n_steps) < 1e-12);
    const double moved_m = newest_m(g) - 0.05 * n_steps;
    for (uint32_t i = 0; i <= n_steps; i++) { // each step its part
        const double at_m = g->keyframes[i].T_map_camera.t_m[0] - 0.05 * i;
        assert_true(fabs(at_m - moved_m * i / n_steps) < 1e-4 * pulled_m);
    }
    const struct se3 T = graph_T_map_odom(g);
    assert_true(fabs(T.t_m[0] - moved_m) < 1e-12);
    graph_destroy(&g);
    return moved_m;
}

// Four steps under a pull that is cut, four under Geman and McClure's, each from where the one
// before led. A link across more than 16 keyframes counts more.
static double expected_m(uint32_t n_steps)
{
    const double chain = 1e4 / n_steps, longer = fmax(1, n_steps / 16.0);
    double x_m = 0;
    for (int step = 0; step < 8; step++) {
        const double chi2 = pull_worth * (pulled_m - x_m) * (pulled_m - x_m);
        const double loose = 12.6 / (12.6 + chi2), cut = fmin(1, sqrt(12.6 / chi2));
        const double pull = pull_worth * longer * (step < 4 ? cut : loose * loose);
        x_m = pull * pulled_m / (pull + chain);
    }
    return x_m;
}

static void links_pull_as_their_weights_say(void **state)
{
    (void)state;
    static const uint32_t n_steps[] = {3, 15, 16, 17, 24};
    static const double off_m[] = {0.01, 0.05, 0.1, 0.2}, worth[] = {300, 3000, 30000};
    for (int i = 0; i < 5; i++)
        for (int k = 0; k < 4; k++)
            for (int w = 0; w < 3; w++) {
                pulled_m = off_m[k];
                pull_worth = worth[w];
                assert_true(fabs(pulled(n_steps[i]) - expected_m(n_steps[i])) < 1e-5 * off_m[k]);
            }
}

// Twelve steps of half a metre, each but the last `detour` times as long as walked, over as many
// keyframes that went; the newest two find themselves off_m farther on, seen from the first.
// Returns whether the loop stays, and where the newest lies then.
static bool loop_stays_over(uint32_t detour, double off_m, double worth, double *out_moved_m)
{
    struct graph *g = fake_graph(64, 5);
    fake_detour_tells = true;
    for (int i = 0; i < FAKE_KEYFRAMES; i++)
        fake_overlaps[i] = 0;
    for (uint32_t i = 0; i <= 12; i++) {
        fake_is_found = i >= 11;
        fake_agrees = true;
        fake_revisit = (struct revisit){.at = 0};
        fake_revisit.link.T_j_i = fake_pose(-0.5 * i - off_m * i / 12, 0, 0, 0);
        set_worth(&fake_revisit.link, i == 11 ? 1e-9 : worth);
        for (uint32_t k = 0; k + 1 < i; k++)
            graph_find_edge(g, g->n_edges, k, k + 1)->span = detour;
        add(g, 0.5 * i);
        g->keyframes[i].walked = 0.5 * detour * i;
    }
    uint32_t n = 0;
    for (uint32_t k = 0; k < g->n_edges; k++) {
        n += g->edges[k].loop;
        assert_false(g->edges[k].fresh);
    }
    assert_true(n == 0 || n == 2);
    *out_moved_m = newest_m(g) - 6;
    graph_destroy(&g);
    return n == 2;
}

static bool loop_stays(double off_m, double worth, double *out_moved_m)
{
    return loop_stays_over(1, off_m, worth, out_moved_m);
}

// Three sigmas of two degrees of freedom a step: what is surer of itself than the chain bends it
// as far as that.
static void a_loop_may_strain_the_chain(void **state)
{
    (void)state;
    const double limit_m = 12 * sqrt(18 / 1e4);
    double moved_m;
    for (int side = -1; side <= 1; side += 2) {
        assert_true(loop_stays(side * INSIDE * limit_m, 1e12, &moved_m));
        assert_true(fabs(moved_m - side * INSIDE * limit_m) < 1e-6);
        assert_false(loop_stays(side * OUTSIDE * limit_m, 1e12, &moved_m));
        assert_true(fabs(moved_m) < 1e-6); // as it was
    }
}

// A chain over keyframes that went errs as the way that was walked, however near its ends stand to
// each other. Each is bent alike here, and the last one went straight.
static void over_detours_it_may_be_strained_more(void **state)
{
    (void)state;
    for (uint32_t detour = 2; detour <= 4; detour++) {
        const double limit_m = 12 * sqrt(18 / 1e4 * 12 / (11.0 / (detour * detour) + 1));
        double moved_m;
        assert_true(loop_stays_over(detour, INSIDE * limit_m, 1e12, &moved_m));
        assert_true(fabs(moved_m - INSIDE * limit_m) < 1e-6);
        assert_false(loop_stays_over(detour, OUTSIDE * limit_m, 1e12, &moved_m));
    }
}

// What the loop's link says against the poses in the end: it counts as many times as it spans
// keyframes, and less in the last four steps.
static double loop_chi2(double off_m, double worth)
{
    const double chain = 1e4 / 12;
    double x_m = 0;
    for (int step = 0; step < 8; step++) {
        const double chi2 = worth * (off_m - x_m) * (off_m - x_m), loose = 12.6 / (12.6 + chi2);
        const double pull = worth * 12 * (step < 4 ? 1 : loose * loose);
        x_m = pull * off_m / (pull + chain);
    }
    return worth * (off_m - x_m) * (off_m - x_m);
}

// Where the chain does not follow it by more than five sigmas, it is a wrong one.
static void a_loop_that_does_not_close_is_wrong(void **state)
{
    (void)state;
    const double worth = 20;
    double low_m = 0, high_m = 2, moved_m;
    while (high_m - low_m > 1e-9) {
        const double middle_m = (low_m + high_m) / 2;
        if (loop_chi2(middle_m, worth) < 25)
            low_m = middle_m;
        else
            high_m = middle_m;
    }
    assert_true(loop_stays(INSIDE * low_m, worth, &moved_m));
    assert_true(moved_m > 0.02);
    assert_false(loop_stays(OUTSIDE * low_m, worth, &moved_m));
    assert_true(fabs(moved_m) < 1e-6);
}

// Weights of the eight steps: a loop's, and an ordinary link's, of what they say.
static double loop_weight(int step, double chi2)
{
    const double loose = 12.6 / (12.6 + chi2);
    return step < 4 ? 1 : loose * loose;
}

static double link_weight(int step, double chi2)
{
    return step < 4 ? fmin(1, sqrt(12.6 / chi2)) : loop_weight(step, chi2);
}

// Twelve steps of 5 cm, of which the last is off_m[0] farther on by a loop's link; n_after steps
// beyond, of which the last is off_m[1] farther on by an ordinary link to the first. Where the
// newest should be moved to: beside the loop that link counts as many times as it spans keyframes
// from the fifth step on if it agrees with where the first four have led.
static double moved_beside_loop(const double off_m[2], double worth, uint32_t n_after, bool beside)
{
    const double usual = fmax(1, (12 + n_after) / 16.0);
    const double chain = 1e4 / 12, rest = 1e4 / n_after;
    double at[2] = {0, 0};
    for (int step = 0; step < 8; step++) { // the loop alone
        const double pull =
            12 * worth * loop_weight(step, worth * (off_m[0] - at[0]) * (off_m[0] - at[0]));
        at[0] = pull * off_m[0] / (pull + chain);
    }
    at[1] = at[0];
    for (int step = 0; step < 8; step++) {
        const double lack[2] = {off_m[0] - at[0], off_m[1] - at[1]};
        const double loop = 12 * worth * loop_weight(step, worth * lack[0] * lack[0]);
        beside = beside && (step != 4 || worth * lack[1] * lack[1] <= 12.6);
        const double times = beside && step >= 4 ? 12 + n_after : usual;
        const double link = times * worth * link_weight(step, worth * lack[1] * lack[1]);
        const double a = chain + rest + loop, b = -rest, d = rest + link; // a b; b d
        const double right[2] = {loop * off_m[0], link * off_m[1]};
        at[0] = (d * right[0] - b * right[1]) / (a * d - b * b);
        at[1] = (a * right[1] - b * right[0]) / (a * d - b * b);
    }
    return at[1];
}

// Where the camera has come back, a link within six keyframes of the loop's counts as that one
// does, once for each keyframe that it spans, and beyond once for each sixteen. A wrong one counts
// no more than it does anywhere, and is left out.
static void a_link_beside_a_loop_counts_as_one(void **state)
{
    (void)state;
    static const uint32_t n_after[] = {1, 6, 7};
    static const double off_m[][2] = {{0.03, 0.01}, {0.03, 0.3}};
    for (int k = 0; k < 6; k++) {
        const double *off = off_m[k / 3];
        const uint32_t after = n_after[k % 3], newest = 12 + after;
        struct graph *g = fake_graph(64, 5);
        for (int i = 0; i < FAKE_KEYFRAMES; i++)
            fake_overlaps[i] = 0;
        for (uint32_t i = 0; i < newest; i++) {
            fake_is_found = i == 11 || i == 12;
            fake_agrees = true;
            fake_revisit = (struct revisit){.at = 0};
            fake_revisit.link.rms_m = 0.002;
            fake_revisit.link.T_j_i = fake_pose(-0.05 * i - off[0] * i / 12, 0, 0, 0);
            set_worth(&fake_revisit.link, i == 11 ? 1e-9 : 3000);
            add(g, 0.05 * i);
        }
        const double before_m = newest_m(g) - 0.05 * (newest - 1);
        fake_is_found = false;
        fake_overlaps[0] = 1;
        fake_measure = pull;
        pulled_m = off[1] - before_m; // of where it is thought to be
        pull_worth = 3000;
        g->keyframes[0].walked = -1e9;
        add(g, 0.05 * newest);
        assert_int_equal(fake_n_asked, 1);
        const double expected_m = moved_beside_loop(off, 3000, after, after <= 6);
        const double moved_m = newest_m(g) - 0.05 * newest;
        assert_true(fabs(moved_m - expected_m) < 1e-6);
        assert_true(k < 3 || fabs(moved_m - off[0]) < 0.002);
        graph_destroy(&g);
    }
}

// Equations without a solution leave the poses as they are, and take a loop out.
static void what_cannot_be_solved_changes_nothing(void **state)
{
    (void)state;
    struct graph *g = fake_graph(8, 5);
    for (int i = 0; i < FAKE_KEYFRAMES; i++)
        fake_overlaps[i] = 0;
    add(g, 0);
    fake_chain_worth = -1;
    add(g, 0.3);
    assert_int_equal(g->n, 2);
    assert_true(newest_m(g) == 0.3);
    fake_is_found = fake_agrees = true;
    fake_revisit = (struct revisit){.at = 0};
    add(g, 0.5);
    add(g, 0.6);
    assert_int_equal(g->n_edges, 3);
    assert_true(newest_m(g) == 0.6);
    graph_destroy(&g);
}

static void too_little_depth_is_left_out(void **state)
{
    (void)state;
    const float none[FAKE_PX] = {-1};
    const struct se3 T = fake_pose(9, 0, 0, 0);
    struct graph *g = fake_graph(4, 5);
    for (int i = 0; i < 6; i++) {
        add(g, 0.1 * i);
        assert_int_equal(graph_add(g, 99, 0, none, &T), 0);
        assert_int_equal(g->n, i < 4 ? i + 1 : 4);
    }
    assert_int_equal(g->n_ever, 6);
    graph_clear(g);
    assert_true(g->n == 0 && g->n_ever == 0 && g->n_edges == 0);
    graph_destroy(&g);
}

// Six keyframes, and a copy of the first five, whose poses another adjustment has moved by 1 m and
// whose links it has measured anew.
static struct graph *six(struct graph **out_copy)
{
    struct graph *g = fake_graph(32, 5);
    for (uint32_t i = 0; i < 6; i++) {
        const struct se3 T = fake_pose(0.1 * i, 0, 0.01 * i * i, 0.05 * i);
        fake_keyframe(g, &T, &T);
        if (i > 0)
            fake_edge(g, i - 1, i, true);
        if (i == 3)
            fake_edge(g, 0, 3, false);
        if (i == 4) {
            g->pending.at = 1;
            assert_int_equal(graph_copy(out_copy, g, NULL), 0);
        }
    }
    struct graph *copy = *out_copy;
    assert_true(copy->n == 5 && copy->n_edges == 5 && copy->n_ever == 5);
    for (uint32_t i = 0; i < 5; i++) {
        assert_true(copy->z_m[i][0] == (float)i && copy->z_m[i][5] == (float)(i + 5));
        copy->keyframes[i].T_map_camera.t_m[1] = 1 + i;
        copy->keyframes[i].n_links = 10 + i;
    }
    for (uint32_t k = 0; k < copy->n_edges; k++)
        copy->edges[k].link.rms_m = 7;
    return g;
}

static void what_a_copy_found_is_taken_over(void **state)
{
    (void)state;
    struct graph *copy, *g = six(&copy);
    struct edge *last = fake_edge(g, 0, 5, false); // in whatever order they stand
    const struct edge first = g->edges[0];
    g->edges[0] = *last;
    *last = first;
    fake_edge(copy, 1, 3, false);
    const struct se3 T5 = g->keyframes[5].T_odom_camera;
    const struct se3 step = se3_between(&g->keyframes[4].T_odom_camera, &T5);
    assert_int_equal(graph_take(g, copy), 0);
    for (uint32_t i = 0; i < 5; i++) {
        assert_true(g->keyframes[i].T_map_camera.t_m[1] == 1 + i);
        assert_int_equal(g->keyframes[i].n_links, 10 + i);
    }
    // The others follow as they were tracked.
    const struct se3 newest = se3_compose(&g->keyframes[4].T_map_camera, &step);
    assert_same_pose(&g->keyframes[5].T_map_camera, &newest);
    const struct se3 T_map_odom = graph_T_map_odom(g), T = se3_compose(&T_map_odom, &T5);
    assert_same_pose(&T, &newest);
    assert_int_equal(g->pending.at, UINT32_MAX);
    // Of what both know the copy's edges, and the others'.
    assert_int_equal(g->n_edges, 8);
    for (uint32_t i = 0; i < 5; i++) {
        const struct edge *e = graph_find_edge(g, g->n_edges, i, i + 1);
        assert_true(e->chain && e->link.rms_m == (i < 4 ? 7 : 0.002));
    }
    assert_true(graph_find_edge(g, g->n_edges, 0, 3)->link.rms_m == 7);
    assert_non_null(graph_find_edge(g, g->n_edges, 0, 5));
    assert_non_null(graph_find_edge(g, g->n_edges, 1, 3));
    graph_destroy(&copy);
    graph_destroy(&g);
}

// A keyframe that has gone here and is known there: its neighbours stay chained, as they were
// measured there, if they were, without the camera's own error, and agree with it; else as here.
static void a_keyframe_has_gone_meanwhile(void **state)
{
    (void)state;
    enum { UNMEASURED, MEASURED, UNMENDED, DISAGREES, N_CASES };
    for (int how = UNMEASURED; how < N_CASES; how++) {
        struct graph *copy, *g = six(&copy);
        struct edge *other = how == UNMEASURED ? NULL : fake_edge(copy, 1, 3, false);
        if (other) {
            copy->settings.is_mended = how != UNMENDED;
            other->link.rms_m = 8;
            other->link.T_j_i =
                se3_between(&copy->keyframes[3].T_map_camera, &copy->keyframes[1].T_map_camera);
            other->link.T_j_i.t_m[0] += how == DISAGREES ? 0.036 : 0.035; // 12.96, 12.25 of 12.6
        }
        // As eviction leaves it: 2 goes, 1 and 3 are chained.
        for (uint32_t k = 0; k < g->n_edges; k++) {
            struct edge *e = &g->edges[k];
            if (e->j == 2)
                e->j = 3;
            else if (e->i == 2)
                *e = g->edges[--g->n_edges], k--;
        }
        for (uint32_t k = 0; k < g->n_edges; k++) {
            g->edges[k].i -= g->edges[k].i > 2;
            g->edges[k].j -= g->edges[k].j > 2;
        }
        align_image_destroy(&g->images[2]);
        free(g->z_m[2]);
        g->n--;
        for (uint32_t i = 2; i < 5; i++) {
            g->images[i] = g->images[i + 1];
            g->z_m[i] = g->z_m[i + 1];
            g->keyframes[i] = g->keyframes[i + 1];
            g->arrival[i] = g->arrival[i + 1];
        }
        assert_int_equal(graph_take(g, copy), 0);
        const double y_m[4] = {1, 2, 4, 5};
        for (uint32_t i = 0; i < 4; i++)
            assert_true(g->keyframes[i].T_map_camera.t_m[1] == y_m[i]);
        const struct edge *e = graph_find_edge(g, g->n_edges, 1, 2);
        assert_true(e->chain && e->link.rms_m == (how == MEASURED ? 8 : 0.002));
        assert_true(graph_find_edge(g, g->n_edges, 0, 2)->link.rms_m == 7);
        assert_true(graph_find_edge(g, g->n_edges, 2, 3)->link.rms_m == 7);
        assert_int_equal(g->n_edges, 5);
        graph_destroy(&copy);
        graph_destroy(&g);
    }
}

// A link that was taken over here meanwhile holds what it held; one that was measured there no
// longer goes.
static void what_was_taken_over_meanwhile_stays(void **state)
{
    (void)state;
    struct graph *copy, *g = six(&copy);
    fake_edge(g, 1, 4, false)->inherited = true;
    fake_edge(g, 0, 4, false);
    assert_int_equal(graph_take(g, copy), 0);
    assert_non_null(graph_find_edge(g, g->n_edges, 1, 4));
    assert_null(graph_find_edge(g, g->n_edges, 0, 4));
    graph_destroy(&copy);
    graph_destroy(&g);
}

// The keyframe that a camera was found by goes meanwhile. Its heir is the one before the loss, of
// which the copy knows that nothing is known, or another one, to which that has a link.
static void a_find_that_was_handed_on_meanwhile_stays(void **state)
{
    (void)state;
    for (uint32_t j = 3; j < 5; j++) {
        const double x_m[6] = {0, 0.09, 0.1, 0.2, 0.3, 0.4};
        struct graph *copy, *g = fake_graph(32, 5);
        for (uint32_t i = 0; i < 6; i++) {
            const struct se3 T = fake_pose(x_m[i], 0, 0, 0);
            fake_keyframe(g, &T, &T);
            if (i > 0)
                fake_edge(g, i - 1, i, true)->lost = i == j;
        }
        g->keyframes[j].is_found = true;
        if (j == 4)
            fake_edge(g, 2, j, false);
        struct edge *found = fake_edge(g, 1, j, false);
        found->find = true;
        found->link.rms_m = 0.003;
        assert_int_equal(graph_copy(&copy, g, NULL), 0);
        for (uint32_t k = 0; k < copy->n_edges; k++)
            copy->edges[k].link.rms_m = 7;
        graph_make_room(g);
        assert_int_equal(g->keyframes[1].seq, 2);
        assert_int_equal(graph_take(g, copy), 0);
        const struct edge *find = graph_edge_of_find(g, j - 1);
        assert_true(find && find->i == 1 && !find->lost);
        assert_true(find->chain == (j == 3) && find->link.rms_m == (j == 3 ? 0.003 : 7));
        uint32_t n = 0;
        for (uint32_t k = 0; k < g->n_edges; k++)
            n += g->edges[k].i == 1 && g->edges[k].j == j - 1;
        assert_int_equal(n, 1);
        for (uint32_t i = 0; i + 1 < g->n; i++)
            assert_true(graph_find_edge(g, g->n_edges, i, i + 1)->chain);
        graph_destroy(&copy);
        graph_destroy(&g);
    }
}

// A keyframe that came meanwhile and was lost before goes with the one that its camera was found
// by, not with the one before it, and what holds it is not taken away.
static void a_find_meanwhile_goes_with_what_found_it(void **state)
{
    (void)state;
    for (int both = 0; both < 2; both++) {
        struct graph *copy, *g = six(&copy);
        const uint32_t j = both ? 4 : 5; // 4 is known to both, but not that it was found by 1
        fake_edge(g, 1, j, false)->find = true;
        g->keyframes[j].is_found = true;
        const struct se3 T_j_i =
            se3_between(&g->keyframes[j].T_odom_camera, &g->keyframes[1].T_odom_camera);
        assert_int_equal(graph_take(g, copy), 0);
        const struct edge *find = graph_edge_of_find(g, j);
        assert_true(find && find->i == 1);
        assert_same_pose(&find->link.T_j_i, &T_j_i);
        const struct se3 T =
            se3_between(&g->keyframes[j].T_map_camera, &g->keyframes[1].T_map_camera);
        if (!both)
            assert_same_pose(&T, &T_j_i);
        else
            assert_true(g->keyframes[4].T_map_camera.t_m[1] == 5);
        graph_destroy(&copy);
        graph_destroy(&g);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(links_pull_as_their_weights_say),
        cmocka_unit_test(a_loop_may_strain_the_chain),
        cmocka_unit_test(over_detours_it_may_be_strained_more),
        cmocka_unit_test(a_loop_that_does_not_close_is_wrong),
        cmocka_unit_test(a_link_beside_a_loop_counts_as_one),
        cmocka_unit_test(what_cannot_be_solved_changes_nothing),
        cmocka_unit_test(too_little_depth_is_left_out),
        cmocka_unit_test(a_find_meanwhile_goes_with_what_found_it),
        cmocka_unit_test(a_find_that_was_handed_on_meanwhile_stays),
        cmocka_unit_test(what_a_copy_found_is_taken_over),
        cmocka_unit_test(a_keyframe_has_gone_meanwhile),
        cmocka_unit_test(what_was_taken_over_meanwhile_stays),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
