// SPDX-License-Identifier: Apache-2.0
#include "gpu/search_refine.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "gpu/cpu/parallel.h"
#include "gpu/cpu/search_map.h"
#include "gpu/kernels/search_raster.h"

#define LOOSE_SCORE    0.15f
#define ICP_POINTS_MAX 3072 // of a drawn model; more pixels are thinned out evenly

#define LANES 8

// Model points with their normals in the model's centred frame [m], as arrays; n is a multiple of
// LANES, padded with points behind the camera.
struct model_points {
    uint32_t n;
    float p[3][ICP_POINTS_MAX], n_[3][ICP_POINTS_MAX];
};

struct icp_gates {
    float distance_m; // pairs farther apart do not count
    float cosine;     // nor do those whose normals differ more
};

static void mul3(const float a[9], const float p[3], float out[3])
{
    for (int i = 0; i < 3; i++)
        out[i] = a[3 * i] * p[0] + a[3 * i + 1] * p[1] + a[3 * i + 2] * p[2];
}

static void mul3_transposed(const float a[9], const float p[3], float out[3])
{
    for (int i = 0; i < 3; i++)
        out[i] = a[i] * p[0] + a[3 + i] * p[1] + a[6 + i] * p[2];
}

void search_normals(const float *z_m, const struct search_camera *c, int v0, int v1,
                    float *out_normal_z)
{
    // A wide baseline: Kinect depth comes in steps of several millimetres.
    enum { R = 3 };
    for (int v = v0; v < v1; v++)
        for (int u = 0; u < c->width; u++) {
            const float *p = z_m + (size_t)v * (size_t)c->width + u;
            float *out = out_normal_z + 4 * ((size_t)v * (size_t)c->width + (size_t)u);
            out[0] = out[1] = out[2] = 0;
            out[3] = *p;
            if (*p == 0.f || u < R || v < R || u >= c->width - R || v >= c->height - R)
                continue;
            const float *up = p - R * c->width, *down = p + R * c->width;
            float step = 0.02f * *p + 6 * search_sigma(*p);
            if (!(fabsf(p[R] - *p) < step && fabsf(p[-R] - *p) < step && fabsf(*up - *p) < step &&
                  fabsf(*down - *p) < step))
                continue;
            float a = ((float)u - c->cx) / c->fx, b = ((float)v - c->cy) / c->fy;
            float dzu = (p[R] - p[-R]) / (2 * R), dzv = (*down - *up) / (2 * R);
            // Tangents of z (a, b, 1) along u and v.
            float tu[3] = {a * dzu + *p / c->fx, b * dzu, dzu};
            float tv[3] = {a * dzv, b * dzv + *p / c->fy, dzv};
            float n[3] = {tu[1] * tv[2] - tu[2] * tv[1], tu[2] * tv[0] - tu[0] * tv[2],
                          tu[0] * tv[1] - tu[1] * tv[0]};
            float length = sqrtf(n[0] * n[0] + n[1] * n[1] + n[2] * n[2]);
            if (!(length > 0))
                continue;
            float sign = n[0] * a + n[1] * b + n[2] > 0 ? -1 / length : 1 / length;
            for (int k = 0; k < 3; k++)
                out[k] = n[k] * sign;
        }
}

// Solves h x = g for a symmetric positive definite 6x6 (upper triangle given). Returns false when
// it is not.
static bool solve6(double h[6][6], const double g[6], double x[6])
{
    double l[6][6];
    for (int i = 0; i < 6; i++)
        for (int j = 0; j <= i; j++) {
            double sum = h[j][i];
            for (int k = 0; k < j; k++)
                sum -= l[i][k] * l[j][k];
            if (i == j && !(sum > 1e-12 * h[i][i]))
                return false;
            l[i][j] = i == j ? sqrt(sum) : sum / l[j][j];
        }
    for (int i = 0; i < 6; i++) {
        double sum = g[i];
        for (int k = 0; k < i; k++)
            sum -= l[i][k] * x[k];
        x[i] = sum / l[i][i];
    }
    for (int i = 5; i >= 0; i--) {
        double sum = x[i];
        for (int k = i + 1; k < 6; k++)
            sum -= l[k][i] * x[k];
        x[i] = sum / l[i][i];
    }
    return true;
}

