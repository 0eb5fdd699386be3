// SPDX-License-Identifier: Apache-2.0
// The reader sleeps on a semaphore, which the decoder, and a signal handler through
// replay_interrupt, may post at any time: a post without news only costs one more look.
// Only frames that were decoded have pixels, taken from a few buffers; the ring itself is longer,
// so that the decoder can pass over many late frames at once when the replay runs faster than it.
// The frame that the reader holds (also the one that duplicates are compared with) keeps its
// buffer.
#include "capture/replay.h"

#include <errno.h>
#include <math.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "capture/timetable.h"
#include "proto/clock.h"

#define N_SLOTS   64
#define N_BUFFERS 7 // one with the reader, six ahead: 200 ms at camera rate ride out a slow disk

struct slot {
    uint16_t *pixels;           // NULL: passed over
    struct capture_frame frame; // what the driver adds; the reader fills in the rest
    int result;                 // of decode
};

struct replay {
    const struct capture_driver *driver;
    void *state;
    struct timetable times;
    double rate;
    bool loop;
    uint32_t width_px, height_px;
    double units_per_m;

    pthread_t thread;
    bool thread_runs;
    sem_t wake; // the reader
    atomic_bool interrupted;

    pthread_mutex_t lock;
    pthread_cond_t room;
    struct slot slots[N_SLOTS];
    struct buffers buffers;
    uint64_t n_decoded, n_taken; // frames q < n_decoded are in the ring, q < n_taken handed out
    int64_t start_mono_ns;       // 0 until the first read
    int64_t decode_ns;           // how long decoding takes, running mean
    uint64_t end;                // first q that is not played; UINT64_MAX with loop
    uint64_t generation;         // +1 whenever the ring is cut: what is being decoded is old
    bool paused;
    uint64_t n_steps; // to be handed out although paused
    bool stop;

    uint16_t *held; // pixels of the frame handed out last, NULL = none yet
    int failed;     // a decode error that ended the replay
};

// CLOCK_MONOTONIC when frame q is due; behind the end they would come one period apart.
static int64_t due_ns(const struct replay *replay, uint64_t q)
{
    int64_t after_ns = q >= replay->end
                           ? timetable_paced_ns(&replay->times, replay->end - 1) +
                                 (int64_t)(q - replay->end + 1) * replay->times.period_ns
                           : timetable_paced_ns(&replay->times, q);
    // a century is never; the sum stays far from overflow, also when paced_ns has wrapped
    double wait_ns = fmax(fmin((double)after_ns / replay->rate, 3e18), -3e18);
    return replay->start_mono_ns + (int64_t)wait_ns;
}

static bool is_paced(const struct replay *replay)
{
    return replay->rate > 0 && !replay->paused;
}

// From now on frame n_taken is due now, and all others from there.
static void anchor(struct replay *replay)
{
    replay->start_mono_ns = clock_monotonic_ns();
    if (replay->rate > 0)
        replay->start_mono_ns -= due_ns(replay, replay->n_taken) - replay->start_mono_ns;
}

// The frame that makes q late as soon as it is due.
static uint64_t late_when(const struct replay *replay, uint64_t q)
{
    return q + 1 + atomic_load(&replay->buffers.max_waiting);
}

// Decoding what is late by the time it is decoded would make everything late for ever.
static bool will_be_late(const struct replay *replay, uint64_t q)
{
    return is_paced(replay) && replay->start_mono_ns &&
           clock_monotonic_ns() + replay->decode_ns >= due_ns(replay, late_when(replay, q));
}

