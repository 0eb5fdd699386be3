// SPDX-License-Identifier: Apache-2.0
// Where a lost camera is found among keyframes: which are measured, from which starts, and what
// makes a pose believed, each limit from both sides. What is measured is what the test says
// (fake_links.h); images are of 16 x 12 px, a cell each.
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "gpu/model/keyframe_recovery.h"
#include "tests/unit/gpu/fake_links.h"

#define WIDTH   16
#define HEIGHT  12
#define N_PX    (WIDTH * HEIGHT)
#define INSIDE  0.996
#define OUTSIDE 1.004
#define MOST    24

static const struct intrinsics camera = {20, 25, 7.5, 5.5, WIDTH, HEIGHT};
static float z_m[MOST + 1][N_PX], log_z[MOST + 1][DEPTH_CELLS];
static struct align_image images[MOST + 1];
static struct recovery_place places[MOST];
static uint32_t n_places;
static struct recovery_view frame;

// Depth of a scene that is nowhere like it is elsewhere, to some millimetres.
static double waves = 1;
static float scene_m(int x, int y)
{
    return 2 + 0.5f * (float)sin(waves * (0.9 * x + 0.013 * x * x)) +
           0.5f * (float)cos(waves * (1.1 * y + 0.1 * x));
}

static void describe(uint32_t i)
{
    depth_cells_of(z_m[i], 1, WIDTH, HEIGHT, log_z[i]);
    images[i].n_bytes = i; // as fake_links.h knows it
}

// n places that see the frame's scene moved by so many cells, the i-th farther away by unlike_m.
static void begin_with(uint32_t n, int shift_x, int shift_y, double unlike_m)
{
    n_places = n;
    for (uint32_t i = 0; i <= n; i++) {
        const int dx = i < n ? shift_x : 0, dy = i < n ? shift_y : 0;
        for (int px = 0; px < N_PX; px++)
            z_m[i][px] =
                scene_m(px % WIDTH - dx, px / WIDTH - dy) + (i < n ? (float)(unlike_m * i) : 0);
        describe(i);
    }
    for (uint32_t i = 0; i < n; i++)
        places[i] = (struct recovery_place){
            {&images[i], z_m[i], log_z[i]}, fake_pose(i, 0, 0, 0), fake_pose(i, 10, 0, 0)};
    frame = (struct recovery_view){&images[n], z_m[n], log_z[n]};
    fake_reset();
}

static struct recovery find(uint32_t attempt, double usual_rms_m)
{
    struct recovery out;
    fake_n_asked = 0;
    assert_int_equal(
        recovery_find(NULL, &camera, &frame, places, n_places, attempt, usual_rms_m, &out), 0);
    return out;
}

static void of_no_keyframe_nothing_is_asked(void **state)
{
    (void)state;
    begin_with(0, 0, 0, 0);
    assert_int_equal(find(0, 0).trust, RELOCALISE_NOT_FOUND);
    assert_int_equal(fake_n_asked, 0);
}

// A place that sees the scene 3 cells to the right and 2 down was turned to the left and up: the
// frame's camera sees its points there.
static void starts_are_turned_as_the_images_are_moved(void **state)
{
    (void)state;
    begin_with(1, 3, 2, 0);
    find(0, 0);
    assert_int_equal(fake_n_asked, 2);
    const double twist[6] = {0, 0, 0, 2.0 / 25, -3.0 / 20, 0};
    const struct se3 expected = se3_exp(twist);
    assert_same_pose(&fake_asked[0].link.T_j_i, &expected);
    assert_true(fake_asked[0].link.doubt_m == 0.3);
    // The middle of what both see is projected where the frame has it, to half a cell.
    const double p[3] = {(10 - 7.5) / 20 * 2, (8 - 5.5) / 25 * 2, 2};
    double q[3];
    se3_apply(&fake_asked[0].link.T_j_i, p, q);
    assert_true(fabs(q[0] / q[2] * 20 + 7.5 - 7) < 0.5 && fabs(q[1] / q[2] * 25 + 5.5 - 6) < 0.5);
}

