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
// A number may be off by TOLERANCE of itself. The search rounds every operation alike on all
// processors, but the logf and expf of the confidence and the sin, cos and acos of the views are
// the C library's, and float sums carry the last digit on in which two libraries differ. Counts
// below 100,000 are exact.
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gpu/search/host.h"
#include "proto/se3.h"
#include "tools/bench/testscene.h"

#define TOLERANCE  1e-5
#define ABSOLUTE   1e-6 // of entries of a rotation, shares and metres that are nearly 0
#define N_VIEWS    192
#define MAX_ROWS   400
#define MAX_VALUES 24

struct row {
    char name[64];
    int n;
    double values[MAX_VALUES];
};

static struct row rows[MAX_ROWS];
static size_t n_rows;

static struct search *search;

static void die(const char *what, const char *name)
{
    fprintf(stderr, "%s: %s\n", name, what);
    exit(1);
}

static struct row *add_row(const char *name, const char *part)
{
    if (n_rows == MAX_ROWS)
        die("more than MAX_ROWS", name);
    struct row *row = &rows[n_rows++];
    snprintf(row->name, sizeof row->name, "%s/%s", name, part);
    return row;
}

static void add(struct row *row, double value)
{
    if (row->n == MAX_VALUES)
        die("more than MAX_VALUES", row->name);
    row->values[row->n++] = value;
}

static void add_floats(struct row *row, const float *values, size_t n)
{
    for (size_t i = 0; i < n; i++)
        add(row, (double)values[i]);
}

static void add_transform(struct row *row, const struct se3 *T)
{
    for (int i = 0; i < 9; i++)
        add(row, T->r[i]);
    for (int i = 0; i < 3; i++)
        add(row, T->t_m[i]);
}

// ---- Objects

// Numbers one after the other: their sum, and their sum weighted by 1 .. 7, which also changes when
// two of them change places. Of absolute values, so that nothing cancels.
struct sums {
    double plain, weighted;
    uint32_t n;
};

static void sum(struct sums *sums, double value)
{
    sums->plain += fabs(value);
    sums->weighted += fabs(value) * (1 + sums->n++ % 7);
}

static void add_sums(struct row *row, const struct sums *sums)
{
    add(row, sums->plain);
    add(row, sums->weighted);
}

static void add_views(const char *name, const struct search_object *object)
{
    struct sums rotations = {0}, starts = {0}, chunks = {0}, z = {0}, edt = {0};
    for (uint32_t i = 0; i < object->n_views; i++) {
        const struct search_view *view = &object->views[i];
        for (int k = 0; k < 9; k++)
            sum(&rotations, (double)view->rotation[k]);
        sum(&starts, view->start_u);
        sum(&starts, view->start_v);
        sum(&starts, view->start_z);
        sum(&chunks, view->n_cover);
    }
    for (uint32_t i = 0; i < object->n_chunks; i++) {
        sum(&chunks, object->chunk_offset[i]);
        for (uint32_t k = 0; k < SEARCH_CHUNK; k++) {
            const uint32_t pair = object->chunk_pairs[(size_t)i * SEARCH_CHUNK + k];
            sum(&z, search_pair_z(pair));
            sum(&edt, search_pair_edt(pair));
        }
    }
    struct row *row = add_row(name, "views");
    const struct sums all[] = {rotations, starts, chunks, z, edt};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        add_sums(row, &all[i]);
}

