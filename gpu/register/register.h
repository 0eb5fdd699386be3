// SPDX-License-Identifier: Apache-2.0
// Registration of two point sets: the rigid transform that takes SOURCE onto TARGET.
//
// Methods: EM-ICP and Softassign after Tamaki, Abe, Raytchev, Kaneda 2010 ("Softassign and EM-ICP
// on GPU"), ICP (Besl and McKay 1992) as their baseline. What is added: settings without a unit
// (everything is derived from the sets), two-sided outlier handling, a stop test, subsampling from
// coarse to fine, and `start many`: rotations spread over SO(3), aligned coarsely in one batch,
// the best polished, the second-best basin reported.
//
// Large sets: what is done last looks at all points of the target, for at most 131,072 of the
// source (a random sample; they are averaged over). The preset tamaki takes all of both.
//
// Two forms of each soft method, held against each other by tests/check: `dense` keeps the N x M
// matrix as the paper has it; `streaming` recomputes its entries and needs O(N + M) memory.
//
// Threads: one registration is used by one thread at a time; several may work beside each other
// and beside a tracker. Memory is taken at open and when a set is larger than any before.
#ifndef POSED_GPU_REGISTER_REGISTER_H
#define POSED_GPU_REGISTER_REGISTER_H

#include "gpu/register/settings.h"
#include "proto/log.h"
#include "proto/types.h"

// Lets another thread end a registration: set `requested` (__atomic_store_n; not an atomic_bool,
// which CUDA sources cannot name), or a deadline. It is looked at between pieces of at most tens of
// milliseconds.
struct register_stop {
    int requested;
    int64_t deadline_mono_ns; // CLOCK_MONOTONIC, 0 = none
    // Called from the registering thread when a stage begins, 0..1; NULL: nobody asks.
    void (*progress)(void *user, double share, const char *stage);
    void *user;
};

struct register_result {
    struct se3 T_target_source;
    double residual_rms_m; // of the points that have a counterpart, to their soft counterpart
    double overlap_source; // share of each set that has a counterpart, 0..1
    double overlap_target;
    double covariance[36]; // of T for a left twist in the target's frame, row-major, order x y z
                           // rotX rotY rotZ; point-to-point model, so a floor
    uint32_t n_iterations; // of the winning start, all stages
    bool converged;        // more iterations would move the pose by less than a tenth of the
                           // standard deviations that `covariance` says; what was left is
                           // estimated from how fast the steps shrink
    // How close the second best comes, 0..1: score of the best basin elsewhere (rotation more than
    // 10 degrees away), or what a wrong pose reaches by chance if that is more, over the winner's
    // score, overlap_source x overlap_target. Above REGISTER_AMBIGUOUS do not trust the result.
    // Start identity looks elsewhere from a third of the starts, the preset tamaki not at all.
    double ambiguity;
    bool ambiguous;
    bool has_second; // another basin was seen: T_second is its transform
    struct se3 T_second;
    char doubt[240]; // why not to trust it and what would help; empty: nothing is known against it
    double elapsed_ms; // the whole call
    double anneal_ms;  // of it, the stages on the device, sets loaded
};

#define REGISTER_AMBIGUOUS 0.85

#define REGISTER_MAX_POINTS 50000000u

struct registration; // opaque

// Returns 0, or with *out NULL: -ENODEV (CUDA asked for and no device), -ENOTSUP (CUDA not built
// in), -ENOMEM, -EIO.
__attribute__((warn_unused_result)) int registration_open(struct registration **out,
                                                          const struct register_config *config);
void registration_close(struct registration **registration);
const char *registration_description(const struct registration *registration);
// Memory of the GPU that is held, the most since open; 0 on the CPU.
size_t registration_device_bytes(const struct registration *registration);

// Registers. `stop` may be NULL. Blocks. Returns 0 and *out (also when not converged), or
//   -EINVAL     bad input; the log, and *out_field when not NULL, name it: "source", "target"
//               (fewer than 3 points, all on a line, NaN or infinite, too many, too far from the
//               origin for floats), "method", "slack",
//               "sigma_last", "n_iterations", "n_points", "n_starts", "initial" ...
//   -ECANCELED  stop->requested, -ETIME deadline passed
//   -ENOMEM     also: the dense matrix of these sets is larger than 4 GiB
//   -ENOTSUP    the dense form on CUDA: cuBLAS was not found
//   -EIO        device error
__attribute__((warn_unused_result)) int
registration_run(struct registration *registration, const struct point_set *source,
                 const struct point_set *target, const struct register_settings *settings,
                 struct register_stop *stop, struct register_result *out, const char **out_field);

// Why the last registration_run returned -EINVAL: what is wrong with the field that it named.
const char *registration_why(const struct registration *registration);

#endif
