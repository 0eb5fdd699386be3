// SPDX-License-Identifier: Apache-2.0
#include "proto/rig_fusion.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "proto/pose_error.h"
#include "proto/pose_mean.h"
#include "proto/se3.h"

#define GROWTH_S     20.0 // over which growth is averaged
#define JUMP_S       0.5  // from an anchor older than this on growth is taken as it is
// Growth is at least this a second: who says less (a camera at rest) would be believed for ever.
#define FLOOR_M2_S   (0.0005 * 0.0005)
#define FLOOR_RAD2_S (0.0002 * 0.0002)
#define MIN_SHARE    0.5

_Static_assert(RIG_MAX_CAMERAS <= POSE_MEAN_MAX, "enlarge POSE_MEAN_MAX");

struct camera {
    struct se3 T_base_camera, T_camera_base;
    struct rig_sight sights[RIG_MAX_AHEAD];
    uint64_t n_put, n_gone; // sight i stands in sights[i % RIG_MAX_AHEAD]
    bool has_ended;

    bool is_anchored;
    struct se3 T_rig_odom;
    struct rig_sight anchor;
    double growth_s[36]; // a second, averaged; along the rig's axes, of the body
    double averaged_s;   // over so long

    bool is_mapped; // its map has a place in the rig's
    uint32_t map_epoch;
    struct se3 T_rigmap_map;
};

struct rig {
    uint32_t n;
    bool patient;
    bool has_begun;
    struct rig_result last;
    // Where cameras were tracked last: pose, and its covariance without the noise of single frames.
    struct se3 T_agreed;
    double covariance[36];
    struct camera cameras[RIG_MAX_CAMERAS];
};

// What a camera says at one time.
struct view {
    bool is_there;
    bool is_anchored; // its pose hangs together with the camera's anchor
    bool is_found;    // no longer, but with the camera's map of then
    struct rig_sight sight;
    struct se3 T_odom_base;
    double grown[36], own[36]; // along the rig's axes, of the body
};

int rig_create(struct rig **out, const struct se3 *T_base_camera, uint32_t n, bool patient)
{
    struct rig *rig = calloc(1, sizeof *rig);
    *out = rig;
    if (!rig)
        return -ENOMEM;
    rig->n = n;
    rig->patient = patient;
    rig->last.T_odom_base = rig->last.T_map_odom = rig->T_agreed = se3_identity();
    rig->last.time_ns = INT64_MIN;
    for (uint32_t i = 0; i < n; i++) {
        rig->cameras[i].T_base_camera = T_base_camera[i];
        rig->cameras[i].T_camera_base = se3_inverse(&T_base_camera[i]);
    }
    return 0;
}

void rig_destroy(struct rig **rig)
{
    free(*rig);
    *rig = NULL;
}

// --- The frames of each camera

static const struct rig_sight *sight_of(const struct camera *camera, uint64_t i)
{
    return &camera->sights[i % RIG_MAX_AHEAD];
}

static int64_t newest_ns(const struct camera *camera)
{
    return camera->n_put ? sight_of(camera, camera->n_put - 1)->time_ns : INT64_MIN;
}

static int64_t newest_of_all_ns(const struct rig *rig)
{
    int64_t newest = INT64_MIN;
    for (uint32_t i = 0; i < rig->n; i++)
        if (newest_ns(&rig->cameras[i]) > newest)
            newest = newest_ns(&rig->cameras[i]);
    return newest;
}

// From this camera's only sight on the rig goes on by its clock, in a new epoch; what the others
// have that is later is of the old one.
static void begin_clock(struct rig *rig, uint32_t index)
{
    const int64_t time_ns = newest_ns(&rig->cameras[index]);
    rig->last.time_ns = time_ns - 1;
    for (uint32_t i = 0; i < rig->n; i++) {
        struct camera *camera = &rig->cameras[i];
        camera->is_anchored = camera->is_mapped = false;
        if (newest_ns(camera) > time_ns + RIG_SILENT_NS)
            camera->n_put = camera->n_gone = 0;
    }
}

