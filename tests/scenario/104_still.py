# SPDX-License-Identifier: Apache-2.0
"""A camera on a tripod, 1,000 noisy frames: it does not drift, and keeps its keyframe."""
import harness
from harness import check, check_at_most

N_FRAMES = 1000
WAY_LIMIT_M = 0.001
TURN_LIMIT_DEG = 0.05


def scenario():
    for reference in ("previous", "keyframe"):
        daemon = harness.Daemon("synth:room-still", "--reference", reference)
        daemon.wait()
        poses = daemon.poses
        harness.check_poses(poses, N_FRAMES)
        check(harness.count_states(poses) == {"INIT": 1, "TRACKING": N_FRAMES - 1},
              f"{reference}: states {harness.count_states(poses)}")
        check_at_most(harness.largest_way_m(poses), WAY_LIMIT_M, f"{reference}: way [m]")
        check_at_most(harness.largest_turn_deg(poses), TURN_LIMIT_DEG, f"{reference}: turn [deg]")
    check_at_most(len({pose.reference_seq for pose in poses}), 1, "keyframes")


harness.run(scenario)
