# SPDX-License-Identifier: Apache-2.0
"""The client libraries: libposed from C, the package `posed` from Python as pip installed it, plain
and with asyncio, and with CURVE. What they say is what is on the wire."""
import os
import subprocess
import textwrap

import zmq

import harness
from harness import BINARY, SOURCE, check, requests

PYTHON = os.environ.get("POSED_CLIENT_PYTHON") or SOURCE + "/build/posed-python/bin/python3"
FIRST_POSE_MAX_LINES = 5

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
    again = client.pose_at(pose.time_s)
    assert np.allclose(again.position, pose.position), (again, pose)
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
    for wrong, code in ((lambda: client.pose_at(1e6), "NOT_FOUND"),
                        (lambda: client.request("remove_object", name="a/b"), "NOT_FOUND")):
        try:
            wrong()
            raise SystemExit("no error")
        except posed.Error as error:
            assert error.code == code and error.field, error

async def all_at_once():
    async with posed.aio.connect() as client:
        status, depth, pose = await asyncio.gather(client.status(), client.depth(),
                                                   client.pose_at(few[-1].time_s))
        assert status.captured_frames > 5 and depth.depth.size and pose.seq >= few[-1].seq - 1
        count = 0
        async for pose in client.poses():
            count += 1
            if count == 3:
                return

asyncio.run(all_at_once())
nobody = posed.connect("/nowhere", timeout_s=0.2)
try:
    nobody.status()
except posed.NoAnswer as error:
    assert "/nowhere" in str(error)
print("well")
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
        program = (f"import posed\nclient = posed.connect({daemon.folder!r}, timeout_s=30, "
                   f"server_key={public.decode()!r})\nprint(client.status().captured_frames > 0)")
        done = subprocess.run([PYTHON, "-c", program], capture_output=True, text=True,
                              timeout=harness.PATIENCE_S)
        check(done.stdout == "True\n", f"Python with CURVE: {done.stdout}{done.stderr}")
    daemon.stop()


def scenario():
    daemon = harness.Daemon("synth:room", "--loop", speed=0.5)  # any machine keeps pace
    daemon.wait_for(lambda: len(daemon.poses) > 5, "poses")
    check_c(daemon, daemon.folder)
    if os.path.exists(PYTHON):
        check_python(daemon)
    else:
        print(f"SKIP: no {PYTHON} with the package posed (tools/test installs it there)")
    check(daemon.request(get_status=requests.GetStatus()).get_status.lost_frames == 0, "lost")
    daemon.stop()
    check_curve()


harness.run(scenario)
