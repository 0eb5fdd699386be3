// SPDX-License-Identifier: Apache-2.0
// The settings in force: read by one thread while others change them, all of a change or none, and
// each mistake by its own name.
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "daemon/config/settings.h"

#define N_RELOADS 2000

static const struct log_sink silence;
static struct settings *settings;
static _Atomic bool reloads_done;

static void set(struct config *config, const char *value, const char *origin)
{
    char error[300];
    assert_int_equal(config_set(config, "requests.deadline_ms", value, origin, error, sizeof error),
                     0);
}

static void *reload_often(void *user)
{
    static struct config fresh[2];
    (void)user;
    for (int i = 0; i < 2; i++) {
        config_default(&fresh[i]);
        set(&fresh[i], i ? "2222" : "1111", i ? "file:2" : "file:1");
    }
    for (int i = 0; i < N_RELOADS; i++) {
        unsigned n = settings_reload(settings, &fresh[i % 2], &silence);
        if (n != 1)
            abort();
    }
    reloads_done = true;
    return NULL;
}

static size_t index_of(const char *wanted)
{
    char name[96] = "";
    size_t i = 0;
    for (; strcmp(name, wanted) != 0; i++)
        config_key_name(i, name, sizeof name);
    return i - 1;
}

// A value and where it comes from belong together, whoever asks and when.
static void reading_beside_reloads(void **state)
{
    static struct config config;
    (void)state;
    config_default(&config);
    set(&config, "2222", "file:2");
    assert_int_equal(settings_create(&settings, &config, NULL), 0);
    reloads_done = false;
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, reload_often, NULL), 0);
    size_t key = index_of("requests.deadline_ms");
    while (!reloads_done) {
        settings_get(settings, &config);
        if (strcmp(config.origin[key], config.requests.deadline_ms == 1111 ? "file:1" : "file:2") !=
            0)
            fail_msg("%u of %s", config.requests.deadline_ms, config.origin[key]);
        uint32_t deadline_ms = settings_deadline_ms(settings);
        assert_true(deadline_ms == 1111 || deadline_ms == 2222);
    }
    pthread_join(thread, NULL);
    settings_destroy(&settings);
    assert_null(settings);
}

static void all_or_none(void **state)
{
    static struct config config;
    static const struct {
        const char *name, *value;
        int error;
    } wrong[] = {
        {"log.levle", "debug", -ENOENT},
        {"tracker.iterations", "1,1,1", -EPERM},
        {"log.level", "loud", -EINVAL},
        {"requests.deadline_ms", "0", -ERANGE},
    };
    char error[300];
    size_t i_wrong;
    (void)state;
    config_default(&config);
    assert_int_equal(settings_create(&settings, &config, NULL), 0);
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        const struct config_assignment two[] = {{"log.rate_hz", "7", "test"},
                                                {wrong[i].name, wrong[i].value, "test"}};
        assert_int_equal(settings_change(settings, two, 2, &i_wrong, error, sizeof error),
                         wrong[i].error);
        assert_int_equal(i_wrong, 1);
        assert_non_null(strstr(error, wrong[i].name));
        settings_get(settings, &config);
        assert_int_equal(config.log.rate_hz, 50);
    }
    const struct config_assignment two[] = {{"log.rate_hz", "7", "test"},
                                            {"requests.deadline_ms", "250", "test"}};
    assert_int_equal(settings_change(settings, two, 2, &i_wrong, error, sizeof error), 0);
    settings_get(settings, &config);
    assert_int_equal(config.log.rate_hz, 7);
    assert_int_equal(settings_deadline_ms(settings), 250);
    assert_string_equal(config.origin[index_of("log.rate_hz")], "test");
    settings_destroy(&settings);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reading_beside_reloads),
        cmocka_unit_test(all_or_none),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
