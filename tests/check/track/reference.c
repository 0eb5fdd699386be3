// SPDX-License-Identifier: Apache-2.0
#include "tests/check/track/reference.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "gpu/track/kernels/solve.h"
#include "proto/se3.h"

// Single precision rounds a comparison of lengths to about this share of them.
#define SHARE_UNDECIDED           2e-6
// A projection in single precision: four roundings of a coordinate up to 4096 px.
#define PIXEL_UNDECIDED_PX(width) (1e-6 * (width) + 2e-5)

struct reference_level reference_camera(const struct gpu_settings *settings, int level)
{
    const struct intrinsics *c = &settings->camera;
    double s = 1.0 / (1 << level);
    struct reference_level out = {c->fx_px * s,
                                  c->fy_px * s,
                                  c->cx_px * s,
                                  c->cy_px * s,
                                  (int)c->width_px / (1 << level),
                                  (int)c->height_px / (1 << level),
                                  level > 0 ? 2 << level : 1};
    return out;
}

// One sigma of the sensor: Nguyen, Izadi, Lovell 2012, eq. 3.
static double sigma_m(double z_m)
{
    return 0.0012 + 0.0019 * (z_m - 0.4) * (z_m - 0.4);
}

static bool near_m(double a, double b)
{
    return fabs(a - b) <= SHARE_UNDECIDED * fmax(fabs(a), fabs(b));
}

// Of pixel i of the image: range first, then the sensor's own error in inverse depth.
static double depth_m(const struct gpu_settings *s, const uint16_t *depth, int i,
                      bool *out_undecided)
{
    uint16_t raw = depth[i];
    double z_m = raw / s->units_per_m;
    bool marked = raw == 0 || raw == 65535;
    *out_undecided = !marked && (near_m(z_m, s->depth_min_m) || near_m(z_m, s->depth_max_m));
    if (marked || !(z_m >= (double)s->depth_min_m && z_m <= (double)s->depth_max_m))
        return 0;
    return s->field_per_m ? 1 / (1 / z_m + (double)s->field_per_m[i]) : z_m;
}

void reference_filter(const struct gpu_settings *s, const uint16_t *depth, struct reference_px *out)
{
    int w = (int)s->camera.width_px, h = (int)s->camera.height_px;
    int radius = (int)s->bilateral_radius_px;
    double sigma2 = (double)s->bilateral_sigma_px * s->bilateral_sigma_px;
    for (int v = 0; v < h; v++)
        for (int u = 0; u < w; u++) {
            struct reference_px *px = &out[v * w + u];
            memset(px, 0, sizeof *px);
            double z = depth_m(s, depth, v * w + u, &px->undecided);
            if (z == 0)
                continue;
            double cut = s->bilateral_cut_sigmas * sigma_m(z), sum_w = 0, sum_wz = 0;
            for (int y = v - radius; y <= v + radius; y++)
                for (int x = u - radius; x <= u + radius; x++) {
                    if (x < 0 || y < 0 || x >= w || y >= h)
                        continue;
                    bool undecided;
                    double zk = depth_m(s, depth, y * w + x, &undecided);
                    double e = (zk - z) / cut;
                    if (zk == 0 && !undecided)
                        continue;
                    if (fabs(e) < 1) {
                        double d2 = (x - u) * (x - u) + (y - v) * (y - v);
                        double b = 1 - e * e, weight = exp(-d2 / (2 * sigma2)) * b * b;
                        sum_w += weight;
                        sum_wz += weight * zk;
                    }
                    px->undecided |= undecided;
                }
            px->z_m = sum_wz / sum_w;
        }
}

