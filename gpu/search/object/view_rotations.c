// SPDX-License-Identifier: Apache-2.0
#include "gpu/search/object/view_rotations.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

void search_rotation(uint32_t i, uint32_t n, float out[9])
{
    const double phi = 1.4142135623730951, psi = 1.533751168755204288118041;
    double s = i + 0.5, t = s / n, d = 2 * M_PI * s;
    double low = sqrt(t), high = sqrt(1 - t), a = d / phi, b = d / psi;
    double x = low * sin(a), y = low * cos(a), z = high * sin(b), w = high * cos(b);
    double r[9] = {1 - 2 * (y * y + z * z), 2 * (x * y - z * w),     2 * (x * z + y * w),
                   2 * (x * y + z * w),     1 - 2 * (x * x + z * z), 2 * (y * z - x * w),
                   2 * (x * z - y * w),     2 * (y * z + x * w),     1 - 2 * (x * x + y * y)};
    for (int k = 0; k < 9; k++)
        out[k] = (float)r[k];
}

// Trace of a b^T: 1 + 2 cos(angle).
static float trace_between(const float a[9], const float b[9])
{
    float sum = 0;
    for (int k = 0; k < 9; k++)
        sum += a[k] * b[k];
    return sum;
}

double search_rotation_angle(const float a[9], const float b[9])
{
    double cosine = 0.5 * ((double)trace_between(a, b) - 1);
    return acos(cosine < -1 ? -1 : cosine > 1 ? 1 : cosine);
}

// Index of the view whose rotation is nearest.
static uint32_t nearest_view(const struct search_object *object, const float rotation[9])
{
    uint32_t best = 0;
    float best_trace = -2;
    for (uint32_t i = 0; i < object->n_views; i++) {
        float trace = trace_between(object->views[i].rotation, rotation);
        if (trace > best_trace) {
            best_trace = trace;
            best = i;
        }
    }
    return best;
}

int search_choose_seeds(struct search_object *object, uint32_t n_seeds)
{
    uint32_t n = object->n_views;
    n_seeds = n_seeds < n ? n_seeds : n;
    uint32_t *parent = calloc(n, sizeof *parent);
    object->seeds = calloc(n_seeds, sizeof *object->seeds);
    object->child_first = calloc(n_seeds + 1, sizeof *object->child_first);
    object->children = calloc(n, sizeof *object->children);
    object->seed_rotations = calloc((n_seeds + 7) / 8 * 72, sizeof *object->seed_rotations);
    int err =
        parent && object->seeds && object->child_first && object->children && object->seed_rotations
            ? 0
            : -ENOMEM;
    if (err)
        goto out;
    for (uint32_t s = 0; s < n_seeds; s++) {
        float rotation[9];
        search_rotation(s, n_seeds, rotation);
        object->seeds[s] = n_seeds == n ? s : nearest_view(object, rotation);
    }
    object->n_seeds = n_seeds;
    for (uint32_t s = 0; s < n_seeds; s++)
        for (uint32_t k = 0; k < 9; k++)
            object->seed_rotations[(s / 8 * 9 + k) * 8 + s % 8] =
                object->views[object->seeds[s]].rotation[k];
    for (uint32_t i = 0; i < n; i++) {
        float best = -2;
        for (uint32_t s = 0; s < n_seeds; s++) {
            float trace =
                trace_between(object->views[i].rotation, object->views[object->seeds[s]].rotation);
            if (trace > best) {
                best = trace;
                parent[i] = s;
            }
        }
        object->child_first[parent[i] + 1]++;
    }
    for (uint32_t s = 0; s < n_seeds; s++)
        object->child_first[s + 1] += object->child_first[s];
    for (uint32_t i = n; i-- > 0;) // backwards, so that child_first ends where it began
        object->children[--object->child_first[parent[i] + 1]] = i;
    for (uint32_t s = 0; s < n_seeds; s++)
        object->child_first[s] = object->child_first[s + 1];
    object->child_first[n_seeds] = n;
out:
    free(parent);
    return err;
}
