# SPDX-License-Identifier: Apache-2.0
"""Kinects for the daemon under test: tests/fake_freenect.c in front of libfreenect, playing frames
of the synthetic room, with the switches of struct fake_freenect."""
import glob
import mmap
import os
import struct

import harness

# The members of struct fake_freenect, 32 bits each.
MEMBERS = ("plugged", "silent", "hang_open", "hang_events", "hang_stop", "held", "no_motor",
           "own_parameters", "lose_packets", "raw_value", "period_ms", "next_ticks", "n_contexts",
           "n_devices", "n_streams", "n_wrong", "n_opened")
SERIALS = ("A00362913019107A", "B00362913019107B")

# The first frames of a scene, as raw disparity; played to and fro.
N_FRAMES = 40


def _make_frames():
    """What the recorder writes as a fakenect recording is what a camera delivers."""
    folder = harness.SCRATCH + "/camera"
    recorded = harness.Daemon("synth:room", "--frames", str(N_FRAMES), "--set",
                              "recorder.folder=" + folder, "--set", "recorder.start=raw", "--set",
                              "recorder.format=fakenect", "--set",
                              f"recorder.queue_frames={N_FRAMES}", collect=False)
    recorded.wait()
    names = sorted(glob.glob(folder + "/raw/d-*.pgm"))
    harness.check(len(names) == N_FRAMES, f"{len(names)} frames for the camera")
    path = harness.SCRATCH + "/frames"
    with open(path, "wb") as out:
        for name in names:
            with open(name, "rb") as file:
                out.write(file.read()[-640 * 480 * 2:])
    return path


class Kinects:
    """The cameras: kinects.plugged = 1, kinects.n_devices, ..."""

    def __init__(self, **switches):
        library = harness.BINARY + "/tests/scenario/libfake_freenect.so"
        listed = os.popen(harness.BINARY + "/bin/posed --help").read()
        if not os.path.exists(library) or "kinect:" not in listed:
            harness.skip("built without libfreenect")
        path = harness.SCRATCH + "/switches"
        with open(path, "wb") as file:
            file.write(bytes(4 * len(MEMBERS)))
        with open(path, "r+b") as file:
            self.__dict__["memory"] = mmap.mmap(file.fileno(), 0)
        self.__dict__["environment"] = {
            "LD_PRELOAD": library, "FAKE_FREENECT": path, "FAKE_FREENECT_FRAMES": _make_frames(),
            "ASAN_OPTIONS": "verify_asan_link_order=0"}
        for name, value in switches.items():
            setattr(self, name, value)

    def __getattr__(self, name):
        return struct.unpack_from("i", self.memory, 4 * MEMBERS.index(name))[0]

    def __setattr__(self, name, value):
        struct.pack_into("I", self.memory, 4 * MEMBERS.index(name), value)
