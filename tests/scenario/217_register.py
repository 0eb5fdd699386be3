# SPDX-License-Identifier: Apache-2.0
"""Register on request: a known transform is found, by points and by frames; bad input is named; a
running registration can be cancelled and disturbs no pose message."""
import json
import math
import os
import subprocess

import zmq

import harness
from bumpy import moved, packed, shape
from harness import MAGIC, check, check_at_most, requests

N_POINTS = 800
ROTATION_LIMIT_DEG = 0.1
TRANSLATION_LIMIT_M = 1e-3


def register(daemon, source, target, **more):
    return daemon.request(_timeout_s=120, deadline_ms=100000, register_sets=requests.Register(
        source=requests.PointSet(points=packed(source)),
        target=requests.PointSet(points=packed(target)), **more))


def check_pose(pose, quaternion, translation):
    q = (pose.orientation.x, pose.orientation.y, pose.orientation.z, pose.orientation.w)
    dot = abs(sum(a * b for a, b in zip(q, quaternion)))
    check_at_most(math.degrees(2 * math.acos(min(1, dot))), ROTATION_LIMIT_DEG, "rotation [deg]")
    p = (pose.position.x, pose.position.y, pose.position.z)
    check_at_most(math.dist(p, translation), TRANSLATION_LIMIT_M, "translation [m]")


def check_bad_input(daemon, points):
    good = packed(points)
    nan = packed([(float("nan"), 0, 0)] + points[1:])
    for source, target, field in ((good[:-1], good, "source.points"), (b"", good, "source"),
                                  (good, good[:24], "target"), (nan, good, "source")):
        reply = daemon.request(register_sets=requests.Register(
            source=requests.PointSet(points=source), target=requests.PointSet(points=target)))
        check(reply.code == requests.INVALID_ARGUMENT, f"{field}: {reply}")
        check(reply.field.startswith("register_sets." + field), f"{field}: {reply}")
    line = packed([(i, 0, 0) for i in range(100)])
    reply = daemon.request(register_sets=requests.Register(
        source=requests.PointSet(points=line), target=requests.PointSet(points=good)))
    check(reply.code == requests.INVALID_ARGUMENT, f"a line: {reply}")
    reply = daemon.request(register_sets=requests.Register(
        source=requests.PointSet(points=good), target=requests.PointSet(frame_seq=10**9)))
    check(reply.code == requests.NOT_FOUND and reply.field == "register_sets.target.frame_seq",
          f"a frame that is not kept: {reply}")
    reply = register(daemon, points, points, slack=-1)
    check(reply.field == "register_sets.slack", f"slack: {reply}")
    reply = daemon.request(register_sets=requests.Register(
        source=requests.PointSet(points=packed(points) * 300),
        target=requests.PointSet(points=good)))
    check(reply.field == "register_sets.source.points" and "max_points" in reply.message,
          f"too many points: {reply.message}")


def check_cancel(daemon, points):
    client = daemon.socket(zmq.DEALER, "req")
    long = requests.Register(source=requests.PointSet(points=packed(points * 5)),
                             target=requests.PointSet(points=packed(points * 5)),
                             start=requests.Register.MANY, n_starts=100000)
    client.send(MAGIC + requests.Request(id=7, deadline_ms=200000, register_sets=long)
                .SerializeToString())
    client.send(MAGIC + requests.Request(id=8, cancel=requests.Cancel(id=99)).SerializeToString())
    replies = {}

    def read():
        check(client.poll(60000), f"a reply after {list(replies)}")
        reply = requests.Reply.FromString(client.recv()[len(MAGIC):])
        replies[reply.id] = reply

    read()
    check(replies[8].code == requests.NOT_FOUND, f"cancel of nothing: {replies}")
    # A stranger's Cancel does not reach it.
    reply = daemon.request(cancel=requests.Cancel(id=7))
    check(reply.code == requests.NOT_FOUND, f"cancel by another client: {reply}")
    client.send(MAGIC + requests.Request(id=9, cancel=requests.Cancel(id=7)).SerializeToString())
    read()
    read()
    check(replies[9].code == requests.OK, f"cancel: {replies}")
    check(replies[7].code == requests.CANCELLED, f"the cancelled one: {replies[7].code}")


