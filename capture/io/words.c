// SPDX-License-Identifier: Apache-2.0
#include "capture/io/words.h"

#include <errno.h>
#include <string.h>

bool words_next(struct words *words, char *out, size_t room)
{
    const char *data = words->data;
    while (words->at < words->n_bytes && memchr(" \t\r", data[words->at], 3))
        words->at++;
    size_t n = 0; // a zero byte ends a word, too
    while (words->at < words->n_bytes && !memchr(" \t\r\n", data[words->at], 5)) {
        if (n + 1 < room)
            out[n++] = data[words->at];
        words->at++;
    }
    out[n] = 0;
    return n > 0;
}

void words_skip_line(struct words *words)
{
    while (words->at < words->n_bytes && words->data[words->at] != '\n')
        words->at++;
    if (words->at < words->n_bytes)
        words->at++;
    words->line++;
}

size_t words_left_bytes(const struct words *words)
{
    return words->n_bytes - words->at;
}

int words_fail(const struct words *words, const char *what)
{
    log_to(words->log, LOG_LEVEL_ERROR, "%s:%zu: %s", words->name, words->line, what);
    return -EINVAL;
}

int words_fail_binary(const struct words *words, const char *what)
{
    log_to(words->log, LOG_LEVEL_ERROR, "%s: byte %zu: %s", words->name, words->at, what);
    return -EINVAL;
}
