// SPDX-License-Identifier: Apache-2.0
#include "gpu/register/features.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "gpu/base/parallel.h"
#include "gpu/register/kernels/fpfh.h"

#define PIECE 128u // points whose histograms a thread makes at once
#define LANES 64u  // targets that are compared at once
#define ROWS  4u   // with so many sources
#define FAR   1e30f

struct making {
    struct register_features *out;
    struct register_cells cells;
    float radius_m;
    float *simple; // n rows of FPFH_SIZE, one point's pairs only
};

static bool has_plane(const struct register_cell_point *normal)
{
    return normal->x != 0.0f || normal->y != 0.0f || normal->z != 0.0f;
}

// Histograms of the pairs of a point with its neighbours, each third adding up to 1.
static CPU_CLONES void simple_piece(void *user, uint32_t piece, uint32_t thread)
{
    (void)thread;
    const struct making *making = user;
    const struct register_features *f = making->out;
    const float radius2 = making->radius_m * making->radius_m;
    for (uint32_t i = piece * PIECE; i < f->n && i < (piece + 1) * PIECE; i++) {
        float *out = making->simple + (size_t)i * FPFH_SIZE;
        memset(out, 0, FPFH_SIZE * sizeof *out);
        const float p[3] = {f->points[i].x, f->points[i].y, f->points[i].z};
        const float n[3] = {f->normals[i].x, f->normals[i].y, f->normals[i].z};
        struct register_cells_walk walk;
        uint32_t j, n_pairs = 0;
        if (!has_plane(&f->normals[i]) ||
            !register_cells_begin(&making->cells, p, making->radius_m, &walk))
            continue;
        while ((j = register_cells_next(&making->cells, &walk)) != REGISTER_CELLS_NONE) {
            const float d2 = register_cells_distance2(&f->points[j], p);
            if (j == i || !(d2 <= radius2) || !(d2 > 0.0f) || !has_plane(&f->normals[j]))
                continue;
            const float line[3] = {f->points[j].x - p[0], f->points[j].y - p[1],
                                   f->points[j].z - p[2]};
            const float m[3] = {f->normals[j].x, f->normals[j].y, f->normals[j].z};
            int bins[3];
            if (!fpfh_pair(n, m, line, sqrtf(d2), bins))
                continue;
            for (int k = 0; k < 3; k++)
                out[bins[k]] += 1;
            n_pairs++;
        }
        for (int k = 0; k < FPFH_SIZE && n_pairs > 0; k++)
            out[k] /= (float)n_pairs;
    }
}

// The point's own histogram and its neighbours', nearer ones more; on the side on which they lie.
static CPU_CLONES void full_piece(void *user, uint32_t piece, uint32_t thread)
{
    (void)thread;
    const struct making *making = user;
    struct register_features *f = making->out;
    const float radius2 = making->radius_m * making->radius_m;
    for (uint32_t i = piece * PIECE; i < f->n && i < (piece + 1) * PIECE; i++) {
        const float p[3] = {f->points[i].x, f->points[i].y, f->points[i].z};
        float sum[FPFH_SIZE] = {0}, weights = 0;
        uint32_t j, n_pairs = 0;
        struct register_cells_walk walk;
        f->square[i] = FAR;
        if (!has_plane(&f->normals[i]) ||
            !register_cells_begin(&making->cells, p, making->radius_m, &walk))
            continue;
        while ((j = register_cells_next(&making->cells, &walk)) != REGISTER_CELLS_NONE) {
            const float d2 = register_cells_distance2(&f->points[j], p);
            if (j == i || !(d2 <= radius2) || !(d2 > 0.0f) || !has_plane(&f->normals[j]))
                continue;
            const float *other = making->simple + (size_t)j * FPFH_SIZE;
            const float w = 1.0f / sqrtf(d2);
            const bool same = f->normals[i].x * f->normals[j].x +
                                  f->normals[i].y * f->normals[j].y +
                                  f->normals[i].z * f->normals[j].z >=
                              0.0f;
            weights += w;
            n_pairs++;
            if (same)
                for (int k = 0; k < FPFH_SIZE; k++)
                    sum[k] += w * other[k];
            else
                for (int k = 0; k < FPFH_SIZE; k++)
                    sum[fpfh_mirrored(k)] += w * other[k];
        }
        if (n_pairs < 8)
            continue;
        const float *own = making->simple + (size_t)i * FPFH_SIZE;
        float front = 0, square = 0;
        for (int k = 0; k < FPFH_SIZE; k++)
            sum[k] = own[k] + sum[k] / weights;
        for (int k = 0; k < FPFH_BINS; k++)
            front += (float)(k - FPFH_BINS / 2) * sum[2 * FPFH_BINS + k];
        for (int k = 0; k < FPFH_SIZE; k++) {
            const float value = sum[front < 0.0f ? fpfh_mirrored(k) : k];
            f->values[(size_t)k * f->n_padded + i] = value;
            square += value * value;
        }
        f->square[i] = square;
    }
}

