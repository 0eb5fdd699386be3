// SPDX-License-Identifier: Apache-2.0
#include "tests/check/register/reference.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const double pi = 3.14159265358979323846;

static double dot(const double a[3], const double b[3])
{
    return a[0] * b[0] + a[1] * b[1] + a[2] * b[2];
}

static void cross(const double a[3], const double b[3], double out[3])
{
    const double c[3] = {a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2],
                         a[0] * b[1] - a[1] * b[0]};
    memcpy(out, c, sizeof c);
}

static void moved(const struct se3 *T, const double p[3], double out[3])
{
    double q[3];
    for (int i = 0; i < 3; i++)
        q[i] = dot(T->r + 3 * i, p) + T->t_m[i];
    memcpy(out, q, sizeof q);
}

static struct se3 product(const struct se3 *a, const struct se3 *b)
{
    struct se3 out;
    for (int i = 0; i < 3; i++)
        for (int j = 0; j < 3; j++) {
            const double column[3] = {b->r[j], b->r[3 + j], b->r[6 + j]};
            out.r[3 * i + j] = dot(a->r + 3 * i, column);
        }
    moved(a, b->t_m, out.t_m);
    return out;
}

// ---- Steps

// Quaternions w, x, y, z.
static void quaternion_product(const double a[4], const double b[4], double out[4])
{
    double v[3];
    cross(a + 1, b + 1, v);
    out[0] = a[0] * b[0] - dot(a + 1, b + 1);
    for (int i = 0; i < 3; i++)
        out[1 + i] = a[0] * b[1 + i] + b[0] * a[1 + i] + v[i];
}

// Largest eigenvalue's vector of a symmetric 4x4 by Jacobi's rotations; returns the gap to the
// second in units of the largest |eigenvalue|.
static double largest_eigenvector(double m[4][4], double out[4])
{
    double v[4][4] = {{1, 0, 0, 0}, {0, 1, 0, 0}, {0, 0, 1, 0}, {0, 0, 0, 1}};
    for (int sweep = 0; sweep < 60; sweep++)
        for (int p = 0; p < 3; p++)
            for (int q = p + 1; q < 4; q++) {
                if (m[p][q] == 0)
                    continue;
                const double angle = 0.5 * atan2(2 * m[p][q], m[q][q] - m[p][p]);
                const double c = cos(angle), s = sin(angle);
                for (int k = 0; k < 4; k++) {
                    const double a = m[k][p], b = m[k][q];
                    m[k][p] = c * a - s * b;
                    m[k][q] = s * a + c * b;
                }
                for (int k = 0; k < 4; k++) {
                    const double a = m[p][k], b = m[q][k];
                    m[p][k] = c * a - s * b;
                    m[q][k] = s * a + c * b;
                }
                for (int k = 0; k < 4; k++) {
                    const double a = v[k][p], b = v[k][q];
                    v[k][p] = c * a - s * b;
                    v[k][q] = s * a + c * b;
                }
            }
    int best = 0;
    double most = 0, second = -INFINITY;
    for (int i = 0; i < 4; i++) {
        best = m[i][i] > m[best][best] ? i : best;
        most = fmax(most, fabs(m[i][i]));
    }
    for (int i = 0; i < 4; i++) {
        out[i] = v[i][best];
        second = i != best ? fmax(second, m[i][i]) : second;
    }
    return most > 0 ? (m[best][best] - second) / most : 0;
}

