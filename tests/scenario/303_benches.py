# SPDX-License-Identifier: Apache-2.0
"""posed-bench, each measurement in its smallest form: what it prints is right where the truth is
known, else sane; wrong options and sources end it with a message that names them.

`loops` and JSON of `latency` are in 302_tools, JSON of `capture` in 222_bench_capture. Left out,
as they take long: `pairs` of strangers and of little overlap, `search --requirements` without
--model, `latency --work wide`.
"""
import json
import math
import os
import re
import subprocess

import bumpy
import harness
import stair
from harness import BINARY, SCRATCH, check

SYNTH = "-s synth:room,frames=8 -b cpu"
SCENES = "search -b cpu -v 512 --scenes"  # and their number
CLOUDS = "--points 400 --backend cpu --repeats"
TURN = (0.1, -0.05, 0.08, math.sqrt(1 - 0.1**2 - 0.05**2 - 0.08**2))
SHIFT_M = (0.03, -0.02, 0.05)
STAIR_POSE = ((0.3, -0.4, 0.2, math.sqrt(1 - 0.09 - 0.16 - 0.04)), (0.02, -0.01, 0.7))
DEG, ALIGN_M, ADD_MM = 5, 0.05, 5  # limits: of a registration, of images of a statue 13 m high, of
                                   # the object that is searched for

