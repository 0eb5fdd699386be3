# SPDX-License-Identifier: Apache-2.0
"""An accelerometer holds the roll that a wall does not hold; one that is wrong is named in the log
once and changes no pose by more than it says itself; without one, poses are what they were."""
import math

import harness
from harness import check, check_at_most

N_FRAMES, N_SAME = 300, 150
SHARE_LIMIT = 0.6  # of the roll's error without an accelerometer
THERE = "an accelerometer says where down is: it is watched until it has turned"
TRUSTED = "the accelerometer has turned as the camera did: it holds roll and pitch"
LINES = {"dead": "not gravity", "turned": "does not turn as the camera does"}


def run(accelerometer, *options, n_frames=N_FRAMES):
    daemon = harness.Daemon(f"synth:wall,frames={n_frames},accelerometer={accelerometer}", *options)
    daemon.wait()
    harness.check_poses(daemon.poses, n_frames)
    with open(daemon.log_path) as file:
        lines = [line for line in file if "accelerometer" in line]
    return daemon, lines


def wrong_lines(lines):
    return [line for line in lines if THERE not in line]


def roll_rms_deg(daemon, truth):
    """Of the camera's turn about its view, in each frame since the first."""
    rows = harness.read_trajectory(daemon.trajectory)
    check(len(rows) == len(truth), f"{len(rows)} poses")
    total = 0.0
    first = harness.rotation(truth[0][4:])
    for row, true_row in zip(rows, truth):
        seen = harness.multiply(first, harness.rotation(row[4:]))
        true = harness.rotation(true_row[4:])
        # Down in the camera, as the pose has it and as it is: row y of the rotation.
        angle = math.atan2(seen[1][0], seen[1][1]) - math.atan2(true[1][0], true[1][1])
        total += math.degrees(angle)**2
    return math.sqrt(total / len(rows))


def scenario():
    truth = harness.read_trajectory(harness.truth_of("wall", N_FRAMES))
    without, lines = run("off")
    check(not lines, lines)
    limit = roll_rms_deg(without, truth)
    print(f"without: {limit:.2f} degrees")
    held, lines = run("on")
    check(len(lines) == 2 and THERE in lines[0] and TRUSTED in lines[1], lines)
    check_at_most(roll_rms_deg(held, truth), SHARE_LIMIT * limit, "roll held by gravity [deg]")
    without, _ = run("off", n_frames=N_SAME)
    off, _ = run("on", "--set", "tracker.gravity=false", n_frames=N_SAME)
    with open(off.trajectory) as a, open(without.trajectory) as b:
        check(a.read() == b.read(), "tracker.gravity=false does not leave it out")
    for wrong, words in LINES.items():
        daemon, lines = run(wrong, n_frames=N_SAME)
        left_out = wrong_lines(lines)
        check(len(left_out) == 1 and words in left_out[0], f"{wrong}: {lines}")
        with open(daemon.trajectory) as a, open(without.trajectory) as b:
            check(a.read() == b.read(), f"{wrong}: poses are others than without")


harness.run(scenario)
