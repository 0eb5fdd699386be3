// SPDX-License-Identifier: Apache-2.0
// A chunk of an MCAP file by hand: its checksum is looked at, and no length in it is believed.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>
#include <zlib.h>

#include "capture/mcap/read_chunk.h"
#include "tests/unit/scratch.h"

#define N_RAW 100

static struct scratch scratch;
static unsigned char raw[N_RAW];

static void put(unsigned char *at, uint64_t value, int n)
{
    for (int i = 0; i < n; i++)
        at[i] = (unsigned char)(value >> (8 * i));
}

struct chunk {
    unsigned char bytes[40 + N_RAW];
};

static struct chunk good(void)
{
    struct chunk c = {{0}};
    put(c.bytes + 16, N_RAW, 8);
    put(c.bytes + 24, crc32(0, raw, N_RAW), 4);
    put(c.bytes + 32, N_RAW, 8); // no name of a compression in front
    memcpy(c.bytes + 40, raw, N_RAW);
    return c;
}

// Reads it as the chunk of a file, with `n` bytes said of it.
static int read_chunk(const struct chunk *chunk, uint64_t n, const char *reason)
{
    char path[256];
    const unsigned char *out;
    size_t n_out;
    struct mcap_reader *reader;
    scratch_write(&scratch, "chunk", chunk->bytes, sizeof chunk->bytes);
    const int fd = open(scratch_name(&scratch, "chunk", path), O_RDONLY);
    assert_true(fd >= 0);
    assert_int_equal(mcap_reader_create(&reader, fd), 0);
    const struct mcap_chunk place = {0, n};
    const int error = mcap_reader_unpack(reader, &place, 3, &out, &n_out);
    if (!error) {
        assert_int_equal(n_out, N_RAW);
        assert_memory_equal(out, raw, N_RAW);
    } else if (!strstr(mcap_reader_reason(reader), reason)) {
        fail_msg("'%s', not '%s'", mcap_reader_reason(reader), reason);
    }
    mcap_reader_destroy(&reader);
    close(fd);
    return error;
}

static void chunks(void **state)
{
    (void)state;
    for (int i = 0; i < N_RAW; i++)
        raw[i] = (unsigned char)(7 * i);
    struct chunk c = good();
    const uint64_t n = sizeof c.bytes;
    assert_int_equal(read_chunk(&c, n, ""), 0);
    c.bytes[60] ^= 1;
    assert_int_equal(read_chunk(&c, n, "checksum"), -EBADMSG);
    put(c.bytes + 24, 0, 4); // 0: none was written
    c.bytes[60] ^= 1;
    assert_int_equal(read_chunk(&c, n, ""), 0);
    c = good();
    put(c.bytes + 32, N_RAW + 1, 8); // beyond the chunk
    assert_int_equal(read_chunk(&c, n, "malformed"), -EBADMSG);
    put(c.bytes + 32, UINT64_MAX, 8);
    assert_int_equal(read_chunk(&c, n, "malformed"), -EBADMSG);
    c = good();
    put(c.bytes + 16, N_RAW - 1, 8);
    assert_int_equal(read_chunk(&c, n, "does not unpack"), -EBADMSG);
    c = good();
    put(c.bytes + 28, 8, 4); // a name as long as there is no room for
    assert_int_equal(read_chunk(&c, n, "malformed"), -EBADMSG);
    c = good();
    assert_int_equal(read_chunk(&c, n + 1, "cannot be read"), -EBADMSG); // beyond the file
    assert_int_equal(read_chunk(&c, 39, "too long"), -EBADMSG);
    assert_int_equal(read_chunk(&c, n - 1, "malformed"), -EBADMSG);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(chunks)};
    scratch_create(&scratch);
    const int n_failed = cmocka_run_group_tests(tests, NULL, NULL);
    scratch_remove(&scratch);
    return n_failed;
}
