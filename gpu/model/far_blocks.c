// SPDX-License-Identifier: Apache-2.0
#include "gpu/model/far_blocks.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "gpu/model/kernels/view.h"
#include "gpu/model/ops.h"
#include "proto/se3.h"

#define REGION_SHIFT 3 // a region is so many blocks' edge, as a power of two
#define REGION_EDGE  (1 << REGION_SHIFT)
#define RESERVE      8    // one part in so many of the device is kept free for new places
#define LOOK_EVERY   16   // frames at most
#define GROWTH       4    // a frame may add so many times as many blocks as the ones before it did
#define SEND_MOST    8192 // with one frame, where nothing waits for the room: 16 MB

// What a frame or a view touches beside what is in sight: the band behind a surface, and a block's
// neighbours.
#define BESIDE_BLOCKS 3.0f

static uint64_t region_of(int32_t x, int32_t y, int32_t z)
{
    return voxel_key(x >> REGION_SHIFT, y >> REGION_SHIFT, z >> REGION_SHIFT);
}

static uint64_t region_of_key(uint64_t block_key)
{
    const struct voxel_place place = voxel_place_of(block_key);
    return region_of(place.x, place.y, place.z);
}

// --- What is in sight

struct sight {
    struct level_camera camera;
    struct icp_pose T_camera_map;
    struct se3 T_map_camera;
    float region_m, radius_m, depth_min_m, depth_max_m;
};

static void sight_of(const struct model *model, const struct se3 *T_map_camera, struct sight *out)
{
    const struct gpu_settings *s = &model->gpu->settings;
    const float block_m = VOXEL_BLOCK_EDGE * model->settings.voxel_m;
    const struct se3 T_camera_map = se3_inverse(T_map_camera);
    *out = (struct sight){
        .camera = camera_level(&s->camera, 0),
        .T_camera_map = view_pose_of(&T_camera_map),
        .T_map_camera = *T_map_camera,
        .region_m = REGION_EDGE * block_m,
        .radius_m = VIEW_CUBE_RADIUS * REGION_EDGE * block_m + BESIDE_BLOCKS * block_m,
        .depth_min_m = s->depth_min_m,
        .depth_max_m = s->depth_max_m + VOXEL_TRUNCATION_MAX,
    };
}

static struct icp_vec3 centre_of(const struct sight *sight, uint64_t region)
{
    const struct voxel_place place = voxel_place_of(region);
    const struct icp_vec3 out = {((float)place.x + 0.5f) * sight->region_m,
                                 ((float)place.y + 0.5f) * sight->region_m,
                                 ((float)place.z + 0.5f) * sight->region_m};
    return out;
}

static bool is_in_sight(const struct sight *sight, uint64_t region)
{
    return view_sphere_visible(&sight->camera, &sight->T_camera_map, centre_of(sight, region),
                               sight->radius_m, sight->depth_min_m, sight->depth_max_m);
}

static double distance2_to(const struct sight *sight, uint64_t region)
{
    const struct icp_vec3 c = centre_of(sight, region);
    const double *t_m = sight->T_map_camera.t_m;
    const double x = (double)c.x - t_m[0], y = (double)c.y - t_m[1], z = (double)c.z - t_m[2];
    return x * x + y * y + z * z;
}

// --- Regions on the host

// The first region whose key is not smaller.
static uint32_t place_in(const struct far_blocks *far, uint64_t key)
{
    uint32_t low = 0, high = far->n_regions;
    while (low < high) {
        const uint32_t middle = low + (high - low) / 2;
        if (far->regions[middle].key < key)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static int grow(void **memory, uint32_t *room, uint32_t wanted, size_t bytes)
{
    if (wanted <= *room)
        return 0;
    const uint32_t larger = wanted + wanted / 2;
    void *grown = realloc(*memory, larger * bytes);
    if (!grown)
        return -ENOMEM;
    *memory = grown;
    *room = larger;
    return 0;
}

// Makes room for n more blocks in the region, which there is afterwards.
static int reserve(struct far_blocks *far, uint64_t key, uint32_t n)
{
    const uint32_t at = place_in(far, key);
    if (at == far->n_regions || far->regions[at].key != key) {
        if (grow((void **)&far->regions, &far->room, far->n_regions + 1, sizeof *far->regions))
            return -ENOMEM;
        memmove(far->regions + at + 1, far->regions + at,
                (far->n_regions - at) * sizeof *far->regions);
        far->regions[at] = (struct far_region){.key = key};
        far->n_regions++;
    }
    struct far_region *region = &far->regions[at];
    return grow((void **)&region->blocks, &region->room, region->n + n, sizeof *region->blocks);
}

// There is room.
static void put(struct far_blocks *far, const struct model_block *block)
{
    struct far_region *region =
        &far->regions[place_in(far, region_of(block->x, block->y, block->z))];
    region->blocks[region->n++] = *block;
    far->n_blocks++;
}

void far_blocks_clear(struct far_blocks *far)
{
    for (uint32_t i = 0; i < far->n_regions; i++)
        free(far->regions[i].blocks);
    free(far->regions);
    *far = (struct far_blocks){.max_blocks = far->max_blocks};
}

void far_blocks_read(const struct far_blocks *far, struct model_block *out)
{
    for (uint32_t i = 0; i < far->n_regions; i++) {
        memcpy(out, far->regions[i].blocks, far->regions[i].n * sizeof *out);
        out += far->regions[i].n;
    }
}

static void drop_empty(struct far_blocks *far)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < far->n_regions; i++) {
        if (far->regions[i].n > 0)
            far->regions[n++] = far->regions[i];
        else
            free(far->regions[i].blocks);
    }
    far->n_regions = n;
}

