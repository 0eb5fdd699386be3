# SPDX-License-Identifier: Apache-2.0
"""posed-synth and posed-eval: numbers against a plain computation of the same, and clear errors;
posed-bench latency: that its requests are done beside the frames; posed-bench loops: that walks do
not depend on each other; all that open sources: ROS's domain."""
import json
import math
import os
import random
import struct
import subprocess

import harness
from harness import BINARY, check

N_FRAMES = 90
DELTA = 30
SEED = 20261120


def tool(name, *arguments, code=0, says=""):
    run = subprocess.run([f"{BINARY}/bin/{name}", *arguments], stdin=subprocess.DEVNULL,
                         stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=120)
    check(run.returncode == code,
          f"{name} {arguments}: exit code {run.returncode}, expected {code}: {run.stderr}")
    check(says in run.stderr, f"{name} {arguments}: \"{says}\" is not in: {run.stderr}")
    return run.stdout


def aligned_errors(a, b):
    """Distances after the best rigid alignment of points b to a: Horn's quaternion by power
    iteration on his 4x4 matrix, shifted to make the largest eigenvalue the largest in size."""
    n = len(a)
    mean_a = [sum(p[k] for p in a) / n for k in range(3)]
    mean_b = [sum(p[k] for p in b) / n for k in range(3)]
    s = [[sum((q[j] - mean_b[j]) * (p[k] - mean_a[k]) for p, q in zip(a, b)) for k in range(3)]
         for j in range(3)]
    m = [[s[0][0] + s[1][1] + s[2][2], s[1][2] - s[2][1], s[2][0] - s[0][2], s[0][1] - s[1][0]],
         [0, s[0][0] - s[1][1] - s[2][2], s[0][1] + s[1][0], s[2][0] + s[0][2]],
         [0, 0, s[1][1] - s[0][0] - s[2][2], s[1][2] + s[2][1]],
         [0, 0, 0, s[2][2] - s[0][0] - s[1][1]]]
    shift = sum(abs(x) for row in m for x in row)
    for i in range(4):
        for j in range(i):
            m[i][j] = m[j][i]
        m[i][i] += shift
    q = [1.0, 0.1, 0.1, 0.1]
    for _ in range(20000):
        q = [sum(m[i][k] * q[k] for k in range(4)) for i in range(4)]
        length = math.hypot(*q)
        q = [x / length for x in q]
    r = harness.rotation((q[1], q[2], q[3], q[0]))
    turned = [[sum(r[i][k] * (p[k] - mean_b[k]) for k in range(3)) + mean_a[i] for i in range(3)]
              for p in b]
    return [math.dist(p, q) for p, q in zip(a, turned)]


def relative_errors(truth, estimate, delta):
    """Length of the difference of the two motions over delta frames, in the frame of the first."""
    def motion(rows, i):
        r = harness.rotation(rows[i][4:])
        d = [rows[i + delta][1 + k] - rows[i][1 + k] for k in range(3)]
        transposed = [[r[k][j] for k in range(3)] for j in range(3)]
        return ([sum(transposed[j][k] * d[k] for k in range(3)) for j in range(3)],
                harness.multiply(transposed, harness.rotation(rows[i + delta][4:])))
    lengths = []
    for i in range(len(truth) - delta):
        (t, r), (u, _) = motion(truth, i), motion(estimate, i)
        lengths.append(math.dist(t, u))  # a rotation does not change the length
    return lengths


def rmse(values):
    return math.sqrt(sum(v * v for v in values) / len(values))


def check_loops():
    """Walks of two seeds: the same rows beside each other and one by one."""
    def rows(*options):
        lines = tool("posed-bench", "loops", "-n", "20", "--seeds", "2", *options).splitlines()
        check(lines[-1].startswith("2 walks, 0 failed"), lines)
        return sorted(lines[2:])

    found = rows("--jobs", "2")
    check(len(found) == 3 and found == rows("--jobs", "1"), found)
    tool("posed-bench", "loops", "--source", "tum:/tmp", code=2, says="synth:")


