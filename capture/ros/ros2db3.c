// SPDX-License-Identifier: Apache-2.0
// Driver `ros2db3`: rosbag2's SQLite file, the storage of ROS 2 before MCAP and of RealSense's
// recorder: topics(id, name, type, serialization_format, ...), messages(id, topic_id, timestamp,
// data). Opened read-only; one that was left with a write-ahead log beside it (its recorder was
// killed) is read with what stands there, one that is cut off up to there.
#include <errno.h>
#include <limits.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "capture/io/folder.h"
#include "capture/ros/select_topic.h"

#define MAX_MESSAGE_BYTES (256 << 20)

struct ros2db3 {
    struct bag bag;
    size_t part;         // that is open
    bool has_log;        // a write-ahead log, beside it
    long long n_missing; // of its bytes, behind its end
    sqlite3 *db;
    sqlite3_blob *blob; // of messages.data
    unsigned char *message;
    size_t capacity;
};

static const char *path_of(const struct ros2db3 *db3)
{
    return db3->bag.parts.paths[db3->part];
}

static int fail(const struct ros2db3 *db3, const char *what)
{
    int code = sqlite3_errcode(db3->db);
    if (code == SQLITE_CORRUPT)
        log_to(&db3->bag.log, LOG_LEVEL_ERROR,
               "%s: damaged, or cut off: %s; what is left of it, by a sqlite3 that was built with "
               ".recover (Debian 12's was not): sqlite3 \"%s\" .recover | sqlite3 NEW.db3",
               path_of(db3), sqlite3_errmsg(db3->db), path_of(db3));
    else if (code == SQLITE_CANTOPEN && db3->has_log)
        log_to(&db3->bag.log, LOG_LEVEL_ERROR,
               "%s: with its write-ahead log (%s-wal) it can be read only in a folder that may be "
               "written to: copy both to one",
               path_of(db3), path_of(db3));
    else
        log_to(&db3->bag.log, LOG_LEVEL_ERROR, "%s: %s: %s", path_of(db3), what,
               sqlite3_errmsg(db3->db));
    return code == SQLITE_NOMEM ? -ENOMEM : code == SQLITE_IOERR ? -EIO : -EINVAL;
}

static bool has_log(const char *path)
{
    char log[PATH_MAX];
    return snprintf(log, sizeof log, "%s-wal", path) < (int)sizeof log && access(log, F_OK) == 0;
}

