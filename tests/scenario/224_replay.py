# SPDX-License-Identifier: Apache-2.0
"""A recording like a tape: paused, stepped, at another speed, wound."""
import json
import subprocess
import time

import harness
from harness import check, messages, requests

Action = requests.Replay
N_FRAMES = 300  # of synth:room-straight, 30 a second


def ctl(daemon, code, *arguments):
    command = [harness.BINARY + "/bin/posectl", "replay", *arguments, "-e", daemon.folder]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    check(done.returncode == code, f"{arguments}: {done.returncode} {done.stdout} {done.stderr}")
    return done


def replay(daemon, action, **more):
    reply = daemon.request(replay=requests.Replay(action=action, **more))
    check(reply.code == requests.OK, f"action {action}: {reply}")
    return reply.replay


def seconds(pose):
    return pose.timestamp.seconds + pose.timestamp.nanos * 1e-9


def check_standing(daemon):
    """Paused, no frame comes, the heartbeat goes on, and nobody calls it silence; who watches is
    told once, and what to do."""
    state = replay(daemon, Action.PAUSE)
    check(state.paused and state.rate == 1, f"pause: {state}")
    n, n_statuses = state.next_seq, len(daemon.statuses)
    watcher = subprocess.Popen([harness.BINARY + "/bin/posectl", "watch", "-n", "5", "-e",
                                daemon.folder], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                               text=True)
    check("posectl: no message of topic pose comes: the recording is paused: posectl replay resume"
          in watcher.stderr.readline(), "watch does not say that the recording is paused")
    status = subprocess.run([harness.BINARY + "/bin/posectl", "watch", "status", "-n", "1", "-e",
                             daemon.folder], capture_output=True, text=True, timeout=60)
    check(status.stdout.startswith("status: paused, TRACKING, ") and not status.stderr, status)
    daemon.wait_for(lambda: len(daemon.statuses) > n_statuses + 2, "heartbeats")
    check(len(daemon.poses) == n, f"{len(daemon.poses)} poses, {n} when it was paused")
    status = daemon.request(get_status=requests.GetStatus()).get_status
    check(status.paused and status.state != messages.STATE_NO_INPUT, f"status: {status}")
    check("no frame for" not in daemon.log(), "a pause is no silence")
    state = replay(daemon, Action.STEP, frames=5)
    daemon.wait_for(lambda: len(daemon.poses) == n + 5, "five steps")
    lines, more = watcher.communicate(timeout=harness.PATIENCE_S)
    check(watcher.returncode == 0 and len(lines.splitlines()) == 5 and not more, (lines, more))
    time.sleep(0.3)
    check(len(daemon.poses) == n + 5, "five steps and no more")
    steps = [seconds(p) for p in daemon.poses[n - 1:]]
    check(all(0 < b - a < 0.034 for a, b in zip(steps, steps[1:])), f"steps: {steps}")
    check(all(harness.reason_name(p) != "DROPPED" for p in daemon.poses[n:]), "none is late")


def check_wound(daemon):
    n = len(daemon.poses)
    epoch, last = daemon.poses[-1].map_epoch, seconds(daemon.poses[-1])
    state = replay(daemon, Action.SEEK, position_s=5)
    check(abs(state.position_s - 5) < 0.034 and state.paused, f"seek: {state}")
    replay(daemon, Action.STEP)
    daemon.wait_for(lambda: len(daemon.poses) == n + 1, "the first frame there")
    pose = daemon.poses[n]
    check(pose.frame_index == 150, f"frame {pose.frame_index}")
    check(harness.state_name(pose) == "INIT" and pose.map_epoch == epoch + 1, "starts afresh")
    check(harness.same_pose(pose, daemon.poses[n - 1]), "at the newest pose")
    check(seconds(pose) > last, "time grows")
    replay(daemon, Action.SEEK, position_s=1)
    replay(daemon, Action.STEP)
    daemon.wait_for(lambda: len(daemon.poses) == n + 2, "back")
    check(daemon.poses[-1].frame_index == 30 and seconds(daemon.poses[-1]) > seconds(pose),
          "time grows backwards, too")


