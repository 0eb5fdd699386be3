// SPDX-License-Identifier: Apache-2.0
#include "daemon/trajectory_spool.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "daemon/output_name.h"
#include "proto/se3.h"

struct keyframe {
    uint64_t seq;
    uint32_t epoch;
    uint32_t n_finds; // of its frame, known when it is written
    struct se3 T_odom_camera, T_map_odom;
};

struct trajectory_spool {
    FILE *file;
    uint32_t n_keyframes, max_keyframes;
    struct keyframe *keyframes; // by epoch, then seq
};

int trajectory_spool_create(struct trajectory_spool **out, const char *path)
{
    *out = NULL;
    struct trajectory_spool *spool = calloc(1, sizeof *spool);
    char *name = NULL;
    const int fd = spool ? output_name_make_beside(path, &name) : -ENOMEM;
    int error = fd < 0 ? fd : 0;
    if (!error && unlink(name) != 0)
        error = -errno;
    if (!error && !(spool->file = fdopen(fd, "w+")))
        error = -errno;
    free(name);
    if (!error) {
        *out = spool;
        return 0;
    }
    if (fd >= 0)
        close(fd);
    free(spool);
    return error;
}

void trajectory_spool_destroy(struct trajectory_spool **spool)
{
    if (!*spool)
        return;
    fclose((*spool)->file);
    free((*spool)->keyframes);
    free(*spool);
    *spool = NULL;
}

int trajectory_spool_frame(struct trajectory_spool *spool, const struct trajectory_frame *frame)
{
    return fwrite(frame, sizeof *frame, 1, spool->file) == 1 ? 0 : errno ? -errno : -EIO;
}

static int make_room(struct trajectory_spool *spool, uint32_t n)
{
    if (n > TRAJECTORY_SPOOL_KEYFRAMES - spool->n_keyframes)
        return -ENOSPC;
    if (spool->n_keyframes + n <= spool->max_keyframes)
        return 0;
    const uint32_t max = 2 * (spool->n_keyframes + n);
    struct keyframe *grown = realloc(spool->keyframes, max * sizeof *grown);
    if (!grown)
        return -ENOMEM;
    spool->keyframes = grown;
    spool->max_keyframes = max;
    return 0;
}

int trajectory_spool_keyframes(struct trajectory_spool *spool, uint32_t epoch,
                               const struct graph_keyframe *keyframes, uint32_t n_keyframes)
{
    int error = make_room(spool, n_keyframes);
    for (uint32_t i = 0; i < n_keyframes && !error; i++) {
        const struct graph_keyframe *k = &keyframes[i];
        const struct se3 back = se3_inverse(&k->T_odom_camera);
        spool->keyframes[spool->n_keyframes++] =
            (struct keyframe){.seq = k->seq,
                              .epoch = epoch,
                              .T_odom_camera = k->T_odom_camera,
                              .T_map_odom = se3_compose(&k->T_map_camera, &back)};
    }
    return error;
}

bool trajectory_spool_has_keyframes(const struct trajectory_spool *spool)
{
    return spool->n_keyframes > 0;
}

// The camera's motion between two poses: what a turn of a radian moves is about a metre off.
static double motion(const struct se3 *a, const struct se3 *b)
{
    const struct se3 T = se3_between(a, b);
    const double *t = T.t_m;
    return sqrt(t[0] * t[0] + t[1] * t[1] + t[2] * t[2]) + se3_angle(&T);
}

static struct se3 part_of_way(const struct se3 *a, const struct se3 *b, double share)
{
    const struct se3 step = se3_between(a, b);
    double twist[6];
    se3_log(&step, twist);
    for (int i = 0; i < 6; i++)
        twist[i] *= share;
    const struct se3 part = se3_exp(twist), out = se3_compose(a, &part);
    return se3_normalized(&out);
}

// The frame in the map, between two keyframes' corrections: as they move the camera there, each by
// its share.
static struct se3 between(const struct keyframe *a, const struct keyframe *b, const struct se3 *T)
{
    const double from = motion(&a->T_odom_camera, T), to = motion(T, &b->T_odom_camera);
    const struct se3 T_a = se3_compose(&a->T_map_odom, T), T_b = se3_compose(&b->T_map_odom, T);
    if (!(from + to > 0))
        return T_a;
    return part_of_way(&T_a, &T_b, from / (from + to));
}

