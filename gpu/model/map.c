// SPDX-License-Identifier: Apache-2.0
#include "gpu/model/map.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "gpu/model/deform_blocks.h"
#include "proto/clock.h"
#include "proto/se3.h"

// Two finds agree when they place the camera within this of each other. Recovery is good to some
// millimetres; two places of one room that look alike are decimetres apart.
#define AGREE_M   0.03
#define AGREE_RAD 0.03

// What a find counts towards SURE_WORTH * MAP_AGREEING. Where little holds one direction a camera
// that stands still finds the same wrong place again: a FAIR find that agrees counts only where the
// camera has moved since the last one that did, and only where it agrees with the first of them,
// too: the same wrong place of a camera that moves is never far from where it was just before.
#define SURE_WORTH 2
#define FAIR_WORTH 1
#define MOVED_M    0.02
#define MOVED_RAD  0.02

// Looking takes 0.3 s on a processor, when ten frames come: in between the tracker follows.
#define SEARCH_EVERY 5
#define WITHOUT_PART 3 // of these frames, where time is short, one in a row takes a part anyway

#define JOINING_BLOCKS 256 // of a copy: what joins meanwhile, beside an eighth of what is there

// What came of looking for a frame in the map.
struct sight {
    bool is_done, is_held; // is_held: it is the tracker's held frame, else the newest
    enum relocalise_trust trust;
    struct se3 T_map, T_odom; // of it: as found, as tracked
};

struct map {
    struct gpu *gpu;
    struct model *model;
    struct relocaliser *relocaliser;
    struct gpu_frame *view;
    uint32_t n_lost; // frames in a row with depth
    struct relocalise_finds finds;
    bool is_tried; // a place is, and was not told of since
    struct se3 T_tried;
    struct log_sink log;
    uint32_t epoch;      // of the tracker, that the model belongs to
    bool has_any;        // frames were taken in
    uint32_t n_left_out; // blocks of the frame that first found no room; told once an epoch
    bool told_is_far;    // likewise
    bool was_refused;    // new places, when it was asked last
    uint32_t n_taken;    // frames
    bool expects_view;   // a keyframe of the tracker has no view yet

    bool is_loaded, is_searching;
    bool holds_loaded;        // is_loaded, or it was given up and is still there
    struct se3 T_map_odom;    // the identity unless it is loaded and found
    struct se3 T_candidate;   // of T_map_odom, while searching
    struct se3 T_first;       // the same, of the first find that speaks for it
    uint32_t n_agreeing;      // what finds that speak for it are worth
    bool candidate_is_sure;   // one of them is SURE: a FAIR one elsewhere is none to change it
    struct se3 T_odom_agreed; // where the camera was at the last of them
    uint32_t n_searched;      // frames
    uint32_t n_looks;         // of the search

    int64_t until_ns;         // map_set_time
    bool is_looking;          // in parts, at a frame that the tracker holds:
    struct se3 T_odom_looked; // of it, as tracked
    uint32_t n_finds_looked;  // when it was
    uint32_t n_without;       // frames in a row that had no time for a part
    int64_t part_ns;          // that one takes, the longest of late
};

int map_create(struct map **out, struct gpu *gpu, const struct model_settings *settings,
               const struct gpu_align_settings *align, const struct log_sink *log)
{
    *out = NULL;
    struct map *map = calloc(1, sizeof *map);
    if (!map)
        return -ENOMEM;
    map->gpu = gpu;
    map->T_map_odom = se3_identity();
    map->until_ns = INT64_MAX;
    map->log = *log;
    int rc = model_create(&map->model, gpu, settings);
    if (rc == 0)
        rc = relocalise_create(&map->relocaliser, gpu, align);
    if (rc == 0)
        rc = gpu_frame_create(gpu, &map->view);
    if (rc < 0) {
        map_destroy(&map);
        return rc;
    }
    *out = map;
    return 0;
}

