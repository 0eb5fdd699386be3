// SPDX-License-Identifier: Apache-2.0
// Bytes on the wire: the messages of posed.proto and requests.proto, through nanopb (no heap, every
// bound known at compile time). The generated structs are the plain data that daemon and client
// fill; this file adds what the schema cannot say: framing, validation, units, big byte fields.
//
// All functions are pure and may be called from any thread. Decoders take hostile bytes: they never
// read past `n_bytes` and never allocate.
#ifndef POSED_PROTO_WIRE_H
#define POSED_PROTO_WIRE_H

#include <pb.h>

#include "proto/posed.pb.h"
#include "proto/requests.pb.h"
#include "proto/types.h"

// Framing of both directions of the request socket: five letters, then the protocol's version.
#define WIRE_MAGIC                  "posed\x01"
#define WIRE_MAGIC_BYTES            6
#define WIRE_VERSION                1
#define WIRE_REQUEST_MAX_BYTES      65536 // framing included
#define WIRE_REPLY_MAX_BYTES        (WIRE_MAGIC_BYTES + posed_Reply_size)
#define WIRE_IMAGE_HEADER_MAX_BYTES (posed_RawImage_size + 12)
#define WIRE_CLOUD_HEADER_MAX_BYTES (posed_PointCloud_size + 12)

// Encodes one message (`fields` = posed_X_fields). Returns its size in bytes, or -EMSGSIZE when
// `size_bytes` is too small.
__attribute__((warn_unused_result)) int wire_encode(const pb_msgdesc_t *fields, const void *message,
                                                    uint8_t *out, size_t size_bytes);

// Decodes one message. Returns 0 or -EBADMSG.
__attribute__((warn_unused_result)) int
wire_decode(const pb_msgdesc_t *fields, const uint8_t *bytes, size_t n_bytes, void *out);

// An image on the wire is this header and then its n_data_bytes pixels, which the caller appends
// (field `data`, so the whole is a valid RawImage). Returns the header's size or -EMSGSIZE.
__attribute__((warn_unused_result)) int wire_encode_image_header(const posed_RawImage *image,
                                                                 size_t n_data_bytes, uint8_t *out,
                                                                 size_t size_bytes);

// The same for a cloud and its points.
__attribute__((warn_unused_result)) int wire_encode_cloud_header(const posed_PointCloud *cloud,
                                                                 size_t n_data_bytes, uint8_t *out,
                                                                 size_t size_bytes);

// A framed request. Return values, and what the daemon does with each:
//   0            *out is valid, out->which_what names its kind
//   -EPROTO      no magic: not for us. No answer, only a counter
//   -EPROTONOSUPPORT  magic of another version: answered UNIMPLEMENTED
//   -EMSGSIZE    longer than WIRE_REQUEST_MAX_BYTES, and not of a kind that carries points or
//                images: answered RESOURCE_EXHAUSTED
//   -EBADMSG     not a Request, or one with a text or list that is too long (wire_misfit.h):
//                answered INVALID_ARGUMENT
//   -EILSEQ      a text of it holds a zero byte, kind in *out_kind: answered INVALID_ARGUMENT
//   -EINVAL      a Request of no kind: answered INVALID_ARGUMENT
//   -ENOSYS      a Request of an unknown kind, field number in *out_kind: answered UNIMPLEMENTED
// out->id is the request's id as far as it could be read, else 0.
__attribute__((warn_unused_result)) int wire_decode_request(const uint8_t *bytes, size_t n_bytes,
                                                            posed_Request *out, uint32_t *out_kind);

// Field numbers of bytes that nanopb is told to leave alone.
#define WIRE_POINT_SET_POINTS     1
#define WIRE_POINT_SET_NORMALS    2
#define WIRE_ADD_OBJECT_VERTICES  2
#define WIRE_ADD_OBJECT_TRIANGLES 3
#define WIRE_DEPTH_IMAGE_DEPTH    1
#define WIRE_SEARCH_POSE_MASK     8

#define WIRE_DEPTH_FRAME_DEPTH 10
#define WIRE_CLOUD_POINTS      10
#define WIRE_CLOUD_NORMALS     11 // and those of a MapCloud

// Whether requests of this kind may be longer than WIRE_REQUEST_MAX_BYTES.
bool wire_is_upload(uint32_t kind);

