// SPDX-License-Identifier: Apache-2.0
#include "gpu/track/depth_error.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "gpu/base/raw_depth.h"

#define MAX_BYTES   65536
#define SAME_CAMERA 0.002

static const char head[] = "posed camera field 2", head_unchecked[] = "posed camera field 1";

struct depth_error_cell depth_error_cell(const struct intrinsics *camera, double u_px, double v_px)
{
    double x = u_px * (FIELD_COLUMNS - 1) / (camera->width_px - 1);
    double y = v_px * (FIELD_ROWS - 1) / (camera->height_px - 1);
    x = fmin(fmax(x, 0), FIELD_COLUMNS - 1);
    y = fmin(fmax(y, 0), FIELD_ROWS - 1);
    int i = x < FIELD_COLUMNS - 2 ? (int)x : FIELD_COLUMNS - 2;
    int k = y < FIELD_ROWS - 2 ? (int)y : FIELD_ROWS - 2;
    double fx = x - i, fy = y - k;
    int first = k * FIELD_COLUMNS + i;
    return (struct depth_error_cell){
        {first, first + 1, first + FIELD_COLUMNS, first + FIELD_COLUMNS + 1},
        {(1 - fx) * (1 - fy), fx * (1 - fy), (1 - fx) * fy, fx * fy}};
}

double depth_error_at(const struct depth_error *field, double u_px, double v_px)
{
    struct depth_error_cell cell = depth_error_cell(&field->camera, u_px, v_px);
    double sum = 0;
    for (int i = 0; i < 4; i++)
        sum += cell.weight[i] * (double)field->node_per_m[cell.node[i]];
    return sum;
}

double depth_error_rms_per_m(const struct depth_error *field)
{
    double sum2 = 0;
    for (int i = 0; i < FIELD_N_NODES; i++)
        sum2 += (double)field->node_per_m[i] * (double)field->node_per_m[i];
    return sqrt(sum2 / FIELD_N_NODES);
}

void depth_error_fill(const struct depth_error *field, float *out_per_m)
{
    const uint32_t width = field->camera.width_px;
    for (uint32_t v = 0; v < field->camera.height_px; v++)
        for (uint32_t u = 0; u < width; u++)
            out_per_m[(size_t)v * width + u] = (float)depth_error_at(field, u, v);
}

float depth_error_mended_m(float z_m, float per_m)
{
    return fabsf(per_m * z_m) < 0.5f ? raw_depth_corrected_m(z_m, per_m) : 0;
}

static bool differs(double a, double b, double scale)
{
    return !(fabs(a - b) <= SAME_CAMERA * fabs(scale));
}

int depth_error_check_camera(const struct depth_error *field, const struct intrinsics *camera,
                             const char *serial, const char *path, const struct log_sink *log)
{
    const struct intrinsics *a = &field->camera, *b = camera;
    if (field->serial[0] && serial[0] && strcmp(field->serial, serial) != 0) {
        log_to(log, LOG_LEVEL_ERROR,
               "%s: serial: it was learnt from camera %s, this one is %s: posectl calibrate makes "
               "one for it",
               path, field->serial, serial);
        return -EINVAL;
    }
    if (a->width_px != b->width_px || a->height_px != b->height_px ||
        differs(a->fx_px, b->fx_px, a->fx_px) || differs(a->fy_px, b->fy_px, a->fy_px) ||
        differs(a->cx_px, b->cx_px, a->fx_px) || differs(a->cy_px, b->cy_px, a->fy_px)) {
        log_to(
            log, LOG_LEVEL_ERROR,
            "%s: camera: it was learnt at %ux%u fx %g fy %g cx %g cy %g, the source has %ux%u fx "
            "%g fy %g cx %g cy %g: calibrate again with these",
            path, a->width_px, a->height_px, a->fx_px, a->fy_px, a->cx_px, a->cy_px, b->width_px,
            b->height_px, b->fx_px, b->fy_px, b->cx_px, b->cy_px);
        return -EINVAL;
    }
    return 0;
}

// CRC-32 of IEEE 802.3, of all but the carriage returns, which an editor may add.
static uint32_t checksum(const char *text, size_t n_bytes)
{
    uint32_t crc = UINT32_MAX;
    for (size_t i = 0; i < n_bytes; i++) {
        if (text[i] == '\r')
            continue;
        crc ^= (unsigned char)text[i];
        for (int k = 0; k < 8; k++)
            crc = crc >> 1 ^ (crc & 1 ? 0xedb88320u : 0);
    }
    return ~crc;
}

