// SPDX-License-Identifier: Apache-2.0
#include "tools/bench/register_furniture.h"

#include <math.h>
#include <string.h>

#include "capture/synth/motion.h"
#include "proto/se3.h"
#include "tools/bench/testrandom.h"

#define HALF_HEIGHT_M 1.3
#define FREE_M        1.0  // around the middle, where the cameras stand
#define BOARD_M       0.01 // half of what a board is thick

// Where a piece of furniture stands: on the floor, y up being negative, its front towards -z.
struct spot {
    struct furnished_room *room;
    uint64_t *random;
    struct se3 T_world_spot;
};

static double between(uint64_t *random, double low, double high)
{
    return testrandom_uniform(random, low, high);
}

static int count(uint64_t *random, int low, int high)
{
    return low + (int)(testrandom_next(random) % (uint64_t)(high - low + 1));
}

static bool chance(uint64_t *random, double share)
{
    return testrandom_uniform(random, 0, 1) < share;
}

// Half sizes a, b, c around (x, y, z) of the spot, turned by `pose`.
static void add(const struct spot *spot, enum shape_kind kind, struct se3 pose, double a, double b,
                double c)
{
    struct furnished_room *room = spot->room;
    if (room->n == FURNITURE_MOST_SHAPES)
        return;
    room->shapes[room->n++] =
        (struct shape){kind, {a, b, c}, se3_compose(&spot->T_world_spot, &pose)};
}

static void add_box(const struct spot *spot, double x, double y, double z, double a, double b,
                    double c)
{
    add(spot, SHAPE_BOX, motion_pose(x, y, z, 0, 0, 0), a, b, c);
}

// One small thing on something at height y.
static void add_thing(const struct spot *spot, double x, double y, double z)
{
    static const enum shape_kind kinds[] = {SHAPE_BOX,  SHAPE_BOX,  SHAPE_ELLIPSOID,
                                            SHAPE_PIPE, SHAPE_CONE, SHAPE_BOX};
    const enum shape_kind kind = kinds[testrandom_next(spot->random) % 6];
    const double a = between(spot->random, 0.025, 0.12), b = between(spot->random, 0.02, 0.14);
    const double c = kind == SHAPE_BOX ? between(spot->random, 0.02, 0.12) : a;
    const double yaw = between(spot->random, -90, 90);
    add(spot, kind, motion_pose(x, y - b, z, yaw, 0, 0), a, b, c);
}

static void add_things(const struct spot *spot, int n, double y, double half_x, double half_z)
{
    for (; n > 0; n--) {
        const double x = between(spot->random, -0.9, 0.9) * half_x;
        add_thing(spot, x, y, between(spot->random, -0.9, 0.9) * half_z);
    }
}

static void add_legs(const struct spot *spot, double height, double half_x, double half_z)
{
    for (int leg = 0; leg < 4; leg++)
        add(spot, SHAPE_PIPE,
            motion_pose(leg % 2 ? half_x : -half_x, -height / 2, leg / 2 ? half_z : -half_z, 0, 0,
                        0),
            0.02, height / 2, 0.02);
}

static void add_table(const struct spot *spot)
{
    const double a = between(spot->random, 0.3, 0.8), c = between(spot->random, 0.25, 0.45);
    const double height = between(spot->random, 0.4, 0.8);
    add_box(spot, 0, -height, 0, a, 0.02, c);
    if (chance(spot->random, 0.6)) {
        add_legs(spot, height, a - 0.05, c - 0.05);
    } else {
        add_box(spot, a - 0.03, -height / 2, 0, 0.02, height / 2, c - 0.03);
        add_box(spot, -a + 0.2, -height / 2, 0, 0.2, height / 2 - 0.02, c - 0.03);
    }
    add_things(spot, count(spot->random, 6, 16), -height - 0.02, a, c);
    if (chance(spot->random, 0.4)) { // a screen
        const double x = between(spot->random, -0.5, 0.5) * a;
        const double yaw = between(spot->random, -30, 30);
        add(spot, SHAPE_PIPE, motion_pose(x, -height - 0.08, 0.1, 0, 0, 0), 0.03, 0.08, 0.03);
        add(spot, SHAPE_BOX, motion_pose(x, -height - 0.3, 0.08, yaw, 8, 0), 0.27, 0.17, 0.02);
    }
    add_things(spot, count(spot->random, 1, 5), 0, a, c);
}

static void add_chair(const struct spot *spot)
{
    const double seat = between(spot->random, 0.4, 0.5), half = between(spot->random, 0.18, 0.25);
    add_box(spot, 0, -seat, 0, half, 0.02, half);
    add(spot, SHAPE_BOX, motion_pose(0, -seat - 0.28, half, 0, -8, 0), half, 0.2, 0.015);
    add_legs(spot, seat, half - 0.03, half - 0.03);
    if (chance(spot->random, 0.5))
        add(spot, SHAPE_ELLIPSOID, motion_pose(0, -seat - 0.05, 0, 0, 10, 15), half * 0.9, 0.06,
            half * 0.8);
}

