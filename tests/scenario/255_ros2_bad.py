# SPDX-License-Identifier: Apache-2.0
"""The source `ros2:` and publishers that are at fault (ros_bad_peer.py): what cannot be read is
refused with the topic's name and the reason; what goes wrong on the way is told of, and every other
image has its pose."""
import http.client
import os
import re
import socket
import struct
import subprocess
import time

import harness
from harness import check, messages, requests

TOPIC = "/bad/depth/image_raw"
DOMAIN = 10 + os.getpid() % 90
N_POSES = 60
DAMAGED = {"short": (10, 10), "back": (1, 1), "spike": (1, 1), "step": (15, 40),
           "begins_unstamped": (1, 1), "resized": (30, 999), "repainted": (30, 999)}
SECOND_SAID = "has a second publisher, whose images and camera infos are left out"
SECOND = ("second", "heir", "second_camera", "info_twice")
NEW_CLOCK = ("step", "ends_earlier")
N_COUNTED = 60        # images that ros_bad_peer.py's `counted` sends
LATE_LIMIT = 5        # a busy machine that starts; 12 of the reader's 16 at once would be
SUCCESSOR_LIMIT_S = 2 # from its first image to the first that is taken; DDS's lease is 10 s

# Fault -> what the log must say; the daemon ends with exit code 4.
REFUSED = {
    "type": [f"{TOPIC} is of type nav_msgs/msg/Odometry, which is no image (sensor_msgs/msg/Image"],
    "encoding": [f"{TOPIC} (sensor_msgs/msg/Image) is no depth: its images are rgb8; taken are "
                 "16UC1, mono16, 32FC1, and these as compressedDepth"],
    "hand_made": ["its images are 16uc1; taken are 16UC1, mono16, 32FC1, ",
                  "; did you mean 16UC1? "],
    "no_info": ["the intrinsics would be of /bad/depth/camera_info: nobody published it within "
                "3 s; topics with camera infos: none", f"no camera info for {TOPIC}",
                f"images of {TOPIC} are 96x64"],
    "size": [f"images of {TOPIC} are 96x64, but /bad/depth/camera_info is for 192x64; give the "
             "intrinsics of such images with --set camera.fx=... (fy, cx, cy) or -c FILE"],
    "picture": [f"nobody publishes {TOPIC} on ", f", did you mean ros2:{TOPIC}/compressed?; topics "
                f"with images: {TOPIC}/compressed"],
    "packed_empty": [f"{TOPIC}/compressedDepth: its first image cannot be read (its PNG is empty)",
                     f"{TOPIC}/compressedDepth has a publisher, but no image that can be read came "
                     "within 10 s"],
    "silent": [f"{TOPIC} has a publisher, but no image came within 10 s"],
}
# Fault -> what the log must say; the daemon goes on.
SURVIVED = {
    "none": [],
    "best_effort": [],
    "info": ["/bad/depth/camera_info: another calibration, from fx 80 fy 80"],
    "info_drifts": [],
    "info_flaps": ["/bad/depth/camera_info: the calibration changes again and again: that of fx "
                   "90 fy 80 cx 47.5 cy 31.5, 96x64 stays until one has been the same for 10 s"],
    "back": [f"{TOPIC}: an image's stamp is ", " before that of the one before it"],
    "second": [f"{TOPIC} {SECOND_SAID}"],
    "heir": [f"{TOPIC} {SECOND_SAID}", f"{TOPIC}: its publisher has ended: its images come from "
             "another publisher now ("],
    "second_camera": [f"{TOPIC} {SECOND_SAID}"],
    "info_elsewhere": [f"the camera info of {TOPIC} is /bad/depth/camera_info"],
    "info_twice": ["/bad/depth/camera_info has a second publisher, which is not that of the "
                   "images"],
    "packed": [f"nobody publishes {TOPIC} itself, but {TOPIC}/compressedDepth: that is taken"],
    "packed_late": [f"{TOPIC}/compressedDepth: its first image cannot be read (its PNG is empty): "
                    "one that can be is waited for"],
    "repainted": [f"{TOPIC}: image ", ": not a depth image (16UC1, ", ", but rgb8; such are left"],
    "resized": [f"{TOPIC}: an image is 96x32, the first one was 96x64; such are left out"],
    "sizeless": [f"{TOPIC}: its first image cannot be read (no camera has its size): one that can "
                 "be is waited for"],
    "short": [f"{TOPIC}: image ", "(16UC1, 96x64: 64 rows of 192 bytes are 12288; it has a step of "
              "192 and 6144 bytes); such are left out, counted as damaged"],
    "spike": [f"{TOPIC}: an image's stamp is 3600.", " after that of the one before it"],
    "step": [f"{TOPIC}: an image's stamp is ", f"{TOPIC}: the stamps of its publisher are 99",
             "the images' clock was set: reset"],
    "unstamped": [f"{TOPIC}: an image without a stamp, which others have: such are given the time"],
    "begins_unstamped": [f"{TOPIC}: the first image has no stamp, which the next one has: it is "
                         "left out"],
    "no_stamps": [f"{TOPIC}: its images have no stamps: they are given the times of their arrival"],
    "ends_earlier": [f"{TOPIC}: is back", f"{TOPIC}: the stamps of a new publisher are 499"],
    "ends": [f"{TOPIC}: its publisher is gone, waiting for it", f"{TOPIC}: is back"],
    "ends_best_effort": [f"{TOPIC}: its publisher is gone, waiting for it", "best effort"],
}