static int compare_floats(const void *a, const void *b)
{
    const float x = *(const float *)a, y = *(const float *)b;
    return (x > y) - (x < y);
}

// Which descriptors are rare: those farther from the mean than half of them. unlike: room for 2 n.
static void find_rare(struct register_features *f, float *unlike)
{
    float mean[FPFH_SIZE] = {0}, *sorted = unlike + f->n;
    uint32_t n_valid = 0, n_sorted = 0;
    for (uint32_t i = 0; i < f->n; i++)
        n_valid += f->square[i] < FAR;
    for (int k = 0; k < FPFH_SIZE && n_valid > 0; k++) {
        const float *row = f->values + (size_t)k * f->n_padded;
        double sum = 0;
        for (uint32_t i = 0; i < f->n; i++) // 0 where there is none
            sum += (double)row[i];
        mean[k] = (float)(sum / n_valid);
    }
    for (uint32_t i = 0; i < f->n; i++) {
        unlike[i] = 0;
        for (int k = 0; k < FPFH_SIZE; k++) {
            const float d = f->values[(size_t)k * f->n_padded + i] - mean[k];
            unlike[i] += d * d;
        }
        if (f->square[i] < FAR)
            sorted[n_sorted++] = unlike[i];
    }
    qsort(sorted, n_sorted, sizeof *sorted, compare_floats);
    for (uint32_t i = 0; i < f->n; i++)
        f->rare[i] = f->square[i] < FAR && unlike[i] >= sorted[n_sorted / 2];
}

int register_features_make(struct register_features *f, struct pool *pool,
                           const struct register_surface *surface, float radius_m)
{
    struct making making = {f, surface->cells, radius_m, NULL};
    const uint32_t n_blocks = register_cells_count(&surface->cells);
    f->n_padded = (f->n + LANES - 1) / LANES * LANES;
    f->values = calloc((size_t)f->n_padded * FPFH_SIZE, sizeof(float));
    f->square = malloc((f->n_padded + 1) * sizeof(float));
    f->rare = calloc(f->n + 1, sizeof *f->rare);
    making.simple = malloc(((size_t)f->n + 1) * FPFH_SIZE * sizeof(float));
    making.cells.mask = calloc(n_blocks, sizeof(uint64_t));
    making.cells.first = malloc(n_blocks * sizeof(uint32_t));
    int rc = f->values && f->square && f->rare && making.simple && making.cells.mask &&
                     making.cells.first
                 ? 0
                 : -ENOMEM;
    if (rc == 0) {
        for (uint32_t i = 0; i < f->n; i++) {
            uint32_t fraction[3];
            const float p[3] = {f->points[i].x, f->points[i].y, f->points[i].z};
            const uint32_t cell = register_cells_find(&making.cells, p, fraction);
            making.cells.mask[cell >> 6] |= (uint64_t)1 << (cell & 63);
        }
        for (uint32_t b = 0, first = 0; b < n_blocks; b++) {
            making.cells.first[b] = first;
            first += register_cells_bits(making.cells.mask[b]);
        }
        for (uint32_t i = f->n; i < f->n_padded; i++)
            f->square[i] = FAR;
        const uint32_t n_pieces = (f->n + PIECE - 1) / PIECE;
        parallel_for(pool, n_pieces, simple_piece, &making);
        parallel_for(pool, n_pieces, full_piece, &making);
        find_rare(f, making.simple); // FPFH_SIZE > 2 floats a point
    }
    free(making.simple);
    free(making.cells.mask);
    free(making.cells.first);
    return rc;
}

void register_features_free(struct register_features *features)
{
    free(features->points);
    free(features->normals);
    free(features->values);
    free(features->square);
    free(features->rare);
    memset(features, 0, sizeof *features);
}

