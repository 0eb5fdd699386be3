# SPDX-License-Identifier: Apache-2.0
"""A frame that is kept, on request: its depth and its points are those of the frame, errors have
names, and a client that does not read its answers fills neither the daemon's memory nor the share
of others."""
import json
import math
import os
import struct
import subprocess
import time

import zmq

import harness
from harness import MAGIC, check, check_at_most, messages, requests

KEEP_FRAMES = 20
MAX_POINTS = 310000
SHARE_BYTES = 32 << 20  # of large answers that one client does not read
N_BEYOND = 4  # the one that passes the limit, one being made, two in the client itself
MEMORY_LIMIT_BYTES = SHARE_BYTES + (40 << 20)


def ctl(daemon, code, *arguments):
    command = [harness.BINARY + "/bin/posectl", "get", *arguments, "-e", daemon.folder]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    check(done.returncode == code, f"{arguments}: {done.returncode} {done.stdout} {done.stderr}")
    return done


def check_depth(daemon):
    """The same image as on the topic `depth`, in the source's own unit. Returns it."""
    images = daemon.socket(zmq.SUB, "img", rcvtimeo=20000)
    images.subscribe("depth")
    time.sleep(0.5)
    daemon.step(1)
    image = messages.RawImage.FromString(images.recv_multipart()[1])
    images.close()
    reply = daemon.request(get_depth=requests.GetDepth(seq=image.seq))
    check(reply.code == requests.OK, f"GetDepth: {reply.code} {reply.message}")
    depth = reply.get_depth
    check((depth.seq, depth.width, depth.height) == (image.seq, 640, 480), "whose and how large")
    check(depth.timestamp == image.timestamp == daemon.poses[image.seq].timestamp, "when")
    check((depth.units_per_m, depth.fx, depth.fy, depth.cx, depth.cy) ==
          (5000, 525, 525, 319.5, 239.5), "unit and intrinsics")
    raw = struct.unpack(f"<{640 * 480}H", depth.depth)
    mm = struct.unpack(f"<{640 * 480}H", image.data)
    check(all(math.floor(r / 5 + 0.5) == m for r, m in zip(raw, mm)), "the same pixels")
    newest = daemon.request(get_depth=requests.GetDepth()).get_depth
    check(newest.seq == daemon.poses[-1].seq, f"the newest: {newest.seq}")
    return depth, raw


