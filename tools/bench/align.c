// SPDX-License-Identifier: Apache-2.0
// posed-bench align: time and accuracy of the simultaneous alignment, on range images of a known
// model (the test of Oishi et al.), or on scans disturbed from known poses.
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "proto/clock.h"
#include "proto/se3.h"
#include "tools/align/compare_zoltan.h"
#include "tools/align/images.h"
#include "tools/align/views.h"
#include "tools/bench/align_options.h"
#include "tools/bench/bench.h"

// Images made once and kept: runs get copies.
struct kept {
    const struct align_source *from;
    struct align_image **images;
    struct align_source source;
};

static int load_kept(void *user, uint32_t image, struct align_image **out)
{
    struct kept *kept = user;
    if (!kept->images[image]) { // each image is one thread's
        int rc = kept->from->load(kept->from->user, image, &kept->images[image]);
        if (rc < 0)
            return rc;
    }
    return align_image_copy(out, kept->images[image]);
}

static int keep(struct kept *kept, const struct align_source *from)
{
    kept->from = from;
    kept->images = calloc(from->n_images, sizeof *kept->images);
    kept->source = (struct align_source){from->n_images, from->names, load_kept, kept};
    return kept->images ? 0 : -ENOMEM;
}

static void release(struct kept *kept)
{
    for (uint32_t i = 0; i < kept->source.n_images && kept->images; i++)
        align_image_destroy(&kept->images[i]);
    free(kept->images);
}

struct work {
    const struct bench_align_options *options;
    struct kept kept;
    const struct se3 *truth;
    struct se3 *start, *poses;
    struct align_pair *wrong;
};

static int watch(void *user, const struct align_progress *p)
{
    const struct work *w = user;
    if (w->options->verbose)
        fprintf(stderr,
                "level %u  %2u  step %9.4f mm  residual %8.4f mm  pairs %8.2f root %6.2f ms\n",
                p->level, p->iteration, 1e3 * p->step_m, 1e3 * p->rms_m, p->pairs_ms, p->solve_ms);
    return 0;
}

static int run(struct work *w, const struct align_settings *settings, struct align_result *out)
{
    struct align_ranks one;
    align_ranks_one(&one);
    memcpy(w->poses, w->start, w->kept.source.n_images * sizeof *w->poses);
    return align_run(&w->kept.source, &one, settings, w->poses, watch, w, out);
}

static uint32_t random_below(uint64_t *state, uint32_t n)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)((*state >> 33) % n);
}

// Pairs of images that do not belong together, as many as a share of the chosen ones.
static int add_wrong(struct work *w, struct align_settings *settings,
                     const struct align_result *chosen)
{
    uint32_t n = w->kept.source.n_images, wanted, tries = 0;
    uint64_t state = w->options->views.seed;
    wanted = (uint32_t)ceil(w->options->wrong_share * chosen->n_pairs);
    w->wrong = calloc(wanted + 1, sizeof *w->wrong);
    if (!w->wrong)
        return -ENOMEM;
    while (settings->n_extra < wanted && tries++ < 100 * wanted) {
        uint32_t i = random_below(&state, n), j = random_below(&state, n);
        bool bad = i >= j;
        for (uint32_t k = 0; k < chosen->n_pairs && !bad; k++)
            bad = chosen->pairs[k].i == i && chosen->pairs[k].j == j;
        for (uint32_t k = 0; k < settings->n_extra && !bad; k++)
            bad = w->wrong[k].i == i && w->wrong[k].j == j;
        if (!bad)
            w->wrong[settings->n_extra++] = (struct align_pair){i, j, 0, 0};
    }
    settings->extra = w->wrong;
    return 0;
}

static double median_spacing(const struct align_result *result, uint32_t n)
{
    double sum = 0;
    for (uint32_t i = 0; i < n; i++)
        sum += result->sketches[i].spacing_m;
    return sum / n;
}

// theirs: Zoltan's, NULL where this is built without it.
static void print_partition(const struct bench_align_options *o,
                            const struct partition_result *ours,
                            const struct partition_result *theirs, double ms)
{
    const double share = (double)ours->largest_weight / (double)ours->all_weight;
    const double paper = (double)ours->paper_largest_weight / (double)ours->all_weight;
    const double zoltan = theirs ? (double)theirs->largest_weight / (double)theirs->all_weight : 0;
    if (o->json) {
        printf("{\"parts\": %u, \"largest_share\": %.4f, \"imbalance\": %.4f, \"ms\": %.1f, "
               "\"paper_largest_share\": %.4f",
               o->n_parts, share, ours->imbalance, ms, paper);
        if (theirs)
            printf(", \"zoltan_largest_share\": %.4f, \"zoltan_imbalance\": %.4f", zoltan,
                   theirs->imbalance);
        printf("}\n");
        return;
    }
    printf("partition  %u ranks: largest memory %.4f of all, work within %.2f %%, %.1f ms (growth "
           "and net moves alone %.4f)\n",
           o->n_parts, share, 100 * ours->imbalance, ms, paper);
    if (theirs)
        printf("Zoltan PHG %u ranks: largest memory %.4f of all, work within %.2f %%; ours / "
               "Zoltan %.4f\n",
               o->n_parts, zoltan, 100 * theirs->imbalance, share / zoltan);
    else
        printf("SKIP: built without Zoltan: nothing to compare the partition with\n");
}

