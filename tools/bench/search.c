// SPDX-License-Identifier: Apache-2.0
// posed-bench search: times the pose search on a synthetic scene, or counts over many scenes how
// often and how well it finds the object (search_score.c).
#include <argp.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "capture/cloud/cloud.h"
#include "proto/clock.h"
#include "tools/argument.h"
#include "tools/bench/bench.h"
#include "tools/bench/household.h"
#include "tools/bench/search.h"

enum {
    OPTION_COARSE = 1000,
    OPTION_SCENES,
    OPTION_VISIBLE,
    OPTION_ABSENT,
    OPTION_MIXED,
    OPTION_GREEDY,
    OPTION_EACH,
    OPTION_CLEAN,
    OPTION_REQUIREMENTS,
    OPTION_FIT,
    OPTION_BARE,
    OPTION_SENSOR,
    OPTION_CURVE,
    OPTION_OUTLINE,
    OPTION_FRAME,
    OPTION_PLACEMENT,
};

static const struct argp_option argp_options[] = {
    {"model", 'm', "FILE", 0,
     "PLY mesh, or elbow, drill, mug, duck (built in; default duck), random:SEED (assembled), or "
     "household:SEED",
     0},
    {"views", 'v', "N", 0, "reference views (default 8192; germann 2048)", 0},
    {"greedy", OPTION_GREEDY, NULL, 0, "views by the paper's choice instead of even ones", 0},
    {"preset", 'p', "default|germann", 0, "germann: the paper's search; default: the whole of ours",
     0},
    {"iterations", 'i', "N", 0, "simplex iterations of germann (default 15)", 0},
    {"coarse", OPTION_COARSE, "N", 0, "germann: fit about N views that a coarse pass picks", 0},
    {"backend", 'b', "auto|cpu|cuda", 0, "what computes", 0},
    {"threads", 't', "N", 0, "CPU threads (0 = all)", 0},
    {"repeat", 'r', "N", 0, "timed requests (default 20)", 0},
    {"scenes", OPTION_SCENES, "N", 0, "score N scenes instead of timing one", 0},
    {"visible", OPTION_VISIBLE, "A:B", 0, "share of the object that is seen (default 0.6:1)", 0},
    {"absent", OPTION_ABSENT, NULL, 0, "scenes without the object: false accepts", 0},
    {"mixed", OPTION_MIXED, NULL, 0,
     "scenes in turn: 60 % and more, 40 to 60, 25 to 40 visible, absent: how far confidence holds",
     0},
    {"requirements", OPTION_REQUIREMENTS, "N", 0,
     "the table of requirements: --scenes of each kind for the model (if given), else for the four "
     "built in and random:1001 to random:1000+N",
     0},
    {"fit", OPTION_FIT, "N", 0,
     "fit the weights of the score and the curve of the confidence over --scenes (default 8) of "
     "each of N objects, random: and household: of 1 to N in pairs, and print them beside the "
     "present ones",
     0},
    {"curve", OPTION_CURVE, NULL, 0, "with --fit: the curve of the confidence alone", 0},
    {"sensor", OPTION_SENSOR, "SENSOR", 0,
     "of the scenes: kind (default: a Kinect that loses pixels), registered, tof, unkind (one of "
     "these two by the scene's seed), matched (raw, registered to a longer focal length), any "
     "(kind and unkind in turn)",
     0},
    {"placement", OPTION_PLACEMENT, "PLACEMENT", 0,
     "of the scenes' things: free (default: in any rotation, often on a corner, and into each "
     "other), resting (most lie on a face or on a box, some lean, and what is beside the object "
     "touches it at most), any "
     "(both in turn; default of --fit). What is required is said of free ones",
     0},
    {"outline", OPTION_OUTLINE, NULL, 0,
     "print what the images show along the objects' outlines instead of searching", 0},
    {"frame", OPTION_FRAME, "DIR", 0,
     "search a real frame: depth.png, calibration.txt, NAME.ply and NAME.pose.txt", 0},
    {"clean", OPTION_CLEAN, NULL, 0, "scenes without the sensor's noise and shadows", 0},
    {"no-refine", OPTION_BARE, NULL, 0, "germann: the bare view, as the paper has it", 0},
    {"each", OPTION_EACH, NULL, 0, "one line a scene", 0},
    {"seed", 's', "N", 0, "of the scenes (default 1)", 0},
    {"json", 'j', NULL, 0, "JSON on stdout", 0},
    {0},
};

