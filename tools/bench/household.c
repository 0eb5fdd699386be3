// SPDX-License-Identifier: Apache-2.0
#include "tools/bench/household.h"

#include <errno.h>
#include <math.h>
#include <string.h>

#include "tools/bench/testmesh.h"
#include "tools/bench/testrandom.h"

#define PROFILE_MOST 8
#define N_SORTS      6

static bool one_in(uint64_t *random, double share)
{
    return testrandom_uniform(random, 0, 1) < share;
}

// shape: number of corners, then radius and height of each; how flat it is (1: round)
static void lathe_at(const double *s, double u, double v, double out[3])
{
    const int n = (int)s[0];
    const double at = v * (n - 1), *flat = s + 1 + 2 * n;
    const int k = at < n - 2 ? (int)at : n - 2;
    const double *a = s + 1 + 2 * k, share = at - k;
    const double r = a[0] + share * (a[2] - a[0]);
    out[0] = r * cos(2 * M_PI * u);
    out[1] = *flat * r * sin(2 * M_PI * u);
    out[2] = a[1] + share * (a[3] - a[1]);
}

static int add_lathe(struct testscene_mesh *m, const double (*profile)[2], int n, double flat)
{
    double shape[2 + 2 * PROFILE_MOST] = {n};
    memcpy(shape + 1, profile, (size_t)n * sizeof *profile);
    shape[1 + 2 * n] = flat;
    return testmesh_add_surface(m, 36, 3 * (uint32_t)(n - 1), lathe_at, shape);
}

// Cups, jugs, pots, watering cans: a wall, open or with a lid, a handle at its side or over it.
static int make_vessel(struct testscene_mesh *m, uint64_t *random)
{
    const double r = testrandom_uniform(random, 0.03, 0.07);
    const double h = testrandom_uniform(random, 0.05, 0.17);
    const double top = r * testrandom_uniform(random, 0.6, 1.3);
    const double middle = (r + top) / 2 * testrandom_uniform(random, 0.9, 1.2), wall = 0.004;
    const double open[][2] = {{0, 0},           {r, 0},          {middle, h / 2},
                              {top, h},         {top - wall, h}, {middle - wall, h / 2},
                              {r - wall, wall}, {0, wall}};
    const double lid[][2] = {{0, 0},
                             {r, 0},
                             {middle, h / 2},
                             {top, h},
                             {0.9 * top, h},
                             {0.3 * top, 1.1 * h},
                             {0.25 * top, 1.2 * h},
                             {0, 1.2 * h}};
    int err = add_lathe(m, one_in(random, 0.6) ? open : lid, 8, 1);
    if (one_in(random, 0.7))
        err |= testmesh_add_torus(
            m, (double[7]){0.95 * middle, 0, h * testrandom_uniform(random, 0.4, 0.6),
                           h * testrandom_uniform(random, 0.25, 0.42),
                           testrandom_uniform(random, 0.004, 0.009), -1.5, 1.5});
    if (one_in(random, 0.4))
        err |=
            testmesh_add_tube(m, (double[8]){-0.8 * r, 0, h * testrandom_uniform(random, 0.15, 0.6),
                                             -testrandom_uniform(random, 0.04, 0.12), 0,
                                             testrandom_uniform(random, 0.02, 0.1),
                                             testrandom_uniform(random, 0.009, 0.016), 0.007});
    if (one_in(random, 0.35))
        err |= testmesh_add_torus(
            m, (double[7]){0, 0, h, 0.95 * top, testrandom_uniform(random, 0.003, 0.007), 0, M_PI});
    return err;
}

