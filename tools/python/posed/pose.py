# SPDX-License-Identifier: Apache-2.0
"""A pose as a robot wants it: numbers and NumPy arrays, made from a message."""
from __future__ import annotations

import enum
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from .messages import enum_name

Array = npt.NDArray[np.float64]


class State(enum.IntEnum):
    """What the tracker thinks of a frame (proto/posed.proto). Use the pose when it is `usable`."""
    UNSPECIFIED = 0
    INIT = 1
    TRACKING = 2
    DEGRADED = 3
    LOST = 4
    SEARCHING = 5
    NO_INPUT = 6

    @property
    def usable(self) -> bool:
        return self in (State.INIT, State.TRACKING, State.DEGRADED)


def nanoseconds(timestamp: Any) -> int:
    return int(timestamp.seconds * 10**9 + timestamp.nanos)


def rotation_matrix(quaternion: Array) -> Array:
    """3x3 of a unit quaternion x y z w."""
    x, y, z, w = quaternion
    return np.array([[1 - 2 * (y * y + z * z), 2 * (x * y - z * w), 2 * (x * z + y * w)],
                     [2 * (x * y + z * w), 1 - 2 * (x * x + z * z), 2 * (y * z - x * w)],
                     [2 * (x * z - y * w), 2 * (y * z + x * w), 1 - 2 * (x * x + y * y)]])


class Stamped:
    """What belongs to a frame, whose time is `time_ns` on the recording's or the camera's clock."""
    time_ns: int

    @property
    def time_s(self) -> float:
        """To show and to plot: today's time in seconds has no room for nanoseconds, so that no
        frame is found by it."""
        return self.time_ns * 1e-9


@dataclass(frozen=True)
class Pose(Stamped):
    """T_odom_camera: takes points of the camera to the odom frame."""
    seq: int
    time_ns: int
    """On the recording's or the camera's clock."""
    state: State
    reason: str
    """Why it is not TRACKING, for a person; else empty."""
    position: Array
    """x y z [m]."""
    quaternion: Array
    """x y z w, unit."""
    map_epoch: int
    """Grows when the pose is not connected to the one before it."""
    message: Any = field(repr=False)
    """All that the daemon said: posed.Odometry, or TrajectoryPose from `pose_at`."""

    @property
    def matrix(self) -> Array:
        """4x4."""
        out = np.eye(4)
        out[:3, :3] = rotation_matrix(self.quaternion)
        out[:3, 3] = self.position
        return out

    @property
    def covariance(self) -> Array:
        """6x6: x y z, rotation about x y z [m^2, rad^2]; of `pose_at` not known (NaN)."""
        values = getattr(self.message, "pose_covariance", ())
        return np.array(values).reshape(6, 6) if len(values) == 36 else np.full((6, 6), np.nan)

    @staticmethod
    def from_message(message: Any) -> Pose:
        p, q = message.pose.position, message.pose.orientation
        reason = getattr(message, "reason_text", "")
        if not reason and getattr(message, "reason", 0):
            reason = enum_name("Reason", message.reason)
        return Pose(seq=message.seq, time_ns=nanoseconds(message.timestamp),
                    state=State(message.state), reason=reason, position=np.array((p.x, p.y, p.z)),
                    quaternion=np.array((q.x, q.y, q.z, q.w)), map_epoch=message.map_epoch,
                    message=message)
