// SPDX-License-Identifier: Apache-2.0
#include "tools/plot/search.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "tools/plot/labels.h"
#include "tools/plot/picture.h"

#define SPAN_M    0.01 // difference at full colour
#define LINE_PX   17
#define DOT_PX    3 // of a dotted outline
#define N_COLOURS 6

// Of the outlines, object by object: none is near the blue and red of the differences.
static const double colours[N_COLOURS][3] = {{0.1, 0.85, 0.2},  {1, 0.7, 0.05},  {0.2, 0.9, 0.95},
                                             {0.95, 0.4, 0.95}, {0.95, 0.95, 0}, {0.65, 0.85, 0.5}};

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

// What is drawn of the models.
struct scene {
    int width, height;
    float *model_m;    // one model alone
    float *nearest_m;  // of all models; 0 where none is
    uint32_t *outline; // colours; 0 where there is none
    struct labels labels;
};

static int scene_create(struct scene *scene, const struct search_image *image)
{
    const size_t n = (size_t)image->frame.width_px * image->frame.height_px;
    *scene = (struct scene){.width = (int)image->frame.width_px,
                            .height = (int)image->frame.height_px,
                            .model_m = calloc(n, sizeof(float)),
                            .nearest_m = calloc(n, sizeof(float)),
                            .outline = calloc(n, sizeof(uint32_t))};
    return scene->model_m && scene->nearest_m && scene->outline ? 0 : -ENOMEM;
}

static void scene_free(struct scene *scene)
{
    free(scene->model_m);
    free(scene->nearest_m);
    free(scene->outline);
}

// A line of two pixels: one of the model, and one beside it.
static void mark_outline(struct scene *scene, int u, int v, uint32_t colour)
{
    const int i = v * scene->width + u;
    scene->outline[i] = colour;
    if (u > 0 && scene->model_m[i - 1] <= 0)
        scene->outline[i - 1] = colour;
    if (u < scene->width - 1 && scene->model_m[i + 1] <= 0)
        scene->outline[i + 1] = colour;
    if (v > 0 && scene->model_m[i - scene->width] <= 0)
        scene->outline[i - scene->width] = colour;
    if (v < scene->height - 1 && scene->model_m[i + scene->width] <= 0)
        scene->outline[i + scene->width] = colour;
}

// Lays the one model over the others. Returns its bounds, empty where it is out of the picture.
static struct label_box add_model(struct scene *scene, uint32_t colour, bool dotted)
{
    struct label_box box = {scene->width, scene->height, -1, -1};
    for (int v = 0; v < scene->height; v++)
        for (int u = 0; u < scene->width; u++) {
            const int i = v * scene->width + u;
            const float z_m = scene->model_m[i];
            if (z_m <= 0)
                continue;
            if (scene->nearest_m[i] <= 0 || z_m < scene->nearest_m[i])
                scene->nearest_m[i] = z_m;
            if (is_outline(scene->model_m, scene->width, scene->height, u, v) &&
                !(dotted && (u + v) / DOT_PX % 2))
                mark_outline(scene, u, v, colour);
            box.u0 = u < box.u0 ? u : box.u0;
            box.v0 = v < box.v0 ? v : box.v0;
            box.u1 = u > box.u1 ? u : box.u1;
            box.v1 = v > box.v1 ? v : box.v1;
        }
    return box;
}

static int add_pose(struct scene *scene, const struct search_image *image,
                    const struct plot_found *found, uint32_t k, const double colour[3])
{
    const struct search_pose *pose = &found->answer->poses[k];
    int err = search_draw(found->object, &image->camera, &pose->T_camera_model, scene->model_m);
    if (err)
        return err;
    struct label_box box = add_model(scene, rgb(colour[0], colour[1], colour[2]), !pose->accepted);
    char text[LABEL_BYTES], number[16] = "";
    if (found->answer->n_poses > 1)
        snprintf(number, sizeof number, " %u", k + 1);
    snprintf(text, sizeof text, "%.64s%s, %.2f%s", found->name, number, (double)pose->confidence,
             pose->accepted ? "" : " doubtful");
    if (box.u1 >= 0)
        labels_add(&scene->labels, box, text, colour);
    return 0;
}

