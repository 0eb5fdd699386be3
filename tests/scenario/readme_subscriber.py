# SPDX-License-Identifier: Apache-2.0
"""The Python subscriber of the README, taken as it stands there and run with the package posed as
pip installed it, sees each pose of the wire."""
import os
import re
import subprocess

import harness
from harness import SOURCE, check

PYTHON = os.environ.get("POSED_CLIENT_PYTHON") or SOURCE + "/build/posed-python/bin/python3"
MAX_LINES = 5
N_POSES = 8


def subscriber():
    with open(SOURCE + "/README.md", encoding="utf-8") as file:
        blocks = re.findall(r"```python\n(.*?)```", file.read(), re.DOTALL)
    programs = [block for block in blocks if "for pose in" in block]
    check(len(programs) == 1, f"{len(programs)} Python subscribers in README.md")
    n_lines = sum(1 for line in programs[0].splitlines() if line.strip())
    check(n_lines <= MAX_LINES, f"the subscriber has {n_lines} lines")
    return programs[0]


def scenario():
    program = subscriber()
    if not os.path.exists(PYTHON):
        harness.skip(f"no {PYTHON} with the package posed (tools/test installs it there)")
    daemon = harness.Daemon("synth:room", "--loop", speed=0.5)  # any machine keeps pace
    daemon.wait_for(lambda: len(daemon.poses) > 3, "poses")
    client = subprocess.Popen([PYTHON, "-u", "-c", program], stdout=subprocess.PIPE, text=True,
                              env={**os.environ, "POSED_HOST": daemon.folder})
    said = [client.stdout.readline() for _ in range(N_POSES)]
    client.kill()
    client.communicate()
    print("".join(said))
    last = int(said[-1].split()[0])
    daemon.wait_for(lambda: len(daemon.poses) > last, "the same poses on the wire")
    for i, line in enumerate(said):
        seq, state, position = line.split(maxsplit=2)
        pose = daemon.poses[int(seq)]
        check(int(seq) == last - N_POSES + 1 + i, f"seq {seq} is not the next one")
        check(state == harness.state_name(pose), f"{seq}: {state}")
        shown = [float(number) for number in position.strip(" []\n").split()]
        p = pose.pose.position
        check(all(abs(a - b) < 1e-6 for a, b in zip(shown, (p.x, p.y, p.z), strict=True)),
              f"{seq}: {position}")
    daemon.stop()


harness.run(scenario)
