// SPDX-License-Identifier: Apache-2.0
// The settings of a registration and of its device: what each means, defaults, ranges, names, and
// what is wrong with those that a caller brings.
#ifndef POSED_GPU_REGISTER_SETTINGS_H
#define POSED_GPU_REGISTER_SETTINGS_H

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
    enum register_form form; // ICP and GICP have only one and ignore it
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

void register_config_default(struct register_config *out);
void register_settings_default(struct register_settings *out);

// As the command line and the wire have it: "emicp", "softassign", "icp", "gicp". NULL for what is
// none.
const char *register_method_name(enum register_method method);

// NULL, or the name of the field that is wrong and, in *out_why, what is wanted of it.
const char *register_settings_check(const struct register_settings *settings, const char **out_why);

#endif
