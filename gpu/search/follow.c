// SPDX-License-Identifier: Apache-2.0
// Following an object from image to image: the pose of the last one is the guess, and what fast
// motion leaves of it.
#include <errno.h>
#include <math.h>

#include "gpu/search/confidence.h"
#include "gpu/search/host.h"
#include "gpu/search/image_reduction.h"
#include "gpu/search/kernels/icp.h"

#define FOLLOW_HYPOTHESES 33
#define FOLLOW_SURE       0.7f // then nothing else is tried
#define FOLLOW_LEAST      0.5f // less than in a search: the guess speaks for it

// The guess, moved by a third of the object's radius each way and turned by 15 degrees about each
// axis: what fast motion leaves of a prediction.
static void around(const struct search_object *object, const struct search_candidate *guess,
                   struct search_candidate out[FOLLOW_HYPOTHESES])
{
    const float shift_m = 0.33f * object->info.radius_m;
    const float cosine = 0.9659258f, sine = 0.2588190f;
    for (int i = 0; i < 27; i++) {
        out[i] = *guess;
        out[i].t_m[0] += (float)(i % 3 - 1) * shift_m;
        out[i].t_m[1] += (float)(i / 3 % 3 - 1) * shift_m;
        out[i].t_m[2] += (float)(i / 9 - 1) * shift_m;
    }
    for (int i = 0; i < 6; i++) {
        const int a = (i / 2 + 1) % 3, b = (i / 2 + 2) % 3;
        struct search_candidate *c = &out[27 + i];
        *c = *guess;
        for (int k = 0; k < 3; k++) {
            float p = guess->rotation[3 * a + k], q = guess->rotation[3 * b + k];
            float s = i % 2 ? sine : -sine;
            c->rotation[3 * a + k] = cosine * p - s * q;
            c->rotation[3 * b + k] = s * p + cosine * q;
        }
    }
}

static void follow_to_edges(struct search *search, const struct search_scene *scene,
                            const struct search_object *object, float threshold, uint32_t reduction,
                            struct search_candidate *c, struct search_pose *out)
{
    search_refine_to_edges(search, scene, object, c, SEARCH_POLISHED_ROUNDS);
    search_report(object, c, SEARCH_NO_RIVAL, threshold, reduction, out);
}

int search_follow(struct search *search, const struct search_object *object,
                  const struct search_image *image, struct search_pose *pose)
{
    struct search_scene scene;
    struct search_candidate guess, c[FOLLOW_HYPOTHESES];
    struct search_pose found = {0};
    struct search_image searched;
    int err = search_check_image(search, image, NULL);
    err = err ? err : search_reduce_image(search, image, &searched);
    err = err ? err : search_prepare(search, &searched, object, &scene);
    if (err == -ENODATA)
        return search_refuse_empty(search, NULL);
    err = err ? err
              : search_ensure_drawings(search, object,
                                       searched.frame.width_px * searched.frame.height_px);
    if (err)
        return err;
    const uint32_t reduction = search_reduction(&image->camera);
    search_pose_inward(object, &pose->T_camera_model, &guess);
    c[0] = guess;
    search_refine_points(&scene, object, &c[0]);
    if (c[0].score > SEARCH_GIVEN_UP)
        follow_to_edges(search, &scene, object, FOLLOW_SURE, reduction, &c[0], &found);
    if (!found.accepted) {
        const struct search_nearness nearness = search_nearness_to_draw(object->info.radius_m);
        around(object, &guess, c);
        search_refine_all_points(search, &scene, object, c, FOLLOW_HYPOTHESES);
        uint32_t n = search_keep_distinct(object, &nearness, c, FOLLOW_HYPOTHESES, 4, INFINITY);
        while (n > 0 && c[n - 1].score <= SEARCH_GIVEN_UP)
            n--;
        search_refine_all_drawn(search, &scene, object, c, n, SEARCH_DRAWN_ROUNDS, NULL);
        if (search_keep_distinct(object, &nearness, c, n, 1, INFINITY) == 0)
            return -ENODATA;
        follow_to_edges(search, &scene, object, FOLLOW_LEAST, reduction, &c[0], &found);
    }
    if (!found.accepted)
        return -ENODATA;
    *pose = found;
    return 0;
}
