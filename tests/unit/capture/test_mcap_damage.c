// SPDX-License-Identifier: Apache-2.0
// Damage in an MCAP file: reading goes on at the next chunk that the summary names, of our messages
// and of ROS; and so does the repair.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "capture/io/chunk_places.h"
#include "tests/unit/capture/damaged_mcap.h"

static void lengths_of_a_chunk(void **state)
{
    (void)state;
    for (int k = 0; k < 2; k++) {
        begin(k);
        assert_true(read_file() == of_chunks(7));
        assert_null(strstr(said, "damaged"));
        assert_true(repair_file().was_complete);

        memset(file + chunks[1], 0xff, 60);
        assert_true(read_file() == of_chunks(5));
        assert_goes_on(chunks[1], chunks[2]);

        begin(k);
        mcap_put(file + chunks[1] + 1, chunks[2] - chunks[1], 8); // ends in the next one
        assert_true(read_file() == of_chunks(5));
        assert_goes_on(chunks[1], chunks[2]);

        begin(k);
        file[chunks[1]] = 0x46; // no opcode: it is not passed over in silence
        assert_true(read_file() == of_chunks(5));
        assert_goes_on(chunks[1], chunks[2]);

        begin(k);
        file[chunks[1]] = MCAP_DATA_END; // the end it is not, either
        assert_true(read_file() == of_chunks(5));
        assert_goes_on(chunks[1], chunks[2]);

        begin(k);
        memset(file + chunks[2], 0xff, 60);
        assert_true(read_file() == of_chunks(3));
        assert_goes_on(chunks[2], summary);
    }
}

// Schemas and channels are gone, but for those of the summary.
static void head_of_the_file(void **state)
{
    (void)state;
    for (int k = 0; k < 2; k++) {
        begin(k);
        const size_t at =
            MCAP_MAGIC_BYTES + MCAP_RECORD_BYTES + (size_t)mcap_get(file + MCAP_MAGIC_BYTES + 1, 8);
        memset(file + at, 0, chunks[0] - at);
        assert_true(read_file() == of_chunks(7));
        assert_goes_on(at, chunks[0]);
    }
}

// A summary that is not whole, or leads elsewhere, is not followed.
static void no_whole_summary(void **state)
{
    (void)state;
    for (int k = 0; k < 2; k++)
        for (int change = 0; change < 3; change++) {
            begin(k);
            memset(file + chunks[1], 0xff, 60);
            if (change == 0)
                n_file = chunks[2] + 100;
            else if (change == 1)
                file[summary + MCAP_RECORD_BYTES + 5] ^= 1; // against its checksum
            else
                n_file--;
            assert_true(read_file() == of_chunks(1));
            assert_said("b.mcap: incomplete, ");
            assert_null(strstr(said, "by the index"));
        }
}

// A channel record whose topic leads out of it: lost, and the summary's takes its place. Without a
// summary, what refers to it is lost, too.
static void a_malformed_channel(void **state)
{
    (void)state;
    for (int k = 0; k < 2; k++) {
        begin(k);
        size_t at = MCAP_MAGIC_BYTES;
        while (file[at] != MCAP_CHANNEL)
            at += MCAP_RECORD_BYTES + (size_t)mcap_get(file + at + 1, 8);
        memset(file + at + MCAP_RECORD_BYTES + 4, 0x7f, 4);
        const uint64_t n_record = MCAP_RECORD_BYTES + mcap_get(file + at + 1, 8);
        struct mcap_repaired repaired = repair_file();
        assert_int_equal(repaired.n_lost_bytes, n_record);
        assert_false(repaired.was_complete);
        const uint64_t n_messages = repaired.n_messages;
        assert_true(read_frames("c.mcap") == of_chunks(7));
        n_file = data_end;
        repaired = repair_file();
        assert_int_equal(repaired.n_messages, n_messages - N_FRAMES);
        assert_true(repaired.n_lost_bytes > n_record + N_FRAMES * sizeof(uint16_t) * N);
        assert_int_equal(repaired.n_chunks, N_CHUNKS);
    }
}

