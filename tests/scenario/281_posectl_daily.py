# SPDX-License-Identifier: Apache-2.0
"""posectl as a person uses it: one address for each command, files of the format their name says,
all topics, colours on a terminal alone, progress of long work, `--version` everywhere."""
import json
import os
import pty
import re
import struct
import subprocess
import time

import zmq

import harness
from harness import BINARY, check, requests

TOPICS = ("pose", "tf", "calib", "status", "timing", "depth", "normals", "residual", "cloud")


def ctl(code, *arguments, host=None):
    environment = {**os.environ, **({"POSED_HOST": host} if host else {})}
    done = subprocess.run([BINARY + "/bin/posectl", *arguments], capture_output=True, text=True,
                          timeout=harness.PATIENCE_S, env=environment)
    check(done.returncode == code, f"{arguments}: {done.returncode}, {done.stdout}{done.stderr}")
    return done


def on_terminal(*arguments, environment=None, code=0):
    """What a command writes to a terminal that is its stdout and stderr."""
    pid, leader = pty.fork()
    if pid == 0:
        os.execve(BINARY + "/bin/posectl", ["posectl", *arguments],
                  {**os.environ, **(environment or {})})
    said = b""
    while True:
        try:
            part = os.read(leader, 65536)
        except OSError:
            part = b""
        if not part:
            break
        said += part
    os.close(leader)
    check(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == code, f"{arguments}: {said.decode()}")
    return said.decode()


def check_versions():
    wanted = subprocess.run([BINARY + "/bin/posed", "--version"], capture_output=True, text=True,
                            check=True).stdout.split()[1]
    names = os.listdir(BINARY + "/bin")
    check({"posed", "posectl", "posed-bench", "posed-eval", "posed-synth"} <= set(names), names)
    for name in names:
        done = subprocess.run([BINARY + "/bin/" + name, "--version"], capture_output=True,
                              text=True, timeout=harness.PATIENCE_S)
        check(done.returncode == 0 and done.stdout == f"{name} {wanted}\n", f"{name}: {done}")
    check(ctl(0, "status", "--version").stdout == f"posectl {wanted}\n", "of a command")


def check_address(daemon):
    """One word for all: an option, the variable, any of its sockets."""
    for where in (daemon.folder, daemon.address("req"), daemon.address("pub")):
        for command in (("status", ), ("watch", "-n", "1"), ("calibration", ), ("params", ),
                        ("watch", "-n", "1", "depth"), ("object", "list"), ("record", "list")):
            code = 1 if command[0] == "record" else 0  # it has no folder here
            a = ctl(code, *command, host=where)
            b = ctl(code, *command, "--host", where)
            check("no posed" not in a.stderr + b.stderr, f"{command} {where}: {a} {b}")
        check(f"answers at {daemon.address('req')}" in doctor(where), f"doctor at {where}")
    check("none at ipc:///nowhere/req" in doctor("/nowhere"), "doctor where none is")
    said = ctl(1, "view", "--host", "robot.example")
    check(said.stdout == "ssh -L 8765:127.0.0.1:8765 robot.example\n", said.stdout)
    said = ctl(1, "view", host=daemon.folder)  # started with http.port=0
    check("has no page" in said.stderr, said.stderr)
    said = ctl(3, "view", host="/nowhere")
    check("no posed at" in said.stderr, said.stderr)


def doctor(where):
    """Its finding on the daemon; what else it finds on this machine is another test's."""
    done = subprocess.run([BINARY + "/bin/posectl", "doctor"], capture_output=True, text=True,
                          env={**os.environ, "POSED_HOST": where}, timeout=harness.PATIENCE_S)
    return next(line for line in done.stdout.splitlines() if line.startswith("daemon"))


def check_files(daemon):
    folder = daemon.folder
    for name in ("x.jpg", "x.ply", "x.png.jpg", "x."):
        said = ctl(2, "get", "depth", "-o", f"{folder}/{name}", host=folder).stderr
        check(".png" in said and not os.path.exists(f"{folder}/{name}"), said)
    for name in ("x.png", "x.xyz"):
        said = ctl(2, "get", "cloud", "-o", f"{folder}/{name}", host=folder).stderr
        check(".pcd" in said and not os.path.exists(f"{folder}/{name}"), said)
    ctl(0, "get", "depth", "-o", folder + "/x.PNG", host=folder)
    with open(folder + "/x.PNG", "rb") as file:
        check(file.read(8) == b"\x89PNG\r\n\x1a\n", "a PNG")
    for _ in range(2):  # the second time a file is there
        said = ctl(0, "get", "depth", "-o", folder + "/twice.png", host=folder).stdout
        said += ctl(0, "calibration", "-o", folder + "/twice.txt", host=folder).stderr
        replaced = "twice.png (replaced): frame" in said and "twice.txt was there" in said
    check(replaced, said)
    ctl(0, "replay", "pause", host=folder)  # so that the newest frame stays
    for options in ((), ("--normals", )):
        for ending in ("ply", "pcd"):
            ctl(0, "get", "cloud", "-o", f"{folder}/x.{ending}", *options, host=folder)
        check(read_pcd(folder + "/x.pcd") == read_ply(folder + "/x.ply"), "the same points in both")
    ctl(0, "replay", "resume", host=folder)
    # The registration reads what was written: a cloud against itself.
    transform = ctl(0, "register", "--local", folder + "/x.pcd", folder + "/x.ply", "--method",
                    "icp", "-o", "json").stdout
    check(json.loads(transform)["residual_rms_m"] < 1e-6, transform)


