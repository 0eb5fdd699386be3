// SPDX-License-Identifier: Apache-2.0
#include "gpu/align/image.h"

#include <errno.h>
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "gpu/align/projection.h"
#include "gpu/align/resample.h"
#include "gpu/base/depth_noise.h"

#define MIN_VERTICES      100
#define MAX_PROJECTION_PX 4.0 // a projection that errs by more is none
#define OWN_GRID_PX       0.1 // one that errs by more needs a grid of its own, see resample.h

void align_image_settings_default(struct align_image_settings *out)
{
    *out = (struct align_image_settings){
        .normal_radius_px = 2, .max_slope_rad = 78 * M_PI / 180, .jump = 4};
}

// What the making of one image works on: cells of the cropped grid, row by row.
struct making {
    uint32_t width, height, left, top;
    float *p[3]; // NaN in p[2] where the cell is empty
    double m[12];
    bool pinhole;
    double centre[3]; // of the pinhole, or the direction of parallel rays
    double spacing;   // of neighbours on the grid, at a third row of 1
    double rms_px;    // of the projection
};

static double depth_of(const struct making *k, const float p[3])
{
    return k->m[8] * (double)p[0] + k->m[9] * (double)p[1] + k->m[10] * (double)p[2] + k->m[11];
}

// Unit vector from p to the sensor.
static void view_of(const struct making *k, const double p[3], double out[3])
{
    double norm = 0;
    for (int i = 0; i < 3; i++) {
        out[i] = k->pinhole ? k->centre[i] - p[i] : k->centre[i];
        norm += out[i] * out[i];
    }
    for (int i = 0; i < 3; i++)
        out[i] /= sqrt(norm);
}

static int compare_floats(const void *a, const void *b)
{
    float x = *(const float *)a, y = *(const float *)b;
    return (x > y) - (x < y);
}

static double median(float *values, size_t n)
{
    if (n == 0)
        return 0;
    qsort(values, n, sizeof *values, compare_floats);
    return (double)values[n / 2];
}

static int crop(struct making *k, const struct align_grid *grid)
{
    uint32_t u0 = UINT32_MAX, v0 = UINT32_MAX, u1 = 0, v1 = 0;
    for (uint32_t v = 0; v < grid->height; v++)
        for (uint32_t u = 0; u < grid->width; u++)
            if (grid->index[(size_t)v * grid->width + u] != ALIGN_GRID_EMPTY) {
                u0 = u < u0 ? u : u0;
                u1 = u > u1 ? u : u1;
                v0 = v < v0 ? v : v0;
                v1 = v > v1 ? v : v1;
            }
    if (u0 == UINT32_MAX)
        u0 = v0 = u1 = v1 = 0;
    k->left = u0;
    k->top = v0;
    k->width = u1 - u0 + 1;
    k->height = v1 - v0 + 1;
    size_t n = (size_t)k->width * k->height;
    for (int i = 0; i < 3; i++) {
        k->p[i] = malloc(n * sizeof *k->p[i]);
        if (!k->p[i])
            return -ENOMEM;
    }
    for (uint32_t v = 0; v < k->height; v++)
        for (uint32_t u = 0; u < k->width; u++) {
            uint32_t index = grid->index[(size_t)(v + v0) * grid->width + u + u0];
            size_t at = (size_t)v * k->width + u;
            bool has = index != ALIGN_GRID_EMPTY;
            k->p[0][at] = has ? grid->x_m[index] : NAN;
            k->p[1][at] = has ? grid->y_m[index] : NAN;
            k->p[2][at] = has ? grid->z_m[index] : NAN;
        }
    for (int i = 0; i < 4; i++) {
        k->m[i] -= u0 * k->m[8 + i];
        k->m[4 + i] -= v0 * k->m[8 + i];
    }
    return 0;
}

