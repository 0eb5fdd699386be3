# SPDX-License-Identifier: Apache-2.0
"""Every third frame repeats its predecessor bit for bit: that is no motion and no failure."""
import harness
from harness import check, check_at_most

N_FRAMES = 300
ATE_LIMIT_M = 0.025
STEP_LIMIT_M = 0.0005  # between a frame and its repetition


def scenario():
    daemon = harness.Daemon("synth:room-duplicates")
    daemon.wait()
    poses = daemon.poses
    harness.check_poses(poses, N_FRAMES)
    check(harness.count_states(poses) == {"INIT": 1, "TRACKING": N_FRAMES - 1},
          f"states {harness.count_states(poses)}")
    check([pose.duplicate for pose in poses] == [i % 3 == 2 for i in range(N_FRAMES)],
          "which frames are duplicates")
    step_m = max(harness.distance_m(poses[i - 1], poses[i]) for i in range(2, N_FRAMES, 3))
    check_at_most(step_m, STEP_LIMIT_M, "step to a repeated frame [m]")
    result = harness.evaluate(harness.truth_of("room-duplicates"), daemon.trajectory)
    check_at_most(result["ate_m"]["rmse"], ATE_LIMIT_M, "ATE RMSE [m]")


harness.run(scenario)