# What is run; then what it says: a pattern in the text and what must hold of its numbers.
TEXTS = [
    ("capture -s synth:room,frames=4", r"(\d+) frames, (\d+) damaged",
     lambda n, bad: (n, bad) == (4, 0)),
    (f"capture -s synth:room,frames=3 --record tum --folder {SCRATCH}/out --speed 100",
     r"(\d+) late(?:.*\n)+tum: (\d+) frames recorded, (\d+) dropped", lambda *n: sum(n) == 3),
    ("kidnap -b cpu -s synth:room -n 16 -t 1 --voxel 0.02 --threads 2",
     r"1 trials: found (\d+) .* TRACKING in (\d+)", lambda found, wrong: (found, wrong) == (1, 0)),
    ("kidnap -b cpu -r keyframe -s synth:room -n 16 -t 1 --threads 2",
     r"1 trials: found (\d+) .* TRACKING in (\d+) .* agree: found (\d+), .* wrong in (\d+)",
     lambda *n: n == (1, 0, 1, 0)),
    ("kidnap -b cpu -r keyframe -s synth:room -n 16 -t 1 --threads 2 --foreign synth:corridor",
     r"1 trials: found (\d+) .* TRACKING in (\d+)", lambda *n: n == (0, 0)),
    ("map -b cpu -n 4 --rounds 1 --voxel 0.02", r"(\d+) frames, (\d+) tracking; .*: (\d+) blocks",
     lambda n, tracking, blocks: n == 8 and tracking == 7 and blocks > 100),
    (f"register {CLOUDS} 1 --method icp --stops 3", r"error ([\d.]+) deg, ([\d.e-]+) m",
     lambda deg, m: deg < DEG and m < 0.01),
    (f"register {CLOUDS} 1 --start many --starts 200 --all-pairs 128 --threads 2",
     r"(\d+) iterations; error ([\d.]+) deg", lambda n, deg: n > 0 and deg <= 180),
    (f"register --backend cpu --data {SCRATCH}/trials --select turned_* -v",
     r"all +(\d+) trials, < 5 deg +(\d+), < 1 deg +(\d+)", lambda *n: n == (2, 2, 2)),
    ("pairs --backend cpu --statues 2 -v", r"0.3 and more: (\d+) pairs, right (\d+) .* "
     r"not flagged (\d+)", lambda *n: n == (2, 2, 0)),
    ("pairs --backend cpu --statues 1 --method gicp --near-deg 3 --near-m 0.001 --seed 1",
     r"trust below 0.07 flagged: wrong not flagged (\d+) of (\d+), .* of (\d+)",
     lambda *n: n == (0, 0, 1)),
    ("pairs --backend cpu --rooms 1 --method gicp --near-deg 1",
     r"0.3 and more: (\d) pairs, right (\d)", lambda *n: n == (1, 1)),
    (f"pairs --backend cpu {SCRATCH}/truth", r"(\d+) pairs, right (\d+)", lambda *n: n == (1, 1)),
    (f"pairs --backend cpu {SCRATCH}/truth --overlap 0.95", r"(\d+) pairs", lambda n: n == 0),
    (f"pairs --backend cpu {SCRATCH}/conf --apart 2 --limit-deg 1 --limit-m 0.01 --start identity "
     "--threads 2", r"(\d+) pairs, right (\d+)", lambda *n: n == (1, 1)),
    ("search -b cpu -v 256 -r 1 -t 2", r"request +([\d.]+) +([\d.]+)",
     lambda low, p50: 0 < low <= p50),
    (f"{SCENES} 4 --mixed --each", r"object in 3: (\d+) right .*\n.*mean ([\d.]+) .*\n.*\n"
     r"accepted: \d+, of these wrong: (\d+)",
     lambda right, deg, wrong: (right, wrong) == (3, 0) and deg < DEG),
    ("search -b cpu -v 128 --scenes 1 --clean -p germann --greedy --coarse 8 -i 10",
     r"object in 1: (\d) right", lambda n: n == 1),
    (f"{SCENES} 1 --clean -p germann --no-refine",
     r"bare views, .*: (\d) right, .* ([\d.]+) deg.*\n"
     r".*nearest view of the set, mean ([\d.]+)", lambda n, deg, near: n <= 1 and 0 < near < 40),
    (f"{SCENES} 1 --outline --sensor unkind", r"(\d) objects: ([\d.]+) %",
     lambda n, far: n == 1 and far < 20),
    ("search -b cpu -v 64 --fit 2 --scenes 1", r"(\d) scenes, (\d) answers right",
     lambda n, right: n == 2 and right <= 2),
    ("search -b cpu -v 64 --fit 2 --scenes 1 --curve -t 2",
     r"right from wrong\): (\d+) choices of (\d+)",
     lambda choices, rows: choices <= rows),
    (f"search -b cpu -v 512 --frame {SCRATCH}/frame",
     r"stair +right in place (\d), ([\d.]+) degrees, "
     r"ADD-S ([\d.]+) mm", lambda place, deg, mm: place == 1 and mm < ADD_MM),
    (f"search -b cpu -v 64 --frame {SCRATCH}/frame --outline",
     r"(\d) objects: .* off by ([\d.]+) mm",
     lambda n, mm: n == 1 and mm < ADD_MM),
    ("search -b cpu -v 128 --requirements 1 --scenes 1 -m duck",
     r"60 % and more visible +1 scenes, (\d) right(?:.*\n)+absent +1 scenes, (\d) accepted",
     lambda right, wrong: (right, wrong) == (1, 0)),
    (f"track {SYNTH} -n 4 -t 0.05 --agreement", r"CPU backend: ([\d.e-]+) m, ([\d.e-]+) rad",
     lambda *apart: apart == (0, 0)),
    (f"track {SYNTH} -n 4 -t 0.05 --streams 2", r"2 streams: (\d+) frames/s",
     lambda rate: rate >= 0),
    (f"track {SYNTH} -n 4 -t 0.05 --captured=locked", r"thread \(locked\)()", lambda _: True),
    ("align -n 4 -v 1000 --iterations 2 --wrong 0.2 --parts 2 --backend cpu --verbose --threads 2",
     r"error ([\d.e-]+) m (?:.*\n)+with (\d) wrong (?:.*\n)+partition +(\d) ranks: .* ([\d.]+) of",
     lambda m, wrong, parts, share: m < ALIGN_M and wrong == 1 and 0.5 <= share <= 1),
    (f"align --conf {SCRATCH}/scans/truth.conf --seeds 1 --degrees 0.5 --share 0.002 --backend cpu",
     r"given poses: mean vertex error ([\d.]+) mm(?:.*\n)+.* of 1 back .*; worst ([\d.]+) mm",
     lambda given, back: max(given, back) < 1000 * ALIGN_M),
    ("latency -b cpu -t 0.3 --rounds 1 --jitter 2 --work "
     "register,many,softassign,dense,large,outlier,search,germann,box,object,first-register",
     r"germann +([\d.]+) .*\nbox .*\nobject .*\nfirst-register +([\d.]+)",
     lambda *us: min(us) > 0 or harness.is_sanitized()),
    ("latency -b cpu -t 0.3 --rounds 1 --rate 0 --work icp",
     r"one after the other\n(?:.*\n)+icp +([\d.]+)",
     lambda us: us > 0 or harness.is_sanitized()),
]

