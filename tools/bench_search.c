// SPDX-License-Identifier: Apache-2.0
// posed-bench search: times the pose search on a synthetic scene, or counts over many scenes how
// often and how well it finds the object.
#include <argp.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "capture/cloud.h"
#include "gpu/kernels/search_pose.h"
#include "gpu/search_views.h"
#include "proto/se3.h"
#include "tools/bench.h"
#include "tools/search_metrics.h"
#include "tools/testscene.h"

struct options {
    const char *model; // file, or one of the built-in names
    uint32_t n_views, n_iterations, n_coarse, n_threads, n_repeats, n_scenes, seed;
    enum search_preset preset;
    enum gpu_backend backend;
    float visible_min, visible_max;
    bool absent, mixed, greedy, json, each;
};

enum {
    OPTION_COARSE = 1000,
    OPTION_SCENES,
    OPTION_VISIBLE,
    OPTION_ABSENT,
    OPTION_MIXED,
    OPTION_GREEDY,
    OPTION_EACH
};

static const struct argp_option argp_options[] = {
    {"model", 'm', "FILE", 0, "PLY mesh, or elbow, drill, mug, duck (built in; default duck)", 0},
    {"views", 'v', "N", 0, "reference views (default 8192; germann 2048)", 0},
    {"greedy", OPTION_GREEDY, NULL, 0, "views by the paper's choice instead of even ones", 0},
    {"preset", 'p', "NAME", 0, "germann: the paper's search; default: the whole of ours", 0},
    {"iterations", 'i', "N", 0, "simplex iterations of germann (default 15)", 0},
    {"coarse", OPTION_COARSE, "N", 0, "germann: fit about N views that a coarse pass picks", 0},
    {"backend", 'b', "NAME", 0, "auto, cpu or cuda", 0},
    {"threads", 't', "N", 0, "CPU threads (0 = all)", 0},
    {"repeat", 'r', "N", 0, "timed requests (default 20)", 0},
    {"scenes", OPTION_SCENES, "N", 0, "judge N scenes instead of timing one", 0},
    {"visible", OPTION_VISIBLE, "A:B", 0, "share of the object that is seen (default 0.6:1)", 0},
    {"absent", OPTION_ABSENT, NULL, 0, "scenes without the object: false accepts", 0},
    {"mixed", OPTION_MIXED, NULL, 0,
     "scenes in turn: 60 % and more, 40 to 60, 25 to 40 visible, absent: how far confidence holds",
     0},
    {"each", OPTION_EACH, NULL, 0, "one line a scene", 0},
    {"seed", 's', "N", 0, "of the scenes (default 1)", 0},
    {"json", 'j', NULL, 0, "JSON on stdout", 0},
    {0},
};

static bool take_number(const char *text, double low, double high, uint32_t *out)
{
    double value;
    if (!bench_parse(text, low, high, &value))
        return false;
    *out = (uint32_t)value;
    return true;
}

