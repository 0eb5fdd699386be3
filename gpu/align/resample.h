// SPDX-License-Identifier: Apache-2.0
// A scanner's rows need not lie where any projection says (a mirror's turn, a stage's wobble). Then
// planes go to the cells that the projection gives their vertices, the one nearest to the cell's
// middle first, and empty cells between take their neighbour's: what others are projected into
// agrees with the projection, whatever the file's grid does.
#ifndef POSED_GPU_ALIGN_RESAMPLE_H
#define POSED_GPU_ALIGN_RESAMPLE_H

#include "gpu/align/image.h"

// Planes and the vertices' cells of an image that is otherwise ready. Returns 0 or -ENOMEM (nothing
// has changed).
__attribute__((warn_unused_result)) int align_image_scatter(struct align_image *image);

#endif
