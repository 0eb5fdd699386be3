// SPDX-License-Identifier: Apache-2.0
#include "gpu/track/calibrate.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "gpu/base/camera.h"
#include "proto/se3.h"

#define STRIDE_PX     4   // of the samples of a frame, in pixels of the maps' level
#define MAX_PAIRS     600 // adjusted
#define MAX_ASIDE     200
#define ASIDE_ONE_IN  5  // frames
#define TRIES         40 // random pairs looked at for one that is taken
#define STEPS         6
#define POSE_STEPS    6
#define MIN_PAIRS     60
#define MIN_ASIDE     12
#define MIN_OVERLAP   0.4
#define GATE_PER_M    0.04 // residuals beyond are another surface
#define COS_NORMALS   0.8
#define COS_INCIDENCE 0.3
#define TUKEY         4.685

// Samples of a frame do not err independently: one in so many counts.
#define CORRELATED 30.0
// What a field is like: second differences of neighbouring nodes, and the nodes themselves [1/m].
#define BEND_PER_M 1e-3
#define SIZE_PER_M 1e-2
// Of the mean: a constant is nearly a change of the scene's depth that poses can follow, which
// would take it to 0.2 /m. It belongs to the factory's calibration.
#define MEAN_PER_M 1e-6
// Keeps a frame without pairs where it is.
#define POSE_STD   0.3
#define UNSEEN_STD 0.5 // of what the prior alone would leave: such a node was not seen

struct frame {
    uint32_t group;
    int64_t time_ns;
    struct se3 T;
    float *map; // nx ny nz z
};

struct pair {
    uint32_t i, j;
};

struct calibrate {
    struct intrinsics camera; // full resolution
    struct level_camera level;
    struct log_sink log;
    struct frame frames[CALIBRATE_MAX_FRAMES];
    uint32_t n_frames;
    uint64_t random;
};

// One sample of a pair: residual and its derivatives.
struct sample {
    double r;
    struct field_cell from, to;
    double by_from, by_to;   // derivative by the field at the pixel of i, of j
    double by_i[6], by_j[6]; // by right twists of T_i, T_j
    double flow_px;
};

int calibrate_create(struct calibrate **out, const struct intrinsics *camera,
                     const struct log_sink *log)
{
    *out = calloc(1, sizeof **out);
    if (!*out)
        return -ENOMEM;
    (*out)->camera = *camera;
    (*out)->level = camera_level(camera, CALIBRATE_MAP_LEVEL);
    (*out)->random = 88172645463325252u;
    if (log)
        (*out)->log = *log;
    return 0;
}

void calibrate_destroy(struct calibrate **calibrate)
{
    if (!*calibrate)
        return;
    for (uint32_t i = 0; i < (*calibrate)->n_frames; i++)
        free((*calibrate)->frames[i].map);
    free(*calibrate);
    *calibrate = NULL;
}

int calibrate_add(struct calibrate *c, uint32_t group, int64_t time_ns, const float *map,
                  const struct se3 *T_world_camera)
{
    const size_t bytes = (size_t)c->level.width_px * (size_t)c->level.height_px * 4 * sizeof *map;
    if (c->n_frames == CALIBRATE_MAX_FRAMES)
        return -ENOSPC;
    struct frame *frame = &c->frames[c->n_frames];
    *frame = (struct frame){group, time_ns, *T_world_camera, malloc(bytes)};
    if (!frame->map)
        return -ENOMEM;
    memcpy(frame->map, map, bytes);
    c->n_frames++;
    return 0;
}

static uint32_t draw(struct calibrate *c, uint32_t n) // xorshift64
{
    c->random ^= c->random << 13;
    c->random ^= c->random >> 7;
    c->random ^= c->random << 17;
    return (uint32_t)((c->random >> 32) % n);
}

static void rotate(const double r[9], const double v[3], double out[3])
{
    for (int k = 0; k < 3; k++)
        out[k] = r[3 * k] * v[0] + r[3 * k + 1] * v[1] + r[3 * k + 2] * v[2];
}

static double dot(const double a[3], const double b[3])
{
    return a[0] * b[0] + a[1] * b[1] + a[2] * b[2];
}

