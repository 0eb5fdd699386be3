# SPDX-License-Identifier: Apache-2.0
"""posectl rig calibrate: two synthetic cameras on one body, 0.2 m and 27 degrees apart, each with
its own sensor. The transform between them is found from their motions, its error is what the
covariance says; a rig that turns about one axis, and recordings without a common time, are told
of, and so is one recording beside itself. So is a clock that is ahead, which the daemon's rig pose
takes off. Cameras of few frames a second are calibrated, too, and the daemon says what the rig has
of them. The cameras' own errors, which are learnt on the way, are written, and the daemon takes
them out.

usage: 257_rig.py [SENSOR [FRAMES [SEED]]]    `unkind 900 SEED`: what is required is for such"""
import json
import math
import re
import shutil
import subprocess
import sys

import harness
from harness import check, check_at_most

SENSOR = sys.argv[1] if len(sys.argv) > 1 else "kind"
FRAMES = int(sys.argv[2]) if len(sys.argv) > 2 else 300
SEED = sys.argv[3] if len(sys.argv) > 3 else ""
AHEAD_S, CLOCK_FRAMES = 0.120, 200
FIELD_FRAMES = 275
CLOCK_ERROR_S = 0.008  # a quarter of a frame: twice what the test below the program finds
ERROR_M, ERROR_DEG = 0.005, 0.3
ERROR_OF_STD = 3.0  # the error in its own standard deviation, of three axes together
MOUNT_M, MOUNT_DEG = (0.20, 0.03, -0.05), (10.0, -25.0, 5.0)


def camera(scene, number, *options):
    number = f"{SEED}{number}"
    return ",".join([f"synth:{scene}", f"sensor={SENSOR}", f"camera={number}", f"seed={number}",
                     *options])


def run_calibrate(a, b, out):
    return subprocess.run([harness.BINARY + "/bin/posectl", "rig", "calibrate", "--backend",
                           harness.BACKEND, a, b, "-o", out], capture_output=True, text=True)


def calibrate(a, b, code=0, says=""):
    run = run_calibrate(a, b, "json")
    check(run.returncode == code, f"{a} {b}: {run.returncode}, {run.stderr}")
    check(says in run.stderr, f"{a} {b}: no \"{says}\" in {run.stderr}")
    return json.loads(run.stdout) if code == 0 else None


def check_apart(a, b, rows):
    """Recordings with no time that both have are refused before they are tracked."""
    length_s = float(rows[-1][0]) - float(rows[0][0])
    with open(b + "/depth.txt", "w") as file:
        file.writelines(f"{float(stamp) + length_s + 9.5:.6f} {rest}" for stamp, rest in rows)
    for names in ((a, b), (b, a)):
        calibrate(*(f"tum:{name}" for name in names), code=1,
                  says=f"tum:{b} begins 9.5 s after the end of tum:{a}: recordings that both")


def check_clocks():
    """The same frames once more with stamps of another clock: a camera at the same place."""
    a, b, rig = (f"{harness.SCRATCH}/{name}" for name in ("a", "b", "rig.txt"))
    subprocess.run([harness.BINARY + "/bin/posed-synth", "room", a, "--frames", str(CLOCK_FRAMES)],
                   check=True, stdout=subprocess.DEVNULL)
    shutil.copytree(a, b)
    with open(a + "/depth.txt") as file:
        rows = [line.split(maxsplit=1) for line in file if line[0] != "#"]
    check_apart(a, b, rows)
    with open(b + "/depth.txt", "w") as file:
        file.writelines(f"{float(stamp) + AHEAD_S:.6f} {rest}" for stamp, rest in rows)
    run = run_calibrate(f"tum:{a}", f"tum:{b}", rig)
    check(run.returncode == 0 and "taken off" in run.stdout, run.stdout + run.stderr)
    with open(rig) as file:
        text = file.read()
    ahead_s = float(text.split("\nclock ")[1])
    check_at_most(abs(ahead_s - AHEAD_S), CLOCK_ERROR_S, "difference of the clocks [s]")
    conf = harness.SCRATCH + "/rig.conf"
    with open(conf, "w") as file:
        file.write(f"[camera a]\nsource = tum:{a}\n[camera b]\nsource = tum:{b}\nrig = {rig}\n")
    daemon = harness.Daemon(None, "-c", conf, collect=False)
    daemon.wait()
    check(f"clock is {ahead_s * 1e3:.1f} ms ahead of the first one's" in daemon.log(),
          daemon.log())
    with open(rig, "w") as file:
        file.write(text.replace("clock ", "clock x"))
    bad = subprocess.run([harness.BINARY + "/bin/posed", "-c", conf, "--no-tcp", "--run-dir",
                          harness.SCRATCH, "--set", "http.port=0"], capture_output=True, text=True)
    check(bad.returncode != 0 and "rig.txt:12: clock: seconds" in bad.stderr, bad.stderr)