// An address as SQLite's URI wants it: what is no plain letter becomes %XX.
static char *uri_of(const char *path, bool is_whole)
{
    static const char plain[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789/._-";
    static const char tail[] = "?mode=ro&immutable=1";
    char *uri = malloc(8 + 3 * strlen(path) + sizeof tail);
    if (!uri)
        return NULL;
    size_t n = (size_t)sprintf(uri, "file:");
    for (; *path; path++)
        n += (size_t)sprintf(uri + n, strchr(plain, *path) ? "%c" : "%%%02X",
                             (unsigned)(unsigned char)*path);
    snprintf(uri + n, sizeof tail, "%.*s", is_whole ? (int)sizeof tail : 8, tail);
    return uri;
}

static void close_part(struct ros2db3 *db3)
{
    sqlite3_blob_close(db3->blob);
    sqlite3_close(db3->db);
    db3->blob = NULL;
    db3->db = NULL;
}

// Bytes of a file that its own head counts and that are not there.
static long long missing_bytes(int fd)
{
    enum { PAGE_BYTES = 16, CHANGES = 24, N_PAGES = 28, CHANGES_OF_PAGES = 92, HEAD_BYTES = 100 };
    unsigned char head[HEAD_BYTES];
    struct stat st;
    if (pread(fd, head, sizeof head, 0) != sizeof head || fstat(fd, &st) != 0 ||
        memcmp(head + CHANGES, head + CHANGES_OF_PAGES, 4) != 0)
        return 0;
    const uint32_t page_bytes = (uint32_t)head[PAGE_BYTES] << 8 | head[PAGE_BYTES + 1];
    const uint32_t n_pages = (uint32_t)head[N_PAGES] << 24 | (uint32_t)head[N_PAGES + 1] << 16 |
                             (uint32_t)head[N_PAGES + 2] << 8 | head[N_PAGES + 3];
    const long long wanted = (long long)n_pages * (page_bytes == 1 ? 65536 : page_bytes);
    return wanted > st.st_size ? wanted - st.st_size : 0;
}

// One file is open at a time.
static int open_part(struct ros2db3 *db3, size_t part)
{
    if (db3->db && db3->part == part)
        return 0;
    close_part(db3);
    db3->part = part;
    int fd = bag_parts_open(&db3->bag.parts, part, &db3->bag.log); // there: SQLite says less
    if (fd < 0)
        return fd;
    db3->n_missing = missing_bytes(fd);
    close(fd);
    db3->has_log = has_log(path_of(db3));
    char *uri = uri_of(path_of(db3), !db3->has_log);
    if (!uri)
        return -ENOMEM;
    int code = sqlite3_open_v2(uri, &db3->db,
                               SQLITE_OPEN_READONLY | SQLITE_OPEN_URI | SQLITE_OPEN_NOMUTEX, NULL);
    free(uri);
    if (code != SQLITE_OK) {
        int err = db3->db ? fail(db3, "cannot be opened") : -ENOMEM;
        close_part(db3);
        return err;
    }
    // What a file says of its own schema is not to be believed. What is cut off SQLite reads only
    // to who might mend its schema (nobody here: it is open read-only).
    sqlite3_db_config(db3->db, SQLITE_DBCONFIG_DEFENSIVE, db3->n_missing == 0, NULL);
    sqlite3_db_config(db3->db, SQLITE_DBCONFIG_WRITABLE_SCHEMA, db3->n_missing > 0, NULL);
    sqlite3_db_config(db3->db, SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, NULL);
    sqlite3_limit(db3->db, SQLITE_LIMIT_LENGTH, MAX_MESSAGE_BYTES);
    return 0;
}

static int read_topics(struct ros2db3 *db3)
{
    sqlite3_stmt *query;
    int err = 0, code;
    if (sqlite3_prepare_v2(db3->db, "SELECT id, name, type, serialization_format FROM topics", -1,
                           &query, NULL) != SQLITE_OK)
        return fail(db3, "no recording of ROS 2");
    while (!err && (code = sqlite3_step(query)) == SQLITE_ROW) {
        const char *name = (const char *)sqlite3_column_text(query, 1);
        const char *type = (const char *)sqlite3_column_text(query, 2);
        const char *format = (const char *)sqlite3_column_text(query, 3);
        sqlite3_int64 id = sqlite3_column_int64(query, 0);
        if (!name || !type || !format || id < 0 || id > UINT32_MAX)
            continue;
        if (strcmp(format, "cdr") != 0)
            type = "";
        err = bag_add_topic(&db3->bag, (uint32_t)id, name, strlen(name), type, strlen(type),
                            ROS_ENCODING_CDR);
    }
    if (!err && code != SQLITE_DONE)
        err = fail(db3, "its topics cannot be read");
    sqlite3_finalize(query);
    return err;
}

static int reserve(struct ros2db3 *db3, size_t n_bytes)
{
    if (n_bytes <= db3->capacity)
        return 0;
    unsigned char *grown = realloc(db3->message, n_bytes);
    if (!grown)
        return -ENOMEM;
    db3->message = grown;
    db3->capacity = n_bytes;
    return 0;
}

// The first n_wanted bytes of a message into memory. Returns 0, -EBADMSG or -ENOMEM.
static int read_message(struct ros2db3 *db3, sqlite3_int64 row, size_t n_wanted, size_t *out_n)
{
    int code = db3->blob
                   ? sqlite3_blob_reopen(db3->blob, row)
                   : sqlite3_blob_open(db3->db, "main", "messages", "data", row, 0, &db3->blob);
    if (code == SQLITE_OK) {
        size_t n = (size_t)sqlite3_blob_bytes(db3->blob);
        *out_n = n < n_wanted ? n : n_wanted;
        if (*out_n > MAX_MESSAGE_BYTES)
            return -EBADMSG;
        if (reserve(db3, *out_n + 1))
            return -ENOMEM;
        code = sqlite3_blob_read(db3->blob, db3->message, (int)*out_n, 0);
    }
    if (code == SQLITE_OK)
        return 0;
    sqlite3_blob_close(db3->blob); // one that failed cannot be moved to another row
    db3->blob = NULL;
    return -EBADMSG;
}

// Only as much of each message as is looked at: of images the head.
static int read_messages(struct ros2db3 *db3)
{
    sqlite3_stmt *query;
    int err = 0, code;
    size_t n_bad = 0;
    sqlite3_int64 first_bad = 0, last = 0;
    bool begun = false;
    if (sqlite3_prepare_v2(db3->db, "SELECT id, topic_id, timestamp FROM messages ORDER BY id", -1,
                           &query, NULL) != SQLITE_OK)
        return fail(db3, "no recording of ROS 2");
    while (!err && (code = sqlite3_step(query)) == SQLITE_ROW) {
        sqlite3_int64 row = sqlite3_column_int64(query, 0), id = sqlite3_column_int64(query, 1);
        if (begun && row <= last) { // a damaged tree may give the same row for ever
            log_to(&db3->bag.log, LOG_LEVEL_WARNING,
                   "%s: damaged, what follows message %lld is not read", path_of(db3),
                   (long long)last);
            code = SQLITE_DONE;
            break;
        }
        begun = true;
        last = row;
        if (id < 0 || id > UINT32_MAX)
            continue;
        enum bag_interest interest = bag_interest(bag_topic(&db3->bag, (uint32_t)id));
        size_t n = 0, n_wanted = interest == BAG_NOTHING ? 0
                                 : interest == BAG_HEAD  ? ROS_HEAD_BYTES
                                                         : SIZE_MAX;
        int result = n_wanted ? read_message(db3, row, n_wanted, &n) : 0;
        if (result == -EBADMSG) {
            first_bad = n_bad++ ? first_bad : row;
            continue;
        }
        err = result ? result
                     : bag_add_message(&db3->bag, (uint32_t)id, sqlite3_column_int64(query, 2),
                                       (struct bag_place){0, (uint64_t)row}, db3->message, n);
    }
    if (n_bad)
        log_to(&db3->bag.log, LOG_LEVEL_WARNING,
               "%s: %zu messages cannot be read, the first is row %lld of table messages",
               path_of(db3), n_bad, (long long)first_bad);
    if (!err && code != SQLITE_DONE)
        log_to(&db3->bag.log, LOG_LEVEL_WARNING, "%s: incomplete, its messages break off: %s",
               path_of(db3), sqlite3_errmsg(db3->db));
    sqlite3_finalize(query);
    return err;
}

static int read_part(void *state, size_t part)
{
    struct ros2db3 *db3 = state;
    int err = open_part(db3, part);
    // What a recorder lacks here that was killed as it moved its log into the file is in the log;
    // where it is not, reading breaks off.
    if (!err && db3->n_missing > 0 && !db3->has_log)
        log_to(&db3->bag.log, LOG_LEVEL_WARNING,
               "%s: cut off, its last %lld bytes are not there: what is before them is read",
               path_of(db3), db3->n_missing);
    if (!err)
        err = read_topics(db3);
    return err ? err : read_messages(db3);
}

static void close_bag(void *state)
{
    struct ros2db3 *db3 = state;
    close_part(db3);
    free(db3->message);
    bag_close(&db3->bag);
    free(db3);
}

static int open_bag(void **out_state, const char *location, const struct capture_settings *settings,
                    struct capture_info *out_info)
{
    struct ros2db3 *db3 = calloc(1, sizeof *db3);
    if (!db3)
        return -ENOMEM;
    int err = bag_begin(&db3->bag, location, ".db3", true, &settings->log);
    if (!err)
        err = bag_read_parts(&db3->bag, read_part, db3);
    if (!err)
        err = bag_choose(&db3->bag, settings, out_info);
    if (err) {
        close_bag(db3);
        return err;
    }
    *out_state = db3;
    return 0;
}

static void stamp(const void *state, uint64_t i, int64_t *out_time_ns, uint64_t *out_index)
{
    bag_stamp(&((const struct ros2db3 *)state)->bag, i, out_time_ns, out_index);
}

static int decode(void *state, uint64_t i, uint16_t *pixels, struct capture_frame *frame)
{
    (void)frame;
    struct ros2db3 *db3 = state;
    const char *reason = "cannot be read";
    size_t n = 0;
    sqlite3_int64 row = (sqlite3_int64)bag_place(&db3->bag, i).offset;
    int err = open_part(db3, bag_part(&db3->bag, i));
    if (err) // told already
        return err == -ENOMEM ? err : -EBADMSG;
    err = read_message(db3, row, SIZE_MAX, &n);
    if (!err)
        err = bag_decode(&db3->bag, db3->message, n, pixels, &reason);
    if (err && reason)
        log_to(&db3->bag.log, LOG_LEVEL_WARNING, "%s: image %llu: row %lld of table messages: %s",
               path_of(db3), (unsigned long long)i, (long long)row, reason);
    return err;
}

const struct capture_driver capture_driver_ros2db3 = {
    .name = "ros2db3",
    .summary = "ROS 2 recording in SQLite (.db3), also RealSense's (FILE#TOPIC chooses)",
    .open = open_bag,
    .stamp = stamp,
    .decode = decode,
    .close = close_bag,
};