static void cross(const double a[3], const double b[3], double out[3])
{
    out[0] = a[1] * b[2] - a[2] * b[1];
    out[1] = a[2] * b[0] - a[0] * b[2];
    out[2] = a[0] * b[1] - a[1] * b[0];
}

// The sample of pixel (x, y) of frame i. False where there is none. `field` NULL: none.
static bool sample_at(const struct calibrate *c, const struct field *field, const struct frame *i,
                      const struct frame *j, const struct se3 *T_j_i, int x, int y,
                      struct sample *out)
{
    const struct level_camera *l = &c->level;
    const double scale = 1 << CALIBRATE_MAP_LEVEL;
    const float *p = i->map + 4 * ((size_t)y * (size_t)l->width_px + (size_t)x);
    if (!(p[3] > 0) || (p[0] == 0 && p[1] == 0 && p[2] == 0))
        return false;
    double ray[3] = {(x - (double)l->cx_px) / (double)l->fx_px,
                     (y - (double)l->cy_px) / (double)l->fy_px, 1};
    out->from = field_cell(&c->camera, scale * x, scale * y);
    double w = 1 / (double)p[3];
    for (int k = 0; field && k < 4; k++)
        w += out->from.weight[k] * (double)field->node_per_m[out->from.node[k]];
    double P[3] = {ray[0] / w, ray[1] / w, 1 / w}, X[3], turned[3];
    se3_apply(T_j_i, P, X);
    if (!(X[2] > 0.1))
        return false;
    double u = X[0] / X[2] * (double)l->fx_px + (double)l->cx_px;
    double v = X[1] / X[2] * (double)l->fy_px + (double)l->cy_px;
    if (!(u >= 0 && v >= 0 && u < l->width_px - 1 && v < l->height_px - 1))
        return false;
    int ui = (int)(u + 0.5), vi = (int)(v + 0.5);
    const float *q = j->map + 4 * ((size_t)vi * (size_t)l->width_px + (size_t)ui);
    if (!(q[3] > 0) || (q[0] == 0 && q[1] == 0 && q[2] == 0))
        return false;
    const double n[3] = {(double)q[0], (double)q[1], (double)q[2]};
    const double n_i[3] = {(double)p[0], (double)p[1], (double)p[2]};
    double to[3] = {(ui - (double)l->cx_px) / (double)l->fx_px,
                    (vi - (double)l->cy_px) / (double)l->fy_px, 1};
    rotate(T_j_i->r, n_i, turned);
    if (dot(turned, n) < COS_NORMALS || dot(n, to) > -COS_INCIDENCE * sqrt(dot(to, to)) ||
        dot(n_i, ray) > -COS_INCIDENCE * sqrt(dot(ray, ray)))
        return false;
    out->to = field_cell(&c->camera, scale * ui, scale * vi);
    double w_j = 1 / (double)q[3];
    for (int k = 0; field && k < 4; k++)
        w_j += out->to.weight[k] * (double)field->node_per_m[out->to.node[k]];
    // j's tangent plane is n . Y = d; along the ray of X it has the inverse depth
    // n . (X / X_z) / d, X has 1 / X_z.
    double d = dot(n, to) / w_j, e = dot(n, X) - d, s = -1 / (d * X[2]);
    out->r = s * e;
    if (!(fabs(out->r) < GATE_PER_M))
        return false;
    double away[3] = {-P[0] / w, -P[1] / w, -P[2] / w}, moved[3], back[3], turn[3];
    rotate(T_j_i->r, away, moved);
    out->by_from = s * dot(n, moved);
    out->by_to = s * d / w_j;
    for (int k = 0; k < 3; k++)
        back[k] = T_j_i->r[k] * n[0] + T_j_i->r[3 + k] * n[1] + T_j_i->r[6 + k] * n[2];
    cross(P, back, turn);
    for (int k = 0; k < 3; k++) {
        out->by_i[k] = s * back[k];
        out->by_i[3 + k] = s * turn[k];
    }
    cross(X, n, turn);
    for (int k = 0; k < 3; k++) {
        out->by_j[k] = -s * n[k];
        out->by_j[3 + k] = -s * turn[k];
    }
    out->flow_px = scale * hypot(u - x, v - y);
    return true;
}

