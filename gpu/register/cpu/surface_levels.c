// SPDX-License-Identifier: Apache-2.0
#include "gpu/register/cpu/surface_levels.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "gpu/base/parallel.h"
#include "gpu/register/kernels/plane.h"

#define CHUNK 16384u // points that go to a thread at once while their cells are found
#define PIECE 512u   // and while their normals are

struct filling {
    struct register_cpu_surfaces *surfaces;
    const struct register_surface_load *loads;
    uint32_t n_levels, n_chunks[2];
    struct register_surface (*info)[REGISTER_MOST_LEVELS];
    int rc[2];
    uint32_t (*bins)[REGISTER_NOISE_BINS]; // by piece of a level
};

static int reserve(void *memory_pointer, size_t *room, size_t n, size_t size)
{
    void **memory = memory_pointer;
    if (n <= *room)
        return 0;
    free(*memory);
    *room = 0;
    *memory = malloc(n * size);
    if (!*memory)
        return -ENOMEM;
    *room = n;
    return 0;
}

static CPU_CLONES void find_cells(const struct register_cells *cells,
                                  const struct register_surface_load *load, size_t begin,
                                  size_t end, uint32_t *out)
{
    const struct point_set *points = &load->points;
    for (size_t i = begin; i < end; i++) {
        uint32_t fraction[3] = {0, 0, 0};
        const float p[3] = {(float)((double)points->x_m[i] - load->origin_m[0]),
                            (float)((double)points->y_m[i] - load->origin_m[1]),
                            (float)((double)points->z_m[i] - load->origin_m[2])};
        out[i] = register_cells_find(cells, p, fraction);
    }
}

static void find_chunk(void *user, uint32_t item, uint32_t thread)
{
    (void)thread;
    const struct filling *f = user;
    const uint32_t side = item < f->n_chunks[0] ? 0 : 1;
    const size_t begin = (size_t)(side ? item - f->n_chunks[0] : item) * CHUNK;
    const size_t n = f->loads[side].points.n_points;
    find_cells(&f->info[side][0].cells, &f->loads[side], begin,
               begin + CHUNK < n ? begin + CHUNK : n, f->surfaces->cell_of[side]);
}

// Cells without their masks, which are zeroed.
static int begin_level(struct register_cpu_level *level, const struct register_cells *cells)
{
    const uint32_t n_blocks = register_cells_count(cells);
    if (n_blocks > level->room_blocks) {
        free(level->cells.mask);
        free(level->cells.first);
        level->room_blocks = 0;
        level->cells.mask = malloc(n_blocks * sizeof(uint64_t));
        level->cells.first = malloc(n_blocks * sizeof(uint32_t));
        if (!level->cells.mask || !level->cells.first)
            return -ENOMEM;
        level->room_blocks = n_blocks;
    }
    struct register_cells out = *cells;
    out.mask = level->cells.mask;
    out.first = level->cells.first;
    level->cells = out;
    memset(out.mask, 0, n_blocks * sizeof(uint64_t));
    return 0;
}

// Once the bits are set: where each block's points begin, and room for them.
static int count_points(struct register_cpu_surfaces *surfaces, uint32_t side,
                        struct register_cpu_level *level)
{
    const struct register_cells *cells = &level->cells;
    level->n = 0;
    for (uint32_t b = 0; b < register_cells_count(cells); b++) {
        cells->first[b] = level->n;
        level->n += register_cells_bits(cells->mask[b]);
    }
    if (level->n > level->room_points) {
        free(level->points);
        free(level->normals);
        level->room_points = 0;
        level->points = malloc(level->n * sizeof *level->points);
        level->normals = malloc(level->n * sizeof *level->normals);
        if (!level->points || !level->normals)
            return -ENOMEM;
        level->room_points = level->n;
    }
    int rc = reserve(&surfaces->sums[side], &surfaces->room_sums[side], 4 * (size_t)level->n + 1,
                     sizeof(uint64_t));
    if (rc == 0)
        memset(surfaces->sums[side], 0, 4 * (size_t)level->n * sizeof(uint64_t));
    return rc;
}

static void add(uint64_t *sums, const uint32_t fraction[3], uint64_t weight)
{
    sums[0] += weight * fraction[0];
    sums[1] += weight * fraction[1];
    sums[2] += weight * fraction[2];
    sums[3] += weight;
}

