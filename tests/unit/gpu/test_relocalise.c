// SPDX-License-Identifier: Apache-2.0
// What makes a place believed where a lost camera is looked for: each limit from both sides.
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/unit/gpu/fake_views.h"

// Whether a start is good enough for its place to be seen from there.
static bool begins(void)
{
    find();
    return n_views > 1;
}

static bool begins_with(int n_known, int n_agree)
{
    reset();
    views[0].n_known = n_known;
    views[0].n_agree = n_agree;
    return begins();
}

static void a_start_is_worth_a_look(void **state)
{
    (void)state;
    assert_true(begins_with(400, 300)); // 0.75 agree
    assert_false(begins_with(400, 299));
    assert_true(begins_with(80, 80)); // 0.2 known
    assert_false(begins_with(79, 79));
    assert_false(begins_with(0, 0));
    reset();
    answers[0].solvable = false;
    assert_false(begins());
    // At half the resolution; what is looked at closely is not.
    reset();
    find();
    assert_int_equal(fake_n_calls, 2);
    assert_true(fake_calls[0].settings.early_stop);
    assert_int_equal(fake_calls[0].settings.iterations[0], 0);
    assert_memory_equal(&fake_calls[1].settings, &align, sizeof align);
}

static enum relocalise_trust trust_with(int n_known, int n_agree)
{
    views[1].n_known = n_known;
    views[1].n_agree = n_agree;
    return find();
}

static void what_agrees_is_believed(void **state)
{
    (void)state;
    reset();
    assert_int_equal(trust_with(400, 380), RELOCALISE_SURE); // 0.95 agree
    assert_int_equal(trust_with(400, 379), RELOCALISE_FAIR);
    assert_int_equal(trust_with(300, 300), RELOCALISE_SURE); // 0.75 known
    assert_int_equal(trust_with(299, 299), RELOCALISE_FAIR);
    assert_int_equal(trust_with(400, 368), RELOCALISE_FAIR); // 0.92 agree
    assert_int_equal(trust_with(400, 367), RELOCALISE_NOT_FOUND);
    assert_int_equal(trust_with(180, 180), RELOCALISE_FAIR); // 0.45 known
    assert_int_equal(trust_with(179, 179), RELOCALISE_NOT_FOUND);
    assert_int_equal(trust_with(0, 0), RELOCALISE_NOT_FOUND);
}

static enum relocalise_trust trust_of_share(double share)
{
    reset();
    answers[1].information[0] = 1000 * share;
    return find();
}

static void every_direction_is_held(void **state)
{
    (void)state;
    assert_int_equal(trust_of_share(OUTSIDE * 0.0024), RELOCALISE_SURE);
    assert_int_equal(trust_of_share(INSIDE * 0.0024), RELOCALISE_FAIR);
    assert_int_equal(trust_of_share(OUTSIDE * 0.001), RELOCALISE_FAIR);
    assert_int_equal(trust_of_share(INSIDE * 0.001), RELOCALISE_NOT_FOUND);
}

static void the_residual_is_the_sensors(void **state)
{
    (void)state;
    static const double rms_m[] = {INSIDE * 0.0036, OUTSIDE * 0.0036, NAN};
    for (int i = 0; i < 3; i++) {
        reset();
        answers[1].residual_rms_m = rms_m[i];
        assert_int_equal(find(), i == 0 ? RELOCALISE_SURE : RELOCALISE_NOT_FOUND);
    }
}

// A tenth of the pixels of the finest level that is aligned.
static void there_is_depth(void **state)
{
    (void)state;
    const struct gpu_align_settings whole = align;
    for (uint32_t level = 0; level < 2; level++) {
        const uint32_t width = 4 * WIDTH >> level, height = 4 * HEIGHT >> level;
        const uint32_t tenth = (width * height + 9) / 10;
        for (uint32_t less = 0; less < 2; less++) {
            relocalise_destroy(&relocaliser);
            align.iterations[0] = level == 0 ? whole.iterations[0] : 0;
            fake_n_frames = 0;
            assert_int_equal(relocalise_create(&relocaliser, &fake_device, &align), 0);
            reset();
            answers[1].n_valid_px = tenth - less;
            assert_int_equal(find(), less ? RELOCALISE_NOT_FOUND : RELOCALISE_SURE);
        }
    }
    relocalise_destroy(&relocaliser);
    align = whole;
    fake_n_frames = 0;
    assert_int_equal(relocalise_create(&relocaliser, &fake_device, &align), 0);
}

