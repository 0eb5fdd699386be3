// SPDX-License-Identifier: Apache-2.0
// Of several publishers on one topic, whose images are taken: the first one's, as long as it lives.
// DDS takes a program that died without a word for alive until its lease ends (10 s); by its
// silence, while another one delivers, it is known to be gone long before.
#ifndef POSED_CAPTURE_ROS_ONE_PUBLISHER_H
#define POSED_CAPTURE_ROS_ONE_PUBLISHER_H

#include <stdbool.h>
#include <stdint.h>

// A silence longer than this and than so many of its usual periods. Of one with a single image no
// period is known yet.
#define ROS_SILENCE_NS          INT64_C(1000000000)
#define ROS_SILENCE_PERIODS     3
#define ROS_SILENCE_UNKNOWN_NS  INT64_C(3000000000)
// Another one delivers where ours has been silent for longer than this and than so many of its
// periods, and for as long again: after a pause of both it may be heard first by chance.
#define ROS_DELIVERS_NS         INT64_C(200000000)
#define ROS_DELIVERS_PERIODS    2
#define ROS_DELIVERS_UNKNOWN_NS INT64_C(1000000000)
// One that was silent and came back is waited for twice as long, but not longer than this.
#define ROS_SILENCE_MOST_NS     INT64_C(30000000000)
// While nobody listened for longer than this there was no silence.
#define ROS_DEAF_NS             INT64_C(500000000)

enum ros_image_of {
    ROS_IMAGE_OF_OURS,
    ROS_IMAGE_OF_NEXT,      // ours from now on: there was none, or it has ended
    ROS_IMAGE_OF_HEIR,      // ours from now on: the one before it has ended, and was not alone
    ROS_IMAGE_OF_SUCCESSOR, // ours from now on: the one before it is silent
    ROS_IMAGE_OF_SECOND,    // left out
};

struct ros_one_publisher {    // begins as all zero
    uint64_t ours;            // 0: none
    int64_t newest_ns;        // when its last image came
    int64_t period_ns;        // usual, between its images; 0: not known
    uint64_t n_left_out;      // images of others since then,
    uint64_t n_of_others;     // and since ours is ours
    int64_t first_other_ns;   // when the first of them came in its silence; 0: none
    bool are_two;             // another one and ours have delivered in turn
    int64_t silence_ns;       // before the newest successor
    uint64_t n_before;        // images left out before the newest successor or heir
    uint64_t former;          // that was silent
    int64_t former_ns;        // when its last image came
    int64_t least_silence_ns; // of such a silence one has come back
    int64_t listened_ns;
};

// Each time that it is looked whether images have come, before they are judged.
void ros_one_publisher_listen(struct ros_one_publisher *one, int64_t now_ns);

// The next image's, with its publisher (not 0). has_ours: DDS knows of no end of `ours`. After
// ROS_IMAGE_OF_SUCCESSOR silence_ns tells how long ours was silent, n_before how many images of
// others were left out meanwhile; after ROS_IMAGE_OF_HEIR n_before tells how many were left out
// while ours lived. One that was silent and delivers again is the second one then, and a silence
// has to be twice as long from then on: two slow publishers do not take turns.
enum ros_image_of ros_one_publisher_judge(struct ros_one_publisher *one, uint64_t publisher,
                                          bool has_ours, int64_t now_ns);

#endif
