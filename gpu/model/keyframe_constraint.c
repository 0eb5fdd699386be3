// SPDX-License-Identifier: Apache-2.0
#include "gpu/model/keyframe_constraint.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "gpu/align/ops.h"
#include "gpu/base/solve6.h"
#include "gpu/track/conditioning.h"
#include "proto/se3.h"

#define MEAN_TO_SIGMA     1.2533 // of |e| of a Gaussian
#define GATE_M            0.1    // the least to begin with
#define MAX_ANGLE_RAD     0.6
#define CONFLICT_M        0.1
#define MIN_MATCHED       0.3 // share of the vertices with a partner
#define MAX_SCALE         4.0 // of the residuals, in units of the sensor's noise
// Weights of a step: so many, or a quarter of the vertices where a small camera has fewer.
#define MIN_WEIGHTS       100.0
#define MIN_WEIGHTS_SHARE 0.25
#define CORRELATED_PX     40.0 // one vertex in so many counts as independent

// Systematic error of a measured link: floor, and share of the motion (m + rad).
#define FLOOR_M        0.001
#define FLOOR_RAD      0.0007
#define SHARE_M        0.1
#define SHARE_RAD      0.07
#define CHAIN_BELIEVED 4.0
// Share of its variance that lies as white noise would lead it: what stays in patches of the images
// moves a pose most along what their surfaces hold least. The rest is the same in all directions,
// which bounds how far a direction is believed.
#define SHAPED         0.8

// Of the information: less is noise (conditioning.h has what scenes give).
#define MIN_SHARE 0.001

static const uint32_t iterations[ALIGN_LEVELS] = {3, 4, 8}; // fine to coarse

struct link_maker {
    struct align_device *device;
    struct align_task tasks[2 * LINK_MAX];
    double sums[2 * LINK_MAX * PAIR_N_SUMS];
    double scale[LINK_MAX], gate_m[LINK_MAX];
    struct yield yield;
};

int link_maker_create(struct link_maker **out, const struct log_sink *log)
{
    struct align_device_settings settings = {LINK_MAX + 1, 2 * LINK_MAX, 1, -1, *log};
    *out = calloc(1, sizeof **out);
    if (!*out)
        return -ENOMEM;
    int rc = align_device_open(&(*out)->device, GPU_BACKEND_CPU, &settings);
    if (rc < 0)
        link_maker_destroy(out);
    return rc;
}

void link_maker_destroy(struct link_maker **maker)
{
    if (*maker)
        align_device_close(&(*maker)->device);
    free(*maker);
    *maker = NULL;
}

void link_maker_set_yield(struct link_maker *maker, const struct yield *yield)
{
    maker->yield = yield ? *yield : (struct yield){0};
}

int link_image(struct align_image **out, const float *z_m, const struct intrinsics *camera)
{
    static const struct log_sink quiet = {NULL, NULL};
    struct align_image_settings settings;
    align_image_settings_default(&settings);
    return align_image_create_depth(out, z_m, camera, &settings, "keyframe", &quiet);
}

static struct pair_pose narrow(const struct se3 *T)
{
    struct pair_pose out;
    for (int i = 0; i < 9; i++)
        out.r[i] = (float)T->r[i];
    for (int i = 0; i < 3; i++)
        out.t_m[i] = (float)T->t_m[i];
    return out;
}

// Where one in `step` of the coarse vertices falls in the other image.
struct fall {
    uint32_t n_all, n_on, n_before; // looked at; on its surface; before it, where it saw nothing
    uint32_t n_seen;                // where it has a surface
};

static struct fall fall_of(const struct align_image *image, const struct align_image *other,
                           const struct se3 *T_other_image, double gate_m)
{
    const struct pair_gates gates = {(float)gate_m, cosf((float)MAX_ANGLE_RAD), 0};
    struct pair_pose T = narrow(T_other_image);
    struct fall out = {0};
    uint32_t n = image->n_level[ALIGN_LEVELS - 1], step = n / 300 + 1;
    for (uint32_t i = 0; i < n; i += step, out.n_all++) {
        struct pair_vec3 p = {image->x_m[i], image->y_m[i], image->z_m[i]},
                         normal = {image->nx[i], image->ny[i], image->nz[i]};
        struct pair_vec3 q = pair_transform(&T, p);
        struct pair_cell cell =
            pair_project(other->projection, (int32_t)other->width, (int32_t)other->height, q);
        struct pair_plane plane = other->planes[(size_t)cell.v * other->width + (size_t)cell.u];
        struct pair_row row =
            pair_residual(&gates, cell.inside, q, pair_rotate(&T, normal), 1, plane);
        bool seen = cell.inside && (plane.nx != 0 || plane.ny != 0 || plane.nz != 0);
        out.n_on += row.n > 0;
        out.n_seen += seen;
        out.n_before +=
            seen && plane.nx * q.x + plane.ny * q.y + plane.nz * q.z - plane.d_m > gates.distance_m;
    }
    return out;
}

