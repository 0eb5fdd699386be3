// SPDX-License-Identifier: Apache-2.0
// A camera over DDS that costs next to nothing, for what a depth image's way through DDS costs:
//
//   ros_latency_peer DOMAIN FRAMES N RATE-HZ
//
// Publishes the raw 640x480 images of 16 bits (16UC1) of the file FRAMES to and fro, N in all,
// on /camera/depth/image_raw, reliable, and takes rt/odom. The first image goes out until an
// odometry has come back: the daemon opens on it. Prints a line for each frame of the N:
//   STAMP-NS SENT-NS RECEIVED-NS     (CLOCK_MONOTONIC; before dds_write, after dds_take; 0 = never)
#include <dds/dds.h>
#include <fcntl.h>
#include <pthread.h>
#include <ros_types.h> // of ros_types.idl
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "capture/ros/dds.h"
#include "proto/clock.h"

#define N_PIXELS (640u * 480u)
#define BASE_S   1700000000
#define HISTORY  100 // of the odometry, for who is slow
#define KEPT     10  // images, as a camera's driver keeps: 60 MB would be in no cache
#define WARM_NS  INT64_C(60000000000)
#define END_NS   INT64_C(3000000000)

// Before the first frame's, by less than what is left out as ahead of its time.
#define WARM_STAMP (INT64_C(1000000000) * BASE_S - 1800000000)
#define FULL_STAMP (INT64_C(1000000000) * BASE_S - 900000000)

struct row {
    int64_t sent_ns, received_ns;
};

static struct row *rows;
static long n_rows;
static int64_t period_ns;
static atomic_long n_warm, n_received;
static atomic_bool quit;

static int64_t stamp_of(long i)
{
    return INT64_C(1000000000) * BASE_S + i * period_ns;
}

static void *collect(void *argument)
{
    dds_entity_t reader = *(dds_entity_t *)argument,
                 waitset = dds_create_waitset(DDS_CYCLONEDDS_HANDLE);
    dds_entity_t arrived = dds_create_readcondition(reader, DDS_ANY_STATE);
    dds_waitset_attach(waitset, arrived, 0);
    while (!atomic_load(&quit)) {
        void *samples[1] = {NULL};
        dds_sample_info_t info;
        dds_attach_t triggered;
        dds_waitset_wait(waitset, &triggered, 1, DDS_MSECS(100));
        while (dds_take(reader, samples, &info, 1, 1) == 1) {
            int64_t now_ns = clock_monotonic_ns();
            const nav_msgs_msg_dds__Odometry_ *odometry = samples[0];
            int64_t stamp_ns =
                odometry->header.stamp.sec * INT64_C(1000000000) + odometry->header.stamp.nanosec;
            long i = (long)((stamp_ns - stamp_of(0)) / period_ns);
            if (!info.valid_data) {
            } else if (stamp_ns < stamp_of(0)) {
                atomic_fetch_add(&n_warm, 1);
            } else if (i < n_rows && !rows[i].received_ns) {
                rows[i].received_ns = now_ns;
                atomic_fetch_add(&n_received, 1);
            }
            dds_return_loan(reader, samples, 1);
        }
    }
    return NULL;
}

static dds_entity_t create(dds_entity_t participant, const char *name,
                           const dds_topic_descriptor_t *type, bool is_reader)
{
    dds_entity_t topic = dds_create_topic(participant, type, name, NULL, NULL);
    dds_qos_t *qos = ros_dds_qos(type->m_typename, true, is_reader ? HISTORY : KEPT, false);
    dds_entity_t made = is_reader ? dds_create_reader(participant, topic, qos, NULL)
                                  : dds_create_writer(participant, topic, qos, NULL);
    dds_delete_qos(qos);
    return made;
}

static void write_frame(dds_entity_t images, dds_entity_t infos, int64_t stamp_ns,
                        const void *pixels)
{
    static char frame_id[] = "camera", encoding[] = "16UC1", model[] = "plumb_bob";
    const std_msgs_msg_dds__Header_ header = {
        {(int32_t)(stamp_ns / 1000000000), (uint32_t)(stamp_ns % 1000000000)}, frame_id};
    sensor_msgs_msg_dds__CameraInfo_ info = {.header = header,
                                             .height = 480,
                                             .width = 640,
                                             .distortion_model = model,
                                             .k = {525, 0, 319.5, 0, 525, 239.5, 0, 0, 1},
                                             .p = {525, 0, 319.5, 0, 0, 525, 239.5, 0, 0, 0, 1, 0}};
    sensor_msgs_msg_dds__Image_ image = {
        .header = header, .height = 480, .width = 640, .encoding = encoding, .step = 1280};
    image.data._length = image.data._maximum = 2 * N_PIXELS;
    image.data._buffer = (uint8_t *)(uintptr_t)pixels;
    if (dds_write(infos, &info) < 0 || dds_write(images, &image) < 0)
        fprintf(stderr, "ros_latency_peer: an image was not taken\n");
}

