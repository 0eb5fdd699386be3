// SPDX-License-Identifier: Apache-2.0
// The answers of the pose search on a few small scenes are what they were: every number that its
// callers get, and sums over what an object and a prepared image consist of, as
// tests/golden/search.txt has them. The other programs of this folder say what is right; this one
// says that nothing has changed, also where nobody thought of a test.
//
//   check_golden_search FILE        compares
//   check_golden_search FILE write  writes the table anew: for a change that means to change
//                                   answers, with the reason in the commit
//
// A number may be off by 1e-5 of itself (golden_rows.h). The search rounds every operation alike on
// all processors, but the logf and expf of the confidence and the sin, cos and acos of the views
// are the C library's, and float sums carry the last digit on in which two libraries differ. Counts
// below 100,000 are exact.
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gpu/search/host.h"
#include "proto/se3.h"
#include "tests/check/search/golden_rows.h"
#include "tools/bench/testscene.h"

#define N_VIEWS 192
#define N_FINE  4096

static struct search *search;

static void add_transform(struct golden_row *row, const struct se3 *T)
{
    for (int i = 0; i < 9; i++)
        golden_add(row, T->r[i]);
    for (int i = 0; i < 3; i++)
        golden_add(row, T->t_m[i]);
}

// ---- Objects

static void add_views(const char *name, const struct search_object *object)
{
    struct golden_sums rotations = {0}, starts = {0}, chunks = {0}, z = {0}, edt = {0};
    for (uint32_t i = 0; i < object->n_views; i++) {
        const struct search_view *view = &object->views[i];
        for (int k = 0; k < 9; k++)
            golden_sum(&rotations, (double)view->rotation[k]);
        golden_sum(&starts, view->start_u);
        golden_sum(&starts, view->start_v);
        golden_sum(&starts, view->start_z);
        golden_sum(&chunks, view->n_cover);
    }
    for (uint32_t i = 0; i < object->n_chunks; i++) {
        golden_sum(&chunks, object->chunk_offset[i]);
        for (uint32_t k = 0; k < SEARCH_CHUNK; k++) {
            const uint32_t pair = object->chunk_pairs[(size_t)i * SEARCH_CHUNK + k];
            golden_sum(&z, search_pair_z(pair));
            golden_sum(&edt, search_pair_edt(pair));
        }
    }
    struct golden_row *row = golden_add_row(name, "views");
    const struct golden_sums all[] = {rotations, starts, chunks, z, edt};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        golden_add_sums(row, &all[i]);
}

static void add_coarse(const char *name, const struct search_object *object)
{
    struct golden_sums z = {0}, ring = {0}, anchors = {0}, normals = {0}, counts = {0},
                       points = {0}, point_normals = {0}, seeds = {0};
    for (uint32_t i = 0; i < object->n_views; i++) {
        const struct search_coarse *coarse = &object->coarse[i];
        for (int k = 0; k < SEARCH_COARSE_CELLS * SEARCH_COARSE_CELLS; k++) {
            golden_sum(&z, coarse->z[k]);
            golden_sum(&ring, coarse->ring[k]);
        }
        for (int k = 0; k < coarse->n_anchors; k++) {
            golden_sum(&anchors, coarse->anchor_z[k]);
            golden_sum(&anchors, 100 * coarse->anchor_u[k] + coarse->anchor_v[k]);
            for (int j = 0; j < 3; j++)
                golden_sum(&normals, coarse->anchor_normal[k][j]);
        }
        golden_sum(&counts, coarse->n_cells);
        golden_sum(&counts, coarse->n_ring);
        golden_sum(&counts, coarse->row_first);
        golden_sum(&counts, coarse->row_end);
        golden_sum(&counts, coarse->n_anchors);
        golden_sum(&counts, object->n_points[i]);
        golden_sum(&counts, object->n_ring[i]);
        const struct search_point *at =
            object->points + (size_t)i * (SEARCH_POINTS + SEARCH_RING_POINTS);
        for (int k = 0; k < SEARCH_POINTS + SEARCH_RING_POINTS; k++) {
            golden_sum(&points, at[k].u);
            golden_sum(&points, at[k].v);
            golden_sum(&points, at[k].z);
            for (int j = 0; j < 3; j++)
                golden_sum(&point_normals, at[k].normal[j]);
        }
    }
    for (uint32_t i = 0; i < object->n_seeds; i++) {
        golden_sum(&seeds, object->seeds[i]);
        golden_sum(&seeds, object->child_first[i]);
    }
    for (uint32_t i = 0; i < object->child_first[object->n_seeds]; i++)
        golden_sum(&seeds, object->children[i]);
    struct golden_row *row = golden_add_row(name, "packed");
    const struct golden_sums all[] = {z,      ring,   anchors,       normals,
                                      counts, points, point_normals, seeds};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        golden_add_sums(row, &all[i]);
}

