// SPDX-License-Identifier: Apache-2.0
#include "gpu/track/rig_adjustment.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "gpu/track/calibrate_pairs.h"

#define MAX_PAIRS     2400 // half of them of two cameras
#define PAIRS_A_IMAGE 4    // fewer in the mean do not hold the images together
#define TRIES         60   // random pairs looked at for one that is taken
#define STRIDE_PX     4    // of the samples of an image
#define STEPS         4
#define FIRST_SCALE   0.01 // [1/m], of the residuals to begin with
#define POSE_STD      0.3  // keeps an image that nothing holds where it is, each step
#define HELD          1e18

// A field, as calibrate.c has it: a mean belongs to the factory's calibration, also of one camera
// beside another (free by 3e-4 /m it took the other unknowns along, and poses became worse).
static const struct calibrate_prior usual = {1e-3, 1e-2, 1e-6};

struct solver {
    const struct rig_adjustment *what;
    struct calibrate_eye eyes[RIG_ADJUSTMENT_MAX_CAMERAS];
    struct depth_error fields[RIG_ADJUSTMENT_MAX_CAMERAS];
    double places[RIG_ADJUSTMENT_MAX_CAMERAS][6]; // twists from the right of T_body_camera
    struct se3 *T;                                // of each image
    struct calibrate_pair *pairs;
    uint32_t n_pairs;
    struct normal_equations system;
    double scale;
    uint64_t random;
    // Of one step.
    double sum_abs, n_samples;
};

// --- Unknowns: fields, places, poses

static size_t first_of_field(uint32_t camera)
{
    return (size_t)FIELD_N_NODES * camera;
}

static size_t first_of_place(const struct solver *s, uint32_t camera)
{
    return (size_t)FIELD_N_NODES * s->what->n_cameras + 6 * (size_t)camera;
}

static size_t first_of_pose(const struct solver *s, uint32_t image)
{
    return first_of_place(s, s->what->n_cameras) + 6 * (size_t)image;
}

// --- Pairs

static uint32_t draw(struct solver *s, uint32_t n) // xorshift64
{
    s->random ^= s->random << 13;
    s->random ^= s->random >> 7;
    s->random ^= s->random << 17;
    return (uint32_t)((s->random >> 32) % n);
}

static struct calibrate_side side_of(const struct solver *s, uint32_t image)
{
    const struct rig_adjustment_image *of = &s->what->images[image];
    return (struct calibrate_side){&s->eyes[of->camera], &s->fields[of->camera], of->map};
}

// That the second sees the surface elsewhere in its image is asked of two cameras, too, which as a
// rule do anyway.
static bool is_useful(const struct solver *s, uint32_t i, uint32_t j)
{
    const struct calibrate_side from = side_of(s, i), to = side_of(s, j);
    const struct se3 T_j_i = se3_between(&s->T[j], &s->T[i]);
    return calibrate_sees_enough(&from, &to, &T_j_i);
}

// Different pairs in turn of one camera and of two, as many as there are.
static int choose_pairs(struct solver *s)
{
    const uint32_t n = s->what->n_images;
    uint32_t n_of[2] = {0, 0};
    bool *known = calloc((size_t)n * n, sizeof *known);
    if (!known)
        return -ENOMEM;
    for (uint32_t t = 0; t < MAX_PAIRS * TRIES && s->n_pairs < MAX_PAIRS; t++) {
        const uint32_t i = draw(s, n), j = draw(s, n);
        const bool two = s->what->images[i].camera != s->what->images[j].camera;
        if (i == j || known[(size_t)i * n + j] || n_of[two] == MAX_PAIRS / 2 || !is_useful(s, i, j))
            continue;
        known[(size_t)i * n + j] = true;
        n_of[two]++;
        s->pairs[s->n_pairs++] = (struct calibrate_pair){i, j};
    }
    free(known);
    return s->n_pairs < PAIRS_A_IMAGE * n ? -ENODATA : 0;
}