// Power went: zeros stand behind what reached the disk. The file ends where they begin, and nobody
// walks through them, nine bytes at a time.
static void zeros_behind_the_data(void **state)
{
    (void)state;
    enum { N_ZEROS = 1 << 24 };
    for (int k = 0; k < 2; k++) {
        char path[256];
        begin(k);
        memset(file + chunks[2], 0, sizeof file - chunks[2]);
        n_file = chunks[2] + 900;
        const clock_t start = clock();
        scratch_write(&scratch, "b.mcap", file, n_file);
        assert_int_equal(truncate(scratch_name(&scratch, "b.mcap", path), N_ZEROS), 0);
        assert_true(read_frames("b.mcap") == of_chunks(3));
        assert_in_range((clock() - start) * 10 / CLOCKS_PER_SEC, 0, 3);
        if (k == 0)
            assert_said("b.mcap: incomplete, ends after 32 images, breaks off at byte %zu; for "
                        "other programs: posectl record repair FILE\n",
                        chunks[2]);
        else
            assert_said("b.mcap: incomplete, breaks off at byte %zu; for other programs: posectl "
                        "record repair FILE\n",
                        chunks[2]);
        struct mcap_repaired repaired = repair_file();
        assert_int_equal(repaired.n_lost_bytes, 0); // nothing was there
        assert_int_equal(repaired.n_zeros, 900);
        assert_false(repaired.was_complete);
        assert_true(read_frames("c.mcap") == of_chunks(3));
        assert_null(strstr(said, "incomplete"));

        begin(k); // a chunk that is torn in its length, zeros, and whether they may be data
        memset(file + chunks[2] + 200, 0, sizeof file - chunks[2] - 200);
        file[chunks[2] + 199] = 1;
        mcap_put(file + chunks[2] + 1, UINT64_C(1) << 40, 8);
        n_file = chunks[2] + 200 + 512;
        repaired = repair_file();
        assert_int_equal(repaired.n_lost_bytes, 200);
        assert_int_equal(repaired.n_zeros, 512);
        n_file--;
        repaired = repair_file();
        assert_int_equal(repaired.n_lost_bytes, 200 + 511);
        assert_int_equal(repaired.n_zeros, 0);

        begin(k); // behind its end
        memset(file + n_file, 0, 100000);
        n_file += 100000;
        repaired = repair_file();
        assert_int_equal(repaired.n_lost_bytes, 0);
        assert_int_equal(repaired.n_zeros, 100000);
        assert_false(repaired.was_complete);
        assert_true(read_frames("c.mcap") == of_chunks(7));
    }
}

// A recorder may repeat a schema in each chunk: more copies than there could be schemas are one.
static void a_schema_many_times(void **state)
{
    (void)state;
    static const char content[] = "\x84\x03"
                                  "\x11\0\0\0foxglove.RawImage\x08\0\0\0protobuf\0\0\0\0";
    enum { N_COPIES = 1100, N_CONTENT = sizeof content - 1 };
    const size_t n_record = MCAP_RECORD_BYTES + N_CONTENT, n_all = N_COPIES * n_record;
    for (int k = 0; k < 2; k++) {
        begin(k);
        const size_t at =
            MCAP_MAGIC_BYTES + MCAP_RECORD_BYTES + (size_t)mcap_get(file + MCAP_MAGIC_BYTES + 1, 8);
        assert_in_range(n_file + n_all, 0, sizeof file);
        memmove(file + at + n_all, file + at, n_file - at);
        n_file += n_all;
        for (size_t i = 0; i < N_COPIES; i++) {
            unsigned char *const record = file + at + i * n_record;
            record[0] = MCAP_SCHEMA;
            mcap_put(record + 1, N_CONTENT, 8);
            memcpy(record + MCAP_RECORD_BYTES, content, N_CONTENT);
        }
        assert_true(read_file() == of_chunks(7));
    }
}

// --- Summaries with more places than the file has chunks

#define N_PLACES   8000u
#define MAX_CPU_S  2 // a few ms; many times that where each record looks at all places
#define N_LONG     (1u << 19)
#define INDEX_SIZE 32u // of a chunk index up to its map

static unsigned char long_file[N_LONG];
static size_t n_long;

static unsigned char *put_record(unsigned opcode, size_t n_bytes)
{
    unsigned char *const record = long_file + n_long;
    n_long += MCAP_RECORD_BYTES + n_bytes;
    assert_in_range(n_long, 0, N_LONG);
    memset(record, 0, MCAP_RECORD_BYTES + n_bytes);
    record[0] = (unsigned char)opcode;
    mcap_put(record + 1, n_bytes, 8);
    return record + MCAP_RECORD_BYTES;
}

