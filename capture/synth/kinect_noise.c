// SPDX-License-Identifier: Apache-2.0
// All steps work on inverse depth, in which the sensor measures (disparity = baseline * focal / z)
// and in which planes are linear in the pixel, so that normals come from first differences.
#include "capture/synth/kinect_noise.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "capture/io/simd.h"
#include "capture/synth/random.h"

#define BASELINE_M   0.075f
#define RAW_PER_PX   8.0f    // steps of the raw 11-bit disparity
#define RAW_OFFSET   1090.0f // raw value of an infinite distance
#define NEAREST_M    0.4f
#define FARTHEST_M   8.0f
#define LATERAL_PX   0.8f
#define EDGE_PX      1.0f  // disparity difference that makes an edge
#define COS_GRAZING  0.16f // incidence beyond 81 degrees is never seen ...
#define COS_HESITANT 0.14f // ... and with probability falling to 0 from 73 degrees on
#define PAD          2     // rows and columns repeated around the image

struct kinect_noise {
    struct intrinsics camera;
    size_t stride;     // of the padded images
    float *inverse;    // 1/z of the exact image, 0 = nothing; padded
    float *seen;       // the same without what lies in the projector's shadow; padded
    float *ragged_row; // `seen` of one row with its edges jittered
    int32_t *white[3]; // rows of white noise, one pixel wider on each side
};

int kinect_noise_create(struct kinect_noise **out, const struct intrinsics *camera)
{
    *out = NULL;
    struct kinect_noise *noise = calloc(1, sizeof *noise);
    if (!noise)
        return -ENOMEM;
    noise->camera = *camera;
    noise->stride = camera->width_px + 2 * PAD;
    size_t n = noise->stride * (camera->height_px + 2 * PAD);
    noise->inverse = malloc(n * sizeof *noise->inverse);
    noise->seen = malloc(n * sizeof *noise->seen);
    noise->ragged_row = malloc(noise->stride * sizeof *noise->ragged_row);
    bool complete = noise->inverse && noise->seen && noise->ragged_row;
    for (int i = 0; i < 3; i++) {
        noise->white[i] = malloc(noise->stride * sizeof *noise->white[i]);
        complete = complete && noise->white[i];
    }
    if (!complete) {
        kinect_noise_destroy(&noise);
        return -ENOMEM;
    }
    *out = noise;
    return 0;
}

void kinect_noise_destroy(struct kinect_noise **noise)
{
    if (!*noise)
        return;
    free((*noise)->inverse);
    free((*noise)->seen);
    free((*noise)->ragged_row);
    for (int i = 0; i < 3; i++)
        free((*noise)->white[i]);
    free(*noise);
    *noise = NULL;
}

CAPTURE_SIMD static void fill_white(int32_t *restrict out, uint32_t n, uint32_t key)
{
    for (uint32_t u = 0; u < n; u++)
        out[u] = random_bell(random_mix(key ^ u * 0x27d4eb2fu));
}

// The padded image of 1/z.
CAPTURE_SIMD static void invert_row(const float *restrict z_m, float *restrict out, uint32_t n)
{
    for (uint32_t u = 0; u < n; u++)
        out[u] = 1 / z_m[u];
}

static void pad_row(float *row, uint32_t width)
{
    for (int k = 1; k <= PAD; k++) {
        row[-k] = row[0];
        row[width - 1 + (uint32_t)k] = row[width - 1];
    }
}

// A pixel u sees the dot of projector column u - baseline focal / z. Going from the projector's
// side (right) to the left, a pixel is lit only if it needs a column that nothing has taken.
static void cast_shadow_row(const float *inverse, float *seen, uint32_t width, float disparity_px)
{
    float taken = 1e30f;
    for (uint32_t u = width; u-- > 0;) {
        float column = (float)u - disparity_px * inverse[u];
        bool something = inverse[u] > 0;
        seen[u] = something && column < taken + 0.25f ? inverse[u] : 0;
        taken = something && column < taken ? column : taken;
    }
}

// Near an edge each pixel looks through a neighbour up to two pixels away.
static void jitter_edges_row(const float *seen, size_t stride, float *out, uint32_t width,
                             float edge, uint32_t key)
{
    const ptrdiff_t step = (ptrdiff_t)stride;
    for (uint32_t u = 0; u < width; u++) {
        const float *w = seen + u;
        out[u] = *w;
        float across = fabsf(w[2] - w[-2]) + fabsf(w[1] - w[-1]);
        float along = fabsf(w[2 * step] - w[-2 * step]) + fabsf(w[step] - w[-step]);
        if (across + along < edge)
            continue;
        uint32_t h = random_mix(key ^ u * 0x165667b1u);
        int du = (int)floorf((float)random_bell(h) * (LATERAL_PX / RANDOM_BELL_SIGMA) + 0.5f);
        int dv = (int)floorf((float)random_bell(random_mix(h)) * (LATERAL_PX / RANDOM_BELL_SIGMA) +
                             0.5f);
        du = du < -PAD ? -PAD : du > PAD ? PAD : du;
        dv = dv < -PAD ? -PAD : dv > PAD ? PAD : dv;
        float other = w[dv * step + du];
        if (fabsf(other - *w) > 0.5f * edge) // not the slope of one surface
            out[u] = other;
    }
}

static inline __attribute__((always_inline)) float most(float a, float b)
{
    return a > b ? a : b;
}

