# SPDX-License-Identifier: Apache-2.0
"""The plain client: blocking calls, one thread. posed.aio is the same for asyncio."""
from __future__ import annotations

import itertools
import time
from dataclasses import dataclass
from typing import Any, Iterator

import numpy as np
import numpy.typing as npt
import zmq

from .address import Address
from .messages import TOPICS, Message, Odometry, Reply, Request, enum_name, kind_of
from .pose import Array, Pose, rotation_matrix, seconds

MAGIC = b"posed\x01"
RECONNECT_MS = 100


class Error(Exception):
    """A refused request: `code` ("NOT_FOUND"), the sentence, and the path of the wrong field."""

    def __init__(self, code: str, text: str, field: str = ""):
        super().__init__(f"{code}{' ' + field if field else ''}: {text}")
        self.code, self.text, self.field = code, text, field


class NoAnswer(Error):
    """Nobody answered in time."""

    def __init__(self, endpoint: str, timeout_s: float):
        super().__init__(
            "NO_ANSWER", f"no posed answered at {endpoint} within {timeout_s:g} s. Start one "
            "(posed --source synth:room --loop), or say with connect(WHERE) or POSED_HOST where "
            "it is")


@dataclass(frozen=True)
class DepthImage:
    """A frame's depth as captured."""
    seq: int
    time_s: float
    depth: npt.NDArray[np.uint16]
    """height x width, a view of the message; 0 and 65535 = no measurement."""
    units_per_m: float
    K: Array
    """3x3 camera matrix; fy may be negative."""

    @property
    def metres(self) -> npt.NDArray[np.float32]:
        """height x width, NaN = no measurement."""
        out = self.depth.astype(np.float32) / np.float32(self.units_per_m)
        out[(self.depth == 0) | (self.depth == 65535)] = np.nan
        return out


@dataclass(frozen=True)
class Cloud:
    """A frame's points in the camera frame [m]."""
    seq: int
    time_s: float
    points: npt.NDArray[np.float32]
    """n x 3, a view of the message."""
    normals: npt.NDArray[np.float32] | None
    pose: tuple[Array, Array] | None
    """Rotation 3x3 and position of T_odom_camera; None when the frame was LOST."""


def image_array(message: Any) -> npt.NDArray[Any]:
    """A RawImage (topics depth, normals, residual) as height x width (x 3), a view of it."""
    kinds = {"16UC1": ("<u2", 1), "32FC1": ("<f4", 1), "32FC3": ("<f4", 3)}
    kind, n_channels = kinds[message.encoding]
    shape = (message.height, message.width) + ((n_channels, ) if n_channels > 1 else ())
    return np.frombuffer(message.data, kind).reshape(shape)


