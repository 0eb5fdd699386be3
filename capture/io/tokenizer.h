// SPDX-License-Identifier: Apache-2.0
// A text of lines and words in memory, as the headers of point cloud formats are; binary data may
// follow. Whoever reads them moves `at` itself.
#ifndef POSED_CAPTURE_IO_TOKENIZER_H
#define POSED_CAPTURE_IO_TOKENIZER_H

#include <stdbool.h>
#include <stddef.h>

#include "proto/log.h"

struct tokenizer {
    const char *data;
    size_t n_bytes, at;
    size_t line; // counts from 1
    const char *name;
    const struct log_sink *log;
};

// Copies the next word of the current line (blanks, tabs and carriage returns separate), cut to
// room - 1 characters; false at the end of the line.
bool tokenizer_next(struct tokenizer *text, char *out, size_t room);

// To the beginning of the next line, or to the end.
void tokenizer_skip_line(struct tokenizer *text);

size_t tokenizer_left_bytes(const struct tokenizer *text);

// Logs "name:line: what"; or, within binary data, "name: byte at: what". Returns -EINVAL.
int tokenizer_fail(const struct tokenizer *text, const char *what);
int tokenizer_fail_binary(const struct tokenizer *text, const char *what);

#endif
