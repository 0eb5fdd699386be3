# SPDX-License-Identifier: Apache-2.0
"""A map is saved, listed, exported, and loaded by another daemon that sees the room from elsewhere:
it finds itself in it, where it is. Where nothing of the map is in sight it goes on searching, and
what cannot be loaded is refused with the reason while the present map stays."""
import json
import math
import os
import re
import shutil
import signal
import struct
import subprocess

import zmq

import harness
from harness import check, check_at_most, messages, requests

N_FRAMES = 110  # of the saved part, 30 a second
MOST_WAY_M = 0.006  # of the camera in the map against the truth
MOST_TURN_DEG = 0.3
FOLDER = harness.SCRATCH + "/maps"
NEAR_S, FAR_S = 1.4, 9.0  # where a second daemon begins: within what was seen, and outside of it


def ctl(daemon, code, *arguments):
    done = subprocess.run([harness.BINARY + "/bin/posectl", "map", *arguments, "--host",
                           daemon.folder, "--timeout", "60"], capture_output=True, text=True,
                          timeout=harness.PATIENCE_S)
    check(done.returncode == code, f"{arguments}: {done.returncode} {done.stdout} {done.stderr}")
    return done


def posectl(daemon, *words):
    return subprocess.run([harness.BINARY + "/bin/posectl", "--host", daemon.folder, *words],
                          capture_output=True, text=True, timeout=harness.PATIENCE_S)


def start(source, *options):
    return harness.Daemon(source, "--set", "map.folder=" + FOLDER, *options)


def transform(pose):
    q, t = pose.orientation, pose.position
    return harness.rotation((q.x, q.y, q.z, q.w)), (t.x, t.y, t.z)


def compose(a, b):
    t = [a[1][i] + sum(a[0][i][k] * b[1][k] for k in range(3)) for i in range(3)]
    return harness.multiply(a[0], b[0]), t


def inverse(a):
    r = [list(row) for row in zip(*a[0])]
    return r, [-sum(r[i][k] * a[1][k] for k in range(3)) for i in range(3)]


def apart(a, b):
    way = math.dist(a[1], b[1])
    r = compose(inverse(a), b)[0]
    return way, math.degrees(math.acos(max(-1, min(1, (r[0][0] + r[1][1] + r[2][2] - 1) / 2))))


def check_keyframes(daemon, truth):
    page = json.loads(ctl(daemon, 0, "keyframes", "-o", "json").stdout)
    keyframes = page["keyframes"]
    check(len(keyframes) >= 4 and page["map_epoch"] == daemon.poses[-1].map_epoch, page)
    seqs = [k["seq"] for k in keyframes]
    check(seqs == sorted(set(seqs)) and seqs[-1] < len(daemon.poses), seqs)
    for k in keyframes:
        pose = daemon.poses[k["seq"]]
        check(abs(pose.timestamp.seconds + pose.timestamp.nanos * 1e-9 - k["time_s"]) < 1e-6, k)
        place = k["pose"]["position_m"]
        check(math.dist(place, truth[k["seq"]][1]) < 0.05, f"keyframe {k}")
    rest = daemon.request(get_keyframes=requests.GetKeyframes(skip=len(keyframes) - 1))
    check(len(rest.get_keyframes.keyframes) == 1, rest)


def check_export(daemon):
    path = daemon.folder + "/out.ply"
    said = json.loads(ctl(daemon, 0, "export", path, "-o", "json").stdout)
    with open(path, "rb") as file:
        head, body = file.read().split(b"end_header\n", 1)
    n = said["points"]
    check(n > 10000 and f"element vertex {n}\n".encode() in head and b"property float nz" in head
          and len(body) == 24 * n, f"{said} {head}")
    for i in range(0, n, 997):
        normal = struct.unpack_from("<3f", body, 24 * i + 12)
        check(abs(math.hypot(*normal) - 1) < 1e-3, f"normal {normal}")
    check("already" in ctl(daemon, 1, "export", path).stderr, "an export onto a file")
    coarse = json.loads(ctl(daemon, 0, "export", daemon.folder + "/coarse.ply", "--voxel", "0.1",
                            "-o", "json").stdout)
    check(100 < coarse["points"] < n / 10 and coarse["voxel_m"] == 0.1, coarse)
    check("one in each cell of 100.0 mm\n" in ctl(
        daemon, 0, "export", daemon.folder + "/coarse2.ply", "--voxel", "0.1").stdout, "its cells")
    for ending in (".obj", ".txt", "."):
        check("written as .ply" in ctl(daemon, 2, "export", "out" + ending).stderr, ending)
        done = subprocess.run([harness.BINARY + "/bin/posed", "--check-config", "--map",
                               daemon.folder + "/out" + ending], capture_output=True, text=True,
                              timeout=harness.PATIENCE_S)
        check(done.returncode == 3 and "written as .ply" in done.stderr, f"{ending}: {done}")
    bad = daemon.request(get_map_cloud=requests.GetMapCloud(voxel_m=-1))
    check(bad.field == "get_map_cloud.voxel_m", bad)


