// SPDX-License-Identifier: Apache-2.0
// Keyframes of several cameras on one body in one graph: their order, where the body was, which are
// tied, and how far each camera is believed. Links are what the test says.
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "gpu/model/pose_graph_join.h"
#include "tests/unit/gpu/fake_links.h"

#define N 12u

// A camera on the body: its keyframes, which see its chain alone, and where the body was.
struct camera {
    struct graph *graph;
    struct se3 T_body_camera;
    struct se3 T_odom_body[N];
};

static struct se3 body_at(double s)
{
    return fake_pose(0.1 * s, 0.002 * s * s, 0, 0.1 * s);
}

// Its odom and its map lie as they like; each chained step is `off_m` longer along the camera's x.
static void make(struct camera *camera, const struct se3 *T_body_camera, double first_s,
                 double off_m)
{
    const struct se3 T_own_odom = fake_pose(3, -1, 2, 0.7);
    camera->graph = fake_graph(64, 5);
    camera->T_body_camera = *T_body_camera;
    struct se3 T_map_camera = fake_pose(1, 2, 3, -0.4);
    for (uint32_t i = 0; i < N; i++) {
        camera->T_odom_body[i] = body_at(first_s + i);
        const struct se3 T = se3_compose(&camera->T_odom_body[i], T_body_camera);
        const struct se3 T_odom_camera = se3_compose(&T_own_odom, &T);
        fake_keyframe(camera->graph, &T_odom_camera, &T_map_camera);
        camera->graph->keyframes[i].time_ns = llround((first_s + i) * 1e9);
        if (i == 0)
            continue;
        struct edge *e = fake_edge(camera->graph, i - 1, i, true);
        struct se3 T_i_last = e->link.T_j_i;
        T_i_last.t_m[0] -= off_m;
        e->link.T_j_i = T_i_last;
        const struct se3 step = se3_inverse(&T_i_last);
        T_map_camera = se3_compose(&camera->graph->keyframes[i - 1].T_map_camera, &step);
        camera->graph->keyframes[i].T_map_camera = T_map_camera;
    }
}

static struct graph_part part_of(const struct camera *camera, int64_t ahead_ns)
{
    return (struct graph_part){camera->graph, camera->T_body_camera, camera->T_odom_body, ahead_ns};
}

static void in_order_and_where_the_body_was(void **state)
{
    (void)state;
    const struct se3 front = se3_identity(), side = fake_pose(0.2, 0.1, -0.1, 0.5);
    struct camera a, b;
    struct graph *joined;
    struct graph_keyframe bodies[2 * N];
    make(&a, &front, 0, 0);
    make(&b, &side, 0.4, 0);
    for (uint32_t i = 0; i < N; i++) // the side's clock
        b.graph->keyframes[i].time_ns += 250000000;
    const struct graph_part parts[2] = {part_of(&a, 0), part_of(&b, 250000000)};
    b.graph->keyframes[3].is_found = true; // which is no step of the body's odometry
    const struct graph_keyframe before = b.graph->keyframes[N - 1];
    assert_int_equal(graph_join(&joined, parts, 2, &fake_quiet), 0);
    assert_int_equal(graph_bodies(joined, bodies), 2 * N);
    for (uint32_t k = 0; k < 2 * N; k++) {
        const double s = k / 2 + (k % 2 ? 0.4 : 0);
        const struct se3 T = body_at(s);
        assert_true(bodies[k].time_ns == llround(s * 1e9));
        assert_int_equal(bodies[k].seq, k / 2);
        assert_false(bodies[k].is_found);
        assert_same_pose(&bodies[k].T_odom_camera, &T);
        assert_same_pose(&bodies[k].T_map_camera, &T); // nothing errs
    }
    // Each step of both chains, and a tie of each keyframe to the other camera's beside it.
    uint32_t n_ties = 0, n_chained = 0;
    for (uint32_t k = 0; k < joined->n_edges; k++) {
        const struct edge *e = &joined->edges[k];
        const bool is_tie = e->j - e->i == 1;
        assert_true(e->chain && (is_tie || e->j - e->i == 2));
        assert_true(!is_tie || e->i % 2 == 0);
        n_ties += is_tie;
        n_chained += !is_tie;
    }
    assert_int_equal(n_ties, N);
    assert_int_equal(n_chained, 2 * (N - 1));
    const struct se3 from = body_at(N - 1), to = body_at(N - 0.6), moved = se3_between(&from, &to);
    assert_true(fabs(fake_tie_motion - link_motion(&moved)) < 1e-9);
    // The parts stay.
    graph_destroy(&joined);
    assert_memory_equal(&before, &b.graph->keyframes[N - 1], sizeof before);
    assert_int_equal(fake_id(b.graph->images[3]), 3);
    graph_destroy(&a.graph);
    graph_destroy(&b.graph);
}

