// SPDX-License-Identifier: Apache-2.0
#include "daemon/board.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "daemon/clock.h"
#include "proto/se3.h"
#include "proto/wire.h"

#define MAX_GAP_NS  1000000000 // between two frames that GetPose may interpolate
#define MAX_BEAT_NS 3000000000 // between two rounds of the frame loop
#define N_WORDS     9          // of one stored pose: time, q, t, state and epoch

struct slot {
    _Atomic uint64_t words[N_WORDS];
};

enum command_step { COMMAND_NONE, COMMAND_WAITING, COMMAND_TAKEN, COMMAND_DONE };

// One for each camera that was plugged in; the first is the board's own.
struct camera_info {
    struct board_info info;
    struct camera_info *next;
};

struct board {
    struct camera_info first;
    _Atomic(const struct board_info *) info; // of the present camera
    int64_t start_ns;
    _Atomic uint64_t counters[BOARD_N_COUNTERS];
    _Atomic uint64_t state_word; // state, reason, map epoch: one consistent word
    _Atomic(const char *) reason_text;
    _Atomic double rate_hz;
    _Atomic bool paused;
    _Atomic int64_t beat_ns; // CLOCK_MONOTONIC, 0 = never
    pthread_mutex_t text_mutex;
    char backend[128], recording[64];

    struct slot *slots; // frame seq stands in slots[seq % n_history]
    _Atomic uint64_t next_seq;
    _Atomic uint64_t
        writing_seq; // frames before writing_seq - n_history + 1 may be overwritten now

    pthread_mutex_t mutex;
    pthread_cond_t changed;
    _Atomic int step; // enum command_step; read without the mutex by the frame loop
    bool ended;
    struct board_command command;
    struct board_answer answer;
};

int board_create(struct board **out, const struct board_info *info)
{
    *out = NULL;
    struct board *board = calloc(1, sizeof *board);
    if (!board)
        return -ENOMEM;
    board->slots = calloc(info->n_history, sizeof *board->slots);
    if (!board->slots) {
        free(board);
        return -ENOMEM;
    }
    board->first.info = *info;
    atomic_store(&board->info, &board->first.info);
    board->start_ns = clock_monotonic_ns();
    atomic_store(&board->reason_text, "");
    pthread_condattr_t attributes;
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(&board->changed, &attributes);
    pthread_condattr_destroy(&attributes);
    pthread_mutex_init(&board->mutex, NULL);
    pthread_mutex_init(&board->text_mutex, NULL);
    board_set_state(board, posed_State_STATE_NO_INPUT, posed_Reason_REASON_NONE,
                    "no frame has arrived yet", 0);
    *out = board;
    return 0;
}

void board_destroy(struct board **board)
{
    if (!*board)
        return;
    pthread_cond_destroy(&(*board)->changed);
    pthread_mutex_destroy(&(*board)->mutex);
    pthread_mutex_destroy(&(*board)->text_mutex);
    for (struct camera_info *camera = (*board)->first.next, *next; camera; camera = next) {
        next = camera->next;
        free(camera);
    }
    free((*board)->slots);
    free(*board);
    *board = NULL;
}

const struct board_info *board_info(const struct board *board)
{
    return atomic_load(&board->info);
}

int board_set_capture(struct board *board, const struct capture_info *capture)
{
    struct camera_info *camera = &board->first;
    while (!capture_info_is_same_camera(&camera->info.capture, capture)) {
        if (!camera->next) {
            camera->next = malloc(sizeof *camera->next);
            if (!camera->next)
                return -ENOMEM;
            *camera->next = (struct camera_info){.info = board->first.info};
            camera->next->info.capture = *capture;
        }
        camera = camera->next;
    }
    atomic_store(&board->info, &camera->info);
    return 0;
}

void board_count(struct board *board, enum board_counter counter)
{
    atomic_fetch_add_explicit(&board->counters[counter], 1, memory_order_relaxed);
}

uint64_t board_counter(const struct board *board, enum board_counter counter)
{
    return atomic_load_explicit(&board->counters[counter], memory_order_relaxed);
}

void board_set_state(struct board *board, posed_State state, posed_Reason reason,
                     const char *reason_text, uint32_t map_epoch)
{
    atomic_store_explicit(&board->reason_text, reason_text, memory_order_relaxed);
    atomic_store_explicit(&board->state_word,
                          (uint64_t)map_epoch << 32 | (uint64_t)reason << 8 | (uint64_t)state,
                          memory_order_release);
}

void board_set_rate(struct board *board, double rate_hz)
{
    atomic_store_explicit(&board->rate_hz, rate_hz, memory_order_relaxed);
}

void board_beat(struct board *board)
{
    atomic_store_explicit(&board->beat_ns, clock_monotonic_ns(), memory_order_relaxed);
}

bool board_is_alive(const struct board *board)
{
    int64_t beat_ns = atomic_load_explicit(&board->beat_ns, memory_order_relaxed);
    return beat_ns && clock_monotonic_ns() - beat_ns < MAX_BEAT_NS;
}

