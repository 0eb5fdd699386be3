// SPDX-License-Identifier: Apache-2.0
// One keyframe measured against others, two by two, with gpu/align's pair kernel in both directions
// (point to plane, robust), coarse to fine; and what such a measurement is worth: the pixels' white
// noise, and beside it what no number of pixels averages, the sensor's systematic error. That grows
// with the motion between the views: 10 % of it on real sensors without a field (links of
// consecutive keyframes against motion capture: 8.5 mm and 0.6 degrees over 6 cm and 0.1 rad),
// most of it along what the two surfaces hold least.
#ifndef POSED_GPU_MODEL_KEYFRAME_CONSTRAINT_H
#define POSED_GPU_MODEL_KEYFRAME_CONSTRAINT_H

#include "gpu/align/image.h"
#include "gpu/base/yield.h"
#include "proto/log.h"
#include "proto/types.h"

#define LINK_MAX         16  // measured in one call
#define LINK_MIN_OVERLAP 0.4 // share of the vertices that have a partner; less is not tried

// How well it is known where a camera sits on its body, of each axis (posectl rig calibrate).
#define LINK_PLACE_M   0.0025
#define LINK_PLACE_RAD 0.0016

struct link {
    struct se3 T_j_i;       // the other's points into the new keyframe's frame: in and out
    double information[36]; // of the twist (m, rad) of T_j_i, in the new keyframe's frame
    double doubt_m;         // in: how far off T_j_i may be; surfaces are sought within it
    double rms_m;
    double overlap; // share of the vertices of the smaller image that found a partner
    double weakest; // share of what is known on the direction that is held least, as
                    // gpu/track/conditioning.h has it; 0: some direction is not held
    bool good;      // false: not enough in common, or the surfaces do not match
};

struct link_maker; // opaque

__attribute__((warn_unused_result)) int link_maker_create(struct link_maker **out,
                                                          const struct log_sink *log);
void link_maker_destroy(struct link_maker **maker);

// Who is asked between pieces of a measurement; NULL: nobody.
void link_maker_set_yield(struct link_maker *maker, const struct yield *yield);

// An image ready for links from depth [m]. Returns 0, -EINVAL (too little depth) or -ENOMEM.
__attribute__((warn_unused_result)) int link_image(struct align_image **out, const float *z_m,
                                                   const struct intrinsics *camera);

// Share of the image's vertices (some hundred of them) that fall on the other's surface, or so far
// beside it as the pose may be off. Pure.
double link_overlap(const struct align_image *image, const struct align_image *other,
                    const struct se3 *T_other_image, double doubt_m);

// Share of both images' vertices that stand before a surface of the other, which the other would
// have seen: some per cent at depth edges, more where the pose is wrong. Pure.
double link_conflict(const struct align_image *image, const struct align_image *other,
                     const struct se3 *T_other_image);

// How far apart two views are: the way [m] and the turn [rad] between them, summed. Pure.
double link_motion(const struct se3 *T);

// Measures `image` (j) against n <= LINK_MAX others (i), each from its T_j_i. Returns 0 or -ENOMEM.
__attribute__((warn_unused_result)) int link_measure(struct link_maker *maker,
                                                     const struct align_image *image,
                                                     const struct align_image *const *others,
                                                     uint32_t n, struct link *inout);

// The link of a keyframe to the one before it, as the tracker has it: T_j_i, worth what the motion
// says. The tracker went there in smaller steps at full resolution, and is believed four times as
// well as a measured link of that motion. Where it came there by a detour, as over keyframes that
// went, it is worth no more than the `steps` (1 or more) of that `way` (link_motion, summed), each
// erring by itself.
void link_chain(struct link *link, const struct se3 *T_j_i, double way, uint32_t steps);

// The link of two cameras on one body, by where they sit and how the body moved between the two
// images: `motion` (link_motion), believed as a chain's is, beside what posectl rig calibrate errs
// by.
void link_tie(struct link *link, const struct se3 *T_j_i, double motion);

#endif