// --- Normal equations

// Rows of two images, whose poses' unknowns are in the order of the images.
static void add_sample(struct solver *s, struct calibrate_pair pair,
                       const struct calibrate_sample *sample, double weight)
{
    struct normal_equations *system = &s->system;
    const bool i_first = pair.i < pair.j;
    const size_t first = first_of_pose(s, i_first ? pair.i : pair.j);
    const size_t second = first_of_pose(s, i_first ? pair.j : pair.i);
    const int from = (int)first_of_field(s->what->images[pair.i].camera);
    const int to = (int)first_of_field(s->what->images[pair.j].camera);
    int node[8];
    double by_node[8], by_pose[12];
    for (int k = 0; k < 4; k++) {
        node[2 * k] = from + sample->from.node[k];
        by_node[2 * k] = sample->by_from * sample->from.weight[k];
        node[2 * k + 1] = to + sample->to.node[k];
        by_node[2 * k + 1] = sample->by_to * sample->to.weight[k];
    }
    memcpy(by_pose, i_first ? sample->by_i : sample->by_j, 6 * sizeof *by_pose);
    memcpy(by_pose + 6, i_first ? sample->by_j : sample->by_i, 6 * sizeof *by_pose);
    normal_equations_add(system, node, by_node, 8, weight, sample->r);
    for (int a = 0; a < 12; a++) {
        const size_t at = a < 6 ? first + (size_t)a : second + (size_t)a - 6;
        const double wa = weight * by_pose[a];
        double *h = system->h + at * (size_t)system->n;
        system->g[at] += wa * sample->r;
        for (int k = 0; k < 8; k++)
            h[node[k]] += wa * by_node[k];
        for (int k = 0; k < 6 && k <= a; k++)
            h[first + (size_t)k] += wa * by_pose[k];
        for (int k = 6; k <= a; k++)
            h[second + (size_t)k - 6] += wa * by_pose[k];
    }
}

static void add_pair(struct solver *s, struct calibrate_pair pair)
{
    const struct calibrate_side from = side_of(s, pair.i), to = side_of(s, pair.j);
    const struct level_camera *level = &from.eye->level;
    const double weight = calibrate_worth(from.eye, STRIDE_PX) / (s->scale * s->scale);
    const struct se3 T_j_i = se3_between(&s->T[pair.j], &s->T[pair.i]);
    for (int y = STRIDE_PX / 2; y < level->height_px; y += STRIDE_PX)
        for (int x = STRIDE_PX / 2; x < level->width_px; x += STRIDE_PX) {
            struct calibrate_sample sample;
            if (!calibrate_sample(&from, &to, &T_j_i, x, y, &sample))
                continue;
            s->sum_abs += fmin(fabs(sample.r), 3 * s->scale);
            s->n_samples++;
            const double w = weight * calibrate_weight(sample.r, s->scale);
            if (w > 0)
                add_sample(s, pair, &sample, w);
        }
}

