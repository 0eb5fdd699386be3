// SPDX-License-Identifier: Apache-2.0
// posectl register: reads two clouds, registers them, writes the transform (text, JSON), the
// aligned cloud and a picture. A running posed does the work or, with --local, this program.
#include "tools/posectl/register.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "capture/cloud/cloud.h"
#include "gpu/register/register.h"
#include "proto/file_suffix.h"
#include "proto/se3.h"
#include "tools/plot/register.h"
#include "tools/posectl/output_look.h"
#include "tools/posectl/progress.h"

static struct {
    struct register_config config;
    struct register_settings settings;
    const char *paths[2];
    const char *aligned, *picture, *initial;
    bool local, has_backend;
} options;

enum {
    OPTION_METHOD = 512,
    OPTION_FORM,
    OPTION_PRESET,
    OPTION_START,
    OPTION_INITIAL,
    OPTION_BACKEND,
    OPTION_LOCAL,
    OPTION_ALIGNED,
    OPTION_PICTURE,
};

static const struct argp_option option_table[] = {
    {"local", OPTION_LOCAL, NULL, 0, "Work here, without a daemon", 0},
    {"method", OPTION_METHOD, "emicp|softassign|icp|gicp", 0,
     "How (default emicp; gicp: plane to plane)", 0},
    {"form", OPTION_FORM, "streaming|dense", 0,
     "streaming (default), or dense: the matrix in memory; of emicp and softassign", 0},
    {"preset", OPTION_PRESET, "default|tamaki", 0,
     "default, or tamaki: schedule and weights of the authors' program", 0},
    {"start", OPTION_START, "identity|many", 0,
     "identity (default): for sets that nearly fit already; many: from everywhere, the best is "
     "taken",
     0},
    {"initial", OPTION_INITIAL, "FILE", 0,
     "Where to start: a 4x4 transform of SOURCE into TARGET, as this command prints it", 0},
    {"backend", OPTION_BACKEND, "auto|cpu|cuda", 0, "What computes (default auto); with --local",
     0},
    {"aligned", OPTION_ALIGNED, "FILE", 0, "Write the moved source, .ply or .pcd", 0},
    {"picture", OPTION_PICTURE, "FILE", 0, "Draw both clouds before and after (PNG)", 0},
    {"plot", OPTION_PICTURE, NULL, OPTION_ALIAS, NULL, 0},
    {0}};

static error_t on_option(int key, char *arg, struct argp_state *state)
{
    static const char *const methods[] = {"emicp", "softassign", "icp", "gicp", NULL};
    static const char *const forms[] = {"streaming", "dense", NULL};
    static const char *const presets[] = {"default", "tamaki", NULL};
    static const char *const starts[] = {"identity", "many", NULL};
    struct register_settings *settings = &options.settings;
    switch (key) {
    case OPTION_LOCAL:
        options.local = true;
        return 0;
    case OPTION_METHOD:
        settings->method = (enum register_method)argument_choose(state, "method", arg, methods);
        return 0;
    case OPTION_FORM:
        settings->form = (enum register_form)argument_choose(state, "form", arg, forms);
        return 0;
    case OPTION_PRESET:
        settings->preset = (enum register_preset)argument_choose(state, "preset", arg, presets);
        return 0;
    case OPTION_START:
        settings->start = (enum register_start)argument_choose(state, "start", arg, starts);
        return 0;
    case OPTION_INITIAL:
        options.initial = arg;
        return 0;
    case OPTION_BACKEND:
        options.config.backend =
            (enum gpu_backend)argument_choose(state, "backend", arg, posectl_backends);
        options.has_backend = true;
        return 0;
    case OPTION_ALIGNED:
        if (!file_suffix_fits(arg, ".ply") && !file_suffix_is(arg, ".pcd"))
            argp_error(state, "--aligned: %s: a cloud is written as .ply or .pcd", arg);
        options.aligned = arg;
        return 0;
    case OPTION_PICTURE:
        if (!file_suffix_fits(arg, ".png"))
            argp_error(state, "--picture (--plot): %s: a picture is written as .png", arg);
        options.picture = arg;
        return 0;
    case ARGP_KEY_ARG:
        if (state->arg_num >= 2)
            argp_error(state, "more than two clouds");
        options.paths[state->arg_num] = arg;
        return 0;
    case ARGP_KEY_END:
        if (state->arg_num < 2)
            argp_error(state, "SOURCE and TARGET are needed");
        return 0;
    }
    return posectl_option(key, arg, state);
}

