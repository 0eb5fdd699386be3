# SPDX-License-Identifier: Apache-2.0
"""The plain client: blocking calls, one thread. posed.aio is the same for asyncio."""
from __future__ import annotations

import itertools
import operator
import os
import time
from dataclasses import dataclass
from typing import Any, Iterator

import numpy as np
import numpy.typing as npt
import zmq

from .address import Address
from .errors import Error, RequestError, refused, seconds, text
from .messages import MAGIC, Message, Odometry, Reply, Request, enum_name
from .pose import Array, Pose, Stamped, nanoseconds, rotation_matrix
from .subscription import Feeds, Subscription

RECONNECT_MS = 100
ANSWER_S = 0.3  # longer than the deadline: the daemon's own refusal comes then
KINDS = tuple(field.name for field in Request.DESCRIPTOR.oneofs_by_name["what"].fields)


@dataclass(frozen=True)
class DepthImage(Stamped):
    """A frame's depth as captured."""
    seq: int
    time_ns: int
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
class Cloud(Stamped):
    """A frame's points in the camera frame [m]."""
    seq: int
    time_ns: int
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


def encode_request(request_id: int, kind: str, camera: str, fields: dict[str, Any],
                   timeout_s: float) -> bytes:
    """Raises ValueError and TypeError for what is no such request."""
    if kind not in KINDS:
        raise ValueError(f"no request {kind!r}: {', '.join(KINDS)}")
    request = Request(id=request_id, camera=text("camera", camera),
                      deadline_ms=max(1, int(timeout_s * 1000)))
    part = getattr(request, kind)
    part.SetInParent()
    for name, value in fields.items():
        known = part.DESCRIPTOR.fields_by_name
        if name not in known:
            raise ValueError(f"request {kind!r} has no field {name!r}: "
                             f"{', '.join(known) or 'it has none'}")
        try:
            if isinstance(value, Message):
                getattr(part, name).CopyFrom(value)
            elif isinstance(value, (list, tuple)):
                getattr(part, name).extend(value)
            else:
                setattr(part, name, value)
        except ValueError as error:
            raise ValueError(f"{kind}.{name}: {error}") from None
        except (AttributeError, TypeError) as error:
            raise TypeError(f"{kind}.{name}: {error}") from None
    return MAGIC + bytes(request.SerializeToString())


def decode_reply(data: bytes, kind: str) -> Any:
    """The part of the reply that the request's kind is answered with. Raises Error."""
    if not data.startswith(MAGIC):
        raise Error("UNKNOWN_ERROR", "what answered is no posed")
    reply = Reply.FromString(data[len(MAGIC):])
    if reply.code != 0:
        raise refused(enum_name("Code", reply.code), reply.message, reply.field)
    return getattr(reply, kind)


def reply_id(data: bytes) -> int:
    return int(Reply.FromString(data[len(MAGIC):]).id) if data.startswith(MAGIC) else -1


def at_time(time_ns: int) -> dict[str, Any]:
    """The fields of get_pose for a time. Raises TypeError for a number with a fraction: seconds."""
    try:
        time_ns = operator.index(time_ns)
    except TypeError:
        raise TypeError(f"{time_ns!r}: whole nanoseconds are wanted, as Pose.time_ns") from None
    stamp = Odometry().timestamp
    stamp.seconds, stamp.nanos = time_ns // 10**9, time_ns % 10**9
    return {"time": stamp}


def of_frame(seq: int | None) -> dict[str, Any]:
    return {} if seq is None else {"seq": seq}


def as_depth(reply: Any) -> DepthImage:
    depth = np.frombuffer(reply.depth, "<u2").reshape(reply.height, reply.width)
    K = np.array([[reply.fx, 0, reply.cx], [0, reply.fy, reply.cy], [0, 0, 1]])
    return DepthImage(reply.seq, nanoseconds(reply.timestamp), depth, reply.units_per_m, K)


def as_cloud(reply: Any) -> Cloud:
    points = np.frombuffer(reply.points, "<f4").reshape(-1, 3)
    normals = np.frombuffer(reply.normals, "<f4").reshape(-1, 3) if reply.normals else None
    pose = None
    if reply.HasField("pose"):
        p, q = reply.pose.position, reply.pose.orientation
        pose = (rotation_matrix(np.array((q.x, q.y, q.z, q.w))), np.array((p.x, p.y, p.z)))
    return Cloud(reply.seq, nanoseconds(reply.timestamp), points, normals, pose)


def as_pose(_topic: str, message: Any) -> Pose:
    return Pose.from_message(message)


def as_it_came(topic: str, message: Any) -> tuple[str, Any]:
    return topic, message


def no_frame_yet(error: RequestError) -> bool:
    """Of get_pose: not a camera that is not there."""
    return error.code == "NOT_FOUND" and error.field != "camera"


def open_socket(context: Any, address: Address, kind: int, name: str, **options: int) -> Any:
    """A socket of either client, connected. Raises ValueError for what is no address or key, and
    for a client that is closed."""
    if context.closed:
        raise ValueError("this client is closed")
    endpoint = address.of(name)
    socket = context.socket(kind)
    try:
        socket.linger = 0
        socket.reconnect_ivl = RECONNECT_MS
        for option, value in options.items():
            setattr(socket, option, value)
        address.protect(socket)
        socket.connect(endpoint)
    except zmq.ZMQError as error:
        socket.close()
        raise ValueError(f"{endpoint}: {error}") from None
    except BaseException:
        socket.close()
        raise
    return socket


