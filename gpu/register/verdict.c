// SPDX-License-Identifier: Apache-2.0
#include "gpu/register/verdict.h"

#include <math.h>
#include <stdio.h>

#include "gpu/register/result.h"

#define LEAST_BEHIND 0.008 // right poses with drift have so much behind the other's walls
#define HALF_BEHIND  0.01  // and this much more halves what a pose is worth
#define UNBLAMED     80u   // correspondences: then the sensor did not stand where it seems to
#define MOST_SUPPORT 20.0  // so much more a pose is worth with many correspondences than with none
#define HALF_SUPPORT 200.0 // correspondences for half of that
#define NEARLY_ALL   0.8   // the score of a pose that brings nearly all of one set onto the other
#define AS_WELL      0.98  // of the best one's score: what noise and sampling leave of a symmetry

double register_score(const struct register_run *run)
{
    return run->determined ? run->presence_source * run->presence_target : 0;
}

bool register_by_chance(const struct register_run *run)
{
    return REGISTER_CHANCE_SCORE > REGISTER_AMBIGUOUS * register_score(run);
}

double register_ambiguity(double best, double second)
{
    second = fmax(second, REGISTER_CHANCE_SCORE);
    return second < best ? second / best : 1;
}

// 1: nothing speaks against the pose. Coordinates may begin elsewhere than at the sensor though it
// looks so (an object turned before a scanner); then the right pose is blamed, too. In three such
// pairs of scans_bunny 266 to 384 correspondences, common ones too, speak for it; of wrong poses
// that are blamed, in the rooms of verdict.h, 53 rare ones at most.
static double blame(const struct register_candidate *candidate)
{
    if (candidate->n_support >= UNBLAMED)
        return 1;
    return 1 + fmax(0, candidate->behind + candidate->before - LEAST_BEHIND) / HALF_BEHIND;
}

double register_candidates_evidence(const struct register_candidate *candidate)
{
    const double n = candidate->n_support;
    return sqrt(candidate->worth.score) * (1 + MOST_SUPPORT * n / (n + HALF_SUPPORT)) /
           blame(candidate);
}

double register_candidates_votes(const struct register_candidate *candidate)
{
    return candidate->n_support / blame(candidate);
}

// What speaks for another pose alone: a neighbour of the best one does most of its correspondences.
static struct register_candidate rival_of(const struct register_candidates *candidates, uint32_t i)
{
    struct register_candidate rival = candidates->best[i];
    const uint32_t n_shared =
        register_candidates_shared(&candidates->matched, &rival.fit.T, &candidates->best[0].fit.T);
    rival.n_support -= n_shared < rival.n_support ? n_shared : rival.n_support;
    return rival;
}

// Of the best candidate, against the others.
struct lead {
    double votes, score; // correspondences more than any other has; the share that fits
    double second;       // evidence for the next pose, of its own
    bool twice;          // as many correspondences as any other
    bool outvoted;
    bool symmetric; // another rotation brings nearly all of both sets together as well
};

static struct lead lead_of(const struct register_candidates *candidates)
{
    const struct register_candidate *best = &candidates->best[0];
    const double all = register_candidates_evidence(best), votes = register_candidates_votes(best);
    struct lead lead = {.score = best->worth.score, .outvoted = blame(best) > 2};
    double others = 0;
    for (uint32_t i = 1; i < candidates->n; i++) {
        const struct register_candidate rival = rival_of(candidates, i);
        lead.second = fmax(lead.second, register_candidates_evidence(&rival) / all);
        others = fmax(others, register_candidates_votes(&rival));
        lead.outvoted |= rival.n_support > best->n_support && blame(&candidates->best[i]) < 2;
        lead.symmetric |=
            best->worth.score > NEARLY_ALL && rival.worth.score > AS_WELL * best->worth.score &&
            register_rotation_between(&rival.fit.T, &best->fit.T) > REGISTER_ELSEWHERE_RAD;
    }
    lead.votes = votes - others;
    lead.twice = lead.votes >= 0.5 * votes;
    return lead;
}

