# SPDX-License-Identifier: Apache-2.0
"""The compute device fails every 25 frames: each frame still has its pose, computed on the device
that takes over, and the map stays one. With on_error = stop the daemon ends with 5."""
import harness
from harness import check, check_at_most, messages

N_FRAMES = 100
FAIL_EVERY = 25


def scenario():
    whole = harness.Daemon("synth:room", "--frames", str(N_FRAMES))
    whole.wait()
    for on_error in ("cpu", "rebuild"):
        daemon = harness.Daemon("synth:room", "--frames", str(N_FRAMES), "--set",
                                f"gpu.on_error={on_error}", "--set", f"gpu.fail_every={FAIL_EVERY}")
        daemon.wait()
        poses = daemon.poses
        harness.check_poses(poses, N_FRAMES)
        for pose in poses[1:]:
            check(harness.state_name(pose) == "TRACKING", f"frame {pose.seq}: {pose.state}")
            check(pose.map_epoch == 0 and pose.reference_seq <= pose.seq - 1,
                  f"frame {pose.seq}: epoch {pose.map_epoch}, reference {pose.reference_seq}")
        # What was computed anew is as good as what was not.
        farthest_m = max(harness.distance_m(a, b) for a, b in zip(poses, whole.poses))
        check_at_most(farthest_m, 0.003, "the poses stay where they were [m]")
        n_failed = N_FRAMES // FAIL_EVERY
        changes = [e for e in daemon.events if e.kind == messages.Event.BACKEND_CHANGED]
        check(len(changes) == n_failed, f"{len(changes)} events of {n_failed} failures")
        # On a GPU with on_error = cpu the name changes; status must follow.
        check(daemon.statuses[-1].backend == changes[-1].message,
              f"status: {daemon.statuses[-1].backend}, event: {changes[-1].message}")
        check(daemon.log().count("(not really: gpu.fail_every)") == n_failed, "the log says so")

    daemon = harness.Daemon("synth:room", "--frames", str(N_FRAMES), "--set", "gpu.on_error=stop",
                            "--set", f"gpu.fail_every={FAIL_EVERY}")
    daemon.wait(expected_code=5)
    harness.check_poses(daemon.poses, FAIL_EVERY)
    check("gpu.on_error is stop" in daemon.log(), "the log says why it ends")


harness.run(scenario)
