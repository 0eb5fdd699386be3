// SPDX-License-Identifier: Apache-2.0
#include "capture/ros/rig_tf.h"

static const struct rig_tf_pose *kept_of(const struct rig_tf_camera *camera, uint32_t i)
{
    return &camera->kept[i % RIG_TF_KEPT];
}

// The newest that is kept from before that time or at it; the oldest where all are later. Stamps
// that went back are of another time: none is looked at beyond.
static uint32_t newest_until(const struct rig_tf_camera *camera, int64_t time_ns)
{
    const uint32_t oldest = camera->n_kept > RIG_TF_KEPT ? camera->n_kept - RIG_TF_KEPT : 0;
    uint32_t i = camera->n_kept - 1;
    while (i > oldest && kept_of(camera, i)->time_ns > time_ns &&
           kept_of(camera, i - 1)->time_ns < kept_of(camera, i)->time_ns)
        i--;
    return i;
}

// Where the camera saw the rig at that time; the nearest it has, where that is before or after all.
static struct se3 pose_at(const struct rig_tf_camera *camera, int64_t time_ns)
{
    const uint32_t i = newest_until(camera, time_ns);
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

// tf goes on by this camera, from the last good pose of the one before, with what this one has said
// since.
static void follow(struct rig_tf *tf, uint32_t of)
{
    struct rig_tf_camera *camera = &tf->cameras[of];
    const struct se3 T_odom_first = pose_at(camera, tf->good.time_ns);
    const struct se3 T_first_odom = se3_inverse(&T_odom_first);
    const struct se3 T_tf_odom = se3_compose(&tf->good.T_odom_first, &T_first_odom);
    camera->T_tf_odom = se3_normalized(&T_tf_odom);
    tf->followed = of;
    tf->has_changed = true;
    tf->n_out = newest_until(camera, tf->good.time_ns);
    const int64_t apart_ns = kept_of(camera, tf->n_out)->time_ns - tf->good.time_ns;
    tf->unseen_ns = apart_ns > 0 ? apart_ns : 0;
}

// Whether the one that is followed has been silent or lost for so long that this one, of which a
// good pose has come, is followed. One that is lost may be ahead of this one: then it is waited for
// what this one has said when the other was good.
static bool takes_over(const struct rig_tf *tf, const struct rig_tf_camera *camera, int64_t time_ns,
                       int64_t put_ns)
{
    return put_ns - tf->good_put_ns > RIG_TF_SILENT_NS || camera->n_waiting >= RIG_TF_WAITING ||
           (tf->n_lost >= RIG_TF_LOST_FRAMES && time_ns - tf->good.time_ns > RIG_TF_LOST_NS);
}

// A good pose of one that is not followed.
static void wait(struct rig_tf *tf, struct rig_tf_camera *camera, int64_t put_ns)
{
    if (camera->good_put_ns != tf->good_put_ns)
        camera->n_waiting = 0;
    camera->good_put_ns = tf->good_put_ns;
    camera->n_waiting++;
    tf->other_put_ns = put_ns;
}

static struct rig_tf_pose in_tf(const struct rig_tf *tf, const struct rig_tf_pose *pose)
{
    const struct se3 *T_tf_odom = &tf->cameras[tf->followed].T_tf_odom;
    return (struct rig_tf_pose){pose->time_ns, pose->clock_set_ns,
                                se3_compose(T_tf_odom, &pose->T_odom_first)};
}

void rig_tf_put(struct rig_tf *tf, const struct rig_tf_sight *sight)
{
    struct rig_tf_camera *camera = &tf->cameras[sight->of];
    const struct rig_tf_pose pose = {sight->time_ns - camera->ahead_ns, sight->clock_set_ns,
                                     se3_compose(&sight->T_odom_base, &camera->T_base_first)};
    if (!tf->has_begun) {
        tf->has_begun = true;
        tf->good_put_ns = sight->put_ns;
        tf->good.time_ns = pose.time_ns;
        tf->out_ns = pose.time_ns - RIG_TF_SILENT_NS;
        tf->newest = pose;
    }
    const bool is_good = !sight->is_lost && !sight->is_predicted;
    if (sight->of == tf->followed && pose.time_ns < tf->newest.time_ns) { // its clock was set back
        tf->out_ns = pose.time_ns - 1;
        tf->other_put_ns = 0;
    }
    if (is_good)
        camera->kept[camera->n_kept++ % RIG_TF_KEPT] = pose;
    if (is_good && sight->of != tf->followed) {
        wait(tf, camera, sight->put_ns);
        if (!takes_over(tf, camera, pose.time_ns, sight->put_ns))
            return;
        follow(tf, sight->of);
    } else if (sight->of != tf->followed) {
        return;
    } else {
        tf->n_out = camera->n_kept;
    }
    tf->n_lost += sight->is_lost;
    if (sight->is_lost && tf->other_put_ns && sight->put_ns - tf->other_put_ns <= RIG_TF_LOST_NS)
        return; // another one knows better than that it stands still
    if (sight->is_stale)
        return;
    tf->newest = pose;
    tf->has_newest = true;
    if (!is_good)
        return;
    tf->n_lost = 0;
    tf->good_put_ns = sight->put_ns;
    tf->good = in_tf(tf, &pose);
}

static void move(struct rig_tf *tf, const struct rig_tf_pose *pose, struct rig_tf_pose *out)
{
    *out = in_tf(tf, pose);
    tf->out_ns = out->time_ns;
    out->time_ns += out->clock_set_ns;
}

// Time does not go back where cameras change; it does where a camera's own does.
bool rig_tf_next(struct rig_tf *tf, struct rig_tf_pose *out)
{
    const struct rig_tf_camera *camera = &tf->cameras[tf->followed];
    while (tf->n_out + 1 < camera->n_kept) { // the last of them is `newest`
        const struct rig_tf_pose *pose = kept_of(camera, tf->n_out++);
        if (pose->time_ns <= tf->out_ns)
            continue;
        move(tf, pose, out);
        return true;
    }
    const bool has_newest = tf->has_newest;
    const int64_t back_ns = tf->out_ns - tf->newest.time_ns;
    tf->has_newest = false;
    if (!has_newest || (back_ns >= 0 && back_ns < RIG_TF_SILENT_NS))
        return false;
    move(tf, &tf->newest, out);
    return true;
}

struct se3 rig_tf_odom_in_map(const struct rig_tf *tf, const struct se3 *T_map_odom)
{
    const struct se3 T_odom_tf = se3_inverse(&tf->cameras[0].T_tf_odom);
    return se3_compose(T_map_odom, &T_odom_tf);
}
