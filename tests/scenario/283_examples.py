# SPDX-License-Identifier: Apache-2.0
"""The programs of tools/examples, as far as what they need is there, against a running daemon."""
import asyncio
import json
import math
import os
import re
import struct
import signal
import subprocess
import time

import harness
from harness import SOURCE, check, check_at_most, requests

PYTHON = os.environ.get("POSED_PEERS_PYTHON") or SOURCE + "/build/peers-python/bin/python3"
EXAMPLES = SOURCE + "/tools/examples/"
MAX_LINES = 90  # short
N_FRAMES = 6
STOP_MAX_S = 3  # follow_me.MAX_AGE_S is 0.5; this machine may be busy
AWAIT_S = 60


def has(module):
    return subprocess.run([PYTHON, "-c", "import " + module], capture_output=True).returncode == 0


def run(name, *arguments):
    done = subprocess.run([PYTHON, EXAMPLES + name, *arguments], capture_output=True, text=True,
                          timeout=harness.PATIENCE_S)
    check(done.returncode == 0, f"{name}: {done.stdout}{done.stderr}")
    return done.stdout


def check_rerun(daemon):
    path = harness.SCRATCH + "/view.rrd"
    run("rerun_view.py", daemon.folder, "--save", path, "--frames", str(N_FRAMES))
    done = subprocess.run([os.path.dirname(PYTHON) + "/rerun", "rrd", "print", path],
                          capture_output=True, text=True, timeout=harness.PATIENCE_S)
    rows = {}
    for n, entity, columns in re.findall(r"with (\d+) rows .* - (/\S+) - .*columns: \[(.*)\]",
                                         done.stdout):
        for column in columns.split():
            rows[entity, column] = rows.get((entity, column), 0) + int(n)
    check(rows.get(("/odom/camera", "Transform3D:translation")) == N_FRAMES, f"{rows}")
    check(rows.get(("/odom/path", "LineStrips3D:strips")) == N_FRAMES, f"{rows}")
    check(rows.get(("/odom/camera", "Pinhole:image_from_camera"), 0) >= 1, f"{rows}")
    check(rows.get(("/odom/camera/depth", "DepthImage:buffer"), 0) >= 1, f"{rows}")


async def first_scene(url):
    import websockets
    async with websockets.connect(url, subprotocols=["foxglove.sdk.v1"], max_size=None) as client:
        while True:
            said = await asyncio.wait_for(client.recv(), harness.PATIENCE_S)
            if isinstance(said, bytes) and said[0] == 1:
                return struct.unpack("<I", said[1:5])[0], said[13:]
            said = json.loads(said) if isinstance(said, str) else {}
            for channel in said.get("channels", ()):
                check(channel["topic"] == "/path", f"{channel}")
                await client.send(json.dumps({"op": "subscribe", "subscriptions": [
                    {"id": 7, "channelId": channel["id"]}]}))


def check_foxglove(daemon):
    command = [PYTHON, EXAMPLES + "foxglove_path.py", daemon.folder, "--port", "0"]
    program = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        url = program.stdout.readline().strip()
        subscription, scene = asyncio.run(first_scene(url))
        check(subscription == 7 and b"path" in scene and b"odom" in scene, f"{scene[:80]}")
    finally:
        program.kill()
        program.communicate()


def read_command(line):
    """Whether it moves, and why not."""
    said = re.fullmatch(r"([+-]\d\.\d\d) m/s ([+-]\d\.\d\d) rad/s ?(.*)", line.strip())
    check(said, f"follow_me.py: {line}")
    return bool(float(said[1]) or float(said[2])), said[3]


