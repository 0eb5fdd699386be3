// SPDX-License-Identifier: Apache-2.0
#include "gpu/track/sparse_depth.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "gpu/base/parallel.h"

#define REACH    2 // pixels on either side of a gap
#define N_ROWS   6 // that are looked at to tell whether a frame is sparse
#define N_ROUNDS 2 // what the first one filled counts in the second

// Of the measured pixels of a Kinect 97 to 99 % have all four neighbours, of a small object that
// was cut out 84, of sparse sensors 3 to 10.
#define SPARSE_SHARE SPARSE_DEPTH_MOST_COMPLETE
// Frames with less are covered lenses, not sparse.
#define LEAST_SHARE  0.01
// Two pixels belong to one surface when their inverse depths differ by at most this share: the
// tracker's gate between neighbours, which are up to four pixels apart here.
#define GATE_SHARE   0.06f

struct sparse_depth {
    struct gpu *gpu;
    int32_t width_px, height_px;
    uint16_t least, span; // raw values in range: least .. least + span
    size_t stride;        // of a padded row
    float *planes[2];     // inverse depth [1/unit], 0: none; REACH pixels around the image
    uint16_t *filled;     // of gpu_host_alloc
};

static size_t plane_floats(const struct sparse_depth *gaps)
{
    return gaps->stride * (size_t)(gaps->height_px + 2 * REACH);
}

static size_t image_bytes(const struct sparse_depth *gaps)
{
    return sizeof(uint16_t) * (size_t)gaps->width_px * (size_t)gaps->height_px;
}

int sparse_depth_create(struct sparse_depth **out, struct gpu *gpu)
{
    const struct gpu_settings *s = gpu_settings_get(gpu);
    struct sparse_depth *gaps = calloc(1, sizeof *gaps);
    *out = NULL;
    if (!gaps)
        return -ENOMEM;
    gaps->gpu = gpu;
    gaps->width_px = (int32_t)s->camera.width_px;
    gaps->height_px = (int32_t)s->camera.height_px;
    const double least = ceil((double)s->depth_min_m * s->units_per_m);
    const double most = floor((double)s->depth_max_m * s->units_per_m);
    gaps->least = (uint16_t)fmin(fmax(least, 1), DEPTH_INVALID_MAX - 1);
    gaps->span = (uint16_t)(fmin(fmax(most, gaps->least), DEPTH_INVALID_MAX - 1) - gaps->least);
    gaps->stride = (size_t)gaps->width_px + 2 * REACH;
    for (int i = 0; i < 2; i++)
        gaps->planes[i] = calloc(plane_floats(gaps), sizeof(float));
    gaps->filled = gpu_host_alloc(gpu, image_bytes(gaps));
    if (!gaps->planes[0] || !gaps->planes[1] || !gaps->filled) {
        sparse_depth_destroy(&gaps);
        return -ENOMEM;
    }
    *out = gaps;
    return 0;
}

void sparse_depth_destroy(struct sparse_depth **gaps)
{
    if (!gaps || !*gaps)
        return;
    free((*gaps)->planes[0]);
    free((*gaps)->planes[1]);
    if ((*gaps)->filled)
        gpu_host_free((*gaps)->gpu, (*gaps)->filled, image_bytes(*gaps));
    free(*gaps);
    *gaps = NULL;
}

// 1, or 0: both invalid values lie outside of the range.
static inline uint16_t is_measured(const struct sparse_depth *gaps, uint16_t raw)
{
    return (uint16_t)(raw - gaps->least) <= gaps->span;
}

// Of a row but its first and last pixel: how many are measured, and how many of these have all
// four neighbours. Rows are narrower than 65536.
CPU_CLONES static void count_row(const struct sparse_depth *gaps, const uint16_t *row,
                                 uint32_t *io_measured, uint32_t *io_complete)
{
    const int32_t w = gaps->width_px;
    const uint16_t *up = row - w, *down = row + w;
    uint16_t n_measured = 0, n_complete = 0;
#pragma omp simd reduction(+ : n_measured, n_complete)
    for (int32_t x = 1; x < w - 1; x++) {
        const uint16_t here = is_measured(gaps, row[x]);
        n_measured = (uint16_t)(n_measured + here);
        n_complete =
            (uint16_t)(n_complete + (here & is_measured(gaps, row[x - 1]) &
                                     is_measured(gaps, row[x + 1]) & is_measured(gaps, up[x]) &
                                     is_measured(gaps, down[x])));
    }
    *io_measured += n_measured;
    *io_complete += n_complete;
}

struct counts {
    uint32_t n_measured, n_complete, n_looked;
};

static struct counts count(const struct sparse_depth *gaps, const uint16_t *depth)
{
    const int32_t w = gaps->width_px, h = gaps->height_px;
    struct counts out = {0};
    for (int32_t i = 0; i < N_ROWS; i++) {
        const int32_t y = (2 * i + 1) * h / (2 * N_ROWS);
        if (y < 1 || y > h - 2)
            continue;
        count_row(gaps, depth + (size_t)y * (size_t)w, &out.n_measured, &out.n_complete);
        out.n_looked += (uint32_t)w;
    }
    return out;
}

double sparse_depth_measured_share(const struct sparse_depth *gaps, const uint16_t *depth)
{
    const struct counts counts = count(gaps, depth);
    return counts.n_looked ? (double)counts.n_measured / counts.n_looked : 0;
}

