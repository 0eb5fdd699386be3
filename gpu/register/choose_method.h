// SPDX-License-Identifier: Apache-2.0
// Which of two ways a registration goes: on points (EM-ICP, Softassign, ICP), or on surfaces
// (features and GICP), which may still ask the points where they do not convince. Private to gpu.
#ifndef POSED_GPU_REGISTER_CHOOSE_METHOD_H
#define POSED_GPU_REGISTER_CHOOSE_METHOD_H

#include <stdbool.h>

#include "gpu/register/settings.h"
#include "gpu/register/surface_levels.h"

// The settings leave no choice: on points, and no surfaces are built.
bool register_only_on_points(const struct register_settings *settings);

// Otherwise, for the surfaces of both sets: on surfaces (true), or on points.
bool register_on_surfaces(const struct register_settings *settings,
                          const struct register_surfaces *surfaces);

// The sets have surfaces: what is judged there counts.
bool register_has_surfaces(const struct register_surfaces *surfaces);

#endif
