// SPDX-License-Identifier: Apache-2.0
// A map as a file that is loaded again: map.folder/NAME.map. Little endian, floats as IEEE 754 has
// them, nothing between the parts:
//
//   at   bytes  what
//   0    8      "posedmap"
//   8    4      version: 1
//   12   4      bytes of this header: 128
//   16   8      bytes of the whole file
//   24   4      blocks, n
//   28   4      keyframes, k (at most 1024)
//   32   4      map epoch in which it was saved
//   36   4, 4   width and height of the camera's image [px]
//   44   4      voxels of a block along an edge: 8
//   48   4 x 8  fx, fy, cx, cy of the camera [px], double
//   80   8      voxel [m], double
//   88   8      truncation: half the band of distances around a surface at 1 m [m], double
//   96   8      unit of a stored distance [m], double: 4e-6
//   104  4      of 1000 frames while it was made so many were dropped or damaged; 0: none, or not
//               known
//   108  4      cells of a keyframe: 192 (16 x 12)
//   112  4      CRC-32 (that of PNG) of the keyframes
//   116  4      CRC-32 of the blocks
//   120  4      zero
//   124  4      CRC-32 of bytes 0 to 123
//   128  864 k  keyframes: T_map_camera as rotation, 9 doubles, row-major, and translation [m], 3
//               doubles; natural logarithm of the mean depth [m] of each cell, 192 floats row by
//               row, NaN where too few pixels have one
//        2060 n blocks, ascending by z, then y, then x: x, y, z as int32; 512 distances, int16; 512
//               weights, uint16 (0: never seen). Voxel (i, j, k), x fastest, is the point
//               (8 x + i, 8 y + j, 8 z + k) * voxel of the map
//
// A file is written beside its name, brought to the disk and renamed: what has the name is whole.
// Plain data in, plain data out: any thread; they wait for the disk.
#ifndef POSED_DAEMON_MAP_SAVED_H
#define POSED_DAEMON_MAP_SAVED_H

#include "gpu/model/map.h"
#include "proto/types.h"

#define MAP_SAVED_SUFFIX      ".map"
#define MAP_SAVED_ERROR_BYTES 224

// With what a map is made. A loaded one has the same, and fits the memory.
struct map_saved_place {
    struct intrinsics camera;
    struct model_settings model;
};

// Writes a new file. Returns 0, -EEXIST (there is one, which stays) or another negative errno.
__attribute__((warn_unused_result)) int map_saved_write(const char *path,
                                                        const struct map_saved_place *place,
                                                        const struct map_contents *contents,
                                                        uint64_t *out_bytes);

// Of a file that has been written: its name is on the disk, too, and survives a power failure.
// Blocks as long as that takes. Returns 0 or negative errno: the file is there all the same.
__attribute__((warn_unused_result)) int map_saved_sync_name(const char *path);

// Reads and checks all of a file. Returns 0 and *out, to be freed by map_contents_free; or with
// *out empty and a sentence in out_error, which says what to do: -EBADMSG (no map, truncated,
// damaged), -EPROTONOSUPPORT (another version), -EXDEV (another camera, voxel or truncation),
// -ENOSPC (more blocks than map.memory_bytes and map.far_bytes hold), -ENOMEM, -ENOENT or another
// errno.
__attribute__((warn_unused_result)) int map_saved_read(const char *path,
                                                       const struct map_saved_place *place,
                                                       struct map_contents *out,
                                                       char out_error[MAP_SAVED_ERROR_BYTES]);

#endif
