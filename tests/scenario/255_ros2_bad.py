# SPDX-License-Identifier: Apache-2.0
"""The source `ros2:` and publishers that are at fault (ros_bad_peer.py): what cannot be read is
refused with the topic's name and the reason; what goes wrong on the way is told of, and every other
image has its pose."""
import os
import subprocess

import harness
from harness import check, messages

TOPIC = "/bad/depth/image_raw"
DOMAIN = 10 + os.getpid() % 90
N_POSES = 60

# Fault -> what the log must say; the daemon ends with exit code 4.
REFUSED = {
    "type": [f"{TOPIC} is of type nav_msgs::msg::dds_::Odometry_, which is no image"],
    "encoding": ["no topic with depth images", f"{TOPIC} (", "rgb8"],
    "no_info": [f"no camera info for {TOPIC}", f"images of {TOPIC} are 96x64"],
    "size": [f"images of {TOPIC} are 96x64, but /bad/depth/camera_info is for 192x64"],
    "silent": [f"{TOPIC} has a publisher, but no image came within 10 s"],
}
# Fault -> what the log must say; the daemon goes on.
SURVIVED = {
    "none": [],
    "best_effort": [],
    "info": ["/bad/depth/camera_info: another calibration, from fx 80 fy 80"],
    "back": [f"{TOPIC}: an image's stamp is ", " before that of the one before it"],
    "second": [f"{TOPIC} has a second publisher, whose images are left out"],
    "short": [f"{TOPIC}: image "],
    "ends": [f"{TOPIC}: its publisher is gone, waiting for it", f"{TOPIC}: is back"],
    "ends_best_effort": [f"{TOPIC}: its publisher is gone, waiting for it", "best effort"],
}


class Peer:
    def __init__(self, python, fault):
        script = harness.SOURCE + "/tests/scenario/ros_bad_peer.py"
        self.process = subprocess.Popen([python, script, str(DOMAIN), fault],
                                        stdout=subprocess.PIPE, text=True)
        check(self.process.stdout.readline() == "ready\n", f"{fault}: the peer did not start")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()


def start(collect):
    return harness.Daemon("ros2:" + TOPIC, "--set", f"ros.domain={DOMAIN}", collect=collect)


def refused(python, fault, expected):
    with Peer(python, fault):
        daemon = start(False)
        daemon.wait(4)
    for text in expected:
        check(text in daemon.log(), f"{fault}: '{text}' is not in\n{daemon.log()}")
    print(f"{fault}: {[line for line in daemon.log().splitlines() if 'error' in line][-1]}")


def survived(python, fault, expected):
    with Peer(python, fault):
        daemon = start(True)
        daemon.wait_for(lambda: len(daemon.poses) >= N_POSES and
                        all(text in daemon.log() for text in expected), f"{fault}: {expected}")
        daemon.stop()
    poses = list(daemon.poses)
    check([p.seq for p in poses] == list(range(len(poses))), f"{fault}: a pose is missing")
    times = [p.timestamp.seconds * 10**9 + p.timestamp.nanos for p in poses]
    check(all(b > a for a, b in zip(times, times[1:])), f"{fault}: time does not grow")
    kinds = {e.kind for e in daemon.events}
    check((messages.Event.RECALIBRATED in kinds) == (fault == "info"), f"{fault}: RECALIBRATED")
    damaged = max(p.damaged_frames for p in poses)
    check(damaged == (fault == "short"), f"{fault}: {damaged} frames damaged")
    print(f"{fault}: {len(poses)} poses:", harness.count_states(poses))


def scenario():
    python = os.environ.get("POSED_PYTHON_ROS")
    if not python or subprocess.run([python, "-c", "import cyclonedds"],
                                    stderr=subprocess.DEVNULL).returncode:
        harness.skip("no cyclonedds from PyPI (POSED_PYTHON_ROS, see tools/test)")
    if "ros2" not in subprocess.run([harness.BINARY + "/bin/posed", "--help"], text=True,
                                    stdout=subprocess.PIPE).stdout:
        harness.skip("built without Cyclone DDS")
    for fault, expected in SURVIVED.items():
        survived(python, fault, expected)
    for fault, expected in REFUSED.items():
        refused(python, fault, expected)


harness.run(scenario)
