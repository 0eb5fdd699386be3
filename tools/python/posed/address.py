# SPDX-License-Identifier: Apache-2.0
"""Where a daemon is, and its keys. The rules are posectl's (tools/client/address.h)."""
from __future__ import annotations

import os
import socket
from dataclasses import dataclass

import zmq

PORTS = {"pub": 5570, "latest": 5571, "img": 5572, "req": 5573}


def _listens(path: str) -> bool:
    with socket.socket(socket.AF_UNIX) as probe:
        try:
            probe.connect(path)
            return True
        except OSError:
            return False


def _run_directory() -> str | None:
    folders = ["/run/posed"]
    if os.environ.get("XDG_RUNTIME_DIR"):
        folders.append(os.environ["XDG_RUNTIME_DIR"] + "/posed")
    folders.append(f"/tmp/posed-{os.getuid()}")
    return next((folder for folder in folders if _listens(folder + "/req")), None)


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

    def protect(self, zmq_socket: zmq.Socket) -> None:
        """Puts the keys on a socket that is not connected yet."""
        if not self.server_key:
            return
        if self.key_file:
            with open(self.key_file, encoding="ascii") as file:
                secret = file.read().split()[0].encode()
            public = zmq.curve_public(secret)
        else:
            public, secret = zmq.curve_keypair()
        zmq_socket.curve_serverkey = self.server_key.encode()
        zmq_socket.curve_publickey = public
        zmq_socket.curve_secretkey = secret
