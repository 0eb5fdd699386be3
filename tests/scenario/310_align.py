#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""posed-align over MPI: the same bytes from one rank and from three, each rank with its share of
the memory; starts that registration finds; a rank that dies ends the run, the checkpoint it leaves
is gone on from; a depth camera's own error, taken out alike by any number; bad input."""
import json
import math
import os
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import time

MAX_MEAN_ERROR_MM = 4.0  # of views with 0.14 m between their vertices, noise 1 cm
WIDTH, HEIGHT, FOCAL_PX = 160, 120, 131.25  # of a depth camera that errs
N_IMAGES, UNITS_PER_M = 42, 5000
PLANES = ((0, 0, 1, 2.0), (0.8, 0, 0.6, 1.5), (0, 0.8, 0.6, 1.4))  # of a room's corner: n, d

BIN = os.path.join(os.environ["POSED_BINARY_DIR"], "bin")
ALIGN = os.path.join(BIN, "posed-align")
MPIRUN = shutil.which("mpirun")
MPI = [MPIRUN, "--allow-run-as-root", "--oversubscribe"]


def run(command, expected=0):
    result = subprocess.run(command, capture_output=True, text=True, timeout=200)
    if result.returncode != expected:
        sys.exit(f"{command}: exit {result.returncode}, not {expected}\n{result.stdout}"
                 f"{result.stderr}")
    return result


def options(folder, out, *more):
    return ["--conf", f"{folder}/start.conf", "--out", out, "--truth", f"{folder}/truth.conf",
            "--backend", "cpu", "--threads", "1", "--no-merged", "--no-pictures", *more]


def read(path):
    with open(path, "rb") as file:
        return file.read()


def check_one(folder):
    out = f"{folder}/one"
    text = run([ALIGN, *options(folder, out, "--quiet")]).stdout
    error = float(text.split("mean vertex error")[1].split()[0])
    print(f"one rank: mean vertex error {error} mm")
    assert error < MAX_MEAN_ERROR_MM, text
    assert not os.path.exists(f"{out}/checkpoint.txt")
    return read(f"{out}/aligned.conf")


def check_ranks(folder, expected):
    out = f"{folder}/three"
    run([*MPI, "-n", "3", ALIGN, *options(folder, out, "--quiet")])
    assert read(f"{out}/aligned.conf") == expected, "three ranks, other bytes"
    with open(f"{out}/report.json", encoding="utf-8") as file:
        report = json.load(file)
    assert report["ranks"] == 3 and len({pair["rank"] for pair in report["pair"]}) == 3
    share = report["partition"]["largest_vertices"] / report["partition"]["all_vertices"]
    print(f"three ranks: the same bytes; largest memory {share:.2f} of all")
    assert share < 0.75


# The poses of start.conf are not looked at: all but the first are turned over.
def check_starts(folder):
    with open(f"{folder}/start.conf", encoding="utf-8") as file:
        first, *lines = [line for line in file if line.startswith("bmesh")]
    with open(f"{folder}/unknown.conf", "w", encoding="utf-8") as file:
        file.writelines([first, *(f"bmesh {line.split()[1]} 5 5 5 1 0 0 0\n" for line in lines)])
    out = f"{folder}/starts"
    command = [ALIGN, *options(folder, out, "--start", "many")]
    command[command.index("--conf") + 1] = f"{folder}/unknown.conf"
    result = run(command)
    error = float(result.stdout.split("mean vertex error")[1].split()[0])
    print(f"no start poses: mean vertex error {error} mm")
    assert error < MAX_MEAN_ERROR_MM, result.stdout
    assert result.stderr.count("of it agree") == len(lines), result.stderr
    said = run([ALIGN, "--depth", folder, "--calibration", "x", "--out", out], 2).stderr
    assert "--start many" in said, said