double reference_points_step(const struct reference_pairs *pairs, struct se3 *out)
{
    double mass = 0, centre_x[3] = {0}, centre_y[3] = {0}, form[4][4] = {{0}}, q[4];
    for (size_t i = 0; i < pairs->n; i++) {
        const struct reference_pair *p = &pairs->pair[i];
        mass += p->w;
        for (int a = 0; a < 3; a++) {
            centre_x[a] += p->w * p->x[a];
            centre_y[a] += p->w * p->y[a];
        }
    }
    for (int a = 0; a < 3; a++) {
        centre_x[a] /= mass;
        centre_y[a] /= mass;
    }
    // x . (q y q*) = (x q) . (q y): a quadratic form of q.
    for (size_t i = 0; i < pairs->n; i++) {
        const struct reference_pair *p = &pairs->pair[i];
        double x[4] = {0}, y[4] = {0}, left[4][4], right[4][4];
        for (int a = 0; a < 3; a++) {
            x[1 + a] = p->x[a] - centre_x[a];
            y[1 + a] = p->y[a] - centre_y[a];
        }
        for (int k = 0; k < 4; k++) {
            double unit[4] = {0};
            unit[k] = 1;
            quaternion_product(x, unit, left[k]);
            quaternion_product(unit, y, right[k]);
        }
        for (int k = 0; k < 4; k++)
            for (int m = 0; m < 4; m++)
                for (int c = 0; c < 4; c++)
                    form[k][m] +=
                        0.5 * p->w * (left[k][c] * right[m][c] + left[m][c] * right[k][c]);
    }
    const double gap = largest_eigenvector(form, q), conjugate[4] = {q[0], -q[1], -q[2], -q[3]};
    for (int k = 0; k < 3; k++) {
        double unit[4] = {0}, half[4], turned[4];
        unit[1 + k] = 1;
        quaternion_product(q, unit, half);
        quaternion_product(half, conjugate, turned);
        for (int i = 0; i < 3; i++)
            out->r[3 * i + k] = turned[1 + i];
    }
    for (int i = 0; i < 3; i++)
        out->t_m[i] = centre_x[i] - dot(out->r + 3 * i, centre_y);
    return gap;
}

struct se3 reference_exp(const double twist[6])
{
    double m[16] = {0}, sum[16] = {0}, term[16] = {0}, next[16];
    const double *w = twist + 3;
    for (int k = 0; k < 3; k++) {
        double unit[3] = {0}, turned[3];
        unit[k] = 1;
        cross(w, unit, turned);
        for (int i = 0; i < 3; i++)
            m[4 * i + k] = turned[i] / 1024;
        m[4 * k + 3] = twist[k] / 1024;
    }
    for (int i = 0; i < 4; i++)
        sum[5 * i] = term[5 * i] = 1;
    for (int order = 1; order < 20; order++) {
        for (int i = 0; i < 4; i++)
            for (int j = 0; j < 4; j++) {
                next[4 * i + j] = 0;
                for (int k = 0; k < 4; k++)
                    next[4 * i + j] += term[4 * i + k] * m[4 * k + j] / order;
            }
        memcpy(term, next, sizeof term);
        for (int i = 0; i < 16; i++)
            sum[i] += term[i];
    }
    struct se3 out;
    for (int i = 0; i < 3; i++) {
        memcpy(out.r + 3 * i, sum + 4 * i, 3 * sizeof *out.r);
        out.t_m[i] = sum[4 * i + 3];
    }
    for (int squaring = 0; squaring < 10; squaring++)
        out = product(&out, &out);
    return out;
}

// d (exp(twist) y) along the k-th component of the twist.
static void motion_of(const double y[3], int k, double out[3])
{
    double unit[3] = {0};
    unit[k % 3] = 1;
    if (k < 3)
        memcpy(out, unit, sizeof unit);
    else
        cross(unit, y, out);
}

