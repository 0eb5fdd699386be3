// SPDX-License-Identifier: Apache-2.0
// How many hypotheses each stage of the default search hands on to the next: the same on both
// twins.
//
//   scan      the best views at each start point, so many of them that SEARCH_HITS_MAX are reached:
//             the right one is among the first five of its start, but with an occluder in front it
//             is far behind the clutter's, so that starts do not compete with each other
//   points    all hits are refined with a view's stored points; nine in ten are given up early
//   screened  the SEARCH_SCREENED best distinct ones are drawn where they are and scored by every
//             pixel. By its points a right pose of which a third is seen may rank anywhere: so
//             nearly all are drawn (some 300 of a scene). In 498 scenes of which 27 to 33 % is
//             seen 6 more right ones came first than with 128, and none fewer. Those left out are
//             SEARCH_SCREENED_BEHIND below the best by the points' score: of 283 right first
//             answers of which a third is seen one had been 13 behind, the others at most 10.8
//   drawn     the best of these, some more than are polished, for a few rounds
//   polished  of these the best, for several rounds
//   slid      the best of the polished moved both ways along the two directions that their surface
//             holds least (slide.h), drawn where that is: in 511 scenes of which 30 % is seen
//             another 14 right ones came first. All polished ones, three directions, or once more
//             by half as much find no more
//   turned    the best one as it would look turned (near_symmetry.h): the scan may have passed over
//             the true one of two poses that differ by a knob
#ifndef POSED_GPU_SEARCH_KERNELS_HYPOTHESIS_COUNTS_H
#define POSED_GPU_SEARCH_KERNELS_HYPOTHESIS_COUNTS_H

#include <stdint.h>

#include "gpu/base/kernel.h"

#define SEARCH_HITS_MAX        16384
#define SEARCH_KEEP_LEAST      8 // of a start
#define SEARCH_KEEP_MOST       48
#define SEARCH_SCREENED        512
#define SEARCH_SCREENED_BEHIND 14.f
#define SEARCH_DRAWN_MORE      14 // than are polished
#define SEARCH_POLISHED        18 // at least; with more answers wanted 17 more than those
#define SEARCH_NOT_SLID        8  // of the polished
#define SEARCH_SLIDE_WAYS      4

#define SEARCH_DRAWN_ROUNDS    2
#define SEARCH_POLISHED_ROUNDS 3
#define SEARCH_TURNED_ROUNDS   5

KERNEL_FN uint32_t search_keep_per_start(uint32_t n_starts)
{
    uint32_t keep = SEARCH_HITS_MAX / (n_starts ? n_starts : 1);
    keep = keep < SEARCH_KEEP_MOST ? keep : SEARCH_KEEP_MOST;
    return keep > SEARCH_KEEP_LEAST ? keep : SEARCH_KEEP_LEAST;
}

#endif
