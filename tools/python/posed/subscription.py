# SPDX-License-Identifier: Apache-2.0
"""What a subscription consists of, in either client: a socket for each of `pub` and `img` that is
needed, and, where a camera is named, one that hears from the daemon which cameras there are."""
from __future__ import annotations

import logging
import time
from typing import Any, Callable, Generic, Iterable, Iterator, TypeVar

import zmq

from .address import Address
from .errors import NoAnswer, RequestError, seconds, text
from .messages import TOPICS, Status, kind_of

T = TypeVar("T")
Convert = Callable[[str, Any], T]

# Messages that may wait here for a program that is slow: half a minute of poses, of images the next
# few. What comes beyond that is left out.
QUEUE = {"pub": 1000, "img": 4}

# A first wait without end says after so long that there is no daemon, if there is none.
SILENCE_S = 3.0

_OF_THE_DAEMON = ("log", "rig")


def full_topics(topics: Iterable[str], camera: str) -> list[str]:
    """With the camera's name behind those that have none; "" = none. Raises ValueError."""
    out = []
    for topic in topics:
        if kind_of(text("topic", topic)) not in TOPICS:
            raise ValueError(f"no topic {topic!r}: {', '.join(TOPICS)}")
        named = camera and "/" not in topic and topic not in _OF_THE_DAEMON
        out.append(f"{topic}/{camera}" if named else topic)
    if not out:
        raise ValueError(f"a topic is wanted: {', '.join(TOPICS)}")
    return out


def check_cameras(status: Any, names: Iterable[str]) -> None:
    """Raises RequestError for the first that the daemon does not have, as a request does."""
    for name in names:
        if name not in status.cameras:
            there = "there are " + ", ".join(status.cameras) if status.cameras else \
                "there is one, and it has no name"
            raise RequestError("NOT_FOUND", f"no camera \"{name}\": {there}", "camera")


class Feeds:
    """The sockets. `connect(kind, name, **options)` makes one; it keeps its client."""

    def __init__(self, connect: Callable[..., Any], address: Address, topics: Iterable[str],
                 camera: str):
        self.topics = full_topics(topics, text("camera", camera))
        self._address, self._connect = address, connect
        self._cameras = {name for _, _, name in (t.partition("/") for t in self.topics) if name}
        self._watch: Any = None
        self.sockets: list[Any] = []
        try:
            for name in dict.fromkeys(TOPICS[kind_of(topic)][0] for topic in self.topics):
                self._open(name, (t for t in self.topics if TOPICS[kind_of(t)][0] == name))
            if self._cameras:
                self._watch = self._open("pub", ("status", ))
        except BaseException:
            self.close()
            raise

    def _open(self, name: str, topics: Iterable[str]) -> Any:
        socket = self._connect(zmq.SUB, name, rcvhwm=QUEUE[name])
        self.sockets.append(socket)
        for topic in topics:
            socket.subscribe(topic)
        return socket

    def read(self, socket: Any, parts: list[bytes]) -> tuple[str, Any] | None:
        """Topic and message; None: it was not for the program. Raises RequestError for a camera
        that is not there."""
        if len(parts) != 2:
            return None
        if socket is self._watch:
            check_cameras(Status.FromString(parts[1]), self._cameras)
            return None
        topic = parts[0].decode()
        return topic, TOPICS[kind_of(topic)][1].FromString(parts[1])

    def no_answer(self, timeout_s: float) -> NoAnswer:
        return self._address.no_answer(TOPICS[kind_of(self.topics[0])][0], timeout_s, self.topics)

    def warn_of_silence(self) -> None:
        error = self.no_answer(SILENCE_S)
        if not error.listens:
            logging.getLogger("posed").warning("%s. Still waiting", error.message)

    def are_open(self) -> bool:
        """Not after `close`, or when the client has closed."""
        return bool(self.sockets) and not any(socket.closed for socket in self.sockets)

    def close(self) -> None:
        for socket in self.sockets:
            socket.close()
        self.sockets = []


class Subscription(Generic[T]):
    """What comes, one after the other, without end and through restarts of the daemon: an iterator.
    With `timeout_s`, NoAnswer is raised when nothing comes for so long, and the next call goes on
    waiting; without it, a warning (logger `posed`) says once when there is no daemon to wait for.
    `close()`, the end of a `with`, or nobody holding it any more closes its sockets."""

    def __init__(self, feeds: Feeds, timeout_s: float | None, convert: Convert[T]):
        self._feeds, self._convert = feeds, convert
        self._ready: list[Any] = []
        self._timeout_s = timeout_s if timeout_s is None else seconds("timeout_s", timeout_s, 0)
        self._is_first_wait = timeout_s is None
        self._poller = zmq.Poller()
        for socket in feeds.sockets:
            self._poller.register(socket, zmq.POLLIN)

    def __iter__(self) -> Iterator[T]:
        return self

    def __next__(self) -> T:
        end = None if self._timeout_s is None else time.monotonic() + self._timeout_s
        while self._feeds.are_open():
            if not self._ready and self._is_first_wait:
                self._is_first_wait = False
                self._ready = [socket for socket, _ in self._poller.poll(1000 * SILENCE_S)]
                if not self._ready:
                    self._feeds.warn_of_silence()
            if not self._ready:
                left = None if end is None else max(0, 1000 * (end - time.monotonic()))
                self._ready = [socket for socket, _ in self._poller.poll(left)]
            if not self._ready:
                raise self._feeds.no_answer(self._timeout_s or 0)
            socket = self._ready.pop()  # all that have something take turns
            try:
                came = self._feeds.read(socket, socket.recv_multipart())
            except RequestError:
                self.close()
                raise
            if came:
                return self._convert(*came)
        raise StopIteration

    def __enter__(self) -> Subscription[T]:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __del__(self) -> None:
        self.close()

    def close(self) -> None:
        self._ready = []
        self._feeds.close()
