// SPDX-License-Identifier: Apache-2.0
// The paper's search: one downhill simplex a view.
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "gpu/base/parallel.h"
#include "gpu/search/cpu/device.h"
#include "gpu/search/kernels/germann_error.h"
#include "gpu/search/kernels/simplex.h"

// A view over a window. Lanes are summed apart: integers, so that the order does not matter.
struct view_on_window {
    const uint32_t *window;
    const uint16_t *offset;
    const uint32_t *pairs;
    uint32_t n_chunks;
    int n_cover;
};

// Eight lanes: wider generic vectors are taken apart by gcc inside target_clones.
#define LANES 8
typedef int32_t lanes __attribute__((vector_size(LANES * sizeof(int32_t))));

CPU_CLONES static float evaluate(const struct view_on_window *view, float x, float y, float z)
{
    const uint32_t *base = view->window + search_shift(y) * SEARCH_WINDOW_PX + search_shift(x);
    const int32_t shift = search_depth_shift(z);
    lanes cover = {0}, range = {0}, n_range = {0};
    for (uint32_t i = 0; i < view->n_chunks; i++) {
        for (uint32_t k = 0; k < SEARCH_CHUNK; k += LANES) {
            // search_error_pixel on LANES pixels (tests/check/search/check_search.c compares).
            lanes in, ref;
            memcpy(&in, base + view->offset[i] + k, sizeof in);
            memcpy(&ref, view->pairs + (size_t)i * SEARCH_CHUNK + k, sizeof ref);
            lanes edt_i = in >> 16, edt_r = ref >> 16;
            lanes counts = edt_r >= 0, both = counts & (edt_i >= 0);
            lanes c = edt_i - edt_r, r = ((in << 16) >> 16) - ((ref << 16) >> 16) - shift;
            // cppcheck-suppress shiftTooManyBitsSigned; of vectors: gcc and clang copy the sign
            lanes c_sign = c >> 31, r_sign = r >> 31;
            cover += ((c ^ c_sign) - c_sign) & counts;
            range += ((r ^ r_sign) - r_sign) & both;
            n_range -= both;
        }
    }
    struct search_sums sums = {0, 0, 0};
    for (int k = 0; k < LANES; k++) {
        sums.cover += cover[k];
        sums.range += range[k];
        sums.n_range += n_range[k];
    }
    return search_error_value(&sums, view->n_cover);
}

struct fit_job {
    const struct search_object *object;
    const struct pool *pool;
    const uint32_t *window;
    const uint32_t *views;
    uint32_t n;
    int n_iterations;
    struct search_fit *out;
};

#define FIT_BATCH 32 // views a thread takes at once

static void fit_some(void *user, uint32_t item, uint32_t thread)
{
    (void)thread;
    const struct fit_job *job = user;
    uint32_t end = (item + 1) * FIT_BATCH < job->n ? (item + 1) * FIT_BATCH : job->n;
    for (uint32_t i = item * FIT_BATCH; i < end && !pool_stopped(job->pool); i++) {
        const struct search_view *view = &job->object->views[job->views ? job->views[i] : i];
        struct view_on_window context = {job->window, job->object->chunk_offset + view->first_chunk,
                                         job->object->chunk_pairs +
                                             (size_t)view->first_chunk * SEARCH_CHUNK,
                                         view->n_chunks, (int)view->n_cover};
        const float half = SEARCH_WINDOW_PX / 2;
        struct simplex simplex;
        simplex_begin(&simplex, half - (float)view->start_u, half - (float)view->start_v,
                      -(float)view->start_z / SEARCH_UNIT, job->n_iterations);
        while (simplex.phase != SIMPLEX_PHASE_DONE)
            simplex_tell(&simplex,
                         evaluate(&context, simplex.trial.x, simplex.trial.y, simplex.trial.z));
        job->out[i] =
            (struct search_fit){simplex.v0.error, simplex.v0.x, simplex.v0.y, simplex.v0.z};
    }
}

static int fit_all(struct search_cpu *cpu, const struct search_object *object,
                   const struct search_frame *frame, const uint32_t *views, uint32_t n,
                   uint32_t n_iterations, struct search_fit *out)
{
    // A chunk may reach past the last pixel; what it reads there is masked.
    uint32_t window[SEARCH_WINDOW_PX * SEARCH_WINDOW_PX + SEARCH_CHUNK] = {0};
    int err = search_cpu_window(cpu, frame, window);
    if (err)
        return err;
    struct fit_job job = {object, cpu->pool, window, views, n, (int)n_iterations, out};
    parallel_for(cpu->pool, (n + FIT_BATCH - 1) / FIT_BATCH, fit_some, &job);
    return pool_stopped(cpu->pool) ? -ECANCELED : 0;
}

int search_cpu_fit_best(void *device, const struct search_object *object,
                        const struct search_frame *frame, const uint32_t *views, uint32_t n,
                        uint32_t n_iterations, uint32_t n_best, uint32_t *out_place,
                        struct search_fit *out)
{
    struct search_fit *fits = malloc(n * sizeof *fits);
    int err = fits ? fit_all(device, object, frame, views, n, n_iterations, fits) : -ENOMEM;
    for (uint32_t k = 0; !err && k < n_best; k++) {
        uint32_t best = n;
        for (uint32_t i = 0; i < n; i++) {
            bool taken = false;
            for (uint32_t j = 0; j < k; j++)
                taken |= out_place[j] == i;
            if (!taken && (best == n || fits[i].error_px < fits[best].error_px))
                best = i;
        }
        out_place[k] = best;
        out[k] = fits[best];
    }
    free(fits);
    return err;
}
