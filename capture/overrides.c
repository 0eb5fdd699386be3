// SPDX-License-Identifier: Apache-2.0
#include "capture/overrides.h"

#include <math.h>
#include <stdio.h>

#define ANOTHER_UNIT 2.0 // a format's usual scale that is so far off is another unit: millimetres

void overrides_apply(struct capture_info *info, const struct capture_settings *settings)
{
    struct intrinsics *camera = &info->camera;
    info->told.camera = *camera;
    info->told.units_per_m = info->units_per_m;
    camera->fx_px = settings->fx_px != 0 ? settings->fx_px : camera->fx_px;
    camera->fy_px = settings->fy_px != 0 ? settings->fy_px : camera->fy_px;
    camera->cx_px = settings->cx_px != 0 ? settings->cx_px : camera->cx_px;
    camera->cy_px = settings->cy_px != 0 ? settings->cy_px : camera->cy_px;
    info->units_per_m = settings->depth_scale != 0 ? settings->depth_scale : info->units_per_m;
}

static void tell_intrinsics(const struct capture_told *told, const struct capture_settings *s,
                            const struct log_sink *log)
{
    const struct intrinsics *own = &told->camera;
    // Of another sign fy is what turns the images; whoever reads the calibration says so.
    const struct {
        const char *key;
        double set, told, whole;
    } values[] = {
        {"camera.fx", s->fx_px, own->fx_px, own->fx_px},
        {"camera.fy", fabs(s->fy_px), fabs(own->fy_px), fabs(own->fy_px)},
        {"camera.cx", s->cx_px, own->cx_px, own->width_px},
        {"camera.cy", s->cy_px, own->cy_px, own->height_px},
    };
    char text[320] = "";
    size_t n = 0;
    for (size_t i = 0; i < sizeof values / sizeof *values; i++)
        if (values[i].set != 0 &&
            fabs(values[i].set - values[i].told) > OVERRIDES_DOUBT * values[i].whole)
            n += (size_t)snprintf(text + n, sizeof text - n, "%s%s = %g (there %g)",
                                  n > 0 ? ", " : "", values[i].key, values[i].set, values[i].told);
    if (n > 0)
        log_to(log, LOG_LEVEL_WARNING,
               "%s: contradicts %s, and counts: leave it out unless that is wrong", text,
               told->camera_by);
}

void overrides_tell(const struct capture_info *info, const struct capture_settings *settings,
                    const struct log_sink *log)
{
    const struct capture_told *told = &info->told;
    if (told->camera_by[0])
        tell_intrinsics(told, settings, log);
    if (settings->depth_scale == 0 || !told->units_by[0])
        return;
    const double share = told->units_per_m / settings->depth_scale;
    const double off = fmax(share, 1 / share);
    if (off > 1 + OVERRIDES_DOUBT && !(told->units_are_usual && off >= ANOTHER_UNIT))
        log_to(log, LOG_LEVEL_WARNING,
               "camera.depth_scale = %g units per metre: contradicts %s, which has %g, and counts: "
               "distances are %.2f times those; leave it out unless that is wrong",
               settings->depth_scale, told->units_by, told->units_per_m, share);
}
