// SPDX-License-Identifier: Apache-2.0
// A turn through the furnished room gives what it gave: blocks, distances, views and triangles of
// the model, frames followed and keyframes kept by the map, links and poses of the keyframes'
// graph, all of them adjusted at once, and the map moved with them. tests/golden/model.txt has
// every number (tests/check/golden_values.h says how to write it anew).
#include <math.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "capture/synth/motion.h"
#include "capture/synth/scene.h"
#include "gpu/model/deform_blocks.h"
#include "gpu/model/keyframe_constraint.h"
#include "gpu/model/keyframe_images.h"
#include "gpu/model/loop_closure.h"
#include "gpu/model/map.h"
#include "gpu/model/optimise.h"
#include "gpu/model/relocalise.h"
#include "gpu/model/surface_nets.h"
#include "proto/se3.h"
#include "tests/check/golden_values.h"

// Poses and links come from float sums of 10,000 pixels, and steps of a solve.
#define SHARE       1e-5
// Counts of pixels and voxels that stand at a gate, and what is summed over them.
#define COUNT_SHARE 2e-4

#define WIDTH   160u
#define HEIGHT  120u
#define N       34u
#define STEP_S  0.12
#define DRIFT_M 0.002
#define TRACKED 16u
#define TRACK_S 0.04

static struct scene *scene;
static struct gpu_settings settings;
static struct gpu *gpu;
static struct gpu_frame *frame;
static uint16_t depth[WIDTH * HEIGHT];
static float z_m[N][WIDTH * HEIGHT];
static struct se3 T_true[N], T_odom[N];
static const struct log_sink quiet = {NULL, NULL};

static void must(int rc)
{
    if (rc < 0)
        exit(2);
}

static void load(void)
{
    const struct intrinsics whole = scene_default_camera();
    const double twist[6] = {DRIFT_M, 0, 0, 0, DRIFT_M, 0};
    const struct se3 drift = se3_exp(twist);
    gpu_settings_default(&settings);
    settings.camera = (struct intrinsics){whole.fx_px / 4, whole.fy_px / 4, whole.cx_px / 4,
                                          whole.cy_px / 4, WIDTH,           HEIGHT};
    settings.units_per_m = SCENE_UNITS_PER_M;
    settings.n_threads = 1;
    must(gpu_open(&gpu, GPU_BACKEND_CPU, &settings));
    must(gpu_frame_create(gpu, &frame));
    must(scene_create(&scene, "room", &settings.camera));
    must(scene_set_sensor(scene, SCENE_SENSOR_FIELD, 1));
    for (uint32_t k = 0; k < N; k++) {
        T_odom[k] = T_true[k] = motion_at(MOTION_LOOP, STEP_S * (k < 26 ? k : k - 26));
        if (k > 0) {
            const struct se3 step = se3_between(&T_true[k - 1], &T_true[k]);
            const struct se3 T = se3_compose(&T_odom[k - 1], &step);
            T_odom[k] = se3_compose(&T, &drift);
        }
        scene_render_noisy(scene, &T_true[k], 1, k, depth);
        for (uint32_t i = 0; i < WIDTH * HEIGHT; i++)
            z_m[k][i] = (float)(depth[i] / SCENE_UNITS_PER_M);
    }
}

static void blocks_of(const struct model_block *blocks, uint32_t n)
{
    double distance = 0, weight = 0, seen = 0;
    for (uint32_t i = 0; i < n; i++)
        for (int k = 0; k < MODEL_BLOCK_VOXELS; k++) {
            distance += fabs((double)blocks[i].distance[k]);
            weight += blocks[i].weight[k];
            seen += blocks[i].weight[k] > 0;
        }
    golden_number("blocks", n, COUNT_SHARE);
    golden_number("distance", distance, COUNT_SHARE);
    golden_number("weight", weight, COUNT_SHARE);
    golden_number("seen", seen, COUNT_SHARE);
    for (uint32_t i = 0; i < n; i += n / 12 + 1) {
        double row[8], weights[8];
        for (int k = 0; k < 8; k++) {
            row[k] = blocks[i].distance[73 * k];
            weights[k] = blocks[i].weight[73 * k];
        }
        golden_numbers("distances", row, 8, 1e-3); // of at most 30,000, in whole numbers
        golden_numbers("weights", weights, 8, 1e-3);
    }
}

