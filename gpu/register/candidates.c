// SPDX-License-Identifier: Apache-2.0
#include "gpu/register/candidates.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "gpu/register/consistency.h"
#include "gpu/register/features.h"
#include "gpu/register/manhattan.h"
#include "gpu/register/verdict.h"

#define FEATURE_POINTS 6000u // of a set, at most
#define FPFH_RADIUS    5.0   // cells
#define N_VOTES        40u   // of the poses that are voted for, which are looked at further
#define N_FINISHED     3u    // of the first look's poses
#define N_LAST         5u    // of the second look's, at finer features
#define N_BARE         6u    // poses that are finished from the vote itself, at fine cells only
#define N_TURNED       6u    // poses that bring walls onto walls, finished at fine cells, too
#define N_RIVALS       6u    // of poses that came near the best, at most
#define RIVAL          0.6   // of the best one's evidence at coarse cells
#define WALL_POINTS    1500u
#define SHIFT_CELLS    3.0 // correspondences that agree on a shift lie so near to each other
#define SHARED_WITHIN  4.0 // of what bounds a correspondence: the best pose does it nearly

static uint32_t feature_level(const struct register_surfaces *surfaces)
{
    uint32_t l = 0;
    while (l + 1 < surfaces->n_levels &&
           (surfaces->info[0][l].n > FEATURE_POINTS || surfaces->info[1][l].n > FEATURE_POINTS))
        l++;
    return l;
}

static int make_features(const struct register_local *local, struct pool *pool, uint32_t level,
                         struct register_features out[2])
{
    const double cell = local->surfaces->cell_m * (1 << level);
    for (int side = 0; side < 2; side++) {
        const struct register_surface *surface = &local->surfaces->info[side][level];
        out[side].n = surface->n;
        out[side].points = malloc((surface->n + 1) * sizeof *out[side].points);
        out[side].normals = malloc((surface->n + 1) * sizeof *out[side].normals);
        if (!out[side].points || !out[side].normals)
            return -ENOMEM;
        int rc = local->ops->fetch(local->device, (enum register_side)side, level, out[side].points,
                                   out[side].normals);
        if (rc == 0)
            rc = register_stopped(local->stop);
        if (rc == 0)
            rc = register_features_make(&out[side], pool, surface, (float)(FPFH_RADIUS * cell));
        if (rc < 0)
            return rc;
    }
    return 0;
}

struct matches {
    struct register_features features[2];
    struct register_match *match;
    uint32_t n;
};

static void free_matches(struct matches *matches)
{
    free(matches->match);
    register_features_free(&matches->features[0]);
    register_features_free(&matches->features[1]);
}

// Poses that consistent correspondences vote for. Returns how many.
static int vote(const struct register_local *local, struct pool *pool, uint32_t level,
                struct matches *matches, struct register_vote *out)
{
    int rc = make_features(local, pool, level, matches->features);
    if (rc < 0)
        return rc;
    matches->match = malloc((matches->features[0].n + 1) * sizeof *matches->match);
    if (!matches->match)
        return -ENOMEM;
    rc = register_features_match(pool, &matches->features[0], &matches->features[1], matches->match,
                                 &matches->n);
    if (rc == 0)
        rc = register_stopped(local->stop);
    if (rc < 0)
        return rc;
    return register_consistency_vote(
        pool, &matches->features[0], &matches->features[1], matches->match, matches->n,
        1.5 * local->surfaces->cell_m * (1 << level), out, REGISTER_MOST_SEEDS);
}

// Both sets' walls and directions, and points evenly taken from both.
static int keep_walls(const struct register_local *local, const struct matches *matches,
                      float cell_m, struct register_matched *out)
{
    out->sights = malloc(2 * sizeof *out->sights);
    out->walls = malloc(2 * sizeof *out->walls);
    for (int side = 0; side < 2; side++) {
        const struct register_features *f = &matches->features[side];
        const uint32_t step = f->n / WALL_POINTS + 1;
        out->points[side] = malloc((f->n / step + 1) * sizeof *out->points[side]);
        const double *middle = local->surfaces->origin_m[side];
        const double from[3] = {-middle[0], -middle[1], -middle[2]};
        if (!out->walls || !out->sights || !out->points[side])
            return -ENOMEM;
        register_sight_make(f->points, f->n, cell_m, from, &out->sights[side]);
        register_axes_find(f->normals, f->n, &out->axes[side]);
        for (uint32_t i = 0; i < f->n; i += step)
            out->points[side][out->n_points[side]++] = f->points[i];
    }
    // One of them seen from elsewhere: the other is likely to be in such coordinates, too.
    const bool valid = out->sights[0].valid && out->sights[1].valid;
    out->sights[0].valid = out->sights[1].valid = valid;
    for (int side = 0; side < 2; side++) {
        const struct register_features *f = &matches->features[side];
        register_walls_find(f->points, f->normals, f->n, cell_m,
                            valid ? out->sights[side].from : NULL, &out->walls[side]);
    }
    return 0;
}

