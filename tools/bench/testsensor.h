// SPDX-License-Identifier: Apache-2.0
// What depth cameras make of a scene when their images come as most data sets deliver them:
// registered to a colour camera, with edges filled in, and biased. tools/bench/MEASURED.md compares
// the outlines of generated and real objects (posed-bench search --outline).
#ifndef POSED_TOOLS_BENCH_TESTSENSOR_H
#define POSED_TOOLS_BENCH_TESTSENSOR_H

#include <stdbool.h>
#include <stdint.h>

struct testsensor_scene {
    const float *z_m;      // what is there, 0 nothing; width x height
    const uint8_t *object; // 1: the object is what is seen there
    const uint8_t *matt;   // 1: neither gloss nor black there, no patch; NULL: nowhere
    int width, height;
    double focal_px;
};

// Structured light registered to a colour camera 2.5 cm beside it. Each scene has, drawn from
// *random: a shift between both images (to 2 px), outlines that wander and that are grown or eaten
// by pixels, mixed pixels, surfaces smoothed, a projector's shadow (left, or filled from either
// side), patches filled from behind, smooth errors of two widths, and a bias of the object's
// material (-6 to 2 mm). out_depth: 1/1000 m, 0 invalid. Returns 0 or -ENOMEM.
__attribute__((warn_unused_result)) int
testsensor_registered(const struct testsensor_scene *scene, uint64_t *random, uint16_t *out_depth);

// Time of flight: no shadow, flying pixels between front and back at every edge, corners rounded by
// light that goes two ways, noise without steps, a bias of the material (-6 to 6 mm), grazing
// surfaces lost.
__attribute__((warn_unused_result)) int testsensor_tof(const struct testsensor_scene *scene,
                                                       uint64_t *random, uint16_t *out_depth);

// Structured light as its chip delivers it, seen from a colour camera of a longer focal length: a
// depth is what a window of the projector's pattern agrees on. Where two surfaces share the window,
// or one is seen at a slant, there is none: bands without measurement on both sides of every edge,
// several pixels wide; where they meet, the corner is rounded. Gloss and what is dark have holes.
// A pixel of the chip (focal length TESTSENSOR_CHIP_FOCAL_PX) is as many of the image as focal_px
// says.
__attribute__((warn_unused_result)) int testsensor_matched(const struct testsensor_scene *scene,
                                                           uint64_t *random, uint16_t *out_depth);

#define TESTSENSOR_CHIP_FOCAL_PX 570.3

#endif
