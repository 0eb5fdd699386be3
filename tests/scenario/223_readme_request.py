# SPDX-License-Identifier: Apache-2.0
"""The Python client of the README, taken as it stands there, asks a running daemon."""
import os
import re
import subprocess
import sys

import harness
from harness import check


def scenario():
    with open(harness.SOURCE + "/README.md", encoding="utf-8") as file:
        blocks = re.findall(r"```python\n(.*?)```", file.read(), re.DOTALL)
    programs = [block for block in blocks if "requests_pb2" in block]
    check(len(programs) == 1, "the README has one Python client of requests")
    daemon = harness.Daemon("synth:room-straight", "--loop", speed=1)
    daemon.wait_for(lambda: len(daemon.poses) > 3, "poses")
    done = subprocess.run([sys.executable, "-c", programs[0], daemon.address("req")],
                          env=dict(os.environ, PYTHONPATH=harness.SCRATCH + "/messages"),
                          capture_output=True, text=True, timeout=60)
    print(done.stdout)
    check(done.returncode == 0, done.stderr)
    check(done.stdout.startswith("OK") and "position" in done.stdout, done.stdout)
    daemon.stop()


harness.run(scenario)