#define N_ROWS_3 12 // numbers
#define N_ROWS_4 16

// Adds the numbers of a line to the n of m, one more than four rows have at most. What begins with
// # is left out. False at what is none.
static bool add_numbers(const char *line, double m[N_ROWS_4 + 1], int *n)
{
    int used;
    const char *at = line + strspn(line, " \t\r\n");
    while (*at && *at != '#' && *n <= N_ROWS_4) {
        if (sscanf(at, "%lf%n", &m[*n], &used) != 1 || !isfinite(m[*n]))
            return false;
        ++*n;
        at += used;
        at += strspn(at, " \t\r\n");
    }
    return true;
}

// Three rows of four numbers, and 0 0 0 1. False after a message.
static bool read_initial(const char *path, struct se3 *out)
{
    char line[512];
    double m[N_ROWS_4 + 1];
    int n = 0, n_lines = 0;
    bool good = true;
    FILE *file = fopen(path, "r");
    if (!file) {
        posectl_complain("%s: %s", path, strerror(errno));
        return false;
    }
    while (good && fgets(line, sizeof line, file)) {
        n_lines++;
        good = add_numbers(line, m, &n);
    }
    fclose(file);
    if (!good || (n != N_ROWS_3 && n != N_ROWS_4)) {
        posectl_complain(
            "%s:%d: three rows of four numbers are wanted, and 0 0 0 1 behind them or nothing: a "
            "rotation and, in the last column, a translation in metres",
            path, n_lines);
        return false;
    }
    if (n == N_ROWS_4 && !(fabs(m[12]) + fabs(m[13]) + fabs(m[14]) + fabs(m[15] - 1) < 1e-6)) {
        posectl_complain("%s: the last row is %g %g %g %g, not 0 0 0 1: is the matrix transposed? "
                         "The translation is the last column",
                         path, m[12], m[13], m[14], m[15]);
        return false;
    }
    double off = 0;
    for (int i = 0; i < 3; i++) {
        for (int j = 0; j < 3; j++) {
            double dot = 0;
            for (int k = 0; k < 3; k++)
                dot += m[4 * i + k] * m[4 * j + k];
            off = fmax(off, fabs(dot - (i == j)));
            out->r[3 * i + j] = m[4 * i + j];
        }
        out->t_m[i] = m[4 * i + 3];
    }
    const double det = m[0] * (m[5] * m[10] - m[6] * m[9]) - m[1] * (m[4] * m[10] - m[6] * m[8]) +
                       m[2] * (m[4] * m[9] - m[5] * m[8]);
    if (!(off < 1e-3) || !(det > 0)) {
        posectl_complain("%s: the first three columns are no rotation (rows are off by %.3g from "
                         "unit length and right angles, determinant %.3g)",
                         path, off, det);
        return false;
    }
    *out = se3_normalized(out);
    return true;
}

static json_t *json_numbers(const double *values, size_t n)
{
    json_t *array = json_array();
    for (size_t i = 0; i < n; i++)
        json_array_append_new(array, json_real(values[i]));
    return array;
}

static json_t *json_transform(const struct se3 *T)
{
    double q[4];
    se3_to_quaternion(T, q);
    return json_pack("{s:o, s:o, s:o}", "rotation", json_numbers(T->r, 9), "quaternion_xyzw",
                     json_numbers(q, 4), "translation_m", json_numbers(T->t_m, 3));
}

static json_t *json_result(const struct register_result *result, const char *device)
{
    json_t *out = json_pack(
        "{s:s, s:s, s:o, s:f, s:f, s:f, s:i, s:b, s:f, s:b, s:f, s:o}", "method",
        register_method_name(options.settings.method), "device", device, "T_target_source",
        json_transform(&result->T_target_source), "residual_rms_m", result->residual_rms_m,
        "overlap_source", result->overlap_source, "overlap_target", result->overlap_target,
        "iterations", (int)result->n_iterations, "converged", result->converged, "ambiguity",
        result->ambiguity, "ambiguous", result->ambiguous, "elapsed_ms", result->elapsed_ms,
        "covariance", json_numbers(result->covariance, 36));
    if (out && result->doubt[0])
        json_object_set_new(out, "doubt", json_string(result->doubt));
    if (out && result->has_second)
        json_object_set_new(out, "T_second", json_transform(&result->T_second));
    return out;
}

