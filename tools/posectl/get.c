// SPDX-License-Identifier: Apache-2.0
// posectl get depth | cloud: a frame that the daemon still keeps, as a file.
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "capture/cloud/cloud.h"
#include "capture/io/image.h"
#include "proto/file_suffix.h"
#include "proto/output_file.h"
#include "tools/posectl/posectl.h"

static posed_Reply reply;
static const char *what;
static bool has_seq, normals;
static uint64_t seq;
static uint32_t stride;

static error_t on_option(int key, char *arg, struct argp_state *state)
{
    switch (key) {
    case 'f':
        has_seq = true;
        seq = argument_count(state, "frame", arg, 0, UINT64_MAX - 1);
        return 0;
    case 's':
        stride = (uint32_t)argument_count(state, "stride", arg, 0, 10000);
        return 0;
    case 'n':
        normals = true;
        return 0;
    case ARGP_KEY_ARG:
        if (what)
            argp_error(state, "\"%s\" is one word too many", arg);
        if (strcmp(arg, "depth") != 0 && strcmp(arg, "cloud") != 0)
            argp_error(state, "depth or cloud is wanted, not \"%s\"", arg);
        what = arg;
        return 0;
    case ARGP_KEY_END:
        if (!what)
            argp_error(state, "depth or cloud is wanted");
        if ((normals || stride) && what[0] == 'd')
            argp_error(state, "--normals and --stride are for a cloud");
        return 0;
    }
    return posectl_option(key, arg, state);
}

// Whether the file's name promises a format that is written; else the reason is on stderr.
static bool is_format_known(const char *path, bool is_depth)
{
    if (is_depth ? file_suffix_fits(path, ".png")
                 : file_suffix_fits(path, ".ply") || file_suffix_is(path, ".pcd"))
        return true;
    posectl_complain("%s: %s", path,
                     is_depth
                         ? "depth is written as 16-bit .png alone; another format would lose it"
                         : "a cloud is written as .ply or .pcd");
    return false;
}

static bool lacks(size_t n_wanted, size_t n)
{
    if (n == n_wanted)
        return false;
    posectl_complain("the daemon sent %zu bytes instead of %zu", n, n_wanted);
    return true;
}

static enum posectl_exit save_depth(const struct posectl *ctl, const uint8_t *bytes, size_t n_bytes)
{
    const posed_DepthFrame *d = &reply.what.get_depth;
    const uint32_t path[] = {posed_Reply_get_depth_tag, WIRE_DEPTH_FRAME_DEPTH};
    const uint8_t *found;
    struct image_codec *codec = NULL;
    size_t n;
    wire_find_bytes(bytes, n_bytes, path, 2, &found, &n);
    if (d->width > 65535 || d->height > 65535 || lacks((size_t)d->width * d->height * 2, n))
        return POSECTL_FAILED;
    uint16_t *pixels = malloc(n ? n : 1);
    int error = pixels ? image_codec_create(&codec) : -ENOMEM;
    if (!error) {
        memcpy(pixels, found, n);
        error = image_write_png(codec, ctl->file, pixels, d->width, d->height, 6);
    }
    if (error)
        posectl_complain("%s: %s", ctl->file, strerror(-error));
    image_codec_destroy(&codec);
    free(pixels);
    return error ? POSECTL_FAILED : POSECTL_OK;
}

static enum posectl_exit save_cloud(const struct posectl *ctl, const uint8_t *bytes, size_t n_bytes)
{
    const size_t n = reply.what.get_cloud.n_points;
    const uint32_t points_path[] = {posed_Reply_get_cloud_tag, WIRE_CLOUD_POINTS};
    const uint32_t normals_path[] = {posed_Reply_get_cloud_tag, WIRE_CLOUD_NORMALS};
    const uint8_t *points_found, *normals_found;
    size_t n_points, n_normals;
    wire_find_bytes(bytes, n_bytes, points_path, 2, &points_found, &n_points);
    wire_find_bytes(bytes, n_bytes, normals_path, 2, &normals_found, &n_normals);
    if (lacks(12 * n, n_points) || (normals && lacks(12 * n, n_normals)))
        return POSECTL_FAILED;
    float *m = malloc((n ? n : 1) * 6 * sizeof *m);
    if (!m) {
        posectl_complain("out of memory");
        return POSECTL_FAILED;
    }
    struct point_set set = {.x_m = m, .y_m = m + n, .z_m = m + 2 * n, .n_points = n};
    wire_split_points(points_found, n, m);
    if (normals) {
        wire_split_points(normals_found, n, m + 3 * n);
        set.nx = m + 3 * n;
        set.ny = m + 4 * n;
        set.nz = m + 5 * n;
    }
    int error = cloud_write(ctl->file, &set, &posectl_log);
    free(m);
    return error ? POSECTL_FAILED : POSECTL_OK;
}

