# SPDX-License-Identifier: Apache-2.0
"""The queue of requests: what does not fit is refused at once, nothing is forgotten, a deadline
that passed is said, and a client that asks for more than its share leaves the others theirs. And as
fast as possible, a subscriber that stands still costs the others nothing."""
import random
import signal
import struct
import time

import zmq

import harness
from harness import MAGIC, requests

N_REQUESTS = 40
N_FRAMES = 20 if harness.is_sanitized() else 150


def read_reply(client):
    assert client.poll(20000), "no reply"
    return requests.Reply.FromString(client.recv()[len(MAGIC):])


def check_queue(daemon):
    """More commands at once than may wait."""
    client = daemon.socket(zmq.DEALER, "req")
    for i in range(N_REQUESTS):
        request = requests.Request(id=1000 + i, reset=requests.Reset(keep_pose=True))
        client.send(MAGIC + request.SerializeToString())
    replies = [read_reply(client) for _ in range(N_REQUESTS)]
    assert sorted(reply.id for reply in replies) == list(range(1000, 1000 + N_REQUESTS))
    codes = [reply.code for reply in replies]
    refused = codes.count(requests.RESOURCE_EXHAUSTED)
    assert refused > 0 and codes.count(requests.OK) == N_REQUESTS - refused >= 4, codes
    status = daemon.request(get_status=requests.GetStatus()).get_status
    assert status.rejected_requests == refused, status


def check_deadline(daemon):
    client = daemon.socket(zmq.DEALER, "req")
    request = requests.Request(id=5, deadline_ms=1, reset=requests.Reset(keep_pose=True))
    codes = []
    for _ in range(20):
        client.send(MAGIC + request.SerializeToString())
        codes.append(read_reply(client).code)
    assert set(codes) <= {requests.OK, requests.DEADLINE_EXCEEDED}, codes
    assert requests.DEADLINE_EXCEEDED in codes, "at 12 frames/s most are later than 1 ms"


def check_req_socket(daemon):
    """A plain REQ socket puts an empty part in front; it gets one back."""
    client = daemon.socket(zmq.REQ, "req")
    client.send(MAGIC + requests.Request(id=3, ping=requests.Ping(payload=4)).SerializeToString())
    assert read_reply(client).ping.payload == 4


def long_request(request_id, deadline_ms):
    """It takes as long as it may."""
    generator = random.Random(4)
    points = struct.pack("<9000f", *(generator.gauss(0, 1) for _ in range(9000)))
    long = requests.Register(source=requests.PointSet(points=points),
                             target=requests.PointSet(points=points),
                             start=requests.Register.MANY, n_starts=100000)
    request = requests.Request(id=request_id, deadline_ms=deadline_ms, register_sets=long)
    return MAGIC + request.SerializeToString()


def check_others_have_their_turn():
    """A client that wants everything at once: another one's request is taken, and is next."""
    daemon = harness.Daemon("synth:room", "--loop", speed=1)
    daemon.wait_for(lambda: daemon.poses, "first pose")
    hog = daemon.socket(zmq.DEALER, "req")
    for i in range(N_REQUESTS):
        hog.send(long_request(i, 200000 if i else 4000))
    # What is refused says so at once; four wait, and the first one runs or waits, too.
    codes = {}
    while len(codes) < N_REQUESTS - 5:
        reply = read_reply(hog)
        codes[reply.id] = reply.code
    done = daemon.request(remove_object=requests.RemoveObject(name="nothing"), deadline_ms=20000)
    harness.check(done.code == requests.NOT_FOUND, f"another client: {done.code} {done.message}")
    while 0 not in codes:
        reply = read_reply(hog)
        codes[reply.id] = reply.code
    harness.check(codes.pop(0) == requests.DEADLINE_EXCEEDED, "the first one ran before")
    harness.check(set(codes.values()) == {requests.RESOURCE_EXHAUSTED}, f"{codes}")
    daemon.stop()


def check_answers_at_the_end():
    """A daemon that is stopped answers what runs and what waits."""
    daemon = harness.Daemon("synth:room", "--loop", speed=1)
    daemon.wait_for(lambda: daemon.poses, "first pose")
    client = daemon.socket(zmq.DEALER, "req")
    for i in range(4):
        client.send(long_request(i, 200000))
    time.sleep(1)  # the first one runs
    daemon.process.send_signal(signal.SIGTERM)
    codes = {}
    for _ in range(4):
        reply = read_reply(client)
        codes[reply.id] = reply.code
    assert codes == {0: requests.CANCELLED, 1: requests.UNAVAILABLE, 2: requests.UNAVAILABLE,
                     3: requests.UNAVAILABLE}, codes
    daemon.wait()


def check_nothing_is_dropped():
    daemon = harness.Daemon("synth:room", "--frames", str(N_FRAMES), "--set", "publish.pub_hwm=5",
                            "--set", "tracker.iterations=2,2,2")
    stalled = daemon.socket(zmq.SUB, "pub", rcvhwm=1)
    stalled.subscribe("")
    daemon.wait()
    harness.check_poses(daemon.poses, N_FRAMES)


def scenario():
    daemon = harness.Daemon("synth:room", "--loop", "--set", "requests.queue=8", "--set",
                            "tracker.iterations=3,3,3", speed=0.4)
    daemon.wait_for(lambda: len(daemon.poses) > 3, "three poses")
    check_queue(daemon)
    check_deadline(daemon)
    check_req_socket(daemon)
    daemon.stop()
    check_others_have_their_turn()
    check_answers_at_the_end()
    check_nothing_is_dropped()


harness.run(scenario)
