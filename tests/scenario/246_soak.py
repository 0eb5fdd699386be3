# SPDX-License-Identifier: Apache-2.0
"""Everything at once, for long: poses as fast as they come to a subscriber that must lose none,
with requests, recordings, subscribers that come and go and reloads all the time. No message is
lost; memory and descriptors stay what they were. The camera is a small one, recorded: the rate is
the highest that the daemon around a frame reaches. `246_soak.py MESSAGES` takes as many (3000000:
ten minutes and more); without, 20,000."""
import os
import random
import signal
import sys
import threading
import time

import zmq

import harness
from harness import MAGIC, check, messages, requests
from small_camera import OPTIONS, write_recording

N_MESSAGES = int(sys.argv[1]) if len(sys.argv) > 1 else 20000
SETTLED = min(100000, N_MESSAGES // 2)
# A short run still grows into its pools.
GROWTH_LIMIT_BYTES = 1e6 if N_MESSAGES > 200000 else 24e6


class Others(threading.Thread):
    """Comes, asks, goes, in any order, until told to stop."""

    def __init__(self, daemon):
        super().__init__(daemon=True)
        self.daemon_under_test = daemon
        self.stop = threading.Event()
        self.counts = {}

    def run(self):
        generator = random.Random(7)
        actions = (self.ask, self.subscribe, self.record, self.reload, self.leave_unread)
        while not self.stop.is_set():
            action = generator.choice(actions)
            action()
            self.counts[action.__name__] = self.counts.get(action.__name__, 0) + 1

    def send(self, **what):
        socket = self.daemon_under_test.socket(zmq.DEALER, "req")
        socket.send(MAGIC + requests.Request(id=1, **what).SerializeToString())
        socket.poll(5000)
        socket.close()

    def ask(self):
        self.send(get_status=requests.GetStatus())
        self.send(get_depth=requests.GetDepth())
        self.send(get_trajectory=requests.GetTrajectory(limit=100))

    def subscribe(self):
        socket = self.daemon_under_test.socket(zmq.SUB, "img")
        socket.subscribe("depth")
        socket.poll(200)
        socket.close()

    def record(self):
        name = f"r{time.monotonic_ns()}"
        self.send(start_recording=requests.StartRecording(name=name, format="klg"))
        self.send(stop_recording=requests.StopRecording())

    def reload(self):
        self.daemon_under_test.process.send_signal(signal.SIGHUP)
        time.sleep(0.05)

    def leave_unread(self):
        socket = self.daemon_under_test.socket(zmq.DEALER, "req")
        for _ in range(20):
            socket.send(MAGIC + requests.Request(id=1, get_depth=requests.GetDepth())
                        .SerializeToString())
        socket.close()


def descriptors(daemon):
    return len(os.listdir(f"/proc/{daemon.process.pid}/fd"))


def scenario():
    folder = harness.SCRATCH + "/small"
    write_recording(folder)
    daemon = harness.Daemon("tum:" + folder, *OPTIONS, "--loop", "--set",
                            "recorder.folder=" + harness.SCRATCH + "/recordings", "--set",
                            "recorder.keep_bytes=20000000", "--set",
                            "publish.wait_subscriber_s=30", collect=False)
    reader = daemon.socket(zmq.SUB, "pub", rcvhwm=1000)  # then the daemon waits
    reader.subscribe("pose")
    reader.subscribe("tf")
    others = Others(daemon)
    n, last, began = 0, None, time.monotonic()
    while n < N_MESSAGES:
        if not reader.poll(60000):  # the log is read only then: it is long
            check(False, f"nothing for a minute after {n} messages\n{daemon.log()[-900:]}")
        topic, data = reader.recv_multipart()
        n += 1
        if topic == b"pose":
            seq = messages.Odometry.FromString(data).seq
            check(last is None or seq == last + 1, f"{last}, then {seq}")
            last = seq
        if n == 100:
            others.start()
            descriptors_before = descriptors(daemon)
        if n % 250000 == 0:
            print(f"{n} messages, none lost, {time.monotonic() - began:.0f} s", flush=True)
        if n == SETTLED:
            before = daemon.private_bytes()
    # As `before`: with a reader that reads. One that stops gets a queue, which is bounded.
    growth = daemon.private_bytes() - before
    rate = n / (time.monotonic() - began)
    others.stop.set()
    others.join(60)
    time.sleep(0.5)
    print(f"{n} messages, {rate:.0f} a second, none lost; beside them {others.counts}")
    print(f"{growth / 1e6:.2f} MB more than at {SETTLED}")
    if not harness.is_sanitized():
        harness.check_at_most(growth, GROWTH_LIMIT_BYTES, "growth [bytes]")
    harness.check_at_most(descriptors(daemon) - descriptors_before, 4, "descriptors more")
    check(N_MESSAGES < 10000 or len(others.counts) == 5, f"all of them happened: {others.counts}")
    daemon.stop()


harness.run(scenario)