static void add_object(const char *name, const struct search_object *object)
{
    struct search_object_info info;
    search_object_describe(object, &info);
    struct golden_row *row = golden_add_row(name, "object");
    golden_add(row, info.n_views);
    golden_add(row, info.n_triangles);
    golden_add(row, info.n_vertices);
    golden_add(row, (double)info.radius_m);
    for (int k = 0; k < 3; k++)
        golden_add(row, info.centre_m[k]);
    golden_add(row, (double)info.map_px_m);
    golden_add(row, (double)info.mean_pixels);
    golden_add(row, (double)info.spacing_rad);
    golden_add(row, info.symmetry);
    golden_add(row, info.fold);
    for (int k = 0; k < 3; k++)
        golden_add(row, fabs(info.axis[k])); // an axis may as well point the other way
    golden_add(row, object->n_chunks);
    golden_add(row, object->n_seeds);
    golden_add(row, object->near_symmetries.n);
    for (uint32_t i = 0; i < object->near_symmetries.n; i++) {
        char part[32];
        snprintf(part, sizeof part, "near-symmetry%u", i);
        row = golden_add_row(name, part);
        golden_add_floats(row, object->near_symmetries.of[i].rotation, 9);
        golden_add_floats(row, object->near_symmetries.of[i].shift_m, 3);
    }
    add_views(name, object);
    add_coarse(name, object);
}

static struct search_object *make_object(const char *name, const struct testscene_mesh *mesh,
                                         enum search_choice choice, uint32_t n_views)
{
    const struct search_mesh borrowed = {mesh->vertices_m, mesh->triangles, mesh->n_vertices,
                                         mesh->n_triangles};
    struct search_object_settings settings;
    struct search_object *object;
    search_object_settings_default(&settings);
    settings.n_views = n_views;
    settings.choice = choice;
    if (search_object_create(search, &borrowed, &settings, &object) != 0)
        golden_die("no object", name);
    add_object(name, object);
    return object;
}

// ---- Answers

static void add_pose(const char *name, uint32_t k, const struct search_pose *pose)
{
    char part[32];
    snprintf(part, sizeof part, "pose%u", k);
    add_transform(golden_add_row(name, part), &pose->T_camera_model);
    // Outside of the preset germann there is no other pose than that.
    if (memcmp(&pose->T_camera_view, &pose->T_camera_model, sizeof pose->T_camera_view) != 0) {
        snprintf(part, sizeof part, "pose%u-view", k);
        add_transform(golden_add_row(name, part), &pose->T_camera_view);
    }
    snprintf(part, sizeof part, "pose%u-verdict", k);
    struct golden_row *row = golden_add_row(name, part);
    golden_add(row, pose->view);
    golden_add(row, (double)pose->error_px);
    golden_add(row, pose->accepted);
    const float values[] = {
        pose->confidence, pose->visible, pose->contradicted, pose->ended,
        pose->continued,  pose->score,   pose->rival,        1000 * pose->residual_rms_m};
    golden_add_floats(row, values, sizeof values / sizeof values[0]);
    golden_add(row, pose->n_pixels);
}

static void ask(const char *name, const struct search_object *object,
                const struct search_image *image, const struct search_query *query)
{
    struct search_answer answer;
    struct golden_row *row = golden_add_row(name, "answer");
    golden_add(row, search_run(search, object, image, query, &answer, NULL));
    golden_add(row, answer.n_poses);
    golden_add(row, answer.n_starts);
    golden_add(row, (double)answer.n_compared);
    for (uint32_t k = 0; k < answer.n_poses; k++)
        add_pose(name, k, &answer.poses[k]);
}

static void ask_default(const char *name, const struct search_object *object,
                        const struct search_image *image, uint32_t top)
{
    struct search_query query;
    search_query_default(&query);
    query.top = top;
    ask(name, object, image, &query);
}

