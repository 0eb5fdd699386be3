# SPDX-License-Identifier: Apache-2.0
"""The installed service starts: under the restrictions of its own unit the daemon says that it is
ready, tracks a recording, answers, records, sends the watchdog's sign of life and ends in order.

Restrictions: see under_unit.py; the unit's mounts and devices (a read-only system, no home, private
/tmp, no device but the harmless ones) are made by bubblewrap in a network of its own."""
import glob
import os
import shutil
import signal
import socket
import subprocess
import sys
import time

import zmq

import harness
from harness import check, messages, requests

N_FRAMES = 90
NOBODY = 65534  # the daemon's user where this test runs as root
UNIT = os.environ.get("POSED_UNIT") or harness.SOURCE + "/config/posed.service.in"
HERE = os.path.dirname(os.path.abspath(__file__))
LISTED = ("SystemCallFilter", "RestrictAddressFamilies", "DevicePolicy", "NoNewPrivileges",
          "MemoryDenyWriteExecute", "CapabilityBoundingSet", "ProtectSystem")

# Run in the sandbox instead of the daemon: each line is refused there.
PROBE = r"""
import ctypes, errno, mmap, os, socket
def refused(what, call):
    try:
        call()
    except (OSError, PermissionError) as error:
        print("refused", what, errno.errorcode.get(error.errno, error.errno), flush=True)
    else:
        print("ALLOWED", what, flush=True)
libc = ctypes.CDLL(None, use_errno=True)
def call(number, *arguments):
    if libc.syscall(number, *arguments) < 0:
        raise OSError(ctypes.get_errno(), "")
refused("packet socket", lambda: socket.socket(socket.AF_PACKET, socket.SOCK_RAW))
refused("memory to write and execute",
        lambda: mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC))
refused("real time", lambda: os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1)))
refused("root", lambda: os.setuid(0))
refused("writing /etc", lambda: open("/etc/posed-was-here", "w"))
refused("a disk", lambda: open("/dev/sda", "rb"))
refused("another namespace", lambda: os.sched_setaffinity and call(272, 0x10000000))
"""


def sandbox(folder, *command):
    """The command line that runs a command as the unit would."""
    for name in ("run", "state", "notify"):
        os.mkdir(f"{folder}/{name}")
        if os.getuid() == 0:
            os.chown(f"{folder}/{name}", NOBODY, NOBODY)
    return ["bwrap", "--die-with-parent", "--unshare-net", "--unshare-pid", "--ro-bind", "/", "/",
            "--dev", "/dev", "--proc", "/proc", "--tmpfs", "/home", "--tmpfs", "/root", "--tmpfs",
            "/run", "--tmpfs", "/var/lib", "--tmpfs", "/tmp", "--tmpfs", "/opt", "--chmod", "1777",
            "/tmp", "--bind", folder + "/run", "/run/posed", "--bind", folder + "/state",
            "/var/lib/posed", "--bind", folder + "/notify", "/run/systemd", "--ro-bind",
            harness.BINARY + "/bin", "/opt/bin", "--ro-bind", harness.SOURCE + "/config",
            "/opt/config", "--ro-bind", HERE, "/opt/test", "--ro-bind", UNIT, "/opt/unit",
            "--chdir", "/", "/usr/bin/python3", "-B", "/opt/test/under_unit.py",
            "/opt/unit", *command]


def scratch():
    folder = harness.SCRATCH + f"/{len(os.listdir(harness.SCRATCH))}"
    os.mkdir(folder)
    return folder


def check_can_run():
    if not all(shutil.which(tool) for tool in ("bwrap", "systemd-analyze")):
        harness.skip("no bubblewrap or no systemd-analyze (tools/packages install test)")
    done = subprocess.run(sandbox(scratch(), "/bin/true"), capture_output=True, text=True)
    if done.returncode == 77:
        harness.skip(done.stdout.strip().replace("SKIP: ", ""))
    if done.returncode != 0 and "bwrap:" in done.stderr:
        harness.skip("no sandbox can be made here: " + done.stderr.strip())
    check(done.returncode == 0, f"the sandbox: {done.stdout}{done.stderr}")


def check_it_bites():
    done = subprocess.run(sandbox(scratch(), "/usr/bin/python3", "-B", "-c", PROBE),
                          capture_output=True, text=True)
    lines = done.stdout.splitlines()
    print("\n".join(lines))
    check(len(lines) == 7 and all(line.startswith("refused") for line in lines),
          f"the sandbox lets something through: {done.stdout}{done.stderr}")


