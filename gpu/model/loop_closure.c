// SPDX-License-Identifier: Apache-2.0
#include "gpu/model/loop_closure.h"

#include <math.h>

#include "proto/se3.h"

#define MIN_OVERLAP  0.35 // wrong ones have 0.25 at most (furnished room)
#define MIN_STARTS   2    // that lead to it
#define MAX_CONFLICT 0.05 // right ones have 0.01
#define WORSE_RMS    1.25 // than usual: of a surface that only looks alike
#define DOUBT_MAX_M  0.6  // within which surfaces are sought
#define ANOTHER_M    0.15
#define ANOTHER_RAD  0.15
#define AGREE_M      0.04
#define AGREE_RAD    0.03
#define AGREE_SHARE  0.1

static double length_m(const struct se3 *T)
{
    return sqrt(T->t_m[0] * T->t_m[0] + T->t_m[1] * T->t_m[1] + T->t_m[2] * T->t_m[2]);
}

static bool is_near(const struct se3 *a, const struct se3 *b, double limit_m, double limit_rad)
{
    struct se3 between = se3_between(a, b);
    return length_m(&between) < limit_m && se3_angle(&between) < limit_rad;
}

bool revisit_agree(const struct se3 *a, const struct se3 *b, double motion)
{
    return is_near(a, b, AGREE_M + AGREE_SHARE * motion, AGREE_RAD + AGREE_SHARE * motion);
}

// As thought; where the place's camera stood; and each with the other's translation.
static void set_starts(const struct se3 *T_j_i, double doubt_m, struct link out[REVISIT_STARTS])
{
    const struct se3 none = se3_identity();
    for (int k = 0; k < REVISIT_STARTS; k++) {
        out[k] = (struct link){.T_j_i = k % 2 ? none : *T_j_i, .doubt_m = doubt_m};
        for (int c = 0; c < 3; c++)
            out[k].T_j_i.t_m[c] = k / 2 == k % 2 ? T_j_i->t_m[c] : 0;
    }
}

int revisit_find(struct link_maker *maker, const struct align_image *image,
                 const struct se3 *T_map_camera, const struct revisit_place *places, uint32_t n,
                 double usual_rms_m, struct revisit *out, bool *out_found)
{
    struct link links[LINK_MAX];
    struct se3 T_map[LINK_MAX];
    const struct align_image *images[LINK_MAX];
    uint32_t best = UINT32_MAX, n_links = 0;
    *out_found = false;
    for (uint32_t p = 0; p < n && p < REVISIT_PLACES; p++) {
        struct se3 T_j_i = se3_between(T_map_camera, &places[p].T_map_camera);
        set_starts(&T_j_i, fmin(DOUBT_MAX_M, places[p].doubt_m), links + n_links);
        for (uint32_t k = 0; k < REVISIT_STARTS; k++)
            images[n_links++] = places[p].image;
    }
    int rc = n_links > 0 ? link_measure(maker, image, images, n_links, links) : 0;
    if (rc < 0)
        return rc;
    for (uint32_t k = 0; k < n_links; k++) {
        const struct revisit_place *place = &places[k / REVISIT_STARTS];
        struct se3 T_i_j = se3_inverse(&links[k].T_j_i);
        T_map[k] = se3_compose(&place->T_map_camera, &T_i_j);
        links[k].good = links[k].good && links[k].rms_m < WORSE_RMS * usual_rms_m;
        bool better = best == UINT32_MAX || links[k].overlap > links[best].overlap;
        if (links[k].good && better && links[k].overlap > MIN_OVERLAP &&
            is_near(&T_map[k], T_map_camera, place->doubt_m, place->doubt_rad))
            best = k;
    }
    if (best == UINT32_MAX)
        return 0;
    uint32_t n_same = 0;
    for (uint32_t k = 0; k < n_links; k++) {
        bool same = is_near(&T_map[k], &T_map[best], ANOTHER_M, ANOTHER_RAD);
        n_same += same && links[k].good && k / REVISIT_STARTS == best / REVISIT_STARTS;
        if (!same && links[k].good && links[k].overlap > MIN_OVERLAP)
            return 0;
    }
    struct se3 T_i_j = se3_inverse(&links[best].T_j_i);
    if (n_same < MIN_STARTS || link_conflict(image, images[best], &T_i_j) > MAX_CONFLICT)
        return 0;
    *out = (struct revisit){places[best / REVISIT_STARTS].at, links[best], T_map[best]};
    *out_found = true;
    return 0;
}