double link_overlap(const struct align_image *image, const struct align_image *other,
                    const struct se3 *T_other_image, double doubt_m)
{
    struct fall fall = fall_of(image, other, T_other_image, fmax(GATE_M, doubt_m));
    return fall.n_all ? (double)fall.n_on / fall.n_all : 0;
}

double link_conflict(const struct align_image *image, const struct align_image *other,
                     const struct se3 *T_other_image)
{
    struct se3 T_image_other = se3_inverse(T_other_image);
    struct fall there = fall_of(image, other, T_other_image, CONFLICT_M);
    struct fall back = fall_of(other, image, &T_image_other, CONFLICT_M);
    uint32_t n_seen = there.n_seen + back.n_seen;
    return n_seen ? (double)(there.n_before + back.n_before) / n_seen : 0;
}

// H and g of both directions for T_j_i -> exp(x) T_j_i. sums: i's vertices in j, then j's in i.
static void add_both(const double *sums, const struct se3 *T_j_i, double h[36], double g[6])
{
    double there[36], back[36], ad[36], half[36];
    struct se3 T_i_j = se3_inverse(T_j_i);
    se3_adjoint(&T_i_j, ad);
    for (int i = 0, at = 0; i < 6; i++)
        for (int j = i; j < 6; j++, at++) {
            there[6 * i + j] = there[6 * j + i] = sums[PAIR_SUM_H + at];
            back[6 * i + j] = back[6 * j + i] = sums[PAIR_N_SUMS + PAIR_SUM_H + at];
        }
    for (int i = 0; i < 6; i++)
        for (int j = 0; j < 6; j++) {
            half[6 * i + j] = 0;
            for (int k = 0; k < 6; k++)
                // cppcheck-suppress uninitvar; both triangles are filled
                half[6 * i + j] += back[6 * i + k] * ad[6 * k + j];
        }
    for (int i = 0; i < 6; i++) {
        g[i] = sums[PAIR_SUM_G + i];
        for (int k = 0; k < 6; k++)
            g[i] -= ad[6 * k + i] * sums[PAIR_N_SUMS + PAIR_SUM_G + k];
        for (int j = 0; j < 6; j++) {
            // cppcheck-suppress uninitvar; both triangles are filled
            h[6 * i + j] = there[6 * i + j];
            for (int k = 0; k < 6; k++)
                h[6 * i + j] += ad[6 * k + i] * half[6 * k + j];
        }
    }
}

double link_motion(const struct se3 *T)
{
    const double *t = T->t_m;
    return sqrt(t[0] * t[0] + t[1] * t[1] + t[2] * t[2]) + se3_angle(T);
}

// The variances that the systematic error adds after a motion.
static void systematic(double motion, double *out_m2, double *out_rad2)
{
    double std_m = FLOOR_M + SHARE_M * motion, std_rad = FLOOR_RAD + SHARE_RAD * motion;
    *out_m2 = std_m * std_m;
    *out_rad2 = std_rad * std_rad;
}

// How well the direction is held that is held least. A normal has the length 1: the trace of the
// translations is the sum of the weights.
static double weakest_of(const double h[36])
{
    struct gpu_alignment alignment = {.information_weight = h[0] + h[7] + h[14]};
    struct conditioning conditioning;
    memcpy(alignment.information, h, sizeof alignment.information);
    conditioning_of(&alignment, MIN_SHARE, &conditioning);
    return conditioning.n_degenerate > 0 ? 0 : conditioning.eigenvalues[0];
}

// What the last sums are worth. False: some direction is not held at all.
static bool inform(struct link *link, const double h[36], double scale)
{
    double covariance[36], variance[6], log_times = 0;
    if (!solve6_invert(h, 0, covariance))
        return false;
    systematic(link_motion(&link->T_j_i), &variance[0], &variance[3]);
    for (int i = 0; i < 6; i++) {
        variance[i] = variance[i / 3 * 3];
        log_times += log(variance[i] / covariance[7 * i]) / 6;
    }
    const double times = CORRELATED_PX * scale * scale + SHAPED * exp(log_times);
    for (int i = 0; i < 36; i++)
        covariance[i] *= times;
    for (int i = 0; i < 6; i++)
        covariance[7 * i] += (1 - SHAPED) * variance[i];
    return solve6_invert(covariance, 0, link->information);
}

