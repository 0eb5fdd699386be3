// SPDX-License-Identifier: Apache-2.0
// Driver `klg`. The image size is not in the file: it is that of <file>.calibration.txt, the
// sidecar that our recorder writes beside the log, else 640x480.
#include "capture/recording/klg.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include "capture/driver.h"
#include "capture/io/folder.h"
#include "capture/io/little_endian.h"
#include "capture/recording/sidecar.h"

#define MAX_FRAMES      50000000 // 19 days at 30 frames/s; four letters, or "PK\3\4", are more
#define MAX_DEPTH_BYTES (3 * CAPTURE_MAX_SIDE_PX * CAPTURE_MAX_SIDE_PX) // raw takes 2 a pixel

static const struct intrinsics default_camera = {528, 528, 320, 240, 640, 480};

struct klg {
    struct klg_index index;
    struct unzip *unzip;
    unsigned char *packed;
    size_t n_packed_bytes; // capacity: more than any good frame takes
    size_t n_pixels;
    int fd;
    char *path;
    struct log_sink log;
};

static int append(struct klg_index *index, size_t *capacity, const struct klg_frame *frame)
{
    if (index->n_frames == *capacity) {
        size_t grown = *capacity ? 2 * *capacity : 1024;
        struct klg_frame *frames = realloc(index->frames, grown * sizeof *frames);
        if (!frames)
            return -ENOMEM;
        index->frames = frames;
        *capacity = grown;
    }
    index->frames[index->n_frames++] = *frame;
    return 0;
}

