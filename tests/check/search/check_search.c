// SPDX-License-Identifier: Apache-2.0
// Pose search: the loops of both twins against the same formulas one pixel after the other
// (scalar.h), and the twins against each other. All results are integers, or floats made of the
// same operations in the same order, so that every comparison is of bits. Whether the formulas are
// right is asked elsewhere: check_search_stages, check_*_reference.
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "gpu/search/context.h"
#include "gpu/search/cpu/start_points.h"
#include "proto/se3.h"
#include "tests/check/check.h"
#include "tests/check/search/scalar.h"
#include "tests/check/search/stages.h"
#include "tools/bench/testscene.h"

#define N_VIEWS 192

// ---- Inputs

enum fill {
    FILL_SCENE,
    FILL_RANDOM,
    FILL_NOTHING,
    FILL_ONE_PIXEL,
    FILL_STEP,
    FILL_GRAZING,
    N_FILLS
};
static const char *const fill_names[N_FILLS] = {"scene",     "random", "nothing valid",
                                                "one pixel", "step",   "grazing plane"};

static void fill_depth(enum fill fill, const struct testscene *scene, int width, int height,
                       float *out)
{
    for (int i = 0; i < width * height; i++) {
        int u = i % width, v = i / width;
        float value = 0;
        switch (fill) {
        case FILL_SCENE:
            value = (float)scene->depth[(v * 480 / height) * 640 + u * 640 / width] * 1e-3f;
            break;
        case FILL_RANDOM: // a third invalid, a few marked as larger than the object
            value = (float)check_uniform(0.5, 1.0) * (check_random() % 3 ? 1.f : 0.f);
            value = check_random() % 16 ? value : -value;
            break;
        case FILL_NOTHING:
            break;
        case FILL_ONE_PIXEL:
            value = u == width / 2 && v == height / 2 ? 0.7f : 0;
            break;
        case FILL_STEP:
            value = u < width / 2 ? 0.6f : 0.8f;
            break;
        case FILL_GRAZING:
            value = 0.4f + 2.f * (float)v / (float)height;
            break;
        case N_FILLS:
            break;
        }
        out[i] = value;
    }
}

static bool same(const void *a, const void *b, size_t bytes)
{
    return memcmp(a, b, bytes) == 0;
}

// ---- The checks

struct twin {
    struct search *search;
    struct search_object *object;
};

static void check_objects(const struct search_object *a, const struct search_object *b)
{
    check_case("reference views of both twins");
    check_that(a->n_views == b->n_views && a->n_chunks == b->n_chunks, "%u chunks, %u", a->n_chunks,
               b->n_chunks);
    if (a->n_views != b->n_views || a->n_chunks != b->n_chunks)
        return;
    check_that(same(a->views, b->views, a->n_views * sizeof *a->views), "views differ");
    check_that(same(a->chunk_offset, b->chunk_offset, a->n_chunks * sizeof *a->chunk_offset),
               "offsets differ");
    check_that(
        same(a->chunk_pairs, b->chunk_pairs, a->n_chunks * SEARCH_CHUNK * sizeof *a->chunk_pairs),
        "pixels differ");
    check_that(same(a->coarse, b->coarse, a->n_views * sizeof *a->coarse), "coarse maps differ");
    check_that(same(a->points, b->points,
                    a->n_views * (SEARCH_POINTS + SEARCH_RING_POINTS) * sizeof *a->points),
               "points differ");
}

