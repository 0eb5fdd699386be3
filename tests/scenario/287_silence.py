# SPDX-License-Identifier: Apache-2.0
"""posectl where no answer comes says why, as soon as it can be known: nobody listens, something
that is no ZeroMQ, keys that are missing, wrong, not listed or not wanted, another socket, a daemon
that hangs up."""
import os
import socket
import subprocess
import threading
import time

import zmq

import harness
from harness import BINARY, check

AT_ONCE_S = 2.5  # four in turn, 0.1 s on an idle machine
QUICKLY_S = 20  # what a person has set to 500 s, on a busy machine


def ctl(code, *arguments):
    done = subprocess.run([BINARY + "/bin/posectl", *arguments], capture_output=True, text=True,
                          timeout=harness.PATIENCE_S)
    check(done.returncode == code, f"{arguments}: {done}")
    return done.stderr


def keygen(name):
    """Its path, and the public key."""
    path = f"{harness.SCRATCH}/{name}"
    subprocess.run([BINARY + "/bin/posectl", "keygen", path], check=True, stdout=subprocess.DEVNULL)
    with open(path + ".public", encoding="ascii") as file:
        return path, file.read().strip()


def free_ports(n):
    probes = [socket.create_server(("127.0.0.1", 0)) for _ in range(n)]
    ports = [probe.getsockname()[1] for probe in probes]
    for probe in probes:
        probe.close()
    return [f"tcp://127.0.0.1:{port}" for port in ports]


