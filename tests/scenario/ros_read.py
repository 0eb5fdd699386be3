# SPDX-License-Identifier: Apache-2.0
"""Reads what our recorder wrote for ROS 2 with two libraries that none of us wrote, rosbags and
mcap-ros2-support, and holds each message against the frames in TUM layout and the poses of the
trajectory. Runs under the interpreter that has them (POSED_PYTHON_ROS, see tools/test):

    ros_read.py RECORDING.ros2.mcap TUM-FOLDER TRAJECTORY UNITS-PER-M FRAMES CAMERA-IN-BASE

FRAMES is "MAP ODOM BASE OPTICAL", CAMERA-IN-BASE as ros.camera_in_base."""
import os
import sys
import tempfile
from pathlib import Path

import numpy
from mcap.reader import make_reader
from mcap_ros2.decoder import DecoderFactory
from PIL import Image
from rosbags.highlevel import AnyReader
from rosbags.typesys import Stores, get_typestore

# The optical frame's axes in the base's (REP 103).
OPTICAL = numpy.array([[0, 0, 1], [-1, 0, 0], [0, -1, 0]], float)
TYPES = {"/camera/depth/image_raw": "sensor_msgs/msg/Image",
         "/camera/depth/camera_info": "sensor_msgs/msg/CameraInfo",
         "/odom": "nav_msgs/msg/Odometry", "/tf": "tf2_msgs/msg/TFMessage",
         "/tf_static": "tf2_msgs/msg/TFMessage"}


def rotation(q):
    x, y, z, w = q
    return numpy.array([[1 - 2 * (y * y + z * z), 2 * (x * y - z * w), 2 * (x * z + y * w)],
                        [2 * (x * y + z * w), 1 - 2 * (x * x + z * z), 2 * (y * z - x * w)],
                        [2 * (x * z - y * w), 2 * (y * z + x * w), 1 - 2 * (x * x + y * y)]])


def matrix(p, q):
    out = numpy.eye(4)
    out[:3, :3], out[:3, 3] = rotation(q), p
    return out


def in_base(text):
    """Of the optical frame, by ros.camera_in_base: each axis turned by the ones before it."""
    x, y, z, *angles = (float(v) for v in text.split())
    turned = numpy.eye(3)
    for axis, angle in zip((2, 1, 0), angles[::-1], strict=True):
        q = [0.0, 0.0, 0.0, numpy.cos(angle / 2)]
        q[axis] = numpy.sin(angle / 2)
        turned = turned @ rotation(q)
    out = numpy.eye(4)
    out[:3, :3], out[:3, 3] = turned @ OPTICAL, (x, y, z)
    return out


def of_message(transform):
    p, q = transform.translation, transform.rotation
    return matrix([p.x, p.y, p.z], [q.x, q.y, q.z, q.w])


def stamp_ns(text):
    sec, nanosec = text.split(".")
    return int(sec) * 10**9 + int(nanosec.ljust(9, "0"))


def lines(path):
    with open(path) as file:
        return [line.split() for line in file if not line.startswith("#")]


class Expected:
    def __init__(self, folder, trajectory, units_per_m, frames, camera_in_base):
        self.map_frame, self.odom, self.base, self.optical = frames.split()
        self.T_base_optical = in_base(camera_in_base)
        self.frames = [(stamp_ns(stamp), f"{folder}/{name}")
                       for stamp, name in lines(folder + "/depth.txt")]
        with open(trajectory) as file:  # of a frame that was not measured there is a comment
            rows = [line.split() for line in file if line.startswith("#")]
        self.lost, predicted = ({stamp_ns(row[1]) for row in rows if row[2:3] == [what]}
                                for what in ("lost:", "predicted:"))
        self.poses = {stamp_ns(row[0]): [float(x) for x in row[1:]] for row in lines(trajectory)}
        times = [*self.lost, *predicted, *self.poses]
        assert [time for time, _ in self.frames] == sorted(times) != []
        self.counts = {**dict.fromkeys(TYPES, len(self.frames))}
        self.stamps = {time for time, _ in self.frames}
        self.units_per_m = units_per_m
        self.camera = [float(x) for x in lines(folder + "/calibration.txt")[0][:4]]


