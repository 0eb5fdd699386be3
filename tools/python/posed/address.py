# SPDX-License-Identifier: Apache-2.0
"""Where a daemon is, and its keys. The rules are posectl's (tools/client/address.h)."""
from __future__ import annotations

import os
import re
import socket
from dataclasses import dataclass, field
from typing import Iterable

import zmq

from .errors import NoAnswer, text
from .messages import MAGIC, Request

KEY_CHARS = 40
PROBE_S = 0.5
PORTS = {"pub": 5570, "latest": 5571, "img": 5572, "req": 5573}


def _listens(endpoint: str) -> bool:
    """Whether somebody listens at tcp://HOST:PORT or ipc://PATH."""
    scheme, _, rest = endpoint.partition("://")
    host, _, port = rest.rpartition(":")
    try:
        if scheme == "tcp":
            socket.create_connection((host.strip("[]"), int(port)), timeout=PROBE_S).close()
            return True
        with socket.socket(socket.AF_UNIX) as probe:
            probe.settimeout(PROBE_S)
            probe.connect(rest)
            return True
    except BlockingIOError:  # its queue is full: somebody is there
        return True
    except TimeoutError:
        return scheme == "ipc"
    except (OSError, ValueError):
        return False


def _run_directory() -> str | None:
    folders = ["/run/posed"]
    if os.environ.get("XDG_RUNTIME_DIR"):
        folders.append(os.environ["XDG_RUNTIME_DIR"] + "/posed")
    folders.append(f"/tmp/posed-{os.getuid()}")
    return next((folder for folder in folders if _listens(f"ipc://{folder}/req")), None)


@dataclass(frozen=True)
class Address:
    """`where`: a run directory, a host, the usual address of any of its sockets, or None for the
    variable POSED_HOST and then this machine. Another address (tcp://HOST:PORT, HOST:PORT,
    ipc://PATH) is taken as it stands, for all that is asked: a client of that one socket. With
    CURVE: the daemon's public key, and a file with this client's secret key (else one is made up,
    which a daemon without a list of clients accepts); it is read once, here. Raises TypeError,
    ValueError, and OSError where the file cannot be read."""
    where: str | None = None
    server_key: str | None = None
    key_file: str | os.PathLike[str] | None = None
    # The daemon's public key, this client's public and secret key; None: no CURVE.
    _keys: tuple[bytes, bytes, bytes] | None = field(
        init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        scheme = text("where", self.where).rpartition("://")[0] if self.where is not None else ""
        if scheme not in ("", "tcp", "ipc"):
            raise ValueError(f"where: {self.where}: a host, a run directory, tcp://HOST:PORT or "
                             "ipc://PATH is wanted")
        if self.server_key:
            text("server_key", self.server_key)
        elif self.key_file:
            raise ValueError("key_file: needs server_key, without which nothing is encrypted")
        object.__setattr__(self, "_keys", self._read_keys())

    def of(self, name: str) -> str:
        """The address of the socket `name`."""
        where = self.where or os.environ.get("POSED_HOST") or _run_directory()
        if not where:
            return f"tcp://127.0.0.1:{PORTS[name]}"
        if re.fullmatch(r"(\[[^]/]+\]|[^:/]+):[0-9]+", where):
            where = "tcp://" + where
        scheme, _, rest = where.rpartition("://")
        host, _, port = rest.rpartition(":")
        folder, _, socket_name = rest.rpartition("/")
        if scheme == "tcp" and host and port in map(str, PORTS.values()):
            rest = host
        elif scheme == "ipc" and folder and socket_name in PORTS:
            scheme, rest = "", folder
        if scheme and (scheme != "tcp" or ":" in rest.rpartition("]")[2]):
            return where
        if not scheme and ("/" in rest or os.path.isdir(rest)):
            return f"ipc://{rest}/{name}"
        return f"tcp://{rest}:{PORTS[name]}"

    def no_answer(self, name: str, timeout_s: float, topics: Iterable[str] = ()) -> NoAnswer:
        """The error for a socket from which nothing came, of these topics."""
        endpoint, quiet = self.of(name), ", ".join(topics)
        listens = _listens(endpoint)
        # The address of one socket alone answers nothing else.
        asks = bool(quiet) and listens and self.of("req") != endpoint
        return NoAnswer(endpoint, timeout_s, listens, quiet if asks and self._answers() else "")

    def _answers(self) -> bool:
        """Whether a posed answers a ping."""
        with zmq.Context() as context, context.socket(zmq.DEALER) as probe:
            probe.linger = 0
            self.protect(probe)
            probe.connect(self.of("req"))
            probe.send(MAGIC + Request(ping={}).SerializeToString())
            return bool(probe.poll(int(1000 * PROBE_S)))

    def _read_keys(self) -> tuple[bytes, bytes, bytes] | None:
        if not self.server_key:
            return None
        if len(self.server_key) != KEY_CHARS:
            raise ValueError(f"server_key: {KEY_CHARS} characters are wanted")
        if not self.key_file:
            return self.server_key.encode(), *zmq.curve_keypair()
        with open(self.key_file, encoding="ascii", errors="replace") as file:
            secret = file.read().strip().encode()
        try:
            return self.server_key.encode(), zmq.curve_public(secret), secret
        except (ValueError, zmq.ZMQError):
            raise ValueError(f"key_file: {self.key_file} holds no CURVE secret key") from None

    def protect(self, zmq_socket: zmq.Socket) -> None:
        """Puts the keys on a socket that is not connected yet."""
        if self._keys:
            (zmq_socket.curve_serverkey, zmq_socket.curve_publickey,
             zmq_socket.curve_secretkey) = self._keys
