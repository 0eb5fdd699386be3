# SPDX-License-Identifier: Apache-2.0
"""What others make of us. Recordings: all messages by the mcap library, decoded by the schemas of
foxglove-sdk, depth in metres against the source; rerun converts each. The live protocol: what our
server sends has the form of what foxglove-sdk's server sends, message for message."""
import asyncio
import base64
import json
import os
import re
import struct
import subprocess
import zlib

import harness
from harness import BINARY, SOURCE, check

PYTHON = os.environ.get("POSED_PEERS_PYTHON") or SOURCE + "/build/peers-python/bin/python3"
N_FRAMES = 10
HALF_MM = 0.5e-3 + 1e-9  # depth is rounded to millimetres

# Every message by the schemas of foxglove-sdk, not by those of the file.
READER = """
import json, sys, zlib, base64
import foxglove.messages as public
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from mcap.reader import make_reader
def kind(name):
    pool = descriptor_pool.DescriptorPool()
    schema = getattr(public, name.split(".")[1]).get_schema()
    assert schema.name == name, schema.name
    for file in descriptor_pb2.FileDescriptorSet.FromString(schema.data).file:
        pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName(name))
kinds, out = {}, []
with open(sys.argv[1], "rb") as file:
    for schema, channel, message in make_reader(file, validate_crcs=True).iter_messages():
        one = kinds.setdefault(schema.name, kind(schema.name)).FromString(message.data)
        row = {"topic": channel.topic, "fields": sorted(f.name for f, _ in one.ListFields())}
        if channel.topic == "depth":
            row.update(encoding=one.encoding, step=one.step, width=one.width, height=one.height,
                       data=base64.b64encode(zlib.compress(one.data, 1)).decode())
        out.append(row)
print(json.dumps(out))
"""

CHUNKS = """
import sys
from mcap.reader import make_reader
with open(sys.argv[1], "rb") as file:
    print(make_reader(file).get_summary().statistics.chunk_count)
"""

# foxglove-sdk's server with one channel of our schema's name, one message, then it waits.
SERVER = """
import foxglove, sys, time
from foxglove.channels import OdometryChannel
from foxglove.messages import Odometry
server = foxglove.start_server(name="peer", port=0)
channel = OdometryChannel("pose")
print(server.port, flush=True)
while True:
    channel.log(Odometry(frame_id="odom"))
    time.sleep(0.05)
"""


def run(*command):
    done = subprocess.run(command, capture_output=True, text=True, timeout=harness.PATIENCE_S)
    check(done.returncode == 0, f"{command}: {done.stdout}{done.stderr}")
    return done.stdout + done.stderr


