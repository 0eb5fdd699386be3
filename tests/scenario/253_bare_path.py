# SPDX-License-Identifier: Apache-2.0
"""The path of a recording is enough; and a mistyped driver, option or key is answered with the one
that was meant."""
import os
import subprocess

import harness
from harness import check


def posed(*arguments):
    run = subprocess.run([harness.BINARY + "/bin/posed", "--backend", "cpu", "--run-dir",
                          harness.SCRATCH, "--no-tcp", "--speed", "max", "--set",
                          "publish.wait_subscriber_s=0", *arguments], stdin=subprocess.DEVNULL,
                         stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                         timeout=harness.PATIENCE_S)
    return run.returncode, run.stdout


def check_contradicted(driver, path):
    """Settings that contradict the recording are said with both values, and with who set them; of
    ROS 2 and a bare folder nobody knows the units, of that no intrinsics either."""
    right = ["--set", "camera.depth_scale=5000"] if driver == "png" else []
    code, text = posed(path, *right)
    check(code == 0 and "contradicts" not in text, f"{path}: {text}")
    code, text = posed(path, "--set", "camera.fx=600", "--set", "camera.depth_scale=4500", "--set",
                       "capture.allow_implausible=true")
    says = [line.split("warning: ")[1] for line in text.splitlines() if "contradicts" in line]
    n = 0 if driver == "png" else 1 if path.endswith("ros2.mcap") else 2
    check(code == 0 and len(says) == n, f"{path}: {text}")
    for line, begins in zip(says, ("--set: camera.fx = 600 (there 525): contradicts ",
                                   "--set: camera.depth_scale = 4500 units per metre: ")):
        check(line.startswith(begins), f"{path}: {line}")


def scenario():
    tum = harness.SCRATCH + "/tum"
    subprocess.run([harness.BINARY + "/bin/posed-synth", "room", tum, "--frames", "3"], check=True,
                   stdout=subprocess.DEVNULL)
    folder = harness.SCRATCH + "/recordings"
    paths = [("tum", tum), ("png", tum + "/depth")]
    for name, place in (("tum", "t"), ("klg", "t.klg"), ("fakenect", "f"), ("mcap", "t.mcap"),
                        ("ros2mcap", "r.ros2.mcap")):
        code, text = posed(tum, "--set", "recorder.folder=" + folder, "--set",
                           "recorder.start=" + place[0], "--set", "recorder.format=" + name)
        check(code == 0, f"{name} was not recorded: {text}")
        paths.append(("mcap" if name == "ros2mcap" else name, f"{folder}/{place}"))
    for driver, path in paths:
        # units of a bare folder of PNG are nobody's to know
        code, text = posed(path, "--set", "camera.depth_scale=5000")
        check(code == 0 and f"source: {driver}:{path}" in text, f"{path} is not {driver}: {text}")
        check_contradicted(driver, path)

    bag = harness.SCRATCH + "/bag"
    os.mkdir(bag)
    with open(bag + "/bag_0.mcap.zstd", "wb") as file:
        file.write(b"\x28\xb5\x2f\xfd and so on")
    unpack = f'zstd -d "{bag}/bag_0.mcap.zstd" -o "{bag}/bag_0.mcap"'

    split = harness.SCRATCH + "/split"
    os.mkdir(split)
    for i in range(3):
        with open(f"{split}/split_{i}.db3.zstd", "wb") as file:
            file.write(b"\x28\xb5\x2f\xfd and so on")
    unpack_all = (f"{split}/split_0.db3.zstd and 2 more: compressed as a whole (zstd), as `ros2 "
                  "bag record --compression-mode file` does, which is not read; unpack them first: "
                  f'for f in "{split}"/*.zst*; do zstd -d "$f" -o "${{f%.zst*}}"; done')

    for arguments, code, words in (
            ((split,), 4, unpack_all),
            (("ros2db3:" + split,), 4, unpack_all),
            ((bag,), 4, unpack),
            (("mcap:" + bag,), 4, unpack),
            ((bag + "/bag_0.mcap.zstd",), 4, unpack),
            (("tmu:" + tum,), 4, "did you mean tum:"),
            (("mcpa:x",), 4, "did you mean mcap:x?"),
            ((tum + "/nothing",), 4, "no such file or folder"),
            (("/usr/bin/env",), 4, "no recording that is known"),
            ((tum + "/depth.txt",), 4, f"did you mean the one it is in, tum:{tum}?"),
            ((tum, tum), 2, "there is a source already"),
            (("--sped", "max"), 2, "did you mean --speed?"),
            (("--set", "camera.depth_scal=1"), 3, "did you mean camera.depth_scale"),
    ):
        got, text = posed(*arguments)
        check(got == code and words in text, f"{arguments}: code {got}, {text}")


harness.run(scenario)
