# SPDX-License-Identifier: Apache-2.0
"""posectl search for several objects in one image, some of them there twice, with and without a
daemon: each line and pose has its object's name, the picture has all of them, the exit code tells
whether each was found, and what is wrong is said before anything is searched."""
import json
import math
import os
import struct
import subprocess
import time
import zlib

import harness
from harness import SCRATCH, check, check_at_most
from stair import (BLOCKS, CHAIR, FOCAL, HEIGHT, WIDTH, depth_image, nearest, write_mesh,
                   write_png)

STICK = [((-0.2, -0.01, -0.01), (0.2, 0.01, 0.01)), ((0.19, -0.01, -0.1), (0.2, 0.01, 0.0))]
DOUBTFUL = 6
SHIFT_LIMIT_M = 0.01
VIEWS = ("--views", "2048")
TWO = ("--top", "2", "--threshold", "0.99")  # a chair is somewhat like a stair
FOLDER = SCRATCH + "/objects"
IMAGE = ("--depth", SCRATCH + "/image.png", "--calibration", SCRATCH + "/calibration.txt")
LOCAL = ("--local", "--objects", FOLDER, *IMAGE)
COLOURS = {"stair": (26, 217, 51), "chair": (255, 178, 13)}  # of outlines, in this order


def turn(angle_rad, axis):
    length = math.hypot(*axis)
    return (*(math.sin(angle_rad / 2) * a / length for a in axis), math.cos(angle_rad / 2))


# Where the objects are.
PLACES = {"stair": ((turn(0.9, (0.36, 0.48, 0.8)), (-0.22, -0.09, 0.7)),
                    (turn(2.2, (0.6, -0.2, 0.5)), (0.24, -0.08, 0.75))),
          "chair": ((turn(2.2, (1.0, 0.2, 0.1)), (0.02, 0.11, 0.7)), )}


def ctl(code, *arguments):
    done = subprocess.run([harness.BINARY + "/bin/posectl", *arguments], capture_output=True,
                          text=True, timeout=harness.PATIENCE_S)
    check(done.returncode == code, f"{arguments}: {done.returncode} {done.stdout} {done.stderr}")
    return done


def named(*names):
    return [word for name in names for word in ("--object", name)]


def write_files():
    for name, blocks in (("stair", BLOCKS), ("chair", CHAIR), ("stick", STICK)):
        write_mesh(f"{SCRATCH}/{name}.ply", blocks)
    write_png(SCRATCH + "/image.png", nearest(
        *(depth_image(*place, BLOCKS) for place in PLACES["stair"]),
        *(depth_image(*place, CHAIR) for place in PLACES["chair"])))
    with open(SCRATCH + "/calibration.txt", "w", encoding="ascii") as file:
        file.write(f"{FOCAL} {FOCAL} {WIDTH / 2} {HEIGHT / 2}\n")


def check_poses(said, wanted):
    """The accepted poses of JSON are of these objects, each where one of them is."""
    accepted = [pose for pose in json.loads(said)["poses"] if pose["accepted"]]
    names = [pose["object"] for pose in accepted]
    check(names == wanted, f"found {names}, not {wanted}: {said}")
    left = {name: [shift for _, shift in places] for name, places in PLACES.items()}
    for pose in accepted:
        at = pose["T_camera_model"]["position_m"]
        nearest_one = min(left[pose["object"]], key=lambda shift, at=at: math.dist(shift, at))
        check_at_most(math.dist(nearest_one, at), SHIFT_LIMIT_M, f"{pose['object']}: off by [m]")
        left[pose["object"]].remove(nearest_one)  # an instance is found once


def check_lines(said, names):
    """A line of text for each pose, with its object and its number among those of this object."""
    lines = said.splitlines()
    check([line.split(":")[0] for line in lines[:-1]] == names and " ms on " in lines[-1], said)


