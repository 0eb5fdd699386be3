# SPDX-License-Identifier: Apache-2.0
"""The client libraries: libposed from C, the package `posed` from Python as pip installed it, plain
and with asyncio, and with CURVE. What they say is what is on the wire."""
import fcntl
import os
import socket
import subprocess
import textwrap
import time

import zmq

import harness
from harness import BINARY, SOURCE, check, requests

PYTHON = os.environ.get("POSED_CLIENT_PYTHON") or SOURCE + "/build/posed-python/bin/python3"
FIRST_POSE_MAX_LINES = 5
F_SETPIPE_SZ = 1031  # of Linux; fcntl has it from Python 3.10 on
SLOW_S, SLOW_MAX_MB = 4, 80  # each frame has 7 MB

FIRST_POSE = """
import posed

with posed.connect() as camera:
    for pose in camera:
        print(pose.seq, pose.state.name, *pose.position, flush=True)
"""

EVERYTHING = """
import asyncio
import numpy as np
import posed, posed.aio
from posed.client import cloud_array, image_array

with posed.connect() as client:
    newest = client.latest()
    poses = client.poses()
    few = [next(poses) for _ in range(5)]
    assert [pose.seq for pose in few] == list(range(few[0].seq, few[0].seq + 5)), few
    pose = few[-1]
    assert newest.seq <= pose.seq and pose.state.usable and not pose.reason
    assert np.allclose(pose.matrix[:3, :3] @ pose.matrix[:3, :3].T, np.eye(3), atol=1e-12)
    assert pose.covariance.shape == (6, 6) and pose.covariance[0, 0] > 0
    again = client.pose_at(pose.time_ns)
    assert again.seq == pose.seq and (again.position == pose.position).all(), (again, pose)
    depth, cloud = client.depth(), client.cloud(normals=True)
    assert depth.depth.shape == (480, 640) and not depth.depth.flags.owndata
    assert 0.3 < np.nanmedian(depth.metres) < 9 and cloud.normals.shape == cloud.points.shape
    seen = {}
    for topic, message in client.subscribe("depth", "normals", "residual", "cloud", "status"):
        seen[topic] = message
        if len(seen) == 5:
            break
    assert image_array(seen["depth"]).shape == (480, 640)
    assert image_array(seen["normals"]).shape == (480, 640, 3)
    assert cloud_array(seen["cloud"]).shape[1] == 6
    for wrong, code in ((lambda: client.pose_at(10**15), "NOT_FOUND"),
                        (lambda: client.request("remove_object", name="a/b"), "NOT_FOUND")):
        try:
            wrong()
            raise SystemExit("no error")
        except posed.RequestError as error:
            assert error.code == code and error.field and error.message, error
    try:
        client.pose_at(pose.time_s)
        raise SystemExit("seconds have lost the frame's time")
    except TypeError as error:
        assert "time_ns" in str(error)

async def all_at_once():
    async with posed.aio.connect() as client:
        status, depth, pose = await asyncio.gather(client.status(), client.depth(),
                                                   client.pose_at(few[-1].time_ns))
        assert status.captured_frames > 5 and depth.depth.size and pose.seq >= few[-1].seq - 1
        count = 0
        async for pose in client.poses():
            count += 1
            if count == 3:
                return

asyncio.run(all_at_once())
print("well")
"""

