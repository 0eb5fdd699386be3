// SPDX-License-Identifier: Apache-2.0
// An object as a file: a header, the arrays one after the other as they lie in memory (the file is
// a cache beside the mesh, not a format to exchange: another machine's byte order or another
// version is simply "damaged" and the object is built again), a checksum over all of it.
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "gpu/search/object/build.h"

#define FILE_VERSION 3

struct file_header {
    char magic[8];
    uint32_t version;
    uint32_t layout;   // sizes of the structs below, mixed: another build's differ
    uint64_t checksum; // of everything behind this field
    uint64_t n_bytes;  // of the whole file
    uint32_t n_vertices, n_triangles, n_views, n_chunks;
    struct search_object_info info;
    struct search_near_symmetries near_symmetries;
};

#define HASHED_FROM (offsetof(struct file_header, checksum) + sizeof(uint64_t))

static const char magic[8] = {'p', 'o', 's', 'e', 'd', 'o', 'b', 'j'};

static uint32_t layout(void)
{
    return (uint32_t)(sizeof(struct search_view) * 1000003 + sizeof(struct search_coarse) * 10007 +
                      sizeof(struct search_point) * 101 + sizeof(struct file_header)) ^
           (SEARCH_POINTS << 20 | SEARCH_RING_POINTS << 8 | SEARCH_CHUNK);
}

// FNV-1a over 64-bit words; the tail bytewise.
static uint64_t mix(uint64_t hash, const void *data, size_t n)
{
    const unsigned char *p = data;
    for (; n >= 8; n -= 8, p += 8) {
        uint64_t word;
        memcpy(&word, p, 8);
        hash = (hash ^ word) * 0x100000001b3u;
        hash ^= hash >> 29;
    }
    for (; n > 0; n--, p++)
        hash = (hash ^ *p) * 0x100000001b3u;
    return hash;
}

struct part {
    void **data;
    size_t n_bytes;
};

enum { N_PARTS = 11 };

// The arrays of an object with these counts, in the file's order.
static void list_parts(struct search_object *o, const struct file_header *h,
                       struct part out[N_PARTS])
{
    size_t n_points = (size_t)h->n_views * (SEARCH_POINTS + SEARCH_RING_POINTS);
    const struct part parts[N_PARTS] = {
        {(void **)&o->x, h->n_vertices * sizeof *o->x},
        {(void **)&o->y, h->n_vertices * sizeof *o->y},
        {(void **)&o->z, h->n_vertices * sizeof *o->z},
        {(void **)&o->triangles, 3 * (size_t)h->n_triangles * sizeof *o->triangles},
        {(void **)&o->views, h->n_views * sizeof *o->views},
        {(void **)&o->chunk_offset, h->n_chunks * sizeof *o->chunk_offset},
        {(void **)&o->chunk_pairs, (size_t)h->n_chunks * SEARCH_CHUNK * sizeof *o->chunk_pairs},
        {(void **)&o->coarse, h->n_views * sizeof *o->coarse},
        {(void **)&o->points, n_points * sizeof *o->points},
        {(void **)&o->n_points, h->n_views * sizeof *o->n_points},
        {(void **)&o->n_ring, h->n_views * sizeof *o->n_ring},
    };
    memcpy(out, parts, sizeof parts);
}

static uint64_t checksum(const struct file_header *h, const struct part *parts)
{
    uint64_t hash =
        mix(0xcbf29ce484222325u, (const char *)h + HASHED_FROM, sizeof *h - HASHED_FROM);
    for (int i = 0; i < N_PARTS; i++)
        hash = mix(hash, *parts[i].data, parts[i].n_bytes);
    return hash;
}

