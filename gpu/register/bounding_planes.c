// SPDX-License-Identifier: Apache-2.0
#include "gpu/register/bounding_planes.h"

#include <math.h>
#include <string.h>

#define N_TRIED     192u  // points whose planes are tried
#define LEAST_SHARE 0.06f // of the set's points, on a wall
#define MOST_BEHIND 0.01f // of them, behind it: far points and noise
#define ON_CELLS    0.8f  // so near a plane is on it
#define CLEAR_CELLS 3.0f  // so far from it is behind it: drift and a sensor's fixed error
#define SAME_COSINE 0.94f
#define NEAR_SHARE  0.45f // of the mean range: a face nearer to the sensor is a table's or a box's

static float dot3(const float a[3], const float b[3])
{
    return a[0] * b[0] + a[1] * b[1] + a[2] * b[2];
}

static float height(const struct register_wall *wall, const struct register_cell_point *p)
{
    const float x[3] = {p->x, p->y, p->z};
    return dot3(wall->normal, x) - wall->offset;
}

static bool is_on(const struct register_wall *wall, const struct register_cell_point *p,
                  const struct register_cell_point *normal, float cell_m)
{
    const float m[3] = {normal->x, normal->y, normal->z};
    return fabsf(height(wall, p)) < ON_CELLS * cell_m && fabsf(dot3(wall->normal, m)) > SAME_COSINE;
}

// Counts the points on the plane and on its two sides; moves the plane to the middle of its own.
static uint32_t look(struct register_wall *wall, const struct register_cell_point *points,
                     const struct register_cell_point *normals, uint32_t n, float cell_m,
                     uint32_t out_sides[2])
{
    uint32_t n_on = 0;
    float sum = 0;
    out_sides[0] = out_sides[1] = 0;
    for (uint32_t i = 0; i < n; i++) {
        const float h = height(wall, &points[i]);
        if (fabsf(h) > CLEAR_CELLS * cell_m)
            out_sides[h > 0]++;
        if (is_on(wall, &points[i], &normals[i], cell_m)) {
            sum += h;
            n_on++;
        }
    }
    if (n_on > 0)
        wall->offset += sum / (float)n_on;
    return n_on;
}

static bool place(const struct register_wall *wall, const float p[3], float cell_m, int out[2])
{
    out[0] = (int)floorf((dot3(wall->u, p) - wall->middle[0]) / cell_m) + REGISTER_WALL_SIDE / 2;
    out[1] = (int)floorf((dot3(wall->v, p) - wall->middle[1]) / cell_m) + REGISTER_WALL_SIDE / 2;
    return out[0] >= 0 && out[0] < REGISTER_WALL_SIDE && out[1] >= 0 && out[1] < REGISTER_WALL_SIDE;
}

// Axes in the plane, and a map of where the set's points are on it, a cell wider all around.
static void draw(struct register_wall *wall, const struct register_cell_point *points,
                 const struct register_cell_point *normals, uint32_t n, float cell_m)
{
    const float *m = wall->normal;
    const float a[3] = {fabsf(m[0]) < 0.6f, fabsf(m[0]) >= 0.6f, 0};
    const float along = dot3(a, m);
    float low[2] = {INFINITY, INFINITY}, high[2] = {-INFINITY, -INFINITY};
    for (int k = 0; k < 3; k++)
        wall->u[k] = a[k] - along * m[k];
    const float length = sqrtf(dot3(wall->u, wall->u));
    for (int k = 0; k < 3; k++)
        wall->u[k] /= length;
    for (int k = 0; k < 3; k++)
        wall->v[k] = m[(k + 1) % 3] * wall->u[(k + 2) % 3] - m[(k + 2) % 3] * wall->u[(k + 1) % 3];
    for (int pass = 0; pass < 2; pass++) {
        for (uint32_t i = 0; i < n; i++) {
            const float p[3] = {points[i].x, points[i].y, points[i].z};
            const float at[2] = {dot3(wall->u, p), dot3(wall->v, p)};
            int c[2];
            if (!is_on(wall, &points[i], &normals[i], cell_m))
                continue;
            for (int k = 0; k < 2 && pass == 0; k++) {
                low[k] = fminf(low[k], at[k]);
                high[k] = fmaxf(high[k], at[k]);
            }
            if (pass == 0 || !place(wall, p, cell_m, c))
                continue;
            for (int dy = -1; dy <= 1; dy++)
                for (int dx = -1; dx <= 1; dx++)
                    if (c[0] + dx >= 0 && c[0] + dx < REGISTER_WALL_SIDE && c[1] + dy >= 0 &&
                        c[1] + dy < REGISTER_WALL_SIDE)
                        wall->seen[(c[1] + dy) * REGISTER_WALL_SIDE + c[0] + dx] = 1;
        }
        for (int k = 0; k < 2; k++)
            wall->middle[k] = 0.5f * (low[k] + high[k]);
    }
}

