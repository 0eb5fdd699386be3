// SPDX-License-Identifier: Apache-2.0
// All iterations of all levels of one alignment. Each chunk of rows leaves its sums in a row of its
// own; they are added in the order of the chunks, in double, so the threads do not show.
#include <math.h>
#include <string.h>

#include "gpu/track/cpu/device.h"

#include "gpu/track/kernels/solve.h"
#include "proto/clock.h"
#include "proto/se3.h"

SOLVE_DEFINE(double, solve6_double)

struct align_job {
    struct cpu_device *device;
    struct icp_problem problem;
};

static void chunk_icp(void *context, uint32_t chunk)
{
    const struct align_job *job = context;
    struct cpu_device *device = job->device;
    _Alignas(64) float sums[ICP_N_SUMS][LANES];
    memset(sums, 0, sizeof sums);
    int32_t first = (int32_t)chunk * CPU_CHUNK_ROWS;
    for (int32_t y = first; y < first + CPU_CHUNK_ROWS && y < job->problem.camera.height_px; y++)
        device->rows->icp(&job->problem, y, sums);
    for (int i = 0; i < ICP_N_SUMS; i++)
        device->chunk_sums[chunk][i] = lanes_sum(sums[i]);
}

struct source_job {
    struct cpu_device *device;
    const struct gpu_frame *frame;
    const struct gpu_align_settings *settings;
};

// The chunks of the three levels one after another. Of levels without iterations only the coarsest
// is read, for the information.
static void chunk_source(void *context, uint32_t chunk)
{
    const struct source_job *job = context;
    struct cpu_device *device = job->device;
    uint32_t level = cpu_level_of_chunk(device, &chunk);
    if (job->settings->iterations[level] == 0 && level != GPU_LEVELS - 1)
        return;
    const struct level_camera *camera = &device->cameras[level];
    int32_t first = (int32_t)chunk * CPU_CHUNK_ROWS;
    for (int32_t y = first; y < first + CPU_CHUNK_ROWS && y < camera->height_px; y++)
        device->rows->source(camera, job->frame->maps[level] + (size_t)y * (size_t)camera->width_px,
                             y, &device->sources[level]);
}

static void iteration_sums(struct align_job *job, const struct se3 *T_reference_frame,
                           double out_sums[ICP_N_SUMS])
{
    for (int i = 0; i < 9; i++)
        job->problem.pose.r[i] = (float)T_reference_frame->r[i];
    for (int i = 0; i < 3; i++)
        job->problem.pose.t_m[i] = (float)T_reference_frame->t_m[i];
    uint32_t n_chunks = cpu_n_chunks(job->problem.camera.height_px);
    pool_run(job->device->pool, chunk_icp, job, n_chunks);
    memset(out_sums, 0, ICP_N_SUMS * sizeof *out_sums);
    for (uint32_t chunk = 0; chunk < n_chunks; chunk++)
        for (int i = 0; i < ICP_N_SUMS; i++)
            out_sums[i] += (double)job->device->chunk_sums[chunk][i];
}

static void job_level(struct align_job *job, const struct gpu_frame *reference, int level)
{
    job->problem.camera = job->device->cameras[level];
    job->problem.source = &job->device->sources[level];
    job->problem.target = reference->maps[level];
}

int cpu_align(struct gpu *gpu, const struct gpu_frame *frame, const struct gpu_frame *reference,
              const struct se3 *T_reference_frame, const struct gpu_align_settings *settings,
              struct gpu_alignment *out)
{
    struct cpu_device *device = (struct cpu_device *)gpu;
    struct align_job job = {.device = device};
    int64_t start_ns = clock_monotonic_ns();
    double sums[ICP_N_SUMS] = {0}, information_sums[ICP_N_SUMS] = {0};
    struct se3 T = *T_reference_frame, T_summed = T; // T_summed: that of `sums`

    memset(out, 0, sizeof *out);
    memcpy(out->stage_us, frame->stage_us, sizeof out->stage_us);
    struct icp_gates gates =
        icp_gates_first(settings->gate_distance_m, cosf(settings->gate_angle_rad));
    struct icp_gates gates_summed = gates;
    out->solvable = true;
    struct source_job source_job = {device, frame, settings};
    pool_run(device->pool, chunk_source, &source_job, cpu_n_chunks_of_levels(device));
    for (int level = GPU_LEVELS - 1; level >= 0 && out->solvable; level--) {
        if (settings->iterations[level] == 0)
            continue;
        job_level(&job, reference, level);
        for (uint32_t i = 0; i < settings->iterations[level]; i++) {
            double twist[6];
            T_summed = T;
            gates_summed = gates;
            job.problem.gates = icp_gates_at(&gates, (uint32_t)level);
            iteration_sums(&job, &T, sums);
            out->solvable = solve_step_double(sums, (uint32_t)level, twist);
            if (!out->solvable)
                break;
            struct se3 step = se3_exp(twist);
            T = se3_compose(&step, &T);
            icp_gates_update(&gates, (float)sums[ICP_SUM_ABS], (float)sums[ICP_SUM_PAIRS]);
            out->n_iterations[level]++;
            double size2_m2 = solve_step_size2_double(sums, twist);
            out->step_norm = sqrt(size2_m2);
            out->converged = size2_m2 < solve_stop2_m2((uint32_t)level);
            if (settings->early_stop && out->converged)
                break;
        }
    }
    if (out->solvable) {
        job_level(&job, reference, GPU_LEVELS - 1);
        job.problem.gates = gates_summed;
        job.problem.information = true;
        iteration_sums(&job, &T_summed, information_sums);
    }
    out->T_reference_frame = out->solvable ? se3_normalized(&T) : *T_reference_frame;
    gpu_alignment_from_sums(sums, information_sums, out);
    out->stage_us[GPU_STAGE_ALIGN] = (float)(clock_monotonic_ns() - start_ns) * 1e-3f;
    return 0;
}