static int find_spacing(struct making *k)
{
    size_t n = 0, n_cells = (size_t)k->width * k->height, step = n_cells / 20000 + 1;
    float *distances = malloc((n_cells / step + 1) * sizeof *distances);
    if (!distances)
        return -ENOMEM;
    for (size_t at = 0; at + 1 < n_cells; at += step) {
        if (at % k->width == k->width - 1 || isnan(k->p[2][at]) || isnan(k->p[2][at + 1]))
            continue;
        float a[3] = {k->p[0][at], k->p[1][at], k->p[2][at]}, sum = 0;
        for (int i = 0; i < 3; i++)
            sum += (k->p[i][at + 1] - a[i]) * (k->p[i][at + 1] - a[i]);
        distances[n++] = sqrtf(sum) / (float)depth_of(k, a);
    }
    k->spacing = median(distances, n);
    free(distances);
    return 0;
}

// Sums of a least-squares plane patch over the window: each coordinate as a linear function of the
// cell's offset.
struct patch {
    double n, u, v, uu, uv, vv, p[3], pu[3], pv[3];
};

static void patch_sum(const struct making *k, uint32_t u, uint32_t v, int radius, double limit2,
                      struct patch *s)
{
    size_t at = (size_t)v * k->width + u;
    float x = k->p[0][at], y = k->p[1][at], z = k->p[2][at];
    memset(s, 0, sizeof *s);
    for (int dv = -radius; dv <= radius; dv++) {
        if ((int64_t)v + dv < 0 || (int64_t)v + dv >= k->height)
            continue;
        for (int du = -radius; du <= radius; du++) {
            if ((int64_t)u + du < 0 || (int64_t)u + du >= k->width)
                continue;
            size_t near = at + (size_t)((int64_t)dv * k->width + du);
            float d[3] = {k->p[0][near] - x, k->p[1][near] - y, k->p[2][near] - z};
            double d2 = (double)(d[0] * d[0] + d[1] * d[1] + d[2] * d[2]);
            int rings = abs(du) > abs(dv) ? abs(du) : abs(dv);
            if (!(d2 <= limit2 * rings * rings)) // also a NaN
                continue;
            s->n += 1;
            s->u += du;
            s->v += dv;
            s->uu += du * du;
            s->uv += du * dv;
            s->vv += dv * dv;
            for (int i = 0; i < 3; i++) {
                s->p[i] += (double)d[i];
                s->pu[i] += (double)d[i] * du;
                s->pv[i] += (double)d[i] * dv;
            }
        }
    }
}

// Normal of the patch (unit, sign open) and its offset from the middle vertex along it. False: too
// few neighbours.
static bool patch_plane(const struct patch *s, int radius, double out_n[3], double *out_offset)
{
    double least = 0.4 * (2 * radius + 1) * (2 * radius + 1);
    if (s->n < least)
        return false;
    double uu = s->uu - s->u * s->u / s->n, vv = s->vv - s->v * s->v / s->n;
    double uv = s->uv - s->u * s->v / s->n, det = uu * vv - uv * uv;
    if (!(det > 1e-6 * uu * vv) || !(uu > 0))
        return false;
    double tu[3], tv[3], norm = 0;
    for (int i = 0; i < 3; i++) {
        double pu = s->pu[i] - s->p[i] * s->u / s->n, pv = s->pv[i] - s->p[i] * s->v / s->n;
        tu[i] = (vv * pu - uv * pv) / det;
        tv[i] = (uu * pv - uv * pu) / det;
    }
    for (int i = 0; i < 3; i++) {
        out_n[i] = tu[(i + 1) % 3] * tv[(i + 2) % 3] - tu[(i + 2) % 3] * tv[(i + 1) % 3];
        norm += out_n[i] * out_n[i];
    }
    if (!(norm > 0))
        return false;
    *out_offset = 0;
    for (int i = 0; i < 3; i++) {
        out_n[i] /= sqrt(norm);
        double middle = (s->p[i] - tu[i] * s->u - tv[i] * s->v) / s->n;
        *out_offset += out_n[i] * middle;
    }
    return true;
}

