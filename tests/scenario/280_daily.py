# SPDX-License-Identifier: Apache-2.0
"""What a person meets in the daemon's first week: an earlier trajectory is kept, the hint that the
machine is too slow comes while it is, `calib` has the frames' own time, a terminal shows how far a
replay is."""
import os
import pty
import re
import select
import subprocess
import time

import zmq

import harness
from harness import BINARY, check, messages, requests

HINT_WITHIN_S = 60  # of a machine where every frame is late


def run_posed(*options):
    return subprocess.run([BINARY + "/bin/posed", "--no-tcp", "--run-dir", harness.SCRATCH,
                           "--backend", harness.BACKEND, "--set", "http.port=0", *options],
                          capture_output=True, text=True, timeout=harness.PATIENCE_S)


def check_trajectory():
    path = harness.SCRATCH + "/out.txt"
    texts = []
    for i in range(3):
        done = run_posed("synth:room", "--frames", str(3 + i), "--trajectory", path,
                         "--speed", "max")
        check(done.returncode == 0, done.stderr)
        notice = f"{path} was there: it is now {path}.{i}"
        check((notice in done.stderr) == (i > 0), f"run {i}: {done.stderr}")
        with open(path, encoding="ascii") as file:
            texts.append(file.read())
    for i in (1, 2):
        with open(f"{path}.{i}", encoding="ascii") as file:
            check(file.read() == texts[i - 1], f"{path}.{i} is not what run {i} wrote")
    check(sum(1 for line in texts[2].splitlines() if line[0] != "#") == 5, "the newest")
    done = run_posed("synth:room", "--frames", "3", "--trajectory", "/dev/stdout", "--speed", "max")
    check(done.returncode == 0 and len(done.stdout.splitlines()) >= 3, f"a pipe: {done}")


def check_too_slow():
    """At 100 times real time no machine keeps pace; the hint stands in the log before the end."""
    daemon = harness.Daemon("synth:room", "--loop", speed=100)
    hint = re.compile(r"of the last \d+ frames were dropped: this machine is too slow")
    daemon.wait_for(lambda: hint.search(daemon.log()), "the hint", HINT_WITHIN_S)
    check(len(hint.findall(daemon.log())) == 1, "once a minute")
    daemon.stop()
    calm = harness.Daemon("synth:room", "--frames", "40", speed="max")
    calm.wait()
    check("too slow" not in calm.log(), "a replay that drops nothing is not too slow")


def check_calib():
    """On the clock of the frames: a recording of the past has no time of today."""
    folder = harness.SCRATCH + "/recording"
    subprocess.run([BINARY + "/bin/posed-synth", "room", folder, "--frames", "8"], check=True,
                   stdout=subprocess.DEVNULL)
    with open(folder + "/depth.txt", encoding="ascii") as file:
        lines = [line.split() for line in file if not line.startswith("#")]
    with open(folder + "/depth.txt", "w", encoding="ascii") as file:
        file.writelines(f"{1305031102.25 + float(t):.6f} {image}\n" for t, image in lines)
    daemon = harness.Daemon("tum:" + folder, "--loop", speed=1)
    daemon.step(3)
    socket = daemon.socket(zmq.SUB, "pub")
    socket.subscribe("calib")
    check(socket.poll(20000), "no calib")
    told = [messages.CameraCalibration.FromString(socket.recv_multipart()[1]).timestamp,
            daemon.request(get_calibration=requests.GetCalibration()).get_calibration.timestamp]
    for stamp, pose in zip(told, (daemon.poses[0], daemon.poses[-1])):
        check(stamp == pose.timestamp, f"{stamp} is not {pose.timestamp}")
    daemon.stop()


def on_terminal(command, timeout_s, **options):
    """What a program writes to a terminal that is its stderr."""
    leader, follower = pty.openpty()
    with subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                          stderr=follower, **options) as program:
        os.close(follower)
        said, end = b"", time.monotonic() + timeout_s
        while time.monotonic() < end and program.poll() is None:
            if select.select([leader], [], [], 0.1)[0]:
                try:
                    said += os.read(leader, 65536)
                except OSError:  # the last one has closed it
                    break
        program.kill()
    os.close(leader)
    return said.decode()


def check_progress():
    command = [BINARY + "/bin/posed", "synth:room", "--frames", "200", "--speed", "max",
               "--no-tcp", "--run-dir",
               harness.SCRATCH, "--backend", harness.BACKEND, "--set", "http.port=0"]
    said = on_terminal(command, harness.PATIENCE_S)
    shown = re.findall(r"\r\x1b\[K *(\d+) %, (\d+) of (\d+) frames, \d+ frames/s", said)
    check(len(shown) >= 2, f"no progress on a terminal: {said}")
    counts = [int(n) for _, n, _ in shown]
    check(counts == sorted(counts) and len(set(shown[i][2] for i in range(len(shown)))) == 1, said)
    check(int(shown[0][0]) == round(100 * counts[0] / int(shown[0][2])), said)
    last = said.rsplit("\r\x1b[K", 1)[1]
    check(last.startswith("posed:"), f"a line of the log stands on a line of its own: {last}")
    for options in (["--set", "log.format=json"], ["--set", "log.level=error"]):
        check("\x1b" not in on_terminal(command + options, harness.PATIENCE_S), f"{options}")
    done = run_posed("synth:room", "--frames", "60", "--speed", "max")
    check("\x1b" not in done.stderr, "stderr is no terminal")


def scenario():
    check_trajectory()
    check_too_slow()
    check_calib()
    check_progress()


harness.run(scenario)
