// SPDX-License-Identifier: Apache-2.0
// The plain data that crosses folders. No behaviour, no ownership: whoever holds a pointer says in
// its own header how long it lives.
//
// Conventions everywhere: metres, radians, nanoseconds. Camera frame = optical frame, x right,
// y down, z forward (REP-103). T_a_b takes points from b to a: p_a = T_a_b p_b. Quaternions are
// x, y, z, w. Pixel (u, v) has its centre at integer coordinates: x = (u - cx) / fx * z.
#ifndef POSED_PROTO_TYPES_H
#define POSED_PROTO_TYPES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

// Pinhole model of the depth image, no distortion. fy may be negative (ICL-NUIM: the image's y axis
// points up); fx and fy are never 0.
struct intrinsics {
    double fx_px, fy_px;
    double cx_px, cy_px;
    uint32_t width_px, height_px;
};

// Least and most that is taken, of an image's sides, of |fx| and |fy|, of cx and cy in an image of
// any size, of depth units.
#define INTRINSICS_IMAGE_PX_RANGE        32, 4096
#define INTRINSICS_FOCAL_LENGTH_PX_RANGE 1, 1e5
#define INTRINSICS_CENTRE_PX_RANGE       0, 4096
#define DEPTH_UNITS_PER_M_RANGE          1, 1e6
#define DEPTH_FLOAT_PER_M_RANGE          1e-3, 1e6

// Rigid transform. r is the row-major 3x3 rotation. T_a_b in a name says what it maps.
struct se3 {
    double r[9];
    double t_m[3];
};

// Values of a raw depth image that mean "no measurement", in every format we read: TUM, ICL-NUIM,
// Redwood and Kinect use 0; 7-Scenes uses 65535 as well.
#define DEPTH_INVALID_ZERO 0u
#define DEPTH_INVALID_MAX  65535u

// One depth image as captured. `depth` is row-major, width x height, without padding; metres =
// depth / units_per_m. The owner of the pixels is named by the function that hands out the view.
struct depth_frame {
    const uint16_t *depth;
    uint32_t width_px, height_px;
    double units_per_m;
    int64_t time_ns; // on the recording's or the device's clock
};

// One stamped pose of a trajectory.
struct stamped_pose {
    int64_t time_ns;
    struct se3 T_world_camera;
};

// Points as structure of arrays, n each. Normals are optional: all three pointers NULL or none.
struct point_set {
    const float *x_m, *y_m, *z_m;
    const float *nx, *ny, *nz;
    size_t n_points;
};

#ifdef __cplusplus
}
#endif

#endif
