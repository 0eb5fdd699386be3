// SPDX-License-Identifier: Apache-2.0
// What the parts of posed-bench track share: track_options.c knows what can be asked for,
// track_stream.c plays the cameras, track.c measures, track_report.c prints.
#ifndef POSED_TOOLS_BENCH_TRACK_H
#define POSED_TOOLS_BENCH_TRACK_H

#include "capture/capture.h"
#include "gpu/gpu.h"
#include "tools/bench/bench.h"

#define MAX_FRAMES  2000
#define MAX_STREAMS 64

// How frames come from the source's own thread.
enum captured { CAPTURED_NOT, CAPTURED_COPIED, CAPTURED_LOCKED, CAPTURED_WRITTEN, N_CAPTURED };
extern const char *const captured_names[N_CAPTURED];

struct options {
    const char *source;
    enum gpu_backend backend;
    size_t n_frames;
    double seconds;
    size_t n_streams;
    bool json, dirty, written, overlap, agreement;
    enum captured captured;
    struct gpu_align_settings align;
    uint32_t bilateral_radius_px, n_threads;
    enum gpu_isa isa;
    enum gpu_path path;
};

// Ends the process when it does not understand or is asked for help.
void options_parse(int argc, char **argv, struct options *out);

// The frames of a source, decoded, in plain memory.
struct recording {
    struct capture_info info;
    size_t frame_bytes, n_frames;
    uint16_t *depth[MAX_FRAMES];
};

// Returns 0, or a negative errno after saying what is wrong with the source.
int recording_load(const struct options *o, struct recording *out);
void recording_free(struct recording *r);

// One camera: a device, two frames in turn, the recording in the device's host memory, or its
// source.
struct stream {
    const struct options *options;
    const struct recording *recording;
    struct gpu *gpu;
    struct gpu_frame *frames[2];
    uint16_t *depth[MAX_FRAMES];
    struct capture *capture; // --captured; else NULL
    size_t position;         // in the sequence 0 1 .. n-1 n-2 .. 1 0 1 ..
    uint64_t n_done;
    int rc;
    const bool *stop;
};
// Opens its device and prepares the first frame. Returns 0 or a negative errno, then closed.
int stream_open(struct stream *s, const struct options *o, const struct recording *r,
                enum gpu_backend backend);
void stream_close(struct stream *s);

// The next frame, aligned to the one before; `out_us` is the wall time of the call.
int stream_step(struct stream *s, struct gpu_alignment *out, double *out_us);

struct agreement { // largest difference over the frames
    double m, rad;
};

struct report {
    struct bench_stats frame, loop, loop_call, stages[GPU_N_STAGES];
    uint64_t pose_hash; // of the first pass over the recording: equal bits, equal hash
    double frames_per_s;
    double mean_iterations[GPU_LEVELS], mean_rms_m, mean_pairs;
    struct agreement whole, held; // with the CPU, where asked for
    uint32_t n_not_held;          // frames that the scene does not hold in some direction
    struct gpu_limits limits;
};

// One camera: times, and what each stage moves and computes with its share of what the hardware can
// do. Text, or JSON where the options ask for it.
void report_print(const struct options *options, const struct recording *recording,
                  const char *description, const struct report *report);

// Several cameras: frames a second in total.
void report_print_streams(const struct options *options, const struct recording *recording,
                          const char *description, double frames_per_s);

#endif
