// SPDX-License-Identifier: Apache-2.0
#include "tests/check/search/scalar.h"

#include <math.h>
#include <stdlib.h>

#include "gpu/search/kernels/coarse.h"
#include "gpu/search/kernels/depth_edges.h"
#include "gpu/search/kernels/frame.h"
#include "gpu/search/kernels/germann_error.h"
#include "gpu/search/kernels/simplex.h"

void scalar_window(const float *z_m, const struct search_camera *camera,
                   const struct search_frame *frame, uint32_t *out)
{
    enum { N = SEARCH_WINDOW_PX };
    int16_t *raw = malloc(SCALAR_WINDOW_PIXELS * sizeof *raw),
            *z = malloc(SCALAR_WINDOW_PIXELS * sizeof *z);
    int *kind = malloc(SCALAR_WINDOW_PIXELS * sizeof *kind);
    for (int i = 0; i < SCALAR_WINDOW_PIXELS; i++) {
        float depth = 0, limit = 2 * SEARCH_MAP_PX * frame->px_m;
        int seen = search_frame_sample(z_m, camera, frame->rotation, frame->start_m,
                                       (float)(i % N - N / 2) * frame->px_m,
                                       (float)(i / N - N / 2) * frame->px_m, &depth);
        raw[i] = seen && depth > -limit && depth < limit
                     ? (int16_t)search_depth_shift(depth / frame->px_m)
                     : SEARCH_Z_NONE;
    }
    for (int i = 0; i < SCALAR_WINDOW_PIXELS; i++) {
        int16_t around[9];
        for (int k = 0; k < 9; k++) {
            int u = i % N + k % 3 - 1, v = i / N + k / 3 - 1;
            around[k] = u >= 0 && v >= 0 && u < N && v < N ? raw[v * N + u] : SEARCH_Z_NONE;
        }
        // A plain selection: count the smaller ones.
        for (int k = 0; k < 9; k++) {
            int n_less = 0, n_equal = 0;
            for (int j = 0; j < 9; j++) {
                n_less += around[j] < around[k];
                n_equal += around[j] == around[k];
            }
            if (n_less <= 4 && n_less + n_equal > 4)
                z[i] = around[k];
        }
    }
    for (int i = 0; i < SCALAR_WINDOW_PIXELS; i++) {
        int u = i % N, v = i / N;
        kind[i] = search_kind(
            z[i], u > 0 ? z[i - 1] : SEARCH_Z_NONE, u < N - 1 ? z[i + 1] : SEARCH_Z_NONE,
            v > 0 ? z[i - N] : SEARCH_Z_NONE, v < N - 1 ? z[i + N] : SEARCH_Z_NONE);
    }
    for (int i = 0; i < SCALAR_WINDOW_PIXELS; i++) {
        double nearest = SEARCH_EDT_MAX_PX;
        for (int y = -SEARCH_EDT_MAX_PX; y <= SEARCH_EDT_MAX_PX; y++)
            for (int x = -SEARCH_EDT_MAX_PX; x <= SEARCH_EDT_MAX_PX; x++) {
                int u = i % N + x, v = i / N + y;
                if (u >= 0 && v >= 0 && u < N && v < N && kind[v * N + u] == SEARCH_KIND_EDGE)
                    nearest = fmin(nearest, sqrt(x * x + y * y));
            }
        int edt = (int)floor(nearest * SEARCH_UNIT + 0.5);
        out[i] = search_pair(kind[i] == SEARCH_KIND_BACKGROUND ? 0 : z[i],
                             kind[i] == SEARCH_KIND_BACKGROUND ? -edt : edt);
    }
    free(raw);
    free(z);
    free(kind);
}

struct scalar_view {
    const uint32_t *window;
    const struct search_object *object;
    const struct search_view *view;
};

static float scalar_evaluate(const struct scalar_view *on, float x, float y, float z)
{
    struct search_sums sums = {0, 0, 0};
    int base = search_shift(y) * SEARCH_WINDOW_PX + search_shift(x);
    for (uint32_t i = 0; i < on->view->n_chunks; i++)
        for (int k = 0; k < SEARCH_CHUNK; k++) {
            size_t chunk = on->view->first_chunk + i;
            uint32_t pair = on->object->chunk_pairs[chunk * SEARCH_CHUNK + (size_t)k];
            if (search_pair_edt(pair) >= 0)
                search_error_pixel(on->window[base + on->object->chunk_offset[chunk] + k], pair,
                                   search_depth_shift(z), &sums);
        }
    return search_error_value(&sums, (int)on->view->n_cover);
}

