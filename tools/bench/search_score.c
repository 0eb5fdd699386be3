// SPDX-License-Identifier: Apache-2.0
// How often and how well the pose search finds objects in synthetic scenes.
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gpu/search/kernels/pose.h"
#include "gpu/search/object/view_rotations.h"
#include "proto/se3.h"
#include "tools/bench/bench.h"
#include "tools/bench/search.h"
#include "tools/bench/search_ambiguity.h"
#include "tools/bench/search_metrics.h"
#include "tools/bench/search_outline.h"

// Beyond this an answer is asked about: whether the image allows its turn (search_ambiguity.h).
// Below, the error against the object's own symmetry stands for both.
#define ASKED_DEG 1

struct tally {
    uint32_t n, n_right, n_accepted, n_false_accepted, n_present, n_view_right;
    uint32_t capacity;
    uint32_t n_off, n_allowed; // right, but off by more than ASKED_DEG; of these not for the image
    double sum_deg, sum_image_deg; // of right answers: against the object's symmetry, and the image
    double sum_mm, sum_axis_deg, sum_view_deg;
    double *deg, *all_deg; // of right answers, and of all where the object is; for the medians
    double *view_deg;      // germann: of the bare views, of all where the object is
    uint32_t bin_n[10], bin_right[10]; // by confidence
    double bin_sum[10];
    struct outline_statistics outline;
};

struct score_job {
    const struct testscene_mesh *mesh;
    const struct search_object *object;
    const struct bench_search_options *o;
    double diameter;
    struct ambiguity_axes axes;
};

// Angle between two poses [degrees], the smallest that a symmetry of the object allows.
static double degrees_between(const struct search_object_info *info, const struct se3 *a,
                              const struct se3 *b)
{
    if (info->symmetry == SEARCH_SYMMETRY_SPHERE)
        return 0;
    struct se3 difference = se3_between(a, b);
    double best = se3_angle(&difference);
    if (info->symmetry == SEARCH_SYMMETRY_REVOLUTION) {
        double turned[3], dot = 0;
        for (int i = 0; i < 3; i++) {
            turned[i] = 0;
            for (int k = 0; k < 3; k++)
                turned[i] += difference.r[3 * i + k] * info->axis[k];
            dot += turned[i] * info->axis[i];
        }
        best = acos(dot > 1 ? 1 : dot);
    }
    for (uint32_t k = 1; info->symmetry == SEARCH_SYMMETRY_FOLD && k < info->fold; k++) {
        double twist[6] = {0};
        for (int i = 0; i < 3; i++)
            twist[3 + i] = info->axis[i] * 2 * M_PI * k / info->fold;
        struct se3 turn = se3_exp(twist), turned = se3_compose(b, &turn);
        difference = se3_between(a, &turned);
        double angle = se3_angle(&difference);
        best = angle < best ? angle : best;
    }
    return best * 180 / M_PI;
}

// How near the nearest of the even reference views comes to the true pose [degrees]: no search that
// answers with a view can do better on average.
static double nearest_view_degrees(const struct search_object_info *info, const struct se3 *truth)
{
    struct search_candidate c;
    double centre[3];
    se3_apply(truth, info->centre_m, centre);
    for (int i = 0; i < 9; i++)
        c.rotation[i] = (float)truth->r[i];
    for (int i = 0; i < 3; i++)
        c.t_m[i] = (float)centre[i];
    float seen[9], view[9];
    search_seen_rotation(&c, seen);
    double best = M_PI;
    for (uint32_t i = 0; i < info->n_views; i++) {
        search_rotation(i, info->n_views, view);
        double angle = search_rotation_angle(seen, view);
        best = angle < best ? angle : best;
    }
    return best * 180 / M_PI;
}

static bool is_right(const struct score_job *job, const struct se3 *T_estimate,
                     const struct se3 *T_truth, double *out_add_s)
{
    const struct testscene_mesh *mesh = job->mesh;
    const struct metric_points points = {mesh->vertices_m, mesh->n_vertices};
    *out_add_s = metric_add_s(&points, mesh->n_vertices / 500 + 1, T_estimate, T_truth);
    return *out_add_s < 0.1 * job->diameter;
}

// Angle to the nearest pose that the image allows [degrees], `deg` being that to the true one.
static int image_degrees(const struct score_job *job, const struct testscene *scene,
                         const struct search_object_info *info, const struct se3 *T_estimate,
                         double deg, double *out_deg)
{
    struct se3 *allowed = malloc(AMBIGUITY_MAX * sizeof *allowed);
    uint32_t n = 0;
    int err = allowed ? ambiguity_poses(job->mesh, &job->axes, scene, allowed, &n) : -ENOMEM;
    *out_deg = deg;
    for (uint32_t i = 0; i < n && !err; i++)
        *out_deg = fmin(*out_deg, degrees_between(info, &allowed[i], T_estimate));
    free(allowed);
    return err;
}