// Planes of all cells; the offsets of the vertices from their patches are the noise. Returns how
// many there are, or -ENOMEM.
static long make_planes(const struct making *k, const struct align_image_settings *settings,
                        struct align_image *image)
{
    int radius = (int)settings->normal_radius_px;
    double least_cosine = cos(settings->max_slope_rad);
    long n = 0;
    size_t n_cells = (size_t)k->width * k->height, step = n_cells / 40000 + 1, n_offsets = 0;
    float *offsets = malloc((n_cells / step + 1) * sizeof *offsets);
    if (!offsets)
        return -ENOMEM;
    for (uint32_t v = 0; v < k->height; v++)
        for (uint32_t u = 0; u < k->width; u++) {
            size_t at = (size_t)v * k->width + u;
            float p[3] = {k->p[0][at], k->p[1][at], k->p[2][at]};
            image->planes[at] = (struct pair_plane){0, 0, 0, 0};
            if (isnan(p[2]))
                continue;
            double limit = settings->jump * k->spacing * depth_of(k, p), normal[3], offset;
            if (settings->noise.a_m > 0)
                limit += 3 / (double)pair_precision(settings->noise, p[2]);
            struct patch sums;
            patch_sum(k, u, v, radius, limit * limit, &sums);
            if (!patch_plane(&sums, radius, normal, &offset))
                continue;
            double at_p[3] = {(double)p[0], (double)p[1], (double)p[2]}, view[3], cosine = 0, d = 0;
            view_of(k, at_p, view);
            for (int i = 0; i < 3; i++)
                cosine += normal[i] * view[i];
            if (fabs(cosine) < least_cosine)
                continue;
            for (int i = 0; i < 3; i++) {
                normal[i] = cosine < 0 ? -normal[i] : normal[i];
                d += normal[i] * at_p[i];
            }
            image->planes[at] =
                (struct pair_plane){(float)normal[0], (float)normal[1], (float)normal[2], (float)d};
            n++;
            if (at % step == 0)
                offsets[n_offsets++] = (float)fabs(offset);
        }
    if (settings->noise.a_m > 0)
        image->noise = settings->noise;
    else // a vertex' own share in its patch takes part of its offset away: hence 1.6, not 1.48
        image->noise = (struct pair_noise){(float)(1.6 * median(offsets, n_offsets)), 0};
    float least = (float)(1e-3 * image->spacing_m); // noise-free images have some, too
    if (!(image->noise.a_m > least))
        image->noise.a_m = least;
    free(offsets);
    return n;
}

static uint32_t level_of(uint32_t u, uint32_t v)
{
    return (u | v) % 4 == 0 ? 2 : (u | v) % 2 == 0 ? 1 : 0;
}

static float *take_floats(uint32_t n)
{
    return aligned_alloc(64, ((size_t)n * sizeof(float) + 63) / 64 * 64 + 64);
}

static int take_vertices(struct align_image *image, uint32_t n)
{
    float **arrays[] = {&image->x_m, &image->y_m, &image->z_m, &image->nx, &image->ny, &image->nz};
    image->cell = malloc((size_t)n * sizeof *image->cell);
    bool good = image->cell;
    for (int i = 0; i < 6; i++) {
        *arrays[i] = take_floats(n);
        good = good && *arrays[i];
    }
    return good ? 0 : -ENOMEM;
}

static void fill_vertices(const struct making *k, struct align_image *image)
{
    uint32_t n = 0;
    for (int level = ALIGN_LEVELS - 1; level >= 0; level--) {
        for (uint32_t v = 0; v < k->height; v++)
            for (uint32_t u = 0; u < k->width; u++) {
                size_t at = (size_t)v * k->width + u;
                struct pair_plane plane = image->planes[at];
                if (level_of(u, v) != (uint32_t)level ||
                    (plane.nx == 0 && plane.ny == 0 && plane.nz == 0))
                    continue;
                image->x_m[n] = k->p[0][at];
                image->y_m[n] = k->p[1][at];
                image->z_m[n] = k->p[2][at];
                image->nx[n] = plane.nx;
                image->ny[n] = plane.ny;
                image->nz[n] = plane.nz;
                image->cell[n++] = (uint32_t)at;
            }
        image->n_level[level] = n;
    }
}

