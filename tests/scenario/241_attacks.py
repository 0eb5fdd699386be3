# SPDX-License-Identifier: Apache-2.0
"""What an unauthenticated client sends costs the daemon neither memory nor poses: under each
attack (attacks.py) a reader gets a pose for every frame in time, memory stays what it was, requests
and new subscribers are served, and SIGTERM ends the daemon at once.

A pause has two parts: the machine's (the daemon's threads were ready and got no processor, which
the kernel counts) and ours, what is left of it beyond the camera's rate and the tracking. Both
are held to limits; the first to a wider one where other tests run beside this one.

With arguments it measures: 241_attacks.py SECONDS [NAME...] prints the table for MEASURED.md."""
import os
import signal
import sys
import time

import zmq

import attacks
import harness
from harness import check, messages, requests

SECONDS = float(sys.argv[1]) if len(sys.argv) > 1 else 1.0
ONLY = sys.argv[2:]
GROWTH_LIMIT_BYTES = 16e6
PAUSE_LIMIT_S = 0.1  # ours; as it was, too, where it is measured alone
END_LIMIT_S = 0.5
MACHINE_FACTOR = 1 if len(sys.argv) > 1 else 5  # other tests run beside this one
SERVICE_LIMIT_S = 2
PERIOD_S = 1 / 30


def waits(pid, names):
    """Seconds that the frame loop and threads of these names were ready and did not run, each."""
    out = {}
    for task in os.listdir(f"/proc/{pid}/task"):
        folder = f"/proc/{pid}/task/{task}"
        try:
            with open(folder + "/comm") as file:
                if int(task) != pid and file.read().strip() not in names:
                    continue
            with open(folder + "/schedstat") as file:
                out[task] = int(file.read().split()[1]) * 1e-9
        except (FileNotFoundError, ProcessLookupError):
            pass
    return out


def end(daemon):
    """Seconds from SIGTERM to the exit: as they were, and without what the threads that the end
    waits for, one after the other, waited for a processor."""
    pid, names = daemon.process.pid, ("posed-frames", "posed-publish", "posed-requests")
    before = waits(pid, names)
    last, began = dict(before), time.monotonic()
    daemon.process.send_signal(signal.SIGTERM)
    while daemon.process.poll() is None and time.monotonic() < began + 20:
        try:
            last.update(waits(pid, names))
        except FileNotFoundError:
            break
        time.sleep(0.005)
    daemon.wait(expected_code=0)
    took_s = time.monotonic() - began
    return took_s, took_s - sum(last[task] - before.get(task, 0) for task in last)


class Reader:
    """Reads poses and keeps the longest pause at arrival, and in the daemon's own stamps the
    longest beyond what the camera's rate and the tracking took: once as it was, once without the
    time that the frame loop and the source's thread waited for a processor."""

    def __init__(self, daemon):
        self.daemon = daemon
        self.socket = daemon.socket(zmq.SUB, "pub", rcvhwm=0)
        self.socket.subscribe("pose")
        self.last = self.last_sent = self.last_seq = None
        self.last_waited = 0.0
        self.clear()

    def clear(self):
        self.pause_s = self.added_s = self.own_s = 0.0

    def waited(self):
        return sum(waits(self.daemon.process.pid, ("posed-frames",)).values())

    def read(self, seconds):
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            if not self.socket.poll(20):
                self.pause_s = max(self.pause_s, time.monotonic() - self.last if self.last else 0)
                continue
            pose = messages.Odometry.FromString(self.socket.recv_multipart()[1])
            check(self.last_seq in (None, pose.seq - 1), f"{self.last_seq}, then {pose.seq}")
            self.last_seq = pose.seq
            self.note(pose.publish_monotonic_ns * 1e-9, pose.stages.track_us * 1e-6)
            self.last = time.monotonic()

    def note(self, sent, track_s):
        waited = self.waited()
        if self.last:
            self.pause_s = max(self.pause_s, time.monotonic() - self.last)
            added = sent - self.last_sent - max(PERIOD_S, track_s)
            self.added_s = max(self.added_s, added)
            self.own_s = max(self.own_s, added - (waited - self.last_waited))
        self.last_sent, self.last_waited = sent, waited


def start(ports):
    tcp = [f"--{name}=ipc tcp://127.0.0.1:{port}" for name, port in ports.items()]
    daemon = harness.Daemon("synth:room", "--loop", "--set", "tracker.iterations=1,1,1", *tcp,
                            speed=1, collect=False)
    reader = Reader(daemon)
    check(reader.socket.poll(20000), "no pose\n" + daemon.log())
    reader.read(0.7)
    return daemon, reader


def scenario():
    print(f"{'attack':36} {'memory':>8} {'pause':>7} {'added':>7} {'ours':>7} {'image':>7} "
          f"{'ping':>7} {'SIGTERM':>8} {'ours':>7}")
    wrong = []
    for name, function, target, kind in attacks.ALL:
        if ONLY and name not in ONLY:
            continue
        ports = {socket_: attacks.free_port() for socket_ in ("pub", "latest", "img", "req")}
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
            pause_s, added_s, own_s = reader.pause_s, reader.added_s, reader.own_s
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
            end_s, own_end_s = end(daemon)
        except harness.Failure as failure:
            wrong.append(f"{name}: {failure}")
            print(f"{name:36} {str(failure).splitlines()[0]}", flush=True)
            continue
        finally:
            attack.stop()
            if daemon.process.poll() is None:
                daemon.process.kill()
        print(f"{name:36} {largest * 1e-6:6.1f}MB {pause_s:6.3f}s {added_s:6.3f}s {own_s:6.3f}s "
              f"{image_s:6.3f}s {ping_s:6.3f}s {end_s:7.3f}s "
              f"{own_end_s:6.3f}s", flush=True)
        for what, value, limit in (("memory", largest, GROWTH_LIMIT_BYTES),
                                   ("added pause", added_s, PAUSE_LIMIT_S * MACHINE_FACTOR),
                                   ("own pause", own_s, PAUSE_LIMIT_S),
                                   ("image", image_s, SERVICE_LIMIT_S),
                                   ("ping", ping_s, SERVICE_LIMIT_S),
                                   ("end", end_s, END_LIMIT_S * MACHINE_FACTOR),
                                   ("own end", own_end_s, END_LIMIT_S)):
            if not value <= limit and not (what == "memory" and harness.is_sanitized()):
                wrong.append(f"{name}: {what} {value:g} exceeds {limit:g}")
    check(not wrong, "\n".join(wrong))


harness.run(scenario)
