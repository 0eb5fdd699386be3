// SPDX-License-Identifier: Apache-2.0
// A ROS recording, whatever file it is in: which topics there are, where the images of each are,
// and what the others say (select_topic.h: which of them is depth). A container (MCAP, .db3, ROS 1
// .bag) walks its files once and tells of every topic and message; then it answers for the bytes of
// one message. Topics are the same by name, type and encoding, whatever their ids: a recording may
// be in several files (bag_parts.h), and a publisher have one of its own (a connection of a ROS 1
// bag, a channel of an MCAP file that was merged).
//
// A frame's time is the stamp of its header, when the camera took it; what the container says is
// when the recorder got it, and serves for images without a stamp.
#ifndef POSED_CAPTURE_ROS_BAG_H
#define POSED_CAPTURE_ROS_BAG_H

#include "capture/driver.h"
#include "capture/ros/bag_parts.h"
#include "capture/ros/depth.h"

// Where in its file a message is, as the container wants it.
struct bag_place {
    uint64_t block, offset;
};

struct bag_frame {
    int64_t time_ns, log_time_ns;
    struct bag_place place;
    size_t part; // the file, of bag.parts
};

// What becomes of the intrinsics of a camera info.
struct bag_info_change {
    size_t n_messages;    // that have others than the first one
    struct intrinsics to; // of the first of these
    int64_t time_ns;
};

struct bag_topic {
    char *name, *type;
    enum ros_kind kind;
    enum ros_encoding encoding;
    uint64_t n_messages;
    uint64_t n_lost; // by damage, which the file counts
    bool is_packed;  // a message is compressed by itself, which is not read

    // of images
    struct bag_frame *frames;
    size_t n_frames, frame_capacity;
    char image_encoding[64], frame_id[64]; // of the first one
    bool is_depth, has_stamps;
    struct ros_depth_format format;
    uint32_t width_px, height_px;             // of the first one that is depth and has a size
    size_t n_other_size;                      // others
    uint32_t other_width_px, other_height_px; // of the first of these
    size_t n_bad_heads;                       // packed images of which nothing can be read
    const char *head_fault;                   // of the first of these
    size_t n_no_depth;                        // images that are none
    char no_depth_encoding[64];               // of the last of these
    size_t n_other_encoding;                  // floats where the first one is of integers, or so
    char other_encoding[64];                  // of the first of these
    bool has_floats;
    enum ros_float_unit float_unit; // of these, which is known once one of them shows it
    unsigned n_judged;              // of these, until then
    unsigned n_against;             // live: that show another unit, in a row
    bool told_unit;                 // live: that it changed

    struct ros_camera_info info; // of camera infos: the first one
    bool has_info;
    struct bag_info_change camera_change, rectified_change;
    double number;      // of options, 0 = none
    double units_per_m; // of images that were made metres, if told; 0 = not
};

// By which messages of a file name their topic, of which there may be several.
struct bag_id {
    uint32_t id;
    size_t topic; // of bag.topics
};

struct bag {
    char *path; // without the topic; the file, or the folder where several are read
    struct bag_parts parts;
    size_t part;  // of which is told now
    bool is_live; // no file: what a recorder would say is when an image arrived
    char *wanted; // the topic that was asked for, NULL = the best
    struct log_sink log;
    struct bag_topic *topics;
    size_t n_topics, topic_capacity;
    struct bag_id *ids; // of the file that told of one last
    size_t n_ids, id_capacity, ids_part;
    struct bag_topic *depth;       // once bag_choose has found it
    struct ros_depth_units units;  // of its images
    bool is_float_told;            // units.float_per_m is what the settings say
    size_t n_malformed, n_skipped; // depth messages that are none; whose time repeats
    struct ros_depth *decoder;
};

// `location` is FILE or FILE#TOPIC, or a folder with files that end in `suffix`, a literal; several
// of them where the recording may_be_split, as `ros2 bag record` does. Returns 0 or
// bag_parts_find's errors; bag_close in either case.
__attribute__((warn_unused_result)) int bag_begin(struct bag *bag, const char *location,
                                                  const char *suffix, bool may_be_split,
                                                  const struct log_sink *log);
// The same for a source that is no file; `name` stands for it in messages.
__attribute__((warn_unused_result)) int bag_begin_live(struct bag *bag, const char *name,
                                                       const struct log_sink *log);
void bag_close(struct bag *bag); // accepts what is all zero

// Has `read_part` tell of the files one after the other, bag->part being the one. One that it
// cannot read is left out, which the log tells, but for the messages that it told of until then; at
// -ENOMEM and -ENOTSUP all ends. Returns 0, that error, or the first one when nothing could be read
// of any.
__attribute__((warn_unused_result)) int
bag_read_parts(struct bag *bag, int (*read_part)(void *state, size_t part), void *state);

// The file of which is told now, for messages.
const char *bag_file(const struct bag *bag);

// A topic of the file; type and name need not end in a NUL. Telling of an id again changes nothing;
// a topic that has one already has another one from now on. Returns 0 or -ENOMEM.
__attribute__((warn_unused_result)) int bag_add_topic(struct bag *bag, uint32_t id,
                                                      const char *name, size_t n_name,
                                                      const char *type, size_t n_type,
                                                      enum ros_encoding encoding);

// The recorder of this topic's images says what units they had before they were made metres.
void bag_set_units(struct bag *bag, uint32_t id, double units_per_m);

// So many messages of the topic are in the file and cannot be read.
void bag_add_lost(struct bag *bag, uint32_t id, uint64_t n_messages);

// Of all topics, so far.
uint64_t bag_n_messages(const struct bag *bag);

// NULL when there is none.
const struct bag_topic *bag_topic(const struct bag *bag, uint32_t id);

// Whether a topic's name ends so.
bool bag_topic_ends_with(const struct bag_topic *topic, const char *end);
#define BAG_REALSENSE_METADATA "/image/metadata"

// Whether the bytes of the topic's messages are wanted: all of them, their first ROS_HEAD_BYTES, or
// none (the message is told of all the same).
enum bag_interest { BAG_NOTHING, BAG_HEAD, BAG_ALL };
enum bag_interest bag_interest(const struct bag_topic *topic);

// A message of a topic that was told of before (others are ignored), `data` as bag_interest wants
// it, or longer. Returns 0 or -ENOMEM.
__attribute__((warn_unused_result)) int bag_add_message(struct bag *bag, uint32_t id,
                                                        int64_t log_time_ns, struct bag_place place,
                                                        const void *data, size_t n_bytes);

// Whether a camera's images may be of such a size.
bool bag_is_size(uint32_t width_px, uint32_t height_px);

// The driver's `stamp`; and its `decode` once the container has the bytes of the message:
// ros_depth_decode's contract, but that *out_reason is NULL also of an image that bag_choose has
// told of: one that is no depth, or whose head cannot be read.
void bag_stamp(const struct bag *bag, uint64_t i, int64_t *out_time_ns, uint64_t *out_index);
size_t bag_part(const struct bag *bag, uint64_t i);
struct bag_place bag_place(const struct bag *bag, uint64_t i);
__attribute__((warn_unused_result)) int bag_decode(struct bag *bag, const void *message,
                                                   size_t n_bytes, uint16_t *out_pixels,
                                                   const char **out_reason);

#endif
