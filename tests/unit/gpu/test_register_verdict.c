// SPDX-License-Identifier: Apache-2.0
// What ranks poses and what speaks for the best: each rule of verdict.h on candidates whose scores
// and correspondences are made up; where there are surfaces, and which settings are refused.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <string.h>

#include "gpu/register/choose_method.h"
#include "gpu/register/result.h"
#include "gpu/register/verdict.h"
#include "proto/se3.h"

#define LITTLE_BEHIND 0.008 // what right poses with drift have
#define MUCH_BEHIND   0.1   // a corridor's end on the wrong side of a wall

static struct register_walls walls[2]; // there: features found the poses

static struct register_candidate pose(double score, uint32_t n_support, double behind)
{
    struct register_candidate out;
    memset(&out, 0, sizeof out);
    out.worth.score = score;
    out.worth.n_pairs = 150; // the least
    out.n_support = n_support;
    out.behind = behind;
    return out;
}

static struct register_candidates pair(bool by_features, struct register_candidate best,
                                       struct register_candidate other)
{
    struct register_candidates out;
    memset(&out, 0, sizeof out);
    out.best[0] = best;
    out.best[1] = other;
    out.n = 2;
    out.matched.walls = by_features ? walls : NULL;
    return out;
}

static double trust(bool by_features, struct register_candidate best,
                    struct register_candidate other)
{
    const struct register_candidates both = pair(by_features, best, other);
    return register_candidates_trust(&both);
}

static double evidence(double score, uint32_t n_support, double behind)
{
    const struct register_candidate candidate = pose(score, n_support, behind);
    return register_candidates_evidence(&candidate);
}

static void evidence_grows_with_score_and_features(void **state)
{
    (void)state;
    assert_true(evidence(0.4, 10, 0) > evidence(0.3, 10, 0));
    assert_true(evidence(0.3, 20, 0) > evidence(0.3, 10, 0));
    assert_true(fabs(evidence(0.36, 10, 0) - 2 * evidence(0.09, 10, 0)) < 1e-12); // by its root
    // Planes that coincide: more of the sets, and hardly a feature.
    assert_true(evidence(0.3, 40, 0) > evidence(0.6, 4, 0));
    assert_true(evidence(0.3, 1000000, 0) < 21.01 * sqrt(0.3)); // at most so many times
}

static void what_lies_behind_walls_is_blamed(void **state)
{
    (void)state;
    assert_true(evidence(0.3, 40, LITTLE_BEHIND) == evidence(0.3, 40, 0)); // drift
    assert_true(evidence(0.3, 40, MUCH_BEHIND) < 0.2 * evidence(0.3, 40, 0));
    // The sensor did not stand where it seems to: so many correspondences say so.
    assert_true(evidence(0.3, 80, MUCH_BEHIND) == evidence(0.3, 80, 0));
}

static void poses_of_features_have_to_lead(void **state)
{
    (void)state;
    const struct register_candidate none = pose(0.1, 0, 0);
    assert_true(trust(true, pose(0.5, 40, 0), none) > REGISTER_TRUST);
    assert_true(trust(true, pose(0.5, 3, 0), none) == 0); // 1.5: less than LEAST_LEAD
    assert_true(trust(true, pose(0.5, 5, 0), none) > 0);
    // Half as many speak for another one, which is all the same behind a wall.
    assert_true(trust(true, pose(0.5, 60, 0), pose(0.2, 31, 0)) == 0);
    assert_true(trust(true, pose(0.5, 60, 0), pose(0.2, 29, 0)) > 0);
    assert_true(trust(true, pose(0.5, 60, 0), pose(0.2, 31, MUCH_BEHIND)) > 0);
    // Its own votes go, too.
    assert_true(trust(true, pose(0.5, 30, MUCH_BEHIND), none) == 0);
}

