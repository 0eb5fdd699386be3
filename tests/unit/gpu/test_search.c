// SPDX-License-Identifier: Apache-2.0
// The pose search as its callers see it: symmetry, files, finding, following.
#include <errno.h>
#include <limits.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "gpu/search/search.h"
#include "proto/se3.h"
#include "tools/bench/search_metrics.h"
#include "tools/bench/testscene.h"

// A sanitizer makes all of this twenty times slower: then it is run for its findings alone.
#ifdef POSED_SANITIZED
#define N_VIEWS  128
#define N_SCENES 1
#define N_FOUND  0
#define N_FITTED 1 // scenes of the paper's search
#else
#define N_VIEWS  2048
#define N_SCENES 8
#define N_FOUND  7
#define N_FITTED 4
#endif

static struct search *search;
static struct search_object *duck;
static struct testscene_mesh duck_mesh;

static int build(const struct testscene_mesh *mesh, uint32_t n_views, struct search_object **out)
{
    struct search_mesh borrowed = {mesh->vertices_m, mesh->triangles, mesh->n_vertices,
                                   mesh->n_triangles};
    struct search_object_settings settings;
    search_object_settings_default(&settings);
    settings.n_views = n_views;
    return search_object_create(search, &borrowed, &settings, out);
}

static int set_up(void **unused)
{
    (void)unused;
    struct search_settings settings;
    search_settings_default(&settings);
    settings.backend = GPU_BACKEND_CPU;
    if (search_open(&search, &settings) || testscene_mesh_make(TESTSCENE_OBJECT_DUCK, &duck_mesh))
        return -1;
    return build(&duck_mesh, N_VIEWS, &duck);
}

static int tear_down(void **unused)
{
    (void)unused;
    search_object_destroy(search, &duck);
    search_close(&search);
    testscene_mesh_free(&duck_mesh);
    return 0;
}

static struct search_image image_of(const struct testscene *scene)
{
    struct search_image image = {
        .frame = {scene->depth, scene->camera.width_px, scene->camera.height_px, 1000, 0},
        .camera = scene->camera};
    return image;
}

static int stop_at_once(void *user, uint32_t n_done, uint32_t n_views)
{
    assert_true(n_done <= n_views);
    ++*(int *)user;
    return 1;
}

static void a_build_can_be_abandoned(void **unused)
{
    (void)unused;
    int n_calls = 0;
    struct search_mesh mesh = {duck_mesh.vertices_m, duck_mesh.triangles, duck_mesh.n_vertices,
                               duck_mesh.n_triangles};
    struct search_object_settings settings = {
        .n_views = 2048, .progress = stop_at_once, .user = &n_calls};
    struct search_object *object;
    assert_int_equal(search_object_create(search, &mesh, &settings, &object), -ECANCELED);
    assert_null(object);
    assert_int_equal(n_calls, 1);
}

struct patience {
    int n_calls;
    double last_s, longest_s; // processor time: others may have the processor meanwhile
};

