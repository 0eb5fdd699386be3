// SPDX-License-Identifier: Apache-2.0
// What the page shows of a map: points of its surface, made by the request GetMapCloud as if the
// page had asked, so thin that all fit a viewer's bytes. Little endian:
//
//   u32 n  u32 map epoch  f32 step [m]  f32 corner x y z [m]
//   u16 x y z of each point, in steps from the corner; then i8 x y z of each normal, of 127ths
#ifndef POSED_DAEMON_WEB_MAP_PREVIEW_H
#define POSED_DAEMON_WEB_MAP_PREVIEW_H

#include "daemon/web/viewer_connection.h"
#include "proto/requests.pb.h"

#define MAP_PREVIEW_MAX_POINTS    16384
#define MAP_PREVIEW_REQUEST_BYTES 64

// The size of the cells, of one point each, that fits; 0 at first.
struct map_preview {
    double voxel_m;
};

// The request of a camera's map with that id, framed. Returns its size, or 0.
size_t map_preview_request(const struct map_preview *preview, const char *camera, uint64_t id,
                           uint8_t out[MAP_PREVIEW_REQUEST_BYTES]);

// The id of any reply, 0 where it is none.
uint64_t map_preview_reply_id(const uint8_t *reply, size_t n_bytes);

// From the reply, which stands as a Reply of n_bytes. NULL: there is no map, no memory, or too many
// points: then *out_again, and the next request asks for fewer.
struct payload *map_preview_make(struct map_preview *preview, const uint8_t *reply, size_t n_bytes,
                                 bool *out_again);

#endif