static int make_bottle(struct testscene_mesh *m, uint64_t *random)
{
    const double r = testrandom_uniform(random, 0.025, 0.05);
    const double h = testrandom_uniform(random, 0.12, 0.25);
    const double neck = r * testrandom_uniform(random, 0.25, 0.6);
    const double shoulder = h * testrandom_uniform(random, 0.5, 0.75),
                 flat = testrandom_uniform(random, 0.45, 1);
    const double profile[][2] = {{0, 0},          {r, 0},
                                 {r, shoulder},   {neck, shoulder + 0.12 * h},
                                 {neck, 0.9 * h}, {1.3 * neck, 0.9 * h},
                                 {1.2 * neck, h}, {0, h}};
    int err = add_lathe(m, profile, 8, flat);
    if (one_in(random, 0.5)) // a spray head with its trigger
        err |= testmesh_add_box(m, (double[6]){0.6 * r, 0, h, r, 0.35 * r, 0.06 * h}) |
               testmesh_add_tube(m, (double[8]){r, 0, h, 0.2 * r, 0, -0.22 * h, 0.006, 0.004});
    return err;
}

// Drills, guns, dryers: a body, a nose, a grip across, a foot.
static int make_tool(struct testscene_mesh *m, uint64_t *random)
{
    const double r = testrandom_uniform(random, 0.02, 0.035);
    const double length = testrandom_uniform(random, 0.08, 0.16);
    const double grip = testrandom_uniform(random, 0.06, 0.13);
    const double at = length * testrandom_uniform(random, 0.05, 0.5), nose = 0.6 * r;
    int err = testmesh_add_tube(
        m, (double[8]){0, 0, 0, length, 0, 0, r, r * testrandom_uniform(random, 0.7, 1)});
    err |= testmesh_add_tube(m, (double[8]){length, 0, 0, testrandom_uniform(random, 0.02, 0.09), 0,
                                            0, nose, nose * testrandom_uniform(random, 0.2, 1)});
    err |= testmesh_add_tube(m, (double[8]){at, 0, 0, -testrandom_uniform(random, -0.01, 0.04), 0,
                                            -grip - r, 0.7 * r, 0.6 * r});
    if (one_in(random, 0.7))
        err |= testmesh_add_box(m, (double[6]){at - 0.02, 0, -grip - r,
                                               testrandom_uniform(random, 0.03, 0.05),
                                               testrandom_uniform(random, 0.02, 0.04), 0.015});
    if (one_in(random, 0.5)) // a guard from the grip's foot to the nose
        err |= testmesh_add_tube(
            m, (double[8]){at + 0.02, 0, -grip - r, 0.8 * length - at, 0, grip, 0.006, 0.006});
    if (one_in(random, 0.5))
        err |= testmesh_add_box(m, (double[6]){0.4 * length, 0, r + 0.01, 0.025, 0.012, 0.012});
    return err;
}

static int make_animal(struct testscene_mesh *m, uint64_t *random)
{
    double r[3];
    for (int k = 0; k < 3; k++)
        r[k] = testrandom_uniform(random, 0.03, 0.07);
    const double head = testrandom_uniform(random, 0.02, 0.04);
    const double x = 0.8 * r[0], z = r[2] + testrandom_uniform(random, 0.3, 1) * head;
    const double leg = testrandom_uniform(random, 0.02, 0.06), thick = 0.008 + 0.1 * leg;
    int err = testmesh_add_ellipsoid(m, (double[6]){0, 0, 0, r[0], r[1], r[2]});
    err |= testmesh_add_ellipsoid(m, (double[6]){x, 0, z, head, 0.9 * head, head});
    err |= testmesh_add_tube(m, (double[8]){x, 0, z, testrandom_uniform(random, 1.2, 2.2) * head, 0,
                                            -0.2 * head, 0.5 * head, 0.2 * head});
    err |= testmesh_add_tube(m, (double[8]){-0.8 * r[0], 0, 0, -0.03, 0,
                                            testrandom_uniform(random, 0.01, 0.07), thick, 0.004});
    if (one_in(random, 0.5)) // stands on a foot
        err |= testmesh_add_tube(
            m, (double[8]){0, 0, -1.05 * r[2], 0, 0, 0.6 * r[2], 0.8 * r[1], 0.7 * r[1]});
    for (int k = 0; k < 4 && one_in(random, 0.8); k++)
        err |= testmesh_add_tube(m, (double[8]){(k % 2 ? 0.6 : -0.6) * r[0],
                                                (k / 2 ? 0.6 : -0.6) * r[1], -0.3 * r[2], 0, 0,
                                                -0.7 * r[2] - leg, thick, thick});
    for (int k = -1; k < 2 && one_in(random, 0.8); k += 2)
        err |= testmesh_add_ellipsoid(m, (double[6]){x - 0.2 * head, k * 0.6 * head, z + head,
                                                     0.2 * head, 0.3 * head, 0.7 * head});
    return err;
}