void scalar_fit(const struct search_object *object, const uint32_t *window, int n_iterations,
                struct search_fit *out)
{
    for (uint32_t i = 0; i < object->n_views; i++) {
        struct scalar_view on = {window, object, &object->views[i]};
        const float half = SEARCH_WINDOW_PX / 2;
        struct simplex simplex;
        simplex_begin(&simplex, half - (float)on.view->start_u, half - (float)on.view->start_v,
                      -(float)on.view->start_z / SEARCH_UNIT, n_iterations);
        while (simplex.phase != SIMPLEX_PHASE_DONE) {
            const struct simplex_vertex *at = &simplex.trial;
            simplex_tell(&simplex, scalar_evaluate(&on, at->x, at->y, at->z));
        }
        out[i] = (struct search_fit){simplex.v0.error, simplex.v0.x, simplex.v0.y, simplex.v0.z};
    }
}

static int scalar_coarse(const int16_t *window, const struct search_coarse *map, int a)
{
    int sum = 0, n_seen = 0;
    for (int v = 0; v < SEARCH_COARSE_CELLS; v++)
        for (int u = 0; u < SEARCH_COARSE_CELLS; u++) {
            int at = (v + SEARCH_COARSE_WINDOW / 2 - map->anchor_v[a]) * SEARCH_COARSE_WINDOW + u +
                     SEARCH_COARSE_WINDOW / 2 - map->anchor_u[a];
            int i = v * SEARCH_COARSE_CELLS + u;
            sum +=
                search_coarse_cell(window[at], map->z[i], map->ring[i], map->anchor_z[a], &n_seen);
        }
    return search_coarse_score(sum, n_seen, map->n_cells);
}

void scalar_scan(const float *z_m, const struct search_camera *camera,
                 const struct search_object *object, const struct search_frame *starts,
                 uint32_t n_starts, struct search_hit *out)
{
    for (uint32_t i = 0; i < n_starts; i++) {
        int16_t window[SEARCH_COARSE_WINDOW * SEARCH_COARSE_WINDOW];
        const float cell_m = SEARCH_COARSE_PX * starts[i].px_m;
        for (int k = 0; k < SEARCH_COARSE_WINDOW * SEARCH_COARSE_WINDOW; k++) {
            float z = 0;
            int seen = search_frame_sample(
                z_m, camera, starts[i].rotation, starts[i].start_m,
                (float)(k % SEARCH_COARSE_WINDOW - SEARCH_COARSE_WINDOW / 2) * cell_m,
                (float)(k / SEARCH_COARSE_WINDOW - SEARCH_COARSE_WINDOW / 2) * cell_m, &z);
            window[k] = (int16_t)search_coarse_scene(seen, z / starts[i].px_m);
        }
        struct search_hit *all = calloc(object->n_seeds, sizeof *all);
        for (uint32_t s = 0; s < object->n_seeds; s++) {
            const struct search_coarse *map = &object->coarse[object->seeds[s]];
            all[s] = (struct search_hit){INT32_MIN, object->seeds[s], i, 0};
            for (int a = 0; a < map->n_anchors; a++) {
                int score = scalar_coarse(window, map, a);
                if (search_coarse_facing(starts[i].normal[0], starts[i].normal[1],
                                         starts[i].normal[2], map->anchor_normal[a]) &&
                    score > all[s].score) {
                    all[s].score = score;
                    all[s].anchor = (uint32_t)a;
                }
            }
        }
        for (uint32_t k = 0; k < SCALAR_N_KEEP; k++) {
            struct search_hit *hit = &out[i * SCALAR_N_KEEP + k];
            uint32_t best = 0;
            for (uint32_t s = 1; s < object->n_seeds; s++)
                best = all[s].score > all[best].score ? s : best;
            *hit = (struct search_hit){INT32_MIN, 0, i, 0};
            if (all[best].score > INT32_MIN)
                *hit = all[best];
            all[best].score = INT32_MIN;
        }
        free(all);
    }
}
