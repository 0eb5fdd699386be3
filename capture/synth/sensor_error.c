// SPDX-License-Identifier: Apache-2.0
// Random fields as value noise (random numbers at the nodes of a grid, interpolated) where they are
// fixed to the image, as sums of waves where they live in more than three dimensions.
#include "capture/synth/sensor_error.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "capture/io/simd.h"
#include "capture/synth/random.h"

#define FIELD_LINEAR_PER_M 3.9e-3f // RMS of the linear part: three quarters of the whole
#define FIELD_SMOOTH_PER_M 2.2e-3f // RMS of the rest
#define FIELD_NODE_PX      64

#define PATTERN_PER_M   0.6e-3f
#define PATTERN_NODE_PX 10
#define PATTERN_STEPS   (0.075f * 525 / 1.5f) // nodes by disparity: one in 1.5 px [m]

#define SURFACE_PER_M 1.5e-3f
#define SURFACE_M     0.15 // correlation length in the world ...
#define SURFACE_PX    80.0 // ... and in the image: where it is seen from
#define N_WAVES       16

#define PATCH_PER_M   0.8e-3f
#define PATCH_NODE_PX 12

#define LENS_SHARE 0.026 // of the focal length, uniform: 1.5 % RMS
#define LENS_PX    14.0  // of the centre: 8 px RMS

#define EDGE_REACH_PX 3
#define EDGE_PER_M    0.025f // 1 px of disparity
#define BITE_NODE_PX  8
#define DARK_M        0.12 // size of a dark patch
#define DARK_LIMIT    3.0f // of the sum of the waves, 1.46 RMS
#define N_DARK        4

#define SPARSE_NODE_PX 2

#define PIECE 160 // pixels of a row that are worked on at once

struct wave { // value = tone(phase + kx x + ...), phases in turns
    float phase, x_per_m, y_per_m, z_per_m, u_per_px, v_per_px;
};

struct sensor_error {
    struct intrinsics camera;
    uint32_t key;
    float *field;
    float *exact_m; // of the image under way
    struct wave surface[N_WAVES], dark[N_DARK];
};

// Standard normal, nearly: the sum of four uniform numbers.
static inline __attribute__((always_inline)) float normal_of(uint32_t h)
{
    return (float)random_bell(h) * (1 / RANDOM_BELL_SIGMA);
}

static inline __attribute__((always_inline)) float node_value(uint32_t key, int32_t i, int32_t j,
                                                              int32_t k)
{
    return normal_of(random_mix(key ^ (uint32_t)i * 0x27d4eb2fu ^
                                random_mix((uint32_t)j * 0x165667b1u + (uint32_t)k * 0x2545f491u)));
}

// Cubic B-spline weights at t in 0..1.
static void spline(float t, float w[4])
{
    float s = 1 - t;
    w[0] = s * s * s / 6;
    w[1] = (3 * t * t * t - 6 * t * t + 4) / 6;
    w[2] = (3 * s * s * s - 6 * s * s + 4) / 6;
    w[3] = t * t * t / 6;
}

static float smooth_part(uint32_t key, uint32_t u, uint32_t v)
{
    float wu[4], wv[4], sum = 0;
    spline((float)(u % FIELD_NODE_PX) / FIELD_NODE_PX, wu);
    spline((float)(v % FIELD_NODE_PX) / FIELD_NODE_PX, wv);
    for (int j = 0; j < 4; j++)
        for (int i = 0; i < 4; i++)
            sum += wu[i] * wv[j] *
                   node_value(key, (int32_t)(u / FIELD_NODE_PX) + i,
                              (int32_t)(v / FIELD_NODE_PX) + j, 0);
    return sum;
}

// Takes mean and linear part out (the linear part is drawn by itself; a constant is the sensor's
// baseline, of which motion says next to nothing) and makes the RMS 1.
static void normalize(float *values, uint32_t width, uint32_t height)
{
    const size_t n = (size_t)width * height;
    double sum = 0, along_u = 0, along_v = 0, uu = 0, vv = 0, sum2 = 0;
    for (size_t i = 0; i < n; i++) {
        double u = (double)(i % width) - 0.5 * (width - 1), value = (double)values[i];
        double v = (double)(i / width) - 0.5 * (height - 1);
        sum += value;
        along_u += u * value;
        along_v += v * value;
        uu += u * u;
        vv += v * v;
    }
    for (size_t i = 0; i < n; i++) {
        double u = (double)(i % width) - 0.5 * (width - 1);
        double v = (double)(i / width) - 0.5 * (height - 1);
        double linear = u * along_u / (uu + 1e-30) + v * along_v / (vv + 1e-30);
        values[i] -= (float)(sum / (double)n + linear);
        sum2 += (double)values[i] * (double)values[i];
    }
    float scale = sum2 > 0 ? (float)(1 / sqrt(sum2 / (double)n)) : 0;
    for (size_t i = 0; i < n; i++)
        values[i] *= scale;
}

