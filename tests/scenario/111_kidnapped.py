# SPDX-License-Identifier: Apache-2.0
"""A camera is carried off, once back to where it was 120 frames before, once into another room and
back: a daemon with default settings, which keeps no map, looks for it among its keyframes. It is
lost, found within a second, in the same epoch and where it was then, and nowhere in the other
room. Once more the bytes are the same."""
import os
import shutil
import subprocess
import tempfile

import harness
from harness import check, check_at_most

N_SEEN = 150
BACK = range(30, 75)  # what is seen after each cut
N_ELSEWHERE = 60  # two seconds
CUT_S = 2
FOUND_FRAMES = 30
MOST_OFF_M = 0.02
MOST_OFF_DEG = 0.7


def frames_of(name, n):
    """A synthetic recording: its folder, and its images in order."""
    folder = tempfile.mkdtemp(dir=harness.SCRATCH)
    subprocess.run([harness.BINARY + "/bin/posed-synth", name, folder, "--frames", str(n)],
                   check=True, stdout=subprocess.DEVNULL)
    with open(folder + "/depth.txt") as file:
        lines = [line.split() for line in file if not line.startswith("#")]
    return folder, [folder + "/" + line[1] for line in lines]


def record(folder, pieces):
    """A recording of the pieces, CUT_S between them. Returns it."""
    out = tempfile.mkdtemp(dir=harness.SCRATCH)
    os.mkdir(out + "/depth")
    shutil.copy(folder + "/calibration.txt", out)
    seconds, lines = 1.0, []
    for piece in pieces:
        for image in piece:
            name = f"depth/{len(lines):06d}.png"
            shutil.copy(image, out + "/" + name)
            lines.append(f"{seconds:.6f} {name}")
            seconds += 1 / 30
        seconds += CUT_S
    with open(out + "/depth.txt", "w") as file:
        file.write("\n".join(lines) + "\n")
    return out


def play(recording):
    daemon = harness.Daemon("tum:" + recording)
    daemon.wait()
    check(len({pose.map_epoch for pose in daemon.poses}) == 1, "another epoch began")
    return daemon


def check_found(poses, begin, first):
    """From frame `begin` on the images of BACK, which were seen at `first` first."""
    found = None
    for i, seen in enumerate(BACK):
        pose, then = poses[begin + i], poses[first + seen]
        if harness.state_name(pose) != "TRACKING":
            check(found is None, f"frame {pose.seq}: lost once more")
            continue
        found = i if found is None else found
        check_at_most(harness.distance_m(pose, then), MOST_OFF_M, f"frame {pose.seq}, off [m]")
        check_at_most(harness.turn_deg(pose, then), MOST_OFF_DEG, f"frame {pose.seq} [deg]")
    check(harness.state_name(poses[begin]) == "LOST", "the camera was not lost")
    check(found is not None and found <= FOUND_FRAMES, f"found after {found} frames")


def scenario():
    folder, room = frames_of("room", N_SEEN)
    other, corridor = frames_of("corridor", N_ELSEWHERE)
    back = [room[i] for i in BACK]
    recording = record(folder, [room, back])
    daemon = play(recording)
    check_found(daemon.poses, N_SEEN, 0)
    check("found again by that of frame" in daemon.log(), daemon.log())
    again = play(recording)
    check(daemon.trajectory_bytes() == again.trajectory_bytes(), "the same bytes")

    daemon = play(record(folder, [room, corridor, back]))
    for pose in daemon.poses[N_SEEN:N_SEEN + N_ELSEWHERE]:
        check(harness.state_name(pose) == "LOST", f"frame {pose.seq} is {harness.state_name(pose)}")
    check_found(daemon.poses, N_SEEN + N_ELSEWHERE, 0)
    shutil.rmtree(other)


harness.run(scenario)