// Enough of i seen in j, from far enough elsewhere in the image?
static bool is_useful(const struct calibrate *c, const struct frame *i, const struct frame *j)
{
    if (i->group != j->group ||
        fabs((double)(i->time_ns - j->time_ns)) > CALIBRATE_MAX_APART_S * 1e9)
        return false;
    struct se3 T_j_i = se3_between(&j->T, &i->T);
    int n_all = 0, n = 0;
    double flow_px = 0;
    for (int y = 8; y < c->level.height_px; y += 24)
        for (int x = 8; x < c->level.width_px; x += 24) {
            struct sample sample;
            n_all++;
            if (!sample_at(c, NULL, i, j, &T_j_i, x, y, &sample))
                continue;
            n++;
            flow_px += sample.flow_px;
        }
    return n >= MIN_OVERLAP * n_all && flow_px >= CALIBRATE_FLOW_PX * n;
}

static bool is_aside(uint32_t frame)
{
    return frame % ASIDE_ONE_IN == ASIDE_ONE_IN / 2;
}

enum choice { CHOICE_FIT, CHOICE_ASIDE, CHOICE_ALL };

static uint32_t choose_pairs(struct calibrate *c, enum choice choice, uint32_t max,
                             struct pair *out)
{
    uint32_t n = 0;
    for (uint32_t t = 0; t < max * TRIES && n < max; t++) {
        struct pair pair = {draw(c, c->n_frames), draw(c, c->n_frames)};
        if (pair.i == pair.j)
            continue;
        if (choice != CHOICE_ALL &&
            (is_aside(pair.i) || is_aside(pair.j)) != (choice == CHOICE_ASIDE))
            continue;
        if (choice == CHOICE_ASIDE && !(is_aside(pair.i) && is_aside(pair.j)))
            continue;
        bool known = false;
        for (uint32_t k = 0; k < n; k++)
            known = known || (out[k].i == pair.i && out[k].j == pair.j);
        if (!known && is_useful(c, &c->frames[pair.i], &c->frames[pair.j]))
            out[n++] = pair;
    }
    return n;
}

// The normal equations of n unknowns, lower triangle, and their right hand side.
struct system {
    int n;
    double *h, *g;
};

static void system_add(struct system *system, const int *index, const double *row, int n,
                       double weight, double r)
{
    for (int a = 0; a < n; a++) {
        double wa = weight * row[a];
        double *h = system->h + (size_t)index[a] * (size_t)system->n;
        system->g[index[a]] += wa * r;
        for (int b = 0; b < n; b++)
            if (index[b] <= index[a])
                h[index[b]] += wa * row[b];
    }
}

// L L^T in place of the lower triangle. False: not positive definite.
static bool system_factor(struct system *system)
{
    const size_t n = (size_t)system->n;
    for (size_t i = 0; i < n; i++) {
        double *row = system->h + i * n;
        for (size_t j = 0; j <= i; j++) {
            const double *other = system->h + j * n;
            double sum = row[j];
            for (size_t k = 0; k < j; k++)
                sum -= row[k] * other[k];
            if (j < i)
                row[j] = sum / other[j];
            else if (sum > 0)
                row[i] = sqrt(sum);
            else
                return false;
        }
    }
    return true;
}

static void system_solve(const struct system *system, double *x)
{
    const size_t n = (size_t)system->n;
    for (size_t i = 0; i < n; i++) {
        for (size_t k = 0; k < i; k++)
            x[i] -= system->h[i * n + k] * x[k];
        x[i] /= system->h[i * n + i];
    }
    for (size_t i = n; i-- > 0;) {
        for (size_t k = i + 1; k < n; k++)
            x[i] -= system->h[k * n + i] * x[k];
        x[i] /= system->h[i * n + i];
    }
}

static double tukey(double r, double scale)
{
    double x = r / (TUKEY * scale), y = 1 - x * x;
    return y > 0 ? y * y : 0;
}

static void add_prior_row(struct system *system, const struct field *field, const int *index,
                          const double *row, int n, double std)
{
    double r = 0;
    for (int k = 0; k < n; k++)
        r += row[k] * (double)field->node_per_m[index[k]];
    system_add(system, index, row, n, 1 / (std * std), r);
}

