# SPDX-License-Identifier: Apache-2.0
"""A recording of a camera so small that its frames come as fast as the daemon around a frame is."""
import math
import os
import struct

from stair import write_png

WIDTH, HEIGHT, N_IMAGES = 96, 72, 60
OPTIONS = ("--set", "camera.depth_scale=1000")


def write_recording(folder, n_frames=N_IMAGES, rate_hz=30):
    """A camera that goes to and fro before a bumpy wall, again and again."""
    os.makedirs(folder + "/depth")
    for image in range(N_IMAGES):
        at = 0.05 * math.sin(2 * math.pi * image / N_IMAGES)
        depths = [round(1000 * (1.5 + at + 0.2 * math.sin(u / 9 + 8 * at) * math.cos(v / 7)))
                  for v in range(HEIGHT) for u in range(WIDTH)]
        write_png(f"{folder}/depth/{image}.png", struct.pack(f"<{len(depths)}H", *depths), WIDTH,
                  HEIGHT)
    with open(folder + "/depth.txt", "w", encoding="ascii") as index:
        for frame in range(n_frames):
            index.write(f"{frame / rate_hz:.6f} depth/{frame % N_IMAGES}.png\n")
    with open(folder + "/calibration.txt", "w", encoding="ascii") as file:
        file.write(f"80 80 {WIDTH / 2} {HEIGHT / 2}\n")
