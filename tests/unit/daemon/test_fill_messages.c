// SPDX-License-Identifier: Apache-2.0
// Messages from what capture and tracker say: every field in its place, every state under its name.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "daemon/fill_messages.h"
#include "proto/se3.h"

static struct shared_info info = {
    .session = 99,
    .capture = {.camera = {.width_px = 640,
                           .height_px = 480,
                           .fx_px = 525,
                           .fy_px = 526,
                           .cx_px = 319,
                           .cy_px = 239},
                .units_per_m = 5000},
    .odom_frame = "odom",
    .camera_frame = "camera",
    .reference = posed_Reference_REFERENCE_KEYFRAME,
};

static void test_names(void **state)
{
    (void)state;
    assert_int_equal(message_state(TRACK_STATE_INIT), posed_State_STATE_INIT);
    assert_int_equal(message_state(TRACK_STATE_TRACKING), posed_State_STATE_TRACKING);
    assert_int_equal(message_state(TRACK_STATE_DEGRADED), posed_State_STATE_DEGRADED);
    assert_int_equal(message_state(TRACK_STATE_LOST), posed_State_STATE_LOST);
    static const posed_Reason reasons[] = {
        [TRACK_REASON_NONE] = posed_Reason_REASON_NONE,
        [TRACK_REASON_FIRST_FRAME] = posed_Reason_REASON_FIRST_FRAME,
        [TRACK_REASON_DROPPED] = posed_Reason_REASON_DROPPED,
        [TRACK_REASON_NO_DEPTH] = posed_Reason_REASON_NO_DEPTH,
        [TRACK_REASON_FEW_PAIRS] = posed_Reason_REASON_FEW_PAIRS,
        [TRACK_REASON_NOT_CONVERGED] = posed_Reason_REASON_NOT_CONVERGED,
        [TRACK_REASON_HIGH_RESIDUAL] = posed_Reason_REASON_HIGH_RESIDUAL,
        [TRACK_REASON_JUMP] = posed_Reason_REASON_JUMP,
        [TRACK_REASON_DEGENERATE] = posed_Reason_REASON_DEGENERATE,
        [TRACK_REASON_TIME_GAP] = posed_Reason_REASON_TIME_GAP,
        [TRACK_REASON_DEVICE] = posed_Reason_REASON_DEVICE,
    };
    for (unsigned i = 0; i < sizeof reasons / sizeof *reasons; i++)
        assert_int_equal(message_reason((enum track_reason)i), reasons[i]);
    assert_int_equal(message_effort(TRACK_EFFORT_FULL), posed_Effort_EFFORT_FULL);
    assert_int_equal(message_effort(TRACK_EFFORT_HALF), posed_Effort_EFFORT_HALF);
    assert_int_equal(message_effort(TRACK_EFFORT_LEAST), posed_Effort_EFFORT_LEAST);
}

