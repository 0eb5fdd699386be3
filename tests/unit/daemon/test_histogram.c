// SPDX-License-Identifier: Apache-2.0
// Which bucket a duration falls into, at each bound and beside it, and what is printed of them.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/histogram.h"

// As metrics.c and the dashboards of users know them.
static const int64_t bounds_us[HISTOGRAM_N_BOUNDS] = {
    100, 250, 500, 1000, 2500, 5000, 10000, 20000, 33000, 50000, 100000, 250000, 500000, 1000000};

static void test_bounds(void **state)
{
    (void)state;
    for (int i = 0; i < HISTOGRAM_N_BOUNDS; i++) {
        struct histogram histogram = {0};
        histogram_add(&histogram, bounds_us[i] * 1000); // le: the bound itself is inside
        assert_int_equal(histogram.counts[i], 1);
        histogram_add(&histogram, bounds_us[i] * 1000 + 1);
        assert_int_equal(histogram.counts[i + 1], 1);
        assert_int_equal(histogram.sum_ns, 2 * bounds_us[i] * 1000 + 1);
    }
    struct histogram histogram = {0};
    histogram_add(&histogram, -5);
    histogram_add(&histogram, INT64_MIN);
    assert_int_equal(histogram.counts[0], 2);
    assert_int_equal(histogram.sum_ns, 0);
}

static void test_print(void **state)
{
    (void)state;
    char *text = NULL, line[96];
    size_t n;
    struct histogram histogram = {0};
    for (int i = 0; i < HISTOGRAM_N_BOUNDS; i++)
        histogram_add(&histogram, bounds_us[i] * 1000);
    histogram_add(&histogram, INT64_C(2500000000));
    FILE *file = open_memstream(&text, &n);
    assert_non_null(file);
    histogram_print(&histogram, "wait", "", file);
    histogram_print(&histogram, "wait", "camera=\"left\"", file);
    fclose(file);
    int64_t sum_us = 2500000;
    for (int i = 0; i < HISTOGRAM_N_BOUNDS; i++) {
        snprintf(line, sizeof line, "wait_bucket{le=\"%g\"} %d\n", (double)bounds_us[i] * 1e-6,
                 i + 1);
        if (!strstr(text, line) && bounds_us[i] >= 250) // %g has 1e-04, the text 0.0001
            fail_msg("no %s", line);
        sum_us += bounds_us[i];
    }
    assert_non_null(strstr(text, "wait_bucket{le=\"0.0001\"} 1\n"));
    assert_non_null(strstr(text, "wait_bucket{le=\"+Inf\"} 15\n"));
    snprintf(line, sizeof line, "wait_sum %.9f\nwait_count 15\n", (double)sum_us * 1e-6);
    assert_non_null(strstr(text, line));
    assert_non_null(strstr(text, "wait_bucket{camera=\"left\",le=\"0.033\"} 9\n"));
    assert_non_null(strstr(text, "wait_count{camera=\"left\"} 15\n"));
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_bounds), cmocka_unit_test(test_print)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
