#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What viewers of the page cost the pose: tools/bench/viewers.py [--viewers N] [--seconds S] ...

The latency of a frame, from when it was there to its message, in windows without and with viewers
that take turns (none, some, some, none, ...), so that whatever else the machine does falls on both
alike. Each viewer subscribes to all that the page does and reads at once. The viewers are a process
of their own, niced, that only takes bytes off its sockets: what is seen is the daemon's part. A
browser on the same machine takes processors from the daemon as any program does.

Prints both 99th percentiles, their ratio with the 95 % interval of 2,000 resamplings of whole
windows, and the load of the machine: with a load of more than one beside the daemon it says
nothing."""
import argparse
import base64
import json
import os
import random
import select
import socket
import struct
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../tests/scenario"))

CHANNELS = (1, 3, 4, 5, 6, 9, 14)  # of the page
SETTLE_S = 1  # after viewers come or go
WARM_POSES = 90


def connect(port):
    """A viewer: the handshake and the page's subscription, by hand."""
    viewer = socket.create_connection(("127.0.0.1", port), timeout=30)
    key = base64.b64encode(os.urandom(16)).decode()
    viewer.sendall((f"GET / HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nUpgrade: websocket\r\n"
                    f"Connection: Upgrade\r\nSec-WebSocket-Key: {key}\r\n"
                    "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Protocol: posed.view.v1\r\n\r\n"
                    ).encode())
    answer = b""
    while b"\r\n\r\n" not in answer:
        part = viewer.recv(1)
        if not part:
            break
        answer += part
    if not answer.startswith(b"HTTP/1.1 101 "):
        sys.exit(f"no page there: {answer[:80]!r}")
    text = json.dumps({"op": "subscribe", "subscriptions": [
        {"id": i, "channelId": i} for i in CHANNELS]}).encode()
    viewer.sendall(struct.pack(">BBHI", 0x81, 0x80 | 126, len(text), 0) + text)  # masked with zeros
    viewer.setblocking(False)
    return viewer


def look(port, n_viewers):
    """The process of the viewers: reads until its stdin ends, then tells the bytes of each."""
    os.nice(15)
    viewers = [connect(port) for _ in range(n_viewers)]
    counts, buffer = {v.fileno(): 0 for v in viewers}, bytearray(1 << 20)
    print("ready", flush=True)
    while True:
        ready = select.select([sys.stdin, *viewers], [], [])[0]
        if sys.stdin in ready:
            print(json.dumps(list(counts.values())), flush=True)
            return
        for viewer in ready:
            n = viewer.recv_into(buffer)
            if n == 0:
                sys.exit("the daemon has hung up on a viewer")
            counts[viewer.fileno()] += n


def window(daemon, port, n_viewers, seconds):
    """Latencies [ms] of a window, and bytes/s of the viewer that gets most."""
    viewers, rate = None, 0
    if n_viewers:
        viewers = subprocess.Popen([sys.executable, __file__, "--look", str(port), "--viewers",
                                    str(n_viewers)], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                   text=True)
        assert viewers.stdout.readline() == "ready\n", "the viewers have not come"
    began = time.monotonic()
    time.sleep(SETTLE_S)
    first = len(daemon.poses)
    time.sleep(seconds)
    last = len(daemon.poses)
    if viewers:
        counts = json.loads(viewers.communicate("\n")[0])
        rate = max(counts) / (time.monotonic() - began)
        assert min(counts) > 0, "a viewer has seen nothing"
    return [(p.publish_monotonic_ns - p.capture_monotonic_ns) * 1e-6
            for p in daemon.poses[first:last]], rate


def percentile(windows, share):
    values = sorted(value for one in windows for value in one)
    return values[int((len(values) - 1) * share)]


def ratio_interval(none, some, generator):
    """Of the ratio of the 99th percentiles: whole windows are drawn, as frames of one hang
    together."""
    ratios = sorted(percentile(generator.choices(some, k=len(some)), .99) /
                    percentile(generator.choices(none, k=len(none)), .99) for _ in range(2000))
    return ratios[50], ratios[1949]


def measure(options):
    import harness
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    daemon = harness.Daemon(options.source, "--loop", "--set", f"http.port={port}", speed=1)
    daemon.wait_for(lambda: len(daemon.poses) > WARM_POSES, "poses")
    none, some, rate = [], [], 0
    for i in range(2 * options.rounds):
        with_viewers = i % 4 in (1, 2)
        latencies, more = window(daemon, port, options.viewers if with_viewers else 0,
                                 options.seconds)
        harness.check(latencies, "no pose in a window")
        (some if with_viewers else none).append(latencies)
        rate = max(rate, more)
    for name, windows in (("none", none), (str(options.viewers), some)):
        print(f"{name:>5} viewers: {sum(map(len, windows))} frames, median "
              f"{percentile(windows, .5):.3f} ms, p99 {percentile(windows, .99):.3f} ms")
    low, high = ratio_interval(none, some, random.Random(1))
    print(f"p99 with over without: {percentile(some, .99) / percentile(none, .99):.3f} "
          f"(95 %: {low:.3f} to {high:.3f})")
    print(f"{rate * 1e-3:.0f} kB/s to the viewer that got most; load {os.getloadavg()[0]:.1f} on "
          f"{os.cpu_count()} processors")
    daemon.stop()


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--viewers", type=int, default=10)
    parser.add_argument("--seconds", type=float, default=20, help="length of a window (default 20)")
    parser.add_argument("--rounds", type=int, default=6, help="windows of each kind (default 6)")
    parser.add_argument("--source", default="synth:room-slow", help="default synth:room-slow")
    parser.add_argument("--look", type=int, metavar="PORT", help="be the viewers of this page")
    options = parser.parse_args()
    if options.look:
        look(options.look, options.viewers)
        return
    import harness
    harness.run(lambda: measure(options))


main()
