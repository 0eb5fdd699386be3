// SPDX-License-Identifier: Apache-2.0
// Which channels of an MCAP file with Foxglove's messages are depth and its calibration, as far as
// the schemas and channels tell that were read so far.
#ifndef POSED_CAPTURE_MCAP_CHANNELS_H
#define POSED_CAPTURE_MCAP_CHANNELS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define MCAP_N_IDS (UINT16_MAX + 1) // of schemas, and of channels

// Which of several depth channels is meant. NULL: not said.
struct mcap_choice {
    const char *topic;  // its topic, or NAME of depth/NAME: no other will do
    const char *camera; // NAME of depth/NAME, if there is one
};

// How much a topic is what is sought; where several are alike, the first is taken.
enum mcap_depth_rank {
    MCAP_DEPTH_NONE,
    MCAP_DEPTH_ANY,   // a depth topic of some name
    MCAP_DEPTH_PLAIN, // `depth`, of a recording of one camera
    MCAP_DEPTH_NAMED, // what was chosen
};

struct mcap_calib_channel {
    uint16_t id;
    char topic[80]; // cut off: no such name is one of ours
};

struct mcap_channels {
    struct mcap_choice choice; // set by the owner; all else zero to begin with

    enum mcap_depth_rank depth_rank; // of the topic that is taken
    char depth_topic[80];
    uint16_t depth_channel;
    double units_per_m; // of its metadata, 0 = not given
    char topics[400];   // of all depth channels, for people
    size_t n_topics, n_topics_bytes;

    bool has_calib;
    uint16_t calib_channel;
    struct mcap_calib_channel calibs[64]; // the first ones
    size_t n_calibs;

    bool has_ros; // a channel of a ROS encoding
    bool is_image_schema[MCAP_N_IDS], is_calib_schema[MCAP_N_IDS], is_listed[MCAP_N_IDS];
};

// The contents of a schema record.
void mcap_channels_take_schema(struct mcap_channels *channels, const unsigned char *data, size_t n);

// The contents of a channel record. Returns what is another one now: what was read of the one
// before does not count.
enum mcap_news { MCAP_OTHER_DEPTH = 1, MCAP_OTHER_CALIB = 2 };
unsigned mcap_channels_take(struct mcap_channels *channels, const unsigned char *data, size_t n);

// All were read. Why the depth channel that is taken is not what was asked for, before a list of
// them; NULL: it is, or there is but one, and not another topic was asked for.
const char *mcap_channels_wrong(const struct mcap_channels *channels);

#endif
