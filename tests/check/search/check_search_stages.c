// SPDX-License-Identifier: Apache-2.0
// The pose search's operations against the reference (reference.h): maps, window, fits and coarse
// pass of both twins. Decisions that the last digit of a float makes are counted and bounded.
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "gpu/search/context.h"
#include "gpu/search/kernels/depth_edges.h"
#include "gpu/search/kernels/start_points.h"
#include "tests/check/check.h"
#include "tests/check/search/reference.h"
#include "tests/check/search/stages.h"
#include "tools/bench/testscene.h"

static const struct check_limit limits[] = {
    {"fixed", 0.51, 0, "one rounding to 1/64 px"},
    {"error", 0.02, 1e-3, "fixed point of 1/64 px in distances and depths"},
};
enum { LIMIT_FIXED, LIMIT_ERROR };

static const struct reference_camera plain = {580, -570, 311.5, 245.25, 640, 480};

struct table {
    struct search *search;
    struct search_object *object;
    const char *name;
};

static void check_maps(const struct table *t)
{
    enum { N = 64 * 64, N_MAPS = 8 };
    const struct search_object *object = t->object;
    struct search_map *maps = malloc(N_MAPS * sizeof *maps);
    float rotations[9 * N_MAPS];
    double d[N_MAPS][9], *corners = malloc(3 * object->n_vertices * sizeof *corners);
    double z[N], edt[N];
    bool foreground[N];
    int kind[N], index[N];
    check_case("%s, maps", t->name);
    for (int i = 0; i < N_MAPS; i++)
        reference_random_rotation(rotations + 9 * i, d[i]);
    check_that(t->search->ops->maps(t->search->device, object, rotations, N_MAPS, maps) == 0,
               "maps");
    for (int i = 0; i < N_MAPS; i++) {
        const struct search_map *map = &maps[i];
        int n_off = 0, n_both = 0, n_normals = 0;
        for (uint32_t k = 0; k < object->n_vertices; k++) {
            const double p[3] = {(double)object->x[k], (double)object->y[k], (double)object->z[k]};
            reference_turn(d[i], p, corners + 3 * k);
            // 1/256 px, as gpu/search/kernels/raster.h says.
            corners[3 * k] = round((corners[3 * k] + 31.5) * 256) / 256;
            corners[3 * k + 1] = round((corners[3 * k + 1] + 31.5) * 256) / 256;
        }
        reference_draw(corners, object->triangles, object->n_triangles, 64, 64, z, index);
        for (int k = 0; k < N; k++) {
            const bool drawn = map->z[k] != SEARCH_Z_NONE;
            n_off += drawn != (index[k] >= 0) || (drawn && fabs(map->z[k] / 64.0 - z[k]) > 0.02);
            foreground[k] = drawn;
            z[k] = map->z[k] / 64.0; // what follows is of the map as it is
            if (!drawn || index[k] < 0)
                continue;
            const uint32_t *c = object->triangles + 3 * (size_t)index[k];
            double ab[3], ac[3], n[3];
            for (int a = 0; a < 3; a++) {
                const float *axis = a == 0 ? object->x : a == 1 ? object->y : object->z;
                ab[a] = (double)axis[c[1]] - (double)axis[c[0]];
                ac[a] = (double)axis[c[2]] - (double)axis[c[0]];
            }
            reference_cross(ab, ac, n);
            reference_turn(d[i], n, n);
            const double length = sqrt(reference_dot(n, n)) * (n[2] > 0 ? -1 : 1);
            n_both++;
            for (int a = 0; a < 3; a++)
                n_normals += fabs(map->normal[3 * k + a] - 127 * n[a] / length) > 0.6;
        }
        check_that(n_both > 300, "%d pixels", n_both);
        check_that(n_off <= 8, "%d pixels differ", n_off);
        check_that(n_normals <= n_both / 25, "%d of %d normals differ", n_normals, n_both);
        reference_kinds(z, foreground, 64, kind);
        reference_edt(kind, 64, edt);
        for (int k = 0; k < N; k++)
            check_close(&limits[LIMIT_FIXED], map->edt[k], 64 * edt[k], 0, "signed distance");
    }
    free(maps);
    free(corners);
}