def png_pixels(path):
    """16-bit grey, by the specification: zlib, then a filter for each row."""
    with open(path, "rb") as file:
        data, at, packed = file.read(), 8, b""
    while at < len(data):
        n, name = struct.unpack(">I4s", data[at:at + 8])
        if name == b"IHDR":
            width, height = struct.unpack(">II", data[at + 8:at + 16])
        packed += data[at + 8:at + 8 + n] if name == b"IDAT" else b""
        at += n + 12
    raw, rows, above = zlib.decompress(packed), [], bytes(2 * width)
    for y in range(height):
        kind, row = raw[y * (2 * width + 1)], bytearray(raw[y * (2 * width + 1) + 1:][:2 * width])
        for x in range(2 * width):
            a, b = row[x - 2] if x > 1 else 0, above[x]
            c = above[x - 2] if x > 1 else 0
            p = [abs(b - c), abs(a - c), abs(a + b - 2 * c)]
            row[x] = (row[x] + [0, a, b, (a + b) // 2, (a, b, c)[p.index(min(p))]][kind]) & 255
        rows.append(struct.unpack(f">{width}H", row))
        above = bytes(row)
    return rows


def n_chunks(path):
    return int(run(PYTHON, "-c", CHUNKS, path))


def check_recording(folder):
    source = harness.SCRATCH + "/source"
    subprocess.run([BINARY + "/bin/posed-synth", "room", source, "--frames", str(N_FRAMES)],
                   check=True, stdout=subprocess.DEVNULL)
    for kind in ("mcap", "ros2mcap"):
        harness.Daemon("tum:" + source, "--set", "recorder.folder=" + folder, "--set",
                       "recorder.start=r", "--set", "recorder.format=" + kind, "--set",
                       f"recorder.queue_frames={N_FRAMES}").wait()
    path = folder + "/r.mcap"
    messages = json.loads(run(PYTHON, "-c", READER, path).splitlines()[-1])
    by_topic = {}
    for message in messages:
        by_topic.setdefault(message["topic"], []).append(message)
    # the calibration stands in each chunk, for who reads a part
    n_of = {topic: len(of) for topic, of in by_topic.items()}
    check(n_of == {"pose": N_FRAMES, "tf": N_FRAMES, "depth": N_FRAMES, "calib": n_chunks(path)},
          f"{n_of}, {n_chunks(path)} chunks")
    check(n_of["calib"] > 1, "too short for two chunks")
    for topic, fields in (("pose", {"timestamp", "frame_id", "body_frame_id", "pose",
                                    "pose_covariance"}),
                          ("tf", {"timestamp", "parent_frame_id", "child_frame_id", "translation",
                                  "rotation"}),
                          ("calib", {"timestamp", "width", "height", "K", "R", "P", "frame_id"}),
                          ("depth", {"timestamp", "width", "height", "encoding", "step", "data",
                                     "frame_id"})):
        missing = fields - set(by_topic[topic][-1]["fields"])
        check(not missing, f"{topic}: {missing} by foxglove-sdk's schema")
    images = sorted(os.listdir(source + "/depth"))
    for i in (0, N_FRAMES - 1):
        told = by_topic["depth"][i]
        check((told["encoding"], told["step"]) == ("16UC1", 2 * told["width"]), f"{told['step']}")
        mm = struct.unpack(f"<{told['width'] * told['height']}H",
                           zlib.decompress(base64.b64decode(told["data"])))
        rows = png_pixels(source + "/depth/" + images[i])
        truth_m = [pixel / 5000 for row in rows for pixel in row]
        worst = max(abs(a / 1000 - b) for a, b in zip(mm, truth_m, strict=True))
        harness.check_at_most(worst, HALF_MM, f"image {i}: depth in metres off by")
        check(sum(1 for a in mm if a) > len(mm) // 2, "depth is there")


def check_rerun(folder):
    """Both dialects; the ROS one as a depth image with its unit."""
    rerun = os.path.dirname(PYTHON) + "/rerun"
    pinhole = "Pinhole:image_from_camera"
    files = {"r.mcap": {("/pose", ":message"): N_FRAMES, ("/depth", ":buffer"): N_FRAMES,
                        ("/tf", "Transform3D:translation"): N_FRAMES,
                        ("/calib", pinhole): n_chunks(folder + "/r.mcap")},
             "r.ros2.mcap": {("/camera/depth/image_raw", "DepthImage:buffer"): N_FRAMES,
                             ("/camera/depth/camera_info", pinhole): N_FRAMES}}
    for name, wanted in files.items():
        out = folder + "/out.rrd"
        run(rerun, "mcap", "check", folder + "/" + name)
        run(rerun, "mcap", "convert", folder + "/" + name, "-o", out)
        rows = {}
        for n, entity, columns in re.findall(r"with (\d+) rows .* - (/\S+) - .*columns: \[(.*)\]",
                                             run(rerun, "rrd", "print", out)):
            for column in columns.split():
                rows[entity, column] = rows.get((entity, column), 0) + int(n)
        for (entity, column), n in wanted.items():
            seen = [k for (e, c), k in rows.items() if e == entity and c.endswith(column)]
            check(seen == [n], f"{name}: {entity} {column}: {seen} of {n} in {rows}")


async def trace(port, topic):
    """What a server sends until the first message of a topic."""
    import websockets
    async with websockets.connect(f"ws://127.0.0.1:{port}/", subprotocols=["foxglove.sdk.v1"],
                                  max_size=None) as client:
        out = {"subprotocol": client.subprotocol}
        while True:
            said = await asyncio.wait_for(client.recv(), harness.PATIENCE_S)
            if isinstance(said, bytes):
                if said[0] == 1:
                    out["data"] = said
                    return out
                continue
            said = json.loads(said)
            out.setdefault(said["op"], said)
            for channel in said.get("channels", ()):
                if channel["topic"] == topic:
                    out["channel"] = channel
                    await client.send(json.dumps({"op": "subscribe", "subscriptions": [
                        {"id": 4711, "channelId": channel["id"]}]}))


def check_protocol(port):
    server = subprocess.Popen([PYTHON, "-c", SERVER], stdout=subprocess.PIPE, text=True)
    try:
        theirs = asyncio.run(trace(int(server.stdout.readline()), "pose"))
    finally:
        server.kill()
        server.communicate()
    ours = asyncio.run(trace(port, "pose"))
    check(ours["subprotocol"] == theirs["subprotocol"], f"{theirs['subprotocol']}")
    for key in ("op", "name", "capabilities"):
        check(key in ours["serverInfo"] and key in theirs["serverInfo"] and
              isinstance(ours["serverInfo"][key], type(theirs["serverInfo"][key])), key)
    a, b = ours["channel"], theirs["channel"]
    check(set(a) == set(b), f"a channel has {set(a)}, theirs {set(b)}")
    for key in ("topic", "encoding", "schemaName", "schemaEncoding"):
        check(a[key] == b[key], f"{key}: {a[key]}, theirs {b[key]}")
    for key in a:
        check(isinstance(a[key], type(b[key])), f"{key} is of another type")
    for one in (a, b):  # both are FileDescriptorSets with that message
        check(b"Odometry" in base64.b64decode(one["schema"] + "=" * (-len(one["schema"]) % 4)), "")
    check(len(a["schema"]) % 4 == len(b["schema"]) % 4 == 0, "padding of base64")
    for one in (ours, theirs):  # opcode, subscription, time, payload
        opcode, subscription, time_ns = struct.unpack("<BIQ", one["data"][:13])
        check((opcode, subscription) == (1, 4711) and time_ns > 1e18, f"{one['data'][:13]}")


def scenario():
    wanted = "import foxglove, mcap, rerun, websockets"
    if not os.path.exists(PYTHON) or subprocess.run([PYTHON, "-c", wanted]).returncode:
        harness.skip(f"no {PYTHON} with foxglove-sdk and others (tools/test installs it there)")
    folder = harness.SCRATCH + "/recordings"
    os.mkdir(folder)
    check_recording(folder)
    check_rerun(folder)
    try:
        import websockets  # noqa: F401
    except ImportError:
        print("SKIP: no python3-websockets: the live protocol")
        return
    import socket
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    daemon = harness.Daemon("synth:room", "--loop", "--set", f"http.port={port}", speed=0.5)
    daemon.wait_for(lambda: len(daemon.poses) > 3, "poses")
    check_protocol(port)
    daemon.stop()


harness.run(scenario)
