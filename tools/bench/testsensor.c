// SPDX-License-Identifier: Apache-2.0
#include "tools/bench/testsensor.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>

#include "tools/bench/testrandom.h"

#define RANGE_MIN_M 0.4f
#define RANGE_MAX_M 4.f
#define JUMP_M      0.03f   // neighbours farther apart belong to different surfaces
#define STEP_PER_M  0.00285 // of a Kinect's disparity, in inverse metres
#define SHADOW_M    0.075   // from camera to projector

// A smooth random field: normal numbers at nodes, in between linear.
struct field {
    float *node;
    int step_px, columns;
};

static int field_create(int width, int height, int step_px, uint64_t *random, struct field *out)
{
    const int rows = height / step_px + 2;
    out->step_px = step_px;
    out->columns = width / step_px + 2;
    out->node = malloc((size_t)out->columns * (size_t)rows * sizeof *out->node);
    for (int i = 0; out->node && i < out->columns * rows; i++)
        out->node[i] = (float)testrandom_normal(random);
    return out->node ? 0 : -ENOMEM;
}

static float field_at(const struct field *f, int u, int v)
{
    const int x = u / f->step_px, y = v / f->step_px;
    const float a = (float)(u % f->step_px) / (float)f->step_px;
    const float b = (float)(v % f->step_px) / (float)f->step_px;
    const float *node = f->node + y * f->columns + x, *below = node + f->columns;
    return (1 - b) * ((1 - a) * node[0] + a * node[1]) + b * ((1 - a) * below[0] + a * below[1]);
}

static int inside(int at, int size)
{
    return at < 0 ? 0 : at >= size ? size - 1 : at;
}

// The nearest (grow > 0) or farthest measurement around a pixel; its own where no surface ends.
static float grown(const struct testsensor_scene *s, int u, int v, int grow)
{
    const int reach = abs(grow);
    const float here = s->z_m[v * s->width + u];
    float low = here, high = here;
    for (int y = -reach; y <= reach; y++)
        for (int x = -reach; x <= reach; x++) {
            const float z = s->z_m[inside(v + y, s->height) * s->width + inside(u + x, s->width)];
            if (!(z > 0) || x * x + y * y > reach * reach + 1)
                continue;
            low = z < low ? z : low;
            high = z > high ? z : high;
        }
    if (high - low < JUMP_M)
        return here;
    return grow > 0 ? low : high;
}

// Means over (2 reach + 1)^2 pixels that are within jump_m of the one in the middle.
static void smooth(const float *z_m, int width, int height, int reach, float jump_m, float *out)
{
    for (int v = 0; v < height; v++)
        for (int u = 0; u < width; u++) {
            const float here = z_m[v * width + u];
            float sum = 0, n = 0;
            for (int y = -reach; y <= reach && here > 0; y++)
                for (int x = -reach; x <= reach; x++) {
                    const float z = z_m[inside(v + y, height) * width + inside(u + x, width)];
                    const bool near = z > 0 && fabsf(z - here) < jump_m;
                    sum += near ? z : 0;
                    n += near;
                }
            out[v * width + u] = n > 0 ? sum / n : 0;
        }
}

enum fill { FILL_NOT, FILL_BEHIND, FILL_FRONT };

// Invalid runs of a row of up to most_px pixels, from the farther or the nearer side.
static void fill_row(float *row, int width, int most_px, enum fill fill)
{
    for (int u = 0, first; u < width; u++) {
        if (row[u] > 0)
            continue;
        for (first = u; u < width && !(row[u] > 0);)
            u++;
        if (first == 0 || u == width || u - first > most_px)
            continue;
        const float a = row[first - 1], b = row[u];
        for (int k = first; k < u; k++)
            row[k] = fill == FILL_BEHIND ? fmaxf(a, b) : fminf(a, b);
    }
}