static double thread_s(void)
{
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

static int stop_in_the_choice(void *user, uint32_t n_done, uint32_t n_views)
{
    struct patience *patience = user;
    double now_s = thread_s();
    (void)n_done;
    (void)n_views;
    patience->longest_s = fmax(patience->longest_s, now_s - patience->last_s);
    patience->last_s = now_s;
    return ++patience->n_calls == 40;
}

// 2048 candidates are drawn in 8 batches; to compare all of them once takes half a second.
static void a_greedy_build_is_soon_abandoned(void **unused)
{
    (void)unused;
    struct patience patience = {.last_s = thread_s()};
    struct search_mesh mesh = {duck_mesh.vertices_m, duck_mesh.triangles, duck_mesh.n_vertices,
                               duck_mesh.n_triangles};
    struct search_object_settings settings = {.n_views = 1024,
                                              .choice = SEARCH_CHOICE_GREEDY,
                                              .progress = stop_in_the_choice,
                                              .user = &patience};
    struct search_object *object;
    assert_int_equal(search_object_create(search, &mesh, &settings, &object), -ECANCELED);
    assert_null(object);
    assert_int_equal(patience.n_calls, 40);
    assert_true(patience.longest_s < 2); // 0.02 s, tenfold under sanitizers; hours when unasked
}

static int stop_behind_the_views(void *user, uint32_t n_done, uint32_t n_views)
{
    return n_done == n_views && ++*(int *)user == 3;
}

// All views are drawn by then; what is left is to find its symmetry.
static void looking_for_symmetry_can_be_abandoned(void **unused)
{
    (void)unused;
    int n_calls = 0;
    struct search_mesh mesh = {duck_mesh.vertices_m, duck_mesh.triangles, duck_mesh.n_vertices,
                               duck_mesh.n_triangles};
    struct search_object_settings settings = {
        .n_views = 64, .progress = stop_behind_the_views, .user = &n_calls};
    struct search_object *object;
    assert_int_equal(search_object_create(search, &mesh, &settings, &object), -ECANCELED);
    assert_null(object);
    assert_int_equal(n_calls, 3);
}

// One valid pixel, a plane, noise, a camera whose y axis points up: an answer or none, no crash.
static void odd_images_are_survived(void **unused)
{
    (void)unused;
    uint16_t *depth = calloc(160 * 120, sizeof *depth);
    struct search_query query;
    search_query_default(&query);
    struct search_image image = {.frame = {depth, 160, 120, 1000, 0},
                                 .camera = {142, -142, 80, 60, 160, 120}};
    struct search_answer answer;
    for (int kind = 0; kind < 4; kind++)
        for (int preset = 0; preset < 2; preset++) {
            for (int i = 0; i < 160 * 120; i++)
                depth[i] = (uint16_t)(kind == 0   ? (i == 60 * 160 + 75 ? 800 : 0)
                                      : kind == 1 ? 1000
                                      : kind == 2 ? ((uint32_t)i * 2654435761u >> 20) + 300
                                                  : 65535);
            query.preset = (enum search_preset)preset;
            int err = search_run(search, duck, &image, &query, &answer, NULL);
            // The paper's start point looks at every fourth pixel: a lone one is no object.
            assert_int_equal(
                err, kind == 3 || (kind == 0 && preset == SEARCH_PRESET_GERMANN) ? -ENODATA : 0);
            for (uint32_t k = 0; k < answer.n_poses; k++)
                assert_false(answer.poses[k].accepted && kind != 2);
        }
    struct search_image tiny = {.frame = {depth, 1, 1, 1000, 0}, .camera = {1, 1, 0.5, 0.5, 1, 1}};
    depth[0] = 700;
    query.preset = SEARCH_PRESET_DEFAULT;
    assert_int_equal(search_run(search, duck, &tiny, &query, &answer, NULL), 0);
    free(depth);
}

struct asked {
    atomic_int n;
    int last; // from this question on the answer is yes
};

static bool is_asked_often(void *user)
{
    struct asked *asked = user;
    return atomic_fetch_add(&asked->n, 1) + 1 >= asked->last;
}

// At once, in the coarse pass, and in the middle of the views.
static void a_search_can_be_stopped(void **unused)
{
    (void)unused;
    static const struct {
        enum search_preset preset;
        int last, least, most;
    } cases[] = {
        {SEARCH_PRESET_DEFAULT, 1, 1, 1},
        {SEARCH_PRESET_DEFAULT, 2, 4, 200}, // each of at most 192 blocks of start points asks
        {SEARCH_PRESET_GERMANN, 1, 1, 1},
        {SEARCH_PRESET_GERMANN, 20, 20, N_VIEWS / 4}, // of N_VIEWS questions
    };
    uint16_t *depth = calloc(640 * 480, sizeof *depth);
    for (int v = 200; v < 300; v++)
        for (int u = 250; u < 350; u++)
            depth[v * 640 + u] = 700;
    const struct search_image image = {.frame = {depth, 640, 480, 1000, 0},
                                       .camera = {570, 570, 320, 240, 640, 480}};
    struct search_query query;
    struct search_answer answer;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct asked asked = {.last = cases[i].last};
        search_query_default(&query);
        query.preset = cases[i].preset;
        query.n_iterations = 1000;
        query.stopped = is_asked_often;
        query.user = &asked;
        assert_int_equal(search_run(search, duck, &image, &query, &answer, NULL), -ECANCELED);
        assert_int_equal(answer.n_poses, 0);
        assert_in_range(asked.n, cases[i].least, cases[i].most);
        // Nobody is asked for what comes after it.
        const int n_asked = asked.n;
        struct search_pose pose = {.T_camera_model = se3_identity()};
        pose.T_camera_model.t_m[2] = 0.7;
        const int err = search_follow(search, duck, &image, &pose);
        assert_true(err == 0 || err == -ENODATA);
        assert_int_equal(asked.n, n_asked);
    }
    // Between the candidates that are refined: behind the coarse pass, or the views.
    query.n_iterations = 15;
    for (int preset = 0; preset < 2; preset++) {
        struct asked asked = {.last = INT_MAX};
        query.preset = (enum search_preset)preset;
        query.user = &asked;
        assert_int_equal(search_run(search, duck, &image, &query, &answer, NULL), 0);
        struct asked again = {.last = asked.n - 1};
        query.user = &again;
        assert_int_equal(search_run(search, duck, &image, &query, &answer, NULL), -ECANCELED);
        assert_int_equal(answer.n_poses, 0);
    }
    query.stopped = NULL; // and it is not asked for ever
    assert_int_equal(search_run(search, duck, &image, &query, &answer, NULL), 0);
    free(depth);
}

