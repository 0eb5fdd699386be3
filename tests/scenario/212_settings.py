# SPDX-License-Identifier: Apache-2.0
"""Where settings come from, reloading them, one daemon per run directory, and the log as JSON."""
import json
import os
import resource
import signal
import stat
import subprocess
import time

import harness
from harness import messages, requests

LIVE = ("--loop", "--set", "tracker.iterations=3,3,3")


def posed(*arguments, environment=None):
    return subprocess.run([harness.BINARY + "/bin/posed", *arguments], capture_output=True,
                          text=True, timeout=60, env={**os.environ, **(environment or {})})


def posectl(daemon, *arguments):
    return subprocess.run([harness.BINARY + "/bin/posectl", *arguments, "-e", daemon.folder],
                          capture_output=True, text=True, timeout=60)


def write(path, text):
    with open(path, "w", encoding="ascii") as file:
        file.write(text)


def check_sources_of_settings():
    folder = harness.SCRATCH + "/settings"
    path, drop_ins = folder + "/posed.conf", folder + "/conf.d"
    os.makedirs(drop_ins)
    write(path, "[tracker]\niterations = 9,9,9\nreference = previous\n")
    write(drop_ins + "/a.conf", "[tracker]\niterations = 8,8,8\n")
    done = posed("-c", path, "--dump-config", "--set", "tracker.early_stop=false",
                 environment={"POSED_CAMERA_FX": "500"})
    assert done.returncode == 0, done.stderr
    for line in ("iterations = 8,8,8", "reference = previous", "early_stop = false", "fx = 500"):
        assert line + "\n" in done.stdout, (line, done.stdout)
    write(drop_ins + "/b.conf", "[tracker]\n\niteration = 8,8,8\n")
    done = posed("-c", path, "--check-config")
    assert done.returncode == 3, done
    assert 'conf.d/b.conf:3: unknown key "tracker.iteration"' in done.stderr, done.stderr
    os.remove(drop_ins + "/b.conf")
    assert posed("-c", path, "--check-config").returncode == 0
    done = posed("--check-config", environment={"POSED_CAMERA_FX": "wide"})
    assert done.returncode == 3 and "environment POSED_CAMERA_FX" in done.stderr, done
    done = posed("--check-config", "--pub", "tcp://0.0.0.0:5570")
    assert done.returncode == 3 and "reachable from other machines" in done.stderr, done
    for settings, said in ((["recorder.format=avi"], "recorder.format"),
                           (["recorder.start=x"], "recorder.folder is not set"),
                           (["recorder.start=../x", "recorder.folder=y"], "recorder.start: 1 to")):
        done = posed("--check-config", *[word for s in settings for word in ("--set", s)])
        assert done.returncode == 3 and said in done.stderr, done


