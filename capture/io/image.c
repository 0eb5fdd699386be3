// SPDX-License-Identifier: Apache-2.0
// libpng reports errors by longjmp. Everything that must survive one lives in struct png_job, which
// the caller of the setjmp function owns, so no local variable can be clobbered and both ways out
// pass the same destroy call. libpng's memory comes from a bump arena inside the codec: no malloc
// per image, and a hostile file cannot ask for more than the arena holds.
#include "capture/io/image.h"

#include <errno.h>
#include <fcntl.h>
#include <png.h>
#include <setjmp.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "capture/driver.h"
#include "capture/io/folder.h"
#include "capture/io/image_libpng.h"
#include "capture/io/png_plain.h"
#include "proto/output_file.h"

// Inflate takes 50 KiB, deflate 270 KiB, rows of CAPTURE_MAX_SIDE_PX another 60 KiB.
#define ARENA_BYTES ((size_t)1 << 20)

struct image_codec {
    _Alignas(16) unsigned char arena[ARENA_BYTES];
    size_t arena_used;
    struct png_plain *plain;
    unsigned char *out; // encoder's output
    size_t out_used, out_capacity;
};

struct png_job {
    struct image_codec *codec;
    png_structp png;
    png_infop info;
    const unsigned char *data; // reading
    size_t n_bytes, position;
    uint32_t width_px, height_px;
    uint16_t *out_pixels;
    const uint16_t *pixels; // writing
    int level;
    char reason[160];
};

int image_codec_create(struct image_codec **out)
{
    *out = malloc(sizeof **out);
    if (!*out)
        return -ENOMEM;
    (*out)->out = NULL;
    (*out)->out_used = (*out)->out_capacity = 0;
    int err = png_plain_create(&(*out)->plain);
    if (err)
        image_codec_destroy(out);
    return err;
}

void image_codec_destroy(struct image_codec **codec)
{
    if (!*codec)
        return;
    png_plain_destroy(&(*codec)->plain);
    free((*codec)->out);
    free(*codec);
    *codec = NULL;
}

static png_voidp arena_alloc(png_structp png, png_alloc_size_t n_bytes)
{
    struct image_codec *codec = png_get_mem_ptr(png);
    size_t room = ARENA_BYTES - codec->arena_used;
    if (n_bytes > room)
        return NULL;
    void *block = codec->arena + codec->arena_used;
    codec->arena_used += n_bytes + (16 - n_bytes % 16) % 16;
    if (codec->arena_used > ARENA_BYTES)
        codec->arena_used = ARENA_BYTES;
    return block;
}

static void arena_free(png_structp png, png_voidp block)
{
    (void)png;
    (void)block; // all at once, when the next image starts
}

static void png_failed(png_structp png, png_const_charp message)
{
    struct png_job *job = png_get_error_ptr(png);
    snprintf(job->reason, sizeof job->reason, "%s", message);
    png_longjmp(png, 1);
}

static void png_warned(png_structp png, png_const_charp message)
{
    (void)png;
    (void)message; // ancillary chunks: of no interest to a depth image
}

static void png_take(png_structp png, png_bytep out, size_t n_bytes)
{
    struct png_job *job = png_get_io_ptr(png);
    if (n_bytes > job->n_bytes - job->position)
        png_error(png, "truncated");
    memcpy(out, job->data + job->position, n_bytes);
    job->position += n_bytes;
}

static void png_check_header(struct png_job *job)
{
    png_uint_32 width, height;
    int depth, colour;
    png_get_IHDR(job->png, job->info, &width, &height, &depth, &colour, NULL, NULL, NULL);
    if (colour != PNG_COLOR_TYPE_GRAY || depth != 16) {
        snprintf(job->reason, sizeof job->reason,
                 "%d-bit %s PNG, depth images are 16-bit grey without alpha", depth,
                 colour & PNG_COLOR_MASK_PALETTE ? "palette"
                 : colour & PNG_COLOR_MASK_COLOR ? "colour"
                 : colour & PNG_COLOR_MASK_ALPHA ? "grey-alpha"
                                                 : "grey");
        png_longjmp(job->png, 1);
    }
    if (width != job->width_px || height != job->height_px) {
        snprintf(job->reason, sizeof job->reason, "image is %ux%u, the recording %ux%u",
                 (unsigned)width, (unsigned)height, job->width_px, job->height_px);
        png_longjmp(job->png, 1);
    }
}

