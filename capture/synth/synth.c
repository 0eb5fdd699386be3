// SPDX-License-Identifier: Apache-2.0
// Driver `synth`: a recording that is computed instead of read. Same name, seed and frame number
// give the same bits on every machine.
#include "capture/synth/synth.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "capture/driver.h"
#include "capture/synth/accelerometer.h"
#include "capture/synth/random.h"
#include "capture/synth/sensor_error.h"
#include "proto/se3.h"

#define FRAME_HZ       30
#define GAP_NS         2000000000LL
#define GAP_STEP       4  // frames' worth of motion during the gap
#define EASE_FRAMES    30 // the hand slows down and speeds up again around a covered lens ...
#define REST_FRAMES    5  // ... and rests this much before and after
#define MAX_N_FRAMES   10000000u
#define CAMERA_IS_SEED UINT64_MAX
#define JITTER_NS      4000000
#define LATE_NS        8000000 // beyond the jitter, one frame in LATE_ONE_IN
#define LATE_ONE_IN    32
#define MAX_MOUNT_M    10.0
#define DEGREE_RAD     (3.14159265358979323846 / 180)

static const struct synth_recording recordings[] = {
    {"room", "furnished room, a full turn while walking a circle", "room", MOTION_LOOP, 1, 600,
     SYNTH_EVENT_NONE, 0, 0},
    {"room-still", "furnished room, camera on a tripod", "room", MOTION_STILL, 1, 1000,
     SYNTH_EVENT_NONE, 0, 0},
    {"room-straight", "furnished room, to and fro without turning", "room", MOTION_STRAIGHT, 1, 300,
     SYNTH_EVENT_NONE, 0, 0},
    {"room-rotation", "furnished room, looking about without moving", "room", MOTION_ROTATION, 1,
     300, SYNTH_EVENT_NONE, 0, 0},
    {"room-slow", "as room, at a tenth of the speed (for replays at ten times)", "room",
     MOTION_LOOP, 0.1, 600, SYNTH_EVENT_NONE, 0, 0},
    {"room-calm", "as room, a full turn in 30 s", "room", MOTION_LOOP, 2.0 / 3, 900,
     SYNTH_EVENT_NONE, 0, 0},
    {"room-covered", "as room, lens covered in frames 150-179", "room", MOTION_LOOP, 1, 400,
     SYNTH_EVENT_COVERED, 150, 30},
    {"room-gap", "as room, no frames for 2 s before frame 150", "room", MOTION_LOOP, 1, 300,
     SYNTH_EVENT_GAP, 150, 0},
    {"room-duplicates", "as room, every third frame repeats its predecessor", "room", MOTION_LOOP,
     1, 300, SYNTH_EVENT_DUPLICATES, 0, 0},
    {"corridor", "endless corridor: the way along it cannot be seen", "corridor", MOTION_WALK, 1,
     300, SYNTH_EVENT_NONE, 0, 0},
    {"corridor-still", "endless corridor, camera on a tripod", "corridor", MOTION_STILL, 1, 300,
     SYNTH_EVENT_NONE, 0, 0},
    {"wall", "a single wall: three of six degrees of freedom cannot be seen", "wall", MOTION_SWAY,
     1, 300, SYNTH_EVENT_NONE, 0, 0},
    {"wall-still", "a single wall, camera on a tripod", "wall", MOTION_STILL, 1, 300,
     SYNTH_EVENT_NONE, 0, 0},
    {"nothing", "no surface in reach: every pixel invalid", "nothing", MOTION_STILL, 1, 100,
     SYNTH_EVENT_NONE, 0, 0},
    {0},
};

const struct synth_recording *synth_recordings(void)
{
    return recordings;
}

const struct synth_recording *synth_find(const char *name)
{
    for (const struct synth_recording *r = recordings; r->name; r++)
        if (!strcmp(r->name, name))
            return r;
    return NULL;
}

int64_t synth_time_ns(const struct synth_recording *recording, uint64_t frame)
{
    int64_t ns = (int64_t)(frame * 1000000000u / FRAME_HZ);
    bool after_gap = recording->event == SYNTH_EVENT_GAP && frame >= recording->event_frame;
    return ns + (after_gap ? GAP_NS : 0);
}

