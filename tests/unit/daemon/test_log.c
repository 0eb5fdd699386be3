// SPDX-License-Identifier: Apache-2.0
// The log: levels, the three formats, the limit of lines a second, the listener; and the datagrams
// to the service manager.
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cmocka.h>

#include "daemon/log.h"
#include "daemon/notify.h"

static char text[1 << 16]; // what went to stderr

// Runs a log over some lines with stderr in a file, and leaves what was written in `text`.
static void run_log(struct log_settings settings, void (*speak)(const struct log_sink *sink))
{
    char path[] = "/tmp/posed-log-XXXXXX";
    int file = mkstemp(path), saved = dup(STDERR_FILENO);
    struct log *log;
    assert_true(file >= 0 && saved >= 0);
    unlink(path);
    assert_int_equal(log_create(&log, &settings), 0);
    dup2(file, STDERR_FILENO);
    const struct log_sink sink = log_sink(log);
    speak(&sink);
    dup2(saved, STDERR_FILENO);
    close(saved);
    log_destroy(&log);
    assert_null(log);
    ssize_t n = pread(file, text, sizeof text - 1, 0);
    assert_true(n >= 0);
    text[n] = 0;
    close(file);
}

static void speak_once_each(const struct log_sink *sink)
{
    sink->write(sink->user, LOG_LEVEL_ERROR, "e \"quoted\" \\ \t\x01");
    log_to(sink, LOG_LEVEL_WARNING, "w");
    log_to(sink, LOG_LEVEL_INFO, "i");
    log_to(sink, LOG_LEVEL_DEBUG, "d");
}

static void formats(void **state)
{
    (void)state;
    run_log((struct log_settings){LOG_LEVEL_INFO, CONFIG_LOG_TEXT, 0}, speak_once_each);
    assert_string_equal(text, "posed: error: e \"quoted\" \\ \t\x01\n"
                              "posed: warning: w\nposed: i\n");
    run_log((struct log_settings){LOG_LEVEL_DEBUG, CONFIG_LOG_JOURNAL, 0}, speak_once_each);
    assert_string_equal(text, "<3>e \"quoted\" \\ \t\x01\n<4>w\n<6>i\n<7>d\n");
    run_log((struct log_settings){LOG_LEVEL_ERROR, CONFIG_LOG_JSON, 0}, speak_once_each);
    assert_memory_equal(text, "{\"time\":\"2", 10);
    assert_non_null(strstr(text, "Z\",\"level\":\"error\",\"message\":\"e \\\"quoted\\\" \\\\ "
                                 "\\u0009\\u0001\"}\n"));
}

static void speak_of_strange_names(const struct log_sink *sink)
{
    log_to(sink, LOG_LEVEL_WARNING, "a.mcap: topic %s, of %s", "/a\n<3>b\r\x1b[31m\x7f",
           "gr\xc3\xbc\xc3\x9f \xc2\x9b\x32J\xc2\xa0\t\xc2");
}

// What a file or another program has for names writes no line of its own, and no terminal obeys it.
static void names_stay_in_their_line(void **state)
{
    (void)state;
#define SHOWN "a.mcap: topic /a?<3>b??[31m?, of gr\xc3\xbc\xc3\x9f ??2J\xc2\xa0\t\xc2\n"
    run_log((struct log_settings){LOG_LEVEL_INFO, CONFIG_LOG_TEXT, 0}, speak_of_strange_names);
    assert_string_equal(text, "posed: warning: " SHOWN);
    run_log((struct log_settings){LOG_LEVEL_INFO, CONFIG_LOG_JOURNAL, 0}, speak_of_strange_names);
    assert_string_equal(text, "<4>" SHOWN);
#undef SHOWN
}

static void speak_often(const struct log_sink *sink)
{
    for (int i = 0; i < 1000; i++)
        log_to(sink, LOG_LEVEL_WARNING, "again");
    log_to(sink, LOG_LEVEL_ERROR, "other level");
    sleep(1);
    log_to(sink, LOG_LEVEL_WARNING, "later");
}

static void too_many_lines_are_counted(void **state)
{
    (void)state;
    run_log((struct log_settings){LOG_LEVEL_INFO, CONFIG_LOG_TEXT, 10}, speak_often);
    int n = 0;
    for (const char *s = text; (s = strstr(s, "again\n")); s++)
        n++;
    assert_in_range(n, 10, 20); // a second may have ended in between
    assert_non_null(strstr(text, "other level"));
    assert_non_null(strstr(text, "lines of level warning were left out\nposed: warning: later\n"));
}

static void speak_at_length(const struct log_sink *sink)
{
    char line[1000];
    memset(line, '\x02', sizeof line);
    line[sizeof line - 1] = 0;
    sink->write(sink->user, LOG_LEVEL_ERROR, line);
}

