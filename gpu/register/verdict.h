// SPDX-License-Identifier: Apache-2.0
// Whether an answer is to be trusted: what speaks for a pose and what against it, how close another
// one comes, and in words why not. Every threshold of that stands here. Private to gpu.
#ifndef POSED_GPU_REGISTER_VERDICT_H
#define POSED_GPU_REGISTER_VERDICT_H

#include "gpu/register/candidates.h"
#include "gpu/register/ops.h"

// Share of the points that have a counterpart, of both sets: 0..1; 0 when not determined.
double register_score(const struct register_run *run);

// Whether a wrong pose would score as much: then no rival is needed to doubt it.
bool register_by_chance(const struct register_run *run);

// Wrong winners on pairs of scans that hardly overlap scored 0.04 to 0.148, right ones 0.163 and
// more (all 45 pairs of scans_bunny; 0.27 at overlap 0.4 of bunny_robustness, below 0.09 between
// shapes that have nothing in common); a second basin came to 0.62 of a right winner's score at
// most.
#define REGISTER_CHANCE_SCORE 0.132

// How close a score elsewhere, or chance, comes to the best one: 0..1.
double register_ambiguity(double best, double second);

// What a candidate is ranked by: the root of its score, up to 21 times as much where
// features agree. Planes of a room coincide in many poses, and in a wrong one often better than in
// the right one; then few of the correspondences, which no plane has, lie on each other. The less,
// the more of a set it brings behind the other's walls or into the space that the other shows to be
// empty: of 118 right poses of rooms half have none of that, 97 % 0.0085 at most, most wrong ones
// 0.01 to 0.3 (posed-bench pairs --rooms 10, seeds 1001 to 1032); of five of real rooms 0.0015.
double register_candidates_evidence(const struct register_candidate *candidate);

// What features alone say of a pose: its correspondences, the less the more speaks against it.
double register_candidates_votes(const struct register_candidate *candidate);

// What speaks for the best, 0..1: its score, the less the nearer the evidence for the next pose
// elsewhere comes to its own; of that one's correspondences those count that the best does not do,
// too, or a neighbour of a right pose would speak against it. Nothing for fewer pairs than any
// patch finds somewhere in a scene. Of poses that features found, nothing unless the
// correspondences that speak for it, for what walls and the empty space leave of them, are twice
// as many as for any other pose and so many more that this times the score is REGISTER_LEAST_LEAD:
// of 223 wrong poses, of pieces of two different rooms most of them, the highest reached 1.5, of
// 319 right ones 97 % are above 2 (seeds 1701 to 1740, and 1741 to 1772 with rooms that are hardly
// furnished and half of the pairs from two of them). Nor where another rotation brings nearly all
// of both sets together as well: of a ball or a cylinder chance finds correspondences for one of
// many. Of others, nothing where the evidence for
// another pose comes nearer than REGISTER_NEAR_SCORE of its own (a symmetric object), where more
// correspondences speak for another, or walls and empty space against it.
#define REGISTER_NEAR_SCORE  0.8
#define REGISTER_LEAST_PAIRS 150u
#define REGISTER_LEAST_LEAD  2.0
double register_candidates_trust(const struct register_candidates *candidates);

// Whether to look no further: REGISTER_SURE is trusted, or a pose of features leads by so much that
// this times the score is four times what any wrong one reached.
#define REGISTER_SURE_LEAD 6.0
bool register_candidates_convince(const struct register_candidates *candidates);

// Wrong winners reached 0.077, right ones 0.088 and more (scans_bunny all pairs, statue_scans all
// pairs, when scores counted in full). Above the second figure nobody looks for others.
#define REGISTER_TRUST     0.083
#define REGISTER_SURE      0.22
#define REGISTER_SURE_NEAR 0.30 // of a pose that began at one place

// The ambiguity that such a trust comes to: 0.85 at REGISTER_TRUST.
double register_ambiguity_of_trust(double trust);

// Sets ambiguity and ambiguous.
void register_verdict_set(double ambiguity, struct register_result *out);

// out->doubt: why a result is not to be trusted and what would help, in the sets' own sizes.
void register_doubt(const struct register_surfaces *surfaces,
                    const struct register_settings *settings, struct register_result *out);

// The same of what was judged by its points alone: no surfaces were built. extent_m: of both sets,
// as register_surfaces_extent has it.
void register_doubt_points(const double extent_m[2], struct register_result *out);

#endif