def check_synth(folder):
    tool("posed-synth", "room", folder, "--frames", str(N_FRAMES), "--seed", "7")
    for name in ("depth.txt", "groundtruth.txt", "calibration.txt"):
        check(os.path.getsize(f"{folder}/{name}") > 10, f"{name} is there")
    with open(folder + "/depth/000000.png", "rb") as file:
        head = file.read(26)
    check(head[:8] == b"\x89PNG\r\n\x1a\n", "a PNG")
    check(struct.unpack(">IIBB", head[16:26]) == (640, 480, 16, 0), "16-bit grey, 640x480")
    again = harness.SCRATCH + "/again"
    tool("posed-synth", "room", again, "--frames", "3", "--seed", "7")
    for i in range(3):
        with open(f"{folder}/depth/{i:06d}.png", "rb") as a, open(f"{again}/depth/{i:06d}.png",
                                                                 "rb") as b:
            check(a.read() == b.read(), f"frame {i}: same seed, other bytes")
    tool("posed-synth", "room", folder, code=1, says="depth.txt: File exists")
    tool("posed-synth", "kitchen", folder, code=2, says="room-still")
    tool("posed-synth", "room", code=2, says="OUTDIR")
    tool("posed-synth", "room", "/nowhere/x", code=1, says="/nowhere/x")
    tool("posed-synth", "room", again + "2", "--frames", "-3", code=2, says="--frames -3")
    listed = tool("posed-synth", "--list")
    check("wall-still" in listed, "--list")
    refused = subprocess.run([harness.BINARY + "/bin/posed-synth", "room,bad=1",
                              harness.SCRATCH + "/none"], capture_output=True, text=True)
    options = refused.stderr.split("there are ")[1].strip()
    check(refused.returncode != 0 and "mount=" in options and options in listed,
          f"other options than the error has: {listed}")


def write_estimate(truth, path):
    """A noisy estimate in another world: turned by 90 degrees about z and moved. Returns it."""
    print("seed", SEED)
    generator = random.Random(SEED)
    estimate = []
    half = math.sqrt(0.5)
    for t, x, y, z, qx, qy, qz, qw in truth:
        noise = [generator.gauss(0, 0.004) for _ in range(3)]
        estimate.append([t, 3 - y + noise[0], x - 1 + noise[1], z + noise[2],
                         half * qx - half * qy, half * qy + half * qx,
                         half * qz + half * qw, half * qw - half * qz])
    with open(path, "w") as file:
        file.write("# comment\n")
        file.writelines(" ".join(f"{v:.12g}" for v in row) + "\n" for row in estimate)
    return estimate


