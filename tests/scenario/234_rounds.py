# SPDX-License-Identifier: Apache-2.0
"""The error that the daemon logs at its end counts no frame of a later round, nor of a recording
that was wound: their time stamps mean something else than those of the truth."""
import re

import harness
from harness import check, requests

N_FRAMES = 40
CHEAP = ("--set", "tracker.iterations=4,3,3")
LINE = re.compile(r"error against the known trajectory(.*), (\d+) of (\d+) frames: (ATE.*)")


def error_line(daemon):
    found = LINE.search(daemon.log())
    check(found, f"no error in the log:\n{daemon.log()}")
    return found.groups()


def run_once():
    daemon = harness.Daemon("synth:room", "--frames", str(N_FRAMES), *CHEAP)
    daemon.wait()
    part, *counts, figures = error_line(daemon)
    check(part == "" and counts == [str(N_FRAMES)] * 2, f"one round: {part} {counts}")
    return figures


def check_epochs():
    """Poses of two epochs are not connected; those of the longer are compared."""
    path = harness.SCRATCH + "/two.txt"
    daemon = harness.Daemon("synth:room", "--frames", str(N_FRAMES), "--trajectory", path, *CHEAP)
    daemon.step(5)
    reply = daemon.request(set_pose=requests.SetPose(
        pose={"position": {"x": 5}, "orientation": {"w": 1}}))
    check(reply.code == requests.OK, f"{reply}")
    daemon.request(replay=requests.Replay(action=requests.Replay.RESUME))
    daemon.wait()
    part, *counts, figures = error_line(daemon)
    n = N_FRAMES - reply.set_pose.next_seq
    check("in epoch 1, the longest of 2" in part and counts == [str(n), str(N_FRAMES)],
          f"two epochs: {part} {counts}")
    largest_mm = float(re.search(r"largest (\S+) mm", figures)[1])
    check(largest_mm < 50, f"two epochs: {figures}")
    check(daemon.log().count("its 2 parts (map epochs) are not connected") == 1, daemon.log())


def check_loaded():
    """A loaded map begins an epoch, but the recording goes on."""
    folder = harness.SCRATCH + "/maps"
    daemon = harness.Daemon("synth:room", "--frames", str(N_FRAMES), "--set",
                            "map.folder=" + folder)
    daemon.step(30)
    for what in ({"save_map": requests.SaveMap(name="a")},
                 {"load_map": requests.LoadMap(name="a")}):
        reply = daemon.request(**what)
        check(reply.code == requests.OK, f"{reply}")
    daemon.request(replay=requests.Replay(action=requests.Replay.RESUME))
    daemon.wait()
    part, *counts, _ = error_line(daemon)
    check("before frame" not in part and "the longest of 2" in part and
          counts == [str(reply.load_map.next_seq), str(N_FRAMES)], f"a loaded map: {part} {counts}")


def scenario():
    check_epochs()
    check_loaded()
    figures = run_once()
    looped = harness.Daemon("synth:room", "--frames", str(N_FRAMES), "--loop", *CHEAP)
    looped.wait_for(lambda: len(looped.poses) > 2.5 * N_FRAMES, "a third round")
    looped.stop()
    part, *counts, again = error_line(looped)
    check(f"before frame {N_FRAMES}," in part, f"rounds: {part}")
    check(counts == [str(N_FRAMES)] * 2 and again == figures, f"rounds: {counts} {again}")
    check("where the recording began anew" in part, f"rounds: {part}")

    wound = harness.Daemon("synth:room", "--frames", str(N_FRAMES), speed=1)
    wound.wait_for(lambda: len(wound.poses) > 10, "10 poses")
    reply = wound.request(replay=requests.Replay(action=requests.Replay.SEEK, position_s=0.1))
    check(reply.code == requests.OK, f"{reply}")
    wound.wait_for(lambda: len(wound.poses) > reply.replay.next_seq + 5, "frames after the seek")
    wound.stop()
    part, *counts, _ = error_line(wound)
    n = reply.replay.next_seq
    check(f"before frame {n}," in part and counts == [str(n)] * 2, f"wound: {part} {counts}")
    check("where the recording was wound" in part, f"wound: {part}")

    forgetful = harness.Daemon("synth:room", "--frames", str(N_FRAMES), "--loop", "--set",
                               "requests.history=16", *CHEAP)
    forgetful.wait_for(lambda: len(forgetful.poses) > 2 * N_FRAMES, "a second round")
    forgetful.stop()
    check("no error against the known trajectory: no frame is kept before frame 40" in
          forgetful.log(), f"nothing kept: {forgetful.log()}")


harness.run(scenario)
