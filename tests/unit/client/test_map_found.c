// SPDX-License-Identifier: Apache-2.0
// Who waits for the camera to be found in a loaded map is told of frames that were looked for in
// it, and of no frame before: here the daemon's answers are this test's.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdbool.h>

#include "tools/posectl/map_found.h"

static const posed_Status *answers;
static unsigned n_answers, n_asked;
static const uint64_t n_before = 7; // frames that another map was searched with

enum posectl_exit posectl_request(const struct posectl *ctl, const posed_Request *request,
                                  posed_Reply *out)
{
    (void)ctl;
    assert_int_equal(request->which_what, posed_Request_get_status_tag);
    assert_true(n_asked < n_answers);
    *out = (posed_Reply)posed_Reply_init_zero;
    out->what.get_status = answers[n_asked++];
    return POSECTL_OK;
}

void posectl_complain(const char *format, ...)
{
    (void)format;
}

static enum posectl_exit wait_for(const posed_Status *given, unsigned n, posed_Status *out)
{
    const struct posectl ctl = {0};
    posed_Reply reply;
    answers = given;
    n_answers = n;
    n_asked = 0;
    return map_found_wait(&ctl, &(struct map_found_before){4, n_before}, 60, &reply, out);
}

static posed_Status tracking(uint32_t map_epoch, uint64_t captured_frames, double x_m)
{
    return (posed_Status){.state = posed_State_STATE_TRACKING,
                          .map_epoch = map_epoch,
                          .captured_frames = captured_frames,
                          .has_map_from_odom = true,
                          .map_from_odom = {.has_position = true, .position = {.x = x_m}}};
}

static posed_Status searching(uint32_t map_epoch, uint64_t captured_frames)
{
    return (posed_Status){.state = posed_State_STATE_SEARCHING,
                          .map_epoch = map_epoch,
                          .captured_frames = captured_frames,
                          .searching_frames = n_before + 1};
}

// The map before it knew where the camera is. Images that are left out count as captured, and a
// frame does before its state is told.
static void frames_before_the_load_are_not_found(void **state)
{
    (void)state;
    const posed_Status given[] = {tracking(4, 1000, 0), searching(5, 1001), tracking(5, 1002, 2)};
    posed_Status out;
    assert_int_equal(wait_for(given, 3, &out), POSECTL_OK);
    assert_int_equal(n_asked, 3);
    assert_true(out.map_from_odom.position.x == 2);
}

// A reset just before begins an epoch of its own, with frames of it as the file is read: nothing
// has been looked for in the loaded map by then.
static void an_epoch_between_is_not_the_loads(void **state)
{
    (void)state;
    const posed_Status given[] = {tracking(5, 1001, 0), searching(6, 1002), tracking(6, 1003, 2)};
    posed_Status out;
    assert_int_equal(wait_for(given, 3, &out), POSECTL_OK);
    assert_int_equal(n_asked, 3);
    assert_true(out.map_from_odom.position.x == 2);
}

static void the_first_frame_may_be_found(void **state)
{
    (void)state;
    posed_Status given[] = {tracking(5, 1, 2)};
    posed_Status out;
    given[0].searching_frames = n_before + 1; // with which it was found between two questions
    assert_int_equal(wait_for(given, 1, &out), POSECTL_OK);
}

static void another_epoch_is_another_map(void **state)
{
    (void)state;
    const posed_Status given[] = {searching(5, 1), tracking(6, 2, 0)};
    posed_Status out;
    assert_int_equal(wait_for(given, 2, &out), POSECTL_FAILED);
}

// A tracker that loses the camera for long begins anew, and is looked for in the same map.
static void a_tracker_that_begins_anew_is_found(void **state)
{
    (void)state;
    posed_Status given[] = {searching(5, 1), searching(5, 2), searching(6, 3), tracking(6, 4, 2)};
    posed_Status out;
    given[1].state = posed_State_STATE_LOST;
    assert_int_equal(wait_for(given, 4, &out), POSECTL_OK);
    assert_true(out.map_from_odom.position.x == 2);
    // Without a loss it is another load, and not searched for it is a reset.
    given[1].state = posed_State_STATE_SEARCHING;
    assert_int_equal(wait_for(given, 4, &out), POSECTL_FAILED);
    given[1].state = posed_State_STATE_LOST;
    given[2] = given[3];
    assert_int_equal(wait_for(given, 3, &out), POSECTL_FAILED);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(frames_before_the_load_are_not_found),
        cmocka_unit_test(an_epoch_between_is_not_the_loads),
        cmocka_unit_test(the_first_frame_may_be_found),
        cmocka_unit_test(another_epoch_is_another_map),
        cmocka_unit_test(a_tracker_that_begins_anew_is_found),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
