// SPDX-License-Identifier: Apache-2.0
#include "capture/recording/sidecar.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "capture/driver.h"
#include "capture/io/folder.h"

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
                              struct intrinsics *out, double *out_units_per_m)
{
    double k[7] = {0};
    int n = parse_numbers(text, k, 7);
    if (n == -1)
        return refuse(log, name, "a word is not a finite number, expected 'fx fy cx cy'");
    if (n != 4 && n != 6 && n != 7)
        return refuse(log, name, "expected 'fx fy cx cy', or these with 'width height [units]'");
    if (!(k[0] > 0) || k[1] == 0)
        return refuse(log, name, "fx must be positive and fy not 0");
    if (n > 4 && (!(k[4] >= 1 && k[4] <= 65535) || !(k[5] >= 1 && k[5] <= 65535)))
        return refuse(log, name, "width and height out of range");
    if (n == 7 && !(k[6] >= 1 && k[6] <= 1e6))
        return refuse(log, name, "units per metre must be 1..1e6");
    *out = (struct intrinsics){.fx_px = k[0],
                               .fy_px = k[1],
                               .cx_px = k[2],
                               .cy_px = k[3],
                               .width_px = (uint32_t)k[4],
                               .height_px = (uint32_t)k[5]};
    *out_units_per_m = k[6];
    return 0;
}

int sidecar_print(const struct intrinsics *camera, double units_per_m, char *out,
                  size_t n_out_bytes)
{
    int n = snprintf(out, n_out_bytes,
                     "# fx fy cx cy [px], width height [px], depth units per metre\n"
                     "%.17g %.17g %.17g %.17g %u %u %.17g\n",
                     camera->fx_px, camera->fy_px, camera->cx_px, camera->cy_px, camera->width_px,
                     camera->height_px, units_per_m);
    return n >= 0 && (size_t)n < n_out_bytes ? n : -EINVAL;
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
                    struct intrinsics *out, double *out_units_per_m)
{
    static const char *const files[] = {"calibration.txt", "camera-intrinsics.txt"};
    struct file_bytes bytes = {0};
    char name[512];
    *out_name = files[0];
    int err = folder_read_text(folder, path, files[0], log, &bytes);
    if (err == -ENOENT) {
        *out_name = files[1];
        err = folder_read_text(folder, path, files[1], log, &bytes);
    }
    snprintf(name, sizeof name, "%s/%s", path, *out_name);
    if (!err && *out_name == files[0])
        err = sidecar_parse_calibration((char *)bytes.data, name, log, out, out_units_per_m);
    else if (!err)
        err = sidecar_parse_matrix((char *)bytes.data, name, log, out);
    file_bytes_free(&bytes);
    return err;
}

int sidecar_intrinsics(int folder, const char *path, const struct intrinsics *fallback,
                       const char *fallback_name, const struct capture_settings *settings,
                       struct capture_info *out_info)
{
    struct intrinsics found, *camera = &out_info->camera;
    const char *name;
    double units_per_m = 0;
    int err = read_any(folder, path, &settings->log, &name, &found, &units_per_m);
    if (err == -ENOENT) {
        found = *fallback;
        name = fallback_name ? fallback_name : "the format's default";
    } else if (err) {
        return err;
    }
    if (!err && settings->fy_px * found.fy_px < 0)
        log_to(&settings->log, LOG_LEVEL_WARNING,
               "%s: camera.fy is %g, but %g in %s: of another sign it turns the images upside down",
               path, settings->fy_px, found.fy_px, name);
    if (units_per_m != 0) {
        out_info->units_per_m = units_per_m;
        out_info->told.units_are_usual = false;
        snprintf(out_info->told.units_by, sizeof out_info->told.units_by, "%.95s", name);
    }
    bool overridden = capture_gives_camera(settings);
    if (err == -ENOENT && !fallback_name && !overridden)
        log_to(&settings->log, LOG_LEVEL_NOTICE,
               "%s: no calibration.txt: the intrinsics are the format's default", path);
    if (found.width_px && !overridden &&
        (found.width_px != camera->width_px || found.height_px != camera->height_px)) {
        log_to(&settings->log, settings->allow_implausible ? LOG_LEVEL_WARNING : LOG_LEVEL_ERROR,
               "%s: images are %ux%u, but the calibration (%s) is for %ux%u: give the camera's "
               "fx, fy, cx and cy",
               path, camera->width_px, camera->height_px, name, found.width_px, found.height_px);
        if (!settings->allow_implausible)
            return -ERANGE;
    }
    // That of images of another size says nothing of these.
    const bool is_of_size = !found.width_px || (found.width_px == camera->width_px &&
                                                found.height_px == camera->height_px);
    if (is_of_size && (!err || fallback_name))
        snprintf(out_info->told.camera_by, sizeof out_info->told.camera_by, "%.95s", name);
    camera->fx_px = found.fx_px;
    camera->fy_px = found.fy_px;
    camera->cx_px = found.cx_px;
    camera->cy_px = found.cy_px;
    return 0;
}
