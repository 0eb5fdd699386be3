// SPDX-License-Identifier: Apache-2.0
// From where an old place is measured, and what makes it believed: each limit from both sides, with
// links that are what the test says.
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "gpu/model/loop_closure.h"
#include "proto/se3.h"

#define INSIDE  0.996
#define OUTSIDE 1.004

static struct align_image newest, old[REVISIT_PLACES + 1];
static struct revisit_place places[REVISIT_PLACES + 1];
static uint32_t n_places, n_asked;
static struct link asked[LINK_MAX], answers[LINK_MAX]; // answers: T_j_i as seen from T_newest
static const struct align_image *asked_of[LINK_MAX];
static const struct align_image *conflict_with;
static struct se3 T_newest, T_conflict;
static double conflict, usual_rms_m;
static struct revisit found;

static struct se3 moved(double x_m, double y_m, double turn_rad)
{
    const double turn[6] = {0, 0, 0, 0, turn_rad, 0};
    struct se3 T = se3_exp(turn);
    T.t_m[0] = x_m;
    T.t_m[1] = y_m;
    return T;
}

int link_measure(struct link_maker *maker, const struct align_image *image,
                 const struct align_image *const *others, uint32_t n, struct link *inout)
{
    (void)maker;
    assert_true(image == &newest && n <= LINK_MAX);
    n_asked = n;
    for (uint32_t k = 0; k < n; k++) {
        const struct revisit_place *place = &places[k / REVISIT_STARTS];
        asked[k] = inout[k];
        asked_of[k] = others[k];
        inout[k] = answers[k];
        // The newest stands where the answer says, seen from where it is thought to be.
        const struct se3 T_map = se3_compose(&T_newest, &answers[k].T_j_i);
        inout[k].T_j_i = se3_between(&T_map, &place->T_map_camera);
    }
    return 0;
}

double link_conflict(const struct align_image *image, const struct align_image *other,
                     const struct se3 *T_other_image)
{
    assert_true(image == &newest);
    conflict_with = other;
    T_conflict = *T_other_image;
    return conflict;
}

// One place; two of its four starts lead to where the newest is thought to be.
static void reset(void)
{
    T_newest = moved(0.3, -0.2, 0.4);
    for (uint32_t i = 0; i <= REVISIT_PLACES; i++)
        places[i] = (struct revisit_place){&old[i], 40 + i, moved(0.1 * i, 0.05, 0.1), 0.5, 0.5};
    for (uint32_t k = 0; k < LINK_MAX; k++)
        answers[k] = (struct link){.T_j_i = se3_identity(),
                                   .good = k % REVISIT_STARTS < 2,
                                   .overlap = 0.8,
                                   .rms_m = 0.002};
    n_places = 1;
    conflict = 0.01;
    usual_rms_m = 0.002;
}

static bool find(void)
{
    bool is_found;
    memset(&found, 0, sizeof found);
    assert_int_equal(
        revisit_find(NULL, &newest, &T_newest, places, n_places, usual_rms_m, &found, &is_found),
        0);
    return is_found;
}

static void assert_pose(const struct se3 *got, const struct se3 *expected)
{
    for (int i = 0; i < 9; i++)
        assert_true(fabs(got->r[i] - expected->r[i]) < 1e-9);
    for (int i = 0; i < 3; i++)
        assert_true(fabs(got->t_m[i] - expected->t_m[i]) < 1e-9);
}

static void each_place_has_four_starts(void **state)
{
    (void)state;
    reset();
    n_places = REVISIT_PLACES + 1;
    places[1].doubt_m = 0.9;
    find();
    assert_int_equal(n_asked, LINK_MAX);
    for (uint32_t k = 0; k < LINK_MAX; k++) {
        const struct revisit_place *place = &places[k / 4];
        const struct se3 thought = se3_between(&T_newest, &place->T_map_camera);
        struct se3 T = k % 2 ? se3_identity() : thought;
        for (int c = 0; c < 3; c++)
            T.t_m[c] = k % 4 == 0 || k % 4 == 3 ? thought.t_m[c] : 0;
        assert_pose(&asked[k].T_j_i, &T);
        assert_true(asked[k].doubt_m == (k / 4 == 1 ? 0.6 : 0.5));
        assert_true(asked_of[k] == place->image);
    }
    n_places = 0;
    n_asked = 99;
    assert_false(find());
    assert_int_equal(n_asked, 99);
}