static void long_lines_stay_one_object(void **state)
{
    (void)state;
    run_log((struct log_settings){LOG_LEVEL_INFO, CONFIG_LOG_JSON, 0}, speak_at_length);
    size_t n = strlen(text);
    assert_true(n > 6 * 999 && strcmp(text + n - 3, "\"}\n") == 0); // none of it is left out
    assert_true(strchr(text, '\n') == text + n - 1);
}

static void speak_of_paths(const struct log_sink *sink)
{
    log_to(sink, LOG_LEVEL_ERROR, "/data/\xff/gr\xc3\xbc\xc3\x9f/\xe2\x82 x");
}

// A path may hold any bytes, a JSON text may not.
static void json_is_utf8(void **state)
{
    (void)state;
    run_log((struct log_settings){LOG_LEVEL_INFO, CONFIG_LOG_JSON, 0}, speak_of_paths);
    assert_non_null(strstr(text, "\"/data/?/gr\xc3\xbc\xc3\x9f/?? x\"}\n"));
}

// Nobody reads the pipe: the daemon does not wait; what was left out is counted when it is read.
static void nobody_waits_for_stderr(void **state)
{
    (void)state;
    int ends[2], saved = dup(STDERR_FILENO);
    struct log *log;
    char line[1000], want[80];
    memset(line, 'x', sizeof line);
    line[sizeof line - 1] = 0;
    assert_int_equal(pipe(ends), 0);
    assert_int_equal(log_create(&log, &(struct log_settings){LOG_LEVEL_INFO, CONFIG_LOG_JSON, 0}),
                     0);
    const struct log_sink sink = log_sink(log);
    dup2(ends[1], STDERR_FILENO);
    close(ends[1]);
    for (int i = 0; i < 200; i++) // a pipe holds 64 KiB
        log_to(&sink, LOG_LEVEL_INFO, "%s", line);
    memset(line, '\x02', sizeof line - 1); // 6 KiB, which a pipe may take in part
    log_to(&sink, LOG_LEVEL_INFO, "%s", line);
    ssize_t n = read(ends[0], text, sizeof text);
    int n_lines = 0;
    for (ssize_t i = 0; i < n; i++)
        n_lines += text[i] == '\n';
    bool whole = n > 0 && text[n - 1] == '\n';
    log_to(&sink, LOG_LEVEL_INFO, "%s", line);
    log_to(&sink, LOG_LEVEL_INFO, "after");
    dup2(saved, STDERR_FILENO);
    close(saved);
    log_destroy(&log);
    ssize_t n_after = read(ends[0], text, sizeof text - 1);
    close(ends[0]);
    assert_true(n > 40000 && n_after > 0);
    text[n_after] = 0;
    snprintf(want, sizeof want, "\"%d lines were left out, as stderr took none\"}\n{",
             201 - n_lines);
    assert_true(whole || text[0] == '\n'); // a torn line ends before the next begins
    assert_non_null(strstr(text, want));
    assert_string_equal(text + n_after - 8, "after\"}\n");
}

static void notifications(void **state)
{
    (void)state;
    char folder[] = "/tmp/posed-notify-XXXXXX", got[64] = "";
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    unsetenv("NOTIFY_SOCKET");
    notify_send("READY=1"); // to nobody
    assert_non_null(mkdtemp(folder));
    snprintf(address.sun_path, sizeof address.sun_path, "%s/s", folder);
    int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    assert_int_equal(bind(fd, (void *)&address, sizeof address), 0);
    setenv("NOTIFY_SOCKET", address.sun_path, 1);
    notify_send("READY=1");
    assert_int_equal(recv(fd, got, sizeof got, 0), 7);
    assert_string_equal(got, "READY=1");
    close(fd);
    unlink(address.sun_path);
    rmdir(folder);
    notify_send("STOPPING=1"); // the manager is gone
    unsetenv("NOTIFY_SOCKET");

    unsetenv("WATCHDOG_PID");
    setenv("WATCHDOG_USEC", "10000000", 1);
    assert_true(notify_watchdog_ns() == 5000000000);
    setenv("WATCHDOG_PID", "1", 1);
    assert_true(notify_watchdog_ns() == 0); // meant for another process
    unsetenv("WATCHDOG_PID");
    setenv("WATCHDOG_USEC", "-5", 1);
    assert_true(notify_watchdog_ns() == 0);
    unsetenv("WATCHDOG_USEC");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(formats),
        cmocka_unit_test(names_stay_in_their_line),
        cmocka_unit_test(too_many_lines_are_counted),
        cmocka_unit_test(long_lines_stay_one_object),
        cmocka_unit_test(json_is_utf8),
        cmocka_unit_test(nobody_waits_for_stderr),
        cmocka_unit_test(notifications),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
