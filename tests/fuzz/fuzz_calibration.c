// SPDX-License-Identifier: Apache-2.0
// calibration.txt and camera-intrinsics.txt.
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "capture/recording/sidecar.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes);

static void check(const struct intrinsics *camera)
{
    if (!(camera->fx_px > 0) || camera->fy_px == 0 || !isfinite(camera->fy_px) ||
        !isfinite(camera->cx_px) || !isfinite(camera->cy_px))
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes)
{
    char *text = malloc(n_bytes + 1);
    if (!text)
        return 0;
    memcpy(text, data, n_bytes);
    text[n_bytes] = '\0';
    struct intrinsics camera;
    double units_per_m;
    if (sidecar_parse_calibration(text, "fuzz", NULL, &camera, &units_per_m) == 0)
        check(&camera);
    if (sidecar_parse_matrix(text, "fuzz", NULL, &camera) == 0)
        check(&camera);
    free(text);
    return 0;
}