void reference_maps(const struct gpu_settings *settings, int level, const float *z_m,
                    size_t z_stride, struct reference_px *out)
{
    struct reference_level c = reference_camera(settings, level);
    for (int v = 0; v < c.height_px; v++)
        for (int u = 0; u < c.width_px; u++) {
            struct reference_px *px = &out[v * c.width_px + u];
            memset(px, 0, sizeof *px);
            static const int step[4][2] = {{-1, 0}, {1, 0}, {0, -1}, {0, 1}};
            double z = (double)z_m[z_stride * (size_t)(v << level) + (size_t)(u << level)], zk[4];
            px->z_m = z;
            bool valid = z > 0;
            for (int k = 0; k < 4; k++) {
                int x = u + step[k][0], y = v + step[k][1];
                bool inside = x >= 0 && y >= 0 && x < c.width_px && y < c.height_px;
                zk[k] = inside ? (double)z_m[z_stride * (size_t)(y << level) + (size_t)(x << level)]
                               : 0;
                double step_m = fabs(zk[k] - z), gate_m = (double)MAPS_GATE_SHARE * z;
                valid = valid && zk[k] > 0 && step_m <= gate_m;
                px->undecided |= zk[k] > 0 && near_m(step_m, gate_m);
            }
            if (!valid && !px->undecided)
                continue;
            // The cross product of the surface's two tangents, from points.
            double x = (u - c.cx_px) / c.fx_px, y = (v - c.cy_px) / c.fy_px;
            double zu = (zk[1] - zk[0]) / 2, zv = (zk[3] - zk[2]) / 2;
            double a[3] = {z / c.fx_px + x * zu, y * zu, zu};
            double b[3] = {x * zv, z / c.fy_px + y * zv, zv};
            double n[3] = {a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2],
                           a[0] * b[1] - a[1] * b[0]};
            double length = sqrt(n[0] * n[0] + n[1] * n[1] + n[2] * n[2]);
            double away = n[0] * x + n[1] * y + n[2] > 0 ? -1 : 1;
            for (int i = 0; i < 3 && valid; i++)
                px->n[i] = away * n[i] / length;
        }
}

// The terms of one pair; false when it is not one.
static bool pair_terms(const struct reference_level *c, const struct gpu_align_settings *align,
                       const struct reference_scale *scale, const double q[3], const double n_s[3],
                       double source_z_m, int u, int v, const struct map_px *target,
                       double out[ICP_N_SUMS], bool *out_undecided)
{
    memset(out, 0, ICP_N_SUMS * sizeof *out);
    *out_undecided = false;
    if (u < 0 || v < 0 || u >= c->width_px || v >= c->height_px)
        return false;
    const struct map_px *p = &target[v * c->width_px + u];
    double n[3] = {(double)p->nx, (double)p->ny, (double)p->nz}, z = (double)p->z_m;
    if (n[0] == 0 && n[1] == 0 && n[2] == 0)
        return false;
    double t[3] = {(u - c->cx_px) / c->fx_px * z, (v - c->cy_px) / c->fy_px * z, z};
    double distance2 = 0, cosine = 0, r = 0;
    for (int i = 0; i < 3; i++) {
        distance2 += (q[i] - t[i]) * (q[i] - t[i]);
        cosine += n[i] * n_s[i];
        r += n[i] * (q[i] - t[i]);
    }
    bool wide = c->widening > 1 && !scale->information;
    double gate_m = (double)align->gate_distance_m * (wide ? c->widening : 1);
    double gate_cos = cos((double)align->gate_angle_rad);
    *out_undecided =
        fabs(sqrt(distance2) - gate_m) <= 4 * SHARE_UNDECIDED * (source_z_m + gate_m) ||
        fabs(cosine - gate_cos) <= SHARE_UNDECIDED;
    bool pair = distance2 <= gate_m * gate_m && cosine > gate_cos;
    if (!pair && !*out_undecided)
        return false;

    double precision = (double)ICP_SIGMA0_M / sigma_m(source_z_m), e = r * precision;
    double weight = precision * precision, capped = fabs(e);
    if (scale->known) {
        double x = e / ((double)ICP_TUKEY_CUT * scale->scale_m);
        if (!wide)
            weight *= fabs(x) < 1 ? (1 - x * x) * (1 - x * x) : 0;
        capped = fmin(capped, (double)ICP_WINSOR_CUT * scale->scale_m);
    }
    double j[6] = {n[0],
                   n[1],
                   n[2],
                   q[1] * n[2] - q[2] * n[1],
                   q[2] * n[0] - q[0] * n[2],
                   q[0] * n[1] - q[1] * n[0]};
    double j_s[6] = {n_s[0],
                     n_s[1],
                     n_s[2],
                     q[1] * n_s[2] - q[2] * n_s[1],
                     q[2] * n_s[0] - q[0] * n_s[2],
                     q[0] * n_s[1] - q[1] * n_s[0]};
    const double *other = scale->information ? j_s : j;
    int k = ICP_SUM_H;
    for (int i = 0; i < 6; i++)
        for (int m = i; m < 6; m++)
            out[k++] = weight * (j[i] * other[m] + other[i] * j[m]) / 2;
    for (int i = 0; i < 6; i++)
        out[ICP_SUM_G + i] = weight * j[i] * r;
    out[ICP_SUM_WRR] = weight * r * r;
    out[ICP_SUM_W] = weight;
    out[ICP_SUM_ABS] = capped;
    out[ICP_SUM_PAIRS] = 1;
    return pair;
}

