# SPDX-License-Identifier: Apache-2.0
"""What the scenarios share: start the real daemon with sockets of its own, collect what it
publishes, ask it things, compare its trajectory with the truth.

A scenario is a script whose limits stand at its top as constants. It ends with exit code 0, or
prints what was expected and what came, and ends with 1.
"""
import importlib
import json
import math
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time

import zmq

SOURCE = os.environ.get("POSED_SOURCE_DIR") or os.path.abspath(__file__ + "/../../..")
BINARY = os.environ.get("POSED_BINARY_DIR") or SOURCE + "/build/release"
BACKEND = os.environ.get("POSED_TEST_BACKEND", "cpu")  # of the daemons
SCRATCH = tempfile.mkdtemp(prefix="posed-scenario-")

# A sanitizer or a busy machine may make everything this much slower before a scenario gives up.
PATIENCE_S = 240

MAGIC = b"posed\x01"


def _generate_messages():
    folder = SCRATCH + "/messages"
    os.mkdir(folder)
    subprocess.run(
        ["protoc", "-I", SOURCE + "/proto", "--python_out=" + folder, "posed.proto",
         "requests.proto"], check=True)
    sys.path.insert(0, folder)
    return importlib.import_module("posed_pb2"), importlib.import_module("requests_pb2")


messages, requests = _generate_messages()


class Failure(Exception):
    pass


def check(condition, text):
    """Ends the scenario unless the condition holds."""
    if not condition:
        raise Failure(text)


def check_at_most(value, limit, text):
    print(f"{text}: {value:.6g} (limit {limit:g})")
    check(value <= limit, f"{text}: {value:.6g} exceeds {limit:g}")  # false for NaN


def is_sanitized():
    """Whether the daemon carries a sanitizer: it is many times slower, and keeps freed memory for a
    while, so that its size says little."""
    with open(BINARY + "/bin/posed", "rb") as file:
        text = file.read()
    return b"__asan_init" in text or b"__tsan_init" in text


def skip(reason):
    print("SKIP: " + reason)
    sys.exit(77)


