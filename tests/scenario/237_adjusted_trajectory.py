# SPDX-License-Identifier: Apache-2.0
"""The trajectory file ends with the poses of the whole session as its keyframes finally lie: far
nearer to the truth where the camera errs, the same bytes each time, no step between frames. Until
then, and where that is wanted, it holds each pose as it was published."""
import os
import signal

import harness
from harness import check, check_at_most

SOURCE = "room,sensor=field,camera=5,frames=300"  # 10 s: enough to learn its own error
ATE_LIMIT_M = 0.010
SHARE_LIMIT = 0.25  # of the published error
STEP_LIMIT = 1.2  # error of a frame's motion, of what it is in odom, which is continuous


def run(*options, collect=False):
    daemon = harness.Daemon("synth:" + SOURCE, *options, collect=collect)
    daemon.wait()
    left = [name for name in os.listdir(daemon.folder) if name.startswith("trajectory")]
    check(left == ["trajectory.txt"], f"beside the trajectory: {left}")
    return daemon


def positions(path):
    with open(path) as file:
        return [[float(x) for x in line.split()[1:4]] for line in file if line[0] != "#"]


def steps(p):
    return [sum((b - a)**2 for a, b in zip(p[k], p[k + 1]))**0.5 for k in range(len(p) - 1)]


def check_killed():
    """Whoever kills it keeps what came; a signal completes it without what takes seconds."""
    for number in (signal.SIGKILL, signal.SIGTERM):
        daemon = harness.Daemon("synth:room,frames=60", "--loop", speed=1)
        daemon.wait_for(lambda: len(daemon.poses) > 45, "some poses")
        daemon.process.send_signal(number)
        daemon.process.wait()
        n = len(harness.frame_lines(daemon.trajectory))
        check(n >= 45, f"{n} frames after signal {number}")
        left = [name for name in os.listdir(daemon.folder) if name.startswith("trajectory")]
        check(left == ["trajectory.txt"], f"beside the trajectory: {left}")
        check("adjusted at once" not in daemon.log(), "a signal waits for all keyframes")


def scenario():
    truth = harness.truth_of(SOURCE)
    published = run("--set", "output.trajectory_poses=published", collect=True)
    first, second = run(), run("--set", "gpu.threads=1")
    check(first.trajectory_bytes() == second.trajectory_bytes(), "other bytes in a second run")
    check("adjusted at once" in first.log(), first.log())
    before, after = (harness.evaluate(truth, d.trajectory) for d in (published, first))
    check(len(positions(first.trajectory)) == 300, "a frame has no pose")
    check_at_most(after["ate_m"]["rmse"], ATE_LIMIT_M, "ATE RMSE, adjusted [m]")
    check_at_most(after["ate_m"]["rmse"] / before["ate_m"]["rmse"], SHARE_LIMIT, "of the published")
    odom = [[p.pose.position.x, p.pose.position.y, p.pose.position.z] for p in published.poses]
    wanted = steps(positions(truth))
    off, odom_off = (max(abs(a - b) for a, b in zip(steps(p), wanted))
                     for p in (positions(first.trajectory), odom))
    check_at_most(off / odom_off, STEP_LIMIT, "worst error of a frame's motion, of odom's")
    check_killed()


harness.run(scenario)
