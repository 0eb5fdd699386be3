// SPDX-License-Identifier: Apache-2.0
#include "proto/pose_mean.h"

#include <errno.h>
#include <math.h>
#include <string.h>

#include "proto/eigen.h"
#include "proto/se3.h"

#define MEAN_STEPS 20

// Eigenvalues and -vectors of a matrix whose metres and radians are brought to one size; false: a
// diagonal element is not above 0.
static bool decompose(const double a[36], double scale[6], double values[6], double vectors[36])
{
    double scaled[36];
    for (int i = 0; i < 6; i++) {
        if (!(a[7 * i] > 0))
            return false;
        scale[i] = sqrt(a[7 * i]);
    }
    for (int i = 0; i < 36; i++)
        scaled[i] = a[i] / (scale[i / 6] * scale[i % 6]);
    eigen_symmetric(scaled, 6, values, vectors);
    return true;
}

bool pose_mean_invert(const double a[36], double out[36])
{
    double scale[6], values[6], vectors[36];
    if (!decompose(a, scale, values, vectors) || !(values[0] > 1e-12))
        return false;
    for (int i = 0; i < 36; i++) {
        out[i] = 0;
        for (int k = 0; k < 6; k++)
            out[i] += vectors[6 * k + i / 6] * vectors[6 * k + i % 6] / values[k];
        out[i] /= scale[i / 6] * scale[i % 6];
    }
    return true;
}

void pose_mean_make_definite(double a[36], double min_share)
{
    double scale[6], values[6], vectors[36];
    if (!decompose(a, scale, values, vectors))
        return;
    for (int i = 0; i < 36; i++) {
        double sum = 0;
        for (int k = 0; k < 6; k++)
            sum += vectors[6 * k + i / 6] * vectors[6 * k + i % 6] * fmax(values[k], min_share);
        a[i] = sum * scale[i / 6] * scale[i % 6];
    }
}

// Position and rotation of a from b's, along the axes in which both stand.
static void difference(const struct se3 *a, const struct se3 *b, double out[6])
{
    struct se3 turned = *a, inverse = *b;
    for (int i = 0; i < 3; i++) {
        out[i] = a->t_m[i] - b->t_m[i];
        turned.t_m[i] = inverse.t_m[i] = 0;
    }
    inverse = se3_inverse(&inverse);
    turned = se3_compose(&turned, &inverse);
    se3_rotation_vector(&turned, out + 3);
}

int pose_mean(const struct se3 *poses, const double (*covariances)[36], uint32_t n, struct se3 *out,
              double out_covariance[36])
{
    double information[36] = {0}, weights[POSE_MEAN_MAX][36];
    for (uint32_t k = 0; k < n; k++) {
        if (!pose_mean_invert(covariances[k], weights[k]))
            return -EDOM;
        for (int i = 0; i < 36; i++)
            information[i] += weights[k][i];
    }
    if (n == 0 || !pose_mean_invert(information, out_covariance))
        return -EDOM;
    *out = poses[0];
    for (int step = 0; step < MEAN_STEPS; step++) {
        double sum[6] = {0}, twist[6] = {0}, moved[6], size = 0;
        for (uint32_t k = 0; k < n; k++) {
            double d[6];
            difference(&poses[k], out, d);
            for (int i = 0; i < 36; i++)
                sum[i / 6] += weights[k][i] * d[i % 6];
        }
        for (int i = 0; i < 6; i++) {
            moved[i] = 0;
            for (int j = 0; j < 6; j++)
                moved[i] += out_covariance[6 * i + j] * sum[j];
            size += moved[i] * moved[i];
        }
        memcpy(twist + 3, moved + 3, 3 * sizeof *twist);
        struct se3 turn = se3_exp(twist), turned = se3_compose(&turn, out);
        memcpy(out->r, turned.r, sizeof out->r);
        for (int i = 0; i < 3; i++)
            out->t_m[i] += moved[i];
        if (size < 1e-26)
            break;
    }
    *out = se3_normalized(out);
    return 0;
}
