# SPDX-License-Identifier: Apache-2.0
"""Reads the recordings of test_mcap.c with the official MCAP library and the protobuf runtime:
checksums, summary, message index, and every message through the schema inside the file.

    read_mcap.py OF-5000-UNITS-A-METRE OF-1000"""
import sys

try:
    from google.protobuf import descriptor_pb2, descriptor_pool
    from mcap.reader import NonSeekingReader, make_reader
except ImportError as missing:
    print(f"SKIP: {missing} (tools/test installs it where PyPI can be reached)")
    sys.exit(77)

try:
    from google.protobuf.message_factory import GetMessageClass
except ImportError:  # protobuf before 4.22
    from google.protobuf.message_factory import MessageFactory

    def GetMessageClass(descriptor):
        return MessageFactory().GetPrototype(descriptor)


def message_class(schema):
    assert schema.encoding == "protobuf"
    pool = descriptor_pool.DescriptorPool()
    for file in descriptor_pb2.FileDescriptorSet.FromString(schema.data).file:
        pool.Add(file)
    return GetMessageClass(pool.FindMessageTypeByName(schema.name))


def check(reader, n_frames, units_per_m):
    counts, classes = {}, {}
    for schema, channel, message in reader.iter_messages():
        kind = classes.setdefault(schema.name, message_class(schema))
        decoded = kind.FromString(message.data)
        i = counts.get(channel.topic, 0)
        counts[channel.topic] = i + 1
        if channel.topic == "depth":
            assert schema.name == "foxglove.RawImage" and decoded.encoding == "16UC1"
            assert (decoded.width, decoded.height, decoded.step) == (9, 7, 18)
            expected = [round((1000 + 100 * i + k) * 1000 / units_per_m) for k in range(63)]
            expected[5] = 0  # 65535 in the source: no measurement
            assert list(memoryview(decoded.data).cast("H")) == expected
            time_ns = decoded.timestamp.seconds * 10**9 + decoded.timestamp.nanos
            assert time_ns == message.log_time == 1700000000000000000 + i * 33333333
            assert channel.metadata["units_per_m"] == "1000"
        elif channel.topic == "calib":
            assert list(decoded.K) == [8, 0, 4.25, 0, -8.5, 3, 0, 0, 1]
            assert len(decoded.R) == 9 and len(decoded.P) == 12
        elif channel.topic == "pose":
            assert schema.name == "foxglove.Odometry"
            assert (decoded.frame_id, decoded.body_frame_id) == ("odom", "camera")
    wanted = {"depth": n_frames, "calib": N_CHUNKS, "pose": n_frames, "tf": n_frames}
    assert counts == wanted, counts


N_CHUNKS = 3  # each has the calibration: a reader may begin with any of them
with open(sys.argv[1], "rb") as file:
    reader = make_reader(file, validate_crcs=True)
    summary = reader.get_summary()
    statistics = summary.statistics
    assert (statistics.message_count, statistics.chunk_count) == (123, N_CHUNKS), statistics
    assert len(summary.chunk_indexes) == N_CHUNKS
    calib = next(i for i, c in summary.channels.items() if c.topic == "calib")
    assert all(calib in c.message_index_offsets for c in summary.chunk_indexes)
    assert {c.compression for c in summary.chunk_indexes} <= {"zstd", ""}
    assert summary.statistics.message_start_time == 1700000000000000000
    check(reader, 40, 5000)
    # by the index alone, from the middle
    later = list(reader.iter_messages(topics=["depth"], start_time=1700000000000000000 + 10**9))
    assert len(later) == 9, len(later)
for path, units_per_m in zip(sys.argv[1:], (5000, 1000), strict=True):
    with open(path, "rb") as file:
        check(NonSeekingReader(file, validate_crcs=True), 40, units_per_m)
print("the official library reads 123 messages in 3 chunks, checksums and index are right")