// What the projector does not reach, from the truth: 0 in the image.
static void cast_shadows(const struct testsensor_scene *s, float *z_m)
{
    for (int v = 0; v < s->height; v++) {
        double reached = -INFINITY;
        for (int u = 0; u < s->width; u++) {
            const float z = s->z_m[v * s->width + u];
            if (!(z > 0))
                continue;
            const double seen = u - s->focal_px * SHADOW_M / (double)z;
            if (seen < reached - 1)
                z_m[v * s->width + u] = 0;
            reached = seen > reached ? seen : reached;
        }
    }
}

static uint16_t rounded(float z_m)
{
    return z_m > RANGE_MIN_M && z_m < RANGE_MAX_M ? (uint16_t)lrintf(z_m * 1000) : 0;
}

#define N_FIELDS 6

// A scene's own errors, drawn once.
struct registered {
    float shift_px[2], wander_px, grow_px, grow_spread_px, mixed, bias_m, floor_bias_m;
    float field_m, ripple_m; // smooth errors, 40 and 12 px wide, at 1 m
    float patch_least;       // where a field exceeds it,
    float patch_m;           // filled so far behind: gloss, black paint
    int reach;
    enum fill fill;
};

static struct registered draw_registered(uint64_t *random)
{
    struct registered r;
    r.shift_px[0] = (float)testrandom_uniform(random, -2, 2);
    r.shift_px[1] = (float)testrandom_uniform(random, -1, 1);
    r.wander_px = (float)testrandom_uniform(random, 0.3, 1.0);
    r.grow_px = (float)testrandom_uniform(random, -2, 2);
    r.grow_spread_px = (float)testrandom_uniform(random, 0.5, 1.3);
    r.mixed = (float)testrandom_uniform(random, 0, 0.6);
    r.bias_m = (float)testrandom_uniform(random, -0.006, 0.002);
    r.floor_bias_m = (float)testrandom_uniform(random, -0.003, 0.002);
    r.field_m = (float)testrandom_uniform(random, 0.0005, 0.003);
    r.ripple_m = (float)testrandom_uniform(random, 0.0005, 0.003);
    r.patch_least = (float)testrandom_uniform(random, 0.5, 2.2);
    r.patch_m = (float)testrandom_uniform(random, 0.015, 0.05);
    r.reach = (int)(testrandom_next(random) % 3);
    r.fill = (enum fill)(testrandom_next(random) % 3);
    return r;
}

// One pixel of the depth camera seen from the colour camera: before smoothing.
static float registered_pixel(const struct testsensor_scene *s, const struct registered *r,
                              const struct field fields[N_FIELDS], int u, int v, uint64_t *random)
{
    const float x = (float)u + r->shift_px[0] + r->wander_px * field_at(&fields[0], u, v);
    const float y = (float)v + r->shift_px[1] + r->wander_px * field_at(&fields[1], u, v);
    const float grow = r->grow_px + r->grow_spread_px * field_at(&fields[2], u, v);
    const int nu = inside((int)lrintf(x), s->width), nv = inside((int)lrintf(y), s->height);
    float z = grown(s, nu, nv, (int)lrintf(grow));
    if (!(z > 0))
        return 0;
    const float beside = s->z_m[nv * s->width + inside(nu + (x < (float)nu ? -1 : 1), s->width)];
    if (beside > 0 && fabsf(beside - z) > JUMP_M && testrandom_uniform(random, 0, 1) < r->mixed) {
        const float share = (float)testrandom_uniform(random, 0, 1);
        z = share * z + (1 - share) * beside;
    }
    z += s->object[nv * s->width + nu] ? r->bias_m : r->floor_bias_m;
    if (!s->matt || !s->matt[nv * s->width + nu])
        z += field_at(&fields[5], u, v) > r->patch_least ? r->patch_m : 0;
    z += z * z *
         (r->field_m * field_at(&fields[3], u, v) + r->ripple_m * field_at(&fields[4], u, v));
    const double step = 1 / (STEP_PER_M * (double)z) + 0.45 * testrandom_normal(random);
    z = (float)(1 / (STEP_PER_M * floor(step + 0.5)));
    return testrandom_uniform(random, 0, 1) < 0.003 ? 0 : z;
}

