# SPDX-License-Identifier: Apache-2.0
"""Writes the depth frames of a recording in TUM layout as ROS logs, by libraries that none of us
wrote: rosbags, mcap-ros2-support, pyrealsense2. Runs under the interpreter that has them
(POSED_PYTHON_ROS, see tools/test):

    ros_write.py TUM-FOLDER OUT-FILE CONTAINER ENCODING

CONTAINER: mcap, mcap-zstd (rosbags), mcap-ros2, mcap-plain (mcap-ros2-support), db3, bag,
bag-bz2, bag-lz4, bag-plain (rosbags; the last without chunks), realsense (.bag or .db3, as the
library of POSED_REALSENSE writes it).
ENCODING: 16UC1, mono16, 16UC1-big, 32FC1, 32FC1-mm, 32FC1-dm, 16UC1-png, 16UC1-rvl, 32FC1-png,
16UC1-plain-png, mono16-plain-png. Options after it: no-info, color, no-depth; stuck (all stamps are
the same); restarted (bag, db3, mcap-ros2): from the middle on the topics are those of a publisher
that was started again, with ids of their own; of rosbags' containers of ROS 2 parts=N: a folder
with N files and the metadata.yaml that lists them, as rosbag2 splits a recording. Ids of topics
differ from one to the next, and camera infos are in the third alone."""
import functools
import itertools
import os
import sqlite3
import sys
import time
from pathlib import Path

import numpy

from ros_frames import UNITS_PER_M, camera, encode, frames

DEPTH, INFO = "/camera/depth/image_rect_raw", "/camera/depth/camera_info"