static bool is_known(const struct register_walls *walls, const struct register_wall *wall)
{
    for (uint32_t i = 0; i < walls->n; i++) {
        const float along = dot3(walls->wall[i].normal, wall->normal);
        const float offset = along < 0 ? -wall->offset : wall->offset;
        if (fabsf(along) > SAME_COSINE &&
            fabsf(walls->wall[i].offset - offset) < CLEAR_CELLS * walls->cell_m)
            return true;
    }
    return false;
}

static float mean_range(const struct register_cell_point *points, uint32_t n, const float sensor[3])
{
    double sum = 0;
    for (uint32_t i = 0; i < n; i++) {
        const float d[3] = {points[i].x - sensor[0], points[i].y - sensor[1],
                            points[i].z - sensor[2]};
        sum += (double)sqrtf(dot3(d, d));
    }
    return n > 0 ? (float)(sum / n) : 0;
}

void register_walls_find(const struct register_cell_point *points,
                         const struct register_cell_point *normals, uint32_t n, float cell_m,
                         const float *sensor, struct register_walls *out)
{
    const float nearest_m =
        sensor ? fmaxf(CLEAR_CELLS * cell_m, NEAR_SHARE * mean_range(points, n, sensor)) : 0;
    memset(out, 0, sizeof *out);
    out->cell_m = cell_m;
    for (uint32_t tried = 0; tried < N_TRIED && tried < n; tried++) {
        const uint32_t i = (uint32_t)((uint64_t)tried * n / (n < N_TRIED ? n : N_TRIED));
        const float p[3] = {points[i].x, points[i].y, points[i].z};
        struct register_wall wall = {
            {normals[i].x, normals[i].y, normals[i].z}, 0, {0}, {0}, {0}, {0}};
        uint32_t sides[2];
        wall.offset = dot3(wall.normal, p);
        if (!(dot3(wall.normal, wall.normal) > 0.5f))
            continue;
        uint32_t on = look(&wall, points, normals, n, cell_m, sides);
        on = look(&wall, points, normals, n, cell_m, sides);
        const int behind = sides[1] < sides[0];
        if ((float)on < LEAST_SHARE * (float)n || (float)sides[behind] > MOST_BEHIND * (float)n ||
            is_known(out, &wall) || out->n == REGISTER_MOST_WALLS)
            continue;
        for (int k = 0; k < 3 && behind; k++)
            wall.normal[k] = -wall.normal[k];
        wall.offset = behind ? -wall.offset : wall.offset;
        if (sensor && dot3(wall.normal, sensor) - wall.offset < nearest_m)
            continue;
        draw(&wall, points, normals, n, cell_m);
        out->wall[out->n++] = wall;
    }
}

double register_walls_behind(const struct register_walls *walls, const struct se3 *T,
                             const struct register_cell_point *points, uint32_t n)
{
    uint32_t n_behind = 0;
    for (uint32_t i = 0; i < n; i++) {
        const double p[3] = {points[i].x, points[i].y, points[i].z};
        double moved[3];
        bool behind = false;
        se3_apply(T, p, moved);
        const struct register_cell_point at = {(float)moved[0], (float)moved[1], (float)moved[2],
                                               0};
        const float q[3] = {at.x, at.y, at.z};
        for (uint32_t w = 0; w < walls->n && !behind; w++) {
            const struct register_wall *wall = &walls->wall[w];
            int c[2];
            behind = height(wall, &at) < -CLEAR_CELLS * walls->cell_m &&
                     place(wall, q, walls->cell_m, c) &&
                     wall->seen[c[1] * REGISTER_WALL_SIDE + c[0]];
        }
        n_behind += behind;
    }
    return n > 0 ? (double)n_behind / n : 0;
}
