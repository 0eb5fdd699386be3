# SPDX-License-Identifier: Apache-2.0
"""CURVE: with a key file a listed client gets poses and answers, any other gets nothing."""
import os
import subprocess

import zmq

import harness
from harness import MAGIC, requests


def connect(daemon, kind, name, server_key, keys):
    return daemon.socket(kind, name, curve_serverkey=server_key, curve_publickey=keys[0],
                         curve_secretkey=keys[1], rcvtimeo=20000, sndtimeo=20000)


def write(name, text):
    path = harness.SCRATCH + "/" + name
    with open(path, "w", encoding="ascii") as file:
        file.write(text)
    os.chmod(path, 0o600)
    return path


def scenario():
    if not zmq.has("curve"):
        harness.skip("this libzmq has no CURVE")
    server_public, server_secret = zmq.curve_keypair()
    friend, stranger = zmq.curve_keypair(), zmq.curve_keypair()
    secret_file = write("secret", server_secret.decode() + "\n")
    clients_file = write("clients", "# friends\n" + friend[0].decode() + "\n")
    friend_file = write("friend", friend[1].decode() + "\n")
    daemon = harness.Daemon("synth:room", "--loop", "--set", "tracker.iterations=3,3,3", "--set",
                            "endpoints.curve_secret_key_file=" + secret_file, "--set",
                            "endpoints.curve_clients_file=" + clients_file, speed=1, collect=False)
    stream = connect(daemon, zmq.SUB, "pub", server_public, friend)
    stream.subscribe("pose")
    assert stream.recv_multipart()[0] == b"pose"
    assert server_public.decode() in daemon.log()
    ping = MAGIC + requests.Request(id=1, ping=requests.Ping()).SerializeToString()
    client = connect(daemon, zmq.DEALER, "req", server_public, friend)
    client.send(ping)
    assert requests.Reply.FromString(client.recv()[len(MAGIC):]).id == 1
    done = subprocess.run([harness.BINARY + "/bin/posectl", "status", "--endpoint", daemon.folder,
                           "--server-key", server_public.decode(), "--key-file", friend_file],
                          capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr

    # A stranger, and one who does not encrypt at all.
    for refused in (connect(daemon, zmq.DEALER, "req", server_public, stranger),
                    daemon.socket(zmq.DEALER, "req", sndtimeo=20000)):
        try:
            refused.send(ping, zmq.DONTWAIT)
        except zmq.Again:
            pass  # refused already: nobody to send to
        assert not refused.poll(1500), "a stranger was answered"
    assert "was refused: unknown key" in daemon.log(), daemon.log()
    daemon.stop()

    daemon = harness.Daemon("synth:room", "--set", "endpoints.curve_secret_key_file=" + __file__,
                            collect=False)
    daemon.wait(expected_code=1)
    assert "not a CURVE key" in daemon.log(), daemon.log()


harness.run(scenario)