static void test_odometry(void **state)
{
    (void)state;
    const double twist[6] = {1, 2, 3, 0.1, 0.2, 0.3};
    const struct capture_frame frame = {.image = {.time_ns = INT64_C(12000000345)},
                                        .index = 17,
                                        .flags = CAPTURE_DUPLICATE,
                                        .capture_mono_ns = 777,
                                        .device_ticks = 55,
                                        .n_lost_packets = 4};
    struct track_result result = {.state = TRACK_STATE_TRACKING,
                                  .T_odom_camera = se3_exp(twist),
                                  .residual_rms_m = 0.25,
                                  .inlier_ratio = 0.75,
                                  .n_iterations = 19,
                                  .converged = true,
                                  .degenerate_mask = 5,
                                  .n_valid_px = 1234,
                                  .reference_seq = 8,
                                  .new_keyframe = true,
                                  .is_stale = true};
    posed_Odometry out;
    for (int i = 0; i < 36; i++)
        result.covariance[i] = i;
    for (int i = 0; i < 6; i++) {
        result.velocity[i] = 10 + i;
        result.eigenvalues[i] = 20 + i;
    }
    message_odometry(&info, 42, &frame, &result, 3, NULL, &out);
    assert_int_equal(out.timestamp.seconds, 12);
    assert_int_equal(out.timestamp.nanos, 345);
    assert_string_equal(out.frame_id, "odom");
    assert_string_equal(out.body_frame_id, "camera");
    assert_true(out.pose.position.y == result.T_odom_camera.t_m[1]);
    assert_true(out.linear_velocity.x == 10 && out.linear_velocity.z == 12);
    assert_true(out.angular_velocity.x == 13 && out.angular_velocity.z == 15);
    assert_int_equal(out.pose_covariance_count, 36);
    assert_true(out.pose_covariance[35] == 35);
    assert_int_equal(out.session, 99);
    assert_int_equal(out.seq, 42);
    assert_int_equal(out.map_epoch, 3);
    assert_int_equal(out.frame_index, 17);
    assert_int_equal(out.device_ticks, 55);
    assert_int_equal(out.capture_monotonic_ns, 777);
    assert_int_equal(out.lost_packets, 4);
    assert_int_equal(out.reference_seq, 8);
    assert_int_equal(out.iterations, 19);
    assert_int_equal(out.degenerate_mask, 5);
    assert_int_equal(out.valid_px, 1234);
    assert_true(out.residual_rms_m == 0.25 && out.inlier_ratio == 0.75);
    assert_true(out.eigenvalues_count == 6 && out.eigenvalues[5] == 25);
    assert_true(out.converged && out.duplicate && !out.damaged && out.is_stale);
    assert_true(out.replay && out.new_keyframe);
    assert_string_equal(out.reason_text, "");
    // Every frame is the next one's reference there: none is a keyframe.
    struct shared_info other = info;
    other.reference = posed_Reference_REFERENCE_PREVIOUS;
    other.capture.live = true;
    result.reason = TRACK_REASON_JUMP;
    message_odometry(&other, 42, &frame, &result, 3, NULL, &out);
    assert_false(out.new_keyframe);
    assert_false(out.replay);
    assert_string_equal(out.reason_text, track_reason_text(TRACK_REASON_JUMP));
    posed_FrameTransform transform;
    message_transform(&out, &transform);
    assert_string_equal(transform.parent_frame_id, "odom");
    assert_string_equal(transform.child_frame_id, "camera");
    assert_true(transform.translation.z == out.pose.position.z);
    assert_true(transform.rotation.w == out.pose.orientation.w);
}

static void test_calibration(void **state)
{
    (void)state;
    posed_CameraCalibration out;
    message_calibration(&info, INT64_C(5000000006), &out);
    const double k[9] = {525, 0, 319, 0, 526, 239, 0, 0, 1};
    const double p[12] = {525, 0, 319, 0, 0, 526, 239, 0, 0, 0, 1, 0};
    assert_int_equal(out.timestamp.seconds, 5);
    assert_int_equal(out.width, 640);
    assert_int_equal(out.height, 480);
    assert_int_equal(out.K_count, 9);
    assert_int_equal(out.P_count, 12);
    assert_memory_equal(out.K, k, sizeof k);
    assert_memory_equal(out.P, p, sizeof p);
    assert_true(out.units_per_m == 5000);
}

static void test_log(void **state)
{
    (void)state;
    static const struct {
        enum log_level level;
        posed_Log_Level wanted;
    } levels[] = {
        {LOG_LEVEL_ERROR, posed_Log_Level_ERROR}, {LOG_LEVEL_WARNING, posed_Log_Level_WARNING},
        {LOG_LEVEL_NOTICE, posed_Log_Level_INFO}, {LOG_LEVEL_INFO, posed_Log_Level_INFO},
        {LOG_LEVEL_DEBUG, posed_Log_Level_DEBUG},
    };
    posed_Log out;
    for (size_t i = 0; i < sizeof levels / sizeof *levels; i++) {
        message_log(levels[i].level, "line", &out);
        assert_int_equal(out.level, levels[i].wanted);
        assert_string_equal(out.message, "line");
        assert_string_equal(out.name, "posed");
    }
    posed_Event event;
    message_event(&info, 9, posed_Event_Kind_KEYFRAME, "text", &event);
    assert_int_equal(event.session, 99);
    assert_int_equal(event.seq, 9);
    assert_int_equal(event.kind, posed_Event_Kind_KEYFRAME);
    assert_string_equal(event.message, "text");
    assert_true(event.timestamp.seconds > 1700000000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_names),
        cmocka_unit_test(test_odometry),
        cmocka_unit_test(test_calibration),
        cmocka_unit_test(test_log),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