// All that the checksum is of, to be freed; NULL: no memory.
static char *text_of(const struct depth_error *field, size_t *out_n_bytes)
{
    const struct intrinsics *c = &field->camera;
    char *text = NULL;
    FILE *file = open_memstream(&text, out_n_bytes);
    if (!file)
        return NULL;
    fprintf(file, "%s\nserial %s\ncamera %u %u %.9g %.9g %.9g %.9g\nreduction %.4f\nframes %u\n",
            head, field->serial[0] ? field->serial : "-", c->width_px, c->height_px, c->fx_px,
            c->fy_px, c->cx_px, c->cy_px, field->reduction, field->n_frames);
    fprintf(file, "nodes %d %d\n", FIELD_COLUMNS, FIELD_ROWS);
    for (int i = 0; i < FIELD_N_NODES; i++)
        fprintf(file, "%.9g%c", (double)field->node_per_m[i],
                i % FIELD_COLUMNS == FIELD_COLUMNS - 1 ? '\n' : ' ');
    if (fclose(file) == 0)
        return text;
    free(text);
    return NULL;
}

int depth_error_write(const char *path, const struct depth_error *field, const struct log_sink *log)
{
    size_t n_bytes;
    char *text = text_of(field, &n_bytes);
    FILE *file = text ? fopen(path, "wxe") : NULL;
    if (!file) {
        int error = text ? errno : ENOMEM;
        log_to(log, LOG_LEVEL_ERROR, "%s: %s", path,
               error == EEXIST ? "is there already; choose another name or remove it"
                               : strerror(error));
        free(text);
        return -error;
    }
    fwrite(text, 1, n_bytes, file);
    fprintf(file, "end %08x\n", checksum(text, n_bytes));
    free(text);
    bool bad = ferror(file) != 0;
    bad = fclose(file) != 0 || bad;
    if (!bad)
        return 0;
    log_to(log, LOG_LEVEL_ERROR, "%s: %s", path, strerror(errno));
    unlink(path);
    return -EIO;
}

// One line after another.
struct words {
    const char *next, *end, *name;
    const struct log_sink *log;
    unsigned line;
    bool is_cut; // the text ends within the newest line, or before one that was wanted
};

static int refuse(const struct words *words, const char *why, const char *what)
{
    log_to(words->log, LOG_LEVEL_ERROR, "%s:%u: %s: %s", words->name, words->line, why, what);
    return -EINVAL;
}

// Of a line that is not as this program wrote it.
static int refuse_line(const struct words *words, const char *what)
{
    return refuse(words, words->is_cut ? "cut short" : "changed after it was written", what);
}

// The next line without its end, at most size - 1 bytes. False at the end of the text.
static bool next_line(struct words *words, char *out, size_t size)
{
    const bool is_over = words->next >= words->end;
    const char *stop =
        is_over ? NULL : memchr(words->next, '\n', (size_t)(words->end - words->next));
    words->is_cut = !stop;
    if (is_over)
        return false;
    size_t n = (size_t)((stop ? stop : words->end) - words->next);
    words->line++;
    if (n > 0 && words->next[n - 1] == '\r')
        n--;
    snprintf(out, size, "%.*s", (int)(n < size - 1 ? n : size - 1), words->next);
    words->next = stop ? stop + 1 : words->end;
    return true;
}

static int parse_nodes(struct words *words, struct depth_error *out)
{
    char line[1024];
    for (int k = 0; k < FIELD_ROWS; k++) {
        if (!next_line(words, line, sizeof line))
            return refuse_line(words, "more nodes are expected");
        char *at = line;
        for (int i = 0; i < FIELD_COLUMNS; i++) {
            char *end;
            double value = strtod(at, &end);
            if (end == at || !(fabs(value) <= FIELD_MAX_PER_M))
                return refuse_line(words, "20 numbers of at most 0.05 are expected");
            out->node_per_m[k * FIELD_COLUMNS + i] = (float)value;
            at = end;
        }
        if (*at)
            return refuse_line(words, "more than 20 numbers");
    }
    return 0;
}

// The last line, with the checksum of all before it; version 1 has none.
static int parse_end(struct words *words, const char *text, bool is_unchecked)
{
    const size_t n_checked = (size_t)(words->next - text);
    char line[64] = "", expected[64] = "end";
    if (!is_unchecked)
        snprintf(expected, sizeof expected, "end %08x", checksum(text, n_checked));
    const bool is_there = next_line(words, line, sizeof line);
    words->is_cut = words->is_cut && strncmp(expected, line, strlen(line)) == 0;
    if (!is_unchecked && !words->is_cut && strncmp(line, "end ", 4) == 0 &&
        strcmp(line, expected) != 0)
        return refuse_line(words, "the checksum does not match what stands above; take another "
                                  "copy or calibrate again (posectl calibrate)");
    if (!is_there || strcmp(line, expected) != 0)
        return refuse_line(words, "\"end\" is expected");
    if (next_line(words, line, sizeof line))
        return refuse(words, "changed after it was written", "more text after \"end\"");
    if (is_unchecked)
        log_to(words->log, LOG_LEVEL_NOTICE,
               "%s: of version 1, without a checksum: nobody sees whether a number was changed; "
               "posectl calibrate writes one with it",
               words->name);
    return 0;
}

