// SPDX-License-Identifier: Apache-2.0
// The settings of a registration: defaults, names (both declared in gpu/register/register.h),
// and what is wrong with those that a caller brings. Private to gpu.
#ifndef POSED_GPU_REGISTER_SETTINGS_H
#define POSED_GPU_REGISTER_SETTINGS_H

#include "gpu/register/register.h"

// NULL, or the name of the field that is wrong and, in *out_why, what is wanted of it.
const char *register_settings_check(const struct register_settings *settings, const char **out_why);

#endif
