# SPDX-License-Identifier: Apache-2.0
"""posed for arm64 (tools/cross-arm64, run by qemu) says the same of three frames, bit for bit, as
this machine with its baseline rows."""
import os
import shutil
import subprocess

import harness
from harness import BINARY, SOURCE, check

N_FRAMES = 3
ARM64 = os.environ.get("POSED_ARM64_DIR") or SOURCE + "/build/arm64"
SYSROOT = os.environ.get("POSED_ARM64_SYSROOT") or SOURCE + "/build/arm64-sysroot"

# What tells when and where it ran.
OF_THE_RUN = ("session", "capture_monotonic_ns", "publish_monotonic_ns", "stages")


def poses_of(source, binary, prefix):
    """The bytes of the pose messages, without the times of the run. `prefix`: what runs it."""
    harness.BINARY = binary
    launcher = harness.SCRATCH + f"/posed-{len(os.listdir(harness.SCRATCH))}"
    os.makedirs(launcher + "/bin")
    with open(launcher + "/bin/posed", "w") as file:
        file.write(f'#!/bin/sh\nexec {prefix}{binary}/bin/posed "$@"\n')
    os.chmod(launcher + "/bin/posed", 0o755)
    harness.BINARY = launcher
    daemon = harness.Daemon(source, "--frames", str(N_FRAMES), "--set", "http.port=0", "--set",
                            "gpu.isa=baseline")
    daemon.wait()
    harness.BINARY = BINARY
    harness.check_poses(daemon.poses, N_FRAMES)
    for pose in daemon.poses:
        for field in OF_THE_RUN:
            pose.ClearField(field)
    return [pose.SerializeToString() for pose in daemon.poses]


def scenario():
    emulator = shutil.which("qemu-aarch64-static")
    if not emulator or not os.path.exists(ARM64 + "/bin/posed"):
        harness.skip("no posed for arm64 (tools/cross-arm64 builds it), or no qemu")
    folder = harness.SCRATCH + "/recording"
    subprocess.run([BINARY + "/bin/posed-synth", "room", folder, "--frames", str(N_FRAMES),
                    "--seed", "3"], check=True)
    for source in ("tum:" + folder, "synth:room"):
        here = poses_of(source, BINARY, "")
        there = poses_of(source, ARM64, f"{emulator} -L {SYSROOT} ")
        check(here[-1] != here[0], f"{source}: nothing moves")
        check(here == there, f"{source}: arm64 says something else")
        print(f"{source}: {N_FRAMES} pose messages, {sum(map(len, here))} bytes, equal")


harness.run(scenario)
