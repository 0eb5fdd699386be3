// SPDX-License-Identifier: Apache-2.0
// Driver `fakenect`: what libfreenect's `record` and our recorder write, read by our own code.
// (libfreenect's reader exits the process on a missing file, reads beyond a truncated one and
// follows "../".) The PGM samples are raw 11-bit disparity in LITTLE-endian order, contrary to the
// PGM specification. Depth comes out in millimetres through disparity.txt, four numbers
// `const_shift pixel_size_mm reference_cm emitter_cm`, when the recording has one.
#include "capture/recording/fakenect.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "capture/io/images.h"
#include "capture/kinect/device_clock.h"
#include "capture/kinect/gravity.h"
#include "capture/recording/sidecar.h"
#include "capture/recording/tum.h"

// Reference 120 cm and pixel size 0.1042 mm give the focal length; the principal point is the
// centre, moved by the offset between the infrared image and the depth image.
static const struct intrinsics default_camera = {575.8, 575.8, 314.5, 235.5, 640, 480};

struct fakenect {
    struct images images; // first: images_stamp and images_decode get it
    struct disparity_table table;
    char *text; // of INDEX.txt; the accelerometer names point into it
    const char **accelerometer;
    struct file_bytes dump;
    const char *dump_read; // the name whose bytes `gravity` comes from
    float gravity_m_s2[3];
};

bool fakenect_parse_name(const char *name, struct fakenect_name *out)
{
    if (!name[0] || !strchr("dra", name[0]) || name[1] != '-')
        return false;
    const char *p = name + 2, *point = strchr(p, '.');
    if (!tum_parse_time(&p, &out->host_ns) || *p != '-' || p[1] < '0' || p[1] > '9')
        return false;
    out->exact = point && p - point == 10;
    char *end;
    unsigned long long ticks = strtoull(p + 1, &end, 10);
    const char *extension = name[0] == 'd' ? ".pgm" : name[0] == 'r' ? ".ppm" : ".dump";
    if (ticks > UINT32_MAX || strcmp(end, extension) != 0)
        return false;
    out->kind = name[0];
    out->ticks = (uint32_t)ticks;
    return true;
}

static const char *take_line(char *line, const char **accelerometer, struct device_clock *clock,
                             struct fakenect_index *index)
{
    struct fakenect_name name;
    size_t n = strcspn(line, " \t\r");
    line[n] = '\0';
    if (!folder_name_is_safe(line))
        return "the name leads out of the recording's folder";
    if (!fakenect_parse_name(line, &name))
        return "expected a name like d-1305031102.160407-123456.pgm";
    if (name.kind == 'a')
        *accelerometer = line;
    if (name.kind != 'd')
        return NULL;
    struct fakenect_frame *frame = &index->frames[index->n_frames];
    frame->name = line;
    frame->accelerometer = *accelerometer;
    bool is_new =
        device_clock_update(clock, name.ticks, name.host_ns, &frame->ticks, &frame->time_ns);
    if (name.exact)
        frame->time_ns = name.host_ns;
    if (!is_new || (index->n_frames && frame->time_ns <= frame[-1].time_ns)) {
        index->n_skipped++;
        return NULL;
    }
    index->n_frames++;
    return NULL;
}

int fakenect_index_parse(char *text, const char *name, const struct log_sink *log,
                         struct fakenect_index *out)
{
    size_t n_lines = 1, line_number = 0;
    for (const char *p = text; *p; p++)
        n_lines += *p == '\n';
    *out = (struct fakenect_index){.frames = malloc(n_lines * sizeof *out->frames)};
    if (!out->frames)
        return -ENOMEM;
    struct device_clock clock = {0};
    const char *reason = NULL, *accelerometer = NULL;
    for (char *line = text, *next; line && !reason; line = next) {
        line_number++;
        next = strchr(line, '\n');
        if (next)
            *next++ = '\0';
        line += strspn(line, " \t\r");
        if (*line && *line != '#')
            reason = take_line(line, &accelerometer, &clock, out);
    }
    if (reason) {
        log_to(log, LOG_LEVEL_ERROR, "%s:%zu: %s", name, line_number, reason);
        fakenect_index_free(out);
        return -EINVAL;
    }
    if (out->n_skipped)
        log_to(log, LOG_LEVEL_WARNING,
               "%s: %zu frames skipped, their stamps repeat or go backwards", name, out->n_skipped);
    return 0;
}

void fakenect_index_free(struct fakenect_index *index)
{
    free(index->frames);
    *index = (struct fakenect_index){0};
}

