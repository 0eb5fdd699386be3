// SPDX-License-Identifier: Apache-2.0
// Which channels of an MCAP file with Foxglove's messages are depth and its calibration, as far as
// the schemas and channels tell that were read so far.
#ifndef POSED_CAPTURE_MCAP_CHANNELS_H
#define POSED_CAPTURE_MCAP_CHANNELS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "capture/mcap/channel_list.h"

#define MCAP_DEFAULT_UNITS_PER_M 1000 // where a channel tells none

// A set of ids, of schemas or of channels: a bit for each there can be.
struct mcap_ids {
    unsigned char bits[(UINT16_MAX + 1) / 8];
};

static inline bool mcap_ids_have(const struct mcap_ids *ids, uint16_t id)
{
    return ids->bits[id / 8] >> id % 8 & 1;
}

static inline void mcap_ids_add(struct mcap_ids *ids, uint16_t id)
{
    ids->bits[id / 8] |= (unsigned char)(1 << id % 8);
}

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

// Names as the file has them; longer ones are cut off and no two of them are one topic.
#define MCAP_TOPIC_BYTES 256

struct mcap_calib_channel {
    uint16_t id;
    char topic[MCAP_TOPIC_BYTES];
};

// What a channel of images has, by its first one: only the images tell. Of several channels of a
// topic the last of these holds that one of them has.
enum mcap_image_kind { MCAP_IMAGE_UNKNOWN, MCAP_IMAGE_OTHER, MCAP_IMAGE_DEPTH };

struct mcap_image_channel {
    uint16_t id;
    enum mcap_image_kind kind;
    char topic[MCAP_TOPIC_BYTES];
    uint64_t n_messages, n_of_chunk; // so far; of the last chunk
    bool has_place;                  // of a message, by the index of its chunk
    uint64_t chunk, offset;
};

struct mcap_channels {
    struct mcap_choice choice; // set by the owner; all else zero to begin with

    enum mcap_depth_rank depth_rank; // of the topic that is taken
    char depth_topic[MCAP_TOPIC_BYTES];
    struct mcap_ids depths; // its channels: files that were merged have several of one topic
    double units_per_m;     // of the metadata of the first one, 0 = not given
    size_t n_other_units;   // channels of it that have others
    struct mcap_image_channel images[64]; // of whatever kind, the first ones
    size_t n_images, n_topics;            // that are kept; that there are

    const struct mcap_calib_channel *calib; // the first one of its topic, NULL = none
    struct mcap_ids of_calib;               // all of them
    struct mcap_calib_channel calibs[64];   // the first ones
    size_t n_calibs;

    bool has_ros;                  // a channel of a ROS encoding
    struct mcap_ids seen;          // channels of any kind,
    struct mcap_channel_list list; // and what they are
    struct mcap_ids image_schemas, calib_schemas, listed;
};

// The contents of a schema record.
void mcap_channels_take_schema(struct mcap_channels *channels, const unsigned char *data, size_t n);

// The contents of a channel record. Returns what is another one now: what was read of the one
// before does not count.
enum mcap_news { MCAP_OTHER_DEPTH = 1, MCAP_OTHER_CALIB = 2 };
unsigned mcap_channels_take(struct mcap_channels *channels, const unsigned char *data, size_t n);

// So many messages of the channel, if it is of images. Those of a chunk are forgotten where it is
// to be counted `again`, else they stay when the next one begins.
void mcap_channels_count(struct mcap_channels *channels, uint16_t id, uint64_t n_messages);
void mcap_channels_count_chunk(struct mcap_channels *channels, bool again);

// A message of an image channel, without the message's header: tells its kind, if none did before.
void mcap_channels_look(struct mcap_channels *channels, uint16_t id, const unsigned char *message,
                        size_t n_bytes);
// Where one stands, for whoever wants to look at it; the first one is kept.
void mcap_channels_place(struct mcap_channels *channels, uint16_t id, uint64_t chunk,
                         uint64_t offset);

// How many topics may be depth: without those whose images are seen to be others.
size_t mcap_channels_n_depths(const struct mcap_channels *channels);

// "depth/a (12 images), ...", or the names alone; of those that may be depth.
#define MCAP_LIST_BYTES 500
void mcap_channels_list(const struct mcap_channels *channels, bool with_counts,
                        char out[MCAP_LIST_BYTES]);

// The topic with the most depth images, where the one that is taken has less than a tenth of them
// (colour has none) and nothing was asked for, or a camera and it is the only one; else NULL.
const char *mcap_channels_most(const struct mcap_channels *channels);

// All were read. Why the depth channel that is taken is not what was asked for, before a list of
// them; NULL: it is, or there is but one, and not another topic was asked for.
const char *mcap_channels_wrong(const struct mcap_channels *channels);

#endif
