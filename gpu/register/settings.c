// SPDX-License-Identifier: Apache-2.0
#include "gpu/register/settings.h"

#include <math.h>

#include "proto/se3.h"

void register_config_default(struct register_config *out)
{
    *out = (struct register_config){.backend = GPU_BACKEND_AUTO, .cuda_device = -1};
}

void register_settings_default(struct register_settings *out)
{
    *out = (struct register_settings){.point_to_plane = true};
    out->T_target_source = se3_identity();
}

static const char *const method_names[] = {"emicp", "softassign", "icp", "gicp"};

const char *register_method_name(enum register_method method)
{
    return (unsigned)method < 4 ? method_names[method] : NULL;
}

// The negative of a rounding: what may not be negative, NaN or too large.
static bool in_range(double value, double most)
{
    return value >= 0 && value <= most;
}

const char *register_settings_check(const struct register_settings *settings, const char **out_why)
{
    *out_why = "unknown value";
    if ((unsigned)settings->method > REGISTER_METHOD_GICP)
        return "method";
    if ((unsigned)settings->form > REGISTER_FORM_DENSE)
        return "form";
    if ((unsigned)settings->preset > REGISTER_PRESET_TAMAKI)
        return "preset";
    if ((unsigned)settings->start > REGISTER_START_MANY)
        return "start";
    *out_why = "the preset tamaki is for emicp and softassign";
    if (settings->preset == REGISTER_PRESET_TAMAKI && settings->method >= REGISTER_METHOD_ICP)
        return "preset";
    *out_why = "the preset tamaki has one start";
    if (settings->preset == REGISTER_PRESET_TAMAKI && settings->start == REGISTER_START_MANY)
        return "start";
    *out_why = "0 (the default) to 10 is wanted";
    if (!in_range(settings->slack, 10))
        return "slack";
    *out_why = "0 (the default) or 0.05 to 10 is wanted";
    if (settings->sigma_last != 0 &&
        (!in_range(settings->sigma_last, 10) || settings->sigma_last < 0.05))
        return "sigma_last";
    *out_why = "0 (the default) to 10000 is wanted";
    if (settings->n_iterations > 10000)
        return "n_iterations";
    *out_why = "0 (the default) or at least 64 is wanted";
    if (settings->n_points != 0 && settings->n_points < 64)
        return "n_points";
    *out_why = "0 (the default) to 100000 is wanted";
    if (settings->n_starts > 100000)
        return "n_starts";
    *out_why = "no rotation and finite translation";
    const struct se3 *T = &settings->T_target_source;
    for (int i = 0; i < 3; i++) {
        double dot = 0;
        for (int k = 0; k < 3; k++)
            dot += T->r[3 * i + k] * T->r[3 * i + k];
        if (!(fabs(dot - 1) < 1e-3) || !isfinite(T->t_m[i]))
            return "initial";
    }
    return NULL;
}