// Aligned again from where it came to lie, until that changes nothing, three times at most.
static void a_place_settles(void **state)
{
    (void)state;
    reset();
    answers[1].T_reference_frame = moved(INSIDE * 0.02, 0);
    assert_int_equal(find(), RELOCALISE_SURE);
    assert_int_equal(fake_n_calls, 2);
    answers[1].T_reference_frame = moved(0, INSIDE * 0.01);
    assert_int_equal(find(), RELOCALISE_SURE);
    assert_int_equal(fake_n_calls, 2);
    answers[1].T_reference_frame = moved(0, OUTSIDE * 0.01);
    assert_int_equal(find(), RELOCALISE_SURE);
    assert_int_equal(fake_n_calls, 3);
    answers[1].T_reference_frame = moved(OUTSIDE * 0.02, 0);
    assert_int_equal(find(), RELOCALISE_SURE);
    assert_int_equal(fake_n_calls, 3);
    answers[2].T_reference_frame = moved(OUTSIDE * 0.02, 0);
    assert_int_equal(find(), RELOCALISE_SURE);
    assert_int_equal(fake_n_calls, 4);
    const struct se3 place = moved(1, 0.2), step = moved(2 * OUTSIDE * 0.02, 0);
    const struct se3 expected = se3_compose(&place, &step);
    assert_at(&T_found, expected.t_m[0]);
    assert_true(fabs(T_found.t_m[2] - expected.t_m[2]) < 1e-9);
    assert_at(&seen_from[3], expected.t_m[0]);
    answers[3].T_reference_frame = moved(OUTSIDE * 0.02, 0);
    assert_int_equal(find(), RELOCALISE_NOT_FOUND);
    assert_int_equal(fake_n_calls, 4);
    // The steps may be larger than those of a tracked frame.
    reset();
    answers[1].converged = false;
    answers[1].T_reference_frame = moved(OUTSIDE * 0.02, 0);
    assert_int_equal(find(), RELOCALISE_SURE);
    assert_int_equal(fake_n_calls, 3);
    reset();
    answers[1].solvable = false;
    answers[2].solvable = answers[3].solvable = false;
    assert_int_equal(find(), RELOCALISE_NOT_FOUND);
}

// Depths agree within 3 cm, and 3 % of them.
static void depths_agree_within_what_sensors_err(void **state)
{
    (void)state;
    static const float z_m[] = {0.5f, 0.98f, 1.02f, 2};
    static float view_m[N_PX];
    for (int k = 0; k < 4; k++)
        for (int side = -1; side <= 1; side += 2)
            for (int outside = 0; outside < 2; outside++) {
                const double gate_m = fmax(0.03, 0.03 * (double)z_m[k]);
                const double off_m = side * gate_m * (outside ? OUTSIDE : INSIDE);
                reset();
                frame_m = z_m[k];
                for (int i = 0; i < N_PX; i++)
                    view_m[i] = (float)((double)z_m[k] + off_m);
                views[0].z_m = view_m;
                assert_true(begins() == !outside);
            }
}

// A pixel lies on the surface where its neighbours' depths are on either side of it; what has none,
// or is farther, does not count.
static void edges_lie_between_pixels(void **state)
{
    (void)state;
    static float view_m[N_PX];
    for (int k = 0; k < 10; k++) {
        reset();
        views[0].z_m = view_m;
        for (int i = 0; i < N_PX; i++) {
            const int x = i % WIDTH % PITCH - 2, y = i / WIDTH % PITCH - 2; // in a patch
            const bool beside = abs(x) <= 1 && abs(y) <= 1;
            view_m[i] = beside ? 1.5f : k < 8 ? 0 : 2;
            if (k < 8 && beside && (x != 0 || y != 0))
                view_m[i] = 3 * (y + 1) + x + 1 - (y > 0 || (y == 0 && x > 0)) == k ? 2 : 0;
            if (k == 9)
                view_m[i] = x == 0 && y == 0 ? 2.2f : 0;
        }
        assert_true(begins() == (k < 8));
    }
}