typedef float lanes __attribute__((vector_size(LANES * sizeof(float))));
typedef int32_t int_lanes __attribute__((vector_size(LANES * sizeof(int32_t))));

// A macro, because a vector must not be an argument of a function without AVX.
#define SELECT(mask, a, b) ((lanes)(((mask) & (int_lanes)(a)) | (~(mask) & (int_lanes)(b))))

#define N_SUMS 27 // upper triangle of H, then g

// Sums of one step over all points. Planes are the model's, because the model has no noise; arms
// are in object radii, so that all unknowns are of one size.
CPU_CLONES static void icp_sums(const struct search_scene *scene, const struct model_points *points,
                                const struct icp_gates *gates, float radius_m,
                                const struct search_candidate *c, double out[N_SUMS])
{
    const struct search_camera *cam = &scene->camera;
    const float *R = c->rotation, *T = c->t_m;
    const float inverse_radius = 1 / radius_m;
    const float inverse_square = 1 / (gates->distance_m * gates->distance_m);
    lanes sums[N_SUMS] = {{0}};
    for (uint32_t i = 0; i < points->n; i += LANES) {
        lanes p[3], m[3], arm[3], n[3], q[3], s[4];
        for (int k = 0; k < 3; k++) {
            memcpy(&p[k], &points->p[k][i], sizeof p[k]);
            memcpy(&m[k], &points->n_[k][i], sizeof m[k]);
        }
        for (int k = 0; k < 3; k++) {
            arm[k] = R[3 * k] * p[0] + R[3 * k + 1] * p[1] + R[3 * k + 2] * p[2];
            n[k] = R[3 * k] * m[0] + R[3 * k + 1] * m[1] + R[3 * k + 2] * m[2];
            q[k] = arm[k] + T[k];
        }
        lanes inverse = 1 / q[2];
        lanes fu = cam->fx * q[0] * inverse + cam->cx, fv = cam->fy * q[1] * inverse + cam->cy;
        int_lanes use = (q[2] > 0.05f) & (fu > -0.5f) & (fv > -0.5f) &
                        (fu < (float)cam->width - 0.5f) & (fv < (float)cam->height - 0.5f) &
                        (n[0] * q[0] + n[1] * q[1] + n[2] * q[2] < 0); // else turned away by now
        const lanes zero = {0};
        int_lanes u = __builtin_convertvector(SELECT(use, fu + 0.5f, zero), int_lanes);
        int_lanes v = __builtin_convertvector(SELECT(use, fv + 0.5f, zero), int_lanes);
        int_lanes at = v * cam->width + u;
        float pixel[4][LANES];
        for (int k = 0; k < LANES; k++)
            for (int j = 0; j < 4; j++)
                pixel[j][k] = scene->normal_z[4 * (size_t)at[k] + (size_t)j];
        memcpy(s, pixel, sizeof s);
        lanes d0 = (__builtin_convertvector(u, lanes) - cam->cx) / cam->fx * s[3] - q[0];
        lanes d1 = (__builtin_convertvector(v, lanes) - cam->cy) / cam->fy * s[3] - q[1];
        lanes d2 = s[3] - q[2], r = n[0] * d0 + n[1] * d1 + n[2] * d2;
        lanes far = (d0 * d0 + d1 * d1 + d2 * d2) * inverse_square;
        int_lanes has_normal = s[0] * s[0] + s[1] * s[1] + s[2] * s[2] > 0.5f;
        int_lanes agree = n[0] * s[0] + n[1] * s[1] + n[2] * s[2] >= gates->cosine;
        use &= (s[3] > 0) & (far < 1) & (agree | ~has_normal);
        lanes w = (1 - far) * (1 - far) * SELECT(has_normal, zero + 1.f, zero + 0.3f);
        w = SELECT(use, w, zero);
        lanes j[6] = {n[0],
                      n[1],
                      n[2],
                      (arm[1] * n[2] - arm[2] * n[1]) * inverse_radius,
                      (arm[2] * n[0] - arm[0] * n[2]) * inverse_radius,
                      (arm[0] * n[1] - arm[1] * n[0]) * inverse_radius};
        r = SELECT(use, r, zero);
        for (int a = 0, k = 0; a < 6; a++) {
            lanes wj = w * j[a];
            for (int b = a; b < 6; b++, k++)
                sums[k] += wj * j[b];
            sums[21 + a] += wj * r;
        }
    }
    for (int k = 0; k < N_SUMS; k++) {
        out[k] = 0;
        for (int lane = 0; lane < LANES; lane++)
            out[k] += (double)sums[k][lane];
    }
}

