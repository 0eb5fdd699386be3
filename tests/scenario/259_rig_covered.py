# SPDX-License-Identifier: Apache-2.0
"""A rig of two cameras: one pose of both on topic `rig`, at the first one's stamps. The first is
covered for 3 s while the rig moves on: no pose of the rig is LOST, none jumps, and the way is as
good as one camera's. At the end the rig's trajectory follows the keyframes of both cameras.

usage: 259_rig_covered.py [SENSOR [FRAMES [SEED...]]]    prints the error of the rig and of each
camera, as they were published and as their keyframes finally lie; nothing covered"""
import math
import sys

import zmq

import harness
from harness import check, check_at_most, messages

MOUNT = (0.20, 0.03, -0.05, 10.0, -25.0, 5.0)
ON_THE_SIDE = "mount=" + ":".join(f"{x:g}" for x in MOUNT)
N_FRAMES, COVERED = 140, range(30, 120)
STEP_LIMIT_M = 0.003  # of two frames, beyond the true one: three times what noise makes of a step
ATE_LIMIT_M = 0.002   # one camera alone has 0.5 mm here, which another sensor's noise may double


def place(folder):
    """What posectl rig calibrate would write, without its error."""
    angle = math.radians(math.hypot(*MOUNT[3:]))
    axis = [math.radians(x) / angle * math.sin(angle / 2) for x in MOUNT[3:]]
    path = folder + "/rig.txt"
    with open(path, "w") as file:
        file.write("# A\n# B\n" + " ".join(f"{x:.9g}" for x in
                                           (*MOUNT[:3], *axis, math.cos(angle / 2))) + "\n")
    return path


def start(sensor, frames, seed, cover="", *options):
    path = f"{harness.SCRATCH}/rig-{seed}.conf"
    scene = f"synth:room,sensor={sensor},frames={frames}"
    with open(path, "w") as file:
        file.write(f"[camera front]\nsource = {scene},camera={seed}1,seed={seed}1{cover}\n"
                   f"[camera side]\nsource = {scene},camera={seed}2,seed={seed}2,{ON_THE_SIDE}\n"
                   f"rig = {place(harness.SCRATCH)}\n")
    return harness.Daemon(None, "-c", path, *options, collect=False)


def ate_m(daemon, name, truth):
    path = daemon.trajectory.replace(".txt", f"-{name}.txt")
    return harness.evaluate(truth, path)["ate_m"]["rmse"]


def scenario():
    daemon = start("kind", N_FRAMES, 1, f",cover={COVERED.start}:{len(COVERED)}", "--set",
                   "publish.wait_subscriber_s=30")
    socket = daemon.socket(zmq.SUB, "pub", rcvhwm=0, reconnect_ivl=10, rcvtimeo=60000)
    for topic in ("rig", "pose"):
        socket.subscribe(topic)
    seen = {"rig": [], "pose/front": [], "pose/side": []}
    while min(map(len, seen.values())) < N_FRAMES:
        topic, data = socket.recv_multipart()
        seen[topic.decode()].append(messages.Odometry.FromString(data))
    daemon.wait()
    rig, front = seen["rig"], seen["pose/front"]
    harness.check_poses(rig, N_FRAMES)
    check([p.timestamp for p in rig] == [p.timestamp for p in front], "not the first one's stamps")
    check((rig[0].frame_id, rig[0].body_frame_id) == ("rig/odom", "front/camera"), f"{rig[0]}")
    lost = [p.seq for p in front if harness.state_name(p) == "LOST"]
    check(set(COVERED) <= set(lost), f"the cover does not cover: {lost}")
    states = harness.count_states(rig)
    check(states == {"INIT": 1, "TRACKING": N_FRAMES - 1}, f"states of the rig: {states}")
    check(rig[-1].map_epoch == 0, f"epoch {rig[-1].map_epoch} of the rig")
    check(rig[60].reason_text == "1 of 2 cameras" and not rig[10].reason_text, "who is used")
    check(all(p.HasField("map_from_odom") for p in rig), "no map of the rig")
    check("keyframes of 2 cameras adjusted together" in daemon.log(), daemon.log())
    check(rig[-1].pose_covariance[0] > rig[10].pose_covariance[0] > 0, "covariance does not grow")
    truth = harness.truth_of("room", N_FRAMES)
    true_way = harness.read_trajectory(truth)
    for i in range(1, N_FRAMES):
        step = math.dist(true_way[i][1:4], true_way[i - 1][1:4])
        check_at_most(abs(harness.distance_m(rig[i], rig[i - 1]) - step), STEP_LIMIT_M,
                      f"frame {i}: step")
    check_at_most(ate_m(daemon, "rig", truth), ATE_LIMIT_M, "ATE of the rig [m]")


def measure(sensor, frames, seeds):
    truths = {"rig": harness.truth_of("room", frames), "front": harness.truth_of("room", frames),
              "side": harness.truth_of("room," + ON_THE_SIDE, frames)}
    for seed in seeds:
        for poses in "published", "adjusted":
            daemon = start(sensor, frames, seed, "", "--set", "output.trajectory_poses=" + poses)
            daemon.wait()
            mm = {name: ate_m(daemon, name, truth) * 1e3 for name, truth in truths.items()}
            print(f"{sensor}, {frames} frames, seed {seed}, {poses}: rig {mm['rig']:.1f} mm, "
                  f"cameras {mm['front']:.1f} {mm['side']:.1f} mm, "
                  f"{mm['rig'] / min(mm['front'], mm['side']):.2f} of the better", flush=True)


if sys.argv[1:]:
    harness.run(lambda: measure(sys.argv[1], int((sys.argv + ["450"])[2]),
                                [int(s) for s in sys.argv[3:]] or [1, 2, 3]))
else:
    harness.run(scenario)
