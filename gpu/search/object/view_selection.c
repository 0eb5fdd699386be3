// SPDX-License-Identifier: Apache-2.0
#include "gpu/search/object/view_selection.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "gpu/search/kernels/germann_error.h"
#include "gpu/search/object/view_packing.h"
#include "gpu/search/object/view_rotations.h"

#define THIN   2 // every second pixel each way: a choice needs no more
#define SIDE   (SEARCH_MAP_PX / THIN)
#define PIXELS (SIDE * SIDE)

// A comparison takes about a microsecond: whoever gives the build up waits some milliseconds.
#define COMPARED_IN_A_ROW 8192

// A candidate, thinned.
struct candidate {
    uint32_t pairs[PIXELS];
    int start_u, start_v, start_z; // thinned px, 1/64 px
    int n_cover;
};

static void thin(const struct search_map *map, struct candidate *out)
{
    int best = INT32_MIN;
    out->n_cover = 0;
    for (int i = 0; i < PIXELS; i++) {
        int at = i / SIDE * THIN * SEARCH_MAP_PX + i % SIDE * THIN, edt = map->edt[at];
        out->pairs[i] = search_pair(edt < 0 ? 0 : map->z[at], edt);
        out->n_cover += edt >= 0;
        if (edt < 0 || edt - 2 * map->z[at] < best)
            continue;
        best = edt - 2 * map->z[at]; // the start point, as search_pack_view takes it
        out->start_u = i % SIDE;
        out->start_v = i / SIDE;
        out->start_z = map->z[at];
    }
}

// The paper's error of `kept` laid over `input` with their start points together.
static float error_between(const struct candidate *input, const struct candidate *kept)
{
    const uint32_t outside = search_pair(0, -SEARCH_EDT_MAX_PX * SEARCH_UNIT);
    int du = input->start_u - kept->start_u, dv = input->start_v - kept->start_v;
    int dz = input->start_z - kept->start_z;
    struct search_sums sums = {0, 0, 0};
    for (int v = 0; v < SIDE; v++)
        for (int u = 0; u < SIDE; u++) {
            uint32_t pair = kept->pairs[v * SIDE + u];
            if (search_pair_edt(pair) < 0)
                continue;
            int x = u + du, y = v + dv;
            bool inside = x >= 0 && y >= 0 && x < SIDE && y < SIDE;
            search_error_pixel(inside ? input->pairs[y * SIDE + x] : outside, pair, dz, &sums);
        }
    return search_error_value(&sums, kept->n_cover ? kept->n_cover : 1);
}

// One round: indices of kept candidates, at most n_views + 1 of them. Returns 0 or -ECANCELED.
static int choose(const struct candidate *all, uint32_t n_all, float threshold,
                  const struct search_object_settings *settings, uint32_t *out, uint32_t *out_n)
{
    uint32_t n_kept = 0, n_compared = COMPARED_IN_A_ROW;
    for (uint32_t i = 0; i < n_all && n_kept <= settings->n_views; i++) {
        bool known = false;
        // Backwards: the spiral's neighbours were kept last.
        for (uint32_t k = n_kept; k-- > 0 && !known; n_compared++)
            known = error_between(&all[i], &all[out[k]]) < threshold;
        if (!known)
            out[n_kept++] = i;
        if (n_compared < COMPARED_IN_A_ROW)
            continue;
        n_compared = 0;
        int err = search_tell_progress(settings, 0);
        if (err)
            return err;
    }
    *out_n = n_kept;
    return 0;
}

static int draw_candidates(struct search *search, const struct search_object *object,
                           const struct search_object_settings *settings, uint32_t n_all,
                           struct candidate *out)
{
    const uint32_t batch = search_batch_views(object);
    struct search_map *maps = malloc(batch * sizeof *maps);
    float *rotations = malloc(batch * 9 * sizeof *rotations);
    int err = maps && rotations ? 0 : -ENOMEM;
    for (uint32_t from = 0; from < n_all && !err; from += batch) {
        uint32_t n = n_all - from < batch ? n_all - from : batch;
        for (uint32_t i = 0; i < n; i++)
            search_rotation(from + i, n_all, rotations + 9 * (size_t)i);
        err = search->ops->maps(search->device, object, rotations, n, maps);
        for (uint32_t i = 0; i < n && !err; i++)
            thin(&maps[i], &out[from + i]);
        if (!err)
            err = search_tell_progress(settings, 0);
    }
    free(maps);
    free(rotations);
    return err;
}

int search_choose_greedy(struct search *search, const struct search_object *object,
                         const struct search_object_settings *settings, float *out_rotations)
{
    uint32_t n = settings->n_views, n_all = 2 * n, n_kept = n + 1;
    struct candidate *all = malloc(n_all * sizeof *all);
    uint32_t *kept = malloc((n + 1) * sizeof *kept);
    int err = all && kept ? draw_candidates(search, object, settings, n_all, all) : -ENOMEM;
    for (float threshold = 1; !err && n_kept > n; threshold *= 1.15f)
        err = choose(all, n_all, threshold, settings, kept, &n_kept);
    for (uint32_t i = 0; i < n && !err; i++) {
        if (i < n_kept)
            search_rotation(kept[i], n_all, out_rotations + 9 * (size_t)i);
        else
            search_rotation(i - n_kept, n - n_kept, out_rotations + 9 * (size_t)i);
    }
    free(all);
    free(kept);
    return err;
}