# What ros2_node.py wants of ROS 2, as far as it goes: what is published is printed.
ROS_STAND_INS = {
    "rclpy/__init__.py": "import time\ndef init(): pass\ndef try_shutdown(): pass\n"
                         "def spin(node): time.sleep(60)\n",
    "rclpy/node.py": """
import json
class Publisher:
    def publish(self, message):
        if not hasattr(message, "data"):
            print(json.dumps([message.header.frame_id, message.header.stamp.sec,
                              message.header.stamp.nanosec, vars(message.pose.position),
                              vars(message.pose.orientation)]), flush=True)
class Node:
    def __init__(self, name): pass
    def create_publisher(self, kind, name, depth): return Publisher()
    def destroy_node(self): pass
""",
    "geometry_msgs/msg.py": """
from types import SimpleNamespace as N
def PoseStamped():
    return N(header=N(stamp=N()), pose=N(position=N(), orientation=N()))
""",
    "std_msgs/msg.py": "from types import SimpleNamespace\n"
                       "def Bool(data): return SimpleNamespace(data=data)\n",
}


def check_ros2_node(daemon):
    """`odom` has ROS's axes, as the daemon's own: z is the camera's -y."""
    for name, text in ROS_STAND_INS.items():
        path = f"{harness.SCRATCH}/stand_ins/{name}"
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w") as file:
            file.write(text)
    node = subprocess.Popen([PYTHON, EXAMPLES + "ros2_node.py", daemon.folder], text=True,
                            stdout=subprocess.PIPE, env={**os.environ, "PYTHONPATH":
                                                         harness.SCRATCH + "/stand_ins"})
    try:
        said = [json.loads(node.stdout.readline()) for _ in range(N_FRAMES)]
    finally:
        node.kill()
        node.wait()
    newest = said[-1][1] * 10**9 + said[-1][2]
    daemon.wait_for(lambda: any(stamp_ns(pose) == newest for pose in list(daemon.poses)), "poses")
    poses = {stamp_ns(pose): pose.pose for pose in list(daemon.poses)}
    for frame, sec, nanosec, p, q in said:
        pose = poses[sec * 10**9 + nanosec]
        of, turn = pose.position, pose.orientation
        wanted = [of.z, -of.x, -of.y, turn.z, -turn.x, -turn.y, turn.w]
        got = [p["x"], p["y"], p["z"], q["x"], q["y"], q["z"], q["w"]]
        check(frame == "odom", frame)
        check(max(abs(a - b) for a, b in zip(got, wanted, strict=True)) < 1e-9, f"{got} {wanted}")


def stamp_ns(message):
    return message.timestamp.seconds * 10**9 + message.timestamp.nanos


def check_stops(daemon):
    """Who follows stands still soon after poses stop, the daemon hangs, or what the camera shows is
    frozen; and goes on afterwards."""
    program = subprocess.Popen([PYTHON, EXAMPLES + "follow_me.py", daemon.folder],
                               stdout=subprocess.PIPE, text=True)

    def await_move(moves, text, why=""):
        end = time.monotonic() + AWAIT_S
        for line in iter(program.stdout.readline, ""):
            check(time.monotonic() < end, f"not within {AWAIT_S} s: {text} {why}")
            said = read_command(line)
            if said[0] == moves and why in said[1]:
                return
        check(False, text)

    def stands(why):
        began = time.monotonic()
        await_move(False, "stands still", why)
        check_at_most(time.monotonic() - began, STOP_MAX_S, f"{why}: stands still after [s]")

    def replay(action):
        daemon.request(replay=requests.Replay(action=action))

    try:
        await_move(True, "moves")
        replay(requests.Replay.PAUSE)
        stands("poses or images stand still")
        replay(requests.Replay.RESUME)
        await_move(True, "moves again")
        daemon.process.send_signal(signal.SIGSTOP)
        stands("no answer")
        daemon.process.send_signal(signal.SIGCONT)
        await_move(True, "moves once more")
    finally:
        daemon.process.send_signal(signal.SIGCONT)
        program.kill()
        program.communicate()