// Compares a window with the reference; leaves the reference's planes for the fits.
static void check_window(const struct table *t, const float *z_m, const struct search_frame *frame,
                         uint32_t *window)
{
    enum { SIZE = 128, N = SIZE * SIZE };
    double *raw = malloc(N * sizeof *raw), *z = malloc(N * sizeof *z),
           *edt = malloc(N * sizeof *edt);
    bool *foreground = malloc(N * sizeof *foreground);
    int *kind = malloc(N * sizeof *kind), n_off = 0, n_z = 0;
    double r[9], start[3];
    reference_widen(frame->rotation, 9, r);
    reference_widen(frame->start_m, 3, start);
    const double px_m = (double)frame->px_m;
    for (int i = 0; i < N; i++) {
        const int seen = reference_sample(z_m, &plain, r, start, (i % SIZE - 64) * px_m,
                                          (i / SIZE - 64) * px_m, &raw[i], NULL);
        // What lies more than two maps' widths away is background.
        raw[i] = seen && fabs(raw[i]) < 128 * px_m ? raw[i] / px_m : INFINITY;
    }
    for (int i = 0; i < N; i++) {
        double sorted[9];
        for (int k = 0; k < 9; k++) {
            const int u = i % SIZE + k % 3 - 1, v = i / SIZE + k / 3 - 1;
            const double value =
                u >= 0 && v >= 0 && u < SIZE && v < SIZE ? raw[v * SIZE + u] : INFINITY;
            int at = k;
            for (; at > 0 && sorted[at - 1] > value; at--)
                sorted[at] = sorted[at - 1];
            sorted[at] = value;
        }
        z[i] = sorted[4];
    }
    check_that(stage_window(t->search, frame, window) == 0, "window");
    for (int i = 0; i < N; i++) {
        const double here = search_pair_z(window[i]) / 64.0;
        const int edt_i = search_pair_edt(window[i]);
        foreground[i] = edt_i >= 0;
        n_off += foreground[i] != (z[i] < INFINITY);
        n_z += foreground[i] && z[i] < INFINITY && fabs(here - z[i]) > 0.02;
        z[i] = here;
    }
    check_that(n_off < N / 200, "%d pixels are on the other side", n_off);
    check_that(n_z < N / 100, "%d depths differ", n_z);
    reference_kinds(z, foreground, SIZE, kind);
    reference_edt(kind, SIZE, edt);
    for (int i = 0; i < N; i++)
        check_close(&limits[LIMIT_FIXED], search_pair_edt(window[i]), 64 * edt[i], 0, "distance");
    free(raw);
    free(z);
    free(edt);
    free(foreground);
    free(kind);
}

struct laid {
    double window_z[128 * 128], window_edt[128 * 128], map_z[64 * 64], map_edt[64 * 64];
};

static double laid_error(void *context, const double at[3])
{
    const struct laid *l = context;
    const int u = (int)fmin(fmax(floor(at[0] + 0.5), 0), 64);
    const int v = (int)fmin(fmax(floor(at[1] + 0.5), 0), 64);
    const double error = reference_error(l->window_z, l->window_edt, l->map_z, l->map_edt, u, v,
                                         round(at[2] * 64) / 64);
    return error < 0 ? 1e9 : error;
}

