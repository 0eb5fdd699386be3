# SPDX-License-Identifier: Apache-2.0
"""What goes out beside the pose: tf, calib, status to late subscribers, heartbeat, latest, img."""
import struct
import time

import zmq

import harness
from harness import messages


def subscribe(daemon, *topics, name="pub", **options):
    subscriber = daemon.socket(zmq.SUB, name, rcvtimeo=20000, **options)
    for topic in topics:
        subscriber.subscribe(topic)
    return subscriber


def check_late_subscriber(daemon):
    """calib and status come at once, although they were sent long ago."""
    for topic, kind in (("calib", messages.CameraCalibration), ("status", messages.Status)):
        late = subscribe(daemon, topic)
        start = time.monotonic()
        message = kind.FromString(late.recv_multipart()[1])
        if topic == "calib":
            assert time.monotonic() - start < 2
            assert message.K[0] > 100 and message.units_per_m > 0, message
        late.close()
    everything = subscribe(daemon, "")
    seen = set()
    while not {b"pose", b"tf", b"calib", b"status", b"timing"} <= seen:
        seen.add(everything.recv_multipart()[0])
    everything.close()


def check_transform(daemon):
    both = subscribe(daemon, "pose", "tf")
    pose = None
    for _ in range(20):
        topic, message = both.recv_multipart()
        if topic == b"pose":
            pose = messages.Odometry.FromString(message)
        elif pose is not None:
            tf = messages.FrameTransform.FromString(message)
            assert tf.timestamp == pose.timestamp and tf.translation == pose.pose.position
            assert tf.rotation == pose.pose.orientation
            assert (tf.parent_frame_id, tf.child_frame_id) == ("odom", "camera")
    both.close()


def check_heartbeat(daemon):
    beat = subscribe(daemon, "status", "timing")
    n_status = n_timing = 0
    end = time.monotonic() + 3.5
    while time.monotonic() < end:
        topic, message = beat.recv_multipart()
        n_status += topic == b"status"
        if topic == b"timing":
            n_timing += 1
            stages = messages.Timing.FromString(message).stages
            assert {s.name for s in stages} == {"wait", "track", "added"}, stages
    fewest = 1 if harness.is_sanitized() else 3
    assert fewest <= n_status <= 6 and fewest <= n_timing <= 5, (n_status, n_timing)
    beat.close()


def check_latest(daemon):
    """One part, so that CONFLATE keeps the newest whole."""
    latest = subscribe(daemon, "", name="latest", conflate=1)
    first = messages.Odometry.FromString(latest.recv())
    time.sleep(5 if harness.is_sanitized() else 1)
    second = messages.Odometry.FromString(latest.recv())
    assert second.seq > first.seq + 5, (first.seq, second.seq)
    latest.close()


def check_images(daemon):
    images = subscribe(daemon, "depth", "normals", name="img")
    seen = {}
    while len(seen) < 2:
        topic, message = images.recv_multipart()
        seen[topic] = messages.RawImage.FromString(message)
    depth, normals = seen[b"depth"], seen[b"normals"]
    assert (depth.encoding, depth.width, depth.height, depth.step) == ("16UC1", 640, 480, 1280)
    assert len(depth.data) == 640 * 480 * 2
    valid = [d for d in struct.unpack(f"<{640 * 480}H", depth.data) if d]
    assert len(valid) > 10000 and 300 < sorted(valid)[len(valid) // 2] < 12000
    assert normals.encoding == "32FC3" and len(normals.data) == 640 * 480 * 12
    n = struct.unpack(f"<{640 * 480 * 3}f", normals.data)
    lengths = [n[i]**2 + n[i + 1]**2 + n[i + 2]**2 for i in range(0, len(n), 3 * 997)]
    assert all(length == 0 or abs(length - 1) < 1e-3 for length in lengths)
    assert sum(length > 0 for length in lengths) > len(lengths) // 4
    images.close()


def check_cloud_and_residual(daemon):
    """The points and normals of the filtered frame, and how well it lies on the one before."""
    images = subscribe(daemon, "cloud", "residual", "normals", name="img")
    seen = {}
    while not any(len(of) == 3 for of in seen.values()):
        topic, message = images.recv_multipart()
        kind = messages.PointCloud if topic == b"cloud" else messages.RawImage
        image = kind.FromString(message)
        seen.setdefault(image.seq, {})[topic] = image
    images.close()
    frame = next(of for of in seen.values() if len(of) == 3)
    cloud, residual, normals = frame[b"cloud"], frame[b"residual"], frame[b"normals"]
    assert cloud.timestamp == residual.timestamp and cloud.frame_id == "camera"
    assert [(f.name, f.offset, f.type) for f in cloud.fields] == [
        (name, 4 * i, messages.PackedElementField.FLOAT32) for i, name in enumerate(
            ("x", "y", "z", "normal_x", "normal_y", "normal_z"))]
    assert cloud.point_stride == 24 and cloud.pose.orientation.w == 1
    points = list(struct.iter_unpack("<6f", cloud.data))
    with_normal = [p for p in points if any(p[3:])]
    n = list(struct.iter_unpack("<3f", normals.data))
    assert [p[3:] for p in with_normal] == [px for px in n if any(px)], "the same normals, in order"
    assert len(with_normal) > 30000, len(with_normal)
    assert all(0.3 < p[2] < 12 and abs(p[0]) < p[2] for p in points)
    assert all(sum(a * b for a, b in zip(p[:3], p[3:])) < 0 for p in with_normal[::97])

    assert (residual.encoding, residual.width, residual.height) == ("32FC1", 640, 480)
    values = [r for (r,) in struct.iter_unpack("<f", residual.data)]
    pairs = sorted(r for r in values if r == r)
    assert len(pairs) > 20000, len(pairs)
    assert all(px or not r == r for px, r in zip(map(any, n), values)), "a pair without a normal"
    # Aligned: no side is preferred, and most lie within the sensor's noise.
    assert abs(pairs[len(pairs) // 2]) < 1e-3, pairs[len(pairs) // 2]
    assert pairs[len(pairs) * 9 // 10] < 0.02 and pairs[len(pairs) // 10] > -0.02
    assert -0.11 < pairs[0] and pairs[-1] < 0.11, "beyond tracker.gate_distance_m"


def scenario():
    daemon = harness.Daemon("synth:room", "--loop", "--set", "tracker.iterations=3,3,3", speed=1,
                            collect=False)
    check_late_subscriber(daemon)
    check_transform(daemon)
    check_heartbeat(daemon)
    check_latest(daemon)
    check_images(daemon)
    check_cloud_and_residual(daemon)
    daemon.stop()


harness.run(scenario)
