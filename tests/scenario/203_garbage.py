# SPDX-License-Identifier: Apache-2.0
"""Clients that send garbage, on every socket, while a recording is tracked: malformed framing gets
no answer but a counter, malformed content gets a reply with the code and the field, the daemon
lives, and the trajectory has the same bytes as without them."""
import random
import socket as plain
import struct

import zmq

import harness
from harness import MAGIC, check, messages, requests

SEED = 20261120
N_RANDOM = 300
# What came first does not depend on what came later.
PUBLISHED = ("--set", "output.trajectory_poses=published")
BAD_FRAMES = (b"", b"\0", b"posed", b"posed\x01"[:5], b"POSED\x01" + b"\x0a\x00", b"\xff" * 65536)


def send_raw(daemon, data, answer_expected):
    client = daemon.socket(zmq.DEALER, "req")
    client.send(data)
    if answer_expected is None:
        client.poll(5)
    else:
        got = client.poll(5000 if answer_expected else 200)
        check(bool(got) == answer_expected,
              f"answer to {len(data)} bytes {data[:12]!r}: {bool(got)}")
    reply = client.recv() if client.poll(0) else None
    client.close()
    return reply


def reply_of(data):
    check(data is not None and data.startswith(MAGIC), "a reply with its magic")
    return requests.Reply.FromString(data[len(MAGIC):])


def pose(x=0.0, w=1.0, **rotation):
    return messages.Pose(position=messages.Vector3(x=x),
                         orientation=messages.Quaternion(w=w, **rotation))


def send_bad_frames(daemon):
    """Framing: no answer."""
    for data in BAD_FRAMES:
        send_raw(daemon, data, False)
    # Too long by one byte: without the magic silence, with it a reply that says so.
    send_raw(daemon, b"\0" * 65537, False)
    reply = reply_of(send_raw(daemon, MAGIC + b"\0" * (65537 - len(MAGIC)), True))
    check(reply.code == requests.RESOURCE_EXHAUSTED, f"65537 bytes: code {reply.code}")
    # More than one part.
    client = daemon.socket(zmq.DEALER, "req")
    client.send_multipart([MAGIC, b"more", b"and more"])
    check(not client.poll(200), "a request of three parts is not answered")
    client.close()


def send_bad_messages(daemon):
    """The right magic, but ..."""
    other_version = reply_of(send_raw(daemon, b"posed\x07", True))
    check(other_version.code == requests.UNIMPLEMENTED, "another version is UNIMPLEMENTED")
    for data in (b"\xff\xff\xff\xff", b"\x52\x05\x08", b"\x8a\x01\xff\xff\xff\xff\x7f"):
        reply = reply_of(send_raw(daemon, MAGIC + data, True))
        check(reply.code == requests.INVALID_ARGUMENT, f"{data!r}: code {reply.code}")
    check(reply_of(send_raw(daemon, MAGIC, True)).code in
          (requests.INVALID_ARGUMENT, requests.UNIMPLEMENTED), "an empty request")
    unknown = MAGIC + b"\x08\x05\x9a\x06\x00"  # id 5, field 99
    reply = reply_of(send_raw(daemon, unknown, True))
    check(reply.code == requests.UNIMPLEMENTED and reply.id == 5, "an unknown kind")


def send_bad_content(daemon):
    """The code and the field."""
    nan, infinite = float("nan"), float("inf")
    for wrong, field in ((pose(x=nan), "position"), (pose(x=infinite), "position"),
                         (pose(w=nan), "orientation"), (pose(w=0.0), "orientation"),
                         (pose(w=0.5), "orientation"), (pose(x=1e300), "position"),
                         (pose(y=nan), "orientation")):
        reply = daemon.request(set_pose=requests.SetPose(pose=wrong))
        check(reply.code == requests.INVALID_ARGUMENT, f"set_pose {wrong}: code {reply.code}")
        check(reply.field.startswith("set_pose.pose.") and field in reply.field,
              f"set_pose {wrong}: field {reply.field!r}")
    reply = daemon.request(get_pose=requests.GetPose(
        time=messages.Timestamp(seconds=-2**63, nanos=2**31 - 1)))
    check(reply.code in (requests.INVALID_ARGUMENT, requests.NOT_FOUND), "an absurd time")
    reply = daemon.request(get_trajectory=requests.GetTrajectory(from_seq=2**64 - 1,
                                                                 limit=2**32 - 1))
    check(reply.code in (requests.OK, requests.NOT_FOUND), "an absurd page")


def send_random(daemon, ports):
    """Through libzmq, and into the bare TCP ports. Returns connections that never hang up."""
    generator = random.Random(SEED)
    print("seed", SEED)
    for _ in range(N_RANDOM):
        data = generator.randbytes(generator.randrange(200))
        send_raw(daemon, generator.choice((b"", MAGIC)) + data, None)
    greeting = b"\xff" + b"\0" * 8 + b"\x7f\x03\x00NULL" + b"\0" * 48
    held = []
    for port in ports.values():
        for start in (b"", b"GET / HTTP/1.1\r\n\r\n", greeting,
                      greeting + b"\x04\xff" + struct.pack(">Q", 2**63 - 1)):
            connection = plain.create_connection(("127.0.0.1", port))
            try:
                connection.sendall(start + generator.randbytes(3000))
            except OSError:
                pass  # it may hang up on us
            held.append(connection)  # and some never hang up
    return held


def scenario():
    ports = {}
    for name in ("pub", "latest", "img", "req"):
        with plain.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            ports[name] = probe.getsockname()[1]
    # As fast as possible, which drops no frame, round after round until the garbage is over.
    tcp = [f"--{name}=ipc tcp://127.0.0.1:{port}" for name, port in ports.items()]
    daemon = harness.Daemon("synth:room-straight", "--loop", *PUBLISHED, *tcp)
    daemon.wait_for(lambda: daemon.poses, "first pose")

    send_bad_frames(daemon)
    send_bad_messages(daemon)
    send_bad_content(daemon)
    held = send_random(daemon, ports)
    reply = daemon.request(ping=requests.Ping(payload=77))
    check(reply.code == requests.OK and reply.ping.payload == 77, "Ping after all that")
    status = daemon.request(get_status=requests.GetStatus()).get_status
    check(status.bad_requests >= len(BAD_FRAMES), f"bad_requests is {status.bad_requests}")
    check(status.dropped_frames == 0, f"{status.dropped_frames} frames dropped")
    daemon.stop()
    for connection in held:
        connection.close()
    n_frames = len(daemon.poses)
    harness.check_poses(daemon.poses, n_frames)
    lines = daemon.trajectory_bytes().splitlines()
    check(len(lines) == n_frames, f"{len(lines)} lines for {n_frames} frames")

    quiet = harness.Daemon("synth:room-straight", "--loop", *PUBLISHED)
    quiet.wait_for(lambda: len(quiet.poses) >= n_frames, f"{n_frames} frames")
    quiet.stop()
    check(quiet.trajectory_bytes().splitlines()[:n_frames] == lines,
          "the trajectory's bytes changed")


harness.run(scenario)