// One step of projective point-to-plane ICP. Returns the size of the step relative to the object,
// negative when it cannot be solved.
static double icp_step(const struct search_scene *scene, const struct model_points *points,
                       const struct icp_gates *gates, double radius_m, struct search_candidate *c)
{
    double sums[N_SUMS], h[6][6], g[6];
    icp_sums(scene, points, gates, (float)radius_m, c, sums);
    for (int i = 0, k = 0; i < 6; i++) {
        for (int j = i; j < 6; j++, k++)
            h[i][j] = sums[k];
        g[i] = sums[21 + i];
    }
    // A little damping holds the directions that the visible surface does not.
    double trace = h[0][0] + h[1][1] + h[2][2];
    for (int a = 0; a < 6; a++)
        h[a][a] += 0.002 * trace + 1e-9;
    double x[6];
    if (!(trace > 4) || !solve6(h, g, x))
        return -1;
    double w[3] = {x[3] / radius_m, x[4] / radius_m, x[5] / radius_m};
    double angle = sqrt(w[0] * w[0] + w[1] * w[1] + w[2] * w[2]);
    double a = angle < 1e-6 ? 1 : sin(angle) / angle;
    double b = angle < 1e-6 ? 0.5 : (1 - cos(angle)) / (angle * angle);
    double k[9] = {0, -w[2], w[1], w[2], 0, -w[0], -w[1], w[0], 0};
    double turned[9];
    for (int row = 0; row < 3; row++)
        for (int col = 0; col < 3; col++) {
            turned[3 * row + col] = 0;
            for (int m = 0; m < 3; m++) {
                double square = w[row] * w[m] - (row == m ? angle * angle : 0);
                double e = (row == m ? 1 : 0) + a * k[3 * row + m] + b * square;
                turned[3 * row + col] += e * (double)c->rotation[3 * m + col];
            }
        }
    for (int i = 0; i < 9; i++)
        c->rotation[i] = (float)turned[i];
    for (int i = 0; i < 3; i++)
        c->t_m[i] += (float)x[i];
    return sqrt(x[0] * x[0] + x[1] * x[1] + x[2] * x[2]) / radius_m + angle;
}

// Verdict on one model pixel: the sums that a judgement consists of.
struct tally {
    uint32_t n, n_match, n_free, n_wrong, n_hidden;
    double square_m2, evidence;
};

// Evidence of a pixel: 1 - (d / gate)^2, cut at -1: a residual of the sensor's size speaks for the
// pose, one of a few times that speaks against it, however many such pixels there are. What lies
// more than two gates in front is an occluder and says nothing.
static void judge_pixel(const float scene[4], float z, const float n[3], float gate_m,
                        struct tally *tally)
{
    tally->n++;
    float d = scene[3] - z;
    if (scene[3] == 0.f || d < -2 * gate_m) {
        tally->n_hidden++;
        return;
    }
    if (d > gate_m) {
        tally->n_free++;
        tally->evidence -= 1;
        return;
    }
    bool has_normal = scene[0] != 0.f || scene[1] != 0.f || scene[2] != 0.f;
    if (has_normal && n[0] * scene[0] + n[1] * scene[1] + n[2] * scene[2] < 0.7f) {
        tally->n_wrong++;
        tally->evidence -= 0.5;
        return;
    }
    float ratio = d / gate_m;
    tally->evidence += ratio > -1.4f ? (double)(1 - ratio * ratio) : -1;
    tally->n_match += d > -gate_m;
    tally->square_m2 += d > -gate_m ? (double)(d * d) : 0;
}

