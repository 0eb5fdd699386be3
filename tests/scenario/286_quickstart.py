# SPDX-License-Identifier: Apache-2.0
"""tools/quickstart where another program has the usual port and answers as a posed would: it shows
the page of its own daemon, at another port. What would install and build is replaced."""
import http.server
import itertools
import os
import re
import shutil
import signal
import subprocess
import threading
import time
import urllib.request

import harness
from harness import BINARY, SOURCE, check

USUAL_PORT = 8765


class Other(http.server.BaseHTTPRequestHandler):
    """Frames of another daemon."""
    seq = itertools.count(1)

    def do_GET(self):
        body = b'{"seq": %d}\n' % next(self.seq)
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


def hold_port():
    """It may be held already, which is as good."""
    try:
        server = http.server.ThreadingHTTPServer(("127.0.0.1", USUAL_PORT), Other)
    except OSError:
        return
    threading.Thread(target=server.serve_forever, daemon=True).start()


def script(path, text):
    with open(path, "w", encoding="ascii") as file:
        file.write("#!/bin/sh\n" + text)
    os.chmod(path, 0o755)


def make_tree():
    """A tree that is built; installing the tools' packages waits for the file `go`."""
    tree = harness.SCRATCH + "/tree"
    for folder in ("tools", "build/release", "path"):
        os.makedirs(f"{tree}/{folder}")
    shutil.copy(SOURCE + "/tools/quickstart", tree + "/tools")
    os.symlink(BINARY + "/bin", tree + "/build/release/bin")
    script(tree + "/path/cmake", "exit 0\n")
    script(tree + "/path/nvidia-smi", "exit 1\n")
    script(tree + "/tools/packages",
           '[ "$2" = daemon ] || while [ ! -e "$(dirname "$0")/go" ]; do sleep 0.1; done\n')
    return tree


def scenario():
    hold_port()
    tree = make_tree()
    path = harness.SCRATCH + "/said"
    with open(path, "w", encoding="utf-8") as out:
        run = subprocess.Popen([tree + "/tools/quickstart"], stdout=out, stderr=out,
                               stdin=subprocess.DEVNULL, start_new_session=True,
                               env={**os.environ, "PATH": f"{tree}/path:" + os.environ["PATH"]})

    def said():
        with open(path, encoding="utf-8") as file:
            return file.read()

    try:
        end, page = time.monotonic() + harness.PATIENCE_S, None
        while not page:
            page = re.search(r"moves on the page: (http://127\.0\.0\.1:(\d+)/)", said())
            check(run.poll() is None and time.monotonic() < end, said())
            time.sleep(0.1)
        check(int(page[2]) != USUAL_PORT, "the page of another daemon")
        check(f"Port {USUAL_PORT} belongs to another program" in said(), said())
        with urllib.request.urlopen(page[1], timeout=harness.PATIENCE_S) as answer:
            check(b"<title>posed</title>" in answer.read(), "the page")
        with open(tree + "/tools/go", "w", encoding="ascii"):
            pass
        check(run.wait(harness.PATIENCE_S) == 0, said())
        check("error against the known trajectory" in said(), said())
    finally:
        if run.poll() is None:
            os.killpg(run.pid, signal.SIGTERM)
            run.wait()


harness.run(scenario)