// `first`, and if not 0 `second`, N_PLACES times as empty records, and as many places `shift` bytes
// behind the first one.
static void make_long_file(const char *profile, unsigned first, unsigned second, size_t shift)
{
    memcpy(long_file, MCAP_MAGIC, MCAP_MAGIC_BYTES);
    n_long = MCAP_MAGIC_BYTES;
    unsigned char *const header = put_record(MCAP_HEADER, 8 + strlen(profile));
    mcap_put(header, strlen(profile), 4);
    memcpy(header + 4, profile, strlen(profile));
    const size_t begin = n_long, step = (second ? 2 : 1) * MCAP_RECORD_BYTES;
    for (unsigned i = 0; i < N_PLACES; i++) {
        put_record(first, 0);
        if (second)
            put_record(second, 0);
    }
    put_record(MCAP_DATA_END, MCAP_DATA_END_BYTES);
    const size_t start = n_long;
    for (unsigned i = 0; i < N_PLACES; i++)
        mcap_put(put_record(MCAP_CHUNK_INDEX, INDEX_SIZE) + 16, begin + i * step + shift, 8);
    mcap_put(put_record(MCAP_FOOTER, MCAP_FOOTER_BYTES), start, 8);
    memcpy(long_file + n_long, MCAP_MAGIC, MCAP_MAGIC_BYTES);
    n_long += MCAP_MAGIC_BYTES;
    assert_in_range(n_long, 0, N_LONG);
}

// Reads it, and repairs it: there is nothing in it.
static void assert_soon(void)
{
    struct log_sink log = {hear, NULL};
    struct mcap_repaired repaired;
    char path[256];
    const clock_t begin = clock();
    scratch_write(&scratch, "b.mcap", long_file, n_long);
    assert_true(read_frames("b.mcap") == 0);
    assert_in_range((clock() - begin) / CLOCKS_PER_SEC, 0, MAX_CPU_S);
    const int in = open(scratch_name(&scratch, "b.mcap", path), O_RDONLY);
    const int out = open(scratch_name(&scratch, "c.mcap", path), O_RDWR | O_CREAT | O_TRUNC, 0600);
    assert_true(in >= 0 && out >= 0);
    assert_int_equal(mcap_repair(in, out, "b.mcap", &log, &repaired), -ENOENT);
    close(in);
    close(out);
    assert_in_range((clock() - begin) / CLOCKS_PER_SEC, 0, 2 * MAX_CPU_S);
}

// Records that are not damaged, each with a place in it where no chunk stands.
static void many_false_places(void **state)
{
    (void)state;
    for (int k = 0; k < 2; k++) {
        make_long_file(k ? "ros2" : "", 0x80, 0, 1);
        assert_soon();
    }
}

// Zeros before each chunk, and each chunk damaged.
static void many_damages(void **state)
{
    (void)state;
    for (int k = 0; k < 2; k++) {
        make_long_file(k ? "ros2" : "", 0, MCAP_CHUNK, MCAP_RECORD_BYTES);
        assert_soon();
    }
}

static void places(void **state)
{
    (void)state;
    static const uint64_t bad[][2] = {{7, 20}, {10, 10}, {10, 100}, {10, UINT64_MAX}};
    struct chunk_places p = {0};
    assert_true(chunk_places_after(&p, 0) == UINT64_MAX);
    assert_int_equal(chunk_places_add(&p, 50), 0);
    assert_int_equal(chunk_places_add(&p, 8), 0);
    assert_true(chunk_places_finish(&p, 8, 100));
    assert_int_equal(chunk_places_after(&p, 0), 8);
    assert_int_equal(chunk_places_after(&p, 8), 50);
    assert_int_equal(chunk_places_after(&p, 49), 50);
    assert_int_equal(chunk_places_after(&p, 50), 100);
    assert_true(chunk_places_after(&p, 100) == UINT64_MAX);
    assert_true(chunk_places_has(&p, 8) && !chunk_places_has(&p, 9));
    chunk_places_free(&p);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        assert_int_equal(chunk_places_add(&p, bad[i][1]), 0);
        assert_int_equal(chunk_places_add(&p, bad[i][0]), 0);
        assert_false(chunk_places_finish(&p, 8, 100));
        assert_int_equal(p.n, 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(places),
        cmocka_unit_test_setup_teardown(lengths_of_a_chunk, setup, teardown),
        cmocka_unit_test_setup_teardown(head_of_the_file, setup, teardown),
        cmocka_unit_test_setup_teardown(no_whole_summary, setup, teardown),
        cmocka_unit_test_setup_teardown(a_malformed_channel, setup, teardown),
        cmocka_unit_test_setup_teardown(zeros_behind_the_data, setup, teardown),
        cmocka_unit_test_setup_teardown(a_schema_many_times, setup, teardown),
        cmocka_unit_test_setup_teardown(many_false_places, setup, teardown),
        cmocka_unit_test_setup_teardown(many_damages, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