// The image as the refinement reads it.
static void add_prepared(const char *name, const struct search_object *object,
                         const struct search_image *image)
{
    struct search_scene scene;
    struct golden_sums z = {0}, normals = {0};
    uint32_t n[3] = {0};
    if (search_prepare(search, image, object, &scene) != 0)
        golden_die("not prepared", name);
    for (int i = 0; i < scene.camera.width * scene.camera.height; i++) {
        const float *at = scene.normal_z + 4 * (size_t)i;
        n[at[3] < 0 ? 0 : at[3] > 0 ? 1 : 2]++;
        golden_sum(&z, (double)at[3]);
        for (int k = 0; k < 3; k++)
            golden_sum(&normals, (double)at[k]);
    }
    struct golden_row *row = golden_add_row(name, "prepared");
    for (int k = 0; k < 3; k++)
        golden_add(row, n[k]);
    golden_add_sums(row, &z);
    golden_add_sums(row, &normals);
}

// The paper's start point of surfaces with steps, holes and specks: where the median, the edges and
// the distances decide.
static void add_starts(void)
{
    enum { W = 92, H = 70, N = 12 };
    const struct search_camera camera = {80, -80, 45.5f, 34.5f, W, H};
    float z_m[W * H];
    uint32_t random = 1;
    for (int n = 0; n < N; n++) {
        for (int i = 0; i < W * H; i++) {
            random = random * 1664525 + 1013904223;
            const int u = i % W, v = i / W, step = u / (7 + n) + v / (5 + n);
            z_m[i] = 0.6f + 0.05f * (float)(step % 5) + 1e-9f * (float)(random >> 8);
            if (random >> 28 == 0 || (u - 40) * (u - 40) + (v - 20) * (v - 20) < 3 * n)
                z_m[i] = 0;
            else if (random >> 28 == 1)
                z_m[i] = 0.4f;
        }
        char part[16];
        struct search_frame frame;
        snprintf(part, sizeof part, "%d", n);
        if (search_start_nearest(z_m, &camera, 0.002f, &frame) != 0)
            golden_die("no start", part);
        struct golden_row *row = golden_add_row("start", part);
        golden_add_floats(row, frame.rotation, 9);
        golden_add_floats(row, frame.start_m, 3);
    }
}

static void follow(const char *name, const struct search_object *object,
                   const struct search_image *image, const struct se3 *T_camera_model)
{
    struct search_pose pose = {.T_camera_model = *T_camera_model};
    const int err = search_follow(search, object, image, &pose);
    golden_add(golden_add_row(name, "followed"), err);
    if (!err)
        add_pose(name, 0, &pose);
}

