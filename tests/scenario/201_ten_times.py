# SPDX-License-Identifier: Apache-2.0
"""Ten times real time: what cannot be processed is dropped before tracking, counted, and answered
all the same, in the trajectory by a comment; the replay keeps its pace, and what is tracked stays
right. The camera moves at a
tenth of a hand's speed, so that this holds however few frames a busy machine can track."""
import re
import time

import harness
from harness import check, check_at_most

N_FRAMES = 600
SPEED = 10
TOOK_LIMIT_S = N_FRAMES / 30 / SPEED + 2.0
ATE_LIMIT_M = 0.010


def scenario():
    # As published: adjusting all keyframes once more takes its time after the replay.
    daemon = harness.Daemon("synth:room-slow", "--set", "output.trajectory_poses=published",
                            speed=SPEED)
    daemon.wait_for(lambda: daemon.poses, "first pose")
    start = time.monotonic()
    daemon.wait()
    took_s = time.monotonic() - start
    poses = daemon.poses
    harness.check_poses(poses, N_FRAMES)
    dropped = [pose for pose in poses if harness.reason_name(pose) == "DROPPED"]
    print(f"{len(dropped)} of {N_FRAMES} frames dropped")
    check(poses[-1].dropped_frames == len(dropped), "dropped_frames of the last message")
    check(daemon.statuses[-1].dropped_frames == len(dropped), "dropped_frames of the status")
    check(daemon.statuses[-1].captured_frames == N_FRAMES, "captured_frames of the status")
    first = next(pose.seq for pose in poses if harness.reason_name(pose) != "DROPPED")
    for pose in dropped:
        check(harness.state_name(pose) in (("DEGRADED", "LOST") if pose.seq > first else ("INIT",)),
              f"dropped frame {pose.seq} is {harness.state_name(pose)}")
    check_at_most(took_s, TOOK_LIMIT_S, "time for the replay [s]")
    # In the trajectory, and so judged, are the frames that were tracked.
    rows = harness.frame_lines(daemon.trajectory)
    check(len(rows) == N_FRAMES, f"{len(rows)} lines in the trajectory")
    for row, pose in zip(rows, poses):
        is_lost = harness.state_name(pose) == "LOST"
        check((pose in dropped or is_lost) == row.startswith("#"), f"frame {pose.seq}: {row}")
        check(not row.startswith("#") or row.endswith(
            " lost: no pose\n" if is_lost else " predicted: no measurement\n"), row)
    result = harness.evaluate(harness.truth_of("room-slow"), daemon.trajectory)
    check(result["n_poses"] == sum(row[0] != "#" for row in rows), f"{result['n_poses']} poses")
    said = re.search(r"error against the known trajectory, (\d+) of", daemon.log())
    check(said and int(said[1]) == result["n_matched"], f"{said} of {result['n_matched']}")
    check_at_most(result["ate_m"]["rmse"], ATE_LIMIT_M, "ATE RMSE [m]")


harness.run(scenario)
