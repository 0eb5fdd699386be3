# SPDX-License-Identifier: Apache-2.0
"""Recordings on request: what is recorded replays to the same poses; names are no paths."""
import json
import os
import subprocess

import harness
from harness import check, messages, requests

N_RECORDED = 60


def ctl(daemon, code, *arguments):
    command = [harness.BINARY + "/bin/posectl", *arguments, "--endpoint", daemon.folder]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == code, (arguments, done.returncode, done.stdout, done.stderr)
    return done


def check_complete(folder):
    """When `stop` ends nothing more is written, however much was queued; asked with too little
    time, it says that it is not done, and may be asked again."""
    daemon = harness.Daemon("synth:room", "--loop", "--set", "recorder.folder=" + folder, "--set",
                            "tracker.iterations=1,1,1", "--set", "recorder.queue_frames=120",
                            "--set", "tracker.adapt=false", speed="max")
    daemon.wait_for(lambda: daemon.poses, "first pose")
    for name, deadline_ms in (("whole", 0), ("hasty", 40)):
        ctl(daemon, 0, "record", "start", name, "--format", "tum")
        n = len(daemon.poses)
        daemon.wait_for(lambda: len(daemon.poses) > n + 60, "frames")
        if deadline_ms:
            hasty = daemon.request(deadline_ms=deadline_ms,
                                   stop_recording=requests.StopRecording())
            print(f"after {deadline_ms} ms: {hasty.message or 'all is written'}")
            check(hasty.code == requests.OK or hasty.code == requests.DEADLINE_EXCEEDED and
                  "still being written" in hasty.message, f"{hasty}")
            if hasty.code != requests.OK:  # it waits, or all has been written meanwhile
                again = daemon.request(stop_recording=requests.StopRecording())
                check(again.code == requests.OK or
                      again.code == requests.FAILED_PRECONDITION and
                      "nothing is being recorded" in again.message, f"asked again: {again}")
        else:
            said = json.loads(ctl(daemon, 0, "record", "stop", "-o", "json").stdout)
        with open(f"{folder}/{name}/depth.txt") as file:
            names = [line.split()[1] for line in file if not line.startswith("#")]
        listed = json.loads(ctl(daemon, 0, "record", "list", "-o", "json").stdout)["recordings"]
        check(not any(r["active"] for r in listed), f"{name} is being written")
        check(len(names) == len(os.listdir(f"{folder}/{name}/depth")), f"{name}: {len(names)}")
        check(deadline_ms or (said["frames"] == len(names) and not said["active"]), f"{said}")
    daemon.stop()


def scenario():
    folder = harness.SCRATCH + "/recordings"
    # From the first frame on, as fast as possible: the queue holds the whole of it.
    daemon = harness.Daemon("synth:room", "--frames", str(N_RECORDED), "--set",
                            "recorder.folder=" + folder, "--set", "recorder.start=first", "--set",
                            f"recorder.queue_frames={N_RECORDED}")
    daemon.wait()
    # A service that starts again comes back, and what is there stays.
    for number in (2, 3):
        restarted = harness.Daemon("synth:room", "--frames", "3", "--set",
                                   "recorder.folder=" + folder, "--set", "recorder.start=first")
        restarted.wait()
        check(f'--set: recorder.start: a recording "first" is there already: this one is '
              f'"first-{number}"' in restarted.log(), "the log does not say the recording's name")
        check(os.path.exists(f"{folder}/first-{number}/depth.txt"), f"{os.listdir(folder)}")
    again = harness.Daemon("tum:" + folder + "/first")
    again.wait()
    harness.check_poses(again.poses, N_RECORDED)
    check(again.trajectory_bytes() == daemon.trajectory_bytes(), "the recording gave other poses")

    # The same as an MCAP file, which holds the poses, too.
    daemon = harness.Daemon("synth:room", "--frames", str(N_RECORDED), "--set",
                            "recorder.folder=" + folder, "--set", "recorder.start=third", "--set",
                            "recorder.format=mcap", "--set",
                            f"recorder.queue_frames={N_RECORDED}")
    daemon.wait()
    again = harness.Daemon("mcap:" + folder + "/third.mcap")
    again.wait()
    check(again.trajectory_bytes() == daemon.trajectory_bytes(), "the MCAP file gave other poses")
    with open(folder + "/third.mcap", "rb") as file:
        check(b"foxglove.Odometry" in file.read(), "no schema of the poses")
    os.remove(folder + "/third.mcap")

    live = harness.Daemon("synth:room", "--loop", "--set", "recorder.folder=" + folder, "--set",
                          "tracker.iterations=3,3,3", speed=1)
    live.wait_for(lambda: live.poses, "first pose")
    ctl(live, 0, "record", "start", "second", "--format", "klg")
    live.wait_for(lambda: any(e.kind == messages.Event.RECORDING_STARTED for e in live.events),
                  "an event says that it starts")
    check(live.request(get_status=requests.GetStatus()).get_status.recording == "second", "status")
    assert "second is being written already" in ctl(live, 1, "record", "start", "third").stderr
    n = len(live.poses)
    # A slow machine drops frames, before tracking and before recording.
    live.wait_for(lambda: sum(p.reason != messages.REASON_DROPPED for p in live.poses[n:]) > 20,
                  "frames")
    assert "second" in ctl(live, 0, "record", "stop").stdout
    live.wait_for(lambda: any(e.kind == messages.Event.RECORDING_STOPPED for e in live.events),
                  "the recording is on disk")
    assert "nothing is being recorded; second ended 20" in ctl(live, 1, "record", "stop").stderr
    assert "ALREADY_EXISTS" in ctl(live, 1, "record", "start", "first").stderr
    listed = json.loads(ctl(live, 0, "record", "list", "-o", "json").stdout)["recordings"]
    check({r["name"] for r in listed} == {"first", "first-2", "first-3", "second"},
          f"list: {listed}")
    for name in ("../x", "a/b", ".hidden", "", "x" * 65, "a b"):
        reply = live.request(start_recording=requests.StartRecording(name=name))
        check(reply.code == requests.INVALID_ARGUMENT and
              reply.field == "start_recording.name", f"name {name!r}: {reply}")
    reply = live.request(start_recording=requests.StartRecording(name="x", format="avi"))
    check(reply.field == "start_recording.format", f"format: {reply}")
    live.stop()
    check_complete(folder)
    replay = harness.Daemon("klg:" + folder + "/second.klg")
    replay.wait()
    check(len(replay.poses) >= 20, f"{len(replay.poses)} frames in the klg recording")
    check(not os.path.exists(harness.SCRATCH + "/x"), "a name has become a path")


harness.run(scenario)
