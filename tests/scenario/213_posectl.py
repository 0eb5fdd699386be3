# SPDX-License-Identifier: Apache-2.0
"""posectl against a running daemon, and against none."""
import json
import os
import subprocess

import harness


def ctl(code, *arguments):
    done = subprocess.run([harness.BINARY + "/bin/posectl", *arguments], capture_output=True,
                          text=True, timeout=60)
    assert done.returncode == code, (arguments, done.returncode, done.stdout, done.stderr)
    return done


def check_standard_output(path, where):
    """-o /dev/stdout writes where the shell has led it, behind what is there, and nothing else."""
    for what in (("trajectory",), ("get", "depth")):
        with open(path, "wb") as file:
            file.write(b"before\n")
            file.flush()
            done = subprocess.run([harness.BINARY + "/bin/posectl", *what, "-o", "/dev/stdout",
                                   *where], stdout=file, stderr=subprocess.PIPE, timeout=60)
        with open(path, "rb") as file:
            text = file.read()
        assert done.returncode == 0 and b"/dev/stdout: " in done.stderr, done
        assert b"/dev/stdout: " not in text, what
        begin = (b"0.000000000 ", b"# 0.000000000 ") if what[0] == "trajectory" else \
            (b"\x89PNG\r\n",)
        assert text.startswith(tuple(b"before\n" + one for one in begin)), (what, text[:80])


def check_running(daemon):
    where = ("--endpoint", daemon.folder)
    daemon.wait_for(lambda: len(daemon.poses) > 5, "five poses")
    assert "synth:room" in ctl(0, "status", *where).stdout
    # A frame that a busy machine drops is DEGRADED for its moment; another one is asked about.
    for _ in range(20):
        status = json.loads(ctl(0, "status", *where, "-o", "json").stdout)
        if status["state"] == "TRACKING":
            break
    # A busy machine drops frames: their pose is a prediction.
    assert status["state"] in ("TRACKING", "DEGRADED") and status["captured_frames"] > 0, status
    # The same by the socket's own address.
    ctl(0, "status", "--endpoint", daemon.address("req"))

    assert len(ctl(0, "watch", "-n", "3", *where).stdout.splitlines()) == 3
    lines = ctl(0, "watch", "-n", "3", "-o", "json", *where).stdout.splitlines()
    seqs = [json.loads(line)["seq"] for line in lines]
    assert seqs == list(range(seqs[0], seqs[0] + 3)), seqs

    path = daemon.folder + "/out.txt"
    said = ctl(0, "trajectory", "-o", path, *where).stderr
    with open(path, encoding="ascii") as file:
        rows = [line.split() for line in file if not line.startswith("#")]
    assert said == f"posectl: {path}: {len(rows)} poses\n", said
    check_standard_output(path, where)
    assert len(rows) > 3 and all(len(row) == 8 for row in rows)
    times = [float(row[0]) for row in rows]
    assert times == sorted(times)
    assert len(ctl(0, "trajectory", *where).stdout.splitlines()) >= len(rows)
    # The word json is a format, another word a file; both together write JSON to the file.
    ctl(0, "trajectory", "-o", "json", "-o", path, *where)
    with open(path, encoding="ascii") as file:
        poses = json.load(file)["poses"]
    assert [pose["seq"] for pose in poses] == list(range(len(poses)))
    daemon.wait_for(lambda: len(daemon.poses) >= len(poses), "what was told")
    for told in poses:  # the text has a comment in place of what was not measured
        own = daemon.poses[told["seq"]]
        is_predicted = harness.reason_name(own) == "DROPPED" and told["state"] != "LOST"
        assert told["predicted"] == is_predicted, (told, own)
    assert len(rows) <= sum(not told["predicted"] and told["state"] != "LOST" for told in poses)
    assert not os.path.exists("json")
    assert "Permission" in ctl(1, "trajectory", "-o", "/proc/version", *where).stderr \
        or os.getuid() == 0

    said = ctl(0, "reset", *where).stdout
    assert "reset before frame" in said and "the map and its keyframes so far are given up" in said
    said = " ".join(ctl(0, "reset", "--help").stdout.split())
    assert "map and its keyframes are given up" in said and "posectl map save" in said, said
    assert json.loads(ctl(0, "reset", "-k", "-o", "json", *where).stdout)["next_seq"] > 0
    assert "FAILED_PRECONDITION" in ctl(1, "keyframe", *where).stderr
    params = json.loads(ctl(0, "params", "-o", "json", *where).stdout)
    assert params["capture.loop"]["value"] == "true", params["capture.loop"]
    some = json.loads(ctl(0, "params", "capture.", "-o", "json", *where).stdout)
    assert some == {k: v for k, v in params.items() if k.startswith("capture.")}, some
    assert 'no key begins with "captrue"' in ctl(1, "params", "captrue", *where).stderr

    # Any of its addresses names the daemon; a socket at an unusual place is taken as it stands.
    for name in ("pub", "img", "latest"):
        ctl(0, "status", "--endpoint", daemon.address(name))
        ctl(0, "watch", "-n", "1", "--endpoint", daemon.address(name))
    os.symlink(daemon.folder + "/pub", daemon.folder + "/elsewhere")
    wrong = ctl(3, "status", "--endpoint", daemon.address("elsewhere"), "--timeout", "0.5").stderr
    assert "`req` socket" in wrong, wrong


