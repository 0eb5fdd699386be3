// SPDX-License-Identifier: Apache-2.0
#include "tools/bench/fit_trees.h"

#include <errno.h>
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#define BINS   32
#define LEAVES (1 << FIT_TREE_DEPTH)
#define PASSES 2000

struct boosting {
    const struct fit_data *data;
    uint32_t left_out;
    size_t *rows; // that take part: of choices that are not left out, not nothing
    size_t n_rows;
    uint8_t *bin, *leaf;           // of each row: n_features, one
    double *worth, *slope, *curve; // of each row: so far, and how the likelihood changes with it
    double (*cut)[BINS - 1];       // of each feature
    uint64_t random;
};

static double uniform(struct boosting *b)
{
    b->random = b->random * 6364136223846793005u + 1442695040888963407u;
    return (double)(b->random >> 33) / 2147483648.0;
}

static int compare_numbers(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static bool is_nothing(const struct fit_data *data, size_t row)
{
    for (uint32_t k = 0; k < data->n_features; k++)
        if (data->rows[row * data->n_features + k] != 0)
            return false;
    return true;
}

static bool takes_part(const struct boosting *b, const struct fit_choice *choice)
{
    return b->left_out >= 2 || choice->group % 2 != b->left_out;
}

// Quantiles of each feature, and where each row lies among them.
static int sort_into_bins(struct boosting *b)
{
    const uint32_t n = b->data->n_features;
    double *sorted = malloc((b->n_rows + 1) * sizeof *sorted);
    if (!sorted)
        return -ENOMEM;
    for (uint32_t k = 0; k < n && b->n_rows > 0; k++) {
        for (size_t i = 0; i < b->n_rows; i++)
            sorted[i] = b->data->rows[b->rows[i] * n + k];
        qsort(sorted, b->n_rows, sizeof *sorted, compare_numbers);
        for (size_t q = 0; q < BINS - 1; q++)
            b->cut[k][q] = sorted[b->n_rows * (q + 1) / BINS];
        for (size_t i = 0; i < b->n_rows; i++) {
            const double value = b->data->rows[b->rows[i] * n + k];
            uint8_t bin = 0;
            while (bin < BINS - 1 && value > b->cut[k][bin])
                bin++;
            b->bin[b->rows[i] * n + k] = bin;
        }
    }
    free(sorted);
    return 0;
}

// First and (minus the) second derivative of the choices' likelihood by each row's worth.
static void differentiate(struct boosting *b)
{
    for (size_t c = 0; c < b->data->n_choices; c++) {
        const struct fit_choice *choice = &b->data->choices[c];
        if (!takes_part(b, choice))
            continue;
        double most = -INFINITY, sum = 0;
        for (size_t i = choice->first; i < choice->first + choice->n; i++)
            most = fmax(most, b->worth[i]);
        for (size_t i = choice->first; i < choice->first + choice->n; i++)
            sum += exp(b->worth[i] - most);
        for (size_t i = choice->first; i < choice->first + choice->n; i++) {
            const double p = exp(b->worth[i] - most) / sum;
            b->slope[i] = choice->weight * ((i == choice->first + choice->taken) - p);
            b->curve[i] = choice->weight * p * (1 - p);
        }
    }
}

// Adds to gain[q] what asking feature k at its quantile q would bring on branches 0 to n - 1:
// nothing where the answer would be against its sense.
static void add_gains(const struct boosting *b, uint32_t k, uint32_t n_branches,
                      const struct fit_boosting *how, double gain[BINS - 1])
{
    double slope[LEAVES][BINS] = {{0}}, curve[LEAVES][BINS] = {{0}};
    const uint32_t n = b->data->n_features;
    for (size_t i = 0; i < b->n_rows; i++) {
        const size_t row = b->rows[i];
        slope[b->leaf[row]][b->bin[row * n + k]] += b->slope[row];
        curve[b->leaf[row]][b->bin[row * n + k]] += b->curve[row];
    }
    for (uint32_t branch = 0; branch < n_branches; branch++) {
        double slopes = 0, curves = 0, below = 0, below_curve = 0;
        for (int q = 0; q < BINS; q++) {
            slopes += slope[branch][q];
            curves += curve[branch][q];
        }
        for (int q = 0; q < BINS - 1; q++) {
            below += slope[branch][q];
            below_curve += curve[branch][q];
            const double above = slopes - below;
            const double low = below / (below_curve + how->ridge);
            const double high = above / (curves - below_curve + how->ridge);
            gain[q] += how->sense[k] * (high - low) < 0 ? slopes * slopes / (curves + how->ridge)
                                                        : below * low + above * high;
        }
    }
}

// The best of the questions on a share of the features; every branch is split by it.
static void ask(struct boosting *b, const struct fit_boosting *how, uint32_t depth,
                struct fit_tree *tree)
{
    double best = -1;
    int best_cut = 0;
    while (best < 0) // no feature drawn: again
        for (uint32_t k = 0; k < b->data->n_features; k++) {
            double gain[BINS - 1] = {0};
            if (uniform(b) >= how->share)
                continue;
            add_gains(b, k, 1u << depth, how, gain);
            for (int q = 0; q < BINS - 1; q++)
                if (gain[q] > best) {
                    best = gain[q];
                    best_cut = q;
                    tree->feature[depth] = k;
                }
        }
    const uint32_t k = tree->feature[depth], n = b->data->n_features;
    tree->above[depth] = b->cut[k][best_cut];
    for (size_t i = 0; i < b->n_rows; i++) {
        const size_t row = b->rows[i];
        b->leaf[row] = (uint8_t)(2 * b->leaf[row] + (b->bin[row * n + k] > best_cut));
    }
}

// Leaves that differ in one answer alone, against the feature's sense, become one number; that may
// upset others, so again.
static void put_in_order(const struct fit_boosting *how, const double curve[LEAVES],
                         struct fit_tree *tree)
{
    bool moved = true;
    for (int pass = 0; pass < PASSES && moved; pass++) {
        moved = false;
        for (int q = 0; q < FIT_TREE_DEPTH; q++)
            for (int no = 0; no < LEAVES; no++) {
                const int yes = no | 1 << (FIT_TREE_DEPTH - 1 - q);
                double *a = &tree->worth[no], *b = &tree->worth[yes];
                if (no == yes || how->sense[tree->feature[q]] * (*b - *a) >= 0)
                    continue;
                const double n_a = curve[no] + how->ridge, n_b = curve[yes] + how->ridge;
                moved = moved || fabs(*b - *a) > 1e-12;
                *a = *b = (*a * n_a + *b * n_b) / (n_a + n_b);
            }
    }
}

static void grow_tree(struct boosting *b, const struct fit_boosting *how, struct fit_tree *tree)
{
    double slope[LEAVES] = {0}, curve[LEAVES] = {0};
    differentiate(b);
    memset(b->leaf, 0, b->data->n_rows);
    for (uint32_t depth = 0; depth < FIT_TREE_DEPTH; depth++)
        ask(b, how, depth, tree);
    for (size_t i = 0; i < b->n_rows; i++) {
        slope[b->leaf[b->rows[i]]] += b->slope[b->rows[i]];
        curve[b->leaf[b->rows[i]]] += b->curve[b->rows[i]];
    }
    for (int leaf = 0; leaf < LEAVES; leaf++)
        tree->worth[leaf] = how->rate * slope[leaf] / (curve[leaf] + how->ridge);
    put_in_order(how, curve, tree);
    for (size_t i = 0; i < b->n_rows; i++)
        b->worth[b->rows[i]] += tree->worth[b->leaf[b->rows[i]]];
}

int fit_trees(const struct fit_data *data, uint32_t left_out, const double *weights,
              const struct fit_boosting *how, struct fit_tree *out)
{
    const size_t n = data->n_rows + 1, k = data->n_features;
    struct boosting b = {.data = data, .left_out = left_out, .random = 1};
    b.rows = malloc(n * sizeof *b.rows);
    b.bin = calloc(n, k);
    b.leaf = calloc(n, 1);
    b.worth = calloc(n, sizeof *b.worth);
    b.slope = calloc(n, sizeof *b.slope);
    b.curve = calloc(n, sizeof *b.curve);
    b.cut = calloc(k, sizeof *b.cut);
    int err = b.rows && b.bin && b.leaf && b.worth && b.slope && b.curve && b.cut ? 0 : -ENOMEM;
    for (size_t c = 0; c < data->n_choices && !err; c++)
        for (size_t i = data->choices[c].first, e = i + data->choices[c].n; i < e; i++) {
            if (!takes_part(&b, &data->choices[c]) || is_nothing(data, i))
                continue;
            b.rows[b.n_rows++] = i;
            for (size_t m = 0; m < k; m++)
                b.worth[i] += weights[m] * data->rows[i * k + m];
        }
    err = err ? err : sort_into_bins(&b);
    memset(out, 0, how->n_trees * sizeof *out);
    for (uint32_t t = 0; t < how->n_trees && b.n_rows > 0 && !err; t++)
        grow_tree(&b, how, &out[t]);
    free(b.rows);
    free(b.bin);
    free(b.leaf);
    free(b.worth);
    free(b.slope);
    free(b.curve);
    free(b.cut);
    return err;
}

double fit_trees_worth(const struct fit_tree *trees, uint32_t n_trees, const double *row,
                       uint32_t n_features)
{
    double sum = 0;
    bool nothing = true;
    for (uint32_t k = 0; k < n_features; k++)
        nothing = nothing && row[k] == 0;
    for (uint32_t t = 0; t < n_trees && !nothing; t++) {
        uint32_t leaf = 0;
        for (int q = 0; q < FIT_TREE_DEPTH; q++)
            leaf = 2 * leaf + (row[trees[t].feature[q]] > trees[t].above[q]);
        sum += trees[t].worth[leaf];
    }
    return sum;
}

void fit_trees_quality(const struct fit_data *data, uint32_t only, const double *weights,
                       const struct fit_tree *trees, uint32_t n_trees, double *out_mean_log,
                       double *out_first)
{
    const uint32_t n = data->n_features;
    double log_sum = 0;
    size_t n_choices = 0, n_first = 0;
    for (size_t c = 0; c < data->n_choices; c++) {
        const struct fit_choice *choice = &data->choices[c];
        double taken = 0, most = -INFINITY, sum = 0;
        if (only < 2 && choice->group % 2 != only)
            continue;
        // The sum of exponentials, rescaled whenever a larger one comes.
        for (uint32_t i = 0; i < choice->n; i++) {
            const double *row = data->rows + (choice->first + i) * n;
            double worth = fit_trees_worth(trees, n_trees, row, n);
            for (uint32_t k = 0; k < n; k++)
                worth += weights[k] * row[k];
            taken = i == choice->taken ? worth : taken;
            sum = worth > most ? sum * exp(most - worth) + 1 : sum + exp(worth - most);
            most = fmax(most, worth);
        }
        log_sum += taken - most - log(sum);
        n_first += taken == most;
        n_choices++;
    }
    *out_mean_log = n_choices ? log_sum / (double)n_choices : 0;
    *out_first = n_choices ? (double)n_first / (double)n_choices : 0;
}