// Boards with books that lean, and things.
static void add_shelf(const struct spot *spot)
{
    const double a = between(spot->random, 0.3, 0.6), c = between(spot->random, 0.12, 0.18);
    const double height = between(spot->random, 0.8, 2.1), step = between(spot->random, 0.28, 0.4);
    add_box(spot, -a, -height / 2, 0, BOARD_M, height / 2, c);
    add_box(spot, a, -height / 2, 0, BOARD_M, height / 2, c);
    add_box(spot, 0, -height / 2, c, a, height / 2, BOARD_M);
    for (double y = 0.05; y < height; y += step) {
        add_box(spot, 0, -y, 0, a, BOARD_M, c);
        if (chance(spot->random, 0.3)) {
            add_things(spot, count(spot->random, 1, 5), -y - BOARD_M, a, c);
            continue;
        }
        double x = -a + 0.02;
        while (x < a - 0.07) {
            const double thick = between(spot->random, 0.008, 0.03);
            const double tall = between(spot->random, 0.08, step / 2 - 0.02);
            const double deep = between(spot->random, 0.06, c);
            x += thick;
            if (chance(spot->random, 0.85))
                add(spot, SHAPE_BOX,
                    motion_pose(x, -y - BOARD_M - tall, c - deep, 0, 0,
                                between(spot->random, -4, 4)),
                    thick, tall, deep);
            x += thick + (chance(spot->random, 0.1) ? between(spot->random, 0.02, 0.2) : 0);
        }
    }
    add_things(spot, count(spot->random, 0, 4), -height, a, c);
}

// A chest of drawers or a cupboard: fronts that stand out, handles, things on it.
static void add_chest(const struct spot *spot)
{
    const double a = between(spot->random, 0.25, 0.6), c = between(spot->random, 0.2, 0.35);
    const double height = between(spot->random, 0.5, 1.2);
    const int n_rows = count(spot->random, 2, 4), n_columns = count(spot->random, 1, 2);
    add_box(spot, 0, -height / 2, 0, a, height / 2, c);
    for (int i = 0; i < n_rows * n_columns; i++) {
        const double half_x = a / n_columns, half_y = height / 2 / n_rows;
        const double x = half_x * (2 * (i % n_columns) + 1) - a;
        const double y = -half_y * (2 * (i / n_columns) + 1);
        const double out = chance(spot->random, 0.2) ? between(spot->random, 0.05, 0.2) : 0.02;
        add_box(spot, x, y, -c - out / 2, half_x - 0.02, half_y - 0.02, out / 2);
        add(spot, SHAPE_ELLIPSOID, motion_pose(x, y, -c - out - 0.02, 0, 0, 0), 0.04, 0.015, 0.02);
    }
    add_things(spot, count(spot->random, 2, 7), -height, a, c);
}

static void add_sofa(const struct spot *spot)
{
    const double a = between(spot->random, 0.45, 1.0);
    add_box(spot, 0, -0.2, 0, a, 0.2, 0.38);
    add(spot, SHAPE_BOX, motion_pose(0, -0.5, 0.33, 0, -10, 0), a, 0.3, 0.1);
    add_box(spot, -a - 0.08, -0.28, 0, 0.09, 0.28, 0.4);
    add_box(spot, a + 0.08, -0.28, 0, 0.09, 0.28, 0.4);
    for (int n = count(spot->random, 1, 4); n > 0; n--)
        add(spot, SHAPE_ELLIPSOID,
            motion_pose(between(spot->random, -0.8, 0.8) * a, -0.55, 0.12,
                        between(spot->random, -30, 30), between(spot->random, -40, 0),
                        between(spot->random, -30, 30)),
            between(spot->random, 0.15, 0.25), between(spot->random, 0.15, 0.2), 0.07);
    add(spot, SHAPE_WAVES,
        motion_pose(between(spot->random, -0.5, 0.5) * a, -0.42, -0.05, 0, -85, 0), 0.3, 0.25,
        0.015); // a blanket
}

static void add_plant(const struct spot *spot)
{
    const double height = between(spot->random, 0.4, 1.2);
    add(spot, SHAPE_PIPE, motion_pose(0, -0.13, 0, 0, 0, 0), 0.13, 0.13, 0.13);
    for (int n = count(spot->random, 8, 20); n > 0; n--)
        add(spot, SHAPE_ELLIPSOID,
            motion_pose(between(spot->random, -0.25, 0.25),
                        -between(spot->random, 0.3, 0.3 + height),
                        between(spot->random, -0.25, 0.25), between(spot->random, -180, 180),
                        between(spot->random, -80, 80), between(spot->random, -60, 60)),
            between(spot->random, 0.05, 0.14), between(spot->random, 0.03, 0.07), 0.012);
}

