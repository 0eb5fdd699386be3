// SPDX-License-Identifier: Apache-2.0
#ifndef POSED_TOOLS_POSECTL_KEYGEN_H
#define POSED_TOOLS_POSECTL_KEYGEN_H

#include "tools/posectl/posectl.h"

// posectl keygen NAME: a pair of CURVE keys in NAME.secret (0600) and NAME.public, neither of which
// may be there already. Returns POSECTL_OK, or POSECTL_FAILED with nothing left behind.
int posectl_keygen(struct posectl *ctl, int argc, char **argv);

#endif
