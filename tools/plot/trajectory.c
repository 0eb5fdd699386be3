// SPDX-License-Identifier: Apache-2.0
#include "tools/plot/trajectory.h"

#include <math.h>
#include <stdlib.h>

#include "tools/plot/picture.h"

#define WIDTH_PX  1200
#define HEIGHT_PX 1180
#define FONT_PX   17

// A rectangle of the picture with the data range that it shows.
struct axes {
    double left_px, top_px, width_px, height_px;
    double x_low, x_high, y_low, y_high;
};

static double to_px_x(const struct axes *a, double x)
{
    return a->left_px + (x - a->x_low) / (a->x_high - a->x_low) * a->width_px;
}

static double to_px_y(const struct axes *a, double y)
{
    return a->top_px + a->height_px - (y - a->y_low) / (a->y_high - a->y_low) * a->height_px;
}

// The step among 1, 2, 5 x 10^k that makes about `n` ticks.
static double tick_step(double range, double n)
{
    double rough = range / n, power = pow(10, floor(log10(rough)));
    double digit = rough / power;
    return power * (digit < 1.5 ? 1 : digit < 3.5 ? 2 : digit < 7.5 ? 5 : 10);
}

enum anchor { ANCHOR_LEFT, ANCHOR_CENTRE, ANCHOR_RIGHT };

static void draw_text(cairo_t *c, double x, double y, enum anchor anchor, const char *text)
{
    cairo_text_extents_t extents;
    cairo_text_extents(c, text, &extents);
    double shift = anchor == ANCHOR_LEFT ? 0 : anchor == ANCHOR_CENTRE ? 0.5 : 1;
    cairo_move_to(c, x - shift * extents.x_advance, y);
    cairo_show_text(c, text);
    cairo_new_path(c); // text leaves a current point behind
}

static void format_tick(char *out, size_t size, double value, double step)
{
    int decimals = (int)fmax(0, -floor(log10(step) + 1e-9));
    snprintf(out, size, "%.*f", decimals, fabs(value) < 1e-9 * step ? 0.0 : value);
}

// Frame, grid, numbers and names of the axes.
static void draw_axes(cairo_t *c, const struct axes *a, const char *x_name, const char *y_name)
{
    char text[64];
    double step = tick_step(a->x_high - a->x_low, a->width_px / 110);
    cairo_set_line_width(c, 1);
    for (double x = ceil(a->x_low / step) * step; x <= a->x_high + 1e-9 * step; x += step) {
        double px = floor(to_px_x(a, x)) + 0.5;
        cairo_set_source_rgb(c, 0.88, 0.88, 0.88);
        cairo_move_to(c, px, a->top_px);
        cairo_line_to(c, px, a->top_px + a->height_px);
        cairo_stroke(c);
        cairo_set_source_rgb(c, 0.2, 0.2, 0.2);
        format_tick(text, sizeof text, x, step);
        draw_text(c, px, a->top_px + a->height_px + 22, ANCHOR_CENTRE, text);
    }
    step = tick_step(a->y_high - a->y_low, a->height_px / 60);
    for (double y = ceil(a->y_low / step) * step; y <= a->y_high + 1e-9 * step; y += step) {
        double px = floor(to_px_y(a, y)) + 0.5;
        cairo_set_source_rgb(c, 0.88, 0.88, 0.88);
        cairo_move_to(c, a->left_px, px);
        cairo_line_to(c, a->left_px + a->width_px, px);
        cairo_stroke(c);
        cairo_set_source_rgb(c, 0.2, 0.2, 0.2);
        format_tick(text, sizeof text, y, step);
        draw_text(c, a->left_px - 8, px + 6, ANCHOR_RIGHT, text);
    }
    cairo_rectangle(c, a->left_px + 0.5, a->top_px + 0.5, a->width_px, a->height_px);
    cairo_stroke(c);
    draw_text(c, a->left_px + 0.5 * a->width_px, a->top_px + a->height_px + 46, ANCHOR_CENTRE,
              x_name);
    cairo_save(c);
    cairo_translate(c, a->left_px - 72, a->top_px + 0.5 * a->height_px);
    cairo_rotate(c, -0.5 * M_PI);
    draw_text(c, 0, 0, ANCHOR_CENTRE, y_name);
    cairo_restore(c);
}

static void set_truth_colour(cairo_t *c)
{
    cairo_set_source_rgb(c, 0.15, 0.15, 0.15);
}

static void set_estimate_colour(cairo_t *c)
{
    cairo_set_source_rgb(c, 0.82, 0.2, 0.1);
}

static void draw_path(cairo_t *c, const struct axes *a, const struct evaluation *e, int x_axis,
                      int y_axis, bool estimate)
{
    for (size_t i = 0; i < e->n_matched; i++) {
        const double *p = estimate ? e->poses[i].estimate_m : e->poses[i].truth_m;
        cairo_line_to(c, to_px_x(a, p[x_axis]), to_px_y(a, p[y_axis]));
    }
    cairo_stroke(c);
}

static void draw_legend_line(cairo_t *c, double x, double y, const char *text)
{
    cairo_move_to(c, x, y);
    cairo_line_to(c, x + 40, y);
    cairo_stroke(c);
    cairo_set_source_rgb(c, 0.2, 0.2, 0.2);
    draw_text(c, x + 50, y + 6, ANCHOR_LEFT, text);
}