static int score_right(const struct score_job *job, const struct testscene *scene,
                       const struct search_object_info *info, const struct se3 *T_estimate,
                       double deg, double add, struct tally *tally)
{
    const struct se3 *T_truth = &scene->T_camera_model;
    double image_deg = deg;
    int err = deg > ASKED_DEG ? image_degrees(job, scene, info, T_estimate, deg, &image_deg) : 0;
    if (err)
        return err;
    struct se3 difference = se3_between(T_truth, T_estimate);
    double twist[6];
    se3_log(&difference, twist);
    tally->deg[tally->n_right++] = deg;
    tally->sum_deg += deg;
    tally->sum_image_deg += image_deg;
    tally->n_off += deg > ASKED_DEG;
    tally->n_allowed += deg > ASKED_DEG && image_deg <= ASKED_DEG;
    tally->sum_mm += add * 1e3;
    for (int k = 3; k < 6; k++)
        tally->sum_axis_deg += fabs(twist[k]) * 180 / M_PI / 3;
    if (job->o->preset == SEARCH_PRESET_GERMANN && !job->o->greedy)
        tally->sum_view_deg += nearest_view_degrees(info, T_truth);
    if (job->o->each && deg > ASKED_DEG)
        printf("against what the image allows: %.2f degrees\n", image_deg);
    return 0;
}

static int score_scene(const struct score_job *job, bool absent, const struct testscene *scene,
                       const struct search_answer *answer, struct tally *tally)
{
    const struct se3 *truth = &scene->T_camera_model;
    const struct metric_points points = {job->mesh->vertices_m, job->mesh->n_vertices};
    tally->n++;
    if (!absent) {
        tally->all_deg[tally->n_present] = tally->view_deg[tally->n_present] = 180; // no answer
        tally->n_present++;
    }
    if (answer->n_poses == 0)
        return 0;
    const struct search_pose *pose = &answer->poses[0];
    struct search_object_info info;
    search_object_describe(job->object, &info);
    double view_add_s, add_s, add = metric_add(&points, &pose->T_camera_model, truth);
    double deg = degrees_between(&info, truth, &pose->T_camera_model);
    bool right = is_right(job, &pose->T_camera_model, truth, &add_s) && !absent;
    uint32_t bin = (uint32_t)(pose->confidence * 9.999f);
    tally->bin_n[bin]++;
    tally->bin_right[bin] += right;
    tally->bin_sum[bin] += (double)pose->confidence;
    tally->n_accepted += pose->accepted;
    tally->n_false_accepted += pose->accepted && !right;
    if (!absent) {
        tally->all_deg[tally->n_present - 1] = deg;
        tally->view_deg[tally->n_present - 1] = degrees_between(&info, truth, &pose->T_camera_view);
        tally->n_view_right += is_right(job, &pose->T_camera_view, truth, &view_add_s);
    }
    if (job->o->each)
        printf("scene %u: visible %.2f, %s, %.2f degrees, ADD %.4f m, ADD-S %.4f m, confidence "
               "%.3f, shown %.3f, contradicted %.4f, ended %.4f, continued %.4f, score %.4f, rival "
               "%.4f, residual %.5f m, pixels %u\n",
               tally->n - 1, absent ? 0 : (double)scene->visible, right ? "right" : "wrong", deg,
               add, add_s, (double)pose->confidence, (double)pose->visible,
               (double)pose->contradicted, (double)pose->ended, (double)pose->continued,
               (double)pose->score, (double)pose->rival, (double)pose->residual_rms_m,
               pose->n_pixels);
    return right ? score_right(job, scene, &info, &pose->T_camera_model, deg, add, tally) : 0;
}

static int tally_reserve(struct tally *tally, uint32_t n_more)
{
    const uint32_t n = tally->n_present + n_more;
    double **const arrays[] = {&tally->deg, &tally->all_deg, &tally->view_deg};
    for (size_t k = 0; k < sizeof arrays / sizeof *arrays && n > tally->capacity; k++) {
        double *more = realloc(*arrays[k], n * sizeof *more);
        if (!more)
            return -ENOMEM;
        *arrays[k] = more;
    }
    tally->capacity = n > tally->capacity ? n : tally->capacity;
    return 0;
}

static void tally_free(struct tally *tally)
{
    free(tally->deg);
    free(tally->all_deg);
    free(tally->view_deg);
}

