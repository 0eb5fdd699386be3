# SPDX-License-Identifier: Apache-2.0
"""Cables: the daemon on a Kinect that is unplugged, hangs, and comes back, again and again. It
stays up, says NO_INPUT, has poses within 2 s of the camera's return; one session, sequence numbers
without a gap, time that grows; neither file descriptors nor memory pile up."""
import os
import time

import harness
import kinects
from harness import check, check_at_most, messages, state_name

CYCLES = 60         # unplugged until the driver has let go, then plugged in again
SILENT_CYCLES = 3   # unplugged until the daemon says NO_INPUT
RETURN_S = 10 if harness.is_sanitized() else 2.0  # from the device's return to a pose
ABANDON_S = 3.0     # a call that hangs is given up after this long
# In all; the history of the poses takes 100 bytes a frame of it, until it is full.
GROWTH_BYTES = 256 << 10
# What malloc keeps back is no leak: frames go back to the system at once, and the number of arenas
# does not depend on how many threads of old sessions a busy machine leaves alive beside each other.
PLAIN_MALLOC = {"MALLOC_ARENA_MAX": "1", "MALLOC_MMAP_THRESHOLD_": "65536"}

cameras = None
daemon = None


def poses_with_depth():
    return [p for p in list(daemon.poses) if p.reason != messages.REASON_DROPPED]


def wait_for_pose_after(n, limit_s, text):
    """Until there are more than n poses of frames with depth; how long that takes is limited."""
    begin = time.monotonic()
    daemon.wait_for(lambda: len(poses_with_depth()) > n, text)
    took = time.monotonic() - begin
    check(took <= limit_s, f"{text}: after {took:.2f} s, limit {limit_s}")
    return took


def files():
    return len(os.listdir(f"/proc/{daemon.process.pid}/fd"))


def threads():
    return len(os.listdir(f"/proc/{daemon.process.pid}/task"))


def wait_for_event(kind, n_before):
    daemon.wait_for(lambda: any(e.kind == kind for e in daemon.events[n_before:]),
                    "event " + messages.Event.Kind.Name(kind))


def wait_for_no_input(n_events):
    wait_for_event(messages.Event.SOURCE_SILENT, n_events)
    n = len(daemon.statuses)
    daemon.wait_for(lambda: any(s.state == messages.STATE_NO_INPUT for s in daemon.statuses[n:]),
                    "status NO_INPUT")


def replug(until_silent):
    """One cycle; returns how long the poses stayed away after the return."""
    n_events = len(daemon.events)
    cameras.plugged = 0
    daemon.wait_for(lambda: cameras.n_contexts == 0 or cameras.n_devices == 0, "camera let go")
    if until_silent:
        wait_for_no_input(n_events)
    # a camera's clock begins anew when it gets power
    cameras.next_ticks = 12345
    begin, n_opened = time.monotonic(), cameras.n_opened
    cameras.plugged = 1
    daemon.wait_for(lambda: cameras.n_opened > n_opened, "camera opened again")
    wait_for_pose_after(len(poses_with_depth()), RETURN_S, "a pose after the return")
    took = time.monotonic() - begin
    if until_silent:
        wait_for_event(messages.Event.SOURCE_BACK, n_events)
        daemon.wait_for(lambda: daemon.statuses[-1].state != messages.STATE_NO_INPUT,
                        "status after the return")
    return took


def hang(call, plugged):
    """A call hangs; the camera is taken for gone, given up, and found again while the call still
    hangs."""
    n_events, hangs = len(daemon.events), daemon.log().count("session abandoned")
    cameras.held = 1
    setattr(cameras, call, 1)
    cameras.plugged = plugged
    wait_for_no_input(n_events)
    setattr(cameras, call, 0)
    cameras.plugged = 1
    n = len(poses_with_depth())
    took = wait_for_pose_after(n, ABANDON_S + RETURN_S, f"a pose while {call} hangs")
    n_abandoned = daemon.log().count("session abandoned")
    check(n_abandoned > hangs, "the log does not say that a session was given up")
    cameras.held = 0
    daemon.wait_for(lambda: cameras.n_contexts == 1, "what hung has ended")
    return took