def check_names(daemon):
    for name in ("", ".a", "-a", "a/b", "../a", "a b", "x" * 79):
        for kind, reply in (("save_map", daemon.request(save_map=requests.SaveMap(name=name))),
                            ("load_map", daemon.request(load_map=requests.LoadMap(name=name)))):
            check(reply.code == requests.INVALID_ARGUMENT and reply.field == kind + ".name",
                  f"{name}: {reply}")
    reply = daemon.request(save_map=requests.SaveMap(name="a\0b"))
    check(reply.code == requests.INVALID_ARGUMENT and reply.field == "save_map.name", reply)
    reply = daemon.request(load_map=requests.LoadMap(name="none"))
    check(reply.code == requests.NOT_FOUND and FOLDER in reply.message, reply)
    listed = daemon.request(list_maps=requests.ListMaps())
    os.rename(FOLDER, FOLDER + ".elsewhere")  # a disk that is not mounted holds no empty folder
    for what in ({"list_maps": requests.ListMaps()}, {"save_map": requests.SaveMap(name="a")}):
        reply = daemon.request(**what)
        check(reply.code == requests.UNAVAILABLE and "map.folder" in reply.message, reply)
    os.rename(FOLDER + ".elsewhere", FOLDER)
    check(daemon.request(list_maps=requests.ListMaps()).list_maps == listed.list_maps, listed)


def check_saved(daemon, truth):
    said = ctl(daemon, 0, "save", "room").stdout
    check(said.startswith("saved room: "), said)
    check("room.map is there already, in map.folder" in ctl(daemon, 1, "save", "room").stderr,
          "saved twice")
    check(os.listdir(FOLDER) == ["room.map"], os.listdir(FOLDER))
    os.mkdir(FOLDER + "/folder.map")
    os.symlink("nowhere", FOLDER + "/lost.map")
    os.symlink("room.map", FOLDER + "/same.map")
    listed = json.loads(ctl(daemon, 0, "list", "-o", "json").stdout)["maps"]
    check([m["name"] for m in listed] == ["room", "same"] and
          all(m["bytes"] == os.path.getsize(FOLDER + "/room.map") for m in listed), listed)
    os.rmdir(FOLDER + "/folder.map")
    for link in ("lost", "same"):
        os.remove(f"{FOLDER}/{link}.map")
    check_keyframes(daemon, truth)
    check_export(daemon)
    check_names(daemon)


def read_cloud(daemon):
    reply = daemon.request(_timeout_s=60, deadline_ms=60000,
                           get_map_cloud=requests.GetMapCloud(voxel_m=0.1))
    check(reply.code == requests.OK, reply)
    return reply.get_map_cloud


def check_refused(daemon):
    """A map that cannot be loaded changes nothing."""
    with open(FOLDER + "/room.map", "rb") as file:
        good = file.read()
    for name, content, says in (("cut", good[:-1], "truncated"), ("bad", good[:5000] + b"\xa5" +
                                good[5001:], "damaged"), ("new", good[:8] + b"\2" + good[9:],
                                                          "version 2"), ("no", b"", "truncated")):
        with open(f"{FOLDER}/{name}.map", "wb") as file:
            file.write(content)
        before = read_cloud(daemon)
        reply = daemon.request(load_map=requests.LoadMap(name=name))
        check(reply.code == requests.FAILED_PRECONDITION and says in reply.message and
              reply.field == "load_map.name", f"{name}: {reply}")
        check(before.n_points > 200 and read_cloud(daemon) == before,
              f"{name}: the map has changed")
        os.remove(f"{FOLDER}/{name}.map")
    epoch = daemon.poses[-1].map_epoch
    daemon.step(1)
    check(daemon.poses[-1].map_epoch == epoch and
          harness.state_name(daemon.poses[-1]) == "TRACKING", daemon.poses[-1])


