# SPDX-License-Identifier: Apache-2.0
"""A recording that rosbag2 split into eleven files is one: its trajectory is that of the same
frames unsplit, byte for byte, listed by a metadata.yaml or not, and also where files are missing,
damaged or packed, which is told by name. The folder's name has a space."""
import os
import shutil
import struct
import subprocess

import harness
from harness import check

N_PARTS = 11  # one frame each; NAME_10 comes behind NAME_9
MISSING, DAMAGED = 4, 7
LIBRARY_S = 200
NO_SOURCE = 4  # exit code


def python():
    own = os.environ.get("POSED_PYTHON_ROS")
    if not own or not os.access(own, os.X_OK):
        harness.skip("no rosbags from PyPI (POSED_PYTHON_ROS, see tools/test)")
    return own


def track(source, *options, code=0):
    """The bytes of the trajectory, and the log."""
    daemon = harness.Daemon(source, "--set", "camera.depth_scale=5000", *options, collect=False)
    daemon.wait(code)
    return (daemon.trajectory_bytes() if code == 0 else b""), daemon.log()


def write(tum, bag, container):
    script = harness.SOURCE + "/tests/scenario/ros_write.py"
    run = subprocess.run([python(), script, tum, bag, container, "16UC1", f"parts={N_PARTS}"],
                         stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                         timeout=LIBRARY_S)
    check(run.returncode == 0, f"{bag} was not written: {run.stdout[-2000:]}")


def without(tum, numbers):
    """The recording without these frames."""
    folder = tum + "-left"
    shutil.copytree(tum, folder)
    with open(folder + "/depth.txt", encoding="utf-8") as file:
        lines = file.read().splitlines()
    comments = [line for line in lines if line.startswith("#")]
    frames = [line for line in lines if not line.startswith("#")]
    check(len(frames) == N_PARTS, "another number of frames")
    with open(folder + "/depth.txt", "w", encoding="utf-8") as file:
        file.write("\n".join(comments + [line for i, line in enumerate(frames)
                                         if i not in numbers]) + "\n")
    return folder


def chunks_of_no_kind(tum, whole):
    """Packed in a way that nobody knows: a file with no other is refused, wherever it stands."""
    magic = b"\x89MCAP0\r\n"
    chunk = struct.pack("<QQQII3sQ4s", 0, 0, 4, 0, 3, b"xyz", 4, bytes(4))
    chunk = b"\x06" + struct.pack("<Q", len(chunk)) + chunk
    end = b"\x0f" + struct.pack("<QI", 4, 0)
    bag = harness.SCRATCH + "/kinds"
    write(tum, bag, "mcap")
    name = f"{bag}/kinds_{{}}.mcap".format
    with open(name(5), "rb") as file:
        good = file.read()
    with open(name(5), "wb") as file:
        file.write(good[:8] + chunk + good[8:])
    trajectory, log = track("mcap:" + bag)
    told = f"{name(5)}: damaged at byte 8: {len(chunk)} bytes not read: a chunk is compressed"
    check(trajectory == whole and told in log, log)
    for number in (0, 5, 10):
        with open(name(number), "rb") as file:
            good = file.read()
        with open(name(number), "wb") as file:
            file.write(magic + chunk + end)
        _, log = track("mcap:" + bag, code=NO_SOURCE)
        check(f"{name(number)}: " in log and "left out" not in log, log)
        with open(name(number), "wb") as file:
            file.write(good)


def ros1_is_never_split():
    folder = harness.SCRATCH + "/ros1"
    os.mkdir(folder)
    for name in ("w_0.bag", "w_2.bag", "w_4.bag.zst"):
        with open(f"{folder}/{name}", "wb"):
            pass
    _, log = track("ros1bag:" + folder, code=NO_SOURCE)
    check(f"{folder}: a folder with 2 files *.bag, name one of them" in log, log)
    check(not any(words in log for words in ("a recording in", "not there", "compressed")), log)