static int line; // of pixels with a normal

static bool on_column(int u, int v)
{
    (void)v;
    return u == line;
}

static bool on_row(int u, int v)
{
    (void)u;
    return v == line;
}

static void the_image_has_a_border(void **state)
{
    (void)state;
    static float view_m[N_PX];
    for (int i = 0; i < N_PX; i++)
        view_m[i] = 2;
    for (int row = 0; row < 2; row++)
        for (int side = 0; side < 4; side++) {
            const int n = row ? HEIGHT : WIDTH;
            reset();
            line = side < 2 ? side : n - side + 1; // 0, 1, n - 1, n - 2
            has_normal = row ? on_row : on_column;
            views[0].z_m = view_m;
            assert_true(begins() == (side % 2 == 1));
        }
}

// A pixel of the frame falls where the alignment puts it; as few as count are shown, at those
// pixels alone.
static void pixels_fall_where_they_should(void **state)
{
    (void)state;
    static const double twists[3][6] = {
        {0.1, -0.07, 0, 0, 0, 0.02}, {0, 0, -0.4, 0.03, 0, 0}, {0.05, 0.06, 0.3, 0, -0.05, 0.01}};
    static float view_m[N_PX];
    for (int k = 0; k < 3; k++) {
        const struct se3 T = se3_exp(twists[k]);
        int n = 0;
        reset();
        answers[0].T_reference_frame = T;
        memset(view_m, 0, sizeof view_m);
        for (int i = 0; i < N_PX && n < 80; i++) {
            const int cell = i / WIDTH / PITCH * (WIDTH / PITCH) + i % WIDTH / PITCH;
            const double p[3] = {(i % WIDTH - cx) / fx * 2, (i / WIDTH - cy) / fy * 2, 2};
            double q[3];
            if (!on_grid(i % WIDTH, i / WIDTH) || cell % 3 != 1)
                continue;
            se3_apply(&T, p, q);
            const double x = q[0] / q[2] * fx + cx, y = q[1] / q[2] * fy + cy;
            const long u = lround(x), v = lround(y);
            if (u < 1 || v < 1 || u > WIDTH - 2 || v > HEIGHT - 2)
                continue;
            view_m[v * WIDTH + u] = (float)q[2];
            n++;
        }
        views[0].z_m = view_m;
        assert_int_equal(n, 80);
        assert_true(begins());
        for (int i = N_PX - 1; n == 80; i--) // one less
            if (view_m[i] > 0) {
                view_m[i] = 0;
                n--;
            }
        assert_false(begins());
    }
}

// Two starts that lead to one place are one, and what explains more is kept of them.
static void starts_of_one_place_are_one(void **state)
{
    (void)state;
    static float view_m[N_PX];
    for (int turns = 0; turns < 2; turns++)
        for (int outside = 0; outside < 2; outside++) {
            const double apart = 0.15 * (outside ? OUTSIDE : INSIDE);
            reset();
            n_starts = 2;
            starts[1] = se3_identity();
            if (turns) { // about the optical axis
                const double twist[6] = {0, 0, 0, 0, 0, apart};
                starts[1] = se3_exp(twist);
            } else {
                starts[1].t_m[0] = apart;
            }
            for (int i = 0; i < N_PX; i++)
                view_m[i] = 2;
            views[0].z_m = view_m;
            find();
            assert_int_equal(n_views, outside ? 3 : 2);
        }
    for (int first = 0; first < 2; first++) {
        reset();
        n_starts = 2;
        starts[first].t_m[2] = 0.1;
        frame_m = 8;
        for (int i = 0; i < N_PX; i++)
            view_m[i] = i % WIDTH < 90 ? 8 : 8.3f;
        views[0].z_m = view_m;
        find();
        const struct se3 place = moved(1, 0.2), expected = se3_compose(&place, &starts[first]);
        assert_int_equal(n_views, 2);
        assert_at(&seen_from[1], expected.t_m[0]);
    }
}

