# SPDX-License-Identifier: Apache-2.0
"""A single wall holds three of six degrees of freedom: every frame says DEGRADED and names the
other three; what is held is right, what is not held does not run away."""
import harness
from harness import check, check_at_most

N_FRAMES = 300
FREE = 0b100011  # x, y and the turn about z: the wall stands across the optical axis
DISTANCE_LIMIT_M = 0.010  # error of the way to the wall
TILT_LIMIT_DEG = 0.5
STILL_LIMIT_M = 0.001  # a camera on a tripod stays, in all directions
STILL_LIMIT_DEG = 0.05


def check_degraded(daemon, n_frames):
    harness.check_poses(daemon.poses, n_frames)
    for pose in daemon.poses[1:]:
        check(harness.state_name(pose) == "DEGRADED",
              f"frame {pose.seq} is {harness.state_name(pose)}, {harness.reason_name(pose)}")
        check(harness.reason_name(pose) == "DEGENERATE",
              f"frame {pose.seq}: reason {harness.reason_name(pose)}")
        check(pose.degenerate_mask == FREE, f"frame {pose.seq}: mask {pose.degenerate_mask:06b}")
        variances = [pose.pose_covariance[7 * k] for k in range(6)]
        check(min(variances[k] for k in (0, 1, 5)) > max(variances[k] for k in (2,)),
              f"frame {pose.seq}: the free directions are no less certain: {variances}")


def scenario():
    daemon = harness.Daemon("synth:wall")
    daemon.wait()
    check_degraded(daemon, N_FRAMES)
    # What the wall holds: its distance and tilt, from the camera's own pose.
    truth = harness.read_trajectory(harness.truth_of("wall"))
    first = harness.rotation(truth[0][4:])
    distance_m, tilt_deg = 0.0, 0.0
    for row, pose in zip(truth, daemon.poses):
        p, q = pose.pose.position, pose.pose.orientation
        # Odometry starts at the identity: into the truth's world, whose z is the wall's normal.
        normal = harness.multiply(first, harness.rotation((q.x, q.y, q.z, q.w)))[2]
        right = harness.rotation(row[4:])[2]
        z_m = sum(first[2][k] * c for k, c in enumerate((p.x, p.y, p.z))) + truth[0][3]
        distance_m = max(distance_m, abs(z_m - row[3]))
        tilt_deg = max(tilt_deg, harness.angle_deg(normal, right))
    check_at_most(distance_m, DISTANCE_LIMIT_M, "error of the distance to the wall [m]")
    check_at_most(tilt_deg, TILT_LIMIT_DEG, "error of the tilt [deg]")

    still = harness.Daemon("synth:wall-still")
    still.wait()
    check_degraded(still, 300)
    check("299 degraded (DEGENERATE 299), 0 lost, " in still.log(), still.log())
    check_at_most(harness.largest_way_m(still.poses), STILL_LIMIT_M, "still: way [m]")
    check_at_most(harness.largest_turn_deg(still.poses), STILL_LIMIT_DEG, "still: turn [deg]")


harness.run(scenario)
