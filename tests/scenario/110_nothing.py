# SPDX-License-Identifier: Apache-2.0
"""No surface in reach from the first frame on: every frame is answered, none is made up."""
import harness
from harness import check

N_FRAMES = 100


def scenario():
    daemon = harness.Daemon("synth:nothing")
    daemon.wait()
    check("(almost) empty" in daemon.log(), "a warning that there is nothing to see")
    check(f"no error against the known trajectory: none of {N_FRAMES} frames was tracked" in
          daemon.log() and "ATE" not in daemon.log(), daemon.log())
    poses = daemon.poses
    check(len(poses) == N_FRAMES, f"{len(poses)} messages")
    for pose in poses:
        check(harness.state_name(pose) == "LOST", f"frame {pose.seq}: {harness.state_name(pose)}")
        check(harness.reason_name(pose) == "NO_DEPTH", f"frame {pose.seq}: wrong reason")
        check(harness.same_pose(pose, poses[0]), f"frame {pose.seq} moved")


harness.run(scenario)
