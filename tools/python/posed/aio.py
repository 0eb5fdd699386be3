# SPDX-License-Identifier: Apache-2.0
"""The client for asyncio:

    async with posed.aio.connect() as client:
        async for pose in client.poses():
            ...
"""
from __future__ import annotations

import asyncio
import itertools
import os
from typing import Any, AsyncIterator, Generic

import zmq
import zmq.asyncio

from .address import Address
from .client import (ANSWER_S, Cloud, DepthImage, as_cloud, as_depth, as_it_came, as_pose, at_time,
                     decode_reply, encode_request, no_frame_yet, of_frame, open_socket)
from .errors import RequestError, seconds, text
from .messages import Odometry
from .pose import Pose
from .subscription import SILENCE_S, Convert, Feeds, T


class Subscription(Generic[T]):
    """posed.Subscription, with `async for`. A task that is cancelled while it waits takes nothing
    along, and several may wait at once: each message goes to one of them. `close()`, the end of an
    `async with`, or nobody holding it any more closes its sockets."""

    def __init__(self, feeds: Feeds, timeout_s: float | None, convert: Convert[T]):
        self._feeds, self._convert = feeds, convert
        self._ready: list[Any] = []
        self._timeout_s = timeout_s if timeout_s is None else seconds("timeout_s", timeout_s)
        self._is_first_wait = timeout_s is None
        self._poller = zmq.asyncio.Poller()
        for socket in feeds.sockets:
            self._poller.register(socket, zmq.POLLIN)

    def __aiter__(self) -> AsyncIterator[T]:
        return self

    async def __anext__(self) -> T:
        try:
            return await asyncio.wait_for(self._next(), self._timeout_s)
        except asyncio.TimeoutError:
            raise await asyncio.to_thread(self._feeds.no_answer, self._timeout_s) from None

    async def _next(self) -> T:
        while self._feeds.are_open():
            if not self._ready and self._is_first_wait:
                self._is_first_wait = False
                self._ready = [socket for socket, _ in await self._poller.poll(1000 * SILENCE_S)]
                if not self._ready:
                    await asyncio.to_thread(self._feeds.warn_of_silence)
                continue
            if not self._ready:
                self._ready = [socket for socket, _ in await self._poller.poll()]
                continue  # another task may have closed it, or taken what there was
            socket = self._ready.pop()  # all that have something take turns
            try:
                # From here to the end nothing is waited for: no message is lost.
                parts = socket.recv_multipart(zmq.NOBLOCK).result()
                came = self._feeds.read(socket, parts)
            except zmq.Again:
                continue
            except RequestError:
                self.close()
                raise
            if came:
                return self._convert(*came)
        raise StopAsyncIteration

    async def __aenter__(self) -> Subscription[T]:
        return self

    async def __aexit__(self, *_: object) -> None:
        self.close()

    def __del__(self) -> None:
        self.close()

    def close(self) -> None:
        self._ready = []
        self._feeds.close()


class Client:
    """posed.Client, with `await`. Requests may run beside each other."""

    def __init__(self, address: Address, timeout_s: float = 3.0, camera: str = ""):
        self.address, self.timeout_s = address, seconds("timeout_s", timeout_s)
        self.camera = text("camera", camera)
        self._context = zmq.asyncio.Context()
        self._newest: zmq.asyncio.Socket | None = None
        self._newest_pose: Pose | None = None
        self._ids = itertools.count(1)

    async def __aenter__(self) -> Client:
        return self

    async def __aexit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._newest = None
        self._context.destroy(linger=0)

    def _connect(self, kind: int, name: str, **options: int) -> zmq.asyncio.Socket:
        return open_socket(self._context, self.address, kind, name, **options)

    def _feeds(self, topics: tuple[str, ...], camera: str) -> Feeds:
        return Feeds(self._connect, self.address, topics, camera or self.camera)

    def poses(self, camera: str = "", timeout_s: float | None = None) -> Subscription[Pose]:
        return Subscription(self._feeds(("pose", ), camera), timeout_s, as_pose)

    def subscribe(self, *topics: str, camera: str = "",
                  timeout_s: float | None = None) -> Subscription[tuple[str, Any]]:
        return Subscription(self._feeds(topics, camera), timeout_s, as_it_came)

    async def request(self, kind: str, timeout_s: float | None = None, camera: str = "",
                      **fields: Any) -> Any:
        timeout_s = seconds("timeout_s", self.timeout_s if timeout_s is None else timeout_s)
        data = encode_request(next(self._ids), kind, camera or self.camera, fields, timeout_s)
        socket = self._connect(zmq.DEALER, "req")  # its own: what is given up goes with it
        try:
            await socket.send(data)
            answer = await asyncio.wait_for(socket.recv(), timeout_s + ANSWER_S)
        except asyncio.TimeoutError:
            raise await asyncio.to_thread(self.address.no_answer, "req", timeout_s) from None
        finally:
            socket.close()
        return decode_reply(answer, kind)

    async def latest(self, camera: str = "") -> Pose:
        if camera or self.camera:
            try:
                return Pose.from_message(await self.request("get_pose", camera=camera))
            except RequestError as error:
                if not no_frame_yet(error):
                    raise
            async with self.poses(camera, self.timeout_s) as poses:
                return await poses.__anext__()
        if not self._newest:
            self._newest = self._connect(zmq.SUB, "latest", conflate=1)
            self._newest.subscribe("")
        if await self._newest.poll(0 if self._newest_pose else int(self.timeout_s * 1000)):
            try:
                data = self._newest.recv(zmq.NOBLOCK).result()
                self._newest_pose = Pose.from_message(Odometry.FromString(data))
            except zmq.Again:
                pass  # another task has taken it
        if not self._newest_pose:
            raise await asyncio.to_thread(self.address.no_answer, "latest", self.timeout_s,
                                          ("pose", ))
        return self._newest_pose

    async def pose_at(self, time_ns: int, camera: str = "") -> Pose:
        return Pose.from_message(await self.request("get_pose", camera=camera, **at_time(time_ns)))

    async def status(self, camera: str = "") -> Any:
        return await self.request("get_status", camera=camera)

    async def depth(self, seq: int | None = None, camera: str = "") -> DepthImage:
        return as_depth(await self.request("get_depth", camera=camera, **of_frame(seq)))

    async def cloud(self, seq: int | None = None, normals: bool = False, camera: str = "") -> Cloud:
        return as_cloud(await self.request("get_cloud", camera=camera, normals=normals,
                                           **of_frame(seq)))

    async def stop_recording(self, timeout_s: float = 60.0) -> Any:
        return await self.request("stop_recording", timeout_s=timeout_s)


def connect(where: str | None = None, *, server_key: str | None = None,
            key_file: str | os.PathLike[str] | None = None, timeout_s: float = 3.0,
            camera: str = "") -> Client:
    return Client(Address(where, server_key, key_file), timeout_s, camera)