// Integral of 1 - smoothstep over 0..x: the way that an easing hand has covered.
static double eased_way(double x)
{
    return x < 0 ? 0 : x > 1 ? 0.5 : x - x * x * x + 0.5 * x * x * x * x;
}

// The motion's own clock in frames: it stops while the lens is covered, jumps at a gap, repeats at
// a duplicate.
static double motion_frame(const struct synth_recording *r, uint64_t frame)
{
    double now = (double)frame, event = r->event_frame, length = r->n_event_frames;
    switch (r->event) {
    case SYNTH_EVENT_NONE:
        break;
    case SYNTH_EVENT_GAP:
        return frame >= r->event_frame ? now + GAP_STEP - 1 : now;
    case SYNTH_EVENT_DUPLICATES:
        return (double)synth_noise_frame(r, frame);
    case SYNTH_EVENT_COVERED: {
        double slow = event - REST_FRAMES - EASE_FRAMES, fast = event + length + REST_FRAMES;
        if (now <= slow)
            return now;
        double way = slow + EASE_FRAMES * eased_way((now - slow) / EASE_FRAMES);
        if (now > fast)
            way += EASE_FRAMES * (0.5 - eased_way(1 - (now - fast) / EASE_FRAMES));
        return now > fast + EASE_FRAMES ? way + now - fast - EASE_FRAMES : way;
    }
    }
    return now;
}

struct se3 synth_pose(const struct synth_recording *recording, uint64_t frame)
{
    return motion_at(recording->motion,
                     recording->speed * motion_frame(recording, frame) / FRAME_HZ);
}

bool synth_is_covered(const struct synth_recording *recording, uint64_t frame)
{
    return recording->event == SYNTH_EVENT_COVERED && frame >= recording->event_frame &&
           frame - recording->event_frame < recording->n_event_frames;
}

uint64_t synth_noise_frame(const struct synth_recording *recording, uint64_t frame)
{
    return recording->event == SYNTH_EVENT_DUPLICATES && frame % 3 == 2 ? frame - 1 : frame;
}

struct se3 synth_camera_pose(const struct synth_request *request, uint64_t frame)
{
    struct se3 T_world_body = synth_pose(request->recording, frame);
    return request->is_mounted ? se3_compose(&T_world_body, &request->T_body_camera) : T_world_body;
}

// "X:Y:Z:RX:RY:RZ", metres and a rotation vector in degrees.
static bool parse_mount(const char *text, struct synth_request *request)
{
    double v[6];
    int end = -1;
    if (sscanf(text, "%lf:%lf:%lf:%lf:%lf:%lf%n", &v[0], &v[1], &v[2], &v[3], &v[4], &v[5], &end) !=
            6 ||
        text[end])
        return false;
    double turn[6] = {0};
    for (int i = 0; i < 3; i++) {
        if (!(fabs(v[i]) <= MAX_MOUNT_M) || !(fabs(v[3 + i]) <= 180))
            return false;
        turn[3 + i] = v[3 + i] * DEGREE_RAD;
    }
    request->is_mounted = true;
    request->T_body_camera = se3_exp(turn);
    memcpy(request->T_body_camera.t_m, v, sizeof request->T_body_camera.t_m);
    return true;
}

// "FROM:COUNT", frames.
static bool parse_cover(const char *text, struct synth_request *request)
{
    int end = -1;
    return sscanf(text, "%9u:%9u%n", &request->cover_frame, &request->n_cover_frames, &end) == 2 &&
           !text[end] && !strpbrk(text, "+- \t");
}

