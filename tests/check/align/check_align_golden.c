// SPDX-License-Identifier: Apache-2.0
// The alignment of a ring of views gives what it gave: images, pairs, partition, poses, residuals
// and covariances, with few pairs an image, wrong pairs and closed gates, too.
// tests/golden/align.txt has every number (tests/check/golden_values.h says how to write it anew).
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gpu/align/align.h"
#include "gpu/align/residual_map.h"
#include "proto/se3.h"
#include "tests/check/golden_values.h"
#include "tools/align/views.h"

// Rows of float sums are added in doubles; poses come from them by solves of a condition of 1e3.
#define SHARE       1e-5
// Which of a few thousand vertices lie within a gate hangs on the last bit of a pose.
#define COUNT_SHARE 2e-4

#define N_VIEWS 10

static struct views views;
static const struct log_sink quiet = {NULL, NULL};

static int keep_progress(void *user, const struct align_progress *progress)
{
    uint32_t *n = user;
    if (++*n % 4 != 1)
        return 0;
    const double row[2] = {progress->rms_m, progress->step_m};
    golden_count("level", progress->level);
    golden_number("rms_m", row[0], SHARE);
    golden_number("step_m", row[1], 1e-3); // what is left of a step is a difference
    return 0;
}

static void result_of(const struct align_result *r, const struct se3 *poses)
{
    const struct align_pair_counts *c = &r->counts;
    const double counts[] = {c->all, c->by_box, c->by_view, c->by_overlap, c->by_distance, c->kept};
    golden_numbers("counts", counts, 6, 0);
    golden_number("gate_m", r->gate_m, SHARE);
    golden_count("parts", r->n_parts);
    golden_count("converged", r->solution.converged);
    golden_count("iterations", r->solution.n_iterations);
    golden_number("rms_m", r->solution.rms_m, SHARE);
    for (uint32_t k = 0; k < r->n_pairs; k++) {
        const struct align_pair_result *p = &r->solution.pairs[k];
        const double pair[2] = {r->pairs[k].i, r->pairs[k].j};
        const double found[2] = {p->rms_m * 100, p->scale};
        const double chosen[2] = {(double)r->pairs[k].overlap, (double)r->pairs[k].distance_m};
        golden_numbers("pair", pair, 2, 0);
        golden_numbers("chosen", chosen, 2, SHARE);
        golden_numbers("found", found, 2, COUNT_SHARE);
        golden_number("n", p->n, COUNT_SHARE);
        golden_count("state", p->state);
    }
    for (uint32_t i = 0; i < views.settings.n_views; i++) {
        golden_pose("T", &poses[i], SHARE);
        golden_count("fixed", r->fixed[i]);
        if (!r->fixed[i])
            golden_covariance("covariance", r->solution.covariance + 36 * i, COUNT_SHARE);
    }
}

static void map_of(const struct align_source *source, const struct se3 *poses,
                   const struct align_result *result)
{
    struct align_image *image;
    float *map;
    golden_count("map rc",
                 align_residual_map(source, 1, poses, result, result->gate_m, &image, &map));
    double n = 0, sum = 0;
    for (uint32_t i = 0; i < image->n_level[0]; i++)
        if (isfinite(map[i])) {
            n++;
            sum += fabs((double)map[i]);
        }
    golden_number("map n", n, COUNT_SHARE);
    golden_number("map mean", sum / fmax(n, 1), COUNT_SHARE);
    align_image_destroy(&image);
    free(map);
}

static void ring(const char *name, struct align_settings settings, bool with_progress)
{
    struct se3 poses[N_VIEWS];
    struct align_source source = {views.settings.n_views, (const char *const *)views.names,
                                  views_load, &views};
    struct align_ranks one;
    struct align_result result;
    uint32_t n = 0;
    align_ranks_one(&one);
    memcpy(poses, views.T_world_start, sizeof poses);
    golden_case("%s", name);
    const int rc = align_run(&source, &one, &settings, poses, with_progress ? keep_progress : NULL,
                             &n, &result);
    golden_count("rc", rc);
    if (rc < 0)
        return;
    result_of(&result, poses);
    if (with_progress)
        map_of(&source, poses, &result);
    align_result_free(&result);
}