// Where frame `seq` was: as the keyframes around it say that are of its odom. *at: the last
// keyframe of its epoch that is not behind it, or the epoch's first one; it goes on from frame to
// frame.
static struct se3 adjusted(const struct trajectory_spool *spool, uint64_t seq, uint32_t *at,
                           const struct trajectory_frame *frame)
{
    const struct keyframe *k = spool->keyframes;
    const uint32_t n = spool->n_keyframes;
    while (*at < n && k[*at].epoch < frame->epoch)
        ++*at;
    if (*at == n || k[*at].epoch != frame->epoch)
        return se3_compose(&frame->T_map_odom, &frame->T_odom_camera);
    while (*at + 1 < n && k[*at + 1].epoch == frame->epoch && k[*at + 1].seq <= seq)
        ++*at;
    const bool is_last = *at + 1 == n || k[*at + 1].epoch != frame->epoch;
    const struct keyframe *a = &k[*at], *b = is_last || a->seq > seq ? a : a + 1;
    const bool is_of_a = a->n_finds == frame->n_finds, is_of_b = b->n_finds == frame->n_finds;
    if (is_of_a && is_of_b && a != b)
        return between(a, b, &frame->T_odom_camera);
    return se3_compose(is_of_a   ? &a->T_map_odom
                       : is_of_b ? &b->T_map_odom
                                 : &frame->T_map_odom,
                       &frame->T_odom_camera);
}

// How many finds there were when each keyframe's frame came.
static int read_finds(struct trajectory_spool *spool)
{
    struct trajectory_frame frame;
    for (uint32_t i = 0; i < spool->n_keyframes; i++) {
        struct keyframe *k = &spool->keyframes[i];
        if (fseeko(spool->file, (off_t)(k->seq * sizeof frame), SEEK_SET) != 0)
            return -errno;
        if (fread(&frame, sizeof frame, 1, spool->file) == 1)
            k->n_finds = frame.n_finds;
        else if (ferror(spool->file))
            return -EIO;
    }
    return 0;
}

// For a time at b, frame `seq`, or between it and the frame before; a: NULL where b is the first of
// its epoch.
static void find_between(const struct trajectory_frame *a, const struct trajectory_frame *b,
                         uint64_t seq, int64_t max_gap_ns, struct trajectory_find *out)
{
    const int64_t before_ns = b->time_ns - out->time_ns;
    out->epoch = b->epoch;
    if (!a || before_ns == 0) {
        out->is_known = before_ns <= max_gap_ns;
        out->seq = seq;
        out->T_odom_camera = b->T_odom_camera;
        return;
    }
    const int64_t gap_ns = b->time_ns - a->time_ns;
    out->is_known = gap_ns <= max_gap_ns;
    out->seq = seq - 1;
    out->T_odom_camera =
        part_of_way(&a->T_odom_camera, &b->T_odom_camera, 1 - (double)before_ns / (double)gap_ns);
}

int trajectory_spool_find(struct trajectory_spool *spool, struct trajectory_find *inout, uint32_t n,
                          int64_t max_gap_ns)
{
    struct trajectory_frame last = {0}, frame;
    uint64_t seq = 0;
    uint32_t k = 0;
    if (fflush(spool->file) != 0 || fseeko(spool->file, 0, SEEK_SET) != 0)
        return -errno;
    for (; k < n && fread(&frame, sizeof frame, 1, spool->file) == 1; seq++, last = frame)
        for (; k < n && inout[k].time_ns <= frame.time_ns; k++)
            find_between(seq > 0 && last.epoch == frame.epoch ? &last : NULL, &frame, seq,
                         max_gap_ns, &inout[k]);
    if (ferror(spool->file) || fseeko(spool->file, 0, SEEK_END) != 0)
        return -EIO;
    for (; k < n; k++) { // behind the last one
        inout[k].is_known = seq > 0 && inout[k].time_ns - last.time_ns <= max_gap_ns;
        inout[k].T_odom_camera = last.T_odom_camera;
        inout[k].seq = seq > 0 ? seq - 1 : 0;
        inout[k].epoch = last.epoch;
    }
    return 0;
}

int trajectory_spool_write(struct trajectory_spool *spool, FILE *file,
                           enum trajectory_format format)
{
    struct trajectory_frame frame;
    struct trajectory_marks marks = {0};
    uint32_t at = 0;
    if (fflush(spool->file) != 0)
        return -errno;
    int error = read_finds(spool);
    if (!error && fseeko(spool->file, 0, SEEK_SET) != 0)
        error = -errno;
    for (uint64_t seq = 0; !error && fread(&frame, sizeof frame, 1, spool->file) == 1; seq++) {
        const struct stamped_pose pose = {frame.time_ns, adjusted(spool, seq, &at, &frame)};
        const struct trajectory_part part = {frame.epoch, frame.clock_set_ns};
        if (trajectory_write_marked(file, format, &marks, &part, frame.origin, &pose, NULL) != 0)
            error = errno ? -errno : -EIO;
    }
    return !error && ferror(spool->file) ? -EIO : error;
}
