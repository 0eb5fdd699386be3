// SPDX-License-Identifier: Apache-2.0
#include "gpu/track/sparse_frame.h"

#include "gpu/track/sparse_depth.h"

const uint16_t *sparse_frame_fill(struct track *track, const uint16_t *measured)
{
    const uint16_t *filled = sparse_depth_fill(track->gaps, measured);
    track->is_sparse = filled != measured;
    if (track->is_sparse && !track->told_sparse)
        log_to(&track->log, LOG_LEVEL_NOTICE,
               "track: hardly a measured pixel has all of its neighbours: what lies between "
               "measured pixels of one surface is filled in");
    track->told_sparse = track->told_sparse || track->is_sparse;
    return filled;
}

int sparse_frame_explain(struct track *track, const uint16_t *measured, double seconds,
                         struct track_candidate *out)
{
    const bool was_sparse = track->is_sparse;
    const uint16_t *depth = was_sparse ? sparse_frame_fill(track, measured) : measured;
    int rc = track_explain(track, depth, seconds, out);
    if (rc < 0 || was_sparse ||
        out->alignment.n_valid_px >= SPARSE_DEPTH_MOST_COMPLETE * track->level_px)
        return rc;
    depth = sparse_frame_fill(track, measured);
    return track->is_sparse ? track_explain(track, depth, seconds, out) : 0;
}

void sparse_frame_tell(const struct track *track, const uint16_t *measured,
                       struct track_result *out)
{
    const double share = sparse_depth_measured_share(track->gaps, measured);
    const double normal = out->n_valid_px / (double)track->level_px;
    if (share < track->settings.min_valid_share || normal > share / 2)
        return;
    out->measured_share = share;
    out->normal_share = normal;
}
