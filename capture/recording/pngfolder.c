// SPDX-License-Identifier: Apache-2.0
// Driver `png`: a folder of 16-bit PNG (or its subfolder depth/) in the order of their names, as
// Redwood and the usual ROS bag extractors leave them: millimetres, camera 525 525 319.5 239.5
// unless a calibration.txt says otherwise. When every name is a time stamp, in seconds with
// decimals (1305031102.160407.png) or in nanoseconds (1403636579763555584.png), the frames have
// these times, else frame k is at k / 30 s.
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "capture/io/images.h"
#include "capture/recording/tum.h"

static const struct intrinsics default_camera = {525, 525, 319.5, 239.5, 640, 480};
#define DEFAULT_UNITS_PER_M 1000

static bool parse_name(const char *name, int64_t *out_ns)
{
    const char *base = strrchr(name, '/');
    base = base ? base + 1 : name;
    size_t n_digits = strspn(base, "0123456789");
    if (!strcmp(base + n_digits, ".png")) {
        if (n_digits != 19)
            return false;
        *out_ns = strtoll(base, NULL, 10); // LLONG_MAX when above; then refused as not increasing
        return true;
    }
    return tum_parse_time(&base, out_ns) && !strcmp(base, ".png");
}

// Times from the names, if that is what all of them are.
static void take_times(struct images *images)
{
    int64_t before_ns = -1;
    for (int pass = 0; pass < 2; pass++)
        for (size_t i = 0; i < images->n_entries; i++) {
            int64_t time_ns;
            if (!parse_name(images_name(images, i), &time_ns))
                return;
            if (pass)
                images->entries[i].time_ns = time_ns;
            else if (time_ns <= before_ns)
                return;
            before_ns = time_ns;
        }
}

static int list_frames(struct images *images)
{
    int err = images_list(images, "depth", ".png");
    if (err == -ENOENT || err == -ENOTDIR)
        err = images_list(images, "", ".png");
    if (err == -ENOENT)
        log_to(&images->log, LOG_LEVEL_ERROR, "%s: no *.png and no depth/*.png", images->path);
    if (!err)
        take_times(images);
    return err;
}

static int png_open(void **out_state, const char *location, const struct capture_settings *settings,
                    struct capture_info *out_info)
{
    return images_open_driver(out_state, location, settings, &default_camera, DEFAULT_UNITS_PER_M,
                              list_frames, out_info);
}

const struct capture_driver capture_driver_png = {
    .name = "png",
    .summary = "folder of 16-bit PNG in order of their names (Redwood, extracted ROS bags)",
    .open = png_open,
    .stamp = images_stamp,
    .decode = images_decode,
    .close = images_close_driver,
};
