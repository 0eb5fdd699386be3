# SPDX-License-Identifier: Apache-2.0
"""posed-bench capture: reads a recording, records it in each format, and reads that again."""
import json
import os
import subprocess

import harness
from harness import check

FRAMES = 12


def bench(code, *arguments):
    done = subprocess.run([harness.BINARY + "/bin/posed-bench", "capture", *arguments],
                          capture_output=True, text=True, timeout=100)
    check(done.returncode == code, f"{arguments}: {done.returncode} {done.stdout} {done.stderr}")
    return json.loads(done.stdout) if code == 0 else done.stderr


def scenario():
    folder = harness.SCRATCH + "/synth"
    subprocess.run([harness.BINARY + "/bin/posed-synth", "room", folder, "--frames", str(FRAMES)],
                   check=True, capture_output=True)
    source = "tum:" + folder
    check(bench(0, "--source", source, "--json")["frames"] == FRAMES, "frames")
    check(bench(0, "--source", source, "--frames", "5", "--json")["frames"] == 5, "--frames")
    for name, place in (("tum", "bench"), ("klg", "bench.klg"), ("fakenect", "bench"),
                        ("mcap", "bench.mcap")):
        out = f"{harness.SCRATCH}/{name}"
        done = bench(0, "--source", source, "--record", name, "--folder", out, "--speed", "0.5",
                     "--json")
        check(done["bytes"] > 0 and done["push_p99_us"] > 0, f"{done}")
        again = bench(0, "--source", f"{name}:{out}/{place}", "--json")
        recorded = FRAMES - done["late"] - done["dropped"]
        check(again["frames"] == recorded and again["damaged"] == 0, f"{name}: {done} {again}")
    check("--source" in bench(2), "no source")
    check("mcap" in bench(2, "--source", source, "--record", "avi"), "a format that is none")
    bench(4, "--source", "tum:/nonexistent")
    check(not os.path.exists("bench"), "a recording in the wrong place")


harness.run(scenario)
