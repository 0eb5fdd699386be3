# SPDX-License-Identifier: Apache-2.0
"""The page of a daemon with several cameras: one is chosen, by the list or by the address, and
poses, images, numbers and buttons are that camera's alone; Foxglove sees all their topics."""
import asyncio
import json
import os

import browser as chromium
import harness
from browser import free_port, press, wait_js
from harness import BINARY, check, requests

NAMES = ("left", "right")


def start(port):
    path = harness.SCRATCH + "/two.conf"
    with open(path, "w", encoding="utf-8") as file:
        file.write("[camera left]\nsource = synth:room\nloop = yes\n"
                   "[camera right]\nsource = synth:room-rotation,seed=5\nloop = yes\n")
    return harness.Daemon(None, "-c", path, "--set", f"http.port={port}", "--set",
                          "http.control=true", "--set", "tracker.iterations=3,2,2", speed=0.5,
                          collect=False)


def choose(browser, name):
    browser.execute_script("""const list = document.getElementById('camera');
        list.value = cameras.indexOf(arguments[0]); list.onchange()""", name)


def check_shown(browser, daemon, name):
    """Paused, so that page and daemon have the same newest frame."""
    wait_js(browser, "posed.connected && posed.pose && posed.status && posed.preview", name)
    press(browser, "pause")
    wait_js(browser, "posed.status && posed.status.paused", f"{name} paused")
    newest = daemon.request(get_status=requests.GetStatus(), camera=name).get_status
    other = [n for n in NAMES if n != name][0]
    check(not daemon.request(get_status=requests.GetStatus(), camera=other).get_status.paused,
          f"{other} goes on")
    wait_js(browser, f"posed.status.captured === {newest.captured_frames}", "its own numbers")
    pose = daemon.request(get_pose=requests.GetPose(), camera=name).get_pose.pose
    shown = browser.execute_script("return posed.pose.p")
    check(shown == [pose.position.x, pose.position.y, pose.position.z], f"{name}: {shown} {pose}")
    check(browser.execute_script("return location.hash") in ("", "#" + name), "the address")
    source = browser.execute_script("return document.getElementById('source').textContent")
    check(newest.source in source, source)
    press(browser, "resume")
    wait_js(browser, "!posed.status.paused", "resumed")
    wait_js(browser, f"posed.pose.seq > {newest.captured_frames}", "frames after it")


async def check_foxglove(port):
    import websockets
    async with websockets.connect(f"ws://127.0.0.1:{port}/", subprotocols=["foxglove.sdk.v1"],
                                  max_size=None) as client:
        info = json.loads(await client.recv())
        check(info["metadata"]["cameras"] == "left right", f"{info}")
        channels = {c["topic"]: c["id"] for c in json.loads(await client.recv())["channels"]}
        check(len(channels) == 26 and {"pose/left", "cloud/right"} <= set(channels), f"{channels}")
        await client.send(json.dumps({"op": "subscribe", "subscriptions": [
            {"id": 7, "channelId": channels["calib/right"]}]}))
        message = await asyncio.wait_for(client.recv(), harness.PATIENCE_S)
        check(message[:5] == b"\x01\x07\0\0\0" and b"right/camera" in message, f"{message[:80]}")
        await client.send(json.dumps({"op": "subscribe", "subscriptions": [
            {"id": 8, "channelId": 33}]}))  # a third camera
        check(json.loads(await client.recv())["op"] == "status", "no such camera")


def scenario():
    chromium.need()
    port = free_port()
    daemon = start(port)
    browser = chromium.open_browser()
    try:
        browser.get(f"http://127.0.0.1:{port}/")
        wait_js(browser, "posed.connected && !document.getElementById('camera').hidden", "a list")
        check(browser.execute_script("return posed.cameras") == list(NAMES), "the names")
        check_shown(browser, daemon, "left")
        choose(browser, "right")
        check_shown(browser, daemon, "right")
        wait_js(browser, "n_path > 5", "its path")
        browser.save_screenshot(os.environ.get("POSED_BINARY_DIR", BINARY) + "/page-cameras.png")
        choose(browser, "left")
        check_shown(browser, daemon, "left")
        browser.get("about:blank")
        browser.get(f"http://127.0.0.1:{port}/#right")
        wait_js(browser, "posed.pose && cameras[camera] === 'right' && posed.status && "
                "posed.status.source.includes('seed=5')", "the camera of the address")
        check(not chromium.complaints(browser), f"{chromium.complaints(browser)}")
        asyncio.run(check_foxglove(port))
    finally:
        browser.quit()
    daemon.stop()


harness.run(scenario)
