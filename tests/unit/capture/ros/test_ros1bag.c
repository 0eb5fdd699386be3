// SPDX-License-Identifier: Apache-2.0
// Damage in a ROS 1 bag: what is lost is told with its place, and the rest is read. A bag of three
// chunks with two images each, made here byte by byte, and changed.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "capture/driver.h"
#include "tests/unit/scratch.h"

#define W        8u
#define H        6u
#define N_CHUNKS 3u
#define N_EACH   2u // images of a chunk
#define N_IMAGES (N_CHUNKS * N_EACH)
#define FIRST_S  100u

static struct scratch scratch;
static unsigned char file[1 << 19];
static size_t n_file, chunks[N_CHUNKS], messages[N_IMAGES], index_begin, index_pos;
static size_t last_place, chunk_count; // of a chunk, in the index; of the bag header
static char said[8000];

static void hear(void *user, enum log_level level, const char *line)
{
    (void)user, (void)level;
    const size_t n = strlen(said);
    snprintf(said + n, sizeof said - n, "%s\n", line);
}

// --- The bag

static void put(const void *data, size_t n)
{
    memcpy(file + n_file, data, n);
    n_file += n;
}

static void put_number(uint64_t value, size_t n)
{
    for (size_t i = 0; i < n; i++)
        file[n_file++] = (unsigned char)(value >> 8 * i);
}

static void put_text(const char *text)
{
    put_number(strlen(text), 4);
    put(text, strlen(text));
}

static void set_u32(size_t at, size_t value)
{
    const size_t end = n_file;
    n_file = at;
    put_number(value, 4);
    n_file = end;
}

static void set_u64(size_t at, uint64_t value)
{
    const size_t end = n_file;
    n_file = at;
    put_number(value, 8);
    n_file = end;
}

static void put_field(const char *name, uint64_t value, size_t n)
{
    put_number(strlen(name) + 1 + n, 4);
    put(name, strlen(name));
    put("=", 1);
    put_number(value, n);
}

static void put_text_field(const char *name, const char *text)
{
    put_number(strlen(name) + 1 + strlen(text), 4);
    put(name, strlen(name));
    put("=", 1);
    put(text, strlen(text));
}

// A length that is filled in by end_length.
static size_t begin_length(void)
{
    put_number(0, 4);
    return n_file;
}

static void end_length(size_t begin)
{
    set_u32(begin - 4, n_file - begin);
}

static unsigned n_connections; // of the topic: the chunks take turns

static void put_connection(unsigned connection)
{
    size_t length = begin_length();
    put_field("op", 7, 1);
    put_field("conn", connection, 4);
    put_text_field("topic", "/camera/depth/image_raw");
    end_length(length);
    length = begin_length();
    put_text_field("type", "sensor_msgs/Image");
    end_length(length);
}

static void put_message(unsigned i)
{
    messages[i] = n_file;
    size_t length = begin_length();
    put_field("op", 2, 1);
    put_field("conn", i / N_EACH % n_connections, 4);
    put_field("time", FIRST_S + i, 8);
    end_length(length);
    length = begin_length();
    put_number(i, 4);
    put_number(FIRST_S + i, 4); // s
    put_number(0, 4);
    put_text("camera");
    put_number(H, 4);
    put_number(W, 4);
    put_text("16UC1");
    put_number(0, 1);
    put_number(2 * W, 4);
    put_number(2 * W * H, 4);
    for (unsigned k = 0; k < W * H; k++)
        put_number(1000 + i, 2);
    end_length(length);
}

static void put_chunk(unsigned c)
{
    chunks[c] = n_file;
    size_t length = begin_length();
    put_field("op", 5, 1);
    put_text_field("compression", "none");
    put_field("size", 0, 4);
    const size_t size = n_file - 4;
    end_length(length);
    length = begin_length();
    if (c < n_connections)
        put_connection(c);
    for (unsigned k = 0; k < N_EACH; k++)
        put_message(c * N_EACH + k);
    end_length(length);
    set_u32(size, n_file - length);
    length = begin_length(); // the chunk's own index
    put_field("op", 4, 1);
    put_field("ver", 1, 4);
    put_field("conn", c % n_connections, 4);
    put_field("count", 0, 4);
    end_length(length);
    put_number(0, 4);
}

