// SPDX-License-Identifier: Apache-2.0
// The wire: what goes out comes back, limits hold, garbage is refused without a read out of bounds
// (run under the asan preset).
#include <errno.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <pb_encode.h>

#include "proto/se3.h"
#include "proto/wire.h"
#include "tests/unit/fails.h"

static void odometry_round_trip(void **state)
{
    (void)state;
    posed_Odometry sent = posed_Odometry_init_zero, got;
    sent.has_timestamp = true;
    sent.timestamp = wire_timestamp(1305031102175304000);
    wire_copy_text(sent.frame_id, sizeof sent.frame_id, "odom");
    sent.pose_covariance_count = 36;
    for (int i = 0; i < 36; i++)
        sent.pose_covariance[i] = i * 0.25;
    sent.session = UINT64_MAX;
    sent.seq = 12345678901234;
    sent.state = posed_State_STATE_LOST;
    uint8_t bytes[posed_Odometry_size];
    int n = wire_encode(posed_Odometry_fields, &sent, bytes, sizeof bytes);
    assert_true(n > 0);
    assert_int_equal(wire_decode(posed_Odometry_fields, bytes, (size_t)n, &got), 0);
    assert_int_equal(got.timestamp.seconds, 1305031102);
    assert_int_equal(got.timestamp.nanos, 175304000);
    assert_string_equal(got.frame_id, "odom");
    assert_int_equal(got.pose_covariance_count, 36);
    assert_true(got.pose_covariance[35] == 35 * 0.25);
    assert_true(got.session == UINT64_MAX && got.seq == sent.seq);
    assert_int_equal(got.state, posed_State_STATE_LOST);
    assert_int_equal(wire_encode(posed_Odometry_fields, &sent, bytes, 10), -EMSGSIZE);
}

// The numbers of foxglove.Odometry, FrameTransform and RawImage: other people's decoders depend on
// them, so a renumbering must not pass.
static void foxglove_field_numbers(void **state)
{
    (void)state;
    assert_int_equal(posed_Odometry_timestamp_tag, 1);
    assert_int_equal(posed_Odometry_frame_id_tag, 2);
    assert_int_equal(posed_Odometry_body_frame_id_tag, 3);
    assert_int_equal(posed_Odometry_pose_tag, 4);
    assert_int_equal(posed_Odometry_linear_velocity_tag, 5);
    assert_int_equal(posed_Odometry_angular_velocity_tag, 6);
    assert_int_equal(posed_Odometry_pose_covariance_tag, 7);
    assert_int_equal(posed_Odometry_velocity_covariance_tag, 8);
    assert_true(posed_Odometry_session_tag >= 1000);
    assert_int_equal(posed_FrameTransform_parent_frame_id_tag, 2);
    assert_int_equal(posed_FrameTransform_rotation_tag, 5);
    assert_int_equal(posed_RawImage_encoding_tag, 4);
    assert_int_equal(posed_RawImage_frame_id_tag, 7);
    assert_int_equal(posed_CameraCalibration_K_tag, 6);
    assert_int_equal(posed_CameraCalibration_frame_id_tag, 9);
}

static void timestamps(void **state)
{
    (void)state;
    const int64_t times[] = {0, 1, -1, 999999999, 1000000000, -1000000001, INT64_MAX - 1000000000};
    for (size_t i = 0; i < sizeof times / sizeof times[0]; i++) {
        posed_Timestamp t = wire_timestamp(times[i]);
        int64_t back;
        assert_in_range(t.nanos, 0, 999999999);
        assert_int_equal(wire_read_timestamp(&t, &back), 0);
        assert_true(back == times[i]);
    }
    int64_t out;
    assert_int_equal(wire_read_timestamp(&(posed_Timestamp){0, -1}, &out), -ERANGE);
    assert_int_equal(wire_read_timestamp(&(posed_Timestamp){0, 1000000000}, &out), -ERANGE);
    assert_int_equal(wire_read_timestamp(&(posed_Timestamp){INT64_MAX, 0}, &out), -ERANGE);
    assert_int_equal(wire_read_timestamp(&(posed_Timestamp){INT64_MIN, 0}, &out), -ERANGE);
}

// A camera that turns once around passes the half turn, where w changes sign.
static void quaternion_sign_continues(void **state)
{
    (void)state;
    double previous[4] = {0}, before[4];
    for (int i = 0; i <= 720; i++) {
        const double twist[6] = {0, 0, 0, 0, i * M_PI / 180, 0};
        struct se3 T = se3_exp(twist);
        posed_Pose pose = wire_pose(&T, previous);
        const double q[4] = {pose.orientation.x, pose.orientation.y, pose.orientation.z,
                             pose.orientation.w};
        double dot = 0, norm2 = 0;
        for (int k = 0; k < 4; k++) {
            dot += q[k] * before[k];
            norm2 += q[k] * q[k];
        }
        assert_true(fabs(norm2 - 1) < 1e-12);
        if (i > 0)
            assert_true(dot > 0.99);
        memcpy(before, q, sizeof before);
    }
}

