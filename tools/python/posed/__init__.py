# SPDX-License-Identifier: Apache-2.0
"""Camera poses from posed, a daemon that tracks a depth camera.

    import posed
    for pose in posed.connect():
        print(pose.seq, pose.state.name, pose.position)

`connect()` finds the daemon of this machine; `connect("HOST")`, `connect("/run/directory")` or the
variable POSED_HOST name another one. `posed.aio.connect` is the same for asyncio. Metres, seconds,
quaternions x y z w; the camera looks along z, x to the right, y down.
"""
from .address import Address
from .client import Client, Cloud, DepthImage, Error, NoAnswer, connect
from .messages import (Event, Message, ObjectPose, Odometry, PointCloud, RawImage, Reply, Request,
                       Status)
from .pose import Pose, State

__version__ = "0.2.0"
__all__ = [
    "Address", "Client", "Cloud", "DepthImage", "Error", "Event", "Message", "NoAnswer",
    "ObjectPose", "Odometry", "PointCloud", "Pose", "RawImage", "Reply", "Request", "State",
    "Status", "connect"
]
