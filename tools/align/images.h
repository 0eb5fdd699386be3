// SPDX-License-Identifier: Apache-2.0
// The range images that the user names, as a source for gpu/align: scans of a .conf (Stanford:
// `bmesh FILE tx ty tz qx qy qz qw`), or depth images of a folder with a file of poses.
#ifndef POSED_TOOLS_ALIGN_IMAGES_H
#define POSED_TOOLS_ALIGN_IMAGES_H

#include "gpu/align/align.h"
#include "proto/log.h"
#include "proto/types.h"

struct images {
    uint32_t n;
    char **names; // as the input calls them
    char **paths; // of the files
    struct se3 *T_world_image;
    int64_t *times_ns; // depth images: of their poses; NULL: none
    // Depth images.
    struct intrinsics camera;
    double units_per_m;
    uint16_t **depth;             // of keyframes, in memory; NULL: read from paths
    struct stamped_pose *tracked; // keyframes: every frame that has a pose, as it was tracked
    size_t n_tracked;
    float *field_per_m; // the camera's own error at each pixel, taken out of the images; NULL: none
    struct align_image_settings settings;
    char head[256]; // .conf: its `camera` line, to be written again
    struct log_sink log;
    struct align_source source;
};

// Reads a .conf; scans lie beside it. The quaternion is the CONJUGATE rotation: p_world =
// R(q)^T p + t, as Stanford's files have it. Returns 0, or with the reason (file and line) in the
// log -ENOENT, -EINVAL (a malformed line, two images of one name, none at all), -ENOMEM, -EIO.
__attribute__((warn_unused_result)) int images_open_conf(struct images *out, const char *path,
                                                         const struct log_sink *log);

// Depth images *.png of a folder in the order of their names, with poses in the same order: TUM
// lines (`t tx ty tz qx qy qz qw`) or 4x4 matrices, 16 numbers each; poses NULL: none are known,
// all stand at the origin. calibration: `fx fy cx cy`.
// Returns as above; -EINVAL also where poses and images do not match in number.
__attribute__((warn_unused_result)) int
images_open_depth(struct images *out, const char *folder, const char *poses,
                  const char *calibration, double units_per_m, const struct log_sink *log);

// One of the depth images as it was taken, in units: width x height. Returns 0 or, with the reason
// in the log, -EIO, -EINVAL, -ENOMEM.
__attribute__((warn_unused_result)) int images_read_depth(const struct images *images,
                                                          uint32_t image, uint16_t *out);

// For whoever filled in camera, units, depth and poses: `source` gives its depth images.
void images_source_depth(struct images *images);

// Writes the poses as they came: a .conf, or TUM lines. Returns 0 or -EIO (logged).
__attribute__((warn_unused_result)) int
images_write_conf(const struct images *images, const struct se3 *T_world_image, const char *path);
__attribute__((warn_unused_result)) int
images_write_tum(const struct images *images, const struct se3 *T_world_image, const char *path);

void images_free(struct images *images);

#endif
