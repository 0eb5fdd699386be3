# SPDX-License-Identifier: Apache-2.0
"""The same frames as PNG and as ROS logs of libraries that none of us wrote (ros_write.py): the
trajectory on disk is the same, byte for byte. And what a log lacks is said by name."""
import os
import shutil
import sqlite3
import subprocess

import harness
from harness import check

# Container, file to open under the folder that the library made, driver, encodings, frames.
LOGS = [
    ("mcap", "{0}/{1}.mcap", "mcap",
     ("16UC1", "16UC1-big", "mono16", "32FC1", "32FC1-mm", "16UC1-png"), 6),
    ("mcap", "{0}/{1}.mcap", "mcap", ("16UC1-rvl", "16UC1-plain-png"), 4),
    ("mcap-zstd", "{0}/{1}.mcap", "mcap", ("16UC1",), 6),
    ("mcap-ros2", "{0}", "mcap", ("32FC1", "16UC1-png"), 6),
    ("mcap-plain", "{0}", "mcap", ("16UC1", "16UC1-png", "32FC1-mm"), 6),
    ("bag", "{0}", "ros1bag", ("16UC1", "32FC1", "16UC1-png"), 6),
    ("bag-bz2", "{0}", "ros1bag", ("16UC1",), 6),
    ("bag-lz4", "{0}", "ros1bag", ("mono16", "mono16-plain-png"), 6),
    ("bag-plain", "{0}", "ros1bag", ("16UC1", "32FC1-mm"), 6),
    ("db3", "{0}/{1}.db3", "ros2db3", ("16UC1", "32FC1", "32FC1-mm", "16UC1-png"), 6),
]
RESTARTED = ("mcap-ros2", "mcap-plain", "bag", "bag-plain", "db3")
LIBRARY_S = 200
NO_SOURCE = 4  # exit code
INFO_TAKEN = " is /camera/depth/camera_info\n"


def python():
    own = os.environ.get("POSED_PYTHON_ROS")
    if not own or not os.access(own, os.X_OK):
        harness.skip("no rosbags from PyPI (POSED_PYTHON_ROS, see tools/test)")
    return own


def write(tum, name, container, encoding, *options, environment=None):
    out = f"{harness.SCRATCH}/{name}"
    script = harness.SOURCE + "/tests/scenario/ros_write.py"
    run = subprocess.run([python(), script, tum, out, container, encoding, *options],
                         stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                         timeout=LIBRARY_S, env={**os.environ, **(environment or {})})
    check(run.returncode == 0, f"{name} was not written: {run.stdout[-2000:]}")
    return out


def track(source, *options, code=0):
    """The bytes of the trajectory, and the log."""
    daemon = harness.Daemon(source, *options, collect=False)
    daemon.wait(code)
    return (daemon.trajectory_bytes() if code == 0 else b""), daemon.log()


def recording(n_frames):
    folder = f"{harness.SCRATCH}/tum{n_frames}"
    if not os.path.isdir(folder):
        subprocess.run([harness.BINARY + "/bin/posed-synth", "room", folder, "--frames",
                        str(n_frames)], check=True, stdout=subprocess.DEVNULL)
    return folder


def chunks_of(data, driver):
    """Where the chunks of a log begin, found without its index."""
    places = []
    if driver == "ros1bag":
        at = data.find(b"op=\x05")
        while at >= 0:
            header = data.rfind(b"\x04\x00\x00\x00", 0, at)  # of the field, behind its record's
            places.append(header - 4)
            at = data.find(b"op=\x05", at + 1)
        return places
    at = 8
    while data[at] != 0x0F:
        places += [at] if data[at] == 0x06 else []
        at += 9 + int.from_bytes(data[at + 1:at + 9], "little")
    return places


