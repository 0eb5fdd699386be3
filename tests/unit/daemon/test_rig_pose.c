// SPDX-License-Identifier: Apache-2.0
// The file that says where a camera sits: what is read of it, and what is refused.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <math.h>

#include "daemon/rig_pose.h"
#include "proto/se3.h"
#include "proto/wire.h"
#include "tests/unit/scratch.h"

static struct scratch scratch;

static int read_text(const char *text, struct rig_place *out)
{
    const struct log_sink log = scratch_log(&scratch);
    char path[256];
    scratch_write_text(&scratch, "place.txt", text);
    return rig_pose_read_place(scratch_name(&scratch, "place.txt", path), out, &log);
}

static void test_good(void **state)
{
    (void)state;
    struct rig_place place;
    assert_int_equal(read_text("# a\n# b\n0.1 -0.2 0.3 0 0.6 0 0.8\n", &place), 0);
    assert_true(place.T_a_b.t_m[0] == 0.1 && place.T_a_b.t_m[1] == -0.2);
    // About y by 2 * atan(0.6 / 0.8): cosine 0.28, sine 0.96.
    assert_true(fabs(place.T_a_b.r[0] - 0.28) < 1e-12 && fabs(place.T_a_b.r[2] - 0.96) < 1e-12);
    assert_true(place.clock_s == 0);
    assert_int_equal(read_text("0 0 0 0 0 0 1\n# more\nclock -0.0125\n", &place), 0);
    assert_true(place.clock_s == -0.0125);
    assert_int_equal(read_text("0 0 99.9 0 0 0 1\nclock 10\n", &place), 0);
    assert_int_equal(read_text("0 0 0 0 0 0 1\nclock -10\n", &place), 0);
    assert_int_equal(read_text("0 0 0 0 0 0 1.0099\n", &place), 0); // squared 1.0199
    assert_true(fabs(place.T_a_b.r[0] - 1) < 1e-12);
}

static void test_bad(void **state)
{
    (void)state;
    static const char *const places[] = {
        "",
        "# nothing\n",
        "0 0 0 0 0 0\n",
        "text\n",
        "0 0 0 0 0 0 1.0101\n", // squared 1.0203
        "0 0 0 0 0 0 0.9898\n", // squared 0.9797
        "0 0 0 0 0 0 0\n",
        "0 0 nan 0 0 0 1\n",
        "100 0 0 0 0 0 1\n",
        "0 -inf 0 0 0 0 1\n",
    };
    static const char *const clocks[] = {
        "0 0 0 0 0 0 1\nclock 10.01\n",
        "0 0 0 0 0 0 1\nclock -10.01\n",
        "0 0 0 0 0 0 1\nclock nan\n",
        "0 0 0 0 0 0 1\nclock soon\n",
    };
    struct rig_place place;
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        assert_int_equal(read_text(places[i], &place), -EINVAL);
        assert_true(scratch_said(&scratch, "posectl rig calibrate"));
    }
    for (size_t i = 0; i < sizeof clocks / sizeof *clocks; i++) {
        assert_int_equal(read_text(clocks[i], &place), -EINVAL);
        assert_true(scratch_said(&scratch, "seconds are wanted"));
    }
    const struct log_sink log = scratch_log(&scratch);
    assert_int_equal(rig_pose_read_place("/nowhere/place", &place, &log), -EINVAL);
    assert_true(scratch_said(&scratch, "camera.rig"));
}

// ---- Two cameras; what is published is this file's (--wrap)

#define MS INT64_C(1000000)

static posed_Odometry sent;
static int n_sent;

bool __wrap_publish_send(struct publish_channel *channel, enum publish_topic topic,
                         const void *bytes, size_t n_bytes);
bool __wrap_publish_send(struct publish_channel *channel, enum publish_topic topic,
                         const void *bytes, size_t n_bytes)
{
    (void)channel;
    assert_int_equal(topic, PUBLISH_POSE);
    assert_int_equal(wire_decode(posed_Odometry_fields, bytes, n_bytes, &sent), 0);
    n_sent++;
    return true;
}

static bool never(void *user)
{
    (void)user;
    return false;
}