static void take_sensor(struct argp_state *state, const char *text, struct bench_search_options *o)
{
    static const char *const names[] = {"kind",    "registered", "tof", "unkind",
                                        "matched", "any",        NULL};
    const int chosen = argument_choose(state, "sensor", text, names);
    o->any_sensor = chosen == TESTSCENE_N_SENSORS;
    if (!o->any_sensor)
        o->sensor = (enum testscene_sensor)chosen;
}

static void take_placement(struct argp_state *state, const char *text,
                           struct bench_search_options *o)
{
    static const char *const names[] = {"free", "resting", "any", NULL};
    const int chosen = argument_choose(state, "placement", text, names);
    o->any_placement = chosen == TESTSCENE_N_PLACEMENTS;
    if (!o->any_placement)
        o->placement = (enum testscene_placement)chosen;
    o->placement_chosen = true;
}

static void take_visible(struct argp_state *state, const char *text, struct bench_search_options *o)
{
    int end = 0;
    if (sscanf(text, "%f:%f%n", &o->visible_min, &o->visible_max, &end) != 2 || text[end] ||
        !(o->visible_min >= 0 && o->visible_max <= 1 && o->visible_min < o->visible_max))
        argp_error(state, "--visible %s: A:B is wanted, shares from 0 to 1, A below B", text);
}

// The option that is on or off, NULL: another one.
static bool *flag_of(int key, struct bench_search_options *o)
{
    switch (key) {
    case OPTION_ABSENT:
        return &o->absent;
    case OPTION_MIXED:
        return &o->mixed;
    case OPTION_GREEDY:
        return &o->greedy;
    case OPTION_EACH:
        return &o->each;
    case OPTION_CLEAN:
        return &o->clean;
    case OPTION_CURVE:
        return &o->curve;
    case OPTION_OUTLINE:
        return &o->outline;
    case OPTION_BARE:
        return &o->bare;
    case 'j':
        return &o->json;
    default:
        return NULL;
    }
}

static error_t parse_option(int key, char *text, struct argp_state *state)
{
    static const char *const presets[] = {"default", "germann", NULL};
    struct bench_search_options *o = state->input;
    bool *flag = flag_of(key, o);
    if (flag) {
        *flag = true;
        return 0;
    }
    switch (key) {
    case 'm':
        o->model = text;
        if (strncmp(text, "random:", 7) == 0)
            argument_count(state, "model random:SEED, SEED", text + 7, 0, UINT64_MAX);
        if (strncmp(text, "household:", 10) == 0)
            argument_count(state, "model household:SEED, SEED", text + 10, 0, UINT64_MAX);
        break;
    case 'v':
        o->n_views = (uint32_t)argument_count(state, "views", text, 64, SEARCH_VIEWS_MAX);
        break;
    case 'p':
        o->preset = (enum search_preset)argument_choose(state, "preset", text, presets);
        break;
    case 'i':
        o->n_iterations = (uint32_t)argument_count(state, "iterations", text, 1, 1000);
        break;
    case OPTION_COARSE:
        o->n_coarse = (uint32_t)argument_count(state, "coarse", text, 0, SEARCH_VIEWS_MAX);
        break;
    case 'b':
        o->backend = (enum gpu_backend)argument_choose(state, "backend", text, bench_backends);
        break;
    case 't':
        o->n_threads = (uint32_t)argument_count(state, "threads", text, 0, 1024);
        break;
    case 'r':
        o->n_repeats = (uint32_t)argument_count(state, "repeat", text, 1, 100000);
        break;
    case OPTION_SCENES:
        o->n_scenes = (uint32_t)argument_count(state, "scenes", text, 1, 1000000);
        break;
    case OPTION_VISIBLE:
        take_visible(state, text, o);
        break;
    case OPTION_REQUIREMENTS:
        o->n_requirements = (uint32_t)argument_count(state, "requirements", text, 1, 10000);
        break;
    case OPTION_FIT:
        o->n_fitted = (uint32_t)argument_count(state, "fit", text, 2, 10000);
        break;
    case OPTION_SENSOR:
        take_sensor(state, text, o);
        break;
    case OPTION_PLACEMENT:
        take_placement(state, text, o);
        break;
    case OPTION_FRAME:
        o->frame = text;
        break;
    case 's':
        o->seed = (uint32_t)argument_count(state, "seed", text, 0, 4000000000);
        break;
    default:
        return ARGP_ERR_UNKNOWN;
    }
    return 0;
}

