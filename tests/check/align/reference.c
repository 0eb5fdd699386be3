// SPDX-License-Identifier: Apache-2.0
#include "tests/check/align/reference.h"

#include <math.h>
#include <string.h>

#define DOUBT 2e-5

static double row_of(const float *m, int row, const double q[3])
{
    double sum = (double)m[4 * row + 3];
    for (int k = 0; k < 3; k++)
        sum += (double)m[4 * row + k] * q[k];
    return sum;
}

static int is_near(double value, double edge, double scale)
{
    return fabs(value - edge) < DOUBT * scale;
}

static void add(const struct reference_input *in, uint32_t v, struct reference_sums *out)
{
    double q[3], turned[3];
    for (int i = 0; i < 3; i++) {
        q[i] = (double)in->move[i];
        turned[i] = 0;
        for (int k = 0; k < 3; k++) {
            q[i] += (double)in->rotation[3 * i + k] * (double)in->p[k][v];
            turned[i] += (double)in->rotation[3 * i + k] * (double)in->n[k][v];
        }
    }
    double depth = row_of(in->projection, 2, q);
    if (!(depth > 0))
        return;
    double u = row_of(in->projection, 0, q) / depth, w = row_of(in->projection, 1, q) / depth;
    double column = floor(u + 0.5), line = floor(w + 0.5);
    double off_u = fabs(u + 0.5 - nearbyint(u + 0.5)), off_v = fabs(w + 0.5 - nearbyint(w + 0.5));
    int doubtful = off_u < 1e-3 || off_v < 1e-3;
    if (column < 0 || line < 0 || column >= in->width || line >= in->height) {
        out->n_doubtful +=
            doubtful && column >= -1 && line >= -1 && column <= in->width && line <= in->height;
        return;
    }
    const float *plane = in->planes + 4 * ((size_t)line * (size_t)in->width + (size_t)column);
    double m[3] = {(double)plane[0], (double)plane[1], (double)plane[2]};
    double r = m[0] * q[0] + m[1] * q[1] + m[2] * q[2] - (double)plane[3];
    double cosine = m[0] * turned[0] + m[1] * turned[1] + m[2] * turned[2];
    doubtful = doubtful || is_near(fabs(r), in->distance, 1) || is_near(cosine, in->cosine, 1);
    out->n_doubtful += doubtful;
    if (!(fabs(r) <= in->distance) || !(cosine > in->cosine))
        return;
    double d = (double)in->p[2][v] - 0.4, sigma = in->noise_a + in->noise_b * d * d;
    double e = r / sigma, share = 1 - e * e * in->inverse_cut2;
    double tukey = share > 0 ? share * share : 0, weight = tukey / (sigma * sigma);
    double j[6] = {m[0],
                   m[1],
                   m[2],
                   q[1] * m[2] - q[2] * m[1],
                   q[2] * m[0] - q[0] * m[2],
                   q[0] * m[1] - q[1] * m[0]};
    double off_e = in->rounding / sigma,
           off_tukey = 4 * sqrt(tukey) * fabs(e) * in->inverse_cut2 * off_e;
    double off_w = off_tukey / (sigma * sigma) + 1e-6 * weight;
    out->slack_w += off_tukey + 1e-6;
    out->slack_ee += off_tukey * e * e + 2 * tukey * fabs(e) * off_e + 1e-6 * tukey * e * e;
    out->slack_abs += off_tukey * fabs(e) + tukey * off_e + 1e-6 * tukey * fabs(e);
    out->slack_rr += (off_tukey + 1e-6 * tukey) * r * r + 2 * tukey * fabs(r) * in->rounding;
    for (int a = 0; a < 6; a++) {
        for (int b = 0; b < 6; b++) {
            out->h[a][b] += weight * j[a] * j[b];
            out->slack_h[a][b] += off_w * fabs(j[a] * j[b]);
        }
        out->g[a] += weight * j[a] * r;
        out->slack_g[a] += (off_w * fabs(r) + weight * in->rounding) * fabs(j[a]);
    }
    out->ee += tukey * e * e;
    out->w += tukey;
    out->abs += tukey * fabs(e);
    out->rr += tukey * r * r;
    out->n += 1;
}

void reference_sum(const struct reference_input *input, struct reference_sums *out)
{
    memset(out, 0, sizeof *out);
    for (uint32_t v = 0; v < input->n_vertices; v++)
        add(input, v, out);
}
