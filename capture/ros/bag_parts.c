// SPDX-License-Identifier: Apache-2.0
#include "capture/ros/bag_parts.h"

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "capture/io/folder.h"
#include "capture/ros/bag_metadata.h"

#define MAX_TOLD   10u // names of files that are missing, each in a line of the log
#define MAX_DIGITS 9u  // of a number; an int

struct name {
    char text[NAME_MAX + 1]; // first: lists are searched by it
    char end[8];             // that was cut off it, ".zstd"
};

struct names {
    struct name *names;
    size_t n, capacity;
};

// What stands in a folder, and what is to be read of it.
struct search {
    const char *folder, *suffix;
    const struct log_sink *log;
    struct names found;  // end in the suffix
    struct names packed; // in the suffix and zstd's end, which is cut off
    size_t n_strays;     // in the suffix of ROS 2's other format, and the first of them by name
    char first_stray[NAME_MAX + 1];
    size_t n_missing;
    struct bag_parts *parts;
};

static int add(struct names *list, const char *name, size_t n_name)
{
    if (list->n == list->capacity) {
        size_t more = 2 * list->capacity + 16;
        struct name *grown = realloc(list->names, more * sizeof *grown);
        if (!grown)
            return -ENOMEM;
        list->names = grown;
        list->capacity = more;
    }
    struct name *added = &list->names[list->n++];
    snprintf(added->text, sizeof added->text, "%.*s", (int)n_name, name);
    snprintf(added->end, sizeof added->end, "%s", name + n_name);
    return 0;
}

static int compare(const void *a, const void *b)
{
    return strcmp(a, b);
}

// Its place in the list, SIZE_MAX when it is not there.
static size_t find(const struct names *sorted, const char *name)
{
    const struct name *at =
        sorted->n ? bsearch(name, sorted->names, sorted->n, sizeof *at, compare) : NULL;
    return at ? (size_t)(at - sorted->names) : SIZE_MAX;
}

static bool has(const struct names *sorted, const char *name)
{
    return find(sorted, name) != SIZE_MAX;
}

// Of what zstd packed without its end. Returns the length that is left.
static size_t length_unpacked(const char *name)
{
    const size_t n = strlen(name);
    if (n > 5 && !strcmp(name + n - 5, ".zstd"))
        return n - 5;
    return n > 4 && !strcmp(name + n - 4, ".zst") ? n - 4 : n;
}

static bool ends_in(const char *name, size_t n, const char *suffix)
{
    const size_t n_suffix = strlen(suffix);
    return n > n_suffix && !memcmp(name + n - n_suffix, suffix, n_suffix);
}

static void add_stray(struct search *search, const char *name)
{
    if (search->n_strays++ == 0 || strcmp(name, search->first_stray) < 0)
        snprintf(search->first_stray, sizeof search->first_stray, "%s", name);
}

static int list_folder(struct search *search, DIR *dir)
{
    const char *const other = strcmp(search->suffix, ".mcap") == 0 ? ".db3" : ".mcap";
    int err = 0;
    for (struct dirent *entry; !err && (entry = readdir(dir));) {
        const size_t n_all = strlen(entry->d_name), n = length_unpacked(entry->d_name);
        if (n == n_all && ends_in(entry->d_name, n, other))
            add_stray(search, entry->d_name);
        if (!ends_in(entry->d_name, n, search->suffix))
            continue;
        if (search->found.n + search->packed.n == BAG_MAX_PARTS)
            err = -EINVAL;
        else if (n == n_all)
            err = add(&search->found, entry->d_name, n);
        else
            err = add(&search->packed, entry->d_name, n);
        if (err == -EINVAL)
            log_to(search->log, LOG_LEVEL_ERROR, "%s: a folder with more than %u files *%s",
                   search->folder, BAG_MAX_PARTS, search->suffix);
    }
    if (search->found.n)
        qsort(search->found.names, search->found.n, sizeof(struct name), compare);
    if (search->packed.n)
        qsort(search->packed.names, search->packed.n, sizeof(struct name), compare);
    return err;
}

static int add_part(struct search *search, const char *name)
{
    struct bag_parts *parts = search->parts;
    if (asprintf(&parts->paths[parts->n], "%s/%s", search->folder, name) < 0)
        return -ENOMEM;
    parts->n++;
    return 0;
}

static void tell_of_missing(struct search *search, const char *name)
{
    if (search->n_missing++ < MAX_TOLD)
        log_to(search->log, LOG_LEVEL_WARNING,
               "%s/%s: is not there, though the recording has it; the others are read",
               search->folder, name);
}

static void tell_of_packed(const struct search *search)
{
    size_t n = 0;
    const struct name *first = NULL;
    for (size_t i = 0; i < search->packed.n; i++)
        if (!has(&search->found, search->packed.names[i].text) && n++ == 0)
            first = &search->packed.names[i];
    if (n)
        log_to(search->log, LOG_LEVEL_WARNING,
               "%s: %zu file%s compressed as a whole (zstd), which is not read, and left out: the "
               "first is %s%s; unpack first: for f in \"%s\"/*%s.zst*; do zstd -d \"$f\" -o "
               "\"${f%%.zst*}\"; done",
               search->folder, n, n == 1 ? " is" : "s are", first->text, first->end, search->folder,
               search->suffix);
}