static int compare_stamps(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

// Nanoseconds of one unit of the time stamps: what makes the median step nearest to 1/30 s. A
// single frame has no step; since 2001 a Unix time in us has 16 digits and one in ns 19.
static int64_t find_unit_ns(const struct klg_index *index)
{
    int64_t steps[255];
    size_t n = 0;
    for (size_t i = 1; i < index->n_frames && n < 255; i++)
        steps[n++] = index->frames[i].stamp - index->frames[i - 1].stamp;
    if (n == 0)
        return index->n_frames && index->frames[0].stamp >= 1000000000000000000 ? 1 : 1000;
    qsort(steps, n, sizeof *steps, compare_stamps);
    double best = INFINITY;
    int64_t best_unit_ns = 1000;
    for (int64_t unit_ns = 1; unit_ns <= 1000000; unit_ns *= 1000) {
        double miss = fabs(log((double)steps[n / 2] * (double)unit_ns * 30e-9));
        if (miss < best) {
            best = miss;
            best_unit_ns = unit_ns;
        }
    }
    return best_unit_ns;
}

// Whether these can be the first frame's: other files begin with numbers that no image has.
static bool is_first_frame(const unsigned char header[KLG_FRAME_HEADER_BYTES])
{
    const uint32_t n_depth = little_u32(header + 8);
    return little_u32(header + 4) <= INT32_MAX && n_depth > 0 && n_depth <= MAX_DEPTH_BYTES;
}

bool klg_is_plausible(const unsigned char start[KLG_HEADER_BYTES + KLG_FRAME_HEADER_BYTES])
{
    return little_u32(start) <= MAX_FRAMES && is_first_frame(start + KLG_HEADER_BYTES);
}

// How long the file is without the zeros at its end.
static int find_written(int fd, int64_t n_bytes, int64_t *out)
{
    unsigned char block[65536];
    while (n_bytes > 0) {
        const size_t n = n_bytes < (int64_t)sizeof block ? (size_t)n_bytes : sizeof block;
        const int err = file_read_at(fd, block, n, (uint64_t)n_bytes - n);
        if (err)
            return err;
        size_t n_left = n;
        while (n_left > 0 && block[n_left - 1] == 0)
            n_left--;
        n_bytes -= (int64_t)(n - n_left);
        if (n_left > 0)
            break;
    }
    *out = n_bytes;
    return 0;
}

int klg_walk_begin(struct klg_walk *out, int fd)
{
    struct stat st;
    if (fstat(fd, &st) != 0)
        return -errno;
    *out = (struct klg_walk){.fd = fd, .n_bytes = st.st_size, .at = KLG_HEADER_BYTES};
    if (!S_ISREG(st.st_mode) || st.st_size < KLG_HEADER_BYTES)
        return -EBADMSG;
    return find_written(fd, st.st_size, &out->n_written_bytes);
}

int klg_walk_check(const struct klg_walk *walk)
{
    unsigned char start[KLG_HEADER_BYTES + KLG_FRAME_HEADER_BYTES];
    if (walk->n_bytes < (int64_t)sizeof start)
        return 0;
    const int err = file_read_at(walk->fd, start, sizeof start, 0);
    return err ? err : klg_is_plausible(start) ? 0 : -EBADMSG;
}

// Whether the zlib stream ends with its checksum. Raw depth has none: any that is long enough is
// whole.
static bool is_whole(const unsigned char *depth, size_t n_bytes)
{
    unsigned char out[16384];
    z_stream stream = {.next_in = (z_const Bytef *)depth, .avail_in = (uInt)n_bytes};
    if (n_bytes < 2 || (depth[0] & 15) != Z_DEFLATED || (depth[0] * 256 + depth[1]) % 31 != 0)
        return true;
    if (inflateInit(&stream) != Z_OK)
        return true;
    int result = Z_OK;
    while (result == Z_OK) {
        stream.next_out = out;
        stream.avail_out = sizeof out;
        result = inflate(&stream, Z_NO_FLUSH);
    }
    inflateEnd(&stream);
    return result == Z_STREAM_END;
}

// The same of a frame whose depth may end in zeros that nobody wrote.
static int check_end(const struct klg_walk *walk, const struct klg_frame *frame)
{
    if (frame->offset + 1 >= walk->n_written_bytes)
        return -EBADMSG; // not even two bytes of depth
    if (frame->offset + frame->n_depth_bytes <= walk->n_written_bytes ||
        frame->n_depth_bytes > MAX_DEPTH_BYTES)
        return 0;
    unsigned char *depth = malloc(frame->n_depth_bytes);
    if (!depth)
        return -ENOMEM;
    int err = file_read_at(walk->fd, depth, frame->n_depth_bytes, (uint64_t)frame->offset);
    if (!err && !is_whole(depth, frame->n_depth_bytes))
        err = -EBADMSG;
    free(depth);
    return err;
}

int klg_walk_next(struct klg_walk *walk, struct klg_frame *out)
{
    unsigned char header[KLG_FRAME_HEADER_BYTES];
    const int64_t offset = walk->at + KLG_FRAME_HEADER_BYTES;
    if (walk->at == walk->n_bytes)
        return -ENODATA;
    int err = offset > walk->n_bytes
                  ? -EBADMSG
                  : file_read_at(walk->fd, header, sizeof header, (uint64_t)walk->at);
    if (err)
        return err;
    const uint32_t n_depth = little_u32(header + 8), n_image = little_u32(header + 12);
    if (n_depth > INT32_MAX || n_image > INT32_MAX ||
        (int64_t)n_depth + n_image > walk->n_bytes - offset)
        return -EBADMSG;
    *out = (struct klg_frame){
        .stamp = (int64_t)((uint64_t)little_u32(header + 4) << 32 | little_u32(header)),
        .offset = offset,
        .n_depth_bytes = n_depth};
    err = check_end(walk, out);
    if (!err)
        walk->at = offset + n_depth + n_image;
    return err;
}

static void log_incomplete(const struct klg_walk *walk, size_t n_frames, const char *name,
                           const struct log_sink *log)
{
    if (walk->n_bytes - walk->n_written_bytes < KLG_FRAME_HEADER_BYTES)
        log_to(log, LOG_LEVEL_WARNING,
               "%s: incomplete after %zu frames (byte %lld), the rest is left out", name, n_frames,
               (long long)walk->at);
    else
        log_to(log, LOG_LEVEL_WARNING,
               "%s: incomplete after %zu frames (byte %lld), zeros from byte %lld to the end: "
               "the rest is left out",
               name, n_frames, (long long)walk->at, (long long)walk->n_written_bytes);
}

// Reads the frame headers one by one; a frame is kept when its stamp is later than the last one.
// Returns -EBADMSG when the first is none.
static int walk_frames(struct klg_walk *walk, const char *name, const struct log_sink *log,
                       struct klg_index *out)
{
    size_t capacity = 0;
    struct klg_frame frame;
    int err;
    while ((err = klg_walk_next(walk, &frame)) == 0) {
        // beyond 2^62 differences would overflow
        bool sane = frame.stamp >= 0 && frame.stamp < INT64_C(1) << 62;
        if (sane && (!out->n_frames || frame.stamp > out->frames[out->n_frames - 1].stamp))
            err = append(out, &capacity, &frame);
        else
            out->n_skipped++;
        if (err)
            return err;
    }
    if (err == -EBADMSG && walk->at == KLG_HEADER_BYTES)
        err = klg_walk_check(walk);
    else if (err == -EBADMSG)
        err = 0;
    if (!err)
        log_incomplete(walk, out->n_frames, name, log);
    return err == -ENODATA ? 0 : err;
}

// Times must fit into int64 ns; what does not is cut off the end.
static void take_times(struct klg_index *index)
{
    int64_t unit_ns = find_unit_ns(index);
    for (size_t i = 0; i < index->n_frames; i++) {
        if (index->frames[i].stamp > INT64_MAX / 2 / unit_ns) {
            index->n_skipped += index->n_frames - i;
            index->n_frames = i;
            return;
        }
        index->frames[i].time_ns = index->frames[i].stamp * unit_ns;
    }
}

int klg_scan(int fd, const char *name, const struct log_sink *log, struct klg_index *out)
{
    *out = (struct klg_index){0};
    struct klg_walk walk;
    unsigned char head[KLG_HEADER_BYTES];
    int err = klg_walk_begin(&walk, fd);
    if (!err)
        err = file_read_at(fd, head, sizeof head, 0);
    if (!err && little_u32(head) > MAX_FRAMES)
        err = -EBADMSG;
    if (!err)
        err = walk_frames(&walk, name, log, out);
    if (err == -EBADMSG) {
        log_to(log, LOG_LEVEL_ERROR, "%s: not a klg log", name);
        return -EINVAL;
    }
    if (!err)
        take_times(out);
    if (!err && !out->n_frames)
        err = -ENOENT;
    if (err) {
        log_to(log, LOG_LEVEL_ERROR, "%s: %s", name,
               err == -ENOENT ? "no complete frame" : strerror(-err));
        klg_index_free(out);
        return err;
    }
    if (out->n_skipped)
        log_to(log, LOG_LEVEL_WARNING,
               "%s: %zu frames skipped, their time stamps repeat or go backwards", name,
               out->n_skipped);
    uint32_t n_said = little_u32(head);
    if (n_said && n_said != out->n_frames + out->n_skipped)
        log_to(log, LOG_LEVEL_WARNING, "%s: says %u frames, has %zu", name, n_said,
               out->n_frames + out->n_skipped);
    return 0;
}

void klg_index_free(struct klg_index *index)
{
    free(index->frames);
    *index = (struct klg_index){0};
}

int klg_decode(struct unzip *unzip, const void *data, size_t n_bytes, size_t n_pixels,
               uint16_t *out_pixels)
{
    size_t n_out_bytes = n_pixels * sizeof *out_pixels;
    if (n_bytes == n_out_bytes)
        memcpy(out_pixels, data, n_out_bytes);
    else if (unzip_whole(unzip, data, n_bytes, out_pixels, n_out_bytes) != 0)
        return -EBADMSG;
    const uint16_t one = 1;
    if (!*(const unsigned char *)&one)
        for (size_t i = 0; i < n_pixels; i++)
            out_pixels[i] = (uint16_t)(out_pixels[i] << 8 | out_pixels[i] >> 8);
    return 0;
}

// <file>.calibration.txt, or the default when there is none, which a notice tells. Not through a
// link: the user named the log, whoever made the log named this.
static int read_camera(const char *path, const struct capture_settings *settings,
                       struct capture_info *out_info)
{
    char name[4096];
    if (snprintf(name, sizeof name, "%s" KLG_CALIBRATION_SUFFIX, path) >= (int)sizeof name) {
        log_to(&settings->log, LOG_LEVEL_ERROR, "%.80s...: path too long", path);
        return -ENAMETOOLONG;
    }
    const char *const slash = strrchr(name, '/');
    out_info->camera = default_camera;
    char text[4096];
    double units_per_m = 0;
    struct stat st;
    int fd = open(name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (fd < 0 && errno == ENOENT) {
        if (settings->fx_px == 0 || settings->fy_px == 0 || settings->cx_px == 0 ||
            settings->cy_px == 0)
            log_to(&settings->log, LOG_LEVEL_NOTICE,
                   "%s: no %s: the intrinsics are the format's default, as are 640x480 pixels and "
                   "millimetres",
                   path, slash ? slash + 1 : name);
        return 0;
    }
    ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof text - 1);
    bool good = n >= 0 && fstat(fd, &st) == 0 && S_ISREG(st.st_mode);
    if (fd >= 0)
        close(fd);
    if (!good) {
        log_to(&settings->log, LOG_LEVEL_ERROR, "%s: a link, no regular file, or unreadable", name);
        return -EINVAL;
    }
    text[n] = '\0';
    struct intrinsics camera;
    int err = sidecar_parse_calibration(text, name, &settings->log, &camera, &units_per_m);
    if (err)
        return err;
    if (!camera.width_px) {
        camera.width_px = default_camera.width_px;
        camera.height_px = default_camera.height_px;
    }
    if (camera.width_px > CAPTURE_MAX_SIDE_PX || camera.height_px > CAPTURE_MAX_SIDE_PX) {
        log_to(&settings->log, LOG_LEVEL_ERROR, "%s: image size out of range", name);
        return -EINVAL;
    }
    out_info->camera = camera;
    snprintf(out_info->told.camera_by, sizeof out_info->told.camera_by, "%.95s",
             slash ? slash + 1 : name);
    if (units_per_m != 0) {
        out_info->units_per_m = units_per_m;
        out_info->told.units_are_usual = false;
        snprintf(out_info->told.units_by, sizeof out_info->told.units_by, "%s",
                 out_info->told.camera_by);
    }
    return 0;
}

static void klg_close(void *state)
{
    struct klg *klg = state;
    klg_index_free(&klg->index);
    unzip_destroy(&klg->unzip);
    free(klg->packed);
    if (klg->fd >= 0)
        close(klg->fd);
    free(klg->path);
    free(klg);
}

static int klg_open(void **out_state, const char *location, const struct capture_settings *settings,
                    struct capture_info *out_info)
{
    struct klg *klg = calloc(1, sizeof *klg);
    if (!klg)
        return -ENOMEM;
    klg->log = settings->log;
    klg->path = strdup(location);
    klg->fd = file_open(location, &settings->log);
    int err = klg->fd < 0 ? klg->fd : klg->path ? 0 : -ENOMEM;
    if (err)
        goto fail;
    out_info->units_per_m = KLG_UNITS_PER_M;
    out_info->told.units_are_usual = true;
    snprintf(out_info->told.units_by, sizeof out_info->told.units_by, "the format");
    err = read_camera(location, settings, out_info);
    if (!err)
        err = klg_scan(klg->fd, location, &settings->log, &klg->index);
    if (err)
        goto fail;
    klg->n_pixels = (size_t)out_info->camera.width_px * out_info->camera.height_px;
    klg->n_packed_bytes = compressBound((uLong)(klg->n_pixels * sizeof(uint16_t)));
    klg->packed = malloc(klg->n_packed_bytes);
    err = klg->packed ? unzip_create(&klg->unzip) : -ENOMEM;
    if (err)
        goto fail;
    out_info->n_frames = klg->index.n_frames;
    *out_state = klg;
    return 0;
fail:
    klg_close(klg);
    return err;
}

static void klg_stamp(const void *state, uint64_t i, int64_t *out_time_ns, uint64_t *out_index)
{
    const struct klg *klg = state;
    *out_time_ns = klg->index.frames[i].time_ns;
    *out_index = i;
}

static int klg_decode_frame(void *state, uint64_t i, uint16_t *pixels, struct capture_frame *frame)
{
    (void)frame;
    struct klg *klg = state;
    const struct klg_frame *entry = &klg->index.frames[i];
    const char *reason = NULL;
    if (entry->n_depth_bytes > klg->n_packed_bytes)
        reason = "more depth bytes than an image can take";
    else if (file_read_at(klg->fd, klg->packed, entry->n_depth_bytes, (uint64_t)entry->offset))
        reason = "cannot be read";
    else if (klg_decode(klg->unzip, klg->packed, entry->n_depth_bytes, klg->n_pixels, pixels))
        reason = "depth is neither raw nor good zlib data of the image's size";
    if (!reason)
        return 0;
    log_to(&klg->log, LOG_LEVEL_WARNING, "%s: frame %llu: %s", klg->path, (unsigned long long)i,
           reason);
    return -EBADMSG;
}

const struct capture_driver capture_driver_klg = {
    .name = "klg",
    .summary = "log file of Kintinuous, ElasticFusion or Logger2",
    .open = klg_open,
    .stamp = klg_stamp,
    .decode = klg_decode_frame,
    .close = klg_close,
};
