// SPDX-License-Identifier: Apache-2.0
// See expect.h.
#include "tests/check/track/expect.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "proto/se3.h"
#include "tests/check/check.h"

static const struct check_limit limit_filter = {
    "filtered depth [m]", 1e-7, 1e-6,
    "single precision; up to 169 taps, each within the cut of the centre"};
static const struct check_limit limit_normal = {
    "normal", 1e-6, 0, "single precision on exact inputs; three roundings per component"};
static const struct check_limit limit_sums = {
    "sums of one iteration", 1e-12, 4e-6,
    "single precision per pair, of sum |term|; plus what undecided pairs may change"};
static const struct check_limit limit_information = {"information pass", 1e-12, 4e-6, "as above"};
static const struct check_limit limit_gradient = {
    "gradient and residual", 1e-12, 1,
    "r = n . (q - t') cancels: 4 roundings of the distance, against sum w |J|"};
static const struct check_limit limit_step = {
    "size of the last step", 1e-5, 0, "follows from the pose; decides convergence at 1e-5 m"};
static const struct check_limit limit_pose = {
    "pose of all iterations", 4e-6, 0,
    "m and rad; pairs whose association rounding decides move it by this much"};
static const struct check_limit limit_twins = {"pose, twin against twin", 4e-6, 0,
                                               "m and rad; the same, once on each side"};
static const struct check_limit limit_motion = {
    "known motion [m, rad]", 3e-4, 0, "noise, whole units and the filter at edges: 75 um seen"};
static const struct check_limit limit_baseline = {"map without FMA", 2e-6, 2e-6,
                                                  "a processor without FMA rounds twice"};

bool alignment_same_bits(const struct gpu_alignment *a, const struct gpu_alignment *b)
{
    return memcmp(&a->T_reference_frame, &b->T_reference_frame, sizeof a->T_reference_frame) == 0 &&
           memcmp(a->h, b->h, sizeof a->h) == 0 && memcmp(a->g, b->g, sizeof a->g) == 0 &&
           memcmp(a->information, b->information, sizeof a->information) == 0 &&
           memcmp(&a->weight_sum, &b->weight_sum, sizeof a->weight_sum) == 0 &&
           memcmp(&a->residual_rms_m, &b->residual_rms_m, sizeof a->residual_rms_m) == 0 &&
           a->n_pairs == b->n_pairs && a->n_valid_px == b->n_valid_px &&
           memcmp(a->n_iterations, b->n_iterations, sizeof a->n_iterations) == 0 &&
           a->solvable == b->solvable && a->converged == b->converged;
}

void expect_same_bits(const struct input *in, const struct output *a, const struct output *b,
                      const char *what)
{
    for (int f = 0; f < 2; f++)
        for (int level = 0; level < GPU_LEVELS; level++)
            check_that(memcmp(a->maps[f][level], b->maps[f][level],
                              level_px(&in->settings, level) * 16) == 0,
                       "%s: other bits in the map of level %d", what, level);
    for (int level = 0; level < GPU_LEVELS; level++)
        check_that(alignment_same_bits(&a->one[level], &b->one[level]),
                   "%s: other bits in one iteration of level %d", what, level);
    check_that(alignment_same_bits(&a->all, &b->all), "%s: other bits in the pose", what);
    check_that(alignment_same_bits(&a->early, &b->early), "%s: other bits, early stop", what);
}