void map_destroy(struct map **map)
{
    if (!map || !*map)
        return;
    gpu_frame_destroy((*map)->gpu, &(*map)->view);
    relocalise_destroy(&(*map)->relocaliser);
    model_destroy(&(*map)->model);
    free(*map);
    *map = NULL;
}

void map_expect_view(struct map *map)
{
    map->expects_view = true;
}

void map_set_time(struct map *map, int64_t until_ns)
{
    map->until_ns = until_ns;
}

struct model *map_model(struct map *map)
{
    return map->model;
}

static int begin_epoch(struct map *map, uint32_t epoch)
{
    struct model_stats stats;
    int rc = model_stats_get(map->model, &stats);
    if (rc == 0 && map->has_any)
        log_to(&map->log, LOG_LEVEL_NOTICE,
               "map: epoch %u begins; the map of epoch %u (%u blocks) is given up", epoch,
               map->epoch, stats.n_blocks + stats.n_far);
    map->epoch = epoch;
    map->n_left_out = 0;
    map->was_refused = map->told_is_far = false;
    map->has_any = map->is_loaded = map->holds_loaded = map->is_tried = false;
    map->is_looking = false;
    map->T_map_odom = se3_identity();
    relocalise_forget(map->relocaliser);
    return rc < 0 ? rc : model_clear(map->model);
}

static int take_in(struct map *map, const struct gpu_frame *frame, const struct se3 *T_map_camera)
{
    int rc = model_integrate(map->model, frame, T_map_camera);
    map->has_any = true;
    // Asking waits for the device, hence not each time.
    if (rc < 0 || map->n_left_out > 0 || map->n_taken++ % 32 != 0)
        return rc;
    struct model_stats stats;
    rc = model_stats_get(map->model, &stats);
    if (rc < 0)
        return rc;
    if (stats.n_far > 0 && !map->told_is_far) {
        log_to(&map->log, LOG_LEVEL_NOTICE,
               "map: more than the %u blocks of map.memory_bytes: those out of sight wait in the "
               "host's memory (map.far_bytes)",
               stats.max_blocks);
        map->told_is_far = true;
    }
    // Where blocks can go to the host a frame may still come before they have.
    if (stats.n_refused > 0 && (map->was_refused || stats.max_far == 0)) {
        log_to(&map->log, LOG_LEVEL_WARNING,
               "map: full: at least %u new blocks of a frame find no room beside the %u that are "
               "kept, so none of them is added (give it more map.memory_bytes, which must hold "
               "what is in sight, or map.far_bytes, or a larger map.voxel_m)",
               stats.n_refused, stats.n_blocks + stats.n_far);
        map->n_left_out = stats.n_refused;
    }
    map->was_refused = stats.n_refused > 0;
    return 0;
}

// A place that was tried holds when the frame after it has a pose, unless the keyframes placed it
// since.
static void tell_found(struct map *map, const struct track_result *result, bool is_by_keyframe)
{
    if (map->is_tried && relocalise_holds(result))
        log_to(&map->log, LOG_LEVEL_NOTICE, "map: the camera is found again, at %.2f %.2f %.2f",
               map->T_tried.t_m[0], map->T_tried.t_m[1], map->T_tried.t_m[2]);
    map->is_tried = map->is_tried && !relocalise_holds(result) && !is_by_keyframe;
}

static void stop_looking(struct map *map, struct track *track)
{
    if (map->is_looking)
        track_hold(track, false);
    map->is_looking = false;
}

// Parts of a look for which there is time, and one at least where `must`.
static int look_on(struct map *map, bool must, struct sight *out)
{
    int64_t now_ns = clock_monotonic_ns();
    int rc = 0;
    while (rc == 0 && !out->is_done && (must || now_ns + map->part_ns < map->until_ns)) {
        const int64_t began_ns = now_ns;
        rc = relocalise_step(map->relocaliser, map->model, &out->is_done, &out->trust, &out->T_map);
        now_ns = clock_monotonic_ns();
        const int64_t took_ns = now_ns - began_ns, less_ns = map->part_ns - map->part_ns / 8;
        map->part_ns = took_ns > less_ns ? took_ns : less_ns;
        map->n_without = 0;
        must = false;
    }
    return rc;
}

