// SPDX-License-Identifier: Apache-2.0
// The rig's poses, and its trajectory as the keyframes of its cameras agree.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <math.h>
#include <string.h>

#include "daemon/rig_pose.h"
#include "gpu/model/rig_refine.h"
#include "proto/se3.h"
#include "proto/wire.h"
#include "tests/unit/scratch.h"

static struct scratch scratch;

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

static uint32_t map_epoch;           // of the cameras
static const struct se3 *T_map_odom; // of theirs, NULL: none
static uint32_t frame_flags;         // of theirs
static int64_t clock_set_ns;         // likewise
static uint32_t n_finds;             // of theirs
static bool is_cut;                  // their way
static int64_t came_ns = 4711;       // their frames

static void put(struct rig_pose *rig, uint32_t camera, int64_t time_ns, double x_m,
                enum track_state state, enum track_reason reason)
{
    const struct capture_frame frame = {
        .image = {.time_ns = time_ns + clock_set_ns},
        .clock_set_ns = clock_set_ns,
        .capture_mono_ns = came_ns,
        .flags = frame_flags,
    };
    struct track_result result = {
        .state = state,
        .reason = reason,
        .T_odom_camera = se3_identity(),
        .map_epoch = map_epoch,
        .n_finds = n_finds,
    };
    result.T_odom_camera.t_m[0] = x_m;
    rig_pose_put(rig, camera, &frame, &result, T_map_odom, is_cut);
}

// All are lost, and begin anew without anybody asking: what the rig says of its way.
static void test_cut(void **state)
{
    (void)state;
    char path[256];
    struct rig_pose *rig;
    scratch_write_text(&scratch, "beside.txt", "0.5 0 0 0 0 0 1\n");
    struct rig_pose_settings settings = {.n_cameras = 2,
                                         .patient = true,
                                         .odom_frame = "rig/odom",
                                         .base_frame = "camera",
                                         .stop = never,
                                         .log = scratch_log(&scratch)};
    settings.places[1] = scratch_name(&scratch, "beside.txt", path);
    assert_int_equal(rig_pose_create(&rig, &settings), 0);
    for (int i = 0; i < 8; i++) {
        const enum track_state state_of =
            i == 2 || i == 3 ? TRACK_STATE_LOST : TRACK_STATE_TRACKING;
        map_epoch = i < 4 ? 0 : i < 6 ? 1 : 2;
        is_cut = i >= 4 && i < 6; // then both are reset
        put(rig, 0, i * 40 * MS, 0, state_of, TRACK_REASON_NONE);
        put(rig, 1, i * 40 * MS, 0.5, state_of, TRACK_REASON_NONE);
        assert_int_equal(sent.timestamp.nanos, i * 40 * MS);
        assert_int_equal(sent.is_cut, is_cut);
    }
    assert_int_equal(sent.map_epoch, 2);
    map_epoch = 0;
    n_sent = 0;
    rig_pose_destroy(&rig);
}

// The third camera is unplugged after all began anew, then the others are reset, one after the
// other, so that one carries the rig. In a recording nobody waits for less than its end.
static void test_unplugged(void **state)
{
    (void)state;
    char path[256];
    scratch_write_text(&scratch, "beside.txt", "0.5 0 0 0 0 0 1\n");
    scratch_name(&scratch, "beside.txt", path);
    for (int is_replay = 0; is_replay < 2; is_replay++) {
        struct rig_pose *rig;
        struct rig_pose_settings settings = {.n_cameras = 3,
                                             .places = {NULL, path, path},
                                             .replay = is_replay,
                                             .odom_frame = "rig/odom",
                                             .base_frame = "camera",
                                             .stop = never,
                                             .log = scratch_log(&scratch)};
        assert_int_equal(rig_pose_create(&rig, &settings), 0);
        for (int64_t i = 0; i < 100; i++) {
            const enum track_state state_of =
                i == 2 || i == 3 ? TRACK_STATE_LOST : TRACK_STATE_TRACKING;
            came_ns = (1000 + i * 40) * MS;
            for (uint32_t c = 0; c < (i < 6 ? 3U : 2U); c++) {
                const int64_t reset = 8 + 4 * c;
                map_epoch = i < 4 ? 0 : i < reset ? 1 : 2;
                is_cut = i >= 4 && i < reset;
                put(rig, c, i * 40 * MS, c ? 0.5 : 0, state_of, TRACK_REASON_NONE);
            }
            if (i >= 8 && i < 40)
                assert_true(sent.is_cut);
        }
        assert_true(sent.is_cut == is_replay);
        assert_int_equal(sent.map_epoch, 1);
        map_epoch = 0;
        came_ns = 4711;
        is_cut = false;
        n_sent = 0;
        rig_pose_destroy(&rig);
    }
}

