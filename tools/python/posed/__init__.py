# SPDX-License-Identifier: Apache-2.0
"""Camera poses from posed, a daemon that tracks a depth camera.

    import posed
    for pose in posed.connect():
        print(pose.seq, pose.state.name, pose.position)

`connect()` finds the daemon of this machine; `connect("HOST")`, `connect("/run/directory")` or the
variable POSED_HOST name another one, `connect(camera="left")` one of its cameras.
`posed.aio.connect` is the same for asyncio. Metres, nanoseconds, quaternions x y z w; the camera
looks along z, x to the right, y down.

What goes wrong is a `posed.Error`: `RequestError` where the daemon refuses, with its `code`,
`message` and `field`; `NoAnswer` where nothing comes, which is a TimeoutError, as is
`DeadlineExceeded`, a RequestError. What the program gave is a ValueError or TypeError.
"""
from .address import Address
from .client import Client, Cloud, DepthImage, connect
from .errors import DeadlineExceeded, Error, NoAnswer, RequestError
from .messages import (Event, Message, ObjectPose, Odometry, PointCloud, RawImage, Reply, Request,
                       Status)
from .pose import Pose, State
from .subscription import Subscription

__version__ = "0.2.0"
__all__ = [
    "Address", "Client", "Cloud", "DeadlineExceeded", "DepthImage", "Error", "Event", "Message",
    "NoAnswer", "ObjectPose", "Odometry", "PointCloud", "Pose", "RawImage", "Reply", "Request",
    "RequestError", "State", "Status", "Subscription", "connect"
]
