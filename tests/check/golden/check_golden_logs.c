// SPDX-License-Identifier: Apache-2.0
// The bytes of the poses of short logs are what they were: each scene, as two cameras see it,
// straight from memory with several settings, and through each format that the recorder writes and
// its driver reads back. tests/golden/logs.txt has a hash for each; a pose that changes in its last
// bit changes it. They hold for every processor with fused multiply and add: each is made with all
// instruction sets that this one has. One without is a skip.
//
//   check_golden_logs FILE        compares
//   check_golden_logs FILE write  writes the table anew: for a change that means to change poses,
//                                 with the reason in the commit
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "capture/capture.h"
#include "capture/synth/synth.h"
#include "gpu/track/track.h"
#include "tests/unit/camera.h"
#include "tests/unit/scratch.h"

#define N_FRAMES 6
#define W        160
#define H        120
#define MAX_ROWS 400
#define ROW_TEXT 96

struct row {
    char name[ROW_TEXT];
    uint64_t hash;
};

// What is varied beside scene and format.
static const struct variant {
    const char *name;
    enum track_reference reference;
    uint32_t iterations[GPU_LEVELS];
    uint32_t radius_px;
    bool early_stop;
} variants[] = {
    {"keyframe", TRACK_REFERENCE_KEYFRAME, {10, 5, 4}, 3, true},
    {"previous", TRACK_REFERENCE_PREVIOUS, {10, 5, 4}, 3, true},
    {"all-iterations", TRACK_REFERENCE_KEYFRAME, {10, 5, 4}, 3, false},
    {"unfiltered", TRACK_REFERENCE_KEYFRAME, {10, 5, 4}, 0, true},
    {"coarse", TRACK_REFERENCE_PREVIOUS, {0, 5, 4}, 3, true},
};
#define N_VARIANTS (sizeof variants / sizeof variants[0])

static const char *const sensors[] = {"kind", "unkind"};

// A log in memory.
struct take {
    struct intrinsics camera;
    double units_per_m;
    uint32_t n_frames;
    int64_t time_ns[N_FRAMES];
    uint16_t depth[N_FRAMES][W * H];
};

static struct row rows[MAX_ROWS];
static size_t n_rows, n_unlike;

static enum gpu_isa isas[2];
static size_t n_isas;