def check_pose(p, q, row, T_base_optical):
    """Of the base, which the camera carries: odom is where it was at the first frame."""
    got = matrix([p.x, p.y, p.z], [q.x, q.y, q.z, q.w])
    wanted = T_base_optical @ matrix(row[:3], row[3:]) @ numpy.linalg.inv(T_base_optical)
    assert numpy.allclose(got, wanted, rtol=0, atol=1e-8), (got, wanted)


def check_message(topic, message, log_ns, i, expected):
    if topic == "/tf":  # a map that nothing has adjusted yet
        of_map = message.transforms[0]
        frames = of_map.header.frame_id, of_map.child_frame_id
        assert frames == (expected.map_frame, expected.odom)
        assert of_map.header.stamp == message.transforms[-1].header.stamp
        assert numpy.allclose(of_message(of_map.transform), numpy.eye(4), rtol=0, atol=1e-12)
        assert len(message.transforms) == 2 - (expected.frames[i][0] in expected.lost)
    message = message.transforms[-1] if topic.startswith("/tf") else message
    header = message.header
    time_ns = header.stamp.sec * 10**9 + header.stamp.nanosec
    if topic == "/tf_static":  # once in each chunk
        assert time_ns == log_ns and time_ns in expected.stamps, (i, time_ns, log_ns)
        assert i or time_ns == expected.frames[0][0], "before the first image"
    else:
        assert time_ns == log_ns == expected.frames[i][0], (topic, i, time_ns, log_ns)
    if topic.startswith("/camera"):
        assert header.frame_id == expected.optical
    if topic == "/camera/depth/image_raw":
        pixels = numpy.array(Image.open(expected.frames[i][1])).astype(numpy.uint16)
        data = numpy.frombuffer(bytes(message.data), numpy.uint8)
        assert (message.height, message.width) == pixels.shape and message.is_bigendian == 0
        if expected.units_per_m == 1000:
            assert message.encoding == "16UC1" and message.step == 2 * message.width
            wanted = numpy.where(pixels == 65535, 0, pixels)  # both are no measurement
            assert (data.view("<u2").reshape(pixels.shape) == wanted).all()
        else:
            assert message.encoding == "32FC1" and message.step == 4 * message.width
            metres = data.view("<f4").reshape(pixels.shape)
            wanted = (pixels / expected.units_per_m).astype(numpy.float32)
            is_measured = (pixels > 0) & (pixels < 65535)
            assert (numpy.where(is_measured, metres == wanted, numpy.isnan(metres))).all()
    elif topic == "/camera/depth/camera_info":
        fx, fy, cx, cy = expected.camera
        k, p = getattr(message, "k"), getattr(message, "p")
        assert list(k) == [fx, 0, cx, 0, fy, cy, 0, 0, 1]
        assert list(p) == [fx, 0, cx, 0, 0, fy, cy, 0, 0, 0, 1, 0]
        assert (message.distortion_model, list(message.d)) == ("plumb_bob", [0] * 5)
    elif topic == "/odom":
        assert (header.frame_id, message.child_frame_id) == (expected.odom, expected.base)
        pose = message.pose.pose
        if time_ns in expected.poses:
            check_pose(pose.position, pose.orientation, expected.poses[time_ns],
                       expected.T_base_optical)
        covariance = numpy.array(message.pose.covariance).reshape(6, 6)
        assert (time_ns in expected.lost) == (covariance[3, 3] > 1e5)
        assert numpy.allclose(covariance, covariance.T) and (numpy.diag(covariance) > 0).all()
        of_twist = numpy.array(message.twist.covariance).reshape(6, 6)
        if i == 0 or covariance[0, 0] > 1e5:  # no pose before it, or lost
            assert (of_twist == 1e6 * numpy.eye(6)).all(), of_twist
        else:
            assert numpy.allclose(of_twist, of_twist.T), of_twist
            assert (numpy.linalg.eigvalsh(of_twist) > 0).all() and of_twist.max() < 10, of_twist
    elif topic == "/tf" and time_ns in expected.lost:  # where it is nobody knows
        assert header.frame_id == expected.map_frame
    elif topic == "/tf":
        assert (header.frame_id, message.child_frame_id) == (expected.odom, expected.base)
        if time_ns in expected.poses:
            check_pose(message.transform.translation, message.transform.rotation,
                       expected.poses[time_ns], expected.T_base_optical)
    else:
        assert (header.frame_id, message.child_frame_id) == (expected.base, expected.optical)
        assert numpy.allclose(of_message(message.transform), expected.T_base_optical)