class Service:
    """The unit's ExecStart, with options after it."""

    def __init__(self, *options):
        with open(UNIT, encoding="utf-8") as file:
            text = file.read()
        for name in LISTED:
            check(f"\n{name}=" in text, f"{UNIT} does not restrict {name}")
        start = next(line for line in text.splitlines() if line.startswith("ExecStart="))
        check(start.split()[1:-1] == ["-c"], start)
        self.folder = scratch()
        command = sandbox(self.folder, "/opt/bin/posed", "-c", "/opt/config/posed.conf", *options)
        self.notifications = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.notifications.bind(self.folder + "/notify/notify")
        os.chmod(self.folder + "/notify/notify", 0o777)
        self.notifications.settimeout(harness.PATIENCE_S)
        environment = {"PATH": os.environ["PATH"], "RUNTIME_DIRECTORY": "/run/posed",
                       "STATE_DIRECTORY": "/var/lib/posed", "WATCHDOG_USEC": "1000000",
                       "NOTIFY_SOCKET": "/run/systemd/notify"}
        environment |= {k: v for k, v in os.environ.items() if k.endswith("SAN_OPTIONS")}
        self.log_path = self.folder + "/log"
        with open(self.log_path, "w", encoding="utf-8") as log:
            self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log,
                                            stderr=log, env=environment)
        self.context = zmq.Context()

    def log(self):
        with open(self.log_path, encoding="utf-8", errors="replace") as file:
            return file.read()

    def wait_for_notification(self, wanted):
        self.notifications.settimeout(0.2)
        end = time.monotonic() + harness.PATIENCE_S
        while time.monotonic() < end:
            try:
                if wanted in self.notifications.recv(4096).decode().splitlines():
                    return
            except socket.timeout:
                check(self.process.poll() is None,
                      f"ended ({self.process.returncode}) before {wanted}:\n{self.log()}")
        check(False, f"no {wanted}:\n{self.log()}")

    def socket(self, kind, name):
        made = self.context.socket(kind)
        made.linger = 0
        made.connect(f"ipc://{self.folder}/run/{name}")
        return made

    def request(self, **what):
        with self.socket(zmq.REQ, "req") as asking:
            asking.send(harness.MAGIC + requests.Request(id=1, **what).SerializeToString())
            check(asking.poll(20000), f"no reply to {list(what)}\n{self.log()}")
            return requests.Reply.FromString(asking.recv()[len(harness.MAGIC):])

    def end(self):
        """As systemd ends it: SIGTERM to the daemon itself, which is below bubblewrap."""
        pids = [int(path.split("/")[2]) for path in glob.glob("/proc/[0-9]*/cmdline")
                if _read(path).startswith(b"/opt/bin/posed\0")
                and self.folder.encode() in _read(path.replace("cmdline", "mountinfo"))]
        check(len(pids) == 1, f"the daemon's process: {pids}")
        os.kill(pids[0], signal.SIGTERM)
        return self.process.wait(harness.PATIENCE_S)


def _read(path):
    try:
        with open(path, "rb") as file:
            return file.read()
    except OSError:
        return b""


def scenario():
    check_can_run()
    check_it_bites()
    service = Service("--source", "synth:room", "--loop", "--set", "recorder.folder=/var/lib/posed",
                      "--set", "http.port=8765", "--set", "log.rate_hz=0", "--set",
                      "tracker.iterations=3,3,3")
    try:
        run(service)
    finally:
        if service.process.poll() is None:
            service.process.kill()


def run(service):
    service.wait_for_notification("READY=1")
    poses = service.socket(zmq.SUB, "pub")
    poses.subscribe("pose")
    seqs, states = [], set()
    started = service.request(start_recording=requests.StartRecording(name="one", format="mcap"))
    check(started.code == requests.OK, f"recording: {started.message}")
    while len(seqs) < N_FRAMES:
        check(poses.poll(20000), f"no pose for 20 s\n{service.log()}")
        pose = messages.Odometry.FromString(poses.recv_multipart()[1])
        seqs.append(pose.seq)
        states.add(harness.state_name(pose))
    check(seqs == list(range(seqs[0], seqs[0] + N_FRAMES)), "poses are missing")
    check("TRACKING" in states, f"states: {states}")
    stopped = service.request(stop_recording=requests.StopRecording())
    check(stopped.code == requests.OK, f"recording: {stopped.message}")
    service.wait_for_notification("WATCHDOG=1")
    check(service.end() == 0, f"exit code {service.process.returncode}\n{service.log()}")
    # That this machine is too slow for the camera is no fault of the unit.
    log = "".join(line for line in service.log().splitlines(True) if "tracker.adapt" not in line)
    check("tcp://127.0.0.1:5570" in log, "no TCP socket")
    check("http://127.0.0.1:8765" in log, "no HTTP")
    check("posed: error: " not in log and "posed: warning: " not in log, log)
    recording = service.folder + "/state/one.mcap"
    again = harness.Daemon("mcap:" + recording)
    again.wait()
    check(sum(harness.state_name(pose) == "TRACKING" for pose in again.poses) > 5,
          f"the recording: {harness.count_states(again.poses)}")
    print(f"{len(seqs)} poses, {os.path.getsize(recording)} bytes recorded, {log.count(chr(10))} "
          f"lines of log ({os.path.basename(sys.executable)})")


harness.run(scenario)