// Those that were taken stand in the list, which is of one format.
static void tell_of_others(const struct search *search, const bool *is_taken)
{
    size_t n = 0;
    const char *first = NULL;
    for (size_t i = 0; i < search->found.n; i++)
        if (!is_taken[i] && n++ == 0)
            first = search->found.names[i].text;
    n += search->n_strays;
    first = first ? first : search->first_stray;
    if (n)
        log_to(search->log, LOG_LEVEL_WARNING,
               "%s: %zu file%s not in its %s and left out: the first is %s", search->folder, n,
               n == 1 ? " is" : "s are", BAG_METADATA, first);
}

// The files of the list, in its order; none where none of them is there, as files may have got
// other names since. What was packed when it was written may be unpacked now; and its older
// versions put the folder's name in front.
static int take_listed(struct search *search, char **listed, size_t n_listed)
{
    bool *is_taken = calloc(search->found.n, sizeof *is_taken);
    size_t n_here = 0;
    int err = is_taken ? 0 : -ENOMEM;
    for (size_t i = 0; i < n_listed; i++) {
        char *slash = strrchr(listed[i], '/');
        listed[i] = slash ? slash + 1 : listed[i];
        listed[i][length_unpacked(listed[i])] = '\0';
        n_here += has(&search->found, listed[i]);
    }
    for (size_t i = 0; !err && n_here && i < n_listed; i++) {
        const size_t at = find(&search->found, listed[i]);
        if (at != SIZE_MAX && !is_taken[at]) {
            is_taken[at] = true;
            err = add_part(search, listed[i]);
        } else if (at == SIZE_MAX && !has(&search->packed, listed[i])) {
            tell_of_missing(search, listed[i]);
        }
    }
    if (!err && n_here)
        tell_of_others(search, is_taken);
    free(is_taken);
    return err;
}

static int take_by_metadata(struct search *search)
{
    struct file_bytes text = {0};
    char **listed = NULL;
    size_t n_listed = 0;
    int err = bag_metadata_read(search->folder, search->log, &text, &listed, &n_listed);
    if (err && err != -ENOENT && err != -ENOMEM && search->found.n > 1)
        log_to(search->log, LOG_LEVEL_WARNING, "%s/%s: %s; files are taken by their names",
               search->folder, BAG_METADATA, folder_error(err));
    if (!err)
        err = take_listed(search, listed, n_listed);
    free(listed);
    file_bytes_free(&text);
    return err == -ENOMEM ? err : 0;
}

// STEM_7.mcap: the number, and how long the stem with its `_` is. -1: it is not named so.
static long number_of(const char *name, const char *suffix, size_t *out_n_stem)
{
    const size_t n = strlen(name) - strlen(suffix);
    size_t n_stem = n;
    while (n_stem > 0 && name[n_stem - 1] >= '0' && name[n_stem - 1] <= '9')
        n_stem--;
    *out_n_stem = n_stem;
    if (n_stem < 2 || name[n_stem - 1] != '_' || n == n_stem || n - n_stem > MAX_DIGITS)
        return -1;
    return strtol(name + n_stem, NULL, 10);
}

struct numbered {
    const char *name;
    long number;
};

static int compare_numbers(const void *a, const void *b)
{
    const struct numbered *x = a, *y = b;
    return x->number != y->number ? (x->number > y->number) - (x->number < y->number)
                                  : strcmp(x->name, y->name);
}

// Sorted by their numbers: those between two of them.
static void tell_of_gaps(struct search *search, const struct numbered *files, size_t n,
                         size_t n_stem)
{
    char name[NAME_MAX + MAX_DIGITS + 1];
    for (size_t i = 1; i < n; i++) {
        const char *before = files[i - 1].name;
        const int n_digits = (int)(strlen(before) - strlen(search->suffix) - n_stem);
        long number = files[i - 1].number + 1;
        for (; number < files[i].number && search->n_missing < MAX_TOLD; number++) {
            snprintf(name, sizeof name, "%.*s%0*ld%s", (int)n_stem, before, n_digits, number,
                     search->suffix);
            tell_of_missing(search, name);
        }
        if (number < files[i].number)
            search->n_missing += (size_t)(files[i].number - number);
    }
}

// Of the names those that are the stem of the first of `files` and a number are put behind these.
static size_t add_numbered(struct numbered *files, size_t n, const struct names *names,
                           const char *suffix, size_t *n_stem)
{
    for (size_t i = 0; i < names->n; i++) {
        size_t n_own_stem;
        const char *name = names->names[i].text;
        const long number = number_of(name, suffix, &n_own_stem);
        if (n == 0)
            *n_stem = n_own_stem;
        if (number >= 0 && n_own_stem == *n_stem &&
            (n == 0 || !memcmp(name, files[0].name, *n_stem)))
            files[n++] = (struct numbered){name, number};
    }
    return n;
}

