# SPDX-License-Identifier: Apache-2.0
"""How recordings end when nobody asks them to: the daemon is killed, the disk is full, a limit is
reached. What is there replays, in each format, to the poses that the daemon had; tracking goes on;
an event says why."""
import os
import resource
import subprocess

import harness
from harness import check, check_at_most, messages

KILLED_AFTER = 60      # frames
LOST_S = 5 if harness.is_sanitized() else 1.0  # a killed daemon loses no more
DISK_BYTES = 8 << 20   # of the small disk
FORMATS = {"tum": "tum:{}", "klg": "klg:{}.klg", "fakenect": "fakenect:{}", "mcap": "mcap:{}.mcap"}


def tracked(daemon):
    return [p for p in list(daemon.poses) if p.reason != messages.REASON_DROPPED]


def time_ns(pose):
    return pose.timestamp.seconds * 10**9 + pose.timestamp.nanos


def start(name, folder, *options):
    return harness.Daemon("synth:room", "--loop", "--set", "tracker.iterations=3,3,3", "--set",
                          "tracker.adapt=false", "--set",
                          "recorder.folder=" + folder, "--set", "recorder.start=" + name, "--set",
                          "recorder.format=" + name, *options, speed=1)


def replay(name, folder, live):
    """Replays; the poses are those of the live daemon, from the first on (but fakenect rounds what
    is no Kinect's depth). Returns them."""
    again = harness.Daemon(FORMATS[name].format(folder + "/" + name), "--set",
                           "tracker.iterations=3,3,3")
    again.wait()
    check(again.poses, f"{name}: nothing to replay")
    for a, b in zip(tracked(live), again.poses):
        check(time_ns(a) == time_ns(b), f"{name}: frame {a.seq} has another time")
        check(name == "fakenect" or a.pose == b.pose, f"{name}: frame {a.seq} has another pose")
    return again.poses


def stopped(daemon, reason):
    return any(e.kind == messages.Event.RECORDING_STOPPED and reason in e.message
               for e in daemon.events)


def killed(name, folder):
    live = start(name, folder)
    live.wait_for(lambda: len(tracked(live)) > KILLED_AFTER, "frames")
    live.process.kill()
    live.process.wait()
    poses = replay(name, folder, live)
    lost_s = (time_ns(tracked(live)[-1]) - time_ns(poses[-1])) * 1e-9
    check_at_most(lost_s, LOST_S, f"{name}: killed; {len(poses)} frames are there, lost [s]")


def disk_full(name, folder, make_full, reason):
    live = start(name, folder)
    make_full(live)
    live.wait_for(lambda: stopped(live, reason), f"an event says '{reason}'")
    n = len(tracked(live))
    live.wait_for(lambda: len(tracked(live)) > n + 10, "tracking goes on")
    live.stop()
    print(f"{name}: {reason}: {len(replay(name, folder, live))} frames are there")


def limit_file_size(live):
    resource.prlimit(live.process.pid, resource.RLIMIT_FSIZE, (DISK_BYTES, DISK_BYTES))


def full_disks():
    for name in FORMATS:
        disk = f"{harness.SCRATCH}/disk-{name}"
        os.mkdir(disk)
        command = ["mount", "-t", "tmpfs", "-o", f"size={DISK_BYTES}", "tmpfs", disk]
        mounted = subprocess.run(command, stderr=subprocess.DEVNULL).returncode == 0
        try:
            if mounted:
                disk_full(name, disk, lambda live: None, "No space left on device")
            elif name in ("klg", "mcap"):  # one file: a limit of its size is as good
                disk_full(name, disk, limit_file_size, "File too large")
            else:
                print(f"SKIP: {name} on a full disk: may not mount a small one")
        finally:
            if mounted:
                subprocess.run(["umount", "-l", disk], check=True)


def folder_bytes(folder):
    return sum(os.path.getsize(os.path.join(at, name))
               for at, _, names in os.walk(folder) for name in names)


def limits():
    folder = harness.SCRATCH + "/limits"
    live = start("klg", folder, "--set", "recorder.max_duration_s=0.4")
    live.wait_for(lambda: stopped(live, "limit"), "stopped at its longest")
    live.stop()
    poses = replay("klg", folder, live)
    check_at_most((time_ns(poses[-1]) - time_ns(poses[0])) * 1e-9, 0.4, "duration [s]")
    live = start("fakenect", folder, "--set", "recorder.max_bytes=3000000")
    live.wait_for(lambda: stopped(live, "limit"), "stopped at its largest")
    live.stop()
    check_at_most(folder_bytes(folder + "/fakenect"), 3001000, "size [bytes], sidecars included")
    os.utime(folder + "/klg.klg", (1, 1))  # half a century old
    live = start("tum", folder, "--set", "recorder.keep_age_s=3600")
    live.wait_for(lambda: len(tracked(live)) > 3, "frames")
    live.stop()
    check(sorted(os.listdir(folder)) == ["fakenect", "tum"], f"left: {os.listdir(folder)}")
    live = start("mcap", folder, "--set", "recorder.keep_bytes=1000")
    live.wait_for(lambda: len(tracked(live)) > 3, "frames")
    live.stop()
    check(os.listdir(folder) == ["mcap.mcap"], f"left: {os.listdir(folder)}")


def scenario():
    for name in FORMATS:
        killed(name, harness.SCRATCH + "/killed")
    full_disks()
    limits()


harness.run(scenario)
