# SPDX-License-Identifier: Apache-2.0
"""Reads tf and tf_static of a recording of a rig for ROS 2 with two libraries that none of us
wrote, mcap-ros2-support and rosbags, and holds them against the rig's files: the frames are one
tree, in which each has one parent, and from the first camera's optical frame to another's it is the
place that the file has. Runs under the interpreter that has the libraries (POSED_PYTHON_ROS):

    ros_tree.py RECORDING.ros2.mcap FIRST NAME=RIG.txt..."""
import re
import sys

import numpy
from mcap.reader import make_reader
from mcap_ros2.decoder import DecoderFactory
from rosbags.typesys import Stores, get_typestore
from ros_read import matrix, of_message


NAME = re.compile(r"(/[A-Za-z_][A-Za-z0-9_]*)+")  # what `ros2 bag play` can publish


def decoded(path):
    """By topic: each message's (parent, child, matrix); and the child frames of odometry."""
    store = get_typestore(Stores.ROS2_JAZZY)
    edges, children = {"/tf": [], "/tf_static": []}, set()
    with open(path, "rb") as file:
        reader = make_reader(file, decoder_factories=[DecoderFactory()])
        for schema, channel, raw, message in reader.iter_decoded_messages():
            assert NAME.fullmatch(channel.topic), channel.topic
            if channel.topic in edges:
                other = store.deserialize_cdr(raw.data, schema.name)
                assert len(other.transforms) == len(message.transforms)
                for a, b in zip(message.transforms, other.transforms):
                    assert (of_message(a.transform) == of_message(b.transform)).all()
                edges[channel.topic].append([(t.header.frame_id, t.child_frame_id,
                                              of_message(t.transform)) for t in message.transforms])
            elif channel.topic.endswith("/odom"):
                children.add(message.child_frame_id)
    return edges, children


def place(path):
    with open(path) as file:
        first = next(line for line in file if line[0] != "#" and line.strip())
    v = [float(x) for x in first.split()]
    return matrix(v[:3], numpy.array(v[3:7]) / numpy.linalg.norm(v[3:7]))


def check_tree(edges, children, first, others):
    """edges and children: as `decoded` has them. others: NAME=RIG.txt of the cameras behind the
    first. Returns the number of frames."""
    for message in edges["/tf_static"]:
        assert [edge[:2] for edge in message] == [edge[:2] for edge in edges["/tf_static"][0]], \
            "who comes late to a topic that is kept has the last one"
    parents, static = {}, {}
    for topic in edges:
        for message in edges[topic]:
            for parent, child, T in message:
                known = parents.setdefault(child, (topic, parent))
                assert known == (topic, parent), f"{child} in {parent} of {topic}, and {known}"
                static[child] = T  # of tf the newest
    roots = {parent for _, parent in parents.values()} - set(parents)
    assert roots == {f"{first}/map"}, roots
    names = [first] + [other.split("=")[0] for other in others]
    assert children == {f"{name}/base_link" for name in names}, children

    def from_root(frame):
        if frame not in parents:
            return numpy.eye(4)
        return from_root(parents[frame][1]) @ static[frame]

    def optical(name):
        return from_root(f"{name}/camera_depth_optical_frame")

    for other in others:
        name, rig = other.split("=")
        T = numpy.linalg.inv(optical(first)) @ optical(name)
        assert numpy.allclose(T, place(rig), atol=1e-9), (name, T, place(rig))
    return len(parents) + 1


def main():
    path, first, *others = sys.argv[1:]
    n = check_tree(*decoded(path), first, others)
    print(f"one tree of {n} frames")


if __name__ == "__main__":
    main()