// Boxes, bags, bins.
static void add_heap(const struct spot *spot)
{
    for (int n = count(spot->random, 1, 4); n > 0; n--) {
        const double x = between(spot->random, -0.4, 0.4), z = between(spot->random, -0.3, 0.3);
        const double a = between(spot->random, 0.08, 0.25), b = between(spot->random, 0.06, 0.25);
        const double yaw = between(spot->random, -90, 90);
        if (chance(spot->random, 0.6))
            add(spot, SHAPE_BOX, motion_pose(x, -b, z, yaw, 0, 0), a, b,
                between(spot->random, 0.08, 0.25));
        else if (chance(spot->random, 0.5))
            add(spot, SHAPE_ELLIPSOID, motion_pose(x, -b, z, yaw, 0, 0), a, b, a);
        else
            add(spot, SHAPE_PIPE, motion_pose(x, -b, z, 0, 0, 0), a * 0.8, b, a * 0.8);
        if (chance(spot->random, 0.3)) // something leans on it
            add(spot, SHAPE_BOX,
                motion_pose(x + a, -0.3, z, yaw, between(spot->random, -25, 25), 0), 0.2, 0.3,
                0.012);
    }
}

// What hangs on a wall; the spot lies on the wall, at the floor.
static void add_on_wall(const struct spot *spot)
{
    const double y = -between(spot->random, 1.1, 2.0);
    const double a = between(spot->random, 0.12, 0.5), b = between(spot->random, 0.1, 0.4);
    switch (testrandom_next(spot->random) % 6) {
    case 0:
    case 1: // a picture, its frame
        add_box(spot, 0, y, -0.01, a, b, 0.012);
        add_box(spot, 0, y - b, -0.02, a, 0.02, 0.025);
        add_box(spot, 0, y + b, -0.02, a, 0.02, 0.025);
        break;
    case 2: // a board with things
        add_box(spot, 0, y, -0.1, a + 0.1, BOARD_M, 0.1);
        add_things(spot, count(spot->random, 2, 7), y - BOARD_M, a + 0.1, 0.08);
        break;
    case 3: // a curtain
        add(spot, SHAPE_WAVES, motion_pose(0, -1.2, -0.08, 0, 0, 0), a + 0.1, 1.1, 0.05);
        break;
    case 4: // a radiator
        for (double x = -a; x <= a; x += 0.06)
            add_box(spot, x, -0.4, -0.06, 0.02, 0.3, 0.06);
        break;
    default: // a lamp, a clock
        add(spot, SHAPE_TORUS, motion_pose(0, y, -0.03, 0, 0, 0), 0.15, 0.15, 0.03);
        add(spot, SHAPE_CONE, motion_pose(a, y, -0.15, 0, 0, 0), 0.1, 0.12, 0.1);
    }
}

// A place at one of the walls, so deep that it keeps `depth` from it.
static struct spot at_wall(struct furnished_room *room, uint64_t *random, double depth)
{
    const bool along_x = testrandom_next(random) % 2;
    const double side = testrandom_next(random) % 2 ? 1 : -1;
    const double reach = room->half_m[along_x ? 0 : 2] - 0.4;
    const double at = between(random, -reach, reach);
    const double wall = side * (room->half_m[along_x ? 2 : 0] - depth);
    const double yaw = along_x ? (side > 0 ? 0 : 180) : side > 0 ? 90 : -90;
    return (struct spot){room, random,
                         motion_pose(along_x ? at : wall, HALF_HEIGHT_M, along_x ? wall : at,
                                     yaw + (depth > 0 ? testrandom_normal(random) * 1.5 : 0), 0,
                                     0)};
}

static bool in_the_open(struct furnished_room *room, uint64_t *random, struct spot *out)
{
    const double x = between(random, -1, 1) * (room->half_m[0] - 0.3);
    const double z = between(random, -1, 1) * (room->half_m[2] - 0.3);
    *out = (struct spot){room, random,
                         motion_pose(x, HALF_HEIGHT_M, z, between(random, -180, 180), 0, 0)};
    return x * x + z * z > FREE_M * FREE_M;
}

void furniture_make_room(uint64_t *random, struct furnished_room *out)
{
    memset(out, 0, sizeof *out);
    out->half_m[0] = between(random, 1.7, 2.8);
    out->half_m[1] = HALF_HEIGHT_M;
    out->half_m[2] = between(random, 1.7, 3);
    out->shapes[out->n++] = (struct shape){
        SHAPE_ROOM, {out->half_m[0], out->half_m[1], out->half_m[2]}, se3_identity()};
    const double fullness = between(random, 1, 2);
    for (int n = (int)(fullness * count(random, 10, 16)); n > 0; n--) {
        static void (*const kinds[])(const struct spot *) = {add_shelf, add_chest, add_table,
                                                             add_sofa, add_shelf};
        static const double depths[] = {0.2, 0.35, 0.45, 0.45, 0.2};
        const int kind = count(random, 0, 4);
        const struct spot spot = at_wall(out, random, depths[kind]);
        kinds[kind](&spot);
    }
    for (int n = (int)(fullness * count(random, 14, 24)); n > 0; n--) {
        static void (*const kinds[])(const struct spot *) = {add_chair, add_heap, add_plant,
                                                             add_table};
        struct spot spot;
        if (in_the_open(out, random, &spot))
            kinds[testrandom_next(random) % 4](&spot);
    }
    for (int n = (int)(fullness * count(random, 8, 14)); n > 0; n--) {
        const struct spot spot = at_wall(out, random, 0);
        add_on_wall(&spot);
    }
}
