# SPDX-License-Identifier: Apache-2.0
"""posectl doctor: cameras as sysfs shows them, a port that is taken, a folder that is missing."""
import json
import os
import socket
import subprocess
import tempfile

import harness


def doctor(code, *arguments):
    done = subprocess.run([harness.BINARY + "/bin/posectl", "doctor", *arguments, "-o", "json"],
                          capture_output=True, text=True, timeout=60)
    assert done.returncode == code, (arguments, done.returncode, done.stdout, done.stderr)
    report = json.loads(done.stdout)
    assert (report["problems"] > 0) == (code == 1), report
    return report["findings"]


def plug(folder, name, product, **more):
    os.makedirs(f"{folder}/{name}")
    for key, value in dict(idVendor="045e", idProduct=product, **more).items():
        with open(f"{folder}/{name}/{key}", "w", encoding="ascii") as file:
            file.write(value + "\n")


def of(findings, subject):
    return [f for f in findings if f["subject"] == subject]


def check_settings(folder, *usb):
    """What it looks at are the daemon's own folder and ports: of a file, and of one that runs."""
    config, recordings = folder + "/posed.conf", folder + "/recordings"
    os.mkdir(recordings)
    with socket.create_server(("127.0.0.1", 0)) as taken, open(config, "w") as file:
        port = taken.getsockname()[1]
        print(f"[http]\nport = {port}\n[recorder]\nfolder = {recordings}\n[endpoints]\npub = ipc",
              file=file, flush=True)
        findings = doctor(1, *usb, "-c", config)
        page = of(findings, "ports")[-1]
        assert page["verdict"] == "problem" and f"127.0.0.1:{port} (page)" in page["finding"], page
        assert not any("(pub)" in p["finding"] for p in of(findings, "ports")), findings
        assert recordings in of(findings, "disk")[0]["finding"], findings
    with open(config, "a") as file:
        file.write("[http]\nport = 99999\n")
    settings = of(doctor(1, *usb, "-c", config), "settings")[0]
    assert config + ":8: http.port" in settings["finding"], settings
    # What only --check-config sees, behind a warning and in a file that asks for JSON.
    for section, setting, said in (
            ("endpoints", "pub = tcp://0.0.0.0:5570", f"{config}:6: endpoints.pub"),
            ("camera", "field = /nope", "/nope: No such file"),
            ("output", "trajectory = /nope/x", f"{config}:6: /nope/x: No such file")):
        with open(config, "w") as file:
            file.write("[log]\nrate_hz = 1\nrate_hz = 2\nformat = json\n"
                       f"[{section}]\n{setting}\n")
        findings = of(doctor(1, *usb, "-c", config), "settings")
        assert len(findings) == 1 and findings[0]["verdict"] == "problem", (setting, findings)
        assert said in findings[0]["finding"], (setting, findings)
    daemon = harness.Daemon("synth:room", "--loop", f"--set=recorder.folder={recordings}",
                            f"--set=http.port={port}", speed=0.2, collect=False)
    daemon.wait_for(lambda: str(port) in daemon.log(), "the page")
    findings = doctor(0, *usb, "--host", daemon.folder)
    assert recordings in of(findings, "disk")[0]["finding"], findings
    ports = of(findings, "ports")
    assert len(ports) == 1 and f"127.0.0.1:{port} (page) answers" in ports[0]["finding"], ports
    daemon.stop()


def scenario():
    with tempfile.TemporaryDirectory() as folder:
        usb = folder + "/usb"
        os.mkdir(usb)
        where = ("--usb", usb, "--recordings", folder)
        findings = doctor(0, *where)
        assert [f["verdict"] for f in of(findings, "camera")] == ["note"], findings
        assert "synth" in of(findings, "build")[0]["finding"]
        for lacking in of(findings, "build")[1:]:  # what is off by default needs its option, too
            option = "POSED_OPENNI2=ON" if "libopenni2" in lacking["finding"] else "install build"
            assert option in lacking["advice"], lacking
        assert any("cpu" in f["finding"] for f in of(findings, "compute"))
        assert len(of(findings, "ports")) == 5
        check_settings(folder, *where[:2])

        # Only the motor answers: the camera has a power supply of its own.
        plug(usb, "1-1.1", "02b0")
        camera = of(doctor(1, *where), "camera")
        assert camera[0]["verdict"] == "problem" and "power" in camera[0]["advice"], camera

        # A camera whose device file is not there, as in a container.
        plug(usb, "1-1.2", "02ae", busnum="250", devnum="77", serial="A00362913019107A")
        camera = of(doctor(1, *where), "camera")
        assert "A00362913019107A" in camera[0]["finding"], camera
        assert "/dev/bus/usb/250/077" in camera[0]["finding"], camera
        assert "container" in camera[0]["advice"], camera

        findings = doctor(1, "--usb", usb, "--recordings", folder + "/missing")
        assert of(findings, "disk")[0]["verdict"] == "problem", findings

        findings = doctor(1, "--usb", usb, "--recordings", "/etc/passwd")
        assert "not a folder" in of(findings, "disk")[0]["finding"], findings

        # A port that another program has, and one where something speaks ZeroMQ, as posed does.
        with socket.socket() as taken:
            try:
                taken.bind(("127.0.0.1", 5573))
            except OSError:
                return print("port 5573 is in use here already")
            taken.listen()
            ports = of(doctor(1, *where), "ports")
            assert [p["verdict"] for p in ports][3] == "problem", ports
            assert "5573" in ports[3]["finding"] and "not by posed" in ports[3]["finding"], ports
        context = harness.zmq.Context()
        router = context.socket(harness.zmq.ROUTER)
        router.bind("tcp://127.0.0.1:5573")
        ports = of(doctor(1, *where, "--timeout", "0.2"), "ports")
        assert ports[3]["verdict"] == "ok" and "posed is running" in ports[3]["finding"], ports
        context.destroy(0)


harness.run(scenario)
