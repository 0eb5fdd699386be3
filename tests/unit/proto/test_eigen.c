// SPDX-License-Identifier: Apache-2.0
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>
#include <stdlib.h>

#include "proto/eigen.h"

#define SEED 20

// a v = value v, v v' = 1, values ascending; rounding errors of some operations a digit each.
static void assert_decomposes(const double *a, int n, double scale)
{
    double values[EIGEN_MAX_N], vectors[EIGEN_MAX_N * EIGEN_MAX_N];
    const double limit = 1e-14 * n;
    eigen_symmetric(a, n, values, vectors);
    for (int i = 0; i < n; i++) {
        assert_true(i == 0 || values[i - 1] <= values[i]);
        for (int j = 0; j < n; j++) {
            double av = 0, dot = 0;
            for (int k = 0; k < n; k++) {
                av += a[j * n + k] * vectors[i * n + k];
                dot += vectors[i * n + k] * vectors[j * n + k];
            }
            assert_true(fabs(av - values[i] * vectors[i * n + j]) <= limit * scale);
            assert_true(fabs(dot - (i == j)) <= limit);
        }
    }
}

static void random_matrices(void **state)
{
    (void)state;
    print_message("seed %d\n", SEED);
    srand(SEED);
    for (int round = 0; round < 2000; round++) {
        const int n = 1 + round % EIGEN_MAX_N;
        const double scale = pow(10, round % 31 - 15);
        double a[EIGEN_MAX_N * EIGEN_MAX_N];
        for (int i = 0; i < n; i++)
            for (int j = 0; j <= i; j++)
                a[i * n + j] = a[j * n + i] = scale * (2.0 * rand() / RAND_MAX - 1);
        assert_decomposes(a, n, n * scale);
    }
}

// Equal values, values far apart, and nothing at all.
static void special_matrices(void **state)
{
    (void)state;
    static const double zero[16] = {0}, equal[9] = {3, 0, 0, 0, 3, 0, 0, 0, 3},
                        twice[9] = {2, 1, 1, 1, 2, 1, 1, 1, 2}, // 1, 1, 4
        apart[4] = {1e12, 1, 1, 1e-12};
    double values[4], vectors[16];
    assert_decomposes(zero, 4, 1);
    assert_decomposes(equal, 3, 3);
    assert_decomposes(twice, 3, 4);
    assert_decomposes(apart, 2, 1e12);
    eigen_symmetric(zero, 4, values, vectors);
    for (int i = 0; i < 16; i++) // the unit vectors in their order
        assert_true(vectors[i] == (i % 5 == 0));
    eigen_symmetric(twice, 3, values, vectors);
    assert_true(fabs(values[1] - 1) < 1e-14 && fabs(values[2] - 4) < 1e-14);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_matrices),
        cmocka_unit_test(special_matrices),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
