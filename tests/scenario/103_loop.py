# SPDX-License-Identifier: Apache-2.0
"""A full turn through the room, with both kinds of reference: no frame is degraded or lost."""
import harness
from harness import check, check_at_most

N_FRAMES = 600
ATE_LIMIT_M = {"previous": 0.030, "keyframe": 0.003}


def scenario():
    truth = harness.truth_of("room")
    for reference, limit_m in ATE_LIMIT_M.items():
        daemon = harness.Daemon("synth:room", "--reference", reference)
        daemon.wait()
        harness.check_poses(daemon.poses, N_FRAMES)
        check(harness.count_states(daemon.poses) == {"INIT": 1, "TRACKING": N_FRAMES - 1},
              f"{reference}: states {harness.count_states(daemon.poses)}")
        result = harness.evaluate(truth, daemon.trajectory)
        check_at_most(result["ate_m"]["rmse"], limit_m, f"{reference}: ATE RMSE [m]")


harness.run(scenario)