double reference_planes_step(const struct reference_pairs *pairs, struct se3 *out)
{
    double a[6][7] = {{0}}, least = INFINITY, most = 0, twist[6];
    for (size_t i = 0; i < pairs->n; i++) {
        const struct reference_pair *p = &pairs->pair[i];
        const double off[3] = {p->x[0] - p->y[0], p->x[1] - p->y[1], p->x[2] - p->y[2]};
        double row[7];
        for (int k = 0; k < 6; k++) {
            double motion[3];
            motion_of(p->y, k, motion);
            row[k] = dot(p->n, motion);
        }
        row[6] = dot(p->n, off);
        for (int k = 0; k < 6; k++)
            for (int m = 0; m < 7; m++)
                a[k][m] += p->w * row[k] * row[m];
    }
    for (int k = 0; k < 6; k++) { // Gauss with pivots
        int best = k;
        for (int i = k + 1; i < 6; i++)
            best = fabs(a[i][k]) > fabs(a[best][k]) ? i : best;
        for (int m = 0; m < 7; m++) {
            const double swap = a[k][m];
            a[k][m] = a[best][m];
            a[best][m] = swap;
        }
        least = fmin(least, fabs(a[k][k]));
        most = fmax(most, fabs(a[k][k]));
        for (int i = 0; i < 6; i++)
            for (int m = 6; i != k && m >= k; m--)
                a[i][m] -= a[i][k] / a[k][k] * a[k][m];
    }
    for (int k = 0; k < 6; k++)
        twist[k] = a[k][6] / a[k][k];
    *out = reference_exp(twist);
    return least / most;
}

void reference_information(const struct reference_pairs *pairs, double out[36])
{
    memset(out, 0, 36 * sizeof *out);
    for (size_t i = 0; i < pairs->n; i++)
        for (int k = 0; k < 6; k++)
            for (int m = 0; m < 6; m++) {
                double a[3], b[3];
                motion_of(pairs->pair[i].y, k, a);
                motion_of(pairs->pair[i].y, m, b);
                out[6 * k + m] += pairs->pair[i].w * dot(a, b);
            }
}

double reference_motion(const struct reference_pairs *pairs, const double a[6], const double b[6])
{
    double sum = 0;
    for (size_t i = 0; i < pairs->n; i++) {
        double of_a[3] = {0}, of_b[3] = {0};
        for (int k = 0; k < 6; k++) {
            double motion[3];
            motion_of(pairs->pair[i].y, k, motion);
            for (int c = 0; c < 3; c++) {
                of_a[c] += a[k] * motion[c];
                of_b[c] += b[k] * motion[c];
            }
        }
        sum += pairs->pair[i].w * dot(of_a, of_b);
    }
    return sum;
}

double reference_residual2(const struct reference_pairs *pairs, double *out_mass)
{
    double mass = 0, sum = 0;
    for (size_t i = 0; i < pairs->n; i++) {
        const struct reference_pair *p = &pairs->pair[i];
        const double off[3] = {p->x[0] - p->y[0], p->x[1] - p->y[1], p->x[2] - p->y[2]};
        mass += p->w;
        sum += p->w * dot(off, off);
    }
    *out_mass = mass;
    return mass > 0 ? sum / mass : 0;
}

// ---- How far the run still has to go

void reference_pace_begin(struct reference_pace *pace)
{
    memset(pace, 0, sizeof *pace);
    pace->ratio = 0.97;
}

double reference_pace_take(struct reference_pace *pace, const struct reference_pairs *pairs,
                           const struct se3 *step, struct se3 *T)
{
    double twist[6], mass;
    for (int k = 0; k < 3; k++) { // of a small rotation: half of what is not symmetric
        const int i = (k + 2) % 3, j = (k + 1) % 3;
        twist[k] = step->t_m[k];
        twist[3 + k] = (step->r[3 * i + j] - step->r[3 * j + i]) / 2;
    }
    const double square = fmax(reference_motion(pairs, twist, twist), 0);
    const double variance = reference_residual2(pairs, &mass) / 3 + 1e-14;
    double ratio = pace->ratio, along = 0;
    if (pace->last_square > 0) {
        along = reference_motion(pairs, twist, pace->last);
        ratio = along / pace->last_square;
    }
    // Three steps on a line, each the same share of the one before.
    const bool leaps = pace->n_steps >= 2 && ratio > 0.5 && ratio < 0.97 &&
                       along * along / (square * pace->last_square) > 0.8;
    pace->ratio = fmin(fmax(ratio, 0.5), 0.97);
    const double left = pace->ratio / (1 - pace->ratio); // r + r^2 + r^3 + ...
    if (leaps) {
        double rest[6];
        for (int i = 0; i < 6; i++)
            rest[i] = left * twist[i];
        const struct se3 leap = reference_exp(rest);
        *T = product(&leap, T);
        pace->n_steps = 0;
        pace->last_square = 0;
    } else {
        pace->n_steps++;
        pace->last_square = square;
    }
    memcpy(pace->last, twist, sizeof twist);
    return left * sqrt(square / variance);
}

