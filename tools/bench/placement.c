// SPDX-License-Identifier: Apache-2.0
#include "tools/bench/placement.h"

#include <math.h>
#include <string.h>

#include "proto/se3.h"
#include "tools/bench/resting_pose.h"
#include "tools/bench/testmesh.h"
#include "tools/bench/testrandom.h"

// Of things that rest as real ones do, one after the other.
#define SHARE_ON      0.125
#define SHARE_LEANING 0.125
#define SHARE_FREE    0.15

#define LEANING_MOST_RAD 0.6

struct se3 placement_rotation(uint64_t *random)
{
    double q[4], zero[3] = {0, 0, 0};
    for (int k = 0; k < 4; k++)
        q[k] = testrandom_normal(random);
    return se3_from_quaternion(q, zero);
}

static void vertex_at(const struct testscene_mesh *mesh, const struct se3 *T, size_t i,
                      double out[3])
{
    const float *p = mesh->vertices_m + 3 * i;
    const double at[3] = {(double)p[0], (double)p[1], (double)p[2]};
    se3_apply(T, at, out);
}

static double lowest_m(const struct testscene_mesh *mesh, const struct se3 *T)
{
    double low = INFINITY, p[3];
    for (size_t i = 0; i < mesh->n_vertices; i++) {
        vertex_at(mesh, T, i, p);
        low = p[2] < low ? p[2] : low;
    }
    return low;
}

// From where to where the vertices that touch the table reach in a direction [m].
static void contacts_along(const struct testscene_mesh *mesh, const struct se3 *T, double angle,
                           double *out_from, double *out_to)
{
    *out_from = INFINITY;
    *out_to = -INFINITY;
    for (size_t i = 0; i < mesh->n_vertices; i++) {
        double p[3];
        vertex_at(mesh, T, i, p);
        const double here = cos(angle) * p[0] + sin(angle) * p[1];
        if (p[2] > RESTING_CONTACT_M)
            continue;
        *out_from = fmin(*out_from, here);
        *out_to = fmax(*out_to, here);
    }
}

// A box on the table from `from` to `to` along `angle`, from left to right of that, so high.
static int add_prop(struct testscene_mesh *prop, double angle, const double along[2],
                    const double across[2], double height)
{
    const double c = cos(angle), s = sin(angle);
    const int err = testmesh_add_box(
        prop, (double[6]){(along[0] + along[1]) / 2, (across[0] + across[1]) / 2, height / 2,
                          (along[1] - along[0]) / 2, (across[1] - across[0]) / 2, height / 2});
    for (size_t i = 0; i < prop->n_vertices && !err; i++) {
        float *p = prop->vertices_m + 3 * i;
        const double x = (double)p[0], y = (double)p[1];
        p[0] = (float)(c * x - s * y);
        p[1] = (float)(s * x + c * y);
    }
    return err;
}

// Raises it onto a box that is a little larger than what it stands on.
static int put_on(const struct testscene_mesh *mesh, uint64_t *random, struct placement *io)
{
    const double angle = testrandom_uniform(random, 0, 2 * M_PI);
    const double height = testrandom_uniform(random, 0.01, 0.08);
    double side[2][2];
    for (int k = 0; k < 2; k++) {
        contacts_along(mesh, &io->T_world_mesh, angle + k * M_PI / 2, &side[k][0], &side[k][1]);
        side[k][0] -= testrandom_uniform(random, 0.002, 0.06);
        side[k][1] += testrandom_uniform(random, 0.002, 0.06);
    }
    io->T_world_mesh.t_m[2] += height;
    return add_prop(&io->prop, angle, side[0], side[1], height);
}

