// SPDX-License-Identifier: Apache-2.0
// The input window: sampled, filtered, its edges and their distances.
#include "gpu/search/cpu/device.h"
#include "gpu/search/cpu/edt.h"
#include "gpu/search/kernels/depth_edges.h"
#include "gpu/search/kernels/germann_error.h"

// Depths beyond two map widths are background: they belong to something else.
static void sample_window(const struct search_cpu *cpu, const struct search_frame *frame,
                          int16_t *out)
{
    const float limit_m = 2 * SEARCH_MAP_PX * frame->px_m;
    for (int i = 0; i < SEARCH_WINDOW_PX * SEARCH_WINDOW_PX; i++) {
        int u = i % SEARCH_WINDOW_PX - SEARCH_WINDOW_PX / 2;
        int v = i / SEARCH_WINDOW_PX - SEARCH_WINDOW_PX / 2;
        float z_m;
        bool seen =
            search_frame_sample(cpu->depth.z_m, &cpu->camera, frame->rotation, frame->start_m,
                                (float)u * frame->px_m, (float)v * frame->px_m, &z_m) &&
            z_m > -limit_m && z_m < limit_m;
        out[i] = seen ? (int16_t)search_depth_shift(z_m / frame->px_m) : SEARCH_Z_NONE;
    }
}

static void median_window(const int16_t *z, int16_t *out)
{
    enum { N = SEARCH_WINDOW_PX };
    for (int v = 0; v < N; v++)
        for (int u = 0; u < N; u++) {
            int16_t around[9];
            for (int k = 0; k < 9; k++) {
                int x = u + k % 3 - 1, y = v + k / 3 - 1;
                bool inside = x >= 0 && y >= 0 && x < N && y < N;
                around[k] = inside ? z[y * N + x] : SEARCH_Z_NONE;
            }
            out[v * N + u] = (int16_t)search_median9(around);
        }
}

int search_cpu_window(void *device, const struct search_frame *frame, uint32_t *out)
{
    enum { N = SEARCH_WINDOW_PX * SEARCH_WINDOW_PX };
    const struct search_cpu *cpu = device;
    int16_t raw[N], z[N], edt[N];
    uint8_t kind[N];
    sample_window(cpu, frame, raw);
    median_window(raw, z);
    search_kinds(z, SEARCH_WINDOW_PX, kind);
    search_edt(kind, SEARCH_WINDOW_PX, edt);
    for (int i = 0; i < N; i++)
        out[i] = search_pair(kind[i] == SEARCH_KIND_BACKGROUND ? 0 : z[i], edt[i]);
    return 0;
}