def check_damage(container, place, driver):
    """A chunk in the middle loses its lengths: those behind it are read, by the log's index."""
    name = f"damaged-{container}"
    path = place.format(write(recording(6), name, container, "16UC1"), name)
    with open(path, "rb") as file:
        data = bytearray(file.read())
    places = chunks_of(data, driver)
    check(len(places) > 2, f"{name}: {len(places)} chunks")
    whole, _ = track(f"{driver}:{path}", "--set", "camera.depth_scale=5000")
    data[places[1]:places[1] + 16] = b"\xff" * 16
    with open(path, "wb") as file:
        file.write(data)
    left, log = track(f"{driver}:{path}", "--set", "camera.depth_scale=5000")
    wanted = f"damaged at byte {places[1]}: {places[2] - places[1]} bytes not read, goes on at " \
             f"byte {places[2]} by the index"
    check(f"{path}: {wanted}" in log and "incomplete" not in log, log)
    check(0 < left.count(b"\n") < whole.count(b"\n"), f"{name}: {left} of {whole}")
    check(left.splitlines()[-1].split()[0] == whole.splitlines()[-1].split()[0],
          f"{name}: the last frame is not the recording's")
    print(f"{name}: {wanted}")


def check_float_scale(expected):
    """Of floats of another unit the log names a setting, which makes them right."""
    path = write(recording(6), "decimetres", "mcap", "32FC1-dm") + "/decimetres.mcap"
    _, log = track(f"mcap:{path}")
    check("(of images of floats camera.float_scale says what they are: metres 1, millimetres "
          "1000)" in log and "depth_scale" not in log, log)
    trajectory, log = track(f"mcap:{path}", "--set", "camera.float_scale=10")
    check(trajectory == expected, f"decimetres: another trajectory\n{log}")
    print("decimetres: 6 poses, byte for byte")


def check_stuck_stamps(expected):
    """Stamps that stand still: the times of the recorder, which are 1.7 ms after the images'."""
    path = write(recording(6), "stuck", "mcap", "16UC1", "stuck") + "/stuck.mcap"
    trajectory, log = track(f"mcap:{path}", "--set", "camera.depth_scale=5000")
    check("5 of 6 images of /camera/depth/image_rect_raw have the stamp of the one before" in log,
          log)
    lines, wanted = ([line.split() for line in text.decode().splitlines() if line[0] != "#"]
                     for text in (trajectory, expected))
    check([line[1:] for line in lines] == [line[1:] for line in wanted] and len(lines) == 6,
          f"stuck: another trajectory\n{log}")
    check(all(abs(float(a[0]) - float(b[0]) - 0.0017) < 1e-5 for a, b in zip(lines, wanted)),
          f"stuck: other times\n{trajectory}")
    print("stuck: 6 poses, byte for byte but for their times")


