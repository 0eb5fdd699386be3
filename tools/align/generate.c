// SPDX-License-Identifier: Apache-2.0
// posed-align generate: writes range images of a known model as PLY with range_grid, their start
// poses (start.conf) and the exact ones (truth.conf).
#include <argp.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "capture/cloud/cloud.h"
#include "tools/align/align.h"
#include "tools/align/views.h"
#include "tools/argument.h"

struct options {
    const char *model, *out;
    struct views_settings views;
};

enum { KEY_START_M = 256, KEY_START_RAD };

static const struct argp_option argp_options[] = {
    {"model", 'm', "MODEL.ply", 0, "A triangle mesh (default: a built-in statue, 13 m high)", 0},
    {"views", 'n', "N", 0, "Images (default 50)", 0},
    {"vertices", 'v', "V", 0, "Vertices an image, on average (default 83000)", 0},
    {"noise", 'N', "M", 0, "Noise along the ray, uniform within +-M (default 0.01)", 0},
    {"out", 'o', "DIR", 0, "Where they go (made where it is missing)", 0},
    {"seed", 's', "S", 0, "Same seed, same bytes (default 1)", 0},
    {"start-error", KEY_START_M, "M", 0, "Of start.conf, each axis within +-M (default 0.1)", 0},
    {"start-turn", KEY_START_RAD, "RAD", 0, "Likewise about each axis (default 0.05)", 0},
    {0},
};

static error_t parse_option(int key, char *arg, struct argp_state *state)
{
    struct options *o = state->input;
    switch (key) {
    case 'm':
        o->model = arg;
        break;
    case 'n':
        o->views.n_views = (uint32_t)argument_count(state, "views", arg, 2, 10000);
        break;
    case 'v':
        o->views.n_vertices = (uint32_t)argument_count(state, "vertices", arg, 500, 50000000);
        break;
    case 'N':
        o->views.noise_m = argument_number(state, "noise", arg, 0, 1e6);
        break;
    case 'o':
        o->out = arg;
        break;
    case 's':
        o->views.seed = argument_count(state, "seed", arg, 0, UINT64_MAX);
        break;
    case KEY_START_M:
        o->views.start_m = argument_number(state, "start-error", arg, 0, 1e6);
        break;
    case KEY_START_RAD:
        o->views.start_rad = argument_number(state, "start-turn", arg, 0, 1);
        break;
    case ARGP_KEY_ARG:
        argp_error(state, "unexpected argument %s", arg);
        break;
    case ARGP_KEY_END:
        if (!o->out)
            argp_error(state, "--out is expected");
        break;
    default:
        return ARGP_ERR_UNKNOWN;
    }
    return 0;
}

static void write_line(void *user, enum log_level level, const char *line)
{
    (void)user;
    (void)level;
    fprintf(stderr, "posed-align: %s\n", line);
}

static const struct log_sink log_sink = {write_line, NULL};

static void put_le(FILE *file, uint32_t bits)
{
    for (int i = 0; i < 4; i++)
        putc((int)(bits >> (8 * i) & 0xff), file);
}

