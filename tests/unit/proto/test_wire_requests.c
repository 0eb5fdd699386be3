// SPDX-License-Identifier: Apache-2.0
// Requests byte by byte, at the limits of what is taken: the longest, kinds and texts that nanopb's
// structs do not show, fields that come twice, and poses that are just good enough.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <pb_encode.h>

#include "proto/wire.h"
#include "proto/wire_misfit.h"

#define UNKNOWN 99 // no field of Request has this number

static uint8_t bytes[WIRE_REQUEST_MAX_BYTES + 100];

static pb_ostream_t begin(void)
{
    memcpy(bytes, WIRE_MAGIC, WIRE_MAGIC_BYTES);
    return pb_ostream_from_buffer(bytes + WIRE_MAGIC_BYTES, sizeof bytes - WIRE_MAGIC_BYTES);
}

static void put(pb_ostream_t *stream, uint32_t field, const void *content, size_t n)
{
    assert_true(pb_encode_tag(stream, PB_WT_STRING, field));
    assert_true(pb_encode_string(stream, content, n));
}

static int decode(const pb_ostream_t *stream, posed_Request *out, uint32_t *out_kind)
{
    return wire_decode_request(bytes, WIRE_MAGIC_BYTES + stream->bytes_written, out, out_kind);
}

static void the_longest_request(void **state)
{
    (void)state;
    static uint8_t filling[WIRE_REQUEST_MAX_BYTES];
    posed_Request got;
    uint32_t kind;
    for (size_t more = 0; more < 2; more++) {
        pb_ostream_t stream = begin();
        put(&stream, posed_Request_ping_tag, "", 0);
        // Of the filling's field two bytes are its tag, three its length.
        const size_t left = WIRE_REQUEST_MAX_BYTES - WIRE_MAGIC_BYTES - stream.bytes_written;
        put(&stream, UNKNOWN, filling, left - 5 + more);
        assert_int_equal(WIRE_MAGIC_BYTES + stream.bytes_written, WIRE_REQUEST_MAX_BYTES + more);
        assert_int_equal(decode(&stream, &got, &kind), more ? -EMSGSIZE : 0);
        assert_int_equal(kind, posed_Request_ping_tag);
    }
}

// The kind that is told of a request of tomorrow is the first field that is none of the envelope's.
static void kinds_of_tomorrow(void **state)
{
    (void)state;
    posed_Request got;
    uint32_t kind;
    pb_ostream_t stream = begin();
    put(&stream, posed_Request_camera_tag, "left", 4);
    assert_int_equal(decode(&stream, &got, &kind), -EINVAL);
    assert_int_equal(kind, 0);
    put(&stream, UNKNOWN, "x", 1);
    assert_int_equal(decode(&stream, &got, &kind), -ENOSYS);
    assert_int_equal(kind, UNKNOWN);
    put(&stream, UNKNOWN + 1, "y", 1);
    assert_int_equal(decode(&stream, &got, &kind), -ENOSYS);
    assert_int_equal(kind, UNKNOWN);
}

// A zero byte in a text of the kind's own message.
static void zero_bytes_inside(void **state)
{
    (void)state;
    posed_Request got;
    uint32_t kind;
    for (int is_bad = 0; is_bad < 2; is_bad++) {
        pb_ostream_t stream = begin();
        put(&stream, posed_Request_get_params_tag, is_bad ? "\n\3a\0b" : "\n\3axb", 5);
        assert_int_equal(decode(&stream, &got, &kind), is_bad ? -EILSEQ : 0);
        assert_int_equal(kind, posed_Request_get_params_tag);
        if (!is_bad)
            assert_string_equal(got.what.get_params.prefix, "axb");
    }
}

// Texts one byte too long, and lists with an entry too many, are named; what just fits is decoded.
static void what_does_not_fit(void **state)
{
    (void)state;
    static const uint8_t filling[200] = {[0 ... 199] = 'x'};
    static const struct {
        uint32_t kind, field;
        size_t limit;
        bool is_list;
        const char *name;
    } cases[] = {{0, posed_Request_camera_tag, 16, false, "camera"},
                 {posed_Request_get_params_tag, 1, 63, false, "prefix"},
                 {posed_Request_start_recording_tag, 1, 79, false, "name"},
                 {posed_Request_start_recording_tag, 2, 15, false, "format"},
                 {posed_Request_add_object_tag, 1, 79, false, "name"},
                 {posed_Request_remove_object_tag, 1, 79, false, "name"},
                 {posed_Request_save_map_tag, 1, 79, false, "name"},
                 {posed_Request_load_map_tag, 1, 79, false, "name"},
                 {posed_Request_search_pose_tag, 1, 79, false, "objects[1]"},
                 {posed_Request_search_pose_tag, 1, 32, true, "objects"},
                 {posed_Request_set_params_tag, 1, 47, false, "params[1].name"},
                 {posed_Request_set_params_tag, 1, 16, true, "params"}};
    posed_Request got;
    struct wire_misfit misfit;
    uint32_t kind;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        for (size_t more = 0; more < 2; more++) {
            uint8_t content[512], entry[256];
            pb_ostream_t inner = pb_ostream_from_buffer(content, sizeof content);
            pb_ostream_t stream = begin();
            const bool is_entry = cases[i].kind == posed_Request_set_params_tag;
            const size_t n = cases[i].limit + more, n_text = cases[i].is_list ? 1 : n;
            pb_ostream_t innermost = pb_ostream_from_buffer(entry, sizeof entry);
            put(&innermost, 1, filling, n_text);
            if (cases[i].is_list || strchr(cases[i].name, '['))
                for (size_t k = cases[i].is_list ? n - 1 : 1; k > 0; k--)
                    put(&inner, cases[i].field, is_entry ? "\n\1x" : "x", is_entry ? 3 : 1);
            put(&inner, cases[i].field, is_entry ? entry : filling,
                is_entry ? innermost.bytes_written : n_text);
            if (cases[i].kind)
                put(&stream, cases[i].kind, content, inner.bytes_written);
            else
                put(&stream, cases[i].field, filling, n), put(&stream, UNKNOWN, "", 0);
            const int wanted = more ? -EBADMSG : cases[i].kind ? 0 : -ENOSYS;
            assert_int_equal(decode(&stream, &got, &kind), wanted);
            const bool is_found =
                wire_find_misfit(bytes, WIRE_MAGIC_BYTES + stream.bytes_written, &misfit);
            assert_int_equal(is_found, more);
            if (!more)
                continue;
            assert_string_equal(misfit.field, cases[i].name);
            assert_int_equal(misfit.kind, cases[i].kind);
            assert_int_equal(misfit.limit, cases[i].limit);
            assert_int_equal(misfit.is_list, cases[i].is_list);
        }
}

