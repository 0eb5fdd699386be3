# SPDX-License-Identifier: Apache-2.0
"""A ROS 2 subscriber, by the package `cyclonedds`, to the cameras of a rig. Runs under the
interpreter that has it (POSED_PYTHON_ROS, see tools/test):

    ros_rig_peer.py DOMAIN N-FRAMES FIRST NAME=RIG.txt...

Takes tf, and each camera's odom, depth images and camera info, until each has sent N-FRAMES of
odom; then, as one that comes late, tf_static. The frames are one tree (ros_tree.py), tf and odom of
the first camera are the same, what is of a camera has its frames, and rig/odom is of the first
one's base."""
import os
import sys
import threading
import time

from cyclonedds.core import Policy, Qos
from cyclonedds.domain import DomainParticipant
from cyclonedds.sub import DataReader
from cyclonedds.topic import Topic
from cyclonedds.util import duration

from ros_tree import check_tree, of_message
from ros_types import CameraInfo, DiagnosticArray, Image, Odometry, TFMessage, ns

RELIABLE = Qos(Policy.Reliability.Reliable(duration(seconds=1)), Policy.History.KeepLast(100))
LATCHED = Qos(Policy.Reliability.Reliable(duration(seconds=1)), Policy.History.KeepLast(1),
              Policy.Durability.TransientLocal)
PATIENCE_S = 60


def check_fused(odoms, first, stamps):
    assert {ns(m.header) for m in odoms} <= set(stamps) and odoms
    for message in odoms:
        assert (message.header.frame_id, message.child_frame_id) == \
            ("rig/odom", f"{first}/base_link")
        p = message.pose.pose.position
        assert max(abs(p.x), abs(p.y), abs(p.z)) < 0.02, p
        assert min(message.pose.covariance[::7]) > 0 < min(message.twist.covariance[::7])
    known = [m for m in odoms if max(m.twist.covariance[::7]) < 10]
    assert len(known) > len(odoms) / 2, (len(known), len(odoms))


def main():
    domain, n_frames, first, *others = sys.argv[1:]
    names = [first] + [other.split("=")[0] for other in others]
    participant = DomainParticipant(int(domain))

    def reader_of(name, kind, qos=RELIABLE):
        return DataReader(participant, Topic(participant, "rt/" + name, kind, qos=qos), qos=qos)

    readers = {"tf": reader_of("tf", TFMessage),
               "diagnostics": reader_of("diagnostics", DiagnosticArray),
               ("rig", "odom"): reader_of("rig/odom", Odometry)}
    for name in names:
        topic = name.replace("-", "_")
        readers[name, "odom"] = reader_of(f"{topic}/odom", Odometry)
        readers[name, "depth"] = reader_of(f"posed/{topic}/depth/image_raw", Image)
        readers[name, "info"] = reader_of(f"posed/{topic}/depth/camera_info", CameraInfo)
    got = {key: [] for key in readers}
    print("ready", flush=True)

    def take():
        for key, reader in readers.items():
            if "depth" in key and got[key]:
                continue  # one is enough: the package takes long to take them
            got[key] += [s for s in reader.take(1 if "depth" in key else 100)
                         if s.sample_info.valid_data]

    end = time.monotonic() + PATIENCE_S
    while any(len(got[name, "odom"]) < int(n_frames) for name in [*names, "rig"]):
        assert time.monotonic() < end, {key: len(messages) for key, messages in got.items()}
        take()
        time.sleep(0.01)
    late, statics = reader_of("tf_static", TFMessage, LATCHED), []
    while not statics and time.monotonic() < end:
        statics += [s for s in late.take(100) if s.sample_info.valid_data]
        time.sleep(0.01)
    end = time.monotonic() + 1.5  # a heartbeat's diagnostics; no second tf_static
    while time.monotonic() < end:
        statics += [s for s in late.take(100) if s.sample_info.valid_data]
        take()
        time.sleep(0.01)

    edges = {topic: [[(t.header.frame_id, t.child_frame_id, of_message(t.transform))
                      for t in message.transforms] for message in messages]
             for topic, messages in (("/tf", got["tf"]), ("/tf_static", statics))}
    assert len(statics) == 1, "who comes late to a topic that is kept has the last one"
    children = {m.child_frame_id for name in names for m in got[name, "odom"]}
    n = check_tree(edges, children, first, others)
    stamps = [ns(m.header) for m in got[first, "odom"]]
    of_tf = [ns(t.header) for m in got["tf"] for t in m.transforms
             if t.child_frame_id == f"{first}/base_link"]
    assert of_tf[:int(n_frames)] == stamps[:int(n_frames)]
    for name in names:
        assert got[name, "depth"] and got[name, "info"], name
        frames = {(m.header.frame_id, m.child_frame_id) for m in got[name, "odom"]}
        assert frames == {(f"{name}/odom", f"{name}/base_link")}, frames
        for kind in ("depth", "info"):
            frames = {m.header.frame_id for m in got[name, kind]}
            assert frames == {f"{name}/camera_depth_optical_frame"}, (name, kind, frames)
    # the rig's pose is of the first camera's base, at its stamps, which stands still here
    check_fused(got["rig", "odom"], first, stamps)
    told = {s.name for m in got["diagnostics"] for s in m.status}
    assert told == {f"posed: {name.replace('-', '_')} tracker" for name in names}, told
    print(f"one tree of {n} frames", flush=True)


# The package puts each byte of an image on the stack: 1.2 MB of 32FC1 do not fit the usual 8 MB.
failed = []
threading.excepthook = lambda args: (failed.append(args), threading.__excepthook__(args))
threading.stack_size(256 << 20)
runner = threading.Thread(target=main)
runner.start()
runner.join()
sys.stdout.flush()
os._exit(1 if failed else 0)
