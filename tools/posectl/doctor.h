// SPDX-License-Identifier: Apache-2.0
#ifndef POSED_TOOLS_POSECTL_DOCTOR_H
#define POSED_TOOLS_POSECTL_DOCTOR_H

#include "tools/posectl/posectl.h"

// posectl doctor: looks at this machine (it asks no daemon) and says what posed would miss, and
// what to do about it. Returns POSECTL_OK, or POSECTL_FAILED when there is a problem.
int posectl_doctor(struct posectl *ctl, int argc, char **argv);

#endif
