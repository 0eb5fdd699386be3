// SPDX-License-Identifier: Apache-2.0
#include "tools/posectl/search_image.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "capture/io/folder.h"
#include "capture/io/image.h"
#include "capture/recording/sidecar.h"
#include "tools/posectl/posectl.h"

#define MAX_FILE_BYTES ((size_t)1 << 28)

// `fx fy cx cy [width height]`, or a 3x3 camera matrix: nine numbers.
static int read_calibration(const char *path, struct intrinsics *out, double *out_units_per_m)
{
    struct file_bytes file = {0};
    int n = 0, err = file_read(path, MAX_FILE_BYTES, &posectl_log, &file);
    *out_units_per_m = 0;
    if (err)
        goto free_file;
    char *text = (char *)file.data;
    for (const char *p = text; *p;) {
        p += strspn(p, " \t\r\n");
        if (*p == '#') {
            p += strcspn(p, "\n");
            continue;
        }
        n += *p != 0;
        p += strcspn(p, " \t\r\n");
    }
    err = n == 9 ? sidecar_parse_matrix(text, path, &posectl_log, out)
                 : sidecar_parse_calibration(text, path, &posectl_log, out, out_units_per_m);
free_file:
    file_bytes_free(&file);
    return err;
}

static int read_depth(const char *path, uint16_t **out_pixels, uint32_t *out_width,
                      uint32_t *out_height)
{
    struct file_bytes file = {0};
    struct image_codec *codec = NULL;
    int err = file_read(path, MAX_FILE_BYTES, &posectl_log, &file);
    if (!err)
        err = image_peek(file.data, file.n_bytes, path, &posectl_log, out_width, out_height);
    if (!err)
        err = image_codec_create(&codec);
    if (!err && !(*out_pixels = malloc((size_t)*out_width * *out_height * sizeof **out_pixels)))
        err = -ENOMEM;
    if (!err)
        err = image_decode(codec, file.data, file.n_bytes, path, IMAGE_PGM_BIG_ENDIAN, *out_width,
                           *out_height, &posectl_log, *out_pixels);
    image_codec_destroy(&codec);
    file_bytes_free(&file);
    return err;
}

int search_image_read(const struct search_image_files *files, struct search_image *out,
                      uint16_t **out_pixels)
{
    uint32_t width, height;
    double units_per_m;
    *out_pixels = NULL;
    memset(out, 0, sizeof *out);
    int err = read_calibration(files->calibration, &out->camera, &units_per_m);
    if (!err)
        err = read_depth(files->depth, out_pixels, &width, &height);
    if (err)
        return err;
    if (out->camera.width_px != 0 &&
        (out->camera.width_px != width || out->camera.height_px != height)) {
        posectl_complain("%s: of a camera of %" PRIu32 "x%" PRIu32 " pixels, %s has %" PRIu32
                         "x%" PRIu32,
                         files->calibration, out->camera.width_px, out->camera.height_px,
                         files->depth, width, height);
        return -EINVAL;
    }
    if (files->units_per_m > 0)
        units_per_m = files->units_per_m;
    out->frame =
        (struct depth_frame){*out_pixels, width, height, units_per_m > 0 ? units_per_m : 1000, 0};
    out->u0 = files->region[0];
    out->v0 = files->region[1];
    out->u1 = files->region[2];
    out->v1 = files->region[3];
    if (out->camera.width_px == 0) {
        out->camera.width_px = width;
        out->camera.height_px = height;
    }
    return 0;
}