def check_all(messages, expected, reader):
    counts = {}
    for topic, kind, log_ns, message in messages:
        assert TYPES[topic] == kind, (topic, kind)
        i = counts.get(topic, 0)
        counts[topic] = i + 1
        check_message(topic, message, log_ns, i, expected)
    assert counts == expected.counts, counts
    print(f"{reader}: {sum(counts.values())} messages, fields and times right")


def rosbags_messages(path):
    """It wants the folder that `ros2 bag record` makes."""
    store = get_typestore(Stores.ROS2_JAZZY)
    with AnyReader([Path(path)], default_typestore=store) as reader:
        for connection, log_ns, data in reader.messages():
            yield connection.topic, connection.msgtype, log_ns, reader.deserialize(
                data, connection.msgtype)


def folder_of(path, expected):
    """The recording in a folder with a metadata.yaml, as `ros2 bag reindex` makes it."""
    folder = tempfile.mkdtemp()
    name = os.path.basename(path)
    os.symlink(os.path.abspath(path), f"{folder}/{name}")
    n = sum(expected.counts.values())
    start, end = expected.frames[0][0], expected.frames[-1][0]
    topics = "".join(f"""
    - topic_metadata: {{name: {topic}, type: {kind}, serialization_format: cdr,
                       offered_qos_profiles: ""}}
      message_count: {expected.counts[topic]}""" for topic, kind in TYPES.items())
    with open(folder + "/metadata.yaml", "w") as file:
        file.write(f"""rosbag2_bagfile_information:
  version: 5
  storage_identifier: mcap
  duration: {{nanoseconds: {end - start}}}
  starting_time: {{nanoseconds_since_epoch: {start}}}
  message_count: {n}
  topics_with_message_count:{topics}
  compression_format: ""
  compression_mode: ""
  relative_file_paths: [{name}]
  files:
    - path: {name}
      starting_time: {{nanoseconds_since_epoch: {start}}}
      duration: {{nanoseconds: {end - start}}}
      message_count: {n}
""")
    return folder


def main():
    path, folder, trajectory, units_per_m, frames, camera_in_base = sys.argv[1:]
    expected = Expected(folder, trajectory, float(units_per_m), frames, camera_in_base)
    with open(path, "rb") as file:
        reader = make_reader(file, decoder_factories=[DecoderFactory()], validate_crcs=True)
        summary = reader.get_summary()
        assert reader.get_header().profile == "ros2"
        assert all(c.metadata["offered_qos_profiles"] == "" for c in summary.channels.values())
        channels = {c.topic: i for i, c in summary.channels.items()}
        expected.counts["/tf_static"] = 0
        for chunk in summary.chunk_indexes:
            offsets = chunk.message_index_offsets
            has_images = channels["/camera/depth/image_raw"] in offsets
            assert has_images == (channels["/tf_static"] in offsets), chunk
            expected.counts["/tf_static"] += has_images
        assert expected.counts["/tf_static"] > 1
        assert summary.statistics.message_count == sum(expected.counts.values())
        check_all(((c.topic, s.name, m.log_time, d) for s, c, m, d in
                   reader.iter_decoded_messages(log_time_order=True)), expected,
                  "mcap-ros2-support")
    check_all(rosbags_messages(folder_of(path, expected)), expected, "rosbags")


if __name__ == "__main__":
    main()
