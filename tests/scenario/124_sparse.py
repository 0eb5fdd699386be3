# SPDX-License-Identifier: Apache-2.0
"""A sensor that measures a third of the pixels, hardly one with all four neighbours: every frame is
tracked, and the log says what is made of it."""
import harness
from harness import check, check_at_most

N_FRAMES = 90
SOURCE = f"room,sensor=sparse,seed=5,camera=5,frames={N_FRAMES}"
# Besides, that sensor errs as sensor=unkind does, which is 13 mm off here.
ATE_LIMIT_M = 0.030


def scenario():
    daemon = harness.Daemon(f"synth:{SOURCE}")
    daemon.wait()
    harness.check_poses(daemon.poses, N_FRAMES)
    for pose in daemon.poses[1:]:
        check(harness.state_name(pose) == "TRACKING",
              f"frame {pose.seq} is {harness.state_name(pose)}, {harness.reason_name(pose)}")
    check(daemon.log().count("hardly a measured pixel has all of its neighbours") == 1,
          f"the log says once that gaps are filled: {daemon.log()}")
    result = harness.evaluate(harness.truth_of(SOURCE), daemon.trajectory)
    check_at_most(result["ate_m"]["rmse"], ATE_LIMIT_M, "ATE RMSE [m]")


harness.run(scenario)
