# SPDX-License-Identifier: Apache-2.0
"""Subscribers that connect and never read, on poses and on images: nobody else notices, and memory
stays what it was. The replay is paced, at a rate that this machine may or may not keep: each frame
has its message either way."""
import time

import zmq

import harness
from harness import check, check_at_most

N_FRAMES = 1000
SPEED = 4
HWM = 200  # reached by the stalled ones within two seconds
GROWTH_LIMIT_BYTES = 30e6
RESIDENT_LIMIT_BYTES = {"cpu": 150e6, "cuda": 250e6}  # CUDA's runtime and driver take 95 MB
PAUSE_LIMIT_S = 0.5  # longest pause between two poses at the subscriber that reads


def scenario():
    daemon = harness.Daemon("synth:room-still", "--frames", str(N_FRAMES), "--set",
                            f"publish.pub_hwm={HWM}", "--set", "publish.wait_subscriber_s=30",
                            speed=SPEED, collect=False)
    stalled = []
    for name, topic in (("pub", ""), ("pub", "tf"), ("img", "depth"), ("img", "normals")):
        socket = daemon.socket(zmq.SUB, name, rcvhwm=1)
        socket.subscribe(topic)
        stalled.append(socket)
    time.sleep(0.5)  # they are connected before the frames start
    reader = daemon.socket(zmq.SUB, "pub", rcvhwm=0)
    reader.subscribe("pose")
    poses, pause_s, before_bytes, last = [], 0.0, None, None
    while not poses or poses[-1].seq < N_FRAMES - 1:
        check(reader.poll(20000), f"no pose for 20 s after {len(poses)}")
        poses.append(harness.messages.Odometry.FromString(reader.recv_multipart()[1]))
        now = time.monotonic()
        if last is not None:
            pause_s = max(pause_s, now - last)
        last = now
        if len(poses) == N_FRAMES // 5:
            before_bytes = daemon.resident_bytes()
        if len(poses) == N_FRAMES - N_FRAMES // 10:
            after_bytes = daemon.resident_bytes()
    seqs = [pose.seq for pose in poses]
    check(seqs == list(range(seqs[0], N_FRAMES)), "the reader lost messages")
    check_at_most(pause_s, PAUSE_LIMIT_S, "longest pause between poses [s]")
    if not harness.is_sanitized():
        check_at_most(after_bytes - before_bytes, GROWTH_LIMIT_BYTES, "growth of memory [bytes]")
        check_at_most(after_bytes, RESIDENT_LIMIT_BYTES[harness.BACKEND],
                      "resident memory [bytes]")
    daemon.wait()


harness.run(scenario)