static void view_of(uint32_t level)
{
    static float map[4 * WIDTH * HEIGHT];
    const uint32_t w = WIDTH >> level, h = HEIGHT >> level;
    double n[2] = {0}, sum[4] = {0}, row[8];
    must(gpu_frame_read(gpu, frame, level, map));
    for (uint32_t i = 0; i < w * h; i++) {
        n[0] += map[4 * i + 3] > 0;
        n[1] += map[4 * i + 2] != 0;
        for (int k = 0; k < 4; k++)
            sum[k] += fabs((double)map[4 * i + (uint32_t)k]);
    }
    golden_numbers("view n", n, 2, COUNT_SHARE);
    golden_numbers("view sum", sum, 4, COUNT_SHARE);
    for (int k = 0; k < 8; k++)
        row[k] = (double)map[4 * (h / 2 * w + w / 16 + (uint32_t)k * w / 8) + 3];
    golden_numbers("view z_m", row, 8, SHARE);
}

static struct model_block *read_blocks(struct model *model, uint32_t *out_n)
{
    (void)!model_read(model, NULL, 0, out_n);
    struct model_block *blocks = malloc(*out_n * sizeof *blocks);
    if (!blocks)
        exit(2);
    must(model_read(model, blocks, *out_n, out_n));
    model_order(blocks, *out_n);
    return blocks;
}

static void surface_of(const struct model_block *blocks, uint32_t n, float voxel_m)
{
    struct model_surface surface;
    double sum[6] = {0};
    must(model_surface_create(blocks, n, voxel_m, 16, &surface));
    const float *const from[6] = {surface.x_m, surface.y_m, surface.z_m,
                                  surface.nx,  surface.ny,  surface.nz};
    for (size_t i = 0; i < surface.n_points; i++)
        for (int a = 0; a < 6; a++)
            sum[a] += fabs((double)from[a][i]);
    golden_number("points", (double)surface.n_points, COUNT_SHARE);
    golden_number("triangles", (double)surface.n_triangles, COUNT_SHARE);
    golden_numbers("surface", sum, 6, COUNT_SHARE);
    model_surface_free(&surface);
}

// Fused at exact poses; seen from between two of them; and moved to other poses.
static void fused(void)
{
    const struct model_settings of = {.voxel_m = 0.02f, .memory_bytes = 64 << 20};
    struct model *model;
    struct model_stats stats;
    struct deformation_field field;
    uint32_t n;
    must(model_create(&model, gpu, &of));
    must(deformation_field_create(&field, &settings.camera, 10));
    for (uint32_t k = 0; k < 10; k++) {
        for (uint32_t i = 0; i < WIDTH * HEIGHT; i++)
            depth[i] = (uint16_t)lrint((double)z_m[k][i] * SCENE_UNITS_PER_M);
        must(gpu_prepare(gpu, depth, frame));
        must(model_integrate(model, frame, &T_odom[k]));
        uint16_t *z_mm = deformation_field_add(&field, &T_odom[k], &T_true[k]);
        for (uint32_t i = 0; i < WIDTH * HEIGHT; i++)
            z_mm[i] = (uint16_t)lrint((double)z_m[k][i] * 1000);
    }
    golden_case("model");
    must(model_stats_get(model, &stats));
    golden_number("touched", stats.n_touched, COUNT_SHARE);
    golden_number("truncation_m", model_truncation_m(&of), SHARE);
    golden_count("max_blocks", model_max_blocks(&of));
    const double twist[6] = {0.02, -0.01, 0.03, 0.01, 0.03, -0.02};
    const struct se3 beside = se3_exp(twist), T = se3_compose(&T_odom[4], &beside);
    must(model_view(model, &T, frame));
    for (uint32_t level = 0; level < GPU_LEVELS; level++)
        view_of(level);
    struct model_block *blocks = read_blocks(model, &n);
    blocks_of(blocks, n);
    surface_of(blocks, n, of.voxel_m);
    golden_case("deformed");
    struct map_contents contents = {.T_map_odom = se3_identity(),
                                    .correction = field,
                                    .blocks = blocks,
                                    .n_blocks = n,
                                    .room = n};
    golden_count("none", deformation_field_is_none(&field, (double)of.voxel_m));
    golden_count("rc", map_contents_correct(&contents, &of));
    blocks_of(contents.blocks, contents.n_blocks);
    map_contents_free(&contents);
    model_destroy(&model);
}