// One `key=value` of a location. Returns false when it is not known or out of range.
static bool parse_option(const char *option, struct synth_request *request)
{
    if (!strcmp(option, "noise=on") || !strcmp(option, "noise=off")) {
        request->noise = option[7] == 'n';
        return true;
    }
    if (!strcmp(option, "lens=own") || !strcmp(option, "lens=said")) {
        request->own_lens = option[5] == 'o';
        return true;
    }
    static const char *const sensors[] = {"sensor=kind", "sensor=field", "sensor=unkind",
                                          "sensor=sparse"};
    for (int i = 0; i < 4; i++)
        if (!strcmp(option, sensors[i])) {
            request->sensor = (enum scene_sensor)i;
            return true;
        }
    static const char *const accelerometers[] = {"accelerometer=off", "accelerometer=on",
                                                 "accelerometer=dead", "accelerometer=turned",
                                                 "accelerometer=bent"};
    for (int i = 0; i < 5; i++)
        if (!strcmp(option, accelerometers[i])) {
            request->accelerometer = (enum synth_accelerometer)i;
            return true;
        }
    if (!strncmp(option, "mount=", 6))
        return parse_mount(option + 6, request);
    if (!strncmp(option, "cover=", 6))
        return parse_cover(option + 6, request);
    const char *value = strchr(option, '=');
    char *end = NULL;
    if (!value || value[1] < '0' || value[1] > '9')
        return false;
    errno = 0;
    unsigned long long number = strtoull(value + 1, &end, 10);
    if (*end || errno)
        return false;
    if (!strncmp(option, "seed=", 5)) {
        request->seed = number;
        return true;
    }
    if (!strncmp(option, "camera=", 7)) {
        request->camera = number;
        return true;
    }
    if (!strncmp(option, "frames=", 7) && number >= 1 && number <= MAX_N_FRAMES) {
        request->n_frames = (uint32_t)number;
        return true;
    }
    return false;
}

int synth_parse(const char *location, const struct log_sink *log, struct synth_request *request)
{
    char *copy = strdup(*location ? location : "room"), *rest = copy;
    if (!copy)
        return -ENOMEM;
    int status = 0;
    const char *name = strsep(&rest, ","), *option;
    request->recording = synth_find(name);
    request->noise = true;
    request->sensor = SCENE_SENSOR_KIND;
    request->accelerometer = SYNTH_ACCELEROMETER_NONE;
    request->camera = CAMERA_IS_SEED;
    if (!request->recording) {
        char names[512] = "";
        for (const struct synth_recording *r = recordings; r->name; r++) {
            size_t n = strlen(names);
            snprintf(names + n, sizeof names - n, " %s", r->name);
        }
        log_to(log, LOG_LEVEL_ERROR, "synth: no recording \"%s\"; there are:%s", name, names);
        status = -ENOENT;
    }
    while (!status && (option = strsep(&rest, ",")))
        if (!parse_option(option, request)) {
            log_to(log, LOG_LEVEL_ERROR, "synth:%s: bad option \"%s\"; there are " SYNTH_OPTIONS,
                   location, option);
            status = -EINVAL;
        }
    if (request->camera == CAMERA_IS_SEED)
        request->camera = request->seed;
    if (!status && request->n_frames == 0)
        request->n_frames = request->recording->n_frames;
    if (!status && request->n_frames > MAX_N_FRAMES) {
        log_to(log, LOG_LEVEL_ERROR, "synth: %u frames, at most %u", request->n_frames,
               MAX_N_FRAMES);
        status = -EINVAL;
    }
    free(copy);
    return status;
}

int synth_set_sensor(const struct synth_request *request, struct scene *scene)
{
    if (request->own_lens) {
        const struct intrinsics said = scene_default_camera();
        const struct intrinsics lens = sensor_error_lens(&said, request->camera);
        scene_set_lens(scene, &lens);
    }
    return scene_set_sensor(scene, request->sensor, request->camera);
}

int64_t synth_stamp_ns(const struct synth_request *request, uint64_t frame)
{
    int64_t ns = synth_time_ns(request->recording, frame);
    if (request->sensor < SCENE_SENSOR_UNKIND || frame == 0)
        return ns;
    uint32_t h = random_row_key(request->seed, frame, 0x57a3);
    ns += (int64_t)(h >> 8) * (2 * JITTER_NS) / (1 << 24) - JITTER_NS;
    return h % LATE_ONE_IN == 0 ? ns + LATE_NS : ns;
}

void synth_render(const struct synth_request *request, struct scene *scene, uint64_t frame,
                  uint16_t *out_depth)
{
    const struct synth_recording *recording = request->recording;
    struct se3 T_world_camera = synth_camera_pose(request, frame);
    bool is_covered =
        frame >= request->cover_frame && frame - request->cover_frame < request->n_cover_frames;
    if (is_covered || synth_is_covered(recording, frame))
        scene_render_nothing(scene, out_depth);
    else if (request->noise)
        scene_render_noisy(scene, &T_world_camera, request->seed,
                           synth_noise_frame(recording, frame), out_depth);
    else
        scene_render_clean(scene, &T_world_camera, out_depth);
}

