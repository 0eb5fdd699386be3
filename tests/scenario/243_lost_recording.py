# SPDX-License-Identifier: Apache-2.0
"""What is said of a recording is what is on the disk: a recording that is removed while it is made
has failed, in each format, and after a full disk as many frames are reported as replay."""
import os
import re
import resource
import shutil

import harness
from harness import check, messages

DISK_BYTES = 6 << 20
FORMATS = {"tum": "tum:{}", "klg": "klg:{}.klg", "fakenect": "fakenect:{}", "mcap": "mcap:{}.mcap"}


def start(name, folder):
    live = harness.Daemon("synth:room", "--loop", "--set", "tracker.iterations=3,3,3", "--set",
                          "recorder.folder=" + folder, "--set", "recorder.start=" + name, "--set",
                          "recorder.format=" + name, speed=1)
    live.wait_for(lambda: len(live.poses) > 10, "frames")
    return live


def ended(live):
    return [e.message for e in live.events if e.kind == messages.Event.RECORDING_STOPPED]


def check_removed(name):
    folder = harness.SCRATCH + "/removed-" + name
    live = start(name, folder)
    while os.path.exists(folder):  # the recorder goes on writing meanwhile
        shutil.rmtree(folder, ignore_errors=True)
    live.wait_for(lambda: ended(live), "the recording ends")
    said = ended(live)[0]
    check("removed after 0 frames" in said, f"{name}: {said}")
    n = len(live.poses)
    live.wait_for(lambda: len(live.poses) > n + 5, "tracking goes on")
    live.stop()
    print(f"{name} removed: {said}")


def check_full(name):
    folder = harness.SCRATCH + "/full-" + name
    live = start(name, folder)
    resource.prlimit(live.process.pid, resource.RLIMIT_FSIZE, (DISK_BYTES, DISK_BYTES))
    live.wait_for(lambda: ended(live), "the recording ends")
    said = ended(live)[0]
    live.stop()
    again = harness.Daemon(FORMATS[name].format(folder + "/" + name))
    again.wait()
    n_said = int(re.search(r"after (\d+) frames", said)[1])
    print(f"{name} full: {said}; {len(again.poses)} replay")
    check(n_said == len(again.poses), f"{name}: {n_said} reported, {len(again.poses)} replay")


def scenario():
    for name in FORMATS:
        check_removed(name)
    for name in ("klg", "mcap"):
        check_full(name)
    check(os.path.isdir(harness.SCRATCH), "")


harness.run(scenario)
