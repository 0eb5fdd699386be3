# SPDX-License-Identifier: Apache-2.0
"""ROS 2 live: a camera that the package `cyclonedds` plays (ros_peer.py) is tracked through
`ros2:TOPIC`, and that package receives odom, tf, tf_static, diagnostics and the depth images: every
frame that was sent has its odometry, with the pose of the trajectory, in base_link's axes. Then a
recording at 30 Hz: that package loses no odom, tf or camera info. A camera that is lost and begins
anew elsewhere (ros_lost_peer.py). Then the cameras of a rig, each on topics of its own, whose
frames are one tree (ros_rig_peer.py). Two daemons on one domain. And who hears a daemon that is
asked to keep to this machine.

usage: 252_ros2_live.py [SECONDS]    of the last part alone; 600 is what is required"""
import json
import math
import os
import subprocess
import sys
import time

import harness
from harness import check, messages, requests

N_FRAMES = 6
RATE_HZ = 4
LASTING_S, LASTING_HZ = 5, 30
LOST = 1e6  # variance of what is not known
DOMAIN = 100 + os.getpid() % 120
OPTICAL = [[0, 0, 1], [-1, 0, 0], [0, -1, 0]]  # the optical frame's axes in the base's (REP 103)


def turn(v):
    return [sum(OPTICAL[i][k] * v[k] for k in range(3)) for i in range(3)]


def close(a, b, limit=1e-8):
    return all(abs(x - y) <= limit for x, y in zip(a, b, strict=True))


def start(topic, *options):
    return harness.Daemon(f"ros2:{topic}", "--set", "ros.publish=true", "--set",
                          f"ros.domain={DOMAIN}", *options, collect=False)


def exchange(python, tum, encoding, n_frames, rate_hz=RATE_HZ):
    topic = "/camera/depth/image_rect_raw"
    topic += "/compressed" if "plain-png" in encoding else \
        "/compressedDepth" if encoding.endswith(("png", "rvl")) else ""
    scale = [] if encoding.startswith("32FC1") else ["--set", "camera.depth_scale=5000"]
    out = f"{harness.SCRATCH}/{encoding}.json"
    script = harness.SOURCE + "/tests/scenario/ros_peer.py"
    peer = subprocess.Popen([python, script, str(DOMAIN), tum, encoding, str(rate_hz),
                             str(n_frames), out], stdout=subprocess.PIPE, text=True)
    check(peer.stdout.readline() == "ready\n", f"{encoding}: the peer did not start")
    daemon = start(topic, *scale)
    check(peer.wait(200) == 0 and os.path.exists(out), f"{encoding}: the peer failed")
    daemon.stop()
    with open(out) as file:
        return daemon, json.load(file)


