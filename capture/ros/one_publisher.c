// SPDX-License-Identifier: Apache-2.0
#include "capture/ros/one_publisher.h"

static int64_t larger(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

static int64_t smaller(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static int64_t longest_silence_ns(const struct ros_one_publisher *one)
{
    const int64_t usual_ns =
        one->period_ns ? ROS_SILENCE_PERIODS * one->period_ns : ROS_SILENCE_UNKNOWN_NS;
    return larger(larger(ROS_SILENCE_NS, usual_ns), one->least_silence_ns);
}

// Another one's image has come. Whether it delivers while ours is silent.
static bool another_delivers(struct ros_one_publisher *one, int64_t now_ns)
{
    const int64_t least_ns = one->period_ns
                                 ? larger(ROS_DELIVERS_NS, ROS_DELIVERS_PERIODS * one->period_ns)
                                 : ROS_DELIVERS_UNKNOWN_NS;
    if (!one->first_other_ns && now_ns - one->newest_ns > least_ns)
        one->first_other_ns = now_ns;
    return one->first_other_ns && now_ns - one->first_other_ns > least_ns;
}

// The newest counts for a quarter: a pause of a fast one is no period of it for long.
static void hear(struct ros_one_publisher *one, int64_t now_ns)
{
    const int64_t gap_ns = larger(now_ns - one->newest_ns, 1);
    one->period_ns = one->period_ns ? (3 * one->period_ns + gap_ns) / 4 : gap_ns;
    one->newest_ns = now_ns;
    one->are_two = one->are_two || one->n_left_out > 0;
    one->n_left_out = 0;
    one->first_other_ns = 0;
}

static void begin(struct ros_one_publisher *one, uint64_t publisher, int64_t now_ns)
{
    one->ours = publisher;
    one->newest_ns = now_ns;
    one->period_ns = 0;
    one->n_left_out = 0;
    one->n_of_others = 0;
    one->first_other_ns = 0;
    one->are_two = false;
}

void ros_one_publisher_listen(struct ros_one_publisher *one, int64_t now_ns)
{
    const int64_t deaf_ns = one->listened_ns ? now_ns - one->listened_ns : 0;
    if (deaf_ns > ROS_DEAF_NS) {
        one->newest_ns = smaller(one->newest_ns + deaf_ns, now_ns);
        one->first_other_ns = 0;
    }
    one->listened_ns = now_ns;
}

enum ros_image_of ros_one_publisher_judge(struct ros_one_publisher *one, uint64_t publisher,
                                          bool has_ours, int64_t now_ns)
{
    if (publisher == one->ours) {
        hear(one, now_ns);
        return ROS_IMAGE_OF_OURS;
    }
    if (!one->ours || !has_ours) {
        one->n_before = one->n_of_others;
        begin(one, publisher, now_ns);
        one->former = 0;
        one->least_silence_ns = 0;
        return one->n_before > 0 ? ROS_IMAGE_OF_HEIR : ROS_IMAGE_OF_NEXT;
    }
    if (publisher == one->former) {
        const int64_t twice_ns = 2 * (now_ns - one->former_ns);
        one->least_silence_ns =
            larger(one->least_silence_ns, smaller(twice_ns, ROS_SILENCE_MOST_NS));
        one->former = 0;
    }
    const int64_t silence_ns = now_ns - one->newest_ns;
    if (!another_delivers(one, now_ns) || silence_ns <= longest_silence_ns(one)) {
        one->n_left_out++;
        one->n_of_others++;
        return ROS_IMAGE_OF_SECOND;
    }
    one->silence_ns = silence_ns;
    one->n_before = one->n_left_out;
    one->former = one->ours;
    one->former_ns = one->newest_ns;
    begin(one, publisher, now_ns);
    return ROS_IMAGE_OF_SUCCESSOR;
}