// The second camera is found in its map, 1 m off what its odom has drifted to.
static void test_finds(void **state)
{
    (void)state;
    char path[256];
    struct rig_pose *rig;
    scratch_write_text(&scratch, "beside.txt", "0.5 0 0 0 0 0 1\n");
    struct rig_pose_settings settings = {.n_cameras = 2,
                                         .patient = true,
                                         .odom_frame = "rig/odom",
                                         .base_frame = "camera",
                                         .stop = never,
                                         .log = scratch_log(&scratch)};
    settings.places[1] = scratch_name(&scratch, "beside.txt", path);
    assert_int_equal(rig_pose_create(&rig, &settings), 0);
    for (int i = 0; i < 6; i++) {
        const bool is_lost = i == 2, was_found = i > 2;
        put(rig, 0, i * 40 * MS, 0.01 * i, TRACK_STATE_TRACKING, TRACK_REASON_NONE);
        n_finds = was_found;
        put(rig, 1, i * 40 * MS, 0.5 + 0.01 * i + was_found,
            is_lost ? TRACK_STATE_LOST : TRACK_STATE_TRACKING, TRACK_REASON_NONE);
        n_finds = 0;
        assert_int_equal(sent.timestamp.nanos, i * 40 * MS);
        assert_true(fabs(sent.pose.position.x - 0.01 * i) < 1e-9);
    }
    rig_pose_destroy(&rig);
}

// The machine's clock is set, which one camera's frames tell before the other's: the rig's stamps
// follow it, with the first camera's, and no frame and no pose is lost for it.
static void test_clock_is_set(void **state)
{
    (void)state;
    static const int64_t set_ns[] = {0, 600 * MS, 600 * MS, -400 * MS, -400 * MS};
    char path[256];
    struct rig_pose *rig;
    scratch_write_text(&scratch, "beside.txt", "0.5 0 0 0 0 0 1\n");
    struct rig_pose_settings settings = {.n_cameras = 2,
                                         .patient = true,
                                         .odom_frame = "rig/odom",
                                         .base_frame = "camera",
                                         .stop = never,
                                         .log = scratch_log(&scratch)};
    settings.places[1] = scratch_name(&scratch, "beside.txt", path);
    assert_int_equal(rig_pose_create(&rig, &settings), 0);
    for (int i = 0; i < 25; i++) {
        const int64_t time_ns = 10000 * MS + i * 40 * MS;
        clock_set_ns = set_ns[i / 5];
        put(rig, 0, time_ns, 0.01 * i, TRACK_STATE_TRACKING, TRACK_REASON_NONE);
        clock_set_ns = set_ns[(i > 0 ? i - 1 : 0) / 5];
        put(rig, 1, time_ns, 0.5 + 0.01 * i, TRACK_STATE_TRACKING, TRACK_REASON_NONE);
        clock_set_ns = 0;
        assert_int_equal(sent.seq, i);
        assert_true(sent.timestamp.seconds * INT64_C(1000000000) + sent.timestamp.nanos ==
                    time_ns + set_ns[i / 5]);
        assert_int_equal(sent.map_epoch, 0);
        assert_true(fabs(sent.pose.position.x - 0.01 * i) < 1e-9);
        assert_true(i == 0 || fabs(sent.linear_velocity.x - 0.25) < 1e-6);
    }
    rig_pose_destroy(&rig);
}

