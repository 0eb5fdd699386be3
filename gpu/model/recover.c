// SPDX-License-Identifier: Apache-2.0
#include "gpu/model/recover.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "gpu/track/restart.h"
#include "gpu/track/verdict.h"
#include "proto/se3.h"

#define LEVEL (GPU_LEVELS - 1)

// Keyframes nearer than this to one that is there say nothing new.
#define APART_M   0.12
#define APART_RAD 0.15

#define MIN_SHARED_CELLS 0.5 // of the cells with depth in either
#define N_RANKED         8   // the most like ones that are tried at all
#define N_A_FRAME        2   // of them with one frame

// What makes a found pose believed. The tracker itself is content with a quarter of the pairs,
// because it knows where it was.
#define MIN_PAIR_RATIO    0.75
#define MIN_VALID_SHARE   0.1
#define MAX_SIGMAS        3.0
#define MIN_EIGENVALUE    0.002
#define SETTLED_M         0.02 // aligning once more from there changes no more than this
#define SETTLED_RAD       0.01
#define MAX_VIEWS         3   // each from where the one before led: the last has to be settled
#define AMBIGUOUS_SHARE   0.9 // another place with so many of the pairs makes both doubtful
#define ANOTHER_PLACE_M   0.15
#define ANOTHER_PLACE_RAD 0.15

struct recover {
    struct gpu *gpu;
    struct gpu_align_settings align;
    struct gpu_frame *view;
    float *map; // of LEVEL, read back
    uint32_t width_px, height_px;
    struct recover_keyframe *keyframes;
    uint32_t n_keyframes;
};

struct found {
    struct se3 T_map_camera;
    double ratio;
};

int recover_create(struct recover **out, struct gpu *gpu, const struct gpu_align_settings *align)
{
    *out = NULL;
    struct recover *r = calloc(1, sizeof *r);
    if (!r)
        return -ENOMEM;
    const struct intrinsics *camera = &gpu_settings_get(gpu)->camera;
    r->gpu = gpu;
    r->align = *align;
    r->width_px = camera->width_px >> LEVEL;
    r->height_px = camera->height_px >> LEVEL;
    r->map = malloc((size_t)r->width_px * r->height_px * 4 * sizeof *r->map);
    r->keyframes = malloc(RECOVER_MAX_KEYFRAMES * sizeof *r->keyframes);
    int rc = r->map && r->keyframes ? gpu_frame_create(gpu, &r->view) : -ENOMEM;
    if (rc < 0) {
        recover_destroy(&r);
        return rc;
    }
    *out = r;
    return 0;
}

void recover_destroy(struct recover **recover)
{
    if (!recover || !*recover)
        return;
    gpu_frame_destroy((*recover)->gpu, &(*recover)->view);
    free((*recover)->map);
    free((*recover)->keyframes);
    free(*recover);
    *recover = NULL;
}

void recover_forget(struct recover *recover)
{
    recover->n_keyframes = 0;
}

uint32_t recover_keyframes(const struct recover *recover, const struct recover_keyframe **out)
{
    *out = recover->keyframes;
    return recover->n_keyframes;
}

int recover_set(struct recover *recover, const struct recover_keyframe *keyframes,
                uint32_t n_keyframes)
{
    if (n_keyframes > RECOVER_MAX_KEYFRAMES)
        return -EINVAL;
    if (n_keyframes > 0)
        memcpy(recover->keyframes, keyframes, n_keyframes * sizeof *keyframes);
    recover->n_keyframes = n_keyframes;
    return 0;
}

// Mean depth of each cell where a quarter of its pixels have one.
static int describe(struct recover *r, const struct gpu_frame *frame,
                    float out_log_z[RECOVER_CELLS])
{
    int rc = gpu_frame_read(r->gpu, frame, LEVEL, r->map);
    if (rc < 0)
        return rc;
    for (uint32_t cell = 0; cell < RECOVER_CELLS; cell++) {
        uint32_t i = cell % RECOVER_CELLS_X, j = cell / RECOVER_CELLS_X, n = 0;
        uint32_t u0 = i * r->width_px / RECOVER_CELLS_X,
                 u1 = (i + 1) * r->width_px / RECOVER_CELLS_X;
        uint32_t v0 = j * r->height_px / RECOVER_CELLS_Y,
                 v1 = (j + 1) * r->height_px / RECOVER_CELLS_Y;
        double sum = 0;
        for (uint32_t v = v0; v < v1; v++)
            for (uint32_t u = u0; u < u1; u++) {
                float z_m = r->map[4 * ((size_t)v * r->width_px + u) + 3];
                sum += (double)z_m;
                n += z_m > 0;
            }
        out_log_z[cell] = n > 0 && 4 * n >= (u1 - u0) * (v1 - v0) ? (float)log(sum / n) : NAN;
    }
    return 0;
}

