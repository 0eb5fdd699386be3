# SPDX-License-Identifier: Apache-2.0
"""The n-th allocation, open, write, fsync, rename or thread of a start with 50 frames, two
recordings and a request of every kind fails: the daemon says so in a line and ends with an exit
code of its own, or goes on; it never dies or hangs, and leaves nothing half written: what it
calls a recording replays, a map or an object is whole or not there.

Some n of each kind; every n with the argument `all` (KIND FIRST LAST: of one kind, these), as many
at once as there are processors."""
import concurrent.futures
import os
import re
import shutil
import signal
import struct
import subprocess
import sys
import time

import zmq

import harness
from harness import MAGIC, check, messages, requests
from small_camera import OPTIONS, write_recording

# How many are tried without `all`, spread over what there are, and the error's name. A run takes
# some 0.7 s of a processor.
KINDS = {"malloc": (5, "Cannot allocate memory"), "open": (2, "Too many open files"),
         "write": (3, "No space left on device"), "fsync": (2, "Input/output error"),
         "rename": (2, "Input/output error"), "thread": (2, "Resource temporarily unavailable")}
OUR_CODES = (0, 1, 2, 3, 4, 5)
LIBRARY = harness.BINARY + "/tests/libfail_nth.so"
N_FRAMES, RATE_HZ = 50, 120
CAMERA = harness.SCRATCH + "/camera"  # a small one: nearly all of a run is what fails
REPLY_S = 8  # a reply that could not be made does not come; before that, one of a busy machine may
PATIENCE_S = 120

CORNERS = [(0, 0, 0), (0.3, 0, 0), (0, 0.2, 0), (0, 0, 0.15)]
FACES = [(0, 2, 1), (0, 1, 3), (0, 3, 2), (1, 2, 3)]


