// SPDX-License-Identifier: Apache-2.0
// Which keyframe goes when there are as many as may be, and who inherits its links. Private to
// gpu/model.
#ifndef POSED_GPU_MODEL_KEYFRAME_EVICTION_H
#define POSED_GPU_MODEL_KEYFRAME_EVICTION_H

struct graph;

// Takes out the keyframe that is missed least.
void graph_make_room(struct graph *g);

#endif
