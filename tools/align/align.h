// SPDX-License-Identifier: Apache-2.0
// What the parts of posed-align share.
#ifndef POSED_TOOLS_ALIGN_ALIGN_H
#define POSED_TOOLS_ALIGN_ALIGN_H

#include "gpu/align/align.h"
#include "tools/align/camera_error.h"
#include "tools/align/images.h"

struct align_options {
    const char *conf, *poses, *depth, *calibration, *source, *out, *truth;
    double units_per_m;
    uint32_t iterations; // 0 = until the step is negligible
    uint32_t every;      // --source: every n-th frame instead of the tracker's keyframes; 0 = those
    uint32_t rounds;     // of pairs chosen anew at the poses so far
    bool start_many;     // the images' start poses are not used: tools/align/starts finds them
    bool json, quiet, no_merged, no_pictures, no_field, fresh;
    struct align_settings settings;
};

// posed-align generate: exit status.
int align_generate(int argc, char **argv);

// Writes OUT/report.json; `images` and `result` as align_run left them, regions_m as
// report_residuals fills it or NULL. Returns 0 or -EIO.
__attribute__((warn_unused_result)) int
report_write_json(const char *path, const struct align_options *options,
                  const struct images *images, const struct align_result *result,
                  const struct camera_error *error, const struct se3 *T_world_image,
                  const double *regions_m, const struct align_ranks *ranks);
void report_print(const struct images *images, const struct align_result *result,
                  const struct camera_error *error, const struct align_ranks *ranks);

// OUT/merged.ply: every vertex with its normal, in the common frame.
__attribute__((warn_unused_result)) int
report_write_merged(const char *path, const struct images *images, const struct se3 *T_world_image);

// OUT/residual-NAME.png for each image: its residual by cell, colours from 0 to three times the
// median, and the median of each of REPORT_REGIONS, 4 x 3, row by row; out_regions_m: so many an
// image, NaN = nothing near.
#define REPORT_REGIONS 12
__attribute__((warn_unused_result)) int
report_residuals(const char *folder, const struct images *images, const struct align_result *result,
                 const struct se3 *T_world_image, double *out_regions_m);

// The poses so far, for a run that begins again: OUT/checkpoint.txt, replaced as a whole.
void checkpoint_write(const char *folder, const struct images *images,
                      const struct se3 *T_world_image, uint32_t n_iterations);
// Returns true when it is there and of the same images; the poses are then taken.
bool checkpoint_read(const char *folder, const struct images *images, struct se3 *T_world_image,
                     uint32_t *out_n_iterations);
void checkpoint_remove(const char *folder);

#endif
