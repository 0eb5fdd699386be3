// SPDX-License-Identifier: Apache-2.0
#ifndef POSED_TOOLS_POSECTL_REGISTER_H
#define POSED_TOOLS_POSECTL_REGISTER_H

#include "tools/posectl/posectl.h"

// posectl register [--local] SOURCE TARGET: registers two clouds from files. Returns an exit code.
int posectl_register(struct posectl *ctl, int argc, char **argv);

#endif