# What a program gives wrongly, and what it hears of a quiet topic; no daemon is at sys.argv[1].
WRONG = """
import asyncio, os, sys, tempfile
import posed, posed.aio

def refused(kind, words, what):
    try:
        what()
    except kind as error:
        assert all(word in str(error) for word in words.split()), error
    else:
        raise SystemExit(f"no {kind.__name__}: {words}")

def asked(error, words, **fields):
    refused(error, words, lambda: client.request(**fields))
    refused(error, words, lambda: asyncio.run(aio_client.request(**fields)))

with tempfile.NamedTemporaryFile("w", suffix=".secret") as key:
    for connect in (posed.connect, posed.aio.connect):
        for kind, words, where, given in (
                (TypeError, "where 5", 5, {}), (ValueError, "where udp://a", "udp://a:1", {}),
                (TypeError, "timeout_s 'a'", None, {"timeout_s": "a"}),
                (ValueError, "timeout_s -1", None, {"timeout_s": -1}),
                (ValueError, "timeout_s nan", None, {"timeout_s": float("nan")}),
                (TypeError, "camera 5", None, {"camera": 5}),
                (ValueError, "key_file server_key", None, {"key_file": key.name}),
                (ValueError, "key_file no CURVE", None,
                 {"key_file": key.name, "server_key": "k" * 40}),
                (ValueError, "server_key 40", None, {"server_key": "short"})):
            refused(kind, words, lambda: connect(where, **given))
client, aio_client = posed.connect(sys.argv[1]), posed.aio.connect(sys.argv[1])
asked(ValueError, "reset 'keep' keep_pose", kind="reset", keep=True)
asked(ValueError, "set_keyframe it has none", kind="set_keyframe", a=1)
asked(TypeError, "reset.keep_pose", kind="reset", keep_pose="yes")
asked(ValueError, "get_depth.seq", kind="get_depth", seq=-1)
asked(TypeError, "get_pose.time", kind="get_pose", time=5)
asked(ValueError, "timeout_s -1", kind="ping", timeout_s=-1)
asked(TypeError, "timeout_s", kind="ping", timeout_s="a")
asked(ValueError, "no request 'pin'", kind="pin")
refused(TypeError, "topic 5", lambda: client.subscribe(5))
refused(ValueError, "timeout_s -1", lambda: client.poses(timeout_s=-1))
client.close()
aio_client.close()
asked(ValueError, "closed", kind="ping")
for what in (client.status, client.latest, client.poses, lambda: client.subscribe("log"),
             lambda: asyncio.run(aio_client.latest())):
    refused(ValueError, "closed", what)
print("well")
"""

# Faster than poses come, the newest one comes again, whole; a quiet topic is told as such.
AGAIN = """
import asyncio, sys
import numpy as np
import posed, posed.aio

N_CALLS = 500

def compare(poses):
    seen = {}
    for pose in poses:
        assert np.isfinite(pose.covariance).all() and pose.message.session, pose
        assert seen.setdefault(pose.seq, pose).message == pose.message, pose
    assert list(seen) == sorted(seen) and len(seen) < N_CALLS, seen.keys()

def quiet(error):
    assert isinstance(error, posed.NoAnswer) and error.listens, error
    assert "no message of topic log, imu came in 0.2 s" in str(error), error

async def aio():
    async with posed.aio.connect(sys.argv[1], timeout_s=20) as client:
        compare([await client.latest() for _ in range(N_CALLS)])
        await asyncio.gather(client.latest(), client.latest())
        try:
            await client.subscribe("log", "imu", timeout_s=0.2).__anext__()
        except posed.Error as error:
            quiet(error)

with posed.connect(sys.argv[1], timeout_s=20) as client:
    compare([client.latest() for _ in range(N_CALLS)])
    try:
        next(client.subscribe("log", "imu", timeout_s=0.2))
    except posed.Error as error:
        quiet(error)
asyncio.run(aio())
print("well")
"""

# Before there is a daemon, then with one that has just started.
UNANSWERED = """
import asyncio
import posed, posed.aio

import logging, threading
said = []
logging.getLogger("posed").addFilter(lambda record: said.append(record.getMessage()))

async def listen():
    async with posed.aio.connect(where) as client:
        async for _ in client.poses():
            pass

def wait_for_all():
    with posed.connect(where) as client:
        next(client.poses())

where = input()
threading.Thread(target=wait_for_all, daemon=True).start()
try:
    asyncio.run(asyncio.wait_for(listen(), 8))
except asyncio.TimeoutError:
    pass
assert len(said) == 2 and all("othing listens" in s and where in s for s in said), said
plain = posed.connect(where, timeout_s=0.1)
client = posed.aio.connect(where, timeout_s=0.1)
for ask in (lambda: plain.request("reset"), lambda: asyncio.run(client.request("reset"))):
    try:
        ask()
    except TimeoutError as error:
        assert isinstance(error, posed.NoAnswer) and error.endpoint in str(error), error
        assert "othing listens there: start one" in str(error), error
print("asked", flush=True)
input()
plain.timeout_s = 20
status = plain.status()
assert status.map_epoch == 0, "a reset that nobody had answered"
print("well")
"""

