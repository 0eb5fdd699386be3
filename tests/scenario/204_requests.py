# SPDX-License-Identifier: Apache-2.0
"""Every kind of request while a recording runs, and what it does to the stream."""
import harness
from harness import check, messages, requests

LOOP_FRAMES = 300


def check_keyframe():
    """A camera that stands still keeps its keyframe, unless it is told to take another."""
    daemon = harness.Daemon("synth:room-still", "--loop", "--reference", "keyframe",
                            speed=1)
    daemon.step(10)
    tracked = [p for p in daemon.poses if harness.state_name(p) == "TRACKING"]
    check(len({p.reference_seq for p in tracked}) == 1, f"{[p.reference_seq for p in tracked]}")
    reply = daemon.request(set_keyframe=requests.SetKeyframe())
    check(reply.code == requests.OK, f"SetKeyframe: {reply.message}")
    seq = reply.set_keyframe.seq
    check(seq > tracked[0].reference_seq, f"SetKeyframe: {seq}")
    daemon.step(5)
    used = {p.reference_seq for p in daemon.poses[seq + 1:] if harness.state_name(p) == "TRACKING"}
    check(used == {seq}, f"keyframe {seq}, but aligned to {used}")
    check(any(e.kind == messages.Event.KEYFRAME and "request" in e.message for e in daemon.events),
          "an event says so")
    daemon.stop()


def scenario():
    check_keyframe()
    daemon = harness.Daemon("synth:room-straight", "--loop", "--reference", "previous", speed=2)
    daemon.wait_for(lambda: len(daemon.poses) > 60, "60 poses")

    version = daemon.request(get_version=requests.GetVersion()).get_version
    check(version.version and version.session == daemon.poses[0].session, "GetVersion")
    check("cpu" in version.backends, "backends")
    daemon.wait_for(lambda: any(s.rate_hz > 30 for s in daemon.statuses), "a rate above 30 Hz")
    status = daemon.request(get_status=requests.GetStatus()).get_status
    check(status.source == "synth:room-straight" and not status.live, "GetStatus: source")
    check(status.captured_frames >= 60 and status.rate_hz > 0, f"GetStatus: {status}")
    calibration = daemon.request(get_calibration=requests.GetCalibration()).get_calibration
    check((calibration.width, calibration.height) == (640, 480), "GetCalibration: size")
    check(list(calibration.K) == [525, 0, 319.5, 0, 525, 239.5, 0, 0, 1], "GetCalibration: K")
    check(calibration.units_per_m == 5000, "GetCalibration: units")
    params = daemon.request(get_params=requests.GetParams(prefix="tracker.")).get_params.params
    check(any(p.name == "tracker.iterations" and p.value == "10,5,4" for p in params), "GetParams")

    # The past: by time between two frames, and page by page. Frames that are not late, wherever.
    daemon.step(3)
    reply = daemon.request(replay=requests.Replay(action=requests.Replay.RESUME))
    check(reply.code == requests.OK, f"Replay: {reply.message}")
    before, after = next((a, b) for a, b in zip(daemon.poses[20:], daemon.poses[21:])
                         if "DROPPED" not in (harness.reason_name(a), harness.reason_name(b)))
    nanos = (before.timestamp.nanos + after.timestamp.nanos) // 2
    reply = daemon.request(get_pose=requests.GetPose(
        time=messages.Timestamp(seconds=before.timestamp.seconds, nanos=nanos)))
    check(reply.code == requests.OK, f"GetPose: {reply.message}")
    x = reply.get_pose.pose.position.x
    middle = (before.pose.position.x + after.pose.position.x) / 2
    check(abs(x - middle) < 1e-6, f"GetPose between two frames: {x}, expected {middle}")
    reply = daemon.request(get_pose=requests.GetPose(time=messages.Timestamp(seconds=10**6)))
    check(reply.code == requests.NOT_FOUND, "GetPose of the future")
    seq, rows = 0, []
    while len(rows) < 50:
        page = daemon.request(get_trajectory=requests.GetTrajectory(from_seq=seq, limit=20))
        check(len(page.get_trajectory.poses) == 20, "a page of 20")
        rows += page.get_trajectory.poses
        seq = page.get_trajectory.next_seq
    check([row.seq for row in rows] == list(range(60)), "pages without gaps")
    check(all(row.pose == daemon.poses[row.seq].pose for row in rows), "the past is what was sent")

    # Reset and SetPose: the next frame starts there, in a new epoch.
    reply = daemon.request(reset=requests.Reset())
    check(reply.code == requests.OK, f"Reset: {reply.message}")
    start = reply.reset.next_seq
    # A busy machine may drop the very next frame; the one that is tracked first counts.
    daemon.wait_for(lambda: any(harness.reason_name(p) != "DROPPED" for p in daemon.poses[start:]),
                    "a frame after the reset")
    pose = next(p for p in daemon.poses[start:] if harness.reason_name(p) != "DROPPED")
    check(harness.state_name(pose) == "INIT", "INIT after a reset")
    check(abs(pose.pose.position.x) + abs(pose.pose.position.z) < 1e-12, "the identity")
    check(pose.map_epoch == daemon.poses[start - 1].map_epoch + 1, "a new epoch")
    wanted = messages.Pose(position=messages.Vector3(x=1, y=-2, z=3),
                           orientation=messages.Quaternion(y=0.6, w=0.8))
    reply = daemon.request(set_pose=requests.SetPose(pose=wanted))
    check(reply.code == requests.OK, f"SetPose: {reply.message}")
    start = reply.set_pose.next_seq
    daemon.wait_for(lambda: len(daemon.poses) > start + 5, "frames after SetPose")
    got = daemon.poses[start].pose
    check(abs(got.position.x - 1) + abs(got.position.y + 2) + abs(got.position.z - 3) < 1e-9,
          f"SetPose: {got}")
    check(abs(abs(got.orientation.y) - 0.6) < 1e-9, f"SetPose: {got}")
    reply = daemon.request(reset=requests.Reset(keep_pose=True))
    start = reply.reset.next_seq
    daemon.wait_for(lambda: len(daemon.poses) > start + 5, "frames after the second reset")
    check(harness.distance_m(daemon.poses[start - 1], daemon.poses[start]) < 1e-9, "keep_pose")

    reply = daemon.request(set_keyframe=requests.SetKeyframe())
    check(reply.code == requests.FAILED_PRECONDITION, f"SetKeyframe without keyframes: {reply}")

    daemon.wait_for(lambda: len(daemon.poses) > LOOP_FRAMES + 20, "the second round")
    daemon.stop()
    harness.check_poses(daemon.poses, len(daemon.poses))
    check(any(e.kind == messages.Event.RECORDING_LOOPED for e in daemon.events), "event LOOPED")


harness.run(scenario)
