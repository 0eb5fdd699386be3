// SPDX-License-Identifier: Apache-2.0
// Messages as JSON, for people and scripts: the same keys, whether HTTP or posectl says it. Units
// are part of the keys.
#ifndef POSED_PROTO_WIRE_JSON_H
#define POSED_PROTO_WIRE_JSON_H

#include <jansson.h>

#include "proto/wire.h"

// Flags of jansson's functions that write: numbers with enough digits that a time in seconds since
// 1970 keeps its microseconds.
#define WIRE_JSON_DIGITS JSON_REAL_PRECISION(16)

// A new object, which the caller owns. NULL: no memory, or a text that is not UTF-8.
json_t *wire_json_status(const posed_Status *status);

// Size, intrinsics, units and what is taken out of the depth. NULL as above.
json_t *wire_json_calibration(const posed_CameraCalibration *calibration);

// `position_m` [x, y, z] and `orientation_xyzw`. NULL as above.
json_t *wire_json_pose(const posed_Pose *pose);

// Seconds since the epoch of the clock that stamped it.
double wire_seconds(const posed_Timestamp *timestamp);

#endif