# What a program may do while it waits, on a daemon with real time stamps.
ENDS = """
import asyncio, gc, sys
import posed, posed.aio

SLOW_S = 20
where = sys.argv[1]

def sockets(client):
    gc.collect()
    return sum(not socket.closed for socket in client._context._sockets)

with posed.connect(where, timeout_s=SLOW_S) as client:
    client.request("start_recording", name="one", format="klg")
    for i in range(30):
        pose = client.latest()
        if pose.state.usable:
            again = client.pose_at(pose.time_ns)
            assert pose.time_ns > 10**18 and again.seq == pose.seq, (pose, again)
    poses = client.poses(timeout_s=1e-6)
    try:
        while True:
            next(poses)
    except TimeoutError as error:
        assert isinstance(error, posed.NoAnswer)
    poses._timeout_s = SLOW_S
    assert next(poses).seq > 0
    poses.close()
    assert list(poses) == []
    recording = client.stop_recording()
    assert not recording.active and recording.frames > 0, recording
    with open(sys.argv[2] + "/one.klg", "rb") as file:
        n_frames = int.from_bytes(file.read(4), "little")
        assert n_frames == recording.frames, (n_frames, recording)
    try:
        client.stop_recording()
        raise SystemExit("nothing was recorded")
    except posed.RequestError as error:
        assert error.code == "FAILED_PRECONDITION", error
    was = sockets(client)
    for pose in client:
        break
    assert sockets(client) == was

async def aio():
    async with posed.aio.connect(where, timeout_s=SLOW_S) as client:
        assert (await client.latest()).seq > 0
        poses = client.poses()
        for patience_s in (1e-4, 1e-3, 1e-2):  # given up at any moment
            try:
                await asyncio.wait_for(poses.__anext__(), patience_s)
            except asyncio.TimeoutError:
                pass
        first, second = await asyncio.gather(poses.__anext__(), poses.__anext__())
        assert first.seq != second.seq
        task = asyncio.ensure_future(client.request("get_depth"))
        await asyncio.sleep(0)
        task.cancel()
        assert await client.status()
        poses.close()
        was = sockets(client)
        async for pose in client.poses():
            break
        async for topic, message in client.subscribe("pose", "depth"):
            if topic == "depth":
                break
        assert sockets(client) == was == 1, (sockets(client), was)  # that of latest()
        try:
            async for pose in client.poses(timeout_s=1e-6):
                pass
        except TimeoutError as error:
            assert isinstance(error, posed.NoAnswer)
        left = asyncio.ensure_future(client.poses().__anext__())
        await asyncio.sleep(0.01)
        while left.done():  # a pose came meanwhile
            left = asyncio.ensure_future(client.poses().__anext__())
            await asyncio.sleep(0.01)
    try:  # closed under a task
        await asyncio.wait_for(left, 5)
        raise SystemExit("a pose without a client")
    except (asyncio.CancelledError, StopAsyncIteration):
        pass

asyncio.run(aio())
print("well")
"""

CAMERAS = """
import asyncio, sys
import posed, posed.aio

where = sys.argv[1]

def refused(what):
    try:
        what()
    except posed.RequestError as error:
        assert (error.code, error.field) == ("NOT_FOUND", "camera"), error
        assert 'no camera "top": there are left, right' == error.message, error
    else:
        raise SystemExit("no error")

async def first(items):
    async for item in items:
        return item

with posed.connect(where, timeout_s=20, camera="right") as client:
    assert client.status().camera == "right" and client.status(camera="left").camera == "left"
    pose = client.latest()
    assert client.pose_at(pose.time_ns).seq == pose.seq
    topics = {next(client.subscribe("pose", "depth"))[0] for _ in range(5)}
    assert topics <= {"pose/right", "depth/right"}, topics
    assert next(client.poses()).message.frame_id == "right/odom"
    assert next(client.poses("left")).message.frame_id == "left/odom"
    assert client.depth().depth.size and client.cloud(camera="left").points.size
    for what in (lambda: client.status(camera="top"), lambda: client.latest("top"),
                 lambda: next(client.poses("top")), lambda: next(client.subscribe("depth/top"))):
        refused(what)

async def aio():
    async with posed.aio.connect(where, timeout_s=20, camera="right") as client:
        assert (await client.status()).camera == "right"
        assert (await first(client.poses())).message.frame_id == "right/odom"
        return await first(client.poses("top"))

refused(lambda: asyncio.run(aio()))
print("well")
"""