static void put_chunk_info(unsigned c)
{
    size_t length = begin_length();
    put_field("op", 6, 1);
    put_field("ver", 1, 4);
    put_field("chunk_pos", chunks[c], 8);
    last_place = n_file - 8;
    put_field("count", 1, 4);
    end_length(length);
    length = begin_length();
    put_number(c % n_connections, 4);
    put_number(N_EACH, 4);
    end_length(length);
}

static void put_bag_header(void)
{
    size_t length = begin_length();
    put_field("op", 3, 1);
    put_field("index_pos", 0, 8);
    index_pos = n_file - 8;
    put_field("conn_count", n_connections, 4);
    put_field("chunk_count", N_CHUNKS, 4);
    chunk_count = n_file - 4;
    end_length(length);
    put_number(0, 4);
}

static void make_bag(unsigned connections)
{
    n_connections = connections;
    n_file = 0;
    put("#ROSBAG V2.0\n", 13);
    put_bag_header();
    for (unsigned c = 0; c < N_CHUNKS; c++)
        put_chunk(c);
    index_begin = n_file;
    for (unsigned c = 0; c < n_connections; c++)
        put_connection(c);
    for (unsigned c = 0; c < N_CHUNKS; c++)
        put_chunk_info(c);
    set_u32(index_pos, index_begin);
}

// NULL: once more, in the same folder.
static int setup(void **state)
{
    if (state)
        scratch_create(&scratch);
    make_bag(1);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    scratch_remove(&scratch);
    return 0;
}

// Without the index, as a recorder that was killed leaves it.
static void leave_index_out(void)
{
    n_file = index_begin;
    memset(file + index_pos, 0, 8);
}

// --- What is read of it

// A bit for each image that is there, by its depth.
static unsigned read_images(void)
{
    char path[256];
    const struct capture_settings settings = {.allow_implausible = true, .log = {hear, NULL}};
    struct capture_info info = {0};
    struct capture_frame frame = {0};
    uint16_t pixels[W * H];
    unsigned seen = 0;
    void *bag;
    said[0] = 0;
    scratch_write(&scratch, "the.bag", file, n_file);
    if (capture_driver_ros1bag.open(&bag, scratch_name(&scratch, "the.bag", path), &settings,
                                    &info)) {
        print_error("%s\n", said);
        return 0;
    }
    for (uint64_t i = 0; i < info.n_frames; i++) {
        assert_int_equal(capture_driver_ros1bag.decode(bag, i, pixels, &frame), 0);
        assert_in_range(pixels[0], 1000, 1000 + N_IMAGES - 1);
        seen |= 1u << (pixels[0] - 1000);
    }
    capture_driver_ros1bag.close(bag);
    return seen;
}

__attribute__((format(printf, 1, 2))) static void assert_said(const char *format, ...)
{
    char wanted[300];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(wanted, sizeof wanted, format, arguments);
    va_end(arguments);
    if (!strstr(said, wanted))
        print_error("%s\nwanted: %s\n", said, wanted);
    assert_non_null(strstr(said, wanted));
}

static void assert_silent(void)
{
    assert_null(strstr(said, "damaged"));
    assert_null(strstr(said, "incomplete"));
}

static void whole(void **state)
{
    (void)state;
    assert_int_equal(read_images(), 0x3f);
    assert_silent();
    leave_index_out();
    assert_int_equal(read_images(), 0x3f);
    assert_silent();
}

// The fields of a message's header are gone, but not its lengths: the next one is read.
// Of a driver that was started again.
static void two_connections_of_a_topic(void **state)
{
    (void)state;
    for (unsigned n = 2; n <= N_CHUNKS; n++) {
        make_bag(n);
        assert_int_equal(read_images(), 0x3f);
        assert_silent();
        assert_null(strstr(said, "depth topics"));
        leave_index_out();
        assert_int_equal(read_images(), 0x3f);
    }
}

static void header_of_a_message(void **state)
{
    (void)state;
    const size_t n_bytes = messages[1] - messages[0];
    memset(file + messages[2] + 4, 0xff, 38);
    assert_int_equal(read_images(), 0x3b);
    assert_said("the.bag: damaged at byte %zu: a record cannot be read, %zu bytes\n", messages[2],
                n_bytes);
}