def check_cut_db3(expected):
    """What is before the cut is read; without the schema's own page nothing is."""
    path = write(recording(6), "cut-db3", "db3", "16UC1") + "/cut-db3.db3"
    n_bytes = os.path.getsize(path)
    with open(path, "r+b") as file:
        file.truncate(n_bytes - n_bytes // 8)
    left, log = track(f"ros2db3:{path}", "--set", "camera.depth_scale=5000")
    check(f"{path}: cut off, its last {n_bytes // 8} bytes are not there" in log, log)
    left, whole = ([line for line in text.splitlines() if line[:1] != b"#"]
                   for text in (left, expected))
    check(2 < len(left) < len(whole) and left == whole[:len(left)], f"{left} of {whole}\n{log}")
    with open(path, "r+b") as file:
        file.truncate(4096)
    _, log = track(f"ros2db3:{path}", code=NO_SOURCE)
    check(f"{path}: damaged, or cut off: " in log and f'sqlite3 "{path}" .recover' in log, log)


def check_logged_db3(expected):
    """A recorder that was killed as it moved its write-ahead log into the file: the log has what
    the file lacks, nothing is said to be cut off. A log that cannot be read is told as such."""
    path = write(recording(6), "logged-db3", "db3", "16UC1") + "/logged-db3.db3"
    live = sqlite3.connect(path)
    live.execute("PRAGMA journal_mode = WAL")
    live.execute("VACUUM")  # writes every page, to the log
    shutil.copy(path + "-wal", path + "-kept")
    live.execute("PRAGMA wal_checkpoint")
    live.close()
    os.rename(path + "-kept", path + "-wal")
    os.truncate(path, os.path.getsize(path) // 2)
    trajectory, log = track(f"ros2db3:{path}", "--set", "camera.depth_scale=5000")
    check(trajectory == expected and "cut off" not in log, f"logged: another trajectory\n{log}")
    os.remove(path + "-shm")
    os.symlink("elsewhere", path + "-shm")
    _, log = track(f"ros2db3:{path}", code=NO_SOURCE)
    check(f"{path}: with its write-ahead log ({path}-wal) it can be read only in a folder that may "
          "be written to" in log, log)
    print("logged-db3: 6 poses, byte for byte")


def scenario():
    python()
    expected = {}
    for container, place, driver, encodings, n_frames in LOGS:
        tum = recording(n_frames)
        if n_frames not in expected:
            expected[n_frames], _ = track("tum:" + tum)
            check(expected[n_frames].count(b"\n") >= n_frames, "the trajectory is too short")
        for encoding in encodings:
            name = f"{container}-{encoding}"
            out = write(tum, name, container, encoding, "color")
            source = f"{driver}:{place.format(out, name)}"
            scale = [] if "32FC1" in encoding else ["--set", "camera.depth_scale=5000"]
            trajectory, log = track(source, *scale)
            check(trajectory == expected[n_frames], f"{name}: another trajectory\n{log}")
            check(INFO_TAKEN in log and "of frame" not in log, f"{name}: camera info\n{log}")
            check(("32FC1 of millimetres" in log) == (encoding == "32FC1-mm"), f"{name}: {log}")
            print(f"{name}: {n_frames} poses, byte for byte")

    for container, place, driver, _, n_frames in LOGS:  # several ids of a topic are one
        if container not in RESTARTED:
            continue
        name = f"restarted-{container}"
        out = write(recording(n_frames), name, container, "16UC1", "restarted")
        trajectory, log = track(f"{driver}:{place.format(out, name)}", "--set",
                                "camera.depth_scale=5000")
        check(trajectory == expected[n_frames], f"{name}: another trajectory\n{log}")
        check("depth topics" not in log and INFO_TAKEN in log, f"{name}: topics\n{log}")
        print(f"{name}: {n_frames} poses, byte for byte")

    for version, driver, suffix in (("255", "ros1bag", "bag"), ("259", "ros2db3", "db3")):
        library = os.environ.get("POSED_RS" + version)
        if not library or not os.path.isdir(library):
            print(f"SKIP: no pyrealsense2 2.{version[1:]} from PyPI (see tools/test)")
            continue
        name = f"realsense.{suffix}"
        out = write(recording(6), name, "realsense", "-",
                    environment={"POSED_REALSENSE": library})
        trajectory, log = track(f"{driver}:{out}")  # units and camera are in the file
        check(trajectory == expected[6], f"{name}: another trajectory\n{log}")
        print(f"{name}: 6 poses, byte for byte")

    check_float_scale(expected[6])
    check_stuck_stamps(expected[6])
    check_cut_db3(expected[6])
    check_logged_db3(expected[6])
    check_damage("bag-lz4", "{0}", "ros1bag")
    check_damage("bag", "{0}", "ros1bag")
    check_damage("mcap", "{0}/{1}.mcap", "mcap")

    tum = recording(4)
    bag = write(tum, "bare", "mcap", "16UC1", "no-info")
    _, log = track(f"mcap:{bag}", "--set", "camera.depth_scale=5000")  # the folder will do
    check("no camera info for /camera/depth/image_rect_raw" in log, log)
    bag = write(tum, "color-only", "mcap", "16UC1", "no-depth", "no-info")
    _, log = track(f"mcap:{bag}/color-only.mcap", code=NO_SOURCE)
    check("/camera/color/image_raw (sensor_msgs/msg/Image, rgb8)" in log, log)
    both = write(tum, "both", "mcap", "16UC1", "color")
    _, log = track(f"mcap:{both}#/camera/color/image_raw", code=NO_SOURCE)
    check("/camera/color/image_raw is not depth" in log and "rgb8" in log, log)
    _, log = track(f"mcap:{both}#/nowhere", code=NO_SOURCE)
    check("no topic /nowhere" in log and "/camera/depth/camera_info" in log, log)


harness.run(scenario)