static void poses_from_clients(void **state)
{
    (void)state;
    const double twist[6] = {1, 2, 3, 0.1, -0.2, 0.3};
    struct se3 T = se3_exp(twist), back;
    const char *field = NULL;
    posed_Pose good = wire_pose(&T, NULL), bad;
    assert_int_equal(wire_read_pose(&good, &back, &field), 0);
    for (int i = 0; i < 9; i++)
        assert_true(fabs(back.r[i] - T.r[i]) < 1e-12);
    bad = good;
    bad.position.y = NAN;
    assert_int_equal(wire_read_pose(&bad, &back, &field), -EINVAL);
    assert_string_equal(field, "position.y");
    bad.position.y = -1e300;
    assert_int_equal(wire_read_pose(&bad, &back, &field), -EINVAL);
    bad = good;
    bad.position.z = -1e300;
    assert_int_equal(wire_read_pose(&bad, &back, &field), -EINVAL);
    assert_string_equal(field, "position.z");
    bad = good;
    bad.orientation.w = INFINITY;
    assert_int_equal(wire_read_pose(&bad, &back, &field), -EINVAL);
    assert_string_equal(field, "orientation.w");
    bad = good;
    bad.orientation = (posed_Quaternion){0, 0, 0, 0};
    assert_int_equal(wire_read_pose(&bad, &back, &field), -EINVAL);
    assert_string_equal(field, "orientation");
    bad = good;
    bad.has_position = false;
    assert_int_equal(wire_read_pose(&bad, &back, &field), -EINVAL);
    assert_string_equal(field, "position");
}

static void requests(void **state)
{
    (void)state;
    uint8_t bytes[WIRE_REQUEST_MAX_BYTES + 1];
    uint32_t kind;
    posed_Request sent = posed_Request_init_zero, got;
    sent.id = 77;
    sent.deadline_ms = 250;
    sent.which_what = posed_Request_get_trajectory_tag;
    sent.what.get_trajectory.from_seq = 9;
    int n = wire_encode_request(&sent, bytes, sizeof bytes);
    assert_true(n > WIRE_MAGIC_BYTES);
    assert_int_equal(wire_decode_request(bytes, (size_t)n, &got, &kind), 0);
    assert_int_equal(got.id, 77);
    assert_int_equal(got.deadline_ms, 250);
    assert_int_equal(kind, posed_Request_get_trajectory_tag);
    assert_int_equal(got.what.get_trajectory.from_seq, 9);

    // Every truncation is refused or is a shorter valid message, and none is read past its end.
    for (int cut = 0; cut < n; cut++) {
        uint8_t *copy = malloc((size_t)cut + 1);
        assert_non_null(copy);
        memcpy(copy, bytes, (size_t)cut);
        int error = wire_decode_request(copy, (size_t)cut, &got, &kind);
        if (cut < WIRE_MAGIC_BYTES)
            assert_int_equal(error, -EPROTO);
        free(copy);
    }
    assert_int_equal(wire_decode_request(bytes, WIRE_MAGIC_BYTES, &got, &kind), -EINVAL);

    memset(bytes, 'x', sizeof bytes);
    assert_int_equal(wire_decode_request(bytes, sizeof bytes, &got, &kind), -EPROTO);
    memcpy(bytes, WIRE_MAGIC, WIRE_MAGIC_BYTES);
    assert_int_equal(wire_decode_request(bytes, sizeof bytes, &got, &kind), -EMSGSIZE);
    assert_int_equal(wire_decode_request(bytes, 20, &got, &kind), -EBADMSG);
    bytes[WIRE_MAGIC_BYTES - 1] = WIRE_VERSION + 1;
    assert_int_equal(wire_decode_request(bytes, 20, &got, &kind), -EPROTONOSUPPORT);
}