// The score is the evidence of a pixel that could be seen; hidden ones count a third, so that of
// two poses that fit what is seen the one that is seen more wins. Far away, where the gate comes to
// the size of the object, everything fits: there the evidence weighs less.
static void conclude(const struct tally *tally, float radius_m, float gate_m,
                     struct search_candidate *c)
{
    float n = (float)(tally->n ? tally->n : 1);
    c->match = (float)tally->n_match / n;
    c->free = ((float)tally->n_free + 0.5f * (float)tally->n_wrong) / n;
    c->hidden = (float)tally->n_hidden / n;
    c->n_match = tally->n_match;
    c->rms_m = tally->n_match ? (float)sqrt(tally->square_m2 / (double)tally->n_match) : 0;
    float weight = 0.1f * radius_m / gate_m;
    c->score = (weight < 1 ? weight : 1) * (float)tally->evidence / (n * (1 - 0.67f * c->hidden));
}

// The view nearest to the candidate's rotation, through the seeds.
CPU_CLONES static uint32_t view_for(const struct search_object *object,
                                    const struct search_candidate *c)
{
    // A view looks along the ray to the object: the candidate's rotation seen from there.
    float ray[3] = {c->t_m[0], c->t_m[1], c->t_m[2]}, frame[9], seen[9];
    search_frame_rotation(ray, frame);
    for (int i = 0; i < 3; i++)
        for (int j = 0; j < 3; j++)
            seen[3 * i + j] = frame[3 * i] * c->rotation[j] +
                              frame[3 * i + 1] * c->rotation[3 + j] +
                              frame[3 * i + 2] * c->rotation[6 + j];
    uint32_t best, best_seed = 0;
    float best_trace = -2;
    for (uint32_t from = 0; from < object->n_seeds; from += LANES) {
        lanes trace = {0};
        for (int k = 0; k < 9; k++) {
            lanes r;
            memcpy(&r, object->seed_rotations + (size_t)from * 9 + k * LANES, sizeof r);
            trace += r * seen[k];
        }
        for (int k = 0; k < LANES; k++)
            if (trace[k] > best_trace) {
                best_trace = trace[k];
                best_seed = from + (uint32_t)k;
            }
    }
    best = object->seeds[best_seed];
    for (uint32_t i = object->child_first[best_seed]; i < object->child_first[best_seed + 1]; i++) {
        const float *r = object->views[object->children[i]].rotation;
        float trace = 0;
        for (int k = 0; k < 9; k++)
            trace += r[k] * seen[k];
        if (trace > best_trace) {
            best_trace = trace;
            best = object->children[i];
        }
    }
    return best;
}

static const struct search_point *view_list(const struct search_object *object, uint32_t view)
{
    return object->points + (size_t)view * (SEARCH_POINTS + SEARCH_RING_POINTS);
}

// Point `p` of a view with rotation r in the model's frame [m].
static void in_model(const struct search_object *object, const float r[9],
                     const struct search_point *p, float out[3])
{
    const float px_m = object->info.map_px_m;
    float at[3] = {((float)p->u - SEARCH_CENTRE_PX) * px_m, ((float)p->v - SEARCH_CENTRE_PX) * px_m,
                   (float)p->z / SEARCH_UNIT * px_m};
    mul3_transposed(r, at, out);
}

// Fills up to a multiple of LANES with points that lie behind every camera.
static void pad_points(struct model_points *out)
{
    for (; out->n % LANES; out->n++)
        for (int k = 0; k < 3; k++) {
            out->p[k][out->n] = -1e6f;
            out->n_[k][out->n] = 0;
        }
}

static void view_points(const struct search_object *object, uint32_t view, struct model_points *out)
{
    const float *r = object->views[view].rotation;
    const struct search_point *points = view_list(object, view);
    for (uint32_t i = 0; i < object->n_points[view]; i++) {
        float n[3] = {(float)points[i].normal[0] / 127, (float)points[i].normal[1] / 127,
                      (float)points[i].normal[2] / 127};
        float p[3], turned[3];
        in_model(object, r, &points[i], p);
        mul3_transposed(r, n, turned);
        for (int k = 0; k < 3; k++) {
            out->p[k][i] = p[k];
            out->n_[k][i] = turned[k];
        }
    }
    out->n = object->n_points[view];
    pad_points(out);
}

