// SPDX-License-Identifier: Apache-2.0
// A recording whose recorder was killed replays as it is; other programs want it complete.
#ifndef POSED_CAPTURE_RECORDER_REPAIR_H
#define POSED_CAPTURE_RECORDER_REPAIR_H

#include <stdbool.h>

#include "proto/log.h"

// Writes a whole copy of the .mcap or .klg at `path` to the new file `out_path`, and tells in the
// log what became of it. Of a file that is complete a copy is made only where `always`; nothing is
// written before that is known. The sidecar of a klg (intrinsics and units) is copied, too. Returns
// 0, 1 (nothing was to mend, and there is no copy), or after
// logging: -EEXIST (something of that name is there), -ENOTSUP (another format: a folder needs no
// repair), -EINVAL (not what its name says), -ENOENT (nothing whole in it), -ENOMEM or the errno of
// a file, which is named; no copy is then left.
__attribute__((warn_unused_result)) int recorder_repair(const char *path, const char *out_path,
                                                        bool always, const struct log_sink *log);

#endif