static error_t parse_option(int key, char *text, struct argp_state *state)
{
    struct options *o = state->input;
    bool good = true;
    switch (key) {
    case 'm':
        o->model = text;
        break;
    case 'v':
        good = take_number(text, 64, SEARCH_VIEWS_MAX, &o->n_views);
        break;
    case 'p':
        o->preset = strcmp(text, "germann") == 0 ? SEARCH_PRESET_GERMANN : SEARCH_PRESET_DEFAULT;
        good = strcmp(text, "germann") == 0 || strcmp(text, "default") == 0;
        break;
    case 'i':
        good = take_number(text, 1, 1000, &o->n_iterations);
        break;
    case OPTION_COARSE:
        good = take_number(text, 0, SEARCH_VIEWS_MAX, &o->n_coarse);
        break;
    case 'b':
        o->backend = strcmp(text, "cpu") == 0    ? GPU_BACKEND_CPU
                     : strcmp(text, "cuda") == 0 ? GPU_BACKEND_CUDA
                                                 : GPU_BACKEND_AUTO;
        good = o->backend != GPU_BACKEND_AUTO || strcmp(text, "auto") == 0;
        break;
    case 't':
        good = take_number(text, 0, 1024, &o->n_threads);
        break;
    case 'r':
        good = take_number(text, 1, 100000, &o->n_repeats);
        break;
    case OPTION_SCENES:
        good = take_number(text, 1, 1000000, &o->n_scenes);
        break;
    case OPTION_VISIBLE:
        good = sscanf(text, "%f:%f", &o->visible_min, &o->visible_max) == 2 &&
               o->visible_min >= 0 && o->visible_max <= 1 && o->visible_min < o->visible_max;
        break;
    case OPTION_ABSENT:
        o->absent = true;
        break;
    case OPTION_MIXED:
        o->mixed = true;
        break;
    case OPTION_GREEDY:
        o->greedy = true;
        break;
    case OPTION_EACH:
        o->each = true;
        break;
    case 's':
        good = take_number(text, 0, 4e9, &o->seed);
        break;
    case 'j':
        o->json = true;
        break;
    default:
        return ARGP_ERR_UNKNOWN;
    }
    if (!good)
        argp_error(state, "bad value: %s", text);
    return 0;
}

static int load_model(const char *name, const struct log_sink *log, struct testscene_mesh *out)
{
    static const char *const names[TESTSCENE_N_OBJECTS] = {"elbow", "drill", "mug", "duck"};
    for (int i = 0; i < TESTSCENE_N_OBJECTS; i++)
        if (strcmp(name, names[i]) == 0)
            return testscene_mesh_make((enum testscene_object)i, out);
    struct cloud cloud;
    int err = cloud_read(name, log, &cloud);
    if (err)
        return err;
    out->vertices_m = malloc((cloud.n_points + 1) * 3 * sizeof *out->vertices_m);
    out->triangles = cloud.triangles;
    out->n_triangles = cloud.n_triangles;
    out->n_vertices = cloud.n_points;
    for (size_t i = 0; out->vertices_m && i < cloud.n_points; i++) {
        out->vertices_m[3 * i] = cloud.x_m[i];
        out->vertices_m[3 * i + 1] = cloud.y_m[i];
        out->vertices_m[3 * i + 2] = cloud.z_m[i];
    }
    cloud.triangles = NULL; // ours now
    cloud_free(&cloud);
    return out->vertices_m ? 0 : -ENOMEM;
}

static int run_scene(struct search *search, const struct search_object *object,
                     const struct testscene *scene, const struct options *o,
                     struct search_answer *out)
{
    struct search_image image = {
        .frame = {scene->depth, scene->camera.width_px, scene->camera.height_px, 1000, 0},
        .camera = scene->camera};
    struct search_query query;
    search_query_default(&query);
    query.preset = o->preset;
    query.n_iterations = o->n_iterations;
    query.n_coarse = o->n_coarse;
    return search_run(search, object, &image, &query, out, NULL);
}

static struct testscene_settings scene_of(const struct options *o, uint32_t index)
{
    struct testscene_settings settings = {
        .kind = o->preset == SEARCH_PRESET_GERMANN ? TESTSCENE_KIND_NEAREST : TESTSCENE_KIND_TABLE,
        .visible_min = o->visible_min,
        .visible_max = o->visible_max,
        .absent = o->absent,
        .noise = true,
        .seed = (uint64_t)o->seed * 1000003 + index,
    };
    static const float least[] = {0.6f, 0.4f, 0.25f, 0.6f}, most[] = {1, 0.6f, 0.4f, 1};
    if (o->mixed) {
        settings.visible_min = least[index % 4];
        settings.visible_max = most[index % 4];
        settings.absent = index % 4 == 3;
    }
    return settings;
}