class Client:
    """One daemon, or one camera of it. Not for several threads at once.

    `camera` names one of a daemon's several, here and with each call (which then means that one
    instead): poses, images, topics and requests are that camera's. Without a name requests mean the
    first, subscriptions all. RequestError says which there are when it is not among them."""

    def __init__(self, address: Address, timeout_s: float = 3.0, camera: str = ""):
        self.address, self.timeout_s = address, seconds("timeout_s", timeout_s)
        self.camera = text("camera", camera)
        self._context = zmq.Context()
        self._requests: zmq.Socket | None = None
        self._newest: zmq.Socket | None = None
        self._newest_pose: Pose | None = None
        self._ids = itertools.count(1)

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __iter__(self) -> Iterator[Pose]:
        return self.poses()

    def close(self) -> None:
        """Ends subscriptions; what is called then raises ValueError."""
        self._requests = self._newest = None
        self._context.destroy(linger=0)

    def _connect(self, kind: int, name: str, **options: int) -> zmq.Socket:
        return open_socket(self._context, self.address, kind, name, **options)

    def _feeds(self, topics: tuple[str, ...], camera: str) -> Feeds:
        return Feeds(self._connect, self.address, topics, camera or self.camera)

    def poses(self, camera: str = "", timeout_s: float | None = None) -> Subscription[Pose]:
        """Each pose as it comes, without end; through a restart of the daemon, too."""
        return Subscription(self._feeds(("pose", ), camera), timeout_s, as_pose)

    def subscribe(self, *topics: str, camera: str = "",
                  timeout_s: float | None = None) -> Subscription[tuple[str, Any]]:
        """Topic and message as they come: pose, tf, calib, status, timing, event, imu, log, object;
        depth, normals, residual, cloud (see image_array, cloud_array). Of a daemon with several
        cameras those of all of them, or of one ("pose/left", or with `camera`); "rig" is the pose
        of the rig. A program that is slower than they come finds the oldest 1000 that wait, of
        images and clouds the oldest 4, and what does not fit is left out."""
        return Subscription(self._feeds(topics, camera), timeout_s, as_it_came)

    def latest(self, camera: str = "") -> Pose:
        """The newest pose there is: the same again while there is no newer one, also when the
        daemon has gone (its time_ns tells). The first call waits for one. Of a camera that is named
        the daemon is asked, and it comes without reason and covariance."""
        camera = camera or self.camera
        if camera:
            try:
                return Pose.from_message(self.request("get_pose", camera=camera))
            except RequestError as error:
                if not no_frame_yet(error):
                    raise
            with self.poses(camera, self.timeout_s) as poses:
                return next(poses)
        if not self._newest:
            self._newest = self._connect(zmq.SUB, "latest", conflate=1)
            self._newest.subscribe("")
        if self._newest.poll(0 if self._newest_pose else int(self.timeout_s * 1000)):
            self._newest_pose = Pose.from_message(Odometry.FromString(self._newest.recv()))
        if not self._newest_pose:
            raise self.address.no_answer("latest", self.timeout_s, ("pose", ))
        return self._newest_pose

    def pose_at(self, time_ns: int, camera: str = "") -> Pose:
        """The pose at a time of the frames' clock (Pose.time_ns), between two frames
        interpolated."""
        return Pose.from_message(self.request("get_pose", camera=camera, **at_time(time_ns)))

    def request(self, kind: str, timeout_s: float | None = None, camera: str = "",
                **fields: Any) -> Any:
        """Any request of proto/requests.proto: request("reset", keep_pose=True). Returns the
        message that it is answered with; raises RequestError when the daemon refuses, NoAnswer
        when nobody answers: then what has not been sent yet never will be."""
        timeout_s = seconds("timeout_s", self.timeout_s if timeout_s is None else timeout_s)
        request_id = next(self._ids)
        data = encode_request(request_id, kind, camera or self.camera, fields, timeout_s)
        if not self._requests:
            self._requests = self._connect(zmq.DEALER, "req")
        answer = None
        try:
            self._requests.send(data)
            end = time.monotonic() + timeout_s + ANSWER_S
            while answer is None and self._requests.poll(
                    max(0, int((end - time.monotonic()) * 1000))):
                came = self._requests.recv()
                answer = came if reply_id(came) in (request_id, -1) else None
        finally:
            if answer is None:  # with the socket goes what waits in it, and a late answer
                self._requests.close()
                self._requests = None
        if answer is None:
            raise self.address.no_answer("req", timeout_s)
        return decode_reply(answer, kind)

    def status(self, camera: str = "") -> Any:
        return self.request("get_status", camera=camera)

    def depth(self, seq: int | None = None, camera: str = "") -> DepthImage:
        """The newest depth image that the daemon keeps, or that of a frame."""
        return as_depth(self.request("get_depth", camera=camera, **of_frame(seq)))

    def cloud(self, seq: int | None = None, normals: bool = False, camera: str = "") -> Cloud:
        """The same as points."""
        return as_cloud(self.request("get_cloud", camera=camera, normals=normals, **of_frame(seq)))

    def stop_recording(self, timeout_s: float = 60.0) -> Any:
        """Ends the recording that the daemon writes. Returns its Recording when its files are
        complete and closed; raises DeadlineExceeded while they are not, RequestError with
        DATA_LOSS when an error ended it."""
        return self.request("stop_recording", timeout_s=timeout_s)


def connect(where: str | None = None, *, server_key: str | None = None,
            key_file: str | os.PathLike[str] | None = None, timeout_s: float = 3.0,
            camera: str = "") -> Client:
    """A client of the daemon at `where` (see Address), which may start later. Raises TypeError or
    ValueError for arguments that cannot be meant, OSError for a key file that cannot be read."""
    return Client(Address(where, server_key, key_file), timeout_s, camera)
