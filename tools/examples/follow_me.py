#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A robot's loop: turns towards what is nearest ahead and keeps its distance; stands still while
the camera does not know where it is, and when poses or images stop or freeze.
follow_me.py [WHERE] [--distance 1.0] [--steps N]

Prints the commands; `drive` is where a robot's own go."""
import argparse
import asyncio
import time
import zlib

import numpy as np
import posed
import posed.aio

MAX_SPEED_M_S, MAX_TURN_RAD_S = 0.5, 1.0
REACH_M = 4.0  # nothing beyond is followed
PERIOD_S = 0.1
MAX_AGE_S = 0.5  # of what it moves by; who drives faster wants less


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


class Stream:
    """Whether something goes on, by the clock of this machine."""
    last, since_s = None, -MAX_AGE_S

    def goes_on(self, what):
        if self.last not in (None, what):
            self.since_s = time.monotonic()
        self.last = what
        return time.monotonic() - self.since_s < MAX_AGE_S


async def look(camera, poses, images, distance_m):
    """What to do by what is seen now: speed, turn, and why nothing is done."""
    pose, image = await camera.latest(), await camera.depth()
    on = [poses.goes_on(pose.seq), images.goes_on(zlib.crc32(image.depth))]  # a frozen image, too
    if not pose.state.usable or not all(on):
        return 0.0, 0.0, "poses or images stand still" if pose.state.usable else pose.state.name
    return *command(nearest_ahead(image), distance_m), ""


def drive(speed, turn, why):
    print(f"{speed:+.2f} m/s {turn:+.2f} rad/s {why}".rstrip(), flush=True)


async def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("where", nargs="?", help="a host or a run directory")
    parser.add_argument("--distance", type=float, default=1.0, help="to keep [m]")
    parser.add_argument("--steps", type=int, default=-1, help="end after so many")
    options = parser.parse_args()
    streams = Stream(), Stream()
    try:
        async with posed.aio.connect(options.where) as camera:
            while options.steps != 0:
                options.steps -= 1
                try:  # no answer is waited for longer than what was seen may be old
                    step = look(camera, *streams, options.distance)
                    drive(*await asyncio.wait_for(step, MAX_AGE_S))
                except (posed.Error, asyncio.TimeoutError) as error:  # who cannot see stands still
                    drive(0.0, 0.0, str(error) or "no answer from " + camera.address.of("req"))
                await asyncio.sleep(PERIOD_S)
    finally:
        drive(0.0, 0.0, "end")


if __name__ == "__main__":
    asyncio.run(main())