// The first camera is gone when the machine's clock is set: the rig's stamps follow it with those
// of the one that is left, and one that was pending is told with its own.
static void test_clock_is_set_without_first(void **state)
{
    (void)state;
    char path[256];
    struct rig_pose *rig;
    scratch_write_text(&scratch, "beside.txt", "0.5 0 0 0 0 0 1\n");
    struct rig_pose_settings settings = {.n_cameras = 2,
                                         .odom_frame = "rig/odom",
                                         .base_frame = "camera",
                                         .stop = never,
                                         .log = scratch_log(&scratch)};
    settings.places[1] = scratch_name(&scratch, "beside.txt", path);
    assert_int_equal(rig_pose_create(&rig, &settings), 0);
    for (int i = 0; i < 80; i++) {
        const int64_t time_ns = 50000 * MS + i * 40 * MS;
        clock_set_ns = i < 40 ? 0 : 20000 * MS;
        if (i < 20)
            put(rig, 0, time_ns, 0.01 * i, TRACK_STATE_TRACKING, TRACK_REASON_NONE);
        put(rig, 1, time_ns, 0.5 + 0.01 * i, TRACK_STATE_TRACKING, TRACK_REASON_NONE);
        const int64_t told_ns = sent.timestamp.seconds * INT64_C(1000000000) + sent.timestamp.nanos;
        if (i < 20 || i > 40)
            assert_true(told_ns == time_ns + clock_set_ns);
    }
    // The first is back and ahead: the other is waited for, which tells of the set clock at once.
    const int64_t time_ns = 50000 * MS + 80 * 40 * MS;
    put(rig, 0, time_ns, 0.8, TRACK_STATE_TRACKING, TRACK_REASON_NONE);
    clock_set_ns = 21000 * MS;
    put(rig, 1, time_ns + 10 * MS, 1.3025, TRACK_STATE_TRACKING, TRACK_REASON_NONE);
    clock_set_ns = 0;
    assert_true(sent.timestamp.seconds * INT64_C(1000000000) + sent.timestamp.nanos ==
                time_ns + 20000 * MS);
    rig_pose_destroy(&rig);
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
        assert_int_equal(sent.velocity_covariance_count, speed > 0 ? 36 : 0);
        assert_true(speed == 0 || sent.velocity_covariance[0] > 0);
        assert_false(sent.has_map_from_odom);
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
    int before = n_sent;
    put(rig, 0, 1240 * MS, 0.21, TRACK_STATE_TRACKING, TRACK_REASON_NONE);
    assert_int_equal(n_sent, before);
    // An image that came before says nothing of now: the next one does, and lies behind.
    frame_flags = CAPTURE_DUPLICATE;
    put(rig, 1, 1241 * MS + 8 * MS, 0.7, TRACK_STATE_TRACKING, TRACK_REASON_NONE);
    assert_int_equal(n_sent, before);
    frame_flags = 0;
    put(rig, 1, 1281 * MS + 8 * MS, 0.72, TRACK_STATE_TRACKING, TRACK_REASON_NONE);
    assert_int_equal(n_sent, before + 1);
    assert_true(fabs(sent.pose.position.x - 0.21) < 1e-3);
    put(rig, 0, 1300 * MS, 0.225, TRACK_STATE_TRACKING, TRACK_REASON_NONE);
    before = n_sent;
    rig_pose_end(rig, 1);
    assert_int_equal(n_sent, before + 1);
    rig_pose_destroy(&rig);
}

// --- The trajectory at the end

// The graphs of two cameras and the joined one: they are but names.
static char graph_names[3];
static struct graph *const graph_of[3] = {(struct graph *)&graph_names[0],
                                          (struct graph *)&graph_names[1],
                                          (struct graph *)&graph_names[2]};
static struct graph_keyframe keyframes[3][RIG_POSE_IN_TIME];
static uint32_t n_keyframes[3];
static struct graph_part joined_of[2];
static struct se3 bodies[2][2];
static uint32_t n_joined;
static int join_rc;
static bool in_time;

uint32_t __wrap_graph_keyframes(const struct graph *graph, const struct graph_keyframe **out);
uint32_t __wrap_graph_keyframes(const struct graph *graph, const struct graph_keyframe **out)
{
    const int i = graph == graph_of[0] ? 0 : graph == graph_of[1] ? 1 : 2;
    *out = keyframes[i];
    return n_keyframes[i];
}

int __wrap_graph_join(struct graph **out, const struct graph_part *parts, uint32_t n_parts,
                      const struct log_sink *log);
