// SPDX-License-Identifier: Apache-2.0
#include "gpu/align/align.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "gpu/base/parallel.h"
#include "proto/clock.h"
#include "proto/se3.h"

#define GATE_SHARE 0.06 // of the median image's diagonal

struct running {
    const struct align_source *source;
    const struct align_ranks *ranks;
    const struct align_settings *settings;
    struct se3 *T_world_image;
    struct align_result *out;
    struct pool *pool;
    struct align_image **images; // of this rank, by image
    uint32_t *slot;
    struct align_device *device;
    int *load_rc; // of each image
    bool *wanted;
};

void align_settings_default(struct align_settings *out)
{
    *out = (struct align_settings){.backend = GPU_BACKEND_AUTO, .cuda_device = -1};
    align_pair_settings_default(&out->pairs);
    align_iterate_settings_default(&out->solve);
    partition_settings_default(&out->partition);
}

static void load_one(void *user, uint32_t item, uint32_t thread)
{
    (void)thread;
    struct running *r = user;
    if (r->wanted[item] && !r->images[item])
        r->load_rc[item] = r->source->load(r->source->user, item, &r->images[item]);
}

// Loads what is wanted of this rank. Returns 0 or the first image's error.
static int load_wanted(struct running *r)
{
    parallel_for(r->pool, r->source->n_images, load_one, r);
    for (uint32_t i = 0; i < r->source->n_images; i++)
        if (r->wanted[i] && r->load_rc[i] < 0)
            return r->load_rc[i];
    return 0;
}

// The worst of all ranks' return codes, on all ranks.
static int agree(const struct align_ranks *ranks, int rc)
{
    int worst = 0;
    int *all = calloc(ranks->n, sizeof *all);
    size_t *bytes = calloc(ranks->n, sizeof *bytes);
    if (!all || !bytes) {
        free(all);
        free(bytes);
        return -ENOMEM;
    }
    for (uint32_t k = 0; k < ranks->n; k++)
        bytes[k] = sizeof rc;
    ranks->gather(&rc, sizeof rc, all, bytes);
    for (uint32_t k = 0; k < ranks->n && ranks->id == 0; k++)
        worst = all[k] < 0 ? all[k] : worst;
    ranks->broadcast(&worst, sizeof worst, 0);
    free(all);
    free(bytes);
    return worst;
}

// Every rank sketches every n-th image; all get all sketches. With one rank images stay.
static int sketch_all(struct running *r)
{
    const struct align_ranks *ranks = r->ranks;
    uint32_t n = r->source->n_images, n_own = 0;
    struct align_sketch *own = calloc((size_t)n / ranks->n + 1, sizeof *own), *all = NULL;
    size_t *bytes = calloc(ranks->n, sizeof *bytes);
    int rc = own && bytes ? 0 : -ENOMEM;
    // A few images at a time, so that no rank holds more than its share.
    uint32_t at_once = ranks->n == 1 ? n : 2 * pool_n_threads(r->pool);
    for (uint32_t first = ranks->id; first < n && rc == 0; first += at_once * ranks->n) {
        memset(r->wanted, 0, n * sizeof *r->wanted);
        for (uint32_t k = 0, i = first; k < at_once && i < n; k++, i += ranks->n)
            r->wanted[i] = true;
        rc = load_wanted(r);
        for (uint32_t i = first; i < n && rc == 0; i++)
            if (r->wanted[i])
                align_sketch_make(r->images[i], &own[n_own++]);
        for (uint32_t i = 0; i < n && ranks->n > 1; i++)
            align_image_destroy(&r->images[i]);
    }
    rc = agree(ranks, rc);
    if (rc < 0)
        goto free_own;
    for (uint32_t i = 0; i < n; i++)
        bytes[i % ranks->n] += sizeof *own;
    all = ranks->id == 0 ? calloc(n, sizeof *all) : NULL;
    rc = agree(ranks, ranks->id == 0 && !all ? -ENOMEM : 0);
    if (rc < 0)
        goto free_own;
    ranks->gather(own, n_own * sizeof *own, all, bytes);
    if (all)
        for (uint32_t rank = 0, at = 0; rank < ranks->n; rank++)
            for (uint32_t i = rank; i < n; i += ranks->n)
                r->out->sketches[i] = all[at++];
    ranks->broadcast(r->out->sketches, n * sizeof *all, 0);
free_own:
    free(own);
    free(all);
    free(bytes);
    return rc;
}

