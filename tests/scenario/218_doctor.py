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
        assert len(of(findings, "ports")) == 4

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
        ports = of(doctor(1, *where), "ports")
        assert ports[3]["verdict"] == "ok" and "posed is running" in ports[3]["finding"], ports
        context.destroy(0)


harness.run(scenario)