// Boxes for eggs, holders, bricks: bumps in rows on a slab, and a lid that stands behind.
static int make_tray(struct testscene_mesh *m, uint64_t *random)
{
    const int n = 2 + (int)(testrandom_next(random) % 2),
              along = 2 + (int)(testrandom_next(random) % 4);
    const double step = testrandom_uniform(random, 0.03, 0.045);
    const double height = testrandom_uniform(random, 0.015, 0.05);
    const double slab = testrandom_uniform(random, 0.005, 0.025);
    const double foot = step * testrandom_uniform(random, 0.25, 0.45);
    const bool round = one_in(random, 0.5);
    int err = testmesh_add_box(m, (double[6]){0, 0, -slab, step * along / 2, step * n / 2, slab});
    for (int i = 0; i < n * along && !err; i++) {
        const double x = step * (i % along - (along - 1) / 2.0);
        const double y = step * (i / along - (n - 1) / 2.0);
        err = round ? testmesh_add_ellipsoid(m, (double[6]){x, y, 0, foot, foot, height})
                    : testmesh_add_tube(m, (double[8]){x, y, 0, 0, 0, height, foot, 0.6 * foot});
    }
    if (one_in(random, 0.6))
        err |= testmesh_add_box(m, (double[6]){0, -step * n / 2 - 0.004, 0.02, step * along / 2,
                                               0.004, testrandom_uniform(random, 0.03, 0.06)});
    return err;
}

// Punches, staplers, stands: an arm over a foot, carried at one end.
static int make_clamp(struct testscene_mesh *m, uint64_t *random)
{
    const double length = testrandom_uniform(random, 0.05, 0.1);
    const double width = testrandom_uniform(random, 0.015, 0.045);
    const double gap = testrandom_uniform(random, 0.02, 0.09);
    const double post = testrandom_uniform(random, 0.008, 0.025), arm = 0.5 * width;
    int err = testmesh_add_box(m, (double[6]){0, 0, 0, length, width, 0.008});
    err |= testmesh_add_box(m, (double[6]){-length + post, 0, gap / 2, post, 0.8 * width, gap / 2});
    err |= testmesh_add_tube(m, (double[8]){-length, 0, gap,
                                            length * testrandom_uniform(random, 1.3, 2.2), 0,
                                            testrandom_uniform(random, -0.3, 0.5) * gap, arm, arm});
    if (one_in(random, 0.6))
        err |= testmesh_add_tube(m, (double[8]){0.4 * length, 0, gap, 0, 0,
                                                testrandom_uniform(random, -0.8, 0.6) * gap - 0.005,
                                                0.012, 0.008});
    if (one_in(random, 0.4))
        err |= testmesh_add_ellipsoid(m, (double[6]){-length, 0, gap, 0.02, 0.02, 0.025});
    return err;
}

int household_make(uint64_t seed, struct testscene_mesh *out)
{
    static int (*const make[N_SORTS])(struct testscene_mesh *, uint64_t *) = {
        make_vessel, make_bottle, make_tool, make_animal, make_tray, make_clamp};
    uint64_t random = seed ^ 0x686f757365u;
    random = testrandom_next(&random);
    memset(out, 0, sizeof *out);
    if (make[seed % N_SORTS](out, &random)) {
        testscene_mesh_free(out);
        return -ENOMEM;
    }
    testmesh_scale_to(out, testrandom_uniform(&random, 0.09, 0.28));
    return 0;
}