// Tilts it over the near end of its support and pushes a box under the other: no further than its
// centre stays above what carries it.
static int lean(const struct testscene_mesh *mesh, uint64_t *random, struct placement *io)
{
    const double angle = testrandom_uniform(random, 0, 2 * M_PI);
    double mesh_centre[3], centre[3], from, to;
    resting_centre(mesh, mesh_centre);
    se3_apply(&io->T_world_mesh, mesh_centre, centre);
    contacts_along(mesh, &io->T_world_mesh, angle, &from, &to);
    const double most = fmin(LEANING_MOST_RAD, atan2(-from, centre[2]));
    const double tilt = most * testrandom_uniform(random, 0.3, 0.9);
    // (0, 0) is below the centre: the box begins beyond it.
    const double at = to * testrandom_uniform(random, 0.3, 0.95);
    const double twist[6] = {0, 0, 0, sin(angle) * tilt, -cos(angle) * tilt, 0};
    const struct se3 turn = se3_exp(twist);
    // The end at `from` stays where it is.
    const double hinge[3] = {from * cos(angle), from * sin(angle), 0};
    double moved[3];
    struct se3 T = se3_compose(&turn, &io->T_world_mesh);
    se3_apply(&turn, hinge, moved);
    for (int k = 0; k < 3; k++)
        T.t_m[k] += hinge[k] - moved[k];
    // What is round goes on a little over its end.
    const double sunk = -lowest_m(mesh, &T);
    T.t_m[2] += sunk;
    io->T_world_mesh = T;
    const double height = (at - from) * sin(tilt) + sunk, begin = from + (at - from) * cos(tilt);
    const double along[2] = {begin, begin + testrandom_uniform(random, 0.03, 0.12)};
    const double across[2] = {-testrandom_uniform(random, 0.02, 0.08),
                              testrandom_uniform(random, 0.02, 0.08)};
    return add_prop(&io->prop, angle, along, across, height);
}

int placement_draw(const struct testscene_mesh *mesh, enum testscene_placement how,
                   uint64_t *random, struct placement *out)
{
    memset(out, 0, sizeof *out);
    out->T_world_mesh = placement_rotation(random);
    const double luck = how == TESTSCENE_PLACEMENT_FREE ? 0 : testrandom_uniform(random, 0, 1);
    if (luck < SHARE_FREE) {
        out->T_world_mesh.t_m[2] = -lowest_m(mesh, &out->T_world_mesh);
        return 0;
    }
    out->T_world_mesh = resting_pose(mesh, &out->T_world_mesh);
    if (luck < SHARE_FREE + SHARE_ON)
        return put_on(mesh, random, out);
    return luck < SHARE_FREE + SHARE_ON + SHARE_LEANING ? lean(mesh, random, out) : 0;
}

void placement_free(struct placement *placement)
{
    testscene_mesh_free(&placement->prop);
}

static void reach_over(const struct testscene_mesh *mesh, const struct se3 *T,
                       struct placement_footprint *io)
{
    for (size_t i = 0; i < mesh->n_vertices; i++) {
        double p[3];
        vertex_at(mesh, T, i, p);
        for (int k = 0; k < PLACEMENT_N_DIRECTIONS; k++) {
            const double angle = 2 * M_PI * k / PLACEMENT_N_DIRECTIONS;
            io->reach_m[k] = fmax(io->reach_m[k], cos(angle) * p[0] + sin(angle) * p[1]);
        }
    }
}

void placement_footprint_of(const struct testscene_mesh *mesh, const struct placement *placement,
                            struct placement_footprint *out)
{
    const struct se3 identity = se3_identity();
    for (int k = 0; k < PLACEMENT_N_DIRECTIONS; k++)
        out->reach_m[k] = -INFINITY;
    reach_over(mesh, &placement->T_world_mesh, out);
    reach_over(&placement->prop, &identity, out);
}

// Of directions that part two convex things, the one that parts them first.
double placement_contact_m(const struct placement_footprint *still,
                           const struct placement_footprint *moved, double angle)
{
    double least = INFINITY;
    for (int k = 0; k < PLACEMENT_N_DIRECTIONS; k++) {
        const double along = cos(2 * M_PI * k / PLACEMENT_N_DIRECTIONS - angle);
        const int opposite = (k + PLACEMENT_N_DIRECTIONS / 2) % PLACEMENT_N_DIRECTIONS;
        if (along > 0.01)
            least = fmin(least, (still->reach_m[k] + moved->reach_m[opposite]) / along);
    }
    return least > 0 ? least : 0;
}
