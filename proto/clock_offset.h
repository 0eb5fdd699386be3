// SPDX-License-Identifier: Apache-2.0
// By how much the clocks of two cameras on one body differ, from how fast each says that it turns:
// the angular speed is the same wherever a camera sits on the body, so that the two agree best
// where one is moved in time by the difference. Once it is known how the cameras are turned to each
// other, the three components say more than their length.
#ifndef POSED_PROTO_CLOCK_OFFSET_H
#define POSED_PROTO_CLOCK_OFFSET_H

#include <stddef.h>
#include <stdint.h>

#define CLOCK_OFFSET_MAX_S   2.0  // differences sought
#define CLOCK_OFFSET_MIN_S   4.0  // of motion that both must have, at each of them
#define CLOCK_OFFSET_MATCH   0.8  // correlation below which nothing is told
#define CLOCK_OFFSET_MIN_RAD 0.05 // standard deviation of it [rad/s]: less is noise

// How fast a camera turned between two frames.
struct clock_offset_turn {
    int64_t begin_ns, end_ns;
    double rad_s[3]; // along axes that both share, or its length and zeros; NaN: not known
};

struct clock_offset {
    double offset_s;    // B's stamp of a moment, less A's
    double std_s;       // its standard deviation
    double correlation; // at best, -1..1
};

// Turns of each camera in order of time; gaps are allowed. Any thread. Returns 0, or with *out
// zero but for the correlation as far as it is known
//   -ENODATA  fewer than CLOCK_OFFSET_MIN_S in common at any difference
//   -EDOM     the cameras turn too evenly to tell, or not alike (correlation), or the best
//             difference lies at the end of what is sought
//   -ENOMEM
__attribute__((warn_unused_result)) int clock_offset_find(const struct clock_offset_turn *a,
                                                          size_t n_a,
                                                          const struct clock_offset_turn *b,
                                                          size_t n_b, struct clock_offset *out);

#endif