// Both paths, with the same scale on both axes. The two world axes in which they extend most.
static void draw_trajectories(cairo_t *c, const struct evaluation *e, struct axes a)
{
    static const char *const names[3] = {"x [m]", "y [m]", "z [m]"};
    double low[3], high[3];
    for (int k = 0; k < 3; k++) {
        low[k] = INFINITY, high[k] = -INFINITY;
        for (size_t i = 0; i < e->n_matched; i++) {
            low[k] = fmin(low[k], fmin(e->poses[i].truth_m[k], e->poses[i].estimate_m[k]));
            high[k] = fmax(high[k], fmax(e->poses[i].truth_m[k], e->poses[i].estimate_m[k]));
        }
    }
    int flat = 0; // the axis along which we look
    for (int k = 1; k < 3; k++)
        if (high[k] - low[k] < high[flat] - low[flat])
            flat = k;
    int x_axis = flat == 0 ? 1 : 0, y_axis = flat == 2 ? 1 : 2;
    double x_range = high[x_axis] - low[x_axis], y_range = high[y_axis] - low[y_axis];
    double m_per_px = fmax(fmax(x_range / a.width_px, y_range / a.height_px) * 1.1, 1e-6);
    a.x_low = 0.5 * (low[x_axis] + high[x_axis] - m_per_px * a.width_px);
    a.x_high = a.x_low + m_per_px * a.width_px;
    a.y_low = 0.5 * (low[y_axis] + high[y_axis] - m_per_px * a.height_px);
    a.y_high = a.y_low + m_per_px * a.height_px;

    draw_axes(c, &a, names[x_axis], names[y_axis]);
    cairo_save(c);
    cairo_rectangle(c, a.left_px, a.top_px, a.width_px, a.height_px);
    cairo_clip(c);
    set_truth_colour(c);
    cairo_set_line_width(c, 3.5);
    draw_path(c, &a, e, x_axis, y_axis, false);
    set_estimate_colour(c);
    cairo_set_line_width(c, 1.8);
    draw_path(c, &a, e, x_axis, y_axis, true);
    const double *start = e->poses[0].truth_m;
    cairo_arc(c, to_px_x(&a, start[x_axis]), to_px_y(&a, start[y_axis]), 6, 0, 2 * M_PI);
    set_truth_colour(c);
    cairo_fill(c);
    cairo_restore(c);
    double right = a.left_px + a.width_px, legend_y = a.top_px - 16;
    set_truth_colour(c);
    cairo_set_line_width(c, 3.5);
    draw_legend_line(c, right - 480, legend_y, "ground truth (dot: start)");
    set_estimate_colour(c);
    cairo_set_line_width(c, 1.8);
    draw_legend_line(c, right - 180, legend_y, "estimate, aligned");
}

static void draw_errors(cairo_t *c, const struct evaluation *e, struct axes a)
{
    int64_t first = e->poses[0].time_ns, last = e->poses[e->n_matched - 1].time_ns;
    a.x_low = 0;
    a.x_high = fmax((double)(last - first) * 1e-9, 1e-3);
    a.y_low = 0;
    a.y_high = fmax(e->ate_m.max * 1000 * 1.08, 1e-3);
    draw_axes(c, &a, "time since the first pose [s]", "position error [mm]");
    set_estimate_colour(c);
    cairo_set_line_width(c, 1.8);
    for (size_t i = 0; i < e->n_matched; i++)
        cairo_line_to(c, to_px_x(&a, (double)(e->poses[i].time_ns - first) * 1e-9),
                      to_px_y(&a, e->poses[i].error_m * 1000));
    cairo_stroke(c);
    const double dashes[2] = {9, 6};
    double rmse_px = to_px_y(&a, e->ate_m.rmse * 1000);
    cairo_set_dash(c, dashes, 2, 0);
    cairo_set_source_rgb(c, 0.1, 0.35, 0.65);
    cairo_move_to(c, a.left_px, rmse_px);
    cairo_line_to(c, a.left_px + a.width_px, rmse_px);
    cairo_stroke(c);
    double legend_y = a.top_px - 16;
    cairo_move_to(c, a.left_px + a.width_px - 180, legend_y);
    cairo_line_to(c, a.left_px + a.width_px - 140, legend_y);
    cairo_stroke(c);
    cairo_set_dash(c, NULL, 0, 0);
    cairo_set_source_rgb(c, 0.2, 0.2, 0.2);
    char text[64];
    snprintf(text, sizeof text, "RMSE %.4g mm", e->ate_m.rmse * 1000);
    draw_text(c, a.left_px + a.width_px - 130, legend_y + 6, ANCHOR_LEFT, text);
}

int plot_evaluation(const char *path, const char *title, const struct evaluation *evaluation,
                    const struct log_sink *log)
{
    cairo_t *c = picture_create(WIDTH_PX, HEIGHT_PX, FONT_PX);
    cairo_set_line_join(c, CAIRO_LINE_JOIN_ROUND);
    cairo_set_source_rgb(c, 0, 0, 0);
    draw_text(c, 100, 34, ANCHOR_LEFT, title);
    draw_trajectories(c, evaluation, (struct axes){100, 80, WIDTH_PX - 140, 640, 0, 0, 0, 0});
    draw_errors(c, evaluation, (struct axes){100, 840, WIDTH_PX - 140, 270, 0, 0, 0, 0});
    return picture_finish(c, path, log);
}