def check_status(daemon, state, has_map=None):
    status = daemon.request(get_status=requests.GetStatus()).get_status
    has_map = state == "TRACKING" if has_map is None else has_map
    check(harness.state_name(status) == state and status.HasField("map_from_odom") == has_map,
          f"not {state}, has map_from_odom: {has_map}: {status}")


def check_other_settings():
    small = "map.memory_bytes=2000000"  # the rest may go to the host
    for settings, code, says in ((["map.voxel_m=0.01"], requests.FAILED_PRECONDITION,
                                  "map.voxel_m"),
                                 (["camera.fx=500"], requests.FAILED_PRECONDITION,
                                  "another camera"),
                                 ([small, "map.far_bytes=0"], requests.RESOURCE_EXHAUSTED,
                                  "map.memory_bytes"),
                                 ([small], requests.OK, "")):
        daemon = start("synth:room", *[word for text in settings for word in ("--set", text)])
        daemon.step(2)
        reply = daemon.request(load_map=requests.LoadMap(name="room"))
        check(reply.code == code and says in reply.message, f"{settings}: {reply}")
        # The recording is paused: no frame has come since.
        check_status(daemon, "SEARCHING" if code == requests.OK else "TRACKING")
        if code == requests.OK:
            daemon.request(reset=requests.Reset())
            check_status(daemon, "INIT")
            daemon.step(1)
            check_status(daemon, "INIT", has_map=True)
        daemon.stop()
    daemon = harness.Daemon("synth:room")
    daemon.step(2)
    for what in ({"save_map": requests.SaveMap(name="a")}, {"list_maps": requests.ListMaps()},
                 {"get_map_cloud": requests.GetMapCloud()}):
        reply = daemon.request(**what)
        check(reply.code == requests.FAILED_PRECONDITION and "map.folder" in reply.message, reply)
    daemon.stop()


def check_full():
    """A full map is said to be one by the status, the saved and the exported."""
    daemon = start("synth:room", "--set", "map.memory_bytes=20000000", "--set",
                   "map.far_bytes=0")
    daemon.step(40)
    said = ctl(daemon, 0, "save", "full")
    check("it is full, and at least " in said.stderr and "saved full: " in said.stdout, said)
    cloud = daemon.request(get_map_cloud=requests.GetMapCloud())
    check("it is full, and at least " in cloud.message, cloud.message)
    daemon.wait_for(lambda: daemon.request(get_status=requests.GetStatus())
                    .get_status.map_left_out_blocks > 0, "the status")
    said = subprocess.run([harness.BINARY + "/bin/posectl", "--host", daemon.folder, "status"],
                          capture_output=True, text=True, timeout=harness.PATIENCE_S).stdout
    check("\n            full: new places are left out" in said, said)
    daemon.stop()
    os.remove(FOLDER + "/full.map")


def check_doubtful():
    """Where a camera may not be found in a map, who saves it and who loads it are told."""
    few = "few views: a camera is found in it only near where that one was made"
    much = r"\d\d % of its frames were dropped or damaged"
    daemon = start("synth:room")
    daemon.step(1)
    said = ctl(daemon, 0, "save", "one")
    check(few in said.stderr and "one.map: " + few in daemon.log(), said)
    check(few in ctl(daemon, 0, "load", "one").stderr and daemon.log().count(few) == 2, "loaded")
    daemon.stop()
    # Full work on each frame, which come faster than any machine does it.
    hurried = start("synth:room-calm", "--set", "tracker.adapt=false", "--set",
                    "tracker.iterations=30,5,4", "--set", "tracker.early_stop=false", "--set",
                    "gpu.threads=1")
    hurried.step(1)
    hurried.request(replay=requests.Replay(action=requests.Replay.RATE, rate=12))
    hurried.request(replay=requests.Replay(action=requests.Replay.RESUME))
    hurried.wait_for(lambda: len(hurried.poses) > 100, "frames")
    hurried.request(replay=requests.Replay(action=requests.Replay.PAUSE))
    said = ctl(hurried, 0, "save", "hurried")
    check(re.search(much, said.stderr) and re.search("hurried.map: " + much, hurried.log()), said)
    hurried.stop()
    daemon = start("synth:room-calm")
    daemon.step(2)
    check(re.search(much, ctl(daemon, 0, "load", "hurried").stderr), daemon.log())
    check(not ctl(daemon, 0, "load", "room").stderr, "nothing is to be said of a good one")
    daemon.stop()
    for name in ("one", "hurried"):
        os.remove(f"{FOLDER}/{name}.map")


