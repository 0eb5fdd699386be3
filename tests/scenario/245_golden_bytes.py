# SPDX-License-Identifier: Apache-2.0
"""The bytes of every kind of message are what they were: each message of posed.proto and
requests.proto, every field filled by a rule, against tests/golden/messages.txt; and the daemon's
own decoder takes each request of the file and answers it. A field that changes its number, type or
name of place breaks every client that there is.

`245_golden_bytes.py write` makes the file anew: for messages that are added, never for others."""
import sys

import zmq
from google.protobuf.descriptor import FieldDescriptor

import harness
from harness import MAGIC, check, messages, requests

GOLDEN = harness.SOURCE + "/tests/golden/messages.txt"
DEPTH = 3  # of messages in messages


def fill(message, depth=0):
    """Every field, by its number."""
    for field in message.DESCRIPTOR.fields:
        if field.containing_oneof and len(field.containing_oneof.fields) > 1:
            continue  # of those one alone may be there: see variants()
        fill_field(message, field, depth)
    return message


def fill_field(message, field, depth):
    kind, number = field.cpp_type, field.number
    if kind == FieldDescriptor.CPPTYPE_MESSAGE:
        if depth == DEPTH:
            return
        inner = (getattr(message, field.name).add() if field.label == field.LABEL_REPEATED
                 else getattr(message, field.name))
        inner.SetInParent()
        fill(inner, depth + 1)
        return
    if kind == FieldDescriptor.CPPTYPE_STRING:
        is_bytes = field.type == FieldDescriptor.TYPE_BYTES
        value = b"\0\1\2" * number if is_bytes else f"t{number}"
    elif kind == FieldDescriptor.CPPTYPE_BOOL:
        value = True
    elif kind == FieldDescriptor.CPPTYPE_ENUM:
        value = field.enum_type.values[-1].number
    elif kind in (FieldDescriptor.CPPTYPE_DOUBLE, FieldDescriptor.CPPTYPE_FLOAT):
        value = number + 0.25
    else:
        value = 100 + number
    if field.label == field.LABEL_REPEATED:
        getattr(message, field.name).extend([value, value])
    else:
        setattr(message, field.name, value)


def variants():
    """Name and bytes of each message, and of each kind of those that are one of several."""
    for module in (messages, requests):
        for name in sorted(module.DESCRIPTOR.message_types_by_name):
            kind = getattr(module, name)
            yield name, fill(kind()).SerializeToString(deterministic=True)
            for oneof in kind.DESCRIPTOR.oneofs:
                for field in oneof.fields if len(oneof.fields) > 1 else ():
                    message = fill(kind())
                    fill_field(message, field, 0)
                    yield f"{name}.{field.name}", message.SerializeToString(deterministic=True)


def read_golden():
    with open(GOLDEN, encoding="ascii") as file:
        rows = [line.split() for line in file if not line.startswith("#")]
    return {row[0]: bytes.fromhex(row[1]) if len(row) > 1 else b"" for row in rows}


def check_daemon(golden):
    # Request.camera is "t3", by the rule of fill.
    daemon = harness.Daemon(None, "--set", "camera t3.source=synth:room", "--loop", "--set",
                            "tracker.iterations=1,1,1", speed=1, collect=False)
    client = daemon.socket(zmq.DEALER, "req")
    n = 0
    for name, data in golden.items():
        if not name.startswith("Request."):
            continue
        expected = requests.Request.FromString(data)
        client.send(MAGIC + data)
        check(client.poll(20000), f"no reply to {name}")
        reply = requests.Reply.FromString(client.recv()[len(MAGIC):])
        check(reply.id == expected.id, f"{name}: the reply has another id")
        check(reply.code not in (requests.UNIMPLEMENTED, requests.INTERNAL),
              f"{name}: {reply.message}")
        check("protobuf" not in reply.message, f"{name}: {reply.message}")
        n += 1
    check(n > 20, f"{n} kinds of requests: the test itself is broken")
    daemon.stop()
    return n


def scenario():
    now = dict(variants())
    if sys.argv[1:] == ["write"]:
        with open(GOLDEN, "w", encoding="ascii") as file:
            file.write("# Every kind of message, filled by tests/scenario/245_golden_bytes.py.\n")
            file.writelines(f"{name} {data.hex()}\n" for name, data in now.items())
        return
    golden = read_golden()
    for name, data in golden.items():
        check(name in now, f"{name} is gone")
        check(now[name] == data, f"{name}: other bytes\n{data.hex()}\n{now[name].hex()}")
    check(set(now) == set(golden), f"not in the file: {sorted(set(now) - set(golden))}")
    n = check_daemon(golden)
    print(f"{len(golden)} kinds of messages have their bytes; {n} requests were answered")


harness.run(scenario)