static void draw_field(struct sensor_error *error)
{
    const struct intrinsics *c = &error->camera;
    const size_t n = (size_t)c->width_px * c->height_px;
    // The direction of the linear part by rejection from the square, without trigonometry.
    float x, y, r2;
    uint32_t draw = 0;
    do {
        uint32_t h = random_mix(error->key + 0x5bd1e995u * ++draw);
        x = (float)(int32_t)(h & 0xffff) / 32768 - 1;
        y = (float)(int32_t)(h >> 16) / 32768 - 1;
        r2 = x * x + y * y;
    } while (!(r2 > 0.2f && r2 < 1));
    for (size_t i = 0; i < n; i++)
        error->field[i] =
            smooth_part(error->key + 1, (uint32_t)(i % c->width_px), (uint32_t)(i / c->width_px));
    normalize(error->field, c->width_px, c->height_px);
    float scale = FIELD_LINEAR_PER_M * 3.4641016f / sqrtf(r2);
    for (size_t i = 0; i < n; i++) {
        float u = (float)(i % c->width_px) / (float)c->width_px - 0.5f;
        float v = (float)(i / c->width_px) / (float)c->height_px - 0.5f;
        error->field[i] = FIELD_SMOOTH_PER_M * error->field[i] + scale * (x * u + y * v);
    }
}

static struct wave draw_wave(uint32_t key, double length_m, double length_px)
{
    // The spectrum of exp(-d^2 / 2 l^2): normal, 1 / (2 pi l) wide.
    const float per_m = (float)(1 / (6.283185307 * length_m));
    const float per_px = length_px > 0 ? (float)(1 / (6.283185307 * length_px)) : 0;
    uint32_t h[6];
    for (uint32_t i = 0; i < 6; i++)
        h[i] = random_mix(key ^ random_mix(0x9e3779b9u * (i + 1)));
    return (struct wave){(float)(h[0] >> 8) / 16777216, per_m * normal_of(h[1]),
                         per_m * normal_of(h[2]),       per_m * normal_of(h[3]),
                         per_px * normal_of(h[4]),      per_px * normal_of(h[5])};
}

// -1 .. 1
static double uniform_of(uint32_t h)
{
    return (double)(random_mix(h) >> 8) / (1 << 23) - 1;
}

struct intrinsics sensor_error_lens(const struct intrinsics *said, uint64_t camera_seed)
{
    const uint32_t key = random_row_key(camera_seed, 0x1e25, 0);
    const double scale = 1 + LENS_SHARE * uniform_of(key);
    struct intrinsics lens = *said;
    lens.fx_px *= scale;
    lens.fy_px *= scale;
    lens.cx_px += LENS_PX * uniform_of(key + 1);
    lens.cy_px += LENS_PX * uniform_of(key + 2);
    return lens;
}

int sensor_error_create(struct sensor_error **out, const struct intrinsics *camera,
                        uint64_t camera_seed)
{
    *out = NULL;
    struct sensor_error *error = calloc(1, sizeof *error);
    if (!error)
        return -ENOMEM;
    const size_t n = (size_t)camera->width_px * camera->height_px;
    error->camera = *camera;
    error->key = random_row_key(camera_seed, 0x5e45, 0);
    error->field = malloc(n * sizeof *error->field);
    error->exact_m = malloc(n * sizeof *error->exact_m);
    if (!error->field || !error->exact_m) {
        sensor_error_destroy(&error);
        return -ENOMEM;
    }
    draw_field(error);
    for (uint32_t i = 0; i < N_WAVES; i++)
        error->surface[i] = draw_wave(error->key + 100 + i, SURFACE_M, SURFACE_PX);
    // What is dark belongs to the room, not to the camera.
    for (uint32_t i = 0; i < N_DARK; i++)
        error->dark[i] = draw_wave(0xda2c + i, DARK_M, 0);
    *out = error;
    return 0;
}

void sensor_error_destroy(struct sensor_error **error)
{
    if (!*error)
        return;
    free((*error)->field);
    free((*error)->exact_m);
    free(*error);
    *error = NULL;
}

const float *sensor_error_field(const struct sensor_error *error)
{
    return error->field;
}

