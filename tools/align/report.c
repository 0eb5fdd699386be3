// SPDX-License-Identifier: Apache-2.0
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "capture/cloud/cloud.h"
#include "proto/se3.h"
#include "tools/align/align.h"

static const char *const state_names[] = {"used", "refused", "empty"};

static void put_string(FILE *file, const char *text)
{
    putc('"', file);
    for (; *text; text++)
        if (*text == '"' || *text == '\\')
            fprintf(file, "\\%c", *text);
        else if ((unsigned char)*text < 0x20)
            fprintf(file, "\\u%04x", *text);
        else
            putc(*text, file);
    putc('"', file);
}

static void put_head(FILE *f, const struct images *images, const struct align_result *r,
                     const struct align_ranks *ranks)
{
    const struct align_pair_counts *c = &r->counts;
    fprintf(f, "  \"images\": %u,\n  \"ranks\": %u,\n  \"device\": ", images->n, ranks->n);
    put_string(f, r->device);
    fprintf(f, ",\n  \"gate_m\": %.6g,\n", r->gate_m);
    fprintf(f,
            "  \"pairs\": {\"all\": %u, \"boxes_apart\": %u, \"seen_from_behind\": %u, "
            "\"little_overlap\": %u, \"redundant\": %u, \"kept\": %u, \"used\": %u},\n",
            c->all, c->by_box, c->by_view, c->by_overlap, c->by_distance, c->kept, r->n_pairs);
    fprintf(f,
            "  \"partition\": {\"imbalance\": %.5f, \"largest_vertices\": %llu, "
            "\"all_vertices\": %llu, \"idle_ranks\": %u},\n",
            r->partition.imbalance, (unsigned long long)r->partition.largest_weight,
            (unsigned long long)r->partition.all_weight, r->partition.n_idle);
    fprintf(f, "  \"memory\": {\"largest_rank_bytes\": %llu, \"least_rank_bytes\": %llu},\n",
            (unsigned long long)r->most_bytes, (unsigned long long)r->least_bytes);
    fprintf(f,
            "  \"times_s\": {\"sketches\": %.4f, \"pairs\": %.4f, \"partition\": %.4f, "
            "\"load\": %.4f, \"solve\": %.4f},\n",
            r->times.sketch_s, r->times.choose_s, r->times.partition_s, r->times.load_s,
            r->times.solve_s);
    const struct align_solution *s = &r->solution;
    fprintf(f,
            "  \"solve\": {\"converged\": %s, \"iterations\": %u, \"rms_m\": %.6g, "
            "\"last_step_m\": %.6g, \"pairs_ms\": %.3f, \"root_ms\": %.3f},\n",
            s->converged ? "true" : "false", s->n_iterations, s->rms_m, s->step_m, s->pairs_ms,
            s->solve_ms);
    fprintf(f, "  \"parts\": %u,\n", r->n_parts);
}

static void put_error(FILE *f, const struct camera_error *e)
{
    if (!e->is_tried)
        return;
    fprintf(f,
            "  \"camera_error\": {\"taken_out\": %s, \"images\": %u, \"pairs\": %u, "
            "\"pairs_aside\": %u",
            e->is_taken ? "true" : "false", e->report.n_frames, e->report.n_pairs,
            e->report.n_pairs_aside);
    if (e->is_learnt)
        fprintf(f, ", \"rms_per_m\": %.4g, \"reduction\": %.4f},\n", e->report.rms_per_m,
                e->report.reduction);
    else {
        fprintf(f, ", \"reason\": ");
        put_string(f, e->reason);
        fprintf(f, "},\n");
    }
}

static void print_error(const struct camera_error *e)
{
    if (!e->is_tried)
        return;
    if (!e->is_learnt) {
        printf("camera     its own error is not known: %s\n", e->reason);
        return;
    }
    printf("camera     its own error, %.1f mm at 1 m, %s: %.0f %% less residual in %u pairs kept "
           "aside (%.0f %% are needed)\n",
           1e3 * e->report.rms_per_m, e->is_taken ? "is taken out" : "stays in",
           100 * e->report.reduction, e->report.n_pairs_aside, 100 * FIELD_MIN_REDUCE);
}

static void put_regions(FILE *f, const double regions_m[REPORT_REGIONS])
{
    fprintf(f, ",\n     \"regions_m\": [");
    for (int k = 0; k < REPORT_REGIONS; k++)
        if (isnan(regions_m[k]))
            fprintf(f, "%snull", k ? ", " : "");
        else
            fprintf(f, "%s%.4g", k ? ", " : "", regions_m[k]);
    fprintf(f, "]");
}