static void sleep_until(int64_t ns)
{
    const struct timespec until = {ns / 1000000000, ns % 1000000000};
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL))
        ;
}

// Until the daemon answers, and then until the writer is full: before it drops an old image for
// each new one its memory grows, which costs page faults. Returns whether the daemon answered.
static bool warm_up(dds_entity_t images, dds_entity_t infos, const uint16_t *frame)
{
    int64_t end_ns = clock_monotonic_ns() + WARM_NS;
    for (int i = 0; !atomic_load(&n_warm) && clock_monotonic_ns() < end_ns; i++) {
        write_frame(images, infos, WARM_STAMP + i * INT64_C(1000000), frame);
        sleep_until(clock_monotonic_ns() + 100000000);
    }
    for (int i = 0; atomic_load(&n_warm) && i < KEPT; i++) {
        write_frame(images, infos, FULL_STAMP + i * INT64_C(1000000), frame);
        sleep_until(clock_monotonic_ns() + period_ns);
    }
    sleep_until(clock_monotonic_ns() + 500000000);
    return atomic_load(&n_warm) > 0;
}

int main(int argc, char **argv)
{
    struct stat st;
    int fd = argc == 5 ? open(argv[2], O_RDONLY | O_CLOEXEC) : -1;
    if (fd < 0 || fstat(fd, &st) || st.st_size < (off_t)(2 * N_PIXELS))
        return fprintf(stderr, "usage: ros_latency_peer DOMAIN FRAMES N RATE-HZ\n"), 2;
    const uint16_t *frames = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
    size_t n = (size_t)st.st_size / (2 * N_PIXELS), round = n > 1 ? 2 * n - 2 : 1;
    n_rows = strtol(argv[3], NULL, 10);
    period_ns = (int64_t)(1e9 / strtod(argv[4], NULL));
    rows = calloc((size_t)n_rows, sizeof *rows);
    const struct log_sink log = {NULL, NULL};
    struct ros_dds_place place = {.domain = (uint32_t)strtoul(argv[1], NULL, 10),
                                  .domain_origin = "the command line"};
    dds_entity_t participant = ros_dds_participant(&place, &log);
    if (frames == MAP_FAILED || !rows || participant < 0)
        return 1;
    dds_entity_t odom = create(participant, "rt/odom", &nav_msgs_msg_dds__Odometry__desc, true);
    dds_entity_t images =
        create(participant, "rt/camera/depth/image_raw", &sensor_msgs_msg_dds__Image__desc, false);
    dds_entity_t infos = create(participant, "rt/camera/depth/camera_info",
                                &sensor_msgs_msg_dds__CameraInfo__desc, false);
    pthread_t thread;
    if (odom < 0 || images < 0 || infos < 0 || pthread_create(&thread, NULL, collect, &odom))
        return 1;
    printf("ready\n");
    fflush(stdout);
    if (!warm_up(images, infos, frames))
        return fprintf(stderr, "ros_latency_peer: no odometry came\n"), 1;
    int64_t start_ns = clock_monotonic_ns();
    for (long i = 0; i < n_rows; i++) {
        size_t k = (size_t)i % round;
        sleep_until(start_ns + i * period_ns);
        rows[i].sent_ns = clock_monotonic_ns();
        write_frame(images, infos, stamp_of(i), frames + (k < n ? k : round - k) * N_PIXELS);
    }
    int64_t end_ns = clock_monotonic_ns() + END_NS;
    while (atomic_load(&n_received) < n_rows && clock_monotonic_ns() < end_ns)
        sleep_until(clock_monotonic_ns() + 10000000);
    atomic_store(&quit, true);
    pthread_join(thread, NULL);
    for (long i = 0; i < n_rows; i++)
        printf("%lld %lld %lld\n", (long long)stamp_of(i), (long long)rows[i].sent_ns,
               (long long)rows[i].received_ns);
    dds_delete(participant);
    free(rows);
    return 0;
}