def point_set():
    points = [(0.01 * (i % 8), 0.01 * (i // 8), 1 + 0.002 * (i * i % 7)) for i in range(64)]
    return requests.PointSet(points=b"".join(struct.pack("<3f", *p) for p in points))


def all_requests():
    """One of every kind, in an order in which each has something to do."""
    mesh = {"vertices": b"".join(struct.pack("<3f", *c) for c in CORNERS),
            "triangles": b"".join(struct.pack("<3I", *f) for f in FACES)}
    return [
        {"ping": requests.Ping(payload=1)}, {"get_version": {}}, {"get_status": {}},
        {"get_calibration": {}}, {"get_params": {}},
        {"set_params": requests.SetParams(params=[
            requests.SetParams.Assignment(name="log.level", value="notice")])},
        {"stop_recording": {}},
        {"start_recording": requests.StartRecording(name="two", format="klg")},
        {"get_depth": {}}, {"get_cloud": {}}, {"list_recordings": {}}, {"stop_recording": {}},
        {"set_keyframe": {}}, {"list_maps": {}},
        {"save_map": requests.SaveMap(name="m")}, {"list_maps": {}}, {"get_keyframes": {}},
        {"get_map_cloud": {}}, {"optimise_map": {}}, {"load_map": requests.LoadMap(name="m")},
        {"add_object": requests.AddObject(name="o", n_views=64, **mesh)}, {"list_objects": {}},
        {"search_pose": requests.SearchPose(track=True, threshold=1e-6)},
        {"stop_tracking": {}}, {"remove_object": requests.RemoveObject(name="o")},
        {"register_sets": requests.Register(source=point_set(), target=point_set())},
        {"cancel": requests.Cancel(id=999)}, {"get_pose": requests.GetPose()},
        {"get_trajectory": requests.GetTrajectory(limit=20)},
        {"set_pose": requests.SetPose(pose=messages.Pose(
            position=messages.Vector3(x=1), orientation=messages.Quaternion(w=1)))},
        {"replay": requests.Replay(action=requests.Replay.RESUME)}, {"reset": {}},
    ]


class Run:
    """A daemon in a folder of its own, the n-th call of a kind failing."""

    def __init__(self, kind, n):
        self.folder = f"{harness.SCRATCH}/{kind}-{n}"
        os.mkdir(self.folder)
        self.mark = self.folder + "/mark"
        environment = {**os.environ, "LD_PRELOAD": LIBRARY, "POSED_FAIL": kind,
                       "POSED_FAIL_AT": str(n), "POSED_FAIL_MARK": self.mark,
                       "OMP_NUM_THREADS": "1"}
        settings = {"tracker.iterations": "1,1,1", "gpu.threads": 1, "http.port": 0,
                    "recorder.folder": self.folder + "/recordings", "recorder.start": "one",
                    "recorder.format": "mcap", "map.folder": self.folder + "/maps",
                    "search.folder": self.folder + "/objects"}
        options = [text for key, value in settings.items()
                   for text in ("--set", f"{key}={value}")]
        for name in ("maps", "objects"):
            os.mkdir(f"{self.folder}/{name}")
        with open(self.folder + "/log", "w", encoding="utf-8") as log:
            self.process = subprocess.Popen(
                [harness.BINARY + "/bin/posed", "--source", "tum:" + CAMERA, "--loop", "--speed",
                 "1", "--backend", "cpu", "--run-dir", self.folder + "/run", "--no-tcp",
                 "--trajectory", self.folder + "/trajectory.txt", *OPTIONS, *options],
                env=environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        self.context = zmq.Context()
        self.replies, self.unanswered = {}, []

    def log(self):
        with open(self.folder + "/log", encoding="utf-8", errors="replace") as file:
            return file.read()

    def socket(self, kind, name):
        socket = self.context.socket(kind)
        socket.linger = 0
        socket.reconnect_ivl = 10
        socket.connect(f"ipc://{self.folder}/run/{name}")
        return socket

    def wait_readable(self, socket):
        start = time.monotonic()
        while self.process.poll() is None:
            if socket.poll(20):
                return True
            if time.monotonic() - start > (REPLY_S if self.failed() else PATIENCE_S):
                return False
        return False

    def wait_frames(self, poses, n):
        for _ in range(n):
            if not self.wait_readable(poses):
                return
            poses.recv_multipart()

    def ask_all(self):
        client = self.socket(zmq.DEALER, "req")
        every = all_requests()
        for i, what in enumerate(every, 1):
            name = next(iter(what))
            request = requests.Request(id=i, deadline_ms=1000 * PATIENCE_S)
            getattr(request, name).SetInParent()
            if what[name]:
                getattr(request, name).CopyFrom(what[name])
            client.send(MAGIC + request.SerializeToString())
            asked = time.monotonic()
            while self.wait_readable(client):
                reply = requests.Reply.FromString(client.recv()[len(MAGIC):])
                if reply.id != i:  # given up before, on a busy machine
                    late = next(iter(every[reply.id - 1])) if 0 < reply.id <= i else "unknown"
                    self.replies.setdefault(late, []).append(reply)
                    continue
                if (reply.code == requests.FAILED_PRECONDITION and
                        time.monotonic() - asked < REPLY_S and self.may_wait(name, reply)):
                    client.send(MAGIC + request.SerializeToString())
                    continue
                self.replies.setdefault(name, []).append(reply)
                if name == "start_recording" and reply.code == requests.OK:
                    time.sleep(8 / RATE_HZ)  # some frames for it
                break
            else:
                if self.process.poll() is not None:
                    return
                self.unanswered.append(name)

    def may_wait(self, name, reply):
        """The recording before is still being written, or the request to stop it was lost."""
        time.sleep(0.1)
        return name == "start_recording" and "written already" in reply.message

    def go(self):
        poses = self.socket(zmq.SUB, "pub")
        poses.subscribe("pose")
        self.wait_frames(poses, N_FRAMES)
        self.ask_all()
        self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(PATIENCE_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            return "it does not end"
        finally:
            self.context.destroy(linger=0)
        return None

    def failed(self):
        return os.path.exists(self.mark)

    def wrong_files(self):
        """What is half written."""
        for name in ("maps", "objects"):
            for file in os.listdir(f"{self.folder}/{name}"):
                if file.endswith(".part"):
                    return f"{name}/{file} is left behind"
        saved = any(r.code == requests.OK for r in self.replies.get("save_map", []))
        answered = "save_map" in self.replies  # else it may come after the client has given up
        if answered and saved != os.path.exists(self.folder + "/maps/m.map"):
            return f"a map was {'' if saved else 'not '}saved, and the file says otherwise"
        if saved and any(r.code not in (requests.OK, requests.RESOURCE_EXHAUSTED,
                                        requests.INTERNAL, requests.UNAVAILABLE)
                         for r in self.replies.get("load_map", [])):
            return f"the saved map is bad: {self.replies['load_map']}"
        for path, kept in ((f"mcap:{self.folder}/recordings/one.mcap", "one"),
                           (f"klg:{self.folder}/recordings/two.klg", "two")):
            said = re.findall(rf"recording {kept}: .* after (\d+) frames", self.log())
            if not said or not os.path.exists(path.split(":", 1)[1]):
                continue
            n = self.frames_of(path)
            if n != int(said[-1]):
                return f"{kept}: {said[-1]} frames were reported, {n} replay"
        return None

    def frames_of(self, source):
        trajectory = f"{self.folder}/replayed-{source[:3]}.txt"
        subprocess.run([harness.BINARY + "/bin/posed", "--source", source, "--speed", "max",
                        "--backend", "cpu", "--run-dir", self.folder + "/again", "--no-tcp",
                        "--trajectory", trajectory, *OPTIONS, "--set",
                        "tracker.iterations=1,1,1", "--set", "http.port=0", "--set",
                        "gpu.threads=1"],
                       stdin=subprocess.DEVNULL, capture_output=True, timeout=100, check=False)
        if not os.path.exists(trajectory):
            return 0
        with open(trajectory, encoding="utf-8") as file:
            return sum(not line.startswith("# map epoch") for line in file)


    def what_failed(self):
        """Of an open or write the file, of an allocation who wanted it."""
        if not self.failed():
            return ""
        with open(self.mark, encoding="utf-8") as file:
            return file.read().replace(self.folder, "...")

    def says_why(self, kind):
        """Whether the log, or a reply, says that the call failed."""
        texts = [self.log()] + [r.message for rs in self.replies.values() for r in rs]
        return any(reason in text for text in texts for reason in reasons(kind))


def reasons(kind):
    """With which words it is said. A thread that finds no memory is none (EAGAIN)."""
    return (KINDS[kind][1], "memory", *([KINDS["thread"][1]] if kind == "malloc" else []))


def try_one(kind, n):
    """What was wrong, None if nothing; whether the call was reached, which requests had no answer,
    the exit code, whether it was said, and of which file."""
    run = Run(kind, n)
    wrong = run.go()
    code, log = run.process.returncode, run.log()
    if not wrong and code not in OUR_CODES:
        wrong = f"died, {code}"
    if not wrong and code != 0 and not any(reason in log for reason in reasons(kind)):
        wrong = f"ended with {code} and did not say why"
    wrong = wrong or run.wrong_files()
    wrong = f"{kind} {n}: {wrong}\n{log.strip()[-400:]}" if wrong else None
    result = wrong, run.failed(), run.unanswered, code, run.says_why(kind), run.what_failed()
    if wrong or os.environ.get("POSED_FAIL_KEEP"):
        print(f"{kind} {n}: {run.folder}", flush=True)
    else:
        shutil.rmtree(run.folder, ignore_errors=True)
    return result


def count():
    """How many calls of each kind there are when none fails; every request is answered then."""
    run = Run("malloc", 0)
    wrong = run.go() or run.wrong_files()
    check(not wrong and run.process.returncode == 0, f"nothing failed: {wrong}\n{run.log()[-900:]}")
    kinds = {f.name for f in requests.Request.DESCRIPTOR.oneofs_by_name["what"].fields}
    check(set(run.replies) == kinds and not run.unanswered,
          f"not answered: {kinds - set(run.replies)} {run.unanswered}")
    # Refused is what there is no reason for: nothing to cancel, or on a busy machine no pose.
    allowed = (requests.OK, requests.NOT_FOUND, requests.FAILED_PRECONDITION)
    for name, replies in run.replies.items():
        check(any(r.code in allowed for r in replies), f"{name}: {replies[0].message}")
    with open(run.mark, encoding="utf-8") as file:
        counts = dict(zip(KINDS, (int(line) for line in file)))
    shutil.rmtree(run.folder)
    check(len(counts) == len(KINDS) and all(counts.values()), f"calls: {counts}")
    return counts


def silent(done):
    """It failed, and nothing was said of it, in the log or in a reply; and it was none of those of
    which there is nothing to say: a thread that is not woken looks again by itself, and how much
    memory is in use is 0 for once."""
    return done[1] and not done[4] and not re.search("eventfd|/proc/.*/statm", done[5])


def choose(n_calls, n_tried):
    """So many of them, in the middle of parts of one length."""
    return sorted({n_calls * (2 * i + 1) // (2 * n_tried) + 1 for i in range(n_tried)})


def scenario():
    if harness.is_sanitized():
        harness.skip("the sanitizer has its own allocator")
    write_recording(CAMERA, rate_hz=RATE_HZ)
    every = sys.argv[1:2] == ["all"]
    counts = count()
    tries = []
    for kind in sys.argv[2:3] or list(KINDS):
        first, last = (int(x) for x in (sys.argv[3:5] or (1, counts[kind])))
        tries += [(kind, n) for n in (range(first, min(last, counts[kind]) + 1) if every else
                                      choose(counts[kind], KINDS[kind][0]))]
    # A run waits more than it computes.
    with concurrent.futures.ThreadPoolExecutor(3 * os.cpu_count() if every else 3) as pool:
        results = list(pool.map(lambda one: (one[0], *try_one(*one)), tries))
    wrong = []
    for kind in dict(tries):
        numbered = [(n, r[1:]) for (_, n), r in zip(tries, results) if r[0] == kind]
        done = [d for _, d in numbered]
        bad = [d[0] for d in done if d[0]]
        ended = sum(d[3] != 0 for d in done)
        print(f"{kind}: {counts[kind]} calls, {len(done)} tried, {sum(d[1] for d in done)} failed; "
              f"{ended} ended it, {len(bad)} wrongly; requests without an answer: "
              f"{sum(len(d[2]) for d in done)}; not said: "
              f"{[f'{n} {d[5]}'.strip() for n, d in numbered if silent(d)]}",
              flush=True)
        check(any(d[1] for d in done), f"{kind}: none failed: the test itself is broken")
        wrong += bad
        if kind != "malloc":  # libraries do without some memory
            wrong += [f"{kind} {n}: {d[5]}: nothing was said" for n, d in numbered if silent(d)]
    check(not wrong, "\n".join(wrong))


harness.run(scenario)
