// SPDX-License-Identifier: Apache-2.0
// The pairs shared out by Zoltan's parallel hypergraph partitioner, to compare ours with.
#ifndef POSED_TOOLS_ALIGN_COMPARE_ZOLTAN_H
#define POSED_TOOLS_ALIGN_COMPARE_ZOLTAN_H

#include "gpu/align/partition.h"

// Same nodes, nets, weights and imbalance as partition_pairs. Returns 0, -ENOTSUP (built without
// it), -ENOMEM or -EIO (its own error).
__attribute__((warn_unused_result)) int
zoltan_partition(const struct align_pair *pairs, uint32_t n_pairs, const uint32_t *image_weight,
                 uint32_t n_images, const struct partition_settings *settings, uint32_t *out_part);

#endif
