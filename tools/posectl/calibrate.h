// SPDX-License-Identifier: Apache-2.0
#ifndef POSED_TOOLS_POSECTL_CALIBRATE_H
#define POSED_TOOLS_POSECTL_CALIBRATE_H

#include "tools/posectl/posectl.h"

// posectl calibrate RECORDING... -o FILE: learns the camera's own error from its recordings, here
// and not in the daemon; --check FILE judges one that is there. Returns POSECTL_OK, or
// POSECTL_FAILED when nothing was learnt, the field does not hold on what was kept aside, or a file
// could not be read or written.
int posectl_calibrate(struct posectl *ctl, int argc, char **argv);

#endif