static void what_is_found_is_told(void **state)
{
    (void)state;
    reset();
    n_places = 2;
    for (int k = 4; k < 6; k++) {
        answers[k].T_j_i = moved(0.02, 0.01, 0.03);
        answers[k].overlap = 0.81 + 0.01 * k;
    }
    assert_true(find());
    const struct se3 T = se3_compose(&T_newest, &answers[5].T_j_i);
    const struct se3 T_i_j = se3_between(&places[1].T_map_camera, &T);
    const struct se3 T_j_i = se3_inverse(&T_i_j);
    assert_int_equal(found.at, 41);
    assert_true(found.link.overlap == answers[5].overlap);
    assert_pose(&found.T_map_camera, &T);
    assert_pose(&found.link.T_j_i, &T_j_i);
    assert_pose(&T_conflict, &T_i_j);
    assert_true(conflict_with == &old[1]);
}

static void two_starts_lead_to_it(void **state)
{
    (void)state;
    reset();
    assert_true(find());
    answers[1].good = false;
    assert_false(find());
    // Not those of another place.
    n_places = 2;
    answers[4].overlap = answers[5].overlap = 0.7;
    assert_false(find());
    n_places = 1;
    // One elsewhere that sees little is none of them, and speaks against nothing.
    answers[1].good = true;
    answers[1].T_j_i = moved(0.2, 0, 0);
    answers[1].overlap = 0.3;
    assert_false(find());
    answers[2].good = true;
    assert_true(find());
    // One that did not come to lie speaks for nothing.
    answers[2].good = answers[1].good = false;
    assert_false(find());
}

static void enough_is_seen(void **state)
{
    (void)state;
    reset();
    for (int k = 0; k < 2; k++)
        answers[k].overlap = OUTSIDE * 0.35;
    assert_true(find());
    for (int k = 0; k < 2; k++)
        answers[k].overlap = INSIDE * 0.35;
    assert_false(find());
}

static void the_residual_is_the_usual_one(void **state)
{
    (void)state;
    reset();
    for (int k = 0; k < 2; k++)
        answers[k].rms_m = INSIDE * 1.25 * usual_rms_m;
    assert_true(find());
    answers[1].rms_m = OUTSIDE * 1.25 * usual_rms_m;
    assert_false(find()); // one start is left
}

static void it_lies_within_the_doubt(void **state)
{
    (void)state;
    for (int turns = 0; turns < 2; turns++)
        for (int outside = 0; outside < 2; outside++) {
            const double off = 0.5 * (outside ? OUTSIDE : INSIDE);
            reset();
            places[0].doubt_m = turns ? 9 : 0.5;
            places[0].doubt_rad = turns ? 0.5 : 9;
            for (int k = 0; k < 2; k++)
                answers[k].T_j_i = turns ? moved(0, 0, off) : moved(off * 0.6, off * 0.8, 0);
            assert_true(find() == !outside);
        }
}

// 0.15 m or rad beside it is elsewhere.
static void nothing_else_fits_as_well(void **state)
{
    (void)state;
    for (int turns = 0; turns < 2; turns++)
        for (int outside = 0; outside < 2; outside++) {
            const double off = 0.15 * (outside ? OUTSIDE : INSIDE);
            reset();
            answers[3].good = true;
            answers[3].T_j_i = turns ? moved(0, 0, off) : moved(off * 0.8, off * 0.6, 0);
            assert_true(find() == !outside);
            // Of what sees less it does not matter.
            answers[3].overlap = INSIDE * 0.35;
            assert_true(find());
            answers[3].overlap = OUTSIDE * 0.35;
            assert_true(find() == !outside);
            // Whatever it is found from.
            answers[3].good = false;
            n_places = 2;
            for (int k = 4; k < 8; k++) {
                answers[k] = answers[3];
                answers[k].good = k == 6;
            }
            assert_true(find() == !outside);
        }
}

static void nothing_stands_before_it(void **state)
{
    (void)state;
    reset();
    conflict = INSIDE * 0.05;
    assert_true(find());
    conflict = OUTSIDE * 0.05;
    assert_false(find());
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_place_has_four_starts),    cmocka_unit_test(what_is_found_is_told),
        cmocka_unit_test(two_starts_lead_to_it),         cmocka_unit_test(enough_is_seen),
        cmocka_unit_test(the_residual_is_the_usual_one), cmocka_unit_test(it_lies_within_the_doubt),
        cmocka_unit_test(nothing_else_fits_as_well),     cmocka_unit_test(nothing_stands_before_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
