# SPDX-License-Identifier: Apache-2.0
"""A ROS 2 camera that is covered and carried elsewhere, and a subscriber, by the package
`cyclonedds`; for the interpreter that has it:

    ros_lost_peer.py DOMAIN OUT.json

Publishes small depth images at 30 Hz on /camera/depth/image_rect_raw: N_PLACE of one place, N_DARK
without depth, then those of another place until its input ends; with a noise of a millimetre, as
of a bit the same image nothing is measured. Writes what came of odom (stamp, pose's and twist's
covariance), of tf (stamps of base_link in odom, and of odom in map) and of diagnostics."""
import json
import sys
import threading
import time

import numpy
from cyclonedds.core import Policy, Qos
from cyclonedds.domain import DomainParticipant
from cyclonedds.pub import DataWriter
from cyclonedds.sub import DataReader
from cyclonedds.topic import Topic
from cyclonedds.util import duration

import ros_types
from ros_types import (CameraInfo, DiagnosticArray, Header, Image, Odometry, RegionOfInterest,
                       TFMessage, ns)

WIDTH, HEIGHT, FX = 96, 64, 80.0
N_PLACE, N_DARK = 60, 15
RELIABLE = Qos(Policy.Reliability.Reliable(duration(seconds=1)), Policy.History.KeepLast(100))


def places():
    """Two that hold all directions, and have nothing in common."""
    x, y = numpy.meshgrid(numpy.arange(WIDTH), numpy.arange(HEIGHT))
    here = 1500 + 150 * numpy.sin(x / 9) + 120 * numpy.sin(y / 7)
    there = 3000 + 300 * numpy.sin(x / 5 + 1) * numpy.sin(y / 6)
    return here, there


def take(readers, got):
    for sample in readers["odom"].take(100):
        if sample.sample_info.valid_data:
            got["odom"].append([ns(sample.header), list(sample.pose.covariance),
                                list(sample.twist.covariance)])
    for sample in readers["tf"].take(100):
        for t in sample.transforms if sample.sample_info.valid_data else []:
            got["base" if t.child_frame_id == "base_link" else "map"].append(ns(t.header))
    for sample in readers["diagnostics"].take(100):
        for status in sample.status if sample.sample_info.valid_data else []:
            got["diagnostics"].append([ord(status.level) if isinstance(status.level, bytes) else
                                       status.level, status.message,
                                       {v.key: v.value for v in status.values}])


def main():
    domain, out = sys.argv[1:]
    participant = DomainParticipant(int(domain))

    def topic(name, kind):
        return Topic(participant, "rt/" + name, kind, qos=RELIABLE)

    readers = {name: DataReader(participant, topic(name, kind), qos=RELIABLE) for name, kind in
               (("odom", Odometry), ("tf", TFMessage), ("diagnostics", DiagnosticArray))}
    writer = DataWriter(participant, topic("camera/depth/image_rect_raw", Image), qos=RELIABLE)
    info = DataWriter(participant, topic("camera/depth/camera_info", CameraInfo), qos=RELIABLE)
    ended = threading.Event()
    threading.Thread(target=lambda: (sys.stdin.read(), ended.set()), daemon=True).start()
    print("ready", flush=True)
    while not writer.get_matched_subscriptions():
        time.sleep(0.02)
    time.sleep(0.3)
    here, there = places()
    noise = numpy.random.default_rng(1)
    got = {"odom": [], "base": [], "map": [], "diagnostics": []}
    i = 0
    while not ended.is_set():
        depth = here if i < N_PLACE else there
        depth = (depth + noise.integers(-1, 2, depth.shape)).astype("<u2")
        if N_PLACE <= i < N_PLACE + N_DARK:
            depth[:] = 0
        header = Header(stamp=ros_types.stamp(time.time_ns()), frame_id="camera")
        info.write(CameraInfo(
            header=header, height=HEIGHT, width=WIDTH, distortion_model="plumb_bob", d=[0.0] * 5,
            k=[FX, 0.0, 47.5, 0.0, FX, 31.5, 0.0, 0.0, 1.0],
            r=[1.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 1.0],
            p=[FX, 0.0, 47.5, 0.0, 0.0, FX, 31.5, 0.0, 0.0, 0.0, 1.0, 0.0], binning_x=0,
            binning_y=0, roi=RegionOfInterest(x_offset=0, y_offset=0, height=0, width=0,
                                              do_rectify=False)))
        writer.write(Image(header=header, height=HEIGHT, width=WIDTH, encoding="16UC1",
                           is_bigendian=0, step=2 * WIDTH, data=list(depth.tobytes())))
        i += 1
        take(readers, got)
        time.sleep(1 / 30)
    time.sleep(1)
    take(readers, got)
    with open(out, "w") as file:
        json.dump(got, file)


main()
