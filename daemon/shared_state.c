// SPDX-License-Identifier: Apache-2.0
#include "daemon/shared_state.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "daemon/histogram.h"
#include "proto/clock.h"
#include "proto/wire.h"

#define MAX_BEAT_NS 3000000000 // between two rounds of the frame loop

enum command_step { COMMAND_NONE, COMMAND_WAITING, COMMAND_TAKEN, COMMAND_DONE };

// One for each camera that was plugged in; the first is the shared's own.
struct camera_info {
    struct shared_info info;
    struct camera_info *next;
};

struct shared {
    struct camera_info first;
    _Atomic(const struct shared_info *) info; // of the present camera
    int64_t start_ns;
    _Atomic uint64_t counters[SHARED_N_COUNTERS];
    struct histogram latency;
    _Atomic uint64_t state_word; // state, reason, map epoch: one consistent word
    _Atomic(const char *) reason_text;
    _Atomic uint32_t map_epoch; // that of the next frame, as far as is known
    _Atomic double rate_hz;
    _Atomic uint32_t n_left_out; // blocks of the map
    _Atomic bool paused;
    _Atomic int64_t beat_ns; // CLOCK_MONOTONIC, 0 = never
    _Atomic bool has_ended;  // this camera, not the daemon
    pthread_mutex_t text_mutex;
    char backend[128], recording[64], fault[SHARED_FAULT_BYTES];
    bool has_ended_recording;
    posed_EndedRecording ended_recording;
    bool has_map_odom;
    posed_Pose map_odom;

    struct pose_history *history;

    pthread_mutex_t mutex;
    pthread_cond_t changed;
    _Atomic int step; // enum command_step; read without the mutex by the frame loop
    bool ended;
    struct shared_command command;
    struct shared_answer answer;
};

int shared_create(struct shared **out, const struct shared_info *info)
{
    *out = NULL;
    struct shared *shared = calloc(1, sizeof *shared);
    if (!shared)
        return -ENOMEM;
    if (pose_history_create(&shared->history, info->n_history) != 0) {
        free(shared);
        return -ENOMEM;
    }
    shared->first.info = *info;
    atomic_store(&shared->info, &shared->first.info);
    shared->start_ns = clock_monotonic_ns();
    atomic_store(&shared->reason_text, "");
    pthread_condattr_t attributes;
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(&shared->changed, &attributes);
    pthread_condattr_destroy(&attributes);
    pthread_mutex_init(&shared->mutex, NULL);
    pthread_mutex_init(&shared->text_mutex, NULL);
    shared_set_state(shared, posed_State_STATE_NO_INPUT, posed_Reason_REASON_NONE,
                     "no frame has arrived yet", 0);
    *out = shared;
    return 0;
}

void shared_destroy(struct shared **shared)
{
    if (!*shared)
        return;
    pthread_cond_destroy(&(*shared)->changed);
    pthread_mutex_destroy(&(*shared)->mutex);
    pthread_mutex_destroy(&(*shared)->text_mutex);
    for (struct camera_info *camera = (*shared)->first.next, *next; camera; camera = next) {
        next = camera->next;
        free(camera);
    }
    pose_history_destroy(&(*shared)->history);
    free(*shared);
    *shared = NULL;
}

const struct shared_info *shared_info(const struct shared *shared)
{
    return atomic_load(&shared->info);
}

int shared_set_capture(struct shared *shared, const struct capture_info *capture)
{
    struct camera_info *camera = &shared->first;
    while (!capture_info_is_same_camera(&camera->info.capture, capture)) {
        if (!camera->next) {
            camera->next = malloc(sizeof *camera->next);
            if (!camera->next)
                return -ENOMEM;
            *camera->next = (struct camera_info){.info = shared->first.info};
            camera->next->info.capture = *capture;
            camera->next->info.field = NULL; // it is the first camera's
        }
        camera = camera->next;
    }
    atomic_store(&shared->info, &camera->info);
    return 0;
}

void shared_count(struct shared *shared, enum shared_counter counter)
{
    shared_add(shared, counter, 1);
}

void shared_add(struct shared *shared, enum shared_counter counter, uint64_t n)
{
    atomic_fetch_add_explicit(&shared->counters[counter], n, memory_order_relaxed);
}

struct histogram *shared_latency(struct shared *shared)
{
    return &shared->latency;
}

struct pose_history *shared_history(const struct shared *shared)
{
    return shared->history;
}

uint64_t shared_counter(const struct shared *shared, enum shared_counter counter)
{
    return atomic_load_explicit(&shared->counters[counter], memory_order_relaxed);
}

void shared_set_state(struct shared *shared, posed_State state, posed_Reason reason,
                      const char *reason_text, uint32_t map_epoch)
{
    atomic_store_explicit(&shared->reason_text, reason_text, memory_order_relaxed);
    atomic_store_explicit(&shared->state_word,
                          (uint64_t)map_epoch << 32 | (uint64_t)reason << 8 | (uint64_t)state,
                          memory_order_release);
}