// Where three keyframes of one camera stand beside one of the other's, one of them is tied.
static void ties_are_mutual(void **state)
{
    (void)state;
    const struct se3 front = se3_identity();
    struct camera a, b;
    struct graph *joined;
    make(&a, &front, 0, 0);
    make(&b, &front, 0, 0);
    a.graph->n = 2;
    a.graph->n_edges = 1;
    for (uint32_t i = 0; i < N; i++) {
        b.T_odom_body[i] = body_at(0.1 * i + 0.01);
        b.graph->keyframes[i].time_ns = 100000000 * i + 10000000;
    }
    const struct graph_part parts[2] = {part_of(&a, 0), part_of(&b, 0)};
    assert_int_equal(graph_join(&joined, parts, 2, &fake_quiet), 0);
    uint32_t n_ties = 0;
    for (uint32_t k = 0; k < joined->n_edges; k++)
        n_ties +=
            joined->body[joined->edges[k].i].camera != joined->body[joined->edges[k].j].camera;
    assert_int_equal(n_ties, 2);
    graph_destroy(&joined);
    a.graph->n = N;
    graph_destroy(&a.graph);
    graph_destroy(&b.graph);
}

// A camera that comes by again is not tied to what the other one took then.
static void ties_are_of_a_moment(void **state)
{
    (void)state;
    const struct se3 front = se3_identity();
    struct camera a, b;
    struct graph *joined;
    make(&a, &front, 0, 0);
    make(&b, &front, 0, 0);
    for (uint32_t i = 0; i < N; i++) { // the second camera begins when the first one has ended
        b.T_odom_body[i] = body_at(N - 1 - i);
        b.graph->keyframes[i].time_ns = (int64_t)(N + i) * 1000000000;
    }
    b.graph->n_edges = 0;
    b.graph->n = 1;
    const struct graph_part parts[2] = {part_of(&a, 0), part_of(&b, 0)};
    assert_int_equal(graph_join(&joined, parts, 2, &fake_quiet), 0);
    assert_int_equal(joined->n_edges, N);
    graph_destroy(&joined);
    b.graph->n = N;
    graph_destroy(&a.graph);
    graph_destroy(&b.graph);
}

// Links over `over` keyframes that lack lack_m, worth next to nothing, and of what was measured no
// more than `news`: they tell how well a camera fits.
static void add_links(struct camera *camera, uint32_t over, uint32_t n, double lack_m, double news)
{
    for (uint32_t i = 0; i < n; i++) {
        struct edge *e = fake_edge(camera->graph, i, i + over, false);
        const struct graph_keyframe *k = camera->graph->keyframes;
        e->link.T_j_i = se3_between(&k[i + over].T_map_camera, &k[i].T_map_camera);
        e->link.T_j_i.t_m[1] += i % 2 ? lack_m : -lack_m;
        e->news = news;
        for (int d = 0; d < 36; d += 7)
            e->link.information[d] = 1e-3 * news;
    }
}

// The first camera errs by nothing and the second by 1 cm a step.
static void make_two(struct camera two[2])
{
    const struct se3 place = se3_identity();
    make(&two[0], &place, 0, 0);
    make(&two[1], &place, 0, 0.01);
}

