// SPDX-License-Identifier: Apache-2.0
// Any blocks as a fused map: its surface has vertices that are numbers, triangles of vertices that
// are there, and as a file it is read back with as many points. The input is: the weight wanted,
// then blocks, each a place (3 bytes) and a seed of its voxels (2 bytes each of 32, repeated).
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "capture/cloud/cloud.h"
#include "gpu/model/surface_nets.h"

#define MAX_BLOCKS  8
#define N_SEEDS     32
#define BLOCK_BYTES (3 + 4 * N_SEEDS)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int by_place(const void *left, const void *right)
{
    const struct model_block *a = left, *b = right;
    if (a->z != b->z)
        return a->z < b->z ? -1 : 1;
    if (a->y != b->y)
        return a->y < b->y ? -1 : 1;
    return a->x < b->x ? -1 : a->x > b->x;
}

// Ordered as model_order does, each place once.
static uint32_t read_blocks(const uint8_t *data, size_t size, struct model_block *out)
{
    uint32_t n = 0, n_unique = 0;
    for (; n < MAX_BLOCKS && size >= BLOCK_BYTES; n++, data += BLOCK_BYTES, size -= BLOCK_BYTES) {
        out[n].x = (int8_t)data[0] % 3;
        out[n].y = (int8_t)data[1] % 3;
        out[n].z = data[2] == 255 ? INT32_MAX : (int8_t)data[2] % 3;
        for (size_t i = 0; i < MODEL_BLOCK_VOXELS; i++) {
            const uint8_t *seed = data + 3 + 4 * (i * (i / N_SEEDS + 1) % N_SEEDS);
            out[n].distance[i] = (int16_t)(seed[0] | seed[1] << 8);
            out[n].weight[i] = (uint16_t)(seed[2] | seed[3] << 8);
        }
    }
    qsort(out, n, sizeof *out, by_place);
    for (uint32_t i = 0; i < n; i++)
        if (n_unique == 0 || by_place(&out[n_unique - 1], &out[i]) != 0)
            out[n_unique++] = out[i];
    return n_unique;
}

static void check_file(const struct model_surface *s)
{
    static char path[64];
    const struct log_sink silent = {0};
    struct cloud back;
    if (!path[0])
        snprintf(path, sizeof path, "/tmp/posed-fuzz-surface-%d.ply", (int)getpid());
    const struct point_set points = {s->x_m, s->y_m, s->z_m, s->nx, s->ny, s->nz, s->n_points};
    unlink(path);
    if (cloud_write_mesh(path, &points, s->triangles, s->n_triangles, &silent) != 0 ||
        cloud_read(path, &silent, &back) != 0 || back.n_points != s->n_points)
        abort();
    cloud_free(&back);
    unlink(path);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct model_block blocks[MAX_BLOCKS];
    struct model_surface surface;
    if (size < 1)
        return 0;
    uint32_t n = read_blocks(data + 1, size - 1, blocks);
    if (model_surface_create(blocks, n, 0.01f, (uint16_t)(1 + data[0]), &surface) != 0)
        abort();
    for (size_t i = 0; i < surface.n_points; i++)
        if (!isfinite(surface.x_m[i] + surface.y_m[i] + surface.z_m[i]) ||
            !isfinite(surface.nx[i] + surface.ny[i] + surface.nz[i]))
            abort();
    for (size_t i = 0; i < 3 * surface.n_triangles; i++)
        if (surface.triangles[i] >= surface.n_points)
            abort();
    if (surface.n_points)
        check_file(&surface);
    model_surface_free(&surface);
    return 0;
}