// Looks for a frame in the map, at once, or where time is short in parts, beside it and the frames
// that come after it. `attempt` of relocalise_find, counted on where a look begins.
static int look(struct map *map, struct track *track, const struct track_result *result,
                const struct se3 *T_guess, uint32_t *attempt, struct sight *out)
{
    const struct gpu_frame *frame = track_newest_frame(track);
    const bool is_lost = result->state == TRACK_STATE_LOST;
    *out = (struct sight){.T_odom = result->T_odom_camera, .T_map = se3_identity()};
    if (map->until_ns == INT64_MAX) {
        stop_looking(map, track);
        out->is_done = true;
        return relocalise_find(map->relocaliser, map->model, frame, (*attempt)++, T_guess,
                               &out->trust, &out->T_map);
    }
    if (!map->is_looking && result->is_repeat)
        return 0; // it was looked at when it came
    if (!map->is_looking) {
        const int rc = relocalise_begin(map->relocaliser, frame, (*attempt)++, T_guess);
        if (rc < 0)
            return rc;
        track_hold(track, true);
        map->is_looking = true;
        map->T_odom_looked = result->T_odom_camera;
        map->n_finds_looked = result->n_finds;
    }
    const int rc = look_on(map, is_lost || map->n_without++ >= WITHOUT_PART, out);
    out->T_odom = map->T_odom_looked;
    out->is_held = true;
    return rc;
}

// A lost frame that has depth is looked for in the map: first where the one before was, if that was
// found, though not surely.
static int look_for(struct map *map, struct track *track, const struct track_result *result)
{
    struct sight sight;
    const int rc = look(map, track, result, map->finds.n_fair > 0 ? &map->finds.T_last : NULL,
                        &map->n_lost, &sight);
    if (rc < 0 || !sight.is_done)
        return rc;
    const struct se3 T = sight.T_map;
    const struct se3 T_odom_camera = map->is_loaded ? se3_between(&map->T_map_odom, &T) : T;
    const bool is_believed =
        relocalise_finds_believe(&map->finds, sight.trust, &T, !sight.is_held && result->is_repeat);
    const bool is_placed =
        is_believed && (sight.is_held ? track_relocate_held(track, &T_odom_camera)
                                      : track_relocate(track, &T_odom_camera)) == 0;
    stop_looking(map, track);
    if (!is_placed)
        return 0;
    map->is_tried = true;
    map->T_tried = T;
    log_to(&map->log, LOG_LEVEL_DEBUG, "map: a place is tried: %.2f %.2f %.2f", T.t_m[0], T.t_m[1],
           T.t_m[2]);
    return 0;
}

static bool agrees(const struct se3 *T_map_odom, const struct sight *sight)
{
    const struct se3 expected = se3_compose(T_map_odom, &sight->T_odom);
    return relocalise_is_near(&expected, &sight->T_map, AGREE_M, AGREE_RAD);
}

