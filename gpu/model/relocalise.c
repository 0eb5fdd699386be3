// SPDX-License-Identifier: Apache-2.0
#include "gpu/model/relocalise.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "gpu/model/depth_agreement.h"
#include "gpu/track/alignment_effort.h"
#include "gpu/track/conditioning.h"
#include "gpu/track/multistart.h"
#include "gpu/track/residual.h"
#include "proto/se3.h"

#define LEVEL (GPU_LEVELS - 1)

// Keyframes nearer than this to one that is there say nothing new.
#define APART_M   0.12
#define APART_RAD 0.15

#define N_RANKED  8 // the most like ones that are tried at all
#define N_A_FRAME 2 // of them with one frame

// Before a place is looked at closely: agreement in the keyframe's own view.
#define MIN_START_AGREE 0.75
#define MIN_START_KNOWN 0.2

// What makes a found pose believed. The tracker itself is content with a quarter of the pairs,
// because it knows where it was.
#define MIN_VALID_SHARE   0.1
#define MAX_SIGMAS        3.0
#define SURE_AGREE        0.95
#define SURE_KNOWN        0.75
#define SURE_EIGENVALUE   0.0024 // as the tracker: tracker.min_eigenvalue
#define FAIR_AGREE        0.92
#define FAIR_KNOWN        0.45
#define FAIR_EIGENVALUE   0.001
#define SETTLED_M         0.02 // aligning once more from there changes no more than this
#define SETTLED_RAD       0.01
#define MAX_VIEWS         3   // each from where the one before led: the last has to be settled
#define AMBIGUOUS_SHARE   0.9 // another place that explains so much of it makes both doubtful
#define ANOTHER_PLACE_M   0.15
#define ANOTHER_PLACE_RAD 0.15

// A keyframe this near to a place that was found says nothing of another one.
#define SAME_VIEW_M   0.3
#define SAME_VIEW_RAD 0.3

struct found {
    struct se3 T_map_camera;
    enum relocalise_trust trust;
    double explained; // share of the frame's pixels that agree
};

// At one frame, part by part: of each place the starts, then each of them.
struct look {
    const struct gpu_frame *frame; // its map is in relocaliser.map
    struct se3 T_map_places[1 + N_A_FRAME];
    uint32_t n_places, at; // at: the next one
    bool has_guess;        // the first of them
    struct found starts[MULTISTART_MAX];
    int n_starts, n_tried;
    struct found best, second;
};

struct relocaliser {
    struct gpu *gpu;
    struct gpu_align_settings align;
    struct gpu_frame *view;
    float *map, *view_map; // of LEVEL, read back: the frame that is looked for, and a view
    uint32_t width_px, height_px;
    struct relocalise_keyframe *keyframes;
    uint32_t n_keyframes;
    struct look look;
};

int relocalise_create(struct relocaliser **out, struct gpu *gpu,
                      const struct gpu_align_settings *align)
{
    *out = NULL;
    struct relocaliser *r = calloc(1, sizeof *r);
    if (!r)
        return -ENOMEM;
    const struct intrinsics *camera = &gpu_settings_get(gpu)->camera;
    r->gpu = gpu;
    r->align = *align;
    r->width_px = camera->width_px >> LEVEL;
    r->height_px = camera->height_px >> LEVEL;
    const size_t n_bytes = (size_t)r->width_px * r->height_px * 4 * sizeof *r->map;
    r->map = malloc(n_bytes);
    r->view_map = malloc(n_bytes);
    r->keyframes = malloc(RELOCALISE_MAX_KEYFRAMES * sizeof *r->keyframes);
    int rc = r->map && r->view_map && r->keyframes ? gpu_frame_create(gpu, &r->view) : -ENOMEM;
    if (rc < 0) {
        relocalise_destroy(&r);
        return rc;
    }
    *out = r;
    return 0;
}

void relocalise_destroy(struct relocaliser **relocaliser)
{
    if (!relocaliser || !*relocaliser)
        return;
    gpu_frame_destroy((*relocaliser)->gpu, &(*relocaliser)->view);
    free((*relocaliser)->map);
    free((*relocaliser)->view_map);
    free((*relocaliser)->keyframes);
    free(*relocaliser);
    *relocaliser = NULL;
}