static void add_prior(struct system *system, const struct field *field)
{
    static const double bend[3] = {1, -2, 1}, twist[4] = {1, -1, -1, 1}, one[1] = {1};
    int all[FIELD_N_NODES];
    double share[FIELD_N_NODES];
    for (int i = 0; i < FIELD_N_NODES; i++) {
        all[i] = i;
        share[i] = 1.0 / FIELD_N_NODES;
    }
    add_prior_row(system, field, all, share, FIELD_N_NODES, MEAN_PER_M);
    for (int v = 0; v < FIELD_ROWS; v++)
        for (int u = 0; u < FIELD_COLUMNS; u++) {
            int at = v * FIELD_COLUMNS + u;
            add_prior_row(system, field, (int[]){at}, one, 1, SIZE_PER_M);
            if (u + 2 < FIELD_COLUMNS)
                add_prior_row(system, field, (int[]){at, at + 1, at + 2}, bend, 3, BEND_PER_M);
            if (v + 2 < FIELD_ROWS)
                add_prior_row(system, field,
                              (int[]){at, at + FIELD_COLUMNS, at + 2 * FIELD_COLUMNS}, bend, 3,
                              BEND_PER_M);
            if (u + 1 < FIELD_COLUMNS && v + 1 < FIELD_ROWS)
                add_prior_row(system, field,
                              (int[]){at, at + 1, at + FIELD_COLUMNS, at + FIELD_COLUMNS + 1},
                              twist, 4, BEND_PER_M / 1.4142135623730951);
        }
}

// Adds all samples of a pair. Returns the sum of winsorised |r| and their number.
static void add_pair(const struct calibrate *c, const struct field *field, struct pair pair,
                     double scale, struct system *system, double *sum_abs, double *n_samples)
{
    const struct frame *i = &c->frames[pair.i], *j = &c->frames[pair.j];
    const double weight = 1 / (scale * scale * CORRELATED);
    struct se3 T_j_i = se3_between(&j->T, &i->T);
    for (int y = STRIDE_PX / 2; y < c->level.height_px; y += STRIDE_PX)
        for (int x = STRIDE_PX / 2; x < c->level.width_px; x += STRIDE_PX) {
            struct sample s;
            if (!sample_at(c, field, i, j, &T_j_i, x, y, &s))
                continue;
            *sum_abs += fmin(fabs(s.r), 3 * scale);
            *n_samples += 1;
            double w = weight * tukey(s.r, scale);
            if (!(w > 0))
                continue;
            int index[20], n = 0;
            double row[20];
            for (int k = 0; k < 4; k++) {
                index[n] = s.from.node[k];
                row[n++] = s.by_from * s.from.weight[k];
                index[n] = s.to.node[k];
                row[n++] = s.by_to * s.to.weight[k];
            }
            for (int k = 0; k < 6; k++) {
                index[n] = FIELD_N_NODES + 6 * (int)pair.i + k;
                row[n++] = s.by_i[k];
                index[n] = FIELD_N_NODES + 6 * (int)pair.j + k;
                row[n++] = s.by_j[k];
            }
            system_add(system, index, row, n, w, s.r);
        }
}

// One Gauss-Newton step of field and poses; *scale is the robust one for this and the next.
static int step(struct calibrate *c, const struct pair *pairs, uint32_t n_pairs,
                struct system *system, struct field *field, double *scale)
{
    const size_t n = (size_t)system->n;
    double sum_abs = 0, n_samples = 0;
    memset(system->h, 0, n * n * sizeof *system->h);
    memset(system->g, 0, n * sizeof *system->g);
    for (uint32_t k = 0; k < n_pairs; k++)
        add_pair(c, field, pairs[k], *scale, system, &sum_abs, &n_samples);
    add_prior(system, field);
    for (uint32_t i = 0; i < c->n_frames; i++) {
        // The first of a group stands for the world; the others are held by next to nothing.
        bool first = i == 0 || c->frames[i - 1].group != c->frames[i].group;
        for (int k = 0; k < 6; k++) {
            size_t at = FIELD_N_NODES + 6 * i + (size_t)k;
            system->h[at * n + at] += first ? 1e18 : 1 / (POSE_STD * POSE_STD);
        }
    }
    if (!system_factor(system) || !(n_samples > 0))
        return -ENODATA;
    system_solve(system, system->g);
    for (int i = 0; i < FIELD_N_NODES; i++)
        field->node_per_m[i] -= (float)system->g[i];
    for (uint32_t i = 0; i < c->n_frames; i++) {
        double twist[6];
        for (int k = 0; k < 6; k++)
            twist[k] = -system->g[FIELD_N_NODES + 6 * i + (size_t)k];
        struct se3 turn = se3_exp(twist), T = se3_compose(&c->frames[i].T, &turn);
        c->frames[i].T = se3_normalized(&T);
    }
    *scale = fmax(1.2533141 * sum_abs / n_samples, 1e-5);
    return 0;
}