// The second's share in the length of the way.
static double joined_share(struct camera two[2])
{
    struct graph *joined;
    struct graph_keyframe bodies[2 * N];
    const struct graph_part parts[2] = {part_of(&two[0], 0), part_of(&two[1], 0)};
    assert_int_equal(graph_join(&joined, parts, 2, &fake_quiet), 0);
    graph_bodies(joined, bodies);
    const struct se3 T_0 = body_at(0), T_1 = body_at(1);
    const struct se3 wanted = se3_between(&T_0, &T_1);
    const struct se3 got = se3_between(&bodies[0].T_map_camera, &bodies[2].T_map_camera);
    const struct se3 longer = se3_between(&wanted, &got);
    graph_destroy(&joined);
    graph_destroy(&two[0].graph);
    graph_destroy(&two[1].graph);
    return link_motion(&longer) / 0.01;
}

static double share(uint32_t n_links, double lack_m, double lack_of_second_m)
{
    struct camera two[2];
    make_two(two);
    add_links(&two[0], 2, n_links, lack_m, 1);
    add_links(&two[1], 2, n_links, lack_of_second_m, 1);
    return joined_share(two);
}

static void each_is_believed_as_it_fits(void **state)
{
    (void)state;
    const double even = share(0, 0, 0), few = share(9, 0.1, 0.2), twice = share(10, 0.1, 0.2),
                 most = share(10, 0.01, 1);
    print_message("shares %.4f %.4f %.4f %.4f\n", even, few, twice, most);
    assert_true(fabs(even - 0.5) < 1e-3);
    assert_true(fabs(few - 0.5) < 1e-3); // too few links to tell
    // A fourth of the chi2; the links themselves pull a little.
    assert_true(fabs(twice - 0.2) < 3e-3);
    // At most 4 times; the mean, of the worse one's, is a half.
    assert_true(fabs(most - 0.5 / (0.5 + 4)) < 1e-3);
}

// An error that is yet in a camera's images bends its links as its chain, where the way between
// them was straight: that they agree makes it no better. Where the way was none they tell.
static void an_error_of_its_own_makes_no_camera_better(void **state)
{
    (void)state;
    struct camera two[2];
    make_two(two);
    add_links(&two[0], 2, 10, 0.1, 1);
    add_links(&two[1], 2, 10, 0.01, 0.02);
    add_links(&two[1], 3, 9, 0.01, 0.02);
    const double straight = joined_share(two);
    make_two(two);
    add_links(&two[0], 2, 10, 0.1, 1);
    add_links(&two[1], 2, 10, 0.2, 0.95);
    add_links(&two[1], 3, 9, 0.01, 0.06);
    add_links(&two[1], 4, 8, 0, 0); // nothing at all
    const double bent = joined_share(two);
    print_message("shares %.4f %.4f\n", straight, bent);
    assert_true(fabs(straight - 0.5) < 3e-3);
    assert_true(fabs(bent - 0.2) < 4e-3);
}

// Links that are wrong tell of themselves, not of the camera, up to almost half of them.
static void wrong_links_make_no_camera_worse(void **state)
{
    (void)state;
    for (uint32_t camera = 0; camera < 2; camera++) {
        struct camera two[2];
        make_two(two);
        add_links(&two[0], 2, 10, 0.1, 1);
        add_links(&two[1], 2, 10, 0.1, 1);
        add_links(&two[camera], 3, 9, 1, 1);
        for (uint32_t k = 0; k < two[camera].graph->n_edges; k++) { // which pull at nothing
            struct edge *e = &two[camera].graph->edges[k];
            for (int d = 0; d < 36 && !e->chain && e->j - e->i == 3; d += 7)
                e->link.information[d] = 0.02;
        }
        const double even = joined_share(two);
        print_message("share %.4f\n", even);
        assert_true(fabs(even - 0.5) < 0.02);
    }
}