// ---- Whole stages

static void point_of(const struct point_set *set, size_t i, double out[3])
{
    out[0] = set->x_m[i];
    out[1] = set->y_m[i];
    out[2] = set->z_m[i];
}

static void normal_of(const struct point_set *set, size_t i, double out[3])
{
    out[0] = set->nx[i];
    out[1] = set->ny[i];
    out[2] = set->nz[i];
}

struct anneal {
    const struct point_set *source, *target;
    const struct register_anneal *settings;
    double *e, *u, *v; // n_source x n_target, and the scaling vectors
    struct reference_pairs pairs;
};

static double distance2(const double a[3], const double b[3])
{
    const double d[3] = {a[0] - b[0], a[1] - b[1], a[2] - b[2]};
    return dot(d, d);
}

static void set_exponentials(const struct anneal *a, double sigma2, const struct se3 *T)
{
    for (size_t i = 0; i < a->settings->n_source; i++) {
        double p[3], y[3];
        point_of(a->source, i, p);
        moved(T, p, y);
        for (size_t j = 0; j < a->settings->n_target; j++) {
            double x[3];
            point_of(a->target, j, x);
            a->e[i * a->settings->n_target + j] = exp(-distance2(x, y) / (2 * sigma2));
        }
    }
}

// Eq. 8-11: alpha_ij = e_ij^2 / C_i, lambda_i = sum_j sqrt(alpha_ij), x'_i the mean by that.
static void paper_pairs(struct anneal *a, double sigma2, const struct se3 *T)
{
    const size_t n = a->settings->n_source, m = a->settings->n_target;
    double mean[3] = {0};
    for (size_t j = 0; j < m; j++)
        for (int k = 0; k < 3; k++) {
            double x[3];
            point_of(a->target, j, x);
            mean[k] += x[k] / (double)m;
        }
    a->pairs.n = n;
    for (size_t i = 0; i < n; i++) {
        struct reference_pair *pair = &a->pairs.pair[i];
        double c = exp(-a->settings->outlier_d2 / sigma2), p[3];
        memset(pair, 0, sizeof *pair);
        point_of(a->source, i, p);
        moved(T, p, pair->y);
        for (size_t j = 0; j < m; j++)
            c += a->e[i * m + j] * a->e[i * m + j];
        if (!(c > 1e-6)) { // as the authors' program has it
            pair->w = 1;
            memcpy(pair->x, mean, sizeof mean);
            continue;
        }
        for (size_t j = 0; j < m; j++) {
            const double root = sqrt(a->e[i * m + j] * a->e[i * m + j] / c);
            double x[3];
            point_of(a->target, j, x);
            pair->w += root;
            for (int k = 0; k < 3; k++)
                pair->x[k] += root * x[k];
        }
        for (int k = 0; k < 3; k++)
            pair->x[k] = pair->w > 0 ? pair->x[k] / pair->w : mean[k];
    }
}

