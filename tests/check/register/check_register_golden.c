// SPDX-License-Identifier: Apache-2.0
// The answers of the registration are what they were: every method, form and preset, from a pose
// and from everywhere, where sets overlap in part, where two poses do as well and where none is
// right; and what the candidates of a pair of scans carry with them. tests/golden/register.txt has
// every number (tests/check/golden_values.h says how to write it anew).
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "gpu/register/candidates.h"
#include "gpu/register/register.h"
#include "gpu/register/surface_levels.h"
#include "gpu/register/verdict.h"
#include "proto/se3.h"
#include "tests/check/golden_values.h"
#include "tests/check/register/scene.h"

// Poses end where a step is a tenth of a standard deviation, so a rounding grows no further on the
// way; sums of 10,000 floats are right to 1e-6.
#define SHARE 1e-5

static struct registration *registration;
static struct scene_set source, target;

static struct se3 motion(double x, double y, double z, double turn_x, double turn_y, double turn_z)
{
    const double twist[6] = {x, y, z, turn_x, turn_y, turn_z};
    return se3_exp(twist);
}

static void answer(const char *name, const struct register_settings *settings)
{
    struct register_result result;
    golden_case("%s", name);
    const int rc = registration_run(registration, &source.points, &target.points, settings, NULL,
                                    &result, NULL);
    golden_count("rc", rc);
    if (rc < 0)
        return;
    const double overlap[2] = {result.overlap_source, result.overlap_target};
    golden_pose("T", &result.T_target_source, SHARE);
    golden_number("residual_rms_m", result.residual_rms_m, SHARE);
    golden_numbers("overlap", overlap, 2, SHARE);
    golden_covariance("covariance", result.covariance, SHARE);
    golden_count("iterations", result.n_iterations);
    golden_count("converged", result.converged);
    golden_number("ambiguity", result.ambiguity, SHARE);
    golden_count("ambiguous", result.ambiguous);
    golden_count("has_second", result.has_second);
    if (result.has_second)
        golden_pose("second", &result.T_second, SHARE);
    golden_count("doubt", (int64_t)strlen(result.doubt) > 0);
}

static struct register_settings settings_of(enum register_method method, enum register_start start)
{
    struct register_settings settings;
    register_settings_default(&settings);
    settings.method = method;
    settings.start = start;
    settings.n_starts = 84; // of a search from everywhere, or for a rival
    return settings;
}

static void bumpy(size_t n, double noise_m, double lopsided, const struct se3 *T)
{
    const struct scene_shape shape = {lopsided, noise_m, -1, 1, true};
    scene_bumpy(&source, n, &shape, &(struct se3){{1, 0, 0, 0, 1, 0, 0, 0, 1}, {0, 0, 0}});
    scene_bumpy(&target, n, &shape, T);
}

// Few points: the methods on points, which take all pairs.
static void few_points(void)
{
    const struct se3 T = motion(0.06, -0.04, 0.05, 0.2, -0.25, 0.15);
    struct register_settings s = settings_of(REGISTER_METHOD_EMICP, REGISTER_START_IDENTITY);
    golden_seed(1);
    bumpy(400, 0.002, 0.15, &T);
    answer("few/emicp", &s);
    s.slack = 0.1;
    s.sigma_last = 0.5;
    s.n_iterations = 20;
    answer("few/emicp/settings", &s);
    s = settings_of(REGISTER_METHOD_EMICP, REGISTER_START_IDENTITY);
    s.n_points = 100;
    answer("few/emicp/refined", &s);
    s.point_to_plane = false;
    answer("few/emicp/refined/points", &s);
    s.n_points = 0;
    s.method = REGISTER_METHOD_SOFTASSIGN;
    answer("few/softassign", &s);
    s.form = REGISTER_FORM_DENSE;
    answer("few/softassign/dense", &s);
    s.method = REGISTER_METHOD_EMICP;
    answer("few/emicp/dense", &s);
    s.preset = REGISTER_PRESET_TAMAKI;
    answer("few/emicp/dense/tamaki", &s);
    s.form = REGISTER_FORM_STREAMING;
    answer("few/emicp/tamaki", &s);
    s.method = REGISTER_METHOD_SOFTASSIGN;
    answer("few/softassign/tamaki", &s);
    s = settings_of(REGISTER_METHOD_ICP, REGISTER_START_IDENTITY);
    answer("few/icp", &s);
    s.point_to_plane = false;
    answer("few/icp/points", &s);
    s.n_iterations = 3;
    answer("few/icp/short", &s);
    s = settings_of(REGISTER_METHOD_GICP, REGISTER_START_IDENTITY);
    answer("few/gicp", &s);
}