void rig_put(struct rig *rig, uint32_t index, const struct rig_sight *sight)
{
    struct camera *camera = &rig->cameras[index];
    bool is_set_back = false;
    if (camera->n_put && sight->time_ns <= newest_ns(camera)) {
        is_set_back = sight->epoch != sight_of(camera, camera->n_put - 1)->epoch;
        if (!is_set_back)
            return;
        camera->n_put = camera->n_gone = 0;
    }
    camera->sights[camera->n_put % RIG_MAX_AHEAD] = *sight;
    camera->n_put++;
    if (camera->n_put - camera->n_gone > RIG_MAX_AHEAD)
        camera->n_gone = camera->n_put - RIG_MAX_AHEAD;
    if (is_set_back && newest_of_all_ns(rig) < rig->last.time_ns)
        begin_clock(rig, index);
}

void rig_end(struct rig *rig, uint32_t camera)
{
    rig->cameras[camera].has_ended = true;
}

int64_t rig_ahead_ns(const struct rig *rig, uint32_t index)
{
    const struct camera *camera = &rig->cameras[index];
    int64_t ahead = 0;
    if (camera->n_put == 0)
        return 0;
    for (uint32_t i = 0; i < rig->n; i++) {
        const struct camera *other = &rig->cameras[i];
        if (other->has_ended || i == index)
            continue;
        int64_t from = other->n_put ? newest_ns(other) : sight_of(camera, camera->n_gone)->time_ns;
        if (newest_ns(camera) - from > ahead)
            ahead = newest_ns(camera) - from;
    }
    return ahead;
}

static bool is_waited_for(const struct rig *rig, const struct camera *camera, int64_t newest)
{
    if (camera->has_ended)
        return false;
    return rig->patient || (camera->n_put && newest - newest_ns(camera) < RIG_SILENT_NS);
}

// The first sight later than the last pose; NULL: there is none.
static const struct rig_sight *pending_sight(const struct rig *rig, const struct camera *camera)
{
    for (uint64_t i = camera->n_gone; i < camera->n_put; i++)
        if (sight_of(camera, i)->time_ns > rig->last.time_ns)
            return sight_of(camera, i);
    return NULL;
}

// At whose time stamp the next pose is; NULL: it has to be waited for.
static const struct rig_sight *next_sight(const struct rig *rig)
{
    const struct rig_sight *sight = NULL;
    const int64_t newest = newest_of_all_ns(rig);
    for (uint32_t i = 0; i < rig->n && !sight; i++) {
        sight = pending_sight(rig, &rig->cameras[i]);
        if (!sight && is_waited_for(rig, &rig->cameras[i], newest))
            return NULL;
    }
    if (!sight)
        return NULL;
    for (uint32_t i = 0; i < rig->n; i++) {
        const struct camera *camera = &rig->cameras[i];
        bool is_late = newest_ns(camera) < sight->time_ns && is_waited_for(rig, camera, newest);
        if (is_late && (rig->patient || newest - sight->time_ns < RIG_WAIT_NS))
            return NULL;
    }
    return sight;
}

// --- Poses and covariances

static void mix(const double a[36], const double b[36], double share, double out[36])
{
    for (int i = 0; i < 36; i++)
        out[i] = a[i] + share * (b[i] - a[i]);
}

// Between two sights, a share 0..1 of the way.
static void interpolate(const struct rig_sight *a, const struct rig_sight *b, double share,
                        struct rig_sight *out)
{
    double twist[6];
    struct se3 moved = se3_between(&a->T_odom_camera, &b->T_odom_camera);
    se3_log(&moved, twist);
    for (int i = 0; i < 6; i++)
        twist[i] *= share;
    moved = se3_exp(twist);
    *out = *b;
    out->T_odom_camera = se3_compose(&a->T_odom_camera, &moved);
    out->error.flow_rad = a->error.flow_rad + share * (b->error.flow_rad - a->error.flow_rad);
    mix(a->error.own, b->error.own, share, out->error.own);
    mix(a->error.walk, b->error.walk, share, out->error.walk);
    mix(a->error.drift, b->error.drift, share, out->error.drift);
}

