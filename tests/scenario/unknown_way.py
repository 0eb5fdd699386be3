# SPDX-License-Identifier: Apache-2.0
"""A camera of which there are moments when nobody knows where it is: its images are damaged before
the first pose, it is covered, and damaged again for longer than tracker.gap_s. For the scenarios
that look at what recordings have as tf."""
import glob
import subprocess

import harness
from harness import check

N_FRAMES = 80
COVER = range(15, 21)
DAMAGED = (*range(2), *range(40, 70))  # the latter for 1 s


def stamp_ns(message):
    return message.timestamp.seconds * 10**9 + message.timestamp.nanos


def is_unknown(pose):
    return harness.state_name(pose) == "LOST" or pose.is_stale


def record(recording_format, extension):
    """The recording, and the poses that were published."""
    folder = f"{harness.SCRATCH}/unknown-{recording_format}"
    subprocess.run([harness.BINARY + "/bin/posed-synth",
                    f"room,cover={COVER.start}:{len(COVER)}", folder, "--frames", str(N_FRAMES)],
                   check=True, stdout=subprocess.DEVNULL)
    images = sorted(glob.glob(folder + "/depth/*.png"))
    check(len(images) == N_FRAMES, f"{len(images)} images")
    for i in DAMAGED:
        with open(images[i], "wb") as file:
            file.write(b"no image")
    daemon = harness.Daemon("tum:" + folder, "--set", "recorder.folder=" + harness.SCRATCH,
                            "--set", "recorder.start=unknown", "--set",
                            "recorder.format=" + recording_format, "--set",
                            "recorder.queue_frames=300")
    daemon.wait()
    poses = daemon.poses
    check(len(poses) == N_FRAMES, f"{len(poses)} poses")
    stale = [p.seq for p in poses if p.is_stale]
    # The first ones, and 0.5 s after the last that was tracked.
    check(stale[:3] == [0, 1, stale[2]] and 53 < stale[2] < 57 and
          stale[2:] == list(range(stale[2], DAMAGED[-1] + 1)), f"stale: {stale}")
    check([p.seq for p in poses if harness.state_name(p) == "LOST"][:len(COVER)] == list(COVER),
          f"{harness.count_states(poses)}")
    return f"{harness.SCRATCH}/unknown{extension}", poses