// Two places of one keyframe's view, the better of which explains 0.95: the other may explain less
// than nine tenths of that. In either order the better one is meant.
static void another_place_makes_it_doubtful(void **state)
{
    (void)state;
    static float view_m[N_PX];
    for (int i = 0; i < N_PX; i++)
        view_m[i] = 2;
    for (int first = 0; first < 2; first++)
        for (int n = 341; n <= 343; n += 2) {
            reset();
            n_starts = 2;
            starts[1].t_m[0] = 0.3;
            views[0].z_m = view_m;
            views[1 + first].n_known = views[1 + first].n_agree = n;
            views[2 - first].n_known = views[2 - first].n_agree = 380;
            find();
            assert_int_equal(n_views, 3);
            assert_int_equal(trust, n == 341 ? RELOCALISE_SURE : RELOCALISE_NOT_FOUND);
            const struct se3 place = moved(1, 0.2);
            const struct se3 better = se3_compose(&place, &starts[first ? 0 : 1]);
            assert_at(&T_found, better.t_m[0]);
        }
    // Known and agreeing multiply: 0.95 of 0.95.
    reset();
    n_starts = 2;
    starts[1].t_m[0] = 0.3;
    views[0].z_m = view_m;
    views[2].n_known = 380;
    views[2].n_agree = 361;
    assert_int_equal(find(), RELOCALISE_NOT_FOUND); // 0.9025
    views[2].n_agree = 359;
    assert_int_equal(find(), RELOCALISE_SURE);
    // What is not believed is no other place, however much it explains.
    views[1].n_known = views[1].n_agree = 380;
    views[2].n_known = views[2].n_agree = 400;
    answers[3].residual_rms_m = 1;
    assert_int_equal(find(), RELOCALISE_SURE);
    assert_at(&T_found, 1);
}

// From another keyframe, which is tried where its view is another one: the same place, or not.
static void another_keyframe_may_lead_elsewhere(void **state)
{
    (void)state;
    for (int turns = 0; turns < 2; turns++)
        for (int outside = 0; outside < 2; outside++) {
            const double apart = 0.3 * (outside ? OUTSIDE : INSIDE);
            const struct se3 T[2] = {moved(0, 0), turns ? moved(0, apart) : moved(apart, 0)};
            reset();
            keyframes_at(T, NULL, 2);
            find();
            assert_int_equal(n_views, outside ? 4 : 2);
            assert_int_equal(trust, outside ? RELOCALISE_NOT_FOUND : RELOCALISE_SURE);
        }
    for (int turns = 0; turns < 2; turns++)
        for (int outside = 0; outside < 2; outside++) {
            const double apart = 0.15 * (outside ? OUTSIDE : INSIDE);
            const struct se3 T[2] = {moved(0, 0), turns ? moved(0, 0.4) : moved(0.4, 0)};
            const struct se3 there = turns ? moved(0, apart) : moved(apart, 0);
            static float straight_m[N_PX], turned_m[N_PX];
            for (int i = 0; i < N_PX; i++) {
                straight_m[i] = 2;
                turned_m[i] = (float)(2 * cos(0.25)); // of the middle column
            }
            reset();
            keyframes_at(T, NULL, 2);
            has_normal = turns ? on_column : on_grid;
            line = (int)cx;
            views[1].z_m = views[3].z_m = straight_m;
            views[2].z_m = turns ? turned_m : straight_m;
            answers[2].T_reference_frame = se3_between(&T[1], &there);
            find();
            assert_int_equal(n_views, 4);
            assert_int_equal(trust, outside ? RELOCALISE_NOT_FOUND : RELOCALISE_SURE);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_start_is_worth_a_look),
        cmocka_unit_test(what_agrees_is_believed),
        cmocka_unit_test(every_direction_is_held),
        cmocka_unit_test(the_residual_is_the_sensors),
        cmocka_unit_test(there_is_depth),
        cmocka_unit_test(a_place_settles),
        cmocka_unit_test(depths_agree_within_what_sensors_err),
        cmocka_unit_test(edges_lie_between_pixels),
        cmocka_unit_test(the_image_has_a_border),
        cmocka_unit_test(pixels_fall_where_they_should),
        cmocka_unit_test(starts_of_one_place_are_one),
        cmocka_unit_test(another_place_makes_it_doubtful),
        cmocka_unit_test(another_keyframe_may_lead_elsewhere),
    };
    return cmocka_run_group_tests(tests, load, unload);
}