def read_ply(path):
    with open(path, "rb") as file:
        head, _, data = file.read().partition(b"end_header\n")
    check(b"format binary_little_endian 1.0" in head, "PLY")
    return head.count(b"property float"), data


def read_pcd(path):
    with open(path, "rb") as file:
        head, _, data = file.read().partition(b"DATA binary\n")
    fields = dict(line.split(b" ", 1) for line in head.splitlines())
    n_columns = len(fields[b"FIELDS"].split())
    check(int(fields[b"POINTS"]) * 4 * n_columns == len(data) > 12000, "PCD")
    check(int(fields[b"WIDTH"]) * int(fields[b"HEIGHT"]) == int(fields[b"POINTS"]), "PCD's size")
    struct.unpack_from("<f", data)
    return n_columns, data


def check_calibration(daemon):
    expected = daemon.request(get_calibration=requests.GetCalibration()).get_calibration
    said = json.loads(ctl(0, "calibration", "-o", "json", host=daemon.folder).stdout)
    for key, value in (("fx_px", expected.K[0]), ("fy_px", expected.K[4]), ("cx_px", expected.K[2]),
                       ("cy_px", expected.K[5]), ("units_per_m", expected.units_per_m),
                       ("width_px", expected.width), ("height_px", expected.height)):
        check(said[key] == value, f"{key}: {said[key]}")
    check("640 x 480" in ctl(0, "calibration", host=daemon.folder).stdout, "for a person")
    path = daemon.folder + "/calibration.txt"
    said = ctl(0, "calibration", "-o", path, host=daemon.folder)
    check(said.stderr == f"posectl: {path}: 640 x 480 pixels, 5000 units per metre\n"
          and not said.stdout, f"{said}")
    with open(path, encoding="ascii") as file:
        numbers = [float(word) for word in file.read().split()]
    check(numbers == [expected.K[0], expected.K[4], expected.K[2], expected.K[5], 640, 480,
                      expected.units_per_m], f"{numbers}")


def check_watch(daemon):
    lines = ctl(0, "watch", "-n", "60", *TOPICS, "-o", "json", host=daemon.folder).stdout
    seen = {}
    for line in lines.splitlines():
        value = json.loads(line)
        seen.setdefault(value["topic"], value)
    check(set(seen) >= set(TOPICS) - {"calib", "status", "timing"}, f"{set(seen)}")
    check("calib" in seen and seen["calib"]["fx_px"] == 525, "calib comes at once")
    check(seen["depth"]["encoding"] == "16UC1" and seen["depth"]["width"] == 640, f"{seen}")
    check(100000 < seen["cloud"]["points"] <= 640 * 480, f"{seen['cloud']}")
    plain = ctl(0, "watch", "-n", "60", *TOPICS, host=daemon.folder).stdout
    check("\x1b" not in plain and plain.count("\n") == 60, "a line each, without colours")
    shown = on_terminal("watch", "-n", "3", "--host", daemon.folder)
    header, *rows = shown.replace("\r\n", "\n").splitlines()
    check(header.split()[:3] == ["frame", "time", "s"] and len(rows) == 3, shown)
    check(all(re.search(r"\x1b\[3[1236]m[A-Z_]+ *\x1b\[0m", row) for row in rows), f"{rows}")
    state = re.sub(r"\x1b\[\d+m", "", rows[0]).index(rows[0].split("\x1b[")[1].split("m")[1][:4])
    check(header.index("state") == state, "the header stands over its columns")
    shown = on_terminal("watch", "-n", "3", "--host", daemon.folder,
                        environment={"NO_COLOR": "1"})
    check("\x1b" not in shown and "frame" in shown, "NO_COLOR")


DOUBTFUL = 6  # the exit code


def long_registration(daemon):
    """The authors' program takes all pairs of points sixty times and more: over a second on any
    machine, and from where these clouds lie its answer is one to doubt."""
    folder = daemon.folder
    for name in ("a", "b"):
        ctl(0, "get", "cloud", "-s", "4", "-o", f"{folder}/{name}.ply", host=folder)
        seen = len(daemon.poses)
        daemon.wait_for(lambda n=seen: len(daemon.poses) > n + 20, "other frames")
    return ("register", "--preset", "tamaki", folder + "/a.ply", folder + "/b.ply")


def check_progress(daemon, command):
    """How far long work is stands on a terminal, and only there."""
    for where in (("--host", daemon.folder, "--timeout", "60"), ("--local", )):
        shown = on_terminal(*command, *where, code=DOUBTFUL)
        check(re.search(r"\r\x1b\[K *\d+ %, \d+\.\d s, anneal", shown), f"{where}: {shown!r}")
        check("keyframe" not in shown, f"of other events: {shown!r}")
        check("\x1b" not in shown.rsplit("\r\x1b[K", 1)[1], "the line is cleared at the end")
        check(re.search(r"doubtful: \d+ % of the source", shown), f"why: {shown!r}")
    done = ctl(DOUBTFUL, *command, "--local")
    check("\x1b" not in done.stderr, "stderr is no terminal")


