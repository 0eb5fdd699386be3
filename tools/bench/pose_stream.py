# SPDX-License-Identifier: Apache-2.0
"""Poses off the daemon's socket `pub` with the standard library alone: ZMTP and protobuf by hand,
for programs that measure on machines without ZeroMQ."""
import os
import struct
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)),
                                "../../tests/scenario"))
import attacks  # noqa: E402: a client's half of ZMTP

MORE, LONG, COMMAND, PING = 1, 2, 4, b"\x04PING"  # of a ZMTP frame
CAPTURE_NS, PUBLISH_NS, STATE, STAGES = 1003, 1004, 1005, 1022  # fields of Odometry
TRACK_US, ADDED_US = 5, 6  # of its stages


def fields_of(message):
    """The fields of a protobuf message by number: integers, floats and bytes."""
    found, at = {}, 0

    def varint():
        nonlocal at
        value = shift = 0
        while True:
            byte = message[at]
            at += 1
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return value

    while at < len(message):
        key = varint()
        kind = key & 7
        if kind == 0:
            found[key >> 3] = varint()
        elif kind == 2:
            size = varint()
            found[key >> 3] = message[at:at + size]
            at += size
        elif kind == 5:
            found[key >> 3], = struct.unpack_from("<f", message, at)
            at += 4
        else:
            at += {1: 8}[kind]
    return found


def latency_ns(fields):
    """From when the frame was there to its message."""
    return fields[PUBLISH_NS] - fields[CAPTURE_NS]


def read(connection, take):
    """Subscribes a connected socket to all poses and calls take(topic, fields of the message) for
    each until the daemon ends."""
    connection.sendall(attacks.GREETING + attacks.ready(b"SUB") + attacks.frame(b"\x01pose"))
    stream = connection.makefile("rb")
    stream.read(len(attacks.GREETING))
    topic = b""
    while True:
        head = stream.read(2)
        if len(head) < 2:
            return
        flags, size = head
        if flags & LONG:
            size = struct.unpack(">Q", head[1:] + stream.read(7))[0]
        body = stream.read(size)
        if flags & COMMAND:
            if body.startswith(PING):  # a time to live of two bytes, and what comes back
                connection.sendall(attacks.command(b"PONG", body[len(PING) + 2:]))
        elif flags & MORE:
            topic = body
        else:
            take(topic.decode(), fields_of(body))
