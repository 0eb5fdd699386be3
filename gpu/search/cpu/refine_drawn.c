// SPDX-License-Identifier: Apache-2.0
#include "gpu/search/cpu/refine_drawn.h"

#include <math.h>

#include "gpu/search/cpu/icp.h"
#include "gpu/search/kernels/draw.h"
#include "gpu/search/kernels/icp.h"
#include "gpu/search/kernels/score.h"

// Ray and normal of drawn pixel (u, v) of the rectangle.
static void drawn_normal(const struct search_object *object, const struct search_camera *cam,
                         const struct search_candidate *c, const struct search_drawing *drawing,
                         int u, int v, float out_ray[3], float out_normal[3])
{
    const uint32_t *t = object->triangles + 3 * (size_t)drawing->index[v * drawing->at.width + u];
    const float *x = object->x, *y = object->y, *z = object->z;
    const float corner[3][3] = {
        {x[t[0]], y[t[0]], z[t[0]]}, {x[t[1]], y[t[1]], z[t[1]]}, {x[t[2]], y[t[2]], z[t[2]]}};
    search_pixel_ray(cam, u + drawing->at.u0, v + drawing->at.v0, out_ray);
    search_drawn_normal(corner[0], corner[1], corner[2], c->rotation, out_ray, out_normal);
}

static void drawn_points(const struct search_object *object, const struct search_camera *cam,
                         const struct search_candidate *c, const struct search_drawing *drawing,
                         uint32_t n_drawn, struct model_points *out)
{
    const int step = (int)search_drawn_thinning(n_drawn);
    uint32_t n = 0;
    for (int v = step / 2; v < drawing->at.height; v += step)
        for (int u = step / 2; u < drawing->at.width && n < MODEL_POINTS_MAX - MODEL_POINTS_LANES;
             u += step) {
            float depth = drawing->depth[v * drawing->at.width + u];
            if (!(depth < INFINITY))
                continue;
            float ray[3], normal[3], p[3], m[3];
            drawn_normal(object, cam, c, drawing, u, v, ray, normal);
            search_drawn_point(c, ray, -1 / depth, normal, p, m);
            for (int k = 0; k < 3; k++) {
                out->p[k][n] = p[k];
                out->n_[k][n] = m[k];
            }
            n++;
        }
    out->n = n;
    model_points_pad(out);
}

static void score_outline(const struct search_scene *scene, const struct search_object *object,
                          const struct search_drawing *drawing, const struct search_candidate *c,
                          struct search_outline *out)
{
    enum { OUT = SEARCH_OUTSIDE_PX };
    static const int du[4] = {1, -1, 0, 0}, dv[4] = {0, 0, 1, -1};
    const struct search_rectangle *at = &drawing->at;
    for (int v = OUT; v < at->height - OUT; v++)
        for (int u = OUT; u < at->width - OUT; u++) {
            const float *depth = drawing->depth + v * at->width + u;
            if (!(*depth < INFINITY))
                continue;
            for (int k = 0; k < 4; k++) {
                const int step = dv[k] * at->width + du[k];
                if (depth[step] < INFINITY || depth[OUT * step] < INFINITY)
                    continue;
                const int in = search_score_inside(scene, u + at->u0, v + at->v0, du[k], dv[k]);
                const int u_in = u - in * du[k], v_in = v - in * dv[k];
                if (u_in < 0 || v_in < 0 || u_in >= at->width || v_in >= at->height ||
                    !(depth[-in * step] < INFINITY))
                    continue;
                float ray[3], normal[3];
                drawn_normal(object, &scene->camera, c, drawing, u_in, v_in, ray, normal);
                search_score_edge(scene, u + at->u0, v + at->v0, du[k], dv[k], in,
                                  -1 / depth[-in * step], normal, -1 / *depth,
                                  object->info.radius_m, out);
            }
        }
}

