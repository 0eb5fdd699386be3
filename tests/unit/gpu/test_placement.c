// SPDX-License-Identifier: Apache-2.0
// How things rest on the table of synthetic scenes (tools/bench/resting_pose.h, placement.h): with
// their centre above what carries them, on the table and not in it.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "proto/se3.h"
#include "tools/bench/household.h"
#include "tools/bench/placement.h"
#include "tools/bench/resting_pose.h"
#include "tools/bench/testmesh.h"
#include "tools/bench/testrandom.h"

#define N_THINGS 26

static void make_thing(int i, struct testscene_mesh *out)
{
    if (i < TESTSCENE_N_OBJECTS)
        assert_int_equal(testscene_mesh_make((enum testscene_object)i, out), 0);
    else if (i < 14)
        assert_int_equal(testscene_mesh_assemble((uint64_t)i, out), 0);
    else // two of each sort
        assert_int_equal(household_make((uint64_t)i, out), 0);
}

static void vertex_at(const struct testscene_mesh *mesh, const struct se3 *T, size_t i,
                      double out[3])
{
    const double p[3] = {(double)mesh->vertices_m[3 * i], (double)mesh->vertices_m[3 * i + 1],
                         (double)mesh->vertices_m[3 * i + 2]};
    se3_apply(T, p, out);
}

static double lowest_m(const struct testscene_mesh *mesh, const struct se3 *T)
{
    double low = INFINITY, p[3];
    for (size_t i = 0; i < mesh->n_vertices; i++) {
        vertex_at(mesh, T, i, p);
        low = fmin(low, p[2]);
    }
    return low;
}

static void things_rest_on_three_points_below_their_centre(void **state)
{
    (void)state;
    for (int i = 0; i < N_THINGS; i++) {
        struct testscene_mesh mesh;
        uint64_t random = (uint64_t)i;
        make_thing(i, &mesh);
        double mesh_centre[3];
        resting_centre(&mesh, mesh_centre);
        for (int k = 0; k < 10; k++) {
            const struct se3 start = placement_rotation(&random);
            const struct se3 T = resting_pose(&mesh, &start);
            double nearest[2], centre[3];
            size_t n_contacts;
            const double off = resting_unsupported_m(&mesh, &T, nearest, &n_contacts);
            se3_apply(&T, mesh_centre, centre);
            assert_true(off < 2e-5);
            assert_true(n_contacts >= 3);
            assert_true(fabs(centre[0]) < 1e-9 && fabs(centre[1]) < 1e-9);
            assert_true(fabs(lowest_m(&mesh, &T)) < 1e-9);
        }
        testscene_mesh_free(&mesh);
    }
}

// The centre never rises while a thing tips.
static void a_thing_ends_lower_than_it_began(void **state)
{
    (void)state;
    for (int i = 0; i < N_THINGS; i++) {
        struct testscene_mesh mesh;
        uint64_t random = 100 + (uint64_t)i;
        make_thing(i, &mesh);
        double mesh_centre[3], before[3], after[3];
        resting_centre(&mesh, mesh_centre);
        struct se3 start = placement_rotation(&random);
        start.t_m[2] = -lowest_m(&mesh, &start);
        const struct se3 T = resting_pose(&mesh, &start);
        se3_apply(&start, mesh_centre, before);
        se3_apply(&T, mesh_centre, after);
        assert_true(after[2] < before[2] + 1e-6);
        testscene_mesh_free(&mesh);
    }
}

// A board lies flat, a stick never stands, and both are turned any way.
static void boards_lie_flat(void **state)
{
    (void)state;
    struct testscene_mesh board = {0};
    uint64_t random = 7;
    int n_flat = 0, n_left = 0;
    assert_int_equal(testmesh_add_box(&board, (double[6]){0.02, 0, 0, 0.1, 0.08, 0.01}), 0);
    for (int k = 0; k < 200; k++) {
        const struct se3 start = placement_rotation(&random);
        const struct se3 T = resting_pose(&board, &start);
        n_flat += fabs(T.r[8]) > 0.9999;
        n_left += T.r[0] < 0;
    }
    assert_true(n_flat > 160);
    assert_true(n_left > 70 && n_left < 130);
    testscene_mesh_free(&board);
}

// Whether a point is more than half a millimetre inside of the box that testmesh_add_box made.
static bool is_inside(const struct testscene_mesh *box, const double p[3])
{
    static const int corners[3] = {0, 4, 20}; // of its first face, from which its sides go out
    const float *v = box->vertices_m, *low = v + 3 * 25, *base = v;
    for (int k = 0; k < 3; k++) {
        const float *from = k == 0 ? low : base, *to = v + 3 * corners[k];
        double length2 = 0, along = 0;
        for (int i = 0; i < 3; i++) {
            const double way = (double)(to[i] - from[i]);
            length2 += way * way;
            along += way * (p[i] - (double)from[i]);
        }
        const double length = sqrt(length2);
        if (along / length < 5e-4 || along / length > length - 5e-4)
            return false;
    }
    return true;
}

