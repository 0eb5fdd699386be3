// SPDX-License-Identifier: Apache-2.0
#include "tools/bench/latency.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>

#include "proto/se3.h"
#include "tools/bench/testscene.h"

#define N_POINTS      3000
#define N_POINTS_MANY 1000000
#define FAR_M         1000.0f // the outlier: 10,000 times the set's own size
#define BOX_M         0.2f    // half a side, 0.55 m in front of the camera: 400 pixels
#define BOX_AWAY_M    0.55
#define WALL_M        1.5f
#define WIDE_PX       2048

static double uniform(uint64_t *state)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return (double)(*state >> 11) * 0x1p-53;
}

// Random points of a bumpy closed surface without symmetry, 0.1 m across, moved by T.
static int make_set(size_t n, uint64_t seed, const struct se3 *T, struct point_set *out)
{
    float *memory = malloc(3 * n * sizeof *memory);
    if (!memory)
        return -ENOMEM;
    for (size_t i = 0; i < n; i++) {
        double z = 2 * uniform(&seed) - 1, phi = 2 * M_PI * uniform(&seed), s = sqrt(1 - z * z);
        double d[3] = {s * cos(phi), s * sin(phi), z}, q[3];
        double r = 0.05 * (1 + 0.25 * sin(3 * d[0] + 1) + 0.2 * cos(4 * d[1] + 2 * d[2]));
        double p[3] = {r * d[0], 0.8 * r * d[1], 1.2 * r * d[2]};
        se3_apply(T, p, q);
        for (size_t k = 0; k < 3; k++)
            memory[k * n + i] = (float)q[k];
    }
    *out =
        (struct point_set){.x_m = memory, .y_m = memory + n, .z_m = memory + 2 * n, .n_points = n};
    return 0;
}

static int open_sets(struct latency_job *job, size_t n)
{
    const double twist[6] = {0.01, -0.008, 0.012, 0.2, -0.15, 0.1};
    struct se3 T = se3_exp(twist), identity = se3_identity();
    register_settings_default(&job->settings);
    int rc = make_set(n, 1, &identity, &job->sets[0]);
    return rc ? rc : make_set(n, 2, &T, &job->sets[1]);
}

static int open_registration(struct latency_job *job)
{
    struct register_config config;
    register_config_default(&config);
    config.backend = job->backend;
    config.yield = job->yield;
    config.log = job->log;
    return registration_open(&job->registration, &config);
}

static int open_register(struct latency_job *job)
{
    int rc = open_sets(job, N_POINTS);
    return rc ? rc : open_registration(job);
}

static int open_many(struct latency_job *job)
{
    int rc = open_register(job);
    job->settings.start = REGISTER_START_MANY;
    return rc;
}

static int open_softassign(struct latency_job *job)
{
    int rc = open_register(job);
    job->settings.method = REGISTER_METHOD_SOFTASSIGN;
    return rc;
}

static int open_dense(struct latency_job *job)
{
    int rc = open_register(job);
    job->settings.form = REGISTER_FORM_DENSE;
    return rc;
}

static int open_large(struct latency_job *job)
{
    int rc = open_sets(job, N_POINTS_MANY);
    return rc ? rc : open_registration(job);
}

static int open_outlier(struct latency_job *job)
{
    int rc = open_large(job);
    if (rc == 0)
        for (int side = 0; side < 2; side++)
            ((float *)job->sets[side].x_m)[N_POINTS_MANY / 2] = FAR_M;
    return rc;
}

static int open_icp(struct latency_job *job)
{
    int rc = open_sets(job, N_POINTS_MANY / 10);
    job->settings.method = REGISTER_METHOD_ICP;
    job->settings.n_iterations = 20;
    return rc ? rc : open_registration(job);
}

static int run_register(struct latency_job *job)
{
    struct register_result result;
    return registration_run(job->registration, &job->sets[0], &job->sets[1], &job->settings,
                            &job->stop, &result, NULL);
}

static int open_first_register(struct latency_job *job)
{
    return open_sets(job, N_POINTS);
}

// As a daemon's first request does it.
static int run_first_register(struct latency_job *job)
{
    int rc = open_registration(job);
    if (rc == 0)
        rc = run_register(job);
    registration_close(&job->registration);
    return rc;
}

static int open_searching(struct latency_job *job)
{
    struct search_settings settings;
    search_settings_default(&settings);
    settings.backend = job->backend;
    settings.yield = job->yield;
    settings.log = job->log;
    return search_open(&job->search, &settings);
}

static int tell_progress(void *user, uint32_t n_done, uint32_t n_views)
{
    (void)n_done;
    (void)n_views;
    return __atomic_load_n(&((struct latency_job *)user)->stop.requested, __ATOMIC_ACQUIRE);
}

static int make_object(struct latency_job *job, const struct testscene_mesh *mesh)
{
    struct search_mesh borrowed = {mesh->vertices_m, mesh->triangles, mesh->n_vertices,
                                   mesh->n_triangles};
    struct search_object_settings settings;
    search_object_settings_default(&settings);
    settings.progress = tell_progress;
    settings.user = job;
    if (job->n_views)
        settings.n_views = job->n_views;
    return search_object_create(job->search, &borrowed, &settings, &job->object);
}