static void sinkhorn_pairs(struct anneal *a, double sigma2, const struct se3 *T)
{
    const struct register_anneal *s = a->settings;
    const size_t n = s->n_source, m = s->n_target;
    double slack = s->slack * exp(-s->slack_alpha / (2 * sigma2));
    if (s->slack_spacing > 0) // neighbours that share a point's mass: 2 pi sigma^2 / spacing^2
        slack *= sqrt(1 + 2 * pi * sigma2 / (s->slack_spacing * s->slack_spacing));
    for (size_t j = 0; s->cold && j < m; j++)
        a->v[j] = 1;
    for (uint32_t sweep = 0; sweep < s->n_sweeps; sweep++) {
        for (size_t i = 0; i < n; i++) {
            double sum = slack;
            for (size_t j = 0; j < m; j++)
                sum += a->e[i * m + j] * a->v[j];
            a->u[i] = 1 / sum;
        }
        for (size_t j = 0; j < m; j++) {
            double sum = slack;
            for (size_t i = 0; i < n; i++)
                sum += a->e[i * m + j] * a->u[i];
            a->v[j] = 1 / sum;
        }
    }
    a->pairs.n = m;
    for (size_t j = 0; j < m; j++) {
        struct reference_pair *pair = &a->pairs.pair[j];
        memset(pair, 0, sizeof *pair);
        point_of(a->target, j, pair->x);
        if (s->planes)
            normal_of(a->target, j, pair->n);
        for (size_t i = 0; i < n; i++) {
            const double match = a->u[i] * a->e[i * m + j] * a->v[j];
            double p[3], y[3];
            point_of(a->source, i, p);
            moved(T, p, y);
            pair->w += match;
            for (int k = 0; k < 3; k++)
                pair->y[k] += match * y[k];
        }
        for (int k = 0; k < 3 && pair->w > 0; k++)
            pair->y[k] /= pair->w;
    }
}

// What a surface of random points with this median spacing has around a point: n points per area,
// median distance sqrt(0.22 / n); a fifth of that counts as half present.
static void measure_presence(struct anneal *a, struct register_run *run)
{
    const size_t n = a->settings->n_source, m = a->settings->n_target;
    const double sigma2 = a->settings->presence_sigma2, d = a->settings->presence_spacing;
    const double half = 0.2 * (0.22 / (d * d)) * 2 * pi * sigma2;
    set_exponentials(a, sigma2, &run->T);
    run->presence_source = run->presence_target = 0;
    for (size_t i = 0; i < n; i++) {
        double sum = 0;
        for (size_t j = 0; j < m; j++)
            sum += a->e[i * m + j];
        run->presence_source += sum / (sum + half) / (double)n;
    }
    for (size_t j = 0; j < m; j++) {
        double sum = 0;
        for (size_t i = 0; i < n; i++)
            sum += a->e[i * m + j];
        run->presence_target += sum / (sum + half) / (double)m;
    }
}

static void take_step(const struct reference_pairs *pairs, bool planes, struct register_run *run,
                      struct se3 *out_step)
{
    run->residual2 = reference_residual2(pairs, &run->mass);
    if (planes)
        reference_planes_step(pairs, out_step);
    else
        reference_points_step(pairs, out_step);
    run->T = product(out_step, &run->T);
    run->n_iterations++;
}

