// SPDX-License-Identifier: Apache-2.0
// Several objects of one kind. What the best accepted answer explains is taken out of the image,
// and the rest is searched again, until nothing more is accepted: a pose there and the same object
// turned end for end explain the same pixels, so that only one of them is accepted; and the many
// poses of one object do not crowd out the others. Host code. Private to gpu.
#ifndef POSED_GPU_SEARCH_INSTANCES_H
#define POSED_GPU_SEARCH_INSTANCES_H

#include "gpu/search/context.h"

// search_run_default for query->top answers; those not accepted are what the last search gave.
// Takes one search more than answers are accepted, at most query->top.
__attribute__((warn_unused_result)) int
search_run_instances(struct search *search, const struct search_object *object,
                     const struct search_image *image, const struct search_query *query,
                     struct search_answer *out, char *out_field);

#endif