void relocalise_forget(struct relocaliser *relocaliser)
{
    relocaliser->n_keyframes = 0;
}

uint32_t relocalise_keyframes(const struct relocaliser *relocaliser,
                              const struct relocalise_keyframe **out)
{
    *out = relocaliser->keyframes;
    return relocaliser->n_keyframes;
}

int relocalise_set(struct relocaliser *relocaliser, const struct relocalise_keyframe *keyframes,
                   uint32_t n_keyframes)
{
    if (n_keyframes > RELOCALISE_MAX_KEYFRAMES)
        return -EINVAL;
    if (n_keyframes > 0)
        memcpy(relocaliser->keyframes, keyframes, n_keyframes * sizeof *keyframes);
    relocaliser->n_keyframes = n_keyframes;
    return 0;
}

static int describe(struct relocaliser *r, const struct gpu_frame *frame,
                    float out_log_z[DEPTH_CELLS])
{
    int rc = gpu_frame_read(r->gpu, frame, LEVEL, r->map);
    if (rc == 0)
        depth_cells_of(r->map + 3, 4, r->width_px, r->height_px, out_log_z);
    return rc;
}

int relocalise_add(struct relocaliser *r, const struct gpu_frame *frame,
                   const struct se3 *T_map_camera)
{
    if (r->n_keyframes == RELOCALISE_MAX_KEYFRAMES)
        return 0;
    for (uint32_t i = 0; i < r->n_keyframes; i++)
        if (relocalise_is_near(&r->keyframes[i].T_map_camera, T_map_camera, APART_M, APART_RAD))
            return 0;
    struct relocalise_keyframe *keyframe = &r->keyframes[r->n_keyframes];
    int rc = describe(r, frame, keyframe->log_z);
    if (rc < 0)
        return rc;
    keyframe->T_map_camera = *T_map_camera;
    r->n_keyframes++;
    return 0;
}

