# SPDX-License-Identifier: Apache-2.0
"""A corridor does not hold the way along it: DEGRADED with that direction, and only that, and the
other five are right."""
import harness
from harness import check, check_at_most

N_FRAMES = 300
FREE = 0b000100  # z: the camera looks along the corridor
ACROSS_LIMIT_M = 0.020
RPE_LIMIT_DEG = 0.3


def scenario():
    daemon = harness.Daemon("synth:corridor")
    daemon.wait()
    harness.check_poses(daemon.poses, N_FRAMES)
    for pose in daemon.poses[1:]:
        check(harness.state_name(pose) == "DEGRADED",
              f"frame {pose.seq} is {harness.state_name(pose)}, {harness.reason_name(pose)}")
        check(pose.degenerate_mask == FREE, f"frame {pose.seq}: mask {pose.degenerate_mask:06b}")
    truth_path = harness.truth_of("corridor")
    truth = harness.read_trajectory(truth_path)
    first = harness.rotation(truth[0][4:])
    across_m = 0.0
    for row, pose in zip(truth, daemon.poses):
        p = (pose.pose.position.x, pose.pose.position.y, pose.pose.position.z)
        for k in range(2):
            x_m = sum(first[k][j] * p[j] for j in range(3)) + truth[0][1 + k]
            across_m = max(across_m, abs(x_m - row[1 + k]))
    check_at_most(across_m, ACROSS_LIMIT_M, "error across the corridor [m]")
    result = harness.evaluate(truth_path, daemon.trajectory)
    check_at_most(result["rpe"]["rotation_deg"]["rmse"], RPE_LIMIT_DEG, "RPE rotation [deg]")


harness.run(scenario)
