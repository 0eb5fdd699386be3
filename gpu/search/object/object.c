// SPDX-License-Identifier: Apache-2.0
// Making a searchable object: a clean mesh about its centre, its reference views, its symmetry.
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "gpu/search/kernels/depth_edges.h"
#include "gpu/search/object/build.h"
#include "gpu/search/object/corners.h"
#include "gpu/search/object/near_symmetry.h"
#include "gpu/search/object/point_surface.h"
#include "gpu/search/object/view_packing.h"
#include "gpu/search/object/view_rotations.h"
#include "gpu/search/object/view_selection.h"

#define BATCH_VIEWS     256
#define BATCH_TRIANGLES 30000000 // drawn in a batch at most; about 10 ns each on a CPU
#define MAP_MARGIN      3        // px of background around the model's sphere
#define N_SEEDS         2048
#define POINTS_FEW      200 // of a model: rather corners of one whose faces are missing

void search_object_free(struct search_object *object)
{
    if (!object)
        return;
    free(object->x);
    free(object->y);
    free(object->z);
    free(object->triangles);
    free(object->views);
    free(object->chunk_offset);
    free(object->chunk_pairs);
    free(object->coarse);
    free(object->points);
    free(object->n_points);
    free(object->n_ring);
    free(object->seeds);
    free(object->child_first);
    free(object->children);
    free(object->seed_rotations);
    free(object);
}

void search_object_destroy(struct search *search, struct search_object **object)
{
    if (!object || !*object)
        return;
    search->ops->detach(search->device, *object);
    search_object_free(*object);
    *object = NULL;
}

void search_object_describe(const struct search_object *object, struct search_object_info *out)
{
    *out = object->info;
}

static bool usable(const struct search_mesh *mesh, const uint32_t *t)
{
    for (int k = 0; k < 3; k++) {
        if (t[k] >= mesh->n_vertices)
            return false;
        const float *p = mesh->vertices_m + 3 * (size_t)t[k];
        if (!isfinite(p[0]) || !isfinite(p[1]) || !isfinite(p[2]) || fabsf(p[0]) > 1e6f ||
            fabsf(p[1]) > 1e6f || fabsf(p[2]) > 1e6f)
            return false;
    }
    double ab[3], ac[3], area2 = 0;
    for (int k = 0; k < 3; k++) {
        ab[k] = (double)mesh->vertices_m[3 * (size_t)t[1] + (size_t)k] -
                (double)mesh->vertices_m[3 * (size_t)t[0] + (size_t)k];
        ac[k] = (double)mesh->vertices_m[3 * (size_t)t[2] + (size_t)k] -
                (double)mesh->vertices_m[3 * (size_t)t[0] + (size_t)k];
    }
    for (int k = 0; k < 3; k++) {
        double n = ab[k] * ac[(k + 1) % 3] - ab[(k + 1) % 3] * ac[k];
        area2 += n * n;
    }
    return area2 > 0;
}

// Centre and radius of the smallest enclosing sphere (Badoiu and Clarkson 2003: step towards the
// farthest point). Unlike the bounding box's centre it lies on every axis of symmetry.
static void enclosing_sphere(const float *vertices, const bool *used, size_t n, double centre[3],
                             double *out_radius)
{
    size_t first = 0;
    while (!used[first])
        first++;
    for (int k = 0; k < 3; k++)
        centre[k] = (double)vertices[3 * first + (size_t)k];
    for (int i = 1; i <= 300; i++) {
        double far2 = 0;
        size_t far = first;
        for (size_t j = first; j < n; j++) {
            if (!used[j])
                continue;
            const float *p = vertices + 3 * j;
            double d[3] = {(double)p[0] - centre[0], (double)p[1] - centre[1],
                           (double)p[2] - centre[2]};
            double d2 = d[0] * d[0] + d[1] * d[1] + d[2] * d[2];
            if (d2 > far2) {
                far2 = d2;
                far = j;
            }
        }
        *out_radius = sqrt(far2);
        if (i < 300)
            for (int k = 0; k < 3; k++)
                centre[k] += ((double)vertices[3 * far + (size_t)k] - centre[k]) / (i + 1);
    }
}