// When runs end: a threshold that moves by a hundredth moves the end of some of so many.
static void crowd(void)
{
    static const enum register_method methods[] = {REGISTER_METHOD_ICP, REGISTER_METHOD_EMICP};
    struct register_result result;
    golden_seed(6);
    for (int m = 0; m < 2; m++) {
        struct register_settings s = settings_of(methods[m], REGISTER_START_IDENTITY);
        double iterations[60];
        s.n_starts = 21;
        for (int k = 0; k < 60; k++) {
            const struct se3 T = motion(0.05, 0.03, -0.04, 0.1, 0.003 * k, -0.1);
            bumpy(80, 0.004, 0.15, &T);
            s.point_to_plane = k % 2;
            if (registration_run(registration, &source.points, &target.points, &s, NULL, &result,
                                 NULL) != 0)
                exit(2);
            iterations[k] = result.n_iterations;
        }
        golden_case("crowd/%s", register_method_name(methods[m]));
        golden_numbers("iterations", iterations, 60, 0);
    }
}

// From everywhere, on points.
static void few_points_many_starts(void)
{
    const struct se3 T = motion(0.3, 0.1, -0.5, 0.3, 2.6, -0.4);
    struct register_settings s = settings_of(REGISTER_METHOD_EMICP, REGISTER_START_MANY);
    golden_seed(2);
    bumpy(300, 0.002, 0.15, &T);
    s.n_starts = 280;
    answer("many/emicp", &s);
    s.method = REGISTER_METHOD_ICP;
    answer("many/icp", &s);
    s.start = REGISTER_START_IDENTITY;
    s.method = REGISTER_METHOD_EMICP;
    answer("wrong_basin/emicp", &s);
    bumpy(300, 0.002, 0, &T); // two poses do as well
    s.start = REGISTER_START_MANY;
    s.method = REGISTER_METHOD_SOFTASSIGN;
    answer("symmetric/softassign", &s);
}

// What overlaps in part.
static void parts(double low_x, double high_x, const struct se3 *T)
{
    const struct scene_shape left = {0.15, 0.002, -1, high_x, false};
    const struct scene_shape right = {0.15, 0.002, low_x, 1, false};
    scene_bumpy(&source, 6000, &left, &(struct se3){{1, 0, 0, 0, 1, 0, 0, 0, 1}, {0, 0, 0}});
    scene_bumpy(&target, 6000, &right, T);
}

static void surfaces(void)
{
    const struct se3 near = motion(0.03, -0.02, 0.04, 0.1, -0.12, 0.08);
    const struct se3 far = motion(0.3, 0.1, -0.5, 0.3, 2.6, -0.4);
    struct register_settings s = settings_of(REGISTER_METHOD_GICP, REGISTER_START_IDENTITY);
    golden_seed(3);
    bumpy(6000, 0.002, 0.15, &near);
    answer("surface/gicp", &s);
    s.n_points = 1000;
    s.method = REGISTER_METHOD_EMICP;
    answer("surface/emicp", &s);
    s.method = REGISTER_METHOD_ICP;
    answer("surface/icp", &s);
    bumpy(17000, 0.002, 0.15, &near); // so many that a part of them goes first
    s.n_points = 300;
    answer("surface/icp/large", &s);
    parts(-0.12, 0.12, &near);
    s.method = REGISTER_METHOD_GICP;
    answer("part/gicp", &s);
    for (int k = 0; k < 4; k++) { // hardly any overlap: from fine cells, too
        parts(0.02 * k, 0.1 - 0.01 * k, &near);
        answer("little/gicp", &s);
    }
    parts(-0.15, 0.15, &far);
    s.start = REGISTER_START_MANY;
    answer("part/many/gicp", &s);
    s.n_points = 800;
    s.n_starts = 70;
    bumpy(6000, 0.002, 0, &far);
    s.method = REGISTER_METHOD_EMICP;
    answer("symmetric/many/emicp", &s);
}

