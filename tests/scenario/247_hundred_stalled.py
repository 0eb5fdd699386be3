# SPDX-License-Identifier: Apache-2.0
"""A hundred subscribers of all images that connect and never read: what waits for them is shared
and bounded, so memory stays within 64 MB, no frame lacks its pose, and the pose is as quick as
beside nobody (phases with and without them, in turns; the quantile is printed, held only where the
machine is quiet: `247_hundred_stalled.py SECONDS`). Images are asked for with plain TCP, so
that no library reads ahead. No frame waits for the one before (tracker.adapt), which would add to
its latency."""
import signal
import sys
import time

import attacks
import harness
import zmq
from harness import check, check_at_most, messages

SECONDS = float(sys.argv[1]) if len(sys.argv) > 1 else 1.5
N_STALLED = 100
N_ROUNDS = 3
GROWTH_LIMIT_BYTES = 64e6
P99_LIMIT = 1.1 if len(sys.argv) > 1 else 3  # beside them, for one without; other tests run


def stall(port):
    made = attacks.connect(port, b"SUB")
    for topic in (b"depth", b"normals", b"residual", b"cloud"):
        made.sendall(attacks.frame(b"\x01" + topic))
    return made


def read(socket, seconds, last):
    """Milliseconds from capture to publication of each pose."""
    out_ms, end = [], time.monotonic() + seconds
    while time.monotonic() < end:
        if socket.poll(20):
            pose = messages.Odometry.FromString(socket.recv_multipart()[1])
            check(last is None or pose.seq == last + 1, f"{last}, then {pose.seq}")
            last = pose.seq
            out_ms.append((pose.publish_monotonic_ns - pose.capture_monotonic_ns) * 1e-6)
    return out_ms, last


def p99(values):
    return sorted(values)[int(0.99 * (len(values) - 1))]


def scenario():
    port = attacks.free_port()
    daemon = harness.Daemon("synth:room", "--loop", "--set", "tracker.iterations=1,1,1",
                            "--set", "map.keyframes=0", "--set", "tracker.adapt=false",
                            f"--img=ipc tcp://127.0.0.1:{port}", speed=1, collect=False)
    reader = daemon.socket(zmq.SUB, "pub", rcvhwm=0)
    reader.subscribe("pose")
    check(reader.poll(20000), "no pose\n" + daemon.log())
    _, last = read(reader, 1, None)
    before, largest = daemon.private_bytes(), 0
    alone_ms, beside_ms = [], []
    for _ in range(N_ROUNDS):
        some, last = read(reader, SECONDS, last)
        alone_ms += some
        stalled = [stall(port) for _ in range(N_STALLED)]
        _, last = read(reader, 0.5, last)
        some, last = read(reader, SECONDS, last)
        beside_ms += some
        largest = max(largest, daemon.private_bytes() - before)
        for made in stalled:
            made.close()
    stalled = [stall(port) for _ in range(N_STALLED)]
    _, last = read(reader, 0.5, last)
    began = time.monotonic()
    daemon.process.send_signal(signal.SIGTERM)
    daemon.wait()
    print(f"beside {len(stalled)} stalled subscribers of all images: +{largest * 1e-6:.1f} MB; "
          f"p99 from capture to publication {p99(beside_ms):.2f} ms, alone {p99(alone_ms):.2f} ms; "
          f"SIGTERM {time.monotonic() - began:.3f} s")
    if not harness.is_sanitized():
        check_at_most(largest, GROWTH_LIMIT_BYTES, "growth of memory [bytes]")
        check_at_most(p99(beside_ms) / p99(alone_ms), P99_LIMIT, "p99 beside them, for one alone")


harness.run(scenario)
