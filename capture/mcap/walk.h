// SPDX-License-Identifier: Apache-2.0
// The records of an MCAP file from front to end, one after the other, and on behind damage where
// the summary at the end says that a chunk begins. What the records say is the caller's.
#ifndef POSED_CAPTURE_MCAP_WALK_H
#define POSED_CAPTURE_MCAP_WALK_H

#include "capture/io/chunk_places.h"
#include "capture/mcap/read_chunk.h"

struct mcap_walk {
    struct mcap_reader *reader;
    struct chunk_places places; // of chunks, by the summary
    uint64_t at;                // where the next record begins
    bool has_summary;           // mcap_walk_recall was called
};

enum mcap_step {
    MCAP_STEP_RECORD,  // one that is whole, `at` is behind it
    MCAP_STEP_SKIPPED, // from `begin` to `at` nothing can be read
    MCAP_STEP_END,     // of the data: its record, or the summary behind what was skipped
    MCAP_STEP_TORN,    // from `at` on nothing can be read, and no summary leads on
};

struct mcap_record {
    unsigned opcode;          // 0: none
    uint64_t begin;           // of the record, or of what was skipped
    uint64_t offset, n_bytes; // of its contents
};

// Returns 0, -EINVAL (no MCAP file), -EIO or -ENOMEM; mcap_walk_end in any case.
__attribute__((warn_unused_result)) int mcap_walk_begin(struct mcap_walk *walk,
                                                        struct mcap_reader *reader);
void mcap_walk_end(struct mcap_walk *walk); // does not destroy the reader

// Returns an enum mcap_step, or a negative errno. END and TORN come again when asked again.
__attribute__((warn_unused_result)) int mcap_walk_next(struct mcap_walk *walk,
                                                       struct mcap_record *out);

// Gives the schemas, channels and statistics of the summary to `take`, once: something was lost,
// perhaps they with it, or they are wanted beforehand. Memory of mcap_reader_load is another's
// then. Returns what `take` returns unless it is 0, -EIO or -ENOMEM.
__attribute__((warn_unused_result)) int
mcap_walk_recall(struct mcap_walk *walk,
                 int (*take)(void *user, unsigned opcode, const unsigned char *data, size_t n),
                 void *user);

#endif
