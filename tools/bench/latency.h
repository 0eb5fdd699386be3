// SPDX-License-Identifier: Apache-2.0
// The requests that posed-bench latency lets run beside the tracker.
#ifndef POSED_TOOLS_BENCH_LATENCY_H
#define POSED_TOOLS_BENCH_LATENCY_H

#include "gpu/base/yield.h"
#include "gpu/register/register.h"
#include "gpu/search/search.h"

// What a kind of request works on: filled by its open, freed by latency_work_close.
struct latency_job {
    enum gpu_backend backend;
    struct yield yield;
    struct log_sink log;
    struct register_stop stop; // `requested` ends a request
    struct registration *registration;
    struct register_settings settings;
    struct point_set sets[2];
    struct search *search;
    struct search_object *object;
    struct intrinsics camera;
    uint16_t *depth;
    uint32_t n_views;
};

struct latency_work {
    const char *name, *summary;
    // Makes the input, and what a daemon has open already. Both return 0 or a negative errno.
    int (*open)(struct latency_job *job);
    int (*run)(struct latency_job *job); // one request; -ECANCELED: ended by job->stop
};

extern const struct latency_work latency_works[]; // ends with name NULL

void latency_work_close(struct latency_job *job);

#endif