void reference_anneal(const struct point_set *source, const struct point_set *target,
                      const struct register_anneal *settings, struct register_run *run)
{
    const struct register_anneal *s = settings;
    const size_t n = s->n_source, m = s->n_target, most = n > m ? n : m;
    struct anneal a = {source, target, s, .pairs = {0, malloc(most * sizeof *a.pairs.pair)}};
    a.e = malloc(n * m * sizeof *a.e);
    a.u = malloc(n * sizeof *a.u);
    a.v = malloc(m * sizeof *a.v);
    for (size_t j = 0; j < m; j++)
        a.v[j] = 1;
    struct reference_pace pace;
    struct se3 step = se3_identity();
    double sigma2 = s->sigma2_first, left = INFINITY;
    bool falls = true;
    run->determined = true;
    run->converged = false;
    reference_pace_begin(&pace);
    for (uint32_t n_held = 0;;) {
        for (uint32_t inner = 0; inner < s->n_inner; inner++) {
            set_exponentials(&a, sigma2, &run->T);
            if (s->weighting == REGISTER_WEIGHTING_PAPER)
                paper_pairs(&a, sigma2, &run->T);
            else
                sinkhorn_pairs(&a, sigma2, &run->T);
            take_step(&a.pairs, s->planes, run, &step);
        }
        // At the noise of the points, or at the last value, sigma stays.
        const bool noise =
            s->residual_ratio > 0 && sqrt(run->residual2) > s->residual_ratio * sqrt(sigma2);
        const bool ends = s->n_hold == 0 && sigma2 * s->factor <= s->sigma2_last;
        falls = sigma2 > s->sigma2_last && !noise && !ends;
        if (falls) {
            sigma2 = fmax(sigma2 * s->factor, s->sigma2_last);
            reference_pace_begin(&pace);
            continue;
        }
        left = reference_pace_take(&pace, &a.pairs, &step, &run->T);
        run->converged = left < s->tolerance;
        if (run->converged || ends || n_held == s->n_hold)
            break;
        n_held++;
    }
    reference_information(&a.pairs, run->information);
    if (s->presence_sigma2 > 0)
        measure_presence(&a, run);
    free(a.e);
    free(a.u);
    free(a.v);
    free(a.pairs.pair);
}

// The counterpart of y: the nearest target point, or all within 3 sigma by their weights.
static bool counterpart(const struct point_set *target, const struct register_nearest *s,
                        const double y[3], struct reference_pair *out)
{
    double nearest = INFINITY, sum = 0;
    bool found = false;
    memset(out, 0, sizeof *out);
    memcpy(out->y, y, sizeof out->y);
    for (size_t j = 0; j < s->n_target; j++) {
        double x[3], n[3] = {0};
        point_of(target, j, x);
        if (s->planes)
            normal_of(target, j, n);
        const double d2 = distance2(x, y);
        if (s->kind == REGISTER_NEAREST_ICP && d2 < nearest) {
            nearest = d2;
            found = true;
            memcpy(out->x, x, sizeof x);
            memcpy(out->n, n, sizeof n);
            out->w = 1;
        } else if (s->kind == REGISTER_NEAREST_TRUNCATED && d2 <= 9 * s->sigma2) {
            const double e = exp(-d2 / (2 * s->sigma2));
            sum += e;
            for (int k = 0; k < 3; k++) {
                out->x[k] += e * x[k];
                out->n[k] += e * n[k];
            }
        }
    }
    if (s->kind == REGISTER_NEAREST_ICP)
        return found;
    const double length = sqrt(dot(out->n, out->n));
    for (int k = 0; k < 3 && sum > 0; k++) {
        out->x[k] /= sum;
        out->n[k] = length > 0 ? out->n[k] / length : 0;
    }
    out->w = sum / (s->slack + sum);
    return sum > 0;
}

void reference_nearest(const struct point_set *source, const struct point_set *target,
                       const struct register_nearest *settings, struct register_run *run)
{
    struct reference_pairs pairs = {0, malloc(settings->n_source * sizeof *pairs.pair)};
    struct reference_pace pace;
    struct se3 step;
    reference_pace_begin(&pace);
    run->converged = false;
    run->determined = true;
    for (uint32_t k = 0; k < settings->n_iterations && !run->converged; k++) {
        pairs.n = 0;
        for (size_t i = 0; i < settings->n_source; i++) {
            double p[3], y[3];
            point_of(source, i, p);
            moved(&run->T, p, y);
            pairs.n += counterpart(target, settings, y, &pairs.pair[pairs.n]);
        }
        take_step(&pairs, settings->planes, run, &step);
        run->converged = reference_pace_take(&pace, &pairs, &step, &run->T) < settings->tolerance;
    }
    reference_information(&pairs, run->information);
    free(pairs.pair);
}
