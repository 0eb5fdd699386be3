# SPDX-License-Identifier: Apache-2.0
"""A recording for ROS 2 (`ros2mcap`): two libraries that none of us wrote read every message of it,
depth in metres, times and poses as they were (ros_read.py); and it replays to the same poses, also
where invalid pixels are 65535, which to ROS is a depth. Frames and the camera's place on the base
are those of the settings. Where nobody knows where the camera is, tf is silent.
Of a rig, its frames are one tree (ros_tree.py), /rig/odom has its one pose, and tf goes on with it
where the first camera is covered."""
import glob
import os
import subprocess

import harness
import unknown_way
from harness import check

N_FRAMES = 8
IN_BASE = "0.5 -0.1 0.3 0.1 0.2 -0.4"


def record(source, folder, *options):
    daemon = harness.Daemon(source, "--set", "recorder.folder=" + folder, "--set",
                            "recorder.start=one", "--set", "recorder.format=ros2mcap", "--set",
                            "recorder.queue_frames=300", *options, collect=False)
    daemon.wait()
    return daemon


PLACES = {"left-1": "0.2 0.03 -0.05 0.08 -0.21 0.06 0.97250", "back": "-0.1 0 -0.2 0 1 0 0"}


def check_rig(python):
    text = f"[camera front]\nsource = synth:room,frames={N_FRAMES}\n"
    rigs = {}
    for i, (name, place) in enumerate(PLACES.items()):
        rigs[name] = f"{harness.SCRATCH}/{name}.txt"
        with open(rigs[name], "w") as file:
            file.write(place + "\n")
        text += (f"[camera {name}]\nsource = synth:room,seed={i + 2},frames={N_FRAMES}\n"
                 f"rig = {rigs[name]}\n")
    conf, folder = harness.SCRATCH + "/rig.conf", harness.SCRATCH + "/rig"
    with open(conf, "w") as file:
        file.write(text)
    harness.Daemon(None, "-c", conf, "--set", "recorder.folder=" + folder, "--set",
                   "recorder.start=rig", "--set", "recorder.format=ros2mcap", "--set",
                   "recorder.queue_frames=300", collect=False).wait()
    run = subprocess.run([python, harness.SOURCE + "/tests/scenario/ros_tree.py",
                          folder + "/rig.ros2.mcap", "front",
                          *(f"{name}={rig}" for name, rig in rigs.items())],
                         stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    print(run.stdout[-1500:])
    check(run.returncode == 0 and "one tree of 8 frames" in run.stdout, "the rig is no tree")


COVERED = """
import sys, numpy
from mcap.reader import make_reader
from mcap_ros2.decoder import DecoderFactory
from ros_read import of_message
tf, rig = {}, {}
with open(sys.argv[1], "rb") as file:
    reader = make_reader(file, decoder_factories=[DecoderFactory()])
    for _, channel, raw, message in reader.iter_decoded_messages(log_time_order=False):
        if channel.topic == "/rig/odom":
            p = message.pose.pose.position
            assert (message.header.frame_id, message.child_frame_id) == ("rig/odom",
                                                                         "front/base_link")
            rig[raw.log_time] = numpy.array([p.x, p.y, p.z])
        for t in message.transforms if channel.topic == "/tf" else ():
            if t.child_frame_id == "front/base_link":
                assert raw.log_time not in tf, raw.log_time
                tf[raw.log_time] = of_message(t.transform)[:3, 3]
stamps = sorted(tf)
both = [t for t in stamps if t in rig]
print(len(rig), len(both), max(b - a for a, b in zip(stamps, stamps[1:])) * 1e-9,
      max(numpy.linalg.norm(tf[t] - rig[t]) for t in both))
"""
COVER = range(20, 70)


def check_rig_covered(python):
    """The first camera is covered and looks again: until then tf is where the other one has the
    rig."""
    conf, rig, n = harness.SCRATCH + "/covered.conf", harness.SCRATCH + "/beside.txt", 90
    with open(rig, "w") as file:
        file.write("0.1 0 0 0 0 0 1\n")
    with open(conf, "w") as file:
        file.write(f"[camera front]\nsource = synth:room,frames={n},"
                   f"cover={COVER.start}:{len(COVER)}\n"
                   f"[camera side]\nsource = synth:room,seed=2,frames={n},mount=0.1:0:0:0:0:0\n"
                   f"rig = {rig}\n")
    daemon = harness.Daemon(None, "-c", conf, "--set", "recorder.folder=" + harness.SCRATCH,
                            "--set", "recorder.start=covered", "--set",
                            "recorder.format=ros2mcap", "--set", "recorder.queue_frames=2",
                            collect=False)
    daemon.wait()
    run = subprocess.run([python, "-c", COVERED, harness.SCRATCH + "/covered.ros2.mcap"],
                         stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                         cwd=harness.SOURCE + "/tests/scenario")
    check(run.returncode == 0, run.stdout)
    n_rig, n_both, widest_s, away_m = (float(x) for x in run.stdout.split())
    print(f"covered: {n_rig:g} poses of the rig, {n_both:g} in tf, at most {widest_s:.2f} s apart, "
          f"{away_m * 1e3:.1f} mm away")
    check(n_rig == n, "poses of the rig")
    check(n_both > n - 3 and widest_s < 0.1, "tf stands still while the first camera is covered")
    check(away_m < 0.005, "tf is not where the rig is")


TF = """
import sys
from mcap.reader import make_reader
from mcap_ros2.decoder import DecoderFactory
with open(sys.argv[1], "rb") as file:
    reader = make_reader(file, decoder_factories=[DecoderFactory()])
    for _, channel, raw, message in reader.iter_decoded_messages(log_time_order=False):
        if channel.topic == "/odom":
            print(channel.topic, raw.log_time)
        for t in message.transforms if channel.topic == "/tf" else ():
            print(t.child_frame_id, t.header.stamp.sec * 10**9 + t.header.stamp.nanosec)
"""


def check_unknown(python):
    """tf says nothing of the base while nobody knows where it is; each frame has its odometry."""
    path, poses = unknown_way.record("ros2mcap", ".ros2.mcap")
    run = subprocess.run([python, "-c", TF, path], stdout=subprocess.PIPE,
                         stderr=subprocess.STDOUT, text=True)
    check(run.returncode == 0, run.stdout)
    told = {}
    for line in run.stdout.splitlines():
        name, stamp = line.split()
        told.setdefault(name, []).append(int(stamp))
    stamps = [unknown_way.stamp_ns(p) for p in poses]
    check(told["/odom"] == stamps, f"odom has {len(told['/odom'])}")
    known = [unknown_way.stamp_ns(p) for p in poses if not unknown_way.is_unknown(p)]
    print(f"unknown: {len(told['base_link'])} of {len(stamps)} frames in tf")
    check(told["base_link"] == known, f"{len(told['base_link'])} instead of {len(known)}")


MARK = """
import sys, numpy
from PIL import Image
for path in sys.argv[1:]:
    pixels = numpy.array(Image.open(path)).astype(numpy.uint16)
    pixels[:, :80] = pixels[pixels == 0] = 65535
    Image.fromarray(pixels).save(path)
"""


def mark_invalid(python, tum):
    """As 7-Scenes has it: 65535 where nothing is measured."""
    images = glob.glob(tum + "/depth/*.png")
    check(len(images) == N_FRAMES, f"{images}")
    subprocess.run([python, "-c", MARK, *images], check=True)


def scenario():
    python = os.environ.get("POSED_PYTHON_ROS")
    if not python or not os.access(python, os.X_OK):
        harness.skip("no rosbags from PyPI (POSED_PYTHON_ROS, see tools/test)")
    tum = harness.SCRATCH + "/tum"
    subprocess.run([harness.BINARY + "/bin/posed-synth", "room", tum, "--frames", str(N_FRAMES)],
                   check=True, stdout=subprocess.DEVNULL)
    mark_invalid(python, tum)
    # 5000 units per metre go out as 32FC1; said to be mm, as 16UC1 (a room that is mostly too far)
    for units, options, frames, in_base in (
            (5000, ["--set", "ros.odom_frame=world", "--set", "ros.base_frame=robot", "--set",
                    "ros.map_frame=floor", "--set", "ros.optical_frame=eye", "--set",
                    f"ros.camera_in_base={IN_BASE}"], "floor world robot eye", IN_BASE),
            (1000, ["--set", "camera.depth_scale=1000", "--set", "capture.allow_implausible=true"],
             "map odom base_link camera_depth_optical_frame", "0 0 0 0 0 0")):
        folder = f"{harness.SCRATCH}/recordings{units}"
        daemon = record("tum:" + tum, folder, *options)
        recording = folder + "/one.ros2.mcap"
        script = harness.SOURCE + "/tests/scenario/ros_read.py"
        run = subprocess.run([python, script, recording, tum, daemon.trajectory, str(units), frames,
                              in_base],
                             stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        print(run.stdout[-1500:])
        check(run.returncode == 0, "what the libraries read is something else")
        allowed = ["--set", "capture.allow_implausible=true"] if units == 1000 else []
        again = harness.Daemon("mcap:" + recording, *allowed, collect=False)
        again.wait()
        check(again.trajectory_bytes() == daemon.trajectory_bytes(), "the replay has other poses")
        check(f"{units} depth units" in again.log(), "the replay has other units")
    check_unknown(python)
    check_rig(python)
    check_rig_covered(python)


harness.run(scenario)