static void scans(size_t n, int which)
{
    const struct se3 one = {{1, 0, 0, 0, 1, 0, 0, 0, 1}, {1.7, 1.2, 2.1}};
    struct se3 other = motion(0, 0, 0, 0.02, 2.2, 0.03);
    const double from[3] = {2.4, 1.3, 2.7};
    memcpy(other.t_m, from, sizeof from);
    scene_room(&source, n, 0, &one);
    scene_room(&target, n, which, &other);
}

static void candidates_of(const char *name, const struct register_ops *ops)
{
    const struct register_config config = {.n_threads = 1, .cuda_device = -1};
    struct register_surfaces built;
    struct register_candidates found;
    struct pool *pool;
    void *device;
    golden_case("%s", name);
    if (pool_create(&pool, 1) != 0 || ops->open(&device, &config, pool) != 0 ||
        register_surfaces_build(&built, ops, device, pool, &source.points, &target.points, NULL) !=
            0)
        exit(2);
    const struct register_local local = {ops, device, &built, NULL};
    golden_count("levels", built.n_levels);
    golden_number("cell_m", built.cell_m, SHARE);
    for (int side = 0; side < 2; side++)
        for (uint32_t l = 0; l < built.n_levels; l++) {
            const struct register_surface *info = &built.info[side][l];
            const double row[3] = {info->n, info->planar, info->noise_m / built.cell_m};
            golden_numbers("level", row, 1, 0);
            golden_numbers("planar,noise", row + 1, 2, SHARE);
        }
    golden_count("rc", register_candidates_find(&local, pool, NULL, &found));
    golden_count("matches", found.matched.n);
    golden_count("n", found.n);
    golden_number("trust", register_candidates_trust(&found), SHARE);
    golden_count("convince", register_candidates_convince(&found));
    for (int side = 0; side < 2; side++) {
        golden_count("walls", found.matched.walls[side].n);
        golden_count("sight", found.matched.sights[side].valid);
        golden_count("points", found.matched.n_points[side]);
    }
    for (uint32_t i = 0; i < found.n; i++) {
        const struct register_candidate *c = &found.best[i];
        const double row[] = {c->worth.score,
                              c->worth.share_source,
                              c->worth.share_target,
                              c->worth.residual_m,
                              c->behind,
                              c->before,
                              c->fit.cost,
                              register_candidates_evidence(c) / 10,
                              c->fit.residual2_m2 * 1e4};
        golden_count("support", c->n_support);
        golden_count("pairs", c->worth.n_pairs);
        golden_numbers("worth", row, sizeof row / sizeof *row, SHARE);
        golden_pose("T", &c->fit.T, SHARE);
    }
    register_candidates_free(&found);
    ops->close(device);
    pool_destroy(&pool);
}

static void rooms(void)
{
    struct register_settings s = settings_of(REGISTER_METHOD_GICP, REGISTER_START_MANY);
    golden_seed(4);
    scans(12000, 0);
    answer("room/many/gicp", &s);
    candidates_of("room/candidates", &register_cpu_ops);
    s.start = REGISTER_START_IDENTITY; // far from it
    answer("room/far/gicp", &s);
    s.n_points = 400;
    s.n_starts = 49;
    s.start = REGISTER_START_MANY;
    s.method = REGISTER_METHOD_EMICP;
    scans(3200, 1);
    answer("wrong/many/emicp", &s);
    candidates_of("wrong/candidates", &register_cpu_ops);
}

int main(int argc, char **argv)
{
    struct register_config config;
    golden_begin(argc, argv);
    register_config_default(&config);
    config.backend = GPU_BACKEND_CPU;
    config.n_threads = 1;
    if (registration_open(&registration, &config) != 0)
        return 2;
    few_points();
    crowd();
    few_points_many_starts();
    surfaces();
    rooms();
    registration_close(&registration);
    return golden_end();
}