static void symmetries_are_recognised(void **unused)
{
    (void)unused;
    struct search_object_info info;
    search_object_describe(duck, &info);
    assert_int_equal(info.symmetry, SEARCH_SYMMETRY_NONE);
    // The mug without its handle is a body of revolution about z.
    struct testscene_mesh mug;
    assert_int_equal(testscene_mesh_make(TESTSCENE_OBJECT_MUG, &mug), 0);
    struct search_object *object;
    size_t all = mug.n_triangles;
    mug.n_triangles = all - 2 * 24 * 16;
    assert_int_equal(build(&mug, 64, &object), 0);
    search_object_describe(object, &info);
    assert_int_equal(info.symmetry, SEARCH_SYMMETRY_REVOLUTION);
    assert_true(fabs(info.axis[2]) > 0.999);
    search_object_destroy(search, &object);
    mug.n_triangles = all;
    assert_int_equal(build(&mug, 64, &object), 0);
    search_object_describe(object, &info);
    assert_int_not_equal(info.symmetry, SEARCH_SYMMETRY_REVOLUTION);
    search_object_destroy(search, &object);
    testscene_mesh_free(&mug);
}

static double degrees_between(const struct se3 *a, const struct se3 *b)
{
    struct se3 d = se3_between(a, b);
    return se3_angle(&d) * 180 / M_PI;
}

// Scenes on a table, 60 % or more of the object seen: seven of eight found at least, each of them
// to a degree and 2 mm; the bits do not depend on the number of threads.
static void the_object_is_found(void **unused)
{
    (void)unused;
    struct search_settings settings;
    search_settings_default(&settings);
    settings.backend = GPU_BACKEND_CPU;
    settings.n_threads = 3;
    struct search *other;
    assert_int_equal(search_open(&other, &settings), 0);
    struct metric_points points = {duck_mesh.vertices_m, duck_mesh.n_vertices};
    uint32_t n_found = 0;
    for (uint64_t seed = 1; seed <= N_SCENES; seed++) {
        struct testscene_settings wanted = {
            .visible_min = 0.6f, .visible_max = 1, .noise = true, .seed = seed};
        struct testscene scene;
        assert_int_equal(testscene_create(&duck_mesh, &wanted, &scene), 0);
        struct search_image image = image_of(&scene);
        struct search_query query;
        search_query_default(&query);
        query.top = 3;
        struct search_answer answer, again;
        assert_int_equal(search_run(search, duck, &image, &query, &answer, NULL), 0);
        assert_int_equal(search_run(other, duck, &image, &query, &again, NULL), 0);
        memset(answer.stage_ms, 0, sizeof answer.stage_ms);
        memset(again.stage_ms, 0, sizeof again.stage_ms);
        assert_memory_equal(&answer, &again, sizeof answer);
        double add = metric_add(&points, &answer.poses[0].T_camera_model, &scene.T_camera_model);
        if (add < 0.02) {
            n_found++;
            assert_true(add < 0.002);
            assert_true(degrees_between(&answer.poses[0].T_camera_model, &scene.T_camera_model) <
                        1);
            assert_true(answer.poses[0].accepted);
            query.top = 1;
            for (int above = 0; above < 2 && n_found == 1; above++) {
                const float confidence = answer.poses[0].confidence;
                query.threshold = above ? nextafterf(confidence, 2) : confidence;
                assert_int_equal(search_run(search, duck, &image, &query, &again, NULL), 0);
                assert_true(again.poses[0].accepted == !above);
            }
            // The next frame: the camera a little farther.
            struct search_pose pose = answer.poses[0];
            for (int k = 0; k < 3; k++)
                pose.T_camera_model.t_m[k] += 0.006;
            assert_int_equal(search_follow(search, duck, &image, &pose), 0);
            assert_true(metric_add(&points, &pose.T_camera_model, &scene.T_camera_model) < 0.002);
        }
        testscene_free(&scene);
    }
    search_close(&other);
    print_message("found %u of %d\n", n_found, N_SCENES);
    assert_true(n_found + 1 > N_FOUND);
}

