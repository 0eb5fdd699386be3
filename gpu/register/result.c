// SPDX-License-Identifier: Apache-2.0
#include "gpu/register/result.h"

#include <math.h>
#include <string.h>

#include "gpu/register/kernels/gicp.h"
#include "gpu/register/kernels/solve.h"
#include "gpu/register/verdict.h"

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

// What no pair holds is as good as unknown: 1000 units.
static void covariance_of(const double information[36], double out[36])
{
    if (solve6_invert(information, register_least_pivot(information), out))
        return;
    for (int i = 0; i < 36; i++)
        out[i] = i % 7 == 0 ? 1e6 : 0;
}

// Covariance in metres about the target's origin: of the normalised twist, scaled, then moved by
// the adjoint of the shift to the target's centre.
static void fill_covariance(const double information[36], double variance, double unit,
                            const double centre_m[3], double out[36])
{
    double c[36], ad[36];
    covariance_of(information, c);
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
    double second = 0;
    for (uint32_t i = 1; i < n_runs; i++)
        if (register_rotation_between(&runs[i].T, &runs[0].T) > REGISTER_ELSEWHERE_RAD) {
            second = fmax(second, register_score(&runs[i]));
            out->has_second = true;
            out->T_second = register_sets_metric(sets, &runs[i].T);
            break;
        }
    register_verdict_set(register_ambiguity(out->overlap_source * out->overlap_target, second),
                         out);
}

void register_result_candidates(const struct register_surfaces *surfaces,
                                const struct register_candidates *candidates,
                                struct register_result *out)
{
    const struct register_candidate *best = &candidates->best[0];
    memset(out, 0, sizeof *out);
    out->T_second = se3_identity();
    if (candidates->n == 0) { // no features and no pose: nothing is known
        out->T_target_source = se3_identity();
        register_verdict_set(1, out);
        return;
    }
    out->T_target_source = register_surfaces_metric(surfaces, &best->fit.T);
    out->residual_rms_m = best->worth.residual_m;
    out->overlap_source = best->worth.share_source;
    out->overlap_target = best->worth.share_target;
    out->n_iterations = best->fit.n_iterations;
    out->converged = best->fit.converged && best->fit.determined;
    // A plane's information is 1 / (2 epsilon) of its points' variance.
    fill_covariance(best->fit.information, best->fit.residual2_m2 / (2 * GICP_EPSILON), 1,
                    surfaces->origin_m[REGISTER_TARGET], out->covariance);
    register_verdict_set(register_ambiguity_of_trust(register_candidates_trust(candidates)), out);
    for (uint32_t i = 1; i < candidates->n && !out->has_second; i++)
        if (register_rotation_between(&candidates->best[i].fit.T, &best->fit.T) >
            REGISTER_ELSEWHERE_RAD) {
            out->has_second = true;
            out->T_second = register_surfaces_metric(surfaces, &candidates->best[i].fit.T);
        }
}
