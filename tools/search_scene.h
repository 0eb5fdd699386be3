// SPDX-License-Identifier: Apache-2.0
// Synthetic scenes with known answers for the pose search: objects on a table or in free space,
// clutter around and in front of them, seen by a depth camera with the errors of a Kinect v1
// (disparity in steps, noise, pixels that the projector does not reach). For tests and posed-bench.
// Everything follows from the seed.
#ifndef POSED_TOOLS_SEARCH_SCENE_H
#define POSED_TOOLS_SEARCH_SCENE_H

#include "gpu/search.h"
#include "proto/types.h"

// A growing triangle mesh; start it zeroed, free with scene_mesh_free.
struct scene_mesh {
    float *vertices_m;
    uint32_t *triangles;
    size_t n_vertices, n_triangles;
    size_t vertex_capacity, triangle_capacity;
};

// Built-in objects, none of them symmetric.
enum scene_object { SCENE_OBJECT_ELBOW, SCENE_OBJECT_DRILL, SCENE_OBJECT_MUG, SCENE_OBJECT_DUCK };
#define SCENE_N_OBJECTS 4

enum scene_kind {
    SCENE_KIND_TABLE,   // on a table among other things, 0.5 .. 1.1 m away
    SCENE_KIND_NEAREST, // the paper's: free space, clutter behind and beside, the object in front
};

struct scene_settings {
    enum scene_kind kind;
    float visible_min, visible_max; // wanted share of the object's pixels that are not hidden
    bool absent;                    // everything but the object
    bool noise;
    uint64_t seed;
};

struct scene {
    struct intrinsics camera;
    uint16_t *depth; // 1/1000 m, 0 invalid; width x height
    struct se3 T_camera_model;
    float visible; // share of the object's pixels that are not hidden, before noise
};

// All return 0 or -ENOMEM; -EINVAL for a mesh without triangles.
__attribute__((warn_unused_result)) int scene_mesh_make(enum scene_object object,
                                                        struct scene_mesh *out);
void scene_mesh_free(struct scene_mesh *mesh);

// Draws one scene. When no arrangement of 200 gives the wanted visibility, the last is taken.
__attribute__((warn_unused_result)) int scene_create(const struct scene_mesh *object,
                                                     const struct scene_settings *settings,
                                                     struct scene *out);
void scene_free(struct scene *scene);

#endif