// The residual of one pair after its own pose has been refined: sum of r^2, each at most cap^2.
static void judge_pair(const struct calibrate *c, const struct field *field, struct pair pair,
                       double cap, double *sum2, double *n_samples)
{
    const struct frame *i = &c->frames[pair.i], *j = &c->frames[pair.j];
    struct se3 T_j_i = se3_between(&j->T, &i->T);
    double scale = cap, h[36], g[6];
    for (int t = 0; t <= POSE_STEPS; t++) {
        struct system system = {6, h, g};
        double sum_abs = 0, n = 0, capped2 = 0;
        memset(h, 0, sizeof h);
        memset(g, 0, sizeof g);
        for (int y = STRIDE_PX / 2; y < c->level.height_px; y += STRIDE_PX)
            for (int x = STRIDE_PX / 2; x < c->level.width_px; x += STRIDE_PX) {
                static const int index[6] = {0, 1, 2, 3, 4, 5};
                struct sample s;
                if (!sample_at(c, field, i, j, &T_j_i, x, y, &s))
                    continue;
                sum_abs += fmin(fabs(s.r), 3 * scale);
                capped2 += fmin(s.r * s.r, cap * cap);
                n++;
                system_add(&system, index, s.by_i, 6, tukey(s.r, scale), s.r);
            }
        if (t == POSE_STEPS) {
            *sum2 += capped2;
            *n_samples += n;
            return;
        }
        for (int k = 0; k < 6; k++)
            h[7 * k] += 1e-9;
        if (!(n > 0) || !system_factor(&system))
            return;
        system_solve(&system, g);
        for (int k = 0; k < 6; k++)
            g[k] = -g[k];
        struct se3 turn = se3_exp(g);
        T_j_i = se3_compose(&T_j_i, &turn);
        scale = fmax(1.2533141 * sum_abs / n, 1e-5);
    }
}

static double judge_pairs(const struct calibrate *c, const struct field *field,
                          const struct pair *pairs, uint32_t n_pairs)
{
    double sum2 = 0, n = 0;
    for (uint32_t k = 0; k < n_pairs; k++)
        judge_pair(c, field, pairs[k], GATE_PER_M / 2, &sum2, &n);
    return n > 0 ? sqrt(sum2 / n) : 0;
}

static void judge_both(const struct calibrate *c, const struct field *field,
                       const struct pair *pairs, uint32_t n_pairs, struct calibrate_report *report)
{
    report->n_pairs_aside = n_pairs;
    report->before_per_m = judge_pairs(c, NULL, pairs, n_pairs);
    report->after_per_m = judge_pairs(c, field, pairs, n_pairs);
    report->reduction =
        report->before_per_m > 0 ? 1 - report->after_per_m / report->before_per_m : 0;
    report->rms_per_m = field_rms_per_m(field);
}