// Whether the link from i to j of the first of two cameras, whose keyframes come in turn, stands
// beside a loop from its first to its last keyframe. every: how many came of which one was kept.
static bool is_beside(uint32_t i, uint32_t j, uint32_t every)
{
    struct camera two[2];
    struct graph *joined;
    bool beside = false;
    make_two(two);
    struct graph *g = two[0].graph;
    for (uint32_t k = 0; k < N; k++)
        g->arrival[k] = every * k;
    fake_edge(g, 0, N - 1, false)->loop = true;
    fake_edge(g, i, j, false);
    const struct graph_part parts[2] = {part_of(&two[0], 0), part_of(&two[1], 0)};
    assert_int_equal(graph_join(&joined, parts, 2, &fake_quiet), 0);
    for (uint32_t k = 0; k < joined->n_edges; k++) {
        const struct edge *e = &joined->edges[k];
        if (!e->chain && !e->loop)
            beside = e->beside_loop;
    }
    graph_destroy(&joined);
    graph_destroy(&two[0].graph);
    graph_destroy(&two[1].graph);
    return beside;
}

// How far a link stands from a loop is counted in keyframes of its camera, those that went
// included, however many other cameras there are.
static void beside_a_loop_by_its_own_keyframes(void **state)
{
    (void)state;
    assert_true(is_beside(4, 8, 1));
    assert_true(is_beside(6, 9, 1));
    assert_false(is_beside(7, 10, 1));
    assert_true(is_beside(3, 8, 2));
    assert_false(is_beside(4, 8, 2));
}

// The first `n` keyframes of a camera alone.
static void cut(struct camera *camera, uint32_t n)
{
    camera->graph->n = n;
    camera->graph->n_edges = n - 1;
}

static double off_m(const struct graph_keyframe *body, double s)
{
    const struct se3 wanted = body_at(s), off = se3_between(&wanted, &body->T_map_camera);
    return link_motion(&off);
}

// A camera that came elsewhere in its own odometry between two keyframes: the body's takes the
// chain's place, also where no other camera was there. What jumps less than a camera may drift is
// believed.
static void a_jump_is_no_chain(void **state)
{
    (void)state;
    const struct se3 place = se3_identity();
    const struct se3 from = body_at(5), to = body_at(6), step = se3_between(&from, &to);
    const double limit = 0.03 + 0.12 * link_motion(&step);
    for (uint32_t n_parts = 1; n_parts <= 2; n_parts++)
        for (int far = 0; far < 2; far++) {
            struct camera a, b;
            struct graph *joined;
            struct graph_keyframe bodies[2 * N];
            make(&a, &place, 0, 0);
            make(&b, &place, 0, 0);
            struct se3 jump = se3_identity();
            jump.t_m[2] = limit + (far ? 1e-6 : -1e-6);
            struct graph_keyframe *k = b.graph->keyframes;
            k[6].T_odom_camera = se3_compose(&k[6].T_odom_camera, &jump);
            k[6].T_map_camera = se3_compose(&k[6].T_map_camera, &jump);
            b.graph->edges[5].link.T_j_i = se3_between(&k[6].T_odom_camera, &k[5].T_odom_camera);
            cut(&b, 7);
            cut(&a, 5);
            const struct graph_part parts[2] = {part_of(&b, 0), part_of(&a, 0)};
            assert_int_equal(graph_join(&joined, parts, n_parts, &fake_quiet), 0);
            const uint32_t n = graph_bodies(joined, bodies);
            assert_int_equal(n, n_parts == 1 ? 7 : 12);
            assert_true(far == (off_m(&bodies[n - 1], 6) < 1e-6));
            graph_destroy(&joined);
            cut(&a, N);
            cut(&b, N);
            graph_destroy(&a.graph);
            graph_destroy(&b.graph);
        }
}