static int share_out(const struct bench_align_options *o, const struct align_result *result,
                     uint32_t n)
{
    uint32_t *weight = malloc(n * sizeof *weight), *part = malloc(result->n_pairs * sizeof *part);
    struct partition_settings settings = o->settings.partition;
    struct partition_result ours, theirs;
    int rc = weight && part ? 0 : -ENOMEM;
    settings.n_parts = o->n_parts;
    for (uint32_t i = 0; i < n && rc == 0; i++)
        weight[i] = result->sketches[i].n_vertices;
    double begin_ms = clock_monotonic_ms();
    if (rc == 0)
        rc = partition_pairs(result->pairs, result->n_pairs, weight, n, &settings, part, &ours);
    double ms = clock_monotonic_ms() - begin_ms;
    if (rc < 0)
        goto free_weight;
    int with = zoltan_partition(result->pairs, result->n_pairs, weight, n, &settings, part);
    rc = with == -ENOTSUP ? 0 : with;
    if (with == 0)
        rc =
            partition_measure(result->pairs, result->n_pairs, weight, n, o->n_parts, part, &theirs);
    if (rc == 0)
        print_partition(o, &ours, with == 0 ? &theirs : NULL, ms);
free_weight:
    free(weight);
    free(part);
    return rc;
}

static void print_accuracy(const struct work *w, const struct align_result *r, double start_mean_m,
                           uint32_t n_wrong)
{
    uint32_t n = w->kept.source.n_images;
    struct pose_errors e = views_errors(r->sketches, n, w->poses, w->truth);
    const struct align_pair_counts *c = &r->counts;
    if (w->options->json) {
        printf(
            "{\"images\": %u, \"device\": \"%s\", \"pairs\": %u, \"wrong_pairs\": %u, "
            "\"mean_error_m\": %.6g, "
            "\"worst_error_m\": %.6g, \"worst_rad\": %.6g, \"iterations\": %u, \"rms_m\": %.6g}\n",
            n, r->device, r->n_pairs, n_wrong, e.mean_m, e.worst_m, e.worst_rad,
            r->solution.n_iterations, r->solution.rms_m);
        return;
    }
    if (n_wrong > 0)
        printf("with %u wrong pairs:\n", n_wrong);
    printf("images     %u, spacing %.4g m (%s)\n", n, median_spacing(r, n), r->device);
    printf("pairs      %u of %u: %u boxes apart, %u seen from behind, %u little overlap, %u "
           "redundant; gate %.4g m\n",
           r->n_pairs, c->all, c->by_box, c->by_view, c->by_overlap, c->by_distance, r->gate_m);
    printf("accuracy   mean vertex error %.4g m (start %.4g), worst image %.4g m, %.4g rad; %u "
           "iterations, %s\n",
           e.mean_m, start_mean_m, e.worst_m, e.worst_rad, r->solution.n_iterations,
           r->solution.converged ? "converged" : "NOT converged");
}

static int time_iterations(struct work *w)
{
    const struct bench_align_options *o = w->options;
    struct align_settings settings = o->settings;
    struct align_result r;
    settings.solve.iterations[0] = o->iterations;
    settings.solve.iterations[1] = settings.solve.iterations[2] = 0;
    settings.solve.early_stop = false;
    int rc = run(w, &settings, &r);
    if (rc < 0)
        return rc;
    uint64_t tried = 0;
    for (uint32_t k = 0; k < r.n_pairs; k++)
        tried += r.sketches[r.pairs[k].i].n_vertices + r.sketches[r.pairs[k].j].n_vertices;
    double k = o->iterations, ms = (r.solution.pairs_ms + r.solution.solve_ms) / k;
    if (o->json)
        printf("{\"iterations\": %u, \"iteration_ms\": %.4f, \"pairs_ms\": %.4f, \"root_ms\": "
               "%.4f, \"all_s\": %.4f, \"ns_per_correspondence\": %.4f}\n",
               o->iterations, ms, r.solution.pairs_ms / k, r.solution.solve_ms / k, r.times.solve_s,
               1e6 * r.solution.pairs_ms / k / (double)tried);
    else
        printf("time       %u iterations at full resolution in %.4f s: %.3f ms each, pairs %.3f, "
               "root %.3f (%.2f %%); %.3f ns a correspondence\n",
               o->iterations, ms * k * 1e-3, ms, r.solution.pairs_ms / k, r.solution.solve_ms / k,
               100 * r.solution.solve_ms / (ms * k), 1e6 * r.solution.pairs_ms / k / (double)tried);
    align_result_free(&r);
    return 0;
}

