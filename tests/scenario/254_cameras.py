# SPDX-License-Identifier: Apache-2.0
"""Cameras of the kernel's drivers and of OpenNI 2: the daemon tracks a V4L2 camera of our own
making (tests/fake_v4l2.h) and takes what OpenNI's Dummy device delivers (tests/fake_openni2.h);
each is unplugged and comes back in the same session, with one pose for each frame. The machine's
clock is set meanwhile (tests/fake_wall.h): the poses go on by it."""
import json
import mmap
import os
import struct
import subprocess
import time

import harness
import raw_frames
from harness import check, messages

OFF_WALL_S = 0.1 if not harness.is_sanitized() else 1.0
RETURN_S = 2.0 if not harness.is_sanitized() else 10.0
V4L2 = ("plugged", "silent", "node", "only_small", "busy", "torn", "skip", "period_ms", "n_open",
        "n_streams", "n_wrong", "n_opened", "n_frames")
OPENNI2 = ("plugged", "silent", "told", "mirrored", "tells_fov", "n_devices", "n_streams",
           "n_opened")


class Switches:
    """The members of a fake's struct, 32 bits each, in the file that it maps."""

    def __init__(self, name, members, **values):
        path = f"{harness.SCRATCH}/{name}"
        with open(path, "wb") as file:
            file.write(bytes(4 * len(members)))
        with open(path, "r+b") as file:
            self.__dict__["memory"] = mmap.mmap(file.fileno(), 0)
        self.__dict__["members"] = members
        library = f"{harness.BINARY}/tests/scenario/libfake_{name}.so"
        if not os.path.exists(library):
            harness.skip(f"built without {name}")
        self.__dict__["environment"] = {"LD_PRELOAD": library, "FAKE_" + name.upper(): path,
                                        "ASAN_OPTIONS": "verify_asan_link_order=0"}
        for member, value in values.items():
            setattr(self, member, value)

    def __getattr__(self, name):
        return struct.unpack_from("i", self.memory, 4 * self.members.index(name))[0]

    def __setattr__(self, name, value):
        struct.pack_into("I", self.memory, 4 * self.members.index(name), value)


def with_depth(daemon):
    return [p for p in list(daemon.poses) if p.reason != messages.REASON_DROPPED]


def replug(daemon, camera, is_closed, **changes):
    n_events = len(daemon.events)
    camera.plugged = 0
    daemon.wait_for(lambda: is_closed(camera), "camera let go")
    daemon.wait_for(lambda: any(e.kind == messages.Event.SOURCE_SILENT
                                for e in daemon.events[n_events:]), "event SOURCE_SILENT")
    for name, value in changes.items():
        setattr(camera, name, value)
    n = len(with_depth(daemon))
    camera.plugged = 1
    begin = time.monotonic()
    daemon.wait_for(lambda: len(with_depth(daemon)) > n, "a pose after the return")
    harness.check_at_most(time.monotonic() - begin, RETURN_S, "back after [s]")
    daemon.wait_for(lambda: any(e.kind == messages.Event.SOURCE_BACK
                                for e in daemon.events[n_events:]), "event SOURCE_BACK")


def check_messages(daemon, name):
    poses = list(daemon.poses)
    check([p.seq for p in poses] == list(range(len(poses))), "sequence numbers have a gap")
    check(len({p.session for p in poses}) == 1, "the session changed")
    times = [p.timestamp.seconds * 10**9 + p.timestamp.nanos for p in poses]
    check(all(b > a for a, b in zip(times, times[1:])), "time does not grow")
    print(f"{name}: {len(poses)} poses:", harness.count_states(poses))


def v4l2():
    camera = Switches("v4l2", V4L2, plugged=1, node=2, period_ms=33)
    environment = {**camera.environment, "FAKE_V4L2_FRAMES": raw_frames.make(40)}
    daemon = harness.Daemon("v4l2:", "--set", "camera.fx=525", "--set", "camera.fy=525",
                            "--set", f"camera.depth_scale={raw_frames.UNITS_PER_M}",
                            environment=environment)
    daemon.wait_for(lambda: sum(harness.state_name(p) == "TRACKING" for p in daemon.poses) > 20,
                    "tracking")
    seen = subprocess.run([harness.BINARY + "/bin/posectl", "doctor", "-o", "json"],
                          env={**os.environ, **environment}, capture_output=True, text=True)
    seen = [f for f in json.loads(seen.stdout)["findings"] if "v4l2" in f["finding"]]
    check(any(f["verdict"] == "ok" and "/dev/video2 has depth: source v4l2:2" in f["finding"]
              for f in seen), f"doctor: {seen}")
    for node in (4, 2):
        replug(daemon, camera, lambda c: c.n_open == 0, node=node)
    daemon.wait_for(lambda: harness.state_name(daemon.poses[-1]) == "TRACKING", "tracking again")
    daemon.stop()
    check_messages(daemon, "v4l2")
    check(camera.n_wrong == 0 and camera.n_open == 0, "what is open at the end")
    check("v4l2: the camera is gone; waiting for it" in daemon.log(), daemon.log())
    without = harness.Daemon("v4l2:", collect=False, environment=environment)
    without.wait(4)
    check("Video4Linux tells no intrinsics: set camera.fx" in without.log(), without.log())


