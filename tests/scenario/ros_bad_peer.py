# SPDX-License-Identifier: Apache-2.0
"""Publishers that are at fault, by the package `cyclonedds`; for the interpreter that has it:

    ros_bad_peer.py DOMAIN FAULT [FOLDER]

Publishes small depth images on /bad/depth/image_raw (FOLDER: other than /bad/depth) at 30 Hz until
it is killed, each with a stamp of now. FAULT: none, type (the topic is Odometry), encoding (rgb8),
repainted (rgb8 from image 20 on), hand_made (16uc1), packed (as compressedDepth alone), picture (as
compressed alone), packed_late (as packed, but the first three images are empty), packed_empty (all
are), no_info (no camera info), info (another fx from image 20 on), info_drifts (its fx grows by
1e-6 with each image), info_flaps (every second one has another fx), size (the camera info is of
another size), back (the stamp of image 20 goes back by 5 s), resized (from image 20 on they are
half as high), sizeless (the first three are 0x0), second (a second publisher), heir (one that stays
when the first ends), short (images 20 to 29 have half their bytes), spoilt (all from 60 to 299
have), best_effort, silent (a publisher without images), ends and ends_best_effort (it ends after 40
images and another one begins, reliable or not). Of stamps: spike (that of image 20 is an hour
ahead), step (from image 40 on they are 1000 s behind), ends_earlier (those of the second publisher
are 5000 s behind), stuck (from image 40 on they stand still), unstamped (a clock 1000 s behind, and
each tenth image has none), begins_unstamped (the first image has none), no_stamps (no image has
one). Of programs: counted (it sends 60 images and no more), late_info (the camera info begins with
image 60), successor (its fx is 90; it prints the stamp of its first image), second_camera (another
one publishes both topics, its camera info with another fx), info_elsewhere (another one publishes
the camera info, alone), and info_twice (that one and this)."""
import sys
import time

from cyclonedds.core import Policy, Qos
from cyclonedds.domain import DomainParticipant
from cyclonedds.pub import DataWriter
from cyclonedds.topic import Topic
from cyclonedds.util import duration

import numpy

import ros_frames
import ros_types
from ros_types import CameraInfo, CompressedImage, Header, Image, Odometry, RegionOfInterest

WIDTH, HEIGHT = 96, 64
RELIABLE = Qos(Policy.Reliability.Reliable(duration(seconds=1)), Policy.History.KeepLast(10))
BEST_EFFORT = Qos(Policy.Reliability.BestEffort, Policy.History.KeepLast(5))


def off_s(fault, i):
    """What the stamp of image i is off by."""
    if fault in ("spike", "back"):
        return {"spike": 3600, "back": -5}[fault] if i == 20 else 0
    if fault == "unstamped":
        return -1000
    return -{"step": 1000, "ends_earlier": 5000}.get(fault, 0) if i > 40 else 0


def camera_info(header, width, fx):
    return CameraInfo(
        header=header, height=HEIGHT, width=width, distortion_model="plumb_bob", d=[0.0] * 5,
        k=[fx, 0.0, 47.5, 0.0, 80.0, 31.5, 0.0, 0.0, 1.0],
        r=[1.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 1.0],
        p=[fx, 0.0, 47.5, 0.0, 0.0, 80.0, 31.5, 0.0, 0.0, 0.0, 1.0, 0.0], binning_x=0, binning_y=0,
        roi=RegionOfInterest(x_offset=0, y_offset=0, height=0, width=0, do_rectify=False))


