// SPDX-License-Identifier: Apache-2.0
#include "gpu/align/partition.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

struct graph {
    const struct align_pair *pairs;
    uint32_t n_pairs, n_images;
    const uint32_t *weight;  // of an image
    uint32_t *begin, *nodes; // pairs of each image
    uint64_t *work;          // of a pair
    uint64_t seed;
};

// An assignment, with what moves of it need: how many pairs of each image each part has.
struct parts {
    const struct graph *g;
    uint32_t n_parts;
    uint32_t *part;
    uint32_t *count; // [part][image]
    uint64_t *work, *memory;
};

static uint64_t next_random(uint64_t *state) // splitmix64
{
    uint64_t z = *state += 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

static uint32_t random_below(uint64_t *state, uint32_t n)
{
    return (uint32_t)((next_random(state) >> 32) * n >> 32);
}

void partition_settings_default(struct partition_settings *out)
{
    *out = (struct partition_settings){
        .n_parts = 1, .seed = 1, .max_imbalance = 0.03, .n_starts = 16, .n_moves = 2000};
}

static int graph_create(struct graph *g, const struct align_pair *pairs, uint32_t n_pairs,
                        const uint32_t *weight, uint32_t n_images, uint64_t seed)
{
    *g = (struct graph){pairs, n_pairs, n_images, weight, NULL, NULL, NULL, seed};
    g->begin = calloc((size_t)n_images + 2, sizeof *g->begin);
    g->nodes = malloc((2 * (size_t)n_pairs + 1) * sizeof *g->nodes);
    g->work = malloc(((size_t)n_pairs + 1) * sizeof *g->work);
    if (!g->begin || !g->nodes || !g->work)
        return -ENOMEM;
    for (uint32_t k = 0; k < n_pairs; k++) {
        g->begin[pairs[k].i + 2]++;
        g->begin[pairs[k].j + 2]++;
        g->work[k] = (uint64_t)weight[pairs[k].i] + weight[pairs[k].j];
    }
    for (uint32_t i = 1; i <= n_images; i++)
        g->begin[i + 1] += g->begin[i];
    for (uint32_t k = 0; k < n_pairs; k++) {
        g->nodes[g->begin[pairs[k].i + 1]++] = k;
        g->nodes[g->begin[pairs[k].j + 1]++] = k;
    }
    return 0;
}

static void graph_free(struct graph *g)
{
    free(g->begin);
    free(g->nodes);
    free(g->work);
}

static void parts_free(struct parts *p)
{
    free(p->part);
    free(p->count);
    free(p->work);
    free(p->memory);
}

static int parts_create(struct parts *p, const struct graph *g, uint32_t n_parts)
{
    *p = (struct parts){.g = g, .n_parts = n_parts};
    p->part = malloc(((size_t)g->n_pairs + 1) * sizeof *p->part);
    p->count = calloc((size_t)n_parts * g->n_images + 1, sizeof *p->count);
    p->work = calloc(n_parts, sizeof *p->work);
    p->memory = calloc(n_parts, sizeof *p->memory);
    return p->part && p->count && p->work && p->memory ? 0 : -ENOMEM;
}

static void take_image(struct parts *p, uint32_t part, uint32_t image)
{
    if (p->count[(size_t)part * p->g->n_images + image]++ == 0)
        p->memory[part] += p->g->weight[image];
}

static void leave_image(struct parts *p, uint32_t part, uint32_t image)
{
    if (--p->count[(size_t)part * p->g->n_images + image] == 0)
        p->memory[part] -= p->g->weight[image];
}

static void put(struct parts *p, uint32_t k, uint32_t part)
{
    p->part[k] = part;
    p->work[part] += p->g->work[k];
    take_image(p, part, p->g->pairs[k].i);
    take_image(p, part, p->g->pairs[k].j);
}

static void move(struct parts *p, uint32_t k, uint32_t to)
{
    uint32_t from = p->part[k];
    if (from == to)
        return;
    p->work[from] -= p->g->work[k];
    leave_image(p, from, p->g->pairs[k].i);
    leave_image(p, from, p->g->pairs[k].j);
    put(p, k, to);
}

static void assign(struct parts *p, const uint32_t *part)
{
    memset(p->count, 0, (size_t)p->n_parts * p->g->n_images * sizeof *p->count);
    memset(p->work, 0, p->n_parts * sizeof *p->work);
    memset(p->memory, 0, p->n_parts * sizeof *p->memory);
    for (uint32_t k = 0; k < p->g->n_pairs; k++)
        put(p, k, part[k]);
}

static uint64_t most_memory(const struct parts *p)
{
    uint64_t most = 0;
    for (uint32_t r = 0; r < p->n_parts; r++)
        most = p->memory[r] > most ? p->memory[r] : most;
    return most;
}

static double imbalance(const struct parts *p)
{
    uint64_t most = 0, all = 0;
    for (uint32_t r = 0; r < p->n_parts; r++) {
        most = p->work[r] > most ? p->work[r] : most;
        all += p->work[r];
    }
    return all ? (double)most * p->n_parts / (double)all - 1 : 0;
}

// --- Recursive bisection ---

struct bisection {
    const struct graph *g;
    uint32_t *part;  // of each pair, as far as it is settled
    uint32_t *queue; // of the growth
    uint8_t *side, *best, *seen, *has[2];
};

// Grows side 1 from a pair, breadth first over shared images, within part `from`, to a share of its
// work. Returns the larger of the two sides' memory, each scaled by its share of the ranks.
static double grow(struct bisection *b, uint32_t from, uint32_t start, uint64_t wanted,
                   double share, uint64_t *state)
{
    const struct graph *g = b->g;
    uint32_t n_queue = 0, read = 0;
    uint64_t grown = 0;
    memset(b->seen, 0, g->n_pairs);
    memset(b->side, 0, g->n_pairs);
    b->queue[n_queue++] = start;
    b->seen[start] = 1;
    while (grown < wanted) {
        if (read == n_queue) { // the rest is not connected: anywhere in it
            uint32_t k = random_below(state, g->n_pairs);
            while (b->part[k] != from || b->seen[k])
                k = (k + 1) % g->n_pairs;
            b->seen[k] = 1;
            b->queue[n_queue++] = k;
        }
        uint32_t k = b->queue[read++];
        if (grown + g->work[k] / 2 > wanted)
            break;
        b->side[k] = 1;
        grown += g->work[k];
        const uint32_t images[2] = {g->pairs[k].i, g->pairs[k].j};
        for (int e = 0; e < 2; e++)
            for (uint32_t n = g->begin[images[e]]; n < g->begin[images[e] + 1]; n++) {
                uint32_t near = g->nodes[n];
                if (b->part[near] == from && !b->seen[near]) {
                    b->seen[near] = 1;
                    b->queue[n_queue++] = near;
                }
            }
    }
    uint64_t memory[2] = {0, 0};
    memset(b->has[0], 0, g->n_images);
    memset(b->has[1], 0, g->n_images);
    for (uint32_t k = 0; k < g->n_pairs; k++)
        if (b->part[k] == from) {
            b->has[b->side[k]][g->pairs[k].i] = 1;
            b->has[b->side[k]][g->pairs[k].j] = 1;
        }
    for (uint32_t i = 0; i < g->n_images; i++)
        for (int s = 0; s < 2; s++)
            memory[s] += b->has[s][i] ? g->weight[i] : 0;
    double a = (double)memory[0] / (1 - share), c = (double)memory[1] / share;
    return a > c ? a : c;
}

// Splits part `from` into from .. from + n_parts - 1.
static void bisect(struct bisection *b, uint32_t from, uint32_t n_parts, uint32_t n_starts,
                   uint64_t *state)
{
    const struct graph *g = b->g;
    uint32_t right = n_parts / 2, n = 0;
    uint64_t work = 0;
    for (uint32_t k = 0; k < g->n_pairs; k++)
        if (b->part[k] == from) {
            work += g->work[k];
            n++;
        }
    if (n_parts < 2 || n < 2)
        return;
    double best = INFINITY, share = (double)right / n_parts;
    for (uint32_t s = 0; s < n_starts; s++) {
        uint32_t skip = random_below(state, n), start = 0;
        for (uint32_t k = 0; k < g->n_pairs; k++)
            if (b->part[k] == from && skip-- == 0)
                start = k;
        double cost = grow(b, from, start, (uint64_t)((double)work * share), share, state);
        if (cost < best) {
            best = cost;
            memcpy(b->best, b->side, g->n_pairs);
        }
    }
    uint32_t split = from + n_parts - right;
    for (uint32_t k = 0; k < g->n_pairs; k++)
        if (b->part[k] == from && b->best[k])
            b->part[k] = split;
    bisect(b, from, n_parts - right, n_starts, state);
    bisect(b, split, right, n_starts, state);
}

static int bisect_all(const struct graph *g, uint32_t n_parts, uint32_t n_starts, uint32_t *part)
{
    size_t n = (size_t)g->n_pairs + 1;
    struct bisection b = {g,
                          part,
                          malloc(n * sizeof(uint32_t)),
                          malloc(n),
                          malloc(n),
                          malloc(n),
                          {malloc((size_t)g->n_images + 1), malloc((size_t)g->n_images + 1)}};
    bool good = b.queue && b.side && b.best && b.seen && b.has[0] && b.has[1];
    uint64_t state = g->seed;
    memset(part, 0, g->n_pairs * sizeof *part);
    if (good)
        bisect(&b, 0, n_parts, n_starts, &state);
    free(b.queue);
    free(b.side);
    free(b.best);
    free(b.seen);
    free(b.has[0]);
    free(b.has[1]);
    return good ? 0 : -ENOMEM;
}

// --- Net moves between two parts ---

struct net_move {
    int64_t gain; // the paper's g: change of the taking part's memory minus that of the giving one
    uint32_t image;
    uint32_t to;
};

// What moving all pairs of an image from part `from` to part `to` would change.
static int64_t net_gain(const struct parts *p, uint32_t image, uint32_t from, uint32_t to)
{
    const struct graph *g = p->g;
    const uint32_t *in_from = p->count + (size_t)from * g->n_images;
    const uint32_t *in_to = p->count + (size_t)to * g->n_images;
    int64_t taken = in_to[image] ? 0 : g->weight[image], left = g->weight[image];
    for (uint32_t n = g->begin[image]; n < g->begin[image + 1]; n++) {
        uint32_t k = g->nodes[n];
        if (p->part[k] != from)
            continue;
        uint32_t other = g->pairs[k].i == image ? g->pairs[k].j : g->pairs[k].i;
        taken += in_to[other] ? 0 : g->weight[other];
        left += in_from[other] == 1 ? g->weight[other] : 0;
    }
    return taken - left;
}

static void move_net(struct parts *p, uint32_t image, uint32_t from, uint32_t to)
{
    for (uint32_t n = p->g->begin[image]; n < p->g->begin[image + 1]; n++)
        if (p->part[p->g->nodes[n]] == from)
            move(p, p->g->nodes[n], to);
}

// One pass between parts a and b: boundary nets move one by one, from the side with more work,
// least gain first, each once; the best state on the way is kept when it is better and balanced.
static bool refine_pass(struct parts *p, uint32_t a, uint32_t b, double limit, uint32_t *best,
                        bool *moved)
{
    const struct graph *g = p->g;
    uint64_t start = p->memory[a] > p->memory[b] ? p->memory[a] : p->memory[b], least = start;
    double average = 0.5 * (double)(p->work[a] + p->work[b]);
    uint32_t *original = best + g->n_pairs;
    memcpy(best, p->part, g->n_pairs * sizeof *best);
    memcpy(original, p->part, g->n_pairs * sizeof *best);
    memset(moved, 0, g->n_images * sizeof *moved);
    for (;;) {
        uint32_t from = p->work[a] >= p->work[b] ? a : b, to = from == a ? b : a;
        struct net_move next = {INT64_MAX, UINT32_MAX, to};
        for (uint32_t i = 0; i < g->n_images; i++) {
            bool border =
                p->count[(size_t)a * g->n_images + i] && p->count[(size_t)b * g->n_images + i];
            if (!border || moved[i])
                continue;
            int64_t gain = net_gain(p, i, from, to);
            if (gain < next.gain)
                next = (struct net_move){gain, i, to};
        }
        if (next.image == UINT32_MAX)
            break;
        move_net(p, next.image, from, to);
        moved[next.image] = true;
        uint64_t largest = p->memory[a] > p->memory[b] ? p->memory[a] : p->memory[b];
        double work = (double)(p->work[a] > p->work[b] ? p->work[a] : p->work[b]);
        if (largest < least && work <= average * (1 + limit)) {
            least = largest;
            memcpy(best, p->part, g->n_pairs * sizeof *best);
        }
    }
    assign(p, least < start ? best : original);
    return least < start;
}

// The part of most memory against every other one, until nothing is gained.
static int refine_nets(struct parts *p, double limit)
{
    uint32_t *best = malloc(2 * ((size_t)p->g->n_pairs + 1) * sizeof *best);
    bool *moved = malloc((size_t)p->g->n_images + 1);
    int rc = best && moved ? 0 : -ENOMEM;
    for (uint32_t round = 0; rc == 0 && round < 4 * p->n_parts; round++) {
        uint32_t largest = 0;
        bool gained = false;
        for (uint32_t r = 1; r < p->n_parts; r++)
            largest = p->memory[r] > p->memory[largest] ? r : largest;
        for (uint32_t r = 0; r < p->n_parts; r++)
            if (r != largest)
                gained = refine_pass(p, largest, r, limit, best, moved) || gained;
        if (!gained)
            break;
    }
    free(best);
    free(moved);
    return rc;
}

// --- Single moves and exchanges ---

// Smooth maximum of the memory, and what the work is beyond the limit: the energy that falls.
#define MEMORY_POWER 10.0
#define WORK_FACTOR  400.0

struct cooling {
    double memory_unit, work_unit, limit;
};

static double energy_of(const struct cooling *c, uint64_t memory, uint64_t work)
{
    double over = (double)work / c->work_unit - (1 + c->limit);
    return pow((double)memory / c->memory_unit, MEMORY_POWER) + (over > 0 ? WORK_FACTOR * over : 0);
}

static double energy_of_two(const struct cooling *c, const struct parts *p, uint32_t a, uint32_t b)
{
    return energy_of(c, p->memory[a], p->work[a]) + energy_of(c, p->memory[b], p->work[b]);
}

static int cool(struct parts *p, const struct partition_settings *settings)
{
    const struct graph *g = p->g;
    uint32_t *best = malloc(((size_t)g->n_pairs + 1) * sizeof *best);
    if (!best)
        return -ENOMEM;
    uint64_t state = settings->seed ^ 0x5bd1e995u, all = 0, least = UINT64_MAX;
    for (uint32_t r = 0; r < p->n_parts; r++)
        all += p->work[r];
    // A little below the limit, so that rounding does not decide.
    struct cooling c = {(double)most_memory(p), (double)all / p->n_parts,
                        settings->max_imbalance * 0.98};
    double least_imbalance = INFINITY;
    uint64_t n_moves = (uint64_t)settings->n_moves * g->n_pairs;
    n_moves = n_moves > 4000000 ? 4000000 : n_moves;
    memcpy(best, p->part, g->n_pairs * sizeof *best);
    for (uint64_t it = 0; it < n_moves; it++) {
        double temperature = 0.3 * pow(1e-4, (double)it / (double)n_moves);
        uint32_t k = random_below(&state, g->n_pairs), a = p->part[k], b, other = UINT32_MAX;
        uint64_t how = next_random(&state);
        if (how & 1) { // to a part that has one of its images already
            uint32_t image = how & 2 ? g->pairs[k].i : g->pairs[k].j;
            uint32_t n = g->begin[image + 1] - g->begin[image];
            b = p->part[g->nodes[g->begin[image] + random_below(&state, n)]];
        } else {
            b = random_below(&state, p->n_parts);
        }
        if (a == b)
            continue;
        if (how & 4) { // an exchange keeps the work
            other = random_below(&state, g->n_pairs);
            for (uint32_t tries = 0; tries < 64 && p->part[other] != b; tries++)
                other = random_below(&state, g->n_pairs);
            if (p->part[other] != b)
                other = UINT32_MAX;
        }
        double before = energy_of_two(&c, p, a, b);
        move(p, k, b);
        if (other != UINT32_MAX)
            move(p, other, a);
        double worse = energy_of_two(&c, p, a, b) - before;
        double chance = (double)(next_random(&state) >> 11) * 0x1p-53;
        if (worse > 0 && chance >= exp(-worse / temperature)) {
            move(p, k, a);
            if (other != UINT32_MAX)
                move(p, other, b);
            continue;
        }
        if (worse == 0)
            continue;
        uint64_t most = most_memory(p);
        double uneven = imbalance(p);
        bool even = uneven <= settings->max_imbalance;
        bool better = even ? least_imbalance > settings->max_imbalance || most < least
                           : uneven < least_imbalance;
        if (better) {
            least = even ? most : UINT64_MAX;
            least_imbalance = uneven;
            memcpy(best, p->part, g->n_pairs * sizeof *best);
        }
    }
    // What it began with was better: kept.
    assign(p, best);
    free(best);
    return 0;
}

static void measure(const struct parts *p, struct partition_result *out)
{
    const struct graph *g = p->g;
    *out = (struct partition_result){.imbalance = imbalance(p), .largest_weight = most_memory(p)};
    for (uint32_t i = 0; i < g->n_images; i++)
        out->all_weight += g->begin[i + 1] > g->begin[i] ? g->weight[i] : 0;
    for (uint32_t r = 0; r < p->n_parts; r++) {
        out->sum_weight += p->memory[r];
        out->n_idle += p->work[r] == 0;
    }
}

int partition_measure(const struct align_pair *pairs, uint32_t n_pairs,
                      const uint32_t *image_weight, uint32_t n_images, uint32_t n_parts,
                      const uint32_t *part, struct partition_result *out)
{
    struct graph g;
    struct parts p = {.g = NULL};
    int rc = graph_create(&g, pairs, n_pairs, image_weight, n_images, 0);
    if (rc == 0)
        rc = parts_create(&p, &g, n_parts);
    if (rc == 0) {
        assign(&p, part);
        measure(&p, out);
    }
    parts_free(&p);
    graph_free(&g);
    return rc;
}

int partition_pairs(const struct align_pair *pairs, uint32_t n_pairs, const uint32_t *image_weight,
                    uint32_t n_images, const struct partition_settings *settings,
                    uint32_t *out_part, struct partition_result *out)
{
    struct graph g;
    struct parts p = {.g = NULL};
    uint32_t n_parts = settings->n_parts ? settings->n_parts : 1;
    int rc = graph_create(&g, pairs, n_pairs, image_weight, n_images, settings->seed);
    if (rc == 0)
        rc = parts_create(&p, &g, n_parts);
    if (rc == 0)
        rc = bisect_all(&g, n_parts, settings->n_starts, out_part);
    if (rc < 0)
        goto free_parts;
    assign(&p, out_part);
    if (n_parts > 1 && n_pairs > 1) {
        rc = refine_nets(&p, settings->max_imbalance);
        uint64_t paper = most_memory(&p);
        if (rc == 0 && settings->n_moves > 0)
            rc = cool(&p, settings);
        if (rc < 0)
            goto free_parts;
        memcpy(out_part, p.part, n_pairs * sizeof *out_part);
        measure(&p, out);
        out->paper_largest_weight = paper;
    } else {
        measure(&p, out);
        out->paper_largest_weight = out->largest_weight;
    }
free_parts:
    parts_free(&p);
    graph_free(&g);
    return rc;
}
