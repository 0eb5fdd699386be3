// SPDX-License-Identifier: Apache-2.0
// What ranks poses and what speaks for the best: each rule of candidates.h on candidates whose
// scores and correspondences are made up.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <string.h>

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
    out.worth.n_pairs = REGISTER_LEAST_PAIRS;
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
    few.worth.n_pairs = REGISTER_LEAST_PAIRS - 1;
    assert_true(trust(true, few, pose(0.1, 0, 0)) == 0);
    assert_true(register_candidates_trust(&nobody) == 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(evidence_grows_with_score_and_features),
        cmocka_unit_test(what_lies_behind_walls_is_blamed),
        cmocka_unit_test(poses_of_features_have_to_lead),
        cmocka_unit_test(a_neighbour_is_no_rival),
        cmocka_unit_test(a_given_pose_is_doubted),
        cmocka_unit_test(few_pairs_say_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