int testsensor_registered(const struct testsensor_scene *s, uint64_t *random, uint16_t *out_depth)
{
    static const int steps_px[N_FIELDS] = {6, 6, 9, 40, 12, 14};
    const size_t n = (size_t)s->width * (size_t)s->height;
    const struct registered r = draw_registered(random);
    struct field fields[N_FIELDS] = {{0}};
    float *raw = calloc(n, sizeof *raw), *done = calloc(n, sizeof *done);
    int err = raw && done ? 0 : -ENOMEM;
    for (int k = 0; k < N_FIELDS && !err; k++)
        err = field_create(s->width, s->height, steps_px[k], random, &fields[k]);
    if (err)
        goto out;
    for (int v = 0; v < s->height; v++)
        for (int u = 0; u < s->width; u++)
            raw[v * s->width + u] = registered_pixel(s, &r, fields, u, v, random);
    cast_shadows(s, raw);
    for (int v = 0; v < s->height && r.fill != FILL_NOT; v++)
        fill_row(raw + v * s->width, s->width, 40, r.fill);
    smooth(raw, s->width, s->height, r.reach, JUMP_M, done);
    for (size_t i = 0; i < n; i++)
        out_depth[i] = rounded(done[i]);
out:
    for (int k = 0; k < N_FIELDS; k++)
        free(fields[k].node);
    free(raw);
    free(done);
    return err;
}

// Light of a pixel's surroundings: a mean over the nearest pixels, weights falling off in 1 px.
static float mixed_light(const struct testsensor_scene *s, int u, int v, float width_px)
{
    float sum = 0, n = 0;
    for (int y = -2; y <= 2; y++)
        for (int x = -2; x <= 2; x++) {
            const float z = s->z_m[inside(v + y, s->height) * s->width + inside(u + x, s->width)];
            const float w = expf(-(float)(x * x + y * y) / (2 * width_px * width_px));
            sum += z > 0 ? w * z : 0;
            n += z > 0 ? w : 0;
        }
    return n > 0 ? sum / n : 0;
}

// How much z changes from pixel to pixel, as the cosine of the angle to the ray (about).
static float slant_at(const struct testsensor_scene *s, int u, int v)
{
    const float here = s->z_m[v * s->width + u];
    const float du = s->z_m[v * s->width + inside(u + 1, s->width)] - here;
    const float dv = s->z_m[inside(v + 1, s->height) * s->width + u] - here;
    const float pixel_m = here / (float)s->focal_px;
    return pixel_m / sqrtf(pixel_m * pixel_m + du * du + dv * dv);
}

int testsensor_tof(const struct testsensor_scene *s, uint64_t *random, uint16_t *out_depth)
{
    const size_t n = (size_t)s->width * (size_t)s->height;
    const float blur_px = (float)testrandom_uniform(random, 0.4, 0.9);
    const float bias_m = (float)testrandom_uniform(random, -0.006, 0.006);
    const float rounded_share = (float)testrandom_uniform(random, 0, 0.5);
    const float noise_m = (float)testrandom_uniform(random, 0.001, 0.003);
    const float field_m = (float)testrandom_uniform(random, 0.0005, 0.004);
    const double lost = testrandom_uniform(random, 0, 0.8); // of what is grazed or flies
    struct field field = {0};
    float *raw = calloc(n, sizeof *raw), *wide = calloc(n, sizeof *wide);
    int err = raw && wide ? field_create(s->width, s->height, 20, random, &field) : -ENOMEM;
    if (err)
        goto out;
    for (int v = 0; v < s->height; v++)
        for (int u = 0; u < s->width; u++)
            raw[v * s->width + u] = mixed_light(s, u, v, blur_px);
    smooth(raw, s->width, s->height, 5, 2 * JUMP_M, wide);
    for (int v = 0; v < s->height; v++)
        for (int u = 0; u < s->width; u++) {
            const int i = v * s->width + u;
            float z = (1 - rounded_share) * raw[i] + rounded_share * wide[i];
            z += (s->object[i] ? bias_m : 0) + field_m * z * z * field_at(&field, u, v);
            z += noise_m * (0.4f + z * z) * (float)testrandom_normal(random);
            const bool weak = fabsf(raw[i] - s->z_m[i]) > 0.5f * JUMP_M || slant_at(s, u, v) < 0.2f;
            out_depth[i] = weak && testrandom_uniform(random, 0, 1) < lost ? 0 : rounded(z);
        }
out:
    free(field.node);
    free(raw);
    free(wide);
    return err;
}