// Sums to points, in the order of the cells.
static void take_means(struct register_cpu_level *level, const uint64_t *sums)
{
    const struct register_cells *cells = &level->cells;
    uint32_t i = 0;
    for (int32_t z = 0; z < cells->n_blocks[2]; z++)
        for (int32_t y = 0; y < cells->n_blocks[1]; y++)
            for (int32_t x = 0; x < cells->n_blocks[0]; x++) {
                const int32_t b = (z * cells->n_blocks[1] + y) * cells->n_blocks[0] + x;
                for (uint64_t left = cells->mask[b]; left; left &= left - 1, i++) {
                    const int32_t bit = (int32_t)register_cells_lowest(left);
                    const uint64_t *s = sums + 4 * (size_t)i;
                    const uint32_t n = (uint32_t)s[3];
                    level->points[i] = (struct register_cell_point){
                        register_cells_mean(cells, 0, 4 * x + (bit & 3), s[0], n),
                        register_cells_mean(cells, 1, 4 * y + (bit >> 2 & 3), s[1], n),
                        register_cells_mean(cells, 2, 4 * z + (bit >> 4), s[2], n), (float)n};
                }
            }
}

static CPU_CLONES int fill_first(struct filling *f, uint32_t side)
{
    struct register_cpu_level *level = &f->surfaces->level[side][0];
    const struct register_surface_load *load = &f->loads[side];
    const uint32_t *cell_of = f->surfaces->cell_of[side];
    const size_t n = load->points.n_points;
    for (size_t i = 0; i < n; i++)
        if (cell_of[i] != REGISTER_CELLS_NONE)
            level->cells.mask[cell_of[i] >> 6] |= (uint64_t)1 << (cell_of[i] & 63);
    int rc = count_points(f->surfaces, side, level);
    if (rc < 0)
        return rc;
    uint64_t *sums = f->surfaces->sums[side];
    for (size_t i = 0; i < n; i++) {
        if (cell_of[i] == REGISTER_CELLS_NONE)
            continue;
        uint32_t fraction[3] = {0, 0, 0};
        const float p[3] = {(float)((double)load->points.x_m[i] - load->origin_m[0]),
                            (float)((double)load->points.y_m[i] - load->origin_m[1]),
                            (float)((double)load->points.z_m[i] - load->origin_m[2])};
        (void)register_cells_find(&level->cells, p, fraction);
        add(sums + 4 * (size_t)register_cells_index(&level->cells, cell_of[i]), fraction, 1);
    }
    take_means(level, sums);
    return 0;
}

// A coarser level from the points of the finer one.
static int fill_coarser(struct filling *f, uint32_t side, uint32_t l)
{
    const struct register_cpu_level *finer = &f->surfaces->level[side][l - 1];
    struct register_cpu_level *level = &f->surfaces->level[side][l];
    uint32_t fraction[3] = {0, 0, 0};
    for (uint32_t i = 0; i < finer->n; i++) {
        const float p[3] = {finer->points[i].x, finer->points[i].y, finer->points[i].z};
        const uint32_t cell = register_cells_find(&level->cells, p, fraction);
        if (cell != REGISTER_CELLS_NONE)
            level->cells.mask[cell >> 6] |= (uint64_t)1 << (cell & 63);
    }
    int rc = count_points(f->surfaces, side, level);
    if (rc < 0)
        return rc;
    for (uint32_t i = 0; i < finer->n; i++) {
        const float p[3] = {finer->points[i].x, finer->points[i].y, finer->points[i].z};
        const uint32_t cell = register_cells_find(&level->cells, p, fraction);
        if (cell != REGISTER_CELLS_NONE)
            add(f->surfaces->sums[side] + 4 * (size_t)register_cells_index(&level->cells, cell),
                fraction, (uint64_t)finer->points[i].weight);
    }
    take_means(level, f->surfaces->sums[side]);
    return 0;
}

static void fill_side(void *user, uint32_t side, uint32_t thread)
{
    (void)thread;
    struct filling *f = user;
    int rc = 0;
    for (uint32_t l = 0; rc == 0 && l < f->n_levels; l++) {
        rc = begin_level(&f->surfaces->level[side][l], &f->info[side][l].cells);
        if (rc == 0)
            rc = l == 0 ? fill_first(f, side) : fill_coarser(f, side, l);
    }
    f->rc[side] = rc;
}