static void print_text(FILE *file, const struct register_result *result, const char *device)
{
    const struct se3 *T = &result->T_target_source;
    fprintf(file, "# %s on %s: %u iterations, %.1f ms\n",
            register_method_name(options.settings.method), device, result->n_iterations,
            result->elapsed_ms);
    fprintf(file, "# residual %.6g m, overlap %.0f %% of the source, %.0f %% of the target\n",
            result->residual_rms_m, 100 * result->overlap_source, 100 * result->overlap_target);
    if (!result->converged)
        fprintf(file, "# not converged: more iterations would still move the pose\n");
    if (result->ambiguous)
        fprintf(file, "# AMBIGUOUS: another pose, or chance, fits nearly as well (%.2f)\n",
                result->ambiguity);
    if (result->doubt[0])
        fprintf(file, "# %s\n", result->doubt);
    for (int i = 0; i < 3; i++)
        fprintf(file, "%.9f %.9f %.9f %.9g\n", T->r[3 * i], T->r[3 * i + 1], T->r[3 * i + 2],
                T->t_m[i]);
    fprintf(file, "0 0 0 1\n");
}

// The source as T moves it, normals too.
static int write_aligned(const struct point_set *source, const struct se3 *T,
                         const struct log_sink *log)
{
    struct cloud moved;
    struct se3 turn = *T;
    memset(turn.t_m, 0, sizeof turn.t_m);
    int rc = cloud_alloc(&moved, source->n_points, source->nx != NULL);
    if (rc < 0)
        return rc;
    for (size_t i = 0; i < source->n_points; i++) {
        const double p[3] = {source->x_m[i], source->y_m[i], source->z_m[i]};
        double q[3];
        se3_apply(T, p, q);
        moved.x_m[i] = (float)q[0];
        moved.y_m[i] = (float)q[1];
        moved.z_m[i] = (float)q[2];
        if (source->nx) {
            const double n[3] = {source->nx[i], source->ny[i], source->nz[i]};
            se3_apply(&turn, n, q);
            moved.nx[i] = (float)q[0];
            moved.ny[i] = (float)q[1];
            moved.nz[i] = (float)q[2];
        }
    }
    struct point_set points = cloud_points(&moved);
    rc = cloud_write(options.aligned, &points, log);
    cloud_free(&moved);
    return rc;
}

static enum posectl_exit report(const struct posectl *ctl, const struct point_set clouds[2],
                                const struct register_result *result, const char *device)
{
    const struct log_sink *log = &options.config.log;
    FILE *file = posectl_open(ctl);
    if (!file)
        return POSECTL_FAILED;
    if (ctl->json)
        posectl_print_json(file, json_result(result, device), false);
    else
        print_text(file, result, device);
    enum posectl_exit exit_code = posectl_close(ctl, file);
    if (options.aligned && write_aligned(&clouds[0], &result->T_target_source, log) < 0)
        exit_code = POSECTL_FAILED;
    if (options.picture && plot_registration(options.picture, &clouds[0], &clouds[1],
                                             &result->T_target_source, log) < 0)
        exit_code = POSECTL_FAILED;
    if (exit_code == POSECTL_OK && result->ambiguous) {
        posectl_complain("register: doubtful: %s", result->doubt);
        exit_code = POSECTL_DOUBTFUL;
    }
    return exit_code;
}

static void show_progress(void *user, double share, const char *stage)
{
    (void)user;
    progress_show(share, stage);
}

static enum posectl_exit run_local(const struct posectl *ctl, const struct point_set clouds[2])
{
    struct registration *registration;
    struct register_result result;
    const char *field = NULL;
    struct register_stop stop = {.progress = show_progress};
    if (registration_open(&registration, &options.config) < 0)
        return POSECTL_FAILED;
    enum posectl_exit exit_code = POSECTL_FAILED;
    int rc = registration_run(registration, &clouds[0], &clouds[1], &options.settings, &stop,
                              &result, &field);
    progress_end();
    if (rc == 0)
        exit_code = report(ctl, clouds, &result, registration_description(registration));
    else if (rc != -EINVAL) // of which the log has spoken
        posectl_complain("register: %s", strerror(-rc));
    registration_close(&registration);
    return exit_code;
}

