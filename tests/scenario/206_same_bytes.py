# SPDX-License-Identifier: Apache-2.0
"""The same recording gives the same bytes: run after run, whatever the number of threads, read from
disk or rendered, paced or not."""
import subprocess

import harness
from harness import BINARY, check

N_FRAMES = 120


def scenario():
    folder = harness.SCRATCH + "/recording"
    subprocess.run([BINARY + "/bin/posed-synth", "room", folder, "--frames", str(N_FRAMES),
                    "--seed",
                    "3"], check=True)
    first = None
    for source, options, speed in (("synth:room", (), "max"),
                                   ("synth:room", ("--set", "gpu.threads=1"), "max"),
                                   ("synth:room", ("--set", "gpu.threads=3"), "max"),
                                   ("tum:" + folder, (), "max")):
        options = (*options, "--seed", "3", "--frames", str(N_FRAMES))
        daemon = harness.Daemon(source, *options, speed=speed)
        daemon.wait()
        harness.check_poses(daemon.poses, N_FRAMES)
        first = first or daemon.trajectory_bytes()
        check(daemon.trajectory_bytes() == first, f"{source} {options}: other bytes")


harness.run(scenario)