def check_start_agrees():
    """What --check-config refuses the start refuses, with the same code, words and place."""
    scratch, place = harness.SCRATCH, harness.SCRATCH + "/agrees.conf:3: "
    nowhere = scratch + "/nowhere/"
    write(scratch + "/clients", "# nobody\n")
    write(scratch + "/there.ply", "")
    for section, setting, said, code in (
            ("camera", "fx = -500", "camera.fx: -500 is neither 0 (what the source says", 3),
            ("camera", f"field = {nowhere}x", f"camera.field = {nowhere}x cannot be taken", 3),
            ("camera", f"field = {nowhere}x", f"camera.field: {nowhere}x: No such file", 3),
            ("camera", f"field = {scratch}", f"camera.field: {scratch}: Is a directory", 3),
            ("camera a", f"source = synth:room\n[camera b]\nsource = synth:room\nrig = {nowhere}x",
             f"[camera b]: camera.rig: {nowhere}x: No such file", 3),
            ("camera a", f"source = synth:room\nfield = {nowhere}x",
             "[camera a]: camera.field = ", 3),
            ("endpoints", f"curve_secret_key_file = {nowhere}x",
             f"endpoints.curve_secret_key_file: {nowhere}x: No such file or directory", 3),
            ("endpoints", f"curve_clients_file = {scratch}/clients",
             "keeps nobody out without endpoints.curve_secret_key_file", 3),
            ("endpoints", "group = no such group", "endpoints.group: no group", 3),
            ("endpoints", "img = tcp://127.0.0.1:5570", "5570 is there already, in endpoints.pub",
             3),
            ("capture", "source = tmu:/x", "capture.source: posed --help lists the drivers", 4),
            ("output", f"trajectory = {nowhere}x.txt",
             f"{nowhere}x.txt: No such file or directory (output.trajectory)", 1),
            ("output", f"trajectory = {scratch}", f"{scratch}: Is a directory (output.trajectory)",
             3),
            ("output", f"map = {scratch}/x.pcd", "surface is written as .ply (output.map)", 3),
            ("output", f"map = {scratch}/there.ply", "is there already (output.map)", 1),
            ("recorder", f"folder = {scratch}/clients", "cannot hold recordings", 3),
            ("map", f"folder = {scratch}/clients", "cannot hold maps", 3),
            ("search", f"folder = {scratch}/clients", "cannot hold objects", 3),
            ("http", "origins = https://app.foxglove.dev https://a.org/",
             "http.origins: https://a.org/ is no origin", 3),
            ("publish", "camera_frame = odom", "are both \"odom\"", 3),
            ("publish", "odom_frame =", "publish.odom_frame: a frame has a name", 3),
            ("ros", "camera_in_base = 1 2 3", "is not x y z roll pitch yaw", 3),
            ("ros", "namespace = robot-1",
             'ros.namespace: "robot-1" is no name of ROS 2: \'-\' is in it', 3),
            ("ros", "namespace = robot/", "ros.namespace: \"robot/\" is no name of ROS 2", 3),
            ("ros", "publish = yes\nodom_frame = map",
             "ros.map_frame and ros.odom_frame are both", 3),
            ("ros", "publish = yes\nodom_frame = /odom",
             'ros.odom_frame: "/odom": frames of ROS 2 have no slash in front', 3),
            ("ros", "publish = yes\noptical_frame = a b",
             'ros.optical_frame: "a b": a frame has no space', 3)):
        write(scratch + "/agrees.conf", f"\n[{section}]\n{setting}\n")
        wanted = place.replace(":3:", f":{3 + setting.count(chr(10))}:")
        for more in (["--check-config"], ["--frames", "1", "--run-dir", scratch + "/agrees"]):
            done = posed("-c", scratch + "/agrees.conf", *more)
            assert done.returncode == code, (setting, more, done)
            assert any(wanted in line and said in line for line in done.stderr.splitlines()), done
    for section in ("recorder", "map", "search"):  # may be mounted later
        write(scratch + "/agrees.conf", f"[{section}]\nfolder = {nowhere}x\n")
        for more in (["--check-config"], ["--frames", "1", "--run-dir", scratch + "/agrees",
                                          "--no-tcp", "--source", "synth:room"]):
            done = posed("-c", scratch + "/agrees.conf", *more)
            said = f"{section}.folder {nowhere}x: No such file or directory: no"
            assert done.returncode == 0 and said in done.stderr, done
    write(scratch + "/agrees.conf", "[output]\ntrajectory = /dev/null\n[requests]\n"
          "deadline_ms = 10\nmax_deadline_ms = 5\n[http]\norigins = https://app.foxglove.dev\n")
    done = posed("-c", scratch + "/agrees.conf", "--check-config")
    assert done.returncode == 0 and done.stderr.count("\n") == 1, done
    assert "agrees.conf:4: requests.deadline_ms = 10 is above" in done.stderr, done
    done = posed("--check-config", f"--trajectory={scratch}/x.ply", f"--map={scratch}/x.ply")
    assert done.returncode == 3 and "--map: output.map and output.trajectory" in done.stderr, done


def check_room_for_map():
    """More voxels than the machine has memory for: a setting that does not fit."""
    if harness.is_sanitized():
        return  # it takes the address space itself
    most = 4 << 30
    done = subprocess.run(
        [harness.BINARY + "/bin/posed", "--source", "synth:room", "--run-dir",
         harness.SCRATCH + "/room", "--no-tcp", "--backend", "cpu", "--reference", "model",
         "--set", f"map.memory_bytes={2 * most}", "--set", "http.port=0"],
        capture_output=True, text=True, timeout=harness.PATIENCE_S,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (most, most)))
    said = f"map.memory_bytes = {2 * most}: the machine has no room for so many bytes of voxels"
    assert done.returncode == 3 and said in done.stderr and "give it less" in done.stderr, done