// A pose a few degrees from the right one does most of its correspondences: that is no rival.
static void a_neighbour_is_no_rival(void **state)
{
    (void)state;
    struct register_matched_pair pairs[40];
    struct register_candidate best = pose(0.5, 40, 0), other = pose(0.4, 30, 0);
    struct register_candidates both = pair(true, best, other);
    memset(pairs, 0, sizeof pairs);
    for (int i = 0; i < 40; i++)
        pairs[i].within_m = 0.03;
    both.best[0].fit.T = both.best[1].fit.T = se3_identity();
    both.best[1].fit.T.t_m[0] = 0.02; // the other does all of them
    assert_true(register_candidates_trust(&both) == 0);
    both.matched.pairs = pairs;
    both.matched.n = 25; // of its 30 it shares 25 with the best
    assert_true(register_candidates_trust(&both) > REGISTER_TRUST);
    both.best[0].fit.T.t_m[0] = -0.2; // which is nowhere near them now
    assert_true(register_candidates_trust(&both) == 0);
}

// Of a ball, a cylinder, two crossed planes chance finds correspondences for one rotation of many;
// ratio: of the scores, turn_rad: between both.
static double trust_of_symmetric(double score, double ratio, double turn_rad)
{
    const double turn[6] = {0, 0, 0, 0, 0, turn_rad};
    struct register_candidates both = pair(true, pose(score, 60, 0), pose(score * ratio, 10, 0));
    both.best[0].fit.T = se3_identity();
    both.best[1].fit.T = se3_exp(turn);
    return register_candidates_trust(&both);
}

static void a_rotation_that_fits_all_as_well_is_a_rival(void **state)
{
    (void)state;
    assert_true(trust_of_symmetric(0.9, 0.99, 3) == 0);
    assert_true(trust_of_symmetric(0.9, 0.97, 3) > REGISTER_TRUST);
    assert_true(trust_of_symmetric(0.9, 0.99, 0.17) > REGISTER_TRUST); // hardly another one
    assert_true(trust_of_symmetric(0.79, 0.99, 3) > REGISTER_TRUST);   // as rooms often have it
}

// A pose that was given, say in a corridor: planes agree all along it.
static void a_given_pose_is_doubted(void **state)
{
    (void)state;
    const struct register_candidate none = pose(1e-6, 0, 0);
    assert_true(trust(false, pose(0.5, 0, 0), none) > REGISTER_SURE);
    assert_true(trust(false, pose(0.5, 0, MUCH_BEHIND), none) == 0);
    assert_true(trust(false, pose(0.5, 20, 0), pose(0.01, 21, 0)) == 0);          // outvoted
    assert_true(trust(false, pose(0.5, 20, 0), pose(0.01, 21, MUCH_BEHIND)) > 0); // by a wrong one
    assert_true(trust(false, pose(0.5, 0, 0), pose(0.5, 0, 0)) == 0);             // symmetric
    assert_true(trust(false, pose(0.5, 0, 0), pose(0.3, 0, 0)) > 0);
}

static void few_pairs_say_nothing(void **state)
{
    (void)state;
    struct register_candidate few = pose(0.9, 200, 0);
    const struct register_candidates nobody = {.n = 0};
    few.worth.n_pairs = 149;
    assert_true(trust(true, few, pose(0.1, 0, 0)) == 0);
    assert_true(register_candidates_trust(&nobody) == 0);
}

// ---- Each figure just inside and just outside, and every formula by hand.

#define NEARLY(a, b) assert_true(fabs((a) - (b)) < 1e-12)

static void evidence_by_hand(void **state)
{
    (void)state;
    NEARLY(evidence(0.25, 0, 0), 0.5);
    NEARLY(evidence(0.25, 50, 0), 0.5 * (1 + 20 * 50.0 / 250));
    NEARLY(evidence(0.25, 50, 0.018), 0.5 * 5 / 2);
    NEARLY(evidence(0.25, 50, 0.028), 0.5 * 5 / 3);
    NEARLY(evidence(0.25, 79, 0.018), 0.5 * (1 + 20 * 79.0 / 279) / 2); // of 80 none is blamed
    struct register_candidate candidate = pose(0.25, 50, 0.01);
    candidate.before = 0.008;
    NEARLY(register_candidates_evidence(&candidate), 0.5 * 5 / 2);
    NEARLY(register_candidates_votes(&candidate), 25);
}

static void trust_by_hand(void **state)
{
    (void)state;
    // Evidence 3 and 0.3: a tenth.
    NEARLY(trust(true, pose(0.36, 50, 0), pose(0.09, 0, 0)), 0.36 * (1 - 0.5 * 0.1));
    NEARLY(trust(false, pose(0.36, 50, 0), pose(0.09, 0, 0)), 0.36 * (1 - 0.5 * 0.1));
}

