# SPDX-License-Identifier: Apache-2.0
"""An MCAP recording says what is in it: read by the official library with the schemas of the file
alone, each pose has every field that the daemon published; so does one that posectl asked for. Of a
rig, the frames are one tree, and each image is of the frame that it has there. tf is silent while
nobody knows where the camera is, and of a rig goes on by another one."""
import json
import math
import os
import subprocess

import harness
import unknown_way
from harness import BINARY, SOURCE, check, messages

N_FRAMES = 12
PYTHON = os.environ.get("POSED_MCAP_PYTHON") or SOURCE + "/build/mcap-python/bin/python3"

READER = """
import json, sys
from google.protobuf import descriptor_pb2, descriptor_pool, json_format, message_factory
from mcap.reader import make_reader
out = {}
with open(sys.argv[1], "rb") as file:
    for schema, channel, message in make_reader(file).iter_messages():
        pool = descriptor_pool.DescriptorPool()
        for part in descriptor_pb2.FileDescriptorSet.FromString(schema.data).file:
            pool.Add(part)
        descriptor = pool.FindMessageTypeByName(schema.name)
        kind = message_factory.GetMessageClass(descriptor) if hasattr(
            message_factory, "GetMessageClass") else message_factory.MessageFactory(
                pool).GetPrototype(descriptor)
        one = kind.FromString(message.data)
        again = one.SerializeToString(deterministic=True)
        one.DiscardUnknownFields()
        unknown = one.SerializeToString(deterministic=True) != again
        out.setdefault(channel.topic, []).append([unknown, again.hex(), {
            field.name: [field.number, field.type] for field in descriptor.fields},
            [getattr(one, name, None) for name in ("seq", "state", "residual_rms_m",
                                                   "inlier_ratio")]])
print(json.dumps(out))
"""


def read(path):
    done = subprocess.run([PYTHON, "-c", READER, path], capture_output=True, text=True,
                          timeout=harness.PATIENCE_S)
    check(done.returncode == 0, done.stderr)
    return json.loads(done.stdout)


def check_asked_for(folder):
    daemon = harness.Daemon("synth:room", "--loop", "--set", "recorder.folder=" + folder,
                            "--set", "recorder.queue_frames=64", speed=0.5)
    for words in (["start", "m", "--format", "mcap"], ["stop"]):
        n_before = len(daemon.poses)
        daemon.wait_for(lambda: len(daemon.poses) > n_before + N_FRAMES, "poses")
        done = subprocess.run([BINARY + "/bin/posectl", "record", *words, "--host", daemon.folder],
                              capture_output=True, text=True, timeout=harness.PATIENCE_S)
        check(done.returncode == 0, done.stderr)
    daemon.stop()
    published = {pose.seq: pose for pose in daemon.poses}
    poses = read(folder + "/m.mcap")["pose"]
    check(len(poses) > N_FRAMES / 2, f"{len(poses)} poses")
    for unknown, _, _, (seq, state, residual_m, inliers) in poses:
        own = published[seq]
        check(not unknown and [state, residual_m, inliers] ==
              [own.state, own.residual_rms_m, own.inlier_ratio], f"{seq}: {state} {residual_m}")
    check(any(values[2] > 0 for _, _, _, values in poses), "no residual")


PLACES = {"left-1": [0.2, 0.03, -0.05, 0, 0.6, 0, 0.8], "back": [-0.1, 0, -0.2, 0, 1, 0, 0]}


def record_rig(folder, name, is_rig):
    conf = harness.SCRATCH + "/rig.conf"
    text = f"[camera front]\nsource = synth:room,frames={N_FRAMES}\n"
    for i, (camera, place) in enumerate(PLACES.items()):
        rig = f"{harness.SCRATCH}/{camera}.txt"
        with open(rig, "w") as file:
            file.write(" ".join(map(str, place)) + "\n")
        text += f"[camera {camera}]\nsource = synth:room,seed={i + 2},frames={N_FRAMES}\n"
        text += f"rig = {rig}\n" if is_rig else ""
    with open(conf, "w") as file:
        file.write(text)
    harness.Daemon(None, "-c", conf, "--set", "recorder.folder=" + folder, "--set",
                   "recorder.format=mcap", "--set", "recorder.start=" + name, collect=False).wait()
    return read(f"{folder}/{name}.mcap")


def decoded(kind, topic):
    return [kind.FromString(bytes.fromhex(data)) for _, data, *_ in topic]


def check_rig(folder):
    """Topic rig has the one pose of all. The other cameras stand still in the first one's frame,
    where the rig's files have them; those of no rig move each in its own odom."""
    for name, is_rig in (("rig", True), ("apart", False)):
        topics = record_rig(folder, name, is_rig)
        of_rig = decoded(messages.Odometry, topics.get("rig", []))
        check([p.timestamp for p in of_rig] == [m.timestamp for m in decoded(
            messages.Odometry, topics["pose/front"])][:len(of_rig)], "stamps of the rig")
        check(len(of_rig) == (N_FRAMES if is_rig else 0), f"{len(of_rig)} poses of the rig")
        check({(p.frame_id, p.body_frame_id) for p in of_rig} <= {("rig/odom", "front/camera")},
              "frames of the rig's pose")
        for camera in ("front", *PLACES):
            for topic, kind in (("depth", messages.RawImage),
                                ("calib", messages.CameraCalibration)):
                frames = {m.frame_id for m in decoded(kind, topics[f"{topic}/{camera}"])}
                check(frames == {camera + "/camera"}, f"{topic}/{camera} is of {frames}")
            transforms = decoded(messages.FrameTransform, topics["tf/" + camera])
            poses = decoded(messages.Odometry, topics["pose/" + camera])
            check(len(poses) == N_FRAMES and [m.timestamp for m in transforms] ==
                  [m.timestamp for m in poses], f"tf and pose of {camera}")
            is_carried = is_rig and camera in PLACES
            frames = {(m.parent_frame_id, m.child_frame_id) for m in transforms}
            check(frames == {("front/camera" if is_carried else camera + "/odom",
                              camera + "/camera")}, f"{frames}")
            for m in transforms if is_carried else ():
                t, q = m.translation, m.rotation
                got = [t.x, t.y, t.z, q.x, q.y, q.z, q.w]
                check(max(abs(a - b) for a, b in zip(got, PLACES[camera])) < 1e-9, f"{got}")