// What a step lacks, and its derivative by right twists of both poses and of both places:
// log(step T_i_j) is less by Ad(T_j_i) of i's and more by j's; a place is taken off its pose.
static void add_step(struct solver *s, const struct rig_adjustment_step *step)
{
    const uint32_t a = s->what->images[step->i].camera, b = s->what->images[step->j].camera;
    const struct se3 T_j_i = se3_between(&s->T[step->j], &s->T[step->i]);
    const struct se3 back = se3_inverse(&T_j_i), lack = se3_compose(&step->T_j_i, &back);
    const size_t first[4] = {first_of_pose(s, step->i), first_of_pose(s, step->j),
                             first_of_place(s, a), first_of_place(s, b)};
    const int n = a == b ? 12 : 24; // of one camera places cancel nearly
    double x[6], ad[36], rows[6][24] = {{0}};
    int index[24];
    se3_log(&lack, x);
    se3_adjoint(&T_j_i, ad);
    for (int k = 0; k < 24; k++)
        index[k] = (int)first[k / 6] + k % 6;
    for (int c = 0; c < 6; c++) {
        for (int k = 0; k < 6; k++) {
            rows[c][k] = -ad[6 * c + k];
            rows[c][12 + k] = ad[6 * c + k];
            x[c] += a == b ? 0 : ad[6 * c + k] * s->places[a][k];
        }
        x[c] -= a == b ? 0 : s->places[b][c];
        rows[c][6 + c] = 1;
        rows[c][18 + c] = -1;
    }
    struct normal_equations *system = &s->system;
    for (int c = 0; c < 6; c++)
        for (int d = 0; d < 6; d++) {
            const double w = step->information[6 * c + d];
            for (int k = 0; k < n; k++) {
                double *h = system->h + (size_t)index[k] * (size_t)system->n;
                system->g[index[k]] += w * rows[c][k] * x[d];
                for (int l = 0; l < n; l++)
                    if (index[l] <= index[k])
                        h[index[l]] += w * rows[c][k] * rows[d][l];
            }
        }
}

static void hold(struct solver *s, size_t at, double weight, double value)
{
    s->system.h[at * (size_t)s->system.n + at] += weight;
    s->system.g[at] += weight * value;
}

// The first image stands for the world, the first camera for the body.
static void add_known(struct solver *s)
{
    const struct rig_adjustment *what = s->what;
    const double std[2] = {what->place_m, what->place_rad};
    for (uint32_t i = 0; i < what->n_cameras; i++) {
        calibrate_add_prior(&s->system, (int)first_of_field(i), &s->fields[i], &usual);
        for (size_t k = 0; k < 6; k++)
            hold(s, first_of_place(s, i) + k, i == 0 ? HELD : 1 / (std[k / 3] * std[k / 3]),
                 s->places[i][k]);
    }
    for (uint32_t i = 0; i < what->n_images; i++)
        for (size_t k = 0; k < 6; k++)
            hold(s, first_of_pose(s, i) + k, i == 0 ? HELD : 1 / (POSE_STD * POSE_STD), 0);
}

static int step(struct solver *s)
{
    struct normal_equations *system = &s->system;
    const struct rig_adjustment *what = s->what;
    const size_t n = (size_t)system->n;
    memset(system->h, 0, n * n * sizeof *system->h);
    memset(system->g, 0, n * sizeof *system->g);
    s->sum_abs = s->n_samples = 0;
    for (uint32_t k = 0; k < s->n_pairs; k++)
        add_pair(s, s->pairs[k]);
    for (uint32_t k = 0; k < what->n_steps; k++)
        add_step(s, &what->steps[k]);
    add_known(s);
    if (!(s->n_samples > 0) || !normal_equations_factor(system))
        return -EDOM;
    normal_equations_solve(system, system->g);
    for (uint32_t i = 0; i < what->n_cameras; i++) {
        for (size_t k = 0; k < FIELD_N_NODES; k++)
            s->fields[i].node_per_m[k] -= (float)system->g[first_of_field(i) + k];
        for (size_t k = 0; k < 6; k++)
            s->places[i][k] -= system->g[first_of_place(s, i) + k];
    }
    for (uint32_t i = 0; i < what->n_images; i++) {
        double twist[6];
        for (size_t k = 0; k < 6; k++)
            twist[k] = -system->g[first_of_pose(s, i) + k];
        const struct se3 turn = se3_exp(twist), T = se3_compose(&s->T[i], &turn);
        s->T[i] = se3_normalized(&T);
    }
    s->scale = fmax(1.2533141 * s->sum_abs / s->n_samples, 1e-5);
    return 0;
}

