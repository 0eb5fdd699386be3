// SPDX-License-Identifier: Apache-2.0
#include "gpu/register/result.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "gpu/register/kernels/solve.h"

double register_score(const struct register_run *run)
{
    return run->determined ? run->presence_source * run->presence_target : 0;
}

bool register_by_chance(const struct register_run *run)
{
    return REGISTER_CHANCE_SCORE > REGISTER_AMBIGUOUS * register_score(run);
}

int register_compare_scores(const void *run, const void *other)
{
    double x = register_score(run), y = register_score(other);
    return (x < y) - (x > y);
}

double register_rotation_between(const struct se3 *a, const struct se3 *b)
{
    struct se3 d = se3_between(a, b);
    return se3_angle(&d);
}

static void invert6(const double a[36], double out[36])
{
    for (int j = 0; j < 6; j++) {
        double unit[6] = {0}, column[6];
        unit[j] = 1;
        bool solved = register_solve6(a, unit, column);
        for (int i = 0; i < 6; i++)
            out[6 * i + j] = solved ? column[i] : (i == j ? 1e6 : 0);
    }
}

// Covariance in metres about the target's origin: of the normalised twist, scaled, then moved by
// the adjoint of the shift to the target's centre.
static void fill_covariance(const double information[36], double variance, double unit,
                            const double centre_m[3], double out[36])
{
    double c[36], ad[36];
    invert6(information, c);
    for (int i = 0; i < 6; i++)
        for (int j = 0; j < 6; j++)
            c[6 * i + j] *= variance * (i < 3 ? unit : 1) * (j < 3 ? unit : 1);
    struct se3 shift = se3_identity();
    memcpy(shift.t_m, centre_m, sizeof shift.t_m);
    se3_adjoint(&shift, ad);
    for (int i = 0; i < 6; i++)
        for (int j = 0; j < 6; j++) {
            double sum = 0;
            for (int k = 0; k < 6; k++)
                for (int l = 0; l < 6; l++)
                    sum += ad[6 * i + k] * c[6 * k + l] * ad[6 * j + l];
            out[6 * i + j] = sum;
        }
}

void register_result_fill(const struct register_sets *sets, const struct register_run *runs,
                          uint32_t n_runs, struct register_result *out)
{
    memset(out, 0, sizeof *out);
    out->T_target_source = register_sets_metric(sets, &runs[0].T);
    out->residual_rms_m = sets->radius_m * sqrt(runs[0].residual2);
    out->overlap_source = runs[0].presence_source;
    out->overlap_target = runs[0].presence_target;
    out->n_iterations = runs[0].n_iterations;
    out->converged = runs[0].converged && runs[0].determined;
    fill_covariance(runs[0].information, runs[0].residual2 / 3, sets->radius_m,
                    sets->side[REGISTER_TARGET].centre_m, out->covariance);
    out->T_second = se3_identity();
    double second = REGISTER_CHANCE_SCORE, best = out->overlap_source * out->overlap_target;
    for (uint32_t i = 1; i < n_runs; i++)
        if (register_rotation_between(&runs[i].T, &runs[0].T) > REGISTER_ELSEWHERE_RAD) {
            second = fmax(second, register_score(&runs[i]));
            out->has_second = true;
            out->T_second = register_sets_metric(sets, &runs[i].T);
            break;
        }
    out->ambiguity = second < best ? second / best : 1;
    out->ambiguous = out->ambiguity > REGISTER_AMBIGUOUS;
}

void register_result_candidates(const struct register_surfaces *surfaces,
                                const struct register_candidates *candidates,
                                struct register_result *out)
{
    const struct register_candidate *best = &candidates->best[0];
    const double trust = register_candidates_trust(candidates);
    memset(out, 0, sizeof *out);
    out->T_second = se3_identity();
    if (candidates->n == 0) { // no features and no pose: nothing is known
        out->T_target_source = se3_identity();
        out->ambiguous = true;
        out->ambiguity = 1;
        return;
    }
    out->T_target_source = register_surfaces_metric(surfaces, &best->fit.T);
    out->residual_rms_m = best->worth.residual_m;
    out->overlap_source = best->worth.share_source;
    out->overlap_target = best->worth.share_target;
    out->n_iterations = best->fit.n_iterations;
    out->converged = best->fit.converged && best->fit.determined;
    // A plane's information is 1 / (2 epsilon) of its points' variance.
    fill_covariance(best->fit.information, best->fit.residual2_m2 / (2 * REGISTER_LOCAL_EPSILON), 1,
                    surfaces->origin_m[REGISTER_TARGET], out->covariance);
    out->ambiguity = fmin(1, REGISTER_AMBIGUOUS * REGISTER_TRUST / fmax(trust, 1e-9));
    out->ambiguous = out->ambiguity > REGISTER_AMBIGUOUS;
    for (uint32_t i = 1; i < candidates->n && !out->has_second; i++)
        if (register_rotation_between(&candidates->best[i].fit.T, &best->fit.T) >
            REGISTER_ELSEWHERE_RAD) {
            out->has_second = true;
            out->T_second = register_surfaces_metric(surfaces, &candidates->best[i].fit.T);
        }
}

// Sizes so different that one of the sets must be in another unit.
static bool unlike_units(double ratio)
{
    return ratio > 300 && ratio < 3000;
}

void register_result_doubt(const struct register_surfaces *surfaces,
                           const struct register_settings *settings, struct register_result *out)
{
    const double source_m = surfaces->extent_m[REGISTER_SOURCE];
    const double target_m = surfaces->extent_m[REGISTER_TARGET];
    const bool larger = source_m > target_m;
    if (unlike_units(larger ? source_m / target_m : target_m / source_m)) {
        out->ambiguous = true;
        out->ambiguity = 1;
        snprintf(out->doubt, sizeof out->doubt,
                 "the source is %.3g m long, the target %.3g m: is the %s in millimetres? "
                 "Coordinates are metres",
                 source_m, target_m, larger ? "source" : "target");
    } else if (out->ambiguous) {
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

void register_result_doubt_points(struct register_result *out)
{
    if (out->ambiguous)
        snprintf(
            out->doubt, sizeof out->doubt,
            "%.0f %% of the source and %.0f %% of the target agree: too few, or another pose "
            "does as well. An initial pose, or the preset default in the form streaming, helps",
            100 * out->overlap_source, 100 * out->overlap_target);
    else if (!out->converged)
        snprintf(out->doubt, sizeof out->doubt, "more iterations would still move the pose");
}