int __wrap_graph_join(struct graph **out, const struct graph_part *parts, uint32_t n_parts,
                      const struct log_sink *log)
{
    (void)log;
    n_joined = n_parts;
    for (uint32_t i = 0; i < n_parts; i++) {
        joined_of[i] = parts[i];
        const uint32_t n = n_keyframes[parts[i].graph == graph_of[0] ? 0 : 1];
        for (uint32_t k = 0; k < 2 && k < n; k++)
            bodies[i][k] = parts[i].T_odom_body[k];
    }
    *out = join_rc ? NULL : graph_of[2];
    return join_rc;
}

static int refine_rc;
static uint32_t n_refined;

int __wrap_rig_refine(struct graph *joined, const struct graph_part *parts, uint32_t n_parts,
                      bool (*stop)(void *user), void *user, struct rig_adjustment_report *out);
int __wrap_rig_refine(struct graph *joined, const struct graph_part *parts, uint32_t n_parts,
                      bool (*stop)(void *user), void *user, struct rig_adjustment_report *out)
{
    assert_true(joined != NULL && parts[0].graph == joined_of[0].graph);
    assert_int_equal(n_parts, n_joined);
    assert_false(stop(user));
    n_refined++;
    *out =
        (struct rig_adjustment_report){.n_pairs = 17, .before_per_m = 0.004, .after_per_m = 0.002};
    return refine_rc;
}

uint32_t __wrap_graph_bodies(const struct graph *joined, struct graph_keyframe *out);
uint32_t __wrap_graph_bodies(const struct graph *joined, struct graph_keyframe *out)
{
    assert_ptr_equal(joined, graph_of[2]);
    memcpy(out, keyframes[2], 2 * sizeof *out);
    return 2;
}

void __wrap_graph_destroy(struct graph **graph);
void __wrap_graph_destroy(struct graph **graph)
{
    *graph = NULL;
}

static struct graph_keyframe keyframe_at(int64_t time_ns)
{
    return (struct graph_keyframe){
        .time_ns = time_ns, .T_odom_camera = se3_identity(), .T_map_camera = se3_identity()};
}

static bool has_parts;

// The file's own last word, that its epochs are parts, is not what the rig has said.
static void remember(void *user, enum log_level level, const char *line)
{
    (void)user;
    if (strstr(line, "are not connected with each other"))
        has_parts = true;
    else
        scratch_remember(&scratch, level, line);
}

// Ten frames of both, the first three in an epoch of their own; then what was found of them.
static void write_trajectory(const char *path, struct trajectory *out)
{
    char place[256];
    struct rig_pose *rig;
    struct trajectory_file *file;
    const struct log_sink log = {remember, NULL};
    const struct se3 moved = {{1, 0, 0, 0, 1, 0, 0, 0, 1}, {0, 0, 0.02}};
    struct rig_pose_settings settings = {.n_cameras = 2,
                                         .patient = true,
                                         .odom_frame = "o",
                                         .base_frame = "b",
                                         .stop = never,
                                         .log = log};
    settings.places[1] = scratch_name(&scratch, "second.txt", place);
    assert_int_equal(rig_pose_create(&rig, &settings), 0);
    assert_int_equal(trajectory_file_create(&file, path, TRAJECTORY_FORMAT_TUM, true, true, &log),
                     0);
    rig_pose_write_to(rig, file);
    for (int i = 0; i < 10; i++) {
        const enum track_state state = i == 3 ? TRACK_STATE_LOST : TRACK_STATE_TRACKING;
        map_epoch = i > 3;
        T_map_odom = i > 7 ? &moved : NULL;
        put(rig, 0, i * 40 * MS, 0.01 * i, state, TRACK_REASON_NONE);
        put(rig, 1, i * 40 * MS + 8 * MS, 0.5 + 0.01 * i, state, TRACK_REASON_NONE);
        assert_int_equal(sent.has_map_from_odom, i > 7);
    }
    assert_true(sent.map_from_odom.position.z == 0); // both came with it
    map_epoch = 0;
    T_map_odom = NULL;
    const struct graph *const graphs[2] = {graph_of[0], graph_of[1]};
    rig_pose_adjust(rig, graphs, in_time);
    rig_pose_destroy(&rig);
    assert_int_equal(trajectory_file_destroy(&file), 0);
    assert_int_equal(trajectory_read_tum(path, &log, out), 0);
    assert_int_equal(out->n_poses, 9); // the lost one has none
    assert_int_equal(out->parts[8].epoch, out->parts[0].epoch + 1);
}

