# SPDX-License-Identifier: Apache-2.0
"""Foxglove's WebSocket protocol as a client that is not ours sees it: connect, list, subscribe,
leave, a hundred times; a client that stalls; clients that send rubbish; pages of other sites."""
import asyncio
import json
import struct
import time

import harness
from harness import check

ROUNDS = 100
RUBBISH = 50
STALLED_S = 5
GROWTH_MAX_BYTES = 100e6  # with a client that stalls on every image: its queue has 16 MB, images
# that nobody wanted before 20, an inbox at most 32
GROWTH_LATER_MAX_BYTES = 20e6  # in the second half of the time
GROWTH_PINGS_MAX_BYTES = 4e6
TOPICS = ["pose", "tf", "calib", "status", "timing", "event", "imu", "log", "object", "depth",
          "normals", "residual", "cloud"]


def free_port():
    import socket
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def connect(port, protocols=("foxglove.sdk.v1", ), **options):
    import websockets
    return websockets.connect(f"ws://127.0.0.1:{port}/", subprotocols=list(protocols),
                              max_size=None, open_timeout=harness.PATIENCE_S, **options)


async def greeting(client):
    info = json.loads(await client.recv())
    channels = json.loads(await client.recv())
    check(info["op"] == "serverInfo" and info["capabilities"] == [], f"{info}")
    check(channels["op"] == "advertise", f"{channels['op']}")
    check([c["topic"] for c in channels["channels"]] == TOPICS, "the topics")
    return {c["topic"]: c for c in channels["channels"]}


async def data(client):
    while True:
        message = await asyncio.wait_for(client.recv(), harness.PATIENCE_S)
        if isinstance(message, bytes):
            check(message[0] == 1, f"opcode {message[0]}")
            subscription, time_ns = struct.unpack("<IQ", message[1:13])
            return subscription, time_ns, message[13:]


def subscribe(*pairs):
    return json.dumps({"op": "subscribe", "subscriptions": [{"id": i, "channelId": c}
                                                            for i, c in pairs]})


def decode(channel, payload):
    """By the schema that came with the channel, by a decoder that has not seen our files."""
    import base64

    from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
    files = descriptor_pb2.FileDescriptorSet.FromString(base64.b64decode(channel["schema"]))
    pool = descriptor_pool.DescriptorPool()
    for file in files.file:
        pool.Add(file)
    descriptor = pool.FindMessageTypeByName(channel["schemaName"])
    if hasattr(message_factory, "GetMessageClass"):
        return message_factory.GetMessageClass(descriptor).FromString(payload)
    return message_factory.MessageFactory(pool).GetPrototype(descriptor).FromString(payload)


async def check_messages(port, daemon):
    for protocol in ("foxglove.sdk.v1", "foxglove.websocket.v1"):
        async with connect(port, [protocol, "other"]) as client:
            check(client.subprotocol == protocol, f"{client.subprotocol}")
            channels = await greeting(client)
            await client.send(subscribe((70, channels["pose"]["id"]), (71, 3), (72, 10), (73, 4)))
            seen = {}
            while len(seen) < 4:
                subscription, time_ns, payload = await data(client)
                seen.setdefault(subscription, payload)
                check(abs(time_ns * 1e-9 - time.time()) < 600, "the time stamp")
            pose = decode(channels["pose"], seen[70])
            daemon.wait_for(lambda: daemon.poses[-1].seq >= pose.seq, "the pose on the wire")
            own = daemon.poses[pose.seq]
            check(pose.SerializeToString(deterministic=True) ==
                  own.SerializeToString(deterministic=True), "the pose is another one")
            check(pose.state == own.state and len(pose.eigenvalues) == 6, "our own fields")
            depth = decode(channels["depth"], seen[72])
            check(depth.encoding == "16UC1" and len(depth.data) == 2 * 640 * 480, "depth")
            check(decode(channels["calib"], seen[71]).width == 640, "calib")
            check(decode(channels["status"], seen[73]).session == own.session, "status")


async def check_rounds(port):
    for i in range(ROUNDS):
        async with connect(port) as client:
            channels = await greeting(client)
            await client.send(subscribe((i, channels["pose"]["id"])))
            subscription, _, payload = await data(client)
            check(subscription == i and payload, f"round {i}")
            if i % 2:
                await client.send(json.dumps({"op": "unsubscribe", "subscriptionIds": [i]}))


async def check_rubbish(port):
    import websockets
    async with connect(port) as client:
        await greeting(client)
        for text in ("", "{", "[]", "null", '{"op":1}', '{"op":"subscribe","subscriptions":[{}]}',
                     '{"op":"subscribe","subscriptions":[{"id":-1,"channelId":1}]}',
                     subscribe((1, 0)), subscribe((1, 14)), subscribe((1, 99)), "[" * 3000):
            await client.send(text)
            answer = json.loads(await asyncio.wait_for(client.recv(), harness.PATIENCE_S))
            check(answer["op"] == "status", f"{text[:20]}: {answer}")
        await client.send(b"\x10\x08\x01")  # requests are our page's alone
        answer = json.loads(await asyncio.wait_for(client.recv(), harness.PATIENCE_S))
        check("http.control" in answer["message"], f"{answer}")
        for text in ('{"op":"getParameters"}', '{"op":"nonsense"}', b"\x01\x02", b""):
            await client.send(text)
            answer = json.loads(await asyncio.wait_for(client.recv(), harness.PATIENCE_S))
            check(answer["op"] == "status" and "not offered" in answer["message"], f"{answer}")
        await client.send(subscribe(*[(i, 1) for i in range(200)]))
        check((await data(client))[0] < 64, "64 subscriptions at most")
        await client.send("x" * 100000)  # too long: it hangs up
        try:
            while True:
                await asyncio.wait_for(client.recv(), harness.PATIENCE_S)
        except websockets.exceptions.ConnectionClosed:
            pass


