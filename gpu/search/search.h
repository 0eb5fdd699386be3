// SPDX-License-Identifier: Apache-2.0
// Pose search: where is this known object in this depth image? No initial guess, no segmentation.
//
// Method: Germann, Breitenstein, Park, Pfister, "Automatic Pose Estimation for Range Images on the
// GPU", 3DIM 2007: the object is drawn once from many directions; a search lays all of these
// reference maps over the depth image at once and keeps the best. SEARCH_PRESET_GERMANN is that,
// and then what the paper's section 7 asks for: the best views are rendered and fitted, because of
// 2,048 views the nearest is 9 degrees from the truth on average. Measured
// (tools/bench/MEASURED.md): median error of the bare view 15 to 104 degrees, of the fitted pose
// 0.1 to 0.4, and 18 % and 6 % of the scenes fail (ADD-S above a tenth of the diameter); the answer
// holds both. The default goes on where the paper stops: start points from the image itself, a
// coarse pass over all of them, free space that contradicts the model, refinement by point-to-plane
// ICP against a full-resolution rendering, a look at the rotations under which the object is nearly
// the same, several distinct answers, a confidence. It works at a depth camera's resolution: where
// depth was registered to a camera of a longer focal length, 855 px and more, pixels are taken
// together.
//
// Threads: one struct search is used by one thread at a time. Objects are read-only once made, and
// belong to the search that made them.
#ifndef POSED_GPU_SEARCH_SEARCH_H
#define POSED_GPU_SEARCH_SEARCH_H

#include "gpu/search/settings.h"
#include "proto/log.h"
#include "proto/types.h"

#define SEARCH_RADIUS_ODD_M 5 // a mesh larger than that is probably in millimetres: a warning

struct search;        // opaque: a device and its working memory
struct search_object; // opaque: mesh, reference views, symmetry

// Triangles over vertices, metres; or no triangles, and the vertices are points of the surface, of
// which one is made (gpu/search/object/point_surface.h). Borrowed for the call.
struct search_mesh {
    const float *vertices_m;   // x y z of each vertex
    const uint32_t *triangles; // three vertex indices each
    size_t n_vertices, n_triangles;
};

// The depth image. Pixels are borrowed for the call.
struct search_image {
    struct depth_frame frame;
    struct intrinsics camera;
    const uint8_t *mask;     // row-major, 0 = ignore this pixel; NULL = no mask
    uint32_t u0, v0, u1, v1; // region, u1 and v1 exclusive; all 0 = the whole image
};

struct search_pose {
    struct se3 T_camera_model; // camera: optical frame
    // germann: of the view that the paper's search has in this place, as `view` and error_px; the
    // fit may have come from another one. Else as T_camera_model.
    struct se3 T_camera_view;
    float confidence;   // 0..1: how often, at least, an answer that looks like this is right
    bool accepted;      // confidence >= threshold
    float visible;      // share of the model's visible side that the image shows, 0..1
    float contradicted; // share where the image looks through the model or shows another surface
    float ended;        // share of the outline where the image has an edge, 0..1
    float continued;    // of what can be told of the outline: where the surface goes on, 0..1
    // Logarithm of a likelihood ratio, against the object not being there at all: what ranks the
    // answers. Of poses at one place that are
    // nearly as good (a box with a knob, end for end) the first is the one that fits the image
    // best, pixel by pixel, and the score is the best one's.
    float score;
    float rival; // score of the best pose there that shows another surface, less this one's
    float residual_rms_m; // over the matching pixels
    uint32_t n_pixels;    // matching pixels
    float error_px;       // germann: the paper's error of the view
    uint32_t view;        // reference view it came from; germann: the paper's best, second best ...
};

enum search_stage {
    SEARCH_STAGE_PREPARE, // depth, normals, start points
    SEARCH_STAGE_COARSE,
    SEARCH_STAGE_FIT,
    SEARCH_STAGE_REFINE,
    SEARCH_N_STAGES
};

struct search_answer {
    uint32_t n_poses; // 0 .. top, best first
    struct search_pose poses[SEARCH_TOP_MAX];
    uint32_t n_starts;   // start points taken from the image
    uint64_t n_compared; // map comparisons; coarse ones are estimated
    float stage_ms[SEARCH_N_STAGES];
};

