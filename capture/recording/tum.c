// SPDX-License-Identifier: Apache-2.0
// TUM RGB-D folders: depth.txt with lines `timestamp path`, 16-bit PNG of 1/5000 m. ICL-NUIM, Bonn,
// ETH3D and what the recorder writes have the same layout; a calibration.txt makes the difference.
// Time stamps are parsed as decimal text, not as double: 1305031102.160407 has more digits than a
// double keeps nanoseconds of, and the trajectory must carry the recording's own times.
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "capture/io/images.h"
#include "capture/recording/accelerometer.h"
#include "capture/recording/tum.h"
#include "proto/trajectory.h"

// The camera of most TUM and ICL recordings, for 640x480.
static const struct intrinsics default_camera = {525, 525, 319.5, 239.5, 640, 480};
#define DEFAULT_UNITS_PER_M 5000

bool tum_parse_time(const char **text, int64_t *out_ns)
{
    const char *p = *text;
    int64_t seconds = 0, ns = 0, scale = 1000000000;
    int n_digits = 0;
    for (; *p >= '0' && *p <= '9'; p++, n_digits++)
        if (n_digits < 11)
            seconds = 10 * seconds + (*p - '0');
    if (n_digits == 0 || n_digits > 10 || seconds > 9000000000)
        return false;
    if (*p == '.')
        for (p++; *p >= '0' && *p <= '9'; p++)
            if (scale > 1) {
                scale /= 10;
                ns += scale * (*p - '0');
            }
    *text = p;
    *out_ns = seconds * 1000000000 + ns;
    return true;
}

static int compare_entries(const void *a, const void *b)
{
    const struct tum_entry *x = a, *y = b;
    if (x->time_ns != y->time_ns)
        return x->time_ns < y->time_ns ? -1 : 1;
    return x->line < y->line ? -1 : 1;
}

// Sorts by time and drops what has the time of its predecessor.
static void put_in_order(struct tum_index *index, const char *name, const struct log_sink *log)
{
    size_t n_behind = 0, n_kept = 0;
    for (size_t i = 1; i < index->n_entries; i++)
        n_behind += index->entries[i].time_ns < index->entries[i - 1].time_ns;
    if (n_behind) {
        qsort(index->entries, index->n_entries, sizeof *index->entries, compare_entries);
        log_to(log, LOG_LEVEL_WARNING, "%s: %zu time stamps go backwards, lines sorted by time",
               name, n_behind);
    }
    for (size_t i = 0; i < index->n_entries; i++)
        if (i == 0 || index->entries[i].time_ns != index->entries[n_kept - 1].time_ns)
            index->entries[n_kept++] = index->entries[i];
    if (n_kept < index->n_entries)
        log_to(log, LOG_LEVEL_WARNING, "%s: %zu lines repeat a time stamp, the first is kept", name,
               index->n_entries - n_kept);
    index->n_entries = n_kept;
}

static const char *parse_line(char *line, struct tum_entry *out)
{
    const char *p = line + strspn(line, " \t,");
    if (!tum_parse_time(&p, &out->time_ns) || !strchr(" \t,", *p) || !*p)
        return "expected 'timestamp path'";
    p += strspn(p, " \t,");
    size_t n = strcspn(p, " \t\r");
    if (n == 0)
        return "no path after the time stamp";
    line[(size_t)(p - line) + n] = '\0';
    if (!folder_name_is_safe(p))
        return "the path leads out of the recording's folder";
    out->path = p;
    return NULL;
}

int tum_index_parse(char *text, const char *name, const struct log_sink *log, struct tum_index *out)
{
    size_t n_lines = 1;
    for (const char *p = text; *p; p++)
        n_lines += *p == '\n';
    *out = (struct tum_index){.entries = malloc(n_lines * sizeof *out->entries)};
    if (!out->entries)
        return -ENOMEM;
    const char *reason = NULL;
    size_t line_number = 0;
    if (!strncmp(text, "\xef\xbb\xbf", 3))
        text += 3;
    for (char *line = text, *next; line && !reason; line = next) {
        line_number++;
        next = strchr(line, '\n');
        if (next)
            *next++ = '\0';
        const char *first = line + strspn(line, " \t\r");
        if (*first == '\0' || *first == '#')
            continue;
        struct tum_entry *entry = &out->entries[out->n_entries];
        entry->line = line_number;
        reason = parse_line(line, entry);
        out->n_entries++;
    }
    if (reason) {
        log_to(log, LOG_LEVEL_ERROR, "%s:%zu: %s", name, line_number, reason);
        tum_index_free(out);
        return -EINVAL;
    }
    put_in_order(out, name, log);
    return 0;
}

void tum_index_free(struct tum_index *index)
{
    free(index->entries);
    *index = (struct tum_index){0};
}

