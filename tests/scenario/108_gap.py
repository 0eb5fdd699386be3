# SPDX-License-Identifier: Apache-2.0
"""No frame for two seconds, during which the camera moved by 3 cm and 2 degrees: the frame after
the gap says so, and tracking goes on from where the camera really is."""
import harness
from harness import check, check_at_most

N_FRAMES = 300
GAP = 150  # first frame after the gap
ATE_LIMIT_M = 0.025


def scenario():
    daemon = harness.Daemon("synth:room-gap")
    daemon.wait()
    harness.check_poses(daemon.poses, N_FRAMES)
    for pose in daemon.poses[1:]:
        state, reason = harness.state_name(pose), harness.reason_name(pose)
        if pose.seq == GAP:
            check((state, reason) == ("DEGRADED", "TIME_GAP"), f"after the gap: {state}, {reason}")
        else:
            check(state == "TRACKING", f"frame {pose.seq} is {state}, {reason}")
    result = harness.evaluate(harness.truth_of("room-gap"), daemon.trajectory)
    check_at_most(result["ate_m"]["rmse"], ATE_LIMIT_M, "ATE RMSE [m]")


harness.run(scenario)
