// SPDX-License-Identifier: Apache-2.0
#include "gpu/register/choose_method.h"

#include <math.h>

// Few points, or points far noisier than their spacing, have no surface in the cells: what is
// judged there says little, and all pairs of them are cheap. (Noise in cells: sets with 70 %
// outliers 0.37 and more, with 50 % 0.30; rooms 0.19 to 0.27, scans 0.1.)
#define LEAST_CELLS 1500u
#define MOST_NOISE  0.34

bool register_has_surfaces(const struct register_surfaces *surfaces)
{
    const struct register_surface *s = &surfaces->info[0][0], *t = &surfaces->info[1][0];
    return s->n >= LEAST_CELLS && t->n >= LEAST_CELLS &&
           fmin(s->noise_m, t->noise_m) < MOST_NOISE * surfaces->cell_m;
}

bool register_only_on_points(const struct register_settings *settings)
{
    const bool soft = settings->method <= REGISTER_METHOD_SOFTASSIGN;
    return settings->preset == REGISTER_PRESET_TAMAKI ||
           (soft && settings->form == REGISTER_FORM_DENSE);
}

bool register_on_surfaces(const struct register_settings *settings,
                          const struct register_surfaces *surfaces)
{
    if (settings->method == REGISTER_METHOD_GICP)
        return true;
    if (settings->method == REGISTER_METHOD_ICP && settings->start != REGISTER_START_MANY)
        return false; // from the given pose, as asked for
    return register_has_surfaces(surfaces);
}
