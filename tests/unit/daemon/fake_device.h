// SPDX-License-Identifier: Apache-2.0
// A device, a tracker and a source in place of gpu/ and capture/: each frame moves the camera by
// 1 cm, and what is told to fails.
#ifndef POSED_TESTS_UNIT_DAEMON_FAKE_DEVICE_H
#define POSED_TESTS_UNIT_DAEMON_FAKE_DEVICE_H

#include "daemon/tracking_backend.h"

struct gpu {
    enum gpu_backend backend;
    void *locked; // memory of the source
};
struct capture {
    struct capture_info info;
    char memory[4096];
    struct capture_hooks hooks;
};
struct track {
    struct se3 T;
    uint32_t epoch, n_finds;
    uint64_t next_seq;
    enum track_effort effort;
    bool has_map;
};

// All that were opened since fake_open, and how many are open.
extern struct gpu fake_devices[64];
extern struct track fake_trackers[64];
extern size_t fake_n_devices, fake_n_trackers, fake_n_open;
extern bool fake_cuda_is_gone, fake_cannot_lock;
extern int fake_n_failures; // how many of the next frames fail
extern bool fake_is_lost;   // each frame
extern struct capture fake_source;
extern const struct capture_frame *fake_kept; // of the source
extern struct gpu *fake_woken;                // the last one
extern const uint16_t fake_depth[4];
extern struct config fake_config;

// With fake_config, and with nothing of it but gpu.on_error.
struct backend *fake_open(void);
struct backend *fake_open_as(enum config_gpu_error on_error);

// A frame with an image.
int fake_track(struct backend *backend, struct track_result *out);

#endif
