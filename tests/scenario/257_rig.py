# SPDX-License-Identifier: Apache-2.0
"""posectl rig calibrate: two synthetic cameras on one body, 0.2 m and 27 degrees apart, each with
its own sensor. The transform between them is found from their motions, its error is what the
covariance says; a rig that turns about one axis, and recordings without a common time, are told
of.

usage: 257_rig.py [SENSOR [FRAMES]]    from motion alone `unkind` does not reach the limits"""
import json
import math
import subprocess
import sys

import harness
from harness import check, check_at_most

SENSOR = sys.argv[1] if len(sys.argv) > 1 else "kind"
FRAMES = int(sys.argv[2]) if len(sys.argv) > 2 else 300
ERROR_M, ERROR_DEG = 0.005, 0.3
ERROR_OF_STD = 4.0  # the error in its own standard deviation, of three axes together
MOUNT_M, MOUNT_DEG = (0.20, 0.03, -0.05), (10.0, -25.0, 5.0)


def camera(scene, number, *options):
    return ",".join([f"synth:{scene}", f"sensor={SENSOR}", f"camera={number}", f"seed={number}",
                     *options])


def calibrate(a, b, code=0, says=""):
    run = subprocess.run([harness.BINARY + "/bin/posectl", "rig", "calibrate", "--backend",
                          harness.BACKEND, a, b, "-o", "json"], capture_output=True, text=True)
    check(run.returncode == code, f"{a} {b}: {run.returncode}, {run.stderr}")
    check(says in run.stderr, f"{a} {b}: no \"{says}\" in {run.stderr}")
    return json.loads(run.stdout) if code == 0 else None


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
    calibrate(camera("room", 1, "frames=20"), camera("room", 2, "frames=20", mount), code=1,
              says="motions of 1.5 s that both recordings have")
    calibrate(camera("room-straight", 1, "frames=110"),
              camera("room-straight", 2, "frames=110", mount), code=1,
              says="the rig turns about one axis only")


harness.run(scenario)