static int take_mesh(struct search_object *object, const struct search_mesh *mesh,
                     const struct log_sink *log)
{
    if (mesh->n_vertices > UINT32_MAX / 8 || mesh->n_triangles > UINT32_MAX / 8) {
        log_to(log, LOG_LEVEL_ERROR, "mesh: too large");
        return -EINVAL;
    }
    bool *used = calloc(mesh->n_vertices + 1, sizeof *used);
    uint32_t *renumbered = malloc((mesh->n_vertices + 1) * sizeof *renumbered);
    object->triangles = malloc((3 * mesh->n_triangles + 1) * sizeof *object->triangles);
    object->x = malloc((mesh->n_vertices + 1) * sizeof *object->x);
    object->y = malloc((mesh->n_vertices + 1) * sizeof *object->y);
    object->z = malloc((mesh->n_vertices + 1) * sizeof *object->z);
    int err = -ENOMEM;
    if (!used || !renumbered || !object->triangles || !object->x || !object->y || !object->z)
        goto out;
    for (size_t i = 0; i < mesh->n_triangles; i++) {
        const uint32_t *t = mesh->triangles + 3 * i;
        if (!usable(mesh, t))
            continue;
        memcpy(object->triangles + 3 * (size_t)object->n_triangles++, t, 3 * sizeof *t);
        used[t[0]] = used[t[1]] = used[t[2]] = true;
    }
    err = -EINVAL;
    if (object->n_triangles == 0) {
        log_to(log, LOG_LEVEL_ERROR, "mesh: no usable triangle among %zu", mesh->n_triangles);
        goto out;
    }
    if (object->n_triangles < mesh->n_triangles)
        log_to(log, LOG_LEVEL_WARNING,
               "mesh: %zu of %zu triangles left out (degenerate, not finite or out of range)",
               mesh->n_triangles - object->n_triangles, mesh->n_triangles);
    double centre[3], radius;
    enclosing_sphere(mesh->vertices_m, used, mesh->n_vertices, centre, &radius);
    if (radius > SEARCH_RADIUS_ODD_M)
        log_to(log, LOG_LEVEL_WARNING, "mesh: %.4g m across; are these millimetres?", 2 * radius);
    if (radius < 0.005)
        log_to(log, LOG_LEVEL_WARNING, "mesh: %.4g mm across: too small for a depth camera",
               2000 * radius);
    object->info.radius_m = (float)radius;
    object->info.map_px_m = (float)(2 * radius / (SEARCH_MAP_PX - 2 * MAP_MARGIN));
    memcpy(object->info.centre_m, centre, sizeof centre);
    for (size_t i = 0; i < mesh->n_vertices; i++) {
        if (!used[i])
            continue;
        const float *p = mesh->vertices_m + 3 * i;
        double scale = 1 / (double)object->info.map_px_m;
        renumbered[i] = object->n_vertices;
        object->x[object->n_vertices] = (float)(((double)p[0] - centre[0]) * scale);
        object->y[object->n_vertices] = (float)(((double)p[1] - centre[1]) * scale);
        object->z[object->n_vertices++] = (float)(((double)p[2] - centre[2]) * scale);
    }
    for (size_t i = 0; i < 3 * (size_t)object->n_triangles; i++)
        object->triangles[i] = renumbered[object->triangles[i]];
    err = 0;
out:
    free(used);
    free(renumbered);
    return err;
}

// A model without faces is one of points on its surface.
static int take_points(struct search_object *object, const struct search_mesh *points,
                       const struct log_sink *log)
{
    struct point_surface surface;
    int err =
        point_surface_make(points->vertices_m, points->n_vertices, 2 * SEARCH_MAP_PX, &surface);
    if (err == -EINVAL)
        log_to(log, LOG_LEVEL_ERROR, "model: neither faces nor three points that differ");
    if (err)
        return err;
    const struct search_mesh mesh = {surface.vertices_m, surface.triangles, surface.n_vertices,
                                     surface.n_triangles};
    if (surface.n_triangles == 0) {
        log_to(log, LOG_LEVEL_ERROR, "model: no faces, and its points are all on one line");
        err = -EINVAL;
    } else {
        log_to(log, LOG_LEVEL_INFO,
               "model: no faces; %zu triangles through its points, %.3g mm apart (gaps "
               "of %.3g mm are closed)",
               surface.n_triangles, 1000 * surface.spacing_m, 1000 * surface.gap_m);
        if (surface.n_vertices < POINTS_FEW)
            log_to(log, LOG_LEVEL_WARNING, "model: %zu points only: are its faces missing?",
                   surface.n_vertices);
        err = take_mesh(object, &mesh, log);
    }
    point_surface_free(&surface);
    return err;
}

static int grow_chunks(struct search_object *object, uint32_t *capacity, uint32_t n_more)
{
    if (object->chunk_offset && object->n_chunks + n_more <= *capacity)
        return 0;
    // room for one at least: a view may show nothing, and there must be an array all the same
    uint32_t needed = object->n_chunks + n_more + 1;
    uint32_t wanted = 2 * *capacity > needed ? 2 * *capacity : needed;
    uint16_t *offset = realloc(object->chunk_offset, wanted * sizeof *offset);
    if (!offset)
        return -ENOMEM;
    object->chunk_offset = offset;
    uint32_t *pairs = realloc(object->chunk_pairs, (size_t)wanted * SEARCH_CHUNK * sizeof *pairs);
    if (!pairs)
        return -ENOMEM;
    object->chunk_pairs = pairs;
    *capacity = wanted;
    return 0;
}

static int pack(struct search_object *object, const struct search_map *map, uint32_t index,
                uint32_t *capacity)
{
    struct search_view *view = &object->views[index];
    int err = grow_chunks(object, capacity, search_count_chunks(map));
    if (err)
        return err;
    view->first_chunk = object->n_chunks;
    search_pack_view(map, view, object->chunk_offset + object->n_chunks,
                     object->chunk_pairs + (size_t)object->n_chunks * SEARCH_CHUNK);
    object->n_chunks += view->n_chunks;
    search_pack_coarse(map, &object->coarse[index]);
    struct search_point *points =
        object->points + (size_t)index * (SEARCH_POINTS + SEARCH_RING_POINTS);
    object->n_points[index] = search_pack_points(map, points);
    object->n_ring[index] = search_pack_ring(map, points + SEARCH_POINTS);
    return 0;
}

