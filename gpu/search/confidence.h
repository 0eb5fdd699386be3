// SPDX-License-Identifier: Apache-2.0
// What an answer is worth. Host code. Private to gpu.
#ifndef POSED_GPU_SEARCH_CONFIDENCE_H
#define POSED_GPU_SEARCH_CONFIDENCE_H

#include "gpu/search/kernels/pose.h"
#include "gpu/search/object.h"

#define SEARCH_NO_RIVAL (-20.f)

// How much better (in score, so negative when worse) the best other candidate is that would put
// another surface where candidate k has the object: two of them cannot both be right. Poses that
// show the same surface (the handle of a mug is hidden) do not contradict each other, nor do ones
// elsewhere: there may be several such objects. SEARCH_NO_RIVAL without any.
float search_rival(const struct search_object *object, const struct search_candidate *candidates,
                   uint32_t n, uint32_t k);

// Sorts candidates into distinct answers, best first, and returns how many there are. The score
// says whether the object is there; of poses at one place whose scores are nearly the same (a box
// with a knob, end for end) the first `top` are chosen by what agrees with the image pixel by
// pixel. Their scores are then `sure` of the best one there, so that they may be out of order.
uint32_t search_keep_answers(const struct search_object *object,
                             struct search_candidate *candidates, uint32_t n, uint32_t top);

// Probability that a scored candidate is right, calibrated on synthetic scenes.
float search_confidence(const struct search_candidate *c, float rival);

#endif
