// SPDX-License-Identifier: Apache-2.0
// A camera's own field is found from its frames alone: synthetic ones with a known field, poses as
// a tracker that knows of no field would have them. Another camera's field is refused, and so are
// frames that saw too little.
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "capture/synth/sensor_error.h"
#include "capture/synth/synth.h"
#include "gpu/track/calibrate.h"
#include "gpu/track/track.h"
#include "proto/se3.h"
#include "tests/check/check.h"

#define N_FRAMES        100
#define STEP            3   // of the recording's frames
#define CORRELATION_MIN 0.9 // with the truth, over the image
#define REDUCTION_MIN   0.3

struct machine {
    struct gpu *gpu;
    struct track *track;
    struct scene *scene;
    uint16_t *depth;
    float *map;
};

static int open_machine(struct machine *m, const struct synth_request *request)
{
    const struct intrinsics camera = scene_default_camera();
    struct gpu_settings settings;
    struct track_settings tracking;
    gpu_settings_default(&settings);
    track_settings_default(&tracking);
    settings.camera = camera;
    settings.units_per_m = SCENE_UNITS_PER_M;
    settings.log = check_log();
    m->depth = malloc((size_t)camera.width_px * camera.height_px * sizeof *m->depth);
    m->map = malloc((size_t)camera.width_px * camera.height_px * sizeof *m->map);
    int rc = m->depth && m->map ? 0 : -ENOMEM;
    if (rc == 0)
        rc = gpu_open(&m->gpu, GPU_BACKEND_CPU, &settings);
    if (rc == 0)
        rc = track_create(&m->track, m->gpu, &tracking, NULL);
    if (rc == 0)
        rc = scene_create(&m->scene, request->recording->scene, &camera);
    return rc == 0 ? synth_set_sensor(request, m->scene) : rc;
}

static void close_machine(struct machine *m)
{
    track_destroy(&m->track);
    gpu_close(&m->gpu);
    scene_destroy(&m->scene);
    free(m->depth);
    free(m->map);
}

// What the first recording gave when it was last looked at by eye (correlation, gain and the field
// itself are judged beside it). All sums are of doubles over maps that are the same bytes
// everywhere; compilers may add in another order.
#define KNOWN_TOLERANCE 1e-6

static void check_known(const struct calibrate_report *report)
{
    const struct {
        const char *name;
        double value, known;
    } fields[] = {
        {"pairs", report->n_pairs, 600},
        {"pairs aside", report->n_pairs_aside, 73},
        {"before [1/m]", report->before_per_m, 0.00294933237},
        {"after [1/m]", report->after_per_m, 0.000158493741},
        {"rms [1/m]", report->rms_per_m, 0.00490663315},
        {"std [1/m]", report->std_per_m, 1.65627728e-05},
        {"unseen", report->unseen, 0},
    };
    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++)
        check_that(fabs(fields[i].value - fields[i].known) <=
                       KNOWN_TOLERANCE * fabs(fields[i].known),
                   "%s: %.9g, known %.9g", fields[i].name, fields[i].value, fields[i].known);
}

// Tracks the frames and hands them over.
static bool give(struct machine *m, const struct synth_request *request, int n_frames,
                 struct calibrate *calibrate)
{
    for (int i = 0; i < n_frames; i++) {
        struct track_result result;
        uint64_t frame = (uint64_t)i * STEP;
        synth_render(request, m->scene, frame, m->depth);
        if (track_frame(m->track, m->depth, synth_stamp_ns(request, frame), &result) != 0 ||
            result.state == TRACK_STATE_LOST ||
            gpu_frame_read(m->gpu, track_newest_frame(m->track), CALIBRATE_MAP_LEVEL, m->map) !=
                0 ||
            calibrate_add(calibrate, 0, synth_stamp_ns(request, frame), m->map,
                          &result.T_odom_camera) != 0)
            return check_that(false, "frame %d", i);
    }
    return true;
}