static void check_twin(const struct twin *twin, const float *z_m, const struct intrinsics *camera,
                       const struct search_frame *starts, uint32_t n_starts, const char *name)
{
    const struct search_ops *ops = twin->search->ops;
    const struct search_camera cam = {(float)camera->fx_px,  (float)camera->fy_px,
                                      (float)camera->cx_px,  (float)camera->cy_px,
                                      (int)camera->width_px, (int)camera->height_px};
    struct search_depth depth = {z_m, *camera};
    uint32_t n = twin->object->n_views;
    // The plain evaluation reads no further than the last chunk's masked end.
    uint32_t *expected = calloc(SCALAR_WINDOW_PIXELS + SEARCH_CHUNK, sizeof *expected);
    struct search_fit *fits = malloc(n * sizeof *fits);
    struct search_hit *hits = malloc(n_starts * SCALAR_N_KEEP * sizeof *hits);
    check_that(ops->image(twin->search->device, &depth) == 0, "%s image", name);
    for (int run = 0; run < 2; run++) { // the second run must give the same bits
        uint32_t *window = check_alloc(SCALAR_WINDOW_PIXELS * sizeof *window);
        check_that(stage_window(twin->search, &starts[0], window) == 0, "%s window", name);
        scalar_window(z_m, &cam, &starts[0], expected);
        check_that(same(window, expected, SCALAR_WINDOW_PIXELS * sizeof *window),
                   "%s window differs", name);
        check_free(window);

        struct search_fit *got = check_alloc(n * sizeof *got);
        check_that(stage_fit(twin->search, twin->object, &starts[0], NULL, n, 15, got) == 0,
                   "%s fit", name);
        scalar_fit(twin->object, expected, 15, fits);
        check_that(same(got, fits, n * sizeof *got), "%s fit differs", name);
        check_free(got);
        uint32_t few[3] = {n - 1, 0, n / 2};
        struct search_fit *listed = check_alloc(3 * sizeof *listed);
        check_that(stage_fit(twin->search, twin->object, &starts[0], few, 3, 15, listed) == 0,
                   "%s fit of a list", name);
        for (int i = 0; i < 3; i++)
            check_that(same(&listed[i], &fits[few[i]], sizeof *listed), "%s listed view %u differs",
                       name, few[i]);
        check_free(listed);
        uint32_t best[3];
        struct search_fit least[3];
        check_that(ops->fit_best(twin->search->device, twin->object, &starts[0], NULL, n, 15, 3,
                                 best, least) == 0,
                   "%s best fits", name);
        for (int i = 0; i < 3; i++) {
            uint32_t wanted = n; // a plain selection: the smallest that is not there yet
            for (uint32_t j = 0; j < n; j++) {
                bool there = false;
                for (int k = 0; k < i; k++)
                    there |= best[k] == j;
                wanted = !there && (wanted == n || fits[j].error_px < fits[wanted].error_px)
                             ? j
                             : wanted;
            }
            check_that(best[i] == wanted, "%s best %d: %u instead of %u", name, i, best[i], wanted);
            check_that(same(&least[i], &fits[wanted], sizeof *least), "%s best %d differs", name,
                       i);
        }

        struct search_hit *found = check_alloc(n_starts * SCALAR_N_KEEP * sizeof *found);
        check_that(ops->scan(twin->search->device, twin->object, starts, n_starts, SCALAR_N_KEEP,
                             found) == 0,
                   "%s scan", name);
        scalar_scan(z_m, &cam, twin->object, starts, n_starts, hits);
        check_that(same(found, hits, n_starts * SCALAR_N_KEEP * sizeof *found), "%s scan differs",
                   name);
        check_free(found);
    }
    free(expected);
    free(fits);
    free(hits);
}

static void check_images(const struct twin *twins, size_t n_twins, const struct testscene *scene)
{
    static const int sizes[][2] = {{640, 480}, {31, 17}, {33, 64}, {1, 1}};
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++)
        for (int fill = 0; fill < N_FILLS; fill++) {
            int width = sizes[s][0], height = sizes[s][1];
            double f = 0.9 * width;
            struct intrinsics camera = {
                f, f, (width - 1) / 2.0, (height - 1) / 2.0, (uint32_t)width, (uint32_t)height};
            float *z_m = malloc((size_t)(width * height) * sizeof *z_m);
            fill_depth(fill, scene, width, height, z_m);
            check_case("%s %d x %d", fill_names[fill], width, height);
            // 11: more than one block of the CPU's, the last of them not full.
            struct search_frame starts[11];
            const uint32_t n_starts = fill == 0 ? 11 : 4;
            for (uint32_t i = 0; i < n_starts; i++) {
                float point[3] = {(float)check_uniform(-0.3, 0.3), (float)check_uniform(-0.2, 0.2),
                                  (float)check_uniform(0.5, 0.9)};
                starts[i] = search_frame_at(point, twins[0].object->info.map_px_m);
                float normal[3] = {(float)check_uniform(-0.6, 0.6), (float)check_uniform(-0.6, 0.6),
                                   -0.7f};
                if (i % 2)
                    memcpy(starts[i].normal, normal, sizeof normal);
            }
            for (size_t t = 0; t < n_twins; t++)
                check_twin(&twins[t], z_m, &camera, starts, n_starts, twins[t].search->ops->name);
            free(z_m);
        }
}

