# SPDX-License-Identifier: Apache-2.0
"""An object that SearchPose has found is followed from frame to frame while it moves briskly to and
fro, on the topic `object`; where it is out of sight that is said, and it is found again; it is let
go on request. All by posectl."""
import json
import math
import os
import subprocess

import zmq

import harness
from harness import check, check_at_most, messages, requests
from stair import FOCAL, HEIGHT, WIDTH, depth_image, write_mesh, write_png

N_FRAMES = 16  # of one round, which ends where it began: up to 23 mm from frame to frame
GONE = (9, 10)  # frames of a round that show only the background
N_MESSAGES = 24
SHIFT_LIMIT_M = 0.003
QUATERNION = (0.36 * math.sin(0.4), 0.48 * math.sin(0.4), 0.8 * math.sin(0.4), math.cos(0.4))


def position(frame):
    return (0.06 * math.sin(2 * math.pi * frame / N_FRAMES), -0.02, 0.7)


def write_recording(folder):
    os.makedirs(folder + "/depth")
    with open(folder + "/depth.txt", "w", encoding="ascii") as index:
        for frame in range(N_FRAMES):
            where = (0, 0, 1000) if frame in GONE else position(frame)
            write_png(f"{folder}/depth/{frame}.png", depth_image(QUATERNION, where))
            index.write(f"{frame / 30:.6f} depth/{frame}.png\n")
    with open(folder + "/calibration.txt", "w", encoding="ascii") as file:
        file.write(f"{FOCAL} {FOCAL} {WIDTH / 2} {HEIGHT / 2}\n")


def ctl(daemon, code, *arguments):
    command = [harness.BINARY + "/bin/posectl", *arguments, "--endpoint", daemon.folder]
    done = subprocess.run(command, capture_output=True, text=True, timeout=200)
    check(done.returncode == code, f"{arguments}: {done.returncode} {done.stdout} {done.stderr}")
    return done


def scenario():
    folder = harness.SCRATCH + "/recording"
    write_recording(folder)
    daemon = harness.Daemon("tum:" + folder, "--loop", "--set", "camera.depth_scale=1000", "--set",
                            "tracker.iterations=3,3,3", speed=0.2)
    daemon.wait_for(lambda: daemon.poses, "first pose")
    model = harness.SCRATCH + "/stair.ply"
    write_mesh(model)
    flat = harness.SCRATCH + "/points.ply"
    with open(flat, "w", encoding="ascii") as file:
        file.write("ply\nformat ascii 1.0\nelement vertex 3\nproperty float x\nproperty float y\n"
                   "property float z\nelement face 1\nproperty list uchar int vertex_indices\n"
                   "end_header\n0 0 0\n1 0 0\n2 0 0\n3 0 1 2\n")
    check(flat + ": no object" in ctl(daemon, 1, "object", "add", "flat", flat).stderr, "the file")
    for option in (("--objects", folder), ("--backend", "cpu")):
        done = ctl(daemon, 2, "object", "add", "stair", model, *option)
        check("--local" in done.stderr, f"{option} without --local: {done.stderr}")
    ctl(daemon, 0, "object", "add", "stair", model)
    check("stair" in ctl(daemon, 0, "object", "list").stdout, "posectl object list")
    listed = json.loads(ctl(daemon, 0, "object", "list", "-o", "json").stdout)["objects"]
    check([o["name"] for o in listed] == ["stair"], f"posectl object list -o json: {listed}")
    empty = harness.SCRATCH + "/nothing"
    listed = json.loads(ctl(daemon, 0, "object", "list", "--local", "--objects", empty, "-o",
                            "json").stdout)
    check(listed == {"objects": []}, f"an empty list: {listed}")
    reply = daemon.request(stop_tracking=requests.StopTracking())
    check(reply.code == requests.FAILED_PRECONDITION, f"nothing is followed yet: {reply}")
    stream = daemon.socket(zmq.SUB, "pub", rcvtimeo=60000)
    stream.subscribe("object")
    daemon.step(1)
    while daemon.poses[-1].seq % N_FRAMES in GONE:  # the newest frame is searched
        daemon.step(1)
    ctl(daemon, 0, "search", "--object", "stair", "--track", "--timeout", "90")
    ctl(daemon, 0, "replay", "resume")
    n_seen = 0
    for _ in range(N_MESSAGES):
        found = messages.ObjectPose.FromString(stream.recv_multipart()[1])
        check(found.object == "stair" and found.seq > 0, f"{found}")
        if found.seq % N_FRAMES in GONE:
            check(found.lost, f"frame {found.seq}: there is no object")
        if found.lost:
            continue
        n_seen += 1
        # Rounds follow each other without a gap, so the frame's place in the round is known.
        p = found.pose.position
        shift = math.dist((p.x, p.y, p.z), position(found.seq % N_FRAMES))
        check_at_most(shift, SHIFT_LIMIT_M, f"frame {found.seq}: distance [m]")
    check(n_seen >= N_MESSAGES * 2 // 3, f"seen in {n_seen} of {N_MESSAGES} messages")
    lines = ctl(daemon, 0, "watch", "object", "-n", "4", "-o", "json").stdout.splitlines()
    watched = [o for o in map(json.loads, lines) if not o["lost"]]
    check(len(lines) == 4 and watched, f"posectl watch object: {lines}")
    for o in watched:
        check(o["topic"] == "object" and o["object"] == "stair", f"posectl watch object: {o}")
        shift = math.dist(o["T_camera_object"]["position_m"], position(o["seq"] % N_FRAMES))
        check_at_most(shift, SHIFT_LIMIT_M, f"posectl watch: frame {o['seq']}: distance [m]")
    done = ctl(daemon, 0, "watch", "object", "-n", "1")
    check("stair, confidence" in done.stdout, f"posectl watch object: {done.stdout}")
    reply = daemon.request(_timeout_s=60, stop_tracking=requests.StopTracking())
    check(reply.code == requests.OK, f"{reply}")
    while stream.poll(1500):
        stream.recv_multipart()
    check(not stream.poll(1000), "it is let go")
    daemon.stop()


harness.run(scenario)
