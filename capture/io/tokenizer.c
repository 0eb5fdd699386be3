// SPDX-License-Identifier: Apache-2.0
#include "capture/io/tokenizer.h"

#include <errno.h>
#include <string.h>

bool tokenizer_next(struct tokenizer *text, char *out, size_t room)
{
    const char *data = text->data;
    while (text->at < text->n_bytes && memchr(" \t\r", data[text->at], 3))
        text->at++;
    size_t n = 0; // a zero byte ends a word, too
    while (text->at < text->n_bytes && !memchr(" \t\r\n", data[text->at], 5)) {
        if (n + 1 < room)
            out[n++] = data[text->at];
        text->at++;
    }
    out[n] = 0;
    return n > 0;
}

void tokenizer_skip_line(struct tokenizer *text)
{
    while (text->at < text->n_bytes && text->data[text->at] != '\n')
        text->at++;
    if (text->at < text->n_bytes)
        text->at++;
    text->line++;
}

size_t tokenizer_left_bytes(const struct tokenizer *text)
{
    return text->n_bytes - text->at;
}

int tokenizer_fail(const struct tokenizer *text, const char *what)
{
    log_to(text->log, LOG_LEVEL_ERROR, "%s:%zu: %s", text->name, text->line, what);
    return -EINVAL;
}

int tokenizer_fail_binary(const struct tokenizer *text, const char *what)
{
    log_to(text->log, LOG_LEVEL_ERROR, "%s: byte %zu: %s", text->name, text->at, what);
    return -EINVAL;
}