static int bench_views(struct work *w)
{
    const struct bench_align_options *o = w->options;
    struct align_settings settings = o->settings;
    struct align_result r;
    int rc = run(w, &settings, &r);
    if (rc < 0)
        return rc;
    const double start_m =
        views_errors(r.sketches, w->kept.source.n_images, w->start, w->truth).mean_m;
    print_accuracy(w, &r, start_m, 0);
    if (o->wrong_share > 0) {
        rc = add_wrong(w, &settings, &r);
        align_result_free(&r);
        if (rc == 0)
            rc = run(w, &settings, &r);
        if (rc < 0)
            return rc;
        print_accuracy(w, &r, start_m, settings.n_extra);
    }
    if (o->n_parts)
        rc = share_out(o, &r, w->kept.source.n_images);
    align_result_free(&r);
    return rc == 0 && o->iterations ? time_iterations(w) : rc;
}

// Median point-to-plane distance over all pairs at these poses, gates fixed: the measure that the
// scans' own poses are held to.
static int neighbour_residual(const struct work *w, const struct align_result *r,
                              const struct se3 *poses, double gate_m, double *out_m);

static int compare_floats(const void *a, const void *b)
{
    float x = *(const float *)a, y = *(const float *)b;
    return (x > y) - (x < y);
}

static int neighbour_residual(const struct work *w, const struct align_result *r,
                              const struct se3 *poses, double gate_m, double *out_m)
{
    size_t n = 0, room = 0;
    for (uint32_t k = 0; k < r->n_pairs; k++)
        room += r->sketches[r->pairs[k].i].n_vertices + r->sketches[r->pairs[k].j].n_vertices;
    float *all = malloc((room + 1) * sizeof *all);
    if (!all)
        return -ENOMEM;
    for (uint32_t k = 0; k < 2 * r->n_pairs; k++) {
        uint32_t a = k & 1 ? r->pairs[k / 2].j : r->pairs[k / 2].i;
        uint32_t b = k & 1 ? r->pairs[k / 2].i : r->pairs[k / 2].j;
        const struct align_image *from = w->kept.images[a], *to = w->kept.images[b];
        struct se3 T = se3_between(&poses[b], &poses[a]);
        struct pair_pose narrow;
        struct pair_gates gates = {(float)gate_m, 0.7f, 0};
        for (int i = 0; i < 9; i++)
            narrow.r[i] = (float)T.r[i];
        for (int i = 0; i < 3; i++)
            narrow.t_m[i] = (float)T.t_m[i];
        for (uint32_t v = 0; v < from->n_level[0]; v++) {
            struct pair_vec3 p = {from->x_m[v], from->y_m[v], from->z_m[v]};
            struct pair_vec3 m = {from->nx[v], from->ny[v], from->nz[v]};
            struct pair_vec3 q = pair_transform(&narrow, p);
            struct pair_cell cell =
                pair_project(to->projection, (int32_t)to->width, (int32_t)to->height, q);
            struct pair_row row =
                pair_residual(&gates, cell.inside, q, pair_rotate(&narrow, m), 1.0f,
                              to->planes[(size_t)cell.v * to->width + (size_t)cell.u]);
            if (row.n != 0)
                all[n++] = fabsf(row.r_m);
        }
    }
    qsort(all, n, sizeof *all, compare_floats);
    *out_m = n ? (double)all[n / 2] : (double)NAN;
    free(all);
    return 0;
}

