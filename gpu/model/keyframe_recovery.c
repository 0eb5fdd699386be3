// SPDX-License-Identifier: Apache-2.0
#include "gpu/model/keyframe_recovery.h"

#include <math.h>
#include <stdlib.h>

#include "gpu/model/depth_agreement.h"
#include "proto/se3.h"

// Places are compared moved by up to so many cells, a quarter of the image: a measurement from the
// other's pose finds its way over 0.1 rad, one and a half cells.
#define SHIFT_X   4
#define SHIFT_Y   3
#define APART     2   // cells, of the two starts of a place
#define MIN_CELLS 64  // that must meet
#define FEWER     0.1 // what it counts where no cells meet
#define N_RANKED  16  // the most like ones that are tried at all
#define N_ALWAYS  5   // of them with each frame
#define DOUBT_M   0.3 // within which surfaces are sought

// What makes a pose believed.
#define MIN_WEAKEST  0.003 // the tracker, which knows where it was, is content with 0.0024
#define MAX_CONFLICT 0.05
#define WORSE_RMS    2.0 // than usual
#define SURE_OVERLAP 0.45
#define SURE_KNOWN   0.6
#define SURE_AGREE   0.95
#define FAIR_OVERLAP 0.35
#define FAIR_KNOWN   0.4
#define FAIR_AGREE   0.92

// Another place that explains so much of it makes both doubtful.
#define AMBIGUOUS_SHARE   0.9
#define ANOTHER_PLACE_M   0.15
#define ANOTHER_PLACE_RAD 0.15

struct start {
    uint32_t at;
    int x, y; // shift from the frame's cells to the place's
    double unlike;
};

struct found {
    enum relocalise_trust trust;
    double explained; // share of both images' pixels that agree
    struct se3 T_odom_camera, T_map_camera;
    uint32_t at; // the place
    struct link link;
};

static void keep(struct start *kept, const struct start *shifted)
{
    if (shifted->unlike < kept->unlike)
        *kept = *shifted;
}

// The shift in which a place is most like the frame, and the best one that is not beside it.
static void best_shifts(const float *frame, const float *place, uint32_t at,
                        struct start out[RECOVERY_STARTS])
{
    struct start all[(2 * SHIFT_X + 1) * (2 * SHIFT_Y + 1)];
    uint32_t n = 0;
    out[0] = out[1] = (struct start){.at = at, .unlike = INFINITY};
    for (int y = -SHIFT_Y; y <= SHIFT_Y; y++)
        for (int x = -SHIFT_X; x <= SHIFT_X; x++) {
            int n_shared;
            double unlike = depth_cells_unlikeness(frame, place, x, y, &n_shared);
            if (n_shared < MIN_CELLS)
                continue;
            unlike += FEWER * (1 - (double)n_shared / DEPTH_CELLS);
            all[n] = (struct start){at, x, y, unlike};
            keep(&out[0], &all[n++]);
        }
    for (uint32_t i = 0; i < n; i++)
        if (abs(all[i].x - out[0].x) >= APART || abs(all[i].y - out[0].y) >= APART)
            keep(&out[1], &all[i]);
}

// The places most like the frame, the best first. Returns how many.
static uint32_t rank(const float *frame, const struct recovery_place *places, uint32_t n,
                     struct start out[N_RANKED][RECOVERY_STARTS])
{
    uint32_t n_ranked = 0;
    for (uint32_t k = 0; k < n; k++) {
        struct start starts[RECOVERY_STARTS];
        best_shifts(frame, places[k].view.log_z, k, starts);
        uint32_t at = n_ranked;
        while (at > 0 && starts[0].unlike < out[at - 1][0].unlike)
            at--;
        if (at == N_RANKED || isinf(starts[0].unlike))
            continue;
        n_ranked += n_ranked < N_RANKED;
        for (uint32_t i = n_ranked - 1; i > at; i--)
            for (int s = 0; s < RECOVERY_STARTS; s++)
                out[i][s] = out[i - 1][s];
        for (int s = 0; s < RECOVERY_STARTS; s++)
            out[at][s] = starts[s];
    }
    return n_ranked;
}

// Of the ranked ones those of this frame: the first, and of the rest some, in turn.
static uint32_t choose(const struct start ranked[N_RANKED][RECOVERY_STARTS], uint32_t n_ranked,
                       uint32_t attempt, struct start out[LINK_MAX])
{
    const uint32_t n_turn = RECOVERY_PLACES - N_ALWAYS;
    uint32_t n = 0;
    for (uint32_t i = 0; i < n_ranked && i < RECOVERY_PLACES; i++) {
        uint32_t at = i;
        if (i >= N_ALWAYS)
            at = N_ALWAYS + (attempt * n_turn + i - N_ALWAYS) % (n_ranked - N_ALWAYS);
        for (int s = 0; s < RECOVERY_STARTS; s++)
            if (!isinf(ranked[at][s].unlike))
                out[n++] = ranked[at][s];
    }
    return n;
}

// As if the camera had turned by the shift alone.
static struct se3 turned(const struct intrinsics *camera, const struct start *start)
{
    const double cell_x_px = (double)camera->width_px / DEPTH_CELLS_X;
    const double cell_y_px = (double)camera->height_px / DEPTH_CELLS_Y;
    const double twist[6] = {
        0, 0, 0, start->y * cell_y_px / camera->fy_px, -start->x * cell_x_px / camera->fx_px, 0};
    return se3_exp(twist);
}

