// SPDX-License-Identifier: Apache-2.0
#include "gpu/track/calibrate_pairs.h"

#include <math.h>

#define ASIDE_ONE_IN   5  // frames
#define TRIES          40 // random pairs looked at for one that is taken
#define MIN_OVERLAP    0.4
#define COS_NORMALS    0.8
#define COS_INCIDENCE  0.3
// Of a full image as many square pixels err alike: 44 x 44.
#define CORRELATED_PX2 1920.0
#define TUKEY          4.685 // 95 % efficiency under Gaussian noise

static uint32_t draw(struct calibrate *c, uint32_t n) // xorshift64
{
    c->random ^= c->random << 13;
    c->random ^= c->random >> 7;
    c->random ^= c->random << 17;
    return (uint32_t)((c->random >> 32) % n);
}

static void rotate(const double r[9], const double v[3], double out[3])
{
    for (int k = 0; k < 3; k++)
        out[k] = r[3 * k] * v[0] + r[3 * k + 1] * v[1] + r[3 * k + 2] * v[2];
}

static double dot(const double a[3], const double b[3])
{
    return a[0] * b[0] + a[1] * b[1] + a[2] * b[2];
}

static void cross(const double a[3], const double b[3], double out[3])
{
    out[0] = a[1] * b[2] - a[2] * b[1];
    out[1] = a[2] * b[0] - a[0] * b[2];
    out[2] = a[0] * b[1] - a[1] * b[0];
}

double calibrate_worth(const struct calibrate_eye *eye, int stride_px)
{
    const double apart_px = (double)(stride_px << eye->map_level);
    return apart_px * apart_px / CORRELATED_PX2;
}

double calibrate_weight(double r, double scale)
{
    double x = r / (TUKEY * scale), y = 1 - x * x;
    return y > 0 ? y * y : 0;
}

// Inverse depth at a pixel, its field added.
static double inverse_depth(const struct calibrate_side *side, const struct depth_error_cell *cell,
                            float z_m)
{
    double w = 1 / (double)z_m;
    for (int k = 0; side->field && k < 4; k++)
        w += cell->weight[k] * (double)side->field->node_per_m[cell->node[k]];
    return w;
}

bool calibrate_sample(const struct calibrate_side *i, const struct calibrate_side *j,
                      const struct se3 *T_j_i, int x, int y, struct calibrate_sample *out)
{
    const struct level_camera *l = &i->eye->level, *m = &j->eye->level;
    const double scale = 1 << i->eye->map_level, scale_j = 1 << j->eye->map_level;
    const float *p = i->map + 4 * ((size_t)y * (size_t)l->width_px + (size_t)x);
    if (!(p[3] > 0) || (p[0] == 0 && p[1] == 0 && p[2] == 0))
        return false;
    double ray[3] = {(x - (double)l->cx_px) / (double)l->fx_px,
                     (y - (double)l->cy_px) / (double)l->fy_px, 1};
    out->from = depth_error_cell(&i->eye->camera, scale * x, scale * y);
    const double w = inverse_depth(i, &out->from, p[3]);
    double P[3] = {ray[0] / w, ray[1] / w, 1 / w}, X[3], turned[3];
    se3_apply(T_j_i, P, X);
    if (!(X[2] > 0.1))
        return false;
    double u = X[0] / X[2] * (double)m->fx_px + (double)m->cx_px;
    double v = X[1] / X[2] * (double)m->fy_px + (double)m->cy_px;
    if (!(u >= 0 && v >= 0 && u < m->width_px - 1 && v < m->height_px - 1))
        return false;
    int ui = (int)(u + 0.5), vi = (int)(v + 0.5);
    const float *q = j->map + 4 * ((size_t)vi * (size_t)m->width_px + (size_t)ui);
    if (!(q[3] > 0) || (q[0] == 0 && q[1] == 0 && q[2] == 0))
        return false;
    const double n[3] = {(double)q[0], (double)q[1], (double)q[2]};
    const double n_i[3] = {(double)p[0], (double)p[1], (double)p[2]};
    double to[3] = {(ui - (double)m->cx_px) / (double)m->fx_px,
                    (vi - (double)m->cy_px) / (double)m->fy_px, 1};
    rotate(T_j_i->r, n_i, turned);
    if (dot(turned, n) < COS_NORMALS || dot(n, to) > -COS_INCIDENCE * sqrt(dot(to, to)) ||
        dot(n_i, ray) > -COS_INCIDENCE * sqrt(dot(ray, ray)))
        return false;
    out->to = depth_error_cell(&j->eye->camera, scale_j * ui, scale_j * vi);
    const double w_j = inverse_depth(j, &out->to, q[3]);
    // j's tangent plane is n . Y = d; along the ray of X it has the inverse depth
    // n . (X / X_z) / d, X has 1 / X_z.
    double d = dot(n, to) / w_j, e = dot(n, X) - d, s = -1 / (d * X[2]);
    out->r = s * e;
    if (!(fabs(out->r) < CALIBRATE_GATE_PER_M))
        return false;
    double away[3] = {-P[0] / w, -P[1] / w, -P[2] / w}, moved[3], back[3], turn[3];
    rotate(T_j_i->r, away, moved);
    out->by_from = s * dot(n, moved);
    out->by_to = s * d / w_j;
    for (int k = 0; k < 3; k++)
        back[k] = T_j_i->r[k] * n[0] + T_j_i->r[3 + k] * n[1] + T_j_i->r[6 + k] * n[2];
    cross(P, back, turn);
    for (int k = 0; k < 3; k++) {
        out->by_i[k] = s * back[k];
        out->by_i[3 + k] = s * turn[k];
    }
    cross(X, n, turn);
    for (int k = 0; k < 3; k++) {
        out->by_j[k] = -s * n[k];
        out->by_j[3 + k] = -s * turn[k];
    }
    out->flow_px = scale * hypot(u - x, v - y);
    return true;
}

