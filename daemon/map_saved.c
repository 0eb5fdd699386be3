// SPDX-License-Identifier: Apache-2.0
#include "daemon/map_saved.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "capture/io/unzip.h"

#define VERSION      1
#define PATH_BYTES   4096
#define POSITION_MAX 1e6  // metres
#define UNIT_OFF     1e-6 // of a rotation's rows and of its determinant

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "parts are written as they lie here");

struct header {
    char magic[8];
    uint32_t version, header_bytes;
    uint64_t n_bytes;
    uint32_t n_blocks, n_keyframes, epoch;
    uint32_t width_px, height_px, block_edge;
    double fx_px, fy_px, cx_px, cy_px;
    double voxel_m, truncation_m, unit_m;
    uint32_t dropped_permille, n_cells;
    uint32_t keyframes_crc, blocks_crc;
    uint32_t zero, header_crc;
};
_Static_assert(sizeof(struct header) == 128 && offsetof(struct header, header_crc) == 124,
               "as map_saved.h has it");
_Static_assert(sizeof(struct relocalise_keyframe) == 864 && sizeof(struct model_block) == 2060,
               "as map_saved.h has it");

static const char magic[8] = {'p', 'o', 's', 'e', 'd', 'm', 'a', 'p'};

static uint32_t header_crc(const struct header *header)
{
    return unzip_crc32(header, offsetof(struct header, header_crc));
}

static uint64_t keyframes_bytes(uint32_t n)
{
    return (uint64_t)n * sizeof(struct relocalise_keyframe);
}

static uint64_t blocks_bytes(uint32_t n)
{
    return (uint64_t)n * sizeof(struct model_block);
}

static struct header make_header(const struct map_saved_place *place,
                                 const struct map_contents *contents)
{
    const struct intrinsics *camera = &place->camera;
    struct header h = {
        .version = VERSION,
        .header_bytes = sizeof h,
        .n_bytes =
            sizeof h + keyframes_bytes(contents->n_keyframes) + blocks_bytes(contents->n_blocks),
        .n_blocks = contents->n_blocks,
        .n_keyframes = contents->n_keyframes,
        .epoch = contents->epoch,
        .width_px = camera->width_px,
        .height_px = camera->height_px,
        .block_edge = MODEL_BLOCK_EDGE,
        .fx_px = camera->fx_px,
        .fy_px = camera->fy_px,
        .cx_px = camera->cx_px,
        .cy_px = camera->cy_px,
        .voxel_m = (double)place->model.voxel_m,
        .truncation_m = model_truncation_m(&place->model),
        .unit_m = MODEL_UNIT_M,
        .dropped_permille = (uint32_t)(contents->dropped * 1000 + 0.5f),
        .n_cells = DEPTH_CELLS,
        .keyframes_crc =
            unzip_crc32(contents->keyframes, (size_t)keyframes_bytes(contents->n_keyframes)),
        .blocks_crc = unzip_crc32(contents->blocks, (size_t)blocks_bytes(contents->n_blocks)),
    };
    memcpy(h.magic, magic, sizeof magic);
    h.header_crc = header_crc(&h);
    return h;
}

static bool put(FILE *file, const void *data, uint64_t n_bytes)
{
    return n_bytes == 0 || fwrite(data, (size_t)n_bytes, 1, file) == 1;
}

// All of it on the disk. Closes the file.
static int write_parts(FILE *file, const struct header *header, const struct map_contents *contents)
{
    errno = 0;
    bool good = put(file, header, sizeof *header) &&
                put(file, contents->keyframes, keyframes_bytes(contents->n_keyframes)) &&
                put(file, contents->blocks, blocks_bytes(contents->n_blocks)) &&
                fflush(file) == 0 && fsync(fileno(file)) == 0;
    int error = good ? 0 : errno ? -errno : -EIO;
    if (fclose(file) != 0 && !error)
        error = -errno;
    return error;
}