// Beside pixel (u, v) of the rectangle, which matches.
static void score_jumps(const struct search_scene *scene, const struct search_drawing *drawing,
                        int u, int v, float gate_m, struct search_tally *tally)
{
    static const int du[4] = {1, -1, 0, 0}, dv[4] = {0, 0, 1, -1};
    const struct search_rectangle *at = &drawing->at;
    uint32_t n_beside = 0;
    for (int k = 0; k < 4; k++) {
        const int u2 = u + SEARCH_JUMP_PX * du[k], v2 = v + SEARCH_JUMP_PX * dv[k];
        if (u2 < 0 || v2 < 0 || u2 >= at->width || v2 >= at->height)
            continue;
        const float depth = drawing->depth[v2 * at->width + u2];
        if (!(depth < INFINITY))
            continue;
        n_beside++;
        const size_t pixel =
            (size_t)(v2 + at->v0) * (size_t)scene->camera.width + (size_t)(u2 + at->u0);
        search_score_jump(scene->normal_z + 4 * pixel, -1 / drawing->depth[v * at->width + u],
                          -1 / depth, gate_m, tally);
    }
    tally->n_deep += n_beside == 4;
}

// Between pixel (u, v) of the rectangle, where the model is drawn with this normal, and the one to
// the right or below.
static void score_border(const struct search_scene *scene, const struct search_object *object,
                         const struct search_drawing *drawing, const struct search_candidate *c,
                         int u, int v, bool below, const float normal[3],
                         struct search_tally *tally)
{
    const struct search_rectangle *at = &drawing->at;
    const int u2 = u + (below ? 0 : SEARCH_CROSS_PX), v2 = v + (below ? SEARCH_CROSS_PX : 0);
    if (u2 >= at->width || v2 >= at->height)
        return;
    const float depth = drawing->depth[v * at->width + u];
    const float depth2 = drawing->depth[v2 * at->width + u2];
    if (!(depth2 < INFINITY))
        return;
    const int way = search_score_cross(scene, u + at->u0, v + at->v0, below, -1 / depth,
                                       -1 / depth2, object->info.radius_m);
    float ray[3], normal2[3];
    if (way > 0) {
        search_score_border(scene, u + at->u0, v + at->v0, u2 + at->u0, v2 + at->v0, -1 / depth,
                            normal, tally);
    } else if (way < 0) {
        drawn_normal(object, &scene->camera, c, drawing, u2, v2, ray, normal2);
        search_score_border(scene, u2 + at->u0, v2 + at->v0, u + at->u0, v + at->v0, -1 / depth2,
                            normal2, tally);
    }
}

static void score_drawn(const struct search_scene *scene, const struct search_object *object,
                        const struct search_drawing *drawing, struct search_candidate *c)
{
    const struct search_camera *cam = &scene->camera;
    const float radius_m = object->info.radius_m;
    struct search_tally tally = {0};
    struct search_outline outline = {0};
    for (int v = 0; v < drawing->at.height; v++)
        for (int u = 0; u < drawing->at.width; u++) {
            float depth = drawing->depth[v * drawing->at.width + u], ray[3], normal[3];
            if (!(depth < INFINITY))
                continue;
            size_t pixel =
                (size_t)(v + drawing->at.v0) * (size_t)cam->width + (size_t)(u + drawing->at.u0);
            drawn_normal(object, cam, c, drawing, u, v, ray, normal);
            const float gate_m = search_score_drawn(scene->normal_z + 4 * pixel, -1 / depth, normal,
                                                    ray, radius_m, &tally);
            if (gate_m > 0)
                score_jumps(scene, drawing, u, v, gate_m, &tally);
            for (int k = 0; k < 2; k++)
                score_border(scene, object, drawing, c, u, v, k == 1, normal, &tally);
        }
    score_outline(scene, object, drawing, c, &outline);
    search_conclude_drawn(cam, &tally, &outline, radius_m, c);
}

#define EDGES_MAX 1024

