// SPDX-License-Identifier: Apache-2.0
// Completes an MCAP file that breaks off (its recorder was killed): the records as they are, new
// message indexes, and the summary without which most readers refuse it. Of any writer. Chunks are
// unpacked to be looked into; what is damaged is left out, up to the next chunk that the summary
// names, if it is whole. So are records that other readers would end at: malformed ones, channels
// without their schema, messages without their channel. A chunk with such is made anew of the
// others, not compressed.
#ifndef POSED_CAPTURE_MCAP_REPAIR_H
#define POSED_CAPTURE_MCAP_REPAIR_H

#include <stdbool.h>
#include <stdint.h>

#include "proto/log.h"

struct mcap_repaired {
    uint64_t n_messages, n_chunks;
    // Of what is damaged, torn, too large, or behind the end; within a chunk, unpacked ones.
    uint64_t n_lost_bytes;
    uint64_t n_zeros;  // at the end, which are not lost: io/zero_tail.h
    bool was_complete; // with a header, all of it whole, and a summary that says so
    bool write_failed; // what was returned is an error of out_fd
};

// Reads fd, writes the whole of it to out_fd (empty, not seekable will do; < 0: only looks whether
// it is complete, and no further than it must to know). `name` is what the log calls the file.
// Warns where the copy has lost all of a calibration or of tf_static. Returns 0, or after logging
// -EINVAL (no MCAP file), -ENOENT (no message in it), -ENOTSUP (a compression that was not built
// in), -ENOMEM or -EIO; or the errno of a failed write, which is not logged: the caller knows what
// out_fd is called.
__attribute__((warn_unused_result)) int mcap_repair(int fd, int out_fd, const char *name,
                                                    const struct log_sink *log,
                                                    struct mcap_repaired *out);

#endif
