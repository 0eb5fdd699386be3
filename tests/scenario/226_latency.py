# SPDX-License-Identifier: Apache-2.0
"""Requests do not delay a pose. A recording runs in real time; windows without requests and windows
in which Register and SearchPose follow each other without a pause take turns, so that whatever else
the machine does falls on both alike. The latency of a frame goes from when it was due to its pose
message: decoding, waiting and tracking.

usage: 226_latency.py [ROUNDS [SECONDS]]    pairs of windows, and how long each lasts"""
import math
import os
import statistics
import struct
import subprocess
import sys
import threading
import time

import zmq

import harness
from bumpy import moved, packed, shape
from harness import MAGIC, check, check_at_most, requests
from stair import FOCAL, HEIGHT, WIDTH, depth_image, mesh

ROUNDS, WINDOW_S = 4, 3.0
TRIES = 3  # of a machine that does other things as well
BUSY = 3  # p99 over median without requests: 1.5 on a machine that has nothing else to do
P50_LIMIT, P99_LIMIT = 1.1, 1.25  # times the figure without requests ...
MARGIN_MS = 2.0  # ... and this: a busy machine disturbs more than requests do
N_POINTS = 3000
N_FRAMES = 90
SETTLE_S = 0.3


def work():
    """The requests that take turns, without id."""
    half = math.radians(40) / 2
    source = shape(N_POINTS)
    target = moved(source, (0, 0.6 * math.sin(half), 0.8 * math.sin(half), math.cos(half)),
                   (0.2, 0.1, -0.1))
    sets = {"source": requests.PointSet(points=packed(source)),
            "target": requests.PointSet(points=packed(target))}
    image = requests.DepthImage(
        depth=depth_image((0, 0.2, 0.3, math.sqrt(1 - 0.13)), (0.06, -0.03, 0.7)), width=WIDTH,
        height=HEIGHT, fx=FOCAL, fy=FOCAL, cx=WIDTH / 2, cy=HEIGHT / 2)
    return [{"register_sets": requests.Register(**sets)},
            {"search_pose": requests.SearchPose(image=image)},
            {"register_sets": requests.Register(start=requests.Register.MANY, **sets)},
            {"search_pose": requests.SearchPose()},
            {"register_sets": requests.Register(method=requests.Register.SOFTASSIGN, **sets)}]


class Client(threading.Thread):
    """Keeps two requests under way while `busy`, so that the worker never waits for one."""

    def __init__(self, daemon):
        super().__init__(daemon=True)
        self.socket = daemon.socket(zmq.DEALER, "req")
        self.kinds = work()
        self.busy = threading.Event()
        self.idle = threading.Event()
        self.idle.set()
        self.next_id, self.done, self.codes = 1, {}, set()

    def send(self):
        kind = self.kinds[self.next_id % len(self.kinds)]
        request = requests.Request(id=self.next_id, deadline_ms=100000, **kind)
        self.socket.send(MAGIC + request.SerializeToString())
        self.next_id += 1

    def cancel(self, ids):
        for i in ids:
            cancel = requests.Request(id=10**9, cancel=requests.Cancel(id=i))
            self.socket.send(MAGIC + cancel.SerializeToString())

    def pause(self):
        self.busy.clear()
        check(self.idle.wait(100), "the requests end when they are cancelled")

    def run(self):
        # What the client takes of the processor is not the daemon's.
        os.sched_setscheduler(threading.get_native_id(), os.SCHED_IDLE, os.sched_param(0))
        under_way, cancelled = set(), False
        while True:
            if self.busy.is_set():
                self.idle.clear()
                cancelled = False
                while len(under_way) < 2:
                    under_way.add(self.next_id)
                    self.send()
            elif under_way and not cancelled:
                self.cancel(under_way)
                cancelled = True
            elif not under_way:
                self.idle.set()
                self.busy.wait()
                continue
            if not self.socket.poll(20):
                continue
            reply = requests.Reply.FromString(self.socket.recv()[len(MAGIC):])
            if reply.id not in under_way:  # a Cancel's
                continue
            under_way.discard(reply.id)
            self.codes.add(reply.code)
            if reply.code == requests.OK:
                kind = reply.WhichOneof("what")
                self.done[kind] = self.done.get(kind, 0) + 1


def watch(daemon, client, rounds, window_s):
    """The windows of both kinds, [begin, end) by the monotonic clock."""
    windows = {False: [], True: []}
    for busy in (False, True) * rounds:
        if busy:
            client.busy.set()
        else:
            client.pause()
        time.sleep(SETTLE_S)
        begin = time.monotonic_ns()
        time.sleep(window_s)
        windows[busy].append((begin, time.monotonic_ns()))
    client.pause()
    time.sleep(SETTLE_S)  # the last poses arrive
    return windows


def figures(poses, windows, name):
    """Median and 99th percentile of the latency of all frames that were due in the windows."""
    values = sorted((pose.publish_monotonic_ns - pose.capture_monotonic_ns) * 1e-6 for pose in poses
                    if any(begin <= pose.capture_monotonic_ns < end for begin, end in windows))
    median, p99 = statistics.median(values), values[len(values) * 99 // 100]
    print(f"{name}: {len(values)} frames, latency median {median:.2f} ms, p99 {p99:.2f}, "
          f"most {values[-1]:.2f}")
    return median, p99


def scenario():
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else ROUNDS
    window_s = float(sys.argv[2]) if len(sys.argv) > 2 else WINDOW_S
    recording = harness.SCRATCH + "/recording"
    subprocess.run([harness.BINARY + "/bin/posed-synth", "room-slow", recording, "--frames",
                    str(N_FRAMES)], check=True, stdout=subprocess.DEVNULL)
    daemon = harness.Daemon("tum:" + recording, "--loop", speed=1)
    daemon.wait_for(lambda: len(daemon.poses) > 30, "poses")
    vertices, triangles = mesh()
    added = daemon.request(_timeout_s=200, deadline_ms=190000, add_object=requests.AddObject(
        name="stair", vertices=packed(vertices),
        triangles=b"".join(struct.pack("<3I", *t) for t in triangles)))
    check(added.code == requests.OK, f"{added}")
    client = Client(daemon)
    client.start()
    for _ in range(TRIES):
        windows = watch(daemon, client, rounds, window_s)
        quiet = figures(daemon.poses, windows[False], "without requests")
        busy = figures(daemon.poses, windows[True], "with requests")
        limits = P50_LIMIT * quiet[0] + MARGIN_MS, P99_LIMIT * quiet[1] + MARGIN_MS
        if busy[0] <= limits[0] and busy[1] <= limits[1]:
            break
    print(f"answered: {client.done}; {daemon.poses[-1].dropped_frames} frames dropped")
    daemon.stop()
    harness.check_poses(daemon.poses, len(daemon.poses))
    check(client.codes <= {requests.OK, requests.CANCELLED}, f"codes {client.codes}")
    if quiet[1] > BUSY * quiet[0] + MARGIN_MS and (
            busy[0] > limits[0] or busy[1] > limits[1] or len(client.done) < 2):
        harness.skip(f"other programs delay the poses: p99 {quiet[1]:.1f} ms without any request")
    check(len(client.done) == 2, "both kinds of requests were answered")
    check_at_most(busy[0], limits[0], "median with requests [ms]")
    check_at_most(busy[1], limits[1], "p99 with requests [ms]")


if harness.is_sanitized():
    harness.skip("a sanitizer's build says nothing of latency")
harness.run(scenario)