static void unknown_kind_is_named(void **state)
{
    (void)state;
    uint8_t bytes[64];
    memcpy(bytes, WIRE_MAGIC, WIRE_MAGIC_BYTES);
    pb_ostream_t stream =
        pb_ostream_from_buffer(bytes + WIRE_MAGIC_BYTES, sizeof bytes - WIRE_MAGIC_BYTES);
    assert_true(pb_encode_tag(&stream, PB_WT_VARINT, 1));
    assert_true(pb_encode_varint(&stream, 5));
    assert_true(pb_encode_tag(&stream, PB_WT_STRING, 999));
    assert_true(pb_encode_string(&stream, (const pb_byte_t *)"abc", 3));
    posed_Request got;
    uint32_t kind;
    assert_int_equal(
        wire_decode_request(bytes, WIRE_MAGIC_BYTES + stream.bytes_written, &got, &kind), -ENOSYS);
    assert_int_equal(kind, 999);
    assert_int_equal(got.id, 5);
}

static void random_bytes_after_the_magic(void **state)
{
    (void)state;
    srand(1);
    for (int round = 0; round < 20000; round++) {
        size_t n = WIRE_MAGIC_BYTES + (size_t)(rand() % 64);
        uint8_t *bytes = malloc(n);
        assert_non_null(bytes);
        memcpy(bytes, WIRE_MAGIC, WIRE_MAGIC_BYTES);
        for (size_t i = WIRE_MAGIC_BYTES; i < n; i++)
            bytes[i] = (uint8_t)rand();
        posed_Request got;
        uint32_t kind;
        int error = wire_decode_request(bytes, n, &got, &kind);
        assert_true(error == 0 || error == -EBADMSG || error == -EINVAL || error == -ENOSYS);
        posed_Reply *reply = malloc(sizeof *reply);
        assert_non_null(reply);
        error = wire_decode_reply(bytes, n, reply);
        assert_true(error == 0 || error == -EBADMSG);
        free(reply);
        free(bytes);
    }
}

static void image_header_and_data_are_one_message(void **state)
{
    (void)state;
    posed_RawImage image = posed_RawImage_init_zero, got;
    image.width = 3;
    image.height = 2;
    image.step = 6;
    image.seq = 300;
    wire_copy_text(image.encoding, sizeof image.encoding, "16UC1");
    uint8_t bytes[WIRE_IMAGE_HEADER_MAX_BYTES + 12];
    int n = wire_encode_image_header(&image, 12, bytes, WIRE_IMAGE_HEADER_MAX_BYTES);
    assert_true(n > 0);
    memset(bytes + n, 0xab, 12);
    assert_int_equal(wire_decode(posed_RawImage_fields, bytes, (size_t)n + 12, &got), 0);
    assert_int_equal(got.seq, 300);
    assert_string_equal(got.encoding, "16UC1");
    assert_int_equal(wire_decode(posed_RawImage_fields, bytes, (size_t)n + 11, &got), -EBADMSG);
}

// The points of a Register stay in the message and are found there, also when the whole is longer
// than other requests may be.
static void uploads(void **state)
{
    (void)state;
    enum { N = 7000 };
    static float numbers[6][N];
    for (int k = 0; k < 6; k++)
        for (int i = 0; i < N; i++)
            numbers[k][i] = (float)(k * 10000 + i);
    const struct point_set plain = {numbers[0], numbers[1], numbers[2], NULL, NULL, NULL, 5};
    const struct point_set full = {numbers[0], numbers[1], numbers[2], numbers[3],
                                   numbers[4], numbers[5], N};
    posed_Request sent = posed_Request_init_zero, got;
    sent.id = 9;
    sent.deadline_ms = 77;
    sent.which_what = posed_Request_register_sets_tag;
    sent.what.register_sets.n_starts = 12;
    uint8_t *bytes;
    size_t n_bytes, n_found;
    uint32_t kind;
    assert_int_equal(wire_encode_register(&sent, &plain, &full, &bytes, &n_bytes), 0);
    assert_true(n_bytes > WIRE_REQUEST_MAX_BYTES);
    assert_int_equal(wire_decode_request(bytes, n_bytes, &got, &kind), 0);
    assert_int_equal(kind, posed_Request_register_sets_tag);
    assert_int_equal(got.id, 9);
    assert_int_equal(got.deadline_ms, 77);
    assert_int_equal(got.what.register_sets.n_starts, 12);
    assert_true(got.what.register_sets.has_source && got.what.register_sets.has_target);

    const uint8_t *body = bytes + WIRE_MAGIC_BYTES, *found;
    size_t n_body = n_bytes - WIRE_MAGIC_BYTES;
    uint32_t path[3] = {posed_Request_register_sets_tag, posed_Register_target_tag,
                        WIRE_POINT_SET_NORMALS};
    float xyz[3];
    assert_true(wire_find_bytes(body, n_body, path, 3, &found, &n_found));
    assert_int_equal(n_found, 12 * N);
    memcpy(xyz, found + 12 * (N - 1), sizeof xyz);
    assert_true(xyz[0] == 36999 && xyz[1] == 46999 && xyz[2] == 56999);
    path[1] = posed_Register_source_tag;
    assert_false(wire_find_bytes(body, n_body, path, 3, &found, &n_found));
    path[2] = WIRE_POINT_SET_POINTS;
    assert_true(wire_find_bytes(body, n_body, path, 3, &found, &n_found));
    assert_int_equal(n_found, 12 * 5);
    for (size_t cut = 0; cut < n_body; cut += 97) {
        uint8_t *copy = malloc(cut + 1);
        assert_non_null(copy);
        memcpy(copy, body, cut);
        wire_find_bytes(copy, cut, path, 3, &found, &n_found);
        assert_true(!found || (found >= copy && found + n_found <= copy + cut));
        free(copy);
    }
    // The same length with another kind is refused.
    bytes[WIRE_MAGIC_BYTES + 4] = 0x9a; // field 99
    assert_int_equal(wire_decode_request(bytes, n_bytes, &got, &kind), -EMSGSIZE);
    free(bytes);
    // What cannot be sent.
    fails_at("memory", 1, ENOMEM);
    assert_int_equal(wire_encode_register(&sent, &plain, &full, &bytes, &n_bytes), -ENOMEM);
    fails_end();
    assert_null(bytes);
    const struct point_set endless = {.n_points = UINT32_MAX};
    assert_int_equal(wire_encode_register(&sent, &endless, &full, &bytes, &n_bytes), -EMSGSIZE);
    assert_int_equal(wire_encode_register(&sent, &plain, &endless, &bytes, &n_bytes), -EMSGSIZE);
    assert_true(wire_is_upload(posed_Request_add_object_tag));
    assert_true(wire_is_upload(posed_Request_search_pose_tag));
    assert_false(wire_is_upload(posed_Request_ping_tag));
}