// The paper's search alone answers with a view, which is some degrees off; fitted to the image it
// is right to half a degree. With and without, the view and its error are the same.
static void germann_answers_with_view_and_fit(void **unused)
{
    (void)unused;
    uint32_t n_fitted = 0;
    for (uint64_t seed = 1; seed <= N_FITTED; seed++) {
        struct testscene_settings wanted = {.kind = TESTSCENE_KIND_NEAREST,
                                            .visible_min = 0.7f,
                                            .visible_max = 1,
                                            .noise = true,
                                            .seed = seed};
        struct testscene scene;
        assert_int_equal(testscene_create(&duck_mesh, &wanted, &scene), 0);
        const struct search_image image = image_of(&scene);
        const struct se3 *truth = &scene.T_camera_model;
        struct search_query query;
        search_query_default(&query);
        query.preset = SEARCH_PRESET_GERMANN;
        assert_true(query.refine);
        struct search_answer fitted, bare;
        assert_int_equal(search_run(search, duck, &image, &query, &fitted, NULL), 0);
        query.refine = false;
        assert_int_equal(search_run(search, duck, &image, &query, &bare, NULL), 0);
        assert_int_equal(fitted.n_poses, 1);
        assert_int_equal(bare.n_poses, 1);
        const struct search_pose *a = &fitted.poses[0], *b = &bare.poses[0];
        assert_memory_equal(&a->T_camera_view, &b->T_camera_view, sizeof a->T_camera_view);
        assert_memory_equal(&b->T_camera_model, &b->T_camera_view, sizeof b->T_camera_view);
        assert_int_equal(a->view, b->view);
        assert_true(a->error_px == b->error_px && a->error_px > 0);
        assert_true(degrees_between(&b->T_camera_model, truth) > 1);
        n_fitted += degrees_between(&a->T_camera_model, truth) < 0.5;
        testscene_free(&scene);
    }
    assert_in_range(n_fitted, N_FITTED - 1, N_FITTED);
}

static void the_measures_are_those_of_bop(void **unused)
{
    (void)unused;
    const float square[12] = {1, 1, 0, -1, 1, 0, -1, -1, 0, 1, -1, 0};
    struct metric_points points = {square, 4};
    struct se3 truth = se3_identity(), shifted = truth, turned = truth;
    shifted.t_m[2] = 0.5;
    const double quarter[6] = {0, 0, 0, 0, 0, M_PI / 2};
    turned = se3_exp(quarter);
    assert_true(fabs(metric_add(&points, &shifted, &truth) - 0.5) < 1e-9);
    assert_true(fabs(metric_add_s(&points, 1, &shifted, &truth) - 0.5) < 1e-9);
    assert_true(fabs(metric_add(&points, &turned, &truth) - 2) < 1e-9);
    assert_true(metric_add_s(&points, 1, &turned, &truth) < 1e-9);
    assert_true(fabs(metric_mssd(&points, NULL, 0, &turned, &truth) - 2) < 1e-9);
    assert_true(metric_mssd(&points, &turned, 1, &turned, &truth) < 1e-9);
    assert_true(fabs(metric_diameter(&points) - 2 * sqrt(2)) < 1e-6);
    // Five pixels: same, apart, only the truth, only the estimate, the estimate hidden.
    const float estimate[5] = {1, 1.1f, 0, 1, 2}, here[5] = {1, 1, 1, 0, 0},
                scene[5] = {1, 1, 1, 1, 1};
    assert_true(fabs(metric_vsd(estimate, here, scene, 5, 0.015, 0.02) - 3.0 / 4) < 1e-9);
    assert_true(metric_vsd(estimate, here, scene, 1, 0.015, 0.02) < 1e-9);
}