bool calibrate_sees_enough(const struct calibrate_side *i, const struct calibrate_side *j,
                           const struct se3 *T_j_i)
{
    int n_all = 0, n = 0;
    double flow_px = 0;
    for (int y = CALIBRATE_LOOK_PX / 3; y < i->eye->level.height_px; y += CALIBRATE_LOOK_PX)
        for (int x = CALIBRATE_LOOK_PX / 3; x < i->eye->level.width_px; x += CALIBRATE_LOOK_PX) {
            struct calibrate_sample sample;
            n_all++;
            if (!calibrate_sample(i, j, T_j_i, x, y, &sample))
                continue;
            n++;
            flow_px += sample.flow_px;
        }
    return n >= MIN_OVERLAP * n_all && flow_px >= CALIBRATE_FLOW_PX * n;
}

static bool is_useful(const struct calibrate *c, const struct calibrate_frame *i,
                      const struct calibrate_frame *j)
{
    if (i->group != j->group || fabs((double)(i->time_ns - j->time_ns)) > c->max_apart_s * 1e9)
        return false;
    struct se3 T_j_i = se3_between(&j->T, &i->T);
    const struct calibrate_side from = {&c->eye, NULL, i->map}, to = {&c->eye, NULL, j->map};
    return calibrate_sees_enough(&from, &to, &T_j_i);
}

static bool is_aside(uint32_t frame)
{
    return frame % ASIDE_ONE_IN == ASIDE_ONE_IN / 2;
}

uint32_t calibrate_choose_pairs(struct calibrate *c, enum calibrate_choice choice, uint32_t max,
                                struct calibrate_pair *out)
{
    uint32_t n = 0;
    for (uint32_t t = 0; t < max * TRIES && n < max; t++) {
        struct calibrate_pair pair;
        pair.i = draw(c, c->n_frames);
        pair.j = draw(c, c->n_frames);
        if (pair.i == pair.j)
            continue;
        if (choice != CALIBRATE_ALL &&
            (is_aside(pair.i) || is_aside(pair.j)) != (choice == CALIBRATE_ASIDE))
            continue;
        if (choice == CALIBRATE_ASIDE && !(is_aside(pair.i) && is_aside(pair.j)))
            continue;
        bool known = false;
        for (uint32_t k = 0; k < n; k++)
            known = known || (out[k].i == pair.i && out[k].j == pair.j);
        if (!known && is_useful(c, &c->frames[pair.i], &c->frames[pair.j]))
            out[n++] = pair;
    }
    return n;
}
