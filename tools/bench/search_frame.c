// SPDX-License-Identifier: Apache-2.0
// The pose search in a real frame whose objects' poses are known: a folder with depth.png,
// calibration.txt, NAME.ply (metres) and NAME.pose.txt (4x4, model into camera).
#include <errno.h>
#include <glob.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "capture/io/folder.h"
#include "capture/io/image.h"
#include "capture/recording/sidecar.h"
#include "proto/se3.h"
#include "tools/bench/bench.h"
#include "tools/bench/search.h"
#include "tools/bench/search_features.h"
#include "tools/bench/search_metrics.h"
#include "tools/bench/search_outline.h"

#define MAX_BYTES ((size_t)64 << 20)
#define RIGHT_ADD 0.1

static const struct log_sink log_ = {.write = bench_log_write};

static int read_frame(int folder, struct search_image *out, uint16_t **out_pixels)
{
    struct file_bytes text = {0}, file = {0};
    struct image_codec *codec = NULL;
    double units_per_m = 0;
    int err = folder_read(folder, "calibration.txt", MAX_BYTES, &text);
    memset(out, 0, sizeof *out);
    *out_pixels = NULL;
    err = err ? err
              : sidecar_parse_calibration((char *)text.data, "calibration.txt", &log_, &out->camera,
                                          &units_per_m);
    err = err ? err : folder_read(folder, "depth.png", MAX_BYTES, &file);
    err = err ? err : image_codec_create(&codec);
    if (!err) {
        const uint32_t width = out->camera.width_px, height = out->camera.height_px;
        *out_pixels = malloc((size_t)width * height * sizeof **out_pixels + 1);
        err = *out_pixels ? image_decode(codec, file.data, file.n_bytes, "depth.png",
                                         IMAGE_PGM_BIG_ENDIAN, width, height, &log_, *out_pixels)
                          : -ENOMEM;
        out->frame = (struct depth_frame){*out_pixels, width, height,
                                          units_per_m > 0 ? units_per_m : 1000, 0};
    }
    image_codec_destroy(&codec);
    file_bytes_free(&text);
    file_bytes_free(&file);
    return err;
}

static int read_pose(const char *path, struct se3 *out)
{
    FILE *file = fopen(path, "r");
    if (!file)
        return -errno;
    int n = 0;
    double m[16] = {0};
    while (n < 16 && fscanf(file, "%lf", &m[n]) == 1)
        n++;
    fclose(file);
    for (int i = 0; i < 3; i++) {
        for (int k = 0; k < 3; k++)
            out->r[3 * i + k] = m[4 * i + k];
        out->t_m[i] = m[4 * i + 3];
    }
    return n == 16 ? 0 : -EINVAL;
}

static int print_features(struct search *search, const struct bench_search_model *model,
                          const char *name, const struct search_image *image,
                          const struct se3 *truth)
{
    float features[SEARCH_N_FEATURES];
    const int err = search_features_at(search, model->object, image, truth, features);
    if (err)
        return err;
    printf("%-12s", name);
    for (int k = 0; k < SEARCH_N_FEATURES; k++)
        printf(" %s %.3f%s", search_feature_names[k], (double)features[k],
               k == SEARCH_N_FEATURES - 1 ? "\n" : ",");
    return 0;
}

// One object: its line, or what it adds to the statistics.
static int score_object(struct search *search, const struct bench_search_model *model,
                        const char *name, const struct search_image *image, const struct se3 *truth,
                        const struct bench_search_options *o, struct outline_statistics *statistics)
{
    const struct metric_points points = {model->mesh.vertices_m, model->mesh.n_vertices};
    struct search_query query;
    struct search_answer answer;
    if (o->outline) {
        float *z = malloc((size_t)image->camera.width_px * image->camera.height_px * sizeof *z);
        int err = z ? search_draw(model->object, &image->camera, truth, z) : -ENOMEM;
        err = err ? err : outline_add(z, &image->frame, statistics);
        free(z);
        return err ? err : print_features(search, model, name, image, truth);
    }
    search_query_default(&query);
    query.top = SEARCH_TOP_MAX / 2;
    int err = search_run(search, model->object, image, &query, &answer, NULL);
    if (err)
        return err;
    const double diameter = metric_diameter(&points);
    for (uint32_t i = 0; i < answer.n_poses; i++) {
        const struct search_pose *pose = &answer.poses[i];
        const struct se3 apart = se3_between(truth, &pose->T_camera_model);
        const double add =
            metric_add_s(&points, points.n_points / 500 + 1, &pose->T_camera_model, truth);
        const bool right = add < RIGHT_ADD * diameter;
        if (i == 0 || right)
            printf("%-12s %s in place %u, %.1f degrees, ADD-S %.1f mm of %.0f, confidence %.3f%s, "
                   "score %.1f, rival %.1f, visible %.2f, contradicted %.3f, ended %.2f\n",
                   name, right ? "right" : "wrong", i + 1, se3_angle(&apart) * 180 / M_PI,
                   1e3 * add, 1e3 * diameter, (double)pose->confidence,
                   pose->accepted ? " accepted" : "", (double)pose->score, (double)pose->rival,
                   (double)pose->visible, (double)pose->contradicted, (double)pose->ended);
        if (right)
            break;
    }
    return 0;
}

int bench_search_frame(struct search *search, const struct bench_search_options *o)
{
    char path[4096];
    glob_t found = {0};
    struct search_image image;
    uint16_t *pixels = NULL;
    struct outline_statistics statistics = {0};
    const int folder = folder_open(o->frame, &log_);
    int err = folder < 0 ? folder : read_frame(folder, &image, &pixels);
    if (folder >= 0)
        close(folder);
    snprintf(path, sizeof path, "%s/*.pose.txt", o->frame);
    if (!err && glob(path, 0, NULL, &found) != 0)
        err = -ENOENT;
    for (size_t i = 0; i < found.gl_pathc && !err; i++) {
        const char *pose_path = found.gl_pathv[i];
        const char *name = strrchr(pose_path, '/') + 1;
        const int n_stem = (int)(strlen(pose_path) - strlen(".pose.txt"));
        struct bench_search_model model;
        struct se3 truth;
        snprintf(path, sizeof path, "%.*s.ply", n_stem, pose_path);
        err = read_pose(pose_path, &truth);
        if (!err && bench_search_open(search, path, o, &model))
            err = -EINVAL;
        if (err)
            break;
        snprintf(path, sizeof path, "%.*s", (int)(strlen(name) - strlen(".pose.txt")), name);
        err = score_object(search, &model, path, &image, &truth, o, &statistics);
        bench_search_close(search, &model);
    }
    if (err)
        fprintf(stderr, "posed-bench: %s: %s\n", o->frame, strerror(-err));
    else if (o->outline)
        outline_print(&statistics);
    globfree(&found);
    free(pixels);
    return err ? 1 : 0;
}