static int load_model(const char *name, const struct log_sink *log, struct testscene_mesh *out)
{
    static const char *const names[TESTSCENE_N_OBJECTS] = {"elbow", "drill", "mug", "duck"};
    for (int i = 0; i < TESTSCENE_N_OBJECTS; i++)
        if (strcmp(name, names[i]) == 0)
            return testscene_mesh_make((enum testscene_object)i, out);
    if (strncmp(name, "random:", 7) == 0)
        return testscene_mesh_assemble(strtoull(name + 7, NULL, 10), out);
    if (strncmp(name, "household:", 10) == 0)
        return household_make(strtoull(name + 10, NULL, 10), out);
    struct cloud cloud;
    int err = cloud_read(name, log, &cloud);
    if (err)
        return err;
    out->vertices_m = malloc((cloud.n_points + 1) * 3 * sizeof *out->vertices_m);
    out->triangles = cloud.triangles;
    out->n_triangles = cloud.n_triangles;
    out->n_vertices = cloud.n_points;
    for (size_t i = 0; out->vertices_m && i < cloud.n_points; i++) {
        out->vertices_m[3 * i] = cloud.x_m[i];
        out->vertices_m[3 * i + 1] = cloud.y_m[i];
        out->vertices_m[3 * i + 2] = cloud.z_m[i];
    }
    cloud.triangles = NULL; // ours now
    cloud_free(&cloud);
    return out->vertices_m ? 0 : -ENOMEM;
}

int bench_search_run(struct search *search, const struct search_object *object,
                     const struct testscene *scene, const struct bench_search_options *o,
                     struct search_answer *out)
{
    struct search_image image = {
        .frame = {scene->depth, scene->camera.width_px, scene->camera.height_px, 1000, 0},
        .camera = scene->camera};
    struct search_query query;
    search_query_default(&query);
    query.preset = o->preset;
    query.n_iterations = o->n_iterations;
    query.n_coarse = o->n_coarse;
    query.refine = !o->bare;
    return search_run(search, object, &image, &query, out, NULL);
}

struct testscene_settings bench_search_scene(const struct bench_search_options *o, uint32_t index)
{
    struct testscene_settings settings = {
        .kind = o->preset == SEARCH_PRESET_GERMANN ? TESTSCENE_KIND_NEAREST : TESTSCENE_KIND_TABLE,
        .visible_min = o->visible_min,
        .visible_max = o->visible_max,
        .absent = o->absent,
        .noise = !o->clean,
        .sensor = o->sensor,
        .placement = o->placement,
        .seed = (uint64_t)o->seed * 1000003 + index,
    };
    static const float least[] = {0.6f, 0.4f, 0.25f, 0.6f}, most[] = {1, 0.6f, 0.4f, 1};
    if (o->any_sensor)
        settings.sensor = index / 4 % 2 ? TESTSCENE_SENSOR_UNKIND : TESTSCENE_SENSOR_KIND;
    // As often with each share that is seen and each sensor, over objects whose seeds follow.
    if (o->any_placement)
        settings.placement = (o->seed + index + index / 4) % 2 ? TESTSCENE_PLACEMENT_RESTING
                                                               : TESTSCENE_PLACEMENT_FREE;
    if (o->mixed) {
        settings.visible_min = least[index % 4];
        settings.visible_max = most[index % 4];
        settings.absent = index % 4 == 3;
    }
    return settings;
}

