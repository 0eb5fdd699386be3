// SPDX-License-Identifier: Apache-2.0
// The wire at its limits: too little room, no memory, names of what is not there, zero bytes, and
// bytes that stop making sense.
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <pb_encode.h>

#include "proto/wire.h"
#include "tests/unit/fails.h"

static void names_of_what_is_not_there(void **state)
{
    (void)state;
    assert_string_equal(wire_code_name(posed_Code_NOT_FOUND), "NOT_FOUND");
    assert_string_equal(wire_code_name((posed_Code)99), "UNKNOWN_ERROR");
    assert_string_equal(wire_state_name(posed_State_STATE_LOST), "LOST");
    assert_string_equal(wire_state_name((posed_State)99), "UNSPECIFIED");
    assert_string_equal(wire_reference_name(posed_Reference_REFERENCE_KEYFRAME), "keyframe");
    assert_string_equal(wire_reference_name(posed_Reference_REFERENCE_MODEL), "model");
    assert_string_equal(wire_reference_name((posed_Reference)99), "previous");
}

// Every size that is too small is refused, the exact one is enough.
static void room_that_is_too_small(void **state)
{
    (void)state;
    uint8_t bytes[600];
    posed_RawImage image = posed_RawImage_init_zero;
    posed_PointCloud cloud = posed_PointCloud_init_zero;
    image.width = 300;
    cloud.seq = 300;
    wire_copy_text(image.encoding, sizeof image.encoding, "16UC1");
    const int n_image = wire_encode_image_header(&image, 70000, bytes, sizeof bytes);
    const int n_cloud = wire_encode_cloud_header(&cloud, 70000, bytes, sizeof bytes);
    assert_true(n_image > 8 && n_cloud > 4);
    for (int n = 0; n < n_image; n++)
        assert_int_equal(wire_encode_image_header(&image, 70000, bytes, (size_t)n), -EMSGSIZE);
    for (int n = 0; n < n_cloud; n++)
        assert_int_equal(wire_encode_cloud_header(&cloud, 70000, bytes, (size_t)n), -EMSGSIZE);
    assert_int_equal(wire_encode_image_header(&image, 70000, bytes, (size_t)n_image), n_image);
    posed_Reply reply = posed_Reply_init_zero, got;
    reply.id = 5;
    wire_copy_text(reply.message, sizeof reply.message, "no such thing");
    const int n_reply = wire_encode_reply(&reply, bytes, sizeof bytes);
    assert_int_equal(n_reply, wire_reply_size(&reply));
    for (int n = 0; n < n_reply; n++)
        assert_int_equal(wire_encode_reply(&reply, bytes, (size_t)n), -EMSGSIZE);
    assert_int_equal(wire_decode_reply(bytes, (size_t)n_reply, &got), 0);
    assert_string_equal(got.message, "no such thing");
    assert_int_equal(wire_decode_reply(bytes, 3, &got), -EPROTO);
    memset(reply.message, 'x', sizeof reply.message); // a text without its end
    assert_int_equal(wire_reply_size(&reply), WIRE_REPLY_MAX_BYTES);
    assert_int_equal(wire_encode_reply(&reply, bytes, sizeof bytes), -EMSGSIZE);
}

