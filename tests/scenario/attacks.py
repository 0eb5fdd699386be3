# SPDX-License-Identifier: Apache-2.0
"""What a client that never asked for a key can do to the daemon's sockets, with plain TCP: each
attack is a function of a port that goes on until it is told to stop or is hung up on."""
import os
import resource
import socket
import struct
import threading
import time

GREETING = b"\xff" + b"\0" * 7 + b"\x01\x7f\x03\x00" + b"NULL".ljust(20, b"\0") + b"\0" * 32


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def command(name, body=b""):
    data = bytes([len(name)]) + name + body
    return b"\x04" + bytes([len(data)]) + data


def ready(kind):
    def item(name, value):
        return bytes([len(name)]) + name + struct.pack(">I", len(value)) + value
    return command(b"READY", item(b"Socket-Type", kind) + item(b"Identity", b""))


def frame(body, more=False):
    if len(body) < 256:
        return bytes([more, len(body)]) + body
    return bytes([2 | more]) + struct.pack(">Q", len(body)) + body


def connect(port, kind=None):
    """A connection, past its greeting when a socket type is given."""
    made = socket.create_connection(("127.0.0.1", port), timeout=20)
    if kind:
        made.sendall(GREETING + ready(kind))
        got = b""
        while len(got) < 64 + 2:
            data = made.recv(4096)
            if not data:
                raise OSError("hung up during the greeting")
            got += data
    return made


def pour(made, data, stop, limit_bytes=None):
    """Sends the same again and again. Returns the bytes that were taken."""
    made.settimeout(0.2)
    n_bytes = 0
    while not stop.is_set() and (limit_bytes is None or n_bytes < limit_bytes):
        try:
            n_bytes += made.send(data)
        except socket.timeout:
            pass
        except OSError:
            break
    return n_bytes


def endless_parts(port, kind, stop):
    """One message that never ends."""
    return pour(connect(port, kind), frame(b"x" * 4000, more=True) * 100, stop)


def small_parts(port, kind, stop):
    return pour(connect(port, kind), frame(b"x", more=True) * 10000, stop)


def no_subscriptions(port, kind, stop):
    """Whole messages where only subscriptions belong."""
    return pour(connect(port, kind), frame(b"\x02" + b"x" * 4000) * 100, stop)


def long_frames(port, kind, stop):
    """Frames whose length is a lie."""
    made = connect(port, kind)
    made.sendall(b"\x02" + struct.pack(">Q", 2**62))
    return pour(made, b"x" * 100000, stop)


def huge_requests(port, kind, stop):
    """Messages of the largest allowed length, none of which is finished."""
    many = [connect(port, kind) for _ in range(16)]
    for made in many:
        made.sendall(b"\x02" + struct.pack(">Q", 64 << 20))
    body = b"x" * (1 << 20)
    n_bytes = 0
    while not stop.is_set() and n_bytes < 16 * (63 << 20):
        for made in many:
            made.settimeout(0.05)
            try:
                n_bytes += made.send(body)
            except socket.timeout:
                pass
            except OSError:
                return n_bytes
    return n_bytes


def many_subscriptions(port, kind, stop, n=1000000):
    """Different ones, each of which costs memory and time."""
    made = connect(port, kind)
    made.settimeout(0.5)
    n_bytes = 0
    for i in range(0, n, 1000):
        data = b"".join(frame(b"\x01" + b"%024d" % (i + k)) for k in range(1000))
        try:
            made.sendall(data)
            n_bytes += len(data)
        except OSError:
            break
        if stop.is_set():
            break
    stop.wait()
    return n_bytes


def commands(port, kind, stop):
    """Pings, each of which wants an answer that nobody reads."""
    return pour(connect(port, kind), command(b"PING", b"\0\0" + b"c" * 16) * 2000, stop)


def same_subscription(port, kind, stop):
    """On and off and on: calib is sent again each time."""
    return pour(connect(port, kind), frame(b"\x01calib") * 3000, stop)


def connections(port, kind, stop, n=3000):
    """As many as can be had, which say nothing."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, max(soft, n + 200)), hard))
    many = []
    for _ in range(n):
        try:
            many.append(socket.create_connection(("127.0.0.1", port), timeout=0.5))
        except OSError:
            break
        if stop.is_set():
            break
    stop.wait()
    return len(many)


def half_greetings(port, kind, stop, n=500):
    many = []
    for _ in range(n):
        try:
            made = socket.create_connection(("127.0.0.1", port), timeout=0.5)
            made.sendall(GREETING[:30])
            many.append(made)
        except OSError:
            break
    stop.wait()
    return len(many)


class Attack:
    """Runs an attack in a process of its own until stopped."""

    def __init__(self, function, port, kind):
        self.pid = os.fork()
        if self.pid:
            return
        stop = threading.Event()
        import signal
        signal.signal(signal.SIGTERM, lambda *_: stop.set())
        try:
            function(port, kind, stop)
        except OSError:
            pass
        finally:
            os._exit(0)

    def stop(self):
        import signal
        os.kill(self.pid, signal.SIGTERM)
        end = time.monotonic() + 3
        while time.monotonic() < end:
            if os.waitpid(self.pid, os.WNOHANG)[0]:
                return
            time.sleep(0.02)
        os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)


def nothing(port, kind, stop):
    """For comparison."""
    stop.wait()


# Name, function, socket, type of the client's socket.
ALL = [
    ("nobody", nothing, "req", b"DEALER"),
    ("endless parts on req", endless_parts, "req", b"DEALER"),
    ("endless parts on pub", endless_parts, "pub", b"SUB"),
    ("endless small parts on req", small_parts, "req", b"DEALER"),
    ("messages on pub", no_subscriptions, "pub", b"SUB"),
    ("messages on latest", no_subscriptions, "latest", b"SUB"),
    ("frames of 2^62 bytes on req", long_frames, "req", b"DEALER"),
    ("16 unfinished uploads on req", huge_requests, "req", b"DEALER"),
    ("subscriptions on pub", many_subscriptions, "pub", b"SUB"),
    ("subscriptions on img", many_subscriptions, "img", b"SUB"),
    ("one subscription, endlessly, on pub", same_subscription, "pub", b"SUB"),
    ("pings on pub", commands, "pub", b"SUB"),
    ("3000 connections", connections, "pub", b"SUB"),
    ("500 half greetings", half_greetings, "req", b"SUB"),
]
