// SPDX-License-Identifier: Apache-2.0
// The pose search's poses against references that share no formula with it (reference.h): views and
// hits in the frame of a ray, near symmetries, which poses are the same, where a search starts.
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "gpu/search/kernels/hypothesis_counts.h"
#include "gpu/search/kernels/near_symmetry.h"
#include "gpu/search/kernels/same_pose.h"
#include "gpu/search/kernels/start_points.h"
#include "tests/check/check.h"
#include "tests/check/search/reference.h"

static const struct check_limit limits[] = {
    {"float", 2e-6, 2e-6, "a dozen float operations"},
    {"metres", 2e-6, 0, "coordinates of a metre in float"},
};
enum { LIMIT_FLOAT, LIMIT_METRES };

static const struct search_camera camera = {580, -570, 311.5f, 245.25f, 640, 480};

static void close_to(int limit, double got, double expected, const char *name)
{
    check_close(&limits[limit], got, expected, fabs(expected), name);
}

static void check_poses(void)
{
    check_case("poses");
    for (int i = 0; i < 300; i++) {
        float a[9], b[9], view[9];
        double da[9], db[9], dview[9], product[9], looking[9], expected[9];
        reference_random_rotation(a, da);
        reference_random_rotation(b, db);
        reference_random_rotation(view, dview);
        double trace = 0, inverse[9];
        for (int k = 0; k < 9; k++)
            inverse[k] = da[k % 3 * 3 + k / 3];
        reference_product(inverse, db, product);
        trace = product[0] + product[4] + product[8];
        close_to(LIMIT_FLOAT, (double)search_trace(a, b), trace, "trace");
        check_close(&limits[LIMIT_FLOAT], (double)search_sigma((float)(0.3 + 0.01 * i)),
                    reference_sigma(0.3 + 0.01 * i), 0.01, "sigma");

        // A view's rotation in the frame of a ray.
        struct search_candidate c = {.t_m = {0.2f, (float)check_uniform(-0.3, 0.3), 0.8f}};
        float seen[9];
        double t[3];
        memcpy(c.rotation, a, sizeof a);
        reference_widen(c.t_m, 3, t);
        reference_look_along(t, looking);
        reference_product(looking, da, expected);
        search_seen_rotation(&c, seen);
        for (int k = 0; k < 9; k++)
            close_to(LIMIT_FLOAT, (double)seen[k], expected[k], "seen rotation");

        // And back: the pose of a view laid at (x, y, z) px in a frame.
        struct search_frame frame;
        const double px = 0.003, shift[3] = {check_uniform(-30, 30), check_uniform(-30, 30),
                                             check_uniform(-9, 9)};
        search_start_frame(c.t_m, (float)px, &frame);
        struct search_candidate out;
        search_from_frame(&frame, view, (float)shift[0], (float)shift[1], (float)shift[2], &out);
        double p[3], q[3], back[9];
        reference_turn(looking, t, p);
        for (int k = 0; k < 3; k++)
            p[k] += shift[k] * px;
        reference_turn_back(looking, p, q);
        for (int k = 0; k < 9; k++)
            back[k] = looking[k % 3 * 3 + k / 3];
        reference_product(back, dview, expected);
        for (int k = 0; k < 3; k++)
            close_to(LIMIT_METRES, (double)out.t_m[k], q[k], "place");
        for (int k = 0; k < 9; k++)
            close_to(LIMIT_FLOAT, (double)out.rotation[k], expected[k], "rotation");
        check_that(out.score == 0 && out.view == 0, "not scored");

        // A hit: cell (au, av), 4 px wide, on the start point; a map's middle is at 31.5 px.
        struct search_candidate hit;
        const int au = i % 16, av = i / 16 % 16, az = i - 150;
        search_from_hit(&frame, view, au, av, az, &hit);
        search_from_frame(&frame, view, (float)(31.5 - (4 * au + 1.5)),
                          (float)(31.5 - (4 * av + 1.5)), (float)(-az / 64.0), &out);
        check_that(memcmp(&hit, &out, sizeof hit) == 0, "hit");
    }
}

// Pixel and normal of a view in the model's frame, and the ray of a pixel.
static void check_view_points(void)
{
    check_case("points of a view");
    for (int i = 0; i < 300; i++) {
        float view[9];
        double dview[9], p[3], q[3];
        const double px = 0.003;
        reference_random_rotation(view, dview);
        float point[3], normal[3];
        const int8_t stored[3] = {(int8_t)(i % 127), -80, (int8_t) - (i % 100)};
        const double at[3] = {(i % 64 - 31.5) * px, (i / 64 - 31.5) * px, (i - 100) / 64.0 * px};
        const double n[3] = {stored[0] / 127.0, stored[1] / 127.0, stored[2] / 127.0};
        search_view_point(view, i % 64, i / 64, i - 100, (float)px, point);
        search_view_normal(view, stored, normal);
        reference_turn_back(dview, at, p);
        reference_turn_back(dview, n, q);
        for (int k = 0; k < 3; k++) {
            close_to(LIMIT_METRES, (double)point[k], p[k], "view point");
            close_to(LIMIT_FLOAT, (double)normal[k], q[k], "view normal");
        }
        float ray[3];
        search_pixel_ray(&camera, i, 2 * i, ray);
        close_to(LIMIT_FLOAT, (double)ray[0], (i - 311.5) / 580, "ray");
        close_to(LIMIT_FLOAT, (double)ray[1], (2 * i - 245.25) / -570, "ray");
        check_that(ray[2] == 1, "ray");
    }
}

