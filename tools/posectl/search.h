// SPDX-License-Identifier: Apache-2.0
#ifndef POSED_TOOLS_POSECTL_SEARCH_H
#define POSED_TOOLS_POSECTL_SEARCH_H

#include "tools/posectl/posectl.h"

int posectl_object(struct posectl *ctl, int argc, char **argv);
int posectl_search(struct posectl *ctl, int argc, char **argv);

#endif