static double before(const struct register_matched *matched, const struct se3 *T)
{
    const struct se3 back = se3_inverse(T);
    if (!matched->sights)
        return 0;
    return register_sight_before(&matched->sights[REGISTER_TARGET], T,
                                 matched->points[REGISTER_SOURCE],
                                 matched->n_points[REGISTER_SOURCE]) +
           register_sight_before(&matched->sights[REGISTER_SOURCE], &back,
                                 matched->points[REGISTER_TARGET],
                                 matched->n_points[REGISTER_TARGET]);
}

static double behind(const struct register_matched *matched, const struct se3 *T)
{
    const struct se3 back = se3_inverse(T);
    if (!matched->walls)
        return 0;
    return register_walls_behind(&matched->walls[REGISTER_TARGET], T,
                                 matched->points[REGISTER_SOURCE],
                                 matched->n_points[REGISTER_SOURCE]) +
           register_walls_behind(&matched->walls[REGISTER_SOURCE], &back,
                                 matched->points[REGISTER_TARGET],
                                 matched->n_points[REGISTER_TARGET]);
}

// The points of rare correspondences, for poses that come later, too; behind those of coarser
// levels. Common ones are of walls and floors, whose pairs agree on many poses.
static int keep_matches(const struct register_local *local, const struct matches *matches,
                        double cell_m, struct register_matched *io)
{
    struct register_matched_pair *pairs =
        realloc(io->pairs, ((size_t)io->n + matches->n + 1) * sizeof *pairs);
    if (!pairs)
        return -ENOMEM;
    io->pairs = pairs;
    for (uint32_t i = 0; i < matches->n; i++) {
        const struct register_match *match = &matches->match[i];
        if (!match->rare)
            continue;
        const struct register_cell_point *p = &matches->features[0].points[match->source];
        const struct register_cell_point *q = &matches->features[1].points[match->target];
        pairs[io->n++] =
            (struct register_matched_pair){{p->x, p->y, p->z}, {q->x, q->y, q->z}, 1.5 * cell_m};
    }
    return io->walls ? 0 : keep_walls(local, matches, (float)cell_m, io);
}

static bool does(const struct register_matched_pair *pair, const struct se3 *T, double within_m)
{
    double y[3], d2 = 0;
    se3_apply(T, pair->source_m, y);
    for (int a = 0; a < 3; a++)
        d2 += (y[a] - pair->target_m[a]) * (y[a] - pair->target_m[a]);
    return d2 < within_m * within_m;
}

// least_m: a pair within so much is done whatever its level.
static uint32_t support(const struct register_matched *matched, const struct se3 *T, double least_m)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < matched->n; i++)
        n += does(&matched->pairs[i], T, fmax(matched->pairs[i].within_m, least_m));
    return n;
}

uint32_t register_candidates_shared(const struct register_matched *matched, const struct se3 *T,
                                    const struct se3 *T_best)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < matched->n; i++) {
        const struct register_matched_pair *pair = &matched->pairs[i];
        n += does(pair, T, pair->within_m) && does(pair, T_best, SHARED_WITHIN * pair->within_m);
    }
    return n;
}

void register_candidates_support(const struct register_candidates *from,
                                 struct register_candidate *candidate)
{
    candidate->n_support = support(&from->matched, &candidate->fit.T, 0);
    candidate->behind = behind(&from->matched, &candidate->fit.T);
    candidate->before = before(&from->matched, &candidate->fit.T);
}

static int compare_votes(const void *a, const void *b)
{
    const double x = register_candidates_votes(a), y = register_candidates_votes(b);
    return (x < y) - (x > y);
}

static int compare_candidates(const void *a, const void *b)
{
    const double x = register_candidates_evidence(a), y = register_candidates_evidence(b);
    return (x < y) - (x > y);
}

static bool is_same_pose(const struct se3 *a, const struct se3 *b, double apart_m)
{
    const struct se3 d = se3_between(a, b);
    return se3_angle(&d) < 0.1 &&
           sqrt(d.t_m[0] * d.t_m[0] + d.t_m[1] * d.t_m[1] + d.t_m[2] * d.t_m[2]) < apart_m;
}

