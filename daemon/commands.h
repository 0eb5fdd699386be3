// SPDX-License-Identifier: Apache-2.0
// What requests want of the frame loop (shared_state.h: shared_command): reset, keyframe, the
// recording's playback, the map. Runs on the loop's thread between two frames; the request's thread
// waits for the answer.
#ifndef POSED_DAEMON_COMMANDS_H
#define POSED_DAEMON_COMMANDS_H

struct loop;

// The command that waits, if one does.
void commands_run(struct loop *loop);

// No command, but what a reset does: the next frame's time is of another clock, so that nobody
// knows how long it is after the frame before. Its poses go on from the last one in a new map
// epoch.
void commands_begin_clock(struct loop *loop);

#endif
