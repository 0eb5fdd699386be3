// SPDX-License-Identifier: Apache-2.0
#include "daemon/pose_history.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "proto/se3.h"

#define MAX_GAP_NS 1000000000 // between two frames that GetPose may interpolate
#define N_WORDS    9          // of one stored pose: time, q, t; state, reason and epoch

struct slot {
    _Atomic uint64_t words[N_WORDS];
};

struct pose_history {
    struct slot *slots; // frame seq stands in slots[seq % n_frames]
    uint32_t n_frames;
    int64_t newest_ns;        // the writer's
    _Atomic uint64_t run_seq; // since this frame times grow: the one before it was of another clock
    _Atomic uint64_t next_seq;
    _Atomic uint64_t writing_seq; // frames before writing_seq - n_frames + 1 may be overwritten now
};

int pose_history_create(struct pose_history **out, uint32_t n_frames)
{
    *out = NULL;
    struct pose_history *history = calloc(1, sizeof *history);
    if (!history)
        return -ENOMEM;
    history->n_frames = n_frames;
    history->slots = calloc(n_frames, sizeof *history->slots);
    if (!history->slots) {
        free(history);
        return -ENOMEM;
    }
    *out = history;
    return 0;
}

void pose_history_destroy(struct pose_history **history)
{
    if (!*history)
        return;
    free((*history)->slots);
    free(*history);
    *history = NULL;
}

static uint64_t to_word(double value)
{
    uint64_t word;
    memcpy(&word, &value, sizeof word);
    return word;
}

static double from_word(uint64_t word)
{
    double value;
    memcpy(&value, &word, sizeof value);
    return value;
}

void pose_history_put(struct pose_history *history, const struct past_pose *pose)
{
    struct slot *slot = &history->slots[pose->seq % history->n_frames];
    uint64_t words[N_WORDS] = {(uint64_t)pose->time_ns};
    for (int i = 0; i < 4; i++)
        words[1 + i] = to_word(pose->q_xyzw[i]);
    for (int i = 0; i < 3; i++)
        words[5 + i] = to_word(pose->t_m[i]);
    words[8] =
        (uint64_t)pose->map_epoch << 32 | (uint64_t)pose->reason << 8 | (uint64_t)pose->state;
    // A reader that sees any of the new words also sees writing_seq.
    atomic_store_explicit(&history->writing_seq, pose->seq, memory_order_relaxed);
    atomic_thread_fence(memory_order_release);
    for (int i = 0; i < N_WORDS; i++)
        atomic_store_explicit(&slot->words[i], words[i], memory_order_relaxed);
    if (pose->seq > 0 && pose->time_ns < history->newest_ns)
        atomic_store_explicit(&history->run_seq, pose->seq, memory_order_relaxed);
    history->newest_ns = pose->time_ns;
    atomic_store_explicit(&history->next_seq, pose->seq + 1, memory_order_release);
}

void pose_history_range(const struct pose_history *history, uint64_t *out_oldest,
                        uint64_t *out_next)
{
    *out_next = atomic_load_explicit(&history->next_seq, memory_order_acquire);
    *out_oldest = *out_next > history->n_frames ? *out_next - history->n_frames : 0;
}

int pose_history_get(const struct pose_history *history, uint64_t seq, struct past_pose *out)
{
    if (seq >= atomic_load_explicit(&history->next_seq, memory_order_acquire))
        return -ENOENT;
    const struct slot *slot = &history->slots[seq % history->n_frames];
    uint64_t words[N_WORDS];
    for (int i = 0; i < N_WORDS; i++)
        words[i] = atomic_load_explicit(&slot->words[i], memory_order_relaxed);
    atomic_thread_fence(memory_order_acquire);
    uint64_t writing = atomic_load_explicit(&history->writing_seq, memory_order_relaxed);
    if (writing >= seq + history->n_frames)
        return -ENOENT;
    out->seq = seq;
    out->time_ns = (int64_t)words[0];
    for (int i = 0; i < 4; i++)
        out->q_xyzw[i] = from_word(words[1 + i]);
    for (int i = 0; i < 3; i++)
        out->t_m[i] = from_word(words[5 + i]);
    out->state = (posed_State)(words[8] & 0xff);
    out->reason = (posed_Reason)(words[8] >> 8 & 0xff);
    out->map_epoch = (uint32_t)(words[8] >> 32);
    return 0;
}

static bool has_pose(const struct past_pose *pose)
{
    return pose->state == posed_State_STATE_INIT || pose->state == posed_State_STATE_TRACKING ||
           pose->state == posed_State_STATE_DEGRADED || pose->state == posed_State_STATE_SEARCHING;
}

// Between a and b at share s in 0..1: linear in translation, and along the twist in rotation.
static void interpolate(const struct past_pose *a, const struct past_pose *b, double s,
                        struct past_pose *out)
{
    struct se3 T_a = se3_from_quaternion(a->q_xyzw, a->t_m);
    struct se3 T_b = se3_from_quaternion(b->q_xyzw, b->t_m);
    struct se3 T_a_b = se3_between(&T_a, &T_b);
    double twist[6] = {0};
    se3_rotation_vector(&T_a_b, twist + 3);
    for (int i = 3; i < 6; i++)
        twist[i] *= s;
    struct se3 step = se3_exp(twist), T = se3_compose(&T_a, &step);
    *out = *a;
    se3_to_quaternion(&T, out->q_xyzw);
    for (int i = 0; i < 3; i++)
        out->t_m[i] = a->t_m[i] + s * (b->t_m[i] - a->t_m[i]);
}

int pose_history_at(const struct pose_history *history, int64_t time_ns, struct past_pose *out)
{
    uint64_t low, high;
    struct past_pose a, b;
    pose_history_range(history, &low, &high);
    const uint64_t run = atomic_load_explicit(&history->run_seq, memory_order_relaxed);
    low = run > low ? run : low;
    if (low >= high)
        return -ENOENT;
    if (pose_history_get(history, high - 1, &a) != 0 || time_ns > a.time_ns)
        return -ENOENT;
    // The last frame with time <= time_ns. A frame that vanished meanwhile was too old.
    while (high - low > 1) {
        uint64_t middle = low + (high - low) / 2;
        if (pose_history_get(history, middle, &a) != 0 || a.time_ns <= time_ns)
            low = middle;
        else
            high = middle;
    }
    if (pose_history_get(history, low, &a) != 0 || a.time_ns > time_ns)
        return -ENOENT;
    if (!has_pose(&a))
        return -ENODATA;
    *out = a;
    if (a.time_ns == time_ns)
        return 0;
    if (pose_history_get(history, low + 1, &b) != 0)
        return -ENOENT;
    if (!has_pose(&b) || b.map_epoch != a.map_epoch || b.time_ns - a.time_ns > MAX_GAP_NS ||
        b.time_ns <= a.time_ns)
        return -ENODATA;
    interpolate(&a, &b, (double)(time_ns - a.time_ns) / (double)(b.time_ns - a.time_ns), out);
    out->time_ns = time_ns;
    return 0;
}
