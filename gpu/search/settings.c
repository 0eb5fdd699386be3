// SPDX-License-Identifier: Apache-2.0
#include "gpu/search/settings.h"

#include <stddef.h>

void search_settings_default(struct search_settings *out)
{
    *out = (struct search_settings){.backend = GPU_BACKEND_AUTO, .cuda_device = -1};
}

void search_object_settings_default(struct search_object_settings *out)
{
    *out = (struct search_object_settings){.n_views = SEARCH_VIEWS_DEFAULT};
}

void search_query_default(struct search_query *out)
{
    *out = (struct search_query){
        .top = 1, .n_iterations = 15, .refine = true, .threshold = SEARCH_ACCEPTED};
}

const char *search_object_settings_check(const struct search_object_settings *settings,
                                         const char **out_why)
{
    *out_why = "outside 64 .. 200000";
    return settings->n_views < 64 || settings->n_views > SEARCH_VIEWS_MAX ? "n_views" : NULL;
}

const char *search_query_check(const struct search_query *query, const char **out_why)
{
    *out_why = "outside 1 .. 16";
    if (query->top < 1 || query->top > SEARCH_TOP_MAX)
        return "top";
    *out_why = "outside 1 .. 1000";
    if (query->n_iterations < 1 || query->n_iterations > 1000)
        return "n_iterations";
    return NULL;
}
