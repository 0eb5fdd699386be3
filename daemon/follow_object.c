// SPDX-License-Identifier: Apache-2.0
#include "daemon/follow_object.h"

#include <errno.h>
#include <stdlib.h>

#include "daemon/fill_messages.h"
#include "proto/se3.h"
#include "proto/wire.h"

#define SURE       0.9f // a pose with less confidence is refined once more
#define FAR_BEHIND 5 // frames: then every other one must do, to catch up with a search of a second

int follow_start(struct follow *follow, const char *object, const struct se3 *T_camera_object,
                 uint64_t seq, const struct intrinsics *camera)
{
    *follow = (struct follow){.active = true, .seq = seq, .pose_seq = seq};
    follow->pose.T_camera_model = *T_camera_object;
    snprintf(follow->object, sizeof follow->object, "%s", object);
    follow->depth = malloc((size_t)camera->width_px * camera->height_px * sizeof *follow->depth);
    if (follow->depth)
        return 0;
    follow->active = false;
    return -ENOMEM;
}

void follow_stop(struct follow *follow)
{
    free(follow->depth);
    follow->depth = NULL;
    follow->active = false;
}

// The next frame to look at: not simply the newest, because a refinement from a pose of several
// frames ago may end on something else. Dropped frames are not kept and are stepped over. Returns
// false when there is none.
static bool read_next(struct follow *follow, const struct follow_world *world,
                      struct search_image *out)
{
    uint64_t oldest, next;
    pose_history_range(shared_history(world->shared), &oldest, &next);
    uint64_t step = next > follow->seq + FAR_BEHIND ? 2 : 1;
    for (uint64_t seq = follow->seq + step; seq < next; seq++)
        if (frames_get(world->frames, seq, follow->depth, &out->frame, &out->camera) == 0) {
            follow->seq = seq;
            return true;
        }
    return false;
}

static void publish_pose(const struct follow *follow, const struct follow_world *world,
                         const struct depth_frame *frame, bool lost)
{
    const struct shared_info *info = shared_info(world->shared);
    struct past_pose camera;
    posed_ObjectPose out = {
        .has_timestamp = true,
        .timestamp = wire_timestamp(frame->time_ns),
        .has_pose = true,
        .pose = wire_pose(&follow->pose.T_camera_model, NULL),
        .session = info->session,
        .seq = follow->seq,
        .lost = lost,
        .confidence = follow->pose.confidence,
        .visible = follow->pose.visible,
        .residual_rms_m = follow->pose.residual_rms_m,
    };
    wire_copy_text(out.frame_id, sizeof out.frame_id, info->camera_frame);
    wire_copy_text(out.object, sizeof out.object, follow->object);
    if (pose_history_get(shared_history(world->shared), follow->seq, &camera) == 0 &&
        camera.state != posed_State_STATE_LOST) {
        struct se3 T_odom_camera = se3_from_quaternion(camera.q_xyzw, camera.t_m);
        struct se3 T_odom_object = se3_compose(&T_odom_camera, &follow->pose.T_camera_model);
        out.has_pose_odom = true;
        out.pose_odom = wire_pose(&T_odom_object, NULL);
    }
    publish_post(world->publish, PUBLISH_OBJECT, posed_ObjectPose_fields, &out);
}

// From where the object should be if it goes on moving as it did, else from where it was.
static int refine(struct follow *follow, const struct follow_world *world, size_t i,
                  const struct search_image *image)
{
    const struct search_object *object = objects_get(world->objects, i);
    double n_frames = (double)(follow->seq - follow->pose_seq), twist[6];
    struct search_pose pose = follow->pose;
    for (int k = 0; k < 6; k++)
        twist[k] = follow->motion[k] * n_frames;
    struct se3 step = se3_exp(twist);
    pose.T_camera_model = se3_compose(&follow->pose.T_camera_model, &step);
    int error = search_follow(objects_search(world->objects), object, image, &pose);
    if (error == -ENODATA) {
        pose = follow->pose;
        error = search_follow(objects_search(world->objects), object, image, &pose);
    }
    if (error)
        return error;
    // The first step knows of no motion and may end beside the object: from there it is near.
    struct search_pose again = pose;
    if (pose.confidence < SURE &&
        search_follow(objects_search(world->objects), object, image, &again) == 0 &&
        again.confidence > pose.confidence)
        pose = again;
    step = se3_between(&follow->pose.T_camera_model, &pose.T_camera_model);
    se3_log(&step, twist);
    for (int k = 0; k < 6; k++)
        follow->motion[k] = twist[k] / n_frames;
    follow->pose = pose;
    follow->pose_seq = follow->seq;
    return 0;
}

void follow_step(struct follow *follow, const struct follow_world *world)
{
    long i = objects_find(world->objects, follow->object);
    struct search_image image = {0};
    if (i < 0) {
        follow_stop(follow);
        return;
    }
    if (!read_next(follow, world, &image))
        return;
    int error = refine(follow, world, (size_t)i, &image);
    if (!error || follow->seen_ns == 0)
        follow->seen_ns = image.frame.time_ns;
    publish_pose(follow, world, &image.frame, error != 0);
    if (image.frame.time_ns - follow->seen_ns > FOLLOW_MAX_LOST_NS ||
        (error && error != -ENODATA)) {
        log_to(&world->log, LOG_LEVEL_NOTICE, "object %s is no longer followed: it is %s",
               follow->object, error == -ENODATA ? "out of sight" : "a failure of the device");
        follow_stop(follow);
    }
}
