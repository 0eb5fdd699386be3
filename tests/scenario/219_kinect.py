# SPDX-License-Identifier: Apache-2.0
"""The live camera without a camera: the daemon tracks through libfreenect's own calls what its
recorder wrote before, with libfreenect's double fakenect preloaded. When the recording is over, the
camera is gone for good: the daemon says NO_INPUT and stays up."""
import glob
import os
import time

import harness
from harness import check, messages, requests

FRAMES = 60


def scenario():
    libraries = glob.glob("/usr/lib/*/fakenect/libfreenect.so")
    if not libraries:
        harness.skip("no fakenect library")
    listed = os.popen(harness.BINARY + "/bin/posed --help").read()
    if "kinect:" not in listed:
        harness.skip("built without libfreenect")
    folder = harness.SCRATCH + "/recordings"
    recorded = harness.Daemon("synth:room", "--frames", str(FRAMES), "--set",
                              "recorder.folder=" + folder, "--set", "recorder.start=camera",
                              "--set", "recorder.format=fakenect", "--set",
                              f"recorder.queue_frames={FRAMES}")
    recorded.wait()

    # The disparity of the scene's depths is that of a Kinect's usual parameters to within a step.
    environment = {"LD_PRELOAD": libraries[0], "FAKENECT_PATH": folder + "/camera",
                   "ASAN_OPTIONS": "verify_asan_link_order=0:detect_leaks=0"}
    live = harness.Daemon("kinect:", "--set", "tracker.iterations=4,3,3", environment=environment)
    live.wait_for(lambda: len(live.poses) >= FRAMES, "a pose for each frame of the recording")
    live.wait_for(lambda: any(e.kind == messages.Event.SOURCE_SILENT for e in live.events),
                  "an event says that the camera is silent")
    live.wait_for(lambda: live.statuses and
                  live.statuses[-1].state == messages.STATE_NO_INPUT, "status NO_INPUT")
    check(live.statuses[-1].live, "the status does not say that the source is live")
    reply = live.request(replay=requests.Replay(action=requests.Replay.PAUSE))
    check(reply.code == requests.UNIMPLEMENTED and "live camera" in reply.message, f"{reply}")
    time.sleep(0.5)
    check(live.process.poll() is None, "the daemon has ended")
    poses = live.poses[:FRAMES]
    check([p.seq for p in poses] == list(range(FRAMES)), "sequence numbers")
    ticks = [p.device_ticks for p in poses]
    check(all(b > a for a, b in zip(ticks, ticks[1:])), "device ticks")
    check(not any(p.replay for p in poses), "a live pose says that it is a replay")
    tracked = [p for p in poses if p.state in (messages.STATE_TRACKING, messages.STATE_DEGRADED)]
    check(len(tracked) >= FRAMES // 2, f"{len(tracked)} of {FRAMES} frames tracked")
    live.stop()
    short = harness.Daemon("kinect:", "--frames", "7", environment=environment)
    short.wait()
    check(len(short.poses) == 7, f"--frames 7: {len(short.poses)} poses")


harness.run(scenario)