void shared_set_rate(struct shared *shared, double rate_hz)
{
    atomic_store_explicit(&shared->rate_hz, rate_hz, memory_order_relaxed);
}

void shared_set_fault(struct shared *shared, const char *text)
{
    pthread_mutex_lock(&shared->text_mutex);
    wire_copy_text(shared->fault, sizeof shared->fault, text);
    pthread_mutex_unlock(&shared->text_mutex);
}

bool shared_fault(struct shared *shared, char out[SHARED_FAULT_BYTES])
{
    uint64_t word = atomic_load_explicit(&shared->state_word, memory_order_acquire);
    if ((posed_State)(word & 0xff) == posed_State_STATE_NO_INPUT) {
        wire_copy_text(out, SHARED_FAULT_BYTES,
                       atomic_load_explicit(&shared->reason_text, memory_order_relaxed));
        return true;
    }
    pthread_mutex_lock(&shared->text_mutex);
    memcpy(out, shared->fault, sizeof shared->fault);
    pthread_mutex_unlock(&shared->text_mutex);
    return out[0] != 0;
}

void shared_set_map_epoch(struct shared *shared, uint32_t map_epoch)
{
    if ((int32_t)(map_epoch - shared->map_epoch) > 0)
        shared->map_epoch = map_epoch;
}

uint32_t shared_map_epoch(const struct shared *shared)
{
    return shared->map_epoch;
}

void shared_beat(struct shared *shared)
{
    atomic_store_explicit(&shared->beat_ns, clock_monotonic_ns(), memory_order_relaxed);
}

bool shared_is_alive(const struct shared *shared)
{
    int64_t beat_ns = atomic_load_explicit(&shared->beat_ns, memory_order_relaxed);
    return shared->has_ended || (beat_ns && clock_monotonic_ns() - beat_ns < MAX_BEAT_NS);
}

void shared_end(struct shared *shared, const char *reason_text)
{
    uint64_t word = atomic_load_explicit(&shared->state_word, memory_order_relaxed);
    shared_set_state(shared, posed_State_STATE_NO_INPUT, posed_Reason_REASON_NONE, reason_text,
                     (uint32_t)(word >> 32));
    shared_set_rate(shared, 0);
    shared->has_ended = true;
}

bool shared_has_ended(const struct shared *shared)
{
    return shared->has_ended;
}

void shared_set_left_out(struct shared *shared, uint32_t n_blocks)
{
    atomic_store_explicit(&shared->n_left_out, n_blocks, memory_order_relaxed);
}

void shared_set_map_odom(struct shared *shared, const struct se3 *T_map_odom)
{
    pthread_mutex_lock(&shared->text_mutex);
    shared->has_map_odom = T_map_odom != NULL;
    if (T_map_odom)
        shared->map_odom = wire_pose(T_map_odom, NULL);
    pthread_mutex_unlock(&shared->text_mutex);
}

void shared_set_paused(struct shared *shared, bool paused)
{
    atomic_store_explicit(&shared->paused, paused, memory_order_relaxed);
}

void shared_set_backend(struct shared *shared, const char *description)
{
    pthread_mutex_lock(&shared->text_mutex);
    wire_copy_text(shared->backend, sizeof shared->backend, description);
    pthread_mutex_unlock(&shared->text_mutex);
}

void shared_begin_recording(struct shared *shared, const char *name)
{
    pthread_mutex_lock(&shared->text_mutex);
    wire_copy_text(shared->recording, sizeof shared->recording, name);
    pthread_mutex_unlock(&shared->text_mutex);
}

void shared_end_recording(struct shared *shared, const posed_EndedRecording *ended)
{
    if (ended->failed)
        shared_count(shared, SHARED_FAILED_RECORDINGS);
    pthread_mutex_lock(&shared->text_mutex);
    shared->recording[0] = 0;
    shared->has_ended_recording = true;
    shared->ended_recording = *ended;
    pthread_mutex_unlock(&shared->text_mutex);
}

uint64_t shared_resident_bytes(void)
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