// Pieces of all levels of both sides stand one after another.
static uint32_t n_pieces(const struct register_cpu_level *level)
{
    return (level->n + PIECE - 1) / PIECE;
}

static CPU_CLONES void fit_piece(void *user, uint32_t item, uint32_t thread)
{
    (void)thread;
    struct filling *f = user;
    uint32_t piece = item, side = 0, l = 0;
    while (piece >= n_pieces(&f->surfaces->level[side][l])) {
        piece -= n_pieces(&f->surfaces->level[side][l]);
        if (++l == f->n_levels) {
            l = 0;
            side++;
        }
    }
    struct register_cpu_level *level = &f->surfaces->level[side][l];
    uint32_t *bins = f->bins[item], end = (piece + 1) * PIECE;
    memset(bins, 0, sizeof f->bins[item]);
    for (uint32_t i = piece * PIECE; i < end && i < level->n; i++)
        if (register_plane_around(&level->cells, level->points, i, &level->normals[i]))
            bins[register_noise_bin(&level->cells, level->normals[i].weight)]++;
}

static int fit_planes(struct filling *f, struct pool *pool)
{
    uint32_t n_items = 0, item = 0;
    for (uint32_t side = 0; side < 2; side++)
        for (uint32_t l = 0; l < f->n_levels; l++)
            n_items += n_pieces(&f->surfaces->level[side][l]);
    f->bins = malloc((n_items + 1) * sizeof *f->bins);
    if (!f->bins)
        return -ENOMEM;
    parallel_for(pool, n_items, fit_piece, f);
    for (uint32_t side = 0; side < 2; side++)
        for (uint32_t l = 0; l < f->n_levels; l++) {
            const struct register_cpu_level *level = &f->surfaces->level[side][l];
            uint32_t bins[REGISTER_NOISE_BINS] = {0}, planar = 0;
            for (uint32_t k = 0; k < n_pieces(level); k++, item++)
                for (uint32_t b = 0; b < REGISTER_NOISE_BINS; b++)
                    bins[b] += f->bins[item][b];
            for (uint32_t b = 0; b < REGISTER_NOISE_BINS; b++)
                planar += bins[b];
            struct register_surface *info = &f->info[side][l];
            info->n = level->n;
            info->noise_m = register_noise_of(&info->cells, bins);
            info->planar = level->n ? (double)planar / level->n : 0;
        }
    free(f->bins);
    return 0;
}

int register_cpu_surfaces_fill(struct register_cpu_surfaces *surfaces, struct pool *pool,
                               const struct register_surface_load loads[2], uint32_t n_levels,
                               struct register_surface info[2][REGISTER_MOST_LEVELS])
{
    struct filling f = {.surfaces = surfaces, .loads = loads, .n_levels = n_levels, .info = info};
    for (int side = 0; side < 2; side++) {
        const size_t n = loads[side].points.n_points;
        f.n_chunks[side] = (uint32_t)((n + CHUNK - 1) / CHUNK);
        int rc =
            reserve(&surfaces->cell_of[side], &surfaces->room_cells[side], n, sizeof(uint32_t));
        if (rc < 0)
            return rc;
    }
    parallel_for(pool, f.n_chunks[0] + f.n_chunks[1], find_chunk, &f);
    parallel_for(pool, 2, fill_side, &f);
    for (int side = 0; side < 2; side++)
        if (f.rc[side] < 0)
            return f.rc[side];
    return fit_planes(&f, pool);
}

void register_cpu_surfaces_free(struct register_cpu_surfaces *surfaces)
{
    for (int side = 0; side < 2; side++) {
        for (uint32_t l = 0; l < REGISTER_MOST_LEVELS; l++) {
            struct register_cpu_level *level = &surfaces->level[side][l];
            free(level->cells.mask);
            free(level->cells.first);
            free(level->points);
            free(level->normals);
        }
        free(surfaces->cell_of[side]);
        free(surfaces->sums[side]);
    }
    memset(surfaces, 0, sizeof *surfaces);
}
