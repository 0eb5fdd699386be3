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

#include "gpu/base/yield.h"
#include "gpu/gpu.h"
#include "proto/log.h"
#include "proto/types.h"

enum register_method {
    REGISTER_METHOD_EMICP,
    REGISTER_METHOD_SOFTASSIGN,
    REGISTER_METHOD_ICP,
    REGISTER_METHOD_GICP // plane to plane, Segal et al. 2009
};

enum register_form { REGISTER_FORM_STREAMING, REGISTER_FORM_DENSE };

// TAMAKI: schedule, counts and weights of the authors' released program, for comparing times.
// EM-ICP: sigma^2 0.01 -> 0.00001 m^2 by 0.9 (66 iterations), d_0^2 0.01 m^2, one-sided, all
// points. Softassign: 100 temperatures x 5 x 3 sweeps, alpha 3, T_0 100, factor 0.95; the unit of
// alpha and T is the square of the source's point spacing, because in metres the authors' values
// make the matrix constant.
enum register_preset { REGISTER_PRESET_DEFAULT, REGISTER_PRESET_TAMAKI };

enum register_start {
    REGISTER_START_IDENTITY, // from T_target_source of the settings
    REGISTER_START_MANY      // from everywhere; the settings' transform is not used
};

struct register_config {
    enum gpu_backend backend; // AUTO: CUDA when a device answers, else the CPU
    uint32_t n_threads;       // of the host; 0 = all cores, with CUDA 4
    int cuda_device;          // CUDA: -1 = the first that answers
    struct yield yield;       // towards a tracker beside it; default: none
    // CUDA: about how long a launch may hold the device, 0 = REGISTER_SLICE_US, or
    // REGISTER_SHARED_SLICE_US where yield is shown. A tracker on the same device waits that
    // long at most, and so does a stop; a slice costs about 15 us.
    uint32_t slice_us;
    struct log_sink log;
};

#define REGISTER_SLICE_US        10000u
#define REGISTER_SHARED_SLICE_US 100u

struct register_settings {
    enum register_method method;
    enum register_form form; // ICP has only one and ignores it
    enum register_preset preset;
    enum register_start start;
    struct se3 T_target_source; // initial transform

    // Factors of what is derived from the sets; 0 = the default. Negative is an error.
    double slack;          // weight of "no counterpart"; default 0.03, range up to 10
    double sigma_last;     // smallest sigma in point spacings; default 0.3, range 0.05 .. 10
    uint32_t n_iterations; // ICP: at most so many, default 100; soft methods: of the last stage,
                           // default 150; range up to 10000
    uint32_t n_points;     // most points of a set that the all-pairs stages use; default 4096,
                           // at least 64; preset TAMAKI and form DENSE use all by default
    uint32_t n_starts;     // of start many; default 1344, range up to 100000
    bool point_to_plane;   // default true: last stages point to plane when the target has normals
};

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

void register_config_default(struct register_config *out);
void register_settings_default(struct register_settings *out);

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
//               (fewer than 3 points, all on a line, NaN or infinite, too many), "method", "slack",
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

// Names as the command line and the wire have them: "emicp", "softassign", "icp". NULL or -1 for
// what is none.
const char *register_method_name(enum register_method method);
int register_method_parse(const char *name);

#endif
