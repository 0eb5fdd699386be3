// SPDX-License-Identifier: Apache-2.0
#include "daemon/log.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "proto/clock.h"
#include "proto/wire.h"

#define CLEAR_LINE "\r\033[K" // ECMA-48: to the first column, erase to the end

#define N_LEVELS   (LOG_LEVEL_DEBUG + 1)
#define TEXT_BYTES 1024                  // of a line that is logged, its end included (log_to)
#define LINE_BYTES (6 * TEXT_BYTES + 96) // every byte as \u00XX, and what stands around it

struct bucket {
    uint32_t n_lines;   // in the second that began at start_ns
    uint32_t n_dropped; // of it
    int64_t start_ns;
};

struct log {
    pthread_mutex_t mutex;
    struct log_settings settings;
    struct bucket buckets[N_LEVELS];
    uint32_t n_untaken; // lines that stderr did not take, since it did
    bool torn;          // the last of them in part
    bool status;        // a line of log_show_status stands there
    unsigned n_errors;
    void (*listener)(void *user, enum log_level, const char *line);
    void *listener_user;
};

static const char *const level_names[N_LEVELS] = {"",        "",       "",     "error",
                                                  "warning", "notice", "info", "debug"};

// systemd names the journal's socket in JOURNAL_STREAM as device:inode; stderr may have been
// redirected away from it since.
static bool stderr_is_journal(void)
{
    const char *stream = getenv("JOURNAL_STREAM");
    unsigned long long device, inode;
    struct stat info;
    return stream && sscanf(stream, "%llu:%llu", &device, &inode) == 2 &&
           fstat(STDERR_FILENO, &info) == 0 && info.st_dev == device && info.st_ino == inode;
}

// JSON is UTF-8, and a line may hold anything (a path).
static size_t append_json_text(char *out, size_t size_bytes, const char *line)
{
    char clean[TEXT_BYTES];
    size_t n = 0;
    wire_copy_text(clean, sizeof clean, line);
    for (const char *text = clean; *text && n + 8 < size_bytes; text++) {
        unsigned char c = (unsigned char)*text;
        if (c == '"' || c == '\\')
            n += (size_t)sprintf(out + n, "\\%c", c);
        else if (c < 0x20 || c == 0x7f)
            n += (size_t)sprintf(out + n, "\\u%04x", c);
        else
            out[n++] = (char)c;
    }
    out[n] = 0;
    return n;
}

// A pipe that poll calls writable has room for PIPE_BUF bytes. O_NONBLOCK would be simpler, but
// concern whoever shares our stderr, too. Returns the number of bytes that were taken; an error, as
// of a full disk, counts as all: nowhere is left to complain to.
static size_t put(const char *line, size_t n_bytes)
{
    size_t n_put = 0;
    while (n_put < n_bytes) {
        struct pollfd ready = {STDERR_FILENO, POLLOUT, 0};
        size_t n_left = n_bytes - n_put;
        if (poll(&ready, 1, 0) != 1)
            break;
        ssize_t n = write(STDERR_FILENO, line + n_put, n_left < PIPE_BUF ? n_left : PIPE_BUF);
        if (n < 0)
            return n_bytes;
        n_put += (size_t)n;
    }
    return n_put;
}

static size_t make_line(char line[LINE_BYTES], enum config_log_format format, enum log_level level,
                        const char *text)
{
    size_t n = 0;
    if (format == CONFIG_LOG_JSON) {
        struct tm utc;
        const struct timespec now = clock_timespec(clock_wall_ns());
        gmtime_r(&now.tv_sec, &utc);
        n = strftime(line, LINE_BYTES, "{\"time\":\"%Y-%m-%dT%H:%M:%S", &utc);
        n += (size_t)snprintf(line + n, LINE_BYTES - n, ".%03ldZ\",\"level\":\"%s\",\"message\":\"",
                              now.tv_nsec / 1000000, level_names[level]);
        n += append_json_text(line + n, LINE_BYTES - n - 4, text);
        n += (size_t)snprintf(line + n, LINE_BYTES - n, "\"}\n");
    } else if (format == CONFIG_LOG_JOURNAL) {
        n = (size_t)snprintf(line, LINE_BYTES, "<%d>%s\n", level, text);
    } else {
        bool plain = level == LOG_LEVEL_INFO || level == LOG_LEVEL_NOTICE;
        n = (size_t)snprintf(line, LINE_BYTES, "posed: %s%s%s\n", plain ? "" : level_names[level],
                             plain ? "" : ": ", text);
    }
    return n < LINE_BYTES ? n : LINE_BYTES - 1;
}