static void png_decode_steps(struct png_job *job)
{
    png_set_read_fn(job->png, job, png_take);
    png_set_user_limits(job->png, CAPTURE_MAX_SIDE_PX, CAPTURE_MAX_SIDE_PX);
    png_set_keep_unknown_chunks(job->png, PNG_HANDLE_CHUNK_NEVER, NULL, -1);
    png_read_info(job->png, job->info);
    png_check_header(job);
    const uint16_t one = 1;
    if (*(const unsigned char *)&one)
        png_set_swap(job->png);
    int n_passes = png_set_interlace_handling(job->png);
    png_read_update_info(job->png, job->info);
    for (int pass = 0; pass < n_passes; pass++)
        for (uint32_t y = 0; y < job->height_px; y++)
            png_read_row(job->png, (png_bytep)(job->out_pixels + (size_t)y * job->width_px), NULL);
    png_read_end(job->png, NULL); // the checksums of the last chunks
}

static int png_decode(struct png_job *job)
{
    job->codec->arena_used = 0;
    job->png = png_create_read_struct_2(PNG_LIBPNG_VER_STRING, job, png_failed, png_warned,
                                        job->codec, arena_alloc, arena_free);
    if (!job->png)
        return -ENOMEM;
    if (!setjmp(png_jmpbuf(job->png))) {
        job->info = png_create_info_struct(job->png);
        if (!job->info)
            png_error(job->png, "out of memory");
        png_decode_steps(job);
        png_destroy_read_struct(&job->png, &job->info, NULL);
        return 0;
    }
    png_destroy_read_struct(&job->png, &job->info, NULL);
    return -EBADMSG;
}

struct pgm_header {
    uint32_t width_px, height_px, max_value;
    size_t data_offset;
};

// One number of the header with the white space and comments before it; 0 when there is none or it
// is above 2^24, which no field may be.
static uint32_t pgm_number(const unsigned char *data, size_t n_bytes, size_t *position)
{
    size_t i = *position;
    bool comment = false;
    while (i < n_bytes && (comment || strchr(" \t\r\n\v\f#", data[i]))) {
        if (data[i] == '\0' && !comment)
            break;
        comment = comment ? data[i] != '\n' : data[i] == '#';
        i++;
    }
    uint32_t value = 0;
    for (; i < n_bytes && data[i] >= '0' && data[i] <= '9' && value <= 1u << 24; i++)
        value = 10 * value + (data[i] - (uint32_t)'0');
    *position = i;
    return value <= 1u << 24 ? value : 0;
}

// Returns NULL, or the reason why this is no PGM of ours.
static const char *pgm_parse_header(const unsigned char *data, size_t n_bytes,
                                    struct pgm_header *out)
{
    size_t i = 2;
    out->width_px = pgm_number(data, n_bytes, &i);
    out->height_px = pgm_number(data, n_bytes, &i);
    out->max_value = pgm_number(data, n_bytes, &i);
    out->data_offset = i + 1;
    if (!out->width_px || !out->height_px || !out->max_value)
        return "malformed PGM header";
    if (i >= n_bytes || !strchr(" \t\r\n", data[i]) || data[i] == '\0')
        return "truncated PGM header";
    if (out->max_value > 65535)
        return "PGM maximum above 65535";
    return NULL;
}