static void measure(const struct making *k, struct align_image *image)
{
    const float *const p[3] = {image->x_m, image->y_m, image->z_m};
    uint32_t n = image->n_level[0];
    for (int i = 0; i < 3; i++) {
        double low = INFINITY, high = -INFINITY, sum = 0;
        for (uint32_t a = 0; a < n; a++) {
            double x = (double)p[i][a];
            low = x < low ? x : low;
            high = x > high ? x : high;
            sum += x;
        }
        image->low_m[i] = low;
        image->high_m[i] = high;
        image->centre_m[i] = sum / n;
    }
    view_of(k, image->centre_m, image->view);
    // The side of the box that looks to the sensor: from its middle along the view.
    double reach = INFINITY;
    for (int i = 0; i < 3; i++) {
        double half = 0.5 * (image->high_m[i] - image->low_m[i]);
        if (fabs(image->view[i]) > 1e-9 && half / fabs(image->view[i]) < reach)
            reach = half / fabs(image->view[i]);
    }
    for (int i = 0; i < 3; i++)
        image->surface_m[i] = 0.5 * (image->high_m[i] + image->low_m[i]) + reach * image->view[i];
}

static int make(struct making *k, const struct align_grid *grid,
                const struct align_image_settings *settings, const char *name,
                const struct log_sink *log, struct align_image *image)
{
    int rc = crop(k, grid);
    if (rc == 0)
        rc = find_spacing(k);
    if (rc < 0)
        return rc;
    k->pinhole = projection_centre(k->m, k->centre);
    image->width = k->width;
    image->height = k->height;
    image->left = k->left;
    image->top = k->top;
    image->spacing_m = k->spacing; // the third row is 1 on average
    for (int i = 0; i < 12; i++)
        image->projection[i] = (float)k->m[i];
    size_t n_cells = (size_t)k->width * k->height;
    image->planes = aligned_alloc(64, (n_cells * sizeof *image->planes + 63) / 64 * 64);
    if (!image->planes)
        return -ENOMEM;
    long n = make_planes(k, settings, image);
    if (n < 0)
        return (int)n;
    if (n < MIN_VERTICES) {
        log_to(log, LOG_LEVEL_ERROR, "%s: %ld vertices with a tangent plane, %d are needed", name,
               n, MIN_VERTICES);
        return -EINVAL;
    }
    rc = take_vertices(image, (uint32_t)n);
    if (rc < 0)
        return rc;
    fill_vertices(k, image);
    measure(k, image);
    if (k->rms_px > OWN_GRID_PX) {
        rc = align_image_scatter(image);
        if (rc < 0)
            return rc;
    }
    image->projection_rms_px = k->rms_px;
    image->n_bytes = sizeof *image + n_cells * sizeof *image->planes +
                     (size_t)n * (6 * sizeof(float) + sizeof *image->cell);
    return 0;
}

static int create(struct align_image **out, struct making *k, const struct align_grid *grid,
                  const struct align_image_settings *settings, const char *name,
                  const struct log_sink *log)
{
    *out = calloc(1, sizeof **out);
    int rc = *out ? make(k, grid, settings, name, log, *out) : -ENOMEM;
    for (int i = 0; i < 3; i++)
        free(k->p[i]);
    if (rc == -ENOMEM)
        log_to(log, LOG_LEVEL_ERROR, "%s: out of memory", name);
    if (rc < 0)
        align_image_destroy(out);
    return rc;
}

int align_image_create(struct align_image **out, const struct align_grid *grid,
                       const struct align_image_settings *settings, const char *name,
                       const struct log_sink *log)
{
    struct making k = {.width = 0};
    *out = NULL;
    double rms_px = projection_fit(grid, k.m);
    if (!(rms_px <= MAX_PROJECTION_PX)) {
        log_to(log, LOG_LEVEL_ERROR,
               "%s: no pinhole or parallel projection explains the range grid (%.2f cells rms)",
               name, rms_px);
        return -EINVAL;
    }
    k.rms_px = rms_px;
    return create(out, &k, grid, settings, name, log);
}

