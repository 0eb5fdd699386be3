// SPDX-License-Identifier: Apache-2.0
// Conditional logit (McFadden 1974): of each choice's alternatives, rows of features, one was
// taken; the weights w that make exp(w . row) / sum exp(w . rows) most likely. A logistic
// regression is a choice between a row and nothing (a row of zeros).
#ifndef POSED_TOOLS_BENCH_FIT_H
#define POSED_TOOLS_BENCH_FIT_H

#include <stddef.h>
#include <stdint.h>

#define FIT_FEATURES_MAX 31

struct fit_choice {
    size_t first; // row
    uint32_t n, taken;
    uint32_t group; // choices of one group are fitted or held out together
    double weight;  // so many alike
};

struct fit_data {
    double *rows; // n_features each
    size_t n_rows, row_capacity;
    struct fit_choice *choices;
    size_t n_choices, choice_capacity;
    uint32_t n_features;
};

// A choice begins with its first row. Return 0 or -ENOMEM.
__attribute__((warn_unused_result)) int fit_add_choice(struct fit_data *data, uint32_t group,
                                                       double weight);
__attribute__((warn_unused_result)) int fit_add_row(struct fit_data *data, const double *row);
// Adds all choices of `more`, which has the same features. Returns 0 or -ENOMEM.
__attribute__((warn_unused_result)) int fit_append(struct fit_data *data,
                                                   const struct fit_data *more);
void fit_free(struct fit_data *data);

// Newton's method on the likelihood of the choices whose group is not `left_out` modulo 2 (2: all),
// less ridge / 2 times the squares of the weights, in the features' own units: one that hardly
// differs in these choices gets little weight, however much it tells here, as other choices (a real
// camera's images) may make common what is rare in these. A feature that never differs gets none.
void fit_weights(const struct fit_data *data, uint32_t left_out, double ridge,
                 double out[FIT_FEATURES_MAX]);

// Of the choices whose group is `only` modulo 2 (2: all): the mean logarithm of the likelihood and
// the share in which what was taken is worth most.
void fit_quality(const struct fit_data *data, uint32_t only, const double *weights,
                 double *out_mean_log, double *out_first);

// The weights of which `worth` are the rows' worth, by least squares (n > n_features rows).
void fit_read_off(const double *rows, const double *worth, size_t n, uint32_t n_features,
                  double out[FIT_FEATURES_MAX]);

// Correlation of the rows' worth by two sets of weights, each row against its choice's mean.
double fit_correlation(const struct fit_data *data, const double *a, const double *b);

#endif