async def check_rubbish_among_images(port):
    """Whoever has every topic and reads it gets an answer to each wrong message."""
    async with connect(port) as client:
        await greeting(client)
        await client.send(subscribe(*[(i, i) for i in range(1, 14)]))
        for i in range(RUBBISH):
            await client.send("rubbish")
            while isinstance(answer := await asyncio.wait_for(
                    client.recv(), harness.PATIENCE_S), bytes):
                pass
            check(json.loads(answer)["op"] == "status", f"{i}: {answer}")


async def check_origins(port):
    import websockets
    for origin, may in ((None, True), (f"http://localhost:{port}", True), ("file://", True),
                        ("https://good.example", True), ("http://evil.example", False),
                        ("null", False), ("http://localhost.evil.example", False)):
        try:
            async with connect(port, origin=origin) as client:
                await greeting(client)
            check(may, f"{origin} may look")
        except websockets.exceptions.InvalidStatusCode as error:
            check(not may and error.status_code == 403, f"{origin}: {error}")
    try:
        async with connect(port, ["other"]):
            check(False, "a protocol that nobody speaks")
    except websockets.exceptions.InvalidStatusCode as error:
        check(error.status_code == 400, f"{error}")


async def check_stalled(port, daemon):
    """It subscribes to every image and reads nothing; the others go on."""
    before = daemon.private_bytes()
    stalled = await connect(port, max_queue=1)
    await stalled.send(subscribe(*[(i, i) for i in range(1, 14)]))
    stalled.transport.pause_reading()
    most = half = 0
    async with connect(port) as client:
        channels = await greeting(client)
        await client.send(subscribe((5, channels["pose"]["id"])))
        end, last = time.monotonic() + STALLED_S, -1
        while time.monotonic() < end:
            payload = (await data(client))[2]
            seq = decode(channels["pose"], payload).seq
            check(last in (-1, seq - 1), f"pose {seq} after {last}")
            last = seq
            most = max(most, daemon.private_bytes())
            half = most if time.monotonic() < end - STALLED_S / 2 else half
    print(f"{(most - before) * 1e-6:.1f} MB more with a stalled client, "
          f"{(half - before) * 1e-6:.1f} in the first half of the time")
    check(most - half < GROWTH_LATER_MAX_BYTES or harness.is_sanitized(), "it goes on growing")
    check(most - before < GROWTH_MAX_BYTES or harness.is_sanitized(), "its queue grows")
    stalled.transport.abort()


async def check_pings(port, daemon):
    """Pings without an end from a client that reads no answer: it is hung up on."""
    before = daemon.private_bytes()
    client = await connect(port)
    client.transport.pause_reading()
    pings = (b"\x89\xfd" + bytes(4) + b"p" * 125) * 1000
    for _ in range(1000):
        if client.transport.is_closing():
            break
        client.transport.write(pings)
        while client.transport.get_write_buffer_size() > 1 << 20:
            await asyncio.sleep(0.01)
    check(client.transport.is_closing(), "a million pings without an answer taken")
    growth = daemon.private_bytes() - before
    check(growth < GROWTH_PINGS_MAX_BYTES or harness.is_sanitized(), f"{growth} bytes more")


def scenario():
    port = free_port()
    daemon = harness.Daemon("synth:room", "--loop", "--set", f"http.port={port}", "--set",
                            "map.keyframes=0", "--set",
                            "http.origins=https://good.example https://app.foxglove.dev", speed=0.5)
    daemon.wait_for(lambda: len(daemon.poses) > 5, "poses")
    asyncio.run(check_messages(port, daemon))
    asyncio.run(check_rounds(port))
    descriptors = harness.os.listdir(f"/proc/{daemon.process.pid}/fd")
    memory = daemon.private_bytes()
    asyncio.run(check_rounds(port))
    time.sleep(0.5)
    check(len(harness.os.listdir(f"/proc/{daemon.process.pid}/fd")) <= len(descriptors), "fds")
    check(daemon.private_bytes() < memory + 2e6 or harness.is_sanitized(), "memory grows")
    asyncio.run(check_rubbish(port))
    asyncio.run(check_rubbish_among_images(port))
    asyncio.run(check_origins(port))
    asyncio.run(check_stalled(port, daemon))
    asyncio.run(check_pings(port, daemon))
    daemon.stop()


try:
    import websockets  # noqa: F401
except ImportError:
    harness.skip("no python3-websockets")
harness.run(scenario)