// What keyframes say of a point between them: near and far ones, at a step, beside the image.
static void field(void)
{
    // The first two see one wall, from unlike distances.
    static const double z[3] = {0.42, 0.62, 2}, back_m[3] = {0, -0.2, 0};
    static const double points_m[8][3] = {{0, 0, 0.42},    {0.05, 0.02, 0.43}, {0.3, -0.2, 0.9},
                                          {0.01, 0, 2.02}, {-0.4, 0.3, 2},     {0.2, 0.1, 1.1},
                                          {0.31, 0, 0.8},  {5, 5, -1}};
    struct deformation_field of;
    must(deformation_field_create(&of, &settings.camera, 3));
    for (int k = 0; k < 3; k++) {
        const double odom[6] = {0.02 * k, 0, back_m[k], 0, 0.01 * k, 0};
        const double map[6] = {0.03 * k, 0.01, -0.02 * k, 0.01, 0.02 * k, 0.03};
        const struct se3 T_odom_camera = se3_exp(odom), T_map_camera = se3_exp(map);
        uint16_t *z_mm = deformation_field_add(&of, &T_odom_camera, &T_map_camera);
        for (uint32_t i = 0; i < WIDTH * HEIGHT; i++) {
            const double step = i % 7 == 3 ? 1.1005 : 1; // one part in ten is one surface
            z_mm[i] = (uint16_t)lrint(1000 * z[k] * step);
        }
    }
    golden_case("field");
    for (int i = 0; i < 8; i++) {
        const struct se3 T = deformation_field_at(&of, 0.008 + 0.01 * (i % 3), points_m[i]);
        golden_pose("T", &T, SHARE);
    }
    deformation_field_free(&of);
}

// The tracker on the model.
static void followed(void)
{
    const struct model_settings of = {.voxel_m = 0.02f, .memory_bytes = 64 << 20};
    struct track_settings tracker;
    struct track_result result;
    struct track *track;
    struct map *map;
    struct map_contents contents = {.n_blocks = 0};
    track_settings_default(&tracker);
    tracker.reference = TRACK_REFERENCE_MODEL;
    must(track_create(&track, gpu, &tracker, &quiet));
    must(map_create(&map, gpu, &of, &tracker.align, &quiet));
    golden_case("map");
    for (uint32_t k = 0; k < TRACKED; k++) {
        const struct se3 T = motion_at(MOTION_LOOP, TRACK_S * k);
        scene_render_noisy(scene, &T, 2, k, depth);
        if (k == 12) // lost: it looks elsewhere
            scene_render_noisy(scene, &T_true[20], 2, k, depth);
        must(track_frame(track, depth, (int64_t)(k * TRACK_S * 1e9), &result));
        must(map_follow(map, track, &result));
        track_set_map(track, true);
        golden_count("state", result.state);
        if (k % 3 == 0)
            golden_pose("T", &result.T_odom_camera, SHARE);
    }
    struct model_stats stats;
    must(model_stats_get(map_model(map), &stats));
    contents.n_blocks = stats.n_blocks;
    must(map_contents_reserve(&contents));
    must(map_read(map, &contents));
    map_contents_order(&contents);
    blocks_of(contents.blocks, contents.n_blocks);
    golden_count("keyframes", contents.n_keyframes);
    for (uint32_t i = 0; i < contents.n_keyframes; i++) {
        double row[8];
        for (int k = 0; k < 8; k++)
            row[k] = (double)contents.keyframes[i].log_z[(DEPTH_CELLS - 1) * k / 8];
        golden_numbers("log_z", row, 8, SHARE);
    }
    map_contents_free(&contents);
    map_destroy(&map);
    track_destroy(&track);
}

