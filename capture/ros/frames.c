// SPDX-License-Identifier: Apache-2.0
#include "capture/ros/frames.h"

#include <string.h>

#include "proto/pose_error.h"

struct se3 ros_optical_in_base(void)
{
    return (struct se3){{0, 0, 1, -1, 0, 0, 0, -1, 0}, {0, 0, 0}};
}

static void rotate(const double r[9], const double in[3], double out[3])
{
    for (int i = 0; i < 3; i++)
        out[i] = r[3 * i] * in[0] + r[3 * i + 1] * in[1] + r[3 * i + 2] * in[2];
}

static void cross(const double a[3], const double b[3], double out[3])
{
    out[0] = a[1] * b[2] - a[2] * b[1];
    out[1] = a[2] * b[0] - a[0] * b[2];
    out[2] = a[0] * b[1] - a[1] * b[0];
}

// J C J^T
static void propagate(const double j[36], const double c[36], double out[36])
{
    double jc[36];
    for (int i = 0; i < 6; i++)
        for (int k = 0; k < 6; k++) {
            jc[6 * i + k] = 0;
            for (int m = 0; m < 6; m++)
                jc[6 * i + k] += j[6 * i + m] * c[6 * m + k];
        }
    for (int i = 0; i < 6; i++)
        for (int k = 0; k < 6; k++) {
            out[6 * i + k] = 0;
            for (int m = 0; m < 6; m++)
                out[6 * i + k] += jc[6 * i + m] * j[6 * k + m];
        }
}

static void add_floor(double variance, double covariance[36])
{
    for (int i = 0; i < 6; i++)
        covariance[7 * i] += variance;
}

void ros_pose_of_base(const struct ros_tracked *tracked, const struct se3 *T_base_optical,
                      struct ros_pose *out)
{
    const struct se3 *B = T_base_optical, T_optical_base = se3_inverse(B);
    const double *base = T_optical_base.t_m; // where the base is, in the camera frame
    struct se3 moved = se3_compose(&tracked->T_odom_camera, &T_optical_base);
    struct se3 T = se3_compose(B, &moved);
    out->time_ns = tracked->time_ns;
    memcpy(out->position_m, T.t_m, sizeof out->position_m);
    se3_to_quaternion(&T, out->orientation_xyzw);

    // A turn by w of the camera moves the base by w x arm.
    double arm[3], j[36] = {0};
    rotate(tracked->T_odom_camera.r, base, arm);
    for (int k = 0; k < 3; k++) {
        double axis[3] = {k == 0, k == 1, k == 2}, moves[3], column[3];
        cross(axis, arm, moves);
        rotate(B->r, moves, column);
        for (int i = 0; i < 3; i++) {
            j[6 * i + k] = j[6 * (i + 3) + k + 3] = B->r[3 * i + k];
            j[6 * i + k + 3] = column[i];
        }
    }
    double covariance[36] = {0};
    if (!tracked->is_cut)
        memcpy(covariance, tracked->covariance, sizeof covariance);
    else
        add_floor(POSE_ERROR_LOST, covariance);
    propagate(j, covariance, out->covariance);
    add_floor(ROS_POSE_FLOOR, out->covariance);

    const double *v = tracked->velocity, *w = tracked->velocity + 3;
    double swing[3], at_base[3];
    cross(w, base, swing);
    for (int i = 0; i < 3; i++)
        at_base[i] = v[i] + swing[i];
    rotate(B->r, at_base, out->linear_m_s);
    rotate(B->r, w, out->angular_rad_s);
    memset(out->twist_covariance, 0, sizeof out->twist_covariance);
    if (tracked->knows_velocity)
        pose_error_add(B->r, base, tracked->velocity_covariance, out->twist_covariance);
    add_floor(tracked->knows_velocity ? ROS_TWIST_FLOOR : POSE_ERROR_LOST, out->twist_covariance);
}

struct se3 ros_odom_in_map(const struct se3 *T_map_odom, const struct se3 *T_base_optical)
{
    const struct se3 T_optical_base = se3_inverse(T_base_optical);
    const struct se3 T_base_odom = se3_compose(T_base_optical, T_map_odom);
    return se3_compose(&T_base_odom, &T_optical_base);
}

void ros_pose_of_static(const struct se3 *T, int64_t time_ns, struct ros_pose *out)
{
    *out = (struct ros_pose){.time_ns = time_ns};
    memcpy(out->position_m, T->t_m, sizeof out->position_m);
    se3_to_quaternion(T, out->orientation_xyzw);
}

struct se3 ros_base_in_base(const struct se3 *T_base_a, const struct se3 *T_a_b,
                            const struct se3 *T_base_b)
{
    const struct se3 T_b_base = se3_inverse(T_base_b), T_base_b_of_a = se3_compose(T_base_a, T_a_b);
    return se3_compose(&T_base_b_of_a, &T_b_base);
}
