# SPDX-License-Identifier: Apache-2.0
"""The Python client of the README, taken as it stands there and run with the package posed as pip
installed it, asks a running daemon."""
import os
import re
import subprocess

import harness
from harness import SOURCE, check

PYTHON = os.environ.get("POSED_CLIENT_PYTHON") or SOURCE + "/build/posed-python/bin/python3"


def scenario():
    with open(SOURCE + "/README.md", encoding="utf-8") as file:
        blocks = re.findall(r"```python\n(.*?)```", file.read(), re.DOTALL)
    programs = [block for block in blocks if "request(" in block]
    check(len(programs) == 1, "the README has one Python client of requests")
    if not os.path.exists(PYTHON):
        harness.skip(f"no {PYTHON} with the package posed (tools/test installs it there)")
    daemon = harness.Daemon("synth:room-straight", "--loop", speed=1)
    daemon.wait_for(lambda: len(daemon.poses) > 3, "poses")
    done = subprocess.run([PYTHON, "-c", programs[0]], capture_output=True, text=True,
                          env={**os.environ, "POSED_HOST": daemon.folder},
                          timeout=harness.PATIENCE_S)
    print(done.stdout)
    check(done.returncode == 0, done.stderr)
    first, second = done.stdout.splitlines()
    check(int(first.split()[0]) > 0 and first.endswith("]"), first)
    version = subprocess.run([harness.BINARY + "/bin/posed", "--version"], capture_output=True,
                             text=True, check=True).stdout.split()[1]
    check(second == f"(480, 640) {version}", second)
    daemon.stop()


harness.run(scenario)