static void links(void)
{
    struct link_maker *maker;
    struct align_image *images[4];
    struct link found[3], chain;
    golden_case("links");
    must(link_maker_create(&maker, &quiet));
    for (uint32_t k = 0; k < 4; k++)
        must(link_image(&images[k], z_m[k], &settings.camera));
    for (uint32_t k = 0; k < 3; k++) {
        const struct se3 T = se3_between(&T_odom[3], &T_odom[k]);
        found[k] = (struct link){.T_j_i = T, .doubt_m = k == 0 ? 0.3 : 0.02};
        golden_number("overlap", link_overlap(images[k], images[3], &T, 0.05), COUNT_SHARE);
        golden_number("conflict", link_conflict(images[k], images[3], &T), COUNT_SHARE);
    }
    must(link_measure(maker, images[3], (const struct align_image *const *)images, 3, found));
    for (uint32_t k = 0; k < 3; k++) {
        const double row[2] = {found[k].overlap, found[k].rms_m * 100};
        golden_pose("T", &found[k].T_j_i, SHARE);
        golden_numbers("found", row, 2, COUNT_SHARE);
        golden_numbers("information", found[k].information, 36, COUNT_SHARE);
        golden_count("good", found[k].good);
    }
    link_chain(&chain, &found[0].T_j_i, link_motion(&found[0].T_j_i), 1);
    golden_numbers("chain", chain.information, 36, SHARE);
    for (uint32_t k = 0; k < 4; k++)
        align_image_destroy(&images[k]);
    link_maker_destroy(&maker);
}

// A place that a keyframe saw before, in ever less favourable light: where it is no longer believed
// is where a threshold of loop_closure.c stands, to a half of a hundredth.
struct sight {
    struct link_maker *maker;
    float clean[2][WIDTH * HEIGHT];
    struct se3 T[2];
    struct align_image *images[2];
};

static bool is_found(struct sight *s, const float *z, const struct revisit_place *other,
                     double usual_rms_m, struct revisit *out)
{
    const struct revisit_place places[2] = {{s->images[0], 7, s->T[0], 0.3, 0.3},
                                            other ? *other : (struct revisit_place){.at = 0}};
    struct align_image *image;
    bool found = false;
    if (link_image(&image, z, &settings.camera) != 0)
        return false;
    must(revisit_find(s->maker, image, &s->T[1], places, other ? 2 : 1, usual_rms_m, out, &found));
    align_image_destroy(&image);
    return found;
}

static void revisits(void)
{
    static struct sight s;
    static float z[WIDTH * HEIGHT];
    struct revisit found;
    double row[41];
    must(link_maker_create(&s.maker, &quiet));
    for (int k = 0; k < 2; k++) {
        s.T[k] = motion_at(MOTION_LOOP, 0.1 * k);
        scene_render_exact(scene, &s.T[k], s.clean[k]);
        must(link_image(&s.images[k], s.clean[k], &settings.camera));
    }
    golden_case("revisits");
    golden_count("found", is_found(&s, s.clean[1], NULL, 1, &found));
    golden_count("at", found.at);
    golden_number("overlap", found.link.overlap, COUNT_SHARE);
    golden_number("rms_m", found.link.rms_m, COUNT_SHARE);
    golden_pose("T", &found.T_map_camera, SHARE);
    const double rms_m = found.link.rms_m;
    for (int k = -10; k <= 10; k++)
        row[k + 10] =
            is_found(&s, s.clean[1], NULL, rms_m / (1.25 * (1 + 0.002 * (k + 0.5))), &found);
    golden_numbers("worse", row, 21, 0);
    for (int turns = 0; turns < 2; turns++) {
        for (int k = -10; k <= 10; k++) {
            const double apart = 0.15 * (1 + 0.002 * (k + 0.5));
            const double twist[6] = {turns ? 0 : apart, 0, 0, 0, turns ? apart : 0, 0};
            const struct se3 T = se3_exp(twist);
            const struct revisit_place other = {s.images[0], 9, se3_compose(&T, &s.T[0]), 1, 1};
            row[k + 10] = is_found(&s, s.clean[1], &other, 1, &found);
        }
        golden_numbers(turns ? "turned" : "beside", row, 21, 0);
    }
    for (uint32_t part = 0; part < 41; part++) { // ever fewer rows
        memcpy(z, s.clean[1], sizeof z);
        memset(z, 0, (88 * WIDTH + part * WIDTH / 4) * sizeof *z);
        row[part] = is_found(&s, z, NULL, 1, &found);
    }
    golden_numbers("overlaps", row, 41, 0);
    for (uint32_t part = 0; part < 41; part++) { // something stands before ever more of it
        memcpy(z, s.clean[1], sizeof z);
        for (uint32_t i = 0; i < WIDTH * HEIGHT * part / 100; i++)
            z[i] *= 0.6f;
        row[part] = is_found(&s, z, NULL, 1, &found);
    }
    golden_numbers("conflicts", row, 41, 0);
    for (int k = 0; k < 2; k++)
        align_image_destroy(&s.images[k]);
    link_maker_destroy(&s.maker);
}