def check_alone(folder):
    for command in ("status", "watch", "trajectory", "reset"):
        said = ctl(3, command, "--endpoint", folder, "--timeout", "0.3").stderr
        assert "no posed at" in said and "--host" in said, said
    # A run directory that is not there yet, because its daemon has not run.
    for command in ("status", "watch"):
        said = ctl(3, command, "-e", folder + "/later", "--timeout", "0.3").stderr
        assert f"no posed at ipc://{folder}/later" in said, said
    said = ctl(3, "status", "--endpoint", "tcp://127.0.0.1:1", "--timeout", "0.3").stderr
    assert "Connection refused" in said, said
    said = ctl(3, "status", "--endpoint", "tcp://no.such.host.invalid", "--timeout", "0.3").stderr
    assert "no address" in said, said


def check_usage():
    ctl(0, "--help")
    ctl(0, "--version")
    ctl(2)
    assert "no command" in ctl(2, "nonsense").stderr
    assert "json or text" in ctl(2, "status", "-o", "file.txt").stderr
    ctl(2, "status", "--timeout", "soon")
    ctl(2, "watch", "--count", "0")
    assert "no topic" in ctl(2, "watch", "weather").stderr
    assert '"now" is one word too many' in ctl(2, "status", "now").stderr
    assert "did you mean status?" in ctl(2, "STATUS").stderr
    assert "posectl COMMAND --timeout" in ctl(2, "--timeout", "3").stderr
    assert ctl(0, "help", "status").stdout == ctl(0, "status", "--help").stdout
    for empty in (("map", "save", ""), ("register", "", ""), ("status", "-e", "")):
        assert 'is empty ("")' in ctl(2, *empty).stderr
    assert "export needs a file" in ctl(2, "map", "export").stderr
    assert "repair needs a file" in ctl(2, "record", "repair").stderr
    for source, said in (("/nowhere", "no such file or folder, and no DRIVER:PLACE"),
                         ("tum:/nowhere", "/nowhere: No such file or directory")):
        told = ctl(1, "rig", "calibrate", source, source + "2").stderr
        assert said in told and told.count("\n") == 1, told
    # One file is one camera's, however it is named; another topic of it is another's.
    folder = harness.SCRATCH + "/same"
    os.makedirs(folder + "/sub")
    for name in ("a.mcap", "b.mcap"):
        with open(f"{folder}/{name}", "w", encoding="ascii") as file:
            file.write(name)
    os.symlink("a.mcap", folder + "/link.mcap")
    first, same = f"mcap:{folder}/a.mcap", "A and B are the same source"
    for source in (first, first[5:], f"mcap:{folder}/./a.mcap", f"{folder}/sub/../a.mcap",
                   f"mcap:{folder}/link.mcap"):
        told = ctl(1, "rig", "calibrate", first, source).stderr
        assert same in told and told.count("\n") == 1, told
        assert same in ctl(1, "rig", "calibrate", first + "#a", source + "#a").stderr
        assert same not in ctl(1, "rig", "calibrate", first + "#a", source + "#b").stderr
    assert same not in ctl(1, "rig", "calibrate", first, f"mcap:{folder}/b.mcap").stderr
    # What is to be written is looked at before the work.
    made = harness.SCRATCH + "/made"
    for name in ("made", "rig.A.field", "other.B.field"):
        with open(f"{harness.SCRATCH}/{name}", "w", encoding="ascii"):
            pass
    for command in (("calibrate", "synth:room"), ("rig", "calibrate", "synth:room", "synth:wall")):
        assert f"{made}: is there already" in ctl(1, *command, "-o", made).stderr
        assert "/nowhere/x: No such file" in ctl(1, *command, "-o", "/nowhere/x").stderr
    for name, field in (("rig", "rig.A.field"), ("other", "other.B.field")):
        told = ctl(1, *command, "-o", f"{harness.SCRATCH}/{name}").stderr
        assert f"/{field}: is there already" in told and told.count("\n") == 1, told
    told = ctl(1, "register", made, made, "--plot", "/nowhere/x.png").stderr
    assert told == "posectl: /nowhere/x.png: No such file or directory\n", told
    assert "(--plot): x.foo: a picture" in ctl(2, "register", made, made, "--plot", "x.foo").stderr
    told = ctl(1, "calibrate", "synth:room", "--check", harness.SCRATCH).stderr
    assert told == f"posectl: {harness.SCRATCH}: Is a directory\n", told
    told = ctl(2, "calibrate", "synth:room", "--check", "a", "-o", harness.SCRATCH + "/b").stderr
    assert f"--check a -o {harness.SCRATCH}/b: judging a field writes none" in told, told
    assert "less than 48 letters" in ctl(2, "set", 50 * "x" + "=1").stderr
    for where in ("127.0.0.1:99999", "tcp://127.0.0.1:0", "ipc://", "http://127.0.0.1:8765"):
        assert "or no address" in ctl(3, "status", "-e", where, "--timeout", "60").stderr


