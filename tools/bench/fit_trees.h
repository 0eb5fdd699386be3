// SPDX-License-Identifier: Apache-2.0
// Gradient boosting (Friedman 2001) of a conditional logit: trees fitted one after the other to
// what linear weights and the trees before leave unexplained of the choices. A tree asks the same
// three questions on all its branches (as CatBoost's do) and answers with one of eight numbers. A
// row of zeros is nothing at all: no tree looks at it.
#ifndef POSED_TOOLS_BENCH_FIT_TREES_H
#define POSED_TOOLS_BENCH_FIT_TREES_H

#include "tools/bench/fit.h"

#define FIT_TREE_DEPTH 3

struct fit_tree {
    uint32_t feature[FIT_TREE_DEPTH]; // is it above this?
    double above[FIT_TREE_DEPTH];
    double worth[1 << FIT_TREE_DEPTH]; // no, no, no; no, no, yes; ...
};

struct fit_boosting {
    uint32_t n_trees;
    double rate;  // of what is left, what a tree takes
    double ridge; // added to a branch's curvature: few rows answer little
    double share; // of the features, drawn anew for each question
    const int8_t
        *sense; // of each feature: 1 more of it is never worth less, -1 never more, 0 either
};

// Of the choices whose group is not `left_out` modulo 2 (2: all); a question splits a feature at
// one of 32 quantiles. Returns 0 or -ENOMEM.
__attribute__((warn_unused_result)) int fit_trees(const struct fit_data *data, uint32_t left_out,
                                                  const double *weights,
                                                  const struct fit_boosting *how,
                                                  struct fit_tree *out);

double fit_trees_worth(const struct fit_tree *trees, uint32_t n_trees, const double *row,
                       uint32_t n_features);

// fit_quality of weights and trees together.
void fit_trees_quality(const struct fit_data *data, uint32_t only, const double *weights,
                       const struct fit_tree *trees, uint32_t n_trees, double *out_mean_log,
                       double *out_first);

#endif
