// SPDX-License-Identifier: Apache-2.0
// Foxglove's messages read from bytes made here: fields of tomorrow are passed over, what breaks
// off or has another type is refused or left out.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>

#include "capture/mcap/foxglove.h"
#include "capture/mcap/protobuf.h"

static unsigned char bytes[2048];

static size_t message_of(unsigned char *out, uint32_t number, const void *part, size_t n)
{
    struct protobuf_out to = {.data = out, .capacity = 1024};
    protobuf_put_bytes(&to, number, part, n);
    return to.n;
}

static size_t doubles_of(unsigned char *out, const double *values, uint32_t n)
{
    struct protobuf_out to = {.data = out, .capacity = 1024};
    for (uint32_t i = 0; i < n; i++) {
        protobuf_put_key(&to, i + 1, PROTOBUF_64);
        protobuf_put_double(&to, values[i]);
    }
    return to.n;
}

static size_t whole_odometry(void)
{
    static const double position[] = {1, 2, 3}, turn[] = {0, 0, 0.6, 0.8}, speed[] = {4, 5, 6};
    double covariance[36];
    unsigned char part[1024], inner[1024];
    for (int i = 0; i < 36; i++)
        covariance[i] = i;
    size_t n =
        message_of(bytes, 1, "\x08\x05\x10\x07\x1a\x01x", 7); // 5 s, 7 ns, a field of tomorrow
    size_t n_part = message_of(part, 1, inner, doubles_of(inner, position, 3));
    n_part += message_of(part + n_part, 2, inner, doubles_of(inner, turn, 4));
    n_part += message_of(part + n_part, 9, "?", 1);
    n += message_of(bytes + n, 4, part, n_part);
    n += message_of(bytes + n, 5, inner, doubles_of(inner, speed, 3));
    n += message_of(bytes + n, 6, inner, doubles_of(inner, speed + 1, 2));
    n += message_of(bytes + n, 7, covariance, sizeof covariance);
    covariance[35] = 36;
    n += message_of(bytes + n, 8, covariance, sizeof covariance);
    n += message_of(bytes + n, 1027, part, n_part);
    n += message_of(bytes + n, 99, "?", 1);
    bytes[n++] = 0x40; // a varint where none is known
    bytes[n++] = 1;
    return n;
}

static void an_odometry(void **state)
{
    (void)state;
    struct foxglove_odometry got;
    const size_t n = whole_odometry();
    assert_true(foxglove_get_odometry(bytes, n, &got));
    assert_int_equal(got.time_ns, 5000000007);
    assert_true(got.position_m[0] == 1 && got.position_m[2] == 3);
    assert_true(got.orientation_xyzw[2] == 0.6 && got.orientation_xyzw[3] == 0.8);
    assert_true(got.linear_m_s[1] == 5 && got.angular_rad_s[1] == 6 && got.angular_rad_s[2] == 0);
    assert_true(got.covariance[0] == 0 && got.covariance[35] == 35);
    assert_true(got.has_velocity_covariance && got.velocity_covariance[35] == 36);
    assert_true(got.has_map && got.map_position_m[2] == 3 && got.map_orientation_xyzw[2] == 0.6);
    assert_false(got.is_lost);
    static const unsigned char lost[] = {0xe8, 0x3e, 4}, tracking[] = {0xe8, 0x3e, 2};
    assert_true(foxglove_get_odometry(lost, sizeof lost, &got) && got.is_lost);
    assert_true(foxglove_get_odometry(tracking, sizeof tracking, &got) && !got.is_lost);
    static const unsigned char is_cut[] = {0xa8, 0x40, 1}; // field 1029
    assert_true(foxglove_get_odometry(is_cut, sizeof is_cut, &got) && got.is_cut);
    assert_true(foxglove_get_odometry(lost, sizeof lost, &got) && !got.is_cut);
    static const unsigned char is_stale[] = {0xb0, 0x40, 1}; // field 1030
    assert_true(foxglove_get_odometry(is_stale, sizeof is_stale, &got) && got.is_stale);
    assert_true(foxglove_get_odometry(is_cut, sizeof is_cut, &got) && !got.is_stale);
    assert_true(foxglove_get_odometry(bytes, 0, &got));
    assert_false(got.has_map);
    assert_int_equal(got.time_ns, 0);
    // Cut anywhere it is refused, or whole up to there; never read past its end.
    size_t n_refused = 0;
    for (size_t cut = 1; cut < n; cut++) {
        unsigned char copy[sizeof bytes];
        memcpy(copy, bytes, cut);
        n_refused += !foxglove_get_odometry(copy, cut, &got);
    }
    assert_true(n_refused > n - 10);
    // Parts that break off inside.
    static const struct {
        uint32_t number;
        const char *part;
        size_t n;
    } broken[] = {{1, "\x08", 1},
                  {4, "\x0a\x09\x09", 3},
                  {4, "\x0a\x02\x09\x01", 4},
                  {4, "\x12\x02\x09\x01", 4},
                  {5, "\x09\x01", 2},
                  {6, "\x09\x01", 2}};
    for (size_t i = 0; i < sizeof broken / sizeof *broken; i++)
        assert_false(foxglove_get_odometry(
            bytes, message_of(bytes, broken[i].number, broken[i].part, broken[i].n), &got));
    static const unsigned char zeros[80];
    // A covariance of another size is none; numbers beyond what a message has are left out.
    assert_true(foxglove_get_odometry(bytes, message_of(bytes, 7, zeros, 80), &got));
    assert_true(got.covariance[1] == 0);
    assert_true(foxglove_get_odometry(bytes, message_of(bytes, 8, zeros, 80), &got));
    assert_false(got.has_velocity_covariance);
    unsigned char inner[64];
    static const double many[] = {1, 2, 3, 4, 5};
    assert_true(foxglove_get_odometry(
        bytes, message_of(bytes, 5, inner, doubles_of(inner, many, 5)), &got));
    assert_true(got.linear_m_s[2] == 3 && got.angular_rad_s[0] == 0);
}