static bool write_line(struct log *log, enum log_level level, const char *text)
{
    char line[LINE_BYTES];
    if (log->status && put(CLEAR_LINE, sizeof CLEAR_LINE - 1) == sizeof CLEAR_LINE - 1)
        log->status = false;
    size_t n = make_line(line, log->settings.format, level, text), n_put = put(line, n);
    log->n_untaken += n_put < n;
    log->torn = log->torn || (n_put > 0 && n_put < n);
    return n_put == n;
}

// What was left out comes first.
static void write_lines(struct log *log, enum log_level level, uint32_t n_dropped, const char *text)
{
    char note[80];
    if (log->n_untaken) {
        uint32_t n_untaken = log->n_untaken;
        snprintf(note, sizeof note, "%u lines were left out, as stderr took none", n_untaken);
        if ((log->torn && put("\n", 1) == 0) || !write_line(log, LOG_LEVEL_WARNING, note)) {
            log->n_untaken = n_untaken + 1;
            return;
        }
        log->n_untaken = 0;
        log->torn = false;
    }
    if (n_dropped) {
        snprintf(note, sizeof note, "%u lines of level %s were left out", n_dropped,
                 level_names[level]);
        write_line(log, level, note);
    }
    write_line(log, level, text);
}

// Takes one line's place in this second. Returns false when there is none left; the count of lines
// left out in the second before comes back once.
static bool admit(struct log *log, enum log_level level, uint32_t *out_n_dropped)
{
    struct bucket *bucket = &log->buckets[level];
    int64_t now_ns = clock_monotonic_ns();
    *out_n_dropped = 0;
    if (now_ns - bucket->start_ns >= 1000000000) {
        *out_n_dropped = bucket->n_dropped;
        *bucket = (struct bucket){.start_ns = now_ns};
    }
    if (log->settings.rate_hz && bucket->n_lines >= log->settings.rate_hz) {
        bucket->n_dropped++;
        return false;
    }
    bucket->n_lines++;
    return true;
}

static void log_write(void *user, enum log_level level, const char *text)
{
    struct log *log = user;
    if (level < LOG_LEVEL_ERROR)
        level = LOG_LEVEL_ERROR;
    if (level > LOG_LEVEL_DEBUG)
        level = LOG_LEVEL_DEBUG;
    pthread_mutex_lock(&log->mutex);
    uint32_t n_dropped;
    log->n_errors += level == LOG_LEVEL_ERROR;
    if (level <= log->settings.level && admit(log, level, &n_dropped)) {
        write_lines(log, level, n_dropped, text);
        if (log->listener && level <= LOG_LEVEL_NOTICE)
            log->listener(log->listener_user, level, text);
    }
    pthread_mutex_unlock(&log->mutex);
}

void log_show_status(struct log *log, const char *text)
{
    char line[160];
    int n = snprintf(line, sizeof line, CLEAR_LINE "%.120s", text);
    pthread_mutex_lock(&log->mutex);
    if (log->settings.format == CONFIG_LOG_TEXT && log->settings.level >= LOG_LEVEL_NOTICE)
        log->status = put(line, (size_t)n) > 0 || log->status;
    pthread_mutex_unlock(&log->mutex);
}

unsigned log_errors(const struct log *log)
{
    struct log *own = (struct log *)(uintptr_t)log;
    pthread_mutex_lock(&own->mutex);
    unsigned n = log->n_errors;
    pthread_mutex_unlock(&own->mutex);
    return n;
}

int log_create(struct log **out, const struct log_settings *settings)
{
    struct log *log = calloc(1, sizeof *log);
    *out = log;
    if (!log)
        return -ENOMEM;
    pthread_mutex_init(&log->mutex, NULL);
    log_configure(log, settings);
    return 0;
}

void log_destroy(struct log **log)
{
    if (!*log)
        return;
    pthread_mutex_destroy(&(*log)->mutex);
    free(*log);
    *log = NULL;
}

void log_configure(struct log *log, const struct log_settings *settings)
{
    pthread_mutex_lock(&log->mutex);
    log->settings = *settings;
    if (settings->format == CONFIG_LOG_AUTO)
        log->settings.format = stderr_is_journal() ? CONFIG_LOG_JOURNAL : CONFIG_LOG_TEXT;
    pthread_mutex_unlock(&log->mutex);
}

void log_listen(struct log *log, void (*listener)(void *user, enum log_level, const char *line),
                void *user)
{
    pthread_mutex_lock(&log->mutex);
    log->listener = listener;
    log->listener_user = user;
    pthread_mutex_unlock(&log->mutex);
}

struct log_sink log_sink(struct log *log)
{
    return (struct log_sink){.write = log_write, .user = log};
}
