// SPDX-License-Identifier: Apache-2.0
#include "tools/plot/picture.h"

#include <errno.h>
#include <string.h>

cairo_t *picture_create(int width_px, int height_px, double font_px)
{
    cairo_surface_t *surface = cairo_image_surface_create(CAIRO_FORMAT_RGB24, width_px, height_px);
    cairo_t *c = cairo_create(surface);
    cairo_surface_destroy(surface); // c keeps it
    cairo_set_source_rgb(c, 1, 1, 1);
    cairo_paint(c);
    cairo_select_font_face(c, "sans-serif", CAIRO_FONT_SLANT_NORMAL, CAIRO_FONT_WEIGHT_NORMAL);
    cairo_set_font_size(c, font_px);
    return c;
}

int picture_finish(cairo_t *picture, const char *path, const struct log_sink *log)
{
    cairo_status_t status = cairo_status(picture);
    if (status == CAIRO_STATUS_SUCCESS)
        status = cairo_surface_write_to_png(cairo_get_target(picture), path);
    const int error = errno;
    cairo_destroy(picture);
    if (status == CAIRO_STATUS_SUCCESS)
        return 0;
    log_to(log, LOG_LEVEL_ERROR, "%s: %s", path,
           status == CAIRO_STATUS_WRITE_ERROR ? strerror(error) : cairo_status_to_string(status));
    return status == CAIRO_STATUS_NO_MEMORY ? -ENOMEM : -EIO;
}
