// SPDX-License-Identifier: Apache-2.0
// What is written to disk, tried before the first frame: whoever is told at the end has lost it.
#ifndef POSED_DAEMON_OUTPUTS_H
#define POSED_DAEMON_OUTPUTS_H

#include "daemon/config/config.h"
#include "proto/log.h"

// output.trajectory and output.map of every camera must be files that can be made, the map's a new
// .ply: it is made without another question. A file may be in no folder's place (map.folder,
// recorder.folder, search.folder), and no folder in a file's. With every reason in the log, each
// with the setting and where it was set, returns 0; -EINVAL, where a setting is wrong itself
// (another suffix than .ply, one file for both however it is spelled, a name without room for
// NAME.1 beside it, a file for a folder, a folder for a file); else another negative errno: what
// may be mended on the disk (a folder that is not there, rights, a map that is there already).
__attribute__((warn_unused_result)) int outputs_check(const struct config *config,
                                                      const struct log_sink *log);

// For who looks only (--check-config): warns of those folders that are not there and cannot be
// made, or cannot be written to, as the start will.
void outputs_look_at_folders(const struct config *config, const struct log_sink *log);

// At the start: makes the folders of maps and of objects where the folder around them is there, and
// warns where that fails or nothing can be written there: it may come later (a disk that is
// mounted). The recorder does so for its own.
void outputs_make_folders(const struct config *config, const struct log_sink *log);

#endif