def fields(folder, encoding, options):
    """Topic, type, and message as nested dictionaries, of all that the recording has."""
    fx, fy, cx, cy = camera(folder)
    mine = [option[7:].split(":") for option in options if option.startswith("frames=")]
    first, end = (int(number) for number in mine[0]) if mine else (0, None)
    for time_ns, pixels in itertools.islice(frames(folder), first, end):
        stamp_ns = 10**18 if "stuck" in options else time_ns
        header = {"stamp": {"sec": stamp_ns // 10**9, "nanosec": stamp_ns % 10**9},
                  "frame_id": "camera_depth_optical_frame"}
        height, width = pixels.shape
        if "no-info" not in options:
            yield time_ns, INFO, "sensor_msgs/msg/CameraInfo", {
                "header": header, "height": height, "width": width,
                "distortion_model": "plumb_bob", "d": [0.0] * 5,
                "k": [fx, 0.0, cx, 0.0, fy, cy, 0.0, 0.0, 1.0],
                "r": [1.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 1.0],
                "p": [fx, 0.0, cx, 0.0, 0.0, fy, cy, 0.0, 0.0, 0.0, 1.0, 0.0],
                "binning_x": 0, "binning_y": 0,
                "roi": {"x_offset": 0, "y_offset": 0, "height": 0, "width": 0,
                        "do_rectify": False}}
        if "color" in options or "no-depth" in options:
            yield time_ns, "/camera/color/image_raw", "sensor_msgs/msg/Image", {
                "header": header, "height": 2, "width": 3, "encoding": "rgb8", "is_bigendian": 0,
                "step": 9, "data": bytes(18)}
        if "no-depth" in options:
            continue
        packed = encode(pixels, encoding)
        if len(packed) == 2:
            transport = "/compressed" if "plain-png" in encoding else "/compressedDepth"
            yield time_ns, DEPTH + transport, "sensor_msgs/msg/CompressedImage", {
                "header": header, "format": packed[0], "data": packed[1]}
        else:
            yield time_ns, DEPTH, "sensor_msgs/msg/Image", {
                "header": header, "height": height, "width": width, "encoding": packed[0],
                "is_bigendian": packed[1], "step": packed[2], "data": packed[3]}


def write_rosbags(folder, out, container, encoding, options):
    from rosbags import rosbag1, rosbag2
    from rosbags.typesys import Stores, get_typestore
    is_ros1 = container.startswith("bag")
    store = get_typestore(Stores.ROS1_NOETIC if is_ros1 else Stores.ROS2_JAZZY)
    arrays = {"d": "f8", "k": "f8", "r": "f8", "p": "f8", "data": "u1"}

    def build(kind, values):
        made = {}
        types = dict(store.fielddefs[kind][1])
        for name in types:
            key = name if name in values else name.lower()  # D, K, R, P of ROS 1
            value = 0 if name == "seq" else values[key]
            if isinstance(value, dict):
                value = build(types[name][1], value) if isinstance(types[name][1], str) else value
            elif key in arrays and isinstance(value, bytes):
                value = numpy.frombuffer(value, numpy.uint8)
            elif key in arrays:
                value = numpy.array(value, arrays[key])
            made[name] = value
        if kind == "builtin_interfaces/msg/Time" or "Time" in kind:
            made = {name: made[name] for name in types}
        return store.types[kind](**made)

    if is_ros1:
        writer = rosbag1.Writer(out)
        if container in ("bag-bz2", "bag-lz4"):
            writer.set_compression(getattr(rosbag1.Writer.CompressionFormat,
                                           container[4:].upper()))
    else:
        plugin = rosbag2.StoragePlugin.SQLITE3 if container == "db3" else rosbag2.StoragePlugin.MCAP
        writer = rosbag2.Writer(out, version=9, storage_plugin=plugin)
        if container == "mcap-zstd":
            writer.set_compression(rosbag2.CompressionMode.STORAGE, rosbag2.CompressionFormat.ZSTD)
    with writer:
        connections = {}
        middle_ns = middle_of(folder) if is_ros1 and "restarted" in options else None
        for time_ns, topic, kind, values in fields(folder, encoding, options):
            if middle_ns and time_ns >= middle_ns:
                connections, middle_ns = {}, None
            if topic not in connections:
                by = {"callerid": f"/node_{len(writer.connections)}"} if is_ros1 else {}
                connections[topic] = writer.add_connection(topic, kind, typestore=store, **by)
            message = build(kind, values)
            data = (store.serialize_ros1 if is_ros1 else store.serialize_cdr)(message, kind)
            # as a recorder does: somewhat later than the stamp
            writer.write(connections[topic], time_ns + 1700000, data)
    if container == "bag-plain":
        leave_chunks_out(out)
    if container == "db3" and "restarted" in options:
        split_topics(next(out.glob("*.db3")), middle_of(folder))


def middle_of(folder):
    times = [time_ns for time_ns, _ in frames(folder)]
    return times[len(times) // 2]


def split_topics(path, middle_ns):
    """Each topic is two of the same name, as `ros2 bag convert` of several recordings may write."""
    with sqlite3.connect(path) as file:
        topics = [row[0] for row in file.execute("SELECT id FROM topics")]
        names = [row[1] for row in file.execute("PRAGMA table_info(topics)") if row[1] != "id"]
        for topic in topics:
            file.execute(f"INSERT INTO topics (id, {', '.join(names)}) "
                         f"SELECT id + 100, {', '.join(names)} FROM topics WHERE id = ?", (topic,))
            file.execute("UPDATE messages SET topic_id = topic_id + 100 "
                         "WHERE topic_id = ? AND timestamp >= ?", (topic, middle_ns))


def write_parts(folder, out, container, encoding, n_parts):
    n_frames = sum(1 for _ in frames(folder))
    names = []
    for i in range(n_parts):
        options = [f"frames={i * n_frames // n_parts}:{(i + 1) * n_frames // n_parts}"]
        options += ["color"] if i % 2 else []
        options += ["no-info"] if i != 2 else []
        alone = out / f"part{i}"
        out.mkdir(exist_ok=True)
        write_rosbags(folder, alone, container, encoding, options)
        written, = (file for file in alone.iterdir() if file.suffix != ".yaml")
        names.append(f"{out.name}_{i}{written.suffix}")
        written.rename(out / names[-1])
        (alone / "metadata.yaml").unlink()
        alone.rmdir()
    storage = "sqlite3" if container == "db3" else "mcap"
    (out / "metadata.yaml").write_text(
        "rosbag2_bagfile_information:\n  version: 5\n  storage_identifier: " + storage +
        "\n  duration:\n    nanoseconds: 1\n  relative_file_paths:\n" +
        "".join(f"    - {name}\n" for name in names) +
        "  compression_format: \"\"\n  compression_mode: \"\"\n  files:\n" +
        "".join(f"    - path: {name}\n      message_count: 1\n" for name in names))


def leave_chunks_out(path):
    """Connections and messages as records of the file itself, which the format allows."""
    old = path.read_bytes()
    at = old.index(b"\n") + 1
    new = bytearray(old[:at])
    while at < len(old):
        begin, fields = at, {}
        n_header = int.from_bytes(old[at:at + 4], "little")
        at, end = at + 4, at + 4 + n_header
        while at < end:
            n = int.from_bytes(old[at:at + 4], "little")
            name, _, value = old[at + 4:at + 4 + n].partition(b"=")
            fields[name], at = value, at + 4 + n
        n_data = int.from_bytes(old[at:at + 4], "little")
        data, at = old[at + 4:at + 4 + n_data], at + 4 + n_data
        if fields[b"op"] == b"\x05":  # a chunk
            new += data
        elif fields[b"op"] not in b"\x04\x06":  # what indexes them
            new += old[begin:at]
    path.write_bytes(new)


def write_mcap_ros2(folder, out, encoding, options, plain):
    """plain: without chunks, as rosbag2's preset `fastwrite` records."""
    import mcap_ros2.writer as ros2
    from rosbags.typesys import Stores, get_typestore
    if plain:
        ros2.McapWriter = functools.partial(ros2.McapWriter, use_chunking=False)
    store = get_typestore(Stores.ROS2_HUMBLE)
    with open(out, "wb") as file:
        writer = ros2.Writer(file, chunk_size=2 << 20)
        schemas = {}
        middle_ns = middle_of(folder) if "restarted" in options else None
        for time_ns, topic, kind, values in fields(folder, encoding, options):
            if middle_ns and time_ns >= middle_ns:
                writer._channel_ids.clear()  # it has no call for a second channel of a topic
                middle_ns = None
            if kind not in schemas:
                text, _ = store.generate_msgdef(kind, ros_version=2)
                schemas[kind] = writer.register_msgdef(kind, text)
            writer.write_message(topic, schemas[kind], values, time_ns + 1700000, time_ns)
        writer.finish()


def write_realsense(folder, out):
    """A software device, and the library's recorder on it."""
    sys.path.insert(0, os.environ["POSED_REALSENSE"])
    import pyrealsense2 as rs
    device = rs.software_device()
    sensor = device.add_sensor("Depth")
    fx, fy, cx, cy = camera(folder)
    first = next(frames(folder))[1]
    intrinsics = rs.intrinsics()
    intrinsics.height, intrinsics.width = first.shape
    intrinsics.fx, intrinsics.fy, intrinsics.ppx, intrinsics.ppy = fx, fy, cx, cy
    intrinsics.model, intrinsics.coeffs = rs.distortion.none, [0] * 5
    stream = rs.video_stream()
    stream.type, stream.fmt, stream.fps, stream.bpp = rs.stream.depth, rs.format.z16, 30, 2
    stream.width, stream.height = intrinsics.width, intrinsics.height
    stream.intrinsics = intrinsics
    profile = sensor.add_video_stream(stream)
    sensor.add_read_only_option(rs.option.depth_units, 1 / UNITS_PER_M)
    recorder = rs.recorder(out, device)
    recorded = recorder.query_sensors()[0]
    queue = rs.frame_queue(1000)
    recorded.open(recorded.get_stream_profiles()[0])
    recorded.start(queue)
    for i, (time_ns, pixels) in enumerate(frames(folder)):
        frame = rs.software_video_frame()
        frame.pixels = pixels
        frame.stride, frame.bpp = 2 * intrinsics.width, 2
        frame.timestamp, frame.domain = time_ns * 1e-6, rs.timestamp_domain.hardware_clock
        frame.frame_number, frame.depth_units = i, 1 / UNITS_PER_M
        frame.profile = profile.as_video_stream_profile()
        sensor.on_video_frame(frame)
        time.sleep(0.03)  # its queue drops what comes quicker than it writes
    time.sleep(1)
    recorded.stop()
    recorded.close()


def main():
    folder, out, container, encoding, *options = sys.argv[1:]
    parts = [int(option[6:]) for option in options if option.startswith("parts=")]
    if parts:
        write_parts(folder, Path(out), container, encoding, parts[0])
    elif container == "realsense":
        write_realsense(folder, out)
    elif container in ("mcap-ros2", "mcap-plain"):
        write_mcap_ros2(folder, out, encoding, options, container == "mcap-plain")
    else:
        write_rosbags(folder, Path(out), container, encoding, options)


main()