# Many iterations that never stop by themselves, until the checkpoint is there; then a rank dies.
def check_death(folder):
    out = f"{folder}/dead"
    long = options(folder, out, "--quiet", "--fixed", "--iterations", "100000")
    job = subprocess.Popen([*MPI, "-n", "2", ALIGN, *long], stderr=subprocess.PIPE, text=True)
    checkpoint = f"{out}/checkpoint.txt"
    until = time.monotonic() + 100
    while not os.path.exists(checkpoint):
        assert time.monotonic() < until and job.poll() is None, "no checkpoint"
        time.sleep(0.05)
    with open(f"/proc/{job.pid}/task/{job.pid}/children", encoding="ascii") as file:
        ranks = [int(pid) for pid in file.read().split()]
    ranks = [pid for pid in ranks if b"posed-align" in read(f"/proc/{pid}/cmdline")]
    assert len(ranks) == 2, ranks
    os.kill(ranks[-1], signal.SIGKILL)
    error = job.communicate(timeout=60)[1]
    assert job.returncode != 0, "a dead rank and exit status 0"
    assert error.strip(), "a dead rank and no message"
    result = run([ALIGN, *options(folder, out, "--quiet")])
    assert "going on from" in result.stderr, result.stderr
    assert not os.path.exists(checkpoint)
    print(f"a rank killed: exit {job.returncode}; the next run goes on")


def check_bad(folder):
    bad = f"{folder}/bad.conf"
    with open(f"{folder}/start.conf", encoding="utf-8") as file:
        lines = file.read().splitlines()
    with open(bad, "w", encoding="utf-8") as file:
        file.write("\n".join([*lines, lines[0]]) + "\n")
    result = run([ALIGN, "--conf", bad, "--out", f"{folder}/b"], 1)
    assert "two images are named" in result.stderr
    run([ALIGN, "--conf", bad], 2)
    missing = f"{folder}/missing.conf"
    with open(missing, "w", encoding="utf-8") as file:
        file.write("\n".join([*lines, "bmesh nobody.ply 0 0 0 0 0 0 1"]) + "\n")
    result = run([*MPI, "-n", "2", ALIGN, "--conf", missing, "--out", f"{folder}/m"], 1)
    assert "nobody.ply" in result.stderr
    check_refused(folder)


# Said at once, before minutes of work; what would be ignored is refused.
def check_refused(folder):
    start = ["--conf", f"{folder}/start.conf", "--out", f"{folder}/r"]
    for more, says in ((["--source", "synth:room"], "only one of"),
                       (["--every", "5"], "--every is for --source"),
                       (["--poses", "p.txt"], "--poses is for --depth"),
                       (["--calibration", "c.txt"], "--calibration is for --depth"),
                       (["--units", "5000"], "--units is for --depth")):
        said = run([ALIGN, *start, *more], 2).stderr
        assert says in said, said
    with open(f"{folder}/few.conf", "w", encoding="utf-8") as file:
        file.write("bmesh view000.ply 0 0 0 0 0 0 1\n")
    for truth, says in (("gone.conf", "gone.conf"), ("few.conf", "1 poses for")):
        result = run([ALIGN, *start, "--truth", f"{folder}/{truth}"], 1)
        assert says in result.stderr, result.stderr
        assert not os.path.exists(f"{folder}/r/aligned.conf"), "aligned before the truth was read"


def sway(i):
    """The camera's place and its turn about y at image i."""
    return [0.3 * math.sin(0.9 * i), 0.15 * math.sin(1.3 * i), 0.15 * math.sin(1.7 * i),
            0.15 * math.sin(0.6 * i)]


def field_per_m(u, v):
    x, y = 2 * u / (WIDTH - 1) - 1, 2 * v / (HEIGHT - 1) - 1
    return 6e-3 * (x * y + 0.5 * math.sin(3 * x))


def write_image(path, x, y, z, turn, times):
    c, s = math.cos(turn), math.sin(turn)
    planes = [(a * c - n * s, b, a * s + n * c, d - a * x - b * y - n * z)
              for a, b, n, d in PLANES]  # in the camera's frame
    pixels = []
    for v in range(HEIGHT):
        for u in range(WIDTH):
            ray = (u - (WIDTH - 1) / 2) / FOCAL_PX, (v - (HEIGHT - 1) / 2) / FOCAL_PX
            w = max((a * ray[0] + b * ray[1] + n) / d for a, b, n, d in planes)
            pixels.append(round(UNITS_PER_M / (w - times * field_per_m(u, v))))
    with open(path, "wb") as file:
        file.write(f"P5 {WIDTH} {HEIGHT} 65535\n".encode())
        file.write(struct.pack(f">{len(pixels)}H", *pixels))


