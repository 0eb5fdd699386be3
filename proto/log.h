// SPDX-License-Identifier: Apache-2.0
// How libraries speak: a callback given at create. Libraries never print and never exit; the
// daemon turns these calls into journald levels or JSON lines, a tool into lines on stderr.
#ifndef POSED_PROTO_LOG_H
#define POSED_PROTO_LOG_H

#include <stdarg.h>
#include <stdio.h>

// Values are syslog's, so that a daemon can write them as "<3>" prefixes.
enum log_level {
    LOG_LEVEL_ERROR = 3,
    LOG_LEVEL_WARNING = 4,
    LOG_LEVEL_NOTICE = 5,
    LOG_LEVEL_INFO = 6,
    LOG_LEVEL_DEBUG = 7,
};

// A value, copied by whoever stores it. `write` may be NULL (silence). It is called with one line
// without a newline, from any thread of the library, and must not block for long.
struct log_sink {
    void (*write)(void *user, enum log_level level, const char *line);
    void *user;
};

// What a file or another program calls its things stands in a line, too: neither may it begin a
// line of its own, which a reader takes for ours, nor command the terminal. Control characters
// become '?', of ASCII (but the tab) and those that UTF-8 has in two bytes (U+0080 to U+009F).
static inline void log_make_one_line(char *line)
{
    for (unsigned char *c = (unsigned char *)line; *c; c++) {
        if ((*c < 0x20 && *c != '\t') || *c == 0x7f)
            *c = '?';
        else if (c[0] == 0xc2 && c[1] >= 0x80 && c[1] < 0xa0)
            c[0] = c[1] = '?';
    }
}

__attribute__((format(printf, 3, 4))) static inline void
log_to(const struct log_sink *sink, enum log_level level, const char *format, ...)
{
    if (!sink || !sink->write)
        return;
    char line[1024];
    va_list args;
    va_start(args, format);
    vsnprintf(line, sizeof line, format, args);
    va_end(args);
    log_make_one_line(line);
    sink->write(sink->user, level, line);
}

#endif
