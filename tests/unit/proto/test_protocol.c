// SPDX-License-Identifier: Apache-2.0
// The golden bytes of proto/PROTOCOL.md: what is encoded today is what that page says, byte for
// byte, and every row of the page is a message of this test.
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "proto/wire.h"

struct golden {
    const char *name;
    uint8_t bytes[512];
    int n_bytes;
};

static posed_Pose pose(void)
{
    posed_Pose pose = posed_Pose_init_zero;
    pose.has_position = pose.has_orientation = true;
    pose.position = (posed_Vector3){1, -2, 0.5};
    pose.orientation = (posed_Quaternion){0, 0, 0, 1};
    return pose;
}

static struct golden ping_request(void)
{
    struct golden g = {.name = "request: ping"};
    posed_Request request = posed_Request_init_zero;
    request.id = 7;
    request.deadline_ms = 250;
    request.which_what = posed_Request_ping_tag;
    request.what.ping.payload = 300;
    g.n_bytes = wire_encode_request(&request, g.bytes, sizeof g.bytes);
    return g;
}

static struct golden set_pose_request(void)
{
    struct golden g = {.name = "request: set_pose"};
    posed_Request request = posed_Request_init_zero;
    request.id = 1;
    request.which_what = posed_Request_set_pose_tag;
    request.what.set_pose.has_pose = true;
    request.what.set_pose.pose = pose();
    g.n_bytes = wire_encode_request(&request, g.bytes, sizeof g.bytes);
    return g;
}

static struct golden error_reply(void)
{
    struct golden g = {.name = "reply: an error"};
    posed_Reply reply = posed_Reply_init_zero;
    reply.id = 7;
    reply.code = posed_Code_INVALID_ARGUMENT;
    wire_copy_text(reply.message, sizeof reply.message, "not finite");
    wire_copy_text(reply.field, sizeof reply.field, "set_pose.pose.position.x");
    uint8_t *large = malloc(WIRE_REPLY_MAX_BYTES);
    assert_non_null(large);
    g.n_bytes = wire_encode_reply(&reply, large, WIRE_REPLY_MAX_BYTES);
    assert_in_range(g.n_bytes, 1, sizeof g.bytes);
    memcpy(g.bytes, large, (size_t)g.n_bytes);
    free(large);
    return g;
}

static struct golden odometry(void)
{
    static uint8_t large[posed_Odometry_size];
    struct golden g = {.name = "topic pose: Odometry"};
    posed_Odometry message = posed_Odometry_init_zero;
    message.has_timestamp = true;
    message.timestamp = wire_timestamp(1305031102175304000);
    wire_copy_text(message.frame_id, sizeof message.frame_id, "odom");
    wire_copy_text(message.body_frame_id, sizeof message.body_frame_id, "camera");
    message.has_pose = true;
    message.pose = pose();
    message.session = 1;
    message.seq = 12345;
    message.state = posed_State_STATE_TRACKING;
    g.n_bytes = wire_encode(posed_Odometry_fields, &message, large, sizeof large);
    assert_in_range(g.n_bytes, 1, sizeof g.bytes);
    memcpy(g.bytes, large, (size_t)g.n_bytes);
    return g;
}

static struct golden transform(void)
{
    struct golden g = {.name = "topic tf: FrameTransform"};
    posed_FrameTransform message = posed_FrameTransform_init_zero;
    message.has_timestamp = message.has_translation = message.has_rotation = true;
    message.timestamp = wire_timestamp(2000000000);
    wire_copy_text(message.parent_frame_id, sizeof message.parent_frame_id, "odom");
    wire_copy_text(message.child_frame_id, sizeof message.child_frame_id, "camera");
    message.translation = pose().position;
    message.rotation = pose().orientation;
    g.n_bytes = wire_encode(posed_FrameTransform_fields, &message, g.bytes, sizeof g.bytes);
    return g;
}

static char *read_page(void)
{
    char path[512];
    snprintf(path, sizeof path, "%s/proto/PROTOCOL.md", getenv("POSED_SOURCE_DIR"));
    FILE *file = fopen(path, "re");
    assert_non_null(file);
    char *text = calloc(1, 1 << 16);
    assert_non_null(text);
    assert_in_range(fread(text, 1, (1 << 16) - 1, file), 1, (1 << 16) - 2);
    fclose(file);
    return text;
}

static void every_message_has_the_bytes_of_the_page(void **state)
{
    (void)state;
    struct golden all[] = {ping_request(), set_pose_request(), error_reply(), odometry(),
                           transform()};
    char *page = read_page();
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        char row[2 * sizeof all[i].bytes + 128];
        assert_true(all[i].n_bytes > 0);
        int n = snprintf(row, sizeof row, "| %s | `", all[i].name);
        for (int k = 0; k < all[i].n_bytes; k++)
            n += snprintf(row + n, sizeof row - (size_t)n, "%02x", all[i].bytes[k]);
        snprintf(row + n, sizeof row - (size_t)n, "` |\n");
        if (!strstr(page, row))
            fail_msg("proto/PROTOCOL.md lacks this row:\n%s", row);
    }
    // No row of the page without a message.
    size_t n_rows = 0;
    for (const char *at = strstr(page, "## Golden bytes"); at && (at = strstr(at, "` |\n")); at++)
        n_rows++;
    assert_int_equal(n_rows, sizeof all / sizeof *all);
    free(page);
}

static void the_bytes_are_read_back(void **state)
{
    (void)state;
    const struct golden ping = ping_request(), published = odometry();
    posed_Request request;
    posed_Odometry message;
    uint32_t kind;
    assert_int_equal(wire_decode_request(ping.bytes, (size_t)ping.n_bytes, &request, &kind), 0);
    assert_int_equal(request.id, 7);
    assert_int_equal(request.what.ping.payload, 300);
    assert_int_equal(
        wire_decode(posed_Odometry_fields, published.bytes, (size_t)published.n_bytes, &message),
        0);
    assert_true(message.pose.position.y == -2 && message.seq == 12345);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_message_has_the_bytes_of_the_page),
        cmocka_unit_test(the_bytes_are_read_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
