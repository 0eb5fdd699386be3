// SPDX-License-Identifier: Apache-2.0
#include "capture/recorder/recorded_tf.h"

#include <errno.h>
#include <stdlib.h>

#include "capture/ros/frames.h"
#include "capture/ros/rig_tf.h"

struct place {
    bool is_carried; // by the first camera's base, as both sit on one rig
    struct se3 T_first_base;
};

struct recorded_tf {
    struct place places[RECORDER_MAX_CAMERAS];
    bool moves_rig; // a camera is carried
    struct rig_tf rig_tf;
    bool has_alone; // the newest pose, of a camera that no rig moves
    struct recorded_move alone;
    struct rig_tf_camera rig_cameras[]; // where a camera is carried one for each
};

static bool is_carried(const struct writer_camera *first, const struct writer_camera *other)
{
    return other != first && first->T_rig_camera && other->T_rig_camera;
}

static struct place place_of(const struct writer_camera *first, const struct writer_camera *other,
                             bool has_bases)
{
    const struct se3 none = se3_identity();
    if (!is_carried(first, other))
        return (struct place){false, none};
    const struct se3 T_first_rig = se3_inverse(first->T_rig_camera);
    const struct se3 T_first_camera = se3_compose(&T_first_rig, other->T_rig_camera);
    return (struct place){true, ros_base_in_base(has_bases ? &first->T_base_optical : &none,
                                                 &T_first_camera,
                                                 has_bases ? &other->T_base_optical : &none)};
}

int recorded_tf_create(struct recorded_tf **out, const struct writer_camera *cameras,
                       uint32_t n_cameras, bool has_bases)
{
    bool moves_rig = false;
    for (uint32_t i = 0; i < n_cameras; i++)
        moves_rig = moves_rig || is_carried(&cameras[0], &cameras[i]);
    struct recorded_tf *tf =
        calloc(1, sizeof *tf + (moves_rig ? n_cameras * sizeof *tf->rig_cameras : 0));
    *out = tf;
    if (!tf)
        return -ENOMEM;
    tf->moves_rig = moves_rig;
    for (uint32_t i = 0; i < n_cameras; i++) {
        tf->places[i] = place_of(&cameras[0], &cameras[i], has_bases);
        if (moves_rig)
            tf->rig_cameras[i] =
                (struct rig_tf_camera){.T_base_first = se3_inverse(&tf->places[i].T_first_base),
                                       .ahead_ns = cameras[i].ahead_ns - cameras[0].ahead_ns};
    }
    if (moves_rig)
        rig_tf_begin(&tf->rig_tf, tf->rig_cameras);
    return 0;
}

void recorded_tf_destroy(struct recorded_tf **tf)
{
    free(*tf);
    *tf = NULL;
}

const struct se3 *recorded_tf_place(const struct recorded_tf *tf, uint32_t camera)
{
    return tf->places[camera].is_carried ? &tf->places[camera].T_first_base : NULL;
}

static bool is_alone(const struct recorded_tf *tf, uint32_t camera)
{
    return camera == 0 ? !tf->moves_rig : !recorded_tf_place(tf, camera);
}

void recorded_tf_put(struct recorded_tf *tf, uint32_t camera, int64_t time_ns,
                     const struct se3 *T_odom_base, const struct foxglove_odometry *odometry)
{
    tf->has_alone = is_alone(tf, camera);
    if (tf->has_alone)
        tf->alone = (struct recorded_move){camera, time_ns, *T_odom_base,
                                           !odometry->is_lost && !odometry->is_stale, true};
    else
        rig_tf_put(&tf->rig_tf, &(struct rig_tf_sight){.of = camera,
                                                       .time_ns = time_ns,
                                                       .put_ns = odometry->published_ns,
                                                       .T_odom_base = *T_odom_base,
                                                       .is_lost = odometry->is_lost,
                                                       .is_predicted = odometry->is_predicted,
                                                       .is_stale = odometry->is_stale});
}

bool recorded_tf_next(struct recorded_tf *tf, struct recorded_move *out)
{
    struct rig_tf_pose pose;
    const bool has_alone = tf->has_alone;
    tf->has_alone = false;
    if (has_alone) {
        *out = tf->alone;
        return true;
    }
    if (!tf->moves_rig || !rig_tf_next(&tf->rig_tf, &pose))
        return false;
    *out =
        (struct recorded_move){0, pose.time_ns, pose.T_odom_first, true, !tf->rig_tf.has_changed};
    return true;
}

bool recorded_tf_map(const struct recorded_tf *tf, uint32_t camera, struct se3 *inout_T_map_odom)
{
    if (is_alone(tf, camera))
        return true;
    if (camera > 0 || tf->rig_tf.followed > 0)
        return false;
    *inout_T_map_odom = rig_tf_odom_in_map(&tf->rig_tf, inout_T_map_odom);
    return true;
}
