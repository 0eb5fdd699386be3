// SPDX-License-Identifier: Apache-2.0
#include "tools/plot/labels.h"

#include <math.h>
#include <stdbool.h>
#include <string.h>

#include "proto/wire.h"

#define MARGIN_PX 3
#define GAP_PX    2 // between a label and its subject

struct rectangle {
    double x, y, width, height;
};

void labels_add(struct labels *labels, struct label_box subject, const char *text,
                const double colour[3])
{
    if (labels->n == LABELS_MAX)
        return;
    struct label *label = &labels->labels[labels->n++];
    wire_copy_text(label->text, sizeof label->text, text);
    label->subject = subject;
    memcpy(label->colour, colour, sizeof label->colour);
}

static bool overlap(const struct rectangle *a, const struct rectangle *b)
{
    return a->x < b->x + b->width && b->x < a->x + a->width && a->y < b->y + b->height &&
           b->y < a->y + a->height;
}

static bool is_free(const struct rectangle *place, const struct rectangle *taken, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (overlap(place, &taken[i]))
            return false;
    return true;
}

// What labels keep clear of.
struct obstacles {
    struct rectangle labels[LABELS_MAX], subjects[LABELS_MAX];
    size_t n_labels, n_subjects;
    struct rectangle room; // of the picture
};

static bool is_within(const struct rectangle *place, const struct rectangle *room)
{
    return place->x >= room->x && place->x + place->width <= room->x + room->width &&
           place->y >= room->y && place->y + place->height <= room->y + room->height;
}

// Above its subject, below it, right or left of it, where neither another label nor another subject
// is; else where no other label is, there or below the subject. In a picture that is full of labels
// it lies on another one.
static void find_place(const struct obstacles *obstacles, size_t i, struct rectangle *place)
{
    const struct rectangle *of = &obstacles->subjects[i], *room = &obstacles->room;
    const double lowest = room->y + fmax(0, room->height - place->height);
    const double most_right = room->x + fmax(0, room->width - place->width);
    const double x = fmax(room->x, fmin(of->x + (of->width - place->width) / 2, most_right));
    const double y = of->y + (of->height - place->height) / 2;
    const struct rectangle beside[] = {
        {x, of->y - place->height - GAP_PX, place->width, place->height},
        {x, of->y + of->height + GAP_PX, place->width, place->height},
        {of->x + of->width + GAP_PX, y, place->width, place->height},
        {of->x - place->width - GAP_PX, y, place->width, place->height}};
    for (int subjects_too = 1; subjects_too >= 0; subjects_too--)
        for (size_t k = 0; k < sizeof beside / sizeof beside[0]; k++) {
            *place = beside[k];
            if (is_within(place, room) && is_free(place, obstacles->labels, obstacles->n_labels) &&
                (!subjects_too || is_free(place, obstacles->subjects, obstacles->n_subjects)))
                return;
        }
    place->x = x;
    for (place->y = fmax(room->y, fmin(y, lowest)); place->y < lowest; place->y++)
        if (is_free(place, obstacles->labels, obstacles->n_labels))
            return;
}

void labels_draw(const struct labels *labels, cairo_t *picture, int top_px)
{
    struct obstacles obstacles = {.n_subjects = labels->n};
    const double width_px = cairo_image_surface_get_width(cairo_get_target(picture));
    const double height_px = cairo_image_surface_get_height(cairo_get_target(picture));
    cairo_font_extents_t font;
    cairo_font_extents(picture, &font);
    obstacles.room = (struct rectangle){0, top_px, width_px, height_px - top_px};
    for (size_t i = 0; i < labels->n; i++) {
        const struct label_box *box = &labels->labels[i].subject;
        obstacles.subjects[i] =
            (struct rectangle){box->u0, box->v0, box->u1 - box->u0 + 1, box->v1 - box->v0 + 1};
    }
    for (size_t i = 0; i < labels->n; i++) {
        const struct label *label = &labels->labels[i];
        cairo_text_extents_t extents;
        cairo_text_extents(picture, label->text, &extents);
        struct rectangle place = {.width = extents.x_advance + 2 * MARGIN_PX,
                                  .height = font.ascent + font.descent};
        find_place(&obstacles, i, &place);
        obstacles.labels[obstacles.n_labels++] = place;
        cairo_set_source_rgba(picture, 0, 0, 0, 0.6);
        cairo_rectangle(picture, place.x, place.y, place.width, place.height);
        cairo_fill(picture);
        cairo_set_source_rgb(picture, label->colour[0], label->colour[1], label->colour[2]);
        cairo_move_to(picture, place.x + MARGIN_PX, place.y + font.ascent);
        cairo_show_text(picture, label->text);
    }
}
