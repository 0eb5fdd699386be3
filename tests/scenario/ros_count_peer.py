# SPDX-License-Identifier: Apache-2.0
"""A ROS 2 subscriber, by the package `cyclonedds`, that counts. Runs under the interpreter that has
it (POSED_PYTHON_ROS, see tools/test):

    ros_count_peer.py DOMAIN OUT.json [NAMESPACE...]

Takes odom, tf and the camera info of the depth images on reliable readers that keep the last 100
(3 s: this process may have to wait for a processor), until its input ends; then writes the stamps
of each topic in the order of their coming."""
import json
import os
import sys
import threading
import time

from cyclonedds.core import Policy, Qos
from cyclonedds.domain import DomainParticipant
from cyclonedds.sub import DataReader
from cyclonedds.topic import Topic
from cyclonedds.util import duration

from ros_types import CameraInfo, Odometry, TFMessage, ns

RELIABLE = Qos(Policy.Reliability.Reliable(duration(seconds=1)), Policy.History.KeepLast(100))
TOPICS = (("odom", Odometry), ("tf", TFMessage), ("posed/depth/camera_info", CameraInfo))
BASE = "base_link"
LOOK_S = 0.01
LINGER_S = 1.0  # what is under way when the input ends


def take(readers, stamps):
    for name, reader in readers.items():
        for sample in reader.take(100):
            if sample.sample_info.valid_data:
                all_of = [sample]
                if isinstance(sample, TFMessage):  # beside odom in the map
                    all_of = [t for t in sample.transforms if t.child_frame_id.endswith(BASE)]
                stamps[name] += [ns(of.header) for of in all_of]


def main():
    domain, out, *namespace = sys.argv[1:]
    prefix = "rt/" + "".join(part + "/" for part in namespace)
    participant = DomainParticipant(int(domain))
    readers = {name: DataReader(participant, Topic(participant, prefix + name, kind, qos=RELIABLE),
                                qos=RELIABLE) for name, kind in TOPICS}
    stamps = {name: [] for name in readers}
    ended = threading.Event()
    threading.Thread(target=lambda: (sys.stdin.read(), ended.set()), daemon=True).start()
    print("ready", flush=True)
    while not ended.wait(LOOK_S):
        take(readers, stamps)
    end = time.monotonic() + LINGER_S
    while time.monotonic() < end:
        time.sleep(LOOK_S)
        take(readers, stamps)
    with open(out, "w") as file:
        json.dump(stamps, file)


main()
sys.stdout.flush()
os._exit(0)