static void what_is_put_on_a_box_or_leans_on_it_does_not_cut_into_it(void **state)
{
    (void)state;
    int n_props = 0, n_raised = 0, n_free = 0, n = 0;
    for (int i = 0; i < N_THINGS; i++) {
        struct testscene_mesh mesh;
        uint64_t random = 1000 + (uint64_t)i;
        make_thing(i, &mesh);
        for (int k = 0; k < 20; k++, n++) {
            const struct se3 identity = se3_identity();
            struct placement placed;
            double nearest[2], p[3];
            size_t n_contacts;
            assert_int_equal(placement_draw(&mesh, TESTSCENE_PLACEMENT_RESTING, &random, &placed),
                             0);
            const double low = lowest_m(&mesh, &placed.T_world_mesh);
            assert_true(low > -1e-4);
            if (placed.prop.n_triangles == 0) {
                n_free +=
                    resting_unsupported_m(&mesh, &placed.T_world_mesh, nearest, &n_contacts) > 2e-5;
                continue;
            }
            n_props++;
            n_raised += low > 0.005;
            assert_true(fabs(lowest_m(&placed.prop, &identity)) < 1e-6);
            for (size_t v = 0; v < mesh.n_vertices; v++) {
                vertex_at(&mesh, &placed.T_world_mesh, v, p);
                assert_false(is_inside(&placed.prop, p));
            }
            placement_free(&placed);
        }
        testscene_mesh_free(&mesh);
    }
    assert_in_range(n_props, n * 15 / 100, n * 35 / 100);
    assert_in_range(n_raised, n_props / 4, n_props * 3 / 4);
    assert_in_range(n_free, n * 8 / 100, n * 22 / 100);
}

static void things_touch_side_by_side(void **state)
{
    (void)state;
    struct testscene_mesh box = {0};
    struct placement at = {.T_world_mesh = se3_identity()};
    struct placement_footprint wide, other;
    assert_int_equal(testmesh_add_box(&box, (double[6]){0, 0, 0, 0.1, 0.05, 0.02}), 0);
    placement_footprint_of(&box, &at, &wide);
    at.T_world_mesh = (struct se3){{0, -1, 0, 1, 0, 0, 0, 0, 1}, {0, 0, 0}};
    placement_footprint_of(&box, &at, &other);
    assert_true(fabs(placement_contact_m(&wide, &other, 0) - 0.15) < 1e-6);
    assert_true(fabs(placement_contact_m(&wide, &other, M_PI / 2) - 0.15) < 1e-6);
    assert_true(fabs(placement_contact_m(&wide, &wide, 0) - 0.2) < 1e-6);
    assert_true(fabs(placement_contact_m(&wide, &wide, -M_PI / 2) - 0.1) < 1e-6);
    // Aslant they still part across their long sides.
    assert_true(fabs(placement_contact_m(&wide, &wide, M_PI / 4) - 0.1 * sqrt(2)) < 1e-6);
    testscene_mesh_free(&box);
}

static void a_thing_lies_off_its_model_by_what_is_said(void **state)
{
    (void)state;
    double sum2 = 0;
    size_t n = 0;
    uint64_t random = 3;
    for (int i = 0; i < N_THINGS; i++) {
        struct testscene_mesh mesh, warped;
        make_thing(i, &mesh);
        assert_int_equal(testmesh_warp(&mesh, 0.001, &random, &warped), 0);
        assert_int_equal(warped.n_vertices, mesh.n_vertices);
        assert_memory_equal(warped.triangles, mesh.triangles,
                            3 * mesh.n_triangles * sizeof *mesh.triangles);
        for (size_t k = 0; k < 3 * mesh.n_vertices; k++, n++) {
            const double off = (double)(warped.vertices_m[k] - mesh.vertices_m[k]);
            sum2 += off * off;
        }
        testscene_mesh_free(&warped);
        testscene_mesh_free(&mesh);
    }
    const double off_m = sqrt(sum2 / (double)n); // in each coordinate
    assert_true(off_m > 0.0007 && off_m < 0.0014);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(things_rest_on_three_points_below_their_centre),
        cmocka_unit_test(a_thing_ends_lower_than_it_began),
        cmocka_unit_test(boards_lie_flat),
        cmocka_unit_test(what_is_put_on_a_box_or_leans_on_it_does_not_cut_into_it),
        cmocka_unit_test(things_touch_side_by_side),
        cmocka_unit_test(a_thing_lies_off_its_model_by_what_is_said),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
