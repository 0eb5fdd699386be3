# SPDX-License-Identifier: Apache-2.0
"""The synthetic room as a file of raw 640x480 images of 16 bits, for cameras of our own making."""
import glob
import os
import struct
import zlib

import harness

UNITS_PER_M = 5000  # the scene's own


def make(n_frames):
    """As the recorder's klg has them; returns the path."""
    folder = harness.SCRATCH + "/camera"
    recorded = harness.Daemon("synth:room", "--frames", str(n_frames), "--set",
                              "recorder.folder=" + folder, "--set", "recorder.start=raw", "--set",
                              "recorder.format=klg", "--set", f"recorder.queue_frames={n_frames}",
                              collect=False)
    recorded.wait()
    with open(glob.glob(folder + "/*.klg")[0], "rb") as file:
        data = file.read()
    path, at = harness.SCRATCH + "/frames", 4
    with open(path, "wb") as out:
        while at < len(data):
            _, depth, image = struct.unpack_from("<qii", data, at)
            packed = data[at + 16:at + 16 + depth]
            out.write(packed if depth == 640 * 480 * 2 else zlib.decompress(packed))
            at += 16 + depth + image
    harness.check(os.path.getsize(path) == n_frames * 640 * 480 * 2, "frames for the camera")
    return path