void board_set_paused(struct board *board, bool paused)
{
    atomic_store_explicit(&board->paused, paused, memory_order_relaxed);
}

void board_set_backend(struct board *board, const char *description)
{
    pthread_mutex_lock(&board->text_mutex);
    wire_copy_text(board->backend, sizeof board->backend, description);
    pthread_mutex_unlock(&board->text_mutex);
}

void board_set_recording(struct board *board, const char *name)
{
    pthread_mutex_lock(&board->text_mutex);
    wire_copy_text(board->recording, sizeof board->recording, name);
    pthread_mutex_unlock(&board->text_mutex);
}

uint64_t board_resident_bytes(void)
{
    unsigned long long pages_all, pages = 0;
    FILE *file = fopen("/proc/self/statm", "re");
    if (!file)
        return 0;
    if (fscanf(file, "%llu %llu", &pages_all, &pages) != 2)
        pages = 0;
    fclose(file);
    return pages * (uint64_t)sysconf(_SC_PAGESIZE);
}

void board_status(struct board *board, posed_Status *out)
{
    uint64_t word = atomic_load_explicit(&board->state_word, memory_order_acquire);
    *out = (posed_Status)posed_Status_init_zero;
    out->has_timestamp = true;
    out->timestamp = wire_timestamp(clock_wall_ns());
    out->session = board->first.info.session;
    wire_copy_text(out->version, sizeof out->version, POSED_VERSION);
    out->uptime_s = (double)(clock_monotonic_ns() - board->start_ns) * 1e-9;
    out->state = (posed_State)(word & 0xff);
    out->reason = (posed_Reason)(word >> 8 & 0xff);
    out->map_epoch = (uint32_t)(word >> 32);
    wire_copy_text(out->reason_text, sizeof out->reason_text,
                   atomic_load_explicit(&board->reason_text, memory_order_relaxed));
    wire_copy_text(out->source, sizeof out->source, board->first.info.source);
    wire_copy_text(out->source_description, sizeof out->source_description,
                   board->first.info.capture.description);
    out->live = board->first.info.capture.live;
    out->reference = board->first.info.reference;
    out->rate_hz = atomic_load_explicit(&board->rate_hz, memory_order_relaxed);
    out->paused = atomic_load_explicit(&board->paused, memory_order_relaxed);
    out->captured_frames = board_counter(board, BOARD_CAPTURED);
    out->tracked_frames = board_counter(board, BOARD_TRACKED);
    out->degraded_frames = board_counter(board, BOARD_DEGRADED);
    out->lost_frames = board_counter(board, BOARD_LOST);
    out->dropped_frames = board_counter(board, BOARD_DROPPED);
    out->damaged_frames = board_counter(board, BOARD_DAMAGED);
    out->duplicate_frames = board_counter(board, BOARD_DUPLICATE);
    out->expected_frames = board->first.info.capture.n_frames;
    out->requests = board_counter(board, BOARD_REQUESTS);
    out->bad_requests = board_counter(board, BOARD_BAD_REQUESTS);
    out->rejected_requests = board_counter(board, BOARD_REJECTED_REQUESTS);
    out->unsent_messages = board_counter(board, BOARD_UNSENT);
    out->resident_bytes = board_resident_bytes();
    pthread_mutex_lock(&board->text_mutex);
    memcpy(out->backend, board->backend, sizeof out->backend);
    memcpy(out->recording, board->recording, sizeof out->recording);
    pthread_mutex_unlock(&board->text_mutex);
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

void board_put(struct board *board, const struct board_pose *pose)
{
    struct slot *slot = &board->slots[pose->seq % board->first.info.n_history];
    uint64_t words[N_WORDS] = {(uint64_t)pose->time_ns};
    for (int i = 0; i < 4; i++)
        words[1 + i] = to_word(pose->q_xyzw[i]);
    for (int i = 0; i < 3; i++)
        words[5 + i] = to_word(pose->t_m[i]);
    words[8] = (uint64_t)pose->map_epoch << 32 | (uint64_t)pose->state;
    // A reader that sees any of the new words also sees writing_seq.
    atomic_store_explicit(&board->writing_seq, pose->seq, memory_order_relaxed);
    atomic_thread_fence(memory_order_release);
    for (int i = 0; i < N_WORDS; i++)
        atomic_store_explicit(&slot->words[i], words[i], memory_order_relaxed);
    atomic_store_explicit(&board->next_seq, pose->seq + 1, memory_order_release);
}

void board_range(const struct board *board, uint64_t *out_oldest, uint64_t *out_next)
{
    *out_next = atomic_load_explicit(&board->next_seq, memory_order_acquire);
    *out_oldest =
        *out_next > board->first.info.n_history ? *out_next - board->first.info.n_history : 0;
}

int board_get(const struct board *board, uint64_t seq, struct board_pose *out)
{
    if (seq >= atomic_load_explicit(&board->next_seq, memory_order_acquire))
        return -ENOENT;
    const struct slot *slot = &board->slots[seq % board->first.info.n_history];
    uint64_t words[N_WORDS];
    for (int i = 0; i < N_WORDS; i++)
        words[i] = atomic_load_explicit(&slot->words[i], memory_order_relaxed);
    atomic_thread_fence(memory_order_acquire);
    uint64_t writing = atomic_load_explicit(&board->writing_seq, memory_order_relaxed);
    if (writing >= seq + board->first.info.n_history)
        return -ENOENT;
    out->seq = seq;
    out->time_ns = (int64_t)words[0];
    for (int i = 0; i < 4; i++)
        out->q_xyzw[i] = from_word(words[1 + i]);
    for (int i = 0; i < 3; i++)
        out->t_m[i] = from_word(words[5 + i]);
    out->state = (posed_State)(words[8] & 0xff);
    out->map_epoch = (uint32_t)(words[8] >> 32);
    return 0;
}

static bool has_pose(const struct board_pose *pose)
{
    return pose->state == posed_State_STATE_INIT || pose->state == posed_State_STATE_TRACKING ||
           pose->state == posed_State_STATE_DEGRADED;
}

// Between a and b at share s in 0..1: linear in translation, and along the twist in rotation.
static void interpolate(const struct board_pose *a, const struct board_pose *b, double s,
                        struct board_pose *out)
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

int board_pose_at(const struct board *board, int64_t time_ns, struct board_pose *out)
{
    uint64_t low, high;
    struct board_pose a, b;
    board_range(board, &low, &high);
    if (low == high)
        return -ENOENT;
    if (board_get(board, high - 1, &a) != 0 || time_ns > a.time_ns)
        return -ENOENT;
    // The last frame with time <= time_ns. A frame that vanished meanwhile was too old.
    while (high - low > 1) {
        uint64_t middle = low + (high - low) / 2;
        if (board_get(board, middle, &a) != 0 || a.time_ns <= time_ns)
            low = middle;
        else
            high = middle;
    }
    if (board_get(board, low, &a) != 0 || a.time_ns > time_ns)
        return -ENOENT;
    if (!has_pose(&a))
        return -ENODATA;
    *out = a;
    if (a.time_ns == time_ns)
        return 0;
    if (board_get(board, low + 1, &b) != 0)
        return -ENOENT;
    if (!has_pose(&b) || b.map_epoch != a.map_epoch || b.time_ns - a.time_ns > MAX_GAP_NS ||
        b.time_ns <= a.time_ns)
        return -ENODATA;
    interpolate(&a, &b, (double)(time_ns - a.time_ns) / (double)(b.time_ns - a.time_ns), out);
    out->time_ns = time_ns;
    return 0;
}

int board_command(struct board *board, const struct board_command *command, int64_t deadline_ns,
                  struct board_answer *out)
{
    struct timespec deadline = {deadline_ns / 1000000000, deadline_ns % 1000000000};
    int result = 0;
    pthread_mutex_lock(&board->mutex);
    while (board->step != COMMAND_NONE && !board->ended && result == 0)
        result = -pthread_cond_timedwait(&board->changed, &board->mutex, &deadline);
    if (board->ended || result) {
        pthread_mutex_unlock(&board->mutex);
        return board->ended ? -ECANCELED : -ETIMEDOUT;
    }
    board->command = *command;
    board->step = COMMAND_WAITING;
    while (board->step != COMMAND_DONE && !board->ended && result == 0)
        result = -pthread_cond_timedwait(&board->changed, &board->mutex, &deadline);
    // Once taken it will be done within a frame: then the answer is worth the wait.
    while (board->step == COMMAND_TAKEN && !board->ended)
        pthread_cond_wait(&board->changed, &board->mutex);
    result = board->step == COMMAND_DONE ? 0 : board->ended ? -ECANCELED : -ETIMEDOUT;
    *out = board->answer;
    board->step = COMMAND_NONE;
    pthread_cond_broadcast(&board->changed);
    pthread_mutex_unlock(&board->mutex);
    return result;
}

bool board_take_command(struct board *board, struct board_command *out)
{
    if (atomic_load_explicit(&board->step, memory_order_relaxed) != COMMAND_WAITING)
        return false;
    pthread_mutex_lock(&board->mutex);
    bool waiting = board->step == COMMAND_WAITING;
    if (waiting) {
        *out = board->command;
        board->step = COMMAND_TAKEN;
    }
    pthread_mutex_unlock(&board->mutex);
    return waiting;
}

void board_finish_command(struct board *board, const struct board_answer *answer)
{
    pthread_mutex_lock(&board->mutex);
    board->answer = *answer;
    board->step = COMMAND_DONE;
    pthread_cond_broadcast(&board->changed);
    pthread_mutex_unlock(&board->mutex);
}

void board_end_commands(struct board *board)
{
    pthread_mutex_lock(&board->mutex);
    board->ended = true;
    pthread_cond_broadcast(&board->changed);
    pthread_mutex_unlock(&board->mutex);
}