static void find_isas(void)
{
#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
        isas[n_isas++] = GPU_ISA_AVX2;
    if (n_isas && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
        __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl"))
        isas[n_isas++] = GPU_ISA_AVX512;
#elif defined(__ARM_FEATURE_FMA)
    isas[n_isas++] = GPU_ISA_BASELINE;
#endif
}

static void die(const char *what, const char *name)
{
    fprintf(stderr, "%s: %s\n", name, what);
    exit(1);
}

static uint64_t add_bytes(uint64_t hash, const void *bytes, size_t n_bytes)
{
    const uint8_t *at = bytes;
    for (size_t i = 0; i < n_bytes; i++)
        hash = (hash ^ at[i]) * UINT64_C(0x100000001b3); // FNV-1a
    return hash;
}

// The poses of a log, with what is said of each, as one number.
static uint64_t hash_of(const struct take *take, const struct variant *variant, enum gpu_isa isa,
                        const char *name)
{
    struct gpu_settings device;
    struct track_settings settings;
    struct gpu *gpu;
    struct track *track;
    struct track_result result;
    const struct log_sink silent = {0};
    uint64_t hash = UINT64_C(0xcbf29ce484222325);
    gpu_settings_default(&device);
    device.camera = take->camera;
    device.units_per_m = take->units_per_m;
    device.bilateral_radius_px = variant->radius_px;
    device.n_threads = 1;
    device.isa = isa;
    track_settings_default(&settings);
    settings.reference = variant->reference;
    settings.align.early_stop = variant->early_stop;
    memcpy(settings.align.iterations, variant->iterations, sizeof variant->iterations);
    if (gpu_open(&gpu, GPU_BACKEND_CPU, &device) != 0 ||
        track_create(&track, gpu, &settings, &silent) != 0)
        die("no tracker", name);
    for (uint32_t i = 0; i < take->n_frames; i++) {
        if (track_frame(track, take->depth[i], take->time_ns[i], &result) < 0)
            die("the tracker failed", name);
        const int32_t verdict[2] = {result.state, result.reason};
        hash = add_bytes(hash, verdict, sizeof verdict);
        hash = add_bytes(hash, result.T_odom_camera.r, sizeof result.T_odom_camera.r);
        hash = add_bytes(hash, result.T_odom_camera.t_m, sizeof result.T_odom_camera.t_m);
    }
    track_destroy(&track);
    gpu_close(&gpu);
    return hash;
}

static void add_row(const struct take *take, const struct variant *variant, const char *log,
                    const char *format)
{
    if (n_rows == MAX_ROWS)
        die("more than MAX_ROWS", log);
    struct row *row = &rows[n_rows++];
    snprintf(row->name, sizeof row->name, "%s %s %s", log, format, variant->name);
    row->hash = hash_of(take, variant, isas[0], row->name);
    for (size_t i = 1; i < n_isas; i++)
        if (hash_of(take, variant, isas[i], row->name) != row->hash) {
            printf("%s: another hash with instruction set %zu of %zu\n", row->name, i + 1, n_isas);
            n_unlike++;
        }
}

// Frames around what befalls the camera, else from the beginning.
static void render(const struct synth_recording *recording, const char *sensor, struct take *out)
{
    char location[96];
    struct scene *scene;
    const struct log_sink silent = {0};
    struct synth_request request = {.n_frames = 0};
    snprintf(location, sizeof location, "%s,sensor=%s,camera=3,seed=5", recording->name, sensor);
    *out = (struct take){.camera = {525 / 4.0, 525 / 4.0, 79.5, 59.5, W, H},
                         .units_per_m = SCENE_UNITS_PER_M,
                         .n_frames = N_FRAMES};
    if (synth_parse(location, &silent, &request) != 0 ||
        scene_create(&scene, recording->scene, &out->camera) != 0 ||
        synth_set_sensor(&request, scene) != 0)
        die("no scene", location);
    uint64_t first = recording->event_frame > 2 ? recording->event_frame - 2 : 0;
    for (uint64_t i = 0; i < N_FRAMES; i++) {
        synth_render(&request, scene, first + i, out->depth[i]);
        out->time_ns[i] = synth_stamp_ns(&request, first + i);
    }
    scene_destroy(&scene);
}

// Writes the log with the recorder and reads it back with its driver.
static void through_format(struct take *take, const struct scratch *scratch,
                           enum recorder_format format, struct take *out)
{
    const char *name = recorder_format_name(format);
    const struct recorder_settings settings = {.folder = scratch->path};
    const struct capture_info info = {
        .camera = take->camera, .units_per_m = take->units_per_m, .live = true};
    struct recorder *recorder;
    struct buffers *camera = camera_create((size_t)W * H, N_FRAMES);
    if (recorder_create(&recorder, &settings) != 0 ||
        recorder_start_one(recorder, name, format, &info) != 0)
        die("no recording", name);
    for (uint32_t i = 0; i < take->n_frames; i++)
        camera_push(
            camera, recorder,
            (struct capture_frame){
                .image = {take->depth[i], W, H, take->units_per_m, take->time_ns[i]}, .index = i});
    recorder_destroy(&recorder);
    camera_destroy(camera);

    static const char *const suffixes[] = {[RECORDER_FORMAT_KLG] = ".klg",
                                           [RECORDER_FORMAT_MCAP] = ".mcap",
                                           [RECORDER_FORMAT_ROS2MCAP] = ".ros2.mcap",
                                           [RECORDER_N_FORMATS] = ""};
    char source[256];
    const char *suffix = suffixes[format] ? suffixes[format] : "";
    snprintf(source, sizeof source, "%s:%s/%s%s",
             format == RECORDER_FORMAT_ROS2MCAP ? "mcap" : name, scratch->path, name, suffix);
    const struct capture_settings reader = {.source = source, .allow_implausible = true};
    struct capture *capture;
    struct capture_frame frame;
    if (capture_open(&capture, &reader) != 0)
        die("cannot be read", source);
    *out = (struct take){.camera = capture_info(capture)->camera,
                         .units_per_m = capture_info(capture)->units_per_m};
    while (out->n_frames < N_FRAMES && capture_read(capture, -1, &frame) == 0) {
        if (!frame.image.depth)
            continue;
        memcpy(out->depth[out->n_frames], frame.image.depth, sizeof out->depth[0]);
        out->time_ns[out->n_frames++] = frame.image.time_ns;
    }
    capture_close(&capture);
    if (out->n_frames != take->n_frames)
        die("frames are missing", source);
}

static void run_scene(const struct synth_recording *recording, const char *sensor)
{
    static struct take take, back;
    char log[64];
    snprintf(log, sizeof log, "%s,%s", recording->name, sensor);
    render(recording, sensor, &take);
    for (size_t v = 0; v < N_VARIANTS; v++)
        add_row(&take, &variants[v], log, "memory");
    for (int format = 0; format < RECORDER_N_FORMATS; format++) {
        struct scratch scratch;
        scratch_create(&scratch);
        through_format(&take, &scratch, (enum recorder_format)format, &back);
        add_row(&back, &variants[0], log, recorder_format_name((enum recorder_format)format));
        scratch_remove(&scratch);
    }
}

static int write_rows(const char *path)
{
    FILE *file = fopen(path, "w");
    if (!file)
        return 1;
    fprintf(file, "# scene,sensor format settings hash: made by check_golden_logs\n");
    for (size_t i = 0; i < n_rows; i++)
        fprintf(file, "%s %016llx\n", rows[i].name, (unsigned long long)rows[i].hash);
    return fclose(file) != 0;
}

static int compare_rows(const char *path)
{
    char line[200], expected[200];
    size_t n_wrong = 0, n = 0;
    FILE *file = fopen(path, "r");
    if (!file)
        die("cannot be read", path);
    while (fgets(line, sizeof line, file)) {
        if (line[0] == '#')
            continue;
        const struct row *row = n < n_rows ? &rows[n] : &(struct row){.name = "no row"};
        snprintf(expected, sizeof expected, "%s %016llx\n", row->name,
                 (unsigned long long)row->hash);
        if (strcmp(line, expected) != 0) {
            printf("expected %sgot      %s", line, expected);
            n_wrong++;
        }
        n++;
    }
    fclose(file);
    printf("%zu logs, %zu in the table, %zu wrong; %zu instruction sets, %zu unlike\n", n_rows, n,
           n_wrong, n_isas, n_unlike);
    return n_wrong || n_unlike || n != n_rows;
}

int main(int argc, char **argv)
{
    find_isas();
    if (!n_isas) {
        printf("SKIP: this processor has no fused multiply and add\n");
        return 77;
    }
    if (argc < 2)
        die("usage: check_golden_logs FILE [write]", argv[0]);
    for (const struct synth_recording *r = synth_recordings(); r->name; r++)
        for (size_t s = 0; s < sizeof sensors / sizeof sensors[0]; s++)
            run_scene(r, sensors[s]);
    return argc > 2 ? write_rows(argv[1]) : compare_rows(argv[1]);
}
