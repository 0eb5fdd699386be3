// SPDX-License-Identifier: Apache-2.0
// Where maps are to be written, tried before the first frame: whoever is told at the end has lost
// the map. (The folder of recordings the recorder tries, those of trajectories are opened then.)
#ifndef POSED_DAEMON_OUTPUTS_H
#define POSED_DAEMON_OUTPUTS_H

#include "daemon/config/config.h"
#include "proto/log.h"

// output.map has to be a new .ply in a folder that can be written to: it is made without another
// question. map.folder may come later (a disk that is mounted): a warning, but for a file in its
// place. Returns 0, or with the setting in the log -EINVAL (another suffix), -EEXIST, -ENOTDIR or
// another negative errno of the folder.
__attribute__((warn_unused_result)) int outputs_check(const struct config *config,
                                                      const struct log_sink *log);

#endif
