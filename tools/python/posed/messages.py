# SPDX-License-Identifier: Apache-2.0
"""The message classes of proto/posed.proto and proto/requests.proto, from their description in the
package: no generated code, so any protobuf from 3.20 on will do."""
from __future__ import annotations

import os
from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from google.protobuf.message import Message

MAGIC = b"posed\x01"  # in front of a Request and of a Reply

_pool = descriptor_pool.DescriptorPool()


def _load() -> None:
    with open(os.path.join(os.path.dirname(__file__), "schema.binpb"), "rb") as file:
        files = descriptor_pb2.FileDescriptorSet.FromString(file.read())
    for description in files.file:
        _pool.AddSerializedFile(description.SerializeToString())


def message_class(name: str) -> Any:
    """The class of a message, "Odometry" or "Params.Param"."""
    descriptor = _pool.FindMessageTypeByName("posed." + name)
    if hasattr(message_factory, "GetMessageClass"):
        found = message_factory.GetMessageClass(descriptor)
    else:
        found = message_factory.MessageFactory(_pool).GetPrototype(descriptor)
    found.__module__ = __name__  # protobuf leaves None, of which help() and pickle make an error
    return found


def enum_name(enum: str, value: int) -> str:
    """ "TRACKING" of ("State", 2): without the enum's own name in front."""
    values = _pool.FindEnumTypeByName("posed." + enum).values_by_number
    if value not in values:
        return str(value)
    name = values[value].name
    prefix = enum.upper() + "_"
    return name[len(prefix):] if name.startswith(prefix) else name


_load()

Odometry = message_class("Odometry")
FrameTransform = message_class("FrameTransform")
CameraCalibration = message_class("CameraCalibration")
Status = message_class("Status")
Timing = message_class("Timing")
Event = message_class("Event")
Imu = message_class("Imu")
Log = message_class("Log")
ObjectPose = message_class("ObjectPose")
RawImage = message_class("RawImage")
PointCloud = message_class("PointCloud")
Request = message_class("Request")
Reply = message_class("Reply")

# What each topic carries, and whether it is on `pub` or on `img`.
TOPICS: dict[str, tuple[str, Any]] = {
    "pose": ("pub", Odometry),
    "tf": ("pub", FrameTransform),
    "calib": ("pub", CameraCalibration),
    "status": ("pub", Status),
    "timing": ("pub", Timing),
    "event": ("pub", Event),
    "imu": ("pub", Imu),
    "log": ("pub", Log),
    "rig": ("pub", Odometry),
    "object": ("pub", ObjectPose),
    "depth": ("img", RawImage),
    "normals": ("img", RawImage),
    "residual": ("img", RawImage),
    "cloud": ("img", PointCloud),
}


def kind_of(topic: str) -> str:
    """Of "pose/left", a topic of one of several cameras, "pose"."""
    return topic.partition("/")[0]


__all__ = [
    "CameraCalibration", "Event", "FrameTransform", "Imu", "Log", "MAGIC", "Message", "ObjectPose",
    "Odometry", "PointCloud", "RawImage", "Reply", "Request", "Status", "TOPICS", "Timing",
    "enum_name", "kind_of", "message_class"
]
