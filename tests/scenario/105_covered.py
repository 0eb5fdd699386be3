# SPDX-License-Identifier: Apache-2.0
"""A hand covers the lens in frames 150..179 and goes away: LOST with a reason, then back, in the
same place."""
import harness
from harness import check, check_at_most

N_FRAMES = 400
COVERED = range(150, 180)
BACK_WITHIN_FRAMES = 3
ATE_LIMIT_M = 0.030
STEP_LIMIT_M = 0.010  # the camera rests while it is covered


def scenario():
    daemon = harness.Daemon("synth:room-covered")
    daemon.wait()
    poses = daemon.poses
    harness.check_poses(poses, N_FRAMES)
    for pose in poses[1:]:
        seq, state = pose.seq, harness.state_name(pose)
        if seq in COVERED:
            check(state == "LOST", f"covered frame {seq} is {state}")
            check(harness.reason_name(pose) == "NO_DEPTH",
                  f"covered frame {seq}: reason {harness.reason_name(pose)}")
            check(harness.same_pose(pose, poses[149]), f"lost frame {seq} moved")
        elif not COVERED.stop <= seq < COVERED.stop + BACK_WITHIN_FRAMES:
            check(state == "TRACKING", f"frame {seq} is {state}, {harness.reason_name(pose)}")
    check_at_most(harness.distance_m(poses[149], poses[183]), STEP_LIMIT_M,
                  "step over the cover [m]")
    check(poses[-1].map_epoch == poses[0].map_epoch, "the map's epoch changed")
    kinds = [event.kind for event in daemon.events]
    check(kinds.count(harness.messages.Event.TRACKING_LOST) == 1, "one event LOST")
    check(kinds.count(harness.messages.Event.TRACKING_BACK) == 1, "one event BACK")
    check(daemon.statuses[-1].lost_frames >= len(COVERED), "lost frames are counted")
    result = harness.evaluate(harness.truth_of("room-covered"), daemon.trajectory)
    check(result["n_poses"] == N_FRAMES - len(COVERED) and
          daemon.trajectory_bytes().count(b" lost: no pose\n") == len(COVERED),
          f"{result['n_poses']} poses in the trajectory")
    check_at_most(result["ate_m"]["rmse"], ATE_LIMIT_M, "ATE RMSE [m]")


harness.run(scenario)