def check_unknown():
    """tf is silent while nobody knows where the camera is; each frame has its pose. A pose in tf is
    the published one."""
    path, poses = unknown_way.record("mcap", ".mcap")
    topics = read(path)
    told = decoded(messages.Odometry, topics["pose"])
    check([m.seq for m in told] == [p.seq for p in poses], f"{len(told)} poses")
    known = [p for p in poses if not unknown_way.is_unknown(p)]
    transforms = decoded(messages.FrameTransform, topics["tf"])
    print(f"unknown: {len(transforms)} of {len(poses)} frames in tf")
    check([m.timestamp for m in transforms] == [p.timestamp for p in known],
          f"{len(transforms)} instead of {len(known)} in tf")
    check({(m.parent_frame_id, m.child_frame_id) for m in transforms} == {("odom", "camera")},
          "frames of tf")
    check(all(m.rotation == p.pose.orientation and math.dist(
        (m.translation.x, m.translation.y, m.translation.z),
        (p.pose.position.x, p.pose.position.y, p.pose.position.z)) < 1e-12
              for m, p in zip(transforms, known)), "tf has another pose")


def check_covered():
    """The first camera of a rig is covered: tf goes on by the other one, in the first one's frames,
    and has the others' places all the time."""
    conf, rig, n = harness.SCRATCH + "/covered.conf", harness.SCRATCH + "/beside.txt", 90
    with open(rig, "w") as file:
        file.write("0.1 0 0 0 0 0 1\n")
    with open(conf, "w") as file:
        file.write(f"[camera front]\nsource = synth:room,frames={n},cover=20:50\n"
                   f"[camera side]\nsource = synth:room,seed=2,frames={n},mount=0.1:0:0:0:0:0\n"
                   f"rig = {rig}\n")
    harness.Daemon(None, "-c", conf, "--set", "recorder.folder=" + harness.SCRATCH, "--set",
                   "recorder.format=mcap", "--set", "recorder.start=covered", "--set",
                   "recorder.queue_frames=2", collect=False).wait()
    topics = read(harness.SCRATCH + "/covered.mcap")
    rig = {unknown_way.stamp_ns(m): m for m in decoded(messages.Odometry, topics["rig"])}
    moves = decoded(messages.FrameTransform, topics["tf/front"])
    stamps = [unknown_way.stamp_ns(m) for m in moves]
    check(stamps == sorted(set(stamps)) and len(set(stamps) & set(rig)) > n - 3,
          f"{len(stamps)} stamps of tf")
    check({(m.parent_frame_id, m.child_frame_id) for m in moves} ==
          {("front/odom", "front/camera")}, "frames of tf")
    away_m = max(math.dist((m.translation.x, m.translation.y, m.translation.z),
                           (p.x, p.y, p.z)) for m in moves
                 for p in [rig[unknown_way.stamp_ns(m)].pose.position])
    print(f"covered: {len(moves)} in tf, {away_m * 1e3:.1f} mm from the rig")
    check(away_m < 0.005, "tf is not where the rig is")
    check(len(topics["tf/side"]) == n, f"{len(topics['tf/side'])} places of the other one")


def scenario():
    if not os.path.exists(PYTHON):
        harness.skip("no MCAP library (tools/test installs it from PyPI)")
    folder = harness.SCRATCH + "/recordings"
    os.mkdir(folder)
    daemon = harness.Daemon("synth:room", "--frames", str(N_FRAMES), "--set",
                            "recorder.folder=" + folder, "--set", "recorder.format=mcap", "--set",
                            "recorder.start=r")
    daemon.wait()
    topics = read(folder + "/r.mcap")
    check(set(topics) == {"pose", "tf", "calib", "depth"}, f"{set(topics)}")
    for topic, list_of in topics.items():
        check(not any(unknown for unknown, *_ in list_of), f"{topic}: fields without a name")
    check(len(topics["pose"]) == N_FRAMES == len(topics["depth"]), "one of each a frame")
    for pose, (_, data, fields, _) in zip(daemon.poses, topics["pose"]):
        check(bytes.fromhex(data) == pose.SerializeToString(deterministic=True), f"{pose.seq}")
    for field in messages.Odometry.DESCRIPTOR.fields:
        if field.name == "metadata":
            continue  # never sent
        check(field.name in fields and fields[field.name][0] == field.number, field.name)
        same = fields[field.name][1] == field.type or field.name in ("reason", "effort")
        check(same, f"{field.name} has another type")
    for name in ("State", "Reference"):
        check(name in SOURCE_TEXT, name)
        for value in messages.DESCRIPTOR.enum_types_by_name[name].values:
            check(f'"{value.name}"' in SOURCE_TEXT, value.name)
    check_asked_for(folder)
    check_rig(folder)
    check_unknown()
    check_covered()


with open(SOURCE + "/capture/mcap/descriptors.c", encoding="utf-8") as source:
    SOURCE_TEXT = source.read()
harness.run(scenario)