int map_saved_sync_name(const char *path)
{
    char folder[PATH_BYTES];
    snprintf(folder, sizeof folder, "%s", path);
    char *slash = strrchr(folder, '/');
    if (slash)
        slash[1] = 0;
    int fd = open(slash ? folder : ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return -errno;
    // EINVAL: this file system has no such thing.
    int error = fsync(fd) == 0 || errno == EINVAL ? 0 : -errno;
    close(fd);
    return error;
}

int map_saved_write(const char *path, const struct map_saved_place *place,
                    const struct map_contents *contents, uint64_t *out_bytes)
{
    char beside[PATH_BYTES];
    const struct header header = make_header(place, contents);
    *out_bytes = header.n_bytes;
    // Of this process alone: another daemon may save under the same name.
    if (snprintf(beside, sizeof beside, "%s.%ld.part", path, (long)getpid()) >= (int)sizeof beside)
        return -ENAMETOOLONG;
    if (access(path, F_OK) == 0)
        return -EEXIST;
    unlink(beside); // left by an earlier process of this number
    FILE *file = fopen(beside, "wbxe");
    if (!file)
        return -errno;
    int error = write_parts(file, &header, contents);
    // Nothing is replaced that has come meanwhile, where the file system can promise that.
    if (!error && renameat2(AT_FDCWD, beside, AT_FDCWD, path, RENAME_NOREPLACE) != 0)
        error = errno == EINVAL && rename(beside, path) == 0 ? 0 : -errno;
    if (error)
        unlink(beside);
    return error;
}

__attribute__((format(printf, 3, 4))) static int refuse(char out[MAP_SAVED_ERROR_BYTES], int error,
                                                        const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(out, MAP_SAVED_ERROR_BYTES, format, args);
    va_end(args);
    return error;
}

static bool same_camera(const struct header *h, const struct intrinsics *camera)
{
    return h->width_px == camera->width_px && h->height_px == camera->height_px &&
           h->fx_px == camera->fx_px && h->fy_px == camera->fy_px && h->cx_px == camera->cx_px &&
           h->cy_px == camera->cy_px;
}

static int check_header(const struct header *h, uint64_t n_bytes, char *out_error)
{
    if (memcmp(h->magic, magic, sizeof magic) != 0)
        return refuse(out_error, -EBADMSG, "not a map that posed saved");
    if (h->version != VERSION)
        return refuse(out_error, -EPROTONOSUPPORT,
                      "version %u of the format; this daemon reads %d: save it anew with this one",
                      h->version, VERSION);
    if (h->header_bytes != sizeof *h || h->header_crc != header_crc(h))
        return refuse(out_error, -EBADMSG,
                      "damaged: the header's checksum does not match; take "
                      "another copy");
    const uint64_t n_wanted =
        sizeof *h + keyframes_bytes(h->n_keyframes) + blocks_bytes(h->n_blocks);
    if (h->n_keyframes > RELOCALISE_MAX_KEYFRAMES || h->n_bytes != n_wanted ||
        h->block_edge != MODEL_BLOCK_EDGE || h->n_cells != DEPTH_CELLS ||
        h->unit_m != MODEL_UNIT_M || h->dropped_permille > 1000)
        return refuse(out_error, -EBADMSG, "damaged: its counts contradict each other");
    if (h->n_bytes != n_bytes)
        return refuse(out_error, -EBADMSG, "%s: %llu bytes instead of %llu; take another copy",
                      n_bytes < h->n_bytes ? "truncated" : "damaged", (unsigned long long)n_bytes,
                      (unsigned long long)h->n_bytes);
    return 0;
}

static int check_place(const struct header *h, const struct map_saved_place *place, char *out_error)
{
    const struct intrinsics *camera = &place->camera;
    if (h->voxel_m != (double)place->model.voxel_m)
        return refuse(out_error, -EXDEV,
                      "voxels of %.6g m, the daemon has %.6g: start it with map.voxel_m = %.6g",
                      h->voxel_m, (double)place->model.voxel_m, h->voxel_m);
    if (h->truncation_m != model_truncation_m(&place->model))
        return refuse(out_error, -EXDEV,
                      "truncation of %.6g m, the daemon has %.6g: save it anew with this one",
                      h->truncation_m, model_truncation_m(&place->model));
    if (!same_camera(h, camera))
        return refuse(out_error, -EXDEV,
                      "another camera: %ux%u fx %.6g fy %.6g cx %.6g cy %.6g, here %ux%u fx %.6g "
                      "fy %.6g cx %.6g cy %.6g",
                      h->width_px, h->height_px, h->fx_px, h->fy_px, h->cx_px, h->cy_px,
                      camera->width_px, camera->height_px, camera->fx_px, camera->fy_px,
                      camera->cx_px, camera->cy_px);
    const uint32_t max_blocks = model_max_blocks(&place->model);
    if (h->n_blocks > max_blocks)
        return refuse(out_error, -ENOSPC,
                      "%u blocks do not fit, map.memory_bytes = %llu and map.far_bytes = %llu hold "
                      "%u: give them more",
                      h->n_blocks, (unsigned long long)place->model.memory_bytes,
                      (unsigned long long)place->model.far_bytes, max_blocks);
    return 0;
}

static bool is_pose(const struct se3 *T)
{
    const double *r = T->r;
    for (int i = 0; i < 3; i++) {
        if (!(fabs(T->t_m[i]) <= POSITION_MAX))
            return false;
        for (int j = 0; j <= i; j++) {
            double dot =
                r[3 * i] * r[3 * j] + r[3 * i + 1] * r[3 * j + 1] + r[3 * i + 2] * r[3 * j + 2];
            if (!(fabs(dot - (i == j)) <= UNIT_OFF))
                return false;
        }
    }
    double determinant = r[0] * (r[4] * r[8] - r[5] * r[7]) - r[1] * (r[3] * r[8] - r[5] * r[6]) +
                         r[2] * (r[3] * r[7] - r[4] * r[6]);
    return fabs(determinant - 1) <= 10 * UNIT_OFF;
}

static bool comes_before(const struct model_block *a, const struct model_block *b)
{
    return a->z != b->z ? a->z < b->z : a->y != b->y ? a->y < b->y : a->x < b->x;
}

// A file with right checksums was written by this program; still, nothing of it is used unseen.
static bool contents_hold(const struct map_contents *contents)
{
    for (uint32_t i = 0; i < contents->n_keyframes; i++) {
        const struct relocalise_keyframe *keyframe = &contents->keyframes[i];
        if (!is_pose(&keyframe->T_map_camera))
            return false;
        for (int k = 0; k < DEPTH_CELLS; k++)
            if (isinf(keyframe->log_z[k]))
                return false;
    }
    for (uint32_t i = 0; i < contents->n_blocks; i++)
        if (!model_place_can_be(&contents->blocks[i]) ||
            (i > 0 && !comes_before(&contents->blocks[i - 1], &contents->blocks[i])))
            return false;
    return true;
}

// A part of the file, or NULL with the reason.
static void *get(FILE *file, uint64_t n_bytes, uint32_t crc, const char *what, int *out_rc,
                 char *out_error)
{
    void *data = malloc((size_t)n_bytes + 1);
    if (!data) {
        *out_rc = refuse(out_error, -ENOMEM, "no memory for its %s", what);
        return NULL;
    }
    if (n_bytes > 0 && fread(data, (size_t)n_bytes, 1, file) != 1)
        *out_rc = refuse(out_error, -EBADMSG, "its %s cannot be read", what);
    else if (unzip_crc32(data, (size_t)n_bytes) != crc)
        *out_rc = refuse(out_error, -EBADMSG,
                         "damaged: the checksum of its %s does not match; take another copy", what);
    if (*out_rc == 0)
        return data;
    free(data);
    return NULL;
}

static int read_parts(FILE *file, uint64_t n_bytes, const struct map_saved_place *place,
                      struct map_contents *out, char *out_error)
{
    struct header h;
    if (n_bytes < sizeof h || fread(&h, sizeof h, 1, file) != 1)
        return refuse(out_error, -EBADMSG, "truncated: %llu bytes are no map",
                      (unsigned long long)n_bytes);
    int rc = check_header(&h, n_bytes, out_error);
    if (rc == 0)
        rc = check_place(&h, place, out_error);
    if (rc < 0)
        return rc;
    out->epoch = h.epoch;
    out->dropped = (float)h.dropped_permille / 1000;
    out->keyframes =
        get(file, keyframes_bytes(h.n_keyframes), h.keyframes_crc, "keyframes", &rc, out_error);
    if (rc == 0)
        out->blocks = get(file, blocks_bytes(h.n_blocks), h.blocks_crc, "blocks", &rc, out_error);
    if (rc < 0)
        return rc;
    out->n_keyframes = h.n_keyframes;
    out->n_blocks = h.n_blocks;
    return contents_hold(out)
               ? 0
               : refuse(out_error, -EBADMSG, "damaged: a place or a pose that cannot be");
}

int map_saved_read(const char *path, const struct map_saved_place *place, struct map_contents *out,
                   char out_error[MAP_SAVED_ERROR_BYTES])
{
    *out = (struct map_contents){0};
    out_error[0] = 0;
    int fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC); // a pipe is not waited for
    FILE *file = fd < 0 ? NULL : fdopen(fd, "rb");
    if (!file) {
        int error = -errno;
        if (fd >= 0)
            close(fd);
        return refuse(out_error, error, "%s", strerror(-error));
    }
    struct stat status;
    int rc = fstat(fileno(file), &status) != 0 ? -errno : 0;
    if (rc < 0)
        refuse(out_error, rc, "%s", strerror(-rc));
    else if (!S_ISREG(status.st_mode))
        rc = refuse(out_error, -EBADMSG, "not a plain file");
    else
        rc = read_parts(file, (uint64_t)status.st_size, place, out, out_error);
    fclose(file);
    if (rc < 0)
        map_contents_free(out);
    return rc;
}