// Cells row by row; vertices in the same order.
static int write_scan(const char *path, const float *z_m, const struct intrinsics *camera)
{
    FILE *file = fopen(path, "wb");
    if (!file) {
        log_to(&log_sink, LOG_LEVEL_ERROR, "%s: %s", path, strerror(errno));
        return -errno;
    }
    size_t n_cells = (size_t)camera->width_px * camera->height_px, n = 0;
    for (size_t k = 0; k < n_cells; k++)
        n += z_m[k] > 0;
    fprintf(file,
            "ply\nformat binary_little_endian 1.0\nobj_info num_cols %u\nobj_info num_rows %u\n"
            "element vertex %zu\nproperty float x\nproperty float y\nproperty float z\n"
            "element range_grid %zu\nproperty list uchar int vertex_indices\nend_header\n",
            camera->width_px, camera->height_px, n, n_cells);
    for (size_t k = 0; k < n_cells; k++) {
        double z = (double)z_m[k];
        if (!(z > 0))
            continue;
        double x = ((double)(k % camera->width_px) - camera->cx_px) / camera->fx_px * z;
        double y = ((double)(k / camera->width_px) - camera->cy_px) / camera->fy_px * z;
        float p[3] = {(float)x, (float)y, z_m[k]};
        for (int i = 0; i < 3; i++) {
            uint32_t bits;
            memcpy(&bits, &p[i], sizeof bits);
            put_le(file, bits);
        }
    }
    uint32_t index = 0;
    for (size_t k = 0; k < n_cells; k++) {
        putc(z_m[k] > 0 ? 1 : 0, file);
        if (z_m[k] > 0)
            put_le(file, index++);
    }
    bool bad = ferror(file);
    bad = fclose(file) != 0 || bad;
    if (bad)
        log_to(&log_sink, LOG_LEVEL_ERROR, "%s: could not write it", path);
    return bad ? -EIO : 0;
}

static int write_confs(const struct views *views, const char *folder)
{
    struct images list = {.n = views->settings.n_views, .log = log_sink};
    char path[4200];
    int rc = 0;
    list.names = calloc(list.n, sizeof *list.names);
    if (!list.names)
        return -ENOMEM;
    for (uint32_t k = 0; k < list.n && rc == 0; k++)
        rc = asprintf(&list.names[k], "%s.ply", views->names[k]) < 0 ? -ENOMEM : 0;
    snprintf(path, sizeof path, "%s/truth.conf", folder);
    if (rc == 0)
        rc = images_write_conf(&list, views->T_world_truth, path);
    snprintf(path, sizeof path, "%s/start.conf", folder);
    if (rc == 0)
        rc = images_write_conf(&list, views->T_world_start, path);
    images_free(&list);
    return rc;
}

static int write_views(const struct views *views, const char *folder)
{
    size_t n_px = (size_t)views->camera.width_px * views->camera.height_px;
    float *z_m = malloc(n_px * sizeof *z_m);
    int rc = z_m ? 0 : -ENOMEM;
    if (rc == 0 && mkdir(folder, 0777) < 0 && errno != EEXIST) {
        rc = -errno;
        log_to(&log_sink, LOG_LEVEL_ERROR, "%s: %s", folder, strerror(errno));
    }
    for (uint32_t k = 0; k < views->settings.n_views && rc == 0; k++) {
        char path[4200];
        rc = views_render(views, k, z_m);
        snprintf(path, sizeof path, "%s/%s.ply", folder, views->names[k]);
        if (rc == 0)
            rc = write_scan(path, z_m, &views->camera);
    }
    free(z_m);
    return rc ? rc : write_confs(views, folder);
}

int align_generate(int argc, char **argv)
{
    static const struct argp argp = {
        argp_options,
        parse_option,
        NULL,
        "Writes range images of a known model from a ring of views: viewNNN.ply (range_grid), "
        "start.conf (disturbed poses) and truth.conf (exact ones).",
        NULL,
        NULL,
        NULL};
    struct options options = {.views = {.n_views = 50,
                                        .n_vertices = 83000,
                                        .noise_m = 0.01,
                                        .start_m = 0.1,
                                        .start_rad = 0.05,
                                        .seed = 1}};
    char name[] = "posed-align generate";
    argv[0] = name;
    argp_parse(&argp, argc, argv, 0, NULL, &options);
    struct cloud model = {0};
    struct views views;
    int rc = options.model ? cloud_read(options.model, &log_sink, &model) : 0;
    if (rc == 0)
        rc = views_create(&views, &model, &options.views, &log_sink);
    cloud_free(&model);
    if (rc < 0)
        return 1;
    rc = write_views(&views, options.out);
    if (rc == 0)
        printf("%s: %u images of %u x %u cells, start.conf and truth.conf\n", options.out,
               views.settings.n_views, views.camera.width_px, views.camera.height_px);
    views_free(&views);
    return rc < 0 ? 1 : 0;
}