def check_times():
    """JSON keeps the microseconds of a camera's clock, as the text does."""
    folder = harness.SCRATCH + "/recording"
    subprocess.run([harness.BINARY + "/bin/posed-synth", "room", folder, "--frames", "9"],
                   check=True, stdout=subprocess.DEVNULL)
    with open(folder + "/depth.txt", encoding="ascii") as file:
        lines = [line.split() for line in file if not line.startswith("#")]
    times = [1305031102.160407 + float(time) for time, _ in lines]
    with open(folder + "/depth.txt", "w", encoding="ascii") as file:
        file.writelines(f"{time:.6f} {image}\n" for time, (_, image) in zip(times, lines))
    daemon = harness.Daemon("tum:" + folder, "--loop", speed=1)
    daemon.step(9)
    told = json.loads(ctl(0, "trajectory", "-o", "json", "--endpoint", daemon.folder).stdout)
    for time, pose in zip(times, told["poses"]):
        assert abs(pose["time_s"] - time) < 2e-6, (pose["time_s"], time)
    daemon.stop()


def scenario():
    check_usage()
    check_times()
    daemon = harness.Daemon("synth:room", "--loop", "--reference", "previous", speed=0.5)
    check_running(daemon)
    daemon.stop()
    check_alone(daemon.folder)


harness.run(scenario)
