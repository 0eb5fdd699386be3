// SPDX-License-Identifier: Apache-2.0
// What carries the object. None reaches through a table: how far the lowest point of a pose is
// below the large planes of the image tells wrong poses from right ones though nothing of it is
// seen.
//
// A plane is what many flat patches of the image have in common, and ends with them: what is below
// it beyond its edge, or wholly below it, or where the camera looks past it, says nothing, nor does
// a plane far below, nor one with a hole where the object is: a sink, an open drawer. Pixels that
// the caller does not want looked at are not looked at.
//
// The worth is the logarithm of a likelihood ratio, as the score is (kernels/score.h), so that it
// is added to it: of right answers one in twenty reaches through, of wrong ones every second
// (tools/bench/MEASURED.md, "What carries the object"). It is never above 0, so that a pose is
// never believed because of where it stands: of the wrong answers that are good enough to be taken
// for right many lie on another thing that stands there. Standing a little above costs little: in
// generated scenes nearly everything is on the table, in others on a box, or in a hand.
//
// Host code, the same for both twins, private to gpu. The CUDA twin finds the planes while the
// device works. All pure but search_add_support.
#ifndef POSED_GPU_SEARCH_SUPPORT_H
#define POSED_GPU_SEARCH_SUPPORT_H

#include "gpu/search/object.h"

#define SEARCH_SUPPORTS_MAX 4
#define SEARCH_SUPPORT_WAYS 16

struct search_support {
    // Points p of the camera's frame [m] with m . p = 1; the camera is where it is less.
    double m[3];
    // How far its patches reach in the image, in directions of equal angles [px].
    float reach_px[SEARCH_SUPPORT_WAYS];
};

struct search_supports {
    uint32_t n;
    struct search_support of[SEARCH_SUPPORTS_MAX]; // that of the most patches first
};

// Planes of the image that are larger than any flat side of an object of this radius can be.
void search_find_supports(const struct search_image *image, float radius_m,
                          struct search_supports *out);

// From the plane to the lowest point of the object in pose c [m], negative: it reaches through, and
// by no more than it stands out. What ends in the plane may be a part of it: a box among others as
// high, a brick of a wall. INFINITY where the plane says nothing about it.
float search_support_gap_m(const struct search_support *support, const struct search_object *object,
                           const struct search_image *image, const struct search_candidate *c);

// 0 for INFINITY, and for what touches; never more. z_m: how far away the object is.
float search_support_worth(float gap_m, float radius_m, float z_m);

// Adds the least worth of all planes to `score` and `sure` of candidates that have both.
void search_add_support(const struct search_supports *supports, const struct search_object *object,
                        const struct search_image *image, struct search_candidate *candidates,
                        uint32_t n);

#endif
