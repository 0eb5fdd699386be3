// SPDX-License-Identifier: Apache-2.0
#ifndef POSED_TOOLS_POSECTL_RIG_H
#define POSED_TOOLS_POSECTL_RIG_H

#include "tools/posectl/posectl.h"

// posectl rig calibrate A B [-o FILE]: the transform between two cameras of a rig, from recordings
// that both made at the same time. Returns POSECTL_OK, or POSECTL_FAILED when a recording cannot be
// read or tracked, or their motion does not tell.
int posectl_rig(struct posectl *ctl, int argc, char **argv);

#endif
