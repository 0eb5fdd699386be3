// SPDX-License-Identifier: Apache-2.0
#include "tests/check/search/stages.h"

#include <errno.h>
#include <stdlib.h>

int stage_window(const struct search *search, const struct search_frame *frame, uint32_t *out)
{
#ifdef POSED_HAVE_CUDA
    if (search->ops == &search_ops_cuda)
        return search_cuda_window(search->device, frame, out);
#endif
    return search_cpu_window(search->device, frame, out);
}

int stage_fit(const struct search *search, const struct search_object *object,
              const struct search_frame *frame, const uint32_t *views, uint32_t n,
              uint32_t n_iterations, struct search_fit *out)
{
    uint32_t *place = malloc(n * sizeof *place);
    struct search_fit *fits = malloc(n * sizeof *fits);
    int err = place && fits ? search->ops->fit_best(search->device, object, frame, views, n,
                                                    n_iterations, n, place, fits)
                            : -ENOMEM;
    for (uint32_t i = 0; !err && i < n; i++)
        out[place[i]] = fits[i];
    free(place);
    free(fits);
    return err;
}
