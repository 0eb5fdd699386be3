// SPDX-License-Identifier: Apache-2.0
#include "daemon/ros/rig_tf.h"

static const struct rig_tf_pose *kept_of(const struct rig_tf_camera *camera, uint32_t i)
{
    return &camera->kept[i % RIG_TF_KEPT];
}

// Where the camera saw the rig at that time; the nearest it has, where that is before or after all.
static struct se3 pose_at(const struct rig_tf_camera *camera, int64_t time_ns)
{
    uint32_t i = camera->n_kept > RIG_TF_KEPT ? camera->n_kept - RIG_TF_KEPT : 0;
    while (i + 1 < camera->n_kept && kept_of(camera, i + 1)->time_ns <= time_ns)
        i++;
    const struct rig_tf_pose *before = kept_of(camera, i);
    if (i + 1 == camera->n_kept || before->time_ns >= time_ns)
        return before->T_odom_first;
    const struct rig_tf_pose *after = kept_of(camera, i + 1);
    double twist[6];
    const struct se3 moved = se3_between(&before->T_odom_first, &after->T_odom_first);
    const double share =
        (double)(time_ns - before->time_ns) / (double)(after->time_ns - before->time_ns);
    se3_log(&moved, twist);
    for (int k = 0; k < 6; k++)
        twist[k] *= share;
    const struct se3 part = se3_exp(twist);
    return se3_compose(&before->T_odom_first, &part);
}

void rig_tf_begin(struct rig_tf *tf, struct rig_tf_camera *cameras)
{
    *tf = (struct rig_tf){.cameras = cameras, .good.T_odom_first = se3_identity()};
    cameras[0].T_tf_odom = se3_identity();
}

// tf goes on by this camera, from the last good pose of the one before.
static void follow(struct rig_tf *tf, uint32_t of)
{
    struct rig_tf_camera *camera = &tf->cameras[of];
    const struct se3 T_odom_first = pose_at(camera, tf->good.time_ns);
    const struct se3 T_first_odom = se3_inverse(&T_odom_first);
    const struct se3 T_tf_odom = se3_compose(&tf->good.T_odom_first, &T_first_odom);
    camera->T_tf_odom = se3_normalized(&T_tf_odom);
    tf->followed = of;
    tf->has_changed = true;
}

bool rig_tf_put(struct rig_tf *tf, const struct rig_tf_sight *sight, struct rig_tf_pose *out)
{
    struct rig_tf_camera *camera = &tf->cameras[sight->of];
    const struct rig_tf_pose pose = {sight->time_ns - camera->ahead_ns,
                                     se3_compose(&sight->T_odom_base, &camera->T_base_first)};
    if (!tf->has_begun) {
        tf->has_begun = true;
        tf->good_put_ns = sight->put_ns;
        tf->good.time_ns = pose.time_ns;
        tf->out_ns = pose.time_ns - RIG_TF_SILENT_NS;
    }
    if (!sight->is_lost)
        camera->kept[camera->n_kept++ % RIG_TF_KEPT] = pose;
    if (!sight->is_lost && sight->of != tf->followed &&
        sight->put_ns - tf->good_put_ns > RIG_TF_SILENT_NS)
        follow(tf, sight->of);
    if (sight->of != tf->followed)
        return false;
    *out = (struct rig_tf_pose){pose.time_ns, se3_compose(&camera->T_tf_odom, &pose.T_odom_first)};
    if (!sight->is_lost) {
        tf->good_put_ns = sight->put_ns;
        tf->good = *out;
    }
    // Time does not go back where cameras change; a clock that was set is none of ours.
    if (out->time_ns <= tf->out_ns && tf->out_ns - out->time_ns < RIG_TF_SILENT_NS)
        return false;
    tf->out_ns = out->time_ns;
    return true;
}