def check_exchange(daemon, got, encoding, n_frames):
    odom = {row[0]: row for row in got["odom"]}
    missing = [t for t in got["sent"] if t not in odom]
    check(len(got["sent"]) == n_frames and not missing, f"{encoding}: no odometry of {missing}")
    check(len(got["odom"]) == len(odom), f"{encoding}: a stamp came twice")
    moves = [row for row in got["tf"] if row[2] == "base_link"]
    maps = [row for row in got["tf"] if row[2] != "base_link"]
    # before the first that is tracked nobody knows where the camera is, and tf is silent of it
    known = [row for row in got["odom"] if row[5][0] < LOST]
    check([row[0] for row in known] == [row[0] for row in moves], "tf is not odom's")
    # in a map that nothing has adjusted yet odom begins where it does, and tf says so all the time
    check([row[0] for row in maps] == [row[0] for row in got["odom"]], "tf has no map all the time")
    check(all(row[1:3] == ["map", "odom"] and close(row[3], [0, 0, 0]) and
              close(row[4], [0, 0, 0, 1]) for row in maps), f"{maps[:1]}")
    rows = [line.split() for line in harness.frame_lines(daemon.trajectory)]
    predicted = {int(r[1].replace(".", "")) for r in rows if r[2:3] == ["predicted:"]}
    trajectory = {int(r[0].replace(".", "")): [float(x) for x in r[1:]] for r in rows
                  if r[0] != "#"}
    for row, tf in zip(known, moves, strict=True):
        stamp, frame, child, p, q, covariance, of_twist = row
        check((frame, child) == ("odom", "base_link") == tuple(tf[1:3]), f"frames {frame} {child}")
        check(p == tf[3] and q == tf[4], "tf has another pose")
        if stamp not in predicted:
            pose = trajectory[stamp]
            check(close(p, turn(pose[:3])), f"{stamp}: {p} is not {pose[:3]} in the base's axes")
            axis = turn(pose[3:6])
            sign = 1 if q[3] * pose[6] >= 0 else -1
            check(close(q, [sign * x for x in (*axis, pose[6])]), f"{stamp}: orientation {q}")
        check(all(abs(covariance[6 * i + k] - covariance[6 * k + i]) < 1e-12 for i in range(6)
                  for k in range(6)), "the covariance is not symmetric")
        check(min(covariance[::7]) > 0, f"{stamp}: a pose that is certain, {covariance[::7]}")
        # without an odometry before it nothing is known of the velocity
        known = 0 < min(of_twist[::7]) and max(of_twist[::7]) < 10
        check(known or stamp != got["odom"][-1][0] and of_twist[::7] == [LOST] * 6,
              f"{stamp}: twist covariance {of_twist[::7]}")
    check(got["odom"][0][6][::7] == [LOST] * 6, "the first velocity is taken for known")
    check(len(got["tf_static"]) == 1, "tf_static did not come")
    static = got["tf_static"][0]
    check(static[1:3] == ["base_link", "camera_depth_optical_frame"], f"tf_static {static}")
    check(close(static[4], [-0.5, 0.5, -0.5, 0.5]) or close(static[4], [0.5, -0.5, 0.5, -0.5]),
          f"tf_static {static}")
    check(got["depth"] and got["info"], f"{encoding}: no depth image came back")
    check({row[2] for row in got["depth"]} == {"32FC1"}, "encoding of units that are not mm")
    check(all(row[3:6] == [480, 640, 2560] for row in got["depth"]), "size of the images")
    values = [x for x in got["depth"][-1][6] if not math.isnan(x)]
    check(values and all(0.3 < x < 10 for x in values), f"depths {values}")
    check(len(values) < len(got["depth"][-1][6]) or encoding == "32FC1", "65535 is a depth")
    check(got["info"][0][1:] == [480, 640, [525, 0, 319.5, 0, 525, 239.5, 0, 0, 1]], "camera info")
    check(got["diagnostics"] and got["diagnostics"][-1][1] == "posed: tracker" and
          int(got["diagnostics"][-1][3]["captured"]) > 0, f"diagnostics {got['diagnostics'][-1:]}")
    silent = {row[2] for row in got["diagnostics"] if row[2].startswith("NO_INPUT")}
    check("NO_INPUT: no frame arrives" in silent, f"diagnostics of the silence: {silent}")
    p50_ms = sorted(got["way_ms"])[len(got["way_ms"]) // 2]
    print(f"{encoding}: {n_frames} images sent, {len(odom)} odometries, image to odometry p50 "
          f"{p50_ms:.1f} ms (with the peer's own coding)")


def check_lasting(python, seconds):
    """A recording in its own time, again and again: each frame's stamp once on each topic, from the
    first that the subscriber has of all."""
    folder, out = harness.SCRATCH + "/lasting", harness.SCRATCH + "/counted.json"
    subprocess.run([harness.BINARY + "/bin/posed-synth", "room-still", folder, "--frames",
                    "60"],
                   check=True, stdout=subprocess.DEVNULL)
    peer = subprocess.Popen([python, harness.SOURCE + "/tests/scenario/ros_count_peer.py",
                             str(DOMAIN), out], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                            text=True)
    check(peer.stdout.readline() == "ready\n", "the peer did not start")
    # what is tracked is not looked at: the processors are to be free for the wire
    daemon = harness.Daemon(f"tum:{folder}", "--loop", "--set", "ros.publish=true", "--set",
                            f"ros.domain={DOMAIN}", "--set", "tracker.iterations=1,1,1", "--set",
                            "camera.depth_scale=5000", speed=1, collect=False)
    time.sleep(seconds)
    daemon.stop()
    peer.communicate("", 60)
    check(peer.returncode == 0, "the peer failed")
    with open(out) as file:
        counted = json.load(file)
    sent = [int(line.lstrip("# ").split()[0].replace(".", ""))
            for line in harness.frame_lines(daemon.trajectory)]
    first = max(stamps[0] for stamps in counted.values())
    sent = [t for t in sent if t >= first]
    check(len(sent) > 0.8 * LASTING_HZ * (seconds - 2), f"{len(sent)} poses in {seconds} s")
    check("were left out" not in daemon.log(), daemon.log())
    for name, stamps in counted.items():
        stamps = [t for t in stamps if t >= first]
        missed = sorted(set(sent) - set(stamps))
        lost = len(missed)
        print(f"{name}: {len(stamps)} of {len(sent)} received in {seconds} s, {lost} lost")
        check(stamps == sent, f"{name}: lost {missed[:100]}, or out of order, or more than once")


def check_rig_goes_on(python, conf, rig):
    """tf, when the first camera ends after a second."""
    with open(conf, "w") as file:
        file.write(f"[camera front]\nsource = synth:room-still,frames={LASTING_HZ}\n"
                   f"[camera left]\nsource = synth:room-still,seed=2\nloop = yes\nrig = {rig}\n")
    out = harness.SCRATCH + "/goes_on.json"
    peer = subprocess.Popen([python, harness.SOURCE + "/tests/scenario/ros_count_peer.py",
                             str(DOMAIN), out], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                            text=True)
    check(peer.stdout.readline() == "ready\n", "the peer did not start")
    daemon = harness.Daemon(None, "-c", conf, "--set", "ros.publish=true", "--set",
                            f"ros.domain={DOMAIN}", "--set", "tracker.iterations=1,1,1", "--set",
                            f"recorder.folder={harness.SCRATCH}", "--set", "recorder.start=goes_on",
                            "--set", "recorder.format=ros2mcap", speed=1, collect=False)
    goes_on = "no pose of front/odom for 1.5 s: tf goes on by left/odom"
    daemon.wait_for(lambda: goes_on in daemon.log(), "tf goes on")
    time.sleep(1)
    daemon.stop()
    peer.communicate("", 60)
    with open(out) as file:
        stamps = json.load(file)["tf"]
    n_after = sum(t - stamps[0] > 2 * 10**9 for t in stamps)
    print(f"the first camera ends: {len(stamps)} transforms in tf, {n_after} after 2 s")
    check(n_after > 15 and sorted(set(stamps)) == stamps, f"{stamps}")
    widest_s = max(b - a for a, b in zip(stamps, stamps[1:])) * 1e-9
    check(widest_s < 0.5, f"tf has a gap of {widest_s:.2f} s: {stamps}")
    run = subprocess.run([python, "-c", RECORDED_TF, harness.SCRATCH + "/goes_on.ros2.mcap"],
                         stdout=subprocess.PIPE, text=True, check=True)
    recorded = [t for t in json.loads(run.stdout) if t >= stamps[0]]
    check(recorded == stamps, f"the recording's tf: {recorded}, and live {stamps}")


RECORDED_TF = """
import json, sys
from mcap.reader import make_reader
from mcap_ros2.decoder import DecoderFactory
with open(sys.argv[1], "rb") as file:
    reader = make_reader(file, decoder_factories=[DecoderFactory()])
    print(json.dumps([m.log_time for _, _, m, d in reader.iter_decoded_messages(topics=["/tf"])
                      if d.transforms[-1].child_frame_id.endswith("base_link")]))
"""


def check_rig(python):
    """One of them has a name that topics cannot have."""
    rig, conf = harness.SCRATCH + "/rig.txt", harness.SCRATCH + "/rig.conf"
    with open(rig, "w") as file:
        file.write("0.2 0.03 -0.05 0 0.6 0 0.8\n")
    with open(conf, "w") as file:
        file.write("[camera front]\nsource = synth:room-still\nloop = yes\n"
                   f"[camera left-1]\nsource = synth:room-still,seed=2\nloop = yes\nrig = {rig}\n")
    peer = subprocess.Popen([python, harness.SOURCE + "/tests/scenario/ros_rig_peer.py",
                             str(DOMAIN), "20", "front", f"left-1={rig}"], text=True,
                            stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    check(peer.stdout.readline() == "ready\n", "the peer did not start")
    daemon = harness.Daemon(None, "-c", conf, "--set", "ros.publish=true", "--set",
                            f"ros.domain={DOMAIN}", "--set", "tracker.iterations=1,1,1", speed=1,
                            collect=False)
    said = peer.communicate(timeout=120)[0]
    daemon.stop()
    print(said[-1500:])
    topics = "ROS 2: front/odom, left_1/odom, rig/odom, tf and diagnostics"
    check(topics in daemon.log(), daemon.log())
    check(peer.returncode == 0 and "one tree of 6 frames" in said, "the rig over DDS")
    check_rig_goes_on(python, conf, rig)
    # a section alone: as a camera without one
    with open(conf, "w") as file:
        file.write("[camera front]\nsource = synth:room-still,frames=3\n")
    daemon = harness.Daemon(None, "-c", conf, "--set", "ros.publish=true", "--set",
                            f"ros.domain={DOMAIN}", collect=False)
    daemon.wait()
    check("ROS 2: odom, tf and diagnostics" in daemon.log(), daemon.log())
    with open(conf, "w") as file:
        file.write("".join(f"[camera {name}]\nsource = synth:room-still\n" for name in
                           ("left-1", "left_1")))
    run = subprocess.run([harness.BINARY + "/bin/posed", "-c", conf, "--run-dir", harness.SCRATCH,
                          "--no-tcp", "--set", "http.port=0", "--set", "ros.publish=true"],
                         stderr=subprocess.PIPE, text=True)
    check(run.returncode == 3 and "left-1 and left_1 are both left_1" in run.stderr, run.stderr)


def check_several(python):
    """Two daemons that are one odom to a subscriber: each says so once. In namespaces they are two,
    and nothing is said."""
    script, out = harness.SOURCE + "/tests/scenario/ros_count_peer.py", harness.SCRATCH + "/ns.json"
    for names in (("", ""), ("one", "/two/b")):
        peer = subprocess.Popen([python, script, str(DOMAIN), out, *names[1].split("/")[1:]],
                                stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        check(peer.stdout.readline() == "ready\n", "the peer did not start")
        options = ("--loop", "--set", "ros.publish=true", "--set", f"ros.domain={DOMAIN}", "--set",
                   "tracker.iterations=1,1,1", "--set")
        daemons = [harness.Daemon("synth:room-still", *options, f"ros.namespace={name}", speed=1,
                                  collect=False) for name in names]
        said = "warning: ROS 2: another program publishes odom on this domain"
        if names[0]:
            time.sleep(4)
        else:
            for daemon in daemons:
                daemon.wait_for(lambda of=daemon: said in of.log(), "it warns")
        for daemon in daemons:
            daemon.stop()
            check(daemon.log().count("another program") == (0 if names[0] else 1), daemon.log())
        check("ROS 2: two/b/odom, two/b/tf and two/b/diagnostics" in daemons[1].log() or
              not names[0], daemons[1].log())
        peer.communicate("", 60)
        with open(out) as file:
            got = json.load(file)
        check(len(got["odom"]) > 10 and len(got["tf"]) > 10, f"{names}: {got}")


def check_node(python):
    """The node of all topics, for programs of ROS that know its type, and no word to others."""
    for namespace in ("", "/two/b"):
        daemon = harness.Daemon("synth:room-still", "--loop", "--set", "ros.publish=true", "--set",
                                f"ros.domain={DOMAIN}", "--set", "tracker.iterations=1,1,1",
                                "--set", f"ros.namespace={namespace}", speed=1, collect=False)
        run = subprocess.run([python, harness.SOURCE + "/tests/scenario/ros_node_peer.py",
                              str(DOMAIN)], stdout=subprocess.PIPE, text=True)
        daemon.stop()
        check(run.returncode == 0, "the peer failed")
        before = f"rt{namespace}/"
        topics = sorted(before + name for name in
                        ("diagnostics", "odom", "posed/depth/camera_info", "posed/depth/image_raw",
                         "tf", "tf_static"))
        node = [namespace or "/", "posed", topics]
        check(json.loads(run.stdout) == [None, node, None, node], f"{run.stdout}, not {node}")


def check_lost(python):
    """A camera that is covered and then sees another place: tf says nothing of it while it is lost,
    and the new epoch is told of and is anywhere in odom, until a reset is asked for."""
    out = harness.SCRATCH + "/lost.json"
    peer = subprocess.Popen([python, harness.SOURCE + "/tests/scenario/ros_lost_peer.py",
                             str(DOMAIN), out], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                            text=True)
    check(peer.stdout.readline() == "ready\n", "the peer did not start")
    daemon = harness.Daemon("ros2:/camera/depth/image_rect_raw", "--set", "ros.publish=true",
                            "--set", f"ros.domain={DOMAIN}", "--set", "tracker.restart_s=0.2",
                            "--set", f"recorder.folder={harness.SCRATCH}", "--set",
                            "recorder.start=lost", "--set", "recorder.format=ros2mcap")

    def has_good(epoch, n):
        return sum(p.map_epoch == epoch and p.state != messages.STATE_LOST
                   for p in list(daemon.poses)) >= n
    daemon.wait_for(lambda: has_good(1, 60), "it begins anew")
    daemon.request(reset=requests.Reset(keep_pose=True))
    daemon.wait_for(lambda: has_good(2, 40), "a reset on request")
    peer.communicate("", 60)
    daemon.stop()
    with open(out) as file:
        got = json.load(file)
    poses = {p.timestamp.seconds * 10**9 + p.timestamp.nanos: p for p in daemon.poses}
    first = min(got["base"])
    odom = {row[0]: row for row in got["odom"] if row[0] >= first}
    lost = {t for t in odom if poses[t].state == messages.STATE_LOST}
    check(len(lost) > 15 and not lost & set(got["base"]), f"{len(lost)} lost, tf of them")
    check(set(odom) - lost <= set(got["base"]), "no tf of a pose that is known")
    check(lost <= set(got["map"]), "no map while it is lost")
    for t, row in odom.items():
        is_known = t not in lost and poses[t].map_epoch != 1
        check((max(row[1]) < 1) == is_known and (max(row[1]) >= LOST) != is_known,
              f"{harness.state_name(poses[t])}, epoch {poses[t].map_epoch}: {row[1][::7]}")
    twists = [max(odom[t][2]) for t in sorted(set(odom) - lost) if poses[t].map_epoch == 1][2:]
    check(len(twists) > 30 and sorted(twists)[len(twists) // 2] < 10, f"{twists}")
    told = [row for row in got["diagnostics"] if "since map epoch 1 began is not" in row[1]]
    check(told and told[0][0] == 1 and told[0][2]["map_epoch"] == "1" and
          "before: tracking was lost" in told[0][1], f"{got['diagnostics']}")
    check(got["diagnostics"][-1][2]["map_epoch"] == "2" and
          "since map" not in got["diagnostics"][-1][1], f"{got['diagnostics'][-1]}")
    check({t for t in odom if poses[t].is_cut} == {t for t in odom if poses[t].map_epoch == 1},
          "is_cut of the poses")
    check_recorded(python, harness.SCRATCH + "/lost.ros2.mcap", odom)
    print(f"lost: {len(lost)} frames without tf, then {told[0][1]}")


RECORDED = """
import json, sys
from mcap.reader import make_reader
from mcap_ros2.decoder import DecoderFactory
with open(sys.argv[1], "rb") as file:
    reader = make_reader(file, decoder_factories=[DecoderFactory()])
    print(json.dumps([[m.log_time, list(d.pose.covariance), list(d.twist.covariance)]
                      for _, _, m, d in reader.iter_decoded_messages(topics=["/odom"])]))
"""


def check_recorded(python, path, odom):
    """What is recorded says the same of each pose as what was sent."""
    run = subprocess.run([python, "-c", RECORDED, path], stdout=subprocess.PIPE, text=True,
                         check=True)
    recorded = {row[0]: row for row in json.loads(run.stdout)}
    check(set(odom) <= set(recorded), f"{len(odom)} sent, {len(recorded)} recorded")
    for t, row in odom.items():
        for sent, kept in zip(row[1:], recorded[t][1:], strict=True):
            check(close(sent, kept, 1e-12 * max(sent)), f"{t}: {sent[::7]} sent, {kept[::7]} kept")


# As rmw_cyclonedds has ROS_LOCALHOST_ONLY=1.
LOOPBACK = ("<CycloneDDS><Domain><General><Interfaces><NetworkInterface address='127.0.0.1'/>"
            "</Interfaces></General></Domain></CycloneDDS>")


def has_network():
    """Beside loopback, where peers on the network are otherwise, too."""
    def is_up(name):
        with open(f"/sys/class/net/{name}/operstate") as file:
            return file.read() == "up\n"
    return any(is_up(name) for name in os.listdir("/sys/class/net") if name != "lo")


def check_localhost(python):
    """Who is asked to keep to this machine is heard by those who are asked the same, and by nobody
    on the network."""
    for variable, value, named, configs in (
            ("ROS_LOCALHOST_ONLY", "1", "interface lo (", {"loopback": LOOPBACK, "network": ""}),
            ("ROS_AUTOMATIC_DISCOVERY_RANGE", "LOCALHOST", "programs of this machine alone (",
             {"network": ""}),
            ("ROS_AUTOMATIC_DISCOVERY_RANGE", "OFF", "no other program (", {"network": ""})):
        counts = {name: f"{harness.SCRATCH}/{name}.json" for name in configs}
        peers = {name: subprocess.Popen([python, harness.SOURCE +
                                         "/tests/scenario/ros_count_peer.py", str(DOMAIN),
                                         counts[name]], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, text=True,
                                        env={**os.environ, "CYCLONEDDS_URI": config})
                 for name, config in configs.items()}
        for name, peer in peers.items():
            check(peer.stdout.readline() == "ready\n", f"{name}: the peer did not start")
        daemon = harness.Daemon("synth:room-still", "--loop", "--set", "ros.publish=true", "--set",
                                f"ros.domain={DOMAIN}", "--set", "tracker.iterations=1,1,1",
                                speed=1, collect=False, environment={variable: value})
        daemon.wait_for(lambda: "tf and diagnostics on" in daemon.log(), "it publishes")
        time.sleep(3)
        daemon.stop()
        check(named + variable in daemon.log(), daemon.log())
        for name, peer in peers.items():
            peer.communicate("", 60)
            with open(counts[name]) as file:
                n = len(json.load(file)["odom"])
            print(f"{variable}={value}: {name} peer, {n} odometries")
            check((n > 10) == (name == "loopback") or not has_network(), f"{name}: {n} odometries")


def scenario():
    python = os.environ.get("POSED_PYTHON_ROS")
    if not python or subprocess.run([python, "-c", "import cyclonedds"],
                                    stderr=subprocess.DEVNULL).returncode:
        harness.skip("no cyclonedds from PyPI (POSED_PYTHON_ROS, see tools/test)")
    if "ros2" not in subprocess.run([harness.BINARY + "/bin/posed", "--help"], text=True,
                                    stdout=subprocess.PIPE).stdout:
        harness.skip("built without Cyclone DDS")
    if sys.argv[1:]:
        check_lasting(python, float(sys.argv[1]))
        return
    tum = harness.SCRATCH + "/tum"
    subprocess.run([harness.BINARY + "/bin/posed-synth", "room", tum, "--frames", str(N_FRAMES)],
                   check=True, stdout=subprocess.DEVNULL)
    for encoding in ("16UC1", "32FC1", "32FC1-mm", "16UC1-png", "16UC1-rvl", "16UC1-plain-png"):
        daemon, got = exchange(python, tum, encoding, N_FRAMES)
        check_exchange(daemon, got, encoding, N_FRAMES)
    check_lasting(python, LASTING_S)
    check_lost(python)
    check_rig(python)
    check_several(python)
    check_node(python)
    check_localhost(python)
    check_log()
    nobody = start("/nowhere")
    nobody.wait(4)
    where = f"domain {DOMAIN} (--set), interface of the library's choice"
    check(f"nobody publishes /nowhere on {where}; topics with images: none" in nobody.log(),
          nobody.log())


def check_log():
    """What the DDS library says is in the log, in the log's form."""
    run = subprocess.run([harness.BINARY + "/bin/posed", "--source", "synth:room,frames=3",
                          "--run-dir", harness.SCRATCH, "--no-tcp", "--set", "http.port=0", "--set",
                          "log.format=json", "--set", "ros.publish=true", "--set",
                          "ros.interface=nosuch0"], stderr=subprocess.PIPE, text=True)
    said = [json.loads(line)["message"] for line in run.stderr.splitlines()]
    check(run.returncode == 1 and any(text.startswith("Cyclone DDS: ") for text in said), said)


harness.run(scenario)