def colours_of(path):
    """How often each colour is in a PNG of 8 bits, red, green and blue, as the specification
    says."""
    with open(path, "rb") as file:
        data, at, packed = file.read(), 8, b""
    while at < len(data):
        n, name = struct.unpack(">I4s", data[at:at + 8])
        if name == b"IHDR":
            width, height, depth, kind = struct.unpack(">IIBB", data[at + 8:at + 18])
            check((depth, kind) == (8, 2), "red, green and blue")
        packed += data[at + 8:at + 8 + n] if name == b"IDAT" else b""
        at += n + 12
    raw, above, counts = zlib.decompress(packed), bytes(3 * width), {}
    for y in range(height):
        start = y * (3 * width + 1)
        row = bytearray(raw[start + 1:start + 1 + 3 * width])
        for x in range(3 * width):
            a, b, c = (row[x - 3], above[x], above[x - 3]) if x > 2 else (0, above[x], 0)
            p = [abs(b - c), abs(a - c), abs(a + b - 2 * c)]
            guess = [0, a, b, (a + b) // 2, (a, b, c)[p.index(min(p))]][raw[start]]
            row[x] = (row[x] + guess) & 255
        for x in range(width):
            colour = tuple(row[3 * x:3 * x + 3])
            counts[colour] = counts.get(colour, 0) + 1
        above = bytes(row)
    return counts


def check_picture():
    """Both outlines are drawn, of the stair two; alone, one."""
    pictures = {}
    for top, options in (("1", ()), ("2", TWO)):
        path = f"{SCRATCH}/top{top}.png"
        ctl(0, "search", *named("stair", "chair"), *LOCAL, *options, "--plot", path)
        counts = colours_of(path)
        pictures[top] = {name: counts.get(colour, 0) for name, colour in COLOURS.items()}
    check(all(n > 200 for n in pictures["1"].values()), f"pixels of outlines: {pictures}")
    check(pictures["2"]["stair"] > 1.5 * pictures["1"]["stair"], f"two stairs: {pictures}")
    check(pictures["2"]["chair"] < 1.2 * pictures["1"]["chair"], f"one chair: {pictures}")


def check_added_once():
    """A name that is taken is refused, as by the daemon; a model may lie in the folder already."""
    add = ("object", "add", "--local", "--objects", FOLDER, *VIEWS, "stair")
    mesh, views = FOLDER + "/stair.ply", FOLDER + "/stair.object"
    with open(mesh, "rb") as file:
        before = file.read()
    for model in (SCRATCH + "/chair.ply", mesh):
        done = ctl(1, *add, model)
        check("there is an object of this name" in done.stderr, done.stderr)
    os.unlink(views)
    ctl(0, *add, mesh)
    with open(mesh, "rb") as file:
        check(file.read() == before and before, "the model in the folder is as it was")
    check(os.path.exists(views), "its views were drawn")


def check_models_stay():
    """A model that was in the folder before the object outlives it, and is not written over; the
    copy of one from elsewhere goes with its object."""
    folder = SCRATCH + "/models"
    add = ("object", "add", "--local", "--objects", folder, *VIEWS)
    remove = ("object", "remove", "--local", "--objects", folder)
    os.mkdir(folder)
    for name in ("stair", "chair"):
        write_mesh(f"{folder}/{name}.ply", BLOCKS)
    with open(folder + "/stair.ply", "rb") as file:
        before = file.read()
    ctl(0, *add, "stair", folder + "/stair.ply")
    ctl(0, *add, "stick", SCRATCH + "/stick.ply")
    ctl(0, *remove, "stair")
    ctl(0, *remove, "stick")
    done = ctl(1, *add, "chair", SCRATCH + "/chair.ply")
    check(folder + "/chair.ply: is there already" in done.stderr, done.stderr)
    check(sorted(os.listdir(folder)) == ["chair.ply", "stair.ply"], os.listdir(folder))
    for name in ("stair", "chair"):
        with open(f"{folder}/{name}.ply", "rb") as file:
            check(file.read() == before, f"{name}: the model is as it was")


def check_local():
    for name in ("stair", "chair"):
        ctl(0, "object", "add", "--local", "--objects", FOLDER, *VIEWS, name,
            f"{SCRATCH}/{name}.ply")
    check_added_once()
    check_models_stay()
    said = ctl(0, "search", *named("chair", "stair"), *LOCAL, "-o", "json").stdout
    check_poses(said, ["chair", "stair"])
    check("object" not in json.loads(said), f"no one object: {said}")
    said = ctl(0, "search", *named("stair"), *LOCAL, "-o", "json").stdout
    check(json.loads(said)["object"] == "stair", said)
    said = ctl(0, "search", "--all", *TWO, *LOCAL, "-o", "json").stdout
    check_poses(said, ["chair", "stair", "stair"])
    check_lines(ctl(0, "search", "--all", *LOCAL).stdout, ["chair 1", "stair 1"])
    odd = os.fsencode(SCRATCH) + b"/st\xe4ir.ply"  # Latin 1
    write_mesh(odd)
    said = ctl(0, "search", *named(odd), *LOCAL, *VIEWS, "--plot", SCRATCH + "/odd.png", "-o",
               "json").stdout
    check([pose["object"] for pose in json.loads(said)["poses"]] == ["st?ir"], said)
    # A mesh file beside a name: it has the name of the file.
    done = ctl(DOUBTFUL, "search", *named("stair", SCRATCH + "/stick.ply"), *LOCAL, *VIEWS, "-o",
               "json")
    check_poses(done.stdout, ["stair"])
    check("search: stick: " in done.stderr and "stair" not in done.stderr, done.stderr)
    ctl(0, "object", "add", "--local", "--objects", FOLDER, *VIEWS, "stick", SCRATCH + "/stick.ply")
    said = ctl(0, "search", "--all", *LOCAL, "-o", "json").stdout  # one of them is enough
    check_poses(said, ["chair", "stair"])
    done = ctl(DOUBTFUL, "search", "--all", *LOCAL, "--region", "0,0,20,20")
    check("no object was found beyond doubt" in done.stderr, done.stderr)


def check_daemon():
    daemon = harness.Daemon("synth:room-straight", "--loop", "--set", "tracker.iterations=3,3,3",
                            speed=1)
    daemon.wait_for(lambda: daemon.poses, "first pose")
    where = ("-e", daemon.folder)
    for name in ("stair", "chair", "stick"):
        ctl(0, "object", "add", name, f"{SCRATCH}/{name}.ply", *VIEWS, *where)
    search = ("search", *IMAGE, *where)
    check_poses(ctl(0, *search, *named("chair", "stair"), "-o", "json").stdout, ["chair", "stair"])
    said = ctl(0, *search, "--all", *TWO, "-o", "json").stdout
    check_poses(said, ["stair", "stair", "chair"])
    check_lines(ctl(0, *search, *named("chair", "stair")).stdout, ["chair 1", "stair 1"])
    done = ctl(DOUBTFUL, *search, *named("chair", "stick"))
    check("search: stick: " in done.stderr and "chair 1: found" in done.stdout, done)
    done = ctl(1, *search, *named("stair", "nobody"))
    check('no object "nobody"' in done.stderr and not done.stdout, done)
    for option in (("--objects", FOLDER), ("--backend", "cpu")):  # the daemon's would be looked for
        done = ctl(2, *search, *named("stair"), *option)
        check(f"{option[0]} is for --local" in done.stderr and not done.stdout, done)
    check("32" in ctl(2, *search, *named(*(f"o{i}" for i in range(33)))).stderr, "33 names")
    check("--local" in ctl(2, *search, "--all", "--plot", SCRATCH + "/x.png").stderr, "--plot")
    daemon.stop()


def check_wrong():
    """Each is said at once; nothing is searched, and no picture written."""
    with open(SCRATCH + "/noise.ply", "wb") as file:
        file.write(b"noise")
    os.mkdir(SCRATCH + "/other")
    write_mesh(SCRATCH + "/other/stair.ply")
    stair, picture = SCRATCH + "/stair.ply", SCRATCH + "/none.png"
    small = SCRATCH + "/small.txt"
    with open(small, "w", encoding="ascii") as file:
        file.write("130 130 80 60 160 120\n")
    for code, word, objects in (
            (1, SCRATCH + "/noise.ply", named(stair, SCRATCH + "/noise.ply")),
            (1, SCRATCH + "/nowhere.ply", named(stair, SCRATCH + "/nowhere.ply")),
            (1, '"nobody"', named(stair, "nobody")),
            (1, "no object is there", ("--all", "--objects", SCRATCH + "/empty")),
            (2, "two of one name, stair", named("stair", "chair", "stair")),
            (2, "two of one name, stair", named(stair, SCRATCH + "/other/stair.ply")),
            (1, f"{small}: of a camera of 160x120", (*named(stair), "--calibration", small)),
            (2, "two of one name, stair", named("stair", stair)),
            (2, "--all", ("--all", *named("stair"))),
            (1, f"object list --local --objects {FOLDER}", named("nobody")),
            (2, "--object NAME", ())):
        began = time.monotonic()
        done = ctl(code, "search", *LOCAL, "--views", "200000", "--plot", picture, *objects)
        check_at_most(time.monotonic() - began, 5, "said before anything is drawn [s]")
        check(word in done.stderr and not done.stdout, f"{objects}: {done}")
        check(not os.path.exists(picture), f"{objects}: a picture")


def scenario():
    write_files()
    check_local()
    check_picture()
    check_wrong()
    check_daemon()


harness.run(scenario)