void shared_status(struct shared *shared, posed_Status *out)
{
    uint64_t word = atomic_load_explicit(&shared->state_word, memory_order_acquire);
    *out = (posed_Status)posed_Status_init_zero;
    out->has_timestamp = true;
    out->timestamp = wire_timestamp(clock_wall_ns());
    out->session = shared->first.info.session;
    wire_copy_text(out->version, sizeof out->version, POSED_VERSION);
    out->uptime_s = (double)(clock_monotonic_ns() - shared->start_ns) * 1e-9;
    out->state = (posed_State)(word & 0xff);
    out->reason = (posed_Reason)(word >> 8 & 0xff);
    out->map_epoch = (uint32_t)(word >> 32);
    wire_copy_text(out->reason_text, sizeof out->reason_text,
                   atomic_load_explicit(&shared->reason_text, memory_order_relaxed));
    wire_copy_text(out->source, sizeof out->source, shared->first.info.source);
    wire_copy_text(out->source_description, sizeof out->source_description,
                   shared->first.info.capture.description);
    out->live = shared->first.info.capture.live;
    out->reference = shared->first.info.reference;
    out->rate_hz = atomic_load_explicit(&shared->rate_hz, memory_order_relaxed);
    out->paused = atomic_load_explicit(&shared->paused, memory_order_relaxed);
    out->map_left_out_blocks = atomic_load_explicit(&shared->n_left_out, memory_order_relaxed);
    out->captured_frames = shared_counter(shared, SHARED_CAPTURED);
    out->tracked_frames = shared_counter(shared, SHARED_TRACKED);
    out->degraded_frames = shared_counter(shared, SHARED_DEGRADED);
    out->lost_frames = shared_counter(shared, SHARED_LOST);
    out->dropped_frames = shared_counter(shared, SHARED_DROPPED);
    out->damaged_frames = shared_counter(shared, SHARED_DAMAGED);
    out->duplicate_frames = shared_counter(shared, SHARED_DUPLICATE);
    out->reduced_frames = shared_counter(shared, SHARED_REDUCED);
    out->expected_frames = shared->first.info.capture.n_frames;
    out->requests = shared_counter(shared, SHARED_REQUESTS);
    out->bad_requests = shared_counter(shared, SHARED_BAD_REQUESTS);
    out->rejected_requests = shared_counter(shared, SHARED_REJECTED_REQUESTS);
    out->unsent_messages = shared_counter(shared, SHARED_UNSENT);
    out->searching_frames = shared_counter(shared, SHARED_SEARCHING);
    out->keeps_map = shared->first.info.keeps_map;
    out->failed_recordings = shared_counter(shared, SHARED_FAILED_RECORDINGS);
    out->resident_bytes = shared_resident_bytes();
    memcpy(out->camera, shared->first.info.camera, sizeof out->camera);
    out->cameras_count = (pb_size_t)shared->first.info.n_cameras;
    memcpy(out->cameras, shared->first.info.cameras, sizeof out->cameras);
    pthread_mutex_lock(&shared->text_mutex);
    memcpy(out->backend, shared->backend, sizeof out->backend);
    memcpy(out->recording, shared->recording, sizeof out->recording);
    out->has_last_recording = shared->has_ended_recording;
    out->last_recording = shared->ended_recording;
    out->has_map_from_odom = shared->has_map_odom;
    out->map_from_odom = shared->map_odom;
    pthread_mutex_unlock(&shared->text_mutex);
}

int shared_command(struct shared *shared, const struct shared_command *command, int64_t deadline_ns,
                   struct shared_answer *out)
{
    const struct timespec deadline = clock_timespec(deadline_ns);
    int result = 0;
    pthread_mutex_lock(&shared->mutex);
    while (shared->step != COMMAND_NONE && !shared->ended && result == 0)
        result = -pthread_cond_timedwait(&shared->changed, &shared->mutex, &deadline);
    if (shared->ended || result) {
        pthread_mutex_unlock(&shared->mutex);
        return shared->ended ? -ECANCELED : -ETIMEDOUT;
    }
    shared->command = *command;
    shared->step = COMMAND_WAITING;
    while (shared->step != COMMAND_DONE && !shared->ended && result == 0)
        result = -pthread_cond_timedwait(&shared->changed, &shared->mutex, &deadline);
    // Once taken it will be done within a frame: then the answer is worth the wait.
    while (shared->step == COMMAND_TAKEN && !shared->ended)
        pthread_cond_wait(&shared->changed, &shared->mutex);
    result = shared->step == COMMAND_DONE ? 0 : shared->ended ? -ECANCELED : -ETIMEDOUT;
    *out = shared->answer;
    shared->step = COMMAND_NONE;
    pthread_cond_broadcast(&shared->changed);
    pthread_mutex_unlock(&shared->mutex);
    return result;
}

bool shared_take_command(struct shared *shared, struct shared_command *out)
{
    if (atomic_load_explicit(&shared->step, memory_order_relaxed) != COMMAND_WAITING)
        return false;
    pthread_mutex_lock(&shared->mutex);
    bool waiting = shared->step == COMMAND_WAITING;
    if (waiting) {
        *out = shared->command;
        shared->step = COMMAND_TAKEN;
    }
    pthread_mutex_unlock(&shared->mutex);
    return waiting;
}

void shared_finish_command(struct shared *shared, const struct shared_answer *answer)
{
    pthread_mutex_lock(&shared->mutex);
    shared->answer = *answer;
    shared->step = COMMAND_DONE;
    pthread_cond_broadcast(&shared->changed);
    pthread_mutex_unlock(&shared->mutex);
}

void shared_end_commands(struct shared *shared)
{
    pthread_mutex_lock(&shared->mutex);
    shared->ended = true;
    pthread_cond_broadcast(&shared->changed);
    pthread_mutex_unlock(&shared->mutex);
}
