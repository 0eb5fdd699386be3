// SPDX-License-Identifier: Apache-2.0
// Depth registered to a colour camera of a longer focal length, as many data sets and drivers give
// it, has more pixels and no more detail than the depth camera: what that camera loses along an
// edge, or rounds, is twice as many pixels wide. The score's distances are pixels of a depth camera
// (kernels/score.h; fitted at a focal length of 570 px, a Kinect's), so n x n pixels of such an
// image are taken together. Measured on real frames of 1,067 px: tools/bench/MEASURED.md. Host
// code, private to gpu.
#ifndef POSED_GPU_SEARCH_IMAGE_REDUCTION_H
#define POSED_GPU_SEARCH_IMAGE_REDUCTION_H

#include "gpu/search/context.h"

#define SEARCH_FOCAL_PX 570.3 // of depth cameras: Kinect 575, Xtion 570, RealSense 380 .. 640

// How many pixels on a side become one: the focal length is then as near to SEARCH_FOCAL_PX as it
// can be; 1 up to 1.5 times that. Pure.
uint32_t search_reduction(const struct intrinsics *camera);

// The image as it is searched: the same one, or a reduced one, whose pixels are the search's until
// the next call. A pixel of it is the mean of those of its block that lie on the nearest surface
// (within SEARCH_SAME_SURFACE of its depth), where these are half of the block at least, else there
// is none; mask and region are applied. Returns 0 or -ENOMEM.
__attribute__((warn_unused_result)) int search_reduce_image(struct search *search,
                                                            const struct search_image *image,
                                                            struct search_image *out);

#define SEARCH_SAME_SURFACE 0.02

// Whether a pixel is measured, in the region and not masked out. Pure.
bool search_pixel_is_used(const struct search_image *image, uint32_t u, uint32_t v);

#endif
