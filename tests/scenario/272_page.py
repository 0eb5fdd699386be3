# SPDX-License-Identifier: Apache-2.0
"""The page in a real browser: what it shows is what is on the wire, its buttons work where they
may, it comes back after the daemon. The picture that it takes lies in <build>/page.png; the
README shows one (daemon/web/page.png)."""
import os
import re
import time

import browser as chromium
import harness
from browser import free_port, press, wait_js
from harness import BINARY, check, requests

MAX_BYTES_S = 1e6  # a viewer
SURFACE_POINTS = 1000  # of the map, at least
# Of panels, at least
PANEL_PX = {"scene": 200, "depth": 80, "normals": 80, "residual": 80, "plot": 90, "residuals": 90,
            "inliers": 90, "numbers": 100}


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
    wait_js(browser, "n_path > 5 && n_cloud > 1000", "path and cloud")
    for view in ("follow", "top", "side", "orbit"):
        browser.execute_script("[...document.querySelectorAll('#views button')].find(b => "
                               "b.textContent === arguments[0]).click(); drawScene()", view)
    check(browser.execute_script("return gl.getError()") == 0, "WebGL complains")
    for name in ("plot", "residuals", "inliers"):
        wait_js(browser, f"""(() => {{ const c = document.getElementById('{name}');
            const d = c.getContext('2d').getImageData(0, 0, c.width, c.height).data;
            let n = 0; for (let i = 0; i < d.length; i += 4) n += d[i + 1] > 190 && d[i] < 100;
            return n > 100; }})()""", f"bars in {name}")


def check_map(browser, daemon):
    """The map's surface lies where the wire has it."""
    wait_js(browser, f"surface && surface.n > {SURFACE_POINTS} && hasMap()", "the map's surface")
    check(browser.execute_script("drawScene(); return !document.getElementById('map').hidden"), "")

    def own_frame():  # odom lies among the points where poses say; a new map has seen nothing yet
        reply = daemon.request(harness.PATIENCE_S, deadline_ms=harness.PATIENCE_S * 1000,
                               get_map_cloud=requests.GetMapCloud(voxel_m=0.05))
        check(reply.code in (requests.OK, requests.FAILED_PRECONDITION), f"{reply.message}")
        return reply.code == requests.OK and any(
            pose.map_from_odom == reply.get_map_cloud.map_from_odom for pose in daemon.poses[-200:])

    daemon.wait_for(own_frame, "a map where odom lies as in the poses")
    # A pose at x of an odom that lies at (10, 0, 0), turned 90 degrees about y
    at = browser.execute_script("""
        return inMap({ p: [1, 2, 3], q: [0, 0, 0, 1] },
                     { p: [10, 0, 0], q: [0, Math.SQRT1_2, 0, Math.SQRT1_2] })""")
    check(all(abs(a - b) < 1e-9 for a, b in zip(at["p"] + at["q"], (
        13, 2, -1, 0, .5**.5, 0, .5**.5))), f"{at}")
    # The camera stands in the map where the wire has it.
    shown = browser.execute_script("return posed.pose")
    daemon.wait_for(lambda: daemon.poses[-1].seq >= shown["seq"], "the pose that the page has")
    pose = next(p for p in daemon.poses if p.seq == shown["seq"])
    f, q = pose.map_from_odom.position, pose.map_from_odom.orientation
    turned = harness.rotation((q.x, q.y, q.z, q.w))
    p = pose.pose.position
    expected = [t + sum(r * x for r, x in zip(row, (p.x, p.y, p.z)))
                for t, row in zip((f.x, f.y, f.z), turned)]
    check(all(abs(a - b) < 1e-6 for a, b in zip(shown["map"]["p"], expected)), f"{shown}")


def check_arrows(browser):
    """Each direction that is not held is an arrow, and named."""
    counts = browser.execute_script("return [0, 1, 8, 63].map(mask => arrows(mask).length)")
    check(counts[0] == 0 and counts[1] > 2 and counts[2] > 2, f"{counts}")
    check(counts[3] == 3 * counts[1] + 3 * counts[2], f"{counts}")
    said = browser.execute_script("""const kept = posed.pose; posed.pose = { ...kept, mask: 17 };
        drawScene(); showNumbers(); posed.pose = kept;
        return document.getElementById('held').textContent""")
    check("x, to the right" in said and "about y" in said, said)
    said = browser.execute_script("""const at = { p: [1, 2, 3], q: [0, 0, 0, 1] };
        objects = { mug: { at: performance.now(), lost: false, pose: at },
                    cup: { at: performance.now(), lost: true, pose: at },
                    old: { at: performance.now() - 9000, lost: false, pose: at } };
        drawScene(); showNumbers(); objects = {};
        return document.getElementById('found').textContent""")
    check(said == "mug at 1.00 2.00 3.00 m, cup: lost", said)
    check(browser.execute_script("return gl.getError()") == 0, "WebGL complains")


