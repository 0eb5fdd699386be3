# SPDX-License-Identifier: Apache-2.0
"""One daemon with several cameras: topics and files by name, poses byte for byte those of a daemon
with that camera alone, requests by camera, one that ends leaves the others going, and a
configuration that cannot be is refused with its place."""
import os
import subprocess
import time

import zmq

import harness
from harness import BINARY, check, check_at_most, messages, requests

STOP_S = 0.5
SHORT, LONG = 25, 40  # frames
SOURCES = {"left": f"synth:room,frames={SHORT}", "right": f"synth:room,seed=4,frames={LONG}",
           "back": f"synth:room-rotation,seed=5,frames={LONG}"}


def configuration(text):
    path = f"{harness.SCRATCH}/posed-{len(os.listdir(harness.SCRATCH))}.conf"
    with open(path, "w") as file:
        file.write(text)
    return path


def sections(sources):
    return "".join(f"[camera {name}]\nsource = {source}\n" for name, source in sources.items())


def several(text, *options, speed="max", wait_s=30):
    return harness.Daemon(None, "-c", configuration(text), *options, "--set",
                          f"publish.wait_subscriber_s={wait_s}", speed=speed, collect=False)


def collect(daemon, until):
    """Messages by topic, up to `until` of them."""
    socket = daemon.socket(zmq.SUB, "pub", rcvhwm=0, reconnect_ivl=10, rcvtimeo=60000)
    socket.subscribe("")
    seen = {}
    while not until(seen):
        topic, data = socket.recv_multipart()
        seen.setdefault(topic.decode(), []).append(data)
    socket.close()
    return seen


def poses(seen, name):
    return [messages.Odometry.FromString(data) for data in seen[f"pose/{name}"]]


def same_pose(one, other):
    """All of a pose that does not tell the time of day, or is a name."""
    for pose in (one, other):
        for field in ("session", "capture_monotonic_ns", "publish_monotonic_ns", "stages",
                      "frame_id", "body_frame_id"):
            pose.ClearField(field)
    return one.SerializeToString() == other.SerializeToString()


def check_alone():
    """Every topic by name, every pose as of one camera alone."""
    daemon = several(sections(SOURCES), "--set", "gpu.threads=1")
    seen = collect(daemon, lambda s: len(s.get("pose/right", ())) == LONG and
                   len(s.get("pose/back", ())) == LONG)
    daemon.wait()
    names = {topic.split("/")[0] for topic in seen if "/" in topic}
    check({"pose", "tf", "calib", "status", "timing", "event"} <= names, f"{sorted(seen)}")
    check(not {"pose", "tf", "status"} & set(seen), f"topics without a name: {sorted(seen)}")
    for name, source in SOURCES.items():
        alone = harness.Daemon(source, "--set", "gpu.threads=1")
        alone.wait()
        ours = poses(seen, name)
        check(len(ours) == len(alone.poses), f"{name}: {len(ours)} poses")
        check((ours[0].frame_id, ours[0].body_frame_id) == (f"{name}/odom", f"{name}/camera"),
              f"{name}: frames {ours[0].frame_id}, {ours[0].body_frame_id}")
        for a, b in zip(ours, alone.poses):
            check(same_pose(a, b), f"{name}, frame {a.seq}: another pose than alone")
        path = daemon.trajectory.replace(".txt", f"-{name}.txt")
        with open(path, "rb") as file:
            check(file.read() == alone.trajectory_bytes(), f"{path}: other bytes than alone")
    for name in SOURCES:
        status = messages.Status.FromString(seen[f"status/{name}"][-1])
        check((status.camera, list(status.cameras)) == (name, list(SOURCES)), f"{status}")


def posectl(daemon, *arguments):
    return subprocess.run([BINARY + "/bin/posectl", *arguments, "--host", daemon.folder],
                          capture_output=True, text=True)


def check_quiet(daemon):
    """Why nothing comes is said once of each camera, and not of topics that are rare."""
    run = posectl(daemon, "replay", "pause", "--camera", "right")
    check(run.returncode == 0, run.stderr)
    topics = (("pose",), ("event", "log"), ("rig",), ("imu",))
    poses_, rare, rig, imu = (subprocess.Popen([BINARY + "/bin/posectl", "watch", *names,
                                                "--timeout", "4", "--host", daemon.folder],
                                               stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                               text=True) for names in topics)
    said = poses_.communicate(timeout=harness.PATIENCE_S)[1]
    for wanted in ("no message of topic pose of camera right comes: the recording is paused",
                   "no message of topic pose of camera left comes: "):
        check(said.count(wanted) == 1, said)
    said = rare.communicate(timeout=harness.PATIENCE_S)[1]
    check(" comes: " not in said and "came in 4 s" in said, said)
    said = rig.communicate(timeout=harness.PATIENCE_S)[1]
    check(said.count("no message of topic rig comes: a rig has rig = FILE") == 1, said)
    said = imu.communicate(timeout=harness.PATIENCE_S)[1]
    check(said.count("of topic imu of camera left comes: imu is of a live camera") == 1, said)