static int bench_conf(struct work *w, const struct images *images)
{
    const struct bench_align_options *o = w->options;
    uint64_t state = o->views.seed;
    uint32_t n = images->n, n_back = 0;
    double worst_m = 0, worst_rad = 0, before_m = 0, after_m = 0, own_m = 0, ms = 0;
    struct align_result r;
    // From the given poses themselves: what the alignment makes of them.
    memcpy(w->start, images->T_world_image, n * sizeof *w->start);
    int rc = run(w, &o->settings, &r);
    if (rc < 0)
        return rc;
    struct pose_errors self = views_errors(r.sketches, n, w->poses, w->truth);
    double gate_m = 2 * median_spacing(&r, n);
    rc = neighbour_residual(w, &r, w->truth, gate_m, &before_m);
    if (rc == 0)
        rc = neighbour_residual(w, &r, w->poses, gate_m, &after_m);
    printf("from the given poses: mean vertex error %.4f mm, worst %.4f mm, %.4f degrees\n",
           1e3 * self.mean_m, 1e3 * self.worst_m, self.worst_rad * 180 / M_PI);
    printf("median neighbour residual (|r| <= %.4g mm): given %.4f mm, aligned %.4f mm\n",
           1e3 * gate_m, 1e3 * before_m, 1e3 * after_m);
    double size_m = r.gate_m / 0.06;
    for (uint32_t seed = 0; seed < o->n_seeds && rc == 0; seed++) {
        for (uint32_t i = 0; i < n; i++) {
            double axis[3], move[3], norm = 0, length = 0;
            for (int k = 0; k < 3; k++) {
                axis[k] = (double)random_below(&state, 2000001) * 1e-6 - 1;
                move[k] = (double)random_below(&state, 2000001) * 1e-6 - 1;
                norm += axis[k] * axis[k];
                length += move[k] * move[k];
            }
            double twist[6] = {0}, at[3];
            for (int k = 0; k < 3; k++)
                twist[3 + k] = axis[k] / sqrt(norm) * o->disturb_rad;
            const double *middle = r.sketches[i].centre_m;
            struct se3 step = se3_exp(twist);
            se3_apply(&step, middle, at);
            for (int k = 0; k < 3; k++)
                step.t_m[k] =
                    middle[k] - at[k] + move[k] / sqrt(length) * o->disturb_share * size_m;
            w->start[i] = se3_compose(&images->T_world_image[i], &step);
        }
        struct align_result again;
        rc = run(w, &o->settings, &again);
        if (rc < 0)
            break;
        struct pose_errors e = views_errors(again.sketches, n, w->poses, w->truth);
        bool back = e.worst_rad <= 0.5 * M_PI / 180 && e.worst_m <= 0.5e-3;
        n_back += back;
        worst_m = fmax(worst_m, e.worst_m);
        worst_rad = fmax(worst_rad, e.worst_rad);
        ms += again.times.solve_s * 1e3;
        double residual_m = 0;
        rc = neighbour_residual(w, &r, w->poses, gate_m, &residual_m);
        own_m += residual_m / o->n_seeds;
        if (o->verbose || !back)
            printf("seed %u: %u pairs, worst image %.4f mm, %.4f degrees, %u iterations%s\n", seed,
                   again.n_pairs, 1e3 * e.worst_m, e.worst_rad * 180 / M_PI,
                   again.solution.n_iterations, back ? "" : "  NOT BACK");
        align_result_free(&again);
    }
    if (rc == 0)
        printf("disturbed by %.3g degrees and %.3g of the size: %u of %u back within 0.5 degrees "
               "and 0.5 mm; worst %.4f mm, %.4f degrees; median residual %.4f mm; %.0f ms each\n",
               o->disturb_rad * 180 / M_PI, o->disturb_share, n_back, o->n_seeds, 1e3 * worst_m,
               worst_rad * 180 / M_PI, 1e3 * own_m, ms / o->n_seeds);
    align_result_free(&r);
    return rc;
}

int bench_align(int argc, char **argv)
{
    struct bench_align_options o;
    bench_align_options_read(argc, argv, &o);
    struct work w = {.options = &o};
    struct views views = {0};
    struct images images = {0};
    struct align_source generated;
    struct cloud none = {0};
    int rc = o.conf ? images_open_conf(&images, o.conf, &o.settings.log)
                    : views_create(&views, &none, &o.views, &o.settings.log);
    if (rc < 0)
        return 4;
    uint32_t n = o.conf ? images.n : o.views.n_views;
    generated = (struct align_source){n, (const char *const *)views.names, views_load, &views};
    w.truth = o.conf ? images.T_world_image : views.T_world_truth;
    w.start = calloc(n, sizeof *w.start);
    w.poses = calloc(n, sizeof *w.poses);
    rc = w.start && w.poses ? keep(&w.kept, o.conf ? &images.source : &generated) : -ENOMEM;
    if (rc == 0 && !o.conf)
        memcpy(w.start, views.T_world_start, n * sizeof *w.start);
    if (rc == 0)
        rc = o.conf ? bench_conf(&w, &images) : bench_views(&w);
    release(&w.kept);
    free(w.start);
    free(w.poses);
    free(w.wrong);
    views_free(&views);
    images_free(&images);
    return rc == 0 ? 0 : rc == -ENODEV || rc == -ENOTSUP || rc == -EIO ? 5 : 1;
}
