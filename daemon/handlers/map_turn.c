// SPDX-License-Identifier: Apache-2.0
#include "daemon/handlers/map_turn.h"

#include <errno.h>
#include <string.h>

#include "proto/clock.h"

enum step {
    NOT_WANTED, // or its own copy is made
    WAITS,
    REFUSED, // waits, and nobody else can make its copy
    READS,   // makes its own
    IS_READ, // another makes it
    HAS_COPY,
};

void map_turns_open(struct map_turns *turns)
{
    pthread_condattr_t attributes;
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(&turns->changed, &attributes);
    pthread_condattr_destroy(&attributes);
    pthread_mutex_init(&turns->mutex, NULL);
}

void map_turns_close(struct map_turns *turns)
{
    pthread_cond_destroy(&turns->changed);
    pthread_mutex_destroy(&turns->mutex);
}

static void set_step(struct map_turn *turn, enum step step)
{
    pthread_mutex_lock(&turn->turns->mutex);
    turn->step = step;
    pthread_cond_broadcast(&turn->turns->changed);
    pthread_mutex_unlock(&turn->turns->mutex);
}

void map_turn_enter(struct map_turns *turns, const struct shared *shared, bool wants_map,
                    struct map_turn *turn)
{
    *turn = (struct map_turn){.turns = turns,
                              .shared = shared,
                              .epoch = shared_map_epoch(shared),
                              .step = wants_map ? WAITS : NOT_WANTED};
    pthread_mutex_lock(&turns->mutex);
    turn->number = turns->n_entered++;
    turn->next = turns->first;
    turn->link = &turns->first;
    if (turn->next)
        turn->next->link = &turn->next;
    turns->first = turn;
    pthread_mutex_unlock(&turns->mutex);
}

void map_turn_leave(struct map_turn *turn)
{
    struct map_turns *turns = turn->turns;
    if (!turns)
        return;
    pthread_mutex_lock(&turns->mutex);
    while (turn->step == IS_READ)
        pthread_cond_wait(&turns->changed, &turns->mutex);
    *turn->link = turn->next;
    if (turn->next)
        turn->next->link = turn->link;
    pthread_mutex_unlock(&turns->mutex);
    map_contents_free(&turn->map);
    turn->turns = NULL;
}

bool map_turn_begin(struct map_turn *turn, struct map_contents *out, struct intrinsics *out_camera)
{
    struct map_turns *turns = turn->turns;
    pthread_mutex_lock(&turns->mutex);
    while (turn->step == IS_READ)
        pthread_cond_wait(&turns->changed, &turns->mutex);
    const bool has_copy = turn->step == HAS_COPY;
    turn->step = has_copy ? NOT_WANTED : READS;
    pthread_mutex_unlock(&turns->mutex);
    if (has_copy) {
        *out = turn->map;
        *out_camera = turn->camera;
        turn->map = (struct map_contents){0};
    }
    return has_copy;
}

void map_turn_end(struct map_turn *turn)
{
    set_step(turn, NOT_WANTED);
}

// With the mutex held: the first of those before this one that has still to do with the map.
static struct map_turn *find_before(const struct map_turn *turn)
{
    struct map_turn *first = NULL;
    for (struct map_turn *t = turn->turns->first; t; t = t->next)
        if (t->shared == turn->shared && t->number < turn->number &&
            (t->step == WAITS || t->step == READS || t->step == IS_READ) &&
            (!first || t->number < first->number))
            first = t;
    return first;
}

int map_turn_before(struct map_turn *turn, int64_t deadline_ns, struct map_turn **out)
{
    struct map_turns *turns = turn->turns;
    const struct timespec deadline = clock_timespec(deadline_ns);
    int result = 0;
    pthread_mutex_lock(&turns->mutex);
    while ((*out = find_before(turn)) && (*out)->step != WAITS && result == 0)
        result = -pthread_cond_timedwait(&turns->changed, &turns->mutex, &deadline);
    if (*out && (*out)->step == WAITS) {
        (*out)->step = IS_READ;
        result = 0;
    }
    pthread_mutex_unlock(&turns->mutex);
    return *out ? result : 0;
}

void map_turn_made(struct map_turn *turn, bool made)
{
    set_step(turn, made ? HAS_COPY : REFUSED);
}