// What the camera says at a time; false: nothing. Forgets what is no longer needed.
static bool look(struct camera *camera, int64_t time_ns, struct rig_sight *out)
{
    while (camera->n_gone + 1 < camera->n_put &&
           sight_of(camera, camera->n_gone + 1)->time_ns <= time_ns)
        camera->n_gone++;
    if (camera->n_gone == camera->n_put)
        return false;
    const struct rig_sight *a = sight_of(camera, camera->n_gone), *b = a;
    if (a->time_ns > time_ns)
        return false;
    if (a->time_ns < time_ns && camera->n_gone + 1 < camera->n_put)
        b = sight_of(camera, camera->n_gone + 1);
    if (b->time_ns < time_ns || b->time_ns - a->time_ns > RIG_GAP_NS || a->epoch != b->epoch ||
        a->n_finds != b->n_finds || a->quality == RIG_LOST)
        return false;
    if (a == b)
        *out = *a;
    else
        interpolate(a, b, (double)(time_ns - a->time_ns) / (double)(b->time_ns - a->time_ns), out);
    out->time_ns = time_ns;
    if (a->quality < out->quality)
        out->quality = a->quality;
    return out->quality != RIG_LOST;
}

// How much the error of the camera's pose has grown from its anchor to a sight, carried to the body
// and along the rig's axes. Walk and drift alone: the noise of single frames does not add up, and a
// motion is as many steps as it is long.
static void find_growth(const struct camera *camera, const struct view *view, const double arm_m[3],
                        double out[36])
{
    struct pose_error from = {0}, to = {0};
    double grown[36];
    for (int i = 0; i < 36; i++) {
        from.walk[i] = camera->anchor.error.walk[i] + camera->anchor.error.drift[i];
        to.walk[i] = view->sight.error.walk[i] + view->sight.error.drift[i];
    }
    pose_error_between(&camera->anchor.T_odom_camera, &from, &view->sight.T_odom_camera, &to,
                       grown);
    memset(out, 0, 36 * sizeof *out);
    pose_error_add(camera->T_rig_odom.r, arm_m, grown, out);
}

static void find_view(struct camera *camera, int64_t time_ns, struct view *out)
{
    double grown[36], arm_m[3];
    memset(out, 0, sizeof *out);
    out->is_there = look(camera, time_ns, &out->sight);
    if (!out->is_there)
        return;
    out->T_odom_base = se3_compose(&out->sight.T_odom_camera, &camera->T_camera_base);
    if (!camera->is_anchored || camera->anchor.epoch != out->sight.epoch)
        return;
    out->is_found = camera->anchor.n_finds != out->sight.n_finds;
    out->is_anchored = !out->is_found;
    for (int i = 0; i < 3; i++)
        arm_m[i] = out->T_odom_base.t_m[i] - out->sight.T_odom_camera.t_m[i];
    pose_error_add(camera->T_rig_odom.r, arm_m, out->sight.error.own, out->own);
    double passed_s = (double)(time_ns - camera->anchor.time_ns) * 1e-9;
    const bool is_step = out->is_anchored && passed_s < JUMP_S && out->sight.quality == RIG_TRACKED;
    if (is_step)
        camera->averaged_s = fmin(camera->averaged_s + passed_s, GROWTH_S);
    find_growth(camera, out, arm_m, grown);
    for (int i = 0; i < 36; i++) {
        if (is_step)
            camera->growth_s[i] += (grown[i] - camera->growth_s[i] * passed_s) / camera->averaged_s;
        out->grown[i] = passed_s < JUMP_S ? camera->growth_s[i] * passed_s : grown[i];
    }
    for (int i = 0; i < 6; i++)
        out->grown[7 * i] =
            fmax(out->grown[7 * i], 0) + passed_s * (i < 3 ? FLOOR_M2_S : FLOOR_RAD2_S);
    pose_mean_make_definite(out->grown, MIN_SHARE);
}

// --- The rig

static void anchor(struct camera *camera, const struct view *view, const struct se3 *T_rig_base)
{
    struct se3 inverse = se3_inverse(&view->T_odom_base);
    struct se3 T_rig_odom = se3_compose(T_rig_base, &inverse);
    camera->T_rig_odom = se3_normalized(&T_rig_odom);
    if (!camera->is_anchored || camera->anchor.epoch != view->sight.epoch) {
        memset(camera->growth_s, 0, sizeof camera->growth_s);
        camera->averaged_s = 0;
    }
    camera->anchor = view->sight;
    camera->is_anchored = true;
}