void link_chain(struct link *link, const struct se3 *T_j_i, double way, uint32_t steps)
{
    double m2, rad2, step_m2, step_rad2;
    systematic(link_motion(T_j_i), &m2, &rad2);
    systematic(way / steps, &step_m2, &step_rad2);
    m2 = fmax(m2, steps * step_m2);
    rad2 = fmax(rad2, steps * step_rad2);
    *link = (struct link){.T_j_i = *T_j_i, .overlap = 1, .good = true};
    for (int i = 0; i < 3; i++) {
        link->information[7 * i] = CHAIN_BELIEVED * CHAIN_BELIEVED / m2;
        link->information[7 * (i + 3)] = CHAIN_BELIEVED * CHAIN_BELIEVED / rad2;
    }
}

void link_tie(struct link *link, const struct se3 *T_j_i, double motion)
{
    double m2, rad2;
    systematic(motion, &m2, &rad2);
    *link = (struct link){.T_j_i = *T_j_i, .overlap = 1, .good = true};
    for (int i = 0; i < 3; i++) {
        link->information[7 * i] =
            1 / (m2 / (CHAIN_BELIEVED * CHAIN_BELIEVED) + LINK_PLACE_M * LINK_PLACE_M);
        link->information[7 * (i + 3)] =
            1 / (rad2 / (CHAIN_BELIEVED * CHAIN_BELIEVED) + LINK_PLACE_RAD * LINK_PLACE_RAD);
    }
}

static double both(const double *sums, enum pair_sum which)
{
    return sums[which] + sums[PAIR_N_SUMS + which];
}

static int sum_all(struct link_maker *m, uint32_t n, const struct link *links, uint32_t level)
{
    for (uint32_t k = 0; k < n; k++) {
        struct se3 T_i_j = se3_inverse(&links[k].T_j_i);
        float cut = PAIR_TUKEY_CUT * (float)m->scale[k];
        struct pair_gates gates = {(float)m->gate_m[k], cosf((float)MAX_ANGLE_RAD),
                                   1.0f / (cut * cut)};
        m->tasks[2 * k] = (struct align_task){k + 1, 0, narrow(&links[k].T_j_i), gates};
        m->tasks[2 * k + 1] = (struct align_task){0, k + 1, narrow(&T_i_j), gates};
    }
    return align_device_sum(m->device, m->tasks, 2 * n, level, m->sums);
}

// One step of one link; on the last level what it is worth.
static void step(struct link_maker *m, uint32_t k, const struct align_image *image,
                 const struct align_image *other, uint32_t level, struct link *link)
{
    const double *sums = m->sums + 2 * (size_t)k * PAIR_N_SUMS;
    double h[36], g[6], covariance[36], noise_m = (double)image->noise.a_m;
    double tw = both(sums, PAIR_SUM_TW), n = both(sums, PAIR_SUM_N);
    double n_all = (double)image->n_level[level] + other->n_level[level];
    link->overlap = n / n_all;
    if (!(tw > fmin(MIN_WEIGHTS, MIN_WEIGHTS_SHARE * n_all)))
        link->good = false;
    if (!link->good)
        return;
    double scale = fmax(1, MEAN_TO_SIGMA * both(sums, PAIR_SUM_ABS) / tw);
    m->scale[k] = scale;
    m->gate_m[k] = fmin(m->gate_m[k], fmax(10 * scale * noise_m, 0.02));
    link->rms_m = sqrt(both(sums, PAIR_SUM_RR) / tw);
    add_both(sums, &link->T_j_i, h, g);
    if (!solve6_invert(h, 0, covariance)) {
        link->good = false;
        return;
    }
    double twist[6];
    for (int i = 0; i < 6; i++) {
        twist[i] = 0;
        for (int j = 0; j < 6; j++)
            twist[i] -= covariance[6 * i + j] * g[j];
    }
    struct se3 turn = se3_exp(twist), T = se3_compose(&turn, &link->T_j_i);
    link->T_j_i = se3_normalized(&T);
    if (level == 0)
        link->weakest = weakest_of(h);
    if (level == 0)
        link->good = link->overlap > MIN_MATCHED && scale < MAX_SCALE && inform(link, h, scale);
}

int link_measure(struct link_maker *m, const struct align_image *image,
                 const struct align_image *const *others, uint32_t n, struct link *inout)
{
    int rc = align_device_load(m->device, 0, image);
    for (uint32_t k = 0; k < n && rc == 0; k++) {
        rc = align_device_load(m->device, k + 1, others[k]);
        m->gate_m[k] = fmax(GATE_M, inout[k].doubt_m);
        m->scale[k] = m->gate_m[k] / ((double)PAIR_TUKEY_CUT * (double)image->noise.a_m);
        inout[k].good = true;
    }
    for (int level = ALIGN_LEVELS - 1; level >= 0 && rc == 0; level--)
        for (uint32_t it = 0; it < iterations[level] && rc == 0; it++) {
            yield_now(&m->yield);
            rc = sum_all(m, n, inout, (uint32_t)level);
            for (uint32_t k = 0; k < n && rc == 0; k++)
                step(m, k, image, others[k], (uint32_t)level, &inout[k]);
        }
    return rc;
}