static int time_requests(struct search *search, const struct search_object *object,
                         const struct testscene_mesh *mesh, const struct options *o,
                         double build_ms)
{
    struct testscene_settings settings = scene_of(o, 0);
    struct testscene scene;
    if (testscene_create(mesh, &settings, &scene))
        return 1;
    struct search_object_info info;
    search_object_describe(object, &info);
    double *whole_us = malloc(o->n_repeats * sizeof *whole_us);
    double *stage_us[SEARCH_N_STAGES] = {NULL};
    for (int s = 0; s < SEARCH_N_STAGES; s++)
        stage_us[s] = malloc(o->n_repeats * sizeof **stage_us);
    struct search_answer answer = {0};
    int err = run_scene(search, object, &scene, o, &answer); // warms up
    for (uint32_t i = 0; i < o->n_repeats && !err; i++) {
        int64_t before = bench_now_ns();
        err = run_scene(search, object, &scene, o, &answer);
        whole_us[i] = (double)(bench_now_ns() - before) * 1e-3;
        for (int s = 0; s < SEARCH_N_STAGES; s++)
            stage_us[s][i] = (double)answer.stage_ms[s] * 1e3;
    }
    static const char *const names[SEARCH_N_STAGES] = {"prepare", "coarse", "fit", "refine"};
    if (err) {
        fprintf(stderr, "posed-bench: search failed: %s\n", strerror(-err));
    } else if (o->json) {
        struct bench_stats whole = bench_stats(whole_us, o->n_repeats);
        printf("{\"backend\": \"%s\", \"views\": %u, \"mean_pixels\": %.0f, \"build_ms\": %.1f, "
               "\"starts\": %u, \"compared\": %llu, \"request_ms\": {\"min\": %.4f, \"p50\": %.4f, "
               "\"p99\": %.4f}",
               search_description(search), info.n_views, (double)info.mean_pixels, build_ms,
               answer.n_starts, (unsigned long long)answer.n_compared, whole.min_us * 1e-3,
               whole.p50_us * 1e-3, whole.p99_us * 1e-3);
        for (int s = 0; s < SEARCH_N_STAGES; s++) {
            struct bench_stats stats = bench_stats(stage_us[s], o->n_repeats);
            printf(", \"%s_ms\": {\"min\": %.4f, \"p50\": %.4f}", names[s], stats.min_us * 1e-3,
                   stats.p50_us * 1e-3);
        }
        printf("}\n");
    } else {
        struct bench_stats whole = bench_stats(whole_us, o->n_repeats);
        printf("%s\n%u views of %.0f pixels, %.1f degrees apart, built in %.0f ms\n",
               search_description(search), info.n_views, (double)info.mean_pixels,
               (double)info.spacing_rad * 180 / M_PI, build_ms);
        printf("%-10s %10s %10s %10s  (ms, %u requests, %u start points)\n", "", "min", "p50",
               "p99", o->n_repeats, answer.n_starts);
        printf("%-10s %10.3f %10.3f %10.3f\n", "request", whole.min_us * 1e-3, whole.p50_us * 1e-3,
               whole.p99_us * 1e-3);
        for (int s = 0; s < SEARCH_N_STAGES; s++) {
            struct bench_stats stats = bench_stats(stage_us[s], o->n_repeats);
            printf("%-10s %10.3f %10.3f %10.3f\n", names[s], stats.min_us * 1e-3,
                   stats.p50_us * 1e-3, stats.p99_us * 1e-3);
        }
    }
    for (int s = 0; s < SEARCH_N_STAGES; s++)
        free(stage_us[s]);
    free(whole_us);
    testscene_free(&scene);
    return err ? 1 : 0;
}

struct tally {
    uint32_t n, n_right, n_accepted, n_false_accepted, n_present;
    double sum_deg, sum_mm, sum_axis_deg, sum_view_deg;
    double *deg, *all_deg; // of right answers, and of all where the object is; for the medians
    uint32_t bin_n[10], bin_right[10]; // by confidence
    double bin_sum[10];
};

