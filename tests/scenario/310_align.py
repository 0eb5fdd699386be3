#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""posed-align over MPI: the same bytes from one rank and from three, each rank with its share of
the memory; starts that registration finds; a rank that dies ends the run, the checkpoint it leaves
is gone on from; bad input."""
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time

MAX_MEAN_ERROR_MM = 4.0  # of views with 0.14 m between their vertices, noise 1 cm

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


def main():
    with tempfile.TemporaryDirectory(prefix="posed-align-") as folder:
        run([ALIGN, "generate", "--views", "10", "--vertices", "5000", "--out", folder])
        expected = check_one(folder)
        check_starts(folder)
        if not MPIRUN or b"libmpi" not in subprocess.run(["ldd", ALIGN], capture_output=True,
                                                         check=True).stdout:
            print("SKIP: no MPI: only one rank was tried")
            return
        check_ranks(folder, expected)
        check_death(folder)
        check_bad(folder)


main()
