#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Path, camera and depth live in rerun:
rerun_view.py [WHERE] [--camera NAME] [--save FILE.rrd] [--frames N]"""
import argparse

import numpy as np
import posed
import rerun as rr
from posed.client import image_array

COLOURS = {"TRACKING": (60, 180, 75), "DEGRADED": (230, 160, 30), "LOST": (220, 50, 50)}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("where", nargs="?", help="a host or a run directory")
    parser.add_argument("--camera", default="", help="of several, the one to show")
    parser.add_argument("--save", metavar="FILE.rrd", help="write a file instead of showing")
    parser.add_argument("--frames", type=int, default=0, help="end after so many poses")
    options = parser.parse_args()
    rr.init("posed", spawn=not options.save)
    if options.save:
        rr.save(options.save)
    rr.log("odom", rr.ViewCoordinates.RDF, static=True)  # x right, y down, z forward
    path, seen = [], 0
    with posed.connect(options.where, camera=options.camera) as camera:
        for topic, message in camera.subscribe("pose", "calib", "depth"):
            topic = topic.partition("/")[0]  # without the camera's name
            if topic != "calib":
                rr.set_time("frame", sequence=message.seq)
            if topic == "calib":
                K = np.array(message.K).reshape(3, 3)
                rr.log("odom/camera", rr.Pinhole(image_from_camera=K, width=message.width,
                                                 height=message.height), static=True)
            elif topic == "depth":
                rr.log("odom/camera/depth", rr.DepthImage(image_array(message), meter=1000.0))
            else:
                pose = posed.Pose.from_message(message)
                if pose.state.usable:
                    path.append(pose.position)
                rotation = rr.Quaternion(xyzw=pose.quaternion)
                rr.log("odom/camera", rr.Transform3D(translation=pose.position,
                                                     quaternion=rotation))
                rr.log("odom/path", rr.LineStrips3D(
                    [np.array(path)], colors=[COLOURS.get(pose.state.name, (120, 120, 120))]))
                rr.log("residual_mm", rr.Scalars(1e3 * message.residual_rms_m))
                seen += 1
                if seen == options.frames:
                    return


main()
