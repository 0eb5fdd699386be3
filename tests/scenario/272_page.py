# SPDX-License-Identifier: Apache-2.0
"""The page in a real browser: what it shows is what is on the wire, its buttons work where they
may, it comes back after the daemon. The picture that it takes lies in <build>/page.png."""
import os
import shutil
import time

import harness
from harness import BINARY, check, requests

PORT_TRIES = 30
MAX_BYTES_S = 1e6  # a viewer
BROWSER = shutil.which("chromium")
DRIVER = shutil.which("chromedriver")


def free_port():
    import socket
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def open_browser():
    from selenium import webdriver
    from selenium.webdriver.chrome.service import Service
    options = webdriver.ChromeOptions()
    options.binary_location = BROWSER
    for argument in ("--headless=new", "--no-sandbox", "--use-gl=angle", "--use-angle=swiftshader",
                     "--enable-unsafe-swiftshader", "--window-size=1100,760", "--hide-scrollbars",
                     "--user-data-dir=" + harness.SCRATCH + "/browser"):
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    browser = webdriver.Chrome(service=Service(DRIVER), options=options)
    browser.set_script_timeout(harness.PATIENCE_S)
    return browser


def wait_js(browser, expression, text):
    end = time.monotonic() + harness.PATIENCE_S
    while not browser.execute_script("return " + expression):
        check(time.monotonic() < end, f"not in the page: {text}")
        time.sleep(0.1)


def press(browser, name):
    browser.execute_script(
        "[...document.querySelectorAll('#buttons button')]"
        ".find(b => b.textContent === arguments[0]).click()", name)


def check_numbers(browser, daemon):
    """Paused, so that page and wire have the same newest frame."""
    press(browser, "pause")
    wait_js(browser, "posed.answered && posed.answered.name === 'pause'", "an answer to pause")
    wait_js(browser, "posed.status.paused", "paused")
    time.sleep(0.5)
    shown, last = browser.execute_script("return posed.pose"), daemon.poses[-1]
    p, q = last.pose.position, last.pose.orientation
    check(shown["seq"] == last.seq and shown["state"] == harness.state_name(last), f"{shown}")
    check(shown["p"] == [p.x, p.y, p.z] and shown["q"] == [q.x, q.y, q.z, q.w], f"{shown}")
    check(shown["residual_m"] == last.residual_rms_m and shown["mask"] == last.degenerate_mask, "")
    status = daemon.request(get_status=requests.GetStatus()).get_status
    wait_js(browser, f"posed.status.captured === {status.captured_frames}", "the newest status")
    counts = browser.execute_script("return posed.status")
    for key in ("captured", "tracked", "degraded", "lost", "dropped", "damaged"):
        check(counts[key] == getattr(status, key + "_frames"), f"{key}: {counts[key]}")
    browser.execute_script("showNumbers()")
    cell = "document.querySelector('[data-name=captured]').textContent"
    check(browser.execute_script("return " + cell) == str(status.captured_frames), "the table")
    press(browser, "step")
    wait_js(browser, f"posed.pose.seq === {last.seq + 1}", "the next frame after a step")
    press(browser, "resume")
    wait_js(browser, f"posed.pose.seq > {last.seq + 5}", "frames after resume")


def check_picture(browser):
    """Each canvas shows something, and the scene has the cloud and the path."""
    wait_js(browser, "posed.preview && posed.frames_drawn > 3", "a preview")
    for name in ("depth", "normals", "residual"):
        wait_js(browser, f"""(() => {{ const c = document.getElementById('{name}');
            const d = c.getContext('2d').getImageData(0, 0, c.width, c.height).data;
            let n = 0; for (let i = 0; i < d.length; i += 4) n += d[i] + d[i + 1] + d[i + 2] > 0;
            return n > d.length / 4 * .3; }})()""", f"the image {name}")
    wait_js(browser, """(() => { drawScene(); const d = new Uint8Array(4 * gl.drawingBufferWidth *
        gl.drawingBufferHeight); gl.readPixels(0, 0, gl.drawingBufferWidth, gl.drawingBufferHeight,
        gl.RGBA, gl.UNSIGNED_BYTE, d); let n = 0;
        for (let i = 0; i < d.length; i += 4) n += Math.max(d[i], d[i + 1], d[i + 2]) > 80;
        return n > 2000; })()""", "the cloud")
    check(browser.execute_script("return n_path > 5 && n_cloud > 1000"), "path and cloud")
    for view in ("follow", "top", "side", "orbit"):
        browser.execute_script("[...document.querySelectorAll('#views button')].find(b => "
                               "b.textContent === arguments[0]).click(); drawScene()", view)
    check(browser.execute_script("return gl.getError()") == 0, "WebGL complains")


def start(port, *options):
    return harness.Daemon("synth:room", "--loop", "--set", f"http.port={port}", *options, speed=0.5)


def scenario():
    if not BROWSER or not DRIVER:
        harness.skip("no chromium with its driver")
    port = free_port()
    daemon = start(port, "--set", "http.control=true")
    daemon.wait_for(lambda: len(daemon.poses) > 5, "poses")
    browser = open_browser()
    try:
        browser.get(f"http://127.0.0.1:{port}/")
        wait_js(browser, "posed.connected && posed.pose && posed.status", "a pose and a status")
        check_picture(browser)
        check_numbers(browser, daemon)
        begin, begin_s = browser.execute_script("return posed.n_bytes"), time.monotonic()
        time.sleep(3)
        rate = (browser.execute_script("return posed.n_bytes") - begin) / (time.monotonic() -
                                                                          begin_s)
        harness.check_at_most(rate, MAX_BYTES_S, "bytes/s of a viewer")
        browser.save_screenshot(os.environ.get("POSED_BINARY_DIR", BINARY) + "/page.png")

        daemon.stop()
        wait_js(browser, "!posed.connected && document.getElementById('state').textContent === "
                "'no daemon'", "that the daemon is gone")
        daemon = start(port)  # without buttons
        wait_js(browser, "posed.connected && posed.status && !posed.control", "the daemon's return")
        check(browser.execute_script("return document.getElementById('buttons').hidden"), "hidden")
        browser.execute_script("ask('reset', 15, [])")
        wait_js(browser, "document.getElementById('said').textContent.includes('http.control')",
                "why a request is refused")
        errors = [line for line in browser.get_log("browser") if line["level"] == "SEVERE" and
                  "WebSocket" not in line["message"] and "favicon" not in line["message"]]
        check(not errors, f"the browser complains: {errors}")
    finally:
        browser.quit()
    daemon.stop()


harness.run(scenario)
