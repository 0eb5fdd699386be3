// SPDX-License-Identifier: Apache-2.0
#include "capture/probe.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "capture/plausible.h"

// How many frames, spread over the recording, are tried for a look at the depth.
#define N_PROBES      16
#define N_STEP_PROBES 5 // frames whose steps of depth are looked at

// A log that says of each line which source, and which of its frames, it is about.
struct named_log {
    char name[sizeof((struct capture_info *)NULL)->description + 32];
    const struct log_sink *log;
};

static void say_name(void *user, enum log_level level, const char *line)
{
    const struct named_log *named = user;
    log_to(named->log, level, "%s: %s", named->name, line);
}

struct probe {
    const struct capture_driver *driver;
    void *state;
    const struct replay *replay;
    struct capture_info *info;
    const struct log_sink *log;
    struct depth_frame image;
    uint16_t *pixels; // of it
};

// The k-th of n frames spread over the recording. Returns as capture_driver.decode does.
static int decode(struct probe *probe, uint64_t k, uint64_t n, uint64_t *out_entry)
{
    struct capture_frame frame = {0};
    *out_entry = replay_entry(probe->replay, k * replay_round_frames(probe->replay) / n);
    return probe->driver->decode(probe->state, *out_entry, probe->pixels, &frame);
}

// The median depth of the first usable one of a few frames is to be plausible. A recording may
// begin with a covered lens or a broken file; a recording without any readable frame is an error of
// its own. Returns 0, -ENODATA (nothing usable), or a negative errno.
static int check_depth(struct probe *probe, enum log_level level)
{
    const uint64_t n_frames = replay_round_frames(probe->replay);
    const uint64_t n_probes = n_frames < N_PROBES ? n_frames : N_PROBES;
    double median_m = NAN;
    uint64_t entry = 0;
    bool readable = false;
    for (uint64_t k = 0; k < n_probes && isnan(median_m); k++) {
        const int err = decode(probe, k, n_probes, &entry);
        if (err && err != -EBADMSG)
            return err;
        readable = readable || !err;
        if (!err)
            median_m = plausible_median_m(&probe->image);
    }
    if (!readable) {
        log_to(probe->log, LOG_LEVEL_ERROR,
               "none of %llu frames looked at is readable (it has %llu)",
               (unsigned long long)n_probes, (unsigned long long)n_frames);
        return -EINVAL;
    }
    if (isnan(median_m)) {
        log_to(probe->log, LOG_LEVEL_WARNING,
               "the frames looked at are (almost) empty, the depth scale was not checked%s",
               probe->info->float_per_m != 0
                   ? " (of images of floats camera.float_scale says what they are: metres 1, "
                     "millimetres 1000)"
                   : "");
        return -ENODATA;
    }
    struct named_log named = {.log = probe->log};
    snprintf(named.name, sizeof named.name, "frame %llu", (unsigned long long)entry);
    const struct log_sink log = {say_name, &named};
    return plausible_depth(median_m, probe->info->units_per_m, probe->info->float_per_m, &log,
                           level);
}

// Only warns: what contradicts the calibration here may still be wanted.
static void check_steps(struct probe *probe)
{
    double steps[N_STEP_PROBES];
    uint64_t entry;
    if (replay_round_frames(probe->replay) < N_STEP_PROBES)
        return;
    for (uint64_t k = 0; k < N_STEP_PROBES; k++)
        steps[k] =
            decode(probe, k, N_STEP_PROBES, &entry) == 0 ? plausible_steps(&probe->image) : NAN;
    probe->info->units_are_doubted =
        plausible_scale(steps, N_STEP_PROBES, &probe->info->camera, probe->info->units_per_m,
                        probe->info->float_per_m, probe->log) == -ERANGE;
}

static enum log_level level_of(const struct capture_settings *settings)
{
    return settings->allow_implausible ? LOG_LEVEL_WARNING : LOG_LEVEL_ERROR;
}

static struct named_log name_source(const struct capture_info *info,
                                    const struct capture_settings *settings)
{
    struct named_log named = {.log = &settings->log};
    snprintf(named.name, sizeof named.name, "%s", info->description);
    return named;
}

int probe_intrinsics(const struct capture_info *info, const struct capture_settings *settings)
{
    struct named_log named = name_source(info, settings);
    const struct log_sink log = {say_name, &named};
    const int err = plausible_intrinsics(&info->camera, &log, level_of(settings));
    return settings->allow_implausible ? 0 : err;
}

int probe_recording(const struct capture_driver *driver, void *state, const struct replay *replay,
                    struct capture_info *info, const struct capture_settings *settings)
{
    struct named_log named = name_source(info, settings);
    const struct log_sink log = {say_name, &named};
    struct probe probe = {.driver = driver,
                          .state = state,
                          .replay = replay,
                          .info = info,
                          .log = &log,
                          .image = {.width_px = info->camera.width_px,
                                    .height_px = info->camera.height_px,
                                    .units_per_m = info->units_per_m}};
    int err = probe_intrinsics(info, settings);
    if (err)
        return err;
    probe.image.depth = probe.pixels =
        malloc((size_t)info->camera.width_px * info->camera.height_px * sizeof *probe.pixels);
    if (!probe.pixels)
        return -ENOMEM;
    err = check_depth(&probe, level_of(settings));
    if (err == 0 || (err == -ERANGE && settings->allow_implausible)) {
        check_steps(&probe);
        err = 0;
    }
    free(probe.pixels);
    return err == -ENODATA ? 0 : err;
}
