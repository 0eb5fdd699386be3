// SPDX-License-Identifier: Apache-2.0
#include "capture/ros/tell_of_images.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "capture/ros/depth.h"

void ros_bad_stamp(struct ros_bad_images *bad, bool is_back, double step_s)
{
    bool *told = step_s == 0 ? &bad->told_same : is_back ? &bad->told_back : &bad->told_ahead;
    char how[80] = " has the same stamp as the one before it";
    atomic_fetch_add(&bad->n_left_out, 1);
    if (step_s != 0)
        snprintf(how, sizeof how, "'s stamp is %.3f s %s that of the one before it", fabs(step_s),
                 is_back ? "before" : "after");
    if (!*told)
        log_to(&bad->log, LOG_LEVEL_WARNING,
               "%s: an image%s; such are left out unless %s from there", bad->topic, how,
               is_back ? "they go on" : "the next one goes on");
    *told = true;
}

void ros_bad_unstamped(struct ros_bad_images *bad)
{
    atomic_fetch_add(&bad->n_left_out, 1);
    log_to(&bad->log, LOG_LEVEL_WARNING,
           "%s: the first image has no stamp, which the next one has: it is left out", bad->topic);
}

const char *ros_encoding_meant(const char *encoding)
{
    static const struct {
        const char *name, *meant;
    } depth[] = {
        {"16UC1", "; did you mean 16UC1? An encoding is written exactly so"},
        {"mono16", "; did you mean mono16? An encoding is written exactly so"},
        {"32FC1", "; did you mean 32FC1? An encoding is written exactly so"},
    };
    static const char *const prefixes[] = {"TYPE_", "CV_"};
    for (size_t i = 0; i < sizeof prefixes / sizeof *prefixes; i++)
        if (strncasecmp(encoding, prefixes[i], strlen(prefixes[i])) == 0)
            encoding += strlen(prefixes[i]);
    for (size_t i = 0; i < sizeof depth / sizeof *depth; i++)
        if (strcasecmp(encoding, depth[i].name) == 0)
            return depth[i].meant;
    return "";
}

// " (16UC1, 640x480: 480 rows of 1280 bytes are 614400; it has rows of 100 and 614400)", of what is
// no depth ", but rgb8", or "".
static void describe_rows(const struct ros_image *image, char *out, size_t room)
{
    struct ros_depth_format format;
    uint32_t w, h;
    out[0] = 0;
    if (!image)
        return;
    if (ros_depth_head_fault(image)) {
        snprintf(out, room, " (%s)", image->encoding);
        return;
    }
    if (!ros_depth_look(image, &format, &w, &h)) {
        snprintf(out, room, ", but %s%s", image->encoding[0] ? image->encoding : "nothing named",
                 ros_encoding_meant(image->encoding));
        return;
    }
    if (format.packing != ROS_DEPTH_RAW)
        return;
    const uint64_t row_bytes = (format.is_float ? UINT64_C(4) : UINT64_C(2)) * w;
    snprintf(out, room,
             " (%s, %ux%u: %u rows of %llu bytes are %llu; it has a step of %u and %zu bytes)",
             image->encoding, w, h, h, (unsigned long long)row_bytes,
             (unsigned long long)(row_bytes * h), image->step_bytes, image->n_data_bytes);
}

void ros_bad_damaged(struct ros_bad_images *bad, uint64_t index, const struct ros_image *image,
                     const char *reason)
{
    char rows[220];
    if (bad->n_damaged++ > 0)
        return;
    describe_rows(image, rows, sizeof rows);
    log_to(&bad->log, LOG_LEVEL_WARNING,
           "%s: image %llu: %s%s; such are left out, counted as damaged", bad->topic,
           (unsigned long long)index, reason, rows);
}

void ros_bad_size(struct ros_bad_images *bad, const struct ros_image *image, uint32_t width_px,
                  uint32_t height_px)
{
    struct ros_depth_format format;
    uint32_t w, h;
    if (bad->n_other_size++ == 0 && ros_depth_look(image, &format, &w, &h))
        log_to(&bad->log, LOG_LEVEL_WARNING,
               "%s: an image is %ux%u, the first one was %ux%u; such are left out", bad->topic, w,
               h, width_px, height_px);
}

void ros_bad_lost(struct ros_bad_images *bad, uint64_t n, double held_up_s)
{
    if (bad->n_lost == 0)
        log_to(&bad->log, LOG_LEVEL_WARNING,
               "%s: about %llu image%s lost on the way, as this program was held up for %.1f s "
               "(stopped, or the machine is too busy); no other count has such images",
               bad->topic, (unsigned long long)n, n == 1 ? " was" : "s were", held_up_s);
    bad->n_lost += n;
}

void ros_bad_end(const struct ros_bad_images *bad)
{
    const uint64_t n_left_out = atomic_load(&bad->n_left_out);
    if (bad->n_damaged > 1)
        log_to(&bad->log, LOG_LEVEL_WARNING, "%s: %llu images were damaged", bad->topic,
               (unsigned long long)bad->n_damaged);
    if (bad->n_other_size > 1)
        log_to(&bad->log, LOG_LEVEL_WARNING, "%s: %llu images of another size were left out",
               bad->topic, (unsigned long long)bad->n_other_size);
    if (bad->n_lost)
        log_to(&bad->log, LOG_LEVEL_WARNING,
               "%s: about %llu image%s lost on the way, which no other count has", bad->topic,
               (unsigned long long)bad->n_lost, bad->n_lost == 1 ? " was" : "s were");
    if (n_left_out)
        log_to(&bad->log, LOG_LEVEL_WARNING, "%s: %llu image%s left out for %s stamp%s", bad->topic,
               (unsigned long long)n_left_out, n_left_out == 1 ? "" : "s",
               n_left_out == 1 ? "its" : "their", n_left_out == 1 ? "" : "s");
}