def check_endings(files):
    """A file is what its name says; a name that promises something else is refused at once."""
    aligned = harness.SCRATCH + "/aligned"
    starts = {".ply": b"ply\n", ".pcd": b"# .PCD", ".PCD": b"# .PCD", "": b"ply\n"}
    for ending, first in starts.items():
        command = [harness.BINARY + "/bin/posectl", "register", "--local", "--aligned",
                   aligned + ending, *files]
        done = subprocess.run(command, capture_output=True, text=True, timeout=120)
        check(done.returncode == 0, f"aligned{ending}: {done.stderr}")
        with open(aligned + ending, "rb") as file:
            check(file.read(len(first)) == first, f"aligned{ending}")
    for program, *arguments in (("posectl", "register", "--local", "--aligned", "x.obj"),
                                ("posectl", "register", "--local", "--picture", "x.jpg"),
                                ("posectl", "search", "--plot", "x.jpg"),
                                ("posectl", "map", "export", "x.pcd"),
                                ("posed", "--source", "synth:room", "--map", "x.pcd"),
                                ("posed-eval", "--plot", "x.pdf")):
        done = subprocess.run([f"{harness.BINARY}/bin/{program}", *arguments], text=True,
                              capture_output=True, timeout=120, cwd=harness.SCRATCH)
        check(done.returncode != 0 and f"{arguments[-1]}: " in done.stderr
              and "written as ." in done.stderr, f"{program} {arguments}: {done}")
        check(not os.path.exists(f"{harness.SCRATCH}/{arguments[-1]}"), f"{arguments}: a file")
    nowhere = harness.SCRATCH + "/nowhere/map.ply"  # said before the session, not after it
    done = subprocess.run([f"{harness.BINARY}/bin/posed", "--source", "synth:room", "--loop",
                           "--no-tcp", "--run-dir", harness.SCRATCH + "/map-run", "--map",
                           nowhere, "--set", "http.port=0"], text=True, capture_output=True,
                          timeout=120)
    check(done.returncode != 0 and
          f"{nowhere}: No such file or directory (output.map)" in done.stderr, f"{done}")


def scenario():
    points = shape(N_POINTS)
    half = math.radians(20) / 2
    quaternion = (0, math.sin(half) * 0.6, math.sin(half) * 0.8, math.cos(half))
    translation = (0.05, -0.02, 0.03)
    target = moved(points, quaternion, translation)
    daemon = harness.Daemon("synth:room-straight", "--loop", "--set", "tracker.iterations=3,3,3",
                            "--set", "requests.keep_frames=300", speed=1)
    daemon.wait_for(lambda: len(daemon.poses) > 3, "poses")
    for method in (requests.Register.EMICP, requests.Register.SOFTASSIGN, requests.Register.ICP,
                   requests.Register.GICP):
        reply = register(daemon, points, target, method=method)
        check(reply.code == requests.OK, f"method {method}: {reply}")
        print("method", method)
        check_pose(reply.register_sets.pose, quaternion, translation)
    check_bad_input(daemon, points)
    check_cancel(daemon, points)

    # Two frames by number: one against itself is the identity.
    seq = daemon.poses[-1].seq
    daemon.wait_for(lambda: daemon.poses[-1].seq > seq, "the frame is kept")
    frame = requests.PointSet(frame_seq=seq, stride=16)
    reply = daemon.request(_timeout_s=120, deadline_ms=100000, register_sets=requests.Register(
        source=frame, target=frame, method=requests.Register.ICP))
    check(reply.code in (requests.OK, requests.NOT_FOUND), f"a frame with itself: {reply}")
    if reply.code == requests.OK:  # a frame that was dropped is not kept
        check_pose(reply.register_sets.pose, (0, 0, 0, 1), (0, 0, 0))

    for name, rows in (("a", points), ("b", target)):
        with open(f"{harness.SCRATCH}/{name}.xyz", "w", encoding="ascii") as file:
            file.writelines(f"{x:.9g} {y:.9g} {z:.9g}\n" for x, y, z in rows)
    files = [harness.SCRATCH + "/a.xyz", harness.SCRATCH + "/b.xyz"]
    results = []
    for where in (("--endpoint", daemon.folder), ("--local", "--backend", harness.BACKEND)):
        command = [harness.BINARY + "/bin/posectl", "register", "-o", "json", "--picture",
                   harness.SCRATCH + "/p.png", *where, *files]
        done = subprocess.run(command, capture_output=True, text=True, timeout=120)
        check(done.returncode == 0, f"posectl register: {done.stderr}")
        results.append(json.loads(done.stdout)["T_target_source"])
        with open(harness.SCRATCH + "/p.png", "rb") as file:
            check(file.read(4) == b"\x89PNG", "the picture")
    # One went through a message, so that its last digit may differ.
    a, b = (sum(pose.values(), []) for pose in results)
    check(math.dist(a, b) < 1e-12, f"the daemon's result is the local one: {results}")
    done = subprocess.run([harness.BINARY + "/bin/posectl", "register", "--endpoint", daemon.folder,
                           "--backend", "cpu", *files], capture_output=True, text=True, timeout=120)
    check(done.returncode == 2 and "--backend is for --local" in done.stderr, f"--backend: {done}")
    check_endings(files)
    daemon.stop()
    harness.check_poses(daemon.poses, len(daemon.poses))


harness.run(scenario)
