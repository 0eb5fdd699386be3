// SPDX-License-Identifier: Apache-2.0
// Zeros at the end of a file: what a machine leaves that lost its power, where a file was to be
// longer and nothing more of it reached the disk. Nothing was ever there.
#ifndef POSED_CAPTURE_IO_ZERO_TAIL_H
#define POSED_CAPTURE_IO_ZERO_TAIL_H

#include <stdint.h>

// Of what stands from `begin` to the file's `end`, how many bytes are such: all, or the last ones
// if they are at least a sector; fewer may be data. Returns 0 or file_read_at's errors.
__attribute__((warn_unused_result)) int zero_tail(int fd, uint64_t begin, uint64_t end,
                                                  uint64_t *out_n_bytes);

#endif