def check_full_of_nothing():
    """Less memory than a frame needs: no file comes of it, and all say why."""
    surface = harness.SCRATCH + "/none.ply"
    daemon = start("synth:room", "--set", "map.memory_bytes=1048576", "--set", "map.far_bytes=0",
                   "--map", surface)
    daemon.step(5)
    says = "the map is full and holds no surface: map.memory_bytes is too small"
    for words in (("save", "none"), ("export", harness.SCRATCH + "/b.ply")):
        said = ctl(daemon, 1, *words)
        check(says in said.stderr and "saved" not in said.stdout, f"{words}: {said}")
    check(not os.path.exists(FOLDER + "/none.map"), "a map of nothing was saved")
    daemon.process.send_signal(signal.SIGTERM)
    daemon.wait(expected_code=1)
    check(says in daemon.log() and not os.path.exists(surface), "--map does not say why")


def check_found(truth):
    """The same room from elsewhere, with noise of its own."""
    daemon = start("synth:room", "--start", str(NEAR_S), "--seed", "7")
    daemon.step(3)
    loaded = json.loads(ctl(daemon, 0, "load", "room", "-o", "json").stdout)
    for words in (("save", "b"), ("export", daemon.folder + "/b.ply"), ("keyframes", ),
                  ("optimise", )):
        said = ctl(daemon, 1, *words).stderr
        check("(SEARCHING): move it to where that was made, or begin a new one (posectl reset); "
              "the loaded one's file stays\n" in said, f"{words} while it is searched: {said}")
    daemon.step(60)
    check(any(e.kind == messages.Event.MAP_LOADED for e in daemon.events), "no event of loading")
    check(any(e.kind == messages.Event.MAP_FOUND for e in daemon.events), "it is not found")
    first, most_way_m, most_turn_deg, n_found = round(NEAR_S * 30), 0, 0, 0
    poses = daemon.poses[loaded["next_seq"]:]
    check(poses[0].map_epoch == daemon.poses[loaded["next_seq"] - 1].map_epoch + 1, "epoch")
    check(harness.state_name(poses[0]) == "SEARCHING", poses[0])
    at = daemon.request(get_status=requests.GetStatus()).get_status
    told = daemon.poses[-1].map_from_odom
    check(at.map_from_odom == told and at.searching_frames > 0 and at.keeps_map, f"status: {at}")
    p = told.position
    place = f"{p.x:.4f} {p.y:.4f} {p.z:.4f}"
    said = posectl(daemon, "status").stdout
    check(f"map         from odom (map_from_odom): {place}" in said, f"{place}: {said}")
    watcher = subprocess.Popen([harness.BINARY + "/bin/posectl", "--host", daemon.folder, "watch",
                                "pose", "-n", "1"], stdout=subprocess.PIPE, text=True)
    daemon.wait_for(lambda: daemon.step(1) or watcher.poll() is not None, "a pose is watched")
    said = watcher.stdout.read()
    check("map from odom: " in said, f"watched: {said}")
    for before, pose in zip(daemon.poses[loaded["next_seq"] - 1:], poses):
        check(harness.distance_m(before, pose) < 0.05, f"odom jumps at {pose.seq}")
        if harness.state_name(pose) == "SEARCHING":
            check(not pose.HasField("map_from_odom"), f"a place while it searches: {pose}")
            check(n_found == 0, "it searches again")
            continue
        n_found += 1
        in_map = compose(transform(pose.map_from_odom), transform(pose.pose))
        way_m, turn_deg = apart(in_map, truth[first + pose.seq])
        most_way_m, most_turn_deg = max(most_way_m, way_m), max(most_turn_deg, turn_deg)
    check(n_found > 5, f"found for {n_found} frames")
    check_at_most(most_way_m, MOST_WAY_M, "camera in the loaded map [m]")
    check_at_most(most_turn_deg, MOST_TURN_DEG, "camera in the loaded map [deg]")
    ctl(daemon, 0, "keyframes")
    ctl(daemon, 0, "save", "grown")
    daemon.request(reset=requests.Reset())
    daemon.step(2)
    check(harness.state_name(daemon.poses[-1]) == "TRACKING" and
          "given up" in daemon.log(), "a reset gives the loaded map up")
    daemon.stop()


