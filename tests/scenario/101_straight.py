# SPDX-License-Identifier: Apache-2.0
"""A camera that moves to and fro without turning: every frame is tracked, nothing turns."""
import harness
from harness import check, check_at_most

N_FRAMES = 300
ATE_LIMIT_M = 0.010
TURN_LIMIT_DEG = 0.5  # the largest rotation that may appear where there is none


def scenario():
    daemon = harness.Daemon("synth:room-straight")
    daemon.wait()
    harness.check_poses(daemon.poses, N_FRAMES)
    check(harness.count_states(daemon.poses) == {"INIT": 1, "TRACKING": N_FRAMES - 1},
          f"states {harness.count_states(daemon.poses)}")
    result = harness.evaluate(harness.truth_of("room-straight"), daemon.trajectory)
    check(result["n_matched"] == N_FRAMES, f"{result['n_matched']} poses in the trajectory")
    check_at_most(result["ate_m"]["rmse"], ATE_LIMIT_M, "ATE RMSE [m]")
    check_at_most(harness.largest_turn_deg(daemon.poses), TURN_LIMIT_DEG, "turn [deg]")
    check(all(pose.replay and pose.valid_px > 100000 for pose in daemon.poses), "message fields")
    times = [pose.timestamp.seconds * 10**9 + pose.timestamp.nanos for pose in daemon.poses]
    check(times == [i * 10**9 // 30 for i in range(N_FRAMES)], "time stamps of the recording")
    check(any(event.kind == harness.messages.Event.SOURCE_ENDED for event in daemon.events),
          "no event about the end")


harness.run(scenario)
