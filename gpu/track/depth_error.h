// SPDX-License-Identifier: Apache-2.0
// A depth camera's own error: a smooth field over its image in inverse depth, fixed to the camera,
// the same in all its recordings. 1/z_corrected = 1/z_measured + f(u, v). The idea is that of
// Teichman, Miller, Thrun, "Unsupervised intrinsic calibration of depth sensors via SLAM" (RSS
// 2013); one field in inverse depth, because that is what such cameras measure.
//
// On disk a short text, versioned, with a checksum (the first version had none); see
// depth_error_write. It belongs to one camera: serial number
// and intrinsics stand in it, and it is refused for another.
#ifndef POSED_GPU_TRACK_DEPTH_ERROR_H
#define POSED_GPU_TRACK_DEPTH_ERROR_H

#include "proto/log.h"
#include "proto/types.h"

#define FIELD_COLUMNS    20
#define FIELD_ROWS       15
#define FIELD_N_NODES    (FIELD_COLUMNS * FIELD_ROWS)
#define FIELD_SERIAL     64
#define FIELD_MAX_PER_M  0.05 // larger is no error of a sensor that works
#define FIELD_MIN_REDUCE 0.15 // less on pairs kept aside: not accepted

struct depth_error {
    char serial[FIELD_SERIAL]; // of the camera, "" = it tells none
    struct intrinsics camera;
    double reduction;  // of the residual of pairs kept aside, as a share: how it was judged
    uint32_t n_frames; // it was learnt from
    float node_per_m[FIELD_N_NODES]; // row by row; the outer nodes lie on the image's border
};

// The cell of the nodes that a pixel lies in: its first node and the weights of the four.
struct depth_error_cell {
    int node[4];
    double weight[4];
};
struct depth_error_cell depth_error_cell(const struct intrinsics *camera, double u_px, double v_px);

double depth_error_at(const struct depth_error *field, double u_px, double v_px); // [1/m]

// RMS over the nodes [1/m].
double depth_error_rms_per_m(const struct depth_error *field);

// f of each pixel, width x height of field->camera, for gpu_settings.field_per_m.
void depth_error_fill(const struct depth_error *field, float *out_per_m);

// A depth [m] of any range with its pixel's f taken out; 0 where that comes to half of it or more.
float depth_error_mended_m(float z_m, float per_m);

// Whether it is this camera's: 0, or -EINVAL with what differs in the log. Serial numbers are
// compared where both are known, intrinsics must agree to 0.2 %.
__attribute__((warn_unused_result)) int
depth_error_check_camera(const struct depth_error *field, const struct intrinsics *camera,
                         const char *serial, const char *path, const struct log_sink *log);

// Writes a new file; one that is there is left alone. Returns 0, -EEXIST or a negative errno, with
// the reason in the log; a file that could not be completed is removed.
__attribute__((warn_unused_result)) int
depth_error_write(const char *path, const struct depth_error *field, const struct log_sink *log);

// Reads one. Returns 0, -ENOENT, -EIO, or -EINVAL: not such a file, of another version, cut short,
// or changed after it was written; which, the file and the line are in the log and *out is
// undefined. That a file is of the version without checksum is in the log, too.
__attribute__((warn_unused_result)) int
depth_error_read(const char *path, const struct log_sink *log, struct depth_error *out);
// The same from memory; `name` is for messages.
__attribute__((warn_unused_result)) int depth_error_parse(const char *text, size_t n_bytes,
                                                          const char *name,
                                                          const struct log_sink *log,
                                                          struct depth_error *out);

#endif