// The other start of a place is two cells away or more, though those beside the first are as like.
static void starts_are_apart(void **state)
{
    (void)state;
    waves = 0.2;
    begin_with(1, 3, 2, 0);
    waves = 1;
    find(0, 0);
    assert_int_equal(fake_n_asked, 2);
    const double twist[6] = {0, 0, 0, 2.0 / 25, -3.0 / 20, 0};
    const struct se3 expected = se3_exp(twist);
    assert_same_pose(&fake_asked[0].link.T_j_i, &expected);
    const struct se3 apart = se3_between(&expected, &fake_asked[1].link.T_j_i);
    assert_true(se3_angle(&apart) > 1.9 / 25);
}

// With each frame the five most like it, from two starts; of the next eleven three in turn.
static void all_have_their_turn(void **state)
{
    (void)state;
    bool asked[MOST] = {false};
    begin_with(MOST, 0, 0, 0.01);
    for (uint32_t attempt = 0; attempt < 4; attempt++) {
        find(attempt, 0);
        assert_int_equal(fake_n_asked, LINK_MAX);
        for (uint32_t k = 0; k < LINK_MAX; k++) {
            if (k < 10)
                assert_int_equal(fake_asked[k].other, k / 2);
            assert_true(fake_asked[k].other < 16 && fake_asked[k].image == MOST);
            asked[fake_asked[k].other] = true;
        }
    }
    for (int i = 0; i < 16; i++)
        assert_true(asked[i]);
    assert_false(asked[16]);
}

// What a measurement says of the only place, and its other start, which leads nowhere.
static struct link said;
static uint32_t n_said;

static void say(uint32_t image, uint32_t other, struct link *inout)
{
    (void)image;
    (void)other;
    const struct se3 T = said.T_j_i;
    *inout = said;
    inout->T_j_i = T;
    inout->good = said.good && n_said++ == 0;
}

static enum relocalise_trust trust_of(double overlap, double weakest, double rms_m, double conflict)
{
    begin_with(1, 0, 0, 0);
    fake_measure = say;
    fake_conflict = conflict;
    n_said = 0;
    said = (struct link){.T_j_i = se3_identity(),
                         .overlap = overlap,
                         .weakest = weakest,
                         .rms_m = rms_m,
                         .good = true};
    return find(0, 0.004).trust;
}

static void what_makes_a_pose_believed(void **state)
{
    (void)state;
    assert_int_equal(trust_of(OUTSIDE * 0.45, 0.01, 0.004, 0), RELOCALISE_SURE);
    assert_int_equal(trust_of(INSIDE * 0.45, 0.01, 0.004, 0), RELOCALISE_FAIR);
    assert_int_equal(trust_of(OUTSIDE * 0.35, 0.01, 0.004, 0), RELOCALISE_FAIR);
    assert_int_equal(trust_of(INSIDE * 0.35, 0.01, 0.004, 0), RELOCALISE_NOT_FOUND);
    assert_int_equal(trust_of(1, OUTSIDE * 0.003, 0.004, 0), RELOCALISE_SURE);
    assert_int_equal(trust_of(1, INSIDE * 0.003, 0.004, 0), RELOCALISE_NOT_FOUND);
    assert_int_equal(trust_of(1, 0.01, INSIDE * 0.008, 0), RELOCALISE_SURE);
    assert_int_equal(trust_of(1, 0.01, OUTSIDE * 0.008, 0), RELOCALISE_NOT_FOUND);
    assert_int_equal(trust_of(1, 0.01, 0.004, INSIDE * 0.05), RELOCALISE_SURE);
    assert_int_equal(trust_of(1, 0.01, 0.004, OUTSIDE * 0.05), RELOCALISE_NOT_FOUND);
    // Without neighbours no residual is usual.
    assert_int_equal(find(0, 0).trust, RELOCALISE_NOT_FOUND); // the conflict
    fake_conflict = 0;
    said.rms_m = 1;
    n_said = 0;
    assert_int_equal(find(0, 0).trust, RELOCALISE_SURE);
    said.good = false;
    n_said = 0;
    assert_int_equal(find(0, 0).trust, RELOCALISE_NOT_FOUND);
}