// Poses nearer to each other are one pose that was not quite reached, not two answers.
static double apart_m(const struct register_local *local, uint32_t level)
{
    const double *extent_m = local->surfaces->extent_m;
    return fmax(2 * local->surfaces->cell_m * (1 << level), 0.05 * fmin(extent_m[0], extent_m[1]));
}

// Sorts, best first, and leaves out what is repeated. Returns how many remain.
static uint32_t unlike(struct register_candidate *candidates, uint32_t n, double apart_m,
                       int (*compare)(const void *, const void *))
{
    uint32_t n_kept = 0;
    qsort(candidates, n, sizeof *candidates, compare);
    for (uint32_t i = 0; i < n; i++) {
        bool repeated = false;
        for (uint32_t k = 0; k < n_kept && !repeated; k++)
            repeated = is_same_pose(&candidates[k].fit.T, &candidates[i].fit.T, apart_m);
        if (!repeated)
            candidates[n_kept++] = candidates[i];
    }
    return n_kept;
}

// Aligned from `first` to `last` and judged there; best first, repeated ones left out.
static int finish(const struct register_local *local, const struct register_matched *matched,
                  uint32_t first, uint32_t last, struct register_candidate *candidates, uint32_t n)
{
    // A coarse pose is off by as much as a coarse cell.
    const double within_m = 1.5 * local->surfaces->cell_m * (1 << last);
    struct register_fit fits[N_VOTES + 1];
    struct register_worth worths[N_VOTES + 1];
    for (uint32_t i = 0; i < n; i++)
        fits[i] = candidates[i].fit;
    int rc = register_local_align(local, first, last, fits, n);
    if (rc == 0)
        rc = register_local_judge(local, last, fits, n, worths);
    if (rc < 0)
        return rc;
    for (uint32_t i = 0; i < n; i++)
        candidates[i] =
            (struct register_candidate){fits[i], worths[i], support(matched, &fits[i].T, within_m),
                                        behind(matched, &fits[i].T), before(matched, &fits[i].T)};
    return (int)unlike(candidates, n, apart_m(local, last), compare_candidates);
}

static struct register_candidate candidate_of(const struct register_matched *matched,
                                              const struct se3 *T, uint32_t n_support)
{
    return (struct register_candidate){
        .fit.T = *T,
        .n_support = n_support,
        .behind = behind(matched, T),
        .before = before(matched, T),
    };
}

// Finishes poses, n > 0, and puts them among those in out->best.
static int add(const struct register_local *local, uint32_t first,
               struct register_candidate *candidates, uint32_t n, struct register_candidates *out)
{
    struct register_candidate all[REGISTER_MOST_CANDIDATES + N_VOTES + 1];
    const int rc = finish(local, &out->matched, first, 0, candidates, n);
    if (rc < 0)
        return rc;
    memcpy(all, out->best, out->n * sizeof *all);
    memcpy(all + out->n, candidates, (uint32_t)rc * sizeof *all);
    const uint32_t n_all =
        unlike(all, out->n + (uint32_t)rc, apart_m(local, 0), compare_candidates);
    out->n = n_all < REGISTER_MOST_CANDIDATES ? n_all : REGISTER_MOST_CANDIDATES;
    memcpy(out->best, all, out->n * sizeof *all);
    return 0;
}

// Poses that bring walls onto walls, those that most correspondences speak for. Without coarse
// cells, on which they slide along wall and floor.
static int add_turned(const struct register_local *local, uint32_t level,
                      struct register_candidates *out)
{
    const struct register_matched *matched = &out->matched;
    const double cell_m = local->surfaces->cell_m * (1 << level);
    struct se3 poses[REGISTER_MOST_TURNED];
    struct register_candidate turned[REGISTER_MOST_TURNED];
    const int n =
        register_axes_poses(&matched->axes[REGISTER_SOURCE], &matched->axes[REGISTER_TARGET],
                            matched->pairs, matched->n, SHIFT_CELLS * cell_m, poses);
    for (int i = 0; i < n; i++)
        turned[i] =
            candidate_of(matched, &poses[i], support(matched, &poses[i], SHIFT_CELLS * cell_m));
    if (n <= 0)
        return n;
    const uint32_t n_unlike = unlike(turned, (uint32_t)n, 2 * cell_m, compare_votes);
    return add(local, 0, turned, n_unlike < N_TURNED ? n_unlike : N_TURNED, out);
}

