// SPDX-License-Identifier: Apache-2.0
// Poses as ROS has them: of a base whose camera stands elsewhere and looks elsewhere; known
// answers.
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "capture/ros/frames.h"
#include "proto/pose_error.h"

static void assert_near(const double *got, const double *wanted, int n)
{
    for (int i = 0; i < n; i++) {
        if (!(fabs(got[i] - wanted[i]) < 1e-12))
            print_error("%d: %g, wanted %g\n", i, got[i], wanted[i]);
        assert_true(fabs(got[i] - wanted[i]) < 1e-12);
    }
}

static struct ros_tracked still(void)
{
    struct ros_tracked tracked = {.time_ns = 7, .T_odom_camera = se3_identity()};
    for (int i = 0; i < 6; i++)
        tracked.covariance[7 * i] = i < 3 ? 1e-4 : 4e-6;
    return tracked;
}

// A camera at the base's origin that looks along its x axis: what is forward for the camera (z) is
// forward for the base (x), right is -y, down is -z; a covariance that is the same in all
// directions stays as it is.
static void a_camera_that_looks_ahead(void **state)
{
    (void)state;
    struct ros_tracked tracked = still();
    const struct se3 T_base_optical = ros_optical_in_base();
    struct ros_pose pose;
    tracked.T_odom_camera.t_m[0] = 1;
    tracked.T_odom_camera.t_m[1] = 2;
    tracked.T_odom_camera.t_m[2] = 3;
    tracked.velocity[2] = 0.5; // forward
    tracked.velocity[4] = 0.1; // turns about the axis that points down: to the right
    ros_pose_of_base(&tracked, &T_base_optical, &pose);
    assert_int_equal(pose.time_ns, 7);
    assert_near(pose.position_m, (const double[]){3, -1, -2}, 3);
    assert_near(pose.orientation_xyzw, (const double[]){0, 0, 0, 1}, 4);
    assert_near(pose.linear_m_s, (const double[]){0.5, 0, 0}, 3);
    assert_near(pose.angular_rad_s, (const double[]){0, 0, -0.1}, 3);
    for (int i = 0; i < 6; i++)
        tracked.covariance[7 * i] += ROS_POSE_FLOOR;
    assert_near(pose.covariance, tracked.covariance, 36);
    ros_pose_of_static(&T_base_optical, 9, &pose);
    assert_int_equal(pose.time_ns, 9);
    assert_near(pose.position_m, (const double[]){0, 0, 0}, 3);
    const double *q = pose.orientation_xyzw;
    const double sign = q[3] < 0 ? -1 : 1; // REP 103: -0.5 0.5 -0.5 0.5
    for (int i = 0; i < 4; i++)
        assert_true(fabs(sign * q[i] - (i % 2 ? 0.5 : -0.5)) < 1e-12);
}

// Half a metre in front of the base: a turn of the camera moves the base sideways, and what is not
// known of the turn is not known of the place.
static void a_camera_on_an_arm(void **state)
{
    (void)state;
    struct ros_tracked tracked = still();
    struct se3 T_base_optical = ros_optical_in_base();
    struct ros_pose pose;
    T_base_optical.t_m[0] = 0.5;
    tracked.velocity[4] = 0.1;
    ros_pose_of_base(&tracked, &T_base_optical, &pose);
    assert_near(pose.position_m, (const double[]){0, 0, 0}, 3);
    assert_near(pose.linear_m_s, (const double[]){0, 0.05, 0}, 3); // it swings to the left
    const double place = 1e-4 + 0.25 * 4e-6 + ROS_POSE_FLOOR;
    assert_near(&pose.covariance[0], (const double[]){1e-4 + ROS_POSE_FLOOR, 0, 0}, 3);
    assert_near(&pose.covariance[7], (const double[]){place, 0, 0, 0, -0.5 * 4e-6}, 5);
    assert_near(&pose.covariance[14], (const double[]){place, 0, 0.5 * 4e-6}, 3);
    for (int i = 0; i < 6; i++)
        for (int k = 0; k < 6; k++)
            assert_true(pose.covariance[6 * i + k] == pose.covariance[6 * k + i]);
}