def check_waited_for():
    """Who asks for it waits until the camera is found, or is told that it was not."""
    daemon = start("synth:room", "--start", str(NEAR_S), "--seed", "7")
    daemon.step(3)
    said = ctl(daemon, 1, "load", "room", "--until-found", "1")
    check("loaded room: " in said.stdout and "not found within 1 s, with 0 frames, and the "
          "recording is paused" in said.stderr, said)
    daemon.step(2)
    check("map         the camera is looked for in the loaded map, with 2 frames so far: move it"
          in posectl(daemon, "status").stdout, "the status while it is searched")
    daemon.request(replay=requests.Replay(action=requests.Replay.RATE, rate=0.5))
    daemon.request(replay=requests.Replay(action=requests.Replay.RESUME))
    said = ctl(daemon, 0, "load", "room", "--until-found", "60", "-o", "json")
    found = json.loads(said.stdout)["map_from_odom"]["position_m"]
    check(max(abs(x) for x in found) > 0.05, said)
    said = ctl(daemon, 2, "list", "--until-found", "3").stderr
    check("--until-found is for load" in said, said)
    daemon.stop()


def check_overtaken():
    """What gives the map up overtakes who has asked for it and waits behind long work: that is of
    the map as it was."""
    ways = {"reset": {"reset": requests.Reset()},
            "load": {"load_map": requests.LoadMap(name="room")},
            "seek": {"replay": requests.Replay(action=requests.Replay.SEEK, position_s=1)}}
    for name, way in ways.items():
        daemon = start("synth:room")
        daemon.step(N_FRAMES)
        epoch = daemon.poses[-1].map_epoch
        daemon.request(replay=requests.Replay(action=requests.Replay.RATE, rate=0.2))
        daemon.request(replay=requests.Replay(action=requests.Replay.RESUME))
        socket = daemon.socket(zmq.DEALER, "req")
        whats = ({"optimise_map": requests.OptimiseMap()},
                 {"save_map": requests.SaveMap(name="before-" + name)},
                 {"get_map_cloud": requests.GetMapCloud(voxel_m=0.1)}, way)
        for number, what in enumerate(whats):
            request = requests.Request(id=number, deadline_ms=60000, **what)
            socket.send(harness.MAGIC + request.SerializeToString())
        replies = {}
        while len(replies) < len(whats):
            check(socket.poll(60000), f"{name}: {replies}")
            reply = requests.Reply.FromString(socket.recv()[len(harness.MAGIC):])
            replies[reply.id] = reply
        socket.close()
        check(all(replies[i].code == requests.OK for i in (1, 2, 3)), f"{name}: {replies}")
        with open(f"{FOLDER}/before-{name}.map", "rb") as file:
            saved, = struct.unpack_from("<I", file.read(36), 32)
        check(saved == epoch == replies[2].get_map_cloud.map_epoch,
              f"{name}: epoch {epoch}, saved {saved}, read {replies[2].get_map_cloud.map_epoch}")
        daemon.stop()


def check_not_found(source, *options):
    """Nothing of the map is in sight: it never says that it knows where it is."""
    daemon = start(source, *options)
    daemon.step(2)
    n = requests.Reply.FromString(
        daemon.request(load_map=requests.LoadMap(name="room")).SerializeToString())
    check(n.code == requests.OK, n)
    daemon.step(50)
    for pose in daemon.poses[n.load_map.next_seq:]:
        check(harness.state_name(pose) in ("SEARCHING", "LOST") and
              not pose.HasField("map_from_odom"), f"{source}: {pose}")
    check(not any(e.kind == messages.Event.MAP_FOUND for e in daemon.events), source)
    daemon.stop()
    n_searching = harness.count_states(daemon.poses).get("SEARCHING", 0)
    check(f", of the tracked ones SEARCHING {n_searching}: not found in the loaded map at the end"
          in daemon.log() and n_searching > 0, daemon.log())


def scenario():
    rows = harness.read_trajectory(harness.truth_of("room"))
    world = [(harness.rotation(row[4:8]), row[1:4]) for row in rows]
    origin = inverse(world[0])
    truth = [compose(origin, pose) for pose in world]
    daemon = start("synth:room")
    daemon.step(N_FRAMES)
    check_saved(daemon, truth)
    check_refused(daemon)
    daemon.stop()
    check_other_settings()
    check_full()
    check_doubtful()
    check_full_of_nothing()
    check_found(truth)
    check_waited_for()
    check_overtaken()
    check_not_found("synth:room", "--start", str(FAR_S))
    check_not_found("synth:corridor")
    shutil.rmtree(FOLDER)


harness.run(scenario)