static void two_keyframes_each(void)
{
    scratch_write_text(&scratch, "second.txt", "0.5 0 0 0 0 0 1\nclock 0.008\n");
    for (int k = 0; k < 2; k++) {
        keyframes[0][k] = keyframe_at((5 + 2 * k) * 40 * MS);
        keyframes[1][k] = keyframe_at((6 + k) * 40 * MS + 8 * MS + 10 * MS); // a quarter further
        keyframes[2][k] = keyframe_at((5 + 2 * k) * 40 * MS);
        keyframes[2][k].T_odom_camera.t_m[0] = 0.03 + 0.02 * k;
        keyframes[2][k].T_map_camera.t_m[0] = 0.03 + 0.02 * k;
        keyframes[2][k].T_map_camera.t_m[1] = 0.1 * k;
    }
    n_keyframes[0] = n_keyframes[1] = n_keyframes[2] = 2;
}

static void test_adjusted(void **state)
{
    (void)state;
    char path[256];
    struct trajectory t;
    scratch_name(&scratch, "rig.txt", path);
    two_keyframes_each();
    write_trajectory(path, &t);
    assert_int_equal(n_joined, 2);
    assert_true(joined_of[0].graph == graph_of[0] && joined_of[0].ahead_ns == 0);
    assert_true(joined_of[1].graph == graph_of[1] && joined_of[1].ahead_ns == 8 * MS);
    assert_true(joined_of[0].T_body_camera.t_m[0] == 0 && joined_of[1].T_body_camera.t_m[0] == 0.5);
    const double x_0 = -0.02; // an epoch begins where the last one's poses ended
    for (int k = 0; k < 2; k++) {
        assert_true(fabs(bodies[0][k].t_m[0] - x_0 - 0.05 - 0.02 * k) < 1e-8);
        assert_true(fabs(bodies[1][k].t_m[0] - x_0 - 0.0625 - 0.01 * k) < 1e-8);
    }
    // As they came, then by their share of the way, and behind the last keyframe as that.
    static const double moved_m[9] = {0, 0, 0, 0, 0, 0.05, 0.1, 0.1, 0.1};
    for (int i = 0; i < 9; i++)
        assert_true(fabs(t.poses[i].T_world_camera.t_m[1] - moved_m[i]) < 1e-8);
    trajectory_free(&t);
    // The machine's clock was set before the cameras began: the file's times have that.
    clock_set_ns = 7000 * MS;
    write_trajectory(path, &t);
    clock_set_ns = 0;
    assert_true(t.poses[0].time_ns == 7000 * MS);
    for (int i = 0; i < 9; i++)
        assert_true(fabs(t.poses[i].T_world_camera.t_m[1] - moved_m[i]) < 1e-8);
    trajectory_free(&t);
    assert_true(has_parts);
    assert_true(scratch_said(&scratch, "4 keyframes of 2 cameras"));
    assert_true(scratch_said(&scratch, "by 100.0 mm"));
    assert_true(scratch_said(&scratch,
                             "by 17 pairs of their images, which differ by 2.00 mm at 1 m, not 4"));
    // Too many for that, or too few, and the links have it; no memory, and nothing is written.
    static const int refused[] = {-E2BIG, -ENODATA, -EDOM, -ECANCELED, -ENOMEM};
    for (int i = 0; i < 5; i++) {
        refine_rc = refused[i];
        write_trajectory(path, &t);
        assert_true(fabs(t.poses[8].T_world_camera.t_m[1] - (i < 4 ? 0.1 : 0)) < 1e-8);
        trajectory_free(&t);
        static const char *const said[] = {
            "by their links alone: of images at most 192 of 4 cameras are compared",
            "by their links alone: a camera has too few keyframes",
            "by their links alone: their images do not fit better",
            "by their links alone: told to stop", "stays as it was"};
        assert_true(scratch_said(&scratch, said[i]));
    }
    refine_rc = 0;
}