bool sparse_depth_is_sparse(const struct sparse_depth *gaps, const uint16_t *depth)
{
    const struct counts counts = count(gaps, depth);
    const uint32_t n_measured = counts.n_measured, n_complete = counts.n_complete,
                   n_looked = counts.n_looked;
    return n_measured > LEAST_SHARE * n_looked && n_complete < SPARSE_SHARE * n_measured;
}

static float *padded(const struct sparse_depth *gaps, int plane, int32_t y)
{
    return gaps->planes[plane] + gaps->stride * (size_t)(y + REACH) + REACH;
}

CPU_CLONES static void invert_row(const struct sparse_depth *gaps, const uint16_t *raw, float *out)
{
    for (int32_t x = 0; x < gaps->width_px; x++)
        out[x] = is_measured(gaps, raw[x]) ? 1.0f / (float)raw[x] : 0.0f;
}

// Of pairs of pixels on opposite sides of the gap, each twice what lies between the two.
struct mean {
    float sum, n, least, most;
};

static inline void add_pair(struct mean *mean, float a, float b)
{
    const float twice = a + b, apart = a > b ? a - b : b - a;
    const bool good = (a > 0.0f) & (b > 0.0f) & (apart <= 0.5f * GATE_SHARE * twice);
    mean->sum += good ? twice : 0.0f;
    mean->n += good ? 2.0f : 0.0f;
    mean->least = (good & (twice < mean->least)) ? twice : mean->least;
    mean->most = (good & (twice > mean->most)) ? twice : mean->most;
}

// A pair of which one is twice as far away as the other.
static inline void add_uneven(struct mean *mean, float near, float far)
{
    const float apart = near > far ? near - far : far - near;
    const bool good = (near > 0.0f) & (far > 0.0f) & (apart <= 0.5f * GATE_SHARE * (near + far));
    const float between = (2.0f * near + far) * (1.0f / 3.0f);
    add_pair(mean, good ? between : 0.0f, good ? between : 0.0f);
}

// rows: REACH above to REACH below.
CPU_CLONES static void fill_row(const float *const rows[2 * REACH + 1], int32_t width_px,
                                float *restrict out)
{
    const float *const a = rows[0], *const b = rows[1], *const c = rows[2];
    const float *const d = rows[3], *const e = rows[4];
#pragma omp simd
    for (int32_t x = 0; x < width_px; x++) {
        struct mean mean = {0.0f, 0.0f, 1e30f, 0.0f};
        add_pair(&mean, c[x - 1], c[x + 1]);
        add_pair(&mean, c[x - 2], c[x + 2]);
        add_pair(&mean, b[x], d[x]);
        add_pair(&mean, b[x - 1], d[x + 1]);
        add_pair(&mean, b[x + 1], d[x - 1]);
        add_pair(&mean, b[x - 2], d[x + 2]);
        add_pair(&mean, b[x + 2], d[x - 2]);
        add_pair(&mean, a[x], e[x]);
        add_pair(&mean, a[x - 1], e[x + 1]);
        add_pair(&mean, a[x + 1], e[x - 1]);
        add_pair(&mean, a[x - 2], e[x + 2]);
        add_pair(&mean, a[x + 2], e[x - 2]);
        add_uneven(&mean, c[x - 1], c[x + 2]);
        add_uneven(&mean, c[x + 1], c[x - 2]);
        add_uneven(&mean, b[x], e[x]);
        add_uneven(&mean, d[x], a[x]);
        // Pairs of two surfaces: an edge, of which nobody knows where it is.
        const bool one = (mean.n > 0.0f) & (mean.most - mean.least <= GATE_SHARE * mean.most);
        const float between = one ? mean.sum / mean.n : 0.0f;
        out[x] = c[x] > 0.0f ? c[x] : between;
    }
}

CPU_CLONES static void write_row(const float *inverse, const uint16_t *raw, int32_t width_px,
                                 const struct sparse_depth *gaps, uint16_t *restrict out)
{
    for (int32_t x = 0; x < width_px; x++) {
        const float unit = inverse[x] > 0.0f ? 1.0f / inverse[x] + 0.5f : 0.0f;
        out[x] = is_measured(gaps, raw[x]) ? raw[x] : (uint16_t)unit;
    }
}

const uint16_t *sparse_depth_fill(struct sparse_depth *gaps, const uint16_t *depth)
{
    const int32_t w = gaps->width_px, h = gaps->height_px;
    if (!sparse_depth_is_sparse(gaps, depth))
        return depth;
    for (int32_t y = 0; y < h; y++)
        invert_row(gaps, depth + (size_t)y * (size_t)w, padded(gaps, 0, y));
    for (int round = 0; round < N_ROUNDS; round++)
        for (int32_t y = 0; y < h; y++) {
            const float *rows[2 * REACH + 1];
            for (int k = 0; k < 2 * REACH + 1; k++)
                rows[k] = padded(gaps, round % 2, y + k - REACH);
            fill_row(rows, w, padded(gaps, 1 - round % 2, y));
        }
    for (int32_t y = 0; y < h; y++)
        write_row(padded(gaps, N_ROUNDS % 2, y), depth + (size_t)y * (size_t)w, w, gaps,
                  gaps->filled + (size_t)y * (size_t)w);
    return gaps->filled;
}
