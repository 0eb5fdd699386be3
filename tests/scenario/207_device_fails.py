# SPDX-License-Identifier: Apache-2.0
"""The compute device fails every 25 frames: each frame still has its message, the failed ones say
so, and tracking goes on from the last pose in a new epoch. With on_error = stop the daemon ends
with 5."""
import harness
from harness import check, messages

N_FRAMES = 100
FAIL_EVERY = 25


def scenario():
    for on_error in ("cpu", "rebuild"):
        daemon = harness.Daemon("synth:room", "--frames", str(N_FRAMES), "--set",
                                f"gpu.on_error={on_error}", "--set", f"gpu.fail_every={FAIL_EVERY}")
        daemon.wait()
        poses = daemon.poses
        harness.check_poses(poses, N_FRAMES)
        failed = [pose.seq for pose in poses if harness.reason_name(pose) == "DEVICE"]
        check(failed == list(range(FAIL_EVERY - 1, N_FRAMES, FAIL_EVERY)), f"failed: {failed}")
        for seq in failed:
            check(harness.state_name(poses[seq]) == "LOST", f"frame {seq} is not LOST")
            check(harness.same_pose(poses[seq], poses[seq - 1]),
                  f"frame {seq} is not the last pose")
            if seq + 1 < N_FRAMES:
                check(poses[seq + 1].map_epoch == poses[seq].map_epoch + 1, f"epoch after {seq}")
                check(harness.same_pose(poses[seq + 1], poses[seq]), f"start after {seq}")
                check(poses[seq + 2].reference_seq == seq + 1, f"reference after {seq}")
                check(harness.state_name(poses[seq + 2]) == "TRACKING", f"no tracking after {seq}")
        changes = [e for e in daemon.events if e.kind == messages.Event.BACKEND_CHANGED]
        check(len(changes) == len(failed), f"{len(changes)} events of {len(failed)} failures")
        # On a GPU with on_error = cpu the name changes; status must follow.
        check(daemon.statuses[-1].backend == changes[-1].message,
              f"status: {daemon.statuses[-1].backend}, event: {changes[-1].message}")
        check(daemon.log().count("(not really: gpu.fail_every)") == len(failed), "the log says so")

    daemon = harness.Daemon("synth:room", "--frames", str(N_FRAMES), "--set", "gpu.on_error=stop",
                            "--set", f"gpu.fail_every={FAIL_EVERY}")
    daemon.wait(expected_code=5)
    harness.check_poses(daemon.poses, FAIL_EVERY)
    check("gpu.on_error is stop" in daemon.log(), "the log says why it ends")


harness.run(scenario)