# What is run with --json; then what must hold of its lines.
JSONS = [
    (f"register {CLOUDS} 2", lambda r: r["error_deg"] < DEG and 0 < r["min_ms"] <= r["median_ms"]),
    (f"register {CLOUDS} 1 --method softassign", lambda r: r["error_deg"] < DEG),
    (f"register {CLOUDS} 1 --method gicp", lambda r: r["error_deg"] < DEG),
    (f"register {CLOUDS} 1 --form dense --preset tamaki", lambda r: r["error_deg"] <= 180),
    (f"register --backend cpu --data {SCRATCH}/trials", lambda turned, noise, every: (
        turned["trials"], noise["trials"], every["trials"], every["below_5_deg"]) == (2, 1, 3, 3)),
    ("search -b cpu -v 256 -r 1 -m random:3", lambda r: r["views"] == 256 and r["compared"] > 0),
    (f"search -b cpu -v 256 -r 1 -m {SCRATCH}/frame/stair.ply", lambda r: r["starts"] > 0),
    (f"{SCENES} 1 -m elbow --sensor tof", lambda r: r["mean_deg"] < DEG and r["recall"] <= 1),
    (f"{SCENES} 1 -m mug --sensor registered -s 2 --visible 0.7:1", lambda r: r["right"] == 1),
    (f"{SCENES} 5 --sensor any", lambda r: r["right"] == 5 and r["false_accepted"] == 0),
    (f"{SCENES} 1 --absent -m drill", lambda r: (r["present"], r["false_accepted"]) == (0, 0)),
    (f"{SCENES} 1 -p germann --clean", lambda r: r["right"] == 1 and "view_right" in r),
    ("search -b cpu -v 64 --requirements 1 --scenes 1 -m duck",
     lambda r: r["absent"]["right"] == 0),
    (f"track {SYNTH} -n 4 -t 0.05 --streams 1", lambda r: r["n_streams"] == 1),
    (f"track {SYNTH} -n 4 -t 0.05 --early-stop on --bilateral 0 -i 2,2,2 -j 1 --agreement",
     lambda r: 0 < r["mean_iterations"] <= 6 and r["agreement_m"] == 0 and r["mean_pairs"] > 1000),
    ("align -n 4 -v 1000 --iterations 1 --wrong 0.2 --parts 2 --backend cpu --seed 2 --gate 1 "
     "--noise 0 --relative 0.1 --min-overlap 0.01", lambda first, wrong, parts, times: (
         first["mean_error_m"] < ALIGN_M and wrong["wrong_pairs"] > 0 and parts["parts"] == 2
         and times["iterations"] == 1)),
]

