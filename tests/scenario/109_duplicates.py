# SPDX-License-Identifier: Apache-2.0
"""Every third frame repeats its predecessor bit for bit: that is no motion and no failure, takes no
work, and is no second measurement of the pose."""
import harness
from harness import check, check_at_most

N_FRAMES = 300
ATE_LIMIT_M = 0.025


def scenario():
    daemon = harness.Daemon("synth:room-duplicates", "--set",
                            "output.trajectory_format=covariance")
    daemon.wait()
    poses = daemon.poses
    harness.check_poses(poses, N_FRAMES)
    check(harness.count_states(poses) == {"INIT": 1, "TRACKING": N_FRAMES - 1},
          f"states {harness.count_states(poses)}")
    check([pose.duplicate for pose in poses] == [i % 3 == 2 for i in range(N_FRAMES)],
          "which frames are duplicates")
    for i in range(2, N_FRAMES, 3):
        check(poses[i].pose == poses[i - 1].pose and poses[i].iterations == 0 and
              poses[i].pose_covariance == poses[i - 1].pose_covariance, f"frame {i}")
    result = harness.evaluate(harness.truth_of("room-duplicates"), daemon.trajectory,
                              options=("--nees",))
    one = result["nees"]["windows"][0]
    check((one["n_pairs"], one["n_repeated"]) == (199, 100), one)
    check_at_most(result["ate_m"]["rmse"], ATE_LIMIT_M, "ATE RMSE [m]")


harness.run(scenario)