// Edges of the image beside the drawn outline, in reading order.
static uint32_t find_edges(const struct search_scene *scene, const struct search_drawing *drawing,
                           float radius_m, const struct search_candidate *c,
                           struct search_edge *out)
{
    static const int du[4] = {1, -1, 0, 0}, dv[4] = {0, 0, 1, -1};
    const struct search_rectangle *at = &drawing->at;
    const struct search_camera *cam = &scene->camera;
    const int width = cam->width, reach = SEARCH_EDGE_REACH_PX;
    uint32_t n = 0;
    for (int v = 1; v < at->height - 1; v++)
        for (int u = 1; u < at->width - 1; u++) {
            const float *depth = drawing->depth + v * at->width + u;
            if (!(*depth < INFINITY))
                continue;
            for (int k = 0; k < 4 && n < EDGES_MAX; k++) {
                const int image_u = u + at->u0, image_v = v + at->v0;
                if (depth[dv[k] * at->width + du[k]] < INFINITY || image_u - reach - 1 < 0 ||
                    image_u + reach + 1 >= width || image_v - reach - 1 < 0 ||
                    image_v + reach + 1 >= cam->height)
                    continue;
                const float z = -1 / *depth, gate_m = 0.05f * radius_m + 3 * search_sigma(z);
                int side = -1, step = -reach - 1;
                // Outwards: onto the surface, then off it.
                while (step < reach && side != 1) {
                    step++;
                    long pixel = (long)(image_v + step * dv[k]) * width + image_u + step * du[k];
                    side = search_edge_side(scene->normal_z + 4 * pixel, z, gate_m);
                }
                while (step < reach && side == 1) {
                    step++;
                    long pixel = (long)(image_v + step * dv[k]) * width + image_u + step * du[k];
                    side = search_edge_side(scene->normal_z + 4 * pixel, z, gate_m);
                }
                if (side != 0)
                    continue;
                float ray[3], q[3];
                search_pixel_ray(cam, image_u, image_v, ray);
                for (int j = 0; j < 3; j++)
                    q[j] = ray[j] * z - c->t_m[j];
                search_turn_back(c->rotation, q, out[n].p);
                out[n].axis = k / 2;
                out[n].at_px =
                    (float)(k < 2 ? image_u + (step - 1) * du[k] : image_v + (step - 1) * dv[k]);
                n++;
            }
        }
    return n;
}

void search_refine_edges(const struct search_scene *scene, const struct search_object *object,
                         struct search_candidate *c, uint32_t n_rounds,
                         struct search_drawing *drawing)
{
    struct model_points points;
    struct search_edge edges[EDGES_MAX];
    const float radius_m = object->info.radius_m;
    for (uint32_t round = 0; round < n_rounds; round++) {
        uint32_t n_drawn = search_draw_candidate(object, &scene->camera, c, drawing);
        drawn_points(object, &scene->camera, c, drawing, n_drawn, &points);
        uint32_t n_edges = find_edges(scene, drawing, radius_m, c, edges);
        struct search_icp_gates gates = search_drawn_gates(0, 1, radius_m, c->t_m[2]);
        for (int i = 0; i < SEARCH_DRAWN_STEPS; i++) {
            int64_t sums[SEARCH_ICP_SUMS];
            int32_t edge_sums[SEARCH_ICP_SUMS] = {0};
            model_points_sums(scene, &points, &gates, radius_m, c, sums);
            for (uint32_t k = 0; k < n_edges; k++) {
                struct search_icp_row row =
                    search_edge_row(&scene->camera, &edges[k], radius_m, 4 * gates.distance_m, c);
                row.r *= 4; // in gates of the surface
                search_icp_add(&row, edge_sums);
            }
            for (int k = 0; k < SEARCH_ICP_SUMS; k++)
                sums[k] += edge_sums[k];
            if (search_icp_step(sums, radius_m, gates.distance_m, c) < SEARCH_DRAWN_SMALL)
                break;
        }
    }
    search_draw_candidate(object, &scene->camera, c, drawing);
    score_drawn(scene, object, drawing, c);
}

void search_refine_drawn(const struct search_scene *scene, const struct search_object *object,
                         struct search_candidate *c, uint32_t n_rounds,
                         struct search_drawing *drawing, struct search_slides *out_slides)
{
    struct model_points points;
    int64_t sums[SEARCH_ICP_SUMS] = {0};
    const float radius_m = object->info.radius_m;
    for (uint32_t round = 0; round < n_rounds; round++) {
        uint32_t n_drawn = search_draw_candidate(object, &scene->camera, c, drawing);
        drawn_points(object, &scene->camera, c, drawing, n_drawn, &points);
        struct search_icp_gates gates = search_drawn_gates(round, n_rounds, radius_m, c->t_m[2]);
        for (int i = 0; i < SEARCH_DRAWN_STEPS; i++) {
            model_points_sums(scene, &points, &gates, radius_m, c, sums);
            if (search_icp_step(sums, radius_m, gates.distance_m, c) < SEARCH_DRAWN_SMALL)
                break;
        }
    }
    search_draw_candidate(object, &scene->camera, c, drawing);
    score_drawn(scene, object, drawing, c);
    if (out_slides)
        search_slides_of(sums, out_slides);
}