static inline __attribute__((always_inline)) float smaller(float a, float b)
{
    return fabsf(a) < fabsf(b) ? a : b;
}

// One row from exact inverse depth to what the sensor says.
CAPTURE_SIMD static void measure_row(const struct kinect_noise *noise, const float *restrict exact,
                                     const float *restrict ragged, uint32_t row, uint32_t key,
                                     float units, uint16_t *restrict out)
{
    const struct intrinsics *c = &noise->camera;
    const uint32_t width = c->width_px;
    const ptrdiff_t step = (ptrdiff_t)noise->stride;
    const float *up = exact - step, *down = exact + step;
    const float fx = (float)c->fx_px, fy = (float)c->fy_px, cx = (float)c->cx_px;
    const float y = ((float)row - (float)c->cy_px) / fy, raw_m = RAW_PER_PX * BASELINE_M * fx;
    const int32_t *a = noise->white[row % 3] + 1, *b = noise->white[(row + 1) % 3] + 1;
    const int32_t *d = noise->white[(row + 2) % 3] + 1;
    for (uint32_t u = 0; u < width; u++) {
        // Normal from the inverse depth; of the two differences the smaller one, so that an edge
        // beside this pixel does not count as a slope.
        float w = exact[u], x = ((float)(int32_t)u - cx) / fx;
        float wx = fx * smaller(w - exact[(ptrdiff_t)u - 1], exact[u + 1] - w);
        float wy = fy * smaller(w - up[u], down[u] - w);
        float wz = w - wx * x - wy * y;
        float cosine = w / (sqrtf((wx * wx + wy * wy + wz * wz) * (x * x + y * y + 1)) + 1e-20f);

        // White noise smoothed by (1 2 1) x (1 2 1): unit variance after division by 6 sigma.
        int32_t sum = a[(ptrdiff_t)u - 1] + 2 * a[u] + a[u + 1] + d[(ptrdiff_t)u - 1] + 2 * d[u] +
                      d[u + 1] + 2 * (b[(ptrdiff_t)u - 1] + 2 * b[u] + b[u + 1]);
        float normal = (float)sum * (1 / (6 * RANDOM_BELL_SIGMA));

        // Nguyen's sigma_z [m] becomes raw disparity by raw_m / z^2; the quantisation's own
        // variance (1/12) is in their numbers and added again below.
        w = ragged[u];
        w = w < 5 ? w : 5; // far below NEAREST_M already
        float slant = (1.5707963f - cosine) / (cosine + 1e-3f), near = 1 - 0.4f * w;
        float sigma = raw_m * (0.0012f * w * w + 0.0019f * near * near +
                               0.0001f * w * w * sqrtf(w) * slant * slant);
        float variance = sigma * sigma - 1.0f / 12;
        sigma = sqrtf(most(variance, 0));

        float raw = RAW_OFFSET - raw_m * w + sigma * normal;
        float step_raw = (float)(int32_t)(raw + 0.5f);
        float below = RAW_OFFSET - step_raw;
        float z = raw_m / most(below, 1);
        float luck = (float)(random_mix(key + u * 0x2545f491u) >> 8) * (1.0f / 16777216);
        float value = z * units + 0.5f;
        value = w > 0 ? value : 0;
        value = z >= NEAREST_M ? value : 0;
        value = z <= FARTHEST_M ? value : 0;
        value = cosine > COS_GRAZING + COS_HESITANT * luck ? value : 0;
        out[u] = (uint16_t)(int32_t)value;
    }
}

void kinect_noise_apply(struct kinect_noise *noise, const float *z_m, uint64_t seed, uint64_t frame,
                        double units_per_m, uint16_t *out_depth)
{
    const uint32_t width = noise->camera.width_px, height = noise->camera.height_px;
    const size_t stride = noise->stride;
    const float disparity_px = BASELINE_M * (float)noise->camera.fx_px;
    float *inverse = noise->inverse + PAD * stride + PAD, *seen = noise->seen + PAD * stride + PAD;
    for (uint32_t v = 0; v < height; v++) {
        invert_row(z_m + (size_t)v * width, inverse + v * stride, width);
        cast_shadow_row(inverse + v * stride, seen + v * stride, width, disparity_px);
        pad_row(inverse + v * stride, width);
        pad_row(seen + v * stride, width);
    }
    for (size_t k = 1; k <= PAD; k++) {
        float *images[2] = {noise->inverse, noise->seen};
        for (int i = 0; i < 2; i++) {
            memcpy(images[i] + (PAD - k) * stride, images[i] + PAD * stride,
                   stride * sizeof(float));
            memcpy(images[i] + (PAD + height - 1 + k) * stride,
                   images[i] + (PAD + height - 1) * stride, stride * sizeof(float));
        }
    }
    // Row v is smoothed from white rows v, v + 1, v + 2.
    for (uint32_t v = 0; v < 2; v++)
        fill_white(noise->white[v], width + 2, random_row_key(seed, frame, v));
    for (uint32_t v = 0; v < height; v++) {
        fill_white(noise->white[(v + 2) % 3], width + 2, random_row_key(seed, frame, v + 2));
        uint32_t key = random_row_key(~seed, frame, v);
        jitter_edges_row(seen + v * stride, stride, noise->ragged_row, width,
                         EDGE_PX / disparity_px, key);
        measure_row(noise, inverse + v * stride, noise->ragged_row, v, key, (float)units_per_m,
                    out_depth + (size_t)v * width);
    }
}