// ---- Whole requests

static bool same_pose(const struct search_pose *a, const struct search_pose *b)
{
    return same(&a->T_camera_model, &b->T_camera_model, sizeof a->T_camera_model) &&
           same(&a->score, &b->score, sizeof a->score) &&
           same(&a->confidence, &b->confidence, sizeof a->confidence) &&
           same(&a->visible, &b->visible, sizeof a->visible) &&
           same(&a->residual_rms_m, &b->residual_rms_m, sizeof a->residual_rms_m) &&
           a->n_pixels == b->n_pixels && a->view == b->view && a->accepted == b->accepted;
}

// Every twin, twice: the first twin's answer to the bit.
static void check_request(const struct twin *twins, size_t n_twins,
                          const struct search_image *image)
{
    struct search_query query;
    search_query_default(&query);
    query.top = SEARCH_TOP_MAX;
    struct search_answer first = {0};
    int first_err = 0;
    for (size_t i = 0; i < 2 * n_twins; i++) {
        const struct twin *twin = &twins[i / 2];
        const char *name = twin->search->ops->name;
        struct search_answer answer;
        int err = search_run(twin->search, twin->object, image, &query, &answer, NULL);
        if (i == 0) {
            first = answer;
            first_err = err;
            check_that(err == 0 || err == -ENODATA, "%s: %d", name, err);
            continue;
        }
        check_that(err == first_err, "%s: %d instead of %d", name, err, first_err);
        if (err || first_err)
            continue;
        check_that(answer.n_starts == first.n_starts, "%s: %u start points instead of %u", name,
                   answer.n_starts, first.n_starts);
        check_that(answer.n_poses == first.n_poses, "%s: %u poses instead of %u", name,
                   answer.n_poses, first.n_poses);
        for (uint32_t k = 0; k < answer.n_poses && k < first.n_poses; k++)
            check_that(same_pose(&answer.poses[k], &first.poses[k]),
                       "%s pose %u: score %.9g view %u pixels %u instead of %.9g %u %u", name, k,
                       (double)answer.poses[k].score, answer.poses[k].view,
                       answer.poses[k].n_pixels, (double)first.poses[k].score, first.poses[k].view,
                       first.poses[k].n_pixels);
    }
}

// The first scene in n_kinds ways, all others as they are.
static void check_requests(const struct twin *twins, size_t n_twins, const char *name,
                           const struct testscene_mesh *mesh, uint32_t n_kinds)
{
    static const char *const kinds[] = {"whole", "region", "mask", "nothing", "33 x 64", "1 x 1"};
    for (uint64_t seed = 1; seed <= 3; seed++) {
        struct testscene_settings settings = {.kind = TESTSCENE_KIND_TABLE,
                                              .visible_min = 0.4f,
                                              .visible_max = 1,
                                              .noise = true,
                                              .seed = seed};
        struct testscene scene;
        if (!check_that(testscene_create(mesh, &settings, &scene) == 0, "scene"))
            return;
        const uint32_t width = scene.camera.width_px, height = scene.camera.height_px;
        uint8_t *mask = malloc(width * height);
        for (uint32_t i = 0; i < width * height; i++)
            mask[i] = i % 7 > 0;
        uint16_t *none = calloc(width * height, sizeof *none);
        for (size_t kind = 0; kind < (seed == 1 ? n_kinds : 1u); kind++) {
            check_case("request %s, %s, scene %u", kinds[kind], name, (unsigned)seed);
            struct search_image image = {.frame = {scene.depth, width, height, 1000, 0},
                                         .camera = scene.camera};
            if (kind == 1) {
                image.u0 = width / 5;
                image.v0 = height / 7;
                image.u1 = width - 31;
                image.v1 = height - 17;
            }
            image.mask = kind == 2 ? mask : NULL;
            image.frame.depth = kind == 3 ? none : scene.depth;
            if (kind >= 4) { // rows of the picture read as smaller ones: a jumble, the same for all
                image.frame.width_px = image.camera.width_px = kind == 4 ? 33 : 1;
                image.frame.height_px = image.camera.height_px = kind == 4 ? 64 : 1;
                image.camera.fx_px = image.camera.fy_px = kind == 4 ? 40 : 1;
                image.camera.cx_px = image.camera.width_px * 0.5;
                image.camera.cy_px = image.camera.height_px * 0.5;
                image.frame.depth = scene.depth + width * height / 2 + width / 2;
            }
            check_request(twins, n_twins, &image);
        }
        free(mask);
        free(none);
        testscene_free(&scene);
    }
}