// As many views as asked for, apart from each other, and the same when built again.
static void views_can_be_chosen_greedily(void **unused)
{
    (void)unused;
    struct search_mesh mesh = {duck_mesh.vertices_m, duck_mesh.triangles, duck_mesh.n_vertices,
                               duck_mesh.n_triangles};
    struct search_object_settings settings;
    search_object_settings_default(&settings);
    settings.n_views = 64;
    settings.choice = SEARCH_CHOICE_GREEDY;
    struct search_object *object, *again;
    assert_int_equal(search_object_create(search, &mesh, &settings, &object), 0);
    assert_int_equal(search_object_create(search, &mesh, &settings, &again), 0);
    struct search_object_info info, same;
    search_object_describe(object, &info);
    search_object_describe(again, &same);
    assert_int_equal(info.n_views, 64);
    assert_true(info.spacing_rad > 0.1f);
    assert_memory_equal(&info.spacing_rad, &same.spacing_rad, sizeof info.spacing_rad);
    assert_memory_equal(&info.mean_pixels, &same.mean_pixels, sizeof info.mean_pixels);
    search_object_destroy(search, &object);
    search_object_destroy(search, &again);
}

static void objects_survive_a_file(void **unused)
{
    (void)unused;
    char path[] = "/tmp/posed-test-search-XXXXXX";
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    close(fd);
    assert_int_equal(search_object_save(duck, path, NULL), 0);
    struct search_object *loaded;
    assert_int_equal(search_object_load(search, path, &loaded), 0);
    struct testscene_settings wanted = {
        .visible_min = 0.6f, .visible_max = 1, .noise = true, .seed = 2};
    struct testscene scene;
    assert_int_equal(testscene_create(&duck_mesh, &wanted, &scene), 0);
    struct search_image image = image_of(&scene);
    struct search_query query;
    search_query_default(&query);
    struct search_answer a, b;
    assert_int_equal(search_run(search, duck, &image, &query, &a, NULL), 0);
    assert_int_equal(search_run(search, loaded, &image, &query, &b, NULL), 0);
    assert_memory_equal(a.poses, b.poses, sizeof a.poses);
    search_object_destroy(search, &loaded);
    testscene_free(&scene);

    // Any damage is noticed: a byte changed somewhere, the end missing, another version, no file.
    FILE *file = fopen(path, "r+b");
    assert_non_null(file);
    fseek(file, 0, SEEK_END);
    long size = ftell(file);
    for (int i = 0; i < 12; i++) {
        long at = i < 4 ? i * 5 : size / 12 * i;
        fseek(file, at, SEEK_SET);
        int byte = fgetc(file);
        fseek(file, at, SEEK_SET);
        fputc(byte ^ 0x41, file);
        fflush(file);
        assert_int_equal(search_object_load(search, path, &loaded), -EBADMSG);
        assert_null(loaded);
        fseek(file, at, SEEK_SET);
        fputc(byte, file);
        fflush(file);
    }
    fclose(file);
    assert_int_equal(search_object_load(search, path, &loaded), 0);
    search_object_destroy(search, &loaded);
    for (long cut = 0; cut < size; cut += size / 7 + 1) {
        assert_int_equal(truncate(path, size - 1 - cut), 0);
        assert_int_equal(search_object_load(search, path, &loaded), -EBADMSG);
    }
    unlink(path);
    assert_int_equal(search_object_load(search, path, &loaded), -ENOENT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_build_can_be_abandoned),
        cmocka_unit_test(looking_for_symmetry_can_be_abandoned),
        cmocka_unit_test(odd_images_are_survived),
        cmocka_unit_test(a_search_can_be_stopped),
        cmocka_unit_test(the_object_is_found),
        cmocka_unit_test(germann_answers_with_view_and_fit),
    };
    const struct CMUnitTest of_objects[] = {
        cmocka_unit_test(a_greedy_build_is_soon_abandoned),
        cmocka_unit_test(symmetries_are_recognised),
        cmocka_unit_test(the_measures_are_those_of_bop),
        cmocka_unit_test(views_can_be_chosen_greedily),
        cmocka_unit_test(objects_survive_a_file),
    };
    int n_failed = cmocka_run_group_tests(tests, set_up, tear_down);
#ifdef __SANITIZE_THREAD__ // set_up builds an object with the same threads
    (void)of_objects;
#else
    n_failed += cmocka_run_group_tests(of_objects, set_up, tear_down);
#endif
    return n_failed;
}