class Peer:
    def __init__(self, python, fault, *folder, environment=None):
        script = harness.SOURCE + "/tests/scenario/ros_bad_peer.py"
        self.process = subprocess.Popen([python, script, str(DOMAIN), fault, *folder],
                                        stdout=subprocess.PIPE, text=True,
                                        env={**os.environ, **(environment or {})})
        check(self.process.stdout.readline() == "ready\n", f"{fault}: the peer did not start")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()


def start(collect, *options):
    return harness.Daemon("ros2:" + TOPIC, "--set", f"ros.domain={DOMAIN}", *options,
                          collect=collect)


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
        fx = daemon.request(get_calibration=requests.GetCalibration()).get_calibration.K[0]
        is_other = fault in ("info", "info_elsewhere", "info_flaps")
        check(abs(fx - (90 if is_other else 80)) < 1e-3, f"{fault}: fx {fx}")
        daemon.stop()
    poses = list(daemon.poses)
    check([p.seq for p in poses] == list(range(len(poses))), f"{fault}: a pose is missing")
    times = [p.timestamp.seconds * 10**9 + p.timestamp.nanos for p in poses]
    back = [i for i in range(1, len(times)) if times[i] <= times[i - 1]]
    check(len(back) == (fault in NEW_CLOCK), f"{fault}: time does not grow at {back}")
    check(all(poses[i].map_epoch == poses[i - 1].map_epoch + 1 for i in back),
          f"{fault}: no epoch begins at {back}")
    check(max(times) < (time.time() + 60) * 1e9, f"{fault}: a pose of the stamp that is wrong")
    check(fault != "unstamped" or max(times) < (time.time() - 900) * 1e9 and
          {p.map_epoch for p in poses} == {0}, "unstamped: a time of another clock, or an epoch")
    check(("no stamps" in daemon.log()) == (fault == "no_stamps") and
          "no time stamps" not in daemon.log(), daemon.log())
    kinds = {e.kind for e in daemon.events}
    n_other = {"info": 1, "info_flaps": 3}.get(fault, 0)
    check((messages.Event.RECALIBRATED in kinds) == (n_other > 0), f"{fault}: RECALIBRATED")
    check(daemon.log().count("another calibration") <= n_other, daemon.log())
    check(daemon.log().count("changes again and again") == (fault == "info_flaps"), daemon.log())
    check(fault != "info_drifts" or {p.map_epoch for p in poses} == {0}, "info_drifts: an epoch")
    damaged = max(p.damaged_frames for p in poses)
    check(fault != "resized" or daemon.log().count("96x32") == 1 and
          "images of another size were left out" in daemon.log(), daemon.log())
    check(fault != "short" or daemon.log().count(": its rows are shorter") == 1 and
          f"{TOPIC}: 10 images were damaged" in daemon.log(), daemon.log())
    least, most = DAMAGED.get(fault, (0, 0))
    check(least <= damaged <= most, f"{fault}: {damaged} frames damaged")
    check(daemon.log().count("second publisher") == (fault in SECOND), daemon.log())
    print(f"{fault}: {len(poses)} poses:", harness.count_states(poses))


def every_image_counts(python):
    """From the first, which the source opens on."""
    with Peer(python, "counted"):
        daemon = start(True)
        daemon.wait_for(lambda: len(daemon.poses) >= N_COUNTED, f"{N_COUNTED} poses")
        time.sleep(0.5)
        daemon.stop()
    check(len(daemon.poses) == N_COUNTED, f"{len(daemon.poses)} poses of {N_COUNTED} images")
    check([p.seq for p in daemon.poses] == list(range(N_COUNTED)), "counted: not each once")
    n = len(harness.frame_lines(daemon.trajectory))
    check(n == N_COUNTED, f"{n} frames in the trajectory")
    print(f"counted: {n} of {N_COUNTED} images")