// What a measurement is worth; link->T_j_i takes the place's points into the frame.
static enum relocalise_trust judge(const struct intrinsics *camera,
                                   const struct recovery_view *frame,
                                   const struct recovery_view *place, const struct link *link,
                                   double usual_rms_m, double *out_explained)
{
    const struct se3 T_place_frame = se3_inverse(&link->T_j_i);
    *out_explained = 0;
    if (!link->good || link->overlap < FAIR_OVERLAP || link->weakest < MIN_WEAKEST ||
        (usual_rms_m > 0 && link->rms_m > WORSE_RMS * usual_rms_m) ||
        link_conflict(frame->image, place->image, &T_place_frame) > MAX_CONFLICT)
        return RELOCALISE_NOT_FOUND;
    const struct depth_agreement there =
        depth_agreement_of(camera, frame->z_m, place->z_m, 1, &T_place_frame);
    const struct depth_agreement back =
        depth_agreement_of(camera, place->z_m, frame->z_m, 1, &link->T_j_i);
    const double known = fmin(there.known, back.known), agree = fmin(there.agree, back.agree);
    *out_explained = (there.known * there.agree + back.known * back.agree) / 2;
    if (agree >= SURE_AGREE && known >= SURE_KNOWN && link->overlap >= SURE_OVERLAP)
        return RELOCALISE_SURE;
    return agree >= FAIR_AGREE && known >= FAIR_KNOWN ? RELOCALISE_FAIR : RELOCALISE_NOT_FOUND;
}

// Where a measurement leads.
static struct found leads_to(const struct recovery_place *places, uint32_t at,
                             const struct link *link)
{
    const struct se3 T_place_frame = se3_inverse(&link->T_j_i);
    return (struct found){
        .T_odom_camera = se3_compose(&places[at].T_odom_camera, &T_place_frame),
        .T_map_camera = se3_compose(&places[at].T_map_camera, &T_place_frame),
        .at = at,
        .link = *link,
    };
}

// Whether two lead to one place. Compared where the keyframes are now: two that drifted apart in
// odom show one place.
static bool is_same(const struct found *a, const struct found *b)
{
    return relocalise_is_near(&a->T_map_camera, &b->T_map_camera, ANOTHER_PLACE_M,
                              ANOTHER_PLACE_RAD);
}

// The one of the largest overlap that is not among those looked at, or n.
static uint32_t next_of(const struct link *links, const bool *done, uint32_t n)
{
    uint32_t best = n;
    for (uint32_t k = 0; k < n; k++)
        if (!done[k] && links[k].good && (best == n || links[k].overlap > links[best].overlap))
            best = k;
    return best;
}

// The one that explains most, unless another that leads elsewhere does as well.
static void decide(const struct found *found, uint32_t n, struct recovery *out)
{
    const struct found *best = NULL;
    for (uint32_t k = 0; k < n; k++)
        if (!best || found[k].explained > best->explained)
            best = &found[k];
    for (uint32_t k = 0; k < n; k++)
        if (found[k].explained >= AMBIGUOUS_SHARE * best->explained && !is_same(&found[k], best))
            return;
    if (best)
        *out = (struct recovery){best->trust, best->at, best->T_odom_camera, best->link};
}

int recovery_find(struct link_maker *maker, const struct intrinsics *camera,
                  const struct recovery_view *frame, const struct recovery_place *places,
                  uint32_t n, uint32_t attempt, double usual_rms_m, struct recovery *out)
{
    struct start ranked[N_RANKED][RECOVERY_STARTS], starts[LINK_MAX];
    struct link links[LINK_MAX];
    struct found found[LINK_MAX];
    bool done[LINK_MAX] = {false};
    const struct align_image *images[LINK_MAX];
    const uint32_t n_ranked = rank(frame->log_z, places, n, ranked);
    const uint32_t n_starts = choose(ranked, n_ranked, attempt, starts);
    uint32_t n_found = 0;
    *out = (struct recovery){.trust = RELOCALISE_NOT_FOUND, .T_odom_camera = se3_identity()};
    for (uint32_t k = 0; k < n_starts; k++) {
        images[k] = places[starts[k].at].view.image;
        links[k] = (struct link){.T_j_i = turned(camera, &starts[k]), .doubt_m = DOUBT_M};
    }
    int rc = n_starts > 0 ? link_measure(maker, frame->image, images, n_starts, links) : 0;
    if (rc < 0)
        return rc;
    // What leads where the camera surely is already is not looked at: it overlaps less.
    for (uint32_t k = next_of(links, done, n_starts); k < n_starts;
         k = next_of(links, done, n_starts)) {
        struct found *f = &found[n_found];
        bool is_known = false;
        done[k] = true;
        *f = leads_to(places, starts[k].at, &links[k]);
        for (uint32_t i = 0; i < n_found; i++)
            is_known = is_known || (found[i].trust == RELOCALISE_SURE && is_same(&found[i], f));
        if (is_known)
            continue;
        f->trust = judge(camera, frame, &places[f->at].view, &links[k], usual_rms_m, &f->explained);
        n_found += f->trust != RELOCALISE_NOT_FOUND;
    }
    decide(found, n_found, out);
    return 0;
}