// The mean residual of the pairs as things are, each at most FIRST_SCALE.
static double residual(const struct solver *s)
{
    double sum = 0, n = 0;
    for (uint32_t k = 0; k < s->n_pairs; k++) {
        const struct calibrate_pair pair = s->pairs[k];
        const struct calibrate_side from = side_of(s, pair.i), to = side_of(s, pair.j);
        const struct se3 T_j_i = se3_between(&s->T[pair.j], &s->T[pair.i]);
        for (int y = CALIBRATE_LOOK_PX / 3; y < from.eye->level.height_px; y += CALIBRATE_LOOK_PX)
            for (int x = CALIBRATE_LOOK_PX / 3; x < from.eye->level.width_px;
                 x += CALIBRATE_LOOK_PX) {
                struct calibrate_sample sample;
                if (!calibrate_sample(&from, &to, &T_j_i, x, y, &sample))
                    continue;
                sum += fmin(fabs(sample.r), FIRST_SCALE);
                n++;
            }
    }
    return n > 0 ? sum / n : 0;
}

static int check(const struct rig_adjustment *what)
{
    uint32_t n_of[RIG_ADJUSTMENT_MAX_CAMERAS] = {0};
    if (what->n_cameras > RIG_ADJUSTMENT_MAX_CAMERAS || what->n_images > RIG_ADJUSTMENT_MAX_IMAGES)
        return -E2BIG;
    for (uint32_t i = 0; i < what->n_images; i++)
        n_of[what->images[i].camera]++;
    for (uint32_t i = 0; i < what->n_cameras; i++)
        if (n_of[i] < RIG_ADJUSTMENT_MIN_IMAGES)
            return -ENODATA;
    return what->n_cameras > 0 ? 0 : -ENODATA;
}

static int start(struct solver *s, const struct rig_adjustment *what)
{
    *s = (struct solver){.what = what, .scale = FIRST_SCALE, .random = 88172645463325252u};
    for (uint32_t i = 0; i < what->n_cameras; i++) {
        s->eyes[i] = (struct calibrate_eye){
            what->cameras[i], camera_level(&what->cameras[i], what->map_level), what->map_level};
        s->fields[i].camera = what->cameras[i];
    }
    const size_t n = first_of_pose(s, what->n_images);
    s->system = (struct normal_equations){(int)n, malloc(n * n * sizeof(double)),
                                          malloc(n * sizeof(double)), NULL};
    s->T = malloc(what->n_images * sizeof *s->T);
    s->pairs = malloc(MAX_PAIRS * sizeof *s->pairs);
    if (!s->system.h || !s->system.g || !s->T || !s->pairs)
        return -ENOMEM;
    for (uint32_t i = 0; i < what->n_images; i++)
        s->T[i] = what->images[i].T_world_image;
    return 0;
}

int rig_adjustment_solve(const struct rig_adjustment *what, struct rig_adjustment_report *out)
{
    *out = (struct rig_adjustment_report){0};
    int rc = check(what);
    struct solver *s = rc == 0 ? calloc(1, sizeof *s) : NULL;
    if (!s)
        return rc < 0 ? rc : -ENOMEM;
    rc = start(s, what);
    if (rc == 0)
        rc = choose_pairs(s);
    out->n_pairs = s->n_pairs;
    out->before_per_m = rc == 0 ? residual(s) : 0;
    for (int k = 0; k < STEPS && rc == 0; k++)
        rc = what->stop && what->stop(what->user) ? -ECANCELED : step(s);
    out->after_per_m = rc == 0 ? residual(s) : 0;
    if (rc == 0 && !(out->after_per_m < out->before_per_m))
        rc = -EDOM;
    for (uint32_t i = 0; i < what->n_images && rc == 0; i++)
        what->images[i].T_world_image = s->T[i];
    for (uint32_t i = 0; i < what->n_cameras; i++)
        out->moved[i] = rc == 0 ? se3_exp(s->places[i]) : se3_identity();
    free(s->system.h);
    free(s->system.g);
    free(s->T);
    free(s->pairs);
    free(s);
    return rc;
}