def check_words(browser):
    """What a figure is: the newest value and the largest; nothing where there is none."""
    for name, unit in (("plot", "ms"), ("residuals", "mm"), ("inliers", "%")):
        says = f"document.getElementById('{name}').previousElementSibling.textContent"
        told = browser.execute_script(f"drawPlots(); return {says}")
        found = re.fullmatch(rf"([\d.]+) {unit}, max ([\d.]+) {unit}", told)
        check(found and float(found[1]) <= float(found[2]), f"{name}: {told}")
        told = browser.execute_script(f"""const kept = history; history = []; drawPlots();
            history = kept; return {says}""")
        check(told == "", f"{name} without data: {told}")
    legend = browser.execute_script("""showNumbers();
        return document.getElementById('legend').textContent""")
    for word in ("init", "tracking", "degraded", "lost", "searching", "path since"):
        check(word in legend, f"{word} is not in the legend: {legend}")
    for name in ("dropped", "damaged", "unsent messages", "missed here"):
        title = browser.execute_script("""return document.querySelector(
            `[data-name='${arguments[0]}']`).previousElementSibling.title""", name)
        check(title, f"{name}: what is it?")
    for effort, n, expected in ((0, 0, "hidden"), (0, 7, "not now; 7 frames"),
                                (1, 7, "now at half"), (2, 7, "now at a quarter")):
        said = browser.execute_script("""const kept = [posed.pose, posed.status];
            posed.pose = { ...posed.pose, effort: arguments[0] };
            posed.status = { ...posed.status, reduced: arguments[1] };
            showNumbers(); [posed.pose, posed.status] = kept;
            const less = document.getElementById('less');
            return less.hidden ? 'hidden' : less.textContent""", effort, n)
        check(expected in said, f"effort {effort}: {said}")


def check_layout(browser):
    """Each panel is whole; below the others, and reached by scrolling, in a narrow window."""
    for width, height in ((1400, 900), (1000, 700), (700, 1000), (390, 800)):
        browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", {
            "width": width, "height": height, "deviceScaleFactor": 1, "mobile": False})
        panels, page = browser.execute_script("""
            const d = document.documentElement, side = document.getElementById('side');
            return [[...document.querySelectorAll('#banner, #scene, canvas, #side p, table')]
                .filter(e => !e.hidden && (e.textContent || e.tagName === 'CANVAS')).map(e => {
                    const r = e.getBoundingClientRect();
                    return [e.id, r.left, r.right, r.top + scrollY, r.bottom + scrollY, r.height];
                }), [d.scrollWidth, d.scrollHeight, side.scrollHeight - side.clientHeight]]""")
        at = f"at {width} x {height}: {page}"
        check(page[0] <= width, f"wider than the window {at}")
        check(page[2] <= 1 or width > 800, f"the side is cut {at}")
        for name, left, right, top, bottom, panel_height in panels:
            least = PANEL_PX.get(name, 12)
            check(panel_height >= least, f"{name} is {panel_height} px high {at}")
            check(left >= 0 and right <= width and top >= 0, f"{name} is outside {at}")
            # the page's height is told in whole pixels
            check(bottom < page[1] + 1 or width > 800, f"{name}, {bottom}, cannot be reached {at}")
        check(set(PANEL_PX) <= {p[0] for p in panels}, f"{panels}")
    browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})


def start(port, *options):
    """Slow enough that a sanitizer's build keeps pace beside a browser that draws by itself: else
    the map's requests, which come after the frames, end at their deadline."""
    return harness.Daemon("synth:room", "--loop", "--set", f"http.port={port}", "--set",
                          f"map.folder={harness.SCRATCH}", "--set", "tracker.adapt=false", *options,
                          speed=0.1 if harness.is_sanitized() else 0.5)


def scenario():
    chromium.need()
    port = free_port()
    daemon = start(port, "--set", "http.control=true")
    daemon.wait_for(lambda: len(daemon.poses) > 5, "poses")
    browser = chromium.open_browser()
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
        check_arrows(browser)
        check_words(browser)
        check_layout(browser)
        check_map(browser, daemon)
        wait_js(browser, "surface.n > 1", "the map again")
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
        check(browser.execute_script("return document.getElementById('camera').hidden"), "a list")
        check(not chromium.complaints(browser), f"{chromium.complaints(browser)}")
    finally:
        browser.quit()
    daemon.stop()


harness.run(scenario)