// --- Regions of many blocks

struct group {
    uint64_t region;
    double distance2;
    uint32_t n;
    bool is_chosen;
};

struct groups {
    struct group *group;
    uint32_t *of; // of each block
    uint32_t n;
};

static void groups_free(struct groups *groups)
{
    free(groups->group);
    free(groups->of);
    *groups = (struct groups){0};
}

static int groups_of(const struct sight *sight, const uint64_t *block_keys, uint32_t n_blocks,
                     struct groups *out)
{
    uint32_t room = 1024;
    while (room < 2 * n_blocks)
        room *= 2;
    uint32_t *table = malloc(room * sizeof *table); // groups by their regions' hash
    *out = (struct groups){malloc((n_blocks + 1) * sizeof *out->group),
                           malloc((n_blocks + 1) * sizeof *out->of), 0};
    if (!table || !out->group || !out->of) {
        free(table);
        groups_free(out);
        return -ENOMEM;
    }
    memset(table, 0xff, room * sizeof *table);
    for (uint32_t i = 0; i < n_blocks; i++) {
        const uint64_t region = region_of_key(block_keys[i]);
        uint32_t at = voxel_hash(region, room - 1);
        while (table[at] != UINT32_MAX && out->group[table[at]].region != region)
            at = (at + 1) & (room - 1);
        if (table[at] == UINT32_MAX) {
            table[at] = out->n++;
            out->group[table[at]] = (struct group){region, distance2_to(sight, region), 0, false};
        }
        out->of[i] = table[at];
        out->group[table[at]].n++;
    }
    free(table);
    return 0;
}

static int by_distance(const void *left, const void *right)
{
    const struct group *a = *(const struct group *const *)left;
    const struct group *b = *(const struct group *const *)right;
    if (a->distance2 != b->distance2)
        return a->distance2 < b->distance2 ? -1 : 1;
    return a->region < b->region ? -1 : a->region > b->region;
}

// The groups from the nearest on, to be freed; NULL: no memory.
static struct group **nearest_first(struct groups *groups)
{
    struct group **out = malloc((groups->n + 1) * sizeof *out);
    for (uint32_t i = 0; out && i < groups->n; i++)
        out[i] = &groups->group[i];
    if (out)
        qsort(out, groups->n, sizeof *out, by_distance);
    return out;
}

// --- Going and coming

// Chooses regions out of sight, the farthest first, until n_needed blocks are chosen or the host
// has no room for more than n_most. Returns how many there are; those that there is no memory for
// are not chosen.
static uint32_t choose(struct far_blocks *far, const struct sight *sight, struct groups *groups,
                       uint32_t n_needed, uint32_t n_most)
{
    struct group **nearest = nearest_first(groups);
    uint32_t n_chosen = 0;
    for (uint32_t i = groups->n; nearest && i > 0 && n_chosen < n_needed; i--) {
        struct group *group = nearest[i - 1];
        if (n_chosen + group->n > n_most || is_in_sight(sight, group->region) ||
            reserve(far, group->region, group->n))
            continue;
        group->is_chosen = true;
        n_chosen += group->n;
    }
    free(nearest);
    return n_chosen;
}

