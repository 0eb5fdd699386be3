// SPDX-License-Identifier: Apache-2.0
#include "capture/plausible.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>

// 1/z of a step of a Kinect [1/m]: f 580 px, baseline 75 mm, eighths of a pixel. Real ones lie
// within 2 % (OpenNI's, TUM's, Microsoft's recordings).
#define KINECT_STEP_PER_M (1 / (580 * 0.075 * 8))
#define LEVEL_PX          4  // pixels of one depth that make it a level
#define LEAST_GAP         8  // units between levels: what rounding to units does is small beside it
#define LEAST_GAPS        40 // that a frame must have
#define NEAR_INTEGER      0.2
#define MOST_STEPS        4.0 // between levels; more: nothing was seen between them
// Share of the gaps: 0.73 and more on a Kinect's frames, 0.6 at most on rendered depth.
#define LEAST_REGULAR     0.7
// The camera's depth may be its infrared camera's (f 570 to 600) or one simulated with the colour
// camera's focal length (525): the size of steps is 0.97 to 1.11 of the usual. So a scale
// that makes distances a tenth too long is seen, one that makes them a tenth too short is not.
#define SCALE_MIN         0.93
#define SCALE_MAX         1.16
#define FRAMES_AGREE      0.08 // of the median of the frames
#define LEAST_FRAMES      3
// Focal lengths of such cameras at a width of 640 pixels, calibrated by many hands: 517 to 541 of
// colour cameras, 570 to 595 of infrared ones. So 15 % off is seen of the usual 525 and 585 px.
#define FOCAL_MIN_PX      505
#define FOCAL_MAX_PX      600

static bool focal_length_fits(double f_px, uint32_t side_px)
{
    double half_tan = 0.5 * side_px / fabs(f_px);
    return half_tan > tan(5 * M_PI / 180) && half_tan < tan(75 * M_PI / 180);
}

static bool is_central(double c_px, uint32_t side_px)
{
    double c = (c_px + 0.5) / side_px;
    return c >= 0.2 && c <= 0.8;
}

// Sides are of INTRINSICS_IMAGE_PX_RANGE; what fits neither end of it fits none between.
int plausible_for_any_image(const struct intrinsics *given, const struct log_sink *log)
{
    static const double sides_px[] = {INTRINSICS_IMAGE_PX_RANGE};
    const double f_px[] = {given->fx_px, given->fy_px}, c_px[] = {given->cx_px, given->cy_px};
    const double least_px = 0.5 * sides_px[0] / tan(75 * M_PI / 180);
    const double most_px = 0.5 * sides_px[1] / tan(5 * M_PI / 180);
    for (int i = 0; i < 2; i++) {
        const double f = fabs(f_px[i]), c = c_px[i] + 0.5;
        if (f > 0 && (f < least_px || f > most_px)) {
            log_to(log, LOG_LEVEL_ERROR,
                   "camera.%s = %g is implausible: no image of %g to %g pixels a side has a field "
                   "of view of 10 to 150 degrees with it (capture.allow_implausible takes it)",
                   i ? "fy" : "fx", f_px[i], sides_px[0], sides_px[1]);
            return -ERANGE;
        }
        if (c_px[i] != 0 && (c < 0.2 * sides_px[0] || c > 0.8 * sides_px[1])) {
            log_to(log, LOG_LEVEL_ERROR,
                   "camera.%s = %g is implausible: it is near the centre of no image of %g to %g "
                   "pixels a side (capture.allow_implausible takes it)",
                   i ? "cy" : "cx", c_px[i], sides_px[0], sides_px[1]);
            return -ERANGE;
        }
    }
    const double fx = fabs(f_px[0]), fy = fabs(f_px[1]);
    if (fx == 0 || fy == 0 || (fx <= 2 * fy && fy <= 2 * fx))
        return 0;
    log_to(log, LOG_LEVEL_ERROR,
           "camera.fx = %g and camera.fy = %g are implausible: they differ by more than a factor 2 "
           "(capture.allow_implausible takes them)",
           f_px[0], f_px[1]);
    return -ERANGE;
}

int plausible_intrinsics(const struct intrinsics *camera, const struct log_sink *log,
                         enum log_level level)
{
    const char *reason = NULL;
    double fx = camera->fx_px, fy = fabs(camera->fy_px), cx = camera->cx_px, cy = camera->cy_px;
    if (!(fx > 0) || !(fy > 0) || !isfinite(fx) || !isfinite(fy))
        reason = "focal lengths must be finite, fx above 0 and fy not 0";
    else if (!(cx >= -0.5 && cx <= camera->width_px - 0.5) ||
             !(cy >= -0.5 && cy <= camera->height_px - 0.5))
        reason = "the principal point lies outside the image";
    else if (!is_central(cx, camera->width_px) || !is_central(cy, camera->height_px))
        reason = "the principal point is far from the image's centre: a calibration for another "
                 "image size?";
    else if (!focal_length_fits(fx, camera->width_px) || !focal_length_fits(fy, camera->height_px))
        reason = "the field of view is below 10 or above 150 degrees";
    else if (fx > 2 * fy || fy > 2 * fx)
        reason = "fx and fy differ by more than a factor 2";
    if (!reason)
        return 0;
    log_to(log, level, "implausible intrinsics fx %g fy %g cx %g cy %g for %ux%u pixels: %s",
           camera->fx_px, camera->fy_px, cx, cy, camera->width_px, camera->height_px, reason);
    return -ERANGE;
}

