# SPDX-License-Identifier: Apache-2.0
"""The frames of a recording in TUM layout, and their pixels as ROS encodes them."""
import io
import struct

import numpy
from PIL import Image

UNITS_PER_M = 5000
QUANT_A, QUANT_B = 100 * 101 + 0.0, 1.0 - 100 * 101 / 10.0  # compressed_depth_image_transport's own


def frames(folder):
    with open(folder + "/depth.txt") as file:
        for line in file:
            if not line.startswith("#"):
                stamp, name = line.split()
                sec, nanosec = stamp.split(".")
                pixels = numpy.array(Image.open(f"{folder}/{name}")).astype(numpy.uint16)
                yield int(sec) * 10**9 + int(nanosec.ljust(9, "0")), pixels


def camera(folder):
    with open(folder + "/calibration.txt") as file:
        return [float(word) for word in file.read().split()[:4]]


def rvl(pixels):
    """As the paper has it (Wilson 2017, figure 2)."""
    values = pixels.ravel().astype(int).tolist()
    groups = []

    def number(value):
        while True:
            group = value & 7
            value >>= 3
            groups.append(group | 8 if value else group)
            if not value:
                return

    at, previous = 0, 0
    while at < len(values):
        start = at
        while at < len(values) and values[at] == 0:
            at += 1
        number(at - start)
        start = at
        while at < len(values) and values[at] != 0:
            at += 1
        number(at - start)
        for value in values[start:at]:
            delta = value - previous
            number((delta << 1) ^ (delta >> 63))
            previous = value
    groups += [0] * (-len(groups) % 8)
    words = numpy.array(groups, numpy.uint32).reshape(-1, 8)
    packed = sum(words[:, i] << (28 - 4 * i) for i in range(8)).astype("<u4").tobytes()
    return struct.pack("<II", pixels.shape[1], pixels.shape[0]) + packed


def png(pixels):
    out = io.BytesIO()
    Image.fromarray(pixels).save(out, "PNG")
    return out.getvalue()


def encode(pixels, encoding):
    """What stands in an Image (name, is_bigendian, step, data) or a CompressedImage (format,
    data)."""
    metres = pixels.astype(numpy.float32) / numpy.float32(UNITS_PER_M)
    metres[pixels == 0] = numpy.nan
    width = pixels.shape[1]
    if encoding in ("16UC1", "mono16"):
        return encoding, 0, 2 * width, pixels.tobytes()
    if encoding == "16UC1-big":
        return "16UC1", 1, 2 * width, pixels.astype(">u2").tobytes()
    if encoding == "32FC1":
        return "32FC1", 0, 4 * width, metres.tobytes()
    if encoding == "32FC1-mm":  # against REP 118
        return "32FC1", 0, 4 * width, (metres * numpy.float32(1000)).tobytes()
    if encoding == "16UC1-png":
        return "16UC1; compressedDepth png", bytes(12) + png(pixels)
    if encoding == "16UC1-plain-png":
        return "16UC1; png compressed ", png(pixels)
    if encoding == "mono16-plain-png":
        return "mono16; png compressed mono16", png(pixels)
    if encoding == "16UC1-rvl":
        return "16UC1; compressedDepth rvl", struct.pack("<iff", 9, -7, 5) + rvl(pixels)
    if encoding == "32FC1-dm":  # of no unit that is known
        return "32FC1", 0, 4 * width, (metres * numpy.float32(10)).tobytes()
    if encoding == "32FC1-png":
        with numpy.errstate(invalid="ignore"):
            q = numpy.where(pixels > 0, QUANT_A / metres + QUANT_B, 0).astype(numpy.uint16)
        return "32FC1; compressedDepth", struct.pack("<iff", 0, QUANT_A, QUANT_B) + png(q)
    raise SystemExit("encoding " + encoding)
