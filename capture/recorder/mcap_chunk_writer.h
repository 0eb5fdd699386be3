// SPDX-License-Identifier: Apache-2.0
// An MCAP file that is being written: messages are gathered in chunks, chunks are packed and
// appended with their index, the summary with the index of all comes at the end. Chunks span half a
// second at most, so that a process that is killed loses less than a second. One thread at a time.
#ifndef POSED_CAPTURE_RECORDER_MCAP_CHUNK_WRITER_H
#define POSED_CAPTURE_RECORDER_MCAP_CHUNK_WRITER_H

#include "capture/mcap/records.h"

struct mcap_file; // opaque

// Makes the file in the folder, with its head; `content` is copied, names of at most
// WRITER_NAME_BYTES - 1. `n_largest`: bytes of the largest message. Returns 0, or a negative errno
// with nothing left behind and *out NULL.
__attribute__((warn_unused_result)) int mcap_file_create(struct mcap_file **out, int folder,
                                                         const char *name,
                                                         const struct mcap_content *content,
                                                         size_t n_largest);

// Ends the chunk that is being filled, if messages of this time, so many and of so many bytes in
// all, have no room in it. *out_chunk is the number, from 1 on, of the one where they will stand
// together. Returns 0 or what appending to the file returns.
__attribute__((warn_unused_result)) int mcap_file_make_room(struct mcap_file *mcap, int64_t time_ns,
                                                            size_t n_messages, size_t n_bytes,
                                                            uint64_t *out_chunk);

// A message of two parts. Returns 0, -EMSGSIZE or what appending to the file returns.
__attribute__((warn_unused_result)) int mcap_file_add(struct mcap_file *mcap, uint32_t camera,
                                                      enum mcap_channel kind, int64_t time_ns,
                                                      const void *head, size_t n_head,
                                                      const void *body, size_t n_body);

// Adds to *bytes by how much the file would be longer, if it were closed now, than at the last
// call: the chunk as if it did not shrink, and the summary.
void mcap_file_tell(struct mcap_file *mcap, uint64_t *bytes);

// Frames that were added but are held back still.
uint64_t mcap_file_held(const struct mcap_file *mcap);

// Appends what is held back. Returns 0 or a negative errno.
__attribute__((warn_unused_result)) int mcap_file_flush(struct mcap_file *mcap);

// Completes the file and frees its state. Returns 0 or a negative errno.
__attribute__((warn_unused_result)) int mcap_file_close(struct mcap_file *mcap);

#endif