int search_object_save(const struct search_object *object, const char *path,
                       const struct log_sink *log)
{
    struct file_header header;
    memset(&header, 0, sizeof header); // padding is hashed, too
    memcpy(header.magic, magic, sizeof magic);
    header.version = FILE_VERSION;
    header.layout = layout();
    header.n_vertices = object->n_vertices;
    header.n_triangles = object->n_triangles;
    header.n_views = object->n_views;
    header.n_chunks = object->n_chunks;
    memcpy(&header.info, &object->info, sizeof header.info);
    memcpy(&header.near_symmetries, &object->near_symmetries, sizeof header.near_symmetries);
    struct part parts[N_PARTS];
    struct search_object copy = *object; // list_parts hands out pointers to change
    list_parts(&copy, &header, parts);
    header.n_bytes = sizeof header;
    for (int i = 0; i < N_PARTS; i++)
        header.n_bytes += parts[i].n_bytes;
    header.checksum = checksum(&header, parts);

    char beside[4096];
    if (snprintf(beside, sizeof beside, "%s.part", path) >= (int)sizeof beside)
        return -ENAMETOOLONG;
    FILE *file = fopen(beside, "wb");
    int err = file ? 0 : -errno;
    if (file) {
        errno = 0;
        bool good = fwrite(&header, sizeof header, 1, file) == 1;
        for (int i = 0; i < N_PARTS && good; i++)
            good = parts[i].n_bytes == 0 || fwrite(*parts[i].data, parts[i].n_bytes, 1, file) == 1;
        err = good ? 0 : errno ? -errno : -EIO;
        if (fclose(file) != 0 && !err)
            err = -errno;
        if (!err && rename(beside, path) != 0)
            err = -errno;
        if (err)
            unlink(beside);
    }
    if (err)
        log_to(log, LOG_LEVEL_ERROR, "%s: cannot write: %s", path, strerror(-err));
    return err;
}

static uint32_t count_foreground(const uint32_t *pairs, size_t n)
{
    uint32_t n_foreground = 0;
    for (size_t i = 0; i < n; i++)
        n_foreground += search_pair_edt(pairs[i]) >= 0;
    return n_foreground;
}

// No larger than a largest value, and no NaN.
static bool all_within(float most, const float *values, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (!(fabsf(values[i]) <= most))
            return false;
    return true;
}

// A file with the right checksum was written by this program; still, no index is followed unseen.
static bool indices_hold(const struct search_object *o)
{
    for (size_t i = 0; i < 3 * (size_t)o->n_triangles; i++)
        if (o->triangles[i] >= o->n_vertices)
            return false;
    const uint32_t last = (SEARCH_MAP_PX - 1) * (SEARCH_WINDOW_PX + 1);
    for (uint32_t i = 0; i < o->n_chunks; i++)
        if (o->chunk_offset[i] > last)
            return false;
    uint32_t next = 0;
    for (uint32_t i = 0; i < o->n_views; i++) {
        const struct search_view *view = &o->views[i];
        const struct search_coarse *coarse = &o->coarse[i];
        if (view->first_chunk != next || view->n_chunks > o->n_chunks - next ||
            !all_within(1.001f, view->rotation, 9) ||
            view->n_cover > SEARCH_MAP_PX * SEARCH_MAP_PX ||
            view->n_cover != count_foreground(o->chunk_pairs + (size_t)next * SEARCH_CHUNK,
                                              (size_t)view->n_chunks * SEARCH_CHUNK) ||
            o->n_points[i] > SEARCH_POINTS || o->n_ring[i] > SEARCH_RING_POINTS ||
            coarse->n_anchors > SEARCH_ANCHORS || coarse->row_end > SEARCH_COARSE_CELLS)
            return false;
        for (int k = 0; k < coarse->n_anchors; k++)
            if (coarse->anchor_u[k] >= SEARCH_COARSE_CELLS ||
                coarse->anchor_v[k] >= SEARCH_COARSE_CELLS)
                return false;
        next += view->n_chunks;
    }
    return next == o->n_chunks;
}

