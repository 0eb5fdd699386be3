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


def scenario():
    figures = run_once()
    looped = harness.Daemon("synth:room", "--frames", str(N_FRAMES), "--loop", *CHEAP)
    looped.wait_for(lambda: len(looped.poses) > 2.5 * N_FRAMES, "a third round")
    looped.stop()
    part, *counts, again = error_line(looped)
    check(f"before frame {N_FRAMES}," in part, f"rounds: {part}")
    check(counts == [str(N_FRAMES)] * 2 and again == figures, f"rounds: {counts} {again}")

    wound = harness.Daemon("synth:room", "--frames", str(N_FRAMES), speed=1)
    wound.wait_for(lambda: len(wound.poses) > 10, "10 poses")
    reply = wound.request(replay=requests.Replay(action=requests.Replay.SEEK, position_s=0.1))
    check(reply.code == requests.OK, f"{reply}")
    wound.wait_for(lambda: len(wound.poses) > reply.replay.next_seq + 5, "frames after the seek")
    wound.stop()
    part, *counts, _ = error_line(wound)
    n = reply.replay.next_seq
    check(f"before frame {n}," in part and counts == [str(n)] * 2, f"wound: {part} {counts}")

    forgetful = harness.Daemon("synth:room", "--frames", str(N_FRAMES), "--loop", "--set",
                               "requests.history=16", *CHEAP)
    forgetful.wait_for(lambda: len(forgetful.poses) > 2 * N_FRAMES, "a second round")
    forgetful.stop()
    check("no error against the known trajectory: no frame is kept before frame 40" in
          forgetful.log(), f"nothing kept: {forgetful.log()}")


harness.run(scenario)