class Daemon:
    """The daemon on one source. Collects every pose, status and event it publishes, unless told
    not to, and holds it back until the collector is connected. `source` None: the options say."""

    def __init__(self, source, *options, speed="max", collect=True, environment=None):
        self.folder = tempfile.mkdtemp(dir=SCRATCH)
        self.trajectory = self.folder + "/trajectory.txt"
        self.log_path = self.folder + "/log.txt"
        self.context = zmq.Context()
        self.poses, self.statuses, self.events = [], [], []
        self.collector = None
        if collect:
            self.collector = threading.Thread(target=self._collect, daemon=True)
            self.collector.start()
        command = [
            BINARY + "/bin/posed", *(["--source", source] if source else []), "--speed",
            str(speed), "--backend", BACKEND, "--run-dir", self.folder, "--no-tcp", "--trajectory",
            self.trajectory, "--set", "log.rate_hz=0", "--set", "publish.pub_hwm=100000", "--set",
            "publish.wait_subscriber_s=" + ("30" if collect else "0"), "--set", "http.port=0",
            *options
        ]
        self.log_file = open(self.log_path, "w")
        self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=self.log_file,
                                        stderr=self.log_file,
                                        env={**os.environ, **(environment or {})})
        _daemons.append(self)

    def address(self, name):
        return f"ipc://{self.folder}/{name}"

    def socket(self, kind, name, **options):
        """A client's socket, connected."""
        socket = self.context.socket(kind)
        socket.linger = 0
        for option, value in options.items():
            setattr(socket, option, value)
        socket.connect(self.address(name))
        return socket

    def _collect(self):
        socket = self.socket(zmq.SUB, "pub", rcvhwm=0, reconnect_ivl=10)
        for topic in ("pose", "status", "event"):
            socket.subscribe(topic)
        kinds = {b"pose": (messages.Odometry, self.poses),
                 b"status": (messages.Status, self.statuses),
                 b"event": (messages.Event, self.events)}
        stopping = False
        while True:
            try:
                topic, data = socket.recv_multipart()
            except zmq.ContextTerminated:
                return
            kind, out = kinds[topic]
            message = kind.FromString(data)
            out.append(message)
            if stopping and kind is messages.Status:  # the last message of all
                socket.close()
                return
            stopping = stopping or (kind is messages.Event and
                                    message.kind == messages.Event.STOPPING)

    def wait(self, expected_code=0):
        """Waits for the daemon's own end; returns seconds since the call."""
        start = time.monotonic()
        try:
            code = self.process.wait(PATIENCE_S)
        except subprocess.TimeoutExpired:
            raise Failure(f"the daemon did not end within {PATIENCE_S} s")
        took = time.monotonic() - start
        check(code == expected_code, f"exit code {code}, expected {expected_code}")
        if self.collector:
            self.collector.join(5)
            check(not self.collector.is_alive(), "the daemon's last status never came")
        return took

    def stop(self):
        """Asks it to end and checks that it does so properly."""
        self.process.send_signal(signal.SIGTERM)
        return self.wait()

    def wait_for(self, condition, text, timeout_s=PATIENCE_S):
        end = time.monotonic() + timeout_s
        while not condition():
            check(self.process.poll() is None, f"the daemon ended before: {text}")
            check(time.monotonic() < end, f"not within {timeout_s} s: {text}")
            time.sleep(0.01)

    def request(self, _timeout_s=20, **what):
        """Sends one request, returns the reply: request(ping=requests.Ping(payload=1)); deadline_ms
        may stand beside the kind."""
        socket = self.socket(zmq.DEALER, "req")
        try:
            request = requests.Request(id=int(time.monotonic_ns()), **what)
            socket.send(MAGIC + request.SerializeToString())
            check(socket.poll(int(_timeout_s * 1000)), f"no reply to {list(what)}")
            data = socket.recv()
            check(data.startswith(MAGIC), "the reply lacks its magic")
            reply = requests.Reply.FromString(data[len(MAGIC):])
            check(reply.id == request.id, "the reply has another id")
            return reply
        finally:
            socket.close()

    def step(self, n_frames):
        """Pauses the recording after so many more frames, none of which is late, however slow the
        machine is."""
        reply = self.request(replay=requests.Replay(action=requests.Replay.STEP, frames=n_frames))
        check(reply.code == requests.OK, f"Replay: {reply.message}")
        end = reply.replay.next_seq + n_frames
        self.wait_for(lambda: len(self.poses) >= end, f"{n_frames} steps")

    def resident_bytes(self):
        with open(f"/proc/{self.process.pid}/statm") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")

    def private_bytes(self):
        """Of its memory what it has taken itself: not the pages of files that are mapped."""
        with open(f"/proc/{self.process.pid}/status") as file:
            return next(int(line.split()[1]) << 10 for line in file if line.startswith("RssAnon"))

    def log(self):
        self.log_file.flush()
        with open(self.log_path, errors="replace") as file:
            return file.read()

    def trajectory_bytes(self):
        with open(self.trajectory, "rb") as file:
            return file.read()


_daemons = []


def state_name(pose):
    return messages.State.Name(pose.state)[len("STATE_"):]


def reason_name(pose):
    return messages.Reason.Name(pose.reason)[len("REASON_"):]


def count_states(poses):
    counts = {}
    for pose in poses:
        counts[state_name(pose)] = counts.get(state_name(pose), 0) + 1
    return counts


def check_poses(poses, n_frames):
    """What holds for every recording: one message a frame, in order, and every number sane."""
    check(len(poses) == n_frames, f"{len(poses)} pose messages for {n_frames} frames")
    last = None
    for i, pose in enumerate(poses):
        check(pose.seq == i, f"message {i} has seq {pose.seq}")
        check(pose.session == poses[0].session, f"seq {i}: another session")
        q, p = pose.pose.orientation, pose.pose.position
        q = (q.x, q.y, q.z, q.w)
        norm = sum(c * c for c in q)
        check(abs(norm - 1) < 1e-9, f"seq {i}: quaternion of squared length {norm}")
        check(all(abs(c) < 1e3 for c in (p.x, p.y, p.z)), f"seq {i}: position {p}")
        if last:
            check(sum(a * b for a, b in zip(q, last)) >= 0, f"seq {i}: the quaternion's sign jumps")
        last = q
        covariance = pose.pose_covariance
        check(len(covariance) == 36, f"seq {i}: {len(covariance)} covariance values")
        check(all(abs(c) < float("inf") for c in covariance), f"seq {i}: covariance not finite")
        check(all(covariance[7 * k] >= 0 for k in range(6)), f"seq {i}: negative variance")
        if state_name(pose) == "LOST":
            check(min(covariance[7 * k] for k in range(6)) >= 1e3,
                  f"seq {i}: LOST, small covariance")
        check(state_name(pose) in ("INIT", "TRACKING", "DEGRADED", "LOST"), f"seq {i}: state")
        check(state_name(pose) != "DEGRADED" or pose.reason, f"seq {i}: DEGRADED without a reason")
        check(state_name(pose) != "LOST" or pose.reason, f"seq {i}: LOST without a reason")
    check(not poses or state_name(poses[0]) == "INIT", "the first frame is not INIT")
    print("states:", count_states(poses))


