// SPDX-License-Identifier: Apache-2.0
// What the weights of the pose search's three scores are fitted to: of each scene, by each score,
// the right candidate among those that are wrong.
#ifndef POSED_TOOLS_BENCH_SEARCH_CHOICES_H
#define POSED_TOOLS_BENCH_SEARCH_CHOICES_H

#include "gpu/search/kernels/score.h"
#include "gpu/search/search.h"
#include "tools/bench/fit.h"
#include "tools/bench/search_metrics.h"

#define SEARCH_N_SCORES 3 // enum search_evidence

// A nearest right candidate is within so much of the diameter (ADD-S).
#define SEARCH_RIGHT_ADD 0.1
#define SEARCH_LOOSE_ADD 0.2 // three steps are no end yet

struct search_choices {
    struct fit_data scores[SEARCH_N_SCORES];
    const struct search_object *object;
    struct metric_points points;
    double diameter;
    uint32_t group; // of its choices
    double weight;  // of the scene
    uint64_t random;
};

void search_choices_begin(struct search_choices *choices, uint32_t group, uint64_t random);
void search_choices_end(struct search_choices *choices);
// Adds all of `more`. 0 or -ENOMEM.
__attribute__((warn_unused_result)) int search_choices_append(struct search_choices *choices,
                                                              const struct search_choices *more);

// Adds those of a scene; where the search has passed over the true pose, that is what ought to be
// taken. In a scene without the object (T_truth NULL) what ought to be taken is nothing, a row of
// zeros, which stands among the choices of the last score of every scene: it says whether the
// object is there at all. 0, -ENOMEM, or what the search returns.
__attribute__((warn_unused_result)) int search_choices_add(struct search_choices *choices,
                                                           struct search *search,
                                                           const struct search_image *image,
                                                           const struct se3 *T_truth);

#endif
