// SPDX-License-Identifier: Apache-2.0
// A synthetic scene: analytic shapes in a world frame (metres, x right, y down, z forward, origin
// where the camera starts out, 1.3 m above the floor), and its depth image from any pose. Exact
// depth is that of the ray through the pixel's centre, along the optical axis, to float precision.
//
//   scene     what                                                  holds
//   room      furnished room of 4.8 x 2.6 x 5.6 m                   all six degrees of freedom
//   corridor  two walls, floor and ceiling along z, without an end  all but the way along z
//   wall      one plane across the view at 1.6 m                    two turns and the way to it
//   nothing   nothing at all                                        none
#ifndef POSED_CAPTURE_SYNTH_SCENE_H
#define POSED_CAPTURE_SYNTH_SCENE_H

#include "capture/synth/shapes.h"
#include "proto/types.h"

#define SCENE_UNITS_PER_M 5000.0 // of the depth images, as in TUM recordings

// Intrinsics of the synthetic camera: TUM's default for the Kinect v1, 640x480.
struct intrinsics scene_default_camera(void);

// What the camera errs by. Poses are exact whatever it is.
enum scene_sensor {
    SCENE_SENSOR_KIND,   // noise that is new in each frame, and nothing else (kinect_noise.h)
    SCENE_SENSOR_FIELD,  // the same with a camera's own fixed field (sensor_error.h)
    SCENE_SENSOR_UNKIND, // the same with all that stays as well: like a real Kinect
    SCENE_SENSOR_SPARSE, // of that a third of the pixels: like a close-range sensor
};

struct scene; // holds scratch memory of its own: one thread at a time

// Builds the scene of that name for that camera. Returns 0; -ENOENT for an unknown name, -EINVAL
// for an image side of 0 or beyond 4096, -ENOMEM; *out is then NULL.
__attribute__((warn_unused_result)) int scene_create(struct scene **out, const char *name,
                                                     const struct intrinsics *camera);
// The same of shapes that are given, copied.
__attribute__((warn_unused_result)) int scene_create_of(struct scene **out,
                                                        const struct shape *shapes, size_t n_shapes,
                                                        const struct intrinsics *camera);
void scene_destroy(struct scene **scene);

// From now on the camera looks through that lens, of the camera's size; before
// scene_set_sensor.
void scene_set_lens(struct scene *scene, const struct intrinsics *lens);

// From now on a camera of that kind looks, the one that camera_seed draws. Returns 0 or -ENOMEM (it
// is then the kind one).
__attribute__((warn_unused_result)) int
scene_set_sensor(struct scene *scene, enum scene_sensor sensor, uint64_t camera_seed);

// Exact depth image [m], row-major, INFINITY where there is nothing.
void scene_render_exact(struct scene *scene, const struct se3 *T_world_camera, float *out_z_m);

// Depth image as a noise-free sensor would store it (with the field where the camera has one):
// SCENE_UNITS_PER_M, 0 where there is nothing or farther than 13 m.
void scene_render_clean(struct scene *scene, const struct se3 *T_world_camera, uint16_t *out_depth);

// Depth image as a Kinect v1 would give it (see kinect_noise.h); seed and frame number choose the
// noise.
void scene_render_noisy(struct scene *scene, const struct se3 *T_world_camera, uint64_t seed,
                        uint64_t frame, uint16_t *out_depth);

// Depth image of a covered lens: no pixel is valid.
void scene_render_nothing(struct scene *scene, uint16_t *out_depth);

#endif
