# SPDX-License-Identifier: Apache-2.0
"""posectl register: an initial pose from a file leads, a bad one is named with its line; what is
not to be trusted ends with 6 and says why, also when one set is in millimetres."""
import json
import math
import random
import subprocess

import harness
from bumpy import moved, shape
from harness import check, check_at_most

N_POINTS = 4000
DOUBTFUL = 6
ROTATION_LIMIT_DEG = 0.5
TRANSLATION_LIMIT_M = 2e-3
LOCAL = ("--local", "--backend", harness.BACKEND)


def write_points(name, points):
    path = f"{harness.SCRATCH}/{name}.xyz"
    with open(path, "w", encoding="ascii") as file:
        file.writelines(f"{x:.9g} {y:.9g} {z:.9g}\n" for x, y, z in points)
    return path


def write_matrix(name, rows):
    path = f"{harness.SCRATCH}/{name}.txt"
    with open(path, "w", encoding="ascii") as file:
        file.write("# target from source\n")
        file.writelines(" ".join(f"{value:.9f}" for value in row) + "\n" for row in rows)
    return path


def posectl(*arguments, where=LOCAL):
    return subprocess.run([harness.BINARY + "/bin/posectl", "register", "-o", "json", *where,
                           *arguments], capture_output=True, text=True, timeout=200)


def about_y(degrees, translation):
    c, s = math.cos(math.radians(degrees)), math.sin(math.radians(degrees))
    rows = ((c, 0, s), (0, 1, 0), (-s, 0, c))
    return [list(row) + [t] for row, t in zip(rows, translation)]


def check_pose(done, half_deg, translation):
    check(done.returncode == 0, f"{done.returncode}: {done.stderr}")
    pose = json.loads(done.stdout)["T_target_source"]
    q, p = pose["quaternion_xyzw"], pose["translation_m"]
    expected = (0, math.sin(math.radians(half_deg)), 0, math.cos(math.radians(half_deg)))
    dot = abs(sum(a * b for a, b in zip(q, expected)))
    check_at_most(math.degrees(2 * math.acos(min(1, dot))), ROTATION_LIMIT_DEG, "rotation [deg]")
    check_at_most(math.dist(p, translation), TRANSLATION_LIMIT_M, "translation [m]")


def check_initial(points, source):
    """Turned by 150 degrees ICP does not find back by itself; from 10 degrees off it does."""
    half, translation = 75.0, (0.3, -0.2, 0.1)
    quaternion = (0, math.sin(math.radians(half)), 0, math.cos(math.radians(half)))
    target = write_points("turned", moved(points, quaternion, translation))
    arguments = ("--method", "icp", source, target)
    lost = posectl(*arguments)
    check(lost.returncode == DOUBTFUL, f"without an initial pose: {lost.returncode} {lost.stderr}")
    near = write_matrix("near", about_y(2 * half - 10, (0.32, -0.19, 0.09)) + [[0, 0, 0, 1]])
    check_pose(posectl("--initial", near, *arguments), half, translation)
    three = write_matrix("three", about_y(2 * half - 10, (0.32, -0.19, 0.09)))
    check_pose(posectl("--initial", three, *arguments), half, translation)
    daemon = harness.Daemon("synth:nothing", "--loop", speed=1)
    daemon.wait_for(lambda: daemon.poses, "a pose")  # posectl does not wait for a daemon
    check_pose(posectl("--initial", near, *arguments, where=("--timeout", "100", "--endpoint",
                                                          daemon.folder)), half,
               translation)
    daemon.stop()

    short = write_matrix("short", about_y(140, (0, 0, 0))[:2])
    scaled = write_matrix("scaled", [[2 * v for v in row] for row in about_y(140, (0, 0, 0))])
    rows = about_y(140, (0.32, -0.19, 0.09)) + [[0, 0, 0, 1]]
    transposed = write_matrix("transposed", zip(*rows))
    five = write_matrix("five", rows + rows[:1])
    answer = harness.SCRATCH + "/answer.json"
    with open(answer, "w", encoding="ascii") as file:
        file.write(lost.stdout)
    for path, words in ((short, "three rows of four"), (scaled, "rotation"),
                        (transposed, "is the matrix transposed?"), (five, "three rows of four"),
                        (answer, "answer.json:1: three rows of four"),
                        (harness.SCRATCH + "/missing.txt", "No such file")):
        done = posectl("--initial", path, *arguments)
        check(done.returncode not in (0, DOUBTFUL), f"{path}: {done.returncode}")
        check(path in done.stderr and words in done.stderr, f"{path}: {done.stderr}")


def check_doubt(source):
    """Of a shape and a cloud nothing agrees: an answer is written, and 6 says what it is worth."""
    generator = random.Random(8)
    cloud = write_points("cloud", [tuple(generator.uniform(-0.4, 0.4) for _ in range(3))
                                   for _ in range(N_POINTS)])
    done = posectl("--start", "many", source, cloud)
    check(done.returncode == DOUBTFUL, f"strangers: {done.returncode} {done.stderr}")
    check("doubtful" in done.stderr and "m long" in done.stderr, f"strangers: {done.stderr}")
    check("T_target_source" in json.loads(done.stdout), "the answer is written all the same")


def check_units(points, source):
    large = write_points("large", [tuple(1000 * v for v in p) for p in points])
    for first, second, side in ((large, source, "source"), (source, large, "target")):
        done = posectl(first, second)
        check(done.returncode == DOUBTFUL, f"{side} in millimetres: {done.returncode}")
        check(f"is the {side} in millimetres?" in done.stderr, f"{side}: {done.stderr}")
    few = write_points("few", points[::10])
    large = write_points("large_few", [tuple(1000 * v for v in p) for p in points[::10]])
    for option in (("--preset", "tamaki"), ("--form", "dense")):  # judged by their points alone
        done = posectl(*option, few, large)
        check(done.returncode == DOUBTFUL, f"{option}: {done.returncode} {done.stderr}")
        check("is the target in millimetres?" in done.stderr, f"{option}: {done.stderr}")


def scenario():
    points = shape(N_POINTS)
    source = write_points("source", points)
    check_initial(points, source)
    check_doubt(source)
    check_units(points, source)


harness.run(scenario)