// The mean of all views of this quality that are anchored becomes the last pose. out_covariance: of
// it, without the noise of single frames, left alone where there is none. Returns of how many.
static uint32_t fuse(struct rig *rig, const struct view *views, enum rig_quality quality,
                     double out_covariance[36])
{
    struct se3 poses[RIG_MAX_CAMERAS], mean;
    double covariances[RIG_MAX_CAMERAS][36], grown[36], carried[36] = {0}, arm_m[3];
    uint32_t n = 0;
    for (uint32_t i = 0; i < rig->n; i++) {
        const struct view *view = &views[i];
        if (!view->is_there || !view->is_anchored || view->sight.quality != quality)
            continue;
        poses[n] = se3_compose(&rig->cameras[i].T_rig_odom, &view->T_odom_base);
        memcpy(covariances[n++], view->grown, sizeof view->grown);
    }
    if (n == 0 || pose_mean(poses, (const double(*)[36])covariances, n, &mean, grown) != 0)
        return 0;
    for (int i = 0; i < 3; i++)
        arm_m[i] = mean.t_m[i] - rig->T_agreed.t_m[i];
    pose_error_carry(arm_m, rig->covariance, carried);
    for (int i = 0; i < 36; i++)
        out_covariance[i] = carried[i] + grown[i];
    rig->last.T_odom_base = mean;
    return n;
}

// The covariance of a single pose has the noise of the frames that it is made of besides, or what
// was predicted.
static void tell_covariance(struct rig *rig, const struct view *views, const double covariance[36])
{
    double information[36] = {0}, one[36] = {0};
    bool any = false;
    memcpy(rig->last.covariance, covariance, sizeof rig->last.covariance);
    for (uint32_t i = 0; i < rig->n; i++) {
        if (!views[i].is_anchored || views[i].sight.quality != rig->last.quality ||
            !pose_mean_invert(views[i].own, one))
            continue;
        any = true;
        for (int k = 0; k < 36; k++)
            information[k] += one[k];
    }
    const bool is_noisy = any && pose_mean_invert(information, one);
    for (int k = 0; k < 36; k++) {
        rig->last.own[k] = is_noisy ? one[k] : 0;
        rig->last.covariance[k] += rig->last.own[k];
    }
}

static bool has_map(const struct view *view)
{
    return view->is_there && view->sight.quality == RIG_TRACKED && view->sight.has_map;
}

static bool is_laid(const struct camera *camera, const struct view *view)
{
    return camera->is_mapped && camera->map_epoch == view->sight.epoch;
}

// The mean of where the cameras' maps have the body, after all are anchored; then maps that are new
// are laid so that they have it there, too.
static void follow_maps(struct rig *rig, const struct view *views)
{
    struct rig_result *last = &rig->last;
    struct se3 poses[RIG_MAX_CAMERAS], T_map_base, back, body;
    double same[RIG_MAX_CAMERAS][36] = {{0}}, unused[36];
    uint32_t n = 0;
    for (uint32_t i = 0; i < rig->n; i++) {
        if (!has_map(&views[i]) || !is_laid(&rig->cameras[i], &views[i]))
            continue;
        T_map_base = se3_compose(&views[i].sight.T_map_odom, &views[i].T_odom_base);
        poses[n] = se3_compose(&rig->cameras[i].T_rigmap_map, &T_map_base);
        for (int k = 0; k < 36; k += 7)
            same[n][k] = 1;
        n++;
    }
    if (n > 0 && pose_mean(poses, (const double(*)[36])same, n, &body, unused) == 0) {
        back = se3_inverse(&last->T_odom_base);
        last->T_map_odom = se3_compose(&body, &back);
        last->T_map_odom = se3_normalized(&last->T_map_odom);
    }
    body = se3_compose(&last->T_map_odom, &last->T_odom_base);
    for (uint32_t i = 0; i < rig->n; i++) {
        struct camera *camera = &rig->cameras[i];
        if (!has_map(&views[i]) || is_laid(camera, &views[i]))
            continue;
        T_map_base = se3_compose(&views[i].sight.T_map_odom, &views[i].T_odom_base);
        back = se3_inverse(&T_map_base);
        camera->T_rigmap_map = se3_compose(&body, &back);
        camera->map_epoch = views[i].sight.epoch;
        camera->is_mapped = last->has_map = true;
    }
}