static double trust_of(const struct register_candidates *candidates, const struct lead *lead)
{
    const bool leads = candidates->matched.walls
                           ? lead->votes * lead->score >= REGISTER_LEAST_LEAD && lead->twice
                           : lead->second <= REGISTER_NEAR_SCORE && !lead->outvoted;
    if (!leads || lead->symmetric || candidates->best[0].worth.n_pairs < REGISTER_LEAST_PAIRS)
        return 0;
    return lead->score * (1 - 0.5 * lead->second);
}

double register_candidates_trust(const struct register_candidates *candidates)
{
    if (candidates->n == 0)
        return 0;
    const struct lead lead = lead_of(candidates);
    return trust_of(candidates, &lead);
}

bool register_candidates_convince(const struct register_candidates *candidates)
{
    if (candidates->n == 0)
        return false;
    const struct lead lead = lead_of(candidates);
    const double trust = trust_of(candidates, &lead);
    return trust >= REGISTER_SURE || (candidates->matched.walls && trust >= REGISTER_TRUST &&
                                      lead.votes * lead.score >= REGISTER_SURE_LEAD);
}

double register_ambiguity_of_trust(double trust)
{
    return fmin(1, REGISTER_AMBIGUOUS * REGISTER_TRUST / fmax(trust, 1e-9));
}

void register_verdict_set(double ambiguity, struct register_result *out)
{
    out->ambiguity = ambiguity;
    out->ambiguous = ambiguity > REGISTER_AMBIGUOUS;
}

// Sizes so different that one of the sets must be in another unit.
static bool unlike_units(double ratio)
{
    return ratio > 300 && ratio < 3000;
}

static bool doubt_units(double source_m, double target_m, struct register_result *out)
{
    const bool larger = source_m > target_m;
    if (!unlike_units(larger ? source_m / target_m : target_m / source_m))
        return false;
    register_verdict_set(1, out);
    snprintf(out->doubt, sizeof out->doubt,
             "the source is %.3g m long, the target %.3g m: is the %s in millimetres? "
             "Coordinates are metres",
             source_m, target_m, larger ? "source" : "target");
    return true;
}

void register_doubt(const struct register_surfaces *surfaces,
                    const struct register_settings *settings, struct register_result *out)
{
    const double source_m = surfaces->extent_m[REGISTER_SOURCE];
    const double target_m = surfaces->extent_m[REGISTER_TARGET];
    if (doubt_units(source_m, target_m, out))
        return;
    if (out->ambiguous) {
        snprintf(
            out->doubt, sizeof out->doubt,
            "%.0f %% of the source (%.3g m long) and %.0f %% of the target (%.3g m) agree: too "
            "few, or another pose does as well. %s",
            100 * out->overlap_source, source_m, 100 * out->overlap_target, target_m,
            settings->start == REGISTER_START_MANY ? "More overlap or an initial pose helps"
                                                   : "Start many looks from everywhere");
    } else if (!out->converged) {
        snprintf(out->doubt, sizeof out->doubt,
                 "more iterations would still move the pose; the points' noise is about %.2g m",
                 fmax(surfaces->info[0][0].noise_m, surfaces->info[1][0].noise_m));
    }
}

void register_doubt_points(const double extent_m[2], struct register_result *out)
{
    if (doubt_units(extent_m[REGISTER_SOURCE], extent_m[REGISTER_TARGET], out))
        return;
    if (out->ambiguous)
        snprintf(
            out->doubt, sizeof out->doubt,
            "%.0f %% of the source and %.0f %% of the target agree: too few, or another pose "
            "does as well. An initial pose, or the preset default in the form streaming, helps",
            100 * out->overlap_source, 100 * out->overlap_target);
    else if (!out->converged)
        snprintf(out->doubt, sizeof out->doubt, "more iterations would still move the pose");
}
