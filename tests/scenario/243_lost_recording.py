# SPDX-License-Identifier: Apache-2.0
"""What is said of a recording is what is on the disk: a recording that is removed while it is made
has failed, in each format, and the next one makes the folder anew; after a full disk as many frames
are reported as replay. That it failed, when and why is told afterwards to whoever asks."""
import json
import os
import re
import resource
import shutil
import socket
import subprocess
import time
import urllib.request

import harness
from harness import BINARY, check, messages, requests

DISK_BYTES = 6 << 20
FORMATS = {"tum": "tum:{}", "klg": "klg:{}.klg", "fakenect": "fakenect:{}", "mcap": "mcap:{}.mcap"}


def start(name, folder, *options):
    live = harness.Daemon("synth:room", "--loop", "--set", "tracker.iterations=3,3,3", "--set",
                          "recorder.folder=" + folder, "--set", "recorder.start=" + name, "--set",
                          "recorder.format=" + name, *options, speed=1)
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
    how = re.match(rf"recording {name}: its files were removed while it was recorded, after "
                   r"(\d+) frames, .*; nothing of it is kept$", said)
    check(how and int(how[1]) > 0, f"{name}: {said}")
    last = live.request(get_status=requests.GetStatus()).get_status.last_recording
    check(last.failed and last.frames == last.bytes == 0, f"{name}: {last}")
    again = live.request(start_recording=requests.StartRecording(name="again"))
    check(again.code == requests.OK and os.path.exists(folder), f"{name}: {again}")
    n = len(live.poses)
    live.wait_for(lambda: len(live.poses) > n + 5, "tracking goes on")
    live.stop()
    print(f"{name} removed: {said}")


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def posectl(live, *arguments):
    done = subprocess.run([BINARY + "/bin/posectl", *arguments, "-e", live.folder],
                          capture_output=True, text=True, timeout=60)
    return done.returncode, done.stdout + done.stderr


def check_told(live, name, folder, port):
    """By each way of asking; a start that fails changes nothing of it."""
    reply = live.request(start_recording=requests.StartRecording(name=name, format=name))
    check(reply.code == requests.ALREADY_EXISTS, f"{reply}")
    for _ in range(2):
        code, said = posectl(live, "record", "stop")
        check(code == 1 and f"DATA_LOSS: recording {name} failed 20" in said and
              "File too large after" in said and f"kept as {name}.{name}" in said, f"{code} {said}")
    last = live.request(get_status=requests.GetStatus()).get_status.last_recording
    check(last.failed and last.name == last.format == name and last.detail in ended(live)[0] and
          abs(last.timestamp.seconds - time.time()) < harness.PATIENCE_S and
          last.bytes == os.path.getsize(f"{folder}/{name}.{name}"), f"{last}")
    said = json.loads(posectl(live, "status", "-o", "json")[1])
    check(said["last_recording"]["failed"] and said["last_recording"]["detail"] == last.detail and
          said["failed_recordings"] == 1, f"{said}")
    said = posectl(live, "status")[1]
    check(f"recording   {name} FAILED 20" in said and last.detail in said, said)
    said = posectl(live, "watch", "status", "--count", "2")[1]
    check(f", recording {name} failed" in said, said)
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=20) as metrics:
        said = metrics.read().decode()
    for line in ("last_recording_failed 1", "failed_recordings_total 1",
                 f"last_recording_end_timestamp_seconds {last.timestamp.seconds}"):
        check(f"\nposed_{line}\n" in said, f"{line}: {said}")
    return int(re.search(r"after (\d+) frames", last.detail)[1])


def check_full(name):
    folder = harness.SCRATCH + "/full-" + name
    port = free_port()
    live = start(name, folder, "--set", f"http.port={port}")
    resource.prlimit(live.process.pid, resource.RLIMIT_FSIZE, (DISK_BYTES, DISK_BYTES))
    live.wait_for(lambda: ended(live), "the recording ends")
    said = ended(live)[0]
    n_said = check_told(live, name, folder, port)
    live.stop()
    again = harness.Daemon(FORMATS[name].format(folder + "/" + name))
    again.wait()
    print(f"{name} full: {said}; {len(again.poses)} replay")
    check(n_said == len(again.poses), f"{name}: {n_said} reported, {len(again.poses)} replay")


def scenario():
    for name in FORMATS:
        check_removed(name)
    for name in ("klg", "mcap"):
        check_full(name)
    check(os.path.isdir(harness.SCRATCH), "")


harness.run(scenario)
