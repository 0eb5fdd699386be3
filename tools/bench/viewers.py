# SPDX-License-Identifier: Apache-2.0
"""What viewers of the page cost the pose: tools/bench/viewers.py [VIEWERS [SECONDS [ROUNDS]]]

Latency from when a frame was there to its message, in windows with and without viewers that take
turns. Each viewer subscribes to all that the page does. Python's websockets is the client."""
import asyncio
import json
import os
import sys
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../tests/scenario"))
import harness  # noqa: E402

N_VIEWERS, SECONDS, ROUNDS = (int(x) for x in (sys.argv[1:] + ["10", "10", "3"][len(sys.argv) -
                                                                               1:])[:3])
CHANNELS = (1, 3, 4, 5, 6, 9, 14)


def latencies(poses):
    return sorted((p.publish_monotonic_ns - p.capture_monotonic_ns) * 1e-6 for p in poses)


async def look(port, until, counts):
    import websockets
    async with websockets.connect(f"ws://127.0.0.1:{port}/", subprotocols=["posed.view.v1"],
                                  max_size=None) as client:
        await client.send(json.dumps({"op": "subscribe", "subscriptions": [
            {"id": i, "channelId": i} for i in CHANNELS]}))
        while time.monotonic() < until:
            message = await asyncio.wait_for(client.recv(), 30)
            counts.append(len(message))


def window(daemon, port, n_viewers):
    until, counts, first = time.monotonic() + SECONDS, [], len(daemon.poses)

    async def all_of_them():
        await asyncio.gather(*(look(port, until, counts) for _ in range(n_viewers)))

    def run():
        os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), 15)
        asyncio.run(all_of_them())

    thread = threading.Thread(target=run) if n_viewers else None
    if thread:
        thread.start()
    time.sleep(max(0, until - time.monotonic()))
    last = len(daemon.poses)
    if thread:
        thread.join()
    return latencies(daemon.poses[first:last]), sum(counts) / SECONDS / max(1, n_viewers)


def main():
    port = 8799
    daemon = harness.Daemon("synth:room", "--loop", "--set", f"http.port={port}", speed=1)
    daemon.wait_for(lambda: len(daemon.poses) > 30, "poses")
    without, with_viewers, rates = [], [], []
    for _ in range(ROUNDS):
        without += window(daemon, port, 0)[0]
        more, rate = window(daemon, port, N_VIEWERS)
        with_viewers += more
        rates.append(rate)
    for name, all_ms in (("none", without), (f"{N_VIEWERS}", with_viewers)):
        all_ms.sort()
        print(f"{name:>5} viewers: {len(all_ms)} frames, median {all_ms[len(all_ms) // 2]:.2f} ms, "
              f"p99 {all_ms[len(all_ms) * 99 // 100]:.2f} ms")
    print(f"{max(rates) * 1e-3:.0f} kB/s a viewer")
    daemon.stop()


harness.run(main)