static void add_coarse(const char *name, const struct search_object *object)
{
    struct sums z = {0}, ring = {0}, anchors = {0}, normals = {0}, counts = {0}, points = {0},
                point_normals = {0}, seeds = {0};
    for (uint32_t i = 0; i < object->n_views; i++) {
        const struct search_coarse *coarse = &object->coarse[i];
        for (int k = 0; k < SEARCH_COARSE_CELLS * SEARCH_COARSE_CELLS; k++) {
            sum(&z, coarse->z[k]);
            sum(&ring, coarse->ring[k]);
        }
        for (int k = 0; k < coarse->n_anchors; k++) {
            sum(&anchors, coarse->anchor_z[k]);
            sum(&anchors, 100 * coarse->anchor_u[k] + coarse->anchor_v[k]);
            for (int j = 0; j < 3; j++)
                sum(&normals, coarse->anchor_normal[k][j]);
        }
        sum(&counts, coarse->n_cells);
        sum(&counts, coarse->n_ring);
        sum(&counts, coarse->row_first);
        sum(&counts, coarse->row_end);
        sum(&counts, coarse->n_anchors);
        sum(&counts, object->n_points[i]);
        sum(&counts, object->n_ring[i]);
        const struct search_point *at =
            object->points + (size_t)i * (SEARCH_POINTS + SEARCH_RING_POINTS);
        for (int k = 0; k < SEARCH_POINTS + SEARCH_RING_POINTS; k++) {
            sum(&points, at[k].u);
            sum(&points, at[k].v);
            sum(&points, at[k].z);
            for (int j = 0; j < 3; j++)
                sum(&point_normals, at[k].normal[j]);
        }
    }
    for (uint32_t i = 0; i < object->n_seeds; i++) {
        sum(&seeds, object->seeds[i]);
        sum(&seeds, object->child_first[i]);
    }
    for (uint32_t i = 0; i < object->child_first[object->n_seeds]; i++)
        sum(&seeds, object->children[i]);
    struct row *row = add_row(name, "packed");
    const struct sums all[] = {z, ring, anchors, normals, counts, points, point_normals, seeds};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        add_sums(row, &all[i]);
}