int align_image_create_depth(struct align_image **out, const float *z_m,
                             const struct intrinsics *camera,
                             const struct align_image_settings *settings, const char *name,
                             const struct log_sink *log)
{
    size_t n = (size_t)camera->width_px * camera->height_px, n_points = 0;
    float *p = malloc(3 * n * sizeof *p);
    uint32_t *index = malloc(n * sizeof *index);
    struct align_image_settings with_noise = *settings;
    int rc = -ENOMEM;
    *out = NULL;
    if (!p || !index) {
        log_to(log, LOG_LEVEL_ERROR, "%s: out of memory", name);
        goto free_points;
    }
    if (!(with_noise.noise.a_m > 0))
        with_noise.noise = (struct pair_noise){NOISE_SIGMA_LEAST_M, NOISE_SIGMA_PER_M};
    double sum = 0;
    for (uint32_t v = 0; v < camera->height_px; v++)
        for (uint32_t u = 0; u < camera->width_px; u++) {
            size_t at = (size_t)v * camera->width_px + u;
            double z = (double)z_m[at];
            index[at] = z > 0 ? (uint32_t)n_points : ALIGN_GRID_EMPTY;
            if (!(z > 0))
                continue;
            p[n_points] = (float)((u - camera->cx_px) / camera->fx_px * z);
            p[n + n_points] = (float)((v - camera->cy_px) / camera->fy_px * z);
            p[2 * n + n_points++] = z_m[at];
            sum += z;
        }
    double scale = n_points ? (double)n_points / sum : 1; // third row: 1 on average
    struct making k = {.m = {camera->fx_px * scale, 0, camera->cx_px * scale, 0, 0,
                             camera->fy_px * scale, camera->cy_px * scale, 0, 0, 0, scale, 0}};
    struct align_grid grid = {
        p, p + n, p + 2 * n, n_points, index, camera->width_px, camera->height_px};
    rc = create(out, &k, &grid, &with_noise, name, log);
free_points:
    free(p);
    free(index);
    return rc;
}

int align_image_copy(struct align_image **out, const struct align_image *image)
{
    uint32_t n = image->n_level[0];
    size_t plane_bytes = (size_t)image->width * image->height * sizeof *image->planes;
    struct align_image *copy = *out = malloc(sizeof *copy);
    if (!copy)
        return -ENOMEM;
    *copy = *image;
    copy->planes = aligned_alloc(64, (plane_bytes + 63) / 64 * 64);
    copy->cell = NULL;
    copy->x_m = copy->y_m = copy->z_m = copy->nx = copy->ny = copy->nz = NULL;
    if (!copy->planes || take_vertices(copy, n) < 0) {
        align_image_destroy(out);
        return -ENOMEM;
    }
    memcpy(copy->planes, image->planes, plane_bytes);
    memcpy(copy->cell, image->cell, n * sizeof *copy->cell);
    memcpy(copy->x_m, image->x_m, n * sizeof *copy->x_m);
    memcpy(copy->y_m, image->y_m, n * sizeof *copy->y_m);
    memcpy(copy->z_m, image->z_m, n * sizeof *copy->z_m);
    memcpy(copy->nx, image->nx, n * sizeof *copy->nx);
    memcpy(copy->ny, image->ny, n * sizeof *copy->ny);
    memcpy(copy->nz, image->nz, n * sizeof *copy->nz);
    return 0;
}

void align_image_destroy(struct align_image **image)
{
    struct align_image *i = *image;
    if (!i)
        return;
    free(i->x_m);
    free(i->y_m);
    free(i->z_m);
    free(i->nx);
    free(i->ny);
    free(i->nz);
    free(i->cell);
    free(i->planes);
    free(i);
    *image = NULL;
}