def main():
    domain, fault = sys.argv[1:3]
    folder = sys.argv[3] if len(sys.argv) > 3 else "/bad/depth"
    participant = DomainParticipant(int(domain))
    qos = BEST_EFFORT if fault == "best_effort" else RELIABLE
    kind = {"type": Odometry, "packed": CompressedImage, "packed_late": CompressedImage,
            "packed_empty": CompressedImage, "picture": CompressedImage}.get(fault, Image)

    def writer_of(name, kind, qos=qos):
        return DataWriter(participant, Topic(participant, f"rt{folder}/{name}", kind, qos=qos),
                          qos=qos)

    ending = {"packed": "/compressedDepth", "packed_late": "/compressedDepth",
              "packed_empty": "/compressedDepth", "picture": "/compressed"}.get(fault, "")
    writer = writer_of("image_raw" + ending, kind)
    second = writer_of("image_raw", kind) if fault in ("second", "heir") else None
    info_writer = None
    if fault not in ("no_info", "info_elsewhere"):
        info_writer = writer_of("camera_info", CameraInfo)
    if fault in ("second_camera", "info_elsewhere", "info_twice"):
        participant = DomainParticipant(int(domain))  # of the writers from now on
        other_info = writer_of("camera_info", CameraInfo)
    else:
        other_info = None
    if fault == "second_camera":
        second = writer_of("image_raw", Image)
    print("ready", flush=True)
    while fault in ("type", "silent") or not writer.get_matched_subscriptions():
        time.sleep(0.02)
    time.sleep(0.3)
    row = b"".join((900 + 20 * (x % 7) + x).to_bytes(2, "little") for x in range(WIDTH))
    i = 0
    while True:
        if fault != "stuck" or i <= 40:
            now_ns = time.time_ns() + off_s(fault, i) * 10**9
        is_stamped = {"unstamped": i % 10 != 5, "begins_unstamped": i > 0,
                      "no_stamps": False}.get(fault, True)
        header = Header(stamp=ros_types.stamp(now_ns if is_stamped else 0), frame_id="bad")
        fx = 90.0 if fault == "successor" or fault == "info" and i >= 20 else 80.0
        fx += {"info_drifts": 1e-6 * i, "info_flaps": 10.0 * (i % 2)}.get(fault, 0)
        width = 2 * WIDTH if fault == "size" else WIDTH
        if fault == "successor" and i == 0:
            print(now_ns, flush=True)
        if info_writer and (fault != "late_info" or i >= 60):
            info_writer.write(camera_info(header, width, fx))
        if other_info:
            other_info.write(camera_info(header, width, 90.0))
        first, last = {"short": (20, 29), "spoilt": (60, 299)}.get(fault, (0, -1))
        data = list(row * (HEIGHT // 2 if first <= i <= last else HEIGHT))
        step, encoding = 2 * WIDTH, "16UC1"
        if fault == "hand_made":
            encoding = "16uc1"
        if fault == "encoding" or fault == "repainted" and i >= 20:
            data, step, encoding = list(bytes(3 * WIDTH * HEIGHT)), 3 * WIDTH, "rgb8"
        height = HEIGHT // 2 if fault == "resized" and i >= 20 else HEIGHT
        image = Image(header=header, height=height, width=WIDTH, encoding=encoding, is_bigendian=0,
                      step=step, data=data)
        if fault == "sizeless" and i < 3:
            image = Image(header=header, height=0, width=0, encoding=encoding, is_bigendian=0,
                          step=0, data=[])
        if fault.startswith("packed"):
            pixels = numpy.frombuffer(bytes(data), "<u2").reshape(HEIGHT, WIDTH)
            name, packed = ros_frames.encode(pixels, "16UC1-png")
            is_empty = fault == "packed_empty" or fault == "packed_late" and i < 3
            image = CompressedImage(header=header, format=name,
                                    data=list(packed[:12] if is_empty else packed))
        writer.write(image)
        if second:
            second.write(image)
        if fault == "heir" and i == 40:
            writer, second = second, None
        if fault.startswith("ends") and i == 40:
            del writer
            time.sleep(1)
            writer = writer_of("image_raw", kind, BEST_EFFORT if fault.endswith("effort") else qos)
        i += 1
        time.sleep(1 / 30 if fault != "counted" or i < 60 else 1000)


main()
