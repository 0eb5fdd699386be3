// SPDX-License-Identifier: Apache-2.0
// Names beside what they belong to in a picture. None lies on another one or, where there is room,
// on what another one belongs to.
#ifndef POSED_TOOLS_PLOT_LABELS_H
#define POSED_TOOLS_PLOT_LABELS_H

#include <cairo.h>
#include <stddef.h>

#define LABEL_BYTES 128
#define LABELS_MAX  64

struct label_box { // pixels, all within
    int u0, v0, u1, v1;
};

struct label {
    char text[LABEL_BYTES]; // UTF-8
    struct label_box subject;
    double colour[3];
};

struct labels { // to begin with, zero
    struct label labels[LABELS_MAX];
    size_t n;
};

// Those beyond LABELS_MAX are left out.
void labels_add(struct labels *labels, struct label_box subject, const char *text,
                const double colour[3]);

// With the picture's font; the rows above `top_px` are left free.
void labels_draw(const struct labels *labels, cairo_t *picture, int top_px);

#endif
