# SPDX-License-Identifier: Apache-2.0
"""How the daemon ends: by signal within half a second, and with the documented exit codes and a
clear line when it cannot start."""
import os
import signal
import socket as plain
import subprocess
import time

import harness
from harness import BINARY, check, check_at_most

STOP_LIMIT_S = 0.5


def refused(code, word, *options):
    """The daemon must end with this code and name `word` on stderr."""
    run = subprocess.run([BINARY + "/bin/posed", *options], stdin=subprocess.DEVNULL,
                         stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=60)
    text = run.stdout
    check(run.returncode == code, f"{options}: exit code {run.returncode}, expected {code}: {text}")
    check(word in text, f"{options}: \"{word}\" is not in: {text}")


def check_ends_waiting(source, word):
    """While a source is waited for."""
    run = subprocess.Popen([BINARY + "/bin/posed", "--source", source, "--run-dir",
                            harness.SCRATCH, "--no-tcp", "--set", "http.port=0"],
                           stderr=subprocess.PIPE, text=True)
    said = line = run.stderr.readline()
    while line and word not in line:  # before it: on which domain
        line = run.stderr.readline()
        said += line
    if "without" in said or "posed --help" in said:
        run.wait()
        print(f"SKIP: {source}: not in this build")
        return
    check(word in said, f"{source}: {said}")
    start = time.monotonic()
    run.terminate()
    said += run.communicate(timeout=60)[1]
    check_at_most(time.monotonic() - start, STOP_LIMIT_S, f"end while {source} is waited for [s]")
    check(run.returncode == 0 and "error" not in said, f"{source}: {run.returncode}, {said}")


def scenario():
    for name in ("SIGTERM", "SIGINT"):
        daemon = harness.Daemon("synth:room", "--loop", speed=1)
        daemon.wait_for(lambda: len(daemon.poses) > 10, "ten poses")
        start = time.monotonic()
        daemon.process.send_signal(getattr(signal, name))
        daemon.wait()
        check_at_most(time.monotonic() - start, STOP_LIMIT_S, f"end after {name} [s]")
        n = len(harness.frame_lines(daemon.trajectory))
        check(n == len(daemon.poses), f"{n} frames in the trajectory")
        check(daemon.events[-1].kind == harness.messages.Event.STOPPING, "event STOPPING")

    check_ends_waiting("v4l2:/dev/null", "waiting for it")
    check_ends_waiting("ros2:/nowhere", "waiting for it")

    scratch = harness.SCRATCH
    here = ("--run-dir", scratch, "--no-tcp", "--speed", "max")
    empty = scratch + "/empty"
    os.mkdir(empty)
    config = scratch + "/bad.conf"
    with open(config, "w") as file:
        file.write("[tracker]\niterations = 10,5,4\nitterations = 3\n")
    refused(2, "bogus", "--bogus")
    refused(3, "bad.conf:3", "-c", config, *here)
    refused(3, "tracker.early_stop", "--set", "tracker.early_stop=perhaps", *here)
    refused(3, "camera.fz", "--set", "camera.fz=1", *here)
    refused(3, "gate_angle_rad", "--set", "tracker.gate_angle_rad=nan", *here)
    refused(4, "/nowhere", "--source", "tum:/nowhere", *here)
    refused(4, empty, "--source", "tum:" + empty, *here)
    refused(4, "kitchen", "--source", "synth:kitchen", *here)
    refused(4, "floppy", "--source", "floppy:disk", *here)
    refused(4, "principal point", "--source", "synth:room", "--set", "camera.cx=900", *here)
    with plain.socket() as busy:
        busy.bind(("127.0.0.1", 0))
        busy.listen()
        port = busy.getsockname()[1]
        refused(1, str(port), "--source", "synth:room", "--run-dir", scratch, "--pub",
                f"tcp://127.0.0.1:{port}")
    refused(1, "trajectory", "--source", "synth:room,frames=5", "--trajectory",
            "/nowhere/trajectory.txt", *here)


harness.run(scenario)
