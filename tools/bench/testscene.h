// SPDX-License-Identifier: Apache-2.0
// Synthetic scenes with known answers for the pose search: objects on a table or in free space,
// clutter around and in front of them, seen by a depth camera: with the errors of a Kinect v1
// (disparity in steps, noise, pixels that the projector does not reach), or with those of
// registered and processed images (testsensor.h). For tests and posed-bench. Everything follows
// from the seed.
#ifndef POSED_TOOLS_BENCH_TESTSCENE_H
#define POSED_TOOLS_BENCH_TESTSCENE_H

#include "gpu/search/search.h"
#include "proto/types.h"

// A growing triangle mesh; start it zeroed, free with testscene_mesh_free.
struct testscene_mesh {
    float *vertices_m;
    uint32_t *triangles;
    size_t n_vertices, n_triangles;
    size_t vertex_capacity, triangle_capacity;
};

// Built-in objects, none of them symmetric. As many more as wanted: testscene_mesh_assemble.
enum testscene_object {
    TESTSCENE_OBJECT_ELBOW,
    TESTSCENE_OBJECT_DRILL,
    TESTSCENE_OBJECT_MUG,
    TESTSCENE_OBJECT_DUCK
};
#define TESTSCENE_N_OBJECTS 4

enum testscene_kind {
    TESTSCENE_KIND_TABLE,   // on a table among other things, 0.5 .. 1.1 m away
    TESTSCENE_KIND_NEAREST, // the paper's: free space, clutter behind, the object in front
};

enum testscene_sensor {
    TESTSCENE_SENSOR_KIND, // fresh noise, shadows, pixels lost along edges
    TESTSCENE_SENSOR_REGISTERED,
    TESTSCENE_SENSOR_TOF,     // testsensor.h
    TESTSCENE_SENSOR_UNKIND,  // one of these two, two in three registered; clutter that touches
    TESTSCENE_SENSOR_MATCHED, // testsensor.h; focal lengths from that of the others to 1.9 times it
};
#define TESTSCENE_N_SENSORS 5

// How things are put on the table (placement.h).
enum testscene_placement {
    TESTSCENE_PLACEMENT_FREE,    // in any rotation, on a corner as well; they may cut into another
    TESTSCENE_PLACEMENT_RESTING, // as real things lie; what is beside the object touches it at most
};
#define TESTSCENE_N_PLACEMENTS 2

struct testscene_settings {
    enum testscene_kind kind;
    enum testscene_sensor sensor;
    enum testscene_placement placement; // resting: household things and a warp, too
    float visible_min, visible_max;     // wanted share (struct testscene)
    bool absent;                        // everything but the object
    bool noise;                         // false: no sensor at all
    uint64_t seed;
};

struct testscene {
    struct intrinsics camera;
    uint16_t *depth; // 1/1000 m, 0 invalid; width x height
    struct se3 T_camera_model;
    float *z_m;     // what is there without the sensor's errors [m], 0 nothing; width x height
    uint8_t *shown; // likewise, 1 where the object is what is seen, and the image has a depth
    // Share of the pixels that the object alone would cover where the image shows it, counted in
    // the image itself: hidden pixels, the projector's shadow and what the sensor loses are not
    // seen. Of an absent object: what would be seen but for the losses.
    float visible;
};

// All return 0 or -ENOMEM; -EINVAL for a mesh without triangles.
__attribute__((warn_unused_result)) int testscene_mesh_make(enum testscene_object object,
                                                            struct testscene_mesh *out);
// A body and one to four smaller parts on it, boxes, tubes, ellipsoids and rings, 10 to 30 cm
// across: another one for each seed. Odd seeds take boxes and straight tubes only, as things made
// by machines are.
__attribute__((warn_unused_result)) int testscene_mesh_assemble(uint64_t seed,
                                                                struct testscene_mesh *out);
void testscene_mesh_free(struct testscene_mesh *mesh);

// Draws one scene. When no arrangement of 200 gives the wanted visibility, the last is taken.
__attribute__((warn_unused_result)) int testscene_create(const struct testscene_mesh *object,
                                                         const struct testscene_settings *settings,
                                                         struct testscene *out);
void testscene_free(struct testscene *scene);

#endif
