// SPDX-License-Identifier: Apache-2.0
#include "tools/align/images.h"

#include <dirent.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "capture/cloud/cloud.h"
#include "capture/io/folder.h"
#include "capture/io/image.h"
#include "capture/recording/sidecar.h"
#include "gpu/track/depth_error.h"
#include "proto/se3.h"
#include "proto/trajectory.h"

#define MAX_IMAGES 100000

static int bad(const struct images *m, const char *path, size_t line, const char *what)
{
    log_to(&m->log, LOG_LEVEL_ERROR, "%s:%zu: %s", path, line, what);
    return -EINVAL;
}

// Makes room for one more image and returns its number, or -ENOMEM.
static long add(struct images *m, const char *folder, size_t folder_length, const char *name)
{
    if ((m->n & (m->n - 1)) == 0) { // a power of two: full
        size_t room = m->n ? 2 * (size_t)m->n : 1;
        char **names = realloc(m->names, room * sizeof *names);
        m->names = names ? names : m->names;
        char **paths = realloc(m->paths, room * sizeof *paths);
        m->paths = paths ? paths : m->paths;
        struct se3 *poses = realloc(m->T_world_image, room * sizeof *poses);
        m->T_world_image = poses ? poses : m->T_world_image;
        if (!names || !paths || !poses)
            return -ENOMEM;
        // cppcheck-suppress memleak; the fields above keep them
    }
    char *path = NULL;
    m->names[m->n] = strdup(name);
    if (!m->names[m->n])
        return -ENOMEM;
    if (asprintf(&path, "%.*s%s", (int)folder_length, folder, name) < 0) {
        free(m->names[m->n]);
        return -ENOMEM;
    }
    m->paths[m->n] = path;
    m->T_world_image[m->n] = se3_identity();
    return m->n++;
}