static const char *pgm_decode(const unsigned char *data, size_t n_bytes, enum image_pgm_order order,
                              uint32_t width_px, uint32_t height_px, uint16_t *out_pixels)
{
    struct pgm_header header;
    const char *reason = pgm_parse_header(data, n_bytes, &header);
    if (reason)
        return reason;
    if (header.width_px != width_px || header.height_px != height_px)
        return "image size differs from the recording's";
    size_t n_pixels = (size_t)width_px * height_px, n_sample_bytes = header.max_value > 255 ? 2 : 1;
    if ((n_bytes - header.data_offset) / n_sample_bytes < n_pixels)
        return "truncated";
    const unsigned char *in = data + header.data_offset;
    if (n_sample_bytes == 1)
        for (size_t i = 0; i < n_pixels; i++)
            out_pixels[i] = in[i];
    else if (order == IMAGE_PGM_BIG_ENDIAN)
        for (size_t i = 0; i < n_pixels; i++)
            out_pixels[i] = (uint16_t)(in[2 * i] << 8 | in[2 * i + 1]);
    else
        for (size_t i = 0; i < n_pixels; i++)
            out_pixels[i] = (uint16_t)(in[2 * i] | in[2 * i + 1] << 8);
    return NULL;
}

static bool is_png(const unsigned char *data, size_t n_bytes)
{
    return n_bytes >= 8 && !png_sig_cmp(data, 0, 8);
}

static bool is_pgm(const unsigned char *data, size_t n_bytes)
{
    return n_bytes >= 2 && data[0] == 'P' && data[1] == '5';
}

int image_peek(const void *data, size_t n_bytes, const char *name, const struct log_sink *log,
               uint32_t *out_width_px, uint32_t *out_height_px)
{
    const unsigned char *p = data;
    const char *reason = NULL;
    uint32_t width = 0, height = 0;
    if (is_png(p, n_bytes)) {
        if (n_bytes < 24 || memcmp(p + 12, "IHDR", 4) != 0) {
            reason = "truncated PNG header";
        } else {
            width = png_get_uint_32(p + 16);
            height = png_get_uint_32(p + 20);
        }
    } else if (is_pgm(p, n_bytes)) {
        struct pgm_header header;
        reason = pgm_parse_header(p, n_bytes, &header);
        width = header.width_px;
        height = header.height_px;
    } else {
        reason = n_bytes ? "neither PNG nor binary PGM" : "empty file";
    }
    if (!reason &&
        (!width || !height || width > CAPTURE_MAX_SIDE_PX || height > CAPTURE_MAX_SIDE_PX))
        reason = "image size out of range";
    if (reason) {
        log_to(log, LOG_LEVEL_WARNING, "%s: %s", name, reason);
        return -EBADMSG;
    }
    *out_width_px = width;
    *out_height_px = height;
    return 0;
}

int image_decode(struct image_codec *codec, const void *data, size_t n_bytes, const char *name,
                 enum image_pgm_order pgm_order, uint32_t width_px, uint32_t height_px,
                 const struct log_sink *log, uint16_t *out_pixels)
{
    const char *reason;
    struct png_job job = {.codec = codec,
                          .data = data,
                          .n_bytes = n_bytes,
                          .width_px = width_px,
                          .height_px = height_px,
                          .out_pixels = out_pixels,
                          .reason = "out of memory"};
    if (is_png(data, n_bytes))
        reason = png_plain_decode(codec->plain, data, n_bytes, width_px, height_px, out_pixels) ||
                         png_decode(&job) == 0
                     ? NULL
                     : job.reason;
    else if (is_pgm(data, n_bytes))
        reason = pgm_decode(data, n_bytes, pgm_order, width_px, height_px, out_pixels);
    else
        reason = n_bytes ? "neither PNG nor binary PGM" : "empty file";
    if (!reason)
        return 0;
    log_to(log, LOG_LEVEL_WARNING, "%s: %s", name, reason);
    return -EBADMSG;
}