double plausible_median_m(const struct depth_frame *frame)
{
    uint32_t counts[65536] = {0}; // 256 KiB of stack, a few times per open
    size_t n_pixels = (size_t)frame->width_px * frame->height_px;
    for (size_t i = 0; i < n_pixels; i++)
        counts[frame->depth[i]]++;
    size_t n_valid = n_pixels - counts[DEPTH_INVALID_ZERO] - counts[DEPTH_INVALID_MAX];
    if (n_valid * 100 < n_pixels)
        return NAN;
    size_t n_below = 0;
    uint32_t depth = 1;
    while (n_below + counts[depth] <= n_valid / 2)
        n_below += counts[depth++];
    return depth / frame->units_per_m;
}

static int compare_doubles(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median_of(double *values, size_t n)
{
    qsort(values, n, sizeof *values, compare_doubles);
    return values[n / 2];
}

// Differences of 1/z [1/m] between neighbouring levels; at most 65536 / LEAST_GAP.
static size_t level_gaps(const struct depth_frame *frame, double *out_per_m)
{
    uint32_t counts[65536] = {0};
    size_t n_pixels = (size_t)frame->width_px * frame->height_px, n = 0;
    for (size_t i = 0; i < n_pixels; i++)
        counts[frame->depth[i]]++;
    counts[DEPTH_INVALID_MAX] = 0;
    uint32_t last = 0;
    for (uint32_t depth = 1; depth < 65536; depth++) {
        if (counts[depth] < LEVEL_PX)
            continue;
        if (last && depth - last >= LEAST_GAP)
            out_per_m[n++] = frame->units_per_m * (depth - last) / ((double)depth * last);
        last = depth;
    }
    return n;
}

double plausible_steps(const struct depth_frame *frame)
{
    double gaps[65536 / LEAST_GAP], sorted[65536 / LEAST_GAP];
    const size_t n = level_gaps(frame, gaps);
    if (n < LEAST_GAPS)
        return NAN;
    for (size_t i = 0; i < n; i++)
        sorted[i] = gaps[i];
    const double middle = median_of(sorted, n);
    double sum_per_m = 0, n_steps = 0;
    size_t n_regular = 0;
    for (size_t i = 0; i < n; i++) {
        const double steps = round(gaps[i] / middle);
        if (steps < 1 || steps > MOST_STEPS || fabs(gaps[i] / middle - steps) > NEAR_INTEGER)
            continue;
        sum_per_m += gaps[i];
        n_steps += steps;
        n_regular++;
    }
    if ((double)n_regular < LEAST_REGULAR * (double)n)
        return NAN;
    return sum_per_m / n_steps / KINECT_STEP_PER_M;
}

int plausible_scale(const double *steps, size_t n_frames, const struct intrinsics *camera,
                    double units_per_m, double float_per_m, const struct log_sink *log)
{
    const double per_m = float_per_m != 0 ? float_per_m : units_per_m;
    double known[16];
    size_t n = 0;
    for (size_t i = 0; i < n_frames && n < sizeof known / sizeof *known; i++)
        if (!isnan(steps[i]))
            known[n++] = steps[i];
    if (n < LEAST_FRAMES)
        return 0;
    const double middle = median_of(known, n);
    if (known[0] < (1 - FRAMES_AGREE) * middle || known[n - 1] > (1 + FRAMES_AGREE) * middle)
        return 0;
    const double f_px = camera->fx_px * 640 / camera->width_px;
    const bool usual_scale = middle > SCALE_MIN && middle < SCALE_MAX;
    const bool usual_focal = f_px >= FOCAL_MIN_PX && f_px <= FOCAL_MAX_PX;
    // Both unusual: another kind of camera. Cropped images tell nothing of the focal length.
    if (usual_scale == usual_focal || 3 * camera->width_px != 4 * camera->height_px)
        return 0;
    if (usual_focal)
        log_to(log, LOG_LEVEL_WARNING,
               "with %g units per metre the depths lie on steps %.2f times those of a Kinect: is "
               "the depth scale wrong? As a Kinect, Xtion or Astra it has about %.4g units per "
               "metre (camera.%s); as it stands all distances are %.2g times the true ones",
               per_m, middle, per_m / middle, float_per_m != 0 ? "float_scale" : "depth_scale",
               1 / middle);
    else
        log_to(log, LOG_LEVEL_WARNING,
               "the depths lie on the steps of a Kinect, Xtion or Astra, but the focal length of "
               "%g pixels is none of such a camera (%d to %d at a width of 640): are the "
               "intrinsics another camera's (camera.fx, camera.fy)?",
               camera->fx_px, FOCAL_MIN_PX, FOCAL_MAX_PX);
    return usual_focal ? -ERANGE : -EDOM;
}

int plausible_depth(double median_m, double units_per_m, double float_per_m,
                    const struct log_sink *log, enum log_level level)
{
    const bool is_float = float_per_m != 0;
    if (median_m >= PLAUSIBLE_MEDIAN_MIN_M && median_m <= PLAUSIBLE_MEDIAN_MAX_M)
        return 0;
    log_to(log, level,
           "implausible depth: with %g units per metre half of the scene is nearer than %.3g m, "
           "expected %g..%g m: check the %s (capture.allow_implausible takes it)",
           is_float ? float_per_m : units_per_m, median_m, PLAUSIBLE_MEDIAN_MIN_M,
           PLAUSIBLE_MEDIAN_MAX_M,
           is_float ? "unit of the floats, camera.float_scale (metres 1, millimetres 1000)"
                    : "depth scale, camera.depth_scale (TUM 5000, millimetres 1000)");
    return -ERANGE;
}