// Adds one source pixel that fell on (u, v) px of the reference.
static void source_add(const struct reference_level *c, const struct gpu_align_settings *align,
                       const struct reference_scale *scale, const double q[3], const double n_s[3],
                       double source_z_m, double u, double v, const struct map_px *target,
                       struct reference_sums *out)
{
    double terms[ICP_N_SUMS];
    bool undecided;
    bool pair = pair_terms(c, align, scale, q, n_s, source_z_m, (int)floor(u + 0.5),
                           (int)floor(v + 0.5), target, terms, &undecided);
    for (int i = 0; i < ICP_N_SUMS; i++) {
        out->value[i] += pair ? terms[i] : 0;
        out->magnitude[i] += pair ? fabs(terms[i]) : 0;
        out->undecided[i] += undecided ? fabs(terms[i]) : 0;
    }
    // The pixels that rounding might have chosen instead.
    double eps = PIXEL_UNDECIDED_PX(c->width_px);
    for (int side = 1; side < 4; side++) {
        double u2 = u, v2 = v;
        if (side & 1)
            u2 += floor(u + eps + 0.5) > floor(u + 0.5)   ? 2 * eps
                  : floor(u - eps + 0.5) < floor(u + 0.5) ? -2 * eps
                                                          : NAN;
        if (side & 2)
            v2 += floor(v + eps + 0.5) > floor(v + 0.5)   ? 2 * eps
                  : floor(v - eps + 0.5) < floor(v + 0.5) ? -2 * eps
                                                          : NAN;
        if (isnan(u2) || isnan(v2))
            continue;
        double other[ICP_N_SUMS];
        bool other_pair = pair_terms(c, align, scale, q, n_s, source_z_m, (int)floor(u2 + 0.5),
                                     (int)floor(v2 + 0.5), target, other, &undecided);
        for (int i = 0; i < ICP_N_SUMS; i++)
            out->undecided[i] +=
                fabs((other_pair || undecided ? other[i] : 0) - (pair ? terms[i] : 0));
    }
}

void reference_icp(const struct gpu_settings *settings, const struct gpu_align_settings *align,
                   int level, const struct map_px *source, const struct map_px *target,
                   const struct se3 *T_reference_frame, const struct reference_scale *scale,
                   struct reference_sums *out)
{
    struct reference_level c = reference_camera(settings, level);
    memset(out, 0, sizeof *out);
    for (int y = 0; y < c.height_px; y++)
        for (int x = 0; x < c.width_px; x++) {
            const struct map_px *s = &source[y * c.width_px + x];
            double n[3] = {(double)s->nx, (double)s->ny, (double)s->nz}, z = (double)s->z_m;
            if (n[0] == 0 && n[1] == 0 && n[2] == 0)
                continue;
            out->value[ICP_SUM_VALID] += 1;
            double p[3] = {(x - c.cx_px) / c.fx_px * z, (y - c.cy_px) / c.fy_px * z, z};
            double q[3], n_s[3];
            struct se3 rotation = *T_reference_frame;
            memset(rotation.t_m, 0, sizeof rotation.t_m);
            se3_apply(T_reference_frame, p, q);
            se3_apply(&rotation, n, n_s);
            if (!(q[2] > 0))
                continue;
            double u = q[0] / q[2] * c.fx_px + c.cx_px, v = q[1] / q[2] * c.fy_px + c.cy_px;
            if (u > -2 && v > -2 && u < c.width_px + 1 && v < c.height_px + 1)
                source_add(&c, align, scale, q, n_s, z, u, v, target, out);
        }
}