static int time_requests(struct search *search, const struct bench_search_model *model,
                         const struct bench_search_options *o)
{
    const struct search_object *object = model->object;
    const double build_ms = model->build_ms;
    struct testscene_settings settings = bench_search_scene(o, 0);
    struct testscene scene;
    if (testscene_create(&model->mesh, &settings, &scene))
        return 1;
    struct search_object_info info;
    search_object_describe(object, &info);
    double *whole_us = malloc(o->n_repeats * sizeof *whole_us);
    double *stage_us[SEARCH_N_STAGES] = {NULL};
    for (int s = 0; s < SEARCH_N_STAGES; s++)
        stage_us[s] = malloc(o->n_repeats * sizeof **stage_us);
    struct search_answer answer = {0};
    int err = bench_search_run(search, object, &scene, o, &answer); // warms up
    for (uint32_t i = 0; i < o->n_repeats && !err; i++) {
        int64_t before = clock_monotonic_ns();
        err = bench_search_run(search, object, &scene, o, &answer);
        whole_us[i] = (double)(clock_monotonic_ns() - before) * 1e-3;
        for (int s = 0; s < SEARCH_N_STAGES; s++)
            stage_us[s][i] = (double)answer.stage_ms[s] * 1e3;
    }
    static const char *const names[SEARCH_N_STAGES] = {"prepare", "coarse", "fit", "refine"};
    if (err) {
        fprintf(stderr, "posed-bench: search failed: %s\n", strerror(-err));
    } else if (o->json) {
        struct bench_stats whole = bench_stats(whole_us, o->n_repeats);
        printf("{\"backend\": \"%s\", \"views\": %u, \"mean_pixels\": %.0f, \"build_ms\": %.1f, "
               "\"starts\": %u, \"compared\": %llu, \"request_ms\": {\"min\": %.4f, \"p50\": %.4f, "
               "\"p99\": %.4f}",
               search_description(search), info.n_views, (double)info.mean_pixels, build_ms,
               answer.n_starts, (unsigned long long)answer.n_compared, whole.min_us * 1e-3,
               whole.p50_us * 1e-3, whole.p99_us * 1e-3);
        for (int s = 0; s < SEARCH_N_STAGES; s++) {
            struct bench_stats stats = bench_stats(stage_us[s], o->n_repeats);
            printf(", \"%s_ms\": {\"min\": %.4f, \"p50\": %.4f}", names[s], stats.min_us * 1e-3,
                   stats.p50_us * 1e-3);
        }
        printf("}\n");
    } else {
        struct bench_stats whole = bench_stats(whole_us, o->n_repeats);
        printf("%s\n%u views of %.0f pixels, %.1f degrees apart, built in %.0f ms\n",
               search_description(search), info.n_views, (double)info.mean_pixels,
               (double)info.spacing_rad * 180 / M_PI, build_ms);
        printf("%-10s %10s %10s %10s  (ms, %u requests, %u start points)\n", "", "min", "p50",
               "p99", o->n_repeats, answer.n_starts);
        printf("%-10s %10.3f %10.3f %10.3f\n", "request", whole.min_us * 1e-3, whole.p50_us * 1e-3,
               whole.p99_us * 1e-3);
        for (int s = 0; s < SEARCH_N_STAGES; s++) {
            struct bench_stats stats = bench_stats(stage_us[s], o->n_repeats);
            printf("%-10s %10.3f %10.3f %10.3f\n", names[s], stats.min_us * 1e-3,
                   stats.p50_us * 1e-3, stats.p99_us * 1e-3);
        }
    }
    for (int s = 0; s < SEARCH_N_STAGES; s++)
        free(stage_us[s]);
    free(whole_us);
    testscene_free(&scene);
    return err ? 1 : 0;
}

int bench_search_open(struct search *search, const char *name, const struct bench_search_options *o,
                      struct bench_search_model *out)
{
    const struct log_sink log = {.write = bench_log_write};
    memset(out, 0, sizeof *out);
    if (load_model(name, &log, &out->mesh))
        return 1;
    struct search_mesh borrowed = {out->mesh.vertices_m, out->mesh.triangles, out->mesh.n_vertices,
                                   out->mesh.n_triangles};
    struct search_object_settings settings;
    search_object_settings_default(&settings);
    settings.n_views = o->n_views                           ? o->n_views
                       : o->preset == SEARCH_PRESET_GERMANN ? 2048
                                                            : SEARCH_VIEWS_DEFAULT;
    settings.choice = o->greedy ? SEARCH_CHOICE_GREEDY : SEARCH_CHOICE_EVEN;
    int64_t before = clock_monotonic_ns();
    int err = search_object_create(search, &borrowed, &settings, &out->object);
    out->build_ms = (double)(clock_monotonic_ns() - before) * 1e-6;
    return err ? 1 : 0;
}

void bench_search_close(struct search *search, struct bench_search_model *model)
{
    search_object_destroy(search, &model->object);
    testscene_mesh_free(&model->mesh);
}

int bench_search(int argc, char **argv)
{
    static const struct argp argp = {
        argp_options, parse_option, NULL, "Times the pose search, or scores it over many scenes.",
        NULL,         NULL,         NULL};
    struct bench_search_options o = {
        .n_iterations = 15, .n_repeats = 20, .seed = 1, .visible_min = 0.6f, .visible_max = 1};
    if (argp_parse(&argp, argc, argv, 0, NULL, &o))
        return 2;
    o.any_placement |= o.n_fitted > 0 && !o.placement_chosen;
    struct search *search = NULL;
    struct bench_search_model model = {0};
    struct search_settings settings;
    search_settings_default(&settings);
    settings.backend = o.backend;
    settings.n_threads = o.n_threads;
    settings.log.write = bench_log_write;
    if (search_open(&search, &settings))
        return 5;
    int status = 0;
    if (o.frame) {
        status = bench_search_frame(search, &o);
    } else if (o.n_fitted) {
        status = bench_search_fit(search, &o);
    } else if (o.n_requirements) {
        status = bench_search_requirements(search, &o);
    } else {
        status = bench_search_open(search, o.model ? o.model : "duck", &o, &model);
        if (!status)
            status = o.n_scenes ? bench_search_score(search, &model, &o)
                                : time_requests(search, &model, &o);
        bench_search_close(search, &model);
    }
    search_close(&search);
    return status;
}