static int compare_doubles(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median_size(const struct align_sketch *sketches, uint32_t n, double *scratch)
{
    for (uint32_t i = 0; i < n; i++) {
        scratch[i] = 0;
        for (int k = 0; k < 3; k++) {
            double side = sketches[i].high_m[k] - sketches[i].low_m[k];
            scratch[i] += side * side;
        }
        scratch[i] = sqrt(scratch[i]);
    }
    qsort(scratch, n, sizeof *scratch, compare_doubles);
    return scratch[n / 2];
}

// Sizes that differ a hundredfold are two units, not two views.
static void warn_of_units(const struct running *r, const double *sorted_sizes)
{
    uint32_t n = r->source->n_images;
    double middle = sorted_sizes[n / 2];
    for (uint32_t i = 0; i < n; i++) {
        double size = 0;
        const struct align_sketch *s = &r->out->sketches[i];
        for (int k = 0; k < 3; k++)
            size += (s->high_m[k] - s->low_m[k]) * (s->high_m[k] - s->low_m[k]);
        size = sqrt(size);
        if (size > 50 * middle || size < middle / 50)
            log_to(&r->settings->log, LOG_LEVEL_WARNING,
                   "%s is %.4g across, the median image %.4g: are the units mixed?",
                   r->source->names[i], size, middle);
    }
}

static int by_images(const void *a, const void *b)
{
    const struct align_pair *x = a, *y = b;
    if (x->i != y->i)
        return x->i < y->i ? -1 : 1;
    return (x->j > y->j) - (x->j < y->j);
}

static int add_extra(struct running *r)
{
    const struct align_settings *settings = r->settings;
    struct align_result *out = r->out;
    struct align_pair *grown =
        realloc(out->pairs, ((size_t)out->n_pairs + settings->n_extra + 1) * sizeof *grown);
    if (!grown)
        return -ENOMEM;
    out->pairs = grown;
    for (uint32_t k = 0; k < settings->n_extra; k++) {
        struct align_pair pair = settings->extra[k];
        bool known = pair.i >= pair.j || pair.j >= r->source->n_images;
        for (uint32_t p = 0; p < out->n_pairs && !known; p++)
            known = grown[p].i == pair.i && grown[p].j == pair.j;
        if (!known)
            grown[out->n_pairs++] = pair;
    }
    qsort(grown, out->n_pairs, sizeof *grown, by_images);
    return 0;
}

// On the root: the pairs, and which images stay where they are.
static int choose(struct running *r)
{
    struct align_result *out = r->out;
    uint32_t n = r->source->n_images;
    double *sizes = malloc(n * sizeof *sizes);
    if (!sizes)
        return -ENOMEM;
    double size = median_size(out->sketches, n, sizes);
    warn_of_units(r, sizes);
    free(sizes);
    out->gate_m = r->settings->gate_m > 0 ? r->settings->gate_m : GATE_SHARE * size;
    struct align_pair_settings settings = r->settings->pairs;
    settings.gate_m = out->gate_m;
    long n_pairs = align_pairs_choose(out->sketches, r->T_world_image, n, &settings, r->pool,
                                      &out->pairs, &out->counts);
    if (n_pairs < 0)
        return (int)n_pairs;
    out->n_pairs = (uint32_t)n_pairs;
    if (r->settings->n_extra) {
        int rc = add_extra(r);
        if (rc < 0)
            return rc;
    }
    if (out->n_pairs == 0) {
        log_to(&r->settings->log, LOG_LEVEL_ERROR,
               "no two of the %u images overlap at their start poses (%u pairs: %u with boxes "
               "apart, %u seen from opposite sides, %u with too little overlap): are they right, "
               "and in the images' unit?",
               n, out->counts.all, out->counts.by_box, out->counts.by_view, out->counts.by_overlap);
        return -EINVAL;
    }
    return 0;
}

static int share_pairs(struct running *r)
{
    struct align_result *out = r->out;
    uint32_t n = r->source->n_images;
    struct {
        uint32_t n_pairs;
        double gate_m;
        struct align_pair_counts counts;
    } head = {out->n_pairs, out->gate_m, out->counts};
    r->ranks->broadcast(&head, sizeof head, 0);
    if (r->ranks->id != 0) {
        out->n_pairs = head.n_pairs;
        out->gate_m = head.gate_m;
        out->counts = head.counts;
        out->pairs = calloc((size_t)head.n_pairs + 1, sizeof *out->pairs);
    }
    out->owner = calloc((size_t)head.n_pairs + 1, sizeof *out->owner);
    int rc = agree(r->ranks, out->pairs && out->owner ? 0 : -ENOMEM);
    if (rc < 0)
        return rc;
    r->ranks->broadcast(out->pairs, out->n_pairs * sizeof *out->pairs, 0);
    out->n_parts = align_pairs_parts(out->pairs, out->n_pairs, n, out->part);
    uint32_t *members = calloc(n, sizeof *members);
    if (!members)
        return -ENOMEM;
    for (uint32_t i = 0; i < n; i++)
        members[out->part[i]]++;
    for (uint32_t i = 0; i < n; i++) {
        out->fixed[i] = out->part[i] == i;
        if (members[i] == 1 && r->ranks->id == 0)
            log_to(&r->settings->log, LOG_LEVEL_WARNING,
                   "%s overlaps with no other image: it keeps its pose", r->source->names[i]);
    }
    if (out->n_parts > 1 && r->ranks->id == 0)
        log_to(&r->settings->log, LOG_LEVEL_WARNING,
               "the images fall into %u parts without pairs between them", out->n_parts);
    free(members);
    return 0;
}

static int share_out(struct running *r)
{
    struct align_result *out = r->out;
    uint32_t n = r->source->n_images;
    int rc = 0;
    if (r->ranks->id == 0) {
        uint32_t *weight = malloc(n * sizeof *weight);
        struct partition_settings settings = r->settings->partition;
        settings.n_parts = r->ranks->n;
        for (uint32_t i = 0; i < n && weight; i++)
            weight[i] = out->sketches[i].n_vertices;
        rc = weight ? partition_pairs(out->pairs, out->n_pairs, weight, n, &settings, out->owner,
                                      &out->partition)
                    : -ENOMEM;
        free(weight);
        if (rc == 0 && out->partition.n_idle)
            log_to(&r->settings->log, LOG_LEVEL_WARNING,
                   "%u ranks for %u pairs: %u have nothing to do", r->ranks->n, out->n_pairs,
                   out->partition.n_idle);
    }
    rc = agree(r->ranks, rc);
    if (rc == 0)
        r->ranks->broadcast(out->owner, out->n_pairs * sizeof *out->owner, 0);
    return rc;
}

// Only images that this rank's pairs need.
static int load_own(struct running *r)
{
    struct align_result *out = r->out;
    uint32_t n = r->source->n_images, n_slots = 0;
    memset(r->wanted, 0, n * sizeof *r->wanted);
    uint32_t n_tasks = 0;
    for (uint32_t k = 0; k < out->n_pairs; k++)
        if (out->owner[k] == r->ranks->id) {
            r->wanted[out->pairs[k].i] = r->wanted[out->pairs[k].j] = true;
            n_tasks += 2;
        }
    for (uint32_t i = 0; i < n; i++)
        r->slot[i] = r->wanted[i] ? n_slots++ : UINT32_MAX;
    int rc = load_wanted(r);
    struct align_device_settings device = {n_slots, n_tasks, pool_n_threads(r->pool),
                                           r->settings->cuda_device, r->settings->log};
    if (device.cuda_device < 0 && r->ranks->n_local > 1)
        device.cuda_device = -2 - (int)r->ranks->local_id; // devices in turn
    if (rc == 0)
        rc = align_device_open(&r->device, r->settings->backend, &device);
    bool keeps = rc == 0 && strcmp(align_device_name(r->device), "cpu") == 0;
    for (uint32_t i = 0; i < n && rc == 0; i++) {
        if (!r->wanted[i])
            align_image_destroy(&r->images[i]);
        else
            rc = align_device_load(r->device, r->slot[i], r->images[i]);
        if (rc == 0 && r->wanted[i] && !keeps)
            align_image_destroy(&r->images[i]);
    }
    if (rc == 0)
        snprintf(out->device, sizeof out->device, "%s", align_device_description(r->device));
    return agree(r->ranks, rc);
}

static int solve(struct running *r, int (*progress)(void *, const struct align_progress *),
                 void *user)
{
    struct align_result *out = r->out;
    struct align_job job = {.n_images = r->source->n_images,
                            .n_pairs = out->n_pairs,
                            .T_world_image = r->T_world_image,
                            .fixed = out->fixed,
                            .pairs = out->pairs,
                            .owner = out->owner,
                            .sketches = out->sketches,
                            .device = r->device,
                            .slot = r->slot,
                            .ranks = r->ranks,
                            .settings = r->settings->solve,
                            .progress = progress,
                            .user = user,
                            .log = r->settings->log};
    job.settings.gate_m = out->gate_m;
    int rc = agree(r->ranks, align_iterate(&job, &out->solution));
    if (rc == 0)
        r->ranks->broadcast(r->T_world_image, job.n_images * sizeof *job.T_world_image, 0);
    return rc;
}

static int find_bytes(struct running *r)
{
    uint64_t own = align_device_bytes(r->device), *all = calloc(r->ranks->n, sizeof *all);
    size_t *bytes = calloc(r->ranks->n, sizeof *bytes);
    int rc = agree(r->ranks, all && bytes ? 0 : -ENOMEM);
    for (uint32_t k = 0; k < r->ranks->n && rc == 0; k++)
        bytes[k] = sizeof own;
    if (rc == 0)
        r->ranks->gather(&own, sizeof own, all, bytes);
    r->out->least_bytes = UINT64_MAX;
    for (uint32_t k = 0; k < r->ranks->n && rc == 0 && r->ranks->id == 0; k++) {
        r->out->least_bytes = all[k] < r->out->least_bytes ? all[k] : r->out->least_bytes;
        r->out->most_bytes = all[k] > r->out->most_bytes ? all[k] : r->out->most_bytes;
    }
    free(all);
    free(bytes);
    return rc;
}

static int take_memory(struct running *r)
{
    uint32_t n = r->source->n_images, n_threads = r->settings->n_threads;
    if (n_threads == 0 && r->ranks->n_local > 1) {
        long cores = sysconf(_SC_NPROCESSORS_ONLN);
        n_threads = cores > 0 ? (uint32_t)cores / r->ranks->n_local : 1;
        n_threads = n_threads ? n_threads : 1;
    }
    r->images = calloc(n, sizeof *r->images);
    r->slot = calloc(n, sizeof *r->slot);
    r->load_rc = calloc(n, sizeof *r->load_rc);
    r->wanted = calloc(n, sizeof *r->wanted);
    r->out->sketches = calloc(n, sizeof *r->out->sketches);
    r->out->part = calloc(n, sizeof *r->out->part);
    r->out->fixed = calloc(n, sizeof *r->out->fixed);
    if (!r->images || !r->slot || !r->load_rc || !r->wanted || !r->out->sketches || !r->out->part ||
        !r->out->fixed)
        return -ENOMEM;
    return pool_create(&r->pool, n_threads);
}

int align_run(const struct align_source *source, const struct align_ranks *ranks,
              const struct align_settings *settings, struct se3 *T_world_image,
              int (*progress)(void *user, const struct align_progress *progress), void *user,
              struct align_result *out)
{
    struct running r = {source, ranks, settings, T_world_image, out, .pool = NULL};
    double t[6] = {1e-3 * clock_monotonic_ms()};
    memset(out, 0, sizeof *out);
    if (source->n_images < 2) {
        log_to(&settings->log, LOG_LEVEL_ERROR, "%u image%s: at least two are needed",
               source->n_images, source->n_images == 1 ? "" : "s");
        return -EINVAL;
    }
    int rc = agree(ranks, take_memory(&r));
    if (rc == 0)
        rc = sketch_all(&r);
    t[1] = 1e-3 * clock_monotonic_ms();
    if (rc == 0)
        rc = agree(ranks, ranks->id == 0 ? choose(&r) : 0);
    if (rc == 0)
        rc = share_pairs(&r);
    t[2] = 1e-3 * clock_monotonic_ms();
    if (rc == 0)
        rc = share_out(&r);
    t[3] = 1e-3 * clock_monotonic_ms();
    if (rc == 0)
        rc = load_own(&r);
    t[4] = 1e-3 * clock_monotonic_ms();
    if (rc == 0)
        rc = solve(&r, progress, user);
    if (rc == 0)
        rc = find_bytes(&r);
    t[5] = 1e-3 * clock_monotonic_ms();
    out->times =
        (struct align_times){t[1] - t[0], t[2] - t[1], t[3] - t[2], t[4] - t[3], t[5] - t[4]};
    if (rc == -ENOMEM)
        log_to(&settings->log, LOG_LEVEL_ERROR, "out of memory");
    align_device_close(&r.device);
    for (uint32_t i = 0; i < source->n_images && r.images; i++)
        align_image_destroy(&r.images[i]);
    free(r.images);
    free(r.slot);
    free(r.load_rc);
    free(r.wanted);
    pool_destroy(&r.pool);
    if (rc < 0)
        align_result_free(out);
    return rc;
}

void align_result_free(struct align_result *result)
{
    free(result->pairs);
    free(result->part);
    free(result->fixed);
    free(result->owner);
    free(result->sketches);
    align_solution_free(&result->solution);
    memset(result, 0, sizeof *result);
}