int report_write_json(const char *path, const struct align_options *options,
                      const struct images *images, const struct align_result *r,
                      const struct camera_error *error, const struct se3 *T_world_image,
                      const double *regions_m, const struct align_ranks *ranks)
{
    FILE *f = path ? fopen(path, "w") : stdout;
    if (!f) {
        log_to(&images->log, LOG_LEVEL_ERROR, "%s: %s", path, strerror(errno));
        return -EIO;
    }
    fprintf(f, "{\n");
    put_head(f, images, r, ranks);
    put_error(f, error);
    fprintf(f, "  \"out\": ");
    put_string(f, options->out ? options->out : "");
    fprintf(f, ",\n  \"image\": [\n");
    for (uint32_t i = 0; i < images->n; i++) {
        double q[4];
        const double *t = T_world_image[i].t_m, *c = r->solution.covariance + 36 * (size_t)i;
        se3_to_quaternion(&T_world_image[i], q);
        fprintf(f, "    {\"name\": ");
        put_string(f, images->names[i]);
        fprintf(f, ", \"fixed\": %s, \"part\": %u, \"vertices\": %u,\n",
                r->fixed[i] ? "true" : "false", r->part[i], r->sketches[i].n_vertices);
        fprintf(f,
                "     \"t_m\": [%.9g, %.9g, %.9g], \"q_xyzw\": [%.9g, %.9g, %.9g, %.9g],\n"
                "     \"std_m_rad\": [",
                t[0], t[1], t[2], q[0], q[1], q[2], q[3]);
        for (int k = 0; k < 6; k++)
            fprintf(f, "%s%.4g", k ? ", " : "", c[7 * k] > 0 ? sqrt(c[7 * k]) : 0);
        fprintf(f, "]");
        if (regions_m)
            put_regions(f, regions_m + REPORT_REGIONS * (size_t)i);
        fprintf(f, "}%s\n", i + 1 < images->n ? "," : "");
    }
    fprintf(f, "  ],\n  \"pair\": [\n");
    for (uint32_t k = 0; k < r->n_pairs; k++) {
        const struct align_pair_result *p = &r->solution.pairs[k];
        fprintf(f,
                "    {\"i\": %u, \"j\": %u, \"rank\": %u, \"overlap\": %.3f, \"rms_m\": %.6g, "
                "\"scale\": %.3f, \"correspondences\": %.0f, \"state\": \"%s\"}%s\n",
                r->pairs[k].i, r->pairs[k].j, r->owner[k], (double)r->pairs[k].overlap, p->rms_m,
                p->scale, p->n, state_names[p->state], k + 1 < r->n_pairs ? "," : "");
    }
    fprintf(f, "  ]\n}\n");
    bool bad = ferror(f);
    if (path)
        bad = fclose(f) != 0 || bad;
    else
        bad = fflush(f) != 0 || bad;
    if (bad)
        log_to(&images->log, LOG_LEVEL_ERROR, "%s: could not write it", path ? path : "stdout");
    return bad ? -EIO : 0;
}

void report_print(const struct images *images, const struct align_result *r,
                  const struct camera_error *error, const struct align_ranks *ranks)
{
    const struct align_pair_counts *c = &r->counts;
    uint32_t n_state[3] = {0};
    for (uint32_t k = 0; k < r->n_pairs; k++)
        n_state[r->solution.pairs[k].state]++;
    printf("images     %u on %u rank%s (%s)\n", images->n, ranks->n, ranks->n == 1 ? "" : "s",
           r->device);
    print_error(error);
    printf("pairs      %u of %u: %u with boxes apart, %u seen from behind, %u with little overlap, "
           "%u redundant\n",
           r->n_pairs, c->all, c->by_box, c->by_view, c->by_overlap, c->by_distance);
    if (n_state[1] + n_state[2])
        printf("           %u refused by their residual, %u without correspondences\n", n_state[1],
               n_state[2]);
    if (ranks->n > 1)
        printf("partition  work within %.1f %% of the average; memory of a rank at most %.1f %% of "
               "all\n",
               100 * r->partition.imbalance,
               100 * (double)r->partition.largest_weight / (double)r->partition.all_weight);
    printf("solve      %u iterations, %s, last step %.3g mm, residual %.4g mm\n",
           r->solution.n_iterations, r->solution.converged ? "converged" : "NOT converged",
           1e3 * r->solution.step_m, 1e3 * r->solution.rms_m);
    printf("time       %.2f s sketches, %.3f pairs, %.3f partition, %.2f load, %.3f solve (root "
           "%.1f %%)\n",
           r->times.sketch_s, r->times.choose_s, r->times.partition_s, r->times.load_s,
           r->times.solve_s,
           100 * r->solution.solve_ms / (r->solution.solve_ms + r->solution.pairs_ms + 1e-9));
}

int report_write_merged(const char *path, const struct images *images,
                        const struct se3 *T_world_image)
{
    struct cloud all = {0};
    int rc = 0;
    for (uint32_t i = 0; i < images->n && rc == 0; i++) {
        struct align_image *image = NULL;
        rc = images->source.load(images->source.user, i, &image);
        if (rc < 0)
            break;
        size_t first = all.n_points, n = first + image->n_level[0];
        float **columns[6] = {&all.x_m, &all.y_m, &all.z_m, &all.nx, &all.ny, &all.nz};
        for (int k = 0; k < 6 && rc == 0; k++) {
            float *grown = realloc(*columns[k], n * sizeof *grown);
            if (grown)
                *columns[k] = grown;
            else
                rc = -ENOMEM;
        }
        const double *r = T_world_image[i].r, *t = T_world_image[i].t_m;
        for (uint32_t k = 0; k < image->n_level[0] && rc == 0; k++) {
            double p[3] = {(double)image->x_m[k], (double)image->y_m[k], (double)image->z_m[k]};
            double m[3] = {(double)image->nx[k], (double)image->ny[k], (double)image->nz[k]};
            for (int a = 0; a < 3; a++) {
                (*columns[a])[first + k] =
                    (float)(r[3 * a] * p[0] + r[3 * a + 1] * p[1] + r[3 * a + 2] * p[2] + t[a]);
                (*columns[3 + a])[first + k] =
                    (float)(r[3 * a] * m[0] + r[3 * a + 1] * m[1] + r[3 * a + 2] * m[2]);
            }
        }
        all.n_points = rc == 0 ? n : first;
        align_image_destroy(&image);
    }
    if (rc == 0) {
        struct point_set points = cloud_points(&all);
        rc = cloud_write_ply(path, &points, &images->log);
    }
    cloud_free(&all);
    return rc;
}