static int open_search(struct latency_job *job)
{
    struct testscene_mesh mesh = {0};
    struct testscene scene;
    const struct testscene_settings settings = {
        .visible_min = 0.6f, .visible_max = 1, .noise = true, .seed = 1};
    int rc = open_searching(job);
    if (rc == 0)
        rc = testscene_mesh_make(TESTSCENE_OBJECT_DUCK, &mesh);
    if (rc == 0)
        rc = testscene_create(&mesh, &settings, &scene);
    if (rc == 0) {
        job->camera = scene.camera;
        job->depth = scene.depth; // ours now
        scene.depth = NULL;
        testscene_free(&scene);
        rc = make_object(job, &mesh);
    }
    testscene_mesh_free(&mesh);
    return rc;
}

// A box of twelve triangles near the camera, in front of a wall.
static int open_box_in(struct latency_job *job, const struct intrinsics *camera)
{
    float vertices_m[24];
    uint32_t triangles[] = {0, 1, 3, 0, 3, 2, 4, 7, 5, 4, 6, 7, 0, 5, 1, 0, 4, 5,
                            2, 3, 7, 2, 7, 6, 0, 2, 6, 0, 6, 4, 1, 7, 3, 1, 5, 7};
    for (int i = 0; i < 8; i++)
        for (int k = 0; k < 3; k++)
            vertices_m[3 * i + k] = (i >> k & 1 ? BOX_M : -BOX_M) * (1 - 0.2f * (float)k);
    const struct testscene_mesh mesh = {vertices_m, triangles, 8, 12, 8, 12};
    const size_t n_px = (size_t)camera->width_px * camera->height_px;
    const double twist[6] = {0, 0, 0, 0.4, 0.6, 0.2};
    struct se3 T = se3_exp(twist);
    T.t_m[2] = BOX_AWAY_M;
    job->camera = *camera;
    float *z_m = malloc(n_px * sizeof *z_m);
    job->depth = malloc(n_px * sizeof *job->depth);
    int rc = z_m && job->depth ? open_searching(job) : -ENOMEM;
    if (rc == 0)
        rc = make_object(job, &mesh);
    if (rc == 0)
        rc = search_draw(job->object, camera, &T, z_m);
    for (size_t i = 0; rc == 0 && i < n_px; i++)
        job->depth[i] = (uint16_t)lrintf(1000 * (z_m[i] > 0 ? z_m[i] : WALL_M));
    free(z_m);
    return rc;
}

static int open_box(struct latency_job *job)
{
    return open_box_in(job, &(struct intrinsics){525, 525, 319.5, 239.5, 640, 480});
}

static int open_wide(struct latency_job *job)
{
    const double f_px = 1680, c_px = (WIDE_PX - 1) / 2.0;
    return open_box_in(job, &(struct intrinsics){f_px, f_px, c_px, c_px, WIDE_PX, WIDE_PX});
}

static bool is_stopped(void *user)
{
    return __atomic_load_n(&((struct latency_job *)user)->stop.requested, __ATOMIC_ACQUIRE);
}

static int search_with(struct latency_job *job, enum search_preset preset)
{
    const struct search_image image = {
        .frame = {job->depth, job->camera.width_px, job->camera.height_px, 1000, 0},
        .camera = job->camera};
    struct search_query query;
    struct search_answer answer;
    search_query_default(&query);
    query.preset = preset;
    query.stopped = is_stopped;
    query.user = job;
    return search_run(job->search, job->object, &image, &query, &answer, NULL);
}

static int run_search(struct latency_job *job)
{
    return search_with(job, SEARCH_PRESET_DEFAULT);
}

static int run_germann(struct latency_job *job)
{
    return search_with(job, SEARCH_PRESET_GERMANN);
}

static void close_search(struct latency_job *job)
{
    if (job->search)
        search_object_destroy(job->search, &job->object);
    search_close(&job->search);
}

static int open_nothing(struct latency_job *job)
{
    (void)job;
    return 0;
}

static int run_first_search(struct latency_job *job)
{
    job->n_views = 256;
    int rc = open_box(job);
    if (rc == 0)
        rc = run_search(job);
    close_search(job);
    free(job->depth);
    job->depth = NULL;
    return rc;
}

static int run_object(struct latency_job *job)
{
    struct testscene_mesh mesh;
    int rc = testscene_mesh_make(TESTSCENE_OBJECT_DUCK, &mesh);
    if (rc == 0)
        rc = make_object(job, &mesh);
    search_object_destroy(job->search, &job->object);
    testscene_mesh_free(&mesh);
    return rc;
}

const struct latency_work latency_works[] = {
    {"register", "EM-ICP of 3,000 points", open_register, run_register},
    {"many", "the same from everywhere", open_many, run_register},
    {"softassign", "Softassign of 3,000 points", open_softassign, run_register},
    {"dense", "EM-ICP of 3,000 points, dense form", open_dense, run_register},
    {"icp", "ICP of 100,000 points", open_icp, run_register},
    {"large", "EM-ICP of 1,000,000 points", open_large, run_register},
    {"outlier", "the same with a point a kilometre away", open_outlier, run_register},
    {"search", "search of an object with 8,192 views", open_search, run_search},
    {"germann", "the same, the paper's search", open_search, run_germann},
    {"box", "search of a box of 12 triangles near the camera", open_box, run_search},
    {"wide", "the same in 2048 x 2048 pixels", open_wide, run_search},
    {"object", "building an object's 8,192 views", open_searching, run_object},
    {"first-register", "a registration opened for each request", open_first_register,
     run_first_register},
    {"first-search", "a search opened for each request", open_nothing, run_first_search},
    {0},
};

void latency_work_close(struct latency_job *job)
{
    registration_close(&job->registration);
    close_search(job);
    for (int side = 0; side < 2; side++)
        free((void *)job->sets[side].x_m);
    free(job->depth);
}