void expect_maps(const struct input *in, const struct output *out)
{
    const struct gpu_settings *s = &in->settings;
    size_t n_px = level_px(s, 0), n_bad_depth = 0, n_bad_normal = 0;
    const float *full = out->maps[1][0];
    for (size_t i = 0; i < n_px; i++) {
        double z = (double)full[4 * i + 3], expected = in->filtered[i].z_m;
        if (in->filtered[i].undecided)
            continue;
        n_bad_depth += (z > 0) != (expected > 0) || !(z >= 0);
        check_close(&limit_filter, z, expected, expected, "z");
    }
    check_that(n_bad_depth == 0, "%zu pixels with the wrong depth mask", n_bad_depth);

    struct reference_px *px = malloc(n_px * sizeof *px);
    float *z_m = malloc(n_px * sizeof *z_m);
    for (size_t i = 0; i < n_px; i++)
        z_m[i] = full[4 * i + 3];
    for (int level = 0; level < GPU_LEVELS; level++) {
        reference_maps(s, level, z_m, s->camera.width_px, px);
        for (size_t i = 0; i < level_px(s, level); i++) {
            const float *got = out->maps[1][level] + 4 * i;
            bool valid = got[0] != 0 || got[1] != 0 || got[2] != 0;
            check_that((double)got[3] == px[i].z_m, "level %d samples another depth", level);
            if (px[i].undecided)
                continue;
            n_bad_normal += valid != (px[i].n[2] != 0 || px[i].n[0] != 0 || px[i].n[1] != 0);
            for (int k = 0; k < 3; k++)
                check_close(&limit_normal, (double)got[k], px[i].n[k], 1, "n");
        }
    }
    check_that(n_bad_normal == 0, "%zu pixels with the wrong normal mask", n_bad_normal);
    free(z_m);
    free(px);
}

// The sums that an alignment shows, back in the order of enum icp_sum.
static void check_normal_matrix(const struct check_limit *sums_limit, const double h[36],
                                const struct reference_sums *sums, double range_m, const char *name)
{
    int k = ICP_SUM_H;
    for (int i = 0; i < 6; i++)
        for (int j = i; j < 6; j++, k++) {
            // Products of H share their roundings with the squares on the diagonal.
            double scale = sums->magnitude[k] +
                           1e-2 * range_m * (i < 3 ? 1 : range_m) * sums->magnitude[ICP_SUM_W];
            struct check_limit limit = *sums_limit;
            limit.absolute += sums->undecided[k];
            check_that(fabs(h[6 * i + j] - sums->value[k]) <=
                           limit.absolute + limit.relative * scale,
                       "%s[%d][%d] is %.9g, expected %.9g, limit %.3g", name, i, j, h[6 * i + j],
                       sums->value[k], limit.absolute + limit.relative * scale);
            if (sums->undecided[k] == 0)
                check_close(sums_limit, h[6 * i + j], sums->value[k], scale, name);
        }
}

static void check_sums(const struct gpu_alignment *got, const struct reference_sums *sums,
                       double range_m)
{
    static const char *const names[] = {"h", "g", "pairs", "valid", "sum w", "sum w r^2"};
    check_normal_matrix(&limit_sums, got->h, sums, range_m, names[0]);
    double rounding_m = 4 * 6e-8 * range_m; // of r
    for (int i = 0; i < 6; i++) {
        double scale = rounding_m * sums->magnitude[ICP_SUM_W] * (i < 3 ? 1 : range_m) +
                       4e-6 * sums->magnitude[ICP_SUM_G + i] + sums->undecided[ICP_SUM_G + i];
        check_close(&limit_gradient, got->g[i], sums->value[ICP_SUM_G + i], scale, names[1]);
    }
    check_close(&limit_gradient, got->n_pairs, sums->value[ICP_SUM_PAIRS],
                sums->undecided[ICP_SUM_PAIRS], names[2]);
    check_that(got->n_valid_px == (uint32_t)sums->value[ICP_SUM_VALID],
               "%u valid pixels, expected %.0f", got->n_valid_px, sums->value[ICP_SUM_VALID]);
    double w = sums->magnitude[ICP_SUM_W], wrr = sums->magnitude[ICP_SUM_WRR];
    check_close(&limit_gradient, got->weight_sum, sums->value[ICP_SUM_W],
                4e-6 * w + sums->undecided[ICP_SUM_W], names[4]);
    check_close(&limit_gradient, got->residual_rms_m * got->residual_rms_m * got->weight_sum,
                sums->value[ICP_SUM_WRR],
                8e-6 * wrr + 2 * rounding_m * sqrt(wrr * w) + rounding_m * rounding_m * w +
                    sums->undecided[ICP_SUM_WRR],
                names[5]);
}

static void check_pose(const struct check_limit *limit, const struct se3 *got,
                       const struct se3 *expected)
{
    struct se3 difference = se3_between(expected, got);
    double length_m = 0;
    for (int i = 0; i < 3; i++)
        length_m += difference.t_m[i] * difference.t_m[i];
    check_close(limit, sqrt(length_m), 0, 0, "translation");
    check_close(limit, se3_angle(&difference), 0, 0, "rotation");
}

