// SPDX-License-Identifier: Apache-2.0
// The solids of the synthetic scenes and how a bundle of rays meets them. Everything is closed form
// except the torus and the wavy panel, which are marched along their distance functions (Hart,
// "Sphere tracing", 1996).
#ifndef POSED_CAPTURE_SYNTH_SHAPES_H
#define POSED_CAPTURE_SYNTH_SHAPES_H

#include "proto/types.h"

enum shape_kind {
    SHAPE_BOX,       // half sizes half_m
    SHAPE_ROOM,      // a box seen from inside: the ray meets its far side
    SHAPE_ELLIPSOID, // half axes half_m
    SHAPE_PIPE,      // open elliptic cylinder along the local y axis, half axes half_m
    SHAPE_CONE,      // open double cone along the local y axis, half_m at its ends
    SHAPE_TORUS,     // about the local z axis: ring radius half_m[0] - half_m[2], tube half_m[2];
                     // half_m[1] = half_m[0]
    SHAPE_WAVES,     // relief in the local xy plane seen from -z: waves of height +-half_m[2], two
                     // along x and three along y, slopes to be kept below 1
};

// half_m bounds the solid in its local frame, whatever its kind.
struct shape {
    enum shape_kind kind;
    double half_m[3];
    struct se3 T_world_shape;
};

// Meets the rays of pixels u0 <= u < u1 of one image row with a shape: wherever it lies in front of
// out_z_m[u], its depth replaces that value. Rays are (x, y, 1) in the camera frame, x = x_norm[u]
// (readable 16 elements beyond u1) and y = y_norm; depth is along the optical axis [m].
void shape_trace_row(const struct shape *shape, const struct se3 *T_shape_camera,
                     const float *x_norm, float y_norm, uint32_t u0, uint32_t u1, float *out_z_m);

#endif
