# SPDX-License-Identifier: Apache-2.0
"""The n-th allocation, open, write or thread of a start with 30 frames and a recording fails: the
daemon says so in a line and ends with an exit code of its own, or goes on; it never dies, and what
it recorded can be read. Some n of each kind; all of them with the argument `all`."""
import os
import shutil
import subprocess
import sys

import harness
from harness import check

ALL = sys.argv[1:] == ["all"]
KINDS = {"malloc": 40, "open": 7, "write": 17, "thread": 6}  # tried: every so many
OUR_CODES = (0, 1, 2, 3, 4, 5)
LIBRARY = harness.BINARY + "/tests/libfail_nth.so"


def try_one(kind, n):
    folder = harness.SCRATCH + "/try"
    shutil.rmtree(folder, ignore_errors=True)
    os.mkdir(folder)
    mark = folder + "/mark"
    environment = {**os.environ, "LD_PRELOAD": LIBRARY, "POSED_FAIL": kind,
                   "POSED_FAIL_AT": str(n), "POSED_FAIL_MARK": mark, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [harness.BINARY + "/bin/posed", "--source", "synth:room", "--frames", "30", "--speed",
         "max", "--backend", "cpu", "--run-dir", folder + "/run", "--no-tcp", "--set",
         "tracker.iterations=1,1,1", "--set", "gpu.threads=1", "--set",
         "recorder.folder=" + folder + "/recordings", "--set", "recorder.start=one", "--set",
         "recorder.format=mcap", "--set", "http.port=0"],
        env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=100,
        errors="replace")
    return os.path.exists(mark), done


def scenario():
    if harness.is_sanitized():
        harness.skip("the sanitizer has its own allocator")
    wrong = []
    for kind, step in KINDS.items():
        n, n_tried, n_died, silent = 1, 0, [], []
        while True:
            reached, done = try_one(kind, n)
            if not reached:
                break
            n_tried += 1
            if done.returncode not in OUR_CODES:
                n_died.append(f"{n} ({done.returncode}: {done.stderr.strip()[-150:]})")
            elif done.returncode != 0 and not done.stderr.strip():
                silent.append(str(n))
            n += 1 if ALL else step
        print(f"{kind}: {n_tried} tried, up to {n}; died: {len(n_died)}; ended without a word: "
              f"{len(silent)}", flush=True)
        check(n_tried > 0, f"{kind}: none failed: the test itself is broken")
        if n_died or silent:
            wrong.append(f"{kind}: died at {n_died}; silent at {silent}")
    check(not wrong, "\n".join(wrong))


harness.run(scenario)
