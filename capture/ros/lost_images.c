// SPDX-License-Identifier: Apache-2.0
#include "capture/ros/lost_images.h"

#define SMOOTHING     128 // a busy publisher is late, and then early
#define PAUSE_PERIODS 4   // longer it is a pause; twice in a row a slower rate

void ros_lost_images_look(struct ros_lost_images *lost, int64_t now_ns)
{
    const int64_t ns = lost->looked_ns ? now_ns - lost->looked_ns : 0;
    lost->looked_ns = now_ns;
    if (ns <= ROS_HELD_UP_NS || lost->period_ns == 0)
        return;
    if (lost->caught_up_ns == 0) {
        lost->held_up_ns = 0;
        lost->before_ns = lost->sent_ns;
        lost->n_since = 0;
    }
    lost->held_up_ns += ns;
    lost->caught_up_ns = now_ns + ROS_CATCH_UP_NS;
}

static uint64_t count(const struct ros_lost_images *lost)
{
    const int64_t ns = lost->sent_ns - lost->before_ns;
    const int64_t n_sent = (ns + lost->period_ns / 2) / lost->period_ns;
    if (ns > lost->held_up_ns + ROS_CATCH_UP_NS + ROS_LOST_SLACK_NS ||
        n_sent - lost->n_since < ROS_LEAST_LOST)
        return 0;
    return (uint64_t)(n_sent - lost->n_since);
}

uint64_t ros_lost_images_end(struct ros_lost_images *lost)
{
    const uint64_t n = lost->caught_up_ns == 0 ? 0 : count(lost);
    lost->caught_up_ns = 0;
    return n;
}

static void learn_period(struct ros_lost_images *lost, int64_t step_ns)
{
    const bool was_pause = lost->is_pause;
    lost->is_pause = lost->n_steps > 0 && step_ns > PAUSE_PERIODS * lost->period_ns;
    if (lost->is_pause && !was_pause)
        return;
    lost->n_steps += lost->n_steps < SMOOTHING;
    lost->period_ns += (step_ns - lost->period_ns) / lost->n_steps;
}

uint64_t ros_lost_images_judge(struct ros_lost_images *lost, int64_t sent_ns, int64_t now_ns)
{
    const int64_t step_ns = lost->sent_ns ? sent_ns - lost->sent_ns : 0;
    uint64_t n = 0;
    if (lost->caught_up_ns == 0 && step_ns > 0) {
        learn_period(lost, step_ns);
    } else if (now_ns < lost->caught_up_ns) {
        lost->n_since++;
    } else if (lost->caught_up_ns != 0) {
        n = ros_lost_images_end(lost);
    }
    lost->sent_ns = sent_ns;
    return n;
}

void ros_lost_images_new_source(struct ros_lost_images *lost)
{
    *lost = (struct ros_lost_images){.looked_ns = lost->looked_ns};
}
