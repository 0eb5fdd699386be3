# SPDX-License-Identifier: Apache-2.0
"""HTTP for monitoring: what it says is what the request socket says, and nobody else's browser
reads it."""
import http.client
import json
import re
import signal
import socket
import subprocess
import time

import harness
from harness import check, requests

LABEL = r'[a-z]+="(?:[^"\\]|\\.)*"'
PARTS_OF_HISTOGRAM = ("_bucket", "_sum", "_count")
SAMPLE = re.compile(rf'^(posed_[a-z_]+)(\{{{LABEL}(?:,{LABEL})*\}})? (-?[0-9.e+-]+)$')


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def ask(port, path, method="GET", **headers):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
    connection.request(method, path, headers=headers)
    response = connection.getresponse()
    text = response.read().decode("utf-8")
    connection.close()
    return response, text


def read_metrics(port):
    response, text = ask(port, "/metrics")
    check(response.status == 200 and response.getheader("Content-Type").startswith("text/plain"),
          f"/metrics: {response.status}")
    check(text.endswith("\n"), "the last line ends")
    samples, kinds = {}, {}
    for line in text.splitlines():
        if line.startswith("# TYPE "):
            _, _, name, kind = line.split(" ")
            check(name not in kinds, f"{name} twice")
            kinds[name] = kind
        elif not line.startswith("# HELP "):
            match = SAMPLE.match(line)
            check(match, f"no sample: {line!r}")
            name = match[1]
            for part in PARTS_OF_HISTOGRAM:
                if kinds.get(name.removesuffix(part)) == "histogram":
                    name = name.removesuffix(part)
            check(name in kinds, f"{name} has no type")
            check((kinds[name] == "counter") == name.endswith("_total"), f"{line}")
            samples[match[1] + (match[2] or "")] = float(match[3])
    return samples


def check_refusals(port):
    for host in ("evil.example", "127.0.0.1.evil.example", "localhost.evil.example:80", "x"):
        response, text = ask(port, "/v1/pose", Host=host)
        check(response.status == 403 and "position" not in text, f"Host {host}: {response.status}")
    for host in ("localhost", f"LOCALHOST:{port}", "[::1]:8765"):
        check(ask(port, "/v1/pose", Host=host)[0].status == 200, f"Host {host}")
    for method in ("POST", "PUT", "DELETE", "OPTIONS"):
        check(ask(port, "/v1/pose", method=method)[0].status == 405, method)
    for offer in ("h2c", "TLS/1.0"):  # left alone
        response, text = ask(port, "/healthz", Connection="Upgrade", Upgrade=offer)
        check((response.status, text) == (200, ask(port, "/healthz")[1]), f"{offer}: {text[:40]}")
        check(ask(port, "/nothing", Connection="Upgrade", Upgrade=offer)[0].status == 404, offer)
    response, text = ask(port, "/v1/pose", method="HEAD")
    check(response.status == 200 and text == "", "HEAD")
    for path in ("/v1", "/v1/pose/", "/../etc/passwd", "/" + "x" * 5000):
        response, text = ask(port, path)
        check(response.status == 404 and "/metrics" in text, f"{path[:20]}: {response.status}")
    for rubbish in (b"\0\1\2\3\r\n\r\n", b"GET\r\n\r\n", b"x" * 100000):
        with socket.create_connection(("127.0.0.1", port), timeout=20) as client:
            try:
                client.sendall(rubbish)
                client.shutdown(socket.SHUT_WR)
                client.recv(1000)
            except OSError:
                pass  # it hung up
    check(ask(port, "/healthz")[0].status == 200, "it still answers")


def check_trickle(port):
    """64 clients whose requests never end leave a place for a probe."""
    held = []
    for _ in range(64):
        client = socket.create_connection(("127.0.0.1", port), timeout=20)
        client.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nX: ")
        held.append(client)
    for i in range(16):
        for client in held:
            try:
                client.sendall(b"x")
            except OSError:
                pass  # hung up on
        check(ask(port, "/healthz")[0].status == 200, f"probe {i} beside 64 that trickle")
    for client in held:
        client.close()


def check_one_trickles(port):
    """A request has 2 s (daemon/http.c); who takes longer is hung up on when the next one comes."""
    client = socket.create_connection(("127.0.0.1", port), timeout=20)
    client.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nX: ")
    begin = time.monotonic()
    client.settimeout(0.2)
    while time.monotonic() - begin < 8:
        try:
            client.sendall(b"x")
            if client.recv(1) == b"":
                break
        except TimeoutError:
            check(ask(port, "/healthz")[0].status == 200, "a probe beside one that trickles")
        except OSError:
            break
    took = time.monotonic() - begin
    client.close()
    check(1.9 < took < 8, f"hung up on after {took:.1f} s")


def check_latency(metrics, poses):
    """The histogram is that of the stamps in the pose messages."""
    took_s = [(pose.publish_monotonic_ns - pose.capture_monotonic_ns) * 1e-9 for pose in poses]
    name = "posed_latency_seconds"
    check(metrics[name + "_count"] == len(took_s), f"{metrics[name + '_count']} of {len(took_s)}")
    check(abs(metrics[name + "_sum"] - sum(max(0, s) for s in took_s)) < 1e-6, "the sum")
    bounds = {key.split('"')[1]: n for key, n in metrics.items() if key.startswith(name + "_buck")}
    check(len(bounds) > 10 and list(bounds)[-1] == "+Inf", f"{bounds}")
    for bound, n in bounds.items():
        check(n == sum(s <= float(bound) for s in took_s), f"{n} frames within {bound} s")