void sensor_error_apply_field(const struct sensor_error *error, float *z_m)
{
    size_t n = (size_t)error->camera.width_px * error->camera.height_px;
    for (size_t i = 0; i < n; i++)
        z_m[i] = 1 / (1 / z_m[i] - error->field[i]);
}

// Two parabolas a turn, nearly a sine: range -1..1.
static inline __attribute__((always_inline)) float tone(float turns)
{
    float r = turns + 512.5f;
    r -= (float)(int32_t)r + 0.5f;
    return r * (8 - 16 * (r < 0 ? -r : r));
}

#define TONE_SIGMA 0.7302967f // sqrt(8 / 15)

// Value noise at (u, v) with bilinear weights, of variance 4/9; k chooses the sheet.
static inline __attribute__((always_inline)) float sheet(uint32_t key, int32_t iu, float fu,
                                                         int32_t iv, float fv, int32_t k)
{
    float a = node_value(key, iu, iv, k), b = node_value(key, iu + 1, iv, k);
    float c = node_value(key, iu, iv + 1, k), d = node_value(key, iu + 1, iv + 1, k);
    float above = a + fu * (b - a), below = c + fu * (d - c);
    return above + fv * (below - above);
}

struct row {
    const struct sensor_error *error;
    float r[9], t_m[3]; // T_world_camera
    int32_t v;
    uint32_t key; // of what is fresh
};

// The waves along a piece of a row: adds to `surface` and `dark`. `first`: its column.
static inline __attribute__((always_inline)) void add_waves(const struct row *row, uint32_t first,
                                                            uint32_t n, const float *restrict z,
                                                            float *restrict surface,
                                                            float *restrict dark)
{
    const struct sensor_error *e = row->error;
    const struct intrinsics *c = &e->camera;
    const float *r = row->r, *t = row->t_m;
    const float inv_fx = (float)(1 / c->fx_px), cx = (float)c->cx_px;
    const float y = ((float)row->v - (float)c->cy_px) * (float)(1 / c->fy_px);
    float px[PIECE], py[PIECE], pz[PIECE];
    for (uint32_t i = 0; i < n; i++) {
        float x = ((float)(int32_t)(first + i) - cx) * inv_fx;
        px[i] = z[i] * (r[0] * x + r[1] * y + r[2]) + t[0];
        py[i] = z[i] * (r[3] * x + r[4] * y + r[5]) + t[1];
        pz[i] = z[i] * (r[6] * x + r[7] * y + r[8]) + t[2];
        surface[i] = dark[i] = 0;
    }
    for (int wave = 0; wave < N_WAVES; wave++) {
        const struct wave k = e->surface[wave];
        for (uint32_t i = 0; i < n; i++)
            surface[i] +=
                tone(k.phase + k.x_per_m * px[i] + k.y_per_m * py[i] + k.z_per_m * pz[i] +
                     k.u_per_px * (float)(int32_t)(first + i) + k.v_per_px * (float)row->v);
    }
    for (int wave = 0; wave < N_DARK; wave++) {
        const struct wave k = e->dark[wave];
        for (uint32_t i = 0; i < n; i++)
            dark[i] += tone(k.phase + k.x_per_m * px[i] + k.y_per_m * py[i] + k.z_per_m * pz[i]);
    }
}

