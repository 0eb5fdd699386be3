// SPDX-License-Identifier: Apache-2.0
#include "proto/pose_error.h"

#include <errno.h>
#include <math.h>
#include <string.h>

#include "proto/se3.h"

static const double identity[9] = {1, 0, 0, 0, 1, 0, 0, 0, 1};

void pose_error_add(const double r[9], const double arm_m[3], const double covariance[36],
                    double out[36])
{
    const double cross[9] = {0,        arm_m[2], -arm_m[1], -arm_m[2], 0,
                             arm_m[0], arm_m[1], -arm_m[0], 0};
    double j[36] = {0}, half[36] = {0};
    for (int i = 0; i < 3; i++)
        for (int k = 0; k < 3; k++) {
            j[6 * i + k] = j[6 * (i + 3) + k + 3] = r[3 * i + k];
            for (int m = 0; m < 3; m++)
                j[6 * i + k + 3] += r[3 * i + m] * cross[3 * m + k];
        }
    for (int i = 0; i < 6; i++)
        for (int k = 0; k < 6; k++)
            for (int m = 0; m < 6; m++)
                half[6 * i + k] += j[6 * i + m] * covariance[6 * m + k];
    for (int i = 0; i < 6; i++)
        for (int k = 0; k < 6; k++)
            for (int m = 0; m < 6; m++)
                out[6 * i + k] += half[6 * i + m] * j[6 * k + m];
}

void pose_error_carry(const double arm_m[3], const double covariance[36], double out[36])
{
    pose_error_add(identity, arm_m, covariance, out);
}

void pose_error_total(const struct pose_error *error, double out[36])
{
    for (int i = 0; i < 36; i++)
        out[i] = error->own[i] + error->walk[i] + error->drift[i];
}

// The long-run share of the drift that a motion of this flow shows.
static double coherence(double flow_rad)
{
    double x = flow_rad / POSE_ERROR_COHERENCE_RAD;
    return x > 1e-4 ? 1 - (1 - exp(-x)) / x : fmax(x, 0) / 2;
}

bool pose_error_is_repeated(const struct se3 *T_odom_i, const struct pose_error *i,
                            const struct se3 *T_odom_j, const struct pose_error *j)
{
    return i->own[0] < POSE_ERROR_LOST && !memcmp(i, j, sizeof *i) &&
           !memcmp(T_odom_i, T_odom_j, sizeof *T_odom_i);
}

void pose_error_between(const struct se3 *T_odom_i, const struct pose_error *i,
                        const struct se3 *T_odom_j, const struct pose_error *j, double out[36])
{
    const double k = coherence(j->flow_rad - i->flow_rad);
    double arm_m[3], of_i[36], carried[36] = {0};
    if (pose_error_is_repeated(T_odom_i, i, T_odom_j, j)) {
        memset(out, 0, sizeof carried);
        return;
    }
    for (int n = 0; n < 3; n++)
        arm_m[n] = T_odom_j->t_m[n] - T_odom_i->t_m[n];
    for (int n = 0; n < 36; n++)
        of_i[n] = i->own[n] - i->walk[n] - k * i->drift[n];
    pose_error_carry(arm_m, of_i, carried);
    for (int n = 0; n < 36; n++)
        out[n] = carried[n] + j->own[n] + j->walk[n] + k * j->drift[n];
}

double pose_error_normalised2(const double error[6], const double covariance[36])
{
    // Cholesky, and the forward substitution on the way.
    double l[36] = {0}, y[6], sum = 0;
    for (int i = 0; i < 6; i++) {
        y[i] = error[i];
        for (int j = 0; j <= i; j++) {
            double s = covariance[6 * i + j];
            for (int m = 0; m < j; m++)
                s -= l[6 * i + m] * l[6 * j + m];
            if (i == j && !(s > 0))
                return -1;
            l[6 * i + j] = i == j ? sqrt(s) : s / l[7 * j];
        }
        for (int m = 0; m < i; m++)
            y[i] -= l[6 * i + m] * y[m];
        y[i] /= l[7 * i];
        sum += y[i] * y[i];
    }
    return sum;
}

// Twelve digits: walk and drift of two frames are subtracted, and what is left of a drift of metres
// has to be right to less than a millimetre's square.
static int write_triangle(FILE *file, const double m[36])
{
    for (int i = 0; i < 6; i++)
        for (int j = i; j < 6; j++)
            if (fprintf(file, " %.12g", m[6 * i + j]) < 0)
                return -EIO;
    return 0;
}

int pose_error_write(FILE *file, const struct stamped_pose *pose, const struct pose_error *error)
{
    const struct se3 *T = &pose->T_world_camera;
    const long long s = pose->time_ns / 1000000000, ns = pose->time_ns % 1000000000;
    double q[4];
    se3_to_quaternion(T, q);
    if (fprintf(file, "%s%lld.%09lld %.9f %.9f %.9f %.9f %.9f %.9f %.9f %.9g",
                pose->time_ns < 0 ? "-" : "", s < 0 ? -s : s, ns < 0 ? -ns : ns, T->t_m[0],
                T->t_m[1], T->t_m[2], q[0], q[1], q[2], q[3], error->flow_rad) < 0)
        return -EIO;
    if (write_triangle(file, error->own) || write_triangle(file, error->walk) ||
        write_triangle(file, error->drift))
        return -EIO;
    return fputc('\n', file) == EOF ? -EIO : 0;
}

static const double *parse_triangle(const double *columns, double m[36])
{
    for (int i = 0; i < 6; i++)
        for (int j = i; j < 6; j++)
            m[6 * i + j] = m[6 * j + i] = *columns++;
    return columns;
}

void pose_error_parse(const double columns[POSE_ERROR_COLUMNS], struct pose_error *out)
{
    const double *rest = columns + 1;
    out->flow_rad = columns[0];
    rest = parse_triangle(rest, out->own);
    rest = parse_triangle(rest, out->walk);
    parse_triangle(rest, out->drift);
}