def truth_of(name, n_frames=None):
    """groundtruth.txt of a synthetic recording."""
    folder = tempfile.mkdtemp(dir=SCRATCH)
    frames = ["--frames", str(n_frames)] if n_frames else []
    subprocess.run([BINARY + "/bin/posed-synth", "--poses-only", name, folder, *frames], check=True,
                   stdout=subprocess.DEVNULL)
    return folder + "/groundtruth.txt"


def evaluate(truth, trajectory, delta=30, time_offset="0", options=()):
    """posed-eval's numbers, see its --json."""
    run = subprocess.run(
        [BINARY + "/bin/posed-eval", "--groundtruth", truth, "--trajectory", trajectory, "--json",
         "--delta", str(delta), "--time-offset", time_offset, *options],
        check=True, stdout=subprocess.PIPE)
    return json.loads(run.stdout)


def frame_lines(path):
    """The lines of a TUM file that the daemon wrote, one a frame: a pose, or the comment of one
    that was lost or predicted."""
    with open(path) as file:
        return [line for line in file if not line.startswith("# map epoch")]


def read_trajectory(path):
    """Rows of eight numbers of a TUM file."""
    with open(path) as file:
        return [[float(x) for x in line.split()] for line in file if not line.startswith("#")]


def rotation(quaternion):
    """Rows of the matrix of a quaternion x y z w."""
    x, y, z, w = quaternion
    s = 2 / (x * x + y * y + z * z + w * w)
    return [[1 - s * (y * y + z * z), s * (x * y - z * w), s * (x * z + y * w)],
            [s * (x * y + z * w), 1 - s * (x * x + z * z), s * (y * z - x * w)],
            [s * (x * z - y * w), s * (y * z + x * w), 1 - s * (x * x + y * y)]]


def multiply(a, b):
    return [[sum(a[i][k] * b[k][j] for k in range(3)) for j in range(3)] for i in range(3)]


def angle_deg(a, b):
    """Angle between two unit vectors; exact for small ones."""
    return math.degrees(2 * math.asin(min(1, math.dist(a, b) / 2)))


def distance_m(a, b):
    """Between the positions of two poses."""
    p, q = a.pose.position, b.pose.position
    return math.dist((p.x, p.y, p.z), (q.x, q.y, q.z))


def turn_deg(a, b):
    """Angle of the rotation between two poses."""
    p, q = a.pose.orientation, b.pose.orientation
    p, q = (p.x, p.y, p.z, p.w), (q.x, q.y, q.z, q.w)
    if sum(x * y for x, y in zip(p, q)) < 0:
        q = tuple(-x for x in q)
    return math.degrees(4 * math.asin(min(1, math.dist(p, q) / 2)))


def largest_way_m(poses):
    return max(distance_m(poses[0], pose) for pose in poses)


def largest_turn_deg(poses):
    return max(turn_deg(poses[0], pose) for pose in poses)


def same_pose(a, b):
    return distance_m(a, b) < 1e-12 and turn_deg(a, b) < 1e-6


def run(scenario):
    """Runs a scenario function and turns what happens into an exit code."""
    code = 1
    try:
        scenario()
        code = 0
    except Failure as failure:
        print("FAILED:", failure)
    except SystemExit as end:  # skip()
        code = end.code
    finally:
        for daemon in _daemons:
            if daemon.process.poll() is None:
                daemon.process.kill()
                daemon.process.wait()
            if code not in (0, 77):
                print(f"--- log of {' '.join(daemon.process.args)}")
                print("\n".join(daemon.log().splitlines()[-40:]))
            daemon.log_file.close()
        shutil.rmtree(SCRATCH, ignore_errors=True)
    sys.stdout.flush()
    os._exit(code)  # a collector may still wait for a daemon that was killed