def check_messages():
    poses = list(daemon.poses)
    check([p.seq for p in poses] == list(range(len(poses))), "sequence numbers have a gap")
    check(len({p.session for p in poses}) == 1, "the session changed")
    times = [p.timestamp.seconds * 10**9 + p.timestamp.nanos for p in poses]
    check(all(b > a for a, b in zip(times, times[1:])), "time does not grow")
    ticks = [p.device_ticks for p in poses]
    check(all(b > a for a, b in zip(ticks, ticks[1:])), "unwrapped device ticks do not grow")
    quaternions = [p.pose.orientation for p in poses]
    check(all(abs(q.x**2 + q.y**2 + q.z**2 + q.w**2 - 1) < 1e-9 for q in quaternions), "quaternion")
    print(len(poses), "poses:", harness.count_states(poses))


def scenario():
    global cameras, daemon
    cameras = kinects.Kinects(plugged=1, period_ms=33, own_parameters=1)
    daemon = harness.Daemon("kinect:" + kinects.SERIALS[0], "--set", "tracker.iterations=4,3,3",
                            "--set", "map.keyframes=0",
                            environment={**cameras.environment, **PLAIN_MALLOC})
    daemon.wait_for(lambda: any(state_name(p) == "TRACKING" for p in daemon.poses), "tracking")
    imu = daemon.socket(harness.zmq.SUB, "pub")
    imu.subscribe("imu")
    check(imu.poll(20000), "no imu message")
    gravity = messages.Imu.FromString(imu.recv_multipart()[1]).gravity
    check(abs(gravity.y - 9.80665) < 1e-3, f"gravity {gravity}")

    for _ in range(5):
        replug(False)
    before, private, worst = (files(), threads()), [], 0
    for i in range(CYCLES):
        worst = max(worst, replug(i % (CYCLES // SILENT_CYCLES) == 0))
        private.append(daemon.private_bytes())
    check_at_most(worst, RETURN_S, f"{CYCLES} times unplugged, poses back after [s]")
    daemon.wait_for(lambda: files() <= before[0] and threads() <= before[1],
                    f"as few as {before[0]} files and {before[1]} threads again", 20)
    print("memory [MB]:", " ".join(f"{p / 1e6:.2f}" for p in private[::6]))
    if not harness.is_sanitized():  # they keep freed memory for a while
        check_at_most(private[-1] - private[0], GROWTH_BYTES, "memory grew by [bytes]")

    print("hanging event call: a pose after %.1f s" % hang("hang_events", 1))
    print("hanging stop: a pose after %.1f s" % hang("hang_stop", 0))
    daemon.wait_for(lambda: files() <= before[0] and threads() <= before[1],
                    f"as few as {before[0]} files and {before[1]} threads after hanging", 20)

    # A stop that hangs at the daemon's own end.
    cameras.held = cameras.hang_stop = 1
    took = daemon.stop()
    check_at_most(took, ABANDON_S + 1.5, "the daemon ends while the stop hangs [s]")
    check_messages()
    check(cameras.n_wrong == 0, "libfreenect was called in a way that makes no sense")

    # Another camera by its serial number, and one that is not there.
    cameras.held = cameras.hang_stop = 0
    daemon = harness.Daemon("kinect:" + kinects.SERIALS[1], environment=cameras.environment)
    daemon.wait_for(lambda: len(daemon.poses) > 5, "poses of the second camera")
    daemon.stop()
    daemon = harness.Daemon("kinect:C000", environment=cameras.environment)
    daemon.wait_for(lambda: "no such camera; waiting for it" in daemon.log(), "waits for it")
    daemon.wait_for(lambda: daemon.statuses and
                    daemon.statuses[-1].state == messages.STATE_NO_INPUT, "NO_INPUT from the start")
    daemon.stop()


harness.run(scenario)