// Correlation with the truth, and how large the field is beside it (1: as large).
static double correlation(const struct depth_error *field, const float *truth, double *out_gain)
{
    double sa = 0, sb = 0, saa = 0, sbb = 0, sab = 0, n = 0;
    for (uint32_t v = 0; v < field->camera.height_px; v += 4)
        for (uint32_t u = 0; u < field->camera.width_px; u += 4, n++) {
            double a = depth_error_at(field, u, v),
                   b = (double)truth[v * field->camera.width_px + u];
            sa += a, sb += b, saa += a * a, sbb += b * b, sab += a * b;
        }
    *out_gain = (sab - sa * sb / n) / (sbb - sb * sb / n);
    return (sab - sa * sb / n) / sqrt((saa - sa * sa / n) * (sbb - sb * sb / n));
}

static void check_learns(const char *location, double correlation_min, double reduction_min,
                         bool known)
{
    static struct depth_error field, other;
    struct synth_request request = {0};
    struct machine m = {0};
    struct calibrate *calibrate = NULL;
    struct calibrate_report report;
    struct sensor_error *truth = NULL; // the same camera once more
    const struct intrinsics camera = scene_default_camera();
    struct log_sink log = check_log();
    check_case("%s", location);
    if (check_that(synth_parse(location, &log, &request) == 0 && open_machine(&m, &request) == 0 &&
                       sensor_error_create(&truth, &camera, request.camera) == 0 &&
                       calibrate_create(&calibrate, &camera, &log) == 0,
                   "create") &&
        give(&m, &request, N_FRAMES, calibrate) &&
        check_that(calibrate_solve(calibrate, &field, &report) == 0, "solve")) {
        double gain, found = correlation(&field, sensor_error_field(truth), &gain);
        printf("%s: %u pairs, field %.2e /m, correlation %.3f, gain %.3f, kept aside %.1f %% less "
               "(%u pairs), "
               "node %.1e, unseen %.2f\n",
               location, report.n_pairs, report.rms_per_m, found, gain, report.reduction * 100,
               report.n_pairs_aside, report.std_per_m, report.unseen);
        check_that(found >= correlation_min, "correlation %.3f", found);
        check_that(gain >= 0.9 && gain <= 1.1, "gain %.3f", gain);
        check_that(report.reduction >= reduction_min, "reduction %.3f", report.reduction);
        if (known)
            check_known(&report);
        // Another camera's: this one's upside down.
        other = field;
        for (int i = 0; i < FIELD_N_NODES; i++)
            other.node_per_m[i] = field.node_per_m[FIELD_N_NODES - 1 - i];
        check_that(calibrate_judge(calibrate, &other, &report) == 0 &&
                       report.reduction < FIELD_MIN_REDUCE,
                   "another camera's field lowers the residual by %.3f", report.reduction);
    }
    calibrate_destroy(&calibrate);
    sensor_error_destroy(&truth);
    close_machine(&m);
}

// Frames that saw too little say nothing, and that is said.
static void check_refuses(void)
{
    static struct depth_error field;
    struct synth_request request = {0};
    struct machine m = {0};
    struct calibrate *calibrate = NULL;
    struct calibrate_report report;
    const struct intrinsics camera = scene_default_camera();
    struct log_sink log = check_log();
    check_case("a camera that stands still, and ten frames");
    if (check_that(synth_parse("room-still,sensor=field", &log, &request) == 0 &&
                       open_machine(&m, &request) == 0 &&
                       calibrate_create(&calibrate, &camera, &log) == 0,
                   "create") &&
        give(&m, &request, 10, calibrate)) {
        check_that(calibrate_solve(calibrate, &field, &report) == -ENODATA, "ten frames");
        struct se3 T = se3_identity();
        for (int i = 10; i < N_FRAMES; i++)
            check_that(calibrate_add(calibrate, 0, (int64_t)i * 100000000, m.map, &T) == 0, "add");
        check_that(calibrate_solve(calibrate, &field, &report) == -ENODATA, "no motion");
    }
    calibrate_destroy(&calibrate);
    close_machine(&m);
}

int main(int argc, char **argv)
{
    check_begin(argc, argv);
    check_learns("room-rotation,noise=off,sensor=field,camera=1", CORRELATION_MIN, REDUCTION_MIN,
                 true);
    if (!check_is_short())
        check_learns("room,sensor=unkind,camera=2", 0.8, FIELD_MIN_REDUCE, false);
    check_refuses();
    return check_end();
}
