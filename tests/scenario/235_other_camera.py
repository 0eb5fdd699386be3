# SPDX-License-Identifier: Apache-2.0
"""A camera that is plugged in after the daemon's start, and one in place of another: each is
converted with its own parameters from its first frame on; calibration, kept frames and recordings
tell those of the frames they belong to; poses go on in a new map epoch."""
import harness
import kinects
from harness import check, messages, requests

USUAL_FX, OWN_FX = 120 / 0.1042 / 2, 120 / 0.1052 / 2
FORMATS = {"tum": "tum:{}", "klg": "klg:{}.klg", "fakenect": "fakenect:{}", "mcap": "mcap:{}.mcap"}
POSES = 5


def tracked(daemon, n_before=0):
    return [p for p in list(daemon.poses)[n_before:] if p.reason != messages.REASON_DROPPED]


def is_near(fx, expected):
    return abs(fx - expected) < 1e-3


def check_told(daemon, fx):
    """To who asks, and to a new subscriber."""
    k = daemon.request(get_calibration=requests.GetCalibration()).get_calibration.K
    check(is_near(k[0], fx), f"GetCalibration says fx {k[0]}, not {fx}")
    calib = daemon.socket(harness.zmq.SUB, "pub")
    calib.subscribe("calib")
    check(calib.poll(20000), "no calib for a new subscriber")
    k = messages.CameraCalibration.FromString(calib.recv_multipart()[1]).K
    check(is_near(k[0], fx), f"calib says fx {k[0]}, not {fx}")
    calib.close()


def fx_of_frame(daemon, seq):
    reply = daemon.request(get_depth=requests.GetDepth(seq=seq))
    check(reply.code == requests.OK, f"frame {seq}: {reply.message}")
    return reply.get_depth.fx


def recalibrations(daemon):
    """The first frames of other cameras."""
    return [e.seq for e in list(daemon.events) if e.kind == messages.Event.RECALIBRATED]


def record_late_camera(cameras, name, folder):
    """The recording begins with the daemon, the camera comes later, then another one."""
    cameras.plugged = 0
    cameras.own_parameters = 1
    live = harness.Daemon("kinect:", "--set", "tracker.iterations=3,2,2", "--set",
                          "tracker.adapt=false", "--set",
                          "recorder.folder=" + folder, "--set", "recorder.start=" + name, "--set",
                          "recorder.format=" + name, "--set", "recorder.queue_frames=300",
                          environment=cameras.environment)
    live.wait_for(lambda: live.statuses, "the daemon runs")
    check_told(live, USUAL_FX)
    cameras.plugged = 1
    live.wait_for(lambda: len(tracked(live)) >= POSES, "poses of the camera that came later")
    check(recalibrations(live) == [0], f"events at frames {recalibrations(live)}")
    check(live.poses[0].map_epoch == live.poses[-1].map_epoch, "a map epoch for nothing")
    check_told(live, OWN_FX)

    # The same camera again changes nothing.
    unplug(live, cameras)
    n = len(live.poses)
    cameras.plugged = 1
    live.wait_for(lambda: len(tracked(live, n)) >= 2 * POSES, "poses of the same camera")
    check(recalibrations(live) == [0], "an event for the same camera")

    unplug(live, cameras)
    cameras.own_parameters = 0
    cameras.plugged = 1
    live.wait_for(lambda: len(recalibrations(live)) == 2, "an event for the other camera")
    begin = recalibrations(live)[1]
    live.wait_for(lambda: len(tracked(live, begin)) >= POSES, "poses of the other camera")
    other = tracked(live, begin)
    first = [p for p in tracked(live) if p.seq < begin]
    check(other[0].map_epoch == first[-1].map_epoch + 1, "no new map epoch")
    check(harness.same_pose(other[0], live.poses[begin - 1]),
          "the pose does not go on where it was")
    check([p.seq for p in live.poses] == list(range(len(live.poses))), "sequence numbers")
    check_told(live, USUAL_FX)
    check(is_near(fx_of_frame(live, first[-1].seq), OWN_FX), "an old frame with the new camera")
    check(is_near(fx_of_frame(live, other[0].seq), USUAL_FX), "a new frame with the old camera")
    live.wait_for(lambda: any(e.kind == messages.Event.RECORDING_STOPPED and
                              "another camera" in e.message for e in list(live.events)),
                  "the recording ends with the camera")
    live.stop()
    return live, first


def unplug(daemon, cameras):
    cameras.plugged = 0
    daemon.wait_for(lambda: cameras.n_devices == 0, "camera let go")


def scenario():
    cameras = kinects.Kinects(period_ms=80)
    folder = harness.SCRATCH + "/recordings"
    for name, source in FORMATS.items():
        live, expected = record_late_camera(cameras, name, folder)
        again = harness.Daemon(source.format(folder + "/" + name), "--set",
                               "tracker.iterations=3,2,2")
        again.wait()
        check(len(again.poses) == len(expected),
              f"{name}: {len(again.poses)} frames instead of {len(expected)}")
        for a, b in zip(expected, again.poses):
            check(a.pose == b.pose and a.valid_px == b.valid_px, f"{name}: frame {a.seq}")
        print(f"{name}: {len(again.poses)} poses of {len(live.poses)} replay from the recording")


harness.run(scenario)