struct matching {
    const struct register_features *source, *target;
    float *row_best, *column_best; // squared distances; columns: for each thread
    uint32_t *row, *column;        // who is nearest
};

// ROWS sources against all targets.
static CPU_CLONES void match_rows(void *user, uint32_t item, uint32_t thread)
{
    const struct matching *m = user;
    const struct register_features *s = m->source, *t = m->target;
    float *column_best = m->column_best + (size_t)thread * t->n_padded;
    uint32_t *column = m->column + (size_t)thread * t->n_padded;
    float best[ROWS][LANES];
    uint32_t who[ROWS][LANES];
    for (uint32_t r = 0; r < ROWS; r++)
        for (uint32_t k = 0; k < LANES; k++) {
            best[r][k] = FAR;
            who[r][k] = REGISTER_CELLS_NONE;
        }
    for (uint32_t j = 0; j < t->n_padded; j += LANES)
        for (uint32_t r = 0; r < ROWS; r++) {
            const uint32_t i = item * ROWS + r;
            float dot[LANES] = {0};
            if (i >= s->n || !(s->square[i] < FAR))
                continue;
            for (uint32_t d = 0; d < FPFH_SIZE; d++) {
                const float a = s->values[(size_t)d * s->n_padded + i];
                const float *b = t->values + (size_t)d * t->n_padded + j;
                for (uint32_t k = 0; k < LANES; k++)
                    dot[k] += a * b[k];
            }
            for (uint32_t k = 0; k < LANES; k++) {
                const float d2 = s->square[i] + t->square[j + k] - 2.0f * dot[k];
                const bool nearer = d2 < best[r][k];
                best[r][k] = nearer ? d2 : best[r][k];
                who[r][k] = nearer ? j + k : who[r][k];
                const bool first =
                    d2 < column_best[j + k] || (d2 == column_best[j + k] && i < column[j + k]);
                column_best[j + k] = first ? d2 : column_best[j + k];
                column[j + k] = first ? i : column[j + k];
            }
        }
    for (uint32_t r = 0; r < ROWS && item * ROWS + r < s->n; r++) {
        float least = FAR;
        uint32_t nearest = REGISTER_CELLS_NONE;
        for (uint32_t k = 0; k < LANES; k++)
            if (best[r][k] < least || (best[r][k] == least && who[r][k] < nearest)) {
                least = best[r][k];
                nearest = who[r][k];
            }
        m->row_best[item * ROWS + r] = least;
        m->row[item * ROWS + r] = nearest;
    }
}

int register_features_match(struct pool *pool, const struct register_features *source,
                            const struct register_features *target, struct register_match *out,
                            uint32_t *out_n)
{
    const uint32_t n_threads = pool_n_threads(pool), n_columns = target->n_padded;
    struct matching m = {
        source,
        target,
        malloc((source->n + 1) * sizeof(float)),
        malloc(((size_t)n_threads * n_columns + 1) * sizeof(float)),
        malloc((source->n + 1) * sizeof(uint32_t)),
        malloc(((size_t)n_threads * n_columns + 1) * sizeof(uint32_t)),
    };
    int rc = m.row_best && m.column_best && m.row && m.column ? 0 : -ENOMEM;
    *out_n = 0;
    for (size_t i = 0; rc == 0 && i < (size_t)n_threads * n_columns; i++) {
        m.column_best[i] = FAR;
        m.column[i] = REGISTER_CELLS_NONE;
    }
    if (rc == 0)
        parallel_for(pool, (source->n + ROWS - 1) / ROWS, match_rows, &m);
    for (uint32_t i = 0; rc == 0 && i < source->n; i++) {
        const uint32_t j = m.row[i];
        if (j == REGISTER_CELLS_NONE)
            continue;
        float best = FAR;
        uint32_t who = REGISTER_CELLS_NONE;
        for (uint32_t thread = 0; thread < n_threads; thread++) {
            const size_t at = (size_t)thread * n_columns + j;
            if (m.column_best[at] < best || (m.column_best[at] == best && m.column[at] < who)) {
                best = m.column_best[at];
                who = m.column[at];
            }
        }
        if (who == i)
            out[(*out_n)++] =
                (struct register_match){i, j, m.row_best[i], source->rare[i] && target->rare[j]};
    }
    free(m.row_best);
    free(m.column_best);
    free(m.row);
    free(m.column);
    return rc;
}