static const char *const sensor_words[] = {"", ", the camera's field", ", unkind sensor",
                                           ", sparse sensor"};

struct synth_state {
    struct synth_request request;
    struct scene *scene;
};

// The scene goes on so long that its frames from the start on, every step-th, are as many as were
// asked for; 0: as long as it is by itself. A frame more, as stamps jitter. What no uint32_t holds
// is more than any scene has: synth_parse says so.
static uint32_t scene_frames(const struct capture_settings *settings)
{
    const uint64_t step = settings->step > 1 ? settings->step : 1;
    const double before = settings->start_s > 0 ? ceil(settings->start_s * FRAME_HZ) + 1 : 0;
    if (settings->n_frames == 0)
        return 0;
    return (uint32_t)fmin(before + (double)((settings->n_frames - 1) * step + 1), UINT32_MAX);
}

static int synth_open(void **out_state, const char *location,
                      const struct capture_settings *settings, struct capture_info *out_info)
{
    struct synth_state *state = calloc(1, sizeof *state);
    if (!state)
        return -ENOMEM;
    state->request.seed = settings->seed;
    state->request.n_frames = scene_frames(settings);
    int status = synth_parse(location, &settings->log, &state->request);
    if (status < 0)
        goto free_state;
    const struct synth_recording *recording = state->request.recording;
    out_info->camera = scene_default_camera();
    status = scene_create(&state->scene, recording->scene, &out_info->camera);
    if (status == 0)
        status = synth_set_sensor(&state->request, state->scene);
    if (status < 0) {
        log_to(&settings->log, LOG_LEVEL_ERROR, "synth:%s: %s", location, strerror(-status));
        goto free_scene;
    }
    out_info->units_per_m = SCENE_UNITS_PER_M;
    if (state->request.sensor != SCENE_SENSOR_KIND)
        snprintf(out_info->serial, sizeof out_info->serial, "synth-%llu",
                 (unsigned long long)state->request.camera);
    out_info->n_frames = state->request.n_frames;
    out_info->live = false;
    snprintf(out_info->description, sizeof out_info->description,
             "synth:%s (%s; %s, seed %llu%s%s)", recording->name, recording->summary,
             state->request.noise ? "noisy" : "noise off", (unsigned long long)state->request.seed,
             sensor_words[state->request.sensor],
             state->request.own_lens ? ", a lens of its own" : "");
    *out_state = state;
    return 0;
free_scene:
    scene_destroy(&state->scene);
free_state:
    free(state);
    return status;
}

static void synth_stamp(const void *opaque, uint64_t i, int64_t *out_time_ns, uint64_t *out_index)
{
    const struct synth_state *state = opaque;
    *out_time_ns = synth_stamp_ns(&state->request, i);
    *out_index = i;
}

static int synth_decode(void *opaque, uint64_t i, uint16_t *pixels, struct capture_frame *frame)
{
    struct synth_state *state = opaque;
    synth_gravity(&state->request, i, frame->gravity_m_s2);
    synth_render(&state->request, state->scene, i, pixels);
    return 0;
}

static long synth_ground_truth(const void *opaque, struct stamped_pose **out)
{
    const struct synth_state *state = opaque;
    const struct synth_request *request = &state->request;
    *out = malloc(request->n_frames * sizeof **out);
    if (!*out)
        return -ENOMEM;
    for (uint32_t i = 0; i < request->n_frames; i++) {
        (*out)[i].time_ns = synth_stamp_ns(request, i);
        (*out)[i].T_world_camera = synth_camera_pose(request, i);
    }
    return (long)request->n_frames;
}

static void synth_close(void *opaque)
{
    struct synth_state *state = opaque;
    scene_destroy(&state->scene);
    free(state);
}

const struct capture_driver capture_driver_synth = {
    .name = "synth",
    .summary = "computed recording with exact poses, synth:room and others (posed-synth --list)",
    .open = synth_open,
    .stamp = synth_stamp,
    .decode = synth_decode,
    .ground_truth = synth_ground_truth,
    .close = synth_close,
};
