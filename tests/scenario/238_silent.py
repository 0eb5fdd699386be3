# SPDX-License-Identifier: Apache-2.0
"""A source that is silent: the status says NO_INPUT and still which map epoch the poses are in, so
that nobody takes the next pose for one of an older epoch; posectl watch says once what it waits
for."""
import subprocess

import harness
from harness import check, messages, requests

SPEED = 0.01  # a frame every 3.3 s; NO_INPUT after one without a frame


def silent_statuses(daemon, n_before):
    return [s for s in list(daemon.statuses)[n_before:] if s.state == messages.STATE_NO_INPUT]


def wait_silent(daemon, epoch):
    n_statuses = len(daemon.statuses)
    daemon.wait_for(lambda: silent_statuses(daemon, n_statuses), "status NO_INPUT")
    status = silent_statuses(daemon, n_statuses)[0]
    check(status.map_epoch == epoch, f"NO_INPUT: map epoch {status.map_epoch}, of poses {epoch}")
    asked = daemon.request(get_status=requests.GetStatus())
    check(asked.code == requests.OK and asked.get_status.map_epoch == epoch, f"GetStatus: {asked}")


def scenario():
    daemon = harness.Daemon("synth:room", speed=SPEED)
    watcher = subprocess.Popen([harness.BINARY + "/bin/posectl", "watch", "-n", "3", "-e",
                                daemon.folder], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                               text=True)
    for epoch in range(3):
        daemon.wait_for(lambda: daemon.poses and daemon.poses[-1].map_epoch == epoch,
                        f"a pose of epoch {epoch}")
        wait_silent(daemon, epoch)
        reply = daemon.request(reset=requests.Reset())
        check(reply.code == requests.OK, f"Reset: {reply.message}")
    lines, said = watcher.communicate(timeout=harness.PATIENCE_S)
    check(len(lines.splitlines()) == 3 and said == "posectl: no message of topic pose comes: the "
          "daemon waits for frames of synth:room (no frame arrives)\n", (lines, said))
    daemon.stop()
    check("no frame for 1." in daemon.log() and "no frame arrives" not in daemon.log(),
          daemon.log())


harness.run(scenario)
