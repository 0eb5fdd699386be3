// SPDX-License-Identifier: Apache-2.0
// The turn of a request: when it was taken on, and in which map epoch. Commands overtake what takes
// long; so what gives the map up (a reset, another map, winding) first copies it for those before
// it that have asked for it, which takes no longer than one frame each and waits for no work of
// theirs. A request whose epoch has ended before its copy was made gets none.
#ifndef POSED_DAEMON_HANDLERS_MAP_TURN_H
#define POSED_DAEMON_HANDLERS_MAP_TURN_H

#include <pthread.h>

#include "daemon/shared_state.h"
#include "gpu/model/map.h"

struct map_turns {
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    struct map_turn *first;
    uint64_t n_entered;
};

// All of it is map_turn.c's, but `map`, `camera` of one that map_turn_before returned.
struct map_turn {
    struct map_turns *turns; // NULL: it has not entered
    const struct shared *shared;
    uint64_t number;
    uint32_t epoch;
    int step;
    struct map_contents map; // made for it by another
    struct intrinsics camera;
    struct map_turn *next, **link;
};

void map_turns_open(struct map_turns *turns);
void map_turns_close(struct map_turns *turns); // all have left

// A request of a camera is taken on: `wants_map`, it will copy it. In this order; any thread.
void map_turn_enter(struct map_turns *turns, const struct shared *shared, bool wants_map,
                    struct map_turn *turn);

// It is done. Waits where a copy is being made for it. Nothing where it has not entered.
void map_turn_leave(struct map_turn *turn);

// The request itself wants its copy. True: it had been made, and is the caller's. False: the caller
// makes it and then calls map_turn_end.
__attribute__((warn_unused_result)) bool
map_turn_begin(struct map_turn *turn, struct map_contents *out, struct intrinsics *out_camera);
void map_turn_end(struct map_turn *turn);

// One of the same camera that entered before `turn` and has no copy yet: the caller makes it and
// says so with map_turn_made. One that makes its own is waited for. Returns 0 (*out is NULL: there
// is none) or -ETIMEDOUT (deadline_ns, CLOCK_MONOTONIC).
__attribute__((warn_unused_result)) int map_turn_before(struct map_turn *turn, int64_t deadline_ns,
                                                        struct map_turn **out);
// `made` false: it is not to be had this way; the request will find out why.
void map_turn_made(struct map_turn *turn, bool made);

#endif
