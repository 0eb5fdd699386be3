// SPDX-License-Identifier: Apache-2.0
// No YAML parser: of the whole file one list is wanted, which its writer has one way to write. What
// is written otherwise is not guessed at.
#include "capture/ros/bag_metadata.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MAX_BYTES ((size_t)16 << 20)

#define KEY "relative_file_paths:"

// Ends the line at *text with a NUL, spaces at its end left out, and puts *text behind it.
static char *take_line(char **text)
{
    char *line = *text;
    size_t n = strcspn(line, "\n");
    *text = line + n + (line[n] != '\0');
    while (n > 0 && (line[n - 1] == ' ' || line[n - 1] == '\r'))
        n--;
    line[n] = '\0';
    return line;
}

// The value of an entry without its quotes; NULL: it is not a plain one.
static char *unquote(char *value)
{
    const size_t n = strlen(value);
    if (n == 0 || strchr("[]{}&*!|>%@`#?,", value[0]))
        return NULL;
    if (value[0] != '"' && value[0] != '\'')
        return strstr(value, " #") || strstr(value, ": ") ? NULL : value;
    if (n < 3 || value[n - 1] != value[0])
        return NULL;
    value[n - 1] = '\0';
    return strpbrk(value + 1, "\"'\\") ? NULL : value + 1;
}

static int add(char ***names, size_t *n, char *name)
{
    if ((*n & (*n - 1)) == 0) { // full, or empty: of 0, 1, 2, 4, 8...
        char **grown = realloc(*names, (*n ? 2 * *n : 1) * sizeof **names);
        if (!grown)
            return -ENOMEM;
        *names = grown;
    }
    (*names)[(*n)++] = name;
    return 0;
}

int bag_metadata_files(char *text, char ***out, size_t *out_n)
{
    size_t n_key_indent = 0;
    bool is_found = false, is_plain = true;
    int err = 0;
    *out = NULL;
    *out_n = 0;
    while (*text && !is_found) {
        char *line = take_line(&text);
        n_key_indent = strspn(line, " ");
        is_found = strcmp(line + n_key_indent, KEY) == 0;
    }
    while (*text && !err && is_plain) {
        char *line = take_line(&text);
        const size_t n_indent = strspn(line, " ");
        const bool is_entry = line[n_indent] == '-' && line[n_indent + 1] == ' ';
        if (!line[n_indent])
            continue;
        if (n_indent < n_key_indent || (n_indent == n_key_indent && !is_entry))
            break; // the next key
        char *name =
            is_entry ? unquote(line + n_indent + 1 + strspn(line + n_indent + 1, " ")) : NULL;
        is_plain = name != NULL;
        if (name)
            err = add(out, out_n, name);
    }
    if (err || !is_plain) {
        free(*out);
        *out = NULL;
        *out_n = 0;
    }
    return err;
}

int bag_metadata_read(const char *folder, const struct log_sink *log, struct file_bytes *out_text,
                      char ***out, size_t *out_n)
{
    *out = NULL;
    *out_n = 0;
    int fd = folder_open(folder, log);
    if (fd < 0)
        return fd;
    int err = folder_read(fd, BAG_METADATA, MAX_BYTES, out_text);
    close(fd);
    return err ? err : bag_metadata_files((char *)out_text->data, out, out_n);
}