// The keyframes most like the frame, the best first. Returns how many.
static uint32_t rank(const struct relocaliser *r, const float *log_z, uint32_t out[N_RANKED])
{
    double best[N_RANKED];
    uint32_t n = 0;
    for (uint32_t k = 0; k < r->n_keyframes; k++) {
        int n_shared;
        double value = depth_cells_unlikeness(log_z, r->keyframes[k].log_z, 0, 0, &n_shared);
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

// The frame, whose map is in r->map, against r->view. Returns 0 or -EIO.
static int compare(struct relocaliser *r, const struct se3 *T_view_frame,
                   struct depth_agreement *out)
{
    const struct intrinsics *camera = &gpu_settings_get(r->gpu)->camera;
    const double scale = 1.0 / (1u << LEVEL);
    const struct intrinsics level = {camera->fx_px * scale, camera->fy_px * scale,
                                     camera->cx_px * scale, camera->cy_px * scale,
                                     r->width_px,           r->height_px};
    int rc = gpu_frame_read(r->gpu, r->view, LEVEL, r->view_map);
    if (rc == 0)
        *out = depth_agreement_of(&level, r->map + 3, r->view_map + 3, 4, T_view_frame);
    return rc;
}

// Aligns the frame to the model as it is seen from T, and moves T there. *out_settled: by next to
// nothing. That the steps had become small is not asked for: from some distance they have not yet,
// and the next view tells.
static int settle(struct relocaliser *r, struct model *model, const struct gpu_frame *frame,
                  struct se3 *T_map_camera, struct gpu_alignment *out, bool *out_settled)
{
    const struct se3 identity = se3_identity();
    *out_settled = false;
    memset(out, 0, sizeof *out);
    int rc = model_view(model, T_map_camera, r->view);
    if (rc == 0)
        rc = gpu_align(r->gpu, frame, r->view, &identity, &r->align, out);
    if (rc < 0 || !out->solvable)
        return rc;
    struct se3 T = se3_compose(T_map_camera, &out->T_reference_frame);
    *T_map_camera = se3_normalized(&T);
    *out_settled = relocalise_is_near(&identity, &out->T_reference_frame, SETTLED_M, SETTLED_RAD);
    return 0;
}

static enum relocalise_trust trust_of(const struct relocaliser *r, const struct gpu_alignment *a,
                                      const struct depth_agreement *agreement)
{
    const struct intrinsics *camera = &gpu_settings_get(r->gpu)->camera;
    struct conditioning conditioning;
    conditioning_of(a, FAIR_EIGENVALUE, &conditioning);
    // Valid are pixels of the finest level that is aligned.
    const uint32_t level = effort_finest_level(&r->align);
    const uint32_t n_px = (camera->width_px >> level) * (camera->height_px >> level);
    if (a->n_valid_px < MIN_VALID_SHARE * n_px || conditioning.n_degenerate > 0 ||
        !(residual_sigmas(a) <= MAX_SIGMAS))
        return RELOCALISE_NOT_FOUND;
    if (agreement->agree >= SURE_AGREE && agreement->known >= SURE_KNOWN &&
        conditioning.eigenvalues[0] >= SURE_EIGENVALUE)
        return RELOCALISE_SURE;
    return agreement->agree >= FAIR_AGREE && agreement->known >= FAIR_KNOWN ? RELOCALISE_FAIR
                                                                            : RELOCALISE_NOT_FOUND;
}

// Does the model, seen from found->T_map_camera, explain the frame? That is settled on the way.
static int verify(struct relocaliser *r, struct model *model, const struct gpu_frame *frame,
                  struct found *found)
{
    struct gpu_alignment a;
    struct depth_agreement agreement;
    bool settled = false;
    int rc = 0;
    found->trust = RELOCALISE_NOT_FOUND;
    for (int i = 0; i < MAX_VIEWS && rc == 0 && !settled && (i == 0 || a.solvable); i++)
        rc = settle(r, model, frame, &found->T_map_camera, &a, &settled);
    if (rc < 0 || !settled)
        return rc;
    rc = compare(r, &a.T_reference_frame, &agreement);
    if (rc < 0)
        return rc;
    found->trust = trust_of(r, &a, &agreement);
    found->explained = agreement.known * agreement.agree;
    return 0;
}

static void keep_better(struct found *best, struct found *second, const struct found *new_one)
{
    bool is_better = new_one->explained > best->explained;
    if (best->trust && !relocalise_is_near(&best->T_map_camera, &new_one->T_map_camera,
                                           ANOTHER_PLACE_M, ANOTHER_PLACE_RAD)) {
        const struct found *other = is_better ? best : new_one;
        if (other->explained > second->explained)
            *second = *other;
    }
    if (is_better)
        *best = *new_one;
}

// Of starts that lead to one place the one that explains most.
static void keep_start(const struct found *start, struct found starts[MULTISTART_MAX],
                       int *n_starts)
{
    for (int i = 0; i < *n_starts; i++)
        if (relocalise_is_near(&starts[i].T_map_camera, &start->T_map_camera, ANOTHER_PLACE_M,
                               ANOTHER_PLACE_RAD)) {
            if (start->explained > starts[i].explained)
                starts[i] = *start;
            return;
        }
    starts[(*n_starts)++] = *start;
}

// Coarse starts against the model's view from a place, each aligned at half the resolution;
// those that agree there. Returns 0 or -EIO.
static int find_starts(struct relocaliser *r, struct model *model, const struct gpu_frame *frame,
                       const struct se3 *T_map_place, struct found out[MULTISTART_MAX], int *out_n)
{
    const struct se3 identity = se3_identity();
    struct gpu_align_settings half;
    struct se3 starts[MULTISTART_MAX];
    int n_starts = 0;
    effort_align(&r->align, TRACK_EFFORT_HALF, &half);
    *out_n = 0;
    int rc = model_view(model, T_map_place, r->view);
    if (rc == 0)
        rc = multistart_find(r->gpu, frame, r->view, &r->align, &identity, 1, starts, &n_starts);
    for (int i = 0; rc == 0 && i < n_starts; i++) {
        struct gpu_alignment a;
        struct depth_agreement agreement;
        rc = gpu_align(r->gpu, frame, r->view, &starts[i], &half, &a);
        if (rc < 0 || !a.solvable)
            continue;
        rc = compare(r, &a.T_reference_frame, &agreement);
        if (rc < 0)
            break;
        if (agreement.agree < MIN_START_AGREE || agreement.known < MIN_START_KNOWN)
            continue;
        struct found found = {se3_compose(T_map_place, &a.T_reference_frame), 0,
                              agreement.agree * agreement.known};
        keep_start(&found, out, out_n);
    }
    return rc;
}

// Of the frame's map, pixels without a normal have no depth from now on: they are not compared.
static void leave_normals(struct relocaliser *r)
{
    for (size_t i = 0; i < (size_t)r->width_px * r->height_px; i++) {
        float *pixel = &r->map[4 * i];
        if (pixel[0] == 0 && pixel[1] == 0 && pixel[2] == 0)
            pixel[3] = 0;
    }
}

int relocalise_begin(struct relocaliser *r, const struct gpu_frame *frame, uint32_t attempt,
                     const struct se3 *T_map_guess)
{
    struct look *look = &r->look;
    float log_z[DEPTH_CELLS];
    uint32_t ranked[N_RANKED];
    *look = (struct look){.frame = frame, .has_guess = T_map_guess != NULL};
    if (r->n_keyframes == 0)
        return 0;
    int rc = describe(r, frame, log_z);
    if (rc < 0)
        return rc;
    leave_normals(r);
    if (T_map_guess)
        look->T_map_places[look->n_places++] = *T_map_guess;
    const uint32_t n = rank(r, log_z, ranked);
    for (uint32_t i = 0; i < N_A_FRAME && i < n; i++)
        look->T_map_places[look->n_places++] =
            r->keyframes[ranked[i == 0 ? 0 : 1 + attempt % (n - 1)]].T_map_camera;
    return 0;
}

// The next place that is tried: none where the guess was right, nor one that shows what was found.
static const struct se3 *next_place(struct look *look)
{
    if (look->has_guess && look->at == 1 && look->best.trust)
        look->n_places = 1;
    while (look->at < look->n_places) {
        const struct se3 *T = &look->T_map_places[look->at];
        if (!look->best.trust ||
            !relocalise_is_near(&look->best.T_map_camera, T, SAME_VIEW_M, SAME_VIEW_RAD))
            return T;
        look->at++;
    }
    return NULL;
}

int relocalise_step(struct relocaliser *r, struct model *model, bool *out_done,
                    enum relocalise_trust *out_trust, struct se3 *out_T_map_camera)
{
    struct look *look = &r->look;
    int rc = 0;
    if (look->n_tried < look->n_starts) {
        struct found *start = &look->starts[look->n_tried++];
        rc = verify(r, model, look->frame, start);
        if (rc == 0 && start->trust)
            keep_better(&look->best, &look->second, start);
    } else if (next_place(look)) {
        look->n_tried = look->n_starts = 0;
        rc = find_starts(r, model, look->frame, &look->T_map_places[look->at++], look->starts,
                         &look->n_starts);
    }
    *out_done = rc < 0 || (look->n_tried == look->n_starts && !next_place(look));
    *out_trust = RELOCALISE_NOT_FOUND;
    if (rc == 0 && *out_done && look->second.explained < AMBIGUOUS_SHARE * look->best.explained)
        *out_trust = look->best.trust;
    *out_T_map_camera = look->best.T_map_camera;
    return rc;
}

int relocalise_find(struct relocaliser *r, struct model *model, const struct gpu_frame *frame,
                    uint32_t attempt, const struct se3 *T_map_guess,
                    enum relocalise_trust *out_trust, struct se3 *out_T_map_camera)
{
    bool done = false;
    *out_trust = RELOCALISE_NOT_FOUND;
    int rc = relocalise_begin(r, frame, attempt, T_map_guess);
    while (rc == 0 && !done)
        rc = relocalise_step(r, model, &done, out_trust, out_T_map_camera);
    return rc;
}
