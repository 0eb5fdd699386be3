# SPDX-License-Identifier: Apache-2.0
"""posed for arm64 (tools/cross-arm64, run by qemu) says the same of three frames, bit for bit, as
this machine with each instruction set that has fused multiply and add."""
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


def poses_of(source, binary, prefix, isa):
    """The bytes of the pose messages, without the times of the run. `prefix`: what runs it."""
    harness.BINARY = binary
    launcher = harness.SCRATCH + f"/posed-{len(os.listdir(harness.SCRATCH))}"
    os.makedirs(launcher + "/bin")
    with open(launcher + "/bin/posed", "w") as file:
        file.write(f'#!/bin/sh\nexec {prefix}{binary}/bin/posed "$@"\n')
    os.chmod(launcher + "/bin/posed", 0o755)
    harness.BINARY = launcher
    daemon = harness.Daemon(source, "--frames", str(N_FRAMES), "--set", "http.port=0", "--set",
                            f"gpu.isa={isa}")
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
    with open("/proc/cpuinfo") as file:
        flags = file.read().split()
    isas = [isa for isa, flag in (("avx2", "fma"), ("avx512", "avx512vl")) if flag in flags]
    if not isas:
        harness.skip("this processor has no fused multiply and add")
    for source in ("tum:" + folder, "synth:room"):
        there = poses_of(source, ARM64, f"{emulator} -L {SYSROOT} ", "auto")
        check(there[-1] != there[0], f"{source}: nothing moves")
        for isa in isas:
            check(poses_of(source, BINARY, "", isa) == there,
                  f"{source}: arm64 says something else than {isa}")
        print(f"{source}: {N_FRAMES} pose messages, {sum(map(len, there))} bytes, equal to "
              f"{' and '.join(isas)}")


harness.run(scenario)
