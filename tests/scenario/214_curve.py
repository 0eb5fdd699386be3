# SPDX-License-Identifier: Apache-2.0
"""CURVE, against libzmq's side of it: with a key file a listed client gets poses, images and
answers over TCP and ipc, any other gets nothing; ipc without encryption is for whom its file lets
in. A key that others can read is refused unless the configuration says otherwise, and then the log
says so."""
import os
import shutil
import signal
import socket
import subprocess

import zmq

import harness
from harness import MAGIC, messages, requests


def connect(daemon, kind, name, server_key=None, keys=None, port=None):
    options = {"rcvtimeo": 20000, "sndtimeo": 20000, "linger": 0}
    if keys:
        options |= {"curve_serverkey": server_key, "curve_publickey": keys[0],
                    "curve_secretkey": keys[1]}
    if port is None:
        return daemon.socket(kind, name, **options)
    made = daemon.context.socket(kind)
    for option, value in options.items():
        setattr(made, option, value)
    made.connect(f"tcp://127.0.0.1:{port}")
    return made


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def write(name, text):
    path = harness.SCRATCH + "/" + name
    with open(path, "w", encoding="ascii") as file:
        file.write(text)
    os.chmod(path, 0o600)
    return path


def check_keygen():
    """Keys that posectl made: a daemon that knows one client, and that client over TCP."""
    keys = {}
    for name in ("daemon", "client"):
        path = harness.SCRATCH + "/" + name
        done = subprocess.run([harness.BINARY + "/bin/posectl", "keygen", path],
                              capture_output=True, text=True, timeout=60)
        assert done.returncode == 0, done
        assert os.stat(path + ".secret").st_mode & 0o777 == 0o600, "who may read the secret key"
        again = subprocess.run([harness.BINARY + "/bin/posectl", "keygen", path],
                               capture_output=True, text=True, timeout=60)
        assert again.returncode == 1 and "exists" in again.stderr, again
        with open(path + ".public", encoding="ascii") as file:
            keys[name] = file.read().strip()
        assert keys[name] in done.stdout
    port = free_port()
    daemon = harness.Daemon(
        "synth:room", "--loop", f"--req=tcp://127.0.0.1:{port}", "--set",
        f"endpoints.curve_secret_key_file={harness.SCRATCH}/daemon.secret", "--set",
        f"endpoints.curve_clients_file={harness.SCRATCH}/client.public", speed=1, collect=False)
    daemon.wait_for(lambda: "req: tcp" in daemon.log(), "the daemon listens")
    # The list is read again: who is new may connect, a broken one changes nothing, and who is taken
    # out is hung up on.
    listed = harness.SCRATCH + "/client.public"
    stranger = zmq.curve_keypair()
    write("stranger.secret", stranger[1].decode())

    def reload(text, said):
        with open(listed, "w", encoding="ascii") as file:
            file.write(text)
        daemon.process.send_signal(signal.SIGHUP)
        daemon.wait_for(lambda: said in daemon.log(), said)

    def asks(code, name):
        key_file = ["--key-file", f"{harness.SCRATCH}/{name}.secret"] if name else []
        done = subprocess.run([harness.BINARY + "/bin/posectl", "status", "-e",
                               f"tcp://127.0.0.1:{port}", "--timeout", "3", "--server-key",
                               keys["daemon"], *key_file],
                              capture_output=True, text=True, timeout=60)
        assert done.returncode == code, (name, done)

    asks(0, "client")
    asks(3, None)
    both = keys["client"] + "\n" + stranger[0].decode() + "\n"
    reload(both, "client.public read again: 2 clients may connect, 1 new; 0 no longer")
    asks(0, "client")
    asks(0, "stranger")
    reload(both + "nonsense\n", "client.public:3: not a CURVE key")
    asks(0, "stranger")
    held = connect(daemon, zmq.DEALER, "req", keys["daemon"].encode(), stranger, port)
    ping = MAGIC + requests.Request(id=1, ping=requests.Ping()).SerializeToString()
    held.send(ping)
    assert held.poll(20000), "a client of the list is not answered"
    held.recv()
    watching = subprocess.Popen([harness.BINARY + "/bin/posectl", "watch", "-e", daemon.folder,
                                 "--server-key", keys["daemon"], "--key-file",
                                 harness.SCRATCH + "/stranger.secret"],
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert watching.stdout.readline(), "a client of the list sees no pose"
    reload(keys["client"], "1 client may connect, 0 new; 1 no longer")
    gone = f"its public key {stranger[0].decode()} is no longer in "
    daemon.wait_for(lambda: gone in daemon.log(), "who was taken out is hung up on")
    said = watching.communicate(timeout=60)[1]
    assert watching.returncode == 3 and "does not know this client's key" in said, said
    asks(3, "stranger")
    asks(0, "client")
    # Nobody listed, and another key of its own.
    reload("", "client.public lists no key")
    asks(3, "client")
    shutil.copy(harness.SCRATCH + "/client.secret", harness.SCRATCH + "/daemon.secret")
    reload(both, "daemon.secret holds another key: it needs a restart")
    daemon.wait_for(lambda: "2 clients may connect, 2 new" in daemon.log(), "the list all the same")
    asks(0, "client")
    asks(0, "stranger")
    daemon.stop()


def scenario():
    if not zmq.has("curve"):
        harness.skip("this libzmq has no CURVE")
    server_public, server_secret = zmq.curve_keypair()
    friend, stranger = zmq.curve_keypair(), zmq.curve_keypair()
    secret_file = write("secret", server_secret.decode() + "\n")
    clients_file = write("clients", "# friends\n" + friend[0].decode() + "\n")
    friend_file = write("friend", friend[1].decode() + "\n")
    ports = {name: free_port() for name in ("pub", "img", "req")}
    tcp = [f"--{name}=ipc tcp://127.0.0.1:{port}" for name, port in ports.items()]
    daemon = harness.Daemon("synth:room", "--loop", *tcp, "--set", "tracker.iterations=3,3,3",
                            "--set", "endpoints.curve_secret_key_file=" + secret_file, "--set",
                            "endpoints.curve_clients_file=" + clients_file, speed=1, collect=False)
    ping = MAGIC + requests.Request(id=1, ping=requests.Ping()).SerializeToString()
    for keys, tcp_ports in (((server_public, friend), ports), ((server_public, friend), {}),
                            ((), {})):
        stream = connect(daemon, zmq.SUB, "pub", *keys, port=tcp_ports.get("pub"))
        stream.subscribe("pose")
        for _ in range(3):
            assert stream.recv_multipart()[0] == b"pose"
        # Large messages, and of each kind of length: images of 0.6 and 7.4 MB.
        images = connect(daemon, zmq.SUB, "img", *keys, port=tcp_ports.get("img"))
        images.subscribe("depth")
        images.subscribe("cloud")
        sizes = {}
        while len(sizes) < 2:
            topic, data = images.recv_multipart()
            sizes[topic] = len(data)
            kind = messages.RawImage if topic == b"depth" else messages.PointCloud
            assert len(kind.FromString(data).data) > 300000, sizes
        client = connect(daemon, zmq.DEALER, "req", *keys, port=tcp_ports.get("req"))
        for _ in range(3):
            client.send(ping)
            assert requests.Reply.FromString(client.recv()[len(MAGIC):]).id == 1
        asking = connect(daemon, zmq.REQ, "req", *keys, port=tcp_ports.get("req"))
        asking.send(ping)
        assert requests.Reply.FromString(asking.recv()[len(MAGIC):]).id == 1
        for made in (stream, images, client, asking):
            made.close()
    assert server_public.decode() in daemon.log()
    done = subprocess.run([harness.BINARY + "/bin/posectl", "status", "--endpoint", daemon.folder,
                           "--server-key", server_public.decode(), "--key-file", friend_file],
                          capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr

    # A stranger, one who takes the daemon for another, and one who does not encrypt at all. Their
    # libraries connect again and again; the log says of each once what is to be done.
    wrong_server = zmq.curve_keypair()[0]
    unlisted = f"its public key {stranger[0].decode()} is not in {clients_file}"
    needs = f"it needs --server-key '{server_public.decode()}'"
    refusals = ((connect(daemon, zmq.DEALER, "req", server_public, stranger),
                 f"a client at uid {os.getuid()} was refused: {unlisted}"),
                (connect(daemon, zmq.DEALER, "req", server_public, stranger, ports["req"]),
                 f"a client at 127.0.0.1 was refused: {unlisted}"),
                (connect(daemon, zmq.DEALER, "req", wrong_server, friend, ports["req"]),
                 "it takes this posed for one with another key: " + needs),
                (connect(daemon, zmq.DEALER, "req", port=ports["req"]),
                 "it does not encrypt: " + needs))
    for refused, why in refusals:
        try:
            refused.send(ping, zmq.DONTWAIT)
        except zmq.Again:
            pass  # refused already: nobody to send to
        daemon.wait_for(lambda said=why: said in daemon.log(), why)
    for refused, why in refusals:
        assert not refused.poll(200), "a stranger was answered"
        assert daemon.log().count(why) == 1, daemon.log()
        refused.close()
    daemon.stop()

    check_keygen()
    text_file = write("text", "this is no key at all, but a text\n")
    for path, mode, options, said in (
            (text_file, 0o600, (), "not a CURVE key"),
            (secret_file, 0o640, (), "others can read"),
            (secret_file, 0o604, (), "others can read"),
            (secret_file, 0o640, ("--set", "endpoints.insecure=true"), None)):
        os.chmod(path, mode)
        daemon = harness.Daemon("synth:room", "--frames", "2", "--set",
                                "endpoints.curve_secret_key_file=" + path, *options, collect=False)
        daemon.wait(expected_code=3 if said else 0)
        log = daemon.log()
        assert (said or "endpoints.insecure = true: ") in log, log


harness.run(scenario)
