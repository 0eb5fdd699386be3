// SPDX-License-Identifier: Apache-2.0
// A range image made ready for alignment: the vertices that it gives to others, and the tangent
// planes on its own grid that others are projected into.
//
// Vertices are ordered coarse to fine: the first n_level[2] are every fourth of the grid in both
// directions, the first n_level[1] every second, n_level[0] are all. The grid is cropped to where
// there are vertices.
#ifndef POSED_GPU_ALIGN_IMAGE_H
#define POSED_GPU_ALIGN_IMAGE_H

#include "gpu/align/kernels/pair.h"
#include "proto/log.h"
#include "proto/types.h"

#define ALIGN_LEVELS     3
#define ALIGN_GRID_EMPTY UINT32_MAX

// Points on a scanner's grid, as a file has them: cell (u, v) holds point index[v * width + u].
struct align_grid {
    const float *x_m, *y_m, *z_m;
    size_t n_points;
    const uint32_t *index; // each < n_points or ALIGN_GRID_EMPTY
    uint32_t width, height;
};

struct align_image_settings {
    uint32_t normal_radius_px; // default 2 (5x5 cells), 1..8: window of the tangent planes
    double max_slope_rad;      // default 78 degrees: a plane seen flatter than that is left out
    double jump;               // default 4: neighbours farther apart than so many grid spacings are
                               // different surfaces
    struct pair_noise noise;   // a_m = 0 (default): estimated from the image, b = 0
};

struct align_image {
    uint32_t width, height;                // of the cropped grid
    uint32_t left, top;                    // where it lies in the whole one
    float projection[12];                  // 3x4, row-major: grid cell from the image's own frame
    float *x_m, *y_m, *z_m, *nx, *ny, *nz; // n_level[0] each, 64-byte aligned
    uint32_t *cell;                        // of the cropped grid, of each vertex
    uint32_t n_level[ALIGN_LEVELS];
    struct pair_plane *planes; // width * height
    struct pair_noise noise;

    double low_m[3], high_m[3]; // bounding box in the image's own frame
    double view[3];             // unit vector from the surface to the sensor, of the middle cell
    double centre_m[3];         // middle of the vertices
    double surface_m[3];        // middle of the bounding box's side that looks to the sensor
    double spacing_m;           // median distance of neighbours on the grid
    double projection_rms_px;   // how well the projection says where vertices lie on the grid
    size_t n_bytes;             // all of its memory
};

void align_image_settings_default(struct align_image_settings *out);

// Fits the projection to the grid (parallel rays first, then a pinhole), and makes planes and
// vertices. `name` is what messages call it. Returns 0, or with *out NULL and the reason in the log
// -EINVAL (fewer than 100 vertices with a plane; a grid that no pinhole or parallel projection
// explains to four cells), -ENOMEM.
__attribute__((warn_unused_result)) int
align_image_create(struct align_image **out, const struct align_grid *grid,
                   const struct align_image_settings *settings, const char *name,
                   const struct log_sink *log);

// From a depth image in metres (0: nothing there). Noise a_m = 0 stands for that of a
// structured-light camera (gpu/base/depth_noise.h). Returns as above.
__attribute__((warn_unused_result)) int align_image_create_depth(
    struct align_image **out, const float *z_m, const struct intrinsics *camera,
    const struct align_image_settings *settings, const char *name, const struct log_sink *log);

// A second one with memory of its own, for sources that keep theirs. Returns 0 or -ENOMEM.
__attribute__((warn_unused_result)) int align_image_copy(struct align_image **out,
                                                         const struct align_image *image);

void align_image_destroy(struct align_image **image);

#endif
