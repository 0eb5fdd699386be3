# SPDX-License-Identifier: Apache-2.0
"""Several cameras, one recording: all of them in one MCAP file, of both dialects, each with topics
of its own (of ROS /left_1/...); played again, by name, each has the poses of its first time, byte
for byte: what is played as fast as possible loses no frame on the way to the disk. One alone on
request; a format for one camera, and a camera that is not in the file, are refused with the names
that there are."""
import os
import subprocess

import harness
from harness import BINARY, check, requests

N_FRAMES = 40
NAMES = ("left-1", "right")


def configuration(name, text):
    path = f"{harness.SCRATCH}/{name}.conf"
    with open(path, "w") as file:
        file.write(text)
    return path


def sections(source):
    return "".join(f"[camera {name}]\nsource = {source(i, name)}\n" for i, name in
                   enumerate(NAMES))


def synthetic(i, _name):
    return f"synth:room,seed={i + 1},frames={N_FRAMES}"


def start(name, text, *options, **how):
    return harness.Daemon(None, "-c", configuration(name, text), "--set", "gpu.threads=1",
                          "--set", "tracker.iterations=1,1,1", *options, collect=False, **how)


def trajectories(daemon):
    out = []
    for name in NAMES:
        with open(daemon.trajectory.replace(".txt", f"-{name}.txt"), "rb") as file:
            out.append(file.read())
    return out


def record(name, extension):
    # as fast as possible, through a queue that is always full: no frame is dropped
    daemon = start(name, sections(synthetic), "--set", f"recorder.folder={harness.SCRATCH}",
                   "--set", f"recorder.start={name}", "--set", f"recorder.format={name}", "--set",
                   "recorder.queue_frames=2")
    daemon.wait()
    check(f"stopped after {len(NAMES) * N_FRAMES} frames" in daemon.log(), daemon.log())
    return f"{harness.SCRATCH}/{name}{extension}", trajectories(daemon)


def check_played(path, was):
    is_ros = path.endswith(".ros2.mcap")  # whose topics have no dash
    again = start("by-name", sections(lambda _i, _name: f"mcap:{path}"))
    again.wait()
    check(trajectories(again) == was, f"{path}: other poses by the cameras' names")
    swapped = start("by-topic", sections(lambda i, _name: f"mcap:{path}#{NAMES[1 - i]}"))
    swapped.wait()
    check(trajectories(swapped) == was[::-1], f"{path}: other poses by FILE#NAME")
    run = posed("--source", f"mcap:{path}", "--speed", "max")
    check(run.returncode == 0 and "2 depth topics" in run.stderr, run.stderr)
    run = posed("--source", f"mcap:{path}#top")
    topics = [f"/{name.replace('-', '_')}/depth" if is_ros else f"depth/{name}" for name in NAMES]
    check(run.returncode == 4 and all(topic in run.stderr for topic in topics), run.stderr)
    if is_ros:
        run = posed("--source", f"mcap:{path}#left_1", "--speed", "max")
        check(run.returncode == 0 and "/left_1/depth/image_raw" in run.stderr, run.stderr)


def posed(*options):
    return subprocess.run([BINARY + "/bin/posed", "--no-tcp", "--run-dir", harness.SCRATCH + "/run",
                           "--set", "http.port=0", *options], capture_output=True, text=True)


def check_requests():
    daemon = start("requests", sections(lambda i, _name: f"synth:room,seed={i + 1}") +
                   "loop = yes\n", "--set", f"recorder.folder={harness.SCRATCH}", speed=1)
    def ask(name, recording_format, camera=""):
        return daemon.request(camera=camera, start_recording=requests.StartRecording(
            name=name, format=recording_format))
    daemon.wait_for(lambda: os.path.exists(daemon.folder + "/req"), "the daemon is there")
    reply = ask("all", "klg")
    check(reply.code == requests.INVALID_ARGUMENT and "klg holds one camera" in reply.message and
          "--camera left-1" in reply.message, f"{reply}")
    reply = ask("one", "klg", "right")
    check(reply.code == requests.OK, f"{reply}")
    def count():
        page = daemon.request(list_recordings=requests.ListRecordings()).list_recordings
        return {r.name: r.frames for r in page.recordings}
    daemon.wait_for(lambda: count().get("one", 0) > 3, "frames of one camera")
    for camera, is_named in (("left-1", False), ("right", True)):
        status = daemon.request(camera=camera, get_status=requests.GetStatus()).get_status
        check((status.recording == "one") == is_named, f"{status}")
    check(daemon.request(stop_recording=requests.StopRecording()).code == requests.OK, "stop")
    daemon.stop()
    run = posed("--source", f"klg:{harness.SCRATCH}/one.klg", "--speed", "max")
    check(run.returncode == 0, run.stderr)
    run = posed("-c", configuration("bad", sections(synthetic)), "--set",
                f"recorder.folder={harness.SCRATCH}", "--set", "recorder.start=x", "--set",
                "recorder.format=tum")
    check(run.returncode == 3 and "tum holds one camera, and there are 2" in run.stderr, run.stderr)
    check_names()


def check_names():
    """Two that are one in topics of ROS 2."""
    fault = "cameras left-1 and left_1 are both left_1 in topics of ROS 2: "
    text = "".join(f"[camera {name}]\nsource = synth:room\nloop = yes\n"
                   for name in ("left-1", "left_1"))
    run = posed("-c", configuration("alike", text), "--set", f"recorder.folder={harness.SCRATCH}",
                "--set", "recorder.start=x", "--set", "recorder.format=ros2mcap", "--check-config")
    check(run.returncode == 3 and f"recorder.format: {fault}rename one" in run.stderr, run.stderr)
    daemon = start("alike", text, "--set", f"recorder.folder={harness.SCRATCH}", speed=1)
    daemon.wait_for(lambda: os.path.exists(daemon.folder + "/req"), "the daemon is there")
    def ask(name, camera=""):
        return daemon.request(camera=camera, start_recording=requests.StartRecording(
            name=name, format="ros2mcap"))
    reply = ask("both")
    check(reply.code == requests.INVALID_ARGUMENT and f"{fault}name one (--camera left-1)" in
          reply.message, f"{reply}")
    reply = ask("right", "left_1")
    check(reply.code == requests.OK, f"{reply}")
    daemon.stop()


def scenario():
    for name, extension in (("mcap", ".mcap"), ("ros2mcap", ".ros2.mcap")):
        check_played(*record(name, extension))
    check_requests()


harness.run(scenario)
