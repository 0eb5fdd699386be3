// SPDX-License-Identifier: Apache-2.0
// An MCAP file: the walk, the chunks, the index and every image. Read as it is, and with chunks
// that say they have no checksum, as nothing behind a wrong one is looked at.
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <zlib.h>

#include "capture/mcap/index.h"
#include "capture/mcap/repair.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes);

#define MAX_PIXELS 4096u

#define MAGIC_BYTES  8u
#define RECORD_BYTES 9u   // opcode and length
#define CHUNK        0x06 // its checksum at byte 24

static void drop_checksums(uint8_t *file, size_t n_bytes)
{
    for (size_t at = MAGIC_BYTES; at + RECORD_BYTES <= n_bytes;) {
        uint64_t n = 0;
        for (int i = 8; i > 0; i--)
            n = n << 8 | file[at + (size_t)i];
        if (n > n_bytes - at - RECORD_BYTES)
            return;
        if (file[at] == CHUNK && n >= 28)
            memset(file + at + RECORD_BYTES + 24, 0, 4);
        at += RECORD_BYTES + n;
    }
}

// Whatever it makes of it, what it calls whole is read again without a word.
static void repair(int fd)
{
    static int out = -1;
    struct mcap_repaired result, again;
    if (out < 0 && (out = memfd_create("repaired", 0)) < 0)
        abort();
    if (ftruncate(out, 0) || lseek(out, 0, SEEK_SET) != 0)
        abort();
    if (mcap_repair(fd, out, "fuzz", NULL, &result) != 0)
        return;
    static int second = -1;
    if (second < 0 && (second = memfd_create("again", 0)) < 0)
        abort();
    if (ftruncate(second, 0) || lseek(second, 0, SEEK_SET) != 0)
        abort();
    const int err = mcap_repair(out, second, "fuzz", NULL, &again);
    if (err == -ENOMEM) // replay.c has an allocation fail
        return;
    if (err != 0 || !again.was_complete || again.n_lost_bytes ||
        again.n_messages != result.n_messages || again.n_chunks != result.n_chunks)
        abort();
}

static void read_all(const uint8_t *data, size_t n_bytes)
{
    static int fd = -1;
    static uint16_t pixels[MAX_PIXELS];
    if (fd < 0 && (fd = memfd_create("mcap", 0)) < 0)
        abort();
    if (ftruncate(fd, 0) || pwrite(fd, data, n_bytes, 0) != (ssize_t)n_bytes)
        abort();
    struct mcap_reader *reader;
    struct mcap_index index;
    if (mcap_reader_create(&reader, fd))
        return;
    if (mcap_scan(reader, "fuzz", NULL, NULL, &index) == 0) {
        bool small = (uint64_t)index.width_px * index.height_px <= MAX_PIXELS;
        for (size_t i = 0; i < index.n_frames; i++) {
            char reason[MCAP_REASON_BYTES] = "";
            if (i > 0 && index.frames[i].time_ns <= index.frames[i - 1].time_ns)
                abort();
            const int err = small ? mcap_decode(reader, &index, i, pixels, reason) : 0;
            if (err && err != -ENOMEM && !reason[0])
                abort();
        }
        mcap_index_free(&index);
    }
    mcap_reader_destroy(&reader);
    if (crc32(0, data, (uInt)n_bytes) % 16 == 0) // it takes longer than all of the above
        repair(fd);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes)
{
    read_all(data, n_bytes);
    uint8_t *copy = malloc(n_bytes + 1);
    if (!copy)
        return 0;
    memcpy(copy, data, n_bytes);
    drop_checksums(copy, n_bytes);
    if (memcmp(copy, data, n_bytes) != 0)
        read_all(copy, n_bytes);
    free(copy);
    return 0;
}