// A camera looked for: in ever more that was not there, and ever farther beside the map.
static void relocalised(void)
{
    const struct model_settings of = {.voxel_m = 0.02f, .memory_bytes = 64 << 20};
    const struct relocalise_keyframe *kept;
    struct gpu_align_settings align;
    struct relocaliser *relocaliser;
    struct model *model;
    double trust[41];
    struct se3 T;
    gpu_align_settings_default(&align);
    must(model_create(&model, gpu, &of));
    must(relocalise_create(&relocaliser, gpu, &align));
    golden_case("relocalise");
    for (uint32_t k = 0; k < 12; k++) {
        T = motion_at(MOTION_LOOP, 0.06 * k);
        scene_render_clean(scene, &T, depth);
        must(gpu_prepare(gpu, depth, frame));
        must(model_integrate(model, frame, &T));
        must(relocalise_add(relocaliser, frame, &T));
    }
    golden_count("keyframes", relocalise_keyframes(relocaliser, &kept));
    for (int beside = 0; beside < 2; beside++) {
        double x_m[41];
        for (uint32_t k = 0; k < 41; k++) {
            const double twist[6] = {0.02, -0.01, 0.02, 0, beside ? 0.012 * k : 0.02, 0.02};
            const struct se3 step = se3_exp(twist), from = motion_at(MOTION_LOOP, 0.3);
            const struct se3 truth = se3_compose(&from, &step);
            enum relocalise_trust found;
            scene_render_clean(scene, &truth, depth);
            for (uint32_t i = 0; i < WIDTH * HEIGHT * k / 350 && !beside; i++)
                depth[i] = (uint16_t)(depth[i] * 0.8);
            must(gpu_prepare(gpu, depth, frame));
            must(relocalise_find(relocaliser, model, frame, k, &from, &found, &T));
            trust[k] = found;
            x_m[k] = found ? T.t_m[0] : 0;
        }
        golden_numbers(beside ? "beside" : "changed", trust, 41, 0);
        golden_numbers("x_m", x_m, 41, COUNT_SHARE);
    }
    relocalise_destroy(&relocaliser);
    model_destroy(&model);
}

static void graph_of(const struct graph *graph)
{
    const struct graph_keyframe *keyframes;
    const uint32_t n = graph_keyframes(graph, &keyframes);
    golden_count("n", n);
    for (uint32_t i = 0; i < n; i++) {
        golden_count("seq", (int64_t)keyframes[i].seq);
        golden_count("links", keyframes[i].n_links);
        golden_pose("T", &keyframes[i].T_map_camera, SHARE);
    }
    const struct se3 T = graph_T_map_odom(graph);
    golden_pose("T_map_odom", &T, SHARE);
}

static void graphs(void)
{
    struct graph *graph, *copy;
    struct graph_settings of;
    struct optimise_report report;
    const atomic_bool go_on = false;
    graph_settings_default(&of);
    for (uint32_t most = 10; most <= N; most += N - 10) {
        of.max_keyframes = most;
        must(graph_create(&graph, &settings.camera, &of, &quiet));
        golden_case("graph/%u", most);
        for (uint32_t k = 0; k < N; k++)
            must(graph_add(graph, k, 0, z_m[k], &T_odom[k]));
        graph_of(graph);
        if (most == N) {
            golden_case("optimised");
            must(graph_copy(&copy, graph, NULL));
            golden_count("rc", optimise(copy, &go_on, NULL, &report));
            const double row[] = {report.before * 100, report.after * 100, report.moved_m,
                                  report.moved_rad, report.reduction};
            golden_numbers("report", row, 5, COUNT_SHARE);
            golden_count("links", report.n_links);
            golden_count("field", report.has_field);
            must(graph_take(graph, copy));
            graph_of(graph);
            graph_destroy(&copy);
        }
        graph_destroy(&graph);
    }
}