def check_one_per_run_dir():
    first = harness.Daemon("synth:room", *LIVE, speed=1)
    first.wait_for(lambda: first.poses, "first pose")
    for name in ("pub", "latest", "img", "req"):
        mode = os.stat(first.folder + "/" + name).st_mode
        assert stat.S_ISSOCK(mode) and stat.S_IMODE(mode) == 0o660, oct(mode)
    again = ("--run-dir", first.folder, "--no-tcp", "--source", "synth:room", "--frames", "2",
             "--speed", "max", "--trajectory", first.trajectory)
    first.wait_for(lambda: len(first.trajectory_bytes()) > 100, "lines of the trajectory")
    done = posed(*again)
    assert done.returncode == 1 and "another posed" in done.stderr, done
    assert len(first.trajectory_bytes()) > 100, "the second one emptied the trajectory of the first"
    n = len(first.poses)
    first.wait_for(lambda: len(first.poses) > n, "the first one goes on")
    # What a killed daemon leaves behind stops nobody.
    first.process.kill()
    first.process.wait()
    done = posed(*again)
    assert done.returncode == 0, done.stderr


def check_reload():
    path = harness.SCRATCH + "/reload.conf"
    secret, old, new = (f"{harness.SCRATCH}/{name}" for name in ("reload.secret", "old", "new"))
    write(secret, "JTKVSB%%)wK0E.X)V>+}o?pNmC{O&4W4b!Ni{Lh6\n")
    os.chmod(secret, 0o600)
    for clients in (old, new):
        write(clients, "# nobody\n")
    keys = f"[endpoints]\ncurve_secret_key_file = {secret}\ncurve_clients_file = "
    write(path, "[log]\nlevel = info\n" + keys + old + "\n")
    daemon = harness.Daemon("synth:room", "-c", path, *LIVE, speed=1)
    daemon.wait_for(lambda: daemon.poses, "first pose")
    write(path, "[log]\nlevel = debug\n[camera]\nfx = 500\n" + keys + old + "\n")
    daemon.process.send_signal(signal.SIGHUP)
    daemon.wait_for(lambda: "1 settings changed" in daemon.log(), "the new level")
    assert f"camera.fx = 500 ({path}:4) needs a restart; 0 (built-in) stays" in daemon.log()
    write(path, "[log]\nlevel = deafening\n")
    daemon.process.send_signal(signal.SIGHUP)
    daemon.wait_for(lambda: "the old one stays" in daemon.log(), "the refusal")
    assert "reload.conf:2: log.level" in daemon.log()
    kinds = (messages.Event.CONFIG_RELOADED, messages.Event.CONFIG_REJECTED)
    daemon.wait_for(lambda: all(any(e.kind == kind for e in daemon.events) for kind in kinds),
                    "both events")
    # The list in force is read again, which is gone as the file names another one.
    write(path, "[log]\nlevel = debug\n" + keys + new + "\n")
    os.unlink(old)
    daemon.process.send_signal(signal.SIGHUP)
    daemon.wait_for(lambda: "the clients that may connect stay the old ones" in daemon.log(), old)
    daemon.wait_for(lambda: any(e.kind == messages.Event.CONFIG_REJECTED
                                and "not the list of clients" in e.message
                                for e in daemon.events), "an event of the list")
    daemon.stop()


def set_params(daemon, *pairs):
    return daemon.request(set_params=requests.SetParams(
        params=[requests.SetParams.Assignment(name=name, value=value) for name, value in pairs]))