static void *decode_ahead(void *argument)
{
    struct replay *replay = argument;
    pthread_setname_np(pthread_self(), "posed-frames");
    // As the frame is taken the next is decoded: that must not take the processor from a tracker
    // that is at work or polls for its own. Refused: it is as it was.
    (void)sched_setscheduler(0, SCHED_BATCH, &(struct sched_param){0});
    pthread_mutex_lock(&replay->lock);
    while (!replay->stop) {
        uint64_t q = replay->n_decoded;
        bool room = q - replay->n_taken < N_SLOTS && q < replay->end;
        bool late = room && will_be_late(replay, q);
        struct slot slot = {.frame = {.gravity_m_s2 = {NAN, NAN, NAN}}};
        if (room && !late)
            slot.pixels = buffers_take(&replay->buffers);
        if (!room || (!late && !slot.pixels)) {
            pthread_cond_wait(&replay->room, &replay->lock);
            continue;
        }
        uint64_t generation = replay->generation;
        if (!late) {
            int64_t begin_ns = clock_monotonic_ns();
            pthread_mutex_unlock(&replay->lock);
            buffers_tell(&replay->buffers, &replay->wake, BUFFERS_BEGUN);
            slot.result = replay->driver->decode(replay->state, replay_entry(replay, q),
                                                 slot.pixels, &slot.frame);
            buffers_tell(&replay->buffers, &replay->wake, BUFFERS_ENDING);
            buffers_written(&replay->buffers, slot.pixels);
            pthread_mutex_lock(&replay->lock);
            replay->decode_ns += (clock_monotonic_ns() - begin_ns - replay->decode_ns) / 8;
            atomic_store(&replay->buffers.writing, BUFFERS_IDLE);
        }
        if (generation != replay->generation) {
            buffers_give(&replay->buffers, slot.pixels);
            continue;
        }
        replay->slots[q % N_SLOTS] = slot;
        replay->n_decoded++;
        sem_post(&replay->wake);
    }
    pthread_mutex_unlock(&replay->lock);
    return NULL;
}

int replay_create(struct replay **out, const struct capture_driver *driver, void *state,
                  const struct capture_settings *settings, struct capture_info *info)
{
    *out = NULL;
    struct replay *replay = calloc(1, sizeof *replay);
    if (!replay)
        return -ENOMEM;
    replay->driver = driver;
    replay->state = state;
    replay->rate = settings->rate;
    replay->loop = settings->loop;
    replay->width_px = info->camera.width_px;
    replay->height_px = info->camera.height_px;
    replay->units_per_m = info->units_per_m;
    sem_init(&replay->wake, 0, 0);
    pthread_mutex_init(&replay->lock, NULL);
    pthread_cond_init(&replay->room, NULL);
    int err = timetable_make(&replay->times, driver, state, info->n_frames, settings);
    if (!err)
        err = buffers_create(&replay->buffers, N_BUFFERS, settings->n_kept,
                             sizeof(uint16_t) * replay->width_px * replay->height_px);
    if (err) {
        replay_destroy(&replay);
        return err;
    }
    replay->end = replay->loop ? UINT64_MAX : replay->times.n_round;
    info->n_frames = replay->loop ? 0 : replay->times.n_round;
    info->period_ns = replay->times.n_round > 1 ? replay->times.period_ns : 0;
    *out = replay;
    return 0;
}

int replay_start(struct replay *replay)
{
    int err = pthread_create(&replay->thread, NULL, decode_ahead, replay);
    replay->thread_runs = err == 0;
    return -err;
}

uint64_t replay_entry(const struct replay *replay, uint64_t q)
{
    return timetable_entry(&replay->times, q);
}

uint64_t replay_round_frames(const struct replay *replay)
{
    return replay->times.n_round;
}

// How near frame q is: both that it is written and that it is due. Lock held.
static enum buffers_writing comes(const struct replay *replay, uint64_t q, int64_t due,
                                  int64_t now_ns)
{
    if (!replay->buffers.hooks.soon || due > now_ns + CAPTURE_SOON_NS)
        return BUFFERS_IDLE;
    enum buffers_writing writing = replay->n_decoded > q    ? BUFFERS_ENDING
                                   : replay->n_decoded == q ? atomic_load(&replay->buffers.writing)
                                                            : BUFFERS_IDLE;
    return writing == BUFFERS_ENDING && due > now_ns + CAPTURE_WAKE_NS ? BUFFERS_BEGUN : writing;
}

