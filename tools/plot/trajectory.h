// SPDX-License-Identifier: Apache-2.0
// Picture of an evaluation: both trajectories in the plane in which the truth extends most, and the
// position error over time.
#ifndef POSED_TOOLS_PLOT_TRAJECTORY_H
#define POSED_TOOLS_PLOT_TRAJECTORY_H

#include "proto/evaluate.h"

// Draws to a PNG file (an old one is replaced). Returns 0, -EIO with the reason in the log, or
// -ENOMEM. The evaluation has at least one matched pose.
__attribute__((warn_unused_result)) int plot_evaluation(const char *path, const char *title,
                                                        const struct evaluation *evaluation,
                                                        const struct log_sink *log);

#endif
