// SPDX-License-Identifier: Apache-2.0
// Boosted trees on top of linear weights (tools/bench/fit_trees.h): what they learn that weights
// cannot, and what they leave alone.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tools/bench/fit_trees.h"
#include "tools/bench/testrandom.h"

#define N_FEATURES 4
#define N_TREES    20

static const int8_t no_sense[N_FEATURES], rises[N_FEATURES] = {1};
static const struct fit_boosting how = {N_TREES, 0.3, 1, 0.7, no_sense};

// Taken is the row of five in which one of the first two numbers, and one alone, is above a half.
static void make_choices(struct fit_data *data, uint32_t n, uint64_t random)
{
    data->n_features = N_FEATURES;
    for (uint32_t c = 0; c < n; c++) {
        const uint32_t taken = (uint32_t)(testrandom_next(&random) % 5);
        assert_int_equal(fit_add_choice(data, c, 1), 0);
        for (uint32_t i = 0; i < 5; i++) {
            double row[N_FEATURES] = {0, 0, testrandom_uniform(&random, 0, 1), 1};
            do {
                row[0] = testrandom_uniform(&random, 0, 1);
                row[1] = testrandom_uniform(&random, 0, 1);
            } while (((row[0] > 0.5) != (row[1] > 0.5)) != (i == taken));
            assert_int_equal(fit_add_row(data, row), 0);
        }
        data->choices[data->n_choices - 1].taken = taken;
    }
}

static void trees_learn_what_two_features_say_together(void **unused)
{
    (void)unused;
    struct fit_data data = {0};
    struct fit_tree trees[N_TREES], again[N_TREES];
    double weights[FIT_FEATURES_MAX], log, weights_first, trees_first;
    make_choices(&data, 600, 1);
    fit_weights(&data, 0, 0.1, weights);
    assert_int_equal(fit_trees(&data, 0, weights, &how, trees), 0);
    // On the choices that were left out.
    fit_quality(&data, 0, weights, &log, &weights_first);
    fit_trees_quality(&data, 0, weights, trees, 0, &log, &trees_first);
    assert_true(weights_first < 0.5 && trees_first == weights_first);
    fit_trees_quality(&data, 0, weights, trees, N_TREES, &log, &trees_first);
    assert_true(trees_first > 0.95 && log > -0.3);
    // The same numbers each time.
    assert_int_equal(fit_trees(&data, 0, weights, &how, again), 0);
    assert_memory_equal(again, trees, sizeof trees);
    fit_free(&data);
}

static void no_tree_looks_at_nothing(void **unused)
{
    (void)unused;
    // Half of the choices are of nothing, a row of zeros: only a row's last number is for it.
    struct fit_data data = {0};
    struct fit_tree trees[N_TREES];
    double weights[FIT_FEATURES_MAX] = {0}, log, first;
    const double nothing[N_FEATURES] = {0};
    uint64_t random = 2;
    data.n_features = N_FEATURES;
    for (uint32_t c = 0; c < 400; c++) {
        const double something[N_FEATURES] = {
            testrandom_uniform(&random, c % 2 ? 0.8 : 0, c % 2 ? 1 : 0.8), 0.5, 0.5, 1};
        assert_int_equal(fit_add_choice(&data, c / 2, 1), 0);
        assert_int_equal(fit_add_row(&data, something), 0);
        assert_int_equal(fit_add_row(&data, nothing), 0);
        data.choices[data.n_choices - 1].taken = c % 2 ? 0 : 1;
    }
    assert_int_equal(fit_trees(&data, 1, weights, &how, trees), 0);
    assert_true(fit_trees_worth(trees, N_TREES, nothing, N_FEATURES) == 0);
    fit_trees_quality(&data, 1, weights, trees, N_TREES, &log, &first);
    assert_true(first > 0.97);
    fit_free(&data);
}

static void more_is_never_worth_less_where_that_is_known(void **unused)
{
    (void)unused;
    struct fit_data data = {0};
    struct fit_tree trees[N_TREES];
    struct fit_boosting sensible = how;
    const double weights[FIT_FEATURES_MAX] = {0};
    uint64_t random = 3;
    uint32_t n_rises = 0, n_falls = 0;
    sensible.sense = rises;
    make_choices(&data, 400, 3);
    for (int with = 0; with < 2; with++) {
        assert_int_equal(fit_trees(&data, 2, weights, with ? &sensible : &how, trees), 0);
        for (int i = 0; i < 500; i++) {
            double row[N_FEATURES] = {testrandom_uniform(&random, 0, 1),
                                      testrandom_uniform(&random, 0, 1),
                                      testrandom_uniform(&random, 0, 1), 1};
            const double less = fit_trees_worth(trees, N_TREES, row, N_FEATURES);
            row[0] += testrandom_uniform(&random, 0, 0.5);
            const double change = fit_trees_worth(trees, N_TREES, row, N_FEATURES) - less;
            n_falls += !with && change < 0;
            n_rises += with && change > 0;
            assert_true(!with || change >= -1e-9);
        }
    }
    assert_true(n_falls > 50 && n_rises > 50);
    fit_free(&data);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(trees_learn_what_two_features_say_together),
        cmocka_unit_test(no_tree_looks_at_nothing),
        cmocka_unit_test(more_is_never_worth_less_where_that_is_known),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
