// SPDX-License-Identifier: Apache-2.0
// What search.c (options, times) and search_score.c (how often and how well) share.
#ifndef POSED_TOOLS_BENCH_SEARCH_H
#define POSED_TOOLS_BENCH_SEARCH_H

#include "tools/bench/testscene.h"

struct bench_search_options {
    const char *model; // file, or one of the built-in names; NULL: duck
    uint32_t n_views, n_iterations, n_coarse, n_threads, n_repeats, n_scenes, seed;
    uint32_t n_fitted;       // assembled objects to fit the weights of the score over; 0: not
    uint32_t n_requirements; // assembled objects in the table of requirements; 0: no table
    enum search_preset preset;
    enum gpu_backend backend;
    float visible_min, visible_max;
    bool absent, mixed, greedy, json, each;
    bool clean;        // scenes without noise
    bool bare;         // germann: not refined
    bool outline;      // what the images show along the outlines, instead of searching
    const char *frame; // folder of a real frame, or NULL
    enum testscene_sensor sensor;
    bool curve;      // fit the confidence alone
    bool any_sensor; // kind and unkind in turn
    enum testscene_placement placement;
    bool any_placement, placement_chosen; // free and resting in turn; by an option
};

// One model with its reference views.
struct bench_search_model {
    struct testscene_mesh mesh;
    struct search_object *object;
    double build_ms;
};

// Returns an exit status; the reason is on stderr. Close also after a failure.
__attribute__((warn_unused_result)) int bench_search_open(struct search *search, const char *name,
                                                          const struct bench_search_options *o,
                                                          struct bench_search_model *out);
void bench_search_close(struct search *search, struct bench_search_model *model);

__attribute__((warn_unused_result)) int bench_search_run(struct search *search,
                                                         const struct search_object *object,
                                                         const struct testscene *scene,
                                                         const struct bench_search_options *o,
                                                         struct search_answer *out);
struct testscene_settings bench_search_scene(const struct bench_search_options *o, uint32_t index);

// Scores o->n_scenes scenes of one model; the table of requirements. Return an exit status.
__attribute__((warn_unused_result)) int bench_search_score(struct search *search,
                                                           const struct bench_search_model *model,
                                                           const struct bench_search_options *o);
// Fits the weights of the score and the logistic curve of the confidence over o->n_fitted objects.
__attribute__((warn_unused_result)) int bench_search_fit(struct search *search,
                                                         const struct bench_search_options *o);
__attribute__((warn_unused_result)) int
bench_search_requirements(struct search *search, const struct bench_search_options *o);
// A folder's real frame (search_frame.c): a line for each object.
__attribute__((warn_unused_result)) int bench_search_frame(struct search *search,
                                                           const struct bench_search_options *o);

#endif
