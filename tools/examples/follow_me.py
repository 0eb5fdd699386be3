#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A robot's loop: turns towards what is nearest ahead and keeps its distance; stands still while
the camera does not know where it is.  follow_me.py [WHERE] [--distance 1.0] [--steps N]

Prints the commands; `drive` is where a robot's own go."""
import argparse
import time

import numpy as np
import posed

MAX_SPEED_M_S, MAX_TURN_RAD_S = 0.5, 1.0
REACH_M = 4.0  # nothing beyond is followed
PERIOD_S = 0.1


def nearest_ahead(image):
    """Distance [m] and bearing [rad, right is positive] of what is nearest, or None."""
    metres = image.metres[image.depth.shape[0] // 4: 3 * image.depth.shape[0] // 4: 4, ::4]
    seen = np.nan_to_num(metres, nan=np.inf)
    near = np.partition(seen, 50, axis=None)[50]  # not one pixel that errs
    if near > REACH_M:
        return None
    column = 4 * np.nonzero(seen <= near + 0.1)[1].mean()
    return near, np.arctan((column - image.K[0, 2]) / image.K[0, 0])


def command(target, distance_m):
    """Speed [m/s] and turn [rad/s, right is positive]."""
    if target is None:
        return 0.0, 0.0
    near_m, bearing_rad = target
    speed = np.clip(0.8 * (near_m - distance_m), -MAX_SPEED_M_S, MAX_SPEED_M_S)
    return float(speed), float(np.clip(1.5 * bearing_rad, -MAX_TURN_RAD_S, MAX_TURN_RAD_S))


def drive(speed, turn):
    print(f"{speed:+.2f} m/s {turn:+.2f} rad/s", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("where", nargs="?", help="a host or a run directory")
    parser.add_argument("--distance", type=float, default=1.0, help="to keep [m]")
    parser.add_argument("--steps", type=int, default=-1, help="end after so many")
    options = parser.parse_args()
    with posed.connect(options.where) as camera:
        while options.steps != 0:
            options.steps -= 1
            try:
                known = camera.latest().state.usable
                drive(*(command(nearest_ahead(camera.depth()), options.distance) if known else
                        (0.0, 0.0)))
            except posed.Error as error:  # no daemon, no frame: who cannot see stands still
                drive(0.0, 0.0)
                print(error, flush=True)
            time.sleep(PERIOD_S)


if __name__ == "__main__":
    main()