// From guesses that lie beside the truth or are turned, so far that poses around them are tried.
static void follow_from_around(const struct search_object *object, const struct search_image *image,
                               const struct se3 *T_camera_model)
{
    // Turned about the model's axes [rad], shifted along the camera's [m].
    static const double cases[][6] = {
        {0, 0.03, 0, 0.004, 0, 0},  {0, 0.3, 0, 0.04, 0, 0},     {0.5, 0, 0, 0.03, 0, 0},
        {-0.5, 0, 0, -0.03, 0, 0},  {0, 0.5, 0, 0, 0.03, 0},     {0, -0.5, 0, 0, -0.03, 0},
        {0, 0, 0.5, 0, 0, 0.04},    {0, 0, -0.5, 0, 0, -0.04},   {0, 0, 0, 0.06, 0.02, 0},
        {0, 0, 0, -0.06, -0.02, 0}, {0, 0, 0, 0.01, 0.06, 0.02}, {0, 0, 0, 0, -0.06, -0.02},
        {0, 0, 0, 1, 0, 0},         {0.8, 0, 0, 0, 0, 0},        {-0.8, 0, 0, 0, 0, 0},
        {0, 0.8, 0, 0, 0, 0},       {0, -0.8, 0, 0, 0, 0},       {0, 0, 0.8, 0, 0, 0},
        {0, 0, -0.8, 0, 0, 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const double twist[6] = {0, 0, 0, cases[i][0], cases[i][1], cases[i][2]};
        const struct se3 turn = se3_exp(twist);
        struct se3 T = se3_compose(T_camera_model, &turn);
        for (int k = 0; k < 3; k++)
            T.t_m[k] += cases[i][3 + k];
        char name[32];
        snprintf(name, sizeof name, "duck-around%zu", i);
        follow(name, object, image, &T);
    }
}

// Less and less of the object is seen, a pixel or two a step, until it is given up: from the left,
// then from below. Answers of every confidence, on both sides of what is believed.
static void follow_while_covered(const struct search_object *object, struct search_image image,
                                 const struct se3 *T_camera_model)
{
    enum { N = 12 };
    const double *t_m = T_camera_model->t_m, fx_px = image.camera.fx_px, fy_px = image.camera.fy_px;
    const double u_px = fx_px * t_m[0] / t_m[2] + image.camera.cx_px;
    const double v_px = fy_px * t_m[1] / t_m[2] + image.camera.cy_px;
    const double radius_px = fx_px * (double)object->info.radius_m / t_m[2];
    image.u1 = image.frame.width_px;
    for (int i = 0; i < 2 * N; i++) {
        const double far = (double)(i % N) / N;
        char name[32];
        image.u0 = i < N ? (uint32_t)(u_px + radius_px * (0.14 + 0.12 * far)) : 0;
        image.v1 =
            i < N ? image.frame.height_px : (uint32_t)(v_px - radius_px * (-0.21 + 0.12 * far));
        snprintf(name, sizeof name, "duck-covered%d", i);
        follow(name, object, &image, T_camera_model);
    }
}

// ---- Scenes

static struct search_image image_of(const struct testscene *scene)
{
    return (struct search_image){
        .frame = {scene->depth, scene->camera.width_px, scene->camera.height_px, 1000, 0},
        .camera = scene->camera};
}

static void make_scene(const char *name, const struct testscene_mesh *mesh,
                       enum testscene_kind kind, enum testscene_sensor sensor, bool absent,
                       uint64_t seed, struct testscene *out)
{
    const struct testscene_settings settings = {.kind = kind,
                                                .sensor = sensor,
                                                .visible_min = 0.5f,
                                                .visible_max = 1,
                                                .absent = absent,
                                                .noise = true,
                                                .seed = seed};
    if (testscene_create(mesh, &settings, out) != 0)
        golden_die("no scene", name);
}

// A second one in front of what is there, where `T` puts it.
static void add_instance(const struct search_object *object, const struct se3 *T,
                         struct testscene *scene)
{
    const size_t n = (size_t)scene->camera.width_px * scene->camera.height_px;
    float *z_m = malloc(n * sizeof *z_m);
    if (!z_m || search_draw(object, &scene->camera, T, z_m) != 0)
        golden_die("not drawn", "second instance");
    struct golden_sums drawn = {0};
    for (size_t i = 0; i < n; i++) {
        const uint16_t depth = (uint16_t)lrintf(1000 * z_m[i]);
        golden_sum(&drawn, (double)z_m[i]);
        if (depth && (!scene->depth[i] || depth < scene->depth[i]))
            scene->depth[i] = depth;
    }
    golden_add_sums(golden_add_row("duck", "drawn"), &drawn);
    free(z_m);
}

static void ask_germann(const struct search_object *object, const struct search_image *image)
{
    struct search_query query;
    search_query_default(&query);
    query.preset = SEARCH_PRESET_GERMANN;
    query.top = SEARCH_TOP_MAX;
    ask("duck-germann", object, image, &query);
    query.top = 3;
    query.refine = false;
    ask("duck-germann-bare", object, image, &query);
    query.n_coarse = 48;
    query.n_iterations = 9;
    ask("duck-germann-coarse", object, image, &query);
    query.n_coarse = 1;
    ask("duck-germann-few", object, image, &query);
}

// The picture's part from (u0, v0) on to before (u1, v1), as a camera sees it that has no more: the
// object goes on outside.
static void ask_for_cut(const char *name, const struct search_object *object,
                        const struct testscene *scene, int u0, int v0, int u1, int v1)
{
    const int width = u1 - u0, height = v1 - v0;
    uint16_t *depth = malloc((size_t)(width * height) * sizeof *depth);
    if (!depth)
        golden_die("no memory", name);
    for (int i = 0; i < width * height; i++)
        depth[i] = scene->depth[(v0 + i / width) * (int)scene->camera.width_px + u0 + i % width];
    struct search_image image = image_of(scene);
    image.frame.depth = depth;
    image.frame.width_px = image.camera.width_px = (uint32_t)width;
    image.frame.height_px = image.camera.height_px = (uint32_t)height;
    image.camera.cx_px -= u0;
    image.camera.cy_px -= v0;
    ask_default(name, object, &image, 2);
    follow(name, object, &image, &scene->T_camera_model);
    free(depth);
}

static void ask_for_cuts(const struct search_object *object, const struct testscene *scene)
{
    const struct intrinsics *c = &scene->camera;
    const double *t_m = scene->T_camera_model.t_m;
    const int width = (int)c->width_px, height = (int)c->height_px;
    const int u = (int)(c->fx_px * t_m[0] / t_m[2] + c->cx_px);
    const int v = (int)(c->fy_px * t_m[1] / t_m[2] + c->cy_px);
    const int radius = (int)(c->fx_px * (double)object->info.radius_m / t_m[2]);
    ask_for_cut("duck-cut-right", object, scene, 0, 0, u + radius / 4, height);
    ask_for_cut("duck-cut-above", object, scene, 0, v - radius / 4, width, height);
    ask_for_cut("duck-cut-below", object, scene, 0, 0, width, v + radius / 8);
}

// Part of the picture, and of that what the mask leaves.
static void ask_for_part(const struct search_object *object, struct testscene *scene)
{
    struct search_image image = image_of(scene);
    const uint32_t width = image.frame.width_px, height = image.frame.height_px;
    uint8_t *mask = malloc((size_t)width * height);
    if (!mask)
        golden_die("no memory", "mask");
    for (uint32_t i = 0; i < width * height; i++)
        mask[i] = i / width % 5 > 0;
    image.mask = mask;
    image.u0 = width / 6;
    image.v0 = height / 6;
    image.u1 = width - width / 8;
    image.v1 = height - height / 9;
    add_prepared("duck-part", object, &image);
    ask_default("duck-part", object, &image, 1);
    free(mask);
}

// Only the object's middle, and the views next to the best seeds.
static void ask_small(const char *name, const struct search_object *object,
                      struct search_image image, const struct se3 *T_camera_model)
{
    const double *t_m = T_camera_model->t_m;
    const double u = image.camera.fx_px * t_m[0] / t_m[2] + image.camera.cx_px;
    const double v = image.camera.fy_px * t_m[1] / t_m[2] + image.camera.cy_px;
    struct search_query query;
    search_query_default(&query);
    query.preset = SEARCH_PRESET_GERMANN;
    query.n_coarse = 300;
    query.top = 2;
    ask("fine-germann", object, &image, &query);
    image.u0 = (uint32_t)(u - 30);
    image.u1 = (uint32_t)(u + 30);
    image.v0 = (uint32_t)(v - 30);
    image.v1 = (uint32_t)(v + 30);
    ask_default(name, object, &image, 2);
}

static void run_duck(void)
{
    struct testscene_mesh mesh;
    struct testscene scene;
    if (testscene_mesh_make(TESTSCENE_OBJECT_DUCK, &mesh) != 0)
        golden_die("no mesh", "duck");
    struct search_object *duck = make_object("duck", &mesh, SEARCH_CHOICE_EVEN, N_VIEWS);
    // So many that a seed has views beside its own.
    struct search_object *fine = make_object("fine", &mesh, SEARCH_CHOICE_EVEN, N_FINE);
    struct search_object *greedy = make_object("greedy", &mesh, SEARCH_CHOICE_GREEDY, 64);
    search_object_destroy(search, &greedy);

    make_scene("kind", &mesh, TESTSCENE_KIND_TABLE, TESTSCENE_SENSOR_KIND, false, 1, &scene);
    struct search_image image = image_of(&scene);
    add_prepared("duck-kind", duck, &image);
    ask_default("duck-kind", duck, &image, SEARCH_TOP_MAX);
    const struct search_query germann = {
        .preset = SEARCH_PRESET_GERMANN, .top = SEARCH_TOP_MAX, .n_iterations = 15, .refine = true};
    ask("duck-germann-table", duck, &image, &germann);
    follow_from_around(duck, &image, &scene.T_camera_model);
    follow_while_covered(duck, image, &scene.T_camera_model);
    ask_for_part(duck, &scene);
    ask_for_cuts(duck, &scene);
    struct se3 T = scene.T_camera_model;
    T.t_m[0] -= 0.18;
    T.t_m[2] -= 0.05;
    add_instance(duck, &T, &scene);
    ask_default("duck-two", duck, &image, 2);
    testscene_free(&scene);

    for (int sensor = TESTSCENE_SENSOR_REGISTERED; sensor <= TESTSCENE_SENSOR_TOF; sensor++) {
        const char *name = sensor == TESTSCENE_SENSOR_TOF ? "duck-tof" : "duck-registered";
        make_scene(name, &mesh, TESTSCENE_KIND_TABLE, (enum testscene_sensor)sensor, false, 2,
                   &scene);
        image = image_of(&scene);
        ask_default(name, duck, &image, 2);
        add_prepared(name, duck, &image);
        testscene_free(&scene);
    }
    make_scene("absent", &mesh, TESTSCENE_KIND_TABLE, TESTSCENE_SENSOR_KIND, true, 3, &scene);
    image = image_of(&scene);
    ask_default("duck-absent", duck, &image, 2);
    testscene_free(&scene);

    make_scene("nearest", &mesh, TESTSCENE_KIND_NEAREST, TESTSCENE_SENSOR_KIND, false, 1, &scene);
    image = image_of(&scene);
    ask_germann(duck, &image);
    ask_small("fine", fine, image, &scene.T_camera_model);
    testscene_free(&scene);
    search_object_destroy(search, &duck);
    search_object_destroy(search, &fine);
    testscene_mesh_free(&mesh);
}

// An object that a scene shows once.
static void run_object(const char *name, const struct testscene_mesh *mesh, uint32_t top)
{
    struct testscene scene;
    struct search_object *object = make_object(name, mesh, SEARCH_CHOICE_EVEN, N_VIEWS);
    make_scene(name, mesh, TESTSCENE_KIND_TABLE, TESTSCENE_SENSOR_KIND, false, 4, &scene);
    const struct search_image image = image_of(&scene);
    ask_default(name, object, &image, top);
    testscene_free(&scene);
    search_object_destroy(search, &object);
}

// Where there is no mug so many poses fit a little that the preset germann keeps as many as it may.
static void ask_germann_for_mug(const struct testscene_mesh *mesh)
{
    struct testscene scene;
    struct search_object *object = make_object("mug-few", mesh, SEARCH_CHOICE_EVEN, 64);
    const struct search_query query = {
        .preset = SEARCH_PRESET_GERMANN, .top = SEARCH_TOP_MAX, .n_iterations = 15, .refine = true};
    make_scene("mug", mesh, TESTSCENE_KIND_NEAREST, TESTSCENE_SENSOR_KIND, true, 32, &scene);
    const struct search_image image = image_of(&scene);
    ask("mug-germann", object, &image, &query);
    testscene_free(&scene);
    search_object_destroy(search, &object);
}

// With its handle the mug is nearly symmetric, without it a body of revolution.
static void run_mugs(void)
{
    struct testscene_mesh mug;
    if (testscene_mesh_make(TESTSCENE_OBJECT_MUG, &mug) != 0)
        golden_die("no mesh", "mug");
    run_object("mug", &mug, 4);
    ask_germann_for_mug(&mug);
    const size_t n = mug.n_triangles;
    mug.n_triangles -= 2 * 24 * 16;
    run_object("cup", &mug, 3);
    mug.n_triangles = n;
    testscene_mesh_free(&mug);
}

static void run_pyramid(void)
{
    float vertices_m[] = {0.08f, 0.08f, 0,      -0.08f, 0.08f, 0, -0.08f, -0.08f,
                          0,     0.08f, -0.08f, 0,      0,     0, 0.15f};
    uint32_t triangles[] = {0, 1, 4, 1, 2, 4, 2, 3, 4, 3, 0, 4, 0, 2, 1, 0, 3, 2};
    const struct testscene_mesh mesh = {
        .vertices_m = vertices_m, .triangles = triangles, .n_vertices = 5, .n_triangles = 6};
    run_object("pyramid", &mesh, 3);
}

int main(int argc, char **argv)
{
    if (argc < 2)
        golden_die("usage: check_golden_search FILE [write]", argv[0]);
    struct search_settings settings;
    search_settings_default(&settings);
    settings.backend = GPU_BACKEND_CPU;
    settings.n_threads = 1;
    if (search_open(&search, &settings) != 0)
        golden_die("no search", argv[0]);
    add_starts();
    run_duck();
    run_mugs();
    run_pyramid();
    search_close(&search);
    return argc > 2 ? golden_write(argv[1]) : golden_compare(argv[1]);
}