def check_wait():
    """A script that starts a daemon and asks it in the next line; and where none comes."""
    folder = harness.SCRATCH + "/later"
    asks = [subprocess.Popen([BINARY + "/bin/posectl", *what, "--wait", "60", "-e", folder],
                             stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
            for what in (["status"], ["watch", "-n", "1"])]
    ctl(3, "status", "--wait", "0.1", "-e", folder)
    daemon = harness.Daemon("synth:room", "--loop", f"--run-dir={folder}", speed=1, collect=False)
    for ask in asks:
        out, said = ask.communicate(timeout=harness.PATIENCE_S)
        check(ask.returncode == 0 and out, (out, said))
    check("above 0" in ctl(2, "status", "--wait", "0"), "0 s")
    daemon.stop()


def serve(said, closes):
    """The address of a program that is no ZeroMQ; it answers what it hears."""
    listener = socket.create_server(("127.0.0.1", 0))

    def run():
        held = []
        while True:
            peer, _ = listener.accept()
            if said:
                peer.recv(64)
                peer.sendall(said)
            if closes:
                peer.close()
            held.append(peer)

    threading.Thread(target=run, daemon=True).start()
    return f"tcp://127.0.0.1:{listener.getsockname()[1]}"


def check_keys():
    path, key = keygen("daemon")
    friend, friend_key = keygen("friend")
    stranger, stranger_key = keygen("stranger")
    pub, req = free_ports(2)
    daemon = harness.Daemon("synth:room", "--loop", f"--req=ipc {req}", f"--pub=ipc {pub}",
                            "--set", f"endpoints.curve_secret_key_file={path}.secret", "--set",
                            f"endpoints.curve_clients_file={friend}.public", speed=0.2,
                            collect=False)
    daemon.wait_for(lambda: req in daemon.log(), "the daemon listens")
    good = ("--server-key", key, "--key-file", friend + ".secret")
    long = ("--timeout", "500")
    began = time.monotonic()
    ctl(0, "status", "-e", req, *good)
    for code, word, options in (
            (3, "demands CURVE keys: --server-key", ()),
            (3, "has another key than --server-key",
             ("--server-key", friend_key, "--key-file", friend + ".secret")),
            (3, f"add {stranger_key} to its endpoints.curve_clients_file",
             ("--server-key", key, "--key-file", stranger + ".secret")),
            (3, "posectl keygen NAME makes one", ("--server-key", key)),
            (2, "the secret one is in the .secret beside it",
             ("--server-key", key, "--key-file", friend + ".public")),
            (2, "holds no CURVE secret key", ("--server-key", key, "--key-file", __file__)),
            (2, "not a CURVE key", ("--server-key", " " * 40)),
            (2, "the key itself", ("--server-key", path + ".public"))):
        said = ctl(code, "status", "-e", req, *long, *options)
        check(word in said, f"{options}: {said}")
        said = ctl(code, "watch", "-e", pub, *long, *options)
        check(word in said, f"watch, {options}: {said}")
    # The right keys, another socket: with keys and without.
    os.symlink(daemon.folder + "/pub", daemon.folder + "/elsewhere")
    for command, where in (("watch", req), ("status", pub),
                           ("status", f"ipc://{daemon.folder}/elsewhere")):
        said = ctl(3, command, "-e", where, *long, *(good if "tcp" in where else ()))
        name = "pub" if command == "watch" else "req"
        check(f"is not the `{name}` socket" in said, f"{command} {where}: {said}")
    harness.check_at_most(time.monotonic() - began, QUICKLY_S, "all refusals [s]")
    daemon.stop()


def check_others():
    """No posed at all, in front of a client with keys and of one without."""
    context = zmq.Context()
    plain = context.socket(zmq.ROUTER)
    plain_port = plain.bind_to_random_port("tcp://127.0.0.1")
    key, brief = zmq.curve_keypair()[0].decode(), ("--timeout", "0.3")
    for word, where, options in (
            ("no ZeroMQ socket, and begins with \"HTTP/1.1 400\"",
             serve(b"HTTP/1.1 400\r\n\r\n", True), ()),
            ("closes them at once", serve(b"", True), ()),
            ("does not greet as ZeroMQ", serve(b"", False), ()),
            ("does not encrypt", f"tcp://127.0.0.1:{plain_port}", ("--server-key", key)),
            ("no such host", "tcp://no.such.host.invalid", ())):
        for more in {(), options} if not options else {options}:
            said = ctl(3, "status", "-e", where, *brief, *more)
            check(word in said, f"{where} {more}: {said}")
    # One that answers at first, and is gone before it has.
    asking = subprocess.Popen([BINARY + "/bin/posectl", "map", "save", "x", "-e",
                               f"tcp://127.0.0.1:{plain_port}"], stderr=subprocess.PIPE, text=True)
    plain.recv_multipart()
    context.destroy(0)
    said = asking.communicate(timeout=harness.PATIENCE_S)[1]
    check(asking.returncode == 3 and "hung up before it answered" in said, said)


def fill():
    """The path of a socket whose program takes nobody, and whose queue is full."""
    path, held = harness.SCRATCH + "/posed/req", [socket.socket(socket.AF_UNIX)]
    os.mkdir(harness.SCRATCH + "/posed")
    held[0].bind(path)
    held[0].listen(0)
    try:
        while len(held) < 100:
            held.append(socket.socket(socket.AF_UNIX))
            held[-1].setblocking(False)
            held[-1].connect(path)
    except BlockingIOError:
        pass
    return path, held


def check_nobody():
    """A request is told at once that nobody listens; a subscription may come before its daemon, and
    has 3 s, not what an answer may take."""
    nobody = free_ports(1)[0]
    waiting = subprocess.Popen([BINARY + "/bin/posectl", "watch", "-e", nobody, "--timeout", "500"],
                               stderr=subprocess.PIPE, text=True)
    left = harness.SCRATCH + "/left"  # a socket whose daemon was killed
    socket.socket(socket.AF_UNIX).bind(left)
    began = time.monotonic()
    for where, reason in ((nobody, "refused"), (f"ipc://{left}", "refused"),
                          (harness.SCRATCH + "/nobody", "No such file")):
        said = ctl(3, "object", "list", "-e", where, "--timeout", "500")
        check("no posed at" in said and reason in said and "Start one" in said, said)
    check("Not a directory" in ctl(3, "status", "-e", left + "/req"), "a file for a run directory")
    harness.check_at_most(time.monotonic() - began, AT_ONCE_S, "nobody listens [s]")
    return waiting, began


def scenario():
    waiting, began = check_nobody()
    full, _held = fill()
    # By its name, and where it is looked for: nobody is asked over tcp instead.
    began_hung = time.monotonic()
    for options in (("-e", "ipc://" + full), ()):
        hung = subprocess.run([BINARY + "/bin/posectl", "status", *options, "--timeout", "0.3"],
                              stderr=subprocess.PIPE, text=True, timeout=harness.PATIENCE_S,
                              env={**os.environ, "XDG_RUNTIME_DIR": harness.SCRATCH})
        check(hung.returncode == 3 and "/posed/req takes no more connections" in hung.stderr, hung)
    harness.check_at_most(time.monotonic() - began_hung, 4, "two daemons that hang [s]")
    check_wait()
    check_keys()
    check_others()
    said = waiting.communicate(timeout=harness.PATIENCE_S)[1]
    check(waiting.returncode == 3 and "no posed at" in said and "refused" in said, said)
    harness.check_at_most(time.monotonic() - began, 60, "nobody listens [s]")


harness.run(scenario)
