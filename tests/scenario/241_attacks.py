# SPDX-License-Identifier: Apache-2.0
"""What an unauthenticated client sends costs the daemon neither memory nor poses: under each
attack (attacks.py) a reader gets a pose for every frame in time, memory stays what it was, requests
and new subscribers are served, and SIGTERM ends the daemon at once.

With arguments it measures: 241_attacks.py SECONDS [NAME...] prints the table for MEASURED.md."""
import signal
import socket
import sys
import time

import zmq

import attacks
import harness
from harness import check, messages, requests

SECONDS = float(sys.argv[1]) if len(sys.argv) > 1 else 1.0
ONLY = sys.argv[2:]
GROWTH_LIMIT_BYTES = 16e6
PAUSE_LIMIT_S = 0.1 if len(sys.argv) > 1 else 0.5  # other tests run beside this one
END_LIMIT_S = 0.5 if len(sys.argv) > 1 else 2
SERVICE_LIMIT_S = 2
PERIOD_S = 1 / 30


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Reader:
    """Reads poses and keeps the longest pause at arrival, and the longest in the daemon's own
    stamps beyond what the camera's rate and the tracking took: both wait for the processor, too."""

    def __init__(self, daemon):
        self.socket = daemon.socket(zmq.SUB, "pub", rcvhwm=0)
        self.socket.subscribe("pose")
        self.last = self.last_sent = self.last_seq = None
        self.clear()

    def clear(self):
        self.pause_s = self.sent_pause_s = 0.0

    def read(self, seconds):
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            if not self.socket.poll(20):
                self.note(time.monotonic(), None)
                continue
            pose = messages.Odometry.FromString(self.socket.recv_multipart()[1])
            check(self.last_seq in (None, pose.seq - 1), f"{self.last_seq}, then {pose.seq}")
            self.last_seq = pose.seq
            self.note(time.monotonic(), pose.publish_monotonic_ns * 1e-9,
                      max(PERIOD_S, pose.stages.track_us * 1e-6))
            self.last = time.monotonic()

    def note(self, now, sent, due_s=0.0):
        if self.last:
            self.pause_s = max(self.pause_s, now - self.last)
        if sent and self.last_sent:
            self.sent_pause_s = max(self.sent_pause_s, sent - self.last_sent - due_s)
        self.last_sent = sent or self.last_sent


def start(ports):
    tcp = [f"--{name}=ipc tcp://127.0.0.1:{port}" for name, port in ports.items()]
    daemon = harness.Daemon("synth:room", "--loop", "--set", "tracker.iterations=1,1,1", *tcp,
                            speed=1, collect=False)
    reader = Reader(daemon)
    check(reader.socket.poll(20000), "no pose\n" + daemon.log())
    reader.read(0.7)
    return daemon, reader


def scenario():
    print(f"{'attack':38} {'memory':>9} {'pause':>8} {'added':>8} {'image':>8} {'ping':>8} "
          f"{'SIGTERM':>8}")
    wrong = []
    for name, function, target, kind in attacks.ALL:
        if ONLY and name not in ONLY:
            continue
        ports = {socket_: free_port() for socket_ in ("pub", "latest", "img", "req")}
        daemon, reader = start(ports)
        before = daemon.private_bytes()
        reader.clear()
        attack = attacks.Attack(function, ports[target], kind)
        try:
            largest = 0
            for _ in range(10):
                reader.read(SECONDS / 10)
                largest = max(largest, daemon.private_bytes() - before)
                check(daemon.process.poll() is None, "the daemon died:\n" + daemon.log())
            pause_s, sent_pause_s = reader.pause_s, reader.sent_pause_s
            began = time.monotonic()
            image = daemon.socket(zmq.SUB, "img")
            image.subscribe("depth")
            image_s = (time.monotonic() - began) if image.poll(40000) else 40.0
            began = time.monotonic()
            try:
                check(daemon.request(ping=requests.Ping()).code == requests.OK, "ping")
                ping_s = time.monotonic() - began
            except harness.Failure:
                ping_s = 20.0
            image.close()
            began = time.monotonic()
            daemon.process.send_signal(signal.SIGTERM)
            daemon.wait(expected_code=0)
            end_s = time.monotonic() - began
        except harness.Failure as failure:
            wrong.append(f"{name}: {failure}")
            print(f"{name:38} {str(failure).splitlines()[0]}", flush=True)
            continue
        finally:
            attack.stop()
            if daemon.process.poll() is None:
                daemon.process.kill()
        print(f"{name:38} {largest * 1e-6:7.1f}MB {pause_s:7.3f}s {sent_pause_s:7.3f}s "
              f"{image_s:7.3f}s {ping_s:7.3f}s {end_s:7.3f}s", flush=True)
        for what, value, limit in (("memory", largest, GROWTH_LIMIT_BYTES),
                                   ("added pause", sent_pause_s, PAUSE_LIMIT_S),
                                   ("image", image_s, SERVICE_LIMIT_S),
                                   ("ping", ping_s, SERVICE_LIMIT_S), ("end", end_s, END_LIMIT_S)):
            if not value <= limit and not (what == "memory" and harness.is_sanitized()):
                wrong.append(f"{name}: {what} {value:g} exceeds {limit:g}")
    check(not wrong, "\n".join(wrong))


harness.run(scenario)
