# SPDX-License-Identifier: Apache-2.0
"""A set of points to register, as a request carries it."""
import math
import random
import struct

import harness


def shape(n_points):
    """A bumpy closed surface without symmetry."""
    generator = random.Random(4)
    points = []
    for _ in range(n_points):
        x, y, z = (generator.gauss(0, 1) for _ in range(3))
        n = math.sqrt(x * x + y * y + z * z)
        r = 0.3 + 0.1 * (x / n) ** 3 + 0.08 * (x * y) / (n * n) + 0.05 * math.sin(5 * z / n)
        points.append((1.5 * r * x / n, r * y / n, 0.8 * r * z / n))
    return points


def moved(points, quaternion, translation):
    rows = harness.rotation(quaternion)
    return [tuple(sum(row[k] * p[k] for k in range(3)) + t for row, t in zip(rows, translation))
            for p in points]


def packed(points):
    return b"".join(struct.pack("<3f", *p) for p in points)
