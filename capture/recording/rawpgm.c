// SPDX-License-Identifier: Apache-2.0
// Driver `rawpgm`: a folder of *.pgm with raw 11-bit Kinect disparity, big-endian as the PGM
// specification says, and calib.txt beside them. Depth comes out in millimetres; frame k is at
// k / 30 s.
//
// calib.txt holds, white space between: colour image width height, fx fy, cx cy; depth image width
// height, fx fy, cx cy; a 3x4 matrix from depth to colour; the disparity offset and the baseline of
// the depth sensor [m]. depth = 8 baseline fx / (offset - raw).
#include <errno.h>
#include <math.h>
#include <stdlib.h>

#include "capture/io/images.h"
#include "capture/recording/rawpgm.h"
#include "capture/recording/sidecar.h"

struct rawpgm {
    struct images images; // first: images_stamp and images_decode get it
    struct disparity_table table;
};

enum {
    CALIB_DEPTH_SIZE = 6,
    CALIB_DEPTH_F = 8,
    CALIB_DEPTH_C = 10,
    CALIB_MODEL = 24,
    CALIB_N = 26
};

int rawpgm_parse_calib(const char *text, const char *name, const struct log_sink *log,
                       struct intrinsics *out_camera, struct disparity_model *out_model)
{
    double k[CALIB_N];
    const char *reason = NULL;
    char *end;
    for (int i = 0; i < CALIB_N && !reason; i++, text = end) {
        k[i] = strtod(text, &end);
        if (end == text || !isfinite(k[i]))
            reason = "expected 26 finite numbers (two cameras, a 3x4 matrix, offset and baseline)";
    }
    if (!reason &&
        (!(k[CALIB_DEPTH_SIZE] >= 1 && k[CALIB_DEPTH_SIZE] <= CAPTURE_MAX_SIDE_PX) ||
         !(k[CALIB_DEPTH_SIZE + 1] >= 1 && k[CALIB_DEPTH_SIZE + 1] <= CAPTURE_MAX_SIDE_PX)))
        reason = "size of the depth image out of range";
    if (!reason && (!(k[CALIB_DEPTH_F] > 0) || k[CALIB_DEPTH_F + 1] == 0))
        reason = "focal lengths of the depth camera must not be 0";
    if (!reason && (!(k[CALIB_MODEL] > 0) || !(k[CALIB_MODEL + 1] > 0)))
        reason = "disparity offset and baseline must be positive";
    if (reason) {
        log_to(log, LOG_LEVEL_ERROR, "%s: %s", name, reason);
        return -EINVAL;
    }
    *out_camera = (struct intrinsics){.fx_px = k[CALIB_DEPTH_F],
                                      .fy_px = k[CALIB_DEPTH_F + 1],
                                      .cx_px = k[CALIB_DEPTH_C],
                                      .cy_px = k[CALIB_DEPTH_C + 1],
                                      .width_px = (uint32_t)k[CALIB_DEPTH_SIZE],
                                      .height_px = (uint32_t)k[CALIB_DEPTH_SIZE + 1]};
    *out_model = disparity_from_baseline(k[CALIB_MODEL], k[CALIB_MODEL + 1], k[CALIB_DEPTH_F]);
    return 0;
}

static int read_calib(struct rawpgm *raw, struct intrinsics *out_camera)
{
    struct images *images = &raw->images;
    struct file_bytes bytes = {0};
    struct disparity_model model;
    char name[512];
    snprintf(name, sizeof name, "%s/calib.txt", images->path);
    int err = folder_read_text(images->folder, images->path, "calib.txt", &images->log, &bytes);
    if (err == -ENOENT)
        log_to(&images->log, LOG_LEVEL_ERROR, "%s: no such file, raw disparity needs it", name);
    if (!err)
        err = rawpgm_parse_calib((char *)bytes.data, name, &images->log, out_camera, &model);
    file_bytes_free(&bytes);
    if (!err && disparity_table_fill(&model, &raw->table)) {
        log_to(&images->log, LOG_LEVEL_ERROR, "%s: offset and baseline give no depth", name);
        err = -EINVAL;
    }
    return err;
}

static void rawpgm_close(void *state)
{
    struct rawpgm *raw = state;
    images_close(&raw->images);
    free(raw);
}

static int rawpgm_open(void **out_state, const char *location,
                       const struct capture_settings *settings, struct capture_info *out_info)
{
    struct rawpgm *raw = malloc(sizeof *raw);
    if (!raw)
        return -ENOMEM;
    struct intrinsics camera;
    out_info->units_per_m = DISPARITY_UNITS_PER_M;
    int err = images_open(&raw->images, location, &settings->log);
    if (!err)
        err = read_calib(raw, &camera);
    if (!err) {
        err = images_list(&raw->images, "", ".pgm");
        if (err == -ENOENT)
            log_to(&settings->log, LOG_LEVEL_ERROR, "%s: no *.pgm", location);
    }
    if (!err)
        err = images_find_size(&raw->images, out_info);
    if (!err)
        err = sidecar_intrinsics(raw->images.folder, location, &camera, "calib.txt", settings,
                                 out_info);
    if (err) {
        rawpgm_close(raw);
        return err;
    }
    raw->images.pgm_order = IMAGE_PGM_BIG_ENDIAN;
    raw->images.disparity = &raw->table;
    *out_state = raw;
    return 0;
}

const struct capture_driver capture_driver_rawpgm = {
    .name = "rawpgm",
    .summary = "folder of big-endian PGM with raw Kinect disparity and calib.txt",
    .open = rawpgm_open,
    .stamp = images_stamp,
    .decode = images_decode,
    .close = rawpgm_close,
};