def check_eval(folder, path, truth, estimate):
    plot = harness.SCRATCH + "/plot.png"
    result = json.loads(tool("posed-eval", "--groundtruth", folder, "--trajectory", path, "--json",
                             "--delta", str(DELTA), "--plot", plot))
    check((result["n_poses"], result["n_matched"],
           result["n_unmatched"]) == (N_FRAMES, N_FRAMES, 0),
          f"counts: {result}")
    errors = aligned_errors([row[1:4] for row in truth], [row[1:4] for row in estimate])
    expected = {"rmse": rmse(errors), "mean": sum(errors) / N_FRAMES, "max": max(errors),
                "median": (sorted(errors)[N_FRAMES // 2 - 1] + sorted(errors)[N_FRAMES // 2]) / 2}
    for name, value in expected.items():
        check(abs(result["ate_m"][name] - value) < 1e-7, f"ATE {name}: {result['ate_m']}, {value}")
    relative = relative_errors(truth, estimate, DELTA)
    check(result["rpe"]["n_pairs"] == len(relative), "pairs")
    check(abs(result["rpe"]["translation_m"]["rmse"] - rmse(relative)) < 1e-7, "RPE translation")
    check(result["rpe"]["rotation_deg"]["max"] < 1e-4, "RPE rotation: the noise turned nothing")
    with open(plot, "rb") as file:
        check(file.read(8) == b"\x89PNG\r\n\x1a\n", "the plot is a PNG")
    text = tool("posed-eval", "--groundtruth", folder + "/groundtruth.txt", "--trajectory", path)
    check(f"{expected['rmse'] * 1000:.4f}" in text, f"the text says the same: {text}")


def check_offsets(folder, truth):
    """By a clock that is 40 ms fast: found, and taken out. As given: the same."""
    moved = harness.SCRATCH + "/moved.txt"
    with open(moved, "w") as file:
        file.writelines(" ".join(f"{v:.12g}" for v in [row[0] + 0.04, *row[1:]]) + "\n"
                        for row in truth[5:-5])
    for offset in ("auto", "-0.04"):
        result = json.loads(tool("posed-eval", "-g", folder, "-t", moved, "-j", "-o", offset))
        check(abs(result["time_offset_s"] + 0.04) < 1e-4, f"--time-offset {offset}: {result}")
        check(result["ate_m"]["rmse"] < 1e-4, f"--time-offset {offset}: {result}")
        check(result.get("time_offset_at_limit") == (False if offset == "auto" else None), result)
    with open(moved, "w") as file:
        file.writelines(" ".join(f"{v:.12g}" for v in [row[0] + 0.3, *row[1:]]) + "\n"
                        for row in truth[15:-15])
    far = ("-g", folder, "-t", moved, "-o", "auto")
    result = json.loads(tool("posed-eval", *far, "-j", says="warning: the time offset -0.1"))
    check(result["time_offset_at_limit"] is True, f"{result}")
    check("at the limit of what" in tool("posed-eval", *far), "the text says it, too")
    tool("posed-eval", "-g", folder, "-t", moved, "-o", "soon", code=2, says="--time-offset soon")


def check_turn_offset():
    """Positions say that the clocks agree, turns that one is 40 ms fast: both are told."""
    paths = harness.SCRATCH + "/turns-truth.txt", harness.SCRATCH + "/turns.txt"
    for path, fast_s in zip(paths, (0, 0.04)):
        with open(path, "w") as file:
            for i in range(300):
                x, angle = 0.1 * math.sin(i / 30), 0.4 * math.sin(4 * (i / 30 - fast_s))
                file.write(f"{i / 30:.9f} {x:.9f} 0 0 0 {math.sin(angle / 2):.9f} 0 "
                           f"{math.cos(angle / 2):.9f}\n")
    args = ("-g", paths[0], "-t", paths[1], "-o", "auto")
    result = json.loads(tool("posed-eval", *args, "-j"))
    check(abs(result["time_offset_s"]) < 1e-4, f"by positions: {result}")
    check(abs(result["turn_offset_s"] + 0.04) < 0.001, f"by turns: {result}")
    check("turns agree best at -0.040 s" in tool("posed-eval", *args), "the text says it")
    still = json.loads(tool("posed-eval", "-g", paths[0], "-t", paths[0], "-j"))
    check("turn_offset_s" not in still, f"nobody asked: {still}")


def check_parts(folder, truth):
    """Two exact parts, in worlds of their own: the longest is judged, and both are told."""
    path, cut = harness.SCRATCH + "/parts.txt", 40
    with open(path, "w") as file:
        for i, row in enumerate(truth):
            if i == cut:
                file.write("# 1.0 lost: no pose\n# 1.1 predicted: no measurement\n"
                           "# map epoch 1, not connected to the lines before\n")
            moved = [row[0], row[1] + 5 * (i >= cut), *row[2:]]
            file.write(" ".join(f"{v:.12g}" for v in moved) + "\n")
    asked = ("-g", folder, "-t", path)
    result = json.loads(tool("posed-eval", *asked, "-j", says="parts.txt: its 2 parts"))
    check((result["n_poses"], result["n_matched"]) == (N_FRAMES - cut,) * 2, f"{result}")
    check(result["ate_m"]["max"] < 1e-6, f"the parts are taken as one: {result}")
    told = [(p["epoch"], p["judged"], p["n_poses"]) for p in result["map_epochs"]]
    check(told == [(0, False, cut), (1, True, N_FRAMES - cut)], f"{told}")
    check(max(p["ate_rmse_m"] for p in result["map_epochs"]) < 1e-6, f"{result}")
    text = tool("posed-eval", *asked, says="epoch 1, the longest")
    check("2 (map epochs), not connected" in text and "epoch 0 " in text, text)
    tool("posed-eval", "-g", path, "-t", path, says="it is no truth as a whole")
    # The machine's clock was set back by 0.5 s: what is by each clock is a part, all of one world.
    with open(path, "w") as file:
        for i, row in enumerate(truth):
            if i == cut:
                file.write("# clock set -0.500000000 s since the beginning\n")
            time_s = row[0] - 0.5 * (i >= cut)
            file.write(" ".join(f"{v:.12g}" for v in [time_s, *row[1:]]) + "\n")
    result = json.loads(tool("posed-eval", *asked, "-o", "0.5", "-j",
                             says="epoch 0, clock set -0.500 s, the longest"))
    told = [(p["epoch"], p["clock_set_s"], p["judged"], p["n_poses"])
            for p in result["map_epochs"]]
    check(sorted(told) == [(0, -0.5, True, N_FRAMES - cut), (0, 0, False, cut)], f"{told}")
    check(result["n_poses"] == N_FRAMES - cut and result["ate_m"]["max"] < 1e-6, f"{result}")


def check_eval_errors(folder, path):
    late = harness.SCRATCH + "/late.txt"
    with open(late, "w") as file:
        file.write("1000 0 0 0 0 0 0 1\n")
    bad = harness.SCRATCH + "/bad.txt"
    with open(bad, "w") as file:
        file.write("0 0 0 0 0 0 0 1\n1 0 nan 0 0 0 0 1\n")
    empty = harness.SCRATCH + "/empty"
    os.mkdir(empty)
    tool("posed-eval", "-g", folder, "-t", late, code=1, says="lies within the times")
    tool("posed-eval", "-g", folder, "-t", bad, code=1, says="bad.txt:2: NaN")
    tool("posed-eval", "-g", folder, "-t", "/nowhere.txt", code=1, says="/nowhere.txt")
    tool("posed-eval", "-g", empty, "-t", path, code=1, says=empty)
    tool("posed-eval", "-g", folder, code=2, says="--trajectory")
    tool("posed-eval", "-g", folder, "-t", path, "--delta", "0", code=2, says="--delta 0")
    tool("posed-eval", "-g", folder, "-t", path, "--nees", code=1, says="no covariances")
    tool("posed-eval", "-g", folder, "-t", path, "--nees", "-r", "2", code=2, says="MM:DEG")
    tool("posed-eval", "-g", folder, "-t", path, "-r", "1:2", code=2,
         says="--reference-error is what --nees reckons with")
    tool("posed-eval", "-g", folder, "-t", path, "--plot", "/nowhere/p.png", code=1,
         says="/nowhere/p")


def check_latency():
    rows = json.loads(tool("posed-bench", "latency", "--backend", "cpu", "--seconds", "0.5",
                           "--rounds", "1", "--work", "first-search,icp", "--json"))
    check([row["work"] for row in rows] == ["icp", "first-search"], f"kinds: {rows}")
    for row in rows:
        check(row["frames"] > 0 and 0 < row["busy_us"]["p50"] <= row["busy_us"]["max"], f"{row}")
    tool("posed-bench", "latency", "--work", "register,tea", code=2, says="register,tea")


def check_ros_domain():
    """Every program looks for a topic where ROS's own do; a domain that is none shows at once."""
    if "  ros2:" not in tool("posed", "--help"):
        print("SKIP: ros2: is not in this build")
        return
    source = "ros2:/nowhere/image_raw"
    wrong = 'ROS_DOMAIN_ID: "233" is no domain of ROS 2: 0..232'
    os.environ["ROS_DOMAIN_ID"] = "233"
    tool("posed-bench", "capture", "-s", source, code=4, says=wrong)
    tool("posed-bench", "latency", "-s", source, code=4, says=wrong)
    tool("posed-align", "-s", source, "-o", harness.SCRATCH + "/aligned", code=1, says=wrong)
    tool("posectl", "calibrate", source, "-o", harness.SCRATCH + "/learnt", code=1, says=wrong)
    os.environ["ROS_DOMAIN_ID"] = "229"
    tool("posed-bench", "capture", "-s", source, code=4, says="on domain 229 (ROS_DOMAIN_ID)")
    del os.environ["ROS_DOMAIN_ID"]


def scenario():
    folder, path = harness.SCRATCH + "/recording", harness.SCRATCH + "/estimate.txt"
    check_synth(folder)
    truth = harness.read_trajectory(folder + "/groundtruth.txt")
    estimate = write_estimate(truth, path)
    check_eval(folder, path, truth, estimate)
    check_offsets(folder, truth)
    check_turn_offset()
    check_parts(folder, truth)
    check_eval_errors(folder, path)
    check_latency()
    check_loops()
    check_ros_domain()


harness.run(scenario)