// The answer's error is that of the map laid there, and the simplex stands where the reference's
// does (but where two errors are equal to the last digits).
static void check_fits(const struct table *t, const struct search_frame *frame,
                       const uint32_t *window)
{
    const struct search_object *object = t->object;
    struct laid *l = malloc(sizeof *l);
    struct search_fit *fits = malloc(object->n_views * sizeof *fits);
    int n_same = 0, n = 0;
    check_that(stage_fit(t->search, object, frame, NULL, object->n_views, 15, fits) == 0, "fit");
    for (int i = 0; i < 128 * 128; i++) {
        l->window_z[i] = search_pair_z(window[i]) / 64.0;
        l->window_edt[i] = search_pair_edt(window[i]) / 64.0;
    }
    for (uint32_t view = 0; view < object->n_views; view += 5) {
        const struct search_view *packed = &object->views[view];
        struct search_map *map = malloc(sizeof *map);
        check_that(t->search->ops->maps(t->search->device, object, packed->rotation, 1, map) == 0,
                   "map");
        int best = -1, n_cover = 0;
        for (int i = 0; i < 64 * 64; i++) {
            l->map_z[i] = map->z[i] / 64.0;
            l->map_edt[i] = map->edt[i] / 64.0;
            n_cover += map->edt[i] >= 0;
            // The paper's start: closeness + EDT / 2, the last of equals.
            if (map->edt[i] >= 0 &&
                (best < 0 || map->edt[i] / 2.0 - map->z[i] >= map->edt[best] / 2.0 - map->z[best]))
                best = i;
        }
        check_that((uint32_t)n_cover == packed->n_cover, "cover of view %u", view);
        check_that(packed->start_u == best % 64 && packed->start_v == best / 64 &&
                       packed->start_z == map->z[best],
                   "start of view %u", view);
        const double start[3] = {64.0 - best % 64, 64.0 - best / 64, -l->map_z[best]};
        const double at[3] = {(double)fits[view].x, (double)fits[view].y, (double)fits[view].z};
        const double there = laid_error(l, at);
        double expected[4];
        check_close(&limits[LIMIT_ERROR], (double)fits[view].error_px, there, there, "error");
        reference_simplex(laid_error, l, start, 3.2, 15, expected);
        n++;
        n_same += fabs(expected[3] - (double)fits[view].error_px) < 0.02 + 1e-3 * expected[3];
        free(map);
    }
    check_that(n_same >= n * 8 / 10, "%d of %d simplexes end where the reference's does", n_same,
               n);
    free(l);
    free(fits);
}

static void check_scan(const struct table *t, const float *z_m, const struct search_frame *starts,
                       uint32_t n_starts)
{
    enum { KEEP = 5, SIZE = 32 };
    const struct search_object *object = t->object;
    struct search_hit *hits = malloc(n_starts * KEEP * sizeof *hits);
    check_that(t->search->ops->scan(t->search->device, object, starts, n_starts, KEEP, hits) == 0,
               "scan");
    int n_off = 0, n = 0;
    for (uint32_t i = 0; i < n_starts; i++) {
        int window[SIZE * SIZE], best = INT32_MIN;
        double r[9], start[3], margin = 1;
        const double px_m = (double)starts[i].px_m;
        reference_widen(starts[i].rotation, 9, r);
        reference_widen(starts[i].start_m, 3, start);
        for (int k = 0; k < SIZE * SIZE; k++) {
            double z;
            const int seen = reference_sample(z_m, &plain, r, start, (k % SIZE - 16) * 4 * px_m,
                                              (k / SIZE - 16) * 4 * px_m, &z, &margin);
            const double value = fmin(fmax(z / px_m * 64, -12000), 12000);
            window[k] = seen == 0 ? -12000 : seen == 2 ? 12000 : (int)round(value);
        }
        for (uint32_t s = 0; s < object->n_seeds; s++) {
            const struct search_coarse *map = &object->coarse[object->seeds[s]];
            for (int a = 0; a < map->n_anchors; a++) {
                int scene[256], model[256], ring[256];
                double facing = 0, length = 0;
                for (int k = 0; k < 3; k++) {
                    facing += (double)starts[i].normal[k] * map->anchor_normal[a][k] / 127;
                    length += fabs((double)starts[i].normal[k]);
                }
                if (length > 0 && facing <= 0.82)
                    continue;
                for (int k = 0; k < 256; k++) {
                    const int u = k % 16 + 16 - map->anchor_u[a],
                              v = k / 16 + 16 - map->anchor_v[a];
                    scene[k] = window[v * SIZE + u];
                    model[k] = map->z[k];
                    ring[k] = map->ring[k];
                }
                const int score =
                    reference_coarse_score(scene, model, ring, 256, map->anchor_z[a], map->n_cells);
                best = score > best ? score : best;
            }
        }
        n++;
        n_off += abs(hits[i * KEEP].score - best) > 40; // two cells of a view of 60
        for (int k = 1; k < KEEP; k++)
            check_that(hits[i * KEEP + (uint32_t)k].score <= hits[i * KEEP + (uint32_t)k - 1].score,
                       "in order");
    }
    check_that(n_off <= n / 10, "%d of %d starts have another best score", n_off, n);
    free(hits);
}