// A frame that the tracker follows is looked for in the loaded map; others go by meanwhile.
static int search(struct map *map, struct track *track, const struct track_result *result)
{
    struct sight sight;
    if (map->until_ns == INT64_MAX && map->n_searched++ % SEARCH_EVERY != 0)
        return 0;
    if (map->is_looking && result->n_finds != map->n_finds_looked) { // the keyframes moved odom
        stop_looking(map, track);
        map->n_agreeing = 0;
    }
    const int rc = look(map, track, result, NULL, &map->n_looks, &sight);
    if (rc == 0 && sight.is_done)
        stop_looking(map, track);
    if (rc < 0 || !sight.is_done || sight.trust == RELOCALISE_NOT_FOUND)
        return rc;
    const struct se3 T = sight.T_map;
    const bool is_sure = sight.trust == RELOCALISE_SURE;
    const bool confirmed = map->n_agreeing > 0 && agrees(&map->T_candidate, &sight) &&
                           (is_sure || agrees(&map->T_first, &sight));
    const bool is_still =
        relocalise_is_near(&map->T_odom_agreed, &sight.T_odom, MOVED_M, MOVED_RAD);
    if (!is_sure && map->n_agreeing > 0 && (confirmed ? is_still : map->candidate_is_sure))
        return 0;
    const struct se3 T_camera_odom = se3_inverse(&sight.T_odom);
    map->T_candidate = se3_compose(&T, &T_camera_odom);
    map->T_first = confirmed ? map->T_first : map->T_candidate;
    map->T_odom_agreed = sight.T_odom;
    map->candidate_is_sure = is_sure || (confirmed && map->candidate_is_sure);
    map->n_agreeing = (confirmed ? map->n_agreeing : 0) + (is_sure ? SURE_WORTH : FAIR_WORTH);
    if (map->n_agreeing < SURE_WORTH * MAP_AGREEING)
        return 0;
    map->T_map_odom = se3_normalized(&map->T_candidate);
    map->is_searching = false;
    log_to(&map->log, LOG_LEVEL_NOTICE,
           "map: the camera is found in the loaded map, at %.2f %.2f %.2f", T.t_m[0], T.t_m[1],
           T.t_m[2]);
    return 0;
}

void map_contents_free(struct map_contents *contents)
{
    free(contents->blocks);
    free(contents->keyframes);
    deformation_field_free(&contents->correction);
    *contents = (struct map_contents){0};
}

void map_contents_order(struct map_contents *contents)
{
    model_order(contents->blocks, contents->n_blocks);
}

int map_contents_correct(struct map_contents *contents, const struct model_settings *settings)
{
    struct deformation_field *correction = &contents->correction;
    int rc = deform_blocks(correction, settings->voxel_m, model_max_blocks(settings),
                           &contents->blocks, &contents->n_blocks);
    if (rc < 0)
        return rc;
    deformation_field_of_places(correction, (double)settings->voxel_m, contents->keyframes,
                                contents->n_keyframes);
    deformation_field_free(correction);
    return 0;
}

int map_contents_reserve(struct map_contents *contents)
{
    const uint32_t room = contents->n_blocks + contents->n_blocks / 8 + JOINING_BLOCKS;
    map_contents_free(contents);
    contents->blocks = malloc(room * sizeof *contents->blocks);
    if (!contents->blocks)
        return -ENOMEM;
    memset(contents->blocks, 0xff,
           room * sizeof *contents->blocks); // calloc leaves pages untouched
    contents->room = room;
    return 0;
}

int map_read(struct map *map, struct map_contents *out)
{
    const struct relocalise_keyframe *keyframes;
    out->epoch = map->epoch;
    out->is_loaded = map->holds_loaded;
    out->T_map_odom = map->T_map_odom;
    out->n_left_out = map->n_left_out;
    if (map->is_searching)
        return -EAGAIN;
    if (!map->has_any)
        return -ENODATA;
    int rc = model_read(map->model, out->blocks, out->room, &out->n_blocks);
    if (rc < 0)
        return rc;
    out->n_keyframes = relocalise_keyframes(map->relocaliser, &keyframes);
    out->keyframes = malloc((out->n_keyframes + 1) * sizeof *keyframes);
    if (!out->keyframes)
        return -ENOMEM;
    memcpy(out->keyframes, keyframes, out->n_keyframes * sizeof *keyframes);
    return 0;
}