// Bytes of a field are appended as they are; the whole reads back.
static void large_replies(void **state)
{
    (void)state;
    static const uint32_t kinds[] = {posed_Reply_get_depth_tag, posed_Reply_get_cloud_tag,
                                     posed_Reply_get_map_cloud_tag};
    static uint8_t content[100000];
    uint8_t *bytes;
    size_t n_bytes, n_found;
    const uint8_t *found;
    memset(content, 9, sizeof content);
    for (size_t i = 0; i < 3; i++) {
        posed_Reply reply = posed_Reply_init_zero;
        const struct wire_piece piece = {15, content, sizeof content};
        const uint32_t path[2] = {kinds[i], 15};
        reply.id = 3;
        reply.which_what = (pb_size_t)kinds[i];
        fails_at("memory", 1, ENOMEM);
        assert_int_equal(wire_encode_large_reply(&reply, &piece, 1, &bytes, &n_bytes), -ENOMEM);
        fails_end();
        assert_null(bytes);
        assert_int_equal(wire_encode_large_reply(&reply, &piece, 1, &bytes, &n_bytes), 0);
        assert_true(wire_find_bytes(bytes + WIRE_MAGIC_BYTES, n_bytes - WIRE_MAGIC_BYTES, path, 2,
                                    &found, &n_found));
        assert_int_equal(n_found, sizeof content);
        assert_ptr_equal(found + n_found, bytes + n_bytes); // nothing behind
        free(bytes);
    }
    assert_true(wire_is_download(posed_Request_get_depth_tag));
    assert_true(wire_is_download(posed_Request_get_cloud_tag));
    assert_true(wire_is_download(posed_Request_get_map_cloud_tag));
    assert_false(wire_is_download(posed_Request_ping_tag));
}

// A request whose body is `body`.
static int decode(const void *body, size_t n, posed_Request *out, uint32_t *out_kind)
{
    uint8_t bytes[256];
    memcpy(bytes, WIRE_MAGIC, WIRE_MAGIC_BYTES);
    memcpy(bytes + WIRE_MAGIC_BYTES, body, n);
    return wire_decode_request(bytes, WIRE_MAGIC_BYTES + n, out, out_kind);
}

static void zero_bytes_and_fields_of_tomorrow(void **state)
{
    (void)state;
    posed_Request got;
    uint32_t kind;
    // a camera's name with a zero byte in it, alone and beside fields of every type
    static const char camera[] = "\x1a\3a\0b\x52\0";
    assert_int_equal(decode(camera, sizeof camera - 1, &got, &kind), -EILSEQ);
    static const char fields[] = "\x08\5\xb9\x3e"
                                 "12345678"
                                 "\xbd\x3e"
                                 "1234"
                                 "\xc2\x3e\3a\0b\x52\5\x12\3a\0b";
    assert_int_equal(decode(fields, sizeof fields - 1, &got, &kind),
                     0); // unknown ones are not ours
    assert_int_equal(got.id, 5);
    assert_int_equal(kind, posed_Request_ping_tag);
    // where the bytes stop making sense the id and the kind that were there are told
    static const struct {
        const char *bytes;
        size_t n;
        uint64_t id;
        uint32_t kind;
        int error;
    } broken[] = {{"\x08\5\x52\x20", 4, 5, 10, -EBADMSG}, // a length beyond the end
                  {"\x08\5\x52\xff", 4, 5, 10, -EBADMSG}, // no length
                  {"\x08\5\x51"
                   "12",
                   5, 5, 10, -EBADMSG},            // half a number
                  {"\x08\xff", 2, 0, 0, -EBADMSG}, //
                  {"\x0a\1a", 3, 0, 0, -EBADMSG},  // an id that is text
                  {"\x08\5", 2, 5, 0, -EINVAL}};
    for (size_t i = 0; i < sizeof broken / sizeof *broken; i++) {
        assert_int_equal(decode(broken[i].bytes, broken[i].n, &got, &kind), broken[i].error);
        assert_int_equal(got.id, broken[i].id);
        assert_int_equal(kind, broken[i].kind);
    }
    // unknown text in a message that has no fields of its own
    pb_byte_t version[16];
    pb_ostream_t stream = pb_ostream_from_buffer(version, sizeof version);
    assert_true(pb_encode_tag(&stream, PB_WT_STRING, posed_Request_get_version_tag) &&
                pb_write(&stream, (const pb_byte_t *)"\4\xfa\1\1\0", 5));
    assert_int_equal(decode(version, stream.bytes_written, &got, &kind), 0);
    assert_int_equal(kind, posed_Request_get_version_tag);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_of_what_is_not_there),
        cmocka_unit_test(room_that_is_too_small),
        cmocka_unit_test(large_replies),
        cmocka_unit_test(zero_bytes_and_fields_of_tomorrow),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