def check_cloud(daemon, depth, raw):
    reply = daemon.request(get_cloud=requests.GetCloud(seq=depth.seq, stride=4, normals=True))
    check(reply.code == requests.OK, f"GetCloud: {reply.code} {reply.message}")
    cloud = reply.get_cloud
    expected = [((u - 319.5) / 525 * raw[v * 640 + u] / 5000,
                 (v - 239.5) / 525 * raw[v * 640 + u] / 5000, raw[v * 640 + u] / 5000)
                for v in range(0, 480, 4) for u in range(0, 640, 4) if raw[v * 640 + u]]
    check(cloud.n_points == len(expected) > 5000, f"{cloud.n_points} points")
    points = list(struct.iter_unpack("<3f", cloud.points))
    check(len(points) == len(expected), "all of them")
    worst = max(math.dist(p, q) for p, q in zip(points, expected))
    check_at_most(worst, 1e-6, "points [m]")
    check(cloud.pose == daemon.poses[depth.seq].pose, "the pose of the frame")
    normals = list(struct.iter_unpack("<3f", cloud.normals))
    check(len(normals) == len(points), "a normal a point")
    some = [(n, p) for n, p in zip(normals, points) if any(n)]
    check(len(some) > len(points) // 2, f"{len(some)} normals")
    check(all(abs(math.hypot(*n) - 1) < 1e-5 for n, _ in some), "of length 1")
    check(all(sum(a * b for a, b in zip(n, p)) < 0 for n, p in some), "towards the camera")
    cloud = daemon.request(get_cloud=requests.GetCloud(seq=depth.seq)).get_cloud
    check(cloud.stride == 1 and cloud.n_points == sum(d > 0 for d in raw), "as fine as may be")
    check(not cloud.normals, "normals only when asked for")


def check_refusals(daemon):
    for seq in (0, 10**9, 2**64 - 1):
        for kind, request in (("get_depth", requests.GetDepth), ("get_cloud", requests.GetCloud)):
            reply = daemon.request(**{kind: request(seq=seq)})
            check(reply.code == requests.NOT_FOUND and reply.field == kind + ".seq", f"{reply}")
    few = harness.Daemon("synth:room", "--loop", "--set", "requests.max_points=5000", speed=1)
    few.step(3)
    reply = few.request(get_depth=requests.GetDepth(seq=few.poses[-1].seq))
    check(reply.code == requests.OK, f"a frame whose pose has just come: {reply.message}")
    reply = few.request(get_cloud=requests.GetCloud(stride=2))
    check(reply.code == requests.INVALID_ARGUMENT and reply.field == "get_cloud.stride",
          f"too many points: {reply.code} {reply.message}")
    cloud = few.request(get_cloud=requests.GetCloud()).get_cloud
    check(0 < cloud.n_points <= 5000 and cloud.stride > 2, f"{cloud.n_points} points")
    for _ in range(20):  # also of a frame that is just being published
        cloud = few.request(get_cloud=requests.GetCloud()).get_cloud
        check(cloud.HasField("pose"), f"frame {cloud.seq} has no pose")
    few.stop()
    none = harness.Daemon("synth:room", "--loop", "--set", "requests.keep_frames=0", speed=1)
    none.wait_for(lambda: none.poses, "a pose")
    reply = none.request(get_depth=requests.GetDepth())
    check(reply.code == requests.NOT_FOUND and "keep_frames" in reply.message, f"{reply}")
    none.stop()


def check_posectl(daemon, depth):
    folder = harness.SCRATCH + "/saved"
    os.mkdir(folder)
    seq = str(depth.seq)
    said = ctl(daemon, 0, "depth", "-o", folder + "/0.png", "--frame", seq).stdout
    check(f"frame {seq}, 640x480, 5000 units" in said, said)
    # What was saved is a recording of one frame, with the same pixels.
    again = harness.Daemon("png:" + folder, "--loop", "--set", "camera.depth_scale=5000",
                           "--set", "camera.fx=525", "--set", "camera.fy=525", "--set",
                           "camera.cx=319.5", "--set", "camera.cy=239.5", speed=1)
    again.step(2)
    check(again.request(get_depth=requests.GetDepth()).get_depth.depth == depth.depth,
          "the saved image is the frame")
    again.stop()
    path = folder + "/cloud.ply"
    said = json.loads(ctl(daemon, 0, "cloud", "-o", path, "-o", "json", "-f", seq, "-s", "3",
                          "--normals").stdout)
    check(said["stride"] == 3 and str(said["seq"]) == seq and said["T_odom_camera"], f"{said}")
    with open(path, "rb") as file:
        head = file.read(400)
    check(head.startswith(b"ply\n") and b"element vertex %d\n" % said["points"] in head and
          b"nx" in head, f"{head}")
    check("NOT_FOUND get_depth.seq" in ctl(daemon, 1, "depth", "-o", folder + "/0.png", "-f",
                                            "0").stderr, "")
    ctl(daemon, 2, "depth", "-o", path)
    check(os.path.getsize(path) > 1000, "a refusal leaves the file as it is")
    ctl(daemon, 1, "depth", "-o", "/nowhere/x.png")
    for wrong in ((), ("depth",), ("pose", "-o", path), ("depth", "-o", path, "--normals"),
                  ("cloud", "-o", path, "-f", "-1"), ("cloud", "-o", path, "-s", "x")):
        ctl(daemon, 2, *wrong)


def read_code(answer):
    return requests.Reply.FromString(answer[len(MAGIC):]).code


def ask_without_reading(daemon):
    client = daemon.socket(zmq.DEALER, "req", rcvhwm=1)
    request = requests.Request(id=1, deadline_ms=60000,
                               get_cloud=requests.GetCloud(stride=1, normals=True))
    for _ in range(100):
        client.send(MAGIC + request.SerializeToString())
        time.sleep(0.1 if harness.is_sanitized() else 0.02)  # each is answered before the next
    return client, request


def check_memory(daemon):
    """Answers that nobody reads: the one who does not is refused more, others get theirs, and when
    one goes, what was kept for it is free again."""
    before = daemon.resident_bytes()
    ask_without_reading(daemon)[0].close(linger=0)
    client, request = ask_without_reading(daemon)
    if not harness.is_sanitized():
        check_at_most(daemon.resident_bytes() - before, MEMORY_LIMIT_BYTES, "more memory [bytes]")
    for _ in range(3):
        reply = daemon.request(get_cloud=requests.GetCloud(stride=1, normals=True))
        check(reply.code == requests.OK, f"another client: {reply.code} {reply.message}")
    answers = []
    while client.poll(5000):
        answers.append(client.recv())
    codes = [read_code(answer) for answer in answers]
    check(set(codes) == {requests.OK, requests.RESOURCE_EXHAUSTED}, f"{codes}")
    size = max(len(answer) for answer in answers)
    n_bytes = sum(len(answer) for answer in answers)
    check_at_most(n_bytes, SHARE_BYTES + N_BEYOND * size, "answers for one client [bytes]")
    check(n_bytes >= SHARE_BYTES, f"{n_bytes} bytes are less than a client's share")
    client.send(MAGIC + request.SerializeToString())
    check(client.poll(5000) and read_code(client.recv()) == requests.OK,
          "who has read is answered again")
    client.close()


def scenario():
    daemon = harness.Daemon("synth:room-straight", "--loop", "--set",
                            f"requests.keep_frames={KEEP_FRAMES}", "--set",
                            f"requests.max_points={MAX_POINTS}", "--set",
                            "tracker.iterations=3,3,3", speed=0.5)
    daemon.step(KEEP_FRAMES + 2)
    depth, raw = check_depth(daemon)
    check_cloud(daemon, depth, raw)
    check_refusals(daemon)
    check_posectl(daemon, depth)
    check_memory(daemon)
    daemon.stop()


harness.run(scenario)
