# SPDX-License-Identifier: Apache-2.0
"""An MCAP recording says what is in it: read by the official library with the schemas of the file
alone, each pose has every field that the daemon published."""
import json
import os
import subprocess

import harness
from harness import SOURCE, check, messages

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
            field.name: [field.number, field.type] for field in descriptor.fields}])
print(json.dumps(out))
"""


def scenario():
    if not os.path.exists(PYTHON):
        harness.skip("no MCAP library (tools/test installs it from PyPI)")
    folder = harness.SCRATCH + "/recordings"
    os.mkdir(folder)
    daemon = harness.Daemon("synth:room", "--frames", str(N_FRAMES), "--set",
                            "recorder.folder=" + folder, "--set", "recorder.format=mcap", "--set",
                            "recorder.start=r")
    daemon.wait()
    done = subprocess.run([PYTHON, "-c", READER, folder + "/r.mcap"], capture_output=True,
                          text=True, timeout=harness.PATIENCE_S)
    check(done.returncode == 0, done.stderr)
    topics = json.loads(done.stdout)
    check(set(topics) == {"pose", "tf", "calib", "depth"}, f"{set(topics)}")
    for topic, list_of in topics.items():
        check(not any(unknown for unknown, _, _ in list_of), f"{topic}: fields without a name")
    check(len(topics["pose"]) == N_FRAMES == len(topics["depth"]), "one of each a frame")
    for pose, (_, data, fields) in zip(daemon.poses, topics["pose"]):
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


with open(SOURCE + "/capture/mcap/descriptors.c", encoding="utf-8") as source:
    SOURCE_TEXT = source.read()
harness.run(scenario)