static void text(void **state)
{
    (void)state;
    char out[8];
    wire_copy_text(out, sizeof out, "a long line of text");
    assert_string_equal(out, "a long ");
    wire_copy_text(out, sizeof out, "123456\xc3\xa9"); // the two bytes do not fit
    assert_string_equal(out, "123456");
    wire_copy_text(out, sizeof out,
                   "a\xff"
                   "b\xc3");
    assert_string_equal(out, "a?b?");
    wire_copy_text(out, sizeof out, "\xed\xa0\x80"); // a surrogate
    assert_string_equal(out, "???");
    wire_copy_text(out, sizeof out, "\xf0\x9f\x93\xb7");
    assert_string_equal(out, "\xf0\x9f\x93\xb7");
    // the ends of what RFC 3629 allows: what stands behind is replaced byte by byte
    static const struct {
        const char *text;
        bool is_good;
    } ends[] = {
        {"\xe0\xa0\x80", true},      {"\xe0\x9f\xbf", false},     {"\xed\x9f\xbf", true},
        {"\xf0\x90\x80\x80", true},  {"\xf0\x8f\xbf\xbf", false}, {"\xf4\x8f\xbf\xbf", true},
        {"\xf4\x90\x80\x80", false}, {"\xf5\x80\x80\x80", false}, {"\xc1\xbf", false},
        {"\xc2\x80", true},          {"\xe1\x80\x41", false}};
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
        wire_copy_text(out, sizeof out, ends[i].text);
        assert_int_equal(out[0] == '?', !ends[i].is_good);
        if (ends[i].is_good)
            assert_string_equal(out, ends[i].text);
        assert_int_equal(wire_not_text(ends[i].text) == NULL, ends[i].is_good);
    }
    static const char line[] = "a\xc3\xa9\tb";
    assert_ptr_equal(wire_not_text(line), line + 3);
    assert_null(wire_not_text(""));
}

static void points_are_split_by_axis(void **state)
{
    (void)state;
    const float triples[9] = {1, 2, 3, 4, 5, 6, 7, 8, 9};
    float out[9];
    wire_split_points((const uint8_t *)triples, 3, out);
    for (int i = 0; i < 9; i++)
        assert_true(out[i] == triples[i % 3 * 3 + i / 3]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(odometry_round_trip),
        cmocka_unit_test(foxglove_field_numbers),
        cmocka_unit_test(timestamps),
        cmocka_unit_test(quaternion_sign_continues),
        cmocka_unit_test(poses_from_clients),
        cmocka_unit_test(requests),
        cmocka_unit_test(unknown_kind_is_named),
        cmocka_unit_test(random_bytes_after_the_magic),
        cmocka_unit_test(image_header_and_data_are_one_message),
        cmocka_unit_test(text),
        cmocka_unit_test(uploads),
        cmocka_unit_test(points_are_split_by_axis),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
