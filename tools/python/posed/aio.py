# SPDX-License-Identifier: Apache-2.0
"""The client for asyncio:

    async with posed.aio.connect() as client:
        async for pose in client.poses():
            ...
"""
from __future__ import annotations

import asyncio
import itertools
from typing import Any, AsyncIterator

import zmq
import zmq.asyncio

from .address import Address
from .client import (RECONNECT_MS, Cloud, DepthImage, NoAnswer, as_cloud, as_depth, at_time,
                     decode_reply, encode_request, reply_id)
from .messages import TOPICS, kind_of
from .pose import Pose


class Client:
    """posed.Client, with `await`. Requests may run beside each other."""

    def __init__(self, address: Address, timeout_s: float = 3.0):
        self.address, self.timeout_s = address, timeout_s
        self._context = zmq.asyncio.Context()
        self._ids = itertools.count(1)

    async def __aenter__(self) -> Client:
        return self

    async def __aexit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._context.destroy(linger=0)

    def _connect(self, kind: int, name: str) -> zmq.asyncio.Socket:
        socket = self._context.socket(kind)
        socket.linger = 0
        socket.reconnect_ivl = RECONNECT_MS
        self.address.protect(socket)
        socket.connect(self.address.of(name))
        return socket

    async def poses(self, camera: str = "") -> AsyncIterator[Pose]:
        async for _, message in self.subscribe(f"pose/{camera}" if camera else "pose"):
            yield Pose.from_message(message)

    async def subscribe(self, *topics: str) -> AsyncIterator[tuple[str, Any]]:
        """Topics of one socket: those of `pub`, or depth, normals, residual and cloud."""
        names = {TOPICS[kind_of(topic)][0] for topic in topics}
        if len(names) != 1:
            raise ValueError("topics of one socket are wanted: pub's or img's")
        socket = self._connect(zmq.SUB, names.pop())
        for topic in topics:
            socket.subscribe(topic)
        try:
            while True:
                name, data = await socket.recv_multipart()
                yield name.decode(), TOPICS[kind_of(name.decode())][1].FromString(data)
        finally:
            socket.close()

    async def request(self, kind: str, timeout_s: float | None = None, **fields: Any) -> Any:
        timeout_s = timeout_s or self.timeout_s
        request_id = next(self._ids)
        socket = self._connect(zmq.DEALER, "req")
        try:
            await socket.send(encode_request(request_id, kind, fields, timeout_s))
            data = await asyncio.wait_for(socket.recv(), timeout_s + 0.3)
        except asyncio.TimeoutError:
            raise NoAnswer(self.address.of("req"), timeout_s) from None
        finally:
            socket.close()
        assert reply_id(data) in (request_id, -1)
        return decode_reply(data, kind)

    async def pose_at(self, time_s: float) -> Pose:
        return Pose.from_message(await self.request("get_pose", **at_time(time_s)))

    async def status(self) -> Any:
        return await self.request("get_status")

    async def depth(self, seq: int | None = None) -> DepthImage:
        return as_depth(await self.request("get_depth", **({} if seq is None else {"seq": seq})))

    async def cloud(self, seq: int | None = None, normals: bool = False) -> Cloud:
        fields = {} if seq is None else {"seq": seq}
        return as_cloud(await self.request("get_cloud", normals=normals, **fields))


def connect(where: str | None = None, *, server_key: str | None = None,
            key_file: str | None = None, timeout_s: float = 3.0) -> Client:
    return Client(Address(where, server_key, key_file), timeout_s)