// The scene's pixel under a point of the camera's frame; nothing outside the image.
static const float *scene_at(const struct search_scene *scene, const float q[3])
{
    static const float nothing[4] = {0};
    const struct search_camera *cam = &scene->camera;
    float fu = cam->fx * q[0] / q[2] + cam->cx, fv = cam->fy * q[1] / q[2] + cam->cy;
    if (!(q[2] > 0.05f && fu > -0.5f && fv > -0.5f && fu < (float)cam->width - 0.5f &&
          fv < (float)cam->height - 0.5f))
        return nothing;
    return scene->normal_z + 4 * ((size_t)(fv + 0.5f) * (size_t)cam->width + (size_t)(fu + 0.5f));
}

// Share of the silhouette beyond which the scene goes on at the same depth. A real object ends
// there, unless something in front hides the end or it touches what it stands on. Where little of
// the outline can be told (a segmented image has nothing around the object) little is concluded.
static float continued_of(uint32_t n_continued, uint32_t n_ended, uint32_t n_outline)
{
    uint32_t n = n_continued + n_ended, least = n_outline / 4 + 1;
    return (float)n_continued / (float)(n > least ? n : least);
}

static void judge_points(const struct search_scene *scene, const struct search_object *object,
                         const struct model_points *points, float gate_m,
                         struct search_candidate *c)
{
    struct tally tally = {0};
    for (uint32_t i = 0; i < object->n_points[c->view]; i++) {
        float p[3] = {points->p[0][i], points->p[1][i], points->p[2][i]};
        float m[3] = {points->n_[0][i], points->n_[1][i], points->n_[2][i]}, q[3], n[3];
        mul3(c->rotation, p, q);
        mul3(c->rotation, m, n);
        for (int k = 0; k < 3; k++)
            q[k] += c->t_m[k];
        judge_pixel(scene_at(scene, q), q[2], n, gate_m + 3 * search_sigma(q[2]), &tally);
    }
    conclude(&tally, 2 * object->info.radius_m, gate_m + 3 * search_sigma(c->t_m[2]), c);
    uint32_t n_continued = 0, n_ended = 0;
    const struct search_point *ring = view_list(object, c->view) + SEARCH_POINTS;
    for (uint32_t i = 0; i < object->n_ring[c->view]; i++) {
        float p[3], q[3];
        in_model(object, object->views[c->view].rotation, &ring[i], p);
        mul3(c->rotation, p, q);
        for (int k = 0; k < 3; k++)
            q[k] += c->t_m[k];
        const float *s = scene_at(scene, q);
        float gate = 1.5f * gate_m + 3 * search_sigma(q[2]);
        if (s[3] == 0.f || s[3] < q[2] - gate)
            continue;
        n_continued += s[3] < q[2] + gate ? 1 : 0;
        n_ended += s[3] < q[2] + gate ? 0 : 1;
    }
    c->continued = continued_of(n_continued, n_ended, object->n_ring[c->view]);
    c->score -= 0.5f * c->continued * c->match;
}

void search_refine_points(const struct search_scene *scene, const struct search_object *object,
                          struct search_candidate *c)
{
    struct model_points points;
    const float radius_m = object->info.radius_m;
    // The gate closes as the pose settles. The view is looked up anew because a coarse hypothesis
    // may be twenty degrees off, and another side of the model becomes visible on the way.
    static const float gates[] = {0.20f, 0.18f, 0.16f, 0.14f, 0.12f, 0.10f, 0.08f, 0.07f, 0.06f};
    for (uint32_t i = 0; i < sizeof gates / sizeof *gates; i++) {
        // Most hypotheses are nothing: what does not even fit loosely by now is given up.
        if (i == 3) {
            judge_points(scene, object, &points, 0.15f * radius_m, c);
            if (c->score < LOOSE_SCORE)
                return;
        }
        if (i == 0 || i == 3 || i == 6) {
            c->view = view_for(object, c);
            view_points(object, c->view, &points);
        }
        struct icp_gates gate = {gates[i] * radius_m + 2 * search_sigma(c->t_m[2]),
                                 i < 3 ? 0.6f : 0.75f};
        if (icp_step(scene, &points, &gate, (double)radius_m, c) < 0)
            break;
    }
    judge_points(scene, object, &points, 0.05f * radius_m, c);
}

