// SPDX-License-Identifier: Apache-2.0
// What keyframe_window.c (the threads, and when results enter) and keyframe_relocate.c (a lost
// camera) share; for them alone.
#ifndef POSED_GPU_MODEL_KEYFRAME_WINDOW_PRIVATE_H
#define POSED_GPU_MODEL_KEYFRAME_WINDOW_PRIVATE_H

#include <pthread.h>

#include "gpu/model/keyframe_images.h"
#include "gpu/model/keyframe_window.h"
#include "gpu/model/relocalise_finds.h"

// The worker's: a keyframe, a copy for the optimiser, or taking over what that found.
enum job { JOB_NONE, JOB_ADD, JOB_COPY, JOB_TAKE, JOB_DONE, JOB_END };

// Of an optimisation, in this order.
enum stage {
    STAGE_NONE,
    STAGE_WANTED,
    STAGE_COPIED, // the optimiser's from here
    STAGE_FOUND,  // to here
    STAGE_TAKEN,  // into the graph
    STAGE_ENTERED,
    STAGE_FAILED,
    STAGE_END,
};

struct keyframe_window {
    struct log_sink log;
    struct graph *graph; // the worker's during a job
    size_t n_px;
    float *map;                  // packed, as the device gives it
    float *z_m;                  // of the job
    uint64_t n_frames, keyframe; // counted by keyframe_window_follow; when the job began
    uint32_t epoch;
    bool has_keyframe, failed, sparing;
    struct se3 T_odom_keyframe, T_map_odom;
    struct se3 T_newest; // T_map_odom as the newest result that entered has it
    double moved_m;      // by the newest result that entered
    uint64_t job_seq;    // of the job's frame
    int64_t job_time_ns;
    bool job_is_found;                // its camera was found again since the last keyframe,
    struct keyframe_find job_find;    // how,
    int64_t job_found_ns;             // and when
    struct relocalise_finds finds;    // of the lost frames in a row
    uint32_t n_lost;                  // of them
    bool is_found;                    // and not lost since
    bool is_tried;                    // by the keyframes, and not told of since
    struct keyframe_find found;       // how,
    int64_t found_ns;                 // and when
    struct graph_keyframe *keyframes; // as the newest result that entered has them
    uint32_t n_keyframes;
    struct between_frames between; // the worker's, too, during JOB_COPY
    struct keyframe_images seen;   // by them, and by those whose result has not entered

    pthread_t thread;
    pthread_mutex_t lock; // of what follows
    pthread_cond_t changed;
    enum job job;
    struct se3 T_job;
    int job_error;
    int64_t job_ended_ns, job_took_ns; // of the last keyframe, CLOCK_MONOTONIC

    pthread_t optimiser;
    enum stage stage;
    struct yield yield; // of the optimiser
    struct graph *copy; // the worker's during JOB_COPY and JOB_TAKE, the optimiser's when copied
    struct optimise_report report;
    int optimise_error; // of STAGE_FAILED
    atomic_bool stop;   // optimising
};

// The depth of a frame. Returns 0 or -EIO.
__attribute__((warn_unused_result)) int keyframe_window_read_depth(struct keyframe_window *window,
                                                                   struct gpu *gpu,
                                                                   const struct gpu_frame *frame,
                                                                   float *out_m);

// Whether the worker has done; it is waited for until until_ns at the latest (INT64_MAX: true, who
// needs the result waits for it).
bool keyframe_window_await(struct keyframe_window *window, int64_t until_ns);

// What the worker has found enters, for which it is waited; until the next job the graph is this
// thread's. Returns by how much that moves the camera.
double keyframe_window_take_result(struct keyframe_window *window, const struct se3 *T_odom_camera);

// T_map_odom as the newest result has it, or the keyframe by which the camera was found since. The
// graph may be the worker's.
void keyframe_window_set_T_map_odom(struct keyframe_window *window);

#endif
