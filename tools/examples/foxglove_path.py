#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The path as a scene for Foxglove and Lichtblick, where your own data may stand beside it:
foxglove_path.py [WHERE] [--port 8766]. The daemon itself is on 8765."""
import argparse

import foxglove
import posed
from foxglove.channels import SceneUpdateChannel
from foxglove.messages import (Color, LinePrimitive, LinePrimitiveLineType, Point3, SceneEntity,
                               SceneUpdate)

COLOURS = {"TRACKING": (.2, .7, .3), "DEGRADED": (.9, .6, .1), "LOST": (.9, .2, .2)}
MAX_POINTS = 3000


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("where", nargs="?", help="a host or a run directory")
    parser.add_argument("--port", type=int, default=8766)
    options = parser.parse_args()
    server = foxglove.start_server(name="path of posed", port=options.port)
    scene, points, colours = SceneUpdateChannel("/path"), [], []
    print(f"ws://127.0.0.1:{server.port}", flush=True)
    with posed.connect(options.where) as camera:
        for pose in camera:
            x, y, z = map(float, pose.position)
            r, g, b = COLOURS.get(pose.state.name, (.5, .5, .5))
            points, colours = points[-MAX_POINTS:], colours[-MAX_POINTS:]
            points.append(Point3(x=x, y=y, z=z))
            colours.append(Color(r=r, g=g, b=b, a=1))
            line = LinePrimitive(type=LinePrimitiveLineType.LineStrip, thickness=2,
                                 scale_invariant=True, points=points, colors=colours)
            scene.log(SceneUpdate(entities=[SceneEntity(id="path", frame_id="odom", lines=[line])]))


main()