int search_drawing_create(struct search_drawing *drawing, uint32_t n_vertices, uint32_t n_pixels)
{
    memset(drawing, 0, sizeof *drawing);
    drawing->x = malloc(n_vertices * sizeof *drawing->x);
    drawing->y = malloc(n_vertices * sizeof *drawing->y);
    drawing->value = malloc(n_vertices * sizeof *drawing->value);
    drawing->depth = malloc(n_pixels * sizeof *drawing->depth);
    drawing->index = malloc(n_pixels * sizeof *drawing->index);
    drawing->n_vertices = n_vertices;
    drawing->n_pixels = n_pixels;
    if (drawing->x && drawing->y && drawing->value && drawing->depth && drawing->index)
        return 0;
    search_drawing_destroy(drawing);
    return -ENOMEM;
}

void search_drawing_destroy(struct search_drawing *drawing)
{
    free(drawing->x);
    free(drawing->y);
    free(drawing->value);
    free(drawing->depth);
    free(drawing->index);
    memset(drawing, 0, sizeof *drawing);
}

// Rectangle of the image that the model's sphere projects into, with a border for the silhouette.
static void rectangle(const struct search_object *object, const struct search_camera *cam,
                      const struct search_candidate *c, struct search_drawing *drawing)
{
    enum { BORDER = 6 };
    float near = c->t_m[2] - object->info.radius_m;
    near = near > 0.05f ? near : 0.05f;
    float ru = fabsf(cam->fx) * object->info.radius_m / near;
    float rv = fabsf(cam->fy) * object->info.radius_m / near;
    float cu = cam->fx * c->t_m[0] / near + cam->cx,
          cu2 = cam->fx * c->t_m[0] / c->t_m[2] + cam->cx;
    float cv = cam->fy * c->t_m[1] / near + cam->cy,
          cv2 = cam->fy * c->t_m[1] / c->t_m[2] + cam->cy;
    float u0 = fminf(cu, cu2) - ru - BORDER, u1 = fmaxf(cu, cu2) + ru + BORDER;
    float v0 = fminf(cv, cv2) - rv - BORDER, v1 = fmaxf(cv, cv2) + rv + BORDER;
    drawing->u0 = u0 > 0 ? (int)fminf(u0, (float)cam->width) : 0;
    drawing->v0 = v0 > 0 ? (int)fminf(v0, (float)cam->height) : 0;
    int end_u = u1 < (float)cam->width ? (int)fmaxf(u1, 0) : cam->width;
    int end_v = v1 < (float)cam->height ? (int)fmaxf(v1, 0) : cam->height;
    drawing->width = end_u > drawing->u0 ? end_u - drawing->u0 : 0;
    drawing->height = end_v > drawing->v0 ? end_v - drawing->v0 : 0;
}

CPU_CLONES static void project_vertices(const struct search_object *object,
                                        const struct search_camera *cam,
                                        const struct search_candidate *c, float cu, float cv,
                                        int32_t *restrict out_x, int32_t *restrict out_y,
                                        float *restrict out_value)
{
    const float *restrict x = object->x, *restrict y = object->y, *restrict z = object->z;
    float r[9];
    for (int k = 0; k < 9; k++)
        r[k] = c->rotation[k] * object->info.map_px_m;
    for (uint32_t i = 0; i < object->n_vertices; i++) {
        float px = r[0] * x[i] + r[1] * y[i] + r[2] * z[i] + c->t_m[0];
        float py = r[3] * x[i] + r[4] * y[i] + r[5] * z[i] + c->t_m[1];
        float pz = r[6] * x[i] + r[7] * y[i] + r[8] * z[i] + c->t_m[2];
        float inverse = 1 / pz;
        bool front = pz > 0.05f;
        out_x[i] = raster_snap(front ? cam->fx * px * inverse + cu : 1e9f);
        out_y[i] = raster_snap(front ? cam->fy * py * inverse + cv : 1e9f);
        out_value[i] = -inverse;
    }
}

