# SPDX-License-Identifier: Apache-2.0
"""A camera on a tripod, 1,000 noisy frames: it does not drift."""
import harness
from harness import check, check_at_most

N_FRAMES = 1000
WAY_LIMIT_M = 0.001
TURN_LIMIT_DEG = 0.05


def scenario():
    daemon = harness.Daemon("synth:room-still")
    daemon.wait()
    harness.check_poses(daemon.poses, N_FRAMES)
    check(harness.count_states(daemon.poses) == {"INIT": 1, "TRACKING": N_FRAMES - 1},
          f"states {harness.count_states(daemon.poses)}")
    check_at_most(harness.largest_way_m(daemon.poses), WAY_LIMIT_M, "way from the start [m]")
    check_at_most(harness.largest_turn_deg(daemon.poses), TURN_LIMIT_DEG, "turn [deg]")


harness.run(scenario)