// No such topic is known: nobody misses it but for the warning.
static void connection_of_a_message(void **state)
{
    (void)state;
    file[messages[5] + 4 + 8 + 9] = 9; // behind op, and "conn=" with its length
    assert_int_equal(read_images(), 0x1f);
    assert_said("damaged at byte %zu: a record cannot be read", messages[5]);
}

// Nor its length: the rest of the chunk is lost.
static void length_of_a_message(void **state)
{
    (void)state;
    memset(file + messages[2], 0xff, 38);
    assert_int_equal(read_images(), 0x33);
    assert_said("the.bag: damaged at byte %zu: from here on its chunk cannot be read, the messages "
                "there are missing, %zu bytes\n",
                messages[2], 2 * (messages[1] - messages[0]));
}

// Of a chunk the fields, but not its lengths.
static void header_of_a_chunk(void **state)
{
    (void)state;
    memset(file + chunks[1] + 4, 0xff, 16);
    assert_int_equal(read_images(), 0x33);
    assert_said("damaged at byte %zu: ", chunks[1]);
}

// --- Behind damage, by the index

static void assert_goes_on(size_t from, size_t to)
{
    assert_said("the.bag: damaged at byte %zu: %zu bytes not read, goes on at byte %zu by the "
                "index\n",
                from, to - from, to);
    assert_null(strstr(said, "incomplete"));
}

// The lengths of a chunk are gone: of its header; of its data, which then ends in a later chunk.
static void lengths_of_a_chunk(void **state)
{
    (void)state;
    const size_t n_data = chunks[1] + 4 + 8 + 20 + 13;
    memset(file + chunks[1], 0xff, 16);
    assert_int_equal(read_images(), 0x33);
    assert_goes_on(chunks[1], chunks[2]);

    setup(NULL);
    set_u32(n_data, chunks[2] - chunks[1] + 20);
    assert_int_equal(read_images(), 0x33);
    assert_goes_on(chunks[1], chunks[2]);

    setup(NULL);
    set_u32(n_data, messages[3] - chunks[1]); // ends among its messages
    assert_int_equal(read_images(), 0x33);
    assert_said("the.bag: damaged at byte %zu: %zu bytes not read: a chunk does not unpack to its "
                "size\n",
                chunks[1], messages[3] - chunks[1] + n_data + 4 - chunks[1]);

    memset(file + chunks[2], 0xff, 16); // also the last one
    assert_int_equal(read_images(), 0x03);
    assert_said(", goes on at byte %zu by the index\n", index_begin);
    assert_null(strstr(said, "incomplete"));
}

// The only connection is in it, and in the index.
static void the_first_chunk(void **state)
{
    (void)state;
    memset(file + chunks[0], 0xff, 16);
    assert_int_equal(read_images(), 0x3c);
    assert_goes_on(chunks[0], chunks[1]);
}

// The index knows the topic, but no chunk can be unpacked.
static void unknown_compression(void **state)
{
    (void)state;
    for (unsigned c = 0; c < N_CHUNKS; c++)
        file[chunks[c] + 4 + 8 + 4 + strlen("compression=")] = 'x';
    assert_int_equal(read_images(), 0);
    assert_said("the.bag: a chunk is packed in a way that this program was not built for\n");
}

static void assert_breaks_off(void)
{
    memset(file + chunks[1], 0xff, 16);
    assert_int_equal(read_images(), 0x03);
    assert_said("the.bag: incomplete, breaks off at byte %zu; for other programs: rosbag reindex /",
                chunks[1]);
    assert_null(strstr(said, "by the index"));
}

// What the index says is not to be followed: then it is as if there was none.
static void no_whole_index(void **state)
{
    (void)state;
    leave_index_out();
    assert_breaks_off();
    setup(NULL);
    n_file--; // of the last chunk's info
    assert_breaks_off();
    static const uint64_t wrong[] = {0, 1, UINT64_MAX, 1 << 16};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        setup(NULL);
        set_u64(last_place, wrong[i]);
        assert_breaks_off();
    }
    setup(NULL);
    set_u64(last_place, chunks[1]); // twice
    assert_breaks_off();
    setup(NULL);
    set_u64(index_pos, n_file);
    assert_breaks_off();
    setup(NULL);
    set_u64(index_pos, chunks[2]);
    assert_breaks_off();
}