void expect_alignment(const struct input *in, const struct output *out)
{
    const struct map_px *source[GPU_LEVELS], *target[GPU_LEVELS];
    const struct gpu_settings *s = &in->settings;
    double range_m = 0;
    for (int level = 0; level < GPU_LEVELS; level++) {
        source[level] = (const struct map_px *)out->maps[1][level];
        target[level] = (const struct map_px *)out->maps[0][level];
    }
    for (size_t i = 0; i < level_px(s, 0); i++)
        range_m = fmax(range_m, 1.5 * (double)source[0][i].z_m);
    for (int level = 0; level < GPU_LEVELS; level++) {
        struct reference_scale first = {0};
        struct reference_sums sums;
        reference_icp(s, &in->align, level, source[level], target[level], &in->T_start, &first,
                      &sums);
        check_sums(&out->one[level], &sums, range_m);
        if (!out->one[level].solvable)
            continue;
        const struct reference_scale information = {.information = true};
        reference_icp(s, &in->align, GPU_LEVELS - 1, source[GPU_LEVELS - 1], target[GPU_LEVELS - 1],
                      &in->T_start, &information, &sums);
        check_normal_matrix(&limit_information, out->one[level].information, &sums, range_m,
                            "information");
    }

    struct gpu_alignment expected;
    struct reference_sums last;
    reference_align(s, &in->align, source, target, &in->T_start, &expected, &last);
    if (in->well_posed) {
        check_that(out->all.solvable && expected.solvable, "not solvable");
        check_pose(&limit_pose, &out->all.T_reference_frame, &expected.T_reference_frame);
        check_close(&limit_step, out->all.step_norm, expected.step_norm, 1, "step");
        check_pose(&limit_motion, &out->all.T_reference_frame, &in->T_true);
        check_pose(&limit_motion, &out->early.T_reference_frame, &in->T_true);
    }
    const struct gpu_alignment *all[] = {&out->all, &out->early};
    for (int i = 0; i < 2; i++) {
        for (int k = 0; k < 9; k++)
            check_that(isfinite(all[i]->T_reference_frame.r[k]), "rotation is not finite");
        for (int k = 0; k < 3; k++)
            check_that(isfinite(all[i]->T_reference_frame.t_m[k]), "translation is not finite");
        if (!all[i]->solvable)
            check_that(memcmp(&all[i]->T_reference_frame, &in->T_start, sizeof in->T_start) == 0,
                       "not solvable, and not the initial pose");
    }
    check_that(out->one[0].solvable || out->one[0].n_pairs < 100000, "not solvable with %u pairs",
               out->one[0].n_pairs);
    for (int level = 0; level < GPU_LEVELS && out->all.solvable; level++)
        check_that(out->all.n_iterations[level] == in->align.iterations[level],
                   "level %d ran %u iterations", level, out->all.n_iterations[level]);
}

void expect_twins(const struct input *in, const struct output *a, const struct output *b,
                  bool exact, const char *names)
{
    for (int f = 0; f < 2; f++)
        for (int level = 0; level < GPU_LEVELS; level++) {
            const float *x = a->maps[f][level], *y = b->maps[f][level];
            size_t n = 4 * level_px(&in->settings, level), n_other = 0, first = 0;
            // As numbers: where a sum is exactly 0, a compiler that folds a negation into a fused
            // operation gives it another sign.
            for (size_t i = n; i-- > 0;)
                if (!(x[i] == y[i])) {
                    n_other++;
                    first = i;
                }
            if (exact)
                check_that(n_other == 0,
                           "%s: %zu of %zu values of level %d differ, first number %zu: %.9g, %.9g",
                           names, n_other, n, level, first, (double)x[first], (double)y[first]);
            for (size_t i = 0; !exact && i < n; i += 4)
                if ((x[i + 2] != 0) == (y[i + 2] != 0))
                    check_close(&limit_baseline, (double)x[i + 3], (double)y[i + 3],
                                (double)y[i + 3], "z");
        }
    if (in->well_posed && exact)
        check_pose(&limit_twins, &a->all.T_reference_frame, &b->all.T_reference_frame);
}