def check_requests():
    """The first ends, the second goes on; each answers for itself."""
    text = sections({"left": SOURCES["left"], "right": "synth:room,seed=4"})
    daemon = several(text + "loop = yes\n", "--set", "tracker.iterations=2,2,2", wait_s=0, speed=1)
    daemon.wait_for(lambda: "left: the recording has ended" in daemon.log(), "left has ended")

    def captured(camera):
        reply = daemon.request(get_status=requests.GetStatus(), camera=camera)
        check(reply.code == requests.OK, reply.message)
        return reply.get_status

    check(captured("").camera == "left" and captured("right").camera == "right", "status by camera")
    check(captured("left").captured_frames == SHORT, "left: frames")
    check(captured("left").reason_text == "the recording has ended", captured("left").reason_text)
    before = captured("right").captured_frames
    daemon.wait_for(lambda: captured("right").captured_frames > before + 5, "right goes on")
    check(captured("left").captured_frames == SHORT, "left has ended")
    reply = daemon.request(reset=requests.Reset(), camera="right")
    check(reply.code == requests.OK and reply.reset.next_seq > SHORT // 2, f"reset: {reply}")
    reply = daemon.request(reset=requests.Reset(), camera="left")
    check((reply.code, reply.message) == (requests.UNAVAILABLE, "the camera has ended"), f"{reply}")
    reply = daemon.request(ping=requests.Ping(payload=3), camera="top")
    check((reply.code, reply.field) == (requests.NOT_FOUND, "camera") and
          "left, right" in reply.message, f"{reply}")
    run = posectl(daemon, "status", "--camera", "right")
    check(run.returncode == 0 and "right (this one)" in run.stdout and "seed 4" in run.stdout,
          run.stdout + run.stderr)
    run = posectl(daemon, "watch", "-n", "3", "--camera", "right", "-o", "json")
    check(run.stdout.count('"topic":"pose/right"') == 3, run.stdout + run.stderr)
    run = posectl(daemon, "status", "--camera", "top")
    check(run.returncode == 1 and "left, right" in run.stderr, run.stderr)
    run = posectl(daemon, "watch", "--camera", "top")
    check(run.returncode == 1 and "left, right" in run.stderr, run.stderr)
    late = daemon.socket(zmq.SUB, "pub", rcvtimeo=20000)
    late.subscribe("status/left")  # also of a camera that has ended
    status = messages.Status.FromString(late.recv_multipart()[1])
    check(status.state == messages.STATE_NO_INPUT, f"{status}")
    check_quiet(daemon)
    begin = time.monotonic()
    daemon.stop()
    if not harness.is_sanitized():
        check_at_most(time.monotonic() - begin, STOP_S, "until the daemon has stopped [s]")


BAD = (
    ("[camera a]\nsource = synth:room\n[camera a]\nsource = synth:room\n",
     (":3: [camera a] is there already: ", ".conf:1")),
    ("[camera cam1]\nsource = synth:room\n[camera cam10]\nsource = synth:room\n",
     (":3: [camera cam10] and [camera cam1]", "beginning of the other")),
    ("[camera a/b]\nsource = synth:room\n", (":1: [camera a/b]: a name of 1 to 16",)),
    ("[camera a]\nspeed = max\n", (":1: [camera a] has no source",)),
    ("[camera a]\nsource = synth:room\nhistory = 3\n", (":3: camera a.history: a camera's own",)),
    ("[camera a]\nsource = synth:room\nstep = 0\n", (":3: camera a.step: 0 is outside",)),
    ("[camera a]\nsource = synth:room\nfx = 0.1\n", (":3: camera a.fx: 0.1 is neither 0",)),
    ("[capture]\nsource = synth:room\n[camera a]\nsource = synth:room\n",
     (".conf:2: capture.source beside [camera a]",)),
    ("".join(f"[camera c{i:02}]\nsource = synth:room\n" for i in range(17)),
     (":33: [camera c16]: more than 16 cameras",)),
)


def check_refused():
    for text, wanted in BAD:
        run = subprocess.run([BINARY + "/bin/posed", "--check-config", "-c", configuration(text)],
                             capture_output=True, text=True)
        check(run.returncode == 3, f"{text}: exit code {run.returncode}")
        for part in wanted:
            check(part in run.stderr, f"{text}: no \"{part}\" in {run.stderr}")
    path = configuration(sections({"left": "synth:room", "right": "tum:/nowhere"}))
    run = subprocess.run([BINARY + "/bin/posed", "-c", path, "--no-tcp", "--run-dir",
                          harness.SCRATCH, "--set", "http.port=0"], capture_output=True, text=True)
    check(run.returncode == 4 and "right: " in run.stderr, run.stderr)


def scenario():
    check_refused()
    check_alone()
    check_requests()


harness.run(scenario)