// What is not known of a camera's turn is not known of how its base swings, and what is not known
// of its way is so of the base's, along the base's axes.
static void a_velocity_on_an_arm(void **state)
{
    (void)state;
    struct ros_tracked tracked = still();
    struct se3 T_base_optical = ros_optical_in_base();
    struct ros_pose pose;
    T_base_optical.t_m[0] = 0.5;
    tracked.knows_velocity = true;
    for (int i = 0; i < 6; i++)
        tracked.velocity_covariance[7 * i] = (const double[]){1, 2, 3, 4, 5, 6}[i] * 1e-3;
    ros_pose_of_base(&tracked, &T_base_optical, &pose);
    const double *c = pose.twist_covariance, floor = ROS_TWIST_FLOOR;
    assert_near(&c[0], (const double[]){3e-3 + floor, 0, 0, 0, 0, 0}, 6);
    assert_near(&c[6], (const double[]){0, 1e-3 + 0.25 * 5e-3 + floor, 0, 0, 0, -0.5 * 5e-3}, 6);
    assert_near(&c[12], (const double[]){0, 0, 2e-3 + 0.25 * 4e-3 + floor, 0, 0.5 * 4e-3, 0}, 6);
    assert_near(&c[21], (const double[]){6e-3 + floor, 0, 0}, 3);
    assert_near(&c[28], (const double[]){4e-3 + floor, 0}, 2);
    assert_near(&c[35], (const double[]){5e-3 + floor}, 1);
}

// The first pose of an epoch is where odom begins: nothing of it is uncertain, nothing is known of
// its velocity. No variance is 0, and a filter is not told that the camera stands still.
static void a_first_pose(void **state)
{
    (void)state;
    struct ros_tracked tracked = {.time_ns = 7, .T_odom_camera = se3_identity()};
    const struct se3 T_base_optical = ros_optical_in_base();
    struct ros_pose pose;
    ros_pose_of_base(&tracked, &T_base_optical, &pose);
    for (int i = 0; i < 36; i++) {
        assert_true(pose.covariance[i] == (i % 7 ? 0 : ROS_POSE_FLOOR));
        assert_true(pose.twist_covariance[i] == (i % 7 ? 0 : POSE_ERROR_LOST));
    }
}

// After an epoch that nobody asked for: anywhere in odom, which goes on; its speed is known.
static void a_pose_that_is_cut(void **state)
{
    (void)state;
    struct ros_tracked tracked = still();
    const struct se3 T_base_optical = ros_optical_in_base();
    struct ros_pose pose;
    tracked.is_cut = tracked.knows_velocity = true;
    ros_pose_of_base(&tracked, &T_base_optical, &pose);
    for (int i = 0; i < 6; i++) {
        assert_true(pose.covariance[7 * i] >= POSE_ERROR_LOST);
        assert_true(pose.twist_covariance[7 * i] == ROS_TWIST_FLOOR);
    }
}

// Camera B half a metre to the right of A and turned to the right by 90 degrees: its base, too, in
// the base's axes, wherever the cameras sit on theirs.
static void a_base_in_a_base(void **state)
{
    (void)state;
    const struct se3 T_a_b = {{0, 0, 1, 0, 1, 0, -1, 0, 0}, {0.5, 0, 0}};
    struct se3 T_base_a = ros_optical_in_base(), T_base_b = ros_optical_in_base(), T;
    T = ros_base_in_base(&T_base_a, &T_a_b, &T_base_b);
    assert_near(T.t_m, (const double[]){0, -0.5, 0}, 3);
    assert_near(T.r, (const double[]){0, 1, 0, -1, 0, 0, 0, 0, 1}, 9);
    T_base_a.t_m[2] = 1; // A a metre above its base, B as far in front of its own
    T_base_b.t_m[0] = 1;
    T = ros_base_in_base(&T_base_a, &T_a_b, &T_base_b);
    assert_near(T.t_m, (const double[]){0, 0.5, 1}, 3);
}

// A map whose camera's odom is a metre to the right of its origin and turned to the right by 90
// degrees: odom of ROS is a metre to the map's right, and turned about the axis that points up;
// with the camera on an arm, the same of where the base was.
static void odom_in_a_map(void **state)
{
    (void)state;
    const struct se3 T_map_odom = {{0, 0, 1, 0, 1, 0, -1, 0, 0}, {1, 0, 0}};
    struct se3 T_base_optical = ros_optical_in_base(), T;
    T = ros_odom_in_map(&T_map_odom, &T_base_optical);
    assert_near(T.t_m, (const double[]){0, -1, 0}, 3);
    assert_near(T.r, (const double[]){0, 1, 0, -1, 0, 0, 0, 0, 1}, 9);
    T_base_optical.t_m[0] = 0.5;
    T = ros_odom_in_map(&T_map_odom, &T_base_optical);
    assert_near(T.t_m, (const double[]){0.5, -0.5, 0}, 3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_camera_that_looks_ahead), cmocka_unit_test(a_camera_on_an_arm),
        cmocka_unit_test(a_velocity_on_an_arm),      cmocka_unit_test(a_first_pose),
        cmocka_unit_test(a_pose_that_is_cut),        cmocka_unit_test(odom_in_a_map),
        cmocka_unit_test(a_base_in_a_base),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