def check_slow():
    """Two cameras at one place of 7.5 frames a second, each between the other's; and one of 5."""
    a, b, rig = (f"{harness.SCRATCH}/{name}" for name in ("slow-a", "slow-b", "slow.txt"))
    subprocess.run([harness.BINARY + "/bin/posed-synth", "room", a, "--frames", str(FRAMES)],
                   check=True, stdout=subprocess.DEVNULL)
    shutil.copytree(a, b)
    with open(a + "/depth.txt") as file:
        rows = [line for line in file if line[0] != "#"]
    for folder, first, step in ((a, 0, 4), (b, 2, 4)):
        with open(folder + "/depth.txt", "w") as file:
            file.writelines(rows[first::step])
    found = calibrate(f"tum:{a}", f"tum:{b}")
    check(found["motions"] > 20, f"{found['motions']} motions")
    check_at_most(math.hypot(*found["translation_m"]), ERROR_M, "translation, 7.5 frames/s [m]")
    conf = harness.SCRATCH + "/slow.conf"
    with open(rig, "w") as file:
        file.write("0 0 0 0 0 0 1\n")
    with open(conf, "w") as file:
        file.write(f"[camera a]\nsource = tum:{a}\n[camera b]\nsource = tum:{b}\nrig = {rig}\n")
    for step, is_told in ((4, False), (6, True)):
        with open(b + "/depth.txt", "w") as file:
            file.writelines(rows[2::step])
        daemon = harness.Daemon(None, "-c", conf, "--set", "capture.frames=5", collect=False)
        daemon.wait()
        says = "b: 5.0 frames/s are too few for the rig, which interpolates over 150 ms at most"
        check((says in daemon.log()) == is_told, daemon.log())


def check_fields():
    """Cameras with fields of their own: both are written, and each is its camera's."""
    rig = harness.SCRATCH + "/fields.txt"
    a, b = (f"synth:room-rotation,noise=off,sensor=field,frames={FIELD_FRAMES},camera={number}"
            for number in (1, 2))
    run = run_calibrate(a, b, rig)
    check(run.returncode == 0 and run.stdout.count("at 1 m RMS, learnt") == 2,
          run.stdout + run.stderr)
    conf = harness.SCRATCH + "/fields.conf"
    with open(conf, "w") as file:
        file.write(f"[camera a]\nsource = {a}\n[camera b]\nsource = {b}\nrig = {rig}\n")
    daemon = harness.Daemon(None, "-c", conf, "--set", "capture.frames=10", collect=False)
    daemon.wait()
    for name, suffix, serial in (("a", "A", "synth-1"), ("b", "B", "synth-2")):
        check(re.search(rf"{name}: {rig}.{suffix}.field: the camera's own error is taken out: .* "
                        rf"camera {serial}\b", daemon.log()), daemon.log())
    shutil.copy(f"{rig}.A.field", f"{rig}.B.field")
    stale = harness.Daemon(None, "-c", conf, collect=False)
    stale.wait(expected_code=3)
    check(f"(rig = {rig}): \"field =\" in the camera's section turns it off" in stale.log(),
          stale.log())


def error_deg(xyzw):
    """Between this rotation and the mount's."""
    angle = math.radians(math.hypot(*MOUNT_DEG))
    axis = [math.radians(x) / angle for x in MOUNT_DEG]
    truth = [x * math.sin(angle / 2) for x in axis] + [math.cos(angle / 2)]
    cosine = abs(sum(a * b for a, b in zip(xyzw, truth)))
    return math.degrees(2 * math.acos(min(1.0, cosine)))


def scenario():
    mount = "mount=" + ":".join(f"{x:g}" for x in MOUNT_M + MOUNT_DEG)
    frames = f"frames={FRAMES}"
    found = calibrate(camera("room", 1, frames), camera("room", 2, frames, mount))
    away_m = math.dist(found["translation_m"], MOUNT_M)
    away_deg = error_deg(found["quaternion_xyzw"])
    check_at_most(away_m, ERROR_M, f"translation, {SENSOR}, {FRAMES} frames [m]")
    check_at_most(away_deg, ERROR_DEG, f"rotation, {SENSOR}, {FRAMES} frames [degrees]")
    check_at_most(away_m / found["std_m"], ERROR_OF_STD, "translation in standard deviations")
    if SEED:
        return
    check_clocks()
    check_slow()
    check_fields()
    calibrate(camera("room", 1, "frames=20"), camera("room", 2, "frames=20", mount), code=1,
              says="motions of 1.5 s that both recordings have, 6 are wanted: A is tracked for "
                   "0.6 s, B for 0.6 s, both at once for 0.6 s of at least 2.8: record longer")
    calibrate(camera("room-straight", 1, "frames=110"),
              camera("room-straight", 2, "frames=110", mount), code=1,
              says="the rig turns about one axis only")
    calibrate("synth:room", "synth:room", code=1, says="A and B are the same source")
    calibrate("synth:wall,frames=3", "synth:wall,frames=3,camera=2", code=1,
              says="no two frames of it were tracked: the scene does not hold some directions")


harness.run(scenario)