// The scale that an iteration's sums leave to the next one.
static struct reference_scale reference_scale_next(const struct reference_sums *sums)
{
    // 1.2533 = sqrt(pi / 2)
    double mean_m = sums->value[ICP_SUM_ABS] / sums->value[ICP_SUM_PAIRS];
    return (struct reference_scale){
        .known = true,
        .scale_m = fmax(1.2533141373155 * mean_m, (double)ICP_SCALE_FLOOR_M),
    };
}

// Gaussian elimination with pivoting; H is damped as the contract says. False: singular.
static bool solve6(const double *h, const double *g, double share, double out_x[6])
{
    double a[6][7];
    for (int i = 0; i < 6; i++) {
        for (int j = 0; j < 6; j++)
            a[i][j] = h[6 * i + j];
        a[i][6] = -g[i];
    }
    for (int block = 0; block < 6; block += 3) {
        double damping = share * (h[7 * block] + h[7 * block + 7] + h[7 * block + 14]);
        for (int i = block; i < block + 3; i++)
            a[i][i] += damping;
    }
    for (int col = 0; col < 6; col++) {
        int pivot = col;
        for (int i = col + 1; i < 6; i++)
            if (fabs(a[i][col]) > fabs(a[pivot][col]))
                pivot = i;
        if (a[pivot][col] == 0)
            return false;
        for (int j = 0; j < 7; j++) {
            double swap = a[col][j];
            a[col][j] = a[pivot][j];
            a[pivot][j] = swap;
        }
        for (int i = 0; i < 6; i++) {
            double f = a[i][col] / a[col][col];
            for (int j = col; j < 7 && i != col; j++)
                a[i][j] -= f * a[col][j];
        }
    }
    for (int i = 0; i < 6; i++)
        out_x[i] = a[i][6] / a[i][i];
    return true;
}

static void sums_unpack(const double *sums, struct gpu_alignment *out)
{
    for (int i = 0, k = ICP_SUM_H; i < 6; i++)
        for (int j = i; j < 6; j++)
            out->h[6 * i + j] = out->h[6 * j + i] = sums[k++];
    memcpy(out->g, sums + ICP_SUM_G, sizeof out->g);
    out->weight_sum = sums[ICP_SUM_W];
    out->residual_rms_m = out->weight_sum > 0 ? sqrt(sums[ICP_SUM_WRR] / out->weight_sum) : 0;
    out->n_pairs = (uint32_t)sums[ICP_SUM_PAIRS];
    out->n_valid_px = (uint32_t)sums[ICP_SUM_VALID];
}

void reference_align(const struct gpu_settings *settings, const struct gpu_align_settings *align,
                     const struct map_px *const source[GPU_LEVELS],
                     const struct map_px *const target[GPU_LEVELS],
                     const struct se3 *T_reference_frame, struct gpu_alignment *out,
                     struct reference_sums *out_sums)
{
    struct reference_scale scale = {0};
    struct se3 T = *T_reference_frame;
    memset(out, 0, sizeof *out);
    memset(out_sums, 0, sizeof *out_sums);
    out->solvable = true;
    for (int level = GPU_LEVELS - 1; level >= 0 && out->solvable; level--)
        for (uint32_t i = 0; i < align->iterations[level] && out->solvable; i++) {
            double twist[6], arm2;
            reference_icp(settings, align, level, source[level], target[level], &T, &scale,
                          out_sums);
            const double *sums = out_sums->value;
            sums_unpack(sums, out);
            out->solvable = out->n_pairs >= ICP_MIN_PAIRS &&
                            solve6(out->h, out->g, solve_damping((uint32_t)level), twist);
            if (!out->solvable)
                break;
            struct se3 step = se3_exp(twist);
            T = se3_compose(&step, &T);
            scale = reference_scale_next(out_sums);
            out->n_iterations[level]++;
            arm2 = (out->h[21] + out->h[28] + out->h[35]) / out->weight_sum;
            double size2 = 0;
            for (int k = 0; k < 6; k++)
                size2 += (k < 3 ? 1 : arm2) * twist[k] * twist[k];
            out->step_norm = sqrt(size2);
            out->converged = out->step_norm * out->step_norm < solve_stop2_m2((uint32_t)level);
            if (align->early_stop && out->converged)
                break;
        }
    out->T_reference_frame = out->solvable ? T : *T_reference_frame;
}
