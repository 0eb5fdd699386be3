// SPDX-License-Identifier: Apache-2.0
#include "tools/plot/search.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "tools/plot/picture.h"

#define SPAN_M 0.01 // difference at full colour

static uint32_t rgb(double r, double g, double b)
{
    return (uint32_t)lrint(r * 255) << 16 | (uint32_t)lrint(g * 255) << 8 |
           (uint32_t)lrint(b * 255);
}

// Near is bright; pixels without depth are dark blue.
static uint32_t grey(double z_m, double near_m, double far_m)
{
    if (z_m <= 0)
        return rgb(0.05, 0.05, 0.18);
    double share = far_m > near_m ? (z_m - near_m) / (far_m - near_m) : 0;
    double value = 0.9 - 0.7 * fmin(fmax(share, 0), 1);
    return rgb(value, value, value);
}

// Blue: the image is nearer than the model, red: farther, white: the same.
static uint32_t difference(double d_m)
{
    double share = fmin(fmax(d_m / SPAN_M, -1), 1);
    return share < 0 ? rgb(1 + share, 1 + share, 1) : rgb(1, 1 - share, 1 - share);
}

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

// The middle 96 % of the image's depths.
static int depth_span(const struct search_image *image, double *out_near, double *out_far)
{
    size_t n_pixels = (size_t)image->frame.width_px * image->frame.height_px, n = 0;
    double *z = malloc(n_pixels * sizeof *z);
    if (!z)
        return -ENOMEM;
    for (size_t i = 0; i < n_pixels; i++)
        if (image->frame.depth[i] != 0 && image->frame.depth[i] != DEPTH_INVALID_MAX)
            z[n++] = image->frame.depth[i] / image->frame.units_per_m;
    qsort(z, n, sizeof *z, compare);
    *out_near = n ? z[n / 50] : 0;
    *out_far = n ? z[n - 1 - n / 50] : 1;
    free(z);
    return 0;
}

static bool is_outline(const float *model_m, int width, int height, int u, int v)
{
    if (model_m[v * width + u] <= 0)
        return false;
    return u == 0 || v == 0 || u == width - 1 || v == height - 1 ||
           model_m[v * width + u - 1] <= 0 || model_m[v * width + u + 1] <= 0 ||
           model_m[(v - 1) * width + u] <= 0 || model_m[(v + 1) * width + u] <= 0;
}

static void paint(const struct search_image *image, const float *model_m, double near_m,
                  double far_m, unsigned char *pixels, int stride)
{
    int width = (int)image->frame.width_px, height = (int)image->frame.height_px;
    for (int v = 0; v < height; v++)
        for (int u = 0; u < width; u++) {
            uint16_t raw = image->frame.depth[v * width + u];
            double z = raw == DEPTH_INVALID_MAX ? 0 : raw / image->frame.units_per_m;
            double model = (double)model_m[v * width + u];
            uint32_t colour = grey(z, near_m, far_m);
            if (model > 0 && z > 0 && fabs(z - model) < 3 * SPAN_M)
                colour = difference(z - model);
            if (is_outline(model_m, width, height, u, v))
                colour = rgb(0.1, 0.85, 0.2);
            *(uint32_t *)(void *)(pixels + v * stride + 4 * u) = colour;
        }
}

#define LINE_PX 17

// A line of the caption, smaller where the picture is too narrow for it.
static void write_line(cairo_t *c, int line, const char *text)
{
    const double room_px = cairo_image_surface_get_width(cairo_get_target(c)) - 12;
    cairo_text_extents_t extents;
    cairo_save(c);
    cairo_text_extents(c, text, &extents);
    cairo_translate(c, 6, 14 + LINE_PX * line);
    if (extents.width > room_px)
        cairo_scale(c, room_px / extents.width, room_px / extents.width);
    cairo_move_to(c, 0, 0);
    cairo_show_text(c, text);
    cairo_restore(c);
}

static void label(cairo_t *c, const struct search_answer *answer)
{
    const int n_lines = answer->n_poses > 0 ? 2 : 1;
    char text[160] = "not found";
    cairo_set_source_rgba(c, 0, 0, 0, 0.6);
    cairo_rectangle(c, 0, 0, cairo_image_surface_get_width(cairo_get_target(c)),
                    4 + LINE_PX * n_lines);
    cairo_fill(c);
    cairo_set_source_rgb(c, 1, 1, 1);
    if (answer->n_poses > 0) {
        const struct search_pose *pose = &answer->poses[0];
        snprintf(text, sizeof text, "confidence %.2f%s, %.0f %% of the model's side seen",
                 (double)pose->confidence, pose->accepted ? "" : " (not accepted)",
                 100 * (double)pose->visible);
        write_line(c, 0, text);
        snprintf(text, sizeof text,
                 "residual %.1f mm (image nearer: blue, farther: red, full at %.0f mm)",
                 1e3 * (double)pose->residual_rms_m, 1e3 * SPAN_M);
    }
    write_line(c, n_lines - 1, text);
}

int plot_search(const char *path, const struct search_object *object,
                const struct search_image *image, const struct search_answer *answer,
                const struct log_sink *log)
{
    int width = (int)image->frame.width_px, height = (int)image->frame.height_px;
    float *model_m = calloc((size_t)width * (size_t)height, sizeof *model_m);
    cairo_t *c = picture_create(width, height, 13);
    cairo_surface_t *surface = cairo_get_target(c);
    double near_m, far_m;
    int err = model_m && cairo_status(c) == CAIRO_STATUS_SUCCESS ? 0 : -ENOMEM;
    if (!err && answer->n_poses > 0)
        err = search_draw(object, &image->camera, &answer->poses[0].T_camera_model, model_m);
    if (!err)
        err = depth_span(image, &near_m, &far_m);
    if (!err) {
        cairo_surface_flush(surface);
        paint(image, model_m, near_m, far_m, cairo_image_surface_get_data(surface),
              cairo_image_surface_get_stride(surface));
        cairo_surface_mark_dirty(surface);
        label(c, answer);
        err = picture_finish(c, path, log);
    } else {
        cairo_destroy(c);
    }
    free(model_m);
    return err;
}