// A scene's own errors, drawn once; lengths in pixels of the chip.
struct matched {
    int reach;          // of the window
    float agree_least;  // share of the window that must be of one surface
    float near_inverse; // which is: inverse depths no farther from its plane than this [1/m]
    float slant_most;   // of the plane, per pixel [1/m]; more is lost
    float wander_px;    // outlines
    float bias_m, floor_bias_m, field_m, ripple_m;
    float hole_least, object_hole_least; // where a field exceeds it there is none
    double noise;                        // of the disparity, in its steps
};

static struct matched draw_matched(uint64_t *random)
{
    struct matched m;
    m.reach = 2 + (int)(testrandom_next(random) % 3);
    m.agree_least = (float)testrandom_uniform(random, 0.55, 0.85);
    m.near_inverse = (float)testrandom_uniform(random, 0.008, 0.02);
    m.slant_most = (float)testrandom_uniform(random, 0.006, 0.012);
    m.wander_px = (float)testrandom_uniform(random, 0.3, 1);
    m.bias_m = (float)testrandom_uniform(random, -0.006, 0.006);
    m.floor_bias_m = (float)testrandom_uniform(random, -0.003, 0.003);
    m.field_m = (float)testrandom_uniform(random, 0.001, 0.005);
    m.ripple_m = (float)testrandom_uniform(random, 0.001, 0.004);
    m.hole_least = (float)testrandom_uniform(random, 1.2, 3);
    m.object_hole_least = (float)testrandom_uniform(random, 0.6, 3);
    m.noise = testrandom_uniform(random, 0.15, 0.5);
    return m;
}

// How the inverse depth goes on from a pixel to the neighbours on both sides: the flatter way, so
// that a step on one side is no slant.
static float slope(float before, float here, float after)
{
    const float a = before > 0 ? 1 / here - 1 / before : INFINITY;
    const float b = after > 0 ? 1 / after - 1 / here : INFINITY;
    return fabsf(a) < fabsf(b) ? a : b;
}

// What the window around pixel (u, v) of the chip agrees on [m]; 0: on nothing.
static float matched_depth(const struct testsensor_scene *chip, const struct matched *m, int u,
                           int v)
{
    const int width = chip->width, height = chip->height;
    const float *row = chip->z_m + v * width, here = row[u];
    if (!(here > 0))
        return 0;
    const float along = slope(row[inside(u - 1, width)], here, row[inside(u + 1, width)]);
    const float down = slope(chip->z_m[inside(v - 1, height) * width + u], here,
                             chip->z_m[inside(v + 1, height) * width + u]);
    if (!(along * along + down * down < m->slant_most * m->slant_most))
        return 0;
    float sum = 0, n = 0, n_all = 0;
    for (int y = -m->reach; y <= m->reach; y++)
        for (int x = -m->reach; x <= m->reach; x++, n_all++) {
            const float z = chip->z_m[inside(v + y, height) * width + inside(u + x, width)];
            const float off = 1 / z - 1 / here - along * (float)x - down * (float)y;
            const bool agrees = z > 0 && fabsf(off) < m->near_inverse;
            sum += agrees ? off : 0;
            n += agrees;
        }
    return n < m->agree_least * n_all ? 0 : 1 / (1 / here + sum / n);
}

enum { MATCHED_WANDER_U, MATCHED_WANDER_V, MATCHED_FIELD, MATCHED_RIPPLE, MATCHED_HOLES };
#define N_MATCHED_FIELDS 5

