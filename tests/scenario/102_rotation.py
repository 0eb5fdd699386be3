# SPDX-License-Identifier: Apache-2.0
"""A camera that looks about without leaving its place."""
import harness
from harness import check, check_at_most

N_FRAMES = 300
ATE_LIMIT_M = 0.010
RPE_LIMIT_DEG = 0.3  # rotation error over one second


def scenario():
    daemon = harness.Daemon("synth:room-rotation")
    daemon.wait()
    harness.check_poses(daemon.poses, N_FRAMES)
    check(harness.count_states(daemon.poses) == {"INIT": 1, "TRACKING": N_FRAMES - 1},
          f"states {harness.count_states(daemon.poses)}")
    result = harness.evaluate(harness.truth_of("room-rotation"), daemon.trajectory)
    check_at_most(result["ate_m"]["rmse"], ATE_LIMIT_M, "ATE RMSE [m]")
    check_at_most(result["rpe"]["rotation_deg"]["rmse"], RPE_LIMIT_DEG, "RPE rotation [deg]")


harness.run(scenario)
