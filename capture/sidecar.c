// SPDX-License-Identifier: Apache-2.0
#include "capture/sidecar.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "capture/folder.h"

// Reads at most n_most numbers, skipping comments. Returns how many there were, n_most + 1 when
// there is more text, or -1 when a word is not a finite number.
static int parse_numbers(const char *text, double *out, int n_most)
{
    int n = 0;
    for (;;) {
        text += strspn(text, " \t\r\n");
        if (*text == '#') {
            text += strcspn(text, "\n");
            continue;
        }
        if (!*text)
            return n;
        if (n == n_most)
            return n_most + 1;
        char *end;
        out[n] = strtod(text, &end);
        if (end == text || !strchr(" \t\r\n#", *end) || !isfinite(out[n]))
            return -1;
        text = end;
        n++;
    }
}

static int refuse(const struct log_sink *log, const char *name, const char *reason)
{
    log_to(log, LOG_LEVEL_ERROR, "%s: %s", name, reason);
    return -EINVAL;
}

int sidecar_parse_calibration(const char *text, const char *name, const struct log_sink *log,
                              struct intrinsics *out)
{
    double k[6] = {0};
    int n = parse_numbers(text, k, 6);
    if (n == -1)
        return refuse(log, name, "a word is not a finite number, expected 'fx fy cx cy'");
    if (n != 4 && n != 6)
        return refuse(log, name, "expected the 4 numbers 'fx fy cx cy' or 6 with width and height");
    if (!(k[0] > 0) || k[1] == 0)
        return refuse(log, name, "fx must be positive and fy not 0");
    if (n == 6 && (!(k[4] >= 1 && k[4] <= 65535) || !(k[5] >= 1 && k[5] <= 65535)))
        return refuse(log, name, "width and height out of range");
    *out = (struct intrinsics){.fx_px = k[0],
                               .fy_px = k[1],
                               .cx_px = k[2],
                               .cy_px = k[3],
                               .width_px = (uint32_t)k[4],
                               .height_px = (uint32_t)k[5]};
    return 0;
}

int sidecar_parse_matrix(const char *text, const char *name, const struct log_sink *log,
                         struct intrinsics *out)
{
    double m[9];
    if (parse_numbers(text, m, 9) != 9)
        return refuse(log, name, "expected the 9 finite numbers of a 3x3 camera matrix");
    if (m[1] != 0 || m[3] != 0 || m[6] != 0 || m[7] != 0 || m[8] != 1)
        return refuse(log, name, "not a camera matrix without skew: fx 0 cx / 0 fy cy / 0 0 1");
    if (!(m[0] > 0) || m[4] == 0)
        return refuse(log, name, "fx must be positive and fy not 0");
    *out = (struct intrinsics){.fx_px = m[0], .fy_px = m[4], .cx_px = m[2], .cy_px = m[5]};
    return 0;
}

static int read_any(int folder, const char *path, const struct log_sink *log, const char **out_name,
                    struct intrinsics *out)
{
    static const struct {
        const char *name;
        int (*parse)(const char *, const char *, const struct log_sink *, struct intrinsics *);
    } files[] = {{"calibration.txt", sidecar_parse_calibration},
                 {"camera-intrinsics.txt", sidecar_parse_matrix}};
    struct file_bytes bytes = {0};
    int err = -ENOENT;
    for (size_t i = 0; i < 2 && err == -ENOENT; i++) {
        err = folder_read_text(folder, path, files[i].name, log, &bytes);
        if (!err) {
            char name[512];
            snprintf(name, sizeof name, "%s/%s", path, files[i].name);
            err = files[i].parse((const char *)bytes.data, name, log, out);
            *out_name = files[i].name;
        }
    }
    file_bytes_free(&bytes);
    return err;
}

int sidecar_intrinsics(int folder, const char *path, const struct intrinsics *fallback,
                       const struct capture_settings *settings, struct capture_info *out_info)
{
    struct intrinsics found, *camera = &out_info->camera;
    const char *name = "the format's default";
    int err = read_any(folder, path, &settings->log, &name, &found);
    if (err == -ENOENT)
        found = *fallback;
    else if (err)
        return err;
    bool overridden = settings->fx_px != 0 && settings->fy_px != 0 && settings->cx_px != 0 &&
                      settings->cy_px != 0;
    if (found.width_px && !overridden &&
        (found.width_px != camera->width_px || found.height_px != camera->height_px)) {
        log_to(&settings->log, settings->allow_implausible ? LOG_LEVEL_WARNING : LOG_LEVEL_ERROR,
               "%s: images are %ux%u, but the calibration (%s) is for %ux%u: give the camera's "
               "fx, fy, cx and cy",
               path, camera->width_px, camera->height_px, name, found.width_px, found.height_px);
        if (!settings->allow_implausible)
            return -ERANGE;
    }
    camera->fx_px = found.fx_px;
    camera->fy_px = found.fy_px;
    camera->cx_px = found.cx_px;
    camera->cy_px = found.cy_px;
    return 0;
}