# Words of an option that is refused, as they stand in the message.
REFUSED = """
    align --wrong 2; align --seed -1; align --views 1; align --backend gpu; capture --speed 0
    capture --frames 1.5; capture --record avi; kidnap --trials 0; kidnap --seed x
    kidnap --find no; kidnap --keyframes 3; kidnap --frames 1; latency --rate x; latency --work tea
    latency --seconds 0; latency --rounds 0.5; latency --jitter -1; latency --backend no
    loops --jobs 0; loops --first 1x; loops --seeds 0; loops --source tum:/tmp; map --rounds 0
    map --voxel 1; map --threads -1; map --backend metal; pairs --method no; pairs --rooms 513
    pairs --statues 0; pairs --near-deg x; pairs --overlap 2; pairs --apart 0; pairs --start no
    register --points 2; register --threads 5x; register --form no; register --preset no
    register --repeats 0; register --starts -1; search --sensor no; search --visible 1:0
    search --visible 0:1x; search --views 63; search --preset no; search --backend no
    search --scenes 0; search --fit 1; search --seed -1; track --iterations 1,2; track --isa no
    track --path no; track --bilateral 7; track --frames 1; track --streams 65
    track --early-stop no; track --seconds 0"""

# What fails otherwise, by exit code; and what the message says.
FAILURES = {
    1: [("pairs /nowhere", "/nowhere"), ("register --data /nowhere", "/nowhere"),
        ("search -b cpu -m /nowhere", "/nowhere"), ("search -b cpu --frame /nowhere", "/nowhere"),
        (f"register --data {SCRATCH}/untold", "groundtruth.txt"), (f"pairs {SCRATCH}/cut", "cut")],
    2: [("", "Usage"), ("nothing", "nothing"), ("track", "--source"), ("pairs", "FOLDER"),
        ("pairs a b", "more than one"), ("map a", "unexpected argument a"),
        ("track --captured=no", "--captured no: copied, locked or written is wanted"),
        ("search -m random:x", "--model random:SEED, SEED x: a whole number"),
        (f"track {SYNTH} --captured --dirty", "alone")],
    4: [("align --conf /nowhere", "/nowhere"), ("kidnap -s tum:/nowhere", "/nowhere"),
        ("kidnap -n 4 --foreign tum:/nowhere", "/nowhere"),
        ("map -s tum:/nowhere", "/nowhere"), ("track -s tum:/nowhere", "/nowhere"),
        ("latency -s tum:/nowhere", "/nowhere"),
        ("track -s synth:room,frames=1", "fewer than two")],
}


def bench(line, code=0):
    run = subprocess.run([BINARY + "/bin/posed-bench", *line.split()], stdin=subprocess.DEVNULL,
                         capture_output=True, text=True, timeout=2 * harness.PATIENCE_S)
    check(run.returncode == code,
          f"{line}: exit code {run.returncode}, expected {code}: {run.stdout}{run.stderr}")
    return run.stderr if code else run.stdout


def write_ply(path, vertices, triangles=()):
    with open(path, "w") as file:
        file.write(f"ply\nformat ascii 1.0\nelement vertex {len(vertices)}\nproperty float x\n"
                   f"property float y\nproperty float z\nelement face {len(triangles)}\n"
                   "property list uchar int vertex_indices\nend_header\n")
        file.writelines(" ".join(f"{x:.7g}" for x in v) + "\n" for v in vertices)
        file.writelines("3 " + " ".join(map(str, t)) + "\n" for t in triangles)


def write_text(path, text):
    with open(path, "w") as file:
        file.write(text)


