// SPDX-License-Identifier: Apache-2.0
#include "gpu/search/cpu/draw.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "gpu/base/parallel.h"
#include "gpu/search/context.h"
#include "gpu/search/cpu/raster.h"

int search_drawing_create(struct search_drawing *drawing, uint32_t n_vertices, uint32_t n_pixels)
{
    memset(drawing, 0, sizeof *drawing);
    drawing->corners = malloc(n_vertices * sizeof *drawing->corners);
    drawing->value = malloc(n_vertices * sizeof *drawing->value);
    drawing->depth = malloc(n_pixels * sizeof *drawing->depth);
    drawing->index = malloc(n_pixels * sizeof *drawing->index);
    drawing->n_vertices = n_vertices;
    drawing->n_pixels = n_pixels;
    if (drawing->corners && drawing->value && drawing->depth && drawing->index)
        return 0;
    search_drawing_destroy(drawing);
    return -ENOMEM;
}

void search_drawing_destroy(struct search_drawing *drawing)
{
    free(drawing->corners);
    free(drawing->value);
    free(drawing->depth);
    free(drawing->index);
    memset(drawing, 0, sizeof *drawing);
}

CPU_CLONES static void project_vertices(const struct search_object *object,
                                        const struct search_camera *cam,
                                        const struct search_candidate *c, float cu, float cv,
                                        struct raster_point *restrict out,
                                        float *restrict out_value)
{
    const float *restrict x = object->x, *restrict y = object->y, *restrict z = object->z;
    const struct search_camera camera = *cam;
    const float t_m[3] = {c->t_m[0], c->t_m[1], c->t_m[2]};
    float scaled[9];
    for (int k = 0; k < 9; k++)
        scaled[k] = c->rotation[k] * object->info.map_px_m;
    for (uint32_t i = 0; i < object->n_vertices; i++)
        search_draw_corner(&camera, cu, cv, scaled, t_m, x[i], y[i], z[i], &out[i].x, &out[i].y,
                           &out_value[i]);
}

uint32_t search_draw_candidate(const struct search_object *object, const struct search_camera *cam,
                               const struct search_candidate *c, struct search_drawing *drawing)
{
    const struct search_rectangle at = search_rectangle_of(cam, object->info.radius_m, c->t_m);
    drawing->at = at;
    int n = at.width * at.height;
    if (n == 0)
        return 0;
    project_vertices(object, cam, c, cam->cx - (float)at.u0, cam->cy - (float)at.v0,
                     drawing->corners, drawing->value);
    for (int i = 0; i < n; i++)
        drawing->depth[i] = INFINITY;
    struct raster_mesh mesh = {drawing->corners, drawing->value, object->triangles,
                               object->n_triangles};
    raster_draw(&mesh, at.width, at.height, drawing->depth, drawing->index);
    uint32_t n_drawn = 0;
    for (int i = 0; i < n; i++)
        n_drawn += drawing->depth[i] < INFINITY;
    return n_drawn;
}

int search_draw(const struct search_object *object, const struct intrinsics *camera,
                const struct se3 *T_camera_model, float *out_z)
{
    struct search_drawing drawing;
    struct search_candidate c;
    struct search_camera cam = {(float)camera->fx_px,  (float)camera->fy_px,
                                (float)camera->cx_px,  (float)camera->cy_px,
                                (int)camera->width_px, (int)camera->height_px};
    int err =
        search_drawing_create(&drawing, object->n_vertices, camera->width_px * camera->height_px);
    if (err)
        return err;
    memset(out_z, 0, (size_t)camera->width_px * camera->height_px * sizeof *out_z);
    search_pose_inward(object, T_camera_model, &c);
    if (search_draw_candidate(object, &cam, &c, &drawing) > 0)
        for (int v = 0; v < drawing.at.height; v++)
            for (int u = 0; u < drawing.at.width; u++) {
                float depth = drawing.depth[v * drawing.at.width + u];
                if (depth < INFINITY)
                    out_z[(size_t)(v + drawing.at.v0) * camera->width_px +
                          (size_t)(u + drawing.at.u0)] = -1 / depth;
            }
    search_drawing_destroy(&drawing);
    return 0;
}