static void images_and_calibrations(void **state)
{
    (void)state;
    struct foxglove_image image;
    struct intrinsics camera;
    assert_true(foxglove_get_image(bytes, 0, &image)); // no rows, and all of them are there
    // 2x1 pixels of 2 bytes; remainders without their units say nothing
    static const char head[] = "\x15\2\0\0\0\x1d\1\0\0\0\x2d\4\0\0\0\x22\5"
                               "16UC1\x32\4abcd";
    assert_true(foxglove_get_image(head, sizeof head - 1, &image));
    assert_int_equal(image.width_px, 2);
    assert_string_equal(image.encoding, "16UC1");
    assert_null(image.remainders);
    assert_false(foxglove_get_image(head, sizeof head - 2, &image)); // pixels that break off
    static const char short_data[] = "\x15\2\0\0\0\x1d\2\0\0\0\x2d\4\0\0\0\x32\4abcd";
    assert_false(foxglove_get_image(short_data, sizeof short_data - 1, &image));
    static const char long_name[] = "\x22\x50"
                                    "0123456789012345678901234567890123456789"
                                    "0123456789012345678901234567890123456789";
    assert_true(foxglove_get_image(long_name, sizeof long_name - 1, &image));
    assert_string_equal(image.encoding, "");                            // no name that we know
    assert_false(foxglove_get_calibration("\x15\2\0\0\0", 5, &camera)); // without its matrix
    assert_false(foxglove_get_calibration("\x15\2\0", 3, &camera));
    assert_false(foxglove_get_calibration("\x32\1x", 3, &camera));
}

static void stamps_of_images(void **state)
{
    (void)state;
    struct foxglove_image image;
    assert_true(foxglove_get_image(bytes, message_of(bytes, 1, "\x08\x05\x10\x07", 4), &image));
    assert_int_equal(image.time_ns, 5000000007);
    assert_true(foxglove_get_image(bytes, message_of(bytes, 2, "?", 1), &image));
    assert_int_equal(image.time_ns, 0);
    // beyond what nanoseconds since 1970 can say, and a second of too many of them
    static const char late[] = "\x08\xff\xff\xff\xff\x7f",
                      long_second[] = "\x08\1\x10\x80\x94\xeb\xdc\3";
    assert_true(foxglove_get_image(bytes, message_of(bytes, 1, late, sizeof late - 1), &image));
    assert_int_equal(image.time_ns, 0);
    assert_true(foxglove_get_image(bytes, message_of(bytes, 1, long_second, sizeof long_second - 1),
                                   &image));
    assert_int_equal(image.time_ns, 0);
    assert_false(foxglove_get_image(bytes, message_of(bytes, 1, "\x08", 1), &image));
}

// A field that comes again counts as it came last, wherever it stands: the remainders are for the
// size that holds in the end.
static void fields_that_come_again(void **state)
{
    (void)state;
    struct foxglove_image image;
    struct protobuf_out out = {.data = bytes, .capacity = sizeof bytes};
    protobuf_put_text(&out, 4, "a_longer_name");
    protobuf_put_text(&out, 4, "16UC1");
    protobuf_put_fixed32(&out, 5, 4);
    protobuf_put_bytes(&out, 6, "abcdefgh", 8);
    protobuf_put_key(&out, FOXGLOVE_FIELD_UNITS_PER_M, PROTOBUF_64);
    protobuf_put_double(&out, 5000);
    protobuf_put_fixed32(&out, 2, 1);
    protobuf_put_fixed32(&out, 3, 1);
    protobuf_put_bytes(&out, FOXGLOVE_FIELD_REMAINDERS, "\1", 1);
    assert_true(foxglove_get_image(bytes, out.n, &image));
    assert_non_null(image.remainders);
    assert_string_equal(image.encoding, "16UC1");
    protobuf_put_fixed32(&out, 2, 2);
    protobuf_put_fixed32(&out, 3, 2);
    assert_true(foxglove_get_image(bytes, out.n, &image));
    assert_int_equal(image.width_px, 2);
    assert_null(image.remainders);
    assert_true(image.units_per_m == 0);
    protobuf_put_bytes(&out, FOXGLOVE_FIELD_REMAINDERS, "\1\2\3\4", 4);
    assert_true(foxglove_get_image(bytes, out.n, &image));
    assert_true(image.remainders && image.remainders[3] == 4 && image.units_per_m == 5000);
    // before the size is known
    out.n = 0;
    protobuf_put_bytes(&out, FOXGLOVE_FIELD_REMAINDERS, "\5", 1);
    protobuf_put_key(&out, FOXGLOVE_FIELD_UNITS_PER_M, PROTOBUF_64);
    protobuf_put_double(&out, 5000);
    protobuf_put_fixed32(&out, 2, 1);
    protobuf_put_fixed32(&out, 3, 1);
    protobuf_put_fixed32(&out, 5, 2);
    protobuf_put_bytes(&out, 6, "ab", 2);
    assert_true(foxglove_get_image(bytes, out.n, &image));
    assert_true(image.remainders && image.remainders[0] == 5);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_odometry),
        cmocka_unit_test(images_and_calibrations),
        cmocka_unit_test(stamps_of_images),
        cmocka_unit_test(fields_that_come_again),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
