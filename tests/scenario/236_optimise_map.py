# SPDX-License-Identifier: Apache-2.0
"""All keyframes are adjusted at once on request: map_from_odom moves and an event says how far,
odom goes on as if nothing had been, the map's surface follows, and what cannot be optimised is
refused with the reason."""
import json
import re
import subprocess

import harness
from harness import check, messages, requests

N_FRAMES, N_LATER = 100, 8
SOURCE = "synth:room-rotation,sensor=unkind"  # to and fro


def ctl(daemon, code, *options):
    done = subprocess.run([harness.BINARY + "/bin/posectl", "map", "optimise", "--host",
                           daemon.folder, "--timeout", "60", *options], capture_output=True,
                          text=True, timeout=harness.PATIENCE_S)
    check(done.returncode == code, f"{done.returncode} {done.stdout} {done.stderr}")
    return done


def check_help():
    done = subprocess.run([harness.BINARY + "/bin/posectl", "map", "--help"], capture_output=True,
                          text=True, timeout=harness.PATIENCE_S)
    said = " ".join(done.stdout.split())
    check("where all links err alike, poses fit them and are wrong" in said, said)
    check("whether that is better" not in said, said)


def odom_of(daemon):
    return [pose.pose.SerializeToString() for pose in daemon.poses]


def step_to_keyframes(daemon, n):
    """Frame by frame, until so many keyframes are kept."""
    kept = 0
    for _ in range(N_FRAMES):
        daemon.step(1)
        kept = len(daemon.request(get_keyframes=requests.GetKeyframes()).get_keyframes.keyframes)
        if kept >= n:
            break
    return kept


def check_refused():
    daemon = harness.Daemon(SOURCE)
    daemon.step(3)
    check("fewer than 3" in ctl(daemon, 1).stderr, "two frames")
    daemon.stop()
    daemon = harness.Daemon(SOURCE)
    check(step_to_keyframes(daemon, 3) == 3, "three keyframes")
    check("cannot be solved for: nothing is measured between them" in ctl(daemon, 1).stderr,
          "a chain and no more")
    check(not any(e.kind == messages.Event.MAP_MOVED for e in daemon.events), daemon.events)
    daemon.stop()
    daemon = harness.Daemon(SOURCE, "--set", "map.keyframes=0")
    daemon.step(3)
    reply = daemon.request(optimise_map=requests.OptimiseMap())
    check(reply.code == requests.FAILED_PRECONDITION and "map.keyframes" in reply.message, reply)
    daemon.stop()


def cloud_of(daemon):
    """The map's surface."""
    reply = daemon.request(harness.PATIENCE_S, deadline_ms=harness.PATIENCE_S * 1000,
                           get_map_cloud=requests.GetMapCloud(voxel_m=0.05))
    cloud = reply.get_map_cloud
    check(reply.code == requests.OK and cloud.n_points > 500, reply.message)
    return cloud


def saved_of(daemon, name):
    check(daemon.request(save_map=requests.SaveMap(name=name)).code == requests.OK, "not saved")
    with open(f"{harness.SCRATCH}/{name}.map", "rb") as file:
        return file.read()


def check_export():
    """What is written at the end follows the keyframes, too."""
    written = []
    for keyframes in (96, 0):
        path = f"{harness.SCRATCH}/{keyframes}.ply"
        daemon = harness.Daemon(SOURCE + ",frames=100", "--map", path, "--set", "map.voxel_m=0.02",
                                "--set", f"map.keyframes={keyframes}", collect=False)
        daemon.wait()
        with open(path, "rb") as file:
            written.append(file.read())
    check(len(written[1]) > 20000 and written[0] != written[1], "the file is as it was fused")


def scenario():
    plain = harness.Daemon(SOURCE)
    plain.step(N_FRAMES + N_LATER)
    plain.stop()
    daemon = harness.Daemon(SOURCE, "--set", "map.folder=" + harness.SCRATCH, "--set",
                            "map.voxel_m=0.02")
    daemon.step(N_FRAMES)
    before, saved = cloud_of(daemon), saved_of(daemon, "before")
    check(cloud_of(daemon).points == before.points, "asked twice")
    said = json.loads(ctl(daemon, 0, "-o", "json").stdout)
    check(said["keyframes"] >= 5 and said["links"] >= 4, said)
    check(said["links_before"] >= 4 and 0 < said["apart_m"] < said["apart_before_m"] < 0.1 and
          0 < said["apart_rad"] < said["apart_before_rad"], f"the fit: {said}")
    check(0 < said["residual_after_m"] < 0.02 and said["next_seq"] >= N_FRAMES, said)
    said = ctl(daemon, 0).stdout  # again
    check("keyframes adjusted, the farthest moved by" in said and
          "not how well all keyframes agree" in said, said)
    # What poses were fitted to is no judge of them, and some links are the old ones.
    check(re.search(r"^the poses fit their \d+ links? to [\d.]+ mm, [\d.]+ degrees, those before "
                    r"to [\d.]+ mm, [\d.]+ degrees: what they were fitted to, ", said, re.M), said)
    check(re.search(r"^\d+ links? now, \d+ before: ", said, re.M), said)
    for word in ("better", "as good as", "worse", "measured anew"):
        check(word not in said, f"{word}: {said}")
    # No frame in between: what moves is what follows the keyframes.
    after = cloud_of(daemon)
    check(after.points != before.points and after.map_from_odom != before.map_from_odom,
          "the surface stayed where it was")
    check(saved_of(daemon, "after") != saved, "what is saved stayed where it was")
    daemon.step(N_LATER)
    told = [e.message for e in daemon.events
            if e.kind == messages.Event.MAP_MOVED and "map optimised" in e.message]
    check(len(told) == 2 and "moved by" in told[0] and "the poses fit" in told[0], daemon.events)
    # The recording is paused some frames after its beginning, not always the same.
    both = list(zip(odom_of(daemon), odom_of(plain)))
    check(len(both) >= N_FRAMES + N_LATER and all(a == b for a, b in both),
          "poses in odom are others")
    check(all(pose.HasField("map_from_odom") for pose in daemon.poses), "map_from_odom")
    daemon.stop()
    check_refused()
    check_export()
    check_help()


harness.run(scenario)