def cloud_array(message: Any) -> npt.NDArray[np.float32]:
    """A PointCloud (topic cloud) as n x 6: x y z and the normal, a view of it."""
    return np.frombuffer(message.data, "<f4").reshape(-1, message.point_stride // 4)


def encode_request(request_id: int, kind: str, fields: dict[str, Any], timeout_s: float) -> bytes:
    request = Request(id=request_id, deadline_ms=max(1, int(timeout_s * 1000)))
    part = getattr(request, kind)
    part.SetInParent()
    for name, value in fields.items():
        if isinstance(value, Message):
            getattr(part, name).CopyFrom(value)
        elif isinstance(value, (list, tuple)):
            getattr(part, name).extend(value)
        else:
            setattr(part, name, value)
    return MAGIC + bytes(request.SerializeToString())


def decode_reply(data: bytes, kind: str) -> Any:
    """The part of the reply that the request's kind is answered with. Raises Error."""
    if not data.startswith(MAGIC):
        raise Error("UNKNOWN_ERROR", "what answered is no posed")
    reply = Reply.FromString(data[len(MAGIC):])
    if reply.code != 0:
        raise Error(enum_name("Code", reply.code), reply.message, reply.field)
    return getattr(reply, kind)


def reply_id(data: bytes) -> int:
    return int(Reply.FromString(data[len(MAGIC):]).id) if data.startswith(MAGIC) else -1


def at_time(time_s: float) -> dict[str, Any]:
    """The fields of get_pose for a time in seconds."""
    time_ns = round(time_s * 1e9)
    stamp = Odometry().timestamp
    stamp.seconds, stamp.nanos = time_ns // 10**9, time_ns % 10**9
    return {"time": stamp}


def as_depth(reply: Any) -> DepthImage:
    depth = np.frombuffer(reply.depth, "<u2").reshape(reply.height, reply.width)
    K = np.array([[reply.fx, 0, reply.cx], [0, reply.fy, reply.cy], [0, 0, 1]])
    return DepthImage(reply.seq, seconds(reply.timestamp), depth, reply.units_per_m, K)


def as_cloud(reply: Any) -> Cloud:
    points = np.frombuffer(reply.points, "<f4").reshape(-1, 3)
    normals = np.frombuffer(reply.normals, "<f4").reshape(-1, 3) if reply.normals else None
    pose = None
    if reply.HasField("pose"):
        p, q = reply.pose.position, reply.pose.orientation
        pose = (rotation_matrix(np.array((q.x, q.y, q.z, q.w))), np.array((p.x, p.y, p.z)))
    return Cloud(reply.seq, seconds(reply.timestamp), points, normals, pose)


class Client:
    """One daemon. Not for several threads at once."""

    def __init__(self, address: Address, timeout_s: float = 3.0):
        self.address, self.timeout_s = address, timeout_s
        self._context = zmq.Context()
        self._requests: zmq.Socket | None = None
        self._newest: zmq.Socket | None = None
        self._ids = itertools.count(1)

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __iter__(self) -> Iterator[Pose]:
        return self.poses()

    def close(self) -> None:
        self._context.destroy(linger=0)

    def _connect(self, kind: int, name: str, **options: int) -> zmq.Socket:
        socket = self._context.socket(kind)
        socket.linger = 0
        socket.reconnect_ivl = RECONNECT_MS
        for option, value in options.items():
            setattr(socket, option, value)
        self.address.protect(socket)
        socket.connect(self.address.of(name))
        return socket

    def poses(self, camera: str = "") -> Iterator[Pose]:
        """Each pose as it comes, without end; through a restart of the daemon, too. `camera`: of a
        daemon with several; without it the poses of all of them."""
        for _, message in self.subscribe(f"pose/{camera}" if camera else "pose"):
            yield Pose.from_message(message)

    def subscribe(self, *topics: str) -> Iterator[tuple[str, Any]]:
        """Topic and message as they come: pose, tf, calib, status, timing, event, imu, log, object;
        depth, normals, residual, cloud (see image_array, cloud_array). Of a daemon with several
        cameras those of all of them, or of one: "pose/left"; "rig" is the pose of the rig."""
        unknown = [topic for topic in topics if kind_of(topic) not in TOPICS]
        if unknown or not topics:
            raise ValueError(f"topics: {', '.join(TOPICS)}; not {', '.join(unknown) or 'none'}")
        poller, sockets = zmq.Poller(), {}
        for name in {TOPICS[kind_of(topic)][0] for topic in topics}:
            sockets[name] = self._connect(zmq.SUB, name)
            poller.register(sockets[name], zmq.POLLIN)
        for topic in topics:
            sockets[TOPICS[kind_of(topic)][0]].subscribe(topic)
        try:
            while True:
                for socket, _ in poller.poll():
                    name, data = socket.recv_multipart()
                    topic = name.decode()
                    yield topic, TOPICS[kind_of(topic)][1].FromString(data)
        finally:
            for socket in sockets.values():
                socket.close()

    def latest(self) -> Pose:
        """The newest pose there is. The first call waits for the next one."""
        if not self._newest:
            self._newest = self._connect(zmq.SUB, "latest", conflate=1)
            self._newest.subscribe("")
        elif not self._newest.poll(0):
            return Pose.from_message(self.request("get_pose"))
        if not self._newest.poll(int(self.timeout_s * 1000)):
            raise NoAnswer(self.address.of("latest"), self.timeout_s)
        return Pose.from_message(Odometry.FromString(self._newest.recv()))

    def pose_at(self, time_s: float) -> Pose:
        """The pose at a time of the frames' clock, between two frames interpolated."""
        return Pose.from_message(self.request("get_pose", **at_time(time_s)))

    def request(self, kind: str, timeout_s: float | None = None, **fields: Any) -> Any:
        """Any request of proto/requests.proto: request("reset", keep_pose=True). Returns the
        message that it is answered with; raises Error."""
        timeout_s = timeout_s or self.timeout_s
        if not self._requests:
            self._requests = self._connect(zmq.DEALER, "req")
        request_id = next(self._ids)
        self._requests.send(encode_request(request_id, kind, fields, timeout_s))
        end = time.monotonic() + timeout_s + 0.3  # its own refusal may come at the deadline
        while self._requests.poll(max(0, int((end - time.monotonic()) * 1000))):
            data = self._requests.recv()
            if reply_id(data) in (request_id, -1):
                return decode_reply(data, kind)  # else: the late answer of an earlier one
        raise NoAnswer(self.address.of("req"), timeout_s)

    def status(self) -> Any:
        return self.request("get_status")

    def depth(self, seq: int | None = None) -> DepthImage:
        """The newest depth image that the daemon keeps, or that of a frame."""
        return as_depth(self.request("get_depth", **({} if seq is None else {"seq": seq})))

    def cloud(self, seq: int | None = None, normals: bool = False) -> Cloud:
        """The same as points."""
        fields = {} if seq is None else {"seq": seq}
        return as_cloud(self.request("get_cloud", normals=normals, **fields))


def connect(where: str | None = None, *, server_key: str | None = None,
            key_file: str | None = None, timeout_s: float = 3.0) -> Client:
    """A client of the daemon at `where` (see Address). Connecting never fails: a daemon that
    starts later is found, too."""
    return Client(Address(where, server_key, key_file), timeout_s)