static int compare_names(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static int check_names(const struct images *m, const char *path)
{
    char **sorted = malloc((m->n + 1) * sizeof *sorted);
    int rc = sorted ? 0 : -ENOMEM;
    if (rc == 0) {
        memcpy(sorted, m->names, m->n * sizeof *sorted);
        qsort(sorted, m->n, sizeof *sorted, compare_names);
    }
    for (uint32_t i = 1; i < m->n && rc == 0; i++)
        if (!strcmp(sorted[i - 1], sorted[i])) {
            log_to(&m->log, LOG_LEVEL_ERROR, "%s: two images are named %s", path, sorted[i]);
            rc = -EINVAL;
        }
    free(sorted);
    return rc;
}

static int load_scan(void *user, uint32_t image, struct align_image **out)
{
    const struct images *m = user;
    struct cloud cloud;
    *out = NULL;
    int rc = cloud_read(m->paths[image], &m->log, &cloud);
    if (rc < 0)
        return rc;
    if (!cloud.grid) {
        log_to(&m->log, LOG_LEVEL_ERROR,
               "%s: no range_grid: a scan's grid is what correspondences are sought in",
               m->paths[image]);
        rc = -EINVAL;
    } else {
        struct align_grid grid = {cloud.x_m,  cloud.y_m,       cloud.z_m,   cloud.n_points,
                                  cloud.grid, cloud.n_columns, cloud.n_rows};
        rc = align_image_create(out, &grid, &m->settings, m->paths[image], &m->log);
    }
    cloud_free(&cloud);
    return rc;
}

static int read_file(const struct images *m, uint32_t image, uint16_t *out)
{
    struct file_bytes file = {0};
    struct image_codec *codec = NULL;
    int rc = file_read(m->paths[image], FOLDER_MAX_IMAGE_BYTES, &m->log, &file);
    if (rc == 0)
        rc = image_codec_create(&codec);
    if (rc == 0)
        rc = image_decode(codec, file.data, file.n_bytes, m->paths[image], IMAGE_PGM_BIG_ENDIAN,
                          m->camera.width_px, m->camera.height_px, &m->log, out);
    image_codec_destroy(&codec);
    file_bytes_free(&file);
    return rc;
}

int images_read_depth(const struct images *m, uint32_t image, uint16_t *out)
{
    if (!m->depth)
        return read_file(m, image, out);
    memcpy(out, m->depth[image], (size_t)m->camera.width_px * m->camera.height_px * sizeof *out);
    return 0;
}

static int load_depth(void *user, uint32_t image, struct align_image **out)
{
    const struct images *m = user;
    size_t n = (size_t)m->camera.width_px * m->camera.height_px;
    float *z_m = malloc(n * sizeof *z_m);
    uint16_t *raw = malloc(n * sizeof *raw);
    int rc = z_m && raw ? images_read_depth(m, image, raw) : -ENOMEM;
    *out = NULL;
    for (size_t k = 0; k < n && rc == 0; k++) {
        bool valid = raw[k] != DEPTH_INVALID_ZERO && raw[k] != DEPTH_INVALID_MAX;
        z_m[k] = valid ? (float)(raw[k] / m->units_per_m) : 0;
        if (m->field_per_m)
            z_m[k] = depth_error_mended_m(z_m[k], m->field_per_m[k]);
    }
    if (rc == 0)
        rc = align_image_create_depth(out, z_m, &m->camera, &m->settings, m->names[image], &m->log);
    free(z_m);
    free(raw);
    return rc;
}

static void open_source(struct images *m, int (*load)(void *, uint32_t, struct align_image **))
{
    m->source = (struct align_source){m->n, (const char *const *)m->names, load, m};
}

void images_source_depth(struct images *images)
{
    open_source(images, load_depth);
}

static int parse_conf(struct images *m, const char *path, char *text)
{
    const char *slash = strrchr(path, '/');
    size_t folder_length = slash ? (size_t)(slash - path) + 1 : 0, line = 0;
    for (char *at = text, *next; at; at = next) {
        next = strchr(at, '\n');
        if (next)
            *next++ = 0;
        line++;
        char name[1024];
        double t[3], q[4];
        int end = 0;
        at += strspn(at, " \t\r");
        if (!*at || *at == '#')
            continue;
        if (!strncmp(at, "camera", 6)) {
            snprintf(m->head, sizeof m->head, "%.*s", (int)strcspn(at, "\r"), at);
            continue;
        }
        int n = sscanf(at, "bmesh %1023s %lf %lf %lf %lf %lf %lf %lf %n", name, &t[0], &t[1], &t[2],
                       &q[0], &q[1], &q[2], &q[3], &end);
        if (n >= 1 && n < 8)
            return bad(m, path, line, "no pose: bmesh FILE tx ty tz qx qy qz qw is expected");
        if (n < 8 || at[end])
            return bad(m, path, line, "bmesh FILE tx ty tz qx qy qz qw is expected");
        double norm = sqrt(q[0] * q[0] + q[1] * q[1] + q[2] * q[2] + q[3] * q[3]);
        if (!(fabs(norm - 1) < 0.01) || !isfinite(t[0] + t[1] + t[2]))
            return bad(m, path, line, "not a unit quaternion and a finite translation");
        long image = add(m, path, folder_length, name);
        if (image < 0)
            return (int)image;
        double conjugate[4] = {-q[0], -q[1], -q[2], q[3]};
        m->T_world_image[image] = se3_from_quaternion(conjugate, t);
        if (m->n > MAX_IMAGES)
            return bad(m, path, line, "more than 100000 images");
    }
    if (m->n == 0)
        return bad(m, path, line, "no image (bmesh FILE tx ty tz qx qy qz qw)");
    return check_names(m, path);
}

static int finish(struct images *m, int rc)
{
    if (rc == -ENOMEM)
        log_to(&m->log, LOG_LEVEL_ERROR, "out of memory");
    if (rc < 0)
        images_free(m);
    return rc;
}

int images_open_conf(struct images *out, const char *path, const struct log_sink *log)
{
    struct file_bytes file = {0};
    *out = (struct images){.log = *log};
    align_image_settings_default(&out->settings);
    int rc = file_read(path, FOLDER_MAX_TEXT_BYTES, log, &file);
    if (rc == 0 && memchr(file.data, 0, file.n_bytes))
        rc = bad(out, path, 1, "not a text");
    if (rc == 0)
        rc = parse_conf(out, path, (char *)file.data);
    file_bytes_free(&file);
    if (rc == 0)
        open_source(out, load_scan);
    return finish(out, rc);
}

static int list_depth(struct images *m, const char *folder)
{
    struct dirent **entries;
    int n = scandir(folder, &entries, NULL, alphasort), rc = 0;
    if (n < 0) {
        rc = -errno;
        log_to(&m->log, LOG_LEVEL_ERROR, "%s: %s", folder, strerror(errno));
        return rc;
    }
    char prefix[4200];
    snprintf(prefix, sizeof prefix, "%s/", folder);
    for (int k = 0; k < n; k++) {
        const char *dot = strrchr(entries[k]->d_name, '.');
        if (rc == 0 && dot && (!strcmp(dot, ".png") || !strcmp(dot, ".pgm")))
            rc = add(m, prefix, strlen(prefix), entries[k]->d_name) < 0 ? -ENOMEM : 0;
        free(entries[k]);
    }
    free(entries);
    return rc;
}

static int read_numbers(const struct images *m, const char *path, char *text, double **out,
                        size_t *out_n)
{
    size_t room = 0, line = 1;
    *out = NULL;
    *out_n = 0;
    for (char *at = text; *at;) {
        if (*at == '\n')
            line++;
        if (strchr(" \t\r\n,;", *at)) {
            at++;
            continue;
        }
        if (*at == '#') {
            at += strcspn(at, "\n");
            continue;
        }
        char *end;
        double value = strtod(at, &end);
        if (end == at || !isfinite(value))
            return bad(m, path, line, "not a number");
        if (*out_n == room) {
            room = room ? 2 * room : 64;
            double *grown = realloc(*out, room * sizeof *grown);
            if (!grown)
                return -ENOMEM;
            *out = grown;
        }
        (*out)[(*out_n)++] = value;
        at = end;
    }
    return 0;
}

static int take_matrix(const struct images *m, const char *path, const double *v, struct se3 *out)
{
    double off = 0;
    for (int i = 0; i < 3; i++) {
        for (int j = 0; j < 3; j++) {
            double dot = 0;
            for (int k = 0; k < 3; k++)
                dot += v[4 * i + k] * v[4 * j + k];
            off = fmax(off, fabs(dot - (i == j)));
            out->r[3 * i + j] = v[4 * i + j];
        }
        out->t_m[i] = v[4 * i + 3];
    }
    if (off > 0.01 || v[12] != 0 || v[13] != 0 || v[14] != 0 || v[15] != 1) {
        log_to(&m->log, LOG_LEVEL_ERROR, "%s: a 4x4 matrix is not a rigid motion", path);
        return -EINVAL;
    }
    *out = se3_normalized(out);
    return 0;
}

static int take_poses(struct images *m, const char *path)
{
    struct file_bytes file = {0};
    double *v = NULL;
    size_t n = 0;
    int rc = file_read(path, FOLDER_MAX_TEXT_BYTES, &m->log, &file);
    if (rc == 0 && memchr(file.data, 0, file.n_bytes))
        rc = bad(m, path, 1, "not a text");
    if (rc == 0)
        rc = read_numbers(m, path, (char *)file.data, &v, &n);
    file_bytes_free(&file);
    if (rc == 0 && n != 8 * (size_t)m->n && n != 16 * (size_t)m->n) {
        log_to(&m->log, LOG_LEVEL_ERROR,
               "%s: %zu numbers for %u images: 8 (t tx ty tz qx qy qz qw) or 16 (4x4) each are "
               "expected",
               path, n, m->n);
        rc = -EINVAL;
    }
    m->times_ns = rc == 0 ? calloc(m->n, sizeof *m->times_ns) : NULL;
    if (rc == 0 && !m->times_ns)
        rc = -ENOMEM;
    for (uint32_t i = 0; i < m->n && rc == 0; i++) {
        const double *p = v + n / m->n * i;
        m->times_ns[i] = n == 8 * (size_t)m->n ? (int64_t)llround(p[0] * 1e9) : i;
        if (n == 16 * (size_t)m->n)
            rc = take_matrix(m, path, p, &m->T_world_image[i]);
        else if (p[4] * p[4] + p[5] * p[5] + p[6] * p[6] + p[7] * p[7] < 0.9)
            rc = bad(m, path, i + 1, "not a unit quaternion");
        else
            m->T_world_image[i] = se3_from_quaternion(p + 4, p + 1);
    }
    free(v);
    return rc;
}

static int no_poses(struct images *m)
{
    m->times_ns = calloc(m->n, sizeof *m->times_ns);
    for (uint32_t i = 0; m->times_ns && i < m->n; i++) {
        m->times_ns[i] = i;
        m->T_world_image[i] = se3_identity();
    }
    return m->times_ns ? 0 : -ENOMEM;
}

int images_open_depth(struct images *out, const char *folder, const char *poses,
                      const char *calibration, double units_per_m, const struct log_sink *log)
{
    struct file_bytes file = {0};
    double units = 0;
    *out = (struct images){.log = *log, .units_per_m = units_per_m};
    align_image_settings_default(&out->settings);
    out->settings.normal_radius_px = 3;
    int rc = list_depth(out, folder);
    if (rc == 0 && out->n == 0) {
        log_to(log, LOG_LEVEL_ERROR, "%s: no depth image (*.png, *.pgm)", folder);
        rc = -EINVAL;
    }
    if (rc == 0)
        rc = file_read(calibration, FOLDER_MAX_TEXT_BYTES, log, &file);
    if (rc == 0)
        rc = sidecar_parse_calibration((char *)file.data, calibration, log, &out->camera, &units);
    out->units_per_m = units > 0 && !(units_per_m > 0) ? units : units_per_m;
    if (rc == 0 && !(out->units_per_m > 0)) {
        log_to(log, LOG_LEVEL_ERROR, "%s does not say how many units a metre has: --units",
               calibration);
        rc = -EINVAL;
    }
    if (rc == 0)
        rc = file_read(out->paths[0], FOLDER_MAX_IMAGE_BYTES, log, &file);
    uint32_t width = 0, height = 0;
    if (rc == 0)
        rc = image_peek(file.data, file.n_bytes, out->paths[0], log, &width, &height);
    out->camera.width_px = width;
    out->camera.height_px = height;
    if (rc == 0)
        rc = poses ? take_poses(out, poses) : no_poses(out);
    file_bytes_free(&file);
    if (rc == 0)
        open_source(out, load_depth);
    return finish(out, rc);
}

static int close_file(const struct images *m, FILE *file, const char *path)
{
    bool wrong = ferror(file);
    wrong = fclose(file) != 0 || wrong;
    if (wrong)
        log_to(&m->log, LOG_LEVEL_ERROR, "%s: could not write it", path);
    return wrong ? -EIO : 0;
}

static FILE *open_file(const struct images *m, const char *path)
{
    FILE *file = fopen(path, "w");
    if (!file)
        log_to(&m->log, LOG_LEVEL_ERROR, "%s: %s", path, strerror(errno));
    return file;
}

int images_write_conf(const struct images *m, const struct se3 *T_world_image, const char *path)
{
    FILE *file = open_file(m, path);
    if (!file)
        return -EIO;
    if (m->head[0])
        fprintf(file, "%s\n", m->head);
    for (uint32_t i = 0; i < m->n; i++) {
        double q[4];
        const double *t = T_world_image[i].t_m;
        se3_to_quaternion(&T_world_image[i], q);
        fprintf(file, "bmesh %s %.10g %.10g %.10g %.10g %.10g %.10g %.10g\n", m->names[i], t[0],
                t[1], t[2], -q[0], -q[1], -q[2], q[3]);
    }
    return close_file(m, file, path);
}

int images_write_tum(const struct images *m, const struct se3 *T_world_image, const char *path)
{
    FILE *file = open_file(m, path);
    int rc = 0;
    if (!file)
        return -EIO;
    for (uint32_t i = 0; i < m->n && rc == 0; i++) {
        struct stamped_pose pose = {m->times_ns ? m->times_ns[i] : i, T_world_image[i]};
        rc = trajectory_write_tum(file, &pose);
    }
    int closed = close_file(m, file, path);
    return rc ? rc : closed;
}

void images_free(struct images *m)
{
    for (uint32_t i = 0; i < m->n; i++) {
        free(m->names ? m->names[i] : NULL);
        free(m->paths ? m->paths[i] : NULL);
        if (m->depth)
            free(m->depth[i]);
    }
    free(m->names);
    free(m->paths);
    free(m->T_world_image);
    free(m->times_ns);
    free(m->depth);
    free(m->tracked);
    free(m->field_per_m);
    m->field_per_m = NULL;
    m->tracked = NULL;
    m->names = m->paths = NULL;
    m->T_world_image = NULL;
    m->times_ns = NULL;
    m->depth = NULL;
    m->n = 0;
}