// The same for what the object says of itself.
static bool info_holds(const struct search_object *o)
{
    const struct search_object_info *info = &o->info;
    const float lengths[] = {info->radius_m, info->map_px_m, info->mean_pixels, info->spacing_rad};
    for (int i = 0; i < 4; i++)
        if (!isfinite(lengths[i]) || lengths[i] < 0)
            return false;
    // Maps hold the whole object: their pixels have its size.
    if (!(info->map_px_m * SEARCH_MAP_PX >= info->radius_m) || !(info->map_px_m <= info->radius_m))
        return false;
    for (int i = 0; i < 3; i++)
        if (!isfinite(info->centre_m[i]) || !isfinite(info->axis[i]))
            return false;
    if (o->near_symmetries.n > SEARCH_NEAR_SYMMETRIES_MAX)
        return false;
    for (uint32_t i = 0; i < o->near_symmetries.n; i++)
        if (!all_within(1.001f, o->near_symmetries.of[i].rotation, 9) ||
            !all_within(info->radius_m, o->near_symmetries.of[i].shift_m, 3))
            return false;
    return info->n_views == o->n_views && info->n_triangles == o->n_triangles &&
           info->n_vertices == o->n_vertices &&
           (unsigned)info->symmetry <= SEARCH_SYMMETRY_SPHERE &&
           info->fold <= SEARCH_ROTATIONS_MAX && all_within(SEARCH_MAP_PX, o->x, o->n_vertices) &&
           all_within(SEARCH_MAP_PX, o->y, o->n_vertices) &&
           all_within(SEARCH_MAP_PX, o->z, o->n_vertices);
}

static int read_parts(FILE *file, long size, struct search_object *object)
{
    struct file_header header;
    if (size < (long)sizeof header || fread(&header, sizeof header, 1, file) != 1 ||
        memcmp(header.magic, magic, sizeof magic) != 0 || header.version != FILE_VERSION ||
        header.layout != layout() || header.n_bytes != (uint64_t)size || header.n_views < 1 ||
        header.n_views > SEARCH_VIEWS_MAX || header.n_triangles < 1 ||
        header.n_triangles > UINT32_MAX / 8 || header.n_vertices > UINT32_MAX / 8)
        return -EBADMSG;
    struct part parts[N_PARTS];
    list_parts(object, &header, parts);
    uint64_t n_bytes = sizeof header;
    for (int i = 0; i < N_PARTS; i++)
        n_bytes += parts[i].n_bytes;
    if (n_bytes != header.n_bytes)
        return -EBADMSG;
    for (int i = 0; i < N_PARTS; i++) {
        *parts[i].data = malloc(parts[i].n_bytes + 1);
        if (!*parts[i].data)
            return -ENOMEM;
        if (parts[i].n_bytes && fread(*parts[i].data, parts[i].n_bytes, 1, file) != 1)
            return -EBADMSG;
    }
    if (checksum(&header, parts) != header.checksum)
        return -EBADMSG;
    object->info = header.info;
    object->near_symmetries = header.near_symmetries;
    object->n_vertices = header.n_vertices;
    object->n_triangles = header.n_triangles;
    object->n_views = header.n_views;
    object->n_chunks = header.n_chunks;
    return indices_hold(object) && info_holds(object) ? 0 : -EBADMSG;
}

int search_object_load(struct search *search, const char *path, struct search_object **out)
{
    *out = NULL;
    FILE *file = fopen(path, "rb");
    if (!file)
        return -errno;
    struct stat status;
    struct search_object *object = calloc(1, sizeof *object);
    int err = object ? 0 : -ENOMEM;
    if (!err && fstat(fileno(file), &status) != 0)
        err = -errno;
    if (!err)
        err = S_ISREG(status.st_mode) ? read_parts(file, status.st_size, object) : -EBADMSG;
    fclose(file);
    if (!err)
        err = search_object_finish(search, object);
    if (err) {
        if (err == -EBADMSG)
            log_to(&search->log, LOG_LEVEL_WARNING, "%s: damaged, or of another version", path);
        search_object_free(object);
        return err;
    }
    *out = object;
    return 0;
}