int map_load(struct map *map, const struct map_contents *contents)
{
    if (contents->n_keyframes > RELOCALISE_MAX_KEYFRAMES)
        return -ENOSPC;
    int rc = model_write(map->model, contents->blocks, contents->n_blocks);
    if (rc == -ENOSPC)
        return rc;
    if (rc == 0)
        rc = relocalise_set(map->relocaliser, contents->keyframes, contents->n_keyframes);
    map->is_loaded = map->is_searching = map->has_any = map->holds_loaded = rc == 0;
    map->n_left_out = 0;
    map->told_is_far = map->was_refused = map->is_tried = false;
    map->T_map_odom = se3_identity();
    map->n_agreeing = map->n_searched = map->n_looks = 0;
    map->is_looking = false;
    if (rc < 0)
        relocalise_forget(map->relocaliser);
    return rc;
}

void map_give_up(struct map *map)
{
    if (map->is_loaded)
        log_to(&map->log, LOG_LEVEL_NOTICE, "map: the loaded map is given up");
    map->is_loaded = map->is_searching = false;
    map->T_map_odom = se3_identity();
}

void map_enter(struct map *map, uint32_t epoch)
{
    if (!map->is_loaded || epoch == map->epoch)
        return;
    map->epoch = epoch;
    map->is_searching = true;
    map->is_tried = false;
    map->T_map_odom = se3_identity();
    map->n_agreeing = map->n_searched = map->n_looks = 0;
    map->is_looking = false;
}

uint32_t map_n_left_out(const struct map *map)
{
    return map->n_left_out;
}

bool map_is_loaded(const struct map *map)
{
    return map->is_loaded;
}

bool map_is_looking(const struct map *map)
{
    return map->is_looking;
}

bool map_is_searching(const struct map *map)
{
    return map->is_searching;
}

struct se3 map_T_map_odom(const struct map *map)
{
    return map->T_map_odom;
}

static int fuse(struct map *map, const struct gpu_frame *frame, const struct track_result *result)
{
    const struct se3 T = map->is_loaded ? se3_compose(&map->T_map_odom, &result->T_odom_camera)
                                        : result->T_odom_camera;
    int rc = take_in(map, frame, &T);
    if (rc == 0 && map->expects_view)
        rc = relocalise_add(map->relocaliser, frame, &T);
    map->expects_view = map->expects_view && rc < 0;
    return rc;
}

int map_follow(struct map *map, struct track *track, const struct track_result *result)
{
    const struct gpu_frame *frame = track_newest_frame(track);
    bool sees = result->state == TRACK_STATE_TRACKING ||
                (result->state == TRACK_STATE_INIT && result->reason == TRACK_REASON_FIRST_FRAME);
    int rc = 0;
    map->expects_view = map->expects_view || result->new_keyframe;
    if (map->is_searching) {
        track_set_view(track, NULL, NULL); // what was seen before is of another place
        return sees && frame ? search(map, track, result) : 0;
    }
    if (!map->has_any || result->map_epoch != map->epoch)
        rc = begin_epoch(map, result->map_epoch);
    if (rc == 0 && sees && frame)
        rc = fuse(map, frame, result);
    if (rc < 0 || !map->has_any)
        return rc;
    // One that the keyframes have found goes on from its own frame, sharper than the map's view.
    const bool is_lost = relocalise_is_lost(result, frame) && !track_is_found(track);
    tell_found(map, result, track_is_found(track));
    if (!is_lost) {
        stop_looking(map, track);
        map->n_lost = 0;
        map->finds = (struct relocalise_finds){0};
    }
    if (!is_lost && !track_wants_view(track)) {
        track_set_view(track, NULL, NULL); // its keyframe is better; the map is for the lost
        return 0;
    }
    if (is_lost)
        rc = look_for(map, track, result);
    if (rc < 0)
        return rc;
    const struct se3 T = track_expected(track);
    const struct se3 T_map = map->is_loaded ? se3_compose(&map->T_map_odom, &T) : T;
    rc = model_view(map->model, &T_map, map->view);
    track_set_view(track, rc == 0 ? map->view : NULL, &T);
    return rc;
}