// Over keyframes that went a camera and the body drift apart by the way that was walked, however
// near to each other its ends stand: that is no jump. What jumps farther is worth the steps of that
// way, and no short one.
static void a_detour_is_no_jump(void **state)
{
    (void)state;
    const struct se3 place = se3_identity();
    for (int far = 0; far < 2; far++) {
        struct camera a;
        struct graph *joined;
        make(&a, &place, 0, 0);
        struct graph_keyframe *k = a.graph->keyframes;
        struct se3 apart = se3_identity();
        apart.t_m[2] = 0.03 + 0.12 * 5 + (far ? 1e-6 : -1e-6);
        for (uint32_t i = 6; i < N; i++)
            k[i].walked = k[5].walked + 5;
        k[6].T_odom_camera = se3_compose(&k[6].T_odom_camera, &apart);
        struct edge *chain = &a.graph->edges[5];
        chain->link.T_j_i = se3_between(&k[6].T_odom_camera, &k[5].T_odom_camera);
        chain->span = 9;
        cut(&a, 7);
        const double worth = chain->link.information[0];
        fake_detour_tells = true;
        const struct graph_part part = part_of(&a, 0);
        assert_int_equal(graph_join(&joined, &part, 1, &fake_quiet), 0);
        const struct edge *e = graph_find_edge(joined, joined->n_edges, 5, 6);
        const double detour = far ? 5 / link_motion(&e->link.T_j_i) : 1;
        const struct se3 by_body = se3_between(&a.T_odom_body[6], &a.T_odom_body[5]);
        assert_same_pose(&e->link.T_j_i, far ? &by_body : &chain->link.T_j_i);
        assert_true(fabs(e->link.information[0] * detour * detour / worth - 1) < 1e-9);
        assert_true(!far || fake_chain_steps == 9);
        graph_destroy(&joined);
        cut(&a, N);
        graph_destroy(&a.graph);
    }
}

// A camera that was lost and found by a keyframe, the one before the loss or an older one, is where
// that was measured, however far the body's odometry has drifted since and its own one jumps.
static void a_find_is_kept(void **state)
{
    (void)state;
    const struct se3 place = se3_identity();
    for (uint32_t n_parts = 1; n_parts <= 2; n_parts++)
        for (int by_last = 0; by_last < 2; by_last++) {
            struct camera a, b;
            struct graph *joined;
            struct graph_keyframe bodies[2 * N];
            make(&a, &place, 0, 0);
            make(&b, &place, 0, 0);
            struct graph_keyframe *k = b.graph->keyframes;
            const struct se3 measured =
                se3_between(&k[6].T_map_camera, &k[by_last ? 5 : 2].T_map_camera);
            k[6].T_odom_camera.t_m[1] += 1;
            b.T_odom_body[6].t_m[2] += 0.5;
            cut(&b, 7);
            cut(&a, 5);
            struct edge *chain = &b.graph->edges[5];
            chain->lost = !by_last;
            for (int d = 0; d < 36 && !by_last; d += 7)
                chain->link.information[d] = 1e-4;
            struct edge *find = by_last ? chain : fake_edge(b.graph, 2, 6, false);
            find->find = true;
            find->link.T_j_i = measured;
            const struct graph_part parts[2] = {part_of(&b, 0), part_of(&a, 0)};
            assert_int_equal(graph_join(&joined, parts, n_parts, &fake_quiet), 0);
            const uint32_t n = graph_bodies(joined, bodies);
            assert_int_equal(n, n_parts == 1 ? 7 : 12);
            assert_true(off_m(&bodies[n - 1], 6) < 1e-6);
            graph_destroy(&joined);
            cut(&a, N);
            b.graph->n = N;
            graph_destroy(&a.graph);
            graph_destroy(&b.graph);
        }
}