static void the_lead_that_is_wanted(void **state)
{
    (void)state;
    const struct register_candidate none = pose(1e-6, 0, 0);
    assert_true(trust(true, pose(0.502, 4, 0), none) > 0); // 2.008 times
    assert_true(trust(true, pose(0.498, 4, 0), none) == 0);
    assert_true(trust(true, pose(0.5, 200, 0), pose(0.1, 100, 0)) > 0); // twice as many
    assert_true(trust(true, pose(0.5, 200, 0), pose(0.1, 101, 0)) == 0);
    assert_true(trust(false, pose(1, 0, 0), pose(0.797 * 0.797, 0, 0)) > 0);
    assert_true(trust(false, pose(1, 0, 0), pose(0.803 * 0.803, 0, 0)) == 0);
}

static void who_outvotes(void **state)
{
    (void)state;
    const struct register_candidate none = pose(1e-6, 0, 0);
    assert_true(trust(false, pose(0.5, 0, 0.0179), none) > 0); // blamed by less than half
    assert_true(trust(false, pose(0.5, 0, 0.0181), none) == 0);
    assert_true(trust(false, pose(0.5, 20, 0), pose(0.01, 21, 0.0179)) == 0);
    assert_true(trust(false, pose(0.5, 20, 0), pose(0.01, 21, 0.0181)) > 0);
    assert_true(trust(false, pose(0.5, 20, 0), pose(0.01, 20, 0)) > 0);
}

static bool convinces(bool by_features, double score, uint32_t n_support)
{
    const struct register_candidate none = pose(1e-12, 0, 0);
    struct register_candidates alone = pair(by_features, pose(score, n_support, 0), none);
    alone.n = 1;
    return register_candidates_convince(&alone);
}

static void what_convinces(void **state)
{
    (void)state;
    const struct register_candidates nobody = {.n = 0};
    assert_false(register_candidates_convince(&nobody));
    assert_true(convinces(false, 0.2205, 0));
    assert_false(convinces(false, 0.2195, 0));
    assert_true(convinces(true, 0.2205, 20)); // 4.4: sure by its trust
    assert_true(convinces(true, 0.201, 30));  // by its lead, 6.03
    assert_false(convinces(true, 0.199, 30));
    assert_false(convinces(false, 0.201, 30)); // which poses of features alone have
    assert_true(convinces(true, 0.0833, 200));
    assert_false(convinces(true, 0.0827, 200));
}

static void scores_and_chance(void **state)
{
    (void)state;
    struct register_run run;
    memset(&run, 0, sizeof run);
    run.determined = true;
    run.presence_source = 0.5;
    run.presence_target = 0.3;
    NEARLY(register_score(&run), 0.15);
    assert_true(register_by_chance(&run)); // below 0.132 / 0.85 = 0.1553
    run.presence_target = 2 * 0.1549;
    assert_true(register_by_chance(&run));
    run.presence_target = 2 * 0.1557;
    assert_false(register_by_chance(&run));
    run.determined = false;
    assert_true(register_score(&run) == 0);
    NEARLY(register_ambiguity(0.5, 0.25), 0.5);
    NEARLY(register_ambiguity(0.5, 0), 0.132 / 0.5);
    NEARLY(register_ambiguity(0.5, 0.6), 1);
    NEARLY(register_ambiguity_of_trust(0.083), 0.85);
    NEARLY(register_ambiguity_of_trust(0.166), 0.425);
    assert_true(register_ambiguity_of_trust(0.01) == 1 && register_ambiguity_of_trust(0) == 1);
    struct register_result result;
    memset(&result, 0, sizeof result);
    register_verdict_set(0.8501, &result);
    assert_true(result.ambiguous && result.ambiguity == 0.8501);
    register_verdict_set(0.8499, &result);
    assert_false(result.ambiguous);
}

