// SPDX-License-Identifier: Apache-2.0
// The live path end to end without a camera: our recorder writes a fakenect recording, and the
// `kinect` driver reads it through libfreenect's own calls, with the library's double fakenect
// preloaded (its path is the program's argument).
#include <errno.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "capture/capture.h"
#include "capture/kinect/disparity.h"
#include "tests/unit/camera.h"
#include "tests/unit/scratch.h"

#define N_FRAMES 45
#define N_PIXELS (640u * 480u)

// Frame i shows one depth all over.
static uint16_t depth_of(const struct disparity_table *table, int i)
{
    return table->mm[600 + i];
}

static uint64_t ticks_of(int i)
{
    return 1000000 + (uint64_t)i * 2000000;
}

static int record(const struct scratch *scratch, const struct disparity_table *table)
{
    static uint16_t pixels[N_PIXELS];
    static const struct capture_info info = {.camera = {575.8, 575.8, 314.5, 235.5, 640, 480},
                                             .units_per_m = DISPARITY_UNITS_PER_M};
    struct recorder_settings settings = {.folder = scratch->path, .queue_frames = N_FRAMES};
    struct buffers *camera = camera_create(N_PIXELS, N_FRAMES);
    struct recorder *recorder;
    int err = recorder_create(&recorder, &settings);
    if (!err)
        err = recorder_start_one(recorder, "camera", RECORDER_FORMAT_FAKENECT, &info);
    for (int i = 0; i < N_FRAMES && !err; i++) {
        for (size_t k = 0; k < N_PIXELS; k++)
            pixels[k] = depth_of(table, i);
        struct capture_frame frame = {.image = {pixels, 640, 480, 1000, i * INT64_C(33333333)},
                                      .device_ticks = ticks_of(i),
                                      .gravity_m_s2 = {0, 9.80665f, 0}};
        camera_push(camera, recorder, frame);
    }
    recorder_destroy(&recorder);
    camera_destroy(camera);
    return err;
}

static atomic_int n_written;

static void on_written(const void *pixels, size_t bytes)
{
    const uint16_t *depth = pixels; // converted already: one depth all over
    if (bytes == sizeof *depth * N_PIXELS && depth[0] == depth[N_PIXELS - 1])
        atomic_fetch_add(&n_written, 1);
    usleep(2000); // the reader shall notice
}

static void on_soon(void *user)
{
    ++*(int *)user;
}

// In the child, with fakenect: the frames of the recording in order. A slow machine may have a few
// that come late, without pixels.
static int read_live(void)
{
    struct disparity_model model = disparity_default();
    struct disparity_table table;
    struct capture_settings settings = {.source = "kinect:"};
    struct capture *capture;
    int err = disparity_table_fill(&model, &table);
    if (!err)
        err = capture_open(&capture, &settings);
    if (err)
        return 2;
    int n_good = 0, n_wrong = 0, n_gravity = 0, n_soon = 0;
    size_t n_bytes;
    const char *memory = capture_memory(capture, &n_bytes);
    capture_set_hooks(capture, &(struct capture_hooks){on_written, on_soon, &n_soon});
    for (int i = 0; i < N_FRAMES; i++) {
        struct capture_frame frame;
        if (capture_read(capture, 3000, &frame))
            break;
        n_wrong += frame.device_ticks != ticks_of(i) || frame.index != (uint64_t)i;
        n_gravity += frame.gravity_m_s2[1] > 9.8f && frame.gravity_m_s2[1] < 9.81f;
        size_t n_same = 0;
        for (size_t k = 0; frame.image.depth && k < N_PIXELS; k++)
            n_same += frame.image.depth[k] == depth_of(&table, i);
        n_good += n_same == N_PIXELS;
        n_wrong += frame.image.depth && n_same != N_PIXELS;
        const char *begin = (const char *)frame.image.depth;
        n_wrong += begin && (begin < memory || begin + 2 * N_PIXELS > memory + n_bytes);
    }
    capture_close(&capture);
    printf("through libfreenect's calls: %d frames good, %d wrong, %d with gravity, %d told of, %d "
           "before\n",
           n_good, n_wrong, n_gravity, atomic_load(&n_written), n_soon);
    return n_good >= N_FRAMES / 2 && n_wrong == 0 && n_gravity >= 10 &&
                   atomic_load(&n_written) >= n_good - 6 && n_soon >= n_good / 2
               ? 0
               : 3;
}

int main(int argc, char **argv)
{
    if (argc == 1 && getenv("FAKENECT_PATH"))
        return read_live();
    if (argc != 2 || access(argv[1], R_OK)) {
        printf("SKIP: no fakenect library\n");
        return 77;
    }
    struct scratch scratch;
    struct disparity_model model = disparity_default();
    struct disparity_table table;
    char recording[256];
    int status = 1;
    scratch_create(&scratch);
    if (disparity_table_fill(&model, &table) || record(&scratch, &table)) {
        fprintf(stderr, "recording failed\n");
    } else {
        setenv("FAKENECT_PATH", scratch_name(&scratch, "camera", recording), 1);
        setenv("LD_PRELOAD", argv[1], 1);
        setenv("ASAN_OPTIONS", "verify_asan_link_order=0:detect_leaks=0", 1); // fakenect leaks
        fflush(stdout);
        pid_t child = fork();
        if (child == 0) {
            execl("/proc/self/exe", argv[0], NULL);
            _exit(1);
        }
        unsetenv("LD_PRELOAD");
        if (child > 0)
            waitpid(child, &status, 0);
    }
    scratch_remove(&scratch);
    return status ? 1 : 0;
}
