# SPDX-License-Identifier: Apache-2.0
"""Objects to search for, their depth image at a pose, and files of both: for search scenarios."""
import math
import random
import struct
import zlib

import harness

WIDTH, HEIGHT, FOCAL = 320, 240, 270.0
# A stair of three blocks, no two of its sides alike: low and high corner of each [m].
BLOCKS = [((-0.08, -0.05, -0.04), (0.08, 0.05, 0.0)), ((-0.08, -0.05, 0.0), (0.0, 0.05, 0.05)),
          ((-0.08, -0.05, 0.05), (-0.04, 0.0, 0.09))]
# Another object: a seat on a leg, with a back and an arm.
CHAIR = [((-0.06, -0.06, 0.0), (0.06, 0.06, 0.02)), ((-0.06, 0.04, 0.02), (0.06, 0.06, 0.12)),
         ((0.04, -0.06, 0.02), (0.06, 0.04, 0.07)), ((-0.06, -0.06, -0.08), (-0.02, 0.02, 0.0))]
RADIUS_M = 0.15  # of a sphere about the origin that holds them
BACKGROUND_M = 1.1


def mesh(blocks=BLOCKS):
    """Vertices and triangles of all blocks."""
    vertices, triangles = [], []
    faces = [(0, 1, 3, 2), (4, 6, 7, 5), (0, 4, 5, 1), (2, 3, 7, 6), (0, 2, 6, 4), (1, 5, 7, 3)]
    for low, high in blocks:
        base = len(vertices)
        vertices += [((low, high)[i & 1][0], (low, high)[i >> 1 & 1][1], (low, high)[i >> 2][2])
                     for i in range(8)]
        for a, b, c, d in faces:
            triangles += [(base + a, base + c, base + b), (base + a, base + d, base + c)]
    return vertices, triangles


def points(n):
    """As many, evenly over the sides of all blocks."""
    source = random.Random(1)
    vertices, triangles = mesh()
    corners = [[vertices[i] for i in triangle] for triangle in triangles]
    areas = [math.prod(sorted((math.dist(a, b), math.dist(b, c), math.dist(c, a)))[:2])
             for a, b, c in corners]  # twice: each has a right angle
    out = []
    for a, b, c in source.choices(corners, areas, k=n):
        u, v = sorted((source.random(), source.random()))
        out.append([p * u + q * (v - u) + r * (1 - v) for p, q, r in zip(a, b, c)])
    return out


def write_mesh(path, blocks=BLOCKS):
    vertices, triangles = mesh(blocks)
    with open(path, "w", encoding="ascii") as file:
        file.write(f"ply\nformat ascii 1.0\nelement vertex {len(vertices)}\nproperty float x\n"
                   f"property float y\nproperty float z\nelement face {len(triangles)}\n"
                   "property list uchar int vertex_indices\nend_header\n")
        file.writelines(f"{x} {y} {z}\n" for x, y, z in vertices)
        file.writelines(f"3 {a} {b} {c}\n" for a, b, c in triangles)


def hit(origin, direction, blocks):
    """Smallest distance along a ray at which it enters a block, or None."""
    best = None
    for low, high in blocks:
        near, far = 0.0, math.inf
        for o, d, a, b in zip(origin, direction, low, high):
            if abs(d) < 1e-12:
                if not a <= o <= b:
                    near = math.inf
                continue
            t, u = sorted(((a - o) / d, (b - o) / d))
            near, far = max(near, t), min(far, u)
        if near < far and (best is None or near < best):
            best = near
    return best


def depth_image(quaternion, translation, blocks=BLOCKS):
    """Millimetres, row by row, of the object before a wall."""
    rows = harness.rotation(quaternion)
    origin = [-sum(rows[k][i] * translation[k] for k in range(3)) for i in range(3)]
    reach = RADIUS_M / translation[2] * FOCAL * 1.3
    centre_u = WIDTH / 2 + translation[0] / translation[2] * FOCAL
    centre_v = HEIGHT / 2 + translation[1] / translation[2] * FOCAL
    out = []
    for v in range(HEIGHT):
        for u in range(WIDTH):
            z = None
            if abs(u - centre_u) < reach and abs(v - centre_v) < reach:
                ray = ((u - WIDTH / 2) / FOCAL, (v - HEIGHT / 2) / FOCAL, 1.0)
                z = hit(origin, [sum(rows[k][i] * ray[k] for k in range(3)) for i in range(3)],
                        blocks)
            out.append(round(1000 * (BACKGROUND_M if z is None else min(z, BACKGROUND_M))))
    return struct.pack(f"<{WIDTH * HEIGHT}H", *out)


def nearest(*images):
    """Images of one camera laid over each other."""
    pixels = [struct.unpack(f"<{len(image) // 2}H", image) for image in images]
    return struct.pack(f"<{len(pixels[0])}H", *map(min, zip(*pixels)))


def write_png(path, data, width=WIDTH, height=HEIGHT):
    """A depth image as PNG of 16 bits, grey."""
    def chunk(kind, content):
        body = kind + content
        return struct.pack(">I", len(content)) + body + struct.pack(">I", zlib.crc32(body))

    values = struct.unpack(f"<{width * height}H", data)
    big = struct.pack(f">{width * height}H", *values)
    lines = b"".join(b"\0" + big[2 * width * v:2 * width * (v + 1)] for v in range(height))
    with open(path, "wb") as file:
        file.write(b"\x89PNG\r\n\x1a\n" +
                   chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 16, 0, 0, 0, 0)) +
                   chunk(b"IDAT", zlib.compress(lines, 1)) + chunk(b"IEND", b""))
