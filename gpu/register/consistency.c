// SPDX-License-Identifier: Apache-2.0
#include "gpu/register/consistency.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "gpu/base/parallel.h"
#include "gpu/register/kernels/solve.h"
#include "gpu/register/result.h"

#define LEAST_VOTES  3u
#define CLIQUE       24u // correspondences that a seed's first pose is taken from
#define SAME_RAD     0.15
#define NORMAL_SLACK 0.35 // of the cosine of the angle between two normals

struct voting {
    const struct register_match *matches;
    uint32_t n, n_words;
    float (*p)[3], (*q)[3], (*a)[3], (*b)[3]; // points and normals of the correspondences
    uint64_t *graph;                          // n rows of n_words
    uint32_t *score;                          // common neighbours of all neighbours
    float tolerance_m;
    const uint32_t *seeds;
    struct register_vote *votes; // by seed
};

static float between(const float a[3], const float b[3])
{
    const float x = a[0] - b[0], y = a[1] - b[1], z = a[2] - b[2];
    return sqrtf(x * x + y * y + z * z);
}

static float cosine(const float a[3], const float b[3])
{
    return a[0] * b[0] + a[1] * b[1] + a[2] * b[2];
}

static CPU_CLONES void connect_row(void *user, uint32_t i, uint32_t thread)
{
    (void)thread;
    const struct voting *v = user;
    uint64_t *row = v->graph + (size_t)i * v->n_words;
    memset(row, 0, v->n_words * sizeof *row);
    for (uint32_t j = 0; j < v->n; j++) {
        const float d = between(v->p[i], v->p[j]), e = between(v->q[i], v->q[j]);
        const bool far_enough = d > 2 * v->tolerance_m;
        const float turn = fabsf(fabsf(cosine(v->a[i], v->a[j])) - fabsf(cosine(v->b[i], v->b[j])));
        const bool fits =
            far_enough & (fabsf(d - e) < v->tolerance_m) & (turn < (float)NORMAL_SLACK);
        row[j >> 6] |= (uint64_t)fits << (j & 63);
    }
}

static inline uint32_t common(const uint64_t *a, const uint64_t *b, uint32_t n_words)
{
    uint32_t n = 0;
    for (uint32_t w = 0; w < n_words; w++)
        n += (uint32_t)__builtin_popcountll(a[w] & b[w]);
    return n;
}

static CPU_CLONES void score_row(void *user, uint32_t i, uint32_t thread)
{
    (void)thread;
    const struct voting *v = user;
    const uint64_t *row = v->graph + (size_t)i * v->n_words;
    uint32_t score = 0;
    for (uint32_t w = 0; w < v->n_words; w++)
        for (uint64_t left = row[w]; left; left &= left - 1) {
            const uint32_t j = w * 64 + (uint32_t)__builtin_ctzll(left);
            score += common(row, v->graph + (size_t)j * v->n_words, v->n_words);
        }
    v->score[i] = score;
}

// The pose of the correspondences `who`. False: not determined.
static bool solve(const struct voting *v, const uint32_t *who, uint32_t n, struct se3 *out)
{
    double sums[REGISTER_N_SUMS] = {0};
    for (uint32_t k = 0; k < n; k++) {
        const float *p = v->p[who[k]], *q = v->q[who[k]];
        const double x[3] = {q[0], q[1], q[2]}, y[3] = {p[0], p[1], p[2]};
        register_add_pair(sums, 1, x, y);
    }
    return n >= 3 && register_solve_points(sums, out);
}

// Correspondences that T does within the tolerance, with normals that fit.
static uint32_t inliers(const struct voting *v, const struct se3 *T, uint32_t *out)
{
    uint32_t n = 0;
    float r[9], t[3];
    for (int i = 0; i < 9; i++)
        r[i] = (float)T->r[i];
    for (int i = 0; i < 3; i++)
        t[i] = (float)T->t_m[i];
    for (uint32_t i = 0; i < v->n; i++) {
        const float *p = v->p[i], *q = v->q[i];
        float d2 = 0;
        for (int a = 0; a < 3; a++) {
            const float d =
                r[3 * a] * p[0] + r[3 * a + 1] * p[1] + r[3 * a + 2] * p[2] + t[a] - q[a];
            d2 += d * d;
        }
        if (d2 < v->tolerance_m * v->tolerance_m)
            out[n++] = i;
    }
    return n;
}