static void bytes_that_come_twice(void **state)
{
    (void)state;
    const uint32_t path[2] = {7, 3};
    const uint8_t *found;
    size_t n;
    pb_ostream_t stream = begin();
    put(&stream, 7, "\x1a\1a\x1a\2bc", 7);
    put(&stream, 7, "\x1a\3def\x1a\1g\x12\1h", 11);
    put(&stream, 8, "\x1a\1i", 3);
    const uint8_t *body = bytes + WIRE_MAGIC_BYTES;
    assert_true(wire_find_bytes(body, stream.bytes_written, path, 2, &found, &n));
    assert_int_equal(n, 1);
    assert_int_equal(*found, 'g'); // the last one of the last one
    assert_true(wire_find_bytes(body, stream.bytes_written, path, 1, &found, &n));
    assert_int_equal(n, 11);
}

static int read_pose(double x_m, double w, const char **out_field)
{
    struct se3 T;
    const posed_Pose pose = {true, {x_m, 0, 0}, true, {0, 0, 0, w}};
    *out_field = "";
    const int error = wire_read_pose(&pose, &T, out_field);
    if (!error)
        assert_true(fabs(T.r[0] - 1) < 1e-12 && T.t_m[0] == x_m);
    return error;
}

static void poses_that_are_just_good(void **state)
{
    (void)state;
    const char *field;
    assert_int_equal(read_pose(1e6, 1, &field), 0);
    assert_int_equal(read_pose(-1e6, 1, &field), 0);
    assert_int_equal(read_pose(1e6 + 1e-3, 1, &field), -EINVAL);
    assert_string_equal(field, "position.x");
    assert_int_equal(read_pose(0, 1.00999, &field), 0);
    assert_int_equal(read_pose(0, -0.99001, &field), 0);
    assert_int_equal(read_pose(0, 1.01001, &field), -EINVAL);
    assert_string_equal(field, "orientation");
    assert_int_equal(read_pose(0, 0.98999, &field), -EINVAL);
}

// The largest set that is sent, and one point more; nobody looks at its points.
static void sets_that_are_too_large(void **state)
{
    (void)state;
    posed_Request request = posed_Request_init_zero;
    const struct point_set large = {.n_points = UINT32_MAX / 32 + 1}, none = {.n_points = 0};
    uint8_t *out;
    size_t n;
    request.which_what = posed_Request_register_sets_tag;
    assert_int_equal(wire_encode_register(&request, &large, &none, &out, &n), -EMSGSIZE);
    assert_int_equal(wire_encode_register(&request, &none, &large, &out, &n), -EMSGSIZE);
    assert_int_equal(wire_encode_register(&request, &none, &none, &out, &n), 0);
    free(out);
}

// A large answer is a Reply like any other: its id and its numbers are read back.
static void large_replies_are_replies(void **state)
{
    (void)state;
    posed_Reply reply = posed_Reply_init_zero, got;
    const struct wire_piece piece = {WIRE_DEPTH_FRAME_DEPTH, "abc", 3};
    uint8_t *out;
    size_t n;
    reply.id = 77;
    reply.which_what = posed_Reply_get_depth_tag;
    reply.what.get_depth.width = 640;
    reply.what.get_depth.seq = 5;
    assert_int_equal(wire_encode_large_reply(&reply, &piece, 1, &out, &n), 0);
    assert_int_equal(wire_decode_reply(out, n, &got), 0);
    assert_int_equal(got.id, 77);
    assert_int_equal(got.which_what, posed_Reply_get_depth_tag);
    assert_int_equal(got.what.get_depth.width, 640);
    assert_int_equal(got.what.get_depth.seq, 5);
    free(out);
    reply.which_what = posed_Reply_get_map_cloud_tag;
    reply.what.get_map_cloud = (posed_MapCloud)posed_MapCloud_init_zero;
    reply.what.get_map_cloud.n_points = 12;
    assert_int_equal(wire_encode_large_reply(&reply, NULL, 0, &out, &n), 0);
    assert_int_equal(wire_decode_reply(out, n, &got), 0);
    assert_int_equal(got.what.get_map_cloud.n_points, 12);
    free(out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_longest_request),       cmocka_unit_test(kinds_of_tomorrow),
        cmocka_unit_test(zero_bytes_inside),         cmocka_unit_test(bytes_that_come_twice),
        cmocka_unit_test(poses_that_are_just_good),  cmocka_unit_test(sets_that_are_too_large),
        cmocka_unit_test(large_replies_are_replies), cmocka_unit_test(what_does_not_fit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