# A subscriber that does nothing: what waits for it is little.
SLOW = """
import asyncio, sys, time
import posed, posed.aio

def read_bytes():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * 4096

client = posed.connect(sys.argv[1])
images = client.subscribe("depth", "normals", "cloud")
next(images)
async def first():
    async for item in posed.aio.connect(sys.argv[1]).subscribe("depth", "normals", "cloud"):
        was = read_bytes()
        await asyncio.sleep(0)
        time.sleep(float(sys.argv[2]))
        return read_bytes() - was

print(asyncio.run(first()))
"""


def check_c(daemon, *arguments):
    done = subprocess.run([BINARY + "/tests/client_program", *arguments], capture_output=True,
                          text=True, timeout=harness.PATIENCE_S)
    lines = done.stdout.splitlines()
    check(done.returncode == 0 and lines[-1] == "done", f"C: {done.stdout}{done.stderr}")
    for wanted in ("past 1 1", "future -2", "newest 1", "no topic -22", "pong 1"):
        check(wanted in lines, f"C: {wanted} not in {lines}")
    by_seq = {pose.seq: pose for pose in daemon.poses}
    seqs = []
    for line in lines[:10]:
        word, seq, state, *numbers = line.split()
        pose = by_seq[int(seq)]
        p, q = pose.pose.position, pose.pose.orientation
        check(word == "next" and int(state) == pose.state, line)
        check(tuple(map(float, numbers)) == (p.x, p.y, p.z, q.x, q.y, q.z, q.w), line)
        seqs.append(int(seq))
    check(seqs == list(range(seqs[0], seqs[0] + 10)), f"C: {seqs}")


def check_python(daemon):
    lines = [line for line in FIRST_POSE.strip().splitlines() if line.strip()]
    check(len(lines) <= FIRST_POSE_MAX_LINES, "the first pose takes more lines")
    environment = {**os.environ, "POSED_HOST": daemon.folder}
    program = subprocess.Popen([PYTHON, "-c", FIRST_POSE], stdout=subprocess.PIPE, text=True,
                               env=environment)
    said = [program.stdout.readline().split() for _ in range(3)]
    program.kill()
    program.communicate()
    by_seq = {pose.seq: pose for pose in daemon.poses}
    for seq, state, *position in said:
        pose = by_seq[int(seq)]
        p = pose.pose.position
        check(state == harness.state_name(pose), f"{seq}: {state}")
        check(tuple(map(float, position)) == (p.x, p.y, p.z), f"{seq}: {position}")
    done = subprocess.run([PYTHON, "-c", textwrap.dedent(EVERYTHING)], capture_output=True,
                          text=True, timeout=harness.PATIENCE_S, env=environment)
    check(done.returncode == 0 and done.stdout == "well\n", f"Python: {done.stdout}{done.stderr}")


def run_python(program, *arguments):
    done = subprocess.run([PYTHON, "-c", program, *arguments], capture_output=True, text=True,
                          timeout=harness.PATIENCE_S)
    check(done.returncode == 0, f"Python: {done.stdout}{done.stderr}")
    return done.stdout


