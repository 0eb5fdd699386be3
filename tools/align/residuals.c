// SPDX-License-Identifier: Apache-2.0
// Residuals by place: a good mean with one bad corner is seen.
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "gpu/align/residual_map.h"
#include "tools/align/align.h"
#ifdef POSED_HAVE_CAIRO
#include "tools/plot/picture.h"
#endif

#define REGIONS_X 4
#define REGIONS_Y 3
_Static_assert(REGIONS_X *REGIONS_Y == REPORT_REGIONS, "as the header says");

static int compare_floats(const void *a, const void *b)
{
    float x = *(const float *)a, y = *(const float *)b;
    return (x > y) - (x < y);
}

// Median over cells u0 <= u < u1, v0 <= v < v1; NaN where nothing is.
static double median(const float *map, const struct align_image *image, uint32_t u0, uint32_t u1,
                     uint32_t v0, uint32_t v1, float *scratch)
{
    size_t n = 0;
    for (uint32_t v = v0; v < v1; v++)
        for (uint32_t u = u0; u < u1; u++) {
            float r = map[(size_t)v * image->width + u];
            if (!isnan(r))
                scratch[n++] = r;
        }
    if (n == 0)
        return (double)NAN;
    qsort(scratch, n, sizeof *scratch, compare_floats);
    return (double)scratch[n / 2];
}

#ifdef POSED_HAVE_CAIRO

// Blue, green, yellow, red over 0 .. 1.
static void colour(double share, double out[3])
{
    double s = share < 0 ? 0 : share > 1 ? 1 : share;
    out[0] = s < 0.5 ? 0 : fmin(1, 4 * (s - 0.5));
    out[1] = s < 0.25 ? 4 * s : s < 0.75 ? 1 : 4 * (1 - s);
    out[2] = s < 0.25 ? 1 : s < 0.5 ? 4 * (0.5 - s) : 0;
}

static int draw(const char *path, const char *name, const struct align_image *image,
                const float *map, double scale_m, const double *regions_m,
                const struct log_sink *log)
{
    int step = (int)(image->width / 900) + 1, zoom = image->width < 300 ? 3 : 1;
    int width = (int)image->width / step * zoom, height = (int)image->height / step * zoom;
    int head = 40;
    cairo_t *c = picture_create(width < 420 ? 420 : width, height + head, 13);
    char line[300];
    cairo_set_source_rgb(c, 0, 0, 0);
    cairo_move_to(c, 6, 16);
    snprintf(line, sizeof line, "%.200s: residual, blue 0 to red %.3g mm", name, 1e3 * scale_m);
    cairo_show_text(c, line);
    for (int y = 0; y < height / zoom; y++)
        for (int x = 0; x < width / zoom; x++) {
            float r = map[(size_t)(y * step) * image->width + (size_t)(x * step)];
            double rgb[3];
            if (isnan(r))
                continue;
            colour((double)r / scale_m, rgb);
            cairo_set_source_rgb(c, rgb[0], rgb[1], rgb[2]);
            cairo_rectangle(c, x * zoom, head + y * zoom, zoom, zoom);
            cairo_fill(c);
        }
    for (int k = 0; k < REGIONS_X * REGIONS_Y; k++) {
        double x = width * (k % REGIONS_X) / (double)REGIONS_X;
        double y = head + height * (k / REGIONS_X) / (double)REGIONS_Y;
        cairo_set_source_rgb(c, 0.6, 0.6, 0.6);
        cairo_rectangle(c, x, y, width / (double)REGIONS_X, height / (double)REGIONS_Y);
        cairo_stroke(c);
        if (isnan(regions_m[k]))
            continue;
        cairo_set_source_rgb(c, 0, 0, 0);
        cairo_move_to(c, x + 4, y + 14);
        snprintf(line, sizeof line, "%.3g mm", 1e3 * regions_m[k]);
        cairo_show_text(c, line);
    }
    return picture_finish(c, path, log);
}

#endif

int report_residuals(const char *folder, const struct images *images,
                     const struct align_result *result, const struct se3 *T_world_image,
                     double *out_regions_m)
{
    int rc = 0;
    // What lies farther from a surface than ten residuals belongs to another one.
    double gate_m = fmax(10 * result->solution.rms_m, 1e-9);
    for (uint32_t i = 0; i < images->n && rc == 0; i++) {
        struct align_image *image = NULL;
        float *map = NULL, *scratch = NULL;
        double regions_m[REGIONS_X * REGIONS_Y];
        rc = align_residual_map(&images->source, i, T_world_image, result, gate_m, &image, &map);
        if (rc < 0)
            break;
        scratch = malloc((size_t)image->width * image->height * sizeof *scratch);
        rc = scratch ? 0 : -ENOMEM;
        for (uint32_t k = 0; k < REGIONS_X * REGIONS_Y && rc == 0; k++)
            regions_m[k] = median(map, image, image->width * (k % REGIONS_X) / REGIONS_X,
                                  image->width * (k % REGIONS_X + 1) / REGIONS_X,
                                  image->height * (k / REGIONS_X) / REGIONS_Y,
                                  image->height * (k / REGIONS_X + 1) / REGIONS_Y, scratch);
        if (rc == 0)
            for (uint32_t k = 0; k < REGIONS_X * REGIONS_Y; k++)
                out_regions_m[REGIONS_X * REGIONS_Y * (size_t)i + k] = regions_m[k];
#ifdef POSED_HAVE_CAIRO
        if (rc == 0) {
            char path[4600];
            double middle = median(map, image, 0, image->width, 0, image->height, scratch);
            snprintf(path, sizeof path, "%s/residual-%.300s.png", folder, images->names[i]);
            rc = draw(path, images->names[i], image, map, isnan(middle) ? 1e-3 : 3 * middle,
                      regions_m, &images->log);
        }
#else
        (void)folder;
#endif
        free(scratch);
        free(map);
        align_image_destroy(&image);
    }
    return rc;
}