// How long, how many.
static int check_frames(const struct calibrate *c, struct calibrate_report *report)
{
    *report = (struct calibrate_report){.n_frames = c->n_frames};
    for (uint32_t i = 1; i < c->n_frames; i++)
        if (c->frames[i].group == c->frames[i - 1].group)
            report->seconds += (double)(c->frames[i].time_ns - c->frames[i - 1].time_ns) * 1e-9;
    if (c->n_frames < CALIBRATE_MIN_FRAMES) {
        log_to(&c->log, LOG_LEVEL_ERROR,
               "%u frames that could be tracked, %d are needed: record 10 s or more", c->n_frames,
               CALIBRATE_MIN_FRAMES);
        return -ENODATA;
    }
    if (report->seconds < CALIBRATE_MIN_S) {
        log_to(&c->log, LOG_LEVEL_ERROR,
               "the recordings cover %.1f s, %.0f s are needed: what a camera sees within a moment "
               "says little",
               report->seconds, CALIBRATE_MIN_S);
        return -ENODATA;
    }
    return 0;
}

static int too_still(const struct calibrate *c, uint32_t n, uint32_t wanted)
{
    log_to(
        &c->log, LOG_LEVEL_ERROR,
        "%u pairs of frames see the same surface %.0f px apart, %u are needed: turn and move the "
        "camera so that things cross the whole image",
        n, CALIBRATE_FLOW_PX, wanted);
    return -ENODATA;
}

// Standard deviations of the nodes from the factored system of the last step.
static int doubts(const struct system *system, struct calibrate_report *report)
{
    double *x = malloc((size_t)system->n * sizeof *x);
    if (!x)
        return -ENOMEM;
    uint32_t n_unseen = 0;
    for (int i = 0; i < FIELD_N_NODES; i++) {
        memset(x, 0, (size_t)system->n * sizeof *x);
        x[i] = 1;
        system_solve(system, x);
        double std = sqrt(x[i]);
        report->std_per_m += std / FIELD_N_NODES;
        n_unseen += std > UNSEEN_STD * BEND_PER_M;
    }
    report->unseen = (double)n_unseen / FIELD_N_NODES;
    free(x);
    return 0;
}

int calibrate_solve(struct calibrate *c, struct field *out, struct calibrate_report *out_report)
{
    int status = check_frames(c, out_report);
    if (status < 0)
        return status;
    memset(out, 0, sizeof *out);
    out->camera = c->camera;
    out->n_frames = c->n_frames;
    const size_t n = FIELD_N_NODES + 6 * (size_t)c->n_frames;
    struct system system = {(int)n, malloc(n * n * sizeof *system.h), malloc(n * sizeof *system.g)};
    struct pair *pairs = malloc(MAX_PAIRS * sizeof *pairs),
                *aside = malloc(MAX_ASIDE * sizeof *aside);
    double scale = 0.01;
    status = system.h && system.g && pairs && aside ? 0 : -ENOMEM;
    if (status < 0)
        goto free_all;
    uint32_t n_aside = choose_pairs(c, CHOICE_ASIDE, MAX_ASIDE, aside);
    out_report->n_pairs = choose_pairs(c, CHOICE_FIT, MAX_PAIRS, pairs);
    out_report->n_pairs_aside = n_aside;
    if (out_report->n_pairs < MIN_PAIRS || n_aside < MIN_ASIDE) {
        status = out_report->n_pairs < MIN_PAIRS ? too_still(c, out_report->n_pairs, MIN_PAIRS)
                                                 : too_still(c, n_aside, MIN_ASIDE);
        goto free_all;
    }
    for (int i = 0; i < STEPS && status == 0; i++)
        status = step(c, pairs, out_report->n_pairs, &system, out, &scale);
    if (status == 0)
        status = doubts(&system, out_report);
    if (status == 0)
        judge_both(c, out, aside, n_aside, out_report);
    out->reduction = out_report->reduction;
free_all:
    free(system.h);
    free(system.g);
    free(pairs);
    free(aside);
    return status;
}

int calibrate_judge(struct calibrate *c, const struct field *field,
                    struct calibrate_report *out_report)
{
    int status = check_frames(c, out_report);
    if (status < 0)
        return status;
    struct pair *pairs = malloc(MAX_ASIDE * sizeof *pairs);
    if (!pairs)
        return -ENOMEM;
    uint32_t n = choose_pairs(c, CHOICE_ALL, MAX_ASIDE, pairs);
    if (n < MIN_ASIDE)
        status = too_still(c, n, MIN_ASIDE);
    else
        judge_both(c, field, pairs, n, out_report);
    free(pairs);
    return status;
}
