// SPDX-License-Identifier: Apache-2.0
#include "gpu/search/object/corners.h"

#include <math.h>

#define GOLDEN_ANGLE 2.399963229728653

static uint32_t farthest(const struct search_object *object, const float direction[3])
{
    float most = -INFINITY;
    uint32_t which = 0;
    for (uint32_t i = 0; i < object->n_vertices; i++) {
        const float out =
            direction[0] * object->x[i] + direction[1] * object->y[i] + direction[2] * object->z[i];
        if (out > most) {
            most = out;
            which = i;
        }
    }
    return which;
}

void search_find_corners(struct search_object *object)
{
    uint32_t vertices[SEARCH_CORNERS_MAX] = {0}, n = 0;
    for (int i = 0; i < SEARCH_CORNERS_MAX; i++) {
        const double z = 1 - (2 * i + 1.0) / SEARCH_CORNERS_MAX, r = sqrt(1 - z * z);
        const float direction[3] = {(float)(r * cos(GOLDEN_ANGLE * i)),
                                    (float)(r * sin(GOLDEN_ANGLE * i)), (float)z};
        const uint32_t vertex = farthest(object, direction);
        uint32_t k = 0;
        while (k < n && vertices[k] != vertex)
            k++;
        vertices[k] = vertex;
        n += k == n;
    }
    object->n_corners = n;
    for (uint32_t i = 0; i < n; i++) {
        const float unit_m = object->info.map_px_m;
        object->corners_m[i][0] = unit_m * object->x[vertices[i]];
        object->corners_m[i][1] = unit_m * object->y[vertices[i]];
        object->corners_m[i][2] = unit_m * object->z[vertices[i]];
    }
}
