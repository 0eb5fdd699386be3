// SPDX-License-Identifier: Apache-2.0
// From the sums that an alignment leaves to what the caller gets of it.
#include <math.h>

#include "gpu/backend.h"
#include "gpu/track/kernels/icp.h"

static void unpack_normal_matrix(const double *sums, double h[36])
{
    int k = ICP_SUM_H;
    for (int i = 0; i < 6; i++)
        for (int j = i; j < 6; j++)
            h[6 * i + j] = h[6 * j + i] = sums[k++];
}

void gpu_alignment_from_sums(const double *sums, const double *information_sums,
                             struct gpu_alignment *out)
{
    unpack_normal_matrix(sums, out->h);
    unpack_normal_matrix(information_sums, out->information);
    for (int i = 0; i < 6; i++)
        out->g[i] = sums[ICP_SUM_G + i];
    out->weight_sum = sums[ICP_SUM_W];
    out->information_weight = information_sums[ICP_SUM_W];
    out->residual_rms_m = sums[ICP_SUM_W] > 0 ? sqrt(sums[ICP_SUM_WRR] / sums[ICP_SUM_W]) : 0;
    out->n_pairs = (uint32_t)sums[ICP_SUM_PAIRS];
    out->n_valid_px = (uint32_t)sums[ICP_SUM_VALID];
}
