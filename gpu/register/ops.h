// SPDX-License-Identifier: Apache-2.0
// The table that a backend of the registration fills: gpu/register/cpu/anneal.c,
// gpu/register/cuda/device.cu. Each operation is a whole stage with all its iterations. Private
// to gpu; callers use gpu/register/register.h.
//
// All coordinates are normalised: each set is moved to its own centre and divided by the common
// radius (gpu/register/normalise.h). The points of a set stand in random order, so that the first n
// of them are a subsample.
#ifndef POSED_GPU_REGISTER_OPS_H
#define POSED_GPU_REGISTER_OPS_H

#include "gpu/base/pool.h"
#include "gpu/register/kernels/cells.h"
#include "gpu/register/register.h"
#include "proto/se3.h"

enum register_side { REGISTER_SOURCE, REGISTER_TARGET };

// One alignment from one start; in: T, out: all.
struct register_run {
    struct se3 T;     // takes the source onto the target, normalised coordinates
    double mass;      // sum of the weights of the last iteration
    double residual2; // weighted mean squared distance of a point to its soft counterpart
    double presence_source, presence_target; // share of each set that has a counterpart, 0..1
    double
        information[36]; // sum w J J^T of the last iteration, J of x = T y for a left twist (v, w)
    uint32_t n_iterations;
    bool converged;  // what was left of the way was below the tolerance
    bool determined; // false: some step had no solution, T is what stood before
};

enum register_weighting {
    REGISTER_WEIGHTING_PAPER,   // EM-ICP as published: rows are source points, one-sided
    REGISTER_WEIGHTING_SINKHORN // two-sided with slack: rows and columns in turn
};

// One anneal: sigma^2 goes from first to last by `factor`, n_inner M-steps at each value; then up
// to n_hold more at the last value until what is left of the way is below the tolerance.
struct register_anneal {
    enum register_weighting weighting;
    enum register_form form;
    uint32_t n_source, n_target; // the first so many points of each set
    double sigma2_first, sigma2_last, factor;
    uint32_t n_inner, n_hold;
    // The noise of the points bounds sigma from below: while the RMS residual exceeds this many
    // sigma, sigma stays (a smaller one would only silence good pairs). 0 = no such bound.
    double residual_ratio;
    double tolerance; // of what is left of the way, in standard deviations of the pose: see
                      // register_pace_take in gpu/register/kernels/m_step.h

    double outlier_d2;    // PAPER: d_0^2
    uint32_t n_sweeps;    // SINKHORN: row and column normalisations before an M-step
    bool cold;            // SINKHORN: v starts at 1 at each M-step, as published; else it is kept
    double slack;         // SINKHORN: weight of the slack entries ...
    double slack_alpha;   // ... times exp(-slack_alpha / (2 sigma^2)) ...
    double slack_spacing; // ... and grown with sigma for this spacing (register_slack); 0 = not
    bool planes;          // M-step point to plane, target normals loaded

    // Presence is measured at this sigma^2 and spacing after the last step; 0 = not.
    double presence_sigma2, presence_spacing;
};

enum register_nearest_kind {
    REGISTER_NEAREST_ICP,      // the nearest target point
    REGISTER_NEAREST_TRUNCATED // all target points within 3 sigma, soft weights, one-sided
};

// Iterations over near pairs only, for ICP and for sets too large for all pairs.
struct register_nearest {
    enum register_nearest_kind kind;
    uint32_t n_source, n_target; // the first so many points of each set
    uint32_t n_iterations;
    double tolerance; // as of an anneal
    double sigma2;    // TRUNCATED
    double slack;     // TRUNCATED: weight of "no counterpart"
    bool planes;
};

// A set at one resolution (gpu/register/surface_levels.h); what stands there with `points` and
// `normals` is the device's, NULL where the device is no processor.
#define REGISTER_MOST_LEVELS 8u
struct register_surface {
    struct register_cells cells;
    uint32_t n;     // occupied cells
    double noise_m; // median distance of the points of a neighbourhood from its plane
    double planar;  // share of the points that have a normal
};

struct register_surface_load {
    struct point_set points; // the caller's
    double origin_m[3];      // of the local coordinates
};

// GICP from one pose at one level, and what the pose is worth there.
struct register_gicp {
    uint32_t level;
    double reach_m;        // pairs are looked for so far
    double cut_m;          // planes farther apart are no pair; nearer ones weigh (1 - (d/cut)^2)^2
    double epsilon;        // variance across a plane, in units of that along it
    uint32_t n_iterations; // 0: no step, only what the pose is worth
    double tolerance_m;    // ends when a step moves no point of the set by more
};

struct register_fit {
    struct se3 T; // local coordinates; in: start, out: end
    // Of the last pose that was looked at, cost as the method counts it: what has no counterpart
    // costs 1, a pair (d / cut)^2.
    double cost, share;     // of the source's points: mean cost, share with a counterpart
    double residual2_m2;    // weighted mean squared distance between the planes of the pairs
    double information[36]; // sum w J^T M J
    uint32_t n_pairs, n_iterations;
    bool converged, determined;
};

// 0, -ECANCELED or -ETIME.
int register_stopped(const struct register_stop *stop);

struct register_ops {
    enum gpu_backend backend;
    // The pool is the caller's, for what the host computes; it outlives the device. Returns 0 or
    // -ENODEV, -ENOMEM, -EIO.
    int (*open)(void **out_device, const struct register_config *config, struct pool *pool);
    void (*close)(void *device);
    void (*describe)(const void *device, char *out, size_t size);
    // Takes a set. The arrays stay as they are until the next load of that side.
    int (*load)(void *device, enum register_side side, const struct point_set *points);
    // n runs beside each other with the same settings; n > 1 only for STREAMING. stop: see
    // register.h; looked at between iterations where the backend can. Returns 0, -ENOMEM (dense
    // matrix), -EIO or -ECANCELED.
    int (*anneal)(void *device, const struct register_anneal *anneal, struct register_run *runs,
                  uint32_t n_runs, const struct register_stop *stop);
    int (*nearest)(void *device, const struct register_nearest *nearest, struct register_run *run,
                   const struct register_stop *stop);
    // Takes both sets and makes their levels: mean points in the cells of `info`, whose n, noise_m
    // and planar it fills. info[side][level]. The points need not stay.
    int (*surfaces)(void *device, const struct register_surface_load loads[2], uint32_t n_levels,
                    struct register_surface info[2][REGISTER_MOST_LEVELS]);
    // n_fits poses beside each other. `inverse`: the target's points look for the source's, T stays
    // what it is (source onto target).
    int (*gicp)(void *device, const struct register_gicp *gicp, bool inverse,
                struct register_fit *fits, uint32_t n_fits, const struct register_stop *stop);
    // Copies a level to the host: n points and normals (x, y, z, distance^2 from the plane).
    int (*fetch)(void *device, enum register_side side, uint32_t level,
                 struct register_cell_point *out_points, struct register_cell_point *out_normals);
    // Memory of the device itself that is held, the most since open. NULL: the host's is all.
    size_t (*memory_bytes)(const void *device);
    // Memory of the host that `load` reads fastest: 0 and *out, or -ENOMEM. NULL: malloc and free.
    int (*take_host)(void *device, size_t bytes, void **out);
    void (*give_host)(void *device, void *memory);
};

extern const struct register_ops register_cpu_ops;
#ifdef POSED_HAVE_CUDA
extern const struct register_ops register_cuda_ops;
#endif

#endif
