# SPDX-License-Identifier: Apache-2.0
"""What is recorded from a live camera replays to the same bytes: in each format, through an
unplugged cable and a device clock that begins anew, every pose of the replay is the pose that the
live daemon published for that frame. Frames that came too late for the tracker are in neither, and
all get full work, as a replay gives it."""
import harness
import kinects
from harness import check, messages

LIVE_POSES = 50
FORMATS = {"tum": "tum:{}", "klg": "klg:{}.klg", "fakenect": "fakenect:{}", "mcap": "mcap:{}.mcap",
           "ros2mcap": "mcap:{}.ros2.mcap"}


# Each as it came: at its end a recording adjusts its keyframes once more, a live camera does not.
PUBLISHED = ("--set", "output.trajectory_poses=published")


def tracked(daemon):
    return [p for p in list(daemon.poses) if p.reason != messages.REASON_DROPPED]


def repeats_a_guess(daemon, pose):
    """A lost frame has the pose that was told last: of a frame that was dropped the prediction,
    which no replay makes."""
    before = [p for p in list(daemon.poses) if p.seq == pose.seq - 1]
    return pose.state == messages.STATE_LOST and any(
        p.reason == messages.REASON_DROPPED for p in before)


def content(pose, has_place):
    """What the tracker says of a frame; seq numbers and times of the machine differ."""
    return (pose.timestamp.SerializeToString(), has_place and pose.pose.SerializeToString(),
            tuple(pose.pose_covariance), pose.state, pose.reason, pose.residual_rms_m,
            pose.inlier_ratio, pose.iterations, tuple(pose.eigenvalues), pose.valid_px)


def lines(daemon, poses):
    """The lines of its trajectory for these poses."""
    by_seq = [line for line in daemon.trajectory_bytes().splitlines(keepends=True)
              if not line.startswith(b"# map epoch")]
    return b"".join(by_seq[p.seq] for p in poses)


def record(cameras, name, folder):
    cameras.plugged = 1
    live = harness.Daemon("kinect:", *PUBLISHED, "--set", "tracker.iterations=4,3,3", "--set",
                          "tracker.adapt=false", "--set",
                          "recorder.folder=" + folder, "--set", "recorder.start=" + name, "--set",
                          "recorder.format=" + name, "--set", "recorder.queue_frames=300",
                          environment=cameras.environment)
    live.wait_for(lambda: len(tracked(live)) >= LIVE_POSES // 2, "half of the poses")
    cameras.plugged = 0
    live.wait_for(lambda: cameras.n_devices == 0, "camera let go")
    cameras.next_ticks = 4294900000  # and wraps soon
    cameras.plugged = 1
    live.wait_for(lambda: len(tracked(live)) >= LIVE_POSES, "the other half")
    live.stop()
    check(", 0 frames dropped" in live.log(), "the recorder dropped frames")
    return live


def scenario():
    cameras = kinects.Kinects(period_ms=400 if harness.is_sanitized() else 40, own_parameters=1)
    folder = harness.SCRATCH + "/recordings"
    for name, source in FORMATS.items():
        live = record(cameras, name, folder)
        again = harness.Daemon(source.format(folder + "/" + name), *PUBLISHED, "--set",
                               "tracker.iterations=4,3,3")
        again.wait()
        expected = tracked(live)
        print(f"{name}: {len(again.poses)} poses of {len(live.poses)} live frames,",
              harness.count_states(again.poses))
        check(len(again.poses) == len(expected),
              f"{name}: {len(again.poses)} frames instead of {len(expected)}")
        for a, b in zip(expected, again.poses):
            has_place = not repeats_a_guess(live, a)
            check(content(a, has_place) == content(b, has_place),
                  f"{name}: frame {a.seq} replays as\n{b}instead of\n{a}")
        check(again.trajectory_bytes() == lines(live, expected), f"{name}: another trajectory")


harness.run(scenario)