def check_unanswered():
    """What nobody has answered is not carried out when a daemon comes."""
    folder = harness.SCRATCH + "/late"
    program = subprocess.Popen([PYTHON, "-c", UNANSWERED], stdin=subprocess.PIPE,
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    program.stdin.write(folder + "\n")
    program.stdin.flush()
    check(program.stdout.readline() == "asked\n", "UNANSWERED")
    daemon = harness.Daemon("synth:room", "--loop", "--run-dir", folder, speed=0.5, collect=False)
    daemon.folder = folder
    daemon.wait_for(lambda: os.path.exists(folder + "/req"), "the sockets")
    daemon.wait_for(lambda: daemon.request(get_status=requests.GetStatus())
                    .get_status.captured_frames > 10, "frames")
    said, wrong = program.communicate("\n", timeout=harness.PATIENCE_S)
    check(said == "well\n", f"Python: {said}{wrong}")
    daemon.stop()


def check_full():
    """Of a daemon that hangs, its queue full, the search says at once that it is there."""
    folder = harness.SCRATCH + "/hangs"
    os.makedirs(folder + "/posed")
    held = [socket.socket(socket.AF_UNIX) for _ in range(8)]
    held[0].bind(folder + "/posed/req")
    held[0].listen(0)
    for one in held[1:]:
        one.setblocking(False)
        one.connect_ex(folder + "/posed/req")
    program = "from posed.address import Address; print(Address().of('pub'))"
    done = subprocess.run([PYTHON, "-c", program], capture_output=True, text=True, timeout=20,
                          env={**os.environ, "XDG_RUNTIME_DIR": folder})
    check(done.stdout == f"ipc://{folder}/posed/pub\n", done)


def stamped_recording():
    """A recording with the time stamps of a camera of today."""
    folder = harness.SCRATCH + "/stamped"
    subprocess.run([BINARY + "/bin/posed-synth", "room", folder, "--frames", "30"], check=True,
                   stdout=subprocess.DEVNULL)
    with open(folder + "/depth.txt") as file:
        names = [line.split()[1] for line in file if not line.startswith("#")]
    with open(folder + "/depth.txt", "w") as file:
        for i, name in enumerate(names):
            second, ns = divmod(1700000000100123457 + i * 33333333, 10**9)
            file.write(f"{second}.{ns:09d} {name}\n")
    return folder


def check_ends():
    folder = harness.SCRATCH + "/recordings"
    daemon = harness.Daemon("tum:" + stamped_recording(), "--loop", "--set",
                            "recorder.folder=" + folder, speed=0.5)
    daemon.wait_for(lambda: len(daemon.poses) > 3, "poses")
    check(run_python(ENDS, daemon.folder, folder) == "well\n", "ENDS")
    daemon.stop()


# What help() needs of all that the package names.
HELP = """
import pydoc
import posed, posed.messages

for module in (posed, posed.messages):
    said = pydoc.plain(pydoc.render_doc(module))
    for name in module.__all__:
        assert name in said, name
assert posed.Status.__module__ == "posed.messages", posed.Status.__module__
print("well")
"""


# WHERE, and the sockets `pub` and `req` that it means.
ADDRESSES = (
    ("127.0.0.1", "tcp://127.0.0.1:5570", "tcp://127.0.0.1:5573"),
    ("tcp://[::1]", "tcp://[::1]:5570", "tcp://[::1]:5573"),
    ("tcp://[::1]:5571", "tcp://[::1]:5570", "tcp://[::1]:5573"),
    ("tcp://127.0.0.1:5572", "tcp://127.0.0.1:5570", "tcp://127.0.0.1:5573"),
    ("tcp://127.0.0.1:9999", "tcp://127.0.0.1:9999", "tcp://127.0.0.1:9999"),
    ("127.0.0.1:5573", "tcp://127.0.0.1:5570", "tcp://127.0.0.1:5573"),
    ("[::1]:5571", "tcp://[::1]:5570", "tcp://[::1]:5573"),
    ("127.0.0.1:9999", "tcp://127.0.0.1:9999", "tcp://127.0.0.1:9999"),
    ("/no/where", "ipc:///no/where/pub", "ipc:///no/where/req"),
    ("ipc:///no/where/img", "ipc:///no/where/pub", "ipc:///no/where/req"),
    ("ipc:///no/where/other", "ipc:///no/where/other", "ipc:///no/where/other"),
)


def check_addresses():
    """One rule for posectl (whose code libposed shares) and for Python."""
    for where, *sockets in ADDRESSES:
        program = f"import posed\na = posed.Address({where!r})\nprint(a.of('pub'), a.of('req'))"
        if os.path.exists(PYTHON):
            said = run_python(program).split()
            check(said == sockets, f"Python, {where}: {said}")
        for command, wanted in zip(("watch", "status"), sockets):
            done = subprocess.run([BINARY + "/bin/posectl", command, "-e", where, "--timeout",
                                   "0.05"], capture_output=True, text=True, check=False,
                                  timeout=harness.PATIENCE_S)
            check(f" at {wanted}" in done.stderr, f"posectl {command}, {where}: {done.stderr}")


def check_cameras():
    path = harness.SCRATCH + "/cameras.conf"
    with open(path, "w") as file:
        for i, name in enumerate(("left", "right")):
            file.write(f"[camera {name}]\nsource = synth:room,seed={i + 1}\nloop = yes\n")
    daemon = harness.Daemon(None, "-c", path, "--set", "gpu.threads=1", "--set",
                            "tracker.iterations=3,3,3", speed=0.3, collect=False)
    daemon.wait_for(lambda: os.path.exists(daemon.folder + "/req"), "the sockets")
    daemon.wait_for(lambda: all(daemon.request(camera=camera, get_status=requests.GetStatus())
                                .get_status.captured_frames > 3 for camera in ("left", "right")),
                    "frames of both")
    check(run_python(CAMERAS, daemon.folder) == "well\n", "CAMERAS")
    daemon.stop()


def check_slow_watch(daemon):
    """What `posectl watch` prints is not read: images do not pile up in it either."""
    program = subprocess.Popen([BINARY + "/bin/posectl", "watch", "depth", "normals", "cloud",
                                "--endpoint", daemon.folder], stdout=subprocess.PIPE)
    fcntl.fcntl(program.stdout, F_SETPIPE_SZ, 4096)
    time.sleep(2 * SLOW_S)
    with open(f"/proc/{program.pid}/statm") as file:
        used = int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    program.kill()
    program.communicate()
    harness.check_at_most(used / 1e6, SLOW_MAX_MB, "posectl watch that nobody reads [MB]")


def check_slow(daemon):
    grown = int(run_python(SLOW, daemon.folder, str(SLOW_S)))
    harness.check_at_most(grown / 1e6, SLOW_MAX_MB, f"images that wait after {SLOW_S} s [MB]")


def check_curve():
    """Both with the daemon's public key over tcp; without it nothing comes."""
    public, secret = zmq.curve_keypair()
    key_file = harness.SCRATCH + "/key"
    with open(key_file, "w", opener=lambda path, flags: os.open(path, flags, 0o600)) as file:
        file.write(secret.decode() + "\n")
    daemon = harness.Daemon("synth:room", "--loop", "--set",
                            "endpoints.curve_secret_key_file=" + key_file, speed=0.5,
                            collect=False)
    daemon.wait_for(lambda: os.path.exists(daemon.folder + "/req"), "the sockets")
    done = subprocess.run([BINARY + "/tests/client_program", daemon.folder, public.decode()],
                          capture_output=True, text=True, timeout=harness.PATIENCE_S)
    check(done.stdout.endswith("done\n"), f"C with CURVE: {done.stdout}{done.stderr}")
    if os.path.exists(PYTHON):
        mine = harness.SCRATCH + "/mine"  # is gone when the sockets are made
        with open(mine, "w", encoding="ascii") as file:
            file.write(zmq.curve_keypair()[1].decode() + "\n")
        program = (f"import os, posed\nclient = posed.connect({daemon.folder!r}, timeout_s=30, "
                   f"server_key={public.decode()!r}, key_file={mine!r})\nos.remove({mine!r})\n"
                   "print(client.status().captured_frames > 0)")
        done = subprocess.run([PYTHON, "-c", program], capture_output=True, text=True,
                              timeout=harness.PATIENCE_S)
        check(done.stdout == "True\n", f"Python with CURVE: {done.stdout}{done.stderr}")
    daemon.stop()


def scenario():
    daemon = harness.Daemon("synth:room", "--loop", speed=0.5)  # any machine keeps pace
    daemon.wait_for(lambda: len(daemon.poses) > 5, "poses")
    check_c(daemon, daemon.folder)
    check_slow_watch(daemon)
    check_addresses()
    if os.path.exists(PYTHON):
        check_python(daemon)
        check_slow(daemon)
        check_unanswered()
        check_full()
        check(run_python(HELP) == "well\n", "HELP")
        check(run_python(WRONG, harness.SCRATCH + "/none") == "well\n", "WRONG")
        check(run_python(AGAIN, daemon.folder) == "well\n", "AGAIN")
        check_ends()
        check_cameras()
    else:
        print(f"SKIP: no {PYTHON} with the package posed (tools/test installs it there)")
    check(daemon.request(get_status=requests.GetStatus()).get_status.lost_frames == 0, "lost")
    daemon.stop()
    check_curve()


harness.run(scenario)