def scenario():
    python()
    tum = harness.SCRATCH + "/tum"
    subprocess.run([harness.BINARY + "/bin/posed-synth", "room", tum, "--frames", str(N_PARTS)],
                   check=True, stdout=subprocess.DEVNULL)
    whole, _ = track("tum:" + tum)
    left, _ = track("tum:" + without(tum, (MISSING, DAMAGED)))
    check(whole.count(b"\n") >= N_PARTS and left != whole, "the trajectories are too short")
    for container, driver in (("mcap", "mcap"), ("db3", "ros2db3")):
        bag = f"{harness.SCRATCH}/a bag-{container}"
        write(tum, bag, container)
        name = f"a bag-{container}_{{}}.{container}".format
        for source in (f"{driver}:{bag}", bag, f"{driver}:{bag}#/camera/depth/image_rect_raw"):
            trajectory, log = track(source)
            check(trajectory == whole, f"{source}: another trajectory\n{log}")
            # the camera info of the third file; files in order; nothing to complain of
            check(" is /camera/depth/camera_info\n" in log and "earlier" not in log and
                  "left out" not in log and "not there" not in log, log)
            check(f"a recording in {N_PARTS} files, {name(0)} to {name(10)}" in log, log)

        os.rename(bag + "/metadata.yaml", harness.SCRATCH + "/metadata.yaml")
        trajectory, log = track(f"{driver}:{bag}")
        check(trajectory == whole and "earlier" not in log, f"by their names: {log}")

        os.remove(f"{bag}/{name(MISSING)}")
        with open(f"{bag}/{name(DAMAGED)}", "r+b") as file:
            file.write(b"no recording of any kind")
        for metadata in (False, True):
            if metadata:
                os.rename(harness.SCRATCH + "/metadata.yaml", bag + "/metadata.yaml")
            trajectory, log = track(f"{driver}:{bag}")
            check(trajectory == left, f"without two: another trajectory\n{log}")
            check(f"{bag}/{name(MISSING)}: is not there" in log and
                  f"{bag}/{name(DAMAGED)}: left out" in log, log)

        with open(f"{bag}/{name(MISSING)}.zstd", "wb") as file:
            file.write(b"\x28\xb5\x2f\xfd and so on")
        trajectory, log = track(f"{driver}:{bag}")
        check(trajectory == left and "is not there" not in log, log)
        check(f"the first is {name(MISSING)}.zstd; unpack first: for f in " in log, log)
        command = log.split("unpack first: ")[1].split("\n")[0]
        subprocess.run(["sh", "-c", 'zstd() { cp "$2" "$4"; }; ' + command], check=True)
        with open(f"{bag}/{name(MISSING)}", "rb") as file:
            check(file.read(4) == b"\x28\xb5\x2f\xfd", f"unpacked elsewhere by {command}")
        os.remove(f"{bag}/{name(MISSING)}")

        for i in range(N_PARTS):  # no list, and not of one stem
            if i != MISSING:
                os.rename(f"{bag}/{name(i)}", f"{bag}/{i}.{container}")
        os.remove(bag + "/metadata.yaml")
        _, log = track(f"{driver}:{bag}", code=NO_SOURCE)
        check(f"a folder with {N_PARTS - 1} files *.{container}, name one of them" in log, log)
        print(f"{container}: {N_PARTS} files, byte for byte")

    chunks_of_no_kind(tum, whole)
    ros1_is_never_split()

    ours = harness.SCRATCH + "/ours"  # one recording each, whatever their names
    for name in ("run_0", "run_1"):
        track("tum:" + tum, "--set", "recorder.folder=" + ours, "--set", "recorder.start=" + name,
              "--set", "recorder.format=mcap")
    _, log = track("mcap:" + ours, code=NO_SOURCE)
    check(f"{ours}: a folder with 2 files *.mcap, name one of them" in log, log)


harness.run(scenario)