def camera_report(folder, out, ranks, *more):
    command = [ALIGN, "--depth", f"{folder}/depth", "--poses", f"{folder}/poses.txt",
               "--calibration", f"{folder}/calibration.txt", "--units", str(UNITS_PER_M),
               "--backend", "cpu", "--threads", "1", "--gate", "0.1", "--no-merged",
               "--no-pictures", "--quiet", "--out", f"{folder}/{out}", *more]
    text = run(command if ranks == 1 else [*MPI, "-n", str(ranks), *command]).stdout
    with open(f"{folder}/{out}/report.json", encoding="utf-8") as file:
        report = json.load(file)
    far = [math.dist(image["t_m"], sway(i)[:3]) for i, image in enumerate(report["image"])]
    return text, report, max(far)


# A depth camera's own error is taken out of its images, by any number of ranks alike.
def check_camera(folder):
    os.mkdir(f"{folder}/depth")
    with open(f"{folder}/calibration.txt", "w", encoding="utf-8") as file:
        file.write(f"{FOCAL_PX} {FOCAL_PX} {(WIDTH - 1) / 2} {(HEIGHT - 1) / 2}\n")
    with open(f"{folder}/poses.txt", "w", encoding="utf-8") as file:
        for i in range(N_IMAGES):
            x, y, z, turn = sway(i)
            write_image(f"{folder}/depth/{i:03}.pgm", x, y, z, turn, 1)
            off = 0.005 * (-1) ** i if i else 0
            file.write(f"{i} {x + off} {y} {z - off} 0 {math.sin(turn / 2)} 0 "
                       f"{math.cos(turn / 2)}\n")
    _, plain, plain_m = camera_report(folder, "no-field", 1, "--no-field")
    text, report, far_m = camera_report(folder, "field", 1)
    print(f"a camera that errs: images {1e3 * plain_m:.1f} mm off, {1e3 * far_m:.1f} with its "
          "error taken out")
    assert "camera_error" not in plain and "is taken out" in text, text
    assert report["camera_error"]["taken_out"] and report["camera_error"]["reduction"] > 0.15
    assert 2e-3 < report["camera_error"]["rms_per_m"] < 6e-3, report["camera_error"]
    assert far_m < plain_m / 2, (far_m, plain_m)
    if has_mpi():
        camera_report(folder, "three", 3)
        assert read(f"{folder}/three/poses.txt") == read(f"{folder}/field/poses.txt")


# A recording's keyframes: the gate that --help says, and links across time that the fourth rule
# would call redundant.
def check_recording(folder):
    out = f"{folder}/recording"
    run([ALIGN, "--source", "synth:room,frames=8", "--every", "2", "--out", out, "--backend", "cpu",
         "--no-merged", "--no-pictures", "--quiet"])
    with open(f"{out}/report.json", encoding="utf-8") as file:
        report = json.load(file)
    assert report["images"] == 4 and report["gate_m"] == 0.1, report
    assert report["pairs"]["kept"] == report["pairs"]["all"] == 6, report["pairs"]


def has_mpi():
    return MPIRUN and b"libmpi" in subprocess.run(["ldd", ALIGN], capture_output=True,
                                                  check=True).stdout


def main():
    with tempfile.TemporaryDirectory(prefix="posed-align-") as folder:
        run([ALIGN, "generate", "--views", "10", "--vertices", "5000", "--out", folder])
        expected = check_one(folder)
        check_starts(folder)
        check_camera(folder)
        check_recording(folder)
        if not has_mpi():
            print("SKIP: no MPI: only one rank was tried")
            return
        check_ranks(folder, expected)
        check_death(folder)
        check_bad(folder)


main()