// Where no camera is tracked that is anchored, those that were found are anchored anew, so that the
// body is where their maps have it in the rig's; those that have none there keep their anchors, as
// odom goes on from a place that it has been at. Their motion since the rig was lost is known so.
static void take_up(struct rig *rig, struct view *views)
{
    const struct se3 T_odom_map = se3_inverse(&rig->last.T_map_odom);
    for (uint32_t i = 0; i < rig->n; i++) {
        struct camera *camera = &rig->cameras[i];
        if (!views[i].is_found || views[i].sight.quality != RIG_TRACKED)
            continue;
        views[i].is_anchored = true;
        if (!has_map(&views[i]) || !is_laid(camera, &views[i]))
            continue;
        struct se3 T = se3_compose(&T_odom_map, &camera->T_rigmap_map);
        T = se3_compose(&T, &views[i].sight.T_map_odom);
        camera->T_rig_odom = se3_normalized(&T);
    }
}

static void begin_epoch(struct rig *rig)
{
    if (rig->has_begun)
        rig->last.epoch++;
    rig->has_begun = true;
    memset(rig->covariance, 0, sizeof rig->covariance);
    rig->last.T_map_odom = se3_identity();
    rig->last.has_map = false;
    for (uint32_t i = 0; i < rig->n; i++)
        rig->cameras[i].is_anchored = rig->cameras[i].is_mapped = false;
}

// Whether a camera that was part of the rig a moment ago has but dropped a frame: the rig's epoch
// goes on by its prediction, and one that comes with a new epoch is anchored when it is back.
static bool is_bridged(const struct rig *rig, const struct view *views, int64_t time_ns)
{
    for (uint32_t i = 0; i < rig->n; i++)
        if (views[i].is_anchored && views[i].sight.quality == RIG_PREDICTED &&
            (double)(time_ns - rig->cameras[i].anchor.time_ns) * 1e-9 < JUMP_S)
            return true;
    return false;
}

bool rig_next(struct rig *rig, struct rig_result *out)
{
    struct view views[RIG_MAX_CAMERAS] = {{0}};
    struct rig_result *last = &rig->last;
    double covariance[36];
    uint32_t n_tracked = 0;
    const struct rig_sight *next = next_sight(rig);
    if (!next)
        return false;
    const int64_t time_ns = next->time_ns;
    last->clock_set_ns = next->clock_set_ns;
    for (uint32_t i = 0; i < rig->n; i++) {
        find_view(&rig->cameras[i], time_ns, &views[i]);
        n_tracked += views[i].is_there && views[i].sight.quality == RIG_TRACKED;
    }
    memcpy(covariance, rig->covariance, sizeof covariance);
    last->n_used = fuse(rig, views, RIG_TRACKED, covariance);
    const bool bridged = last->n_used == 0 && is_bridged(rig, views, time_ns);
    if (last->n_used == 0 && !bridged) {
        take_up(rig, views);
        last->n_used = fuse(rig, views, RIG_TRACKED, covariance);
    }
    last->quality = RIG_TRACKED;
    if (last->n_used == 0 && n_tracked > 0 && !bridged) {
        begin_epoch(rig);
        memcpy(covariance, rig->covariance, sizeof covariance);
        last->n_used = n_tracked;
    } else if (last->n_used == 0) {
        last->n_used = fuse(rig, views, RIG_PREDICTED, covariance);
        last->quality = last->n_used ? RIG_PREDICTED : RIG_LOST;
    }
    last->time_ns = time_ns;
    // What grew since the cameras' anchors counts once: they move with what was tracked.
    if (last->quality == RIG_TRACKED) {
        memcpy(rig->covariance, covariance, sizeof covariance);
        rig->T_agreed = last->T_odom_base;
    }
    tell_covariance(rig, views, covariance);
    for (uint32_t i = 0; i < rig->n && last->quality == RIG_TRACKED; i++)
        if (views[i].is_there && views[i].sight.quality == RIG_TRACKED)
            anchor(&rig->cameras[i], &views[i], &last->T_odom_base);
    if (last->quality == RIG_TRACKED)
        follow_maps(rig, views);
    for (int i = 0; i < 36 && last->quality == RIG_LOST; i++)
        last->covariance[i] = i % 7 == 0 ? POSE_ERROR_LOST : 0;
    *out = *last;
    return true;
}
