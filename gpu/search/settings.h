// SPDX-License-Identifier: Apache-2.0
// The settings of the pose search: of its device, of an object when its views are drawn, and of one
// search (struct search_query). Defaults, ranges, and what is wrong with those that a caller
// brings. Counts that no caller sets stand in kernels/hypothesis_counts.h.
#ifndef POSED_GPU_SEARCH_SETTINGS_H
#define POSED_GPU_SEARCH_SETTINGS_H

#include "gpu/base/yield.h"
#include "gpu/gpu.h"
#include "proto/log.h"

#define SEARCH_TOP_MAX       16
#define SEARCH_VIEWS_DEFAULT 8192
#define SEARCH_VIEWS_MAX     200000
#define SEARCH_ACCEPTED      0.9f // confidence of an accepted answer, where nothing else is said

struct search_settings {
    enum gpu_backend backend; // default AUTO: CUDA when a device answers, else CPU
    uint32_t n_threads;       // CPU work: 0 = all cores
    int cuda_device;          // -1 = the first that answers
    struct yield yield;       // towards a tracker beside it; default: none
    struct log_sink log;
};

enum search_choice {
    SEARCH_CHOICE_EVEN, // rotations spread evenly over SO(3) (Alexa 2022, super-Fibonacci spirals)
    SEARCH_CHOICE_GREEDY, // the paper's: a view is kept when its error to all kept ones is large
};

struct search_object_settings {
    uint32_t n_views;          // default 8192; 64 .. SEARCH_VIEWS_MAX
    enum search_choice choice; // default EVEN
    // Called every few tenths of a second, may be NULL; a return other than 0 abandons the build.
    int (*progress)(void *user, uint32_t n_done, uint32_t n_views);
    void *user;
};

enum search_preset { SEARCH_PRESET_DEFAULT, SEARCH_PRESET_GERMANN };

struct search_query {
    enum search_preset preset;
    uint32_t top; // answers wanted, 1 .. SEARCH_TOP_MAX; default 1. germann fits 12 at most
    uint32_t n_iterations; // simplex iterations of the germann preset; default 15
    bool refine;           // germann: fit the best views to the image; default true
    float threshold;       // an answer with less confidence is not `accepted`; default 0.9
    uint32_t n_coarse; // germann: 0 = fit all views; else the coarse pass picks so many; default 0
    // Ends a search: asked by any thread of the search, the longest pieces in between take some
    // tens of milliseconds; once true it must stay so. NULL (default): nobody is asked.
    bool (*stopped)(void *user);
    void *user;
};

void search_settings_default(struct search_settings *out);
void search_object_settings_default(struct search_object_settings *out);
void search_query_default(struct search_query *out);

// NULL, or the name of the field that is out of its range and, in *out_why, what is wrong with it.
const char *search_object_settings_check(const struct search_object_settings *settings,
                                         const char **out_why);
const char *search_query_check(const struct search_query *query, const char **out_why);

#endif