static void image_of(const char *name, const struct align_image *image)
{
    golden_case("%s", name);
    const double size[] = {image->width,      image->height,     image->left,      image->top,
                           image->n_level[0], image->n_level[1], image->n_level[2]};
    double projection[12], planes[4] = {0}, vertices[6] = {0};
    for (int i = 0; i < 12; i++)
        projection[i] = (double)image->projection[i];
    for (uint32_t i = 0; i < image->width * image->height; i++) {
        const struct pair_plane *p = &image->planes[i];
        planes[0] += fabs((double)p->nx);
        planes[1] += fabs((double)p->ny);
        planes[2] += fabs((double)p->nz);
        planes[3] += fabs((double)p->d_m);
    }
    for (uint32_t i = 0; i < image->n_level[1]; i++) {
        const float *const from[6] = {image->x_m, image->y_m, image->z_m,
                                      image->nx,  image->ny,  image->nz};
        for (int a = 0; a < 6; a++)
            vertices[a] += fabs((double)from[a][i]);
    }
    const double noise[2] = {(double)image->noise.a_m, (double)image->noise.b_per_m};
    golden_numbers("size", size, 7, 0);
    golden_numbers("projection", projection, 12, SHARE);
    golden_number("projection_rms_px", image->projection_rms_px, 1e-3);
    golden_numbers("planes", planes, 4, SHARE);
    golden_numbers("vertices", vertices, 6, SHARE);
    golden_numbers("noise", noise, 2, SHARE);
    golden_number("spacing_m", image->spacing_m, SHARE);
    golden_numbers("view", image->view, 3, SHARE);
    golden_numbers("centre_m", image->centre_m, 3, SHARE);
    golden_numbers("surface_m", image->surface_m, 3, SHARE);
    golden_numbers("low_m", image->low_m, 3, SHARE);
    golden_numbers("high_m", image->high_m, 3, SHARE);
}

#define SIDE 48

// A scanner's grid of parallel rays over a wavy plate with a step and a hole.
static void grid(void)
{
    static float m[3][SIDE * SIDE];
    static uint32_t index[SIDE * SIDE];
    uint32_t n = 0;
    golden_seed(5);
    for (uint32_t i = 0; i < SIDE * SIDE; i++) {
        const uint32_t u = i % SIDE, v = i / SIDE;
        const bool hole = (u - 20) * (u - 20) + (v - 30) * (v - 30) < 20;
        index[i] = hole ? ALIGN_GRID_EMPTY : n;
        if (hole)
            continue;
        m[0][n] = (float)(0.01 * u + 0.0005 * golden_noise());
        m[1][n] = (float)(0.012 * v + 0.0005 * golden_noise());
        m[2][n] = (float)(0.04 * sin(0.2 * u) + 0.03 * cos(0.25 * v) + (u > 34 ? 0.2 : 0) +
                          0.001 * golden_noise());
        n++;
    }
    const struct align_grid scanned = {m[0], m[1], m[2], n, index, SIDE, SIDE};
    struct align_image_settings settings;
    struct align_image *image;
    align_image_settings_default(&settings);
    if (align_image_create(&image, &scanned, &settings, "grid", &quiet) != 0)
        exit(2);
    image_of("image/grid", image);
    align_image_destroy(&image);
}

// When levels end: a threshold that moves moves the end of some of so many.
static void ends(void)
{
    double iterations[12], rms_m[12];
    golden_case("ends");
    for (int k = 0; k < 12; k++) {
        struct align_settings settings;
        struct se3 poses[N_VIEWS];
        struct align_source source = {views.settings.n_views, (const char *const *)views.names,
                                      views_load, &views};
        struct align_ranks one;
        struct align_result result;
        align_ranks_one(&one);
        align_settings_default(&settings);
        settings.backend = GPU_BACKEND_CPU;
        settings.n_threads = 1;
        settings.solve.iterations[0] = k % 3 ? 0 : 5;
        settings.solve.stop_spacings = 2e-3 * pow(1.13, k);
        memcpy(poses, views.T_world_start, sizeof poses);
        if (align_run(&source, &one, &settings, poses, NULL, NULL, &result) != 0)
            exit(2);
        iterations[k] = result.solution.n_iterations;
        rms_m[k] = result.solution.rms_m;
        align_result_free(&result);
    }
    golden_numbers("iterations", iterations, 12, 0);
    golden_numbers("rms_m", rms_m, 12, SHARE);
}