static void add_object(const char *name, const struct search_object *object)
{
    struct search_object_info info;
    search_object_describe(object, &info);
    struct row *row = add_row(name, "object");
    add(row, info.n_views);
    add(row, info.n_triangles);
    add(row, info.n_vertices);
    add(row, (double)info.radius_m);
    for (int k = 0; k < 3; k++)
        add(row, info.centre_m[k]);
    add(row, (double)info.map_px_m);
    add(row, (double)info.mean_pixels);
    add(row, (double)info.spacing_rad);
    add(row, info.symmetry);
    add(row, info.fold);
    for (int k = 0; k < 3; k++)
        add(row, fabs(info.axis[k])); // an axis may as well point the other way
    add(row, object->n_chunks);
    add(row, object->n_seeds);
    add(row, object->near_symmetries.n);
    for (uint32_t i = 0; i < object->near_symmetries.n; i++) {
        char part[32];
        snprintf(part, sizeof part, "near-symmetry%u", i);
        row = add_row(name, part);
        add_floats(row, object->near_symmetries.of[i].rotation, 9);
        add_floats(row, object->near_symmetries.of[i].shift_m, 3);
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
        die("no object", name);
    add_object(name, object);
    return object;
}

// ---- Answers

static void add_pose(const char *name, uint32_t k, const struct search_pose *pose)
{
    char part[32];
    snprintf(part, sizeof part, "pose%u", k);
    add_transform(add_row(name, part), &pose->T_camera_model);
    snprintf(part, sizeof part, "pose%u-view", k);
    struct row *row = add_row(name, part);
    add_transform(row, &pose->T_camera_view);
    add(row, pose->view);
    add(row, (double)pose->error_px);
    snprintf(part, sizeof part, "pose%u-verdict", k);
    row = add_row(name, part);
    add(row, pose->accepted);
    const float values[] = {
        pose->confidence, pose->visible, pose->contradicted, pose->ended,
        pose->continued,  pose->score,   pose->rival,        1000 * pose->residual_rms_m};
    add_floats(row, values, sizeof values / sizeof values[0]);
    add(row, pose->n_pixels);
}

static void ask(const char *name, const struct search_object *object,
                const struct search_image *image, const struct search_query *query)
{
    struct search_answer answer;
    struct row *row = add_row(name, "answer");
    add(row, search_run(search, object, image, query, &answer, NULL));
    add(row, answer.n_poses);
    add(row, answer.n_starts);
    add(row, (double)answer.n_compared);
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
    struct sums z = {0}, normals = {0};
    uint32_t n[3] = {0};
    if (search_prepare(search, image, object, &scene) != 0)
        die("not prepared", name);
    for (int i = 0; i < scene.camera.width * scene.camera.height; i++) {
        const float *at = scene.normal_z + 4 * (size_t)i;
        n[at[3] < 0 ? 0 : at[3] > 0 ? 1 : 2]++;
        sum(&z, (double)at[3]);
        for (int k = 0; k < 3; k++)
            sum(&normals, (double)at[k]);
    }
    struct row *row = add_row(name, "prepared");
    for (int k = 0; k < 3; k++)
        add(row, n[k]);
    add_sums(row, &z);
    add_sums(row, &normals);
}

static void follow(const char *name, const struct search_object *object,
                   const struct search_image *image, const struct se3 *T, double right_m,
                   double turned_rad)
{
    const double twist[6] = {0, 0, 0, 0, turned_rad, 0};
    const struct se3 turn = se3_exp(twist);
    struct search_pose pose = {.T_camera_model = se3_compose(T, &turn)};
    pose.T_camera_model.t_m[0] += right_m;
    struct row *row = add_row(name, "followed");
    add(row, search_follow(search, object, image, &pose));
    add_pose(name, 0, &pose);
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
        die("no scene", name);
}

// A second one in front of what is there, where `T` puts it.
static void add_instance(const struct search_object *object, const struct se3 *T,
                         struct testscene *scene)
{
    const size_t n = (size_t)scene->camera.width_px * scene->camera.height_px;
    float *z_m = malloc(n * sizeof *z_m);
    if (!z_m || search_draw(object, &scene->camera, T, z_m) != 0)
        die("not drawn", "second instance");
    struct sums drawn = {0};
    for (size_t i = 0; i < n; i++) {
        const uint16_t depth = (uint16_t)lrintf(1000 * z_m[i]);
        sum(&drawn, (double)z_m[i]);
        if (depth && (!scene->depth[i] || depth < scene->depth[i]))
            scene->depth[i] = depth;
    }
    add_sums(add_row("duck", "drawn"), &drawn);
    free(z_m);
}

static void ask_germann(const struct search_object *object, const struct search_image *image)
{
    struct search_query query;
    search_query_default(&query);
    query.preset = SEARCH_PRESET_GERMANN;
    query.top = 3;
    ask("duck-germann", object, image, &query);
    query.refine = false;
    ask("duck-germann-bare", object, image, &query);
    query.n_coarse = 48;
    query.n_iterations = 9;
    ask("duck-germann-coarse", object, image, &query);
}

// Part of the picture, and of that what the mask leaves.
static void ask_for_part(const struct search_object *object, struct testscene *scene)
{
    struct search_image image = image_of(scene);
    const uint32_t width = image.frame.width_px, height = image.frame.height_px;
    uint8_t *mask = malloc((size_t)width * height);
    if (!mask)
        die("no memory", "mask");
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

static void run_duck(void)
{
    struct testscene_mesh mesh;
    struct testscene scene;
    if (testscene_mesh_make(TESTSCENE_OBJECT_DUCK, &mesh) != 0)
        die("no mesh", "duck");
    struct search_object *duck = make_object("duck", &mesh, SEARCH_CHOICE_EVEN, N_VIEWS);
    struct search_object *greedy = make_object("greedy", &mesh, SEARCH_CHOICE_GREEDY, 64);
    search_object_destroy(search, &greedy);

    make_scene("kind", &mesh, TESTSCENE_KIND_TABLE, TESTSCENE_SENSOR_KIND, false, 1, &scene);
    struct search_image image = image_of(&scene);
    add_prepared("duck-kind", duck, &image);
    ask_default("duck-kind", duck, &image, SEARCH_TOP_MAX);
    follow("duck-near", duck, &image, &scene.T_camera_model, 0.004, 0.03);
    follow("duck-far", duck, &image, &scene.T_camera_model, 0.04, 0.3);
    follow("duck-gone", duck, &image, &scene.T_camera_model, 1, 0);
    ask_for_part(duck, &scene);
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
        testscene_free(&scene);
    }
    make_scene("absent", &mesh, TESTSCENE_KIND_TABLE, TESTSCENE_SENSOR_KIND, true, 3, &scene);
    image = image_of(&scene);
    ask_default("duck-absent", duck, &image, 2);
    testscene_free(&scene);

    make_scene("nearest", &mesh, TESTSCENE_KIND_NEAREST, TESTSCENE_SENSOR_KIND, false, 1, &scene);
    image = image_of(&scene);
    ask_germann(duck, &image);
    testscene_free(&scene);
    search_object_destroy(search, &duck);
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

// With its handle the mug is nearly symmetric, without it a body of revolution.
static void run_mugs(void)
{
    struct testscene_mesh mug;
    if (testscene_mesh_make(TESTSCENE_OBJECT_MUG, &mug) != 0)
        die("no mesh", "mug");
    run_object("mug", &mug, 4);
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

// ---- The table

static int write_rows(const char *path)
{
    FILE *file = fopen(path, "w");
    if (!file)
        return 1;
    fprintf(file, "# scene/part and its numbers: made by check_golden_search\n");
    for (size_t i = 0; i < n_rows; i++) {
        fprintf(file, "%s", rows[i].name);
        for (int k = 0; k < rows[i].n; k++)
            fprintf(file, " %.9g", rows[i].values[k]);
        fprintf(file, "\n");
    }
    return fclose(file) != 0;
}

// How many of a line's numbers are not those of the row; prints the first of them.
static size_t compare_row(char *line, const struct row *row)
{
    char *rest, *name = strtok_r(line, " \n", &rest);
    size_t n_wrong = 0;
    if (!name || strcmp(name, row->name) != 0) {
        printf("expected %s, got %s\n", name ? name : "a name", row->name);
        return 1;
    }
    int k = 0;
    for (char *word; (word = strtok_r(NULL, " \n", &rest)); k++) {
        const double expected = strtod(word, NULL);
        const double got = k < row->n ? row->values[k] : (double)NAN;
        if (fabs(got - expected) <= TOLERANCE * fabs(expected) + ABSOLUTE)
            continue;
        if (n_wrong++ == 0)
            printf("%s: number %d is %.9g, expected %.9g\n", row->name, k + 1, got, expected);
    }
    return n_wrong + (k < row->n);
}

static int compare_rows(const char *path)
{
    char line[1024];
    size_t n_wrong = 0, n = 0;
    FILE *file = fopen(path, "r");
    if (!file)
        die("cannot be read", path);
    while (fgets(line, sizeof line, file))
        if (line[0] != '#') {
            n_wrong += compare_row(line, n < n_rows ? &rows[n] : &(struct row){.name = "no row"});
            n++;
        }
    fclose(file);
    printf("%zu rows, %zu in the table, %zu numbers wrong\n", n_rows, n, n_wrong);
    return n_wrong || n != n_rows;
}

int main(int argc, char **argv)
{
    if (argc < 2)
        die("usage: check_golden_search FILE [write]", argv[0]);
    struct search_settings settings;
    search_settings_default(&settings);
    settings.backend = GPU_BACKEND_CPU;
    settings.n_threads = 1;
    if (search_open(&search, &settings) != 0)
        die("no search", argv[0]);
    run_duck();
    run_mugs();
    run_pyramid();
    search_close(&search);
    return argc > 2 ? write_rows(argv[1]) : compare_rows(argv[1]);
}