// The first line; *out_unchecked: of version 1.
static int parse_head(struct words *words, bool *out_unchecked)
{
    const size_t n_name = strlen(head) - 1; // all but the version
    char line[256] = "";
    const bool is_there = next_line(words, line, sizeof line);
    *out_unchecked = strcmp(line, head_unchecked) == 0;
    if (*out_unchecked || strcmp(line, head) == 0)
        return 0;
    if (is_there && words->is_cut && strncmp(line, head, strlen(line)) == 0)
        return refuse_line(words, "\"posed camera field 2\" is expected");
    if (strncmp(line, head, n_name) == 0)
        return refuse(words, "of another version", "1 and 2 are read");
    return refuse(words, "not a camera's field",
                  is_there ? "it does not begin with \"posed camera field 2\"" : "it is empty");
}

int depth_error_parse(const char *text, size_t n_bytes, const char *name,
                      const struct log_sink *log, struct depth_error *out)
{
    struct words words = {text, text + n_bytes, name, log, 0, false};
    struct intrinsics *c = &out->camera;
    char line[256];
    int end = 0;
    bool is_unchecked;
    memset(out, 0, sizeof *out);
    int status = parse_head(&words, &is_unchecked);
    if (status < 0)
        return status;
    if (memchr(text, 0, n_bytes))
        return refuse(&words, "changed after it was written", "a NUL byte somewhere");
    if (!next_line(&words, line, sizeof line) ||
        sscanf(line, "serial %63s%n", out->serial, &end) != 1 || line[end])
        return refuse_line(&words, "\"serial NUMBER\" is expected, - where there is none");
    if (strcmp(out->serial, "-") == 0)
        out->serial[0] = 0;
    if (!next_line(&words, line, sizeof line) ||
        sscanf(line, "camera %9u %9u %lf %lf %lf %lf%n", &c->width_px, &c->height_px, &c->fx_px,
               &c->fy_px, &c->cx_px, &c->cy_px, &end) != 6 ||
        line[end] || c->width_px < 32 || c->width_px > 4096 || c->height_px < 32 ||
        c->height_px > 4096 || !isfinite(c->fx_px) || !isfinite(c->fy_px) || !isfinite(c->cx_px) ||
        !isfinite(c->cy_px))
        return refuse_line(&words, "\"camera WIDTH HEIGHT FX FY CX CY\" is expected");
    if (!next_line(&words, line, sizeof line) ||
        sscanf(line, "reduction %lf%n", &out->reduction, &end) != 1 || line[end] ||
        !(out->reduction >= -1 && out->reduction <= 1))
        return refuse_line(&words, "\"reduction SHARE\" is expected");
    if (!next_line(&words, line, sizeof line) ||
        sscanf(line, "frames %9u%n", &out->n_frames, &end) != 1 || line[end])
        return refuse_line(&words, "\"frames N\" is expected");
    if (!next_line(&words, line, sizeof line) || strcmp(line, "nodes 20 15") != 0)
        return refuse_line(&words, "\"nodes 20 15\" is expected");
    status = parse_nodes(&words, out);
    if (status < 0)
        return status;
    return parse_end(&words, text, is_unchecked);
}

int depth_error_read(const char *path, const struct log_sink *log, struct depth_error *out)
{
    char *text = malloc(MAX_BYTES);
    FILE *file = text ? fopen(path, "re") : NULL;
    if (!file) {
        int error = text ? errno : ENOMEM;
        log_to(log, LOG_LEVEL_ERROR, "%s: %s", path, strerror(error));
        free(text);
        return -error;
    }
    errno = EIO; // where the library says no more
    size_t n = fread(text, 1, MAX_BYTES, file);
    const int error = errno;
    int status = ferror(file) ? -EIO : n == MAX_BYTES ? -EINVAL : 0;
    if (status < 0)
        log_to(log, LOG_LEVEL_ERROR, "%s: %s", path,
               status == -EIO ? strerror(error) : "too long for a camera's field");
    else
        status = depth_error_parse(text, n, path, log, out);
    fclose(file);
    free(text);
    return status;
}