// Where all cameras' frames were dropped the rig's pose is a prediction, and no line of its file.
static void test_predicted_in_file(void **state)
{
    (void)state;
    char path[256], place[256], text[1024];
    struct rig_pose *rig;
    struct trajectory_file *file;
    const struct log_sink log = {remember, NULL};
    struct rig_pose_settings settings = {
        .n_cameras = 2, .patient = true, .stop = never, .log = log};
    settings.places[1] = scratch_name(&scratch, "second.txt", place);
    scratch_write_text(&scratch, "second.txt", "0.5 0 0 0 0 0 1\n");
    assert_int_equal(rig_pose_create(&rig, &settings), 0);
    assert_int_equal(trajectory_file_create(&file, scratch_name(&scratch, "predicted.txt", path),
                                            TRAJECTORY_FORMAT_TUM, true, true, &log),
                     0);
    rig_pose_write_to(rig, file);
    for (int i = 0; i < 4; i++)
        for (uint32_t c = 0; c < 2; c++)
            put(rig, c, i * 40 * MS, 0.01 * i + 0.5 * c,
                i == 2 ? TRACK_STATE_DEGRADED : TRACK_STATE_TRACKING,
                i == 2 ? TRACK_REASON_DROPPED : TRACK_REASON_NONE);
    rig_pose_destroy(&rig);
    assert_int_equal(trajectory_file_destroy(&file), 0);
    FILE *written = fopen(path, "r");
    assert_non_null(written);
    text[fread(text, 1, sizeof text - 1, written)] = 0;
    fclose(written);
    assert_non_null(strstr(text, "\n0.040000000 "));
    assert_non_null(strstr(text, "\n# 0.080000000 predicted: no measurement\n0.120000000 "));
}

// Cameras and keyframes that cannot be adjusted with the others', and too little time.
static void test_adjusted_in_part(void **state)
{
    (void)state;
    char path[256];
    struct trajectory t;
    scratch_name(&scratch, "rig.txt", path);
    two_keyframes_each();
    // A keyframe of the epoch before: its camera is left out.
    keyframes[1][0].time_ns = 40 * MS;
    join_rc = -ENODATA; // which says nothing
    write_trajectory(path, &t);
    trajectory_free(&t);
    assert_int_equal(n_joined, 1);
    assert_true(joined_of[0].graph == graph_of[0]);
    assert_true(scratch_said(&scratch, "keyframes of camera 2 are not adjusted"));
    // Between the lost frame and the first one of the epoch is of the epoch.
    keyframes[1][0].time_ns = 4 * 40 * MS;
    join_rc = 0;
    write_trajectory(path, &t);
    trajectory_free(&t);
    assert_int_equal(n_joined, 2);

    join_rc = -E2BIG;
    write_trajectory(path, &t);
    for (int i = 0; i < 9; i++)
        assert_true(t.poses[i].T_world_camera.t_m[1] == 0);
    trajectory_free(&t);
    assert_true(scratch_said(&scratch, "there are too many (map.keyframes)"));

    // Told to stop: as many as take no time, and by their links.
    join_rc = 0;
    n_refined = 0;
    in_time = true;
    for (uint32_t k = 1; k < RIG_POSE_IN_TIME; k++)
        keyframes[0][k] = keyframe_at(9 * 40 * MS);
    for (int more = 0; more < 2; more++) {
        n_keyframes[0] = RIG_POSE_IN_TIME - 1;
        n_keyframes[1] = 1u + (unsigned)more;
        keyframes[1][0] = keyframes[1][1] = keyframe_at(6 * 40 * MS + 8 * MS);
        n_joined = 0;
        write_trajectory(path, &t);
        trajectory_free(&t);
        assert_int_equal(n_joined, more ? 0 : 2);
    }
    assert_true(scratch_said(&scratch, "too many for a daemon that is told to stop"));
    assert_int_equal(n_refined, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_cut),
        cmocka_unit_test(test_unplugged),
        cmocka_unit_test(test_poses),
        cmocka_unit_test(test_finds),
        cmocka_unit_test(test_predicted_in_file),
        cmocka_unit_test(test_clock_is_set),
        cmocka_unit_test(test_clock_is_set_without_first),
        cmocka_unit_test(test_adjusted),
        cmocka_unit_test(test_adjusted_in_part),
    };
    scratch_create(&scratch);
    const int n_failed = cmocka_run_group_tests(tests, NULL, NULL);
    scratch_remove(&scratch);
    return n_failed;
}