uint32_t search_draw_candidate(const struct search_object *object, const struct search_camera *cam,
                               const struct search_candidate *c, struct search_drawing *drawing)
{
    rectangle(object, cam, c, drawing);
    int n = drawing->width * drawing->height;
    if (n == 0)
        return 0;
    project_vertices(object, cam, c, cam->cx - (float)drawing->u0, cam->cy - (float)drawing->v0,
                     drawing->x, drawing->y, drawing->value);
    for (int i = 0; i < n; i++)
        drawing->depth[i] = INFINITY;
    struct raster_mesh mesh = {drawing->x, drawing->y, drawing->value, object->triangles,
                               object->n_triangles};
    raster_draw(&mesh, drawing->width, drawing->height, drawing->depth, drawing->index);
    uint32_t n_drawn = 0;
    for (int i = 0; i < n; i++)
        n_drawn += drawing->depth[i] < INFINITY;
    return n_drawn;
}

// Normal of a drawn pixel's triangle in the camera's frame, towards the camera.
static void drawn_normal(const struct search_object *object, uint32_t triangle,
                         const float rotation[9], const float ray[3], float out[3])
{
    const uint32_t *t = object->triangles + 3 * (size_t)triangle;
    const float *x = object->x, *y = object->y, *z = object->z;
    float ab[3] = {x[t[1]] - x[t[0]], y[t[1]] - y[t[0]], z[t[1]] - z[t[0]]};
    float ac[3] = {x[t[2]] - x[t[0]], y[t[2]] - y[t[0]], z[t[2]] - z[t[0]]};
    float n[3] = {ab[1] * ac[2] - ab[2] * ac[1], ab[2] * ac[0] - ab[0] * ac[2],
                  ab[0] * ac[1] - ab[1] * ac[0]};
    float length = sqrtf(n[0] * n[0] + n[1] * n[1] + n[2] * n[2]);
    mul3(rotation, n, out);
    float scale = length > 0 ? 1 / length : 0;
    scale = out[0] * ray[0] + out[1] * ray[1] + out[2] * ray[2] > 0 ? -scale : scale;
    for (int k = 0; k < 3; k++)
        out[k] *= scale;
}

// Thins the drawn pixels out to at most ICP_POINTS_MAX model points.
static void drawn_points(const struct search_object *object, const struct search_camera *cam,
                         const struct search_candidate *c, const struct search_drawing *drawing,
                         uint32_t n_drawn, struct model_points *out)
{
    int step = 1;
    while (n_drawn / (uint32_t)(step * step) > ICP_POINTS_MAX * 4 / 5)
        step++;
    uint32_t n = 0;
    for (int v = step / 2; v < drawing->height; v += step)
        for (int u = step / 2; u < drawing->width && n < ICP_POINTS_MAX - LANES; u += step) {
            int at = v * drawing->width + u;
            if (!(drawing->depth[at] < INFINITY))
                continue;
            float z = -1 / drawing->depth[at];
            float ray[3] = {((float)(u + drawing->u0) - cam->cx) / cam->fx,
                            ((float)(v + drawing->v0) - cam->cy) / cam->fy, 1};
            float p[3] = {ray[0] * z - c->t_m[0], ray[1] * z - c->t_m[1], z - c->t_m[2]}, normal[3];
            drawn_normal(object, drawing->index[at], c->rotation, ray, normal);
            float in_model_p[3], in_model_n[3];
            mul3_transposed(c->rotation, p, in_model_p);
            mul3_transposed(c->rotation, normal, in_model_n);
            for (int k = 0; k < 3; k++) {
                out->p[k][n] = in_model_p[k];
                out->n_[k][n] = in_model_n[k];
            }
            n++;
        }
    out->n = n;
    pad_points(out);
}

