#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What it costs the pose that the daemon does something else beside it:
tools/bench/beside.py [viewers|optimise] [--seconds S] [--rounds N] ...

The latency of a frame, from when it was there to its message, in windows without and with the
other work that take turns (without, with, with, without, ...), so that whatever else the machine
does falls on both alike. The daemon plays a recording in real time, which posed-synth writes first:
a scene would be rendered by the daemon itself, beside the frames that are timed.

viewers: --viewers N (10) of the page. Each subscribes to all that the page does and reads at once.
They are a process of their own, niced, that takes bytes off its sockets and answers pings: what is
seen is the daemon's part. A browser on the same machine takes processors from the daemon as any
program does; --daemon-cpus and --viewer-cpus keep them apart.
optimise: all keyframes of the map are adjusted, again and again (posectl map optimise).

Prints median and 99th percentile of each window, both of all windows of a kind, the ratio of the
latter with the 95 % interval of 2,000 resamplings of whole pairs of windows (one without and the
one with the work beside it), and the load of the machine: with a load of more than one beside the
daemon it says nothing. Needs Python and a build (in POSED_BINARY_DIR, else build/release); no
ZeroMQ, protobuf, browser or network. Exit code: 0 when the whole interval is at most --limit, 1
when all of it is more, 3 when the limit lies inside: then more --rounds decide."""
import argparse
import base64
import json
import os
import random
import select
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time

SOURCE = os.path.abspath(os.path.join(os.path.dirname(os.path.abspath(__file__)), "../.."))
sys.path.insert(0, SOURCE + "/tests/scenario")
import attacks  # noqa: E402
import pose_stream  # noqa: E402

BINARY = os.environ.get("POSED_BINARY_DIR") or SOURCE + "/build/release"
CHANNELS = (1, 3, 4, 5, 6, 9, 14, 15)  # of the page
SETTLE_S = 1  # after viewers come or go
WARM_POSES = 90
PATIENCE_S = 120


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


class Viewer:
    """A page's connection: counts what comes and answers the daemon's pings, as a browser does."""

    def __init__(self, port):
        self.connection, self.n_bytes = connect(port), 0
        self.head, self.n_body, self.ping = b"", 0, None  # of the frame under way

    def fileno(self):
        return self.connection.fileno()

    def read(self, buffer):
        n = self.connection.recv_into(buffer)
        if n == 0:
            sys.exit("the daemon has hung up on a viewer")
        self.n_bytes += n
        at = 0
        while at < n:
            if self.n_body:
                taken = min(self.n_body, n - at)
                if self.ping is not None:
                    self.ping += buffer[at:at + taken]
                self.n_body -= taken
                at += taken
            else:
                self.head += buffer[at:at + 1]
                at += 1
                self._begin()
            if self.n_body == 0 and self.ping is not None:
                answer = bytes((0x8A, 0x80 | len(self.ping), 0, 0, 0, 0)) + self.ping
                self.connection.send(answer)  # masked with zeros
                self.ping = None

    def _begin(self):
        """A frame, as soon as its head is whole."""
        n_size = {126: 2, 127: 8}.get(self.head[1] & 127, 0) if len(self.head) > 1 else 0
        if len(self.head) < 2 + n_size:
            return
        self.n_body = int.from_bytes(self.head[2:], "big") if n_size else self.head[1] & 127
        self.ping = b"" if self.head[0] & 15 == 9 else None
        self.head = b""


def look(port, n_viewers, cpus):
    """The process of the viewers: reads until its stdin ends, then tells the bytes of each."""
    keep_to(cpus)
    os.nice(15)
    viewers, buffer = [Viewer(port) for _ in range(n_viewers)], bytearray(1 << 20)
    print("ready", flush=True)
    while True:
        ready = select.select([sys.stdin, *viewers], [], [])[0]
        if sys.stdin in ready:
            print(json.dumps([viewer.n_bytes for viewer in viewers]), flush=True)
            return
        for viewer in ready:
            viewer.read(buffer)


class Daemon:
    """posed with sockets of its own; collects the latency of each pose [ms]."""

    def __init__(self, source, settings, cpus):
        self.folder = tempfile.TemporaryDirectory()
        self.log = os.path.join(self.folder.name, "log")
        self.http = attacks.free_port()
        if source is None:
            source = "tum:" + self._record()
        with open(self.log, "w", encoding="utf-8") as log:
            self.process = subprocess.Popen(
                [BINARY + "/bin/posed", "--source", source, "--loop", "--speed", "real",
                 "--backend", "cpu", "--run-dir", self.folder.name, "--no-tcp",
                 "--set", f"http.port={self.http}", "--set", "log.rate_hz=0",
                 "--set", "tracker.adapt=false",  # the same work on each frame
                 *(part for setting in settings for part in ("--set", setting))],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                preexec_fn=lambda: keep_to(cpus))
        self.latencies_ms = []
        self.connection = self._connect()
        self.reader = threading.Thread(target=pose_stream.read, daemon=True,
                                       args=(self.connection, self._take))
        self.reader.start()

    def _record(self):
        folder = os.path.join(self.folder.name, "recording")
        subprocess.run([BINARY + "/bin/posed-synth", "room", folder],
                       check=True, stdout=subprocess.DEVNULL)
        return folder

    def fail(self, text):
        self.process.kill()
        with open(self.log, encoding="utf-8") as log:
            sys.exit(f"{log.read()}{text}")

    def _connect(self):
        made, end = socket.socket(socket.AF_UNIX), time.monotonic() + PATIENCE_S
        while made.connect_ex(self.folder.name + "/pub") != 0:
            if time.monotonic() > end or self.process.poll() is not None:
                self.fail("the daemon does not listen")
            time.sleep(0.05)
        return made

    def _take(self, _topic, fields):
        self.latencies_ms.append(pose_stream.latency_ns(fields) * 1e-6)

    def wait_poses(self, n):
        end = time.monotonic() + PATIENCE_S
        while len(self.latencies_ms) < n:
            if time.monotonic() > end or self.process.poll() is not None:
                self.fail(f"{len(self.latencies_ms)} poses within {PATIENCE_S} s")
            time.sleep(0.05)

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(PATIENCE_S)
        self.connection.close()
        self.folder.cleanup()


def keep_to(cpus):
    if cpus:
        os.sched_setaffinity(0, cpus)


def cpu_list(text):
    """0-3,8 as a set of numbers."""
    cpus = set()
    for part in text.split(","):
        first, _, last = part.partition("-")
        cpus.update(range(int(first), int(last or first) + 1))
    return cpus


class Viewers:
    """Of the page, while the window lasts."""

    def __init__(self, daemon, options):
        command = [sys.executable, __file__, "--look", str(daemon.http), "--viewers",
                   str(options.viewers)]
        if options.viewer_cpus:
            command += ["--viewer-cpus", ",".join(map(str, options.viewer_cpus))]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        text=True)
        self.began = time.monotonic()
        assert self.process.stdout.readline() == "ready\n", "the viewers have not come"

    def stop(self):
        counts = json.loads(self.process.communicate("\n")[0])
        assert min(counts) > 0, "a viewer has seen nothing"
        return max(counts) * 1e-3 / (time.monotonic() - self.began)


class Optimise:
    """One adjustment of all keyframes after the other, while the window lasts."""

    def __init__(self, daemon, _options):
        self.command = [BINARY + "/bin/posectl", "map", "optimise", "--host", daemon.folder.name,
                        "--timeout", str(PATIENCE_S)]
        self.goes_on, self.n = True, 0
        self.thread = threading.Thread(target=self._run)
        self.thread.start()

    def _run(self):
        while self.goes_on:
            self.done = subprocess.run(self.command, capture_output=True, text=True)
            self.n += self.done.returncode == 0  # not where the recording began anew meanwhile

    def stop(self):
        self.goes_on = False
        self.thread.join()
        assert self.n > 0, self.done.stderr
        return self.n


# What --help calls it, and what stop() says.
WORK = {"viewers": (Viewers, "kB/s to the viewer that got most"),
        "optimise": (Optimise, "adjustments at most beside one")}


def window(daemon, options, with_work):
    """Latencies [ms] of a window, and what the work says of itself."""
    work = WORK[options.work][0](daemon, options) if with_work else None
    time.sleep(SETTLE_S)
    first = len(daemon.latencies_ms)
    time.sleep(options.seconds)
    last = len(daemon.latencies_ms)
    said = work.stop() if work else 0
    if first == last:
        daemon.fail("no pose in a window")
    return daemon.latencies_ms[first:last], said


def percentile(windows, share):
    values = sorted(value for one in windows for value in one)
    return values[int((len(values) - 1) * share)]


def ratio_interval(none, some, generator):
    """Of the ratio of the 99th percentiles: whole pairs of windows are drawn, as frames of one hang
    together, and windows beside each other see the same machine."""
    pairs, ratios = list(zip(none, some)), []
    for _ in range(2000):
        drawn = generator.choices(pairs, k=len(pairs))
        ratios.append(percentile([s for _, s in drawn], .99) /
                      percentile([n for n, _ in drawn], .99))
    ratios.sort()
    return ratios[50], ratios[1949]


def decide(low, high, limit):
    """The exit code, and what it means."""
    if high <= limit:
        return 0, f"within {limit:g}"
    if low > limit:
        return 1, f"more than {limit:g}"
    return 3, f"undecided: {limit:g} lies in the interval, more --rounds are needed"


def measure(options):
    """Prints the ratio of the 99th percentiles and what it comes from. Returns the exit code."""
    daemon = Daemon(options.source, options.set, options.daemon_cpus)
    daemon.wait_poses(WARM_POSES)
    none, some, most = [], [], 0
    for i in range(2 * options.rounds):
        with_work = i % 4 in (1, 2)
        latencies, said = window(daemon, options, with_work)
        (some if with_work else none).append(latencies)
        most = max(most, said)
        print(f"window {i:2}, {'with' if with_work else 'without':>7}: {len(latencies)} frames, "
              f"median {percentile([latencies], .5):.3f} ms, p99 "
              f"{percentile([latencies], .99):.3f} ms", flush=True)
    for name, windows in (("without", none), ("with", some)):
        print(f"{name:>7}: {sum(map(len, windows))} frames, median "
              f"{percentile(windows, .5):.3f} ms, p99 {percentile(windows, .99):.3f} ms")
    low, high = ratio_interval(none, some, random.Random(1))
    ratio = percentile(some, .99) / percentile(none, .99)
    print(f"median with over without: {percentile(some, .5) / percentile(none, .5):.3f}")
    print(f"p99 with over without: {ratio:.3f} (95 %: {low:.3f} to {high:.3f})")
    print(f"{most:.0f} {WORK[options.work][1]}; load {os.getloadavg()[0]:.1f} on "
          f"{os.cpu_count()} processors")
    daemon.stop()
    code, meaning = decide(low, high, options.limit)
    print(meaning)
    return code


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("work", nargs="?", choices=WORK, default="viewers")
    parser.add_argument("--viewers", type=int, default=10)
    parser.add_argument("--seconds", type=float, default=20, help="length of a window (default 20)")
    parser.add_argument("--rounds", type=int, default=10, help="windows of each kind (default 10)")
    parser.add_argument("--source", help="default: the scene room, a full turn, written before")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE",
                        help="of the daemon, such as map.folder=/tmp for the map's surface")
    parser.add_argument("--limit", type=float, default=1.1, help="of the ratio (default 1.1)")
    parser.add_argument("--daemon-cpus", type=cpu_list, metavar="LIST", help="such as 0-3,8")
    parser.add_argument("--viewer-cpus", type=cpu_list, metavar="LIST")
    parser.add_argument("--look", type=int, metavar="PORT", help="be the viewers of this page")
    options = parser.parse_args()
    if options.look:
        look(options.look, options.viewers, options.viewer_cpus)
    else:
        sys.exit(measure(options))


if __name__ == "__main__":
    main()