// The chip's own image of a scene given in its pixels.
static void match(const struct testsensor_scene *chip, const struct matched *m,
                  const struct field fields[N_MATCHED_FIELDS], uint64_t *random, float *out_z_m)
{
    for (int v = 0; v < chip->height; v++)
        for (int u = 0; u < chip->width; u++) {
            const int i = v * chip->width + u;
            const bool object = chip->object[i];
            float z = matched_depth(chip, m, u, v);
            out_z_m[i] = 0;
            if (!(z > 0))
                continue;
            if ((!chip->matt || !chip->matt[i]) &&
                field_at(&fields[MATCHED_HOLES], u, v) >
                    (object ? m->object_hole_least : m->hole_least))
                continue;
            z += object ? m->bias_m : m->floor_bias_m;
            z += z * z *
                 (m->field_m * field_at(&fields[MATCHED_FIELD], u, v) +
                  m->ripple_m * field_at(&fields[MATCHED_RIPPLE], u, v));
            const double step = 1 / (STEP_PER_M * (double)z) + m->noise * testrandom_normal(random);
            out_z_m[i] = (float)(1 / (STEP_PER_M * floor(step + 0.5)));
        }
    cast_shadows(chip, out_z_m);
}

int testsensor_matched(const struct testsensor_scene *s, uint64_t *random, uint16_t *out_depth)
{
    static const int steps_px[N_MATCHED_FIELDS] = {6, 6, 40, 12, 9};
    const float zoom = (float)(s->focal_px / TESTSENSOR_CHIP_FOCAL_PX);
    const size_t n = (size_t)s->width * (size_t)s->height;
    const int width = (int)ceilf((float)s->width / zoom),
              height = (int)ceilf((float)s->height / zoom);
    const size_t n_chip = (size_t)width * (size_t)height;
    const struct matched m = draw_matched(random);
    struct field fields[N_MATCHED_FIELDS] = {{0}};
    float *straight = calloc(n_chip, sizeof *straight), *matched = calloc(n_chip, sizeof *matched);
    float *raw = calloc(n, sizeof *raw), *done = calloc(n, sizeof *done);
    uint8_t *object = calloc(n_chip, 1), *matt = calloc(n_chip, 1);
    int err = straight && matched && raw && done && object && matt ? 0 : -ENOMEM;
    for (int k = 0; k < N_MATCHED_FIELDS && !err; k++)
        err = field_create(width, height, steps_px[k], random, &fields[k]);
    if (err)
        goto out;
    for (int v = 0; v < height; v++)
        for (int u = 0; u < width; u++) {
            const float x =
                (float)u + 0.5f + m.wander_px * field_at(&fields[MATCHED_WANDER_U], u, v);
            const float y =
                (float)v + 0.5f + m.wander_px * field_at(&fields[MATCHED_WANDER_V], u, v);
            const int at =
                inside((int)(zoom * y), s->height) * s->width + inside((int)(zoom * x), s->width);
            straight[v * width + u] = s->z_m[at];
            object[v * width + u] = s->object[at];
            matt[v * width + u] = s->matt && s->matt[at];
        }
    const struct testsensor_scene chip = {straight, object, s->matt ? matt : NULL,
                                          width,    height, s->focal_px / (double)zoom};
    match(&chip, &m, fields, random, matched);
    for (int v = 0; v < s->height; v++)
        for (int u = 0; u < s->width; u++)
            raw[v * s->width + u] = matched[inside((int)((float)v / zoom), height) * width +
                                            inside((int)((float)u / zoom), width)];
    smooth(raw, s->width, s->height, (int)lrintf(zoom), JUMP_M, done);
    for (size_t i = 0; i < n; i++)
        out_depth[i] = rounded(done[i]);
out:
    for (int k = 0; k < N_MATCHED_FIELDS; k++)
        free(fields[k].node);
    free(straight);
    free(matched);
    free(raw);
    free(done);
    free(object);
    free(matt);
    return err;
}