static CPU_CLONES void vote_seed(void *user, uint32_t s, uint32_t thread)
{
    (void)thread;
    const struct voting *v = user;
    const uint32_t seed = v->seeds[s];
    const uint64_t *row = v->graph + (size_t)seed * v->n_words;
    uint32_t who[REGISTER_MOST_MATCHES], best[CLIQUE + 1], shared[CLIQUE + 1], n_best = 1;
    struct register_vote *vote = &v->votes[s];
    vote->n_inliers = 0;
    best[0] = seed;
    shared[0] = UINT32_MAX;
    for (uint32_t w = 0; w < v->n_words; w++)
        for (uint64_t left = row[w]; left; left &= left - 1) {
            const uint32_t j = w * 64 + (uint32_t)__builtin_ctzll(left);
            const uint32_t n = common(row, v->graph + (size_t)j * v->n_words, v->n_words);
            uint32_t k = n_best;
            if (n_best == CLIQUE && n <= shared[CLIQUE - 1])
                continue;
            n_best += n_best < CLIQUE;
            for (k = n_best - 1; k > 1 && shared[k - 1] < n; k--) {
                best[k] = best[k - 1];
                shared[k] = shared[k - 1];
            }
            best[k] = j;
            shared[k] = n;
        }
    struct se3 T;
    if (!solve(v, best, n_best, &T))
        return;
    uint32_t n = inliers(v, &T, who);
    vote->T = T;
    vote->n_inliers = n;
    for (int round = 0; round < 3 && n >= 3; round++) {
        if (!solve(v, who, n, &T))
            break;
        n = inliers(v, &T, who);
        if (n <= vote->n_inliers)
            break;
        vote->T = T;
        vote->n_inliers = n;
    }
}

static int compare_votes(const void *a, const void *b)
{
    const struct register_vote *x = a, *y = b;
    return (x->n_inliers < y->n_inliers) - (x->n_inliers > y->n_inliers);
}

static int gather(struct voting *v, const struct register_features *source,
                  const struct register_features *target)
{
    v->p = malloc(4 * (size_t)v->n * sizeof *v->p);
    v->graph = malloc((size_t)v->n * v->n_words * sizeof *v->graph);
    v->score = malloc(v->n * sizeof *v->score);
    if (!v->p || !v->graph || !v->score)
        return -ENOMEM;
    v->q = v->p + v->n;
    v->a = v->q + v->n;
    v->b = v->a + v->n;
    for (uint32_t i = 0; i < v->n; i++) {
        const struct register_cell_point *from[4] = {
            &source->points[v->matches[i].source], &target->points[v->matches[i].target],
            &source->normals[v->matches[i].source], &target->normals[v->matches[i].target]};
        float(*const to[4])[3] = {&v->p[i], &v->q[i], &v->a[i], &v->b[i]};
        for (int k = 0; k < 4; k++) {
            (*to[k])[0] = from[k]->x;
            (*to[k])[1] = from[k]->y;
            (*to[k])[2] = from[k]->z;
        }
    }
    return 0;
}

// The best connected correspondences, no two of them with points near each other in both sets.
static uint32_t choose_seeds(const struct voting *v, uint32_t *out)
{
    uint32_t n_seeds = 0;
    while (n_seeds < REGISTER_MOST_SEEDS && n_seeds < v->n) {
        uint32_t best = v->n;
        for (uint32_t i = 0; i < v->n; i++)
            if (v->score[i] > 0 && (best == v->n || v->score[i] > v->score[best]))
                best = i;
        if (best == v->n)
            break;
        out[n_seeds++] = best;
        for (uint32_t i = 0; i < v->n; i++)
            if (between(v->p[i], v->p[best]) < 2 * v->tolerance_m &&
                between(v->q[i], v->q[best]) < 2 * v->tolerance_m)
                v->score[i] = 0;
    }
    return n_seeds;
}

int register_consistency_vote(struct pool *pool, const struct register_features *source,
                              const struct register_features *target,
                              const struct register_match *matches, uint32_t n_matches,
                              double tolerance_m, struct register_vote *out, uint32_t most)
{
    uint32_t seeds[REGISTER_MOST_SEEDS], n_kept = 0;
    struct register_vote votes[REGISTER_MOST_SEEDS];
    struct voting v = {.matches = matches,
                       .n = n_matches < REGISTER_MOST_MATCHES ? n_matches : REGISTER_MOST_MATCHES,
                       .tolerance_m = (float)tolerance_m,
                       .seeds = seeds,
                       .votes = votes};
    v.n_words = (v.n + 63) / 64;
    if (v.n < LEAST_VOTES)
        return 0;
    int rc = gather(&v, source, target);
    if (rc == 0) {
        parallel_for(pool, v.n, connect_row, &v);
        parallel_for(pool, v.n, score_row, &v);
        const uint32_t n_seeds = choose_seeds(&v, seeds);
        parallel_for(pool, n_seeds, vote_seed, &v);
        // cppcheck-suppress uninitvar; vote_seed has filled them
        qsort(votes, n_seeds, sizeof *votes, compare_votes);
        for (uint32_t i = 0; i < n_seeds && n_kept < most && votes[i].n_inliers >= LEAST_VOTES;
             i++) {
            bool repeated = false;
            for (uint32_t k = 0; k < n_kept && !repeated; k++) {
                const struct se3 d = se3_between(&out[k].T, &votes[i].T);
                repeated = se3_angle(&d) < SAME_RAD && fabs(d.t_m[0]) < 2 * tolerance_m &&
                           fabs(d.t_m[1]) < 2 * tolerance_m && fabs(d.t_m[2]) < 2 * tolerance_m;
            }
            if (!repeated)
                out[n_kept++] = votes[i];
        }
    }
    free(v.p);
    free(v.graph);
    free(v.score);
    return rc < 0 ? rc : (int)n_kept;
}