def check_several():
    """Two cameras: each asked by its name, metrics with a label; health of both."""
    port = free_port()
    daemon = harness.Daemon(None, "--set", "camera a.source=synth:room", "--set",
                            "camera b.source=synth:room,frames=20", "--set", f"http.port={port}",
                            "--set", "tracker.iterations=1,1,1", speed=1, collect=False)
    daemon.wait_for(lambda: "b: the recording has ended" in daemon.log(), "b has ended")
    for name in ("a", "b"):
        status = json.loads(ask(port, f"/v1/status/{name}")[1])
        check((status["camera"], status["cameras"]) == (name, ["a", "b"]), f"{status}")
    check(json.loads(ask(port, "/v1/status")[1])["camera"] == "a", "the first without a name")
    check(json.loads(ask(port, "/v1/pose/b")[1])["seq"] == 19, "the pose of b")
    for path in ("/v1/status/c", "/v1/status/", "/v1/status/a/", "/metrics/a", "/v1/statusa"):
        check(ask(port, path)[0].status == 404, path)
    check(ask(port, "/healthz")[0].status == 200, "a camera that has ended is no fault")
    response, text = ask(port, "/readyz")
    check((response.status, text) == (503, "b: the recording has ended\n"), text)
    metrics = read_metrics(port)
    check(metrics['posed_captured_frames_total{camera="b"}'] == 20 and
          metrics['posed_latency_seconds_count{camera="b"}'] == 20 and
          metrics['posed_state{camera="b",state="NO_INPUT"}'] == 1, f"{metrics}")
    check(metrics["posed_uptime_seconds"] > 0, "of the daemon, without a label")
    daemon.stop()


def scenario():
    check_several()
    port = free_port()
    daemon = harness.Daemon("synth:room", "--loop", "--set", f"http.port={port}", speed=1)
    daemon.step(35)
    daemon.wait_for(lambda: ask(port, "/readyz")[0].status == 200, "ready", timeout_s=20)
    check(ask(port, "/healthz")[1] == "ok\n" and ask(port, "/readyz")[1] == "ok\n", "well")

    pose = json.loads(ask(port, "/v1/pose")[1])
    last = daemon.poses[-1]
    p, q = last.pose.position, last.pose.orientation
    check(pose["seq"] == last.seq and pose["state"] == harness.state_name(last), f"{pose}")
    check(max(abs(a - b) for a, b in zip(pose["position_m"] + pose["orientation_xyzw"],
                                         (p.x, p.y, p.z, q.x, q.y, q.z, q.w))) < 1e-9, f"{pose}")

    status = json.loads(ask(port, "/v1/status")[1])
    expected = daemon.request(get_status=requests.GetStatus()).get_status
    for key in ("captured_frames", "tracked_frames", "lost_frames", "dropped_frames", "backend",
                "source", "version", "map_epoch", "paused"):
        check(status[key] == getattr(expected, key), f"{key}: {status[key]}")
    check(status["state"] == "TRACKING" and status["session"] == f"{expected.session:016x}", "")
    said = subprocess.run([harness.BINARY + "/bin/posectl", "status", "-o", "json", "-e",
                           daemon.folder], capture_output=True, text=True, timeout=60).stdout
    check(set(json.loads(said)) == set(status), "the keys of posectl")
    check(json.loads(said)["recording"] is status["recording"] is None, "no recording")

    metrics = read_metrics(port)
    check(metrics["posed_captured_frames_total"] == expected.captured_frames, f"{metrics}")
    check(sum(value for name, value in metrics.items() if name.startswith("posed_frames_total"))
          == expected.captured_frames, "every frame has one result")
    check(metrics['posed_state{state="TRACKING"}'] == 1 and
          sum(v for n, v in metrics.items() if n.startswith("posed_state{")) == 1, "one state")
    check(metrics["posed_paused"] == 1 and metrics["posed_uptime_seconds"] > 0, "gauges")
    check(metrics["posed_resident_memory_bytes"] > 1e6, "memory")
    check(metrics["posed_lost_packets_total"] == 0, "a recording loses no USB packet")
    check_latency(metrics, daemon.poses)

    check_refusals(port)
    check_trickle(port)
    check_one_trickles(port)
    # A second daemon on the same port says so and ends.
    again = subprocess.run([harness.BINARY + "/bin/posed", "--source", "synth:room", "--no-tcp",
                            "--run-dir", harness.SCRATCH, "--set", f"http.port={port}"],
                           capture_output=True, text=True, timeout=60)
    check(again.returncode == 1 and "http.port" in again.stderr, f"a port in use: {again}")
    daemon.process.send_signal(signal.SIGTERM)
    daemon.wait()


def supported():
    done = subprocess.run([harness.BINARY + "/bin/posed", "--check-config", "--set",
                           "http.port=8765"], capture_output=True, text=True, timeout=60)
    return "without libmicrohttpd" not in done.stderr


if not supported():
    harness.skip("built without libmicrohttpd")
harness.run(scenario)