static int read_index(struct images *images)
{
    struct file_bytes bytes = {0};
    struct tum_index index;
    char name[512];
    snprintf(name, sizeof name, "%s/depth.txt", images->path);
    int err = folder_read_text(images->folder, images->path, "depth.txt", &images->log, &bytes);
    if (err == -ENOENT)
        log_to(&images->log, LOG_LEVEL_ERROR, "%s: no such file, this is not a TUM recording",
               name);
    if (!err)
        err = tum_index_parse((char *)bytes.data, name, &images->log, &index);
    if (err)
        goto done;
    for (size_t i = 0; i < index.n_entries && !err; i++)
        err = images_append(images, index.entries[i].path, index.entries[i].time_ns, i);
    if (!index.n_entries) {
        log_to(&images->log, LOG_LEVEL_ERROR, "%s: no frames", name);
        err = -ENOENT;
    }
    tum_index_free(&index);
done:
    file_bytes_free(&bytes);
    return err;
}

struct tum {
    struct images images; // first: images_stamp takes the whole
    struct accelerometer accelerometer;
};

// Depth plays without it, so only memory is a reason to fail.
static int read_accelerometer(struct tum *tum)
{
    const struct images *images = &tum->images;
    struct file_bytes bytes = {0};
    char name[512];
    snprintf(name, sizeof name, "%s/accelerometer.txt", images->path);
    int err =
        folder_read_text(images->folder, images->path, "accelerometer.txt", &images->log, &bytes);
    if (!err)
        err = accelerometer_parse((char *)bytes.data, name, &images->log, &tum->accelerometer);
    file_bytes_free(&bytes);
    return err == -ENOMEM ? err : 0;
}

static void tum_close(void *state)
{
    struct tum *tum = state;
    accelerometer_free(&tum->accelerometer);
    images_close_driver(&tum->images);
}

static int tum_open(void **out_state, const char *location, const struct capture_settings *settings,
                    struct capture_info *out_info)
{
    void *images;
    int err = images_open_driver(&images, location, settings, &default_camera, DEFAULT_UNITS_PER_M,
                                 read_index, out_info);
    if (err)
        return err;
    struct tum *tum = realloc(images, sizeof *tum);
    if (!tum) {
        images_close_driver(images);
        return -ENOMEM;
    }
    tum->accelerometer = (struct accelerometer){0};
    err = read_accelerometer(tum);
    if (err) {
        tum_close(tum);
        return err;
    }
    *out_state = tum;
    return 0;
}

static int tum_decode(void *state, uint64_t i, uint16_t *pixels, struct capture_frame *frame)
{
    struct tum *tum = state;
    accelerometer_at(&tum->accelerometer, tum->images.entries[i].time_ns, frame->gravity_m_s2);
    return images_decode(&tum->images, i, pixels, frame);
}

// The first name in the folder that ends in .gt.freiburg, as ICL-NUIM calls its ground truth.
static bool find_icl_truth(int folder, char out[256])
{
    int fd = openat(folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *dir = fd < 0 ? NULL : fdopendir(fd);
    static const char suffix[] = ".gt.freiburg";
    out[0] = '\0';
    for (struct dirent *entry; dir && (entry = readdir(dir));) {
        size_t n = strlen(entry->d_name), n_suffix = sizeof suffix - 1;
        if (n > n_suffix && !strcmp(entry->d_name + n - n_suffix, suffix) &&
            (!out[0] || strcmp(entry->d_name, out) < 0))
            snprintf(out, 256, "%s", entry->d_name);
    }
    if (dir)
        closedir(dir);
    else if (fd >= 0)
        close(fd);
    return out[0] != '\0';
}

static long tum_ground_truth(const void *state, struct stamped_pose **out)
{
    const struct images *images = state;
    struct trajectory truth;
    char name[256] = "groundtruth.txt", path[1024];
    int fd = folder_open_file(images->folder, name);
    if (fd == -ENOENT && find_icl_truth(images->folder, name))
        fd = folder_open_file(images->folder, name);
    if (fd == -ENOENT)
        return 0;
    snprintf(path, sizeof path, "%s/%s", images->path, name);
    FILE *file = fd < 0 ? NULL : fdopen(fd, "r");
    if (!file) {
        int err = fd < 0 ? fd : -errno;
        if (fd >= 0)
            close(fd);
        log_to(&images->log, LOG_LEVEL_ERROR, "%s: %s", path, folder_error(err));
        return err;
    }
    int err = trajectory_parse_tum(file, path, &images->log, &truth);
    fclose(file);
    if (err)
        return err;
    *out = truth.poses; // malloc'ed by trajectory_parse_tum, handed on
    truth.poses = NULL;
    const long n = (long)truth.n_poses;
    trajectory_free(&truth);
    return n;
}

const struct capture_driver capture_driver_tum = {
    .name = "tum",
    .summary = "folder with depth.txt (TUM RGB-D, ICL-NUIM, Bonn, ETH3D, posed's recorder)",
    .open = tum_open,
    .stamp = images_stamp,
    .decode = tum_decode,
    .ground_truth = tum_ground_truth,
    .close = tum_close,
};