// In pieces, each step of which is a loop that the compiler makes vectors of.
CAPTURE_SIMD static void err_row(const struct row *row, const float *restrict exact_m,
                                 float *restrict z_m)
{
    const struct sensor_error *e = row->error;
    const uint32_t width = e->camera.width_px;
    const float *field = e->field + (size_t)row->v * width;
    const int32_t pattern_v = row->v / PATTERN_NODE_PX, patch_v = row->v / PATCH_NODE_PX;
    const float pattern_fv = (float)(row->v % PATTERN_NODE_PX) / PATTERN_NODE_PX;
    const float patch_fv = (float)(row->v % PATCH_NODE_PX) / PATCH_NODE_PX;
    const uint32_t pattern_key = e->key + 2, key = row->key;
    float z[PIECE], surface[PIECE], dark[PIECE];
    for (uint32_t first = 0; first < width; first += PIECE) {
        const uint32_t n = width - first < PIECE ? width - first : PIECE;
        for (uint32_t i = 0; i < n; i++)
            z[i] = exact_m[first + i] < 100 ? exact_m[first + i] : 100;
        add_waves(row, first, n, z, surface, dark);
        for (uint32_t i = 0; i < n; i++) {
            const uint32_t u = first + i;
            const float w = 1 / (z[i] > 0.05f ? z[i] : 0.05f);
            float step = w * PATTERN_STEPS;
            int32_t sheet0 = (int32_t)step, iu = (int32_t)u / PATTERN_NODE_PX;
            float fu = (float)((int32_t)u % PATTERN_NODE_PX) * (1.0f / PATTERN_NODE_PX);
            float near = sheet(pattern_key, iu, fu, pattern_v, pattern_fv, sheet0 + 1);
            float far = sheet(pattern_key, iu, fu, pattern_v, pattern_fv, sheet0);
            float pattern = far + (step - (float)sheet0) * (near - far);
            iu = (int32_t)u / PATCH_NODE_PX;
            fu = (float)((int32_t)u % PATCH_NODE_PX) * (1.0f / PATCH_NODE_PX);
            float patch = sheet(key, iu, fu, patch_v, patch_fv, 0);
            float wrong = w - field[u] + PATTERN_PER_M * 1.8371173f * pattern +
                          SURFACE_PER_M / (TONE_SIGMA * 4) * surface[i] +
                          PATCH_PER_M * 1.5f * patch;
            z_m[u] = 1 / (wrong > 0.01f ? wrong : 0.01f);
        }
        for (uint32_t i = 0; i < n; i++)
            z_m[first + i] = z[i] < 100 && dark[i] < DARK_LIMIT ? z_m[first + i] : INFINITY;
    }
}

// Bites out of depth edges.
static void bite_row(const struct sensor_error *e, int32_t v, uint32_t key, float *z_m)
{
    const int32_t width = (int32_t)e->camera.width_px, height = (int32_t)e->camera.height_px;
    const float *row = e->exact_m + (size_t)v * (size_t)width;
    for (int32_t u = 0; u < width; u++) {
        int32_t left = u > EDGE_REACH_PX ? u - EDGE_REACH_PX : 0;
        int32_t right = u + EDGE_REACH_PX < width ? u + EDGE_REACH_PX : width - 1;
        int32_t up = v > EDGE_REACH_PX ? -EDGE_REACH_PX : -v;
        int32_t down = v + EDGE_REACH_PX < height ? EDGE_REACH_PX : height - 1 - v;
        float across = fabsf(1 / row[left] - 1 / row[right]);
        float along = fabsf(1 / row[u + up * width] - 1 / row[u + down * width]);
        if (across < EDGE_PER_M && along < EDGE_PER_M)
            continue;
        float fu = (float)(u % BITE_NODE_PX) / BITE_NODE_PX;
        float fv = (float)(v % BITE_NODE_PX) / BITE_NODE_PX;
        if (sheet(key, u / BITE_NODE_PX, fu, v / BITE_NODE_PX, fv, 1) > 0.3f)
            z_m[u] = INFINITY;
    }
}

void sensor_error_apply(struct sensor_error *error, const struct se3 *T_world_camera, uint64_t seed,
                        uint64_t frame, float *z_m)
{
    const size_t width = error->camera.width_px;
    struct row row = {.error = error, .key = random_row_key(seed, frame, 0x7a7c)};
    for (int i = 0; i < 9; i++)
        row.r[i] = (float)T_world_camera->r[i];
    for (int i = 0; i < 3; i++)
        row.t_m[i] = (float)T_world_camera->t_m[i];
    memcpy(error->exact_m, z_m, width * error->camera.height_px * sizeof *z_m);
    for (uint32_t v = 0; v < error->camera.height_px; v++) {
        row.v = (int32_t)v;
        err_row(&row, error->exact_m + v * width, z_m + v * width);
        bite_row(error, row.v, row.key, z_m + v * width);
    }
}

void sensor_error_thin(const struct sensor_error *error, uint64_t frame, uint16_t *depth)
{
    const int32_t width = (int32_t)error->camera.width_px;
    const int32_t height = (int32_t)error->camera.height_px;
    const uint32_t fresh = random_row_key(error->key, frame, 0x7b1e);
    for (int32_t v = 0; v < height; v++)
        for (int32_t u = 0; u < width; u++) {
            uint32_t i = (uint32_t)(v * width + u);
            float clump = node_value(error->key + 3, u / SPARSE_NODE_PX, v / SPARSE_NODE_PX, 0);
            float own = normal_of(random_mix(error->key ^ i * 0x85ebca6bu));
            float now = normal_of(random_mix(fresh ^ i * 0xc2b2ae35u));
            if (0.75f * clump + 0.55f * own + 0.35f * now < 0.32f)
                depth[i] = 0;
        }
}