// Moved by a near symmetry: first in the model, then into the camera's frame.
static void check_near_symmetry(void)
{
    check_case("near symmetries");
    for (int i = 0; i < 300; i++) {
        float b[9];
        double da[9], db[9], expected[9], p[3], t[3];
        struct search_candidate c = {.t_m = {0.2f, (float)check_uniform(-0.3, 0.3), 0.8f}}, out;
        reference_random_rotation(c.rotation, da);
        reference_random_rotation(b, db);
        reference_widen(c.t_m, 3, t);
        struct search_near_symmetry symmetry = {.shift_m = {0.01f, -0.02f, 0.005f}};
        memcpy(symmetry.rotation, b, sizeof b);
        search_near_symmetry_pose(&symmetry, &c, &out);
        const double moved[3] = {0.01, -0.02, 0.005};
        reference_turn(da, moved, p);
        reference_product(da, db, expected);
        for (int k = 0; k < 3; k++)
            close_to(LIMIT_METRES, (double)out.t_m[k], t[k] + p[k], "near symmetry's place");
        for (int k = 0; k < 9; k++)
            close_to(LIMIT_FLOAT, (double)out.rotation[k], expected[k], "near symmetry");
    }
}

// Poses nearer than an angle and a distance are the same, also by the object's rotations.
static void check_distinct(void)
{
    check_case("distinct poses");
    const double radius = 0.12;
    const struct search_nearness draw = search_nearness_to_draw((float)radius);
    const struct search_nearness answers = search_nearness_of_answers((float)radius);
    close_to(LIMIT_FLOAT, (double)draw.trace, 1 + 2 * cos(0.17), "angle to draw");
    close_to(LIMIT_FLOAT, (double)answers.trace, 1 + 2 * cos(0.26), "angle of answers");
    close_to(LIMIT_FLOAT, (double)draw.distance_m, 0.2 * radius, "distance to draw");
    close_to(LIMIT_FLOAT, (double)answers.distance_m, 0.3 * radius, "distance of answers");
    int n_same = 0;
    for (int i = 0; i < 1200; i++) {
        struct search_rotations rotations = {0};
        struct search_candidate a = {.t_m = {0.1f, 0.2f, 0.9f}}, b = a;
        double da[9], db[9], axis[3] = {check_gaussian(), check_gaussian(), check_gaussian()};
        double step[9], off[3], distance2 = 0, angle = check_uniform(0.1, 0.35), turn[9];
        const int kind = i % 4; // none, revolution, fold, sphere
        reference_random_rotation(a.rotation, da);
        const double length = sqrt(reference_dot(axis, axis));
        for (int k = 0; k < 3; k++)
            axis[k] /= length;
        reference_about(axis, angle, step);
        reference_product(step, da, db);
        double symmetry[3] = {0, 0, 1};
        if (kind == 1 || kind == 2) {
            reference_about(symmetry, kind == 1 ? check_uniform(0.5, 6) : 2.0943951023931953, turn);
            reference_product(db, turn, db);
        }
        rotations.revolution = kind == 1;
        rotations.sphere = kind == 3;
        for (int k = 0; k < 3; k++)
            rotations.axis[k] = (float)symmetry[k];
        if (kind == 2)
            for (int n = 1; n < 3; n++) {
                reference_about(symmetry, 2.0943951023931953 * n, turn);
                for (int k = 0; k < 9; k++)
                    rotations.of[n - 1][k] = (float)turn[k];
                rotations.n++;
            }
        for (int k = 0; k < 9; k++)
            b.rotation[k] = (float)db[k];
        for (int k = 0; k < 3; k++) {
            off[k] = check_uniform(-0.03, 0.03);
            distance2 += off[k] * off[k];
            b.t_m[k] += (float)off[k];
        }
        // What is left of the angle: of a revolution only how far its axis leans.
        double apart = angle;
        if (kind == 1) {
            double ua[3], ub[3];
            reference_turn(da, symmetry, ua);
            reference_turn(db, symmetry, ub);
            apart = acos(fmin(reference_dot(ua, ub), 1));
        }
        const bool near = sqrt(distance2) < 0.3 * radius;
        const bool same = near && (kind == 3 || apart < 0.26);
        if (fabs(apart - 0.26) < 1e-4 || fabs(sqrt(distance2) - 0.3 * radius) < 1e-6)
            continue;
        n_same += same;
        check_that(search_same_pose(&rotations, &answers, &a, &b) == same, "kind %d, %g rad, %g m",
                   kind, apart, sqrt(distance2));
    }
    check_that(n_same > 200 && n_same < 1000, "%d the same", n_same);
}

