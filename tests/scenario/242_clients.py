# SPDX-License-Identifier: Apache-2.0
"""Clients that are gone hold nothing, one user with however many connections leaves others a place,
no deadline is longer than the configuration allows; and what a request may not say is refused with
the field: numbers that are none, texts with a zero byte, names that begin with a dash."""
import random
import socket
import struct
import time

import zmq

import harness
from harness import MAGIC, check, requests

GONE_LIMIT_S = 60 if harness.is_sanitized() else 20
N_HOGS = 12


def long_request(request_id, deadline_ms):
    """It takes as long as it may."""
    generator = random.Random(4)
    points = struct.pack("<9000f", *(generator.gauss(0, 1) for _ in range(9000)))
    long = requests.Register(source=requests.PointSet(points=points),
                             target=requests.PointSet(points=points),
                             start=requests.Register.MANY, n_starts=100000)
    return MAGIC + requests.Request(id=request_id, deadline_ms=deadline_ms,
                                    register_sets=long).SerializeToString()


def read_reply(client, timeout_s=20):
    check(client.poll(int(timeout_s * 1000)), "no reply")
    return requests.Reply.FromString(client.recv()[len(MAGIC):])


def compute(client):
    """A request that waits behind the long ones and is quick."""
    client.send(MAGIC + requests.Request(id=9, deadline_ms=100000, remove_object=requests
                                         .RemoveObject(name="nothing")).SerializeToString())


def check_gone(daemon, port):
    hogs = [daemon.socket(zmq.DEALER, "req") for _ in range(N_HOGS)]
    for hog in hogs:
        hog.send(long_request(1, 300000))
    # Another user: here, one who comes from another address.
    other = daemon.context.socket(zmq.DEALER)
    other.linger = 0
    other.connect(f"tcp://127.0.0.1:{port}")
    time.sleep(0.5)
    compute(other)
    check(not other.poll(500), "the place was not taken by anybody")
    for hog in hogs:
        hog.close()
    began = time.monotonic()
    reply = read_reply(other, GONE_LIMIT_S)
    check(reply.code == requests.NOT_FOUND, f"another user: {reply}")
    print(f"served {time.monotonic() - began:.2f} s after the others had gone")


def check_deadline_cap(daemon):
    began = time.monotonic()
    client = daemon.socket(zmq.DEALER, "req")
    client.send(long_request(2, 2**32 - 1))
    reply = read_reply(client, 60)
    check(reply.code == requests.DEADLINE_EXCEEDED, f"an endless deadline: {reply}")
    check(time.monotonic() - began < 30, "the deadline has a cap")
    client.close()


def depth_image(**numbers):
    return requests.DepthImage(depth=b"\0\1" * 400, width=20, height=20, **numbers)


def refused(daemon, field, **what):
    reply = daemon.request(**what)
    check(reply.code == requests.INVALID_ARGUMENT and reply.field == field,
          f"{field}: {reply.code} {reply.field} {reply.message}")
    return reply.message


def check_refusals(daemon):
    nan, infinite = float("nan"), float("inf")
    vertices = struct.pack("<9f", 0, 0, 0, 1, 0, 0, 0, 1, 0)
    added = daemon.request(_timeout_s=60, deadline_ms=50000, add_object=requests.AddObject(
        name="one", vertices=vertices, triangles=struct.pack("<3I", 0, 1, 2), n_views=64))
    check(added.code == requests.OK, f"{added}")
    for value in (nan, infinite, -infinite, -1.0, 1e9):
        refused(daemon, "search_pose.image.units_per_m",
                search_pose=requests.SearchPose(image=depth_image(units_per_m=value)))
    for value in (nan, infinite):
        refused(daemon, "search_pose.image.fx",
                search_pose=requests.SearchPose(image=depth_image(fx=value, fy=1, cx=1, cy=1)))
    for value in (nan, infinite, -1.0):
        refused(daemon, "search_pose.threshold",
                search_pose=requests.SearchPose(image=depth_image(), threshold=value))
    for name in ("-rf", "--help", "-"):
        refused(daemon, "add_object.name", add_object=requests.AddObject(
            name=name, vertices=vertices, triangles=struct.pack("<3I", 0, 1, 2)))
        refused(daemon, "start_recording.name",
                start_recording=requests.StartRecording(name=name))
    refused(daemon, "remove_object.name", remove_object=requests.RemoveObject(name="one\0two"))
    refused(daemon, "add_object.name", add_object=requests.AddObject(
        name="two\0", vertices=vertices, triangles=struct.pack("<3I", 0, 1, 2)))
    refused(daemon, "search_pose.objects",
            search_pose=requests.SearchPose(objects=["one", "one\0"]))
    refused(daemon, "set_params.params", set_params=requests.SetParams(
        params=[requests.SetParams.Assignment(name="log.level\0", value="info")]))
    # What its structs do not hold, with the limit.
    for field, limit, what in (
            ("start_recording.name", "79 bytes",
             {"start_recording": requests.StartRecording(name=5000 * "x")}),
            ("set_params.params[1].value", "255 bytes", {"set_params": requests.SetParams(
                params=[requests.SetParams.Assignment(name="log.level", value=value)
                        for value in ("info", 300 * "x")])}),
            ("search_pose.objects", "32 entries",
             {"search_pose": requests.SearchPose(objects=33 * ["one"])}),
            ("camera", "16 bytes", {"camera": 17 * "x", "ping": requests.Ping()})):
        check(limit in refused(daemon, field, **what), f"{field}: {limit}")
    names = [o.name for o in daemon.request(
        list_objects=requests.ListObjects()).list_objects.objects]
    check(names == ["one"], f"objects: {names}")


def scenario():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    daemon = harness.Daemon("synth:room", "--loop", "--req", f"ipc tcp://127.0.0.1:{port}", "--set",
                            "requests.max_deadline_ms=300000", "--set", "recorder.folder=" +
                            harness.SCRATCH + "/recordings", speed=1)
    daemon.wait_for(lambda: daemon.poses, "first pose")
    check_refusals(daemon)
    check_gone(daemon, port)
    daemon.stop()
    daemon = harness.Daemon("synth:room", "--loop", "--set", "requests.max_deadline_ms=1500",
                            speed=1)
    daemon.wait_for(lambda: daemon.poses, "first pose")
    check_deadline_cap(daemon)
    daemon.stop()


harness.run(scenario)
