# SPDX-License-Identifier: Apache-2.0
"""A ROS 2 camera and a ROS 2 subscriber, as DDS sees them, by the package `cyclonedds`, which none
of us wrote. Runs under the interpreter that has it (POSED_PYTHON_ROS, see tools/test):

    ros_peer.py DOMAIN TUM-FOLDER ENCODING RATE-HZ N-FRAMES OUT.json

Publishes the frames (again and again, N-FRAMES in all; with their own stamps, then later ones) and
a camera info with each, once somebody reads them; collects odom, tf, tf_static, diagnostics, and
posed/depth. Writes what came, with the way of each frame: image handed to DDS -> odometry taken."""
import json
import os
import sys
import threading
import time

import numpy
from cyclonedds.core import (InstanceState, Policy, Qos, ReadCondition, SampleState, ViewState,
                             WaitSet)
from cyclonedds.domain import DomainParticipant
from cyclonedds.pub import DataWriter
from cyclonedds.sub import DataReader
from cyclonedds.topic import Topic
from cyclonedds.util import duration

from ros_frames import camera, encode, frames
from ros_types import (CameraInfo, CompressedImage, DiagnosticArray, Header, Image, Odometry,
                       RegionOfInterest, TFMessage, ns, stamp)


RELIABLE = Qos(Policy.Reliability.Reliable(duration(seconds=1)), Policy.History.KeepLast(100))
LATCHED = Qos(Policy.Reliability.Reliable(duration(seconds=1)), Policy.History.KeepLast(1),
              Policy.Durability.TransientLocal)
FRAME = "camera_depth_optical_frame"
BASE_NS = 1700000000 * 10**9  # of the stamps


class Collector:
    """Takes every sample on a thread of its own, with the time when it came."""

    def __init__(self, participant, name, kind, qos):
        self.samples = []
        self.reader = DataReader(participant, Topic(participant, "rt/" + name, kind, qos=qos),
                                 qos=qos)
        self.waitset = WaitSet(participant)
        self.condition = ReadCondition(self.reader, ViewState.Any | InstanceState.Any |
                                       SampleState.NotRead)
        self.waitset.attach(self.condition)
        threading.Thread(target=self.collect, daemon=True).start()

    def collect(self):
        while True:
            self.waitset.wait(duration(seconds=1))
            now = time.monotonic_ns()
            self.samples += [(now, s) for s in self.reader.take(100) if
                             s.sample_info.valid_data]


def camera_info(folder, header, shape):
    fx, fy, cx, cy = camera(folder)
    return CameraInfo(header=header, height=shape[0], width=shape[1], distortion_model="plumb_bob",
                      d=[0.0] * 5, k=[fx, 0.0, cx, 0.0, fy, cy, 0.0, 0.0, 1.0],
                      r=[1.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 1.0],
                      p=[fx, 0.0, cx, 0.0, 0.0, fy, cy, 0.0, 0.0, 0.0, 1.0, 0.0],
                      binning_x=0, binning_y=0,
                      roi=RegionOfInterest(x_offset=0, y_offset=0, height=0, width=0,
                                           do_rectify=False))


def read_images(folder, encoding, n_most):
    images = []
    for time_ns, pixels in frames(folder):
        if encoding.startswith("16UC1"):
            pixels[:, :80] = 65535  # no measurement, as 7-Scenes has it
        images.append((time_ns, pixels.shape, encode(pixels, encoding)))
        if len(images) == n_most:
            break
    return images


class Camera:
    """Its image and its camera info, once somebody reads them. `compressed`: the format or None."""

    def __init__(self, participant, folder, compressed):
        transport = "/compressedDepth" if compressed and "compressedDepth" in compressed else \
            "/compressed" if compressed else ""
        name = "camera/depth/image_rect_raw" + transport
        kind = CompressedImage if compressed else Image
        self.folder, self.compressed = folder, compressed
        self.writer = DataWriter(participant, Topic(participant, "rt/" + name, kind, qos=RELIABLE),
                                 qos=RELIABLE)
        self.info = DataWriter(participant, Topic(participant, "rt/camera/depth/camera_info",
                                                  CameraInfo, qos=RELIABLE), qos=RELIABLE)

    def wait_for_reader(self, end):
        while not self.writer.get_matched_subscriptions() and time.monotonic() < end:
            time.sleep(0.01)
        time.sleep(0.3)

    def write(self, time_ns, shape, packed):
        """Returns when the image was handed to DDS."""
        header = Header(stamp=stamp(time_ns), frame_id=FRAME)
        if self.compressed:
            message = CompressedImage(header=header, format=packed[0], data=packed[1])
        else:
            message = Image(header=header, height=shape[0], width=shape[1], encoding=packed[0],
                            is_bigendian=packed[1], step=packed[2], data=packed[3])
        self.info.write(camera_info(self.folder, header, shape))
        now = time.monotonic_ns()
        self.writer.write(message)
        return now