static void check_starts(void)
{
    check_case("start points");
    for (int i = 0; i < 300; i++) {
        const double z = check_uniform(0.4, 1.5), cube = check_uniform(0.01, 0.05);
        const int u = (int)(check_random() % 640), v = (int)(check_random() % 480);
        float p[3];
        search_start_point(&camera, u, v, (float)z, p);
        const double q[3] = {(u - 311.5) / 580 * z, (v - 245.25) / -570 * z, z};
        const struct search_cube at = search_cube_of(p, (float)cube);
        const int32_t got[3] = {at.x, at.y, at.z};
        for (int k = 0; k < 3; k++) {
            const double number = q[k] / cube;
            close_to(LIMIT_METRES, (double)p[k], q[k], "point");
            if (fabs(number - floor(number + 0.5)) > 1e-3)
                check_that(got[k] == (int)floor(number), "cube %g", number);
        }
        // Where normals are averaged: a tenth of the radius, 1 to 6 px.
        struct search_frame frame;
        search_start_frame(p, 0.003f, &frame);
        const double radius = check_uniform(0.01, 0.2), r = 0.1 * radius * 580 / z;
        const struct search_start_around around =
            search_start_surroundings(&camera, &frame, (float)radius);
        check_that(around.u == u && around.v == v, "pixel %d %d: %d %d", u, v, around.u, around.v);
        // Between two pixels, to half a hundredth.
        const double beside = i % 2 ? 0.496 : -0.496;
        const float off[3] = {(float)((u + beside - 311.5) / 580 * z),
                              (float)((v + beside - 245.25) / -570 * z), (float)z};
        search_start_frame(off, 0.003f, &frame);
        const struct search_start_around near =
            search_start_surroundings(&camera, &frame, (float)0.1);
        check_that((near.u == u && near.v == v) || u == 0 || v == 0, "pixel %d %d: %d %d", u, v,
                   near.u, near.v);
        close_to(LIMIT_METRES, (double)around.z_m, z, "depth");
        close_to(LIMIT_FLOAT, (double)around.step_m, 0.2 * radius, "step");
        if (fabs(r - floor(r + 0.5)) > 1e-3)
            check_that(around.r == (r < 1 ? 1 : r > 6 ? 6 : (int)r), "reach %g: %d", r, around.r);
    }
    const struct search_cube cube = {3, -5, 7};
    check_that(search_cube_hash(&cube) ==
                   ((3u * 73856093u) ^ ((uint32_t)-5 * 19349663u) ^ (7u * 83492791u)),
               "hash");
    // Sums of normals near the start's depth, in 1/65536; fewer than one pixel's worth is none.
    float normal_z[4 * 14] = {0}; // and what lies behind the image
    const struct search_scene scene = {normal_z, {100, 100, 1, 1, 3, 3}};
    const struct search_start_around around = {1, 0.02f, 1, 1, 1};
    static const float z[9] = {1, 1.0199f, 1.0201f, 0.9801f, 0.9799f, 0, -1, 1, 1};
    int32_t sum[3] = {0};
    for (int i = 0; i < 14; i++) {
        normal_z[4 * i] = 0.48f;
        normal_z[4 * i + 1] = 0.36f;
        normal_z[4 * i + 2] = -0.8f;
        normal_z[4 * i + 3] = i < 9 ? z[i] : 1;
    }
    for (int y = -1; y < 4; y++)
        for (int x = -1; x < 4; x++)
            search_start_add(&scene, &around, x, y, sum);
    check_that(sum[0] == 5 * 31457 && sum[1] == 5 * 23592 && sum[2] == 5 * -52428, "%d %d %d",
               sum[0], sum[1], sum[2]);
    struct search_frame frame;
    const float ahead[3] = {0, 0, 1};
    search_start_frame(ahead, 1, &frame);
    search_start_normal(sum, &frame);
    check_that(fabs((double)frame.normal[0] - 0.48) < 2e-5 &&
                   fabs((double)frame.normal[1] - 0.36) < 2e-5 &&
                   fabs((double)frame.normal[2] + 0.8) < 2e-5,
               "mean normal"); // cut to 1/65536
    const int32_t little[3] = {0, 0, -65000}, enough[3] = {0, 0, -65536};
    search_start_normal(little, &frame);
    check_that(frame.normal[2] == 0, "no normal");
    search_start_normal(enough, &frame);
    check_that(frame.normal[2] == -1, "normal");
}

int main(int argc, char **argv)
{
    check_begin(argc, argv);
    check_poses();
    check_view_points();
    check_near_symmetry();
    check_distinct();
    check_starts();
    return check_end();
}