def late_info(python):
    """The images that came while it was waited for are told of, and none of them counts as dropped:
    the machine is not too slow for them."""
    with Peer(python, "late_info"):
        daemon = start(False)
        said = re.compile(r"(\d+) images that came while /bad/depth/camera_info was waited for are "
                          "left out")
        daemon.wait_for(lambda: said.search(daemon.log()), "late_info: the log")

        def status():
            return daemon.request(get_status=requests.GetStatus()).get_status
        daemon.wait_for(lambda: "posed: req: " in daemon.log(), "late_info: it answers")
        daemon.wait_for(lambda: status().captured_frames >= N_POSES, "late_info: frames")
        n_dropped = status().dropped_frames
        daemon.stop()
    n = int(said.search(daemon.log()).group(1))
    print(f"late_info: {n} images left out, {n_dropped} dropped")
    check(50 <= n <= 70 and n_dropped <= LATE_LIMIT and
          f"the camera info of {TOPIC} is /bad/depth/camera_info" in daemon.log(), daemon.log())


def two_cameras(python):
    """What the first one sends while the second is opened is not dropped by a slow machine."""
    with Peer(python, "none"), Peer(python, "no_info", "/bad/other"):
        daemon = harness.Daemon(None, "--set", f"camera a.source=ros2:{TOPIC}", "--set",
                                "camera b.source=ros2:/bad/other/image_raw", "--set",
                                "camera b.fx=80", "--set", "camera b.fy=80", "--set",
                                "camera b.cx=47.5", "--set", "camera b.cy=31.5", "--set",
                                f"ros.domain={DOMAIN}", "--set", "tracker.iterations=1,1,1",
                                collect=False)
        daemon.wait_for(lambda: "posed: req: " in daemon.log(), "two_cameras: it answers")
        time.sleep(2)
        daemon.stop()
    said = re.search(r"a: \d+ frames: .* (\d+) dropped, .*, (\d+) before the start", daemon.log())
    check(said and int(said[1]) <= LATE_LIMIT and int(said[2]) > 30 and
          "frames are dropped when" not in daemon.log(), daemon.log())
    print(f"two_cameras: {said[1]} dropped, {said[2]} before the start")


def killed(python):
    """A publisher that dies without a word, which DDS takes for alive for 10 s: the next one's
    images are taken, with its camera info from the first one on. One that comes back is the
    second."""
    with Peer(python, "none") as first:
        daemon = start(True)
        daemon.wait_for(lambda: len(daemon.poses) >= N_POSES, "killed: the first one's poses")
        first.process.kill()
        first.process.wait()
        n_first = len(daemon.poses)
        with Peer(python, "successor") as second:
            begin_ns = int(second.process.stdout.readline())
            daemon.wait_for(lambda: len(daemon.poses) >= n_first + N_POSES, "killed: the next's")
            daemon.stop()
    times = [p.timestamp.seconds * 10**9 + p.timestamp.nanos for p in daemon.poses]
    taken_ns = min(t for t in times if t >= begin_ns)
    harness.check_at_most((taken_ns - begin_ns) * 1e-9, SUCCESSOR_LIMIT_S, "killed: s until taken")
    check(times == sorted(set(times)) and len({p.map_epoch for p in daemon.poses}) == 2,
          "killed: an epoch but that of the other camera, or times that do not grow")
    k = times.index(taken_ns)
    check(daemon.poses[k].map_epoch > daemon.poses[k - 1].map_epoch,
          "killed: the first image has the camera info of the one before it")
    check(f"{TOPIC}: its publisher has been silent for " in daemon.log() and
          "its images come from another publisher now" in daemon.log() and
          "second publisher" not in daemon.log(), daemon.log())