int image_decode_libpng(struct image_codec *codec, const void *data, size_t n_bytes,
                        uint32_t width_px, uint32_t height_px, uint16_t *out_pixels)
{
    struct png_job job = {.codec = codec,
                          .data = data,
                          .n_bytes = n_bytes,
                          .width_px = width_px,
                          .height_px = height_px,
                          .out_pixels = out_pixels};
    return is_png(data, n_bytes) ? png_decode(&job) : -EBADMSG;
}

static void png_put(png_structp png, png_bytep data, size_t n_bytes)
{
    struct image_codec *codec = ((struct png_job *)png_get_io_ptr(png))->codec;
    if (n_bytes > codec->out_capacity - codec->out_used)
        png_error(png, "output too long");
    memcpy(codec->out + codec->out_used, data, n_bytes);
    codec->out_used += n_bytes;
}

static void png_put_flush(png_structp png)
{
    (void)png;
}

static void png_encode_steps(struct png_job *job)
{
    png_set_write_fn(job->png, job, png_put, png_put_flush);
    png_set_IHDR(job->png, job->info, job->width_px, job->height_px, 16, PNG_COLOR_TYPE_GRAY,
                 PNG_INTERLACE_NONE, PNG_COMPRESSION_TYPE_DEFAULT, PNG_FILTER_TYPE_DEFAULT);
    png_set_compression_level(job->png, job->level);
    png_set_filter(job->png, PNG_FILTER_TYPE_BASE, PNG_FILTER_SUB);
    png_write_info(job->png, job->info);
    const uint16_t one = 1;
    if (*(const unsigned char *)&one)
        png_set_swap(job->png);
    for (uint32_t y = 0; y < job->height_px; y++)
        png_write_row(job->png, (png_const_bytep)(job->pixels + (size_t)y * job->width_px));
    png_write_end(job->png, NULL);
}

static int png_encode(struct png_job *job)
{
    job->codec->arena_used = 0;
    job->png = png_create_write_struct_2(PNG_LIBPNG_VER_STRING, job, png_failed, png_warned,
                                         job->codec, arena_alloc, arena_free);
    if (!job->png)
        return -ENOMEM;
    if (!setjmp(png_jmpbuf(job->png))) {
        job->info = png_create_info_struct(job->png);
        if (!job->info)
            png_error(job->png, "out of memory");
        png_encode_steps(job);
        png_destroy_write_struct(&job->png, &job->info);
        return 0;
    }
    png_destroy_write_struct(&job->png, &job->info);
    return -EIO;
}

int image_encode_png(struct image_codec *codec, const uint16_t *pixels, uint32_t width_px,
                     uint32_t height_px, int level, const void **out_data, size_t *out_n_bytes)
{
    if (!width_px || !height_px || width_px > CAPTURE_MAX_SIDE_PX ||
        height_px > CAPTURE_MAX_SIDE_PX || level < 0 || level > 9)
        return -EINVAL;
    // deflate never grows by more than 0.1 %; each row carries a filter byte
    size_t raw = ((size_t)width_px * 2 + 1) * height_px, most = raw + raw / 100 + 65536;
    if (codec->out_capacity < most) {
        unsigned char *grown = realloc(codec->out, most);
        if (!grown)
            return -ENOMEM;
        codec->out = grown;
        codec->out_capacity = most;
    }
    codec->out_used = 0;
    struct png_job job = {.codec = codec,
                          .width_px = width_px,
                          .height_px = height_px,
                          .pixels = pixels,
                          .level = level};
    int err = png_encode(&job);
    *out_data = codec->out;
    *out_n_bytes = codec->out_used;
    return err;
}

int image_write_png(struct image_codec *codec, const char *path, const uint16_t *pixels,
                    uint32_t width_px, uint32_t height_px, int level)
{
    const void *data;
    size_t n_bytes;
    int err = image_encode_png(codec, pixels, width_px, height_px, level, &data, &n_bytes);
    if (err)
        return err;
    int fd = output_file_open(path);
    if (fd < 0)
        return fd;
    err = file_write(fd, data, n_bytes);
    if (close(fd) && !err)
        err = -errno;
    if (err)
        output_file_discard(path);
    return err;
}