// n_wanted: far blocks in sight, which come back at once if there is room for all of them.
static int send_away(struct model *model, const struct sight *sight, uint32_t n_here,
                     uint32_t n_needed, uint32_t n_wanted)
{
    struct far_blocks *far = &model->far;
    struct groups groups = {0};
    struct model_block *blocks = NULL;
    uint32_t *slots = NULL, n = 0;
    if (n_wanted == 0 && far->n_blocks >= far->max_blocks)
        return 0;
    uint64_t *keys = malloc(n_here * sizeof *keys + 1);
    int rc = keys ? model->ops->keys(model, keys, n_here) : 0;
    if (!keys || rc < 0 || groups_of(sight, keys, n_here, &groups) < 0) {
        free(keys);
        return rc;
    }
    uint32_t n_free = model->max_blocks - n_here;
    uint32_t n_most = far->max_blocks > far->n_blocks ? far->max_blocks - far->n_blocks : 0;
    for (uint32_t i = 0; i < groups.n; i++)
        n_free += is_in_sight(sight, groups.group[i].region) ? 0 : groups.group[i].n;
    n_most += n_free >= n_wanted ? n_wanted : 0;
    const uint32_t n_chosen = choose(far, sight, &groups, n_needed, n_most);
    if (n_chosen > 0) {
        slots = malloc(n_chosen * sizeof *slots);
        blocks = malloc(n_chosen * sizeof *blocks);
    }
    if (slots && blocks) {
        for (uint32_t i = 0; i < n_here; i++)
            if (groups.group[groups.of[i]].is_chosen)
                slots[n++] = i;
        rc = model->ops->take(model, slots, n, blocks);
        for (uint32_t i = 0; i < n && rc == 0; i++)
            put(far, &blocks[i]);
    }
    drop_empty(far); // of what was made room for and did not come
    groups_free(&groups);
    free(keys);
    free(slots);
    free(blocks);
    return rc == -ENOMEM ? 0 : rc; // nothing has changed
}

// n_most: there is room for, and there are.
static int bring_back(struct model *model, const struct sight *sight, uint32_t n_most,
                      bool *out_all_here)
{
    struct far_blocks *far = &model->far;
    struct group *seen = malloc((far->n_regions + 1) * sizeof *seen);
    struct groups groups = {seen, NULL, 0};
    uint32_t n = 0;
    for (uint32_t i = 0; seen && i < far->n_regions; i++)
        if (is_in_sight(sight, far->regions[i].key))
            seen[groups.n++] =
                (struct group){far->regions[i].key, distance2_to(sight, far->regions[i].key),
                               far->regions[i].n, false};
    struct group **nearest = seen ? nearest_first(&groups) : NULL;
    struct model_block *blocks = nearest ? malloc(n_most * sizeof *blocks + 1) : NULL;
    *out_all_here = blocks != NULL;
    for (uint32_t i = 0; blocks && i < groups.n; i++) {
        const struct far_region *region = &far->regions[place_in(far, nearest[i]->region)];
        nearest[i]->is_chosen = region->n <= n_most - n;
        *out_all_here &= nearest[i]->is_chosen;
        if (!nearest[i]->is_chosen)
            continue;
        memcpy(blocks + n, region->blocks, region->n * sizeof *blocks);
        n += region->n;
    }
    const int rc = n > 0 ? model->ops->add(model, blocks, n) : 0;
    for (uint32_t i = 0; i < groups.n && blocks && rc == 0; i++)
        if (nearest[i]->is_chosen)
            far->regions[place_in(far, nearest[i]->region)].n = 0;
    far->n_blocks -= rc == 0 ? n : 0;
    drop_empty(far);
    free(seen);
    free(nearest);
    free(blocks);
    *out_all_here &= rc == 0;
    return rc == -EINVAL ? -EIO : rc == -ENOMEM ? 0 : rc;
}

// How many more frames may come before it has to be looked again how full the device is: asking
// waits for it.
static uint32_t look_after(struct far_blocks *far, uint32_t n_here, uint32_t spare)
{
    const uint32_t n_frames = far->n_frames > far->looked_at ? far->n_frames - far->looked_at : 1;
    const uint32_t grown = n_here > far->n_here ? n_here - far->n_here : 0;
    const uint32_t a_frame = GROWTH * (grown / n_frames + 1), frames = spare / a_frame;
    far->looked_at = far->n_frames;
    far->n_here = n_here;
    return frames < LOOK_EVERY ? frames : LOOK_EVERY;
}