static int read_index(struct fakenect *fakenect)
{
    struct images *images = &fakenect->images;
    struct file_bytes bytes = {0};
    struct fakenect_index index = {0};
    char name[512];
    snprintf(name, sizeof name, "%s/INDEX.txt", images->path);
    int err = folder_read_text(images->folder, images->path, "INDEX.txt", &images->log, &bytes);
    if (err == -ENOENT)
        log_to(&images->log, LOG_LEVEL_ERROR, "%s: no such file, this is not a fakenect recording",
               name);
    fakenect->text = (char *)bytes.data; // kept: the accelerometer names point into it
    if (!err)
        err = fakenect_index_parse(fakenect->text, name, &images->log, &index);
    if (!err && !index.n_frames) {
        log_to(&images->log, LOG_LEVEL_ERROR, "%s: no depth frames", name);
        err = -ENOENT;
    }
    if (!err) {
        fakenect->accelerometer = malloc(index.n_frames * sizeof *fakenect->accelerometer);
        err = fakenect->accelerometer ? 0 : -ENOMEM;
    }
    for (size_t i = 0; i < index.n_frames && !err; i++) {
        err = images_append(images, index.frames[i].name, index.frames[i].time_ns, i);
        if (!err)
            images->entries[i].device_ticks = index.frames[i].ticks;
        fakenect->accelerometer[i] = index.frames[i].accelerometer;
    }
    fakenect_index_free(&index);
    return err;
}

static int read_model(struct fakenect *fakenect, double out_zero_plane[4])
{
    struct images *images = &fakenect->images;
    struct file_bytes bytes = {0};
    struct disparity_model model = disparity_default();
    int err = folder_read_text(images->folder, images->path, "disparity.txt", &images->log, &bytes);
    if (!err) {
        double k[4] = {0};
        const char *text = (const char *)bytes.data;
        if (sscanf(text, "%lf %lf %lf %lf", &k[0], &k[1], &k[2], &k[3]) == 4)
            model = disparity_from_zero_plane(k[0], k[1], k[2], k[3]);
        else
            model.scale_mm = NAN;
        memcpy(out_zero_plane, k, sizeof k);
    }
    file_bytes_free(&bytes);
    if (err && err != -ENOENT)
        return err;
    if (!disparity_table_fill(&model, &fakenect->table))
        return 0;
    log_to(&images->log, LOG_LEVEL_ERROR,
           "%s/disparity.txt: expected 'const_shift pixel_size_mm reference_cm emitter_cm'",
           images->path);
    return -EINVAL;
}

static void fakenect_close(void *state)
{
    struct fakenect *fakenect = state;
    images_close(&fakenect->images);
    free(fakenect->text);
    free(fakenect->accelerometer);
    file_bytes_free(&fakenect->dump);
    free(fakenect);
}

static int fakenect_open(void **out_state, const char *location,
                         const struct capture_settings *settings, struct capture_info *out_info)
{
    struct fakenect *fakenect = calloc(1, sizeof *fakenect);
    if (!fakenect)
        return -ENOMEM;
    struct images *images = &fakenect->images;
    out_info->units_per_m = DISPARITY_UNITS_PER_M;
    int err = images_open(images, location, &settings->log);
    if (!err)
        err = read_index(fakenect);
    if (!err)
        err = read_model(fakenect, out_info->zero_plane);
    if (!err)
        err = images_find_size(images, out_info);
    if (!err)
        err =
            sidecar_intrinsics(images->folder, location, &default_camera, NULL, settings, out_info);
    if (err) {
        fakenect_close(fakenect);
        return err;
    }
    images->pgm_order = IMAGE_PGM_LITTLE_ENDIAN;
    images->disparity = &fakenect->table;
    *out_state = fakenect;
    return 0;
}

// The 12 bytes of a .dump: int16 x, y, z, int8 tilt, padding, int32 status. A file that is missing
// or short means no gravity for these frames; depth goes on.
static void read_gravity(struct fakenect *fakenect, const char *name)
{
    fakenect->dump_read = name;
    int err = folder_read(fakenect->images.folder, name, 4096, &fakenect->dump);
    const unsigned char *d = fakenect->dump.data;
    for (int i = 0; i < 3; i++)
        fakenect->gravity_m_s2[i] = NAN;
    if (err || fakenect->dump.n_bytes < 6)
        return;
    int16_t counts[3];
    for (int i = 0; i < 3; i++)
        counts[i] = (int16_t)(d[2 * i] | d[2 * i + 1] << 8);
    gravity_from_counts(counts, fakenect->gravity_m_s2);
}

static int fakenect_decode(void *state, uint64_t i, uint16_t *pixels, struct capture_frame *frame)
{
    struct fakenect *fakenect = state;
    const char *name = fakenect->accelerometer[i];
    if (name) {
        if (name != fakenect->dump_read)
            read_gravity(fakenect, name);
        memcpy(frame->gravity_m_s2, fakenect->gravity_m_s2, sizeof frame->gravity_m_s2);
    }
    return images_decode(&fakenect->images, i, pixels, frame);
}

const struct capture_driver capture_driver_fakenect = {
    .name = "fakenect",
    .summary = "folder with INDEX.txt (libfreenect's record, posed's recorder)",
    .open = fakenect_open,
    .stamp = images_stamp,
    .decode = fakenect_decode,
    .close = fakenect_close,
};
