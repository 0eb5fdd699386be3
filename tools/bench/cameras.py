#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The latency of poses with many cameras on one device: tools/bench/cameras.py [--cameras N] ...

From when a frame was there to its message, of all cameras of one daemon that plays as many
recordings in real time (raw Kinect frames, written first: nothing is decoded or rendered beside
what is timed). All cameras begin at once and stay in step, which is the worst case: each frame
finds the device taken by those of the others.

Prints percentiles of all poses, by camera at worst, by the order in which the poses of a burst
came, where the slowest hundredth passes its time, and how much of the processors' time the host of
a virtual machine took for itself meanwhile: with more than some per cent of what the daemon used,
the last per cent of the poses shows the host, not the daemon. Needs Python and a build (in
POSED_BINARY_DIR, else build/release); no ZeroMQ, protobuf or network. Exit code: 0 when the 99th
percentile is at most --limit, 1 when it is more."""
import argparse
import collections
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time

import pose_stream

SOURCE = os.path.abspath(os.path.join(os.path.dirname(os.path.abspath(__file__)), "../.."))
BINARY = os.environ.get("POSED_BINARY_DIR") or SOURCE + "/build/release"
N_FRAMES, PERIOD_S, WARM_S, PATIENCE_S = 600, 1 / 30, 3, 120
TRACKING = 2


def record(folder):
    """A scene as raw Kinect frames."""
    subprocess.run([BINARY + "/bin/posed", "--source", f"synth:room,frames={N_FRAMES}", "--speed",
                    "max", "--backend", "cpu", "--run-dir", folder, "--no-tcp", "--set",
                    "http.port=0", "--set", "log.rate_hz=0", "--set", "tracker.iterations=1,1,1",
                    "--set", f"recorder.folder={folder}", "--set", "recorder.format=fakenect",
                    "--set", "recorder.start=room", "--set", "map.keyframes=0"], check=True,
                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    return f"fakenect:{folder}/room"


class Pose:
    def __init__(self, camera, fields):
        stages = pose_stream.fields_of(fields[pose_stream.STAGES])
        self.camera = camera
        self.captured_ns = fields[pose_stream.CAPTURE_NS]
        self.tracks = fields.get(pose_stream.STATE, 0) == TRACKING
        self.latency_ms = pose_stream.latency_ns(fields) * 1e-6
        self.track_ms = stages.get(pose_stream.TRACK_US, 0) * 1e-3
        self.added_ms = stages.get(pose_stream.ADDED_US, 0) * 1e-3
        self.until_read_ms = self.latency_ms - self.track_ms - self.added_ms


def percentile(values, share):
    values = sorted(values)
    return values[int((len(values) - 1) * share)]


def processor_s():
    """Of all processors together since the start: used, and wanted but taken by the host."""
    with open("/proc/stat", encoding="ascii") as file:
        user, nice, system, _, _, irq, softirq, steal = map(int, file.readline().split()[1:9])
    tick_hz = os.sysconf("SC_CLK_TCK")
    return (user + nice + system + irq + softirq) / tick_hz, steal / tick_hz


def measure(options, folder):
    """The 99th percentile of all cameras together [ms]."""
    source = options.source or record(folder)
    path = folder + "/posed.conf"
    with open(path, "w", encoding="utf-8") as file:
        for i in range(options.cameras):
            file.write(f"[camera c{i:02}]\nsource = {source}\n")
    log = open(folder + "/log", "w+", encoding="utf-8")
    settings = [word for setting in options.set for word in ("--set", setting)]
    daemon = subprocess.Popen(
        [BINARY + "/bin/posed", "-c", path, "--speed", "real", "--backend", options.backend,
         "--run-dir", folder, "--no-tcp", "--set", "http.port=0", "--set", "log.rate_hz=0",
         *settings], stdin=subprocess.DEVNULL, stdout=log, stderr=log)
    connection, end = socket.socket(socket.AF_UNIX), time.monotonic() + PATIENCE_S
    while connection.connect_ex(folder + "/pub") != 0:
        if time.monotonic() > end or daemon.poll() is not None:
            log.seek(0)
            sys.exit(log.read() + "the daemon does not listen")
        time.sleep(0.05)
    poses = []
    threading.Thread(target=pose_stream.read, daemon=True, args=(
        connection, lambda topic, fields: poses.append(Pose(topic, fields)))).start()
    while len(poses) < options.cameras:
        if daemon.poll() is not None:
            sys.exit("the daemon has ended")
        time.sleep(0.05)
    time.sleep(WARM_S)
    first, before_s = len(poses), processor_s()
    time.sleep(options.seconds)
    timed = poses[first:]
    used_s, taken_s = (after - before for after, before in zip(processor_s(), before_s))
    daemon.send_signal(signal.SIGTERM)
    daemon.wait(PATIENCE_S)
    print(f"processors: {used_s:.1f} s used, {taken_s:.1f} s taken by the host "
          f"({100 * taken_s / max(used_s, 0.01):.1f} %)")
    return report(timed, options)


def report(poses, options):
    all_ms = [pose.latency_ms for pose in poses]
    cameras = collections.defaultdict(list)
    for pose in poses:
        cameras[pose.camera].append(pose.latency_ms)
    print(f"{len(cameras)} cameras, {len(poses) / options.seconds:.0f} poses a second, "
          f"{sum(pose.tracks for pose in poses)} of {len(poses)} TRACKING")
    print("all: " + ", ".join(f"{name} {percentile(all_ms, share):.3f}" for name, share in (
        ("median", .5), ("p90", .9), ("p99", .99), ("p99.9", .999), ("most", 1))) + " ms")
    print(f"p99 of the worst camera {max(percentile(v, .99) for v in cameras.values()):.3f} ms, "
          f"of the best {min(percentile(v, .99) for v in cameras.values()):.3f} ms")
    # A burst: captures within half a period of its first.
    by_place = collections.defaultdict(list)
    begun_ns, place = 0, 0
    for pose in sorted(poses, key=lambda pose: pose.captured_ns):
        if pose.captured_ns - begun_ns > PERIOD_S * 0.5e9:
            begun_ns, place = pose.captured_ns, 0
        by_place[place].append(pose.latency_ms)
        place += 1
    print("median and p99 by place in a burst [ms]: " + ", ".join(
        f"{percentile(values, .5):.2f}/{percentile(values, .99):.2f}"
        for _, values in sorted(by_place.items())))
    slowest = sorted(poses, key=lambda pose: pose.latency_ms)[-max(len(poses) // 100, 1):]
    print("mean of the slowest hundredth, of all [ms]: " + ", ".join(
        f"{name} {sum(map(value, slowest)) / len(slowest):.2f}, "
        f"{sum(map(value, poses)) / len(poses):.2f}" for name, value in (
            ("until the frame is read", lambda pose: pose.until_read_ms),
            ("tracking", lambda pose: pose.track_ms), ("added", lambda pose: pose.added_ms))))
    return percentile(all_ms, .99)


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cameras", type=int, default=16)
    parser.add_argument("--seconds", type=float, default=12)
    parser.add_argument("--backend", default="cuda")
    parser.add_argument("--source", help="of every camera; default: a recording made first")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE")
    parser.add_argument("--limit", type=float, default=1.0, help="of the p99 (default 1 ms)")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        sys.exit(measure(options, folder) > options.limit)


main()