static void check_table(const struct table *t)
{
    check_maps(t);
    struct testscene_mesh mesh;
    struct testscene scene;
    struct testscene_settings settings = {
        .visible_min = 0.5f, .visible_max = 1, .noise = true, .seed = 3};
    if (!check_that(testscene_mesh_make(TESTSCENE_OBJECT_DUCK, &mesh) == 0 &&
                        testscene_create(&mesh, &settings, &scene) == 0,
                    "scene"))
        return;
    float *z_m = malloc(640 * 480 * sizeof *z_m);
    for (int i = 0; i < 640 * 480; i++) // every eighth marked as larger than the object
        z_m[i] = (i / 640 % 64 < 8 ? -1e-3f : 1e-3f) * (float)scene.depth[i];
    const struct search_depth depth = {z_m, {580, -570, 311.5, 245.25, 640, 480}};
    check_that(t->search->ops->image(t->search->device, &depth) == 0, "image");
    struct search_frame starts[24];
    uint32_t *window = malloc(128 * 128 * sizeof *window);
    for (int i = 0; i < 24; i++) {
        const float at[3] = {(float)check_uniform(-0.3, 0.3), (float)check_uniform(-0.2, 0.2),
                             (float)check_uniform(0.5, 0.9)};
        search_start_frame(at, t->object->info.map_px_m, &starts[i]);
        for (int k = 0; k < 3 && i % 2; k++)
            starts[i].normal[k] = k == 2 ? -0.8f : (float)check_uniform(-0.5, 0.5);
    }
    for (int i = 0; i < 3; i++) {
        check_case("%s, window and fits %d", t->name, i);
        check_window(t, z_m, &starts[i], window);
        check_fits(t, &starts[i], window);
    }
    check_case("%s, scan", t->name);
    check_scan(t, z_m, starts, 24);
    free(window);
    free(z_m);
    testscene_free(&scene);
    testscene_mesh_free(&mesh);
}

static void check_tables(void)
{
    static const enum gpu_backend backends[2] = {GPU_BACKEND_CPU, GPU_BACKEND_CUDA};
    struct testscene_mesh mesh;
    if (!check_that(testscene_mesh_make(TESTSCENE_OBJECT_DUCK, &mesh) == 0, "mesh"))
        return;
    const struct search_mesh borrowed = {mesh.vertices_m, mesh.triangles, mesh.n_vertices,
                                         mesh.n_triangles};
    for (int i = 0; i < 2; i++) {
        struct search_settings settings;
        struct search_object_settings object_settings;
        struct table t = {NULL, NULL, i ? "cuda" : "cpu"};
        search_settings_default(&settings);
        search_object_settings_default(&object_settings);
        settings.backend = backends[i];
        settings.log = check_log();
        object_settings.n_views = 128;
        int err = search_open(&t.search, &settings);
        if (err == -ENODEV || err == -ENOTSUP) {
            check_skip("no CUDA device: the CUDA twin is not checked");
            continue;
        }
        err = err ? err : search_object_create(t.search, &borrowed, &object_settings, &t.object);
        if (check_that(err == 0, "%s opens and builds: %d", t.name, err))
            check_table(&t);
        search_object_destroy(t.search, &t.object);
        search_close(&t.search);
    }
    testscene_mesh_free(&mesh);
}

int main(int argc, char **argv)
{
    check_begin(argc, argv);
    check_case("operations");
    check_tables();
    return check_end();
}