// Pairs without order among images of unlike size, and where the single moves lead.
static void many_parts(void)
{
    struct align_pair pairs[160];
    uint32_t weight[50], part[160], n = 0;
    struct partition_settings settings;
    struct partition_result result;
    golden_seed(8);
    for (uint32_t i = 0; i < 50; i++) {
        weight[i] = (uint32_t)golden_uniform(2e4, 2e5);
        for (uint32_t k = 0; k < 3 && i > 0; k++) {
            const uint32_t j = (uint32_t)golden_uniform(i > 9 ? i - 9 : 0, i);
            bool known = false;
            for (uint32_t m = 0; m < n; m++)
                known |= pairs[m].i == j && pairs[m].j == i;
            if (!known)
                pairs[n++] = (struct align_pair){j, i, 1, 1};
        }
    }
    golden_case("partition/many");
    golden_count("pairs", n);
    for (uint32_t parts = 3; parts <= 9; parts += 2) {
        double row[2] = {0};
        partition_settings_default(&settings);
        settings.n_parts = parts;
        golden_count("rc", partition_pairs(pairs, n, weight, 50, &settings, part, &result));
        for (uint32_t k = 0; k < n; k++)
            row[k % 2] += part[k] * (k * 37 % 101);
        golden_numbers("part", row, 2, 0);
        golden_count("largest", (int64_t)result.largest_weight);
        golden_number("imbalance", result.imbalance, SHARE);
    }
}

static void parts(void)
{
    struct align_pair pairs[60];
    uint32_t weight[30], part[60], n = 0;
    struct partition_settings settings;
    struct partition_result result;
    double row[60];
    for (uint32_t i = 0; i < 30; i++) {
        weight[i] = 60000 + 1000 * (i * 37 % 53);
        for (uint32_t step = 1; step <= 2; step++) {
            const uint32_t j = (i + step) % 30;
            pairs[n++] = (struct align_pair){i < j ? i : j, i < j ? j : i, 1, 1};
        }
    }
    partition_settings_default(&settings);
    settings.n_parts = 5;
    golden_case("partition");
    golden_count("rc", partition_pairs(pairs, n, weight, 30, &settings, part, &result));
    for (uint32_t k = 0; k < n; k++)
        row[k] = part[k];
    golden_numbers("part", row, n, 0);
    golden_number("imbalance", result.imbalance, SHARE);
    golden_count("largest", (int64_t)result.largest_weight);
    golden_count("paper", (int64_t)result.paper_largest_weight);
}

int main(int argc, char **argv)
{
    const struct views_settings of = {N_VIEWS, 2500, 0.01, 0.1, 0.03, 11};
    struct cloud none = {0};
    struct align_settings settings;
    struct align_image *image;
    golden_needs_fma();
    golden_begin(argc, argv);
    if (views_create(&views, &none, &of, &quiet) != 0 || views_load(&views, 3, &image) != 0)
        return 2;
    image_of("image/view", image);
    align_image_destroy(&image);
    grid();
    align_settings_default(&settings);
    settings.backend = GPU_BACKEND_CPU;
    settings.n_threads = 1;
    ring("ring", settings, true);
    settings.pairs.max_an_image = 4;
    settings.pairs.min_overlap = 0.7;
    settings.gate_m = 0.4;
    ring("ring/few_pairs", settings, false);
    align_settings_default(&settings);
    settings.backend = GPU_BACKEND_CPU;
    settings.n_threads = 1;
    const struct align_pair wrong[] = {{0, 5, 0, 0}, {2, 7, 0, 0}};
    settings.extra = wrong;
    settings.n_extra = 2;
    settings.pairs.relative = 0;
    settings.solve.refuse_scales = 1.1;
    ring("ring/wrong_pairs", settings, false);
    ends();
    parts();
    many_parts();
    views_free(&views);
    return golden_end();
}