enum search_symmetry {
    SEARCH_SYMMETRY_NONE,
    SEARCH_SYMMETRY_FOLD,       // n-fold about an axis
    SEARCH_SYMMETRY_REVOLUTION, // any angle about an axis
    SEARCH_SYMMETRY_SPHERE,
};

struct search_object_info {
    uint32_t n_views, n_triangles, n_vertices;
    // The smallest sphere about all used vertices, its centre in the frame of the mesh: to within
    // 0.5 % of its radius, but no vertex lies outside.
    float radius_m;
    double centre_m[3];
    float map_px_m;    // size of a map pixel
    float mean_pixels; // foreground pixels of a map
    float spacing_rad; // mean angle to the nearest other view
    enum search_symmetry symmetry;
    uint32_t fold;  // of SEARCH_SYMMETRY_FOLD
    double axis[3]; // unit vector in the model frame, 0 0 0 without an axis
};

// Returns 0, or with *out NULL: -ENODEV (CUDA asked for, no device), -ENOTSUP (not built in),
// -ENOMEM, -EIO; the reason is in the log.
__attribute__((warn_unused_result)) int search_open(struct search **out,
                                                    const struct search_settings *settings);
void search_close(struct search **search);
const char *search_description(const struct search *search);

// Draws the reference views. Degenerate triangles and ones with an index out of range or a
// coordinate that is not finite are left out and counted in a warning; so is a size that looks like
// millimetres. Returns 0, or with *out NULL: -EINVAL (no usable triangle, points on one line, or
// a setting out of range: named in the log), -ECANCELED (by progress), -ENOMEM, -EIO.
__attribute__((warn_unused_result)) int
search_object_create(struct search *search, const struct search_mesh *mesh,
                     const struct search_object_settings *settings, struct search_object **out);
void search_object_destroy(struct search *search, struct search_object **object);
void search_object_describe(const struct search_object *object, struct search_object_info *out);

// The object as one file: mesh and views with version and checksum. Save writes beside and renames.
// Load returns 0, or with *out NULL: -ENOENT, -EBADMSG (damaged, cut off or of another version:
// build it again), -ENOMEM, -EIO.
__attribute__((warn_unused_result)) int search_object_save(const struct search_object *object,
                                                           const char *path,
                                                           const struct log_sink *log);
__attribute__((warn_unused_result)) int search_object_load(struct search *search, const char *path,
                                                           struct search_object **out);

// Searches. *out holds up to query->top distinct poses (poses that differ by a symmetry of the
// object are one), none when nothing in the image resembles the object. In the default preset those
// that are accepted, which come first, are so many objects: what one explains is taken out of the
// image, and the rest is searched again; each takes about the time of a search. Returns 0, or
// -EINVAL with the field named in the log and in out_field (at least 32 bytes, may be NULL): frame,
// camera, region, top, n_iterations; -ENODATA when the image has no valid depth; -ECANCELED (by
// query->stopped); -EIO, -ENOMEM.
__attribute__((warn_unused_result)) int search_run(struct search *search,
                                                   const struct search_object *object,
                                                   const struct search_image *image,
                                                   const struct search_query *query,
                                                   struct search_answer *out, char *out_field);

// Follows a pose found before: refines it against a new image. *pose is the guess (extrapolated)
// and the result. When the guess does not lead to the object, poses around it are tried: a third of
// the object's radius away, 15 degrees turned. Returns as search_run; -ENODATA also when the object
// is not there any more (*pose unchanged).
__attribute__((warn_unused_result)) int search_follow(struct search *search,
                                                      const struct search_object *object,
                                                      const struct search_image *image,
                                                      struct search_pose *pose);

// Draws the model at a pose at full image resolution: z in metres, 0 where the model is not;
// out_z holds width x height floats. For overlays. Returns 0 or -ENOMEM.
__attribute__((warn_unused_result)) int search_draw(const struct search_object *object,
                                                    const struct intrinsics *camera,
                                                    const struct se3 *T_camera_model, float *out_z);

#endif