def make_folders():
    """Two clouds whose pose is known in each of the layouts, scans, and a frame with the stair."""
    for name in ("trials", "truth", "conf", "untold", "cut", "frame"):
        os.mkdir(f"{SCRATCH}/{name}")
    points = bumpy.shape(600)
    moved = bumpy.moved(points, TURN, SHIFT_M)
    rows = harness.rotation(TURN)
    flat = " ".join(f"{x:.9g}" for row in rows for x in row)
    shift = " ".join(map(str, SHIFT_M))
    for name in ("trials", "untold"):
        write_ply(f"{SCRATCH}/{name}/source.ply", points)
    trials = ("turned_00", "turned_01", "noise_00")
    for name in trials:
        write_ply(f"{SCRATCH}/trials/{name}.ply", moved)
    write_text(SCRATCH + "/trials/groundtruth.txt",
               "# comment\n" + "".join(f"{name}.ply {flat} {shift}\n" for name in trials))
    for name in ("truth", "conf"):
        write_ply(f"{SCRATCH}/{name}/cloud_bin_0.ply", moved)
        write_ply(f"{SCRATCH}/{name}/cloud_bin_1.ply", points)
    matrix = "".join(" ".join(map(str, [*row, t])) + "\n" for row, t in zip(rows, SHIFT_M))
    write_text(SCRATCH + "/truth/groundtruth.txt", f"0 1 0.9\n{matrix}0 0 0 1\n")
    write_text(SCRATCH + "/cut/groundtruth.txt", f"0 1 0.9\n{matrix[:20]}\n")
    conjugate = " ".join(map(str, (-TURN[0], -TURN[1], -TURN[2], TURN[3])))
    write_text(SCRATCH + "/conf/a.conf", "bmesh cloud_bin_0.ply 0 0 0 0 0 0 1\n"
               f"bmesh cloud_bin_1.ply {shift} {conjugate}\n")
    write_ply(SCRATCH + "/frame/stair.ply", *stair.mesh())
    stair.write_png(SCRATCH + "/frame/depth.png", stair.depth_image(*STAIR_POSE))
    write_text(SCRATCH + "/frame/calibration.txt", f"{stair.FOCAL} {stair.FOCAL} {stair.WIDTH / 2} "
               f"{stair.HEIGHT / 2} {stair.WIDTH} {stair.HEIGHT} 1000\n")
    write_text(SCRATCH + "/frame/stair.pose.txt", "".join(
        " ".join(map(str, [*row, t])) + "\n"
        for row, t in zip(harness.rotation(STAIR_POSE[0]), STAIR_POSE[1])) + "0 0 0 1\n")
    subprocess.run([BINARY + "/bin/posed-align", "generate", "-n", "12", "-v", "10000", "-N", "0",
                    "-o", SCRATCH + "/scans"], check=True, stdout=subprocess.DEVNULL)


def check_same_poses():
    """However a frame comes to the device, its pose has the same bits."""
    ways = ("", "--dirty", "--written", "--overlap", "--captured", "--captured=copied",
            "--captured=locked", "--threads 1", "--isa auto", "--path plain")
    hashes = {way: json.loads(bench(f"track {SYNTH} -n 4 -t 0.02 --json {way}"))["pose_hash"]
              for way in ways}
    check(len(set(hashes.values())) == 1, f"poses: {hashes}")
    bench(f"track {SYNTH} -n 4 -t 0.02 --isa baseline")


def scenario():
    make_folders()
    check("posed-bench" in bench("--version") and "kidnap" in bench("--help"), "--version, --help")
    for line, pattern, holds in TEXTS:
        text = bench(line)
        found = re.search(pattern, text)
        check(found, f"{line}: no \"{pattern}\" in: {text}")
        check(holds(*(float(x) if x else x for x in found.groups())), f"{line}: {text}")
    for line, holds in JSONS:
        text = bench(line + " --json")
        check(holds(*map(json.loads, text.splitlines())), f"{line}: {text}")
    check_same_poses()
    for line in re.split(r"[;\n] *", REFUSED.strip()):
        command, words = line.split(maxsplit=1)
        said = bench(line, 2)
        check(f"posed-bench {command}: {words}: " in said and "wanted" in said, f"{line}: {said}")
    for code, line, says in ((code, *rest) for code, all_ in FAILURES.items() for rest in all_):
        said = bench(line, code)
        check(says in said, f"{line}: \"{says}\" is not in: {said}")


harness.run(scenario)