struct judge_job {
    const struct testscene_mesh *mesh;
    const struct search_object *object;
    const struct options *o;
    double diameter;
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

static void judge(const struct judge_job *job, bool absent, const struct testscene *scene,
                  const struct search_answer *answer, struct tally *tally)
{
    const struct testscene_mesh *mesh = job->mesh;
    const struct options *o = job->o;
    struct metric_points points = {mesh->vertices_m, mesh->n_vertices};
    tally->n++;
    tally->n_present += !absent;
    if (answer->n_poses == 0)
        return;
    const struct search_pose *pose = &answer->poses[0];
    struct search_object_info info;
    search_object_describe(job->object, &info);
    double add_s = metric_add_s(&points, mesh->n_vertices / 500 + 1, &pose->T_camera_model,
                                &scene->T_camera_model);
    double add = metric_add(&points, &pose->T_camera_model, &scene->T_camera_model);
    double deg = degrees_between(&info, &scene->T_camera_model, &pose->T_camera_model);
    bool right = !absent && add_s < 0.1 * job->diameter;
    uint32_t bin = (uint32_t)(pose->confidence * 9.999f);
    tally->bin_n[bin]++;
    tally->bin_right[bin] += right;
    tally->bin_sum[bin] += (double)pose->confidence;
    tally->n_accepted += pose->accepted;
    tally->n_false_accepted += pose->accepted && !right;
    if (!absent)
        tally->all_deg[tally->n_present - 1] = deg;
    if (right) {
        struct se3 difference = se3_between(&scene->T_camera_model, &pose->T_camera_model);
        double twist[6];
        se3_log(&difference, twist);
        tally->deg[tally->n_right++] = deg;
        tally->sum_deg += deg;
        tally->sum_mm += add * 1e3;
        for (int k = 3; k < 6; k++)
            tally->sum_axis_deg += fabs(twist[k]) * 180 / M_PI / 3;
        if (o->preset == SEARCH_PRESET_GERMANN && !o->greedy)
            tally->sum_view_deg += nearest_view_degrees(&info, &scene->T_camera_model);
    }
    if (o->each)
        printf("scene %u: visible %.2f, %s, %.2f degrees, ADD %.4f m, ADD-S %.4f m, confidence "
               "%.3f, shown %.3f, contradicted %.4f, ended %.4f, continued %.4f, score %.4f, rival "
               "%.4f, residual %.5f m, pixels %u\n",
               tally->n - 1, absent ? 0 : (double)scene->visible, right ? "right" : "wrong", deg,
               add, add_s, (double)pose->confidence, (double)pose->visible,
               (double)pose->contradicted, (double)pose->ended, (double)pose->continued,
               (double)pose->score, (double)pose->rival, (double)pose->residual_rms_m,
               pose->n_pixels);
}

static void print_tally(const struct options *o, struct tally *tally)
{
    const double n_right = tally->n_right ? tally->n_right : 1;
    const double n_present = tally->n_present ? tally->n_present : 1;
    struct bench_stats deg = bench_stats(tally->deg, tally->n_right);
    struct bench_stats all_deg = bench_stats(tally->all_deg, tally->n_present);
    if (o->json) {
        printf("{\"scenes\": %u, \"present\": %u, \"right\": %u, \"recall\": %.4f, "
               "\"mean_deg\": %.4f, \"median_deg\": %.4f, \"median_all_deg\": %.4f, "
               "\"mean_add_mm\": %.4f, \"accepted\": %u, \"false_accepted\": %u}\n",
               tally->n, tally->n_present, tally->n_right, tally->n_right / n_present,
               tally->sum_deg / n_right, deg.p50_us, all_deg.p50_us, tally->sum_mm / n_right,
               tally->n_accepted, tally->n_false_accepted);
        return;
    }
    printf("%u scenes, the object in %u: %u right (ADD-S < 0.1 d), recall %.1f %%\n", tally->n,
           tally->n_present, tally->n_right, 100 * tally->n_right / n_present);
    printf("right ones: rotation mean %.2f median %.2f max %.2f degrees, ADD mean %.2f mm; median "
           "of all %.2f degrees\n",
           tally->sum_deg / n_right, deg.p50_us, deg.max_us, tally->sum_mm / n_right,
           all_deg.p50_us);
    if (o->preset == SEARCH_PRESET_GERMANN && !o->greedy)
        printf("right ones: mean of the three angles %.2f degrees; nearest view of the set, mean "
               "%.2f degrees\n",
               tally->sum_axis_deg / n_right, tally->sum_view_deg / n_right);
    printf("accepted: %u, of these wrong: %u (%.1f %% of all scenes)\n", tally->n_accepted,
           tally->n_false_accepted, 100.0 * tally->n_false_accepted / tally->n);
    for (int b = 0; b < 10; b++)
        if (tally->bin_n[b])
            printf("confidence %.1f .. %.1f: %4u answers, said %5.1f %%, right %5.1f %%\n", 0.1 * b,
                   0.1 * (b + 1), tally->bin_n[b], 100 * tally->bin_sum[b] / tally->bin_n[b],
                   100.0 * tally->bin_right[b] / tally->bin_n[b]);
}

static int judge_scenes(struct search *search, const struct search_object *object,
                        const struct testscene_mesh *mesh, const struct options *o)
{
    struct metric_points points = {mesh->vertices_m, mesh->n_vertices};
    struct judge_job job = {mesh, object, o, metric_diameter(&points)};
    struct tally tally = {.deg = malloc(o->n_scenes * sizeof *tally.deg),
                          .all_deg = malloc(o->n_scenes * sizeof *tally.all_deg)};
    int err = tally.deg && tally.all_deg ? 0 : -ENOMEM;
    for (uint32_t i = 0; i < o->n_scenes && !err; i++) {
        struct testscene_settings settings = scene_of(o, i);
        struct testscene scene;
        struct search_answer answer;
        tally.all_deg[i] = 180; // unless there is an answer
        err = testscene_create(mesh, &settings, &scene);
        if (err)
            break;
        err = run_scene(search, object, &scene, o, &answer);
        if (!err)
            judge(&job, settings.absent, &scene, &answer, &tally);
        testscene_free(&scene);
    }
    if (err)
        fprintf(stderr, "posed-bench: %s\n", strerror(-err));
    else
        print_tally(o, &tally);
    free(tally.deg);
    free(tally.all_deg);
    return err ? 1 : 0;
}

int bench_search(int argc, char **argv)
{
    static const struct argp argp = {
        argp_options, parse_option, NULL, "Times the pose search, or judges it over many scenes.",
        NULL,         NULL,         NULL};
    struct options o = {.model = "duck",
                        .n_iterations = 15,
                        .n_repeats = 20,
                        .seed = 1,
                        .visible_min = 0.6f,
                        .visible_max = 1};
    if (argp_parse(&argp, argc, argv, 0, NULL, &o))
        return 2;
    struct testscene_mesh mesh = {0};
    struct search *search = NULL;
    struct search_object *object = NULL;
    struct search_settings settings;
    search_settings_default(&settings);
    settings.backend = o.backend;
    settings.n_threads = o.n_threads;
    settings.log.write = bench_log_write;
    int status = 1;
    if (load_model(o.model, &settings.log, &mesh))
        goto out;
    status = 5;
    if (search_open(&search, &settings))
        goto out;
    struct search_mesh borrowed = {mesh.vertices_m, mesh.triangles, mesh.n_vertices,
                                   mesh.n_triangles};
    struct search_object_settings object_settings;
    search_object_settings_default(&object_settings);
    object_settings.n_views = o.n_views                           ? o.n_views
                              : o.preset == SEARCH_PRESET_GERMANN ? 2048
                                                                  : SEARCH_VIEWS_DEFAULT;
    object_settings.choice = o.greedy ? SEARCH_CHOICE_GREEDY : SEARCH_CHOICE_EVEN;
    int64_t before = bench_now_ns();
    status = 1;
    if (search_object_create(search, &borrowed, &object_settings, &object))
        goto out;
    double build_ms = (double)(bench_now_ns() - before) * 1e-6;
    status = o.n_scenes ? judge_scenes(search, object, &mesh, &o)
                        : time_requests(search, object, &mesh, &o, build_ms);
out:
    search_object_destroy(search, &object);
    search_close(&search);
    testscene_mesh_free(&mesh);
    return status;
}
