# SPDX-License-Identifier: Apache-2.0
"""A headless Chromium that looks at the page, for the scenarios that test it."""
import shutil
import time

import harness
from harness import check

BROWSER = shutil.which("chromium")
DRIVER = shutil.which("chromedriver")


def need():
    if not BROWSER or not DRIVER:
        harness.skip("no chromium with its driver")


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


def complaints(browser):
    """Errors that are neither of a connection that ended nor of the icon that there is not."""
    return [line for line in browser.get_log("browser") if line["level"] == "SEVERE" and
            "WebSocket" not in line["message"] and "favicon" not in line["message"]]