int far_blocks_follow(struct model *model, const struct se3 *T_map_camera, bool is_new,
                      bool *out_all_here)
{
    struct far_blocks *far = &model->far;
    const uint32_t max_blocks = model->max_blocks, spare = max_blocks / RESERVE;
    struct sight sight;
    struct model_stats stats = {0};
    uint32_t n_wanted = 0;
    bool is_whole = true;
    *out_all_here = true;
    if (far->max_blocks == 0)
        return 0;
    sight_of(model, T_map_camera, &sight);
    for (uint32_t i = 0; i < far->n_regions; i++)
        n_wanted += is_in_sight(&sight, far->regions[i].key) ? far->regions[i].n : 0;
    const bool is_due = is_new && far->n_frames >= far->look_at;
    far->n_frames += is_new;
    // Both full: an exchange leaves no room that could be filled.
    if ((uint64_t)far->n_here + far->n_blocks >= (uint64_t)max_blocks + far->max_blocks)
        *out_all_here = false;
    if (n_wanted == 0 && !is_due)
        return 0;
    int rc = model->ops->stats(model, &stats);
    if (rc == 0)
        far->look_at = far->n_frames + look_after(far, stats.n_blocks, spare);
    const uint64_t wanted = (uint64_t)stats.n_blocks + n_wanted + spare;
    if (rc == 0 && wanted > max_blocks) {
        // Twice as much as is needed goes, so that it is seldom, but not all of it with one frame.
        uint32_t n_needed = (uint32_t)(wanted - max_blocks) + spare;
        const uint32_t n_before = stats.n_blocks;
        const bool goes_on = n_wanted == 0 && n_needed > SEND_MOST;
        n_needed = goes_on ? SEND_MOST : n_needed;
        rc = send_away(model, &sight, n_before, n_needed, n_wanted);
        if (rc == 0)
            rc = model->ops->stats(model, &stats);
        if (goes_on && stats.n_blocks < n_before) // not where nothing can go
            far->look_at = far->n_frames;
    }
    if (rc == 0 && n_wanted > 0)
        rc = bring_back(model, &sight,
                        n_wanted < max_blocks - stats.n_blocks ? n_wanted
                                                               : max_blocks - stats.n_blocks,
                        &is_whole);
    *out_all_here &= is_whole;
    far->n_here = rc == 0 ? stats.n_blocks + n_wanted : far->n_here;
    return rc;
}

static int compare_keys(const void *left, const void *right)
{
    const uint64_t a = *(const uint64_t *)left, b = *(const uint64_t *)right;
    return a < b ? -1 : a > b;
}

static bool come_once(uint64_t *keys, uint32_t n)
{
    qsort(keys, n, sizeof *keys, compare_keys);
    for (uint32_t i = 1; i < n; i++)
        if (keys[i] == keys[i - 1])
            return false;
    return true;
}

// Chooses for the host what the device has no room for.
static int split(struct model *model, const struct model_block *blocks, struct groups *groups,
                 struct model_block *out_here, uint32_t *out_n_here, uint32_t n_blocks)
{
    const uint32_t spare = model->max_blocks / RESERVE;
    const bool is_tight = n_blocks > model->max_blocks - spare + model->far.max_blocks;
    const uint32_t room = model->max_blocks - (is_tight ? 0 : spare);
    struct group **nearest = nearest_first(groups);
    int rc = nearest ? 0 : -ENOMEM;
    uint32_t n = 0;
    for (uint32_t i = 0; i < groups->n && rc == 0; i++) {
        nearest[i]->is_chosen = n + nearest[i]->n > room;
        n += nearest[i]->is_chosen ? 0 : nearest[i]->n;
        if (nearest[i]->is_chosen)
            rc = reserve(&model->far, nearest[i]->region, nearest[i]->n);
    }
    *out_n_here = 0;
    for (uint32_t i = 0; i < n_blocks && rc == 0; i++) {
        if (groups->group[groups->of[i]].is_chosen)
            put(&model->far, &blocks[i]);
        else
            out_here[(*out_n_here)++] = blocks[i];
    }
    free(nearest);
    return rc;
}

int far_blocks_write(struct model *model, const struct model_block *blocks, uint32_t n_blocks)
{
    const struct se3 T = se3_identity();
    struct sight sight;
    struct groups groups = {0};
    uint64_t *keys = calloc(n_blocks, sizeof *keys);
    struct model_block *here = malloc(model->max_blocks * sizeof *here);
    uint32_t n_here = 0;
    sight_of(model, &T, &sight);
    int rc = keys && here ? 0 : -ENOMEM;
    for (uint32_t i = 0; i < n_blocks && rc == 0; i++)
        keys[i] = voxel_key(blocks[i].x, blocks[i].y, blocks[i].z);
    if (rc == 0)
        rc = groups_of(&sight, keys, n_blocks, &groups);
    if (rc == 0 && !come_once(keys, n_blocks))
        rc = -EINVAL;
    if (rc == 0)
        rc = model_clear(model); // there is memory, or nearly
    if (rc == 0)
        rc = split(model, blocks, &groups, here, &n_here, n_blocks);
    if (rc == 0)
        rc = model->ops->add(model, here, n_here);
    groups_free(&groups);
    free(keys);
    free(here);
    return rc;
}