def send_frames(source, images, n_frames, period_s, odom, end):
    """Returns when each was handed to DDS, by its stamp. The first is sent until the daemon
    publishes poses: it opens on it."""
    span_ns = images[-1][0] - images[0][0] + 33333333
    sent, next_s = {}, time.monotonic()
    first = BASE_NS - 10**9
    i = -1
    while i < n_frames:
        k = max(i, 0)
        time_ns, shape, packed = images[k % len(images)]
        time_ns = first if i < 0 else time_ns + BASE_NS + k // len(images) * span_ns
        wait_s = next_s - time.monotonic()
        if wait_s > 0:
            time.sleep(wait_s)
        sent[time_ns] = source.write(time_ns, shape, packed)
        next_s = max(next_s + period_s, time.monotonic())
        if i >= 0:
            i += 1
        elif odom.samples:
            i = 0
        else:
            first += 10**6
            if time.monotonic() > end:
                break
    return sent


def vector(v):
    return [v.x, v.y, v.z]


def quaternion(q):
    return [q.x, q.y, q.z, q.w]


def transforms(collector):
    return [[ns(t.header), t.header.frame_id, t.child_frame_id,
             vector(t.transform.translation), quaternion(t.transform.rotation)]
            for _, s in collector.samples for t in s.transforms]


def main():
    domain, folder, encoding, rate_hz, n_frames, out = sys.argv[1:]
    n_frames, period_s = int(n_frames), 1 / float(rate_hz)
    participant = DomainParticipant(int(domain))
    odom = Collector(participant, "odom", Odometry, RELIABLE)
    tf = Collector(participant, "tf", TFMessage, RELIABLE)
    tf_static = Collector(participant, "tf_static", TFMessage, LATCHED)
    diagnostics = Collector(participant, "diagnostics", DiagnosticArray, RELIABLE)
    depth = Collector(participant, "posed/depth/image_raw", Image, RELIABLE)
    info = Collector(participant, "posed/depth/camera_info", CameraInfo, RELIABLE)

    images = read_images(folder, encoding, n_frames)
    packed = images[0][2]
    source = Camera(participant, folder, packed[0] if len(packed) == 2 else None)
    print("ready", flush=True)
    end = time.monotonic() + 60
    source.wait_for_reader(end)
    sent = send_frames(source, images, n_frames, period_s, odom, end)
    time.sleep(2.5)  # it says, too, that none comes any more
    way_ms = [(at - sent[ns(s.header)]) * 1e-6 for at, s in odom.samples if ns(s.header) in sent]
    with open(out, "w") as file:
        json.dump({
            "sent": sorted(t for t in sent if t >= BASE_NS), "way_ms": way_ms,
            "odom": [[ns(s.header), s.header.frame_id, s.child_frame_id,
                      vector(s.pose.pose.position), quaternion(s.pose.pose.orientation),
                      list(s.pose.covariance), list(s.twist.covariance)] for _, s in odom.samples],
            "tf": transforms(tf), "tf_static": transforms(tf_static),
            "diagnostics": [[d.level, d.name, d.message, {v.key: v.value for v in d.values}]
                            for _, s in diagnostics.samples for d in s.status],
            "depth": [[ns(s.header), s.header.frame_id, s.encoding, s.height, s.width, s.step,
                       [float(x) for x in numpy.frombuffer(
                           bytes(s.data), "<f4" if s.encoding == "32FC1" else "<u2")[::9973]]]
                      for _, s in depth.samples],
            "info": [[ns(s.header), s.height, s.width, list(s.k)] for _, s in info.samples],
        }, file)


# The package puts each byte of an image on the stack: 1.2 MB of 32FC1 do not fit the usual 8 MB.
threading.stack_size(256 << 20)
runner = threading.Thread(target=main)
runner.start()
runner.join()
sys.stdout.flush()
os._exit(0)  # its collectors wait for ever
