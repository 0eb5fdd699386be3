# SPDX-License-Identifier: Apache-2.0
"""A trajectory that nobody takes: it goes into a pipe that is full. The frames go on, as their
thread never writes the file; what was queued is there when the reader comes, and none is lost."""
import fcntl
import os
import sys
import termios
import threading

import harness
from harness import check

PIPE_BYTES = 4096   # some 40 lines
N_FRAMES = 300      # far more, and far less than what is queued (daemon/trajectory_file.c)


def scenario():
    path = harness.SCRATCH + "/pipe"
    os.mkfifo(path)
    reader = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    fcntl.fcntl(reader, fcntl.F_SETPIPE_SZ, PIPE_BYTES)
    daemon = harness.Daemon("synth:room", "--loop", "--trajectory", path, speed=3)
    daemon.wait_for(lambda: len(daemon.poses) >= N_FRAMES, f"{N_FRAMES} poses")
    size = bytearray(4)
    fcntl.ioctl(reader, termios.FIONREAD, size)
    n_waiting = int.from_bytes(size, sys.byteorder)
    print(f"{len(daemon.poses)} poses, {n_waiting} bytes in the pipe")
    check(PIPE_BYTES / 2 < n_waiting <= PIPE_BYTES, "the pipe is not full")

    os.set_blocking(reader, True)
    lines = []

    def take():
        with os.fdopen(reader, "rb") as file:
            lines.extend(line for line in file if not line.startswith(b"# map epoch"))

    taker = threading.Thread(target=take)
    taker.start()
    daemon.stop()
    taker.join(harness.PATIENCE_S)
    check(not taker.is_alive(), "the pipe is never closed")
    check(len(lines) == len(daemon.poses), f"{len(lines)} lines for {len(daemon.poses)} poses")


harness.run(scenario)
