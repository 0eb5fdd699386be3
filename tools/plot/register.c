// SPDX-License-Identifier: Apache-2.0
#include "tools/plot/register.h"

#include <math.h>

#include "proto/se3.h"
#include "tools/plot/picture.h"

#define PANEL_PX   420
#define MARGIN_PX  14
#define TITLE_PX   34
#define MAX_POINTS 20000u // of each set: more only make the picture slow

// Axes that lie right and up in each view, and its name.
static const struct {
    int right, up;
    const char *name;
} views[3] = {{0, 1, "along z: x right, y up"},
              {2, 1, "along x: z right, y up"},
              {0, 2, "along y: x right, z up"}};

// The cube that holds what is shown, so that the three views have one scale.
struct cube {
    double centre_m[3], half_m;
};

static size_t step_for(const struct point_set *points)
{
    return points->n_points / MAX_POINTS + 1;
}

static void point_at(const struct point_set *points, const struct se3 *T, size_t i, double out[3])
{
    const double p[3] = {points->x_m[i], points->y_m[i], points->z_m[i]};
    se3_apply(T, p, out);
}

static void grow_box(const struct point_set *points, const struct se3 *T, double low[3],
                     double high[3])
{
    for (size_t i = 0; i < points->n_points; i += step_for(points)) {
        double p[3];
        point_at(points, T, i, p);
        for (int a = 0; a < 3; a++) {
            low[a] = fmin(low[a], p[a]);
            high[a] = fmax(high[a], p[a]);
        }
    }
}

static struct cube find_cube(const struct point_set *source, const struct point_set *target,
                             const struct se3 *T)
{
    struct se3 identity = se3_identity();
    struct cube cube = {.half_m = 0};
    double low[3] = {INFINITY, INFINITY, INFINITY}, high[3] = {-INFINITY, -INFINITY, -INFINITY};
    grow_box(target, &identity, low, high);
    grow_box(source, T, low, high);
    for (int a = 0; a < 3; a++) {
        cube.centre_m[a] = (low[a] + high[a]) / 2;
        cube.half_m = fmax(cube.half_m, (high[a] - low[a]) / 2 * 1.04);
    }
    cube.half_m = cube.half_m > 0 ? cube.half_m : 1;
    return cube;
}

static void draw_points(cairo_t *c, const struct point_set *points, const struct se3 *T,
                        const struct cube *cube, int view)
{
    const double scale = PANEL_PX / (2 * cube->half_m);
    for (size_t i = 0; i < points->n_points; i += step_for(points)) {
        double p[3];
        point_at(points, T, i, p);
        double x = (p[views[view].right] - cube->centre_m[views[view].right]) * scale;
        double y = (p[views[view].up] - cube->centre_m[views[view].up]) * scale;
        cairo_rectangle(c, PANEL_PX / 2.0 + x - 0.7, PANEL_PX / 2.0 - y - 0.7, 1.4, 1.4);
    }
    cairo_fill(c);
}

static void draw_panel(cairo_t *c, const struct point_set *source, const struct point_set *target,
                       const struct se3 *T, const struct cube *cube, int view)
{
    struct se3 identity = se3_identity();
    cairo_rectangle(c, 0, 0, PANEL_PX, PANEL_PX);
    cairo_clip_preserve(c);
    cairo_set_source_rgb(c, 0.75, 0.75, 0.75);
    cairo_stroke(c);
    cairo_set_source_rgba(c, 0.10, 0.35, 0.75, 0.7);
    draw_points(c, target, &identity, cube, view);
    cairo_set_source_rgba(c, 0.90, 0.45, 0.05, 0.7);
    draw_points(c, source, T, cube, view);
    cairo_set_source_rgb(c, 0.3, 0.3, 0.3);
    cairo_move_to(c, 8, PANEL_PX - 8);
    cairo_show_text(c, views[view].name);
}

static void draw_row(cairo_t *c, const char *title, double top_px, const struct point_set *source,
                     const struct point_set *target, const struct se3 *T)
{
    const struct cube cube = find_cube(source, target, T);
    cairo_set_source_rgb(c, 0.1, 0.1, 0.1);
    cairo_move_to(c, MARGIN_PX, top_px + TITLE_PX - 10);
    cairo_show_text(c, title);
    for (int view = 0; view < 3; view++) {
        cairo_save(c);
        cairo_translate(c, MARGIN_PX + view * (PANEL_PX + MARGIN_PX), top_px + TITLE_PX);
        draw_panel(c, source, target, T, &cube, view);
        cairo_restore(c);
    }
}

int plot_registration(const char *path, const struct point_set *source,
                      const struct point_set *target, const struct se3 *T_target_source,
                      const struct log_sink *log)
{
    struct se3 identity = se3_identity();
    const int width_px = 3 * PANEL_PX + 4 * MARGIN_PX;
    const int row_px = TITLE_PX + PANEL_PX + MARGIN_PX;
    cairo_t *c = picture_create(width_px, 2 * row_px, 15);
    draw_row(c, "before: source orange, target blue", 0, source, target, &identity);
    draw_row(c, "after", row_px, source, target, T_target_source);
    return picture_finish(c, path, log);
}
