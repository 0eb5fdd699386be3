// SPDX-License-Identifier: Apache-2.0
// Directions of a room whose axes are known, and the pose of a few right correspondences among many
// wrong ones.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <stdio.h>

#include "gpu/register/candidates.h"
#include "gpu/register/manhattan.h"
#include "tools/bench/testrandom.h"

#define N_NORMALS 3000u
#define N_PAIRS   400u
#define N_RIGHT   16u
#define SEED      20261126u

static struct register_cell_point normals[N_NORMALS];
static struct register_matched_pair pairs[N_PAIRS];

// Half of the normals along the first axis, a third along the second, either way, the rest
// anywhere; each off by some degrees.
static void make_normals(uint64_t *random, const struct se3 *T)
{
    for (uint32_t i = 0; i < N_NORMALS; i++) {
        const uint64_t kind = testrandom_next(random) % 6;
        double m[3], turned[3];
        for (int k = 0; k < 3; k++)
            m[k] = testrandom_normal(random) * (kind < 5 ? 0.04 : 1);
        if (kind < 5)
            m[kind < 3 ? 0 : 1] += testrandom_next(random) % 2 ? 1 : -1;
        const double length = sqrt(m[0] * m[0] + m[1] * m[1] + m[2] * m[2]);
        for (int k = 0; k < 3; k++)
            turned[k] = T->r[3 * k] * m[0] + T->r[3 * k + 1] * m[1] + T->r[3 * k + 2] * m[2];
        normals[i] =
            (struct register_cell_point){(float)(turned[0] / length), (float)(turned[1] / length),
                                         (float)(turned[2] / length), 0};
    }
}

static void directions_of_a_room(void **state)
{
    (void)state;
    uint64_t random = SEED;
    const struct se3 T = se3_exp((double[6]){0, 0, 0, 0.4, -1.1, 0.7});
    struct register_axes axes;
    make_normals(&random, &T);
    register_axes_find(normals, N_NORMALS, &axes);
    assert_true(axes.valid);
    for (int a = 0; a < 3; a++) {
        double along = 0;
        for (int k = 0; k < 3; k++)
            along += axes.row[a][k] * T.r[3 * k + a];
        assert_true(fabs(along) > cos(0.5 * M_PI / 180)); // the mean of 1000 that are 2 degrees off
    }
}

// One wall seen straight on, no normals, nothing: no directions.
static void no_directions(void **state)
{
    (void)state;
    struct register_axes axes;
    for (uint32_t i = 0; i < N_NORMALS; i++)
        normals[i] = (struct register_cell_point){0, 0, i % 2 ? 1 : -1, 0};
    register_axes_find(normals, N_NORMALS, &axes);
    assert_false(axes.valid);
    for (uint32_t i = 0; i < N_NORMALS; i++)
        normals[i] = (struct register_cell_point){0, 0, 0, 0};
    register_axes_find(normals, N_NORMALS, &axes);
    assert_false(axes.valid);
    register_axes_find(normals, 0, &axes);
    assert_false(axes.valid);
    struct se3 poses[REGISTER_MOST_TURNED];
    assert_int_equal(register_axes_poses(&axes, &axes, pairs, N_PAIRS, 0.3, poses), 0);
}

// 4 % of the correspondences are right, to 5 cm. The pose is among those that are found, to 2
// degrees and 5 cm, which 16 points that are 5 cm off within 2 m give with room to spare.
static void few_right_correspondences(void **state)
{
    (void)state;
    uint64_t random = SEED;
    const struct se3 T = se3_exp((double[6]){1, -0.4, 0.6, 0.3, 2.1, -0.5});
    const struct se3 none = se3_identity();
    struct register_axes source, target;
    struct se3 poses[REGISTER_MOST_TURNED];
    make_normals(&random, &none);
    register_axes_find(normals, N_NORMALS, &source);
    make_normals(&random, &T);
    register_axes_find(normals, N_NORMALS, &target);
    for (uint32_t i = 0; i < N_PAIRS; i++) {
        double q[3];
        for (int k = 0; k < 3; k++)
            pairs[i].source_m[k] = testrandom_uniform(&random, -2, 2);
        se3_apply(&T, pairs[i].source_m, q);
        for (int k = 0; k < 3; k++)
            pairs[i].target_m[k] = i < N_RIGHT ? q[k] + 0.05 * testrandom_normal(&random)
                                               : testrandom_uniform(&random, -2, 2);
    }
    const int n = register_axes_poses(&source, &target, pairs, N_PAIRS, 0.3, poses);
    bool found = false;
    assert_true(n > 0 && n <= (int)REGISTER_MOST_TURNED);
    for (int i = 0; i < n; i++) {
        const struct se3 d = se3_between(&T, &poses[i]);
        found |=
            se3_angle(&d) < 2 * M_PI / 180 && hypot(hypot(d.t_m[0], d.t_m[1]), d.t_m[2]) < 0.05;
        double determinant = 0;
        for (int k = 0; k < 3; k++)
            determinant +=
                poses[i].r[k] * (poses[i].r[3 + (k + 1) % 3] * poses[i].r[6 + (k + 2) % 3] -
                                 poses[i].r[3 + (k + 2) % 3] * poses[i].r[6 + (k + 1) % 3]);
        assert_true(fabs(determinant - 1) < 1e-9); // no mirror image
    }
    assert_true(found);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(directions_of_a_room),
        cmocka_unit_test(no_directions),
        cmocka_unit_test(few_right_correspondences),
    };
    printf("seed %u\n", SEED);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
