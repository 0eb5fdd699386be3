# SPDX-License-Identifier: Apache-2.0
"""An object that SearchPose has found is followed from frame to frame while it moves to and fro, on the
topic `object`; it is let go on request."""
import math
import os
import struct

import zmq

import harness
from harness import check, check_at_most, messages, requests
from stair import FOCAL, HEIGHT, WIDTH, depth_image, mesh, write_png

N_FRAMES = 16  # of one round, which ends where it began
N_MESSAGES = 20
SHIFT_LIMIT_M = 0.003
QUATERNION = (0.36 * math.sin(0.4), 0.48 * math.sin(0.4), 0.8 * math.sin(0.4), math.cos(0.4))


def position(frame):
    return (0.005 * math.sin(2 * math.pi * frame / N_FRAMES), -0.02, 0.7)


def write_recording(folder):
    os.makedirs(folder + "/depth")
    with open(folder + "/depth.txt", "w", encoding="ascii") as index:
        for frame in range(N_FRAMES):
            write_png(f"{folder}/depth/{frame}.png", depth_image(QUATERNION, position(frame)))
            index.write(f"{frame / 30:.6f} depth/{frame}.png\n")
    with open(folder + "/calibration.txt", "w", encoding="ascii") as file:
        file.write(f"{FOCAL} {FOCAL} {WIDTH / 2} {HEIGHT / 2}\n")


def scenario():
    folder = harness.SCRATCH + "/recording"
    write_recording(folder)
    daemon = harness.Daemon("tum:" + folder, "--loop", "--set", "camera.depth_scale=1000", "--set",
                            "tracker.iterations=3,3,3", speed=0.2)
    daemon.wait_for(lambda: daemon.poses, "first pose")
    vertices, triangles = mesh()
    added = daemon.request(_timeout_s=200, deadline_ms=190000, add_object=requests.AddObject(
        name="stair", vertices=b"".join(struct.pack("<3f", *v) for v in vertices),
        triangles=b"".join(struct.pack("<3I", *t) for t in triangles), n_views=2048))
    check(added.code == requests.OK, f"{added}")
    reply = daemon.request(stop_tracking=requests.StopTracking())
    check(reply.code == requests.FAILED_PRECONDITION, f"nothing is followed yet: {reply}")
    stream = daemon.socket(zmq.SUB, "pub", rcvtimeo=60000)
    stream.subscribe("object")
    reply = daemon.request(_timeout_s=100, deadline_ms=90000,
                           search_pose=requests.SearchPose(track=True))
    check(reply.code == requests.OK, f"{reply}")
    first = reply.search_pose.poses[0].pose.position
    shift = math.dist((first.x, first.y, first.z), position(reply.search_pose.frame_seq % N_FRAMES))
    check_at_most(shift, SHIFT_LIMIT_M, f"found in frame {reply.search_pose.frame_seq}: distance [m]")
    n_seen = 0
    for _ in range(N_MESSAGES):
        found = messages.ObjectPose.FromString(stream.recv_multipart()[1])
        check(found.object == "stair" and found.seq > reply.search_pose.frame_seq, f"{found}")
        if found.lost:
            continue
        n_seen += 1
        # Rounds follow each other without a gap, so the frame's place in the round is known.
        p = found.pose.position
        shift = math.dist((p.x, p.y, p.z), position(found.seq % N_FRAMES))
        check_at_most(shift, SHIFT_LIMIT_M, f"frame {found.seq}: distance [m]")
    check(n_seen >= N_MESSAGES * 3 // 4, f"seen in {n_seen} of {N_MESSAGES} messages")
    reply = daemon.request(_timeout_s=60, stop_tracking=requests.StopTracking())
    check(reply.code == requests.OK, f"{reply}")
    while stream.poll(1500):
        stream.recv_multipart()
    check(not stream.poll(1000), "it is let go")
    daemon.stop()


harness.run(scenario)