// Opens both twins, as far as there are two, with an object of this mesh. Returns how many, 0 when
// that failed.
static size_t open_twins(const struct search_mesh *mesh, uint32_t n_views, struct twin twins[2])
{
    static const enum gpu_backend backends[2] = {GPU_BACKEND_CPU, GPU_BACKEND_CUDA};
    struct search_object_settings object_settings;
    search_object_settings_default(&object_settings);
    object_settings.n_views = n_views;
    size_t n_twins = 0;
    for (int i = 0; i < 2; i++) {
        struct search_settings settings;
        search_settings_default(&settings);
        settings.backend = backends[i];
        settings.log = check_log();
        int err = search_open(&twins[n_twins].search, &settings);
        if (err == -ENODEV || err == -ENOTSUP) {
            check_skip("no CUDA device: the CUDA twin is not checked");
            continue;
        }
        err = err ? err
                  : search_object_create(twins[n_twins].search, mesh, &object_settings,
                                         &twins[n_twins].object);
        if (!check_that(err == 0, "twin %d opens and builds: %d", i, err))
            return 0;
        n_twins++;
    }
    return n_twins;
}

static void close_twins(struct twin *twins, size_t n_twins)
{
    for (size_t i = 0; i < n_twins; i++) {
        search_object_destroy(twins[i].search, &twins[i].object);
        search_close(&twins[i].search);
    }
}

// A mug has many near symmetries, and the best pose is tried with each.
static void check_turned(void)
{
    struct testscene_mesh mug;
    struct twin twins[2];
    check_case("mug");
    if (!check_that(testscene_mesh_make(TESTSCENE_OBJECT_MUG, &mug) == 0, "mesh"))
        return;
    const struct search_mesh borrowed = {mug.vertices_m, mug.triangles, mug.n_vertices,
                                         mug.n_triangles};
    const size_t n_twins = open_twins(&borrowed, N_VIEWS, twins);
    for (size_t i = 0; i < n_twins; i++) {
        const struct search_near_symmetries *near_symmetries = &twins[i].object->near_symmetries;
        check_that(near_symmetries->n >= 6, "%u near symmetries", near_symmetries->n);
        check_that(memcmp(near_symmetries, &twins[0].object->near_symmetries,
                          sizeof *near_symmetries) == 0,
                   "same near symmetries");
    }
    check_requests(twins, n_twins, "mug", &mug, 1);
    close_twins(twins, n_twins);
    testscene_mesh_free(&mug);
}

