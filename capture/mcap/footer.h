// SPDX-License-Identifier: Apache-2.0
// How an MCAP file ends: behind the data a summary, the footer and the magic. Most readers refuse a
// file without them.
#ifndef POSED_CAPTURE_MCAP_FOOTER_H
#define POSED_CAPTURE_MCAP_FOOTER_H

#include "capture/io/chunk_places.h"
#include "capture/mcap/read_chunk.h"

#define MCAP_DATA_END_BYTES 4 // of their contents
#define MCAP_FOOTER_BYTES   20

struct mcap_end {
    bool is_whole; // a summary as its checksum says (0: it was not calculated), and the rest
    uint64_t n_lost_bytes; // behind it, that belong to no summary: two files in one, or damage
    bool has_statistics;
    uint64_t n_messages, n_chunks; // as the statistics have them
};

// Whether it is a record of the summary that says where things are, or how many.
bool mcap_is_index(unsigned opcode);

// Whether the record with that opcode and content ends the data.
bool mcap_ends_data(unsigned opcode, uint64_t n_bytes);

// Whether the file's last bytes are the magic: without them it is not complete.
bool mcap_has_last_magic(const struct mcap_reader *reader);

// Looks at what begins at `at`, where the record that ends the data stands. Returns 0 or -EIO.
__attribute__((warn_unused_result)) int mcap_check_end(const struct mcap_reader *reader,
                                                       uint64_t at, struct mcap_end *out);

// Where the chunks are, as a whole summary has it (its end is where the summary begins); none where
// there is no such. Returns 0 or -ENOMEM.
__attribute__((warn_unused_result)) int mcap_find_chunks(const struct mcap_reader *reader,
                                                         struct chunk_places *out);

// Whether the record at `at`, which is whole, cannot be what it says: the summary knows better.
bool mcap_is_damaged(const struct mcap_reader *reader, const struct chunk_places *places,
                     uint64_t at, unsigned opcode, uint64_t n_bytes);

// The next chunk beyond `at` that the summary names and that stands there, else the summary;
// UINT64_MAX where that is passed, or there is none.
uint64_t mcap_next_chunk(const struct mcap_reader *reader, const struct chunk_places *places,
                         uint64_t at);

// Adds what the contents of a statistics record say of each channel's messages to n_messages, which
// has room for all ids that there can be. Returns whether it says any.
bool mcap_add_counts(const unsigned char *statistics, size_t n_bytes, uint64_t *n_messages);

// Gives the schemas, channels and statistics of that summary to `take`: a chunk that is lost may
// have had them, or is counted there.
// Returns what that returns unless it is 0, or mcap_reader_load's errors.
__attribute__((warn_unused_result)) int
mcap_take_summary(struct mcap_reader *reader, const struct chunk_places *places,
                  int (*take)(void *user, unsigned opcode, const unsigned char *data, size_t n),
                  void *user);

#endif
