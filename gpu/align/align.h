// SPDX-License-Identifier: Apache-2.0
// Many range images into one frame, at once (Oishi et al., with Neugebauer's simultaneous
// registration): choose pairs, share them out over the ranks, align. This is the whole of it for
// one process or many; posed-align and posed-bench bring images and take poses.
#ifndef POSED_GPU_ALIGN_ALIGN_H
#define POSED_GPU_ALIGN_ALIGN_H

#include "gpu/align/iterate.h"
#include "gpu/align/partition.h"

struct align_settings {
    enum gpu_backend backend;            // default AUTO
    uint32_t n_threads;                  // CPU; 0 = the host's cores divided by its ranks
    int cuda_device;                     // -1: ranks of a host take its devices in turn
    double gate_m;                       // default 0: 6 % of the images' median size
    struct align_pair_settings pairs;    // its gate is the one above
    struct align_iterate_settings solve; // likewise
    struct partition_settings partition; // its number of parts is that of the ranks
    // Pairs that are used beside the chosen ones, whatever the rules say.
    const struct align_pair *extra;
    uint32_t n_extra;
    struct log_sink log;
};

// Where images come from. `load` is called from several threads, for one image more than once, and
// on each rank only for images that the rank needs.
struct align_source {
    uint32_t n_images;
    const char *const *names;
    int (*load)(void *user, uint32_t image, struct align_image **out);
    void *user;
};

struct align_times {
    double sketch_s, choose_s, partition_s, load_s, solve_s;
};

struct align_result {         // what lies behind pointers is the caller's: align_result_free
    struct align_pair *pairs; // all ranks
    uint32_t n_pairs;
    struct align_pair_counts counts;
    uint32_t *part; // of each image: the least image of its connected part
    uint32_t n_parts;
    bool *fixed;     // images that kept their pose
    uint32_t *owner; // rank of each pair
    struct align_sketch *sketches;
    double gate_m;
    // root only
    struct partition_result partition;
    struct align_solution solution;
    uint64_t least_bytes, most_bytes; // of a rank's images
    struct align_times times;
    char device[160]; // the root's
};

void align_settings_default(struct align_settings *out);

// Collective over the ranks. T_world_image: n_images, in and out (the root's count). One image of
// each connected part, its least, keeps its pose; an image without any pair keeps its own and is
// named in the log. `progress` as in struct align_job. Returns 0 on all ranks, or a negative errno:
// -EINVAL (fewer than two images, an image that cannot be made, no pair at all), -ENOMEM, -EIO,
// -EDOM, -ENODEV, -ENOTSUP; the reason is in the log. A rank other than the root that fails alone
// returns its own error: the caller ends all ranks.
__attribute__((warn_unused_result)) int
align_run(const struct align_source *source, const struct align_ranks *ranks,
          const struct align_settings *settings, struct se3 *T_world_image,
          int (*progress)(void *user, const struct align_progress *progress), void *user,
          struct align_result *out);
void align_result_free(struct align_result *result);

#endif