// Few triangles that fill the picture; and a picture so large that the candidates' drawings do not
// find room in the device's memory at the same time.
static void check_near(void)
{
    float vertices_m[24];
    const uint32_t triangles[] = {0, 1, 3, 0, 3, 2, 4, 7, 5, 4, 6, 7, 0, 5, 1, 0, 4, 5,
                                  2, 3, 7, 2, 7, 6, 0, 2, 6, 0, 6, 4, 1, 7, 3, 1, 5, 7};
    for (int i = 0; i < 8; i++)
        for (int k = 0; k < 3; k++)
            vertices_m[3 * i + k] = (i >> k & 1 ? 0.2f : -0.2f) * (1 - 0.2f * (float)k);
    const struct search_mesh box = {vertices_m, triangles, 8, 12};
    struct twin twins[2];
    size_t n_twins = open_twins(&box, N_VIEWS, twins);
    const uint32_t sizes[2][2] = {{640, 480}, {1100, 900}};
    for (int s = 0; s < (check_is_short() ? 1 : 2) && n_twins > 0; s++) {
        const uint32_t width = sizes[s][0], height = sizes[s][1];
        const struct intrinsics camera = {0.82 * width, 0.82 * width, width * 0.5,
                                          height * 0.5, width,        height};
        const double twist[6] = {0, 0, 0, 0.4, 0.6, 0.2};
        struct se3 T = se3_exp(twist);
        T.t_m[2] = 0.55;
        float *z_m = malloc((size_t)width * height * sizeof *z_m);
        uint16_t *depth = malloc((size_t)width * height * sizeof *depth);
        check_case("box near the camera, %u x %u", width, height);
        check_that(search_draw(twins[0].object, &camera, &T, z_m) == 0, "picture");
        for (uint32_t i = 0; i < width * height; i++)
            depth[i] = (uint16_t)lrintf(1000 * (z_m[i] > 0 ? z_m[i] : 1.5f));
        const struct search_image image = {.frame = {depth, width, height, 1000, 0},
                                           .camera = camera};
        check_request(twins, n_twins, &image);
        free(z_m);
        free(depth);
    }
    close_twins(twins, n_twins);
}

struct timing {
    const struct twin *twin;
    struct search_frame frame;
};

static void time_fit(void *context)
{
    struct timing *t = context;
    const struct search *search = t->twin->search;
    uint32_t place[16]; // as many as the preset germann refines
    struct search_fit fits[16];
    check_that(search->ops->fit_best(search->device, t->twin->object, &t->frame, NULL,
                                     t->twin->object->n_views, 15, 16, place, fits) == 0,
               "fit");
}

static void bench(const struct twin *twin, const struct testscene *scene)
{
    float *z_m = malloc(640 * 480 * sizeof *z_m);
    fill_depth(FILL_SCENE, scene, 640, 480, z_m);
    struct search_depth depth = {z_m, scene->camera};
    float point[3] = {0, 0, 0.7f};
    struct timing timing = {twin, search_frame_at(point, twin->object->info.map_px_m)};
    check_that(twin->search->ops->image(twin->search->device, &depth) == 0, "image");
    char name[64];
    snprintf(name, sizeof name, "%s fit %u views, 15 iterations", twin->search->ops->name,
             twin->object->n_views);
    check_time(name, 20, time_fit, &timing);
    free(z_m);
}

int main(int argc, char **argv)
{
    check_begin(argc, argv);
    struct testscene_mesh mesh;
    if (testscene_mesh_make(TESTSCENE_OBJECT_DUCK, &mesh))
        return 1;
    struct testscene_settings scene_settings = {
        .visible_min = 0.5f, .visible_max = 1, .noise = true, .seed = 3};
    struct testscene scene;
    if (testscene_create(&mesh, &scene_settings, &scene))
        return 1;
    struct search_mesh borrowed = {mesh.vertices_m, mesh.triangles, mesh.n_vertices,
                                   mesh.n_triangles};
    struct twin twins[2];
    const size_t n_twins = open_twins(&borrowed, check_bench_wanted() ? 2048 : N_VIEWS, twins);
    if (n_twins == 0)
        return check_end();
    if (n_twins == 2)
        check_objects(twins[0].object, twins[1].object);
    check_images(twins, n_twins, &scene);
    check_requests(twins, n_twins, "duck", &mesh, check_is_short() ? 1 : 6);
    if (!check_is_short())
        check_turned();
    check_near();
    for (size_t i = 0; i < n_twins && check_bench_wanted(); i++)
        bench(&twins[i], &scene);
    close_twins(twins, n_twins);
    testscene_free(&scene);
    testscene_mesh_free(&mesh);
    return check_end();
}