def check_frozen():
    """A camera that repeats its last image, and one that sees nothing."""
    folder = harness.SCRATCH + "/frozen"
    subprocess.run([harness.BINARY + "/bin/posed-synth", "room", folder, "--frames", "1"],
                   check=True, stdout=subprocess.DEVNULL)
    with open(folder + "/depth.txt", "w") as file:
        file.writelines(f"{i / 30:.9f} depth/000000.png\n" for i in range(300))
    daemon = harness.Daemon("tum:" + folder, "--loop", speed=0.5)
    daemon.wait_for(lambda: len(daemon.poses) > 3, "poses")
    lines = run("follow_me.py", daemon.folder, "--steps", "15").splitlines()[:-1]
    check(not any(read_command(line)[0] for line in lines), f"frozen: {lines}")
    check(any("poses or images stand still" in line for line in lines), f"frozen: {lines}")
    daemon.stop()
    daemon = harness.Daemon("synth:nothing", "--loop", speed=0.5)
    daemon.wait_for(lambda: daemon.poses and harness.state_name(daemon.poses[-1]) == "LOST", "LOST")
    lines = run("follow_me.py", daemon.folder, "--steps", "4").splitlines()[:-1]
    check(not any(read_command(line)[0] for line in lines), f"LOST: {lines}")
    check(any("LOST" in line for line in lines), f"LOST: {lines}")
    daemon.stop()


def check_follow(daemon):
    """What it decides follows from what it sees; without a daemon it stands still."""
    lines = run("follow_me.py", daemon.folder, "--steps", str(N_FRAMES)).splitlines()
    check(len(lines) == N_FRAMES + 1 and not read_command(lines[0])[0], f"{lines}")
    check(read_command(lines[-1]) == (False, "end"), f"{lines}")
    check(any(read_command(line)[0] for line in lines), f"it never moves: {lines}")
    code = """
import sys
sys.path.insert(0, sys.argv[1])
import follow_me
for target in ((3, .2), (1, 0), (.4, -.2), None):
    print(*follow_me.command(target, 1))
"""
    done = subprocess.run([PYTHON, "-c", code, EXAMPLES], capture_output=True, text=True,
                          check=True)
    far, there, near, none = [tuple(map(float, line.split())) for line in done.stdout.splitlines()]
    check(far == (0.5, 0.3) or math.dist(far, (0.5, 0.3)) < 1e-9, f"{far}")
    check(there == (0, 0) == none and near[0] < 0 and near[1] < 0, f"{there} {near} {none}")
    still = run("follow_me.py", "/nowhere", "--steps", "1").splitlines()
    check(read_command(still[0])[0] is False and "/nowhere" in still[0], f"{still}")


def check_sources():
    names = sorted(name for name in os.listdir(EXAMPLES) if name.endswith(".py"))
    with open(EXAMPLES + "README.md", encoding="utf-8") as file:
        told = set(re.findall(r"`(\w+\.py)`", file.read()))
    check(set(names) == told, f"README.md tells of {told}, there are {names}")
    for name in names:
        with open(EXAMPLES + name, encoding="utf-8") as file:
            source = file.read()
        check(source.count("\n") <= MAX_LINES, f"{name} is long")
        compile(source, name, "exec")


def scenario():
    check_sources()
    if not os.path.exists(PYTHON) or not has("posed"):
        harness.skip(f"no {PYTHON} with the package posed (tools/test installs it there)")
    daemon = harness.Daemon("synth:room", "--loop", speed=0.5)
    daemon.wait_for(lambda: len(daemon.poses) > 3, "poses")
    check_follow(daemon)
    check_ros2_node(daemon)
    check_stops(daemon)
    check_frozen()
    if has("rerun"):
        check_rerun(daemon)
    else:
        print("SKIP: no rerun-sdk from PyPI: rerun_view.py is compiled alone")
    if has("foxglove"):
        check_foxglove(daemon)
    else:
        print("SKIP: no foxglove-sdk from PyPI: foxglove_path.py is compiled alone")
    daemon.stop()


harness.run(scenario)
