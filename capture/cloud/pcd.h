// SPDX-License-Identifier: Apache-2.0
// PCD, the point cloud format of PCL: version .7 headers, DATA ascii and binary (little-endian).
// binary_compressed is refused by name. Fields x y z and, when all three are there, normal_x
// normal_y normal_z are read, whatever their type and place. PCD marks "no measurement" with NaN
// coordinates (organised clouds): those points are left out, and a message counts them.
#ifndef POSED_CAPTURE_CLOUD_PCD_H
#define POSED_CAPTURE_CLOUD_PCD_H

#include "capture/cloud/cloud.h"

// Parses a PCD file held in memory; returns as ply_parse does.
__attribute__((warn_unused_result)) int pcd_parse(const void *data, size_t n_bytes,
                                                  const char *name, const struct log_sink *log,
                                                  struct cloud *out);

#endif