def check_refusals(daemon):
    for more, field in (({"action": Action.SEEK, "position_s": -1}, "position_s"),
                        ({"action": Action.SEEK, "position_s": 1e9}, "position_s"),
                        ({"action": Action.SEEK, "position_s": float("nan")}, "position_s"),
                        ({"action": Action.RATE, "rate": 1e9}, "rate"),
                        ({"action": Action.RATE, "rate": float("inf")}, "rate"),
                        ({"action": Action.STEP, "frames": 2**32 - 1}, "frames"),
                        ({"action": 77}, "action")):
        reply = daemon.request(replay=requests.Replay(**more))
        check(reply.code == requests.INVALID_ARGUMENT and reply.field == "replay." + field,
              f"{more}: {reply}")


def check_posectl(daemon):
    state = json.loads(ctl(daemon, 0, "-o", "json").stdout)
    check(state["paused"] and state["rate"] == 1, f"posectl replay: {state}")
    check("4 times real time" in ctl(daemon, 0, "rate", "4").stdout, "rate")
    check("running" in ctl(daemon, 0, "resume").stdout, "resume")
    n = len(daemon.poses)
    daemon.wait_for(lambda: len(daemon.poses) > n + 30, "it runs")
    check("paused" in ctl(daemon, 0, "pause").stdout, "pause")
    check("at 9.000" in ctl(daemon, 0, "seek", "9").stdout, "seek")
    check("--yes is for seek" in ctl(daemon, 2, "pause", "--yes").stderr, "pause --yes")
    state = json.loads(ctl(daemon, 0, "-o", "json").stdout)
    lengths = state["stamps_ahead_s"] / (state["duration_s"] + 1 / 30)
    check(lengths > 0.5 and abs(lengths - round(lengths)) < 1e-3 and
          "the recording's plus " in ctl(daemon, 0).stdout, f"stamps behind winding: {state}")
    check("position_s" in ctl(daemon, 1, "seek", "1e6").stderr, "seek behind the end")
    check("map" not in ctl(daemon, 0, "seek", "9").stderr, "seek without a map")
    for wrong in (("rewind",), ("rate",), ("rate", "fast"), ("rate", "0"), ("step", "0.5"),
                  ("seek", "-1"), ("seek", "soon"), ("pause", "1"), ("step", "1", "2")):
        ctl(daemon, 2, *wrong)
    check("replay step -1: no value below 0" in ctl(daemon, 2, "step", "-1").stderr, "step -1")
    # As fast as possible to the end. Paused, it would have stayed there.
    check("1000 frames from 9.000 of" in ctl(daemon, 0, "step", "1000").stdout, "step 1000")
    daemon.wait_for(lambda: daemon.poses[-1].frame_index == N_FRAMES - 1, "the last frame")
    time.sleep(0.3)
    check(daemon.process.poll() is None, "it stays at the end")
    check("as fast as possible" in ctl(daemon, 0, "rate", "max").stdout, "rate max")
    ctl(daemon, 0, "resume")


def check_map():
    """Winding gives a kept map up, and says so."""
    daemon = harness.Daemon("synth:room", "--set", "map.folder=" + harness.SCRATCH + "/maps")
    daemon.step(3)
    n, epoch = len(daemon.poses), daemon.poses[-1].map_epoch
    said = ctl(daemon, 2, "seek", "2").stderr
    check(f"gives the map of epoch {epoch} up" in said and "posectl map save NAME" in said and
          "Nothing was wound" in said, said)
    daemon.step(1)
    check(daemon.poses[-1].map_epoch == epoch and daemon.poses[-1].frame_index == n, "it was wound")
    check("the map is given up" in ctl(daemon, 0, "seek", "2", "--yes").stderr, "seek")
    check(not ctl(daemon, 0, "pause").stderr, "pause")
    daemon.stop()


def scenario():
    check_map()
    daemon = harness.Daemon("synth:room-straight", speed=1)
    daemon.wait_for(lambda: len(daemon.poses) > 20, "20 poses")
    check_standing(daemon)
    check_wound(daemon)
    check_refusals(daemon)
    check_posectl(daemon)
    daemon.wait()
    harness.check_poses(daemon.poses, len(daemon.poses))
    check(any(e.kind == messages.Event.REPLAY for e in daemon.events), "events")


harness.run(scenario)
