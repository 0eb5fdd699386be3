// SPDX-License-Identifier: Apache-2.0
// What carries the object. Things stand on something, and none reaches through a table: how far the
// lowest point of a pose is from the large planes of the image tells right poses from wrong ones
// though nothing of it is seen. What is below a plane, but where the camera looks past that plane's
// edge, says nothing.
//
// Its worth is the logarithm of a likelihood ratio, as the score is (kernels/score.h), so that it
// is added to it. Right poses: three in ten touch (a sensor bends a table by some millimetres), six
// in ten stand on something that is no large plane, or hang in a hand, one in ten is like a wrong
// one, whatever the reason: a table that is not flat, a model with a loose end. Those shares are of
// what robots look at and not fitted: in a generated scene nearly everything stands on the table.
// How wrong answers lie was measured (tools/bench/MEASURED.md, "What carries the object").
//
// A pose that touches is worth 0: of the wrong answers that are good enough to be taken for right
// many touch as well, as they lie on another thing that does. So an image with planes accepts no
// more than one without, it only rejects more.
//
// Host code, the same for both twins, private to gpu. All pure but search_add_support.
#ifndef POSED_GPU_SEARCH_SUPPORT_H
#define POSED_GPU_SEARCH_SUPPORT_H

#include "gpu/search/context.h"

#define SEARCH_SUPPORTS_MAX 4

// Points p of the camera's frame [m] with m . p = 1; the camera is on the side where it is less.
struct search_support {
    double m[3];
};

struct search_supports {
    uint32_t n;
    struct search_support of[SEARCH_SUPPORTS_MAX]; // that of the most pixels first
};

// Planes of the image that are larger than any flat side of an object of this radius can be.
void search_find_supports(const struct search_image *image, float radius_m,
                          struct search_supports *out);

// From the nearest of them to the lowest point of the object in pose c [m], negative: it reaches
// through. INFINITY without one.
float search_support_gap_m(const struct search_supports *supports,
                           const struct search_object *object, const struct search_image *image,
                           const struct search_candidate *c);

// 0 for INFINITY, and at 0. z_m: how far away the object is.
float search_support_worth(float gap_m, float radius_m, float z_m);

// Adds it to `score` and `sure` of candidates that have both.
void search_add_support(const struct search_object *object, const struct search_image *image,
                        struct search_candidate *candidates, uint32_t n);

#endif
