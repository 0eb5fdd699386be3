// SPDX-License-Identifier: Apache-2.0
// The CPU twin: tasks are cut into chunks of vertices, threads take chunks, and the chunks' sums
// are added up in their order: the same bits from any number of threads.
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gpu/align/cpu/block.h"
#include "gpu/align/ops.h"
#include "gpu/base/parallel.h"

#define CHUNK_VERTICES 8192

struct align_cpu {
    const struct align_ops *ops;
    struct pool *pool;
    block_sum_fn *block;
    char description[64];
    const struct align_image **images;
    uint32_t n_slots;

    // Of the call under way.
    const struct align_task *tasks;
    uint32_t level;
    struct cpu_chunk *chunks;
    double *sums; // PAIR_N_SUMS a chunk
    uint32_t chunk_capacity;
};

struct cpu_chunk {
    uint32_t task, first, n;
};

static void sum_chunk(void *user, uint32_t item, uint32_t thread)
{
    (void)thread;
    struct align_cpu *cpu = user;
    struct cpu_chunk chunk = cpu->chunks[item];
    const struct align_task *task = &cpu->tasks[chunk.task];
    double *sums = cpu->sums + (size_t)item * PAIR_N_SUMS;
    memset(sums, 0, PAIR_N_SUMS * sizeof *sums);
    for (uint32_t at = 0; at < chunk.n; at += BLOCK_VERTICES) {
        uint32_t n = chunk.n - at < BLOCK_VERTICES ? chunk.n - at : BLOCK_VERTICES;
        cpu->block(cpu->images[task->source], cpu->images[task->target], &task->T_target_source,
                   &task->gates, chunk.first + at, n, sums);
    }
}

static uint32_t n_chunks_of(uint32_t n_vertices)
{
    return (n_vertices + CHUNK_VERTICES - 1) / CHUNK_VERTICES;
}

static int make_chunks(struct align_cpu *cpu, uint32_t n_tasks, uint32_t *out_n)
{
    uint32_t n = 0;
    for (uint32_t t = 0; t < n_tasks; t++)
        n += n_chunks_of(cpu->images[cpu->tasks[t].source]->n_level[cpu->level]);
    *out_n = n;
    if (n > cpu->chunk_capacity) {
        free(cpu->chunks);
        free(cpu->sums);
        cpu->chunks = malloc(n * sizeof *cpu->chunks);
        cpu->sums = malloc((size_t)n * PAIR_N_SUMS * sizeof *cpu->sums);
        cpu->chunk_capacity = cpu->chunks && cpu->sums ? n : 0;
        if (!cpu->chunk_capacity)
            return -ENOMEM;
    }
    n = 0;
    for (uint32_t t = 0; t < n_tasks; t++) {
        uint32_t n_vertices = cpu->images[cpu->tasks[t].source]->n_level[cpu->level];
        for (uint32_t at = 0; at < n_vertices; at += CHUNK_VERTICES)
            cpu->chunks[n++] = (struct cpu_chunk){
                t, at, n_vertices - at < CHUNK_VERTICES ? n_vertices - at : CHUNK_VERTICES};
    }
    return 0;
}

static int cpu_sum(struct align_device *device, const struct align_task *tasks, uint32_t n_tasks,
                   uint32_t level, double *out_sums)
{
    struct align_cpu *cpu = (struct align_cpu *)(void *)device;
    uint32_t n_chunks;
    cpu->tasks = tasks;
    cpu->level = level;
    int rc = make_chunks(cpu, n_tasks, &n_chunks);
    if (rc < 0)
        return rc;
    parallel_for(cpu->pool, n_chunks, sum_chunk, cpu);
    memset(out_sums, 0, (size_t)n_tasks * PAIR_N_SUMS * sizeof *out_sums);
    for (uint32_t c = 0; c < n_chunks; c++)
        for (uint32_t i = 0; i < PAIR_N_SUMS; i++)
            out_sums[(size_t)cpu->chunks[c].task * PAIR_N_SUMS + i] +=
                cpu->sums[(size_t)c * PAIR_N_SUMS + i];
    return 0;
}

static int cpu_load(struct align_device *device, uint32_t slot, const struct align_image *image)
{
    struct align_cpu *cpu = (struct align_cpu *)(void *)device;
    cpu->images[slot] = image;
    return 0;
}

static size_t cpu_bytes(const struct align_device *device)
{
    const struct align_cpu *cpu = (const struct align_cpu *)(const void *)device;
    size_t bytes = 0;
    for (uint32_t i = 0; i < cpu->n_slots; i++)
        bytes += cpu->images[i] ? cpu->images[i]->n_bytes : 0;
    return bytes;
}

static const char *cpu_description(const struct align_device *device)
{
    return ((const struct align_cpu *)(const void *)device)->description;
}

static void cpu_close(struct align_device *device)
{
    struct align_cpu *cpu = (struct align_cpu *)(void *)device;
    pool_destroy(&cpu->pool);
    free(cpu->images);
    free(cpu->chunks);
    free(cpu->sums);
    free(cpu);
}

static const struct align_ops cpu_ops = {"cpu",   cpu_close, cpu_load,
                                         cpu_sum, cpu_bytes, cpu_description};

static block_sum_fn *choose(const char **out_name)
{
#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq")) {
        *out_name = "AVX-512";
        return align_block_avx512;
    }
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) {
        *out_name = "AVX2";
        return align_block_avx2;
    }
#endif
    *out_name = "baseline";
    return align_block_baseline;
}

int align_cpu_open(struct align_device **out, const struct align_device_settings *settings)
{
    struct align_cpu *cpu = calloc(1, sizeof *cpu);
    const char *name;
    *out = NULL;
    if (!cpu)
        goto no_memory;
    cpu->ops = &cpu_ops;
    cpu->block = choose(&name);
    cpu->n_slots = settings->n_slots;
    cpu->images = calloc(settings->n_slots ? settings->n_slots : 1, sizeof *cpu->images);
    if (!cpu->images || pool_create(&cpu->pool, settings->n_threads) < 0)
        goto close;
    snprintf(cpu->description, sizeof cpu->description, "cpu: %u threads, %s",
             pool_n_threads(cpu->pool), name);
    *out = (struct align_device *)(void *)cpu;
    return 0;
close:
    cpu_close((struct align_device *)(void *)cpu);
no_memory:
    log_to(&settings->log, LOG_LEVEL_ERROR, "no memory for the pairs' device");
    return -ENOMEM;
}