// Three cameras, the first of which saw the end alone: the others are tied to each other, and where
// the third errs by 1 cm a step no keyframe of it stands beside its neighbours by more than that.
static void cameras_are_tied_without_the_first(void **state)
{
    (void)state;
    const struct se3 front = se3_identity(), side = fake_pose(0.2, 0.1, -0.1, 0.5);
    struct camera a, b, c;
    struct graph *joined;
    struct graph_keyframe bodies[3 * N];
    make(&a, &front, N - 2, 0);
    make(&b, &side, 0, 0);
    make(&c, &front, 0.4, 0.01);
    cut(&a, 2);
    const struct graph_part parts[3] = {part_of(&a, 0), part_of(&b, 0), part_of(&c, 0)};
    assert_int_equal(graph_join(&joined, parts, 3, &fake_quiet), 0);
    const uint32_t n = graph_bodies(joined, bodies);
    assert_int_equal(n, 2 * N + 2);
    for (uint32_t k = 1; k < n; k++) {
        const double s = (double)bodies[k].time_ns * 1e-9,
                     last_s = (double)bodies[k - 1].time_ns * 1e-9;
        const struct se3 to = body_at(s), from = body_at(last_s);
        const struct se3 wanted = se3_between(&from, &to);
        const struct se3 got = se3_between(&bodies[k - 1].T_map_camera, &bodies[k].T_map_camera);
        const struct se3 off = se3_between(&wanted, &got);
        assert_true(link_motion(&off) < 0.01);
    }
    graph_destroy(&joined);
    cut(&a, N);
    graph_destroy(&a.graph);
    graph_destroy(&b.graph);
    graph_destroy(&c.graph);
}

// What no keyframe stands beside is tied once, to the nearest.
static void nothing_beside_is_tied_once(void **state)
{
    (void)state;
    const struct se3 place = se3_identity();
    struct camera a, b;
    struct graph *joined;
    make(&a, &place, 0, 0);
    make(&b, &place, 13, 0);
    const struct graph_part parts[2] = {part_of(&a, 0), part_of(&b, 0)};
    assert_int_equal(graph_join(&joined, parts, 2, &fake_quiet), 0);
    assert_int_equal(joined->n_edges, 2 * (N - 1) + 1);
    assert_non_null(graph_find_edge(joined, joined->n_edges, N - 1, N));
    graph_destroy(&joined);
    graph_destroy(&a.graph);
    graph_destroy(&b.graph);
}

static void what_cannot_be_joined(void **state)
{
    (void)state;
    const struct se3 place = se3_identity();
    struct camera a, b;
    struct graph *joined;
    make(&a, &place, 0, 0);
    make(&b, &place, 0, 0);
    struct graph_part parts[2] = {part_of(&a, 0), part_of(&b, 0)};
    b.graph->n = GRAPH_MOST_KEYFRAMES - N + 1;
    assert_int_equal(graph_join(&joined, parts, 2, &fake_quiet), -E2BIG);
    assert_null(joined);
    a.graph->n = b.graph->n = 0;
    assert_int_equal(graph_join(&joined, parts, 2, &fake_quiet), -ENODATA);
    // One camera that has keyframes: as it is, wherever its map lies.
    a.graph->n = N;
    struct graph_keyframe bodies[N];
    assert_int_equal(graph_join(&joined, parts, 2, &fake_quiet), 0);
    assert_int_equal(graph_bodies(joined, bodies), N);
    for (uint32_t k = 0; k < N; k++)
        assert_same_pose(&bodies[k].T_map_camera, &a.T_odom_body[k]);
    graph_destroy(&joined);
    b.graph->n = N;
    graph_destroy(&a.graph);
    graph_destroy(&b.graph);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(in_order_and_where_the_body_was),
        cmocka_unit_test(ties_are_mutual),
        cmocka_unit_test(ties_are_of_a_moment),
        cmocka_unit_test(each_is_believed_as_it_fits),
        cmocka_unit_test(an_error_of_its_own_makes_no_camera_better),
        cmocka_unit_test(wrong_links_make_no_camera_worse),
        cmocka_unit_test(beside_a_loop_by_its_own_keyframes),
        cmocka_unit_test(a_jump_is_no_chain),
        cmocka_unit_test(a_detour_is_no_jump),
        cmocka_unit_test(a_find_is_kept),
        cmocka_unit_test(cameras_are_tied_without_the_first),
        cmocka_unit_test(nothing_beside_is_tied_once),
        cmocka_unit_test(what_cannot_be_joined),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