// Mean difference of the logarithms of depth; INFINITY where too little is shared.
static double unlikeness(const float *a, const float *b)
{
    double sum = 0;
    int n_shared = 0, n_any = 0;
    for (int i = 0; i < RECOVER_CELLS; i++) {
        bool in_a = !isnan(a[i]), in_b = !isnan(b[i]);
        n_any += in_a || in_b;
        if (!in_a || !in_b)
            continue;
        n_shared++;
        sum += fmin(fabs((double)a[i] - (double)b[i]), 0.5);
    }
    return n_shared > 0 && n_shared >= MIN_SHARED_CELLS * n_any ? sum / n_shared : INFINITY;
}

static double translation_m(const struct se3 *T)
{
    return sqrt(T->t_m[0] * T->t_m[0] + T->t_m[1] * T->t_m[1] + T->t_m[2] * T->t_m[2]);
}

static bool is_near(const struct se3 *a, const struct se3 *b, double limit_m, double limit_rad)
{
    struct se3 between = se3_between(a, b);
    return translation_m(&between) < limit_m && se3_angle(&between) < limit_rad;
}

int recover_add(struct recover *r, const struct gpu_frame *frame, const struct se3 *T_map_camera)
{
    if (r->n_keyframes == RECOVER_MAX_KEYFRAMES)
        return 0;
    for (uint32_t i = 0; i < r->n_keyframes; i++)
        if (is_near(&r->keyframes[i].T_map_camera, T_map_camera, APART_M, APART_RAD))
            return 0;
    struct recover_keyframe *keyframe = &r->keyframes[r->n_keyframes];
    int rc = describe(r, frame, keyframe->log_z);
    if (rc < 0)
        return rc;
    keyframe->T_map_camera = *T_map_camera;
    r->n_keyframes++;
    return 0;
}

// The keyframes most like the frame, the best first. Returns how many.
static uint32_t rank(const struct recover *r, const float *log_z, uint32_t out[N_RANKED])
{
    double best[N_RANKED];
    uint32_t n = 0;
    for (uint32_t k = 0; k < r->n_keyframes; k++) {
        double value = unlikeness(log_z, r->keyframes[k].log_z);
        uint32_t at = n;
        if (isinf(value))
            continue;
        while (at > 0 && value < best[at - 1])
            at--;
        if (at == N_RANKED)
            continue;
        n += n < N_RANKED;
        for (uint32_t i = n - 1; i > at; i--) {
            best[i] = best[i - 1];
            out[i] = out[i - 1];
        }
        best[at] = value;
        out[at] = k;
    }
    return n;
}

static double pair_ratio(const struct gpu_alignment *a)
{
    return a->n_valid_px > 0 ? (double)a->n_pairs / a->n_valid_px : 0;
}

// Aligns the frame to the model as it is seen from T, and moves T there. *out_settled: by next to
// nothing.
static int settle(struct recover *r, struct model *model, const struct gpu_frame *frame,
                  struct se3 *T_map_camera, struct gpu_alignment *out, bool *out_settled)
{
    const struct se3 identity = se3_identity();
    *out_settled = false;
    memset(out, 0, sizeof *out);
    int rc = model_view(model, T_map_camera, r->view);
    if (rc == 0)
        rc = gpu_align(r->gpu, frame, r->view, &identity, &r->align, out);
    if (rc < 0 || !out->solvable || !out->converged)
        return rc;
    struct se3 T = se3_compose(T_map_camera, &out->T_reference_frame);
    *T_map_camera = se3_normalized(&T);
    *out_settled = is_near(&identity, &out->T_reference_frame, SETTLED_M, SETTLED_RAD);
    return 0;
}