static int allocate_views(struct search_object *object, uint32_t n)
{
    object->views = calloc(n, sizeof *object->views);
    object->coarse = calloc(n, sizeof *object->coarse);
    object->points =
        calloc((size_t)n * (SEARCH_POINTS + SEARCH_RING_POINTS), sizeof *object->points);
    object->n_points = calloc(n, sizeof *object->n_points);
    object->n_ring = calloc(n, sizeof *object->n_ring);
    return object->views && object->coarse && object->points && object->n_points && object->n_ring
               ? 0
               : -ENOMEM;
}

uint32_t search_batch_views(const struct search_object *object)
{
    uint32_t n = BATCH_TRIANGLES / (object->n_triangles + 1);
    return n < 1 ? 1 : n < BATCH_VIEWS ? n : BATCH_VIEWS;
}

int search_tell_progress(const struct search_object_settings *settings, uint32_t n_done)
{
    bool ends = settings->progress && settings->progress(settings->user, n_done, settings->n_views);
    return ends ? -ECANCELED : 0;
}

static int build_views(struct search *search, struct search_object *object,
                       const struct search_object_settings *settings)
{
    uint32_t n = settings->n_views, capacity = 0;
    const uint32_t n_most = search_batch_views(object);
    struct search_map *maps = malloc(n_most * sizeof *maps);
    float *rotations = malloc((size_t)n * 9 * sizeof *rotations);
    int err = maps && rotations ? allocate_views(object, n) : -ENOMEM;
    for (uint32_t i = 0; i < n && !err && settings->choice == SEARCH_CHOICE_EVEN; i++)
        search_rotation(i, n, rotations + 9 * (size_t)i);
    if (!err && settings->choice == SEARCH_CHOICE_GREEDY)
        err = search_choose_greedy(search, object, settings, rotations);
    for (uint32_t from = 0; !err && from < n; from += n_most) {
        uint32_t n_batch = n - from < n_most ? n - from : n_most;
        const float *batch = rotations + 9 * (size_t)from;
        for (uint32_t i = 0; i < n_batch; i++)
            memcpy(object->views[from + i].rotation, batch + 9 * (size_t)i, 9 * sizeof(float));
        err = search->ops->maps(search->device, object, batch, n_batch, maps);
        for (uint32_t i = 0; !err && i < n_batch; i++)
            err = pack(object, &maps[i], from + i, &capacity);
        if (!err)
            err = search_tell_progress(settings, from + n_batch);
    }
    object->n_views = err ? 0 : n;
    free(maps);
    free(rotations);
    return err;
}

static void summarise(struct search_object *object)
{
    struct search_object_info *info = &object->info;
    info->n_views = object->n_views;
    info->n_triangles = object->n_triangles;
    info->n_vertices = object->n_vertices;
    double pixels = 0, spacing = 0;
    for (uint32_t i = 0; i < object->n_views; i++)
        pixels += object->views[i].n_cover;
    info->mean_pixels = (float)(pixels / object->n_views);
    uint32_t n_samples = object->n_views < 128 ? object->n_views : 128;
    for (uint32_t i = 0; i < n_samples; i++) {
        uint32_t at = (uint32_t)((uint64_t)i * object->n_views / n_samples);
        double nearest = 4;
        for (uint32_t j = 0; j < object->n_views; j++)
            if (j != at)
                nearest = fmin(nearest, search_rotation_angle(object->views[at].rotation,
                                                              object->views[j].rotation));
        spacing += nearest / n_samples;
    }
    info->spacing_rad = (float)spacing;
}

int search_object_finish(struct search *search, struct search_object *object)
{
    summarise(object);
    search_find_corners(object);
    int err = search_choose_seeds(object, N_SEEDS);
    return err ? err : search->ops->attach(search->device, object);
}

int search_object_create(struct search *search, const struct search_mesh *mesh,
                         const struct search_object_settings *settings, struct search_object **out)
{
    *out = NULL;
    const char *why, *wrong = search_object_settings_check(settings, &why);
    if (wrong) {
        log_to(&search->log, LOG_LEVEL_ERROR, "%s: %s", wrong, why);
        return -EINVAL;
    }
    struct search_object *object = calloc(1, sizeof *object);
    if (!object)
        return -ENOMEM;
    int err = mesh->n_triangles ? take_mesh(object, mesh, &search->log)
                                : take_points(object, mesh, &search->log);
    if (!err)
        err = build_views(search, object, settings);
    if (!err)
        err = search_find_symmetry(search, object, settings);
    if (!err)
        err = search_find_near_symmetries(search, object);
    if (!err)
        err = search_object_finish(search, object);
    if (err) {
        search_object_free(object);
        return err;
    }
    *out = object;
    return 0;
}