// What is said of an answer that nothing else speaks against; ratio: of the sets' sizes.
static const char *doubt_of(double ratio, bool ambiguous, bool converged)
{
    static struct register_result result;
    struct register_surfaces surfaces;
    struct register_settings settings;
    memset(&surfaces, 0, sizeof surfaces);
    memset(&result, 0, sizeof result);
    register_settings_default(&settings);
    surfaces.extent_m[REGISTER_SOURCE] = ratio > 1 ? ratio : 1;
    surfaces.extent_m[REGISTER_TARGET] = ratio > 1 ? 1 : 1 / ratio;
    result.ambiguous = ambiguous;
    result.converged = converged;
    register_doubt(&surfaces, &settings, &result);
    return result.doubt;
}

// The same where no surfaces were built.
static const char *doubt_of_points(double ratio, bool ambiguous)
{
    static struct register_result result;
    const double extent_m[2] = {ratio, 1};
    memset(&result, 0, sizeof result);
    result.ambiguous = ambiguous;
    result.converged = true;
    register_doubt_points(extent_m, &result);
    return result.doubt;
}

static void sizes_in_another_unit(void **state)
{
    (void)state;
    assert_string_equal(doubt_of(299, false, true), "");
    assert_non_null(strstr(doubt_of(301, false, true), "is the source in millimetres"));
    assert_non_null(strstr(doubt_of(2990, false, true), "is the source in millimetres"));
    assert_string_equal(doubt_of(3010, false, true), "");
    assert_non_null(strstr(doubt_of(1 / 301.0, false, true), "is the target in millimetres"));
    assert_non_null(strstr(doubt_of(2, true, true), "too few"));
    assert_non_null(strstr(doubt_of(2, true, true), "Start many"));
    assert_non_null(strstr(doubt_of(2, false, false), "more iterations"));
    assert_string_equal(doubt_of_points(299, false), "");
    assert_non_null(strstr(doubt_of_points(301, false), "is the source in millimetres"));
    assert_non_null(strstr(doubt_of_points(1 / 301.0, true), "is the target in millimetres"));
    assert_non_null(strstr(doubt_of_points(2, true), "too few"));
}

// Another basin is one that is turned by more than ten degrees.
static bool is_elsewhere(double turn_deg, bool by_candidates)
{
    struct register_result result;
    const double turn[6] = {0, 0, 0, 0, 0, turn_deg * 3.141592653589793 / 180};
    if (by_candidates) {
        struct register_surfaces surfaces;
        struct register_candidates both = pair(false, pose(0.5, 0, 0), pose(0.1, 0, 0));
        memset(&surfaces, 0, sizeof surfaces);
        both.best[0].fit.T = se3_identity();
        both.best[1].fit.T = se3_exp(turn);
        register_result_candidates(&surfaces, &both, &result);
    } else {
        struct register_sets sets;
        struct register_run runs[2];
        memset(&sets, 0, sizeof sets);
        memset(runs, 0, sizeof runs);
        sets.radius_m = 1;
        runs[0].T = se3_identity();
        runs[1].T = se3_exp(turn);
        register_result_fill(&sets, runs, 2, &result);
    }
    return result.has_second;
}

static void where_elsewhere_begins(void **state)
{
    (void)state;
    for (int by_candidates = 0; by_candidates < 2; by_candidates++) {
        assert_true(is_elsewhere(10.04, by_candidates) && is_elsewhere(-10.04, by_candidates));
        assert_false(is_elsewhere(9.96, by_candidates) || is_elsewhere(-9.96, by_candidates));
    }
}

static bool on_surfaces(enum register_method method, enum register_start start, uint32_t n_source,
                        uint32_t n_target, double noise)
{
    struct register_surfaces surfaces;
    struct register_settings settings;
    memset(&surfaces, 0, sizeof surfaces);
    register_settings_default(&settings);
    settings.method = method;
    settings.start = start;
    surfaces.cell_m = 0.01;
    surfaces.info[0][0].n = n_source;
    surfaces.info[1][0].n = n_target;
    surfaces.info[0][0].noise_m = noise * 0.01;
    surfaces.info[1][0].noise_m = 1; // the less noisy one counts
    return register_on_surfaces(&settings, &surfaces);
}