// Features of one level: their poses, finished, into out->best.
static int find_at(const struct register_local *local, struct pool *pool, uint32_t level,
                   uint32_t n_finished, const struct se3 *given, struct register_candidates *out)
{
    struct register_vote drawn[REGISTER_MOST_SEEDS];
    struct register_candidate candidates[N_VOTES + 1], bare[REGISTER_MOST_SEEDS];
    uint32_t n_bare = 0;
    struct matches matches = {.match = NULL};
    const struct register_candidates coarser = *out;
    const uint32_t coarse = level + 1 < local->surfaces->n_levels ? level + 1 : level;
    int n = vote(local, pool, level, &matches, drawn);
    if (n >= 0) {
        const int rc =
            keep_matches(local, &matches, local->surfaces->cell_m * (1 << level), &out->matched);
        n = rc < 0 ? rc : n;
    }
    free_matches(&matches);
    memset(candidates, 0, sizeof candidates);
    memset(bare, 0, sizeof bare);
    if (n >= 0) {
        for (int i = 0; i < n; i++)
            bare[n_bare++] = candidate_of(&out->matched, &drawn[i].T, drawn[i].n_inliers);
        qsort(bare, n_bare, sizeof *bare, compare_votes);
        n = n < (int)N_VOTES ? n : (int)N_VOTES;
        for (int i = 0; i < n; i++)
            candidates[i].fit.T = bare[i].fit.T;
        if (given)
            candidates[n++].fit.T = *given;
        n = n > 0 ? finish(local, &out->matched, coarse, coarse, candidates, (uint32_t)n) : 0;
    }
    while (n > (int)n_finished && n_finished < N_RIVALS &&
           register_candidates_evidence(&candidates[n_finished]) >
               RIVAL * register_candidates_evidence(&candidates[0]))
        n_finished++;
    if (n > 0)
        n = finish(local, &out->matched, level, 0, candidates,
                   n > (int)n_finished ? n_finished : (uint32_t)n);
    for (int i = 0; i < n; i++)
        out->best[i] = candidates[i];
    out->n = n < 0 ? 0 : (uint32_t)n;
    for (uint32_t i = 0; i < coarser.n && n >= 0 && out->n < REGISTER_MOST_CANDIDATES; i++) {
        out->best[out->n] = coarser.best[i];
        register_candidates_support(out, &out->best[out->n++]);
    }
    out->n = unlike(out->best, out->n, apart_m(local, 0), compare_candidates);
    // The best as they were voted for, without coarse cells, on which walls and floor pull a pose
    // along a corridor.
    if (n > 0 && n_bare > 0 &&
        (!register_candidates_convince(out) ||
         support(&out->matched, &bare[0].fit.T, 0) > out->best[0].n_support))
        n = add(local, level, bare, n_bare < N_BARE ? n_bare : N_BARE, out);
    if (n >= 0 && !register_candidates_convince(out))
        n = add_turned(local, level, out);
    return n < 0 ? n : 0;
}

int register_candidates_find(const struct register_local *local, struct pool *pool,
                             const struct se3 *given, struct register_candidates *out)
{
    const uint32_t level = feature_level(local->surfaces);
    memset(out, 0, sizeof *out);
    int rc = find_at(local, pool, level, N_FINISHED, given, out);
    // Where the sets hardly overlap, finer features and more of them tell what coarse ones do not.
    if (rc == 0 && level > 0 && !register_candidates_convince(out)) {
        rc = find_at(local, pool, level - 1, N_LAST, out->n > 0 ? &out->best[0].fit.T : given, out);
    }
    return rc;
}

void register_candidates_free(struct register_candidates *candidates)
{
    free(candidates->matched.pairs);
    free(candidates->matched.walls);
    free(candidates->matched.sights);
    free(candidates->matched.points[0]);
    free(candidates->matched.points[1]);
    memset(candidates, 0, sizeof *candidates);
}

int register_candidates_add(const struct register_local *local, const struct se3 *T,
                            struct register_candidates *out)
{
    struct register_candidate both[REGISTER_MOST_CANDIDATES];
    const uint32_t n = out->n < REGISTER_MOST_CANDIDATES ? out->n : out->n - 1;
    memcpy(both, out->best, n * sizeof *both);
    memset(&both[n], 0, sizeof both[n]);
    both[n].fit.T = *T;
    int rc = finish(local, &out->matched, 0, 0, both, n + 1);
    if (rc > 0) {
        memcpy(out->best, both, (uint32_t)rc * sizeof *both);
        out->n = (uint32_t)rc;
    }
    return rc < 0 ? rc : 0;
}