static void print_depth(const struct posectl *ctl, FILE *said)
{
    const posed_DepthFrame *d = &reply.what.get_depth;
    if (ctl->json)
        posectl_print_json(said,
                           json_pack("{s:I, s:f, s:i, s:i, s:f, s:f, s:f, s:f, s:f}", "seq",
                                     (json_int_t)d->seq, "time_s", wire_seconds(&d->timestamp),
                                     "width", (int)d->width, "height", (int)d->height,
                                     "units_per_m", d->units_per_m, "fx", d->fx, "fy", d->fy, "cx",
                                     d->cx, "cy", d->cy),
                           false);
    else
        fprintf(said, "%s%s: frame %" PRIu64 ", %" PRIu32 "x%" PRIu32 ", %g units per metre\n",
                ctl->file, ctl->replaces ? " (replaced)" : "", d->seq, d->width, d->height,
                d->units_per_m);
}

static void print_cloud(const struct posectl *ctl, FILE *said)
{
    const posed_Cloud *c = &reply.what.get_cloud;
    if (ctl->json)
        posectl_print_json(said,
                           json_pack("{s:I, s:f, s:i, s:i, s:o}", "seq", (json_int_t)c->seq,
                                     "time_s", wire_seconds(&c->timestamp), "points",
                                     (int)c->n_points, "stride", (int)c->stride, "T_odom_camera",
                                     c->has_pose ? wire_json_pose(&c->pose) : json_null()),
                           false);
    else
        fprintf(said, "%s%s: frame %" PRIu64 ", %" PRIu32 " points, stride %" PRIu32 "\n",
                ctl->file, ctl->replaces ? " (replaced)" : "", c->seq, c->n_points, c->stride);
}

int posectl_get(struct posectl *ctl, int argc, char **argv)
{
    static const struct argp_option options[] = {
        {"frame", 'f', "SEQ", 0, "Sequence number of the frame; left out: the newest", 0},
        {"stride", 's', "N", 0, "Cloud: every N-th pixel of each row and column", 0},
        {"normals", 'n', NULL, 0, "Cloud: with normals", 0},
        {0}};
    static const struct argp argp = {
        .options = options,
        .parser = on_option,
        .args_doc = "depth -o FILE.png\ncloud -o FILE.ply\ncloud -o FILE.pcd",
        .children = posectl_common,
        .doc = "Saves a frame that the daemon still keeps (requests.keep_frames): its depth as it "
               "was captured, a 16-bit PNG, or its points in the camera's frame, PLY "
               "or PCD as the file's name says."};
    posed_Request request = posed_Request_init_zero;
    ctl->takes_file = true;
    posectl_parse(ctl, &argp, argc, argv);
    if (!ctl->file) {
        posectl_complain("get %s: -o FILE.%s is needed", what, what[0] == 'd' ? "png" : "ply");
        return POSECTL_USAGE;
    }
    bool is_depth = what[0] == 'd';
    if (!is_format_known(ctl->file, is_depth))
        return POSECTL_USAGE;
    request.deadline_ms = ctl->timeout_ms;
    if (is_depth) {
        request.which_what = posed_Request_get_depth_tag;
        request.what.get_depth = (posed_GetDepth){has_seq, seq};
    } else {
        request.which_what = posed_Request_get_cloud_tag;
        request.what.get_cloud = (posed_GetCloud){has_seq, seq, stride, normals};
    }
    uint8_t *bytes;
    size_t n_bytes;
    enum posectl_exit result = posectl_request_large(ctl, &request, &reply, &bytes, &n_bytes);
    if (!result)
        result = is_depth ? save_depth(ctl, bytes, n_bytes) : save_cloud(ctl, bytes, n_bytes);
    free(bytes);
    if (result)
        return (int)result;
    // Not among the bytes of a file that is standard output.
    FILE *said = output_file_descriptor(ctl->file) < 0 ? stdout : stderr;
    if (is_depth)
        print_depth(ctl, said);
    else
        print_cloud(ctl, said);
    return fflush(said) == 0 ? POSECTL_OK : POSECTL_FAILED;
}