// Waits until frame q is due and in the ring. The lock is held on entry and on return.
static int wait_for_frame(struct replay *replay, uint64_t q, int64_t deadline_ns)
{
    const struct capture_hooks *hooks = &replay->buffers.hooks;
    bool told = false;
    for (;;) {
        while (sem_trywait(&replay->wake) == 0)
            ; // old news
        if (atomic_load(&replay->interrupted))
            return -EINTR;
        bool stands = replay->paused && (replay->n_steps == 0 || q >= replay->end);
        int64_t now_ns = clock_monotonic_ns(), due = stands             ? INT64_MAX
                                                     : is_paced(replay) ? due_ns(replay, q)
                                                                        : 0;
        if (now_ns >= due && replay->n_decoded > q)
            return 0;
        if (now_ns >= deadline_ns)
            return -EAGAIN;
        enum buffers_writing near = comes(replay, q, due, now_ns);
        int64_t ahead_ns = !hooks->soon || told   ? 0
                           : near == BUFFERS_IDLE ? CAPTURE_SOON_NS
                                                  : CAPTURE_WAKE_NS;
        int64_t wanted_ns = due - ahead_ns;
        int64_t until_ns = now_ns < wanted_ns && wanted_ns < deadline_ns ? wanted_ns : deadline_ns;
        pthread_mutex_unlock(&replay->lock);
        if (near == BUFFERS_ENDING && !told)
            hooks->soon(hooks->user);
        else
            buffers_wait(&replay->wake, until_ns, near != BUFFERS_IDLE);
        told = near == BUFFERS_ENDING;
        pthread_mutex_lock(&replay->lock);
    }
}

// Fills *out from the slot of frame q; its pixels go to the reader or back. Lock held.
static void hand_out(struct replay *replay, uint64_t q, struct capture_frame *out)
{
    struct slot *slot = &replay->slots[q % N_SLOTS];
    uint64_t round = q / replay->times.n_round;
    int64_t now_ns = clock_monotonic_ns();
    *out = slot->frame;
    int64_t time_ns = timetable_stamp_ns(&replay->times, q, &out->index);
    out->image = (struct depth_frame){.width_px = replay->width_px,
                                      .height_px = replay->height_px,
                                      .units_per_m = replay->units_per_m,
                                      .time_ns = time_ns};
    out->capture_mono_ns = is_paced(replay) ? due_ns(replay, q) : now_ns;
    out->flags = round > 0 && q % replay->times.n_round == 0 ? CAPTURE_LOOPED : 0;
    out->paced = is_paced(replay);
    while (out->paced && out->n_waiting <= CAPTURE_MAX_WAITING &&
           now_ns >= due_ns(replay, q + 1 + out->n_waiting))
        out->n_waiting++;
    if (!slot->pixels || (out->paced && now_ns >= due_ns(replay, late_when(replay, q)))) {
        out->flags |= CAPTURE_LATE;
    } else if (slot->result == -EBADMSG) {
        out->flags |= CAPTURE_DAMAGED;
    } else {
        if (replay->held && !memcmp(slot->pixels, replay->held, replay->buffers.frame_bytes))
            out->flags |= CAPTURE_DUPLICATE;
        buffers_give(&replay->buffers, replay->held);
        out->image.depth = replay->held = slot->pixels;
        slot->pixels = NULL;
    }
    buffers_give(&replay->buffers, slot->pixels);
    slot->pixels = NULL;
}

int replay_read(struct replay *replay, int timeout_ms, struct capture_frame *out_frame)
{
    int64_t now_ns = clock_monotonic_ns();
    int64_t deadline_ns = timeout_ms < 0 ? INT64_MAX : now_ns + (int64_t)timeout_ms * 1000000;
    uint64_t q = replay->n_taken;
    if (replay->failed)
        return replay->failed;
    pthread_mutex_lock(&replay->lock);
    int err = atomic_load(&replay->interrupted)     ? -EINTR
              : q >= replay->end && !replay->paused ? -ENODATA
                                                    : 0;
    if (!replay->start_mono_ns)
        anchor(replay);
    if (!err)
        err = wait_for_frame(replay, q, deadline_ns);
    if (!err) {
        int result = replay->slots[q % N_SLOTS].result;
        if (result && result != -EBADMSG) {
            err = replay->failed = result;
        } else {
            hand_out(replay, q, out_frame);
            replay->n_taken++;
            replay->n_steps -= replay->n_steps > 0;
            pthread_cond_signal(&replay->room);
        }
    }
    pthread_mutex_unlock(&replay->lock);
    return err;
}