// Does the model, seen from T, explain the frame? T is settled on the way.
static int verify(struct recover *r, struct model *model, const struct gpu_frame *frame,
                  struct se3 *T_map_camera, double *out_ratio)
{
    const struct intrinsics *camera = &gpu_settings_get(r->gpu)->camera;
    struct gpu_alignment a;
    struct verdict_conditioning conditioning;
    bool settled = false;
    int rc = 0;
    *out_ratio = 0;
    for (int i = 0; i < MAX_VIEWS && rc == 0 && !settled && (i == 0 || a.converged); i++)
        rc = settle(r, model, frame, T_map_camera, &a, &settled);
    if (rc < 0 || !settled)
        return rc;
    verdict_conditioning(&a, MIN_EIGENVALUE, &conditioning);
    bool sees = a.n_valid_px >= MIN_VALID_SHARE * camera->width_px * camera->height_px;
    if (sees && conditioning.n_degenerate == 0 && verdict_residual_sigmas(&a) <= MAX_SIGMAS &&
        pair_ratio(&a) >= MIN_PAIR_RATIO)
        *out_ratio = pair_ratio(&a);
    return 0;
}

static void keep_better(struct found *best, struct found *second, const struct found *new_one)
{
    if (is_near(&best->T_map_camera, &new_one->T_map_camera, ANOTHER_PLACE_M, ANOTHER_PLACE_RAD)) {
        if (new_one->ratio > best->ratio)
            *best = *new_one;
    } else if (new_one->ratio > best->ratio) {
        *second = *best;
        *best = *new_one;
    } else if (new_one->ratio > second->ratio) {
        *second = *new_one;
    }
}

// From one keyframe: coarse starts against the model's view there, each aligned, then verified.
static int try_keyframe(struct recover *r, struct model *model, const struct gpu_frame *frame,
                        const struct recover_keyframe *keyframe, struct found *best,
                        struct found *second)
{
    const struct se3 identity = se3_identity();
    struct se3 starts[STARTS_MAX], T[STARTS_MAX];
    int n_starts, n_aligned = 0;
    int rc = model_view(model, &keyframe->T_map_camera, r->view);
    if (rc == 0)
        rc = starts_find(r->gpu, frame, r->view, &r->align, &identity, 1, starts, &n_starts);
    for (int i = 0; rc == 0 && i < n_starts; i++) {
        struct gpu_alignment a;
        rc = gpu_align(r->gpu, frame, r->view, &starts[i], &r->align, &a);
        if (rc == 0 && a.solvable && pair_ratio(&a) > 0.4)
            T[n_aligned++] = se3_compose(&keyframe->T_map_camera, &a.T_reference_frame);
    }
    for (int i = 0; rc == 0 && i < n_aligned; i++) {
        struct found found = {T[i], 0};
        bool known = false;
        for (int k = 0; k < i; k++)
            known = known || is_near(&T[k], &T[i], SETTLED_M, SETTLED_RAD);
        if (known)
            continue;
        rc = verify(r, model, frame, &found.T_map_camera, &found.ratio);
        if (rc == 0 && found.ratio > 0)
            keep_better(best, second, &found);
    }
    return rc;
}

int recover_find(struct recover *r, struct model *model, const struct gpu_frame *frame,
                 uint32_t attempt, bool *out_found, struct se3 *out_T_map_camera)
{
    float log_z[RECOVER_CELLS];
    uint32_t ranked[N_RANKED];
    struct found best = {.ratio = 0}, second = {.ratio = 0};
    *out_found = false;
    if (r->n_keyframes == 0)
        return 0;
    int rc = describe(r, frame, log_z);
    if (rc < 0)
        return rc;
    best.T_map_camera = second.T_map_camera = se3_identity();
    best.T_map_camera.t_m[0] = 1e9; // near nothing
    uint32_t n = rank(r, log_z, ranked);
    for (uint32_t i = 0; i < N_A_FRAME && i < n && rc == 0; i++)
        rc = try_keyframe(r, model, frame, &r->keyframes[ranked[(N_A_FRAME * attempt + i) % n]],
                          &best, &second);
    *out_found = rc == 0 && best.ratio > 0 && second.ratio < AMBIGUOUS_SHARE * best.ratio;
    *out_T_map_camera = best.T_map_camera;
    return rc;
}