def check_deadline(daemon, command):
    """What is refused at its deadline says what to do: work that is too long, and a wait."""
    said = ctl(1, *command, "--timeout", "0.5", "--host", daemon.folder).stderr
    check("DEADLINE_EXCEEDED" in said and "--timeout" in said, said)
    for _ in range(200):  # between two frames nothing is answered at once
        reply = daemon.request(deadline_ms=1, reset=requests.Reset(keep_pose=True))
        if reply.code != requests.DEADLINE_EXCEEDED:
            continue
        check("deadline_ms" in reply.message, reply.message)
        if "nothing was changed" in reply.message:
            return
        # On a busy machine it is late before it comes to the frame loop.
        check("nothing was done" in reply.message, reply.message)
    check(False, "no reset was ever late")


def check_wait(daemon):
    """The time that a person gives counts, also where more is usual."""
    said = ctl(1, "watch", "--timeout", "0.2", "-n", "1", "imu", "log", host=daemon.folder).stderr
    check("no message of topic imu, log came in 0.2 s" in said, said)
    said = ctl(1, "watch", "--timeout", "1.5", "-n", "1", "imu", host=daemon.folder).stderr
    check("topic imu came in 1.5 s (--timeout): imu is of a live camera" in said, said)
    said = ctl(2, "watch", "pose/left", host=daemon.folder).stderr
    check("pose --camera left watches it" in said, said)
    said = ctl(1, "watch", "--timeout", "0.1", "-n", "1", "rig", host=daemon.folder).stderr
    check("topic rig came in 0.1 s (--timeout): a rig is several cameras, and this" in said, said)
    ctl(0, "watch", "--timeout", "60", "-n", "2", host=daemon.folder)
    router = daemon.context.socket(zmq.ROUTER)  # it answers nothing
    silent = f"ipc://{daemon.folder}/silent"
    router.bind(silent)
    for command in (("search", "--object", "x"), ("record", "stop")):
        began = time.monotonic()
        said = ctl(3, *command, "--timeout", "0.01", host=silent).stderr
        harness.check_at_most(time.monotonic() - began, 20, f"{command[0]} without an answer [s]")
        check("does not answer" in said, said)
    router.close(linger=0)


def check_missing():
    """What is missing is named."""
    folder = harness.SCRATCH
    for code, word, command in (
            (1, f"{folder}/none: No such file", ("record", "repair", folder + "/none")),
            (1, f"{folder}/none.klg: No such file", ("record", "repair", folder + "/none.klg")),
            (2, "--object NAME", ("search", "--local")),
            (2, "--depth FILE is missing", ("search", "--local", "--object", "a.ply")),
            (2, "--calibration FILE is missing",
             ("search", "--local", "--object", "a.ply", "--depth", "a.png")),
            (2, "--host: its value is empty", ("status", "--host=")),
            (2, "--camera: its value is empty", ("watch", "--camera=")),
            (2, "NAME.secret and NAME.public", ("keygen", "..")),
            (2, "NAME.secret and NAME.public", ("keygen", folder + "/")),
            (2, "--key-file needs --server-key", ("status", "--key-file", "a")),
            (2, "--key-file needs --server-key", ("watch", "--key-file", "a"))):
        said = ctl(code, *command).stderr
        check(word in said, f"{command}: {said}")


def check_browser():
    """Without one the address is there to be opened by hand, and nothing else is said."""
    folder = harness.SCRATCH + "/browser"
    os.mkdir(folder)
    for code in (0, 3):
        with open(folder + "/xdg-open", "w", opener=lambda path, flags: os.open(path, flags, 0o755),
                  encoding="ascii") as file:
            file.write(f"#!/bin/sh\necho noise; echo $1 >&2; exit {code}\n")
        done = subprocess.run([BINARY + "/bin/posectl", "view", "--port", "8765", "-e",
                               "127.0.0.1"], capture_output=True, text=True, check=False,
                              timeout=harness.PATIENCE_S, env={**os.environ, "PATH": folder})
        check(done.stdout == "http://127.0.0.1:8765/\n", f"{done}")
        check(done.returncode == 0, f"{done}")
        check(("by hand" in done.stderr) == bool(code) and "noise" not in done.stderr, f"{done}")


def scenario():
    check_versions()
    daemon = harness.Daemon("synth:room", "--loop", speed=0.5)
    daemon.wait_for(lambda: len(daemon.poses) > 5, "poses")
    check_address(daemon)
    check_calibration(daemon)
    check_watch(daemon)
    check_files(daemon)
    check_wait(daemon)
    check_missing()
    check_browser()
    command = long_registration(daemon)
    check_progress(daemon, command)
    check_deadline(daemon, command)
    daemon.stop()


harness.run(scenario)