// Frames from q on are decoded again.
static void cut_ring(struct replay *replay, uint64_t q)
{
    for (uint64_t i = q; i < replay->n_decoded; i++) {
        buffers_give(&replay->buffers, replay->slots[i % N_SLOTS].pixels);
        replay->slots[i % N_SLOTS].pixels = NULL;
    }
    replay->n_decoded = q;
    replay->generation++;
}

// Frames that were passed over as late will be on time at another pace.
static void cut_late(struct replay *replay)
{
    for (uint64_t q = replay->n_taken; q < replay->n_decoded; q++)
        if (!replay->slots[q % N_SLOTS].pixels) {
            cut_ring(replay, q);
            return;
        }
}

static int seek(struct replay *replay, double position_s)
{
    uint64_t low = 0, high = replay->times.n_round - 1, round = 0;
    double wanted_ns = position_s * 1e9;
    if (!(position_s >= 0 && wanted_ns <= (double)timetable_position_ns(&replay->times, high)))
        return -ERANGE;
    while (low < high) { // the first frame at or after it
        uint64_t middle = low + (high - low) / 2;
        if ((double)timetable_position_ns(&replay->times, middle) < wanted_ns)
            low = middle + 1;
        else
            high = middle;
    }
    if (replay->n_taken > 0) {
        round = (replay->n_taken - 1) / replay->times.n_round;
        round += round * replay->times.n_round + low < replay->n_taken;
    }
    cut_ring(replay, replay->n_taken);
    replay->n_taken = replay->n_decoded = round * replay->times.n_round + low;
    if (!replay->loop)
        replay->end = (round + 1) * replay->times.n_round;
    return 0;
}

int replay_control(struct replay *replay, enum capture_control control, double value,
                   struct capture_playback *out)
{
    int err = 0;
    pthread_mutex_lock(&replay->lock);
    switch (control) {
    case CAPTURE_QUERY:
        break;
    case CAPTURE_PAUSE:
    case CAPTURE_RESUME:
        replay->paused = control == CAPTURE_PAUSE;
        replay->n_steps = 0;
        break;
    case CAPTURE_STEP:
        if (!(value >= 1 && value <= 1e6))
            err = -ERANGE;
        else
            replay->n_steps = (uint64_t)value;
        replay->paused = replay->paused || !err;
        break;
    case CAPTURE_RATE:
        if (value != 0 && !(value >= 0.001 && value <= 1000))
            err = -ERANGE;
        else
            replay->rate = value;
        break;
    case CAPTURE_SEEK:
        err = seek(replay, value);
        break;
    }
    if (!err && control != CAPTURE_QUERY) {
        cut_late(replay);
        anchor(replay);
        pthread_cond_signal(&replay->room);
    }
    uint64_t q = replay->n_taken < replay->end ? replay->n_taken : replay->end - 1;
    *out = (struct capture_playback){
        .paused = replay->paused,
        .rate = replay->rate,
        .position_s = (double)timetable_position_ns(&replay->times, q) * 1e-9,
        .duration_s =
            (double)timetable_position_ns(&replay->times, replay->times.n_round - 1) * 1e-9,
        .ahead_s = (double)timetable_ahead_ns(&replay->times, q) * 1e-9,
    };
    pthread_mutex_unlock(&replay->lock);
    return err;
}

void replay_interrupt(struct replay *replay)
{
    atomic_store(&replay->interrupted, true);
    sem_post(&replay->wake);
}

struct buffers *replay_buffers(struct replay *replay)
{
    return &replay->buffers;
}

void replay_destroy(struct replay **replay_in)
{
    struct replay *replay = *replay_in;
    if (!replay)
        return;
    pthread_mutex_lock(&replay->lock);
    replay->stop = true;
    pthread_cond_signal(&replay->room);
    pthread_mutex_unlock(&replay->lock);
    if (replay->thread_runs)
        pthread_join(replay->thread, NULL);
    buffers_destroy(&replay->buffers);
    pthread_cond_destroy(&replay->room);
    pthread_mutex_destroy(&replay->lock);
    sem_destroy(&replay->wake);
    free(replay);
    *replay_in = NULL;
}
