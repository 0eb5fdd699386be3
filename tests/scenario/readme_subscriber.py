#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# The Python subscriber, taken from the README as it stands there, receives every pose of a replay.
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import time

N_FRAMES = 30

source = pathlib.Path(os.environ["POSED_SOURCE_DIR"])
binary = pathlib.Path(os.environ["POSED_BINARY_DIR"])

blocks = re.findall(r"```python\n(.*?)```", (source / "README.md").read_text(), re.S)
programs = [block for block in blocks if "recv_multipart" in block]
assert len(programs) == 1, "README.md has no single Python subscriber"
assert programs[0].count("\n") <= 15, "the subscriber has more than 15 lines"

with tempfile.TemporaryDirectory() as folder:
    subprocess.run(["protoc", "-I", source / "proto", f"--python_out={folder}", "posed.proto"],
                   check=True)
    script = pathlib.Path(folder, "subscriber.py")
    script.write_text(programs[0])
    endpoint = f"ipc://{folder}/run/pub"
    subscriber = subprocess.Popen([sys.executable, script, endpoint], stdout=subprocess.PIPE,
                                  text=True)
    try:
        subprocess.run([binary / "bin/posed", "--source", "synth:room", "--speed", "max",
                        "--frames", str(N_FRAMES), "--run-dir", f"{folder}/run", "--no-tcp",
                        "--set", "publish.wait_subscriber_s=30"], check=True, timeout=120)
        time.sleep(1)  # the last messages
    finally:
        subscriber.kill()
    lines = subscriber.communicate()[0].splitlines()

print("\n".join(lines))
seqs = [int(line.split()[0]) for line in lines]
assert seqs == list(range(N_FRAMES)), f"sequence numbers {seqs}"
assert any("TRACKING" in line for line in lines)
