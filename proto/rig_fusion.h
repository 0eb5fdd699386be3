// SPDX-License-Identifier: Apache-2.0
// One pose of a body that carries several cameras, from what the tracker of each says.
//
// Each camera has an anchor: where its odom lies in the rig's, as agreed when it was last part of a
// pose. From its anchor on a camera tells where the body is, with an error that has grown since:
// the walk and drift of its pose (pose_error.h). Where all are has the least squared error in units
// of those covariances (the information-weighted mean, pose_mean.h). Then all are anchored
// anew. So the rig's way is a mean of the cameras' motions and no camera's odom matters: one that
// is covered is left out, and one that is back goes on from where the others have come to, without
// a jump. So does one that was found again in its map, whose odom goes on from the place found and
// not from where it was lost. While no camera is tracked the rig is lost; the first one that is
// back in its old epoch takes it up where that camera's anchor has it, one that was found where its
// map does, else a new epoch begins; not while one has only dropped frames, for half a second.
//
// Growth is averaged over 20 s: weights that jump from frame to frame would turn the noise of
// single poses, which a constant weight averages out, into drift; and how directions hang together
// is believed by half only, as drift is known to a factor of three (gpu/track/error_propagation.c).
// Both were chosen on four pairs of cameras with errors of their own (tools/bench/MEASURED.md).
//
// Cameras with a map of their own say where odom lies in it (T_map_odom), and the rig has a map,
// too: each camera's is laid where the rig's had the camera when it was first there, and the rig is
// where they have it in the mean, all alike. The rig's odom does not move by it.
//
// The body's frame is the first camera's. Poses are told at the time stamps of the first camera
// that is not silent; the others' are interpolated. The caller brings all to one clock.
//
// One thread at a time.
#ifndef POSED_PROTO_RIG_FUSION_H
#define POSED_PROTO_RIG_FUSION_H

#include <stdbool.h>

#include "proto/pose_error.h"
#include "proto/types.h"

#define RIG_MAX_CAMERAS 16
#define RIG_MAX_AHEAD   128       // frames of one camera that are kept for the others
#define RIG_WAIT_NS     100000000 // others are waited for so long, by the time stamps
#define RIG_SILENT_NS   500000000 // so far behind the newest: silent, and waited for no more
// No pose is interpolated over more: of a camera with fewer than 7 frames a second the rig has only
// what is of the stamps at which poses are told.
#define RIG_GAP_NS      150000000

// What a camera says of one frame.
enum rig_quality {
    RIG_LOST,
    RIG_PREDICTED, // dropped before tracking: taken only where no camera was tracked
    RIG_TRACKED,
};

struct rig_sight {
    int64_t time_ns;
    int64_t clock_set_ns; // the stamp that is told is by so much later: the fusion does not use it
    struct se3 T_odom_camera;
    struct pose_error error;
    struct se3 T_map_odom; // of the camera's own map
    bool has_map;
    uint32_t epoch;
    uint32_t n_finds; // +1 whenever a lost camera was found in its map: odom is another one then
    enum rig_quality quality;
};

struct rig_result {
    int64_t time_ns, clock_set_ns; // of the sight at whose time stamp it is
    struct se3 T_odom_base;        // LOST: the last one
    double covariance[36];         // since the epoch began; order and axes as in pose_error.h
    double own[36];                // of it, what is of single frames alone
    struct se3 T_map_odom;         // of the rig's map; identity until a camera has one
    bool has_map;                  // since a camera of the epoch has one
    enum rig_quality quality;
    uint32_t epoch;
    uint32_t n_used; // cameras that it is made of
};

struct rig; // opaque

// T_base_camera[i]: where camera i sits; of the first the identity. `patient`: others are waited
// for however long, and nobody is silent (a recording that is played as fast as it goes). Returns 0
// or -ENOMEM.
__attribute__((warn_unused_result)) int
rig_create(struct rig **out, const struct se3 *T_base_camera, uint32_t n, bool patient);
void rig_destroy(struct rig **rig);

// The next frame of a camera; time stamps of one camera grow (one that does not is left out, but
// where its epoch is another one: then its clock was set, and the rig goes on by it in a new
// epoch when nothing of another camera is after its last pose). The oldest is
// forgotten where there are RIG_MAX_AHEAD.
void rig_put(struct rig *rig, uint32_t camera, const struct rig_sight *sight);

// The camera has ended: it is waited for no more.
void rig_end(struct rig *rig, uint32_t camera);

// How far this camera is ahead of the one that the next pose waits for; 0: of none.
int64_t rig_ahead_ns(const struct rig *rig, uint32_t camera);

// The next pose, after each rig_put as often as it returns true.
bool rig_next(struct rig *rig, struct rig_result *out);

#endif