// What the daemon answered, as registration_run would have.
static bool read_answer(const posed_Registered *answer, struct register_result *out)
{
    const char *field;
    *out = (struct register_result){
        .residual_rms_m = answer->residual_rms_m,
        .overlap_source = answer->overlap_source,
        .overlap_target = answer->overlap_target,
        .n_iterations = answer->iterations,
        .converged = answer->converged,
        .ambiguity = answer->ambiguity,
        .ambiguous = answer->ambiguous,
        .elapsed_ms = answer->elapsed_ms,
    };
    memcpy(out->covariance, answer->covariance, sizeof out->covariance);
    snprintf(out->doubt, sizeof out->doubt, "%s", answer->doubt);
    out->has_second = answer->has_second;
    return answer->covariance_count == 36 &&
           wire_read_pose(&answer->pose, &out->T_target_source, &field) == 0 &&
           (!answer->has_second || wire_read_pose(&answer->second, &out->T_second, &field) == 0);
}

static enum posectl_exit run_daemon(const struct posectl *ctl, const struct point_set clouds[2])
{
    static posed_Reply reply;
    struct register_result result;
    uint8_t *bytes;
    size_t n_bytes;
    const struct register_settings *settings = &options.settings;
    const posed_Request request = {
        .id = posectl_request_id(),
        .deadline_ms = ctl->timeout_ms,
        .which_what = posed_Request_register_sets_tag,
        .what.register_sets = {.method = (posed_Register_Method)settings->method,
                               .form = (posed_Register_Form)settings->form,
                               .preset = (posed_Register_Preset)settings->preset,
                               .start = (posed_Register_Start)settings->start,
                               .has_initial = options.initial != NULL,
                               .initial = wire_pose(&settings->T_target_source, NULL)},
    };
    int rc = wire_encode_register(&request, &clouds[0], &clouds[1], &bytes, &n_bytes);
    if (rc < 0) {
        posectl_complain("register: %s", strerror(-rc));
        return POSECTL_FAILED;
    }
    enum posectl_exit exit_code = posectl_exchange(ctl, bytes, n_bytes, &reply);
    free(bytes);
    if (exit_code != POSECTL_OK)
        return exit_code;
    if (!read_answer(&reply.what.register_sets, &result)) {
        posectl_complain("register: the daemon's answer holds no valid pose");
        return POSECTL_FAILED;
    }
    return report(ctl, clouds, &result, reply.what.register_sets.backend);
}

int posectl_register(struct posectl *ctl, int argc, char **argv)
{
    static const struct argp argp = {
        .options = option_table,
        .parser = on_option,
        .args_doc = "SOURCE TARGET",
        .children = posectl_common,
        .doc = "Finds the rigid transform that takes SOURCE onto TARGET: clouds as PLY, PCD or "
               "text (x y z a line).\vExit code 6: a transform was written, but it is doubtful; "
               "the reason is told."};
    register_config_default(&options.config);
    register_settings_default(&options.settings);
    options.config.log = posectl_log;
    ctl->takes_file = true;
    ctl->timeout_ms = 60000;
    posectl_parse(ctl, &argp, argc, argv);
    if (options.has_backend && !options.local) {
        posectl_complain("--backend is for --local; the daemon has gpu.backend");
        return POSECTL_USAGE;
    }
    if (!output_look(ctl->file) || !output_look(options.aligned) || !output_look(options.picture))
        return POSECTL_FAILED;
    struct cloud clouds[2] = {{0}, {0}};
    struct point_set points[2];
    if (options.initial && !read_initial(options.initial, &options.settings.T_target_source))
        return POSECTL_FAILED;
    enum posectl_exit exit_code = POSECTL_OK;
    for (int i = 0; i < 2 && exit_code == POSECTL_OK; i++) {
        if (cloud_read(options.paths[i], &options.config.log, &clouds[i]) < 0)
            exit_code = POSECTL_FAILED;
        points[i] = cloud_points(&clouds[i]);
        if (exit_code == POSECTL_OK && points[i].n_points < 3) {
            posectl_complain("%s: fewer than 3 points", options.paths[i]);
            exit_code = POSECTL_FAILED;
        }
    }
    if (exit_code == POSECTL_OK)
        exit_code = options.local ? run_local(ctl, points) : run_daemon(ctl, points);
    cloud_free(&clouds[0]);
    cloud_free(&clouds[1]);
    return (int)exit_code;
}