// The matrix of all pairs is the soft methods': ICP and GICP have none, and are judged alike.
static void dense_is_for_soft_methods(void **state)
{
    (void)state;
    for (int method = REGISTER_METHOD_EMICP; method <= REGISTER_METHOD_GICP; method++) {
        struct register_settings settings;
        register_settings_default(&settings);
        settings.method = (enum register_method)method;
        assert_false(register_only_on_points(&settings));
        settings.form = REGISTER_FORM_DENSE;
        assert_int_equal(register_only_on_points(&settings), method <= REGISTER_METHOD_SOFTASSIGN);
    }
}

static void where_there_are_surfaces(void **state)
{
    (void)state;
    const enum register_method em = REGISTER_METHOD_EMICP, icp = REGISTER_METHOD_ICP;
    const enum register_start one = REGISTER_START_IDENTITY, many = REGISTER_START_MANY;
    assert_true(on_surfaces(em, one, 1500, 1500, 0.3));
    assert_false(on_surfaces(em, one, 1499, 1500, 0.3));
    assert_false(on_surfaces(em, one, 1500, 1499, 0.3));
    assert_true(on_surfaces(em, many, 1500, 1500, 0.339));
    assert_false(on_surfaces(em, many, 1500, 1500, 0.341));
    assert_false(on_surfaces(icp, one, 9000, 9000, 0));
    assert_true(on_surfaces(icp, many, 9000, 9000, 0));
    assert_true(on_surfaces(REGISTER_METHOD_GICP, one, 10, 10, 1));
}

static const char *wrong_field(void (*set)(struct register_settings *s, double value), double value)
{
    struct register_settings s;
    const char *why;
    register_settings_default(&s);
    set(&s, value);
    return register_settings_check(&s, &why);
}

static void set_slack(struct register_settings *s, double value)
{
    s->slack = value;
}
static void set_sigma(struct register_settings *s, double value)
{
    s->sigma_last = value;
}
static void set_iterations(struct register_settings *s, double value)
{
    s->n_iterations = (uint32_t)value;
}
static void set_points(struct register_settings *s, double value)
{
    s->n_points = (uint32_t)value;
}
static void set_starts(struct register_settings *s, double value)
{
    s->n_starts = (uint32_t)value;
}
static void set_rotation(struct register_settings *s, double value)
{
    s->T_target_source.r[4] = sqrt(1 + value);
}

static void bounds_of_settings(void **state)
{
    (void)state;
    static const struct {
        const char *field;
        void (*set)(struct register_settings *s, double value);
        double good[3], bad[2];
    } rows[] = {
        {"slack", set_slack, {0, 1e-9, 10}, {-1e-9, 10.01}},
        {"sigma_last", set_sigma, {0, 0.05, 10}, {0.0499, 10.01}},
        {"n_iterations", set_iterations, {0, 1, 10000}, {10001, 20000}},
        {"n_points", set_points, {0, 64, 1e6}, {63, 1}},
        {"n_starts", set_starts, {0, 1, 100000}, {100001, 200000}},
        {"initial", set_rotation, {0, 0.995e-3, -0.995e-3}, {1.005e-3, -1.005e-3}},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        for (int k = 0; k < 3; k++)
            assert_null(wrong_field(rows[i].set, rows[i].good[k]));
        for (int k = 0; k < 2; k++)
            assert_string_equal(wrong_field(rows[i].set, rows[i].bad[k]), rows[i].field);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(evidence_grows_with_score_and_features),
        cmocka_unit_test(what_lies_behind_walls_is_blamed),
        cmocka_unit_test(poses_of_features_have_to_lead),
        cmocka_unit_test(a_neighbour_is_no_rival),
        cmocka_unit_test(a_rotation_that_fits_all_as_well_is_a_rival),
        cmocka_unit_test(a_given_pose_is_doubted),
        cmocka_unit_test(few_pairs_say_nothing),
        cmocka_unit_test(evidence_by_hand),
        cmocka_unit_test(trust_by_hand),
        cmocka_unit_test(the_lead_that_is_wanted),
        cmocka_unit_test(who_outvotes),
        cmocka_unit_test(what_convinces),
        cmocka_unit_test(scores_and_chance),
        cmocka_unit_test(sizes_in_another_unit),
        cmocka_unit_test(where_elsewhere_begins),
        cmocka_unit_test(where_there_are_surfaces),
        cmocka_unit_test(dense_is_for_soft_methods),
        cmocka_unit_test(bounds_of_settings),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