// Accepted poses of an object, or its best one.
static int add_found(struct scene *scene, const struct search_image *image,
                     const struct plot_found *found, const double colour[3])
{
    const struct search_answer *answer = found->answer;
    int err = 0;
    uint32_t n_accepted = 0;
    for (uint32_t k = 0; k < answer->n_poses && !err; k++)
        if (answer->poses[k].accepted) {
            err = add_pose(scene, image, found, k, colour);
            n_accepted++;
        }
    if (n_accepted == 0 && answer->n_poses > 0 && !err)
        err = add_pose(scene, image, found, 0, colour);
    return err;
}

static void paint(const struct search_image *image, const struct scene *scene, double near_m,
                  double far_m, unsigned char *pixels, int stride)
{
    for (int v = 0; v < scene->height; v++)
        for (int u = 0; u < scene->width; u++) {
            const int i = v * scene->width + u;
            uint16_t raw = image->frame.depth[i];
            double z = raw == DEPTH_INVALID_MAX ? 0 : raw / image->frame.units_per_m;
            double model = (double)scene->nearest_m[i];
            uint32_t colour = grey(z, near_m, far_m);
            if (model > 0 && z > 0 && fabs(z - model) < 3 * SPAN_M)
                colour = difference(z - model);
            if (scene->outline[i])
                colour = scene->outline[i];
            *(uint32_t *)(void *)(pixels + v * stride + 4 * u) = colour;
        }
}

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

static void caption_one(cairo_t *c, const struct search_answer *answer)
{
    const struct search_pose *pose = &answer->poses[0];
    char text[160];
    if (answer->n_poses == 0) {
        write_line(c, 0, "not found");
        return;
    }
    snprintf(text, sizeof text, "confidence %.2f%s, %.0f %% of the model's side seen",
             (double)pose->confidence, pose->accepted ? "" : " (not accepted)",
             100 * (double)pose->visible);
    write_line(c, 0, text);
    snprintf(text, sizeof text,
             "residual %.1f mm (image nearer: blue, farther: red, full at %.0f mm)",
             1e3 * (double)pose->residual_rms_m, 1e3 * SPAN_M);
    write_line(c, 1, text);
}

static void caption_many(cairo_t *c, const struct plot_found *found, size_t n)
{
    char text[160];
    size_t n_accepted = 0;
    for (size_t i = 0; i < n; i++) {
        bool accepted = false;
        for (uint32_t k = 0; k < found[i].answer->n_poses; k++)
            accepted = accepted || found[i].answer->poses[k].accepted;
        n_accepted += accepted;
    }
    snprintf(text, sizeof text, "%zu of %zu objects found; dotted: doubtful", n_accepted, n);
    write_line(c, 0, text);
    snprintf(text, sizeof text, "image nearer: blue, farther: red, full at %.0f mm", 1e3 * SPAN_M);
    write_line(c, 1, text);
}

// Returns the height of it.
static int caption(cairo_t *c, const struct plot_found *found, size_t n)
{
    const int n_lines = n == 1 && found->answer->n_poses == 0 ? 1 : 2;
    cairo_set_source_rgba(c, 0, 0, 0, 0.6);
    cairo_rectangle(c, 0, 0, cairo_image_surface_get_width(cairo_get_target(c)),
                    4 + LINE_PX * n_lines);
    cairo_fill(c);
    cairo_set_source_rgb(c, 1, 1, 1);
    if (n == 1)
        caption_one(c, found->answer);
    else
        caption_many(c, found, n);
    return 4 + LINE_PX * n_lines;
}

int plot_search(const char *path, const struct search_image *image, const struct plot_found *found,
                size_t n, const struct log_sink *log)
{
    struct scene scene;
    double near_m, far_m;
    int err = scene_create(&scene, image);
    cairo_t *c = picture_create(scene.width, scene.height, 13);
    cairo_surface_t *surface = cairo_get_target(c);
    if (!err && cairo_status(c) != CAIRO_STATUS_SUCCESS)
        err = -ENOMEM;
    for (size_t i = 0; i < n && !err; i++)
        err = add_found(&scene, image, &found[i], colours[i % N_COLOURS]);
    if (!err)
        err = depth_span(image, &near_m, &far_m);
    if (!err) {
        cairo_surface_flush(surface);
        paint(image, &scene, near_m, far_m, cairo_image_surface_get_data(surface),
              cairo_image_surface_get_stride(surface));
        cairo_surface_mark_dirty(surface);
        labels_draw(&scene.labels, c, caption(c, found, n));
        err = picture_finish(c, path, log);
    } else {
        cairo_destroy(c);
    }
    scene_free(&scene);
    return err;
}
