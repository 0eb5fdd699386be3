// SPDX-License-Identifier: Apache-2.0
// What the choice of pairs needs of an image, small enough to be sent to every rank: plain data.
#ifndef POSED_GPU_ALIGN_IMAGE_SUMMARY_H
#define POSED_GPU_ALIGN_IMAGE_SUMMARY_H

#include "gpu/align/image.h"

#define ALIGN_SKETCH_SIDE    96  // cells of the coarse grid in each direction, at most
#define ALIGN_SKETCH_SAMPLES 512 // vertices for the sampled overlap, at most

struct align_sketch {
    uint32_t width, height; // of the coarse grid
    uint32_t n_vertices;    // of the image
    uint32_t n_samples;
    uint64_t n_bytes; // of the image
    float projection[12];
    double low_m[3], high_m[3], view[3], centre_m[3], surface_m[3];
    double spacing_m, noise_m;
    float sample_m[ALIGN_SKETCH_SAMPLES][3], sample_normal[ALIGN_SKETCH_SAMPLES][3];
    struct pair_plane planes[ALIGN_SKETCH_SIDE * ALIGN_SKETCH_SIDE];
};

void align_sketch_make(const struct align_image *image, struct align_sketch *out);

#endif