// By the number in the names, from 0, of files that have but one stem, each number once. None where
// they have not.
static int take_by_name(struct search *search)
{
    const size_t n = search->found.n;
    struct numbered *files = calloc(n + search->packed.n, sizeof *files);
    size_t n_stem = 0;
    if (!files)
        return -ENOMEM;
    bool is_one = add_numbered(files, 0, &search->found, search->suffix, &n_stem) == n;
    if (is_one)
        qsort(files, n, sizeof *files, compare_numbers);
    is_one = is_one && files[0].number == 0;
    for (size_t i = 1; is_one && i < n; i++)
        is_one = files[i].number != files[i - 1].number;
    int err = 0;
    for (size_t i = 0; is_one && !err && i < n; i++)
        err = add_part(search, files[i].name);
    if (is_one && !err) { // what is packed is there, and told of as such
        const size_t n_all = add_numbered(files, n, &search->packed, search->suffix, &n_stem);
        qsort(files, n_all, sizeof *files, compare_numbers);
        tell_of_gaps(search, files, n_all, n_stem);
    }
    free(files);
    return err;
}

static int refuse(const char *folder, size_t n_files, const char *suffix,
                  const struct log_sink *log)
{
    log_to(log, LOG_LEVEL_ERROR, "%s: a folder with %zu files *%s, name one of them", folder,
           n_files, suffix);
    return -EINVAL;
}

// Of at least one file.
static int choose(struct search *search)
{
    struct bag_parts *parts = search->parts;
    parts->paths = calloc(search->found.n, sizeof *parts->paths);
    int err = parts->paths ? take_by_metadata(search) : -ENOMEM;
    if (!err && parts->n == 0)
        err = search->found.n == 1 ? add_part(search, search->found.names[0].text)
                                   : take_by_name(search);
    if (err)
        return err;
    tell_of_packed(search);
    if (search->n_missing > MAX_TOLD)
        log_to(search->log, LOG_LEVEL_WARNING, "%s: and %zu more %s not there", search->folder,
               search->n_missing - MAX_TOLD,
               search->n_missing - MAX_TOLD == 1 ? "file is" : "files are");
    if (parts->n == 0)
        return refuse(search->folder, search->found.n, search->suffix, search->log);
    if (parts->n > 1)
        log_to(search->log, LOG_LEVEL_INFO, "%s: a recording in %zu files, %s to %s",
               search->folder, parts->n, strrchr(parts->paths[0], '/') + 1,
               strrchr(parts->paths[parts->n - 1], '/') + 1);
    return 0;
}

int bag_parts_find(struct bag_parts *out, const char *path, const char *suffix, bool may_be_split,
                   const struct log_sink *log)
{
    struct search search = {.folder = path, .suffix = suffix, .log = log, .parts = out};
    *out = (struct bag_parts){.suffix = suffix};
    DIR *dir = opendir(path);
    if (!dir) { // no folder: what it is, its reader finds out
        out->paths = calloc(1, sizeof *out->paths);
        if (out->paths && (out->paths[0] = strdup(path)))
            out->n = 1;
        return out->n ? 0 : -ENOMEM;
    }
    int err = list_folder(&search, dir);
    closedir(dir);
    out->folder = err ? NULL : strdup(path);
    if (!err && !out->folder)
        err = -ENOMEM;
    if (!err && search.found.n == 0) {
        log_to(log, LOG_LEVEL_ERROR, "%s: a folder with 0 files *%s", path, suffix);
        err = -ENOENT;
    }
    if (!err)
        err = search.found.n > 1 && !may_be_split ? refuse(path, search.found.n, suffix, log)
                                                  : choose(&search);
    free(search.found.names);
    free(search.packed.names);
    return err;
}

int bag_parts_open(const struct bag_parts *parts, size_t part, const struct log_sink *log)
{
    const char *path = parts->paths[part];
    if (parts->n == 1) // which may be a link to anywhere, as one that was named may
        return file_open(path, log);
    int folder = folder_open(parts->folder, log);
    if (folder < 0)
        return folder;
    int fd = folder_open_file(folder, path + strlen(parts->folder) + 1);
    if (fd < 0)
        log_to(log, LOG_LEVEL_ERROR, "%s: %s", path, folder_error(fd));
    close(folder);
    return fd;
}

int bag_parts_refuse(const struct bag_parts *parts, const struct log_sink *log)
{
    return refuse(parts->folder, parts->n, parts->suffix, log);
}

void bag_parts_free(struct bag_parts *parts)
{
    for (size_t i = 0; i < parts->n; i++)
        free(parts->paths[i]);
    free(parts->paths);
    free(parts->folder);
    *parts = (struct bag_parts){0};
}