def check_step(daemon, wall, set_s, set_ms):
    """The poses follow the wall's time at once, in the same epoch, tracked as before."""
    first = len(daemon.poses)
    wall.set_s, wall.set_ms = set_s, set_ms
    told = daemon.log().count("the machine's clock was set")
    daemon.wait_for(lambda: daemon.log().count("the machine's clock was set") > told,
                    f"a clock that was set to {set_s} s {set_ms} ms")
    first_after = len(daemon.poses)
    daemon.wait_for(lambda: len(daemon.poses) > first_after + 30, "poses")
    poses = list(daemon.poses)[first - 1:]
    newest = poses[-1]
    age_s = time.monotonic() - newest.capture_monotonic_ns * 1e-9
    now_s = time.time() + set_s + set_ms * 1e-3
    off_s = now_s - age_s - newest.timestamp.seconds - newest.timestamp.nanos * 1e-9
    moved_m = max(abs(getattr(a.pose.position, k) - getattr(b.pose.position, k))
                  for a, b in zip(poses, poses[1:]) for k in "xyz")
    print(f"wall at {set_s} s {set_ms} ms: followed, moved by at most {moved_m * 1e3:.1f} mm")
    harness.check_at_most(abs(off_s), OFF_WALL_S, "off the wall's time [s]")
    check(moved_m < 0.1, "the poses do not go on")
    states = {harness.state_name(p) for p in poses if p.reason != messages.REASON_DROPPED}
    check(states == {"TRACKING"}, f"states {states}")
    check(len({p.map_epoch for p in poses}) == 1 and not any(p.is_cut for p in poses),
          "a map epoch begins")
    check([p.seq for p in poses] == list(range(poses[0].seq, poses[0].seq + len(poses))),
          "frames are missing")
    speed = max(abs(getattr(p.linear_velocity, k)) for p in poses for k in "xyz")
    check(speed < 2, f"a velocity of {speed:.2f} m/s by the clock's step")


def wall_that_is_set():
    camera = Switches("v4l2", V4L2, plugged=1, node=2, period_ms=33)
    wall = Switches("wall", ("set_s", "set_ms"))
    environment = {**camera.environment, **wall.environment,
                   "FAKE_V4L2_FRAMES": raw_frames.make(40)}
    environment["LD_PRELOAD"] = " ".join(s.environment["LD_PRELOAD"] for s in (camera, wall))
    daemon = harness.Daemon("v4l2:", "--set", "camera.fx=525", "--set", "camera.fy=525",
                            "--set", f"camera.depth_scale={raw_frames.UNITS_PER_M}",
                            environment=environment)
    daemon.wait_for(lambda: sum(harness.state_name(p) == "TRACKING" for p in daemon.poses) > 20,
                    "tracking")
    for set_s, set_ms in ((3600, 0), (0, 0), (0, 900), (0, 760), (0, 0)):
        check_step(daemon, wall, set_s, set_ms)
    daemon.stop()
    resets = [e for e in daemon.events if e.kind == messages.Event.RESET]
    check(not resets, f"{len(resets)} resets")
    for said in ("3600.000 s forward", "3600.000 s back", "0.900 s forward", "0.140 s back",
                 "0.760 s back"):
        check(f"v4l2: the machine's clock was set {said}" in daemon.log(), daemon.log())


def openni2():
    camera = Switches("openni2", OPENNI2, plugged=1)
    daemon = harness.Daemon("openni2:Dummy", environment=camera.environment)
    daemon.wait_for(lambda: len(daemon.poses) > 20, "poses")
    for told in (0, 1):
        camera.told = told
        replug(daemon, camera, lambda c: c.n_devices == 0)
    daemon.stop()
    check_messages(daemon, "openni2")
    check(camera.n_devices == 0 and camera.n_streams == 0, "what is open at the end")


def scenario():
    v4l2()
    wall_that_is_set()
    if os.path.exists(f"{harness.BINARY}/tests/scenario/libfake_openni2.so"):
        openni2()
    else:
        print("SKIP: openni2: POSED_OPENNI2 is off")


harness.run(scenario)