// Finds a bytes field inside a message without copying it: `path` holds the field numbers from the
// message inwards, the last one that of the bytes. Where a field is repeated the last one counts,
// as protobuf has it. Returns true, or false with nothing found (*out_n is then 0).
bool wire_find_bytes(const uint8_t *message, size_t n_bytes, const uint32_t *path, size_t n_path,
                     const uint8_t **out, size_t *out_n);

// Points as they stand in a message (x y z in turn, float, at any alignment) to one array an axis:
// n_points x, then y, then z.
void wire_split_points(const uint8_t *bytes, size_t n_points, float *out);

// The client's side of Register: `request` without its two sets (kind register_sets), which are
// appended from source and target. Returns 0 and a framed request to free, -ENOMEM, or -EMSGSIZE
// when a set alone exceeds 4 GiB.
__attribute__((warn_unused_result)) int wire_encode_register(const posed_Request *request,
                                                             const struct point_set *source,
                                                             const struct point_set *target,
                                                             uint8_t **out, size_t *out_n);

// Framed encoders and the client's decoder. Sizes as wire_encode; decode returns 0, -EPROTO,
// -EPROTONOSUPPORT or -EBADMSG.
__attribute__((warn_unused_result)) int wire_encode_request(const posed_Request *request,
                                                            uint8_t *out, size_t size_bytes);
__attribute__((warn_unused_result)) int wire_encode_reply(const posed_Reply *reply, uint8_t *out,
                                                          size_t size_bytes);

// A good reply of a kind that ends in such bytes (get_depth, get_cloud, get_map_cloud), which are
// appended: field number and content of each. Returns 0 and a framed reply to free, or -ENOMEM.
struct wire_piece {
    uint32_t field;
    const void *bytes;
    size_t n_bytes;
};
__attribute__((warn_unused_result)) int wire_encode_large_reply(const posed_Reply *reply,
                                                                const struct wire_piece *pieces,
                                                                size_t n_pieces, uint8_t **out,
                                                                size_t *out_n);
bool wire_is_download(uint32_t kind); // whether it is such a kind

size_t wire_reply_size(const posed_Reply *reply); // bytes that wire_encode_reply needs
__attribute__((warn_unused_result)) int wire_decode_reply(const uint8_t *bytes, size_t n_bytes,
                                                          posed_Reply *out);

// Nanoseconds <-> seconds and nanos (0 .. 999999999, also for times before 1970). Reading returns 0
// or -ERANGE when nanos or the sum is out of range.
posed_Timestamp wire_timestamp(int64_t time_ns);
__attribute__((warn_unused_result)) int wire_read_timestamp(const posed_Timestamp *timestamp,
                                                            int64_t *out_time_ns);

// T_odom_camera as a message. `previous_xyzw` (may be NULL) is the quaternion sent before: the sign
// is chosen to continue it, and it is replaced by the one sent now. All zeros = none yet.
posed_Pose wire_pose(const struct se3 *T, double previous_xyzw[4]);

// A position farther from the origin than this is a client's mistake: float formats of other
// programs (and of the GPU) would no longer hold millimetres long before.
#define WIRE_POSITION_MAX_M 1e6

// The opposite, for poses that a client sends: everything finite, positions within
// WIRE_POSITION_MAX_M, the quaternion of length 1 within 1 % (it is normalised). Returns 0, or
// -EINVAL with *out_field the path of the first wrong field below the pose ("orientation",
// "position.x", ...).
__attribute__((warn_unused_result)) int wire_read_pose(const posed_Pose *pose, struct se3 *out_T,
                                                       const char **out_field);

// The first byte that is no UTF-8, a control character among it; NULL: all of it is text.
const char *wire_not_text(const char *text);

// Copies text into a fixed field: cut at a whole character, bytes that are no UTF-8 become '?'
// (protobuf decoders refuse a string that is not UTF-8, and a path may be anything).
void wire_copy_text(char *out, size_t size_bytes, const char *text);

// Canonical name of a code, "INVALID_ARGUMENT"; of a state, "TRACKING"; of a reference, "keyframe".
const char *wire_code_name(posed_Code code);
const char *wire_state_name(posed_State state);
const char *wire_reference_name(posed_Reference reference);

#endif