// A place where no chunk stands is passed over, and hides nothing that can be read.
static void index_that_leads_astray(void **state)
{
    (void)state;
    set_u64(last_place, messages[4] + 3);
    assert_int_equal(read_images(), 0x3f);
    assert_silent();
    memset(file + chunks[1], 0xff, 16);
    assert_int_equal(read_images(), 0x03);
    assert_goes_on(chunks[1], index_begin);
}

// Each record has a place in it where no chunk stands: each is looked at once.
static void many_false_places(void **state)
{
    (void)state;
    enum { N_PLACES = 8000, N_RECORD = 16, MAX_CPU_S = 2 }; // s: takes a few ms
    leave_index_out();
    const size_t begin = n_file;
    for (size_t i = 0; i < N_PLACES; i++) {
        put_number(N_RECORD - 8, 4);
        put_field("op", 4, 1);
        put_number(0, 4);
    }
    set_u32(index_pos, n_file);
    set_u32(chunk_count, N_PLACES);
    for (size_t i = 0; i < N_PLACES; i++) {
        const size_t length = begin_length();
        put_field("op", 6, 1);
        put_field("chunk_pos", begin + i * N_RECORD + 1, 8);
        end_length(length);
        put_number(0, 4);
    }
    const clock_t start = clock();
    assert_int_equal(read_images(), 0x3f);
    assert_silent();
    assert_in_range((clock() - start) / CLOCKS_PER_SEC, 0, MAX_CPU_S);
}

// More places than are told one by one.
static void many_places(void **state)
{
    (void)state;
    leave_index_out();
    for (unsigned i = 0; i < 12; i++) {
        put_number(4, 4);
        put("none", 4);
        put_number(0, 4);
        put_number(8, 4); // between them such as are passed over
        put_field("op", 4, 1);
        put_number(0, 4);
    }
    assert_int_equal(read_images(), 0x3f);
    assert_said("damaged at byte %zu: a record cannot be read, 12 bytes\n", index_begin);
    assert_said("the.bag: damaged at 2 places more\n");
}

// Zeros behind what was recorded, where power went, are one place; so are those in a chunk.
static void zeros(void **state)
{
    (void)state;
    enum { N_ZEROS = 80000 };
    leave_index_out();
    for (unsigned i = 0; i < N_ZEROS / 8; i++)
        put_number(0, 8);
    assert_int_equal(read_images(), 0x3f);
    assert_said("the.bag: damaged at byte %zu: %d records cannot be read, %d bytes\n", index_begin,
                N_ZEROS / 8, N_ZEROS);
    assert_null(strstr(said, "places more"));

    setup(NULL);
    const size_t n_bytes = messages[3] - messages[2];
    memset(file + messages[2], 0, n_bytes);
    set_u32(messages[2] + n_bytes - n_bytes % 8 - 8, n_bytes % 8); // the last one's header
    assert_int_equal(read_images(), 0x3b);
    assert_said("the.bag: damaged at byte %zu: %zu records cannot be read, %zu bytes\n",
                messages[2], n_bytes / 8, n_bytes);
    assert_null(strstr(strstr(said, "damaged") + 1, "damaged"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(whole, setup, teardown),
        cmocka_unit_test_setup_teardown(two_connections_of_a_topic, setup, teardown),
        cmocka_unit_test_setup_teardown(header_of_a_message, setup, teardown),
        cmocka_unit_test_setup_teardown(connection_of_a_message, setup, teardown),
        cmocka_unit_test_setup_teardown(length_of_a_message, setup, teardown),
        cmocka_unit_test_setup_teardown(header_of_a_chunk, setup, teardown),
        cmocka_unit_test_setup_teardown(lengths_of_a_chunk, setup, teardown),
        cmocka_unit_test_setup_teardown(the_first_chunk, setup, teardown),
        cmocka_unit_test_setup_teardown(unknown_compression, setup, teardown),
        cmocka_unit_test_setup_teardown(no_whole_index, setup, teardown),
        cmocka_unit_test_setup_teardown(index_that_leads_astray, setup, teardown),
        cmocka_unit_test_setup_teardown(many_false_places, setup, teardown),
        cmocka_unit_test_setup_teardown(many_places, setup, teardown),
        cmocka_unit_test_setup_teardown(zeros, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