def clock_is_set(python):
    """The machine's clock is set, by which the publisher stamps, too: no image is lost, and
    tracking goes on in the same map epoch."""
    library = harness.BINARY + "/tests/scenario/libfake_wall.so"
    if not os.path.exists(library):
        return
    path = harness.SCRATCH + "/wall"
    with open(path, "wb") as file:
        file.write(bytes(8))
    environment = {"LD_PRELOAD": library, "FAKE_WALL": path,
                   "ASAN_OPTIONS": "verify_asan_link_order=0"}
    with Peer(python, "none", environment=environment):
        daemon = harness.Daemon("ros2:" + TOPIC, "--set", f"ros.domain={DOMAIN}",
                                environment=environment)
        daemon.wait_for(lambda: len(daemon.poses) >= N_POSES, "clock_is_set: poses")
        for set_s, set_ms, said in ((0, 300, "0.300 s forward"), (0, 0, "0.300 s back"),
                                    (3600, 0, "3600.000 s forward"), (0, 0, "3600.000 s back")):
            n = len(daemon.poses)
            with open(path, "r+b") as file:
                file.write(struct.pack("ii", set_s, set_ms))
            daemon.wait_for(lambda: f"{TOPIC}: the machine's clock was set {said}, and the stamps "
                            "with it" in daemon.log() and len(daemon.poses) >= n + N_POSES, said)
        newest = daemon.poses[-1].timestamp
        daemon.stop()
    check(abs(newest.seconds - time.time()) < 60, f"clock_is_set: the newest pose is of {newest}")
    check(max(p.damaged_frames for p in daemon.poses) == 0 and
          {p.map_epoch for p in daemon.poses} == {0} and "another clock" not in daemon.log(),
          daemon.log())
    print(f"clock_is_set: {len(daemon.poses)} poses")


def stuck(python):
    """Nothing is silent about images that come and are left out for ever."""
    reason = "images come, but their stamps do not go on"
    with Peer(python, "stuck"):
        daemon = start(True)
        daemon.wait_for(lambda: f"no frame for 1.0 s: {reason}" in daemon.log(), "stuck: the log")
        time.sleep(0.5)
        status = daemon.request(get_status=requests.GetStatus()).get_status
    check(status.state == messages.STATE_NO_INPUT and status.reason_text == reason, f"{status}")
    check(status.damaged_frames > 30 and status.dropped_frames == 0 and
          status.captured_frames == len(daemon.poses) + status.damaged_frames, f"{status}")
    # later nothing comes at all
    daemon.wait_for(lambda: daemon.request(get_status=requests.GetStatus()).get_status.reason_text
                    == "no frame arrives", "stuck: then silent")
    daemon.stop()
    check("images left out for their stamps" in daemon.log(), daemon.log())
    print(f"stuck: {status.reason_text}, {status.damaged_frames} of {status.captured_frames}")


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def readiness(port):
    client = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
    client.request("GET", "/readyz")
    response = client.getresponse()
    return response.status, response.read().decode()


def spoilt(python):
    """Images of which none can be read: nobody takes that for a camera that works."""
    port = free_port()
    with Peer(python, "spoilt"):
        daemon = start(True, "--set", f"http.port={port}")
        daemon.wait_for(lambda: len(daemon.poses) >= 30, "spoilt: poses")
        daemon.wait_for(lambda: readiness(port)[0] == 200, "spoilt: ready")
        daemon.wait_for(lambda: readiness(port)[0] == 503, "spoilt: not ready")
        status, said = readiness(port)
        told = re.fullmatch(r"none of the last (\d+) frames could be tracked: (\d+) damaged, "
                            r"(\d+) dropped\n", said)
        check(told and int(told[1]) > 30 and int(told[1]) == int(told[2]) + int(told[3]), said)
        check("warning: none of the last " in daemon.log(), daemon.log())
        daemon.wait_for(lambda: readiness(port)[0] == 200, "spoilt: ready again")
        check("frames are tracked again" in daemon.log(), daemon.log())
        daemon.stop()
    print(f"spoilt: {status}, {said}", end="")


def recording():
    """A file in place of a topic."""
    path = harness.SCRATCH + "/a.mcap"
    with open(path, "wb") as file:
        file.write(b"\x89MCAP0\r\n")
    daemon = harness.Daemon("ros2:" + path, "--set", f"ros.domain={DOMAIN}", collect=False)
    daemon.wait(4)
    check(f"did you mean mcap:{path}?" in daemon.log(), daemon.log())


def scenario():
    python = os.environ.get("POSED_PYTHON_ROS")
    if not python or subprocess.run([python, "-c", "import cyclonedds"],
                                    stderr=subprocess.DEVNULL).returncode:
        harness.skip("no cyclonedds from PyPI (POSED_PYTHON_ROS, see tools/test)")
    if "ros2" not in subprocess.run([harness.BINARY + "/bin/posed", "--help"], text=True,
                                    stdout=subprocess.PIPE).stdout:
        harness.skip("built without Cyclone DDS")
    recording()
    for fault, expected in SURVIVED.items():
        survived(python, fault, expected)
    every_image_counts(python)
    late_info(python)
    two_cameras(python)
    killed(python)
    clock_is_set(python)
    stuck(python)
    spoilt(python)
    for fault, expected in REFUSED.items():
        refused(python, fault, expected)


harness.run(scenario)
