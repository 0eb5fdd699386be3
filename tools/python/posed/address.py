# SPDX-License-Identifier: Apache-2.0
"""Where a daemon is, and its keys. The rules are posectl's (tools/client/address.h)."""
from __future__ import annotations

import os
import socket
from dataclasses import dataclass

import zmq

from .errors import NoAnswer

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
            probe.connect(rest)
            return True
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
    variable POSED_HOST and then this machine. With CURVE: the daemon's public key, and a file with
    this client's secret key (else one is made up, which a daemon without a list of clients
    accepts)."""
    where: str | None = None
    server_key: str | None = None
    key_file: str | None = None

    def of(self, name: str) -> str:
        """The address of the socket `name`."""
        where = self.where or os.environ.get("POSED_HOST") or _run_directory()
        if not where:
            return f"tcp://127.0.0.1:{PORTS[name]}"
        scheme, _, rest = where.rpartition("://")
        host, _, port = rest.rpartition(":")
        folder, _, socket_name = rest.rpartition("/")
        if scheme == "tcp" and port in map(str, PORTS.values()):
            where = host
        elif scheme == "ipc" and folder and socket_name in PORTS:
            where = folder
        elif scheme == "tcp" and ("]" in port or not host):
            where = rest
        elif scheme:
            raise ValueError(f"{where}: a host or a run directory is wanted, not one socket")
        if "/" in where or os.path.isdir(where):
            return f"ipc://{where}/{name}"
        return f"tcp://{where}:{PORTS[name]}"

    def no_answer(self, name: str, timeout_s: float) -> NoAnswer:
        """The error for a socket from which nothing came."""
        endpoint = self.of(name)
        return NoAnswer(endpoint, timeout_s, _listens(endpoint))

    def protect(self, zmq_socket: zmq.Socket) -> None:
        """Puts the keys on a socket that is not connected yet. Raises ValueError for what is no
        key."""
        if not self.server_key:
            return
        if len(self.server_key) != KEY_CHARS:
            raise ValueError(f"server_key: {KEY_CHARS} characters are wanted")
        if self.key_file:
            with open(self.key_file, encoding="ascii", errors="replace") as file:
                secret = file.read().strip().encode()
            try:
                public = zmq.curve_public(secret)
            except (ValueError, zmq.ZMQError):
                raise ValueError(f"{self.key_file} holds no CURVE secret key") from None
        else:
            public, secret = zmq.curve_keypair()
        zmq_socket.curve_serverkey = self.server_key.encode()
        zmq_socket.curve_publickey = public
        zmq_socket.curve_secretkey = secret