static void print_tally(const struct bench_search_options *o, struct tally *tally)
{
    const double n_right = tally->n_right ? tally->n_right : 1;
    const double n_present = tally->n_present ? tally->n_present : 1;
    struct bench_stats deg = bench_stats(tally->deg, tally->n_right);
    struct bench_stats all_deg = bench_stats(tally->all_deg, tally->n_present);
    struct bench_stats view_deg = bench_stats(tally->view_deg, tally->n_present);
    if (o->json) {
        printf("{\"scenes\": %u, \"present\": %u, \"right\": %u, \"recall\": %.4f, "
               "\"mean_deg\": %.4f, \"median_deg\": %.4f, \"median_all_deg\": %.4f, "
               "\"mean_add_mm\": %.4f, \"accepted\": %u, \"false_accepted\": %u, "
               "\"off\": %u, \"off_allowed\": %u, \"mean_image_deg\": %.4f",
               tally->n, tally->n_present, tally->n_right, tally->n_right / n_present,
               tally->sum_deg / n_right, deg.p50_us, all_deg.p50_us, tally->sum_mm / n_right,
               tally->n_accepted, tally->n_false_accepted, tally->n_off, tally->n_allowed,
               tally->sum_image_deg / n_right);
        if (o->preset == SEARCH_PRESET_GERMANN)
            printf(", \"view_right\": %u, \"view_median_all_deg\": %.4f", tally->n_view_right,
                   view_deg.p50_us);
        printf("}\n");
        return;
    }
    printf("%u scenes, the object in %u: %u right (ADD-S < 0.1 d), recall %.1f %%\n", tally->n,
           tally->n_present, tally->n_right, 100 * tally->n_right / n_present);
    printf("right ones: rotation mean %.2f median %.2f max %.2f degrees, ADD mean %.2f mm; median "
           "of all %.2f degrees\n",
           tally->sum_deg / n_right, deg.p50_us, deg.max_us, tally->sum_mm / n_right,
           all_deg.p50_us);
    printf("against what the image allows: mean %.2f degrees; %u off by more than %d degree, %u of "
           "these not against the image\n",
           tally->sum_image_deg / n_right, tally->n_off, ASKED_DEG, tally->n_allowed);
    if (o->preset == SEARCH_PRESET_GERMANN)
        printf("the bare views, as the paper has them: %u right, median of all %.2f degrees\n",
               tally->n_view_right, view_deg.p50_us);
    if (o->preset == SEARCH_PRESET_GERMANN && !o->greedy)
        printf("right ones: mean of the three angles %.2f degrees; nearest view of the set, mean "
               "%.2f degrees\n",
               tally->sum_axis_deg / n_right, tally->sum_view_deg / n_right);
    printf("accepted: %u, of these wrong: %u (%.1f %% of all scenes)\n", tally->n_accepted,
           tally->n_false_accepted, 100.0 * tally->n_false_accepted / (tally->n ? tally->n : 1));
    for (int b = 0; b < 10; b++)
        if (tally->bin_n[b])
            printf("confidence %.1f .. %.1f: %4u answers, said %5.1f %%, right %5.1f %%\n", 0.1 * b,
                   0.1 * (b + 1), tally->bin_n[b], 100 * tally->bin_sum[b] / tally->bin_n[b],
                   100.0 * tally->bin_right[b] / tally->bin_n[b]);
}

static int add_outline(const struct bench_search_model *model, const struct testscene *scene,
                       struct tally *tally)
{
    const struct depth_frame frame = {scene->depth, scene->camera.width_px, scene->camera.height_px,
                                      1000, 0};
    float *z = malloc((size_t)frame.width_px * frame.height_px * sizeof *z);
    int err = z ? search_draw(model->object, &scene->camera, &scene->T_camera_model, z) : -ENOMEM;
    err = err ? err : outline_add(z, &frame, &tally->outline);
    free(z);
    return err;
}

// Adds o->n_scenes scenes; those in which no arrangement showed so much of the object are left out.
static int score_scenes(struct search *search, const struct bench_search_model *model,
                        const struct bench_search_options *o, struct tally *tally)
{
    const struct testscene_mesh *mesh = &model->mesh;
    const struct metric_points points = {mesh->vertices_m, mesh->n_vertices};
    struct score_job job = {mesh, model->object, o, metric_diameter(&points), {{0}, {{0}}}};
    ambiguity_axes_of(model->object, &job.axes);
    int err = tally_reserve(tally, o->n_scenes);
    for (uint32_t i = 0; i < o->n_scenes && !err; i++) {
        struct testscene_settings settings = bench_search_scene(o, i);
        struct testscene scene;
        struct search_answer answer;
        err = testscene_create(mesh, &settings, &scene);
        if (err)
            break;
        const bool wanted =
            scene.visible >= settings.visible_min && scene.visible <= settings.visible_max;
        if (wanted && o->outline)
            err = add_outline(model, &scene, tally);
        else if (wanted)
            err = bench_search_run(search, model->object, &scene, o, &answer);
        if (!err && wanted && !o->outline)
            err = score_scene(&job, settings.absent, &scene, &answer, tally);
        testscene_free(&scene);
    }
    if (err)
        fprintf(stderr, "posed-bench: %s\n", strerror(-err));
    return err ? 1 : 0;
}

