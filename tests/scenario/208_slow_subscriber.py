# SPDX-License-Identifier: Apache-2.0
"""A replay as fast as possible waits for whoever reads slowly, also for one that stands still for
longer than a second at a time, and nothing is lost for it, up to the last message; requests are
answered meanwhile, and a signal ends it at once."""
import time

import zmq

import harness
from harness import MAGIC, check, check_at_most, messages, requests
from small_camera import OPTIONS, write_recording

N_FRAMES = 3000
PAUSES = 3
PAUSE_S = 1.4       # the daemon once waited for a second, and then no more
READS = 600         # between two pauses
ANSWER_LIMIT_S = 0.5
EXIT_LIMIT_S = 0.5  # and Python's own time to see it


def start(folder):
    # Of the frames most wait in the daemon: little fits into the sockets and the reader's queue.
    daemon = harness.Daemon("tum:" + folder, *OPTIONS, "--set", "publish.pub_hwm=20", "--set",
                            "publish.wait_subscriber_s=30", collect=False)
    reader = daemon.socket(zmq.SUB, "pub", rcvhwm=100, rcvbuf=4096)
    for topic in ("pose", "tf", "event"):
        reader.subscribe(topic)
    return daemon, reader


def scenario():
    folder = harness.SCRATCH + "/small"
    write_recording(folder, N_FRAMES)
    daemon, reader = start(folder)
    asker = daemon.socket(zmq.DEALER, "req")
    seqs, n_transforms = [], 0
    n, pauses, last_event = 0, 0, None
    while last_event != messages.Event.STOPPING:
        if not reader.poll(20000):  # the log is read only then
            check(False, f"nothing for 20 s after {n} messages\n{daemon.log()[-900:]}")
        topic, data = reader.recv_multipart()
        n += 1
        if topic == b"event":
            last_event = messages.Event.FromString(data).kind
        elif topic == b"pose":
            seqs.append(messages.Odometry.FromString(data).seq)
        else:
            n_transforms += 1
        if n % READS == 0 and pauses < PAUSES:
            pauses += 1
            time.sleep(PAUSE_S / 2)  # by now the daemon waits
            asked = time.monotonic()
            asker.send(MAGIC + requests.Request(id=pauses, get_status=requests.GetStatus())
                       .SerializeToString())
            check(asker.poll(10000), "no answer while the daemon waits")
            asker.recv()
            check_at_most(time.monotonic() - asked, ANSWER_LIMIT_S, "an answer meanwhile [s]")
            time.sleep(PAUSE_S / 2)
    check(seqs == list(range(N_FRAMES)), "poses were lost")
    check(n_transforms == N_FRAMES, f"{n_transforms} transforms of {N_FRAMES}")
    check(pauses == PAUSES, f"{pauses} pauses of {PAUSES}")
    daemon.wait()

    daemon, reader = start(folder)
    check(reader.poll(20000), "no message")
    time.sleep(1)
    began = time.monotonic()
    daemon.stop()
    check_at_most(time.monotonic() - began, EXIT_LIMIT_S, "from the signal to the exit [s]")


harness.run(scenario)
