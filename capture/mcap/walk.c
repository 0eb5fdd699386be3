// SPDX-License-Identifier: Apache-2.0
#include "capture/mcap/walk.h"

#include <errno.h>
#include <string.h>

#include "capture/mcap/footer.h"
#include "capture/mcap/format.h"

int mcap_walk_begin(struct mcap_walk *walk, struct mcap_reader *reader)
{
    unsigned char magic[MCAP_MAGIC_BYTES];
    *walk = (struct mcap_walk){.reader = reader, .at = MCAP_MAGIC_BYTES};
    const int err = mcap_reader_read(reader, magic, sizeof magic, 0);
    if (err == -EBADMSG || (!err && memcmp(magic, MCAP_MAGIC, sizeof magic) != 0))
        return -EINVAL;
    return err ? err : mcap_find_chunks(reader, &walk->places);
}

void mcap_walk_end(struct mcap_walk *walk)
{
    chunk_places_free(&walk->places);
}

static int skip(struct mcap_walk *walk, struct mcap_record *out)
{
    const uint64_t resume = mcap_next_chunk(walk->reader, &walk->places, walk->at);
    *out = (struct mcap_record){.begin = walk->at};
    if (resume == UINT64_MAX)
        return MCAP_STEP_TORN;
    walk->at = resume;
    return MCAP_STEP_SKIPPED;
}

int mcap_walk_next(struct mcap_walk *walk, struct mcap_record *out)
{
    unsigned char head[MCAP_RECORD_BYTES];
    const uint64_t begin = walk->at, n_left = mcap_reader_file_bytes(walk->reader) - begin;
    *out = (struct mcap_record){.begin = begin};
    if (walk->places.n && begin == walk->places.end)
        return MCAP_STEP_END;
    if (n_left < sizeof head)
        return MCAP_STEP_TORN;
    const int err = mcap_reader_read(walk->reader, head, sizeof head, begin);
    if (err)
        return err == -EBADMSG ? MCAP_STEP_TORN : err; // the file has become shorter
    const uint64_t n_bytes = mcap_get(head + 1, 8);
    // Opcode 0 is none: disks leave zeros where power went.
    if (head[0] == 0 || n_bytes > n_left - sizeof head ||
        mcap_is_damaged(walk->reader, &walk->places, begin, head[0], n_bytes))
        return skip(walk, out);
    *out = (struct mcap_record){head[0], begin, begin + sizeof head, n_bytes};
    if (mcap_ends_data(head[0], n_bytes))
        return MCAP_STEP_END;
    walk->at = out->offset + n_bytes;
    return MCAP_STEP_RECORD;
}

int mcap_walk_recall(struct mcap_walk *walk,
                     int (*take)(void *user, unsigned opcode, const unsigned char *data, size_t n),
                     void *user)
{
    if (walk->has_summary)
        return 0;
    walk->has_summary = true;
    const int err = mcap_take_summary(walk->reader, &walk->places, take, user);
    return err == -EBADMSG ? 0 : err;
}