int bench_search_score(struct search *search, const struct bench_search_model *model,
                       const struct bench_search_options *o)
{
    struct tally tally = {0};
    int status = score_scenes(search, model, o, &tally);
    if (!status && o->outline)
        outline_print(&tally.outline);
    else if (!status)
        print_tally(o, &tally);
    tally_free(&tally);
    return status;
}

// ---- The table of requirements

struct requirement {
    const char *what, *name;
    float visible_min, visible_max;
    bool absent;
};

static const struct requirement requirements[] = {
    {"60 % and more visible", "visible_60", 0.6f, 1, false},
    {"40 to 60 % visible", "visible_40", 0.4f, 0.6f, false},
    {"30 % visible", "visible_30", 0.27f, 0.33f, false},
    {"absent", "absent", 0.6f, 1, true},
};

#define N_REQUIREMENTS (sizeof requirements / sizeof *requirements)

static void print_requirements(const struct bench_search_options *o,
                               const struct tally tallies[N_REQUIREMENTS])
{
    for (size_t k = 0; k < N_REQUIREMENTS; k++) {
        const struct tally *t = &tallies[k];
        const double n_right = t->n_right ? t->n_right : 1;
        if (o->json)
            printf("%s\"%s\": {\"scenes\": %u, \"right\": %u, \"mean_deg\": %.4f, "
                   "\"mean_image_deg\": %.4f, \"off\": %u, \"off_allowed\": %u, "
                   "\"accepted\": %u, \"false_accepted\": %u}%s",
                   k == 0 ? "{" : ", ", requirements[k].name, t->n, t->n_right,
                   t->sum_deg / n_right, t->sum_image_deg / n_right, t->n_off, t->n_allowed,
                   t->n_accepted, t->n_false_accepted, k == N_REQUIREMENTS - 1 ? "}\n" : "");
        else if (requirements[k].absent)
            printf("%-22s %5u scenes, %u accepted\n", requirements[k].what, t->n, t->n_accepted);
        else
            printf(
                "%-22s %5u scenes, %u right (%.1f %%): rotation mean %.2f degrees, %.2f against "
                "what the image allows; %u off by more than %d degree, %u of these not against the "
                "image; accepted %u right and %u wrong\n",
                requirements[k].what, t->n, t->n_right, 100.0 * t->n_right / (t->n ? t->n : 1),
                t->sum_deg / n_right, t->sum_image_deg / n_right, t->n_off, ASKED_DEG, t->n_allowed,
                t->n_accepted - t->n_false_accepted, t->n_false_accepted);
    }
}

int bench_search_requirements(struct search *search, const struct bench_search_options *o)
{
    static const char *const built_in[TESTSCENE_N_OBJECTS] = {"elbow", "drill", "mug", "duck"};
    struct tally tallies[N_REQUIREMENTS] = {0};
    const uint32_t n = o->model ? 1 : TESTSCENE_N_OBJECTS + o->n_requirements;
    int status = 0;
    for (uint32_t i = 0; i < n && !status; i++) {
        char assembled[32];
        snprintf(assembled, sizeof assembled, "random:%u", 1001 + i - TESTSCENE_N_OBJECTS);
        const char *name = o->model ? o->model : i < TESTSCENE_N_OBJECTS ? built_in[i] : assembled;
        struct bench_search_model model;
        status = bench_search_open(search, name, o, &model);
        for (size_t k = 0; k < N_REQUIREMENTS && !status; k++) {
            struct bench_search_options one = *o;
            one.n_scenes = o->n_scenes ? o->n_scenes : 10;
            one.visible_min = requirements[k].visible_min;
            one.visible_max = requirements[k].visible_max;
            one.absent = requirements[k].absent;
            one.seed = o->seed + (uint32_t)k;
            status = score_scenes(search, &model, &one, &tallies[k]);
        }
        bench_search_close(search, &model);
    }
    if (!status)
        print_requirements(o, tallies);
    for (size_t k = 0; k < N_REQUIREMENTS; k++)
        tally_free(&tallies[k]);
    return status;
}
