// SPDX-License-Identifier: Apache-2.0
// What the page gets of a map: the request that is sent for it, the points as they were to a step,
// fewer of them when they are too many, and nothing of an answer that is none.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "daemon/web/map_preview.h"
#include "proto/wire.h"

#define HEAD_BYTES 24
#define ID         UINT64_C(0xfffffffffffffff7)

// The reply, without its magic, to free; points on a line, normals along y.
static uint8_t *reply_of(uint32_t n, size_t *out_n)
{
    float *points = calloc(6 * (size_t)n + 1, sizeof *points);
    uint8_t *framed;
    assert_non_null(points);
    for (uint32_t i = 0; i < n; i++) {
        points[3 * i] = -2 + 0.01f * (float)i;
        points[3 * i + 2] = 100;
        points[3 * (n + i) + 1] = -1;
    }
    posed_Reply reply = {.id = ID, .which_what = posed_Reply_get_map_cloud_tag};
    reply.what.get_map_cloud = (posed_MapCloud){.map_epoch = 3, .n_points = n, .voxel_m = 0.05};
    const struct wire_piece pieces[] = {
        {WIRE_CLOUD_POINTS, points, 3 * (size_t)n * sizeof *points},
        {WIRE_CLOUD_NORMALS, points + 3 * (size_t)n, 3 * (size_t)n * sizeof *points}};
    assert_int_equal(wire_encode_large_reply(&reply, pieces, 2, &framed, out_n), 0);
    free(points);
    *out_n -= WIRE_MAGIC_BYTES;
    memmove(framed, framed + WIRE_MAGIC_BYTES, *out_n);
    return framed;
}

static void is_asked_for(void **state)
{
    const struct map_preview preview = {0};
    uint8_t bytes[MAP_PREVIEW_REQUEST_BYTES];
    posed_Request request;
    uint32_t kind;
    (void)state;
    size_t n = map_preview_request(&preview, "a-camera-of-16-by", ID, bytes);
    assert_true(n > 0);
    assert_int_equal(wire_decode_request(bytes, n, &request, &kind), 0);
    assert_int_equal(kind, posed_Request_get_map_cloud_tag);
    assert_true(request.id == ID && request.what.get_map_cloud.voxel_m > 0);
    assert_string_equal(request.camera, "a-camera-of-16-b");
}

static void keeps_points(void **state)
{
    const uint32_t n = 1000;
    struct map_preview preview = {0};
    size_t n_reply;
    bool again;
    uint32_t head[2];
    float numbers[4];
    (void)state;
    uint8_t *reply = reply_of(n, &n_reply);
    assert_true(map_preview_reply_id(reply, n_reply) == ID);
    struct payload *made = map_preview_make(&preview, reply, n_reply, &again);
    assert_non_null(made);
    assert_false(again);
    assert_int_equal(made->n_bytes, HEAD_BYTES + 9 * n);
    memcpy(head, made->bytes, sizeof head);
    memcpy(numbers, made->bytes + sizeof head, sizeof numbers);
    assert_true(head[0] == n && head[1] == 3);
    assert_true(numbers[0] == 0.001f && numbers[1] == -2 && numbers[2] == 0 && numbers[3] == 100);
    for (uint32_t i = 0; i < n; i++) {
        uint16_t at[3];
        int8_t normal[3];
        memcpy(at, made->bytes + HEAD_BYTES + 6 * i, sizeof at);
        memcpy(normal, made->bytes + HEAD_BYTES + 6 * n + 3 * i, sizeof normal);
        assert_int_equal(at[0], 10 * i);
        assert_true(at[1] == 0 && at[2] == 0);
        assert_true(normal[0] == 0 && normal[1] == -127 && normal[2] == 0);
    }
    payload_release(made);
    free(reply);
}

static void asks_for_fewer(void **state)
{
    struct map_preview preview = {0};
    size_t n_reply;
    bool again;
    uint8_t bytes[MAP_PREVIEW_REQUEST_BYTES];
    posed_Request request;
    uint32_t kind;
    (void)state;
    uint8_t *reply = reply_of(MAP_PREVIEW_MAX_POINTS + 1, &n_reply);
    assert_null(map_preview_make(&preview, reply, n_reply, &again));
    assert_true(again);
    size_t n = map_preview_request(&preview, "", ID, bytes);
    assert_int_equal(wire_decode_request(bytes, n, &request, &kind), 0);
    assert_true(request.what.get_map_cloud.voxel_m > 0.05);
    free(reply);
}

static void refuses_the_rest(void **state)
{
    struct map_preview preview = {0};
    size_t n_reply;
    bool again;
    (void)state;
    uint8_t *reply = reply_of(0, &n_reply);
    assert_null(map_preview_make(&preview, reply, n_reply, &again));
    free(reply);
    const posed_Reply failed = {.id = ID, .code = posed_Code_FAILED_PRECONDITION};
    uint8_t bytes[64];
    int n_failed = wire_encode_reply(&failed, bytes, sizeof bytes);
    assert_true(n_failed > WIRE_MAGIC_BYTES);
    n_reply = (size_t)n_failed - WIRE_MAGIC_BYTES;
    assert_true(map_preview_reply_id(bytes + WIRE_MAGIC_BYTES, n_reply) == ID);
    assert_null(map_preview_make(&preview, bytes + WIRE_MAGIC_BYTES, n_reply, &again));
    reply = reply_of(5, &n_reply);
    for (size_t n = 0; n < n_reply; n++) { // cut off anywhere
        struct payload *made = map_preview_make(&preview, reply, n, &again);
        assert_null(made);
        assert_false(again);
    }
    free(reply);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(is_asked_for),
        cmocka_unit_test(keeps_points),
        cmocka_unit_test(asks_for_fewer),
        cmocka_unit_test(refuses_the_rest),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