// All but the rim of 140 pixels is compared. Of the frame, of the place, so many are farther.
static enum relocalise_trust trust_with(int n_off, int n_missing, bool in_frame)
{
    trust_of(1, 0.01, 0.004, 0);
    float *image = z_m[in_frame ? 1 : 0], *other = z_m[in_frame ? 0 : 1];
    for (int px = 0; px < N_PX; px++)
        image[px] = other[px] = 2;
    for (int px = 0, n = 0; px < N_PX; px++) {
        const bool at_rim = px % WIDTH == 0 || px % WIDTH == WIDTH - 1 || px / WIDTH == 0 ||
                            px / WIDTH == HEIGHT - 1;
        if (at_rim)
            continue;
        if (n < n_off)
            image[px] = 3;
        else if (n < n_off + n_missing)
            other[px] = 0;
        n++;
    }
    n_said = 0;
    return find(0, 0.004).trust;
}

static void depths_agree_in_both_images(void **state)
{
    (void)state;
    for (int in_frame = 0; in_frame < 2; in_frame++) {
        assert_int_equal(trust_with(0, 0, in_frame), RELOCALISE_SURE);
        assert_int_equal(trust_with(7, 0, in_frame), RELOCALISE_SURE); // 0.95 of 140
        assert_int_equal(trust_with(8, 0, in_frame), RELOCALISE_FAIR);
        assert_int_equal(trust_with(11, 0, in_frame), RELOCALISE_FAIR); // 0.92
        assert_int_equal(trust_with(12, 0, in_frame), RELOCALISE_NOT_FOUND);
        // Known are 140 of 192; of those that miss in the other 116 are 0.6, 77 are 0.4.
        assert_int_equal(trust_with(0, 24, in_frame), RELOCALISE_SURE);
        assert_int_equal(trust_with(0, 25, in_frame), RELOCALISE_FAIR);
        assert_int_equal(trust_with(0, 63, in_frame), RELOCALISE_FAIR);
        assert_int_equal(trust_with(0, 64, in_frame), RELOCALISE_NOT_FOUND);
    }
}

// Two places that both show the frame, the second so much less that `n` of its pixels miss.
static double apart_m, apart_rad;

static void second_is_apart(uint32_t image, uint32_t other, struct link *inout)
{
    (void)image;
    inout->T_j_i = se3_identity();
    inout->overlap = other == 1 ? 0.8 : 0.9;
}

static struct recovery find_of_two(int n_missing)
{
    begin_with(2, 0, 0, 0);
    fake_measure = second_is_apart;
    for (int px = 0; px < N_PX; px++)
        z_m[0][px] = z_m[1][px] = z_m[2][px] = 2;
    for (int px = 0, n = 0; px < N_PX && n < n_missing; px++)
        if (px % WIDTH > 0 && px % WIDTH < WIDTH - 1 && px / WIDTH > 0 && px / WIDTH < HEIGHT - 1) {
            z_m[1][px] = 0;
            n++;
        }
    places[0].T_map_camera = se3_identity();
    places[1].T_map_camera = fake_pose(apart_m, 0, 0, apart_rad);
    return find(0, 0.004);
}

static void where_two_places_do_as_well_neither_is_believed(void **state)
{
    (void)state;
    for (int turns = 0; turns < 2; turns++) {
        apart_m = turns ? 0 : INSIDE * 0.15;
        apart_rad = turns ? INSIDE * 0.15 : 0;
        struct recovery found = find_of_two(0);
        assert_int_equal(found.trust, RELOCALISE_SURE);
        assert_int_equal(found.at, 0); // the larger overlap
        assert_same_pose(&found.T_odom_camera, &places[0].T_odom_camera);
        assert_true(found.link.overlap == 0.9 && found.link.information[0] == 1e4);
        apart_m = turns ? 0 : OUTSIDE * 0.15;
        apart_rad = turns ? OUTSIDE * 0.15 : 0;
        assert_int_equal(find_of_two(0).trust, RELOCALISE_NOT_FOUND);
        // The second explains 0.9 of what the first does, and less: 140 of 192 pixels there, and
        // of those that it has the same back, so that the share there falls as they do.
        assert_int_equal(find_of_two(10).trust, RELOCALISE_NOT_FOUND);
        assert_int_equal(find_of_two(60).trust, RELOCALISE_SURE);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(of_no_keyframe_nothing_is_asked),
        cmocka_unit_test(starts_are_turned_as_the_images_are_moved),
        cmocka_unit_test(starts_are_apart),
        cmocka_unit_test(all_have_their_turn),
        cmocka_unit_test(what_makes_a_pose_believed),
        cmocka_unit_test(depths_agree_in_both_images),
        cmocka_unit_test(where_two_places_do_as_well_neither_is_believed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