static float continued_share(const struct search_scene *scene, const struct search_drawing *drawing,
                             float gate_m)
{
    enum { OUT = 4, IN = 1 };
    static const int du[4] = {1, -1, 0, 0}, dv[4] = {0, 0, 1, -1};
    const struct search_camera *cam = &scene->camera;
    uint32_t n_continued = 0, n_ended = 0, n_outline = 0;
    for (int v = OUT; v < drawing->height - OUT; v++)
        for (int u = OUT; u < drawing->width - OUT; u++) {
            const float *depth = drawing->depth + v * drawing->width + u;
            if (!(*depth < INFINITY))
                continue;
            for (int k = 0; k < 4; k++) {
                int step = dv[k] * drawing->width + du[k];
                if (depth[step] < INFINITY || depth[OUT * step] < INFINITY ||
                    !(depth[-IN * step] < INFINITY))
                    continue;
                n_outline++;
                size_t at =
                    (size_t)(v + drawing->v0) * (size_t)cam->width + (size_t)(u + drawing->u0);
                long image_step = dv[k] * cam->width + du[k];
                float z = -1 / *depth, gate = gate_m + 3 * search_sigma(z);
                float inside = scene->normal_z[4 * ((long)at - IN * image_step) + 3];
                float outside = scene->normal_z[4 * ((long)at + OUT * image_step) + 3];
                if (fabsf(inside - z) > gate || outside == 0.f || outside < z - gate)
                    continue;
                n_continued += outside < z + gate ? 1 : 0;
                n_ended += outside < z + gate ? 0 : 1;
            }
        }
    return continued_of(n_continued, n_ended, n_outline);
}

static void judge_drawn(const struct search_scene *scene, const struct search_object *object,
                        const struct search_drawing *drawing, struct search_candidate *c)
{
    const struct search_camera *cam = &scene->camera;
    const float gate_m = 0.012f * object->info.radius_m;
    struct tally tally = {0};
    for (int v = 0; v < drawing->height; v++)
        for (int u = 0; u < drawing->width; u++) {
            int at = v * drawing->width + u;
            if (!(drawing->depth[at] < INFINITY))
                continue;
            size_t pixel =
                (size_t)(v + drawing->v0) * (size_t)cam->width + (size_t)(u + drawing->u0);
            float z = -1 / drawing->depth[at], normal[3];
            float ray[3] = {((float)(u + drawing->u0) - cam->cx) / cam->fx,
                            ((float)(v + drawing->v0) - cam->cy) / cam->fy, 1};
            drawn_normal(object, drawing->index[at], c->rotation, ray, normal);
            // A surface seen at a slant moves more in z for the same misplacement.
            float slant = -(normal[0] * ray[0] + normal[1] * ray[1] + normal[2] * ray[2]);
            slant = slant > 0.3f ? slant : 0.3f;
            judge_pixel(scene->normal_z + 4 * pixel, z, normal,
                        (gate_m + 2.5f * search_sigma(z)) / slant, &tally);
        }
    conclude(&tally, object->info.radius_m, gate_m + 2.5f * search_sigma(c->t_m[2]), c);
    c->continued = continued_share(scene, drawing, 4 * gate_m);
    c->score -= 0.5f * c->continued * c->match;
}

void search_refine_drawn(const struct search_scene *scene, const struct search_object *object,
                         struct search_candidate *c, uint32_t n_rounds,
                         struct search_drawing *drawing)
{
    struct model_points points;
    const float radius_m = object->info.radius_m;
    static const float gates[] = {0.10f, 0.07f, 0.05f};
    for (uint32_t round = 0; round < n_rounds; round++) {
        uint32_t n_drawn = search_draw_candidate(object, &scene->camera, c, drawing);
        drawn_points(object, &scene->camera, c, drawing, n_drawn, &points);
        struct icp_gates gate = {
            gates[round < 3 ? round : 2] * radius_m + 2 * search_sigma(c->t_m[2]), 0.6f};
        for (int i = 0; i < 3; i++)
            if (icp_step(scene, &points, &gate, (double)radius_m, c) < 1e-5)
                break;
    }
    search_draw_candidate(object, &scene->camera, c, drawing);
    judge_drawn(scene, object, drawing, c);
}