static void put(struct rig_pose *rig, uint32_t camera, int64_t time_ns, double x_m,
                enum track_state state, enum track_reason reason)
{
    const struct capture_frame frame = {.image = {.time_ns = time_ns}, .capture_mono_ns = 4711};
    struct track_result result = {
        .state = state, .reason = reason, .T_odom_camera = se3_identity()};
    result.T_odom_camera.t_m[0] = x_m;
    rig_pose_put(rig, camera, &frame, &result);
}

// The second camera's clock is 8 ms ahead; both move by 1 cm in 40 ms.
static void test_poses(void **state)
{
    (void)state;
    char path[256];
    struct rig_pose *rig;
    scratch_write_text(&scratch, "second.txt", "0.5 0 0 0 0 0 1\nclock 0.008\n");
    struct rig_pose_settings settings = {.n_cameras = 2,
                                         .patient = true,
                                         .session = 12,
                                         .odom_frame = "rig/odom",
                                         .base_frame = "camera",
                                         .stop = never,
                                         .log = scratch_log(&scratch)};
    settings.places[1] = scratch_name(&scratch, "second.txt", path);
    assert_int_equal(rig_pose_create(&rig, &settings), 0);
    assert_true(scratch_said(&scratch, "8.0 ms ahead"));
    for (int i = 0; i < 5; i++) {
        const bool covered = i == 3, alone = i == 2;
        put(rig, 0, i * 40 * MS, 0.01 * i, covered ? TRACK_STATE_LOST : TRACK_STATE_TRACKING,
            TRACK_REASON_NONE);
        assert_int_equal(n_sent, i); // the other one is waited for
        put(rig, 1, i * 40 * MS + 8 * MS, 0.5 + 0.01 * i,
            covered || alone ? TRACK_STATE_LOST : TRACK_STATE_TRACKING, TRACK_REASON_NONE);
        assert_int_equal(n_sent, i + 1);
        assert_int_equal(sent.seq, i);
        assert_int_equal(sent.session, 12);
        assert_int_equal(sent.capture_monotonic_ns, 4711);
        assert_string_equal(sent.frame_id, "rig/odom");
        assert_string_equal(sent.body_frame_id, "camera");
        assert_int_equal(sent.timestamp.nanos, i * 40 * MS);
        assert_int_equal(sent.state, i == 0    ? posed_State_STATE_INIT
                                     : covered ? posed_State_STATE_LOST
                                               : posed_State_STATE_TRACKING);
        assert_string_equal(sent.reason_text, alone     ? "1 of 2 cameras"
                                              : covered ? "no camera is tracked"
                                                        : "");
        assert_true(covered || fabs(sent.pose.position.x - 0.01 * i) < 1e-9);
        // In metres a second, and none from or to a lost pose.
        const double speed = i == 1 || i == 2 ? 0.25 : 0;
        assert_true(fabs(sent.linear_velocity.x - speed) < 1e-9);
    }
    // Nothing but a prediction.
    for (uint32_t c = 0; c < 2; c++)
        put(rig, c, 200 * MS + c * 8 * MS, 0.05 + 0.5 * c, TRACK_STATE_DEGRADED,
            TRACK_REASON_DROPPED);
    assert_int_equal(sent.state, posed_State_STATE_DEGRADED);
    assert_int_equal(sent.reason, posed_Reason_REASON_DROPPED);
    // No velocity over more than half a second.
    for (uint32_t c = 0; c < 2; c++)
        put(rig, c, 700 * MS + c * 8 * MS, 0.1 + 0.5 * c, TRACK_STATE_TRACKING, TRACK_REASON_NONE);
    assert_true(sent.linear_velocity.x > 0);
    for (uint32_t c = 0; c < 2; c++)
        put(rig, c, 1201 * MS + c * 8 * MS, 0.2 + 0.5 * c, TRACK_STATE_TRACKING, TRACK_REASON_NONE);
    assert_true(sent.linear_velocity.x == 0);
    const int before = n_sent;
    put(rig, 0, 1240 * MS, 0.21, TRACK_STATE_TRACKING, TRACK_REASON_NONE);
    assert_int_equal(n_sent, before);
    rig_pose_end(rig, 1);
    assert_int_equal(n_sent, before + 1);
    rig_pose_destroy(&rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_good), cmocka_unit_test(test_bad),
                                       cmocka_unit_test(test_poses)};
    scratch_create(&scratch);
    const int n_failed = cmocka_run_group_tests(tests, NULL, NULL);
    scratch_remove(&scratch);
    return n_failed;
}
