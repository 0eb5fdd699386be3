// SPDX-License-Identifier: Apache-2.0
#include "capture/kinect/disparity.h"

#include <errno.h>
#include <math.h>

struct disparity_model disparity_from_zero_plane(double const_shift, double pixel_size_mm,
                                                 double reference_cm, double emitter_cm)
{
    double steps = 4 * emitter_cm / pixel_size_mm;
    return (struct disparity_model){.scale_mm = 10 * reference_cm * steps,
                                    .offset = steps + 4 * const_shift + 1.5};
}

struct disparity_model disparity_default(void)
{
    return disparity_from_zero_plane(200, 0.1042, 120, 7.5);
}

struct disparity_model disparity_from_baseline(double offset, double baseline_m, double f_px)
{
    return (struct disparity_model){.scale_mm = 8 * baseline_m * f_px * 1000, .offset = offset};
}

int disparity_table_fill(const struct disparity_model *model, struct disparity_table *out)
{
    if (!isfinite(model->scale_mm) || !isfinite(model->offset) || !(model->scale_mm > 0))
        return -EINVAL;
    bool any = false;
    for (uint32_t raw = 0; raw < DISPARITY_N_RAW; raw++) {
        double mm = model->scale_mm / (model->offset - raw);
        bool valid = raw != DISPARITY_NONE && mm >= 1 && mm <= DISPARITY_MAX_MM;
        out->mm[raw] = valid ? (uint16_t)lrint(mm) : 0;
        any = any || valid;
    }
    return any ? 0 : -EINVAL;
}

void disparity_to_mm(const struct disparity_table *table, const uint16_t *raw, size_t n,
                     uint16_t *out_mm)
{
    for (size_t i = 0; i < n; i++)
        out_mm[i] = raw[i] < DISPARITY_N_RAW ? table->mm[raw[i]] : 0;
}

// Depth grows with raw, so the nearest value is found by walking both upwards together.
void disparity_inverse_fill(const struct disparity_table *table, struct disparity_inverse *out)
{
    uint32_t first = 0, last = 0;
    for (uint32_t raw = 0; raw < DISPARITY_N_RAW; raw++)
        if (table->mm[raw]) {
            first = first || table->mm[first] ? first : raw;
            last = raw;
        }
    uint32_t raw = first;
    uint32_t low = table->mm[first], high = table->mm[last];
    uint32_t step = last > first ? high - table->mm[last - 1] : 0;
    for (uint32_t mm = 0; mm < 65536; mm++) {
        while (raw < last && mm >= table->mm[raw + 1])
            raw++;
        bool next_is_nearer = raw < last && table->mm[raw + 1] - mm < mm - table->mm[raw];
        bool in_range = mm > 0 && mm + 1 >= low && mm <= high + step;
        out->raw[mm] = (uint16_t)(!in_range                    ? DISPARITY_NONE
                                  : mm > low && next_is_nearer ? raw + 1
                                                               : raw);
    }
}