// Keyframes that go way_m away in odom and come back turn_rad and x_m beside where they began. The
// newest ones' links say whether that is near, is in reach, or is not looked at.
static void come_back(double way_m, double x_m, double turn_rad, double out[3])
{
    static const double at_s[7] = {0, 0.1, 0.2, 10, 0.05, 0.15, 0.25};
    const double away[6] = {way_m / 2, 0, 0, 0, 0, 0}, beside[6] = {x_m, 0, 0, 0, turn_rad, 0};
    const struct se3 far = se3_exp(away), off = se3_exp(beside);
    const struct graph_keyframe *keyframes;
    struct graph_settings of;
    struct graph *graph;
    graph_settings_default(&of);
    must(graph_create(&graph, &settings.camera, &of, &quiet));
    for (uint32_t k = 0; k < 7; k++) {
        const struct se3 truth = motion_at(MOTION_LOOP, at_s[k]), first = motion_at(MOTION_LOOP, 0);
        const struct se3 T = k < 3    ? truth
                             : k == 3 ? se3_compose(&far, &first)
                                      : se3_compose(&truth, &off);
        scene_render_exact(scene, &truth, z_m[0]);
        for (uint32_t i = 0; i < WIDTH * HEIGHT; i++)
            z_m[0][i] += z_m[0][i] > 0 ? (float)(0.002 * golden_noise()) : 0;
        must(graph_add(graph, k, 0, z_m[0], &T));
    }
    const uint32_t n = graph_keyframes(graph, &keyframes);
    for (uint32_t k = 0; k < 3; k++)
        out[k] = n == 7 ? (double)keyframes[4 + k].n_links : -1;
    graph_destroy(&graph);
}

static void returns(void)
{
    static const struct {
        const char *name;
        double way_m, x_m, turn_rad; // each but 1 is swept
        bool ways, steps, turns;
    } sweeps[] = {
        {"way", 3.21, 0, 0, true, false, false},
        {"beside", 6, 0.348, 0, false, true, false},
        {"turned", 6, 0, 0.395, false, false, true},
    };
    golden_seed(9);
    golden_case("returns");
    for (size_t i = 0; i < sizeof sweeps / sizeof *sweeps; i++) {
        double links[33];
        for (int k = 0; k < 11; k++) {
            const double more = 1 + 0.008 * (k - 5);
            come_back(sweeps[i].way_m * (sweeps[i].ways ? more : 1),
                      sweeps[i].x_m * (sweeps[i].steps ? more : 1),
                      sweeps[i].turn_rad * (sweeps[i].turns ? more : 1), links + 3 * k);
        }
        golden_numbers(sweeps[i].name, links, 33, 0);
    }
}

// A whole turn with a drift that only a loop takes out.
static void loop(void)
{
    const double twist[6] = {0.003, 0, 0, 0, 0.003, 0};
    const struct se3 drift = se3_exp(twist);
    struct graph_settings of;
    struct graph *graph;
    struct se3 before = se3_identity(), T = se3_identity();
    const struct graph_keyframe *keyframes;
    graph_settings_default(&of);
    of.max_keyframes = 60; // some go
    must(graph_create(&graph, &settings.camera, &of, &quiet));
    golden_case("loop");
    golden_seed(7);
    for (uint32_t k = 0; k < 92; k++) {
        const struct se3 truth = motion_at(MOTION_LOOP, 0.25 * k);
        const struct se3 step = se3_between(&before, &truth), on = se3_compose(&T, &step);
        T = k > 0 ? se3_compose(&on, &drift) : truth;
        before = truth;
        scene_render_exact(scene, &truth, z_m[0]);
        for (uint32_t i = 0; i < WIDTH * HEIGHT; i++)
            z_m[0][i] += z_m[0][i] > 0 ? (float)(0.002 * golden_noise()) : 0;
        must(graph_add(graph, k, 0, z_m[0], &T));
        if (k < 76)
            continue;
        const uint32_t n = graph_keyframes(graph, &keyframes);
        const struct se3 T_map_odom = graph_T_map_odom(graph);
        golden_count("links", keyframes[n - 1].n_links);
        golden_pose("T_map_odom", &T_map_odom, 1e-4); // what drifts swings with what holds it
    }
    graph_of(graph);
    graph_destroy(&graph);
}

int main(int argc, char **argv)
{
    golden_needs_fma();
    golden_begin(argc, argv);
    load();
    fused();
    field();
    followed();
    links();
    revisits();
    relocalised();
    graphs();
    returns();
    loop();
    scene_destroy(&scene);
    gpu_frame_destroy(gpu, &frame);
    gpu_close(&gpu);
    return golden_end();
}