def check_set_params():
    """What SIGHUP may change, on request: all of it or none, until the files are read again."""
    path = harness.SCRATCH + "/set.conf"
    write(path, "[log]\nlevel = warning\n[map]\nvoxel_m = 0.01\n")
    daemon = harness.Daemon("synth:room", "-c", path, *LIVE, speed=1)
    daemon.wait_for(lambda: daemon.poses, "first pose")
    reply = set_params(daemon, ("log.level", "notice"), ("requests.deadline_ms", "1234"))
    assert reply.code == requests.OK, reply
    now = {p.name: (p.value, p.origin) for p in reply.set_params.params}
    assert now == {"log.level": ("notice", "SetParams"),
                   "requests.deadline_ms": ("1234", "SetParams")}, now
    for name, value, code, field in (
            ("log.level", "deafening", requests.INVALID_ARGUMENT, "value"),
            ("requests.deadline_ms", "0", requests.INVALID_ARGUMENT, "value"),
            ("log.levle", "info", requests.NOT_FOUND, "name"),
            ("tracker.iterations", "1,1,1", requests.FAILED_PRECONDITION, "name")):
        reply = set_params(daemon, ("log.rate_hz", "7"), (name, value))
        assert (reply.code, reply.field) == (code, f"set_params.params[1].{field}"), reply
        assert name in reply.message, reply
    assert set_params(daemon).field == "set_params.params"

    def in_force(name):
        reply = daemon.request(get_params=requests.GetParams(prefix=name))
        return reply.get_params.params[0].value

    assert in_force("log.rate_hz") == "0", "a part of what was refused"
    # The log obeys.
    assert "on request" in daemon.log(), "at level notice a change is logged"
    done = posectl(daemon, "set", "log.level=error", "-o", "json")
    assert json.loads(done.stdout)["log.level"]["value"] == "error", done
    said = daemon.log()
    assert posectl(daemon, "set", "log.format=json").returncode == 0
    assert daemon.log() == said, "a notice at level error"
    assert posectl(daemon, "set", "log.level").returncode == 2
    for key, remedy in (("gpu.threads=1", f"set it in {path} and restart posed"),
                        ("http.port=1", "change it where it was set (--set) and restart posed"),
                        ("map.voxel_m=0.02", f"change it where it was set ({path}:4) and")):
        done = posectl(daemon, "set", key)
        assert done.returncode == 1 and "FAILED_PRECONDITION" in done.stderr, done
        assert f"cannot change while the daemon runs: {remedy}" in done.stderr, done
    daemon.process.send_signal(signal.SIGHUP)
    daemon.wait_for(lambda: in_force("log.level") == "warning", "the file's level")
    assert in_force("requests.deadline_ms") == "5000"
    daemon.stop()


def check_stop_while_waiting():
    """A signal ends a daemon that still waits for its first subscriber."""
    daemon = harness.Daemon("synth:room", "--set", "publish.wait_subscriber_s=60", collect=False)
    daemon.wait_for(lambda: "req: ipc" in daemon.log(), "the sockets")
    time.sleep(0.2)
    start = time.monotonic()
    daemon.stop()
    assert time.monotonic() - start < 2


def check_json_log():
    daemon = harness.Daemon("synth:room", "--set", "log.format=json", "--frames", "3")
    daemon.wait()
    lines = [json.loads(line) for line in daemon.log().splitlines()]
    assert len(lines) > 5 and all({"time", "level", "message"} <= set(line) for line in lines)
    # Also of a configuration that is wrong, as far as it says so.
    path = harness.SCRATCH + "/json.conf"
    write(path, "[camera]\nfx = x\nfx = y\n[log]\nformat = json\n[gpu]\nthreads = 2\nthreads = 1\n")
    done = posed("-c", path, "--set", "tracker.gap_s=-1")
    assert done.returncode == 3, done
    lines = [json.loads(line) for line in done.stderr.splitlines()]
    assert [line["level"] for line in lines] == ["error", "error", "warning", "error"], lines
    # A folder's name may be no text at all.
    done = subprocess.run([harness.BINARY + "/bin/posed", "--source", b"tum:/nowhere/\xff\xfe",
                           "--set", "log.format=json"], capture_output=True, timeout=60)
    assert done.returncode == 4, done
    lines = [json.loads(line.decode("utf-8")) for line in done.stderr.splitlines()]
    assert any("/nowhere/??" in line["message"] for line in lines), lines


def scenario():
    check_sources_of_settings()
    check_start_agrees()
    check_room_for_map()
    check_one_per_run_dir()
    check_reload()
    check_set_params()
    check_stop_while_waiting()
    check_json_log()


harness.run(scenario)
