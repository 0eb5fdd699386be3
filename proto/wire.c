// SPDX-License-Identifier: Apache-2.0
#include "proto/wire.h"

#include <errno.h>
#include <math.h>
#include <string.h>

#include <pb_common.h>
#include <pb_decode.h>
#include <pb_encode.h>

#include "proto/se3.h"
#include "proto/wire_walk.h"

#define NS_PER_S 1000000000

int wire_encode(const pb_msgdesc_t *fields, const void *message, uint8_t *out, size_t size_bytes)
{
    pb_ostream_t stream = pb_ostream_from_buffer(out, size_bytes);
    if (!pb_encode(&stream, fields, message))
        return -EMSGSIZE;
    return (int)stream.bytes_written;
}

int wire_decode(const pb_msgdesc_t *fields, const uint8_t *bytes, size_t n_bytes, void *out)
{
    pb_istream_t stream = pb_istream_from_buffer(bytes, n_bytes);
    return pb_decode(&stream, fields, out) ? 0 : -EBADMSG;
}

static int encode_header(const pb_msgdesc_t *fields, const void *message, size_t n_data_bytes,
                         uint8_t *out, size_t size_bytes)
{
    const uint32_t data_field = 6; // RawImage.data, PointCloud.data
    pb_ostream_t stream = pb_ostream_from_buffer(out, size_bytes);
    if (!pb_encode(&stream, fields, message) || !pb_encode_tag(&stream, PB_WT_STRING, data_field) ||
        !pb_encode_varint(&stream, n_data_bytes))
        return -EMSGSIZE;
    return (int)stream.bytes_written;
}

int wire_encode_image_header(const posed_RawImage *image, size_t n_data_bytes, uint8_t *out,
                             size_t size_bytes)
{
    return encode_header(posed_RawImage_fields, image, n_data_bytes, out, size_bytes);
}

int wire_encode_cloud_header(const posed_PointCloud *cloud, size_t n_data_bytes, uint8_t *out,
                             size_t size_bytes)
{
    return encode_header(posed_PointCloud_fields, cloud, n_data_bytes, out, size_bytes);
}

// Returns 0, -EPROTO or -EPROTONOSUPPORT.
static int check_magic(const uint8_t *bytes, size_t n_bytes)
{
    if (n_bytes < WIRE_MAGIC_BYTES || memcmp(bytes, WIRE_MAGIC, WIRE_MAGIC_BYTES - 1) != 0)
        return -EPROTO;
    return bytes[WIRE_MAGIC_BYTES - 1] == WIRE_VERSION ? 0 : -EPROTONOSUPPORT;
}

// The id of a Request, and the first field that is none of the envelope's.
static void scan_request(const uint8_t *bytes, size_t n_bytes, uint64_t *out_id, uint32_t *out_kind)
{
    struct walk walk = walk_begin(bytes, n_bytes);
    *out_id = 0;
    *out_kind = 0;
    for (bool more = true; more;) {
        more = walk_next(&walk);
        if (walk.field == posed_Request_id_tag && walk.type == PB_WT_VARINT)
            *out_id = walk.value;
        else if (walk.field > posed_Request_camera_tag && *out_kind == 0)
            *out_kind = walk.field;
    }
}

// Whether a text anywhere in the message holds a zero byte: what stands behind it would be cut off
// silently. `message` is a decoded one, for its description alone.
static bool has_zero(const pb_msgdesc_t *fields, void *message, const uint8_t *bytes,
                     size_t n_bytes)
{
    struct walk walk = walk_begin(bytes, n_bytes);
    while (walk_next(&walk)) {
        pb_field_iter_t iterator;
        if (walk.type != PB_WT_STRING || !pb_field_iter_begin(&iterator, fields, message) ||
            !pb_field_iter_find(&iterator, walk.field))
            continue;
        if (PB_LTYPE(iterator.type) == PB_LTYPE_STRING && memchr(walk.bytes, 0, walk.n_bytes))
            return true;
        if (PB_LTYPE_IS_SUBMSG(iterator.type) &&
            has_zero(iterator.submsg_desc, iterator.pData, walk.bytes, walk.n_bytes))
            return true;
    }
    return false;
}

int wire_decode_request(const uint8_t *bytes, size_t n_bytes, posed_Request *out,
                        uint32_t *out_kind)
{
    *out = (posed_Request)posed_Request_init_zero;
    *out_kind = 0;
    int error = check_magic(bytes, n_bytes);
    if (error)
        return error;
    const uint8_t *body = bytes + WIRE_MAGIC_BYTES;
    size_t n_body = n_bytes - WIRE_MAGIC_BYTES;
    uint64_t id;
    if (n_bytes > WIRE_REQUEST_MAX_BYTES) {
        scan_request(body, n_body, &id, out_kind);
        out->id = id;
        if (!wire_is_upload(*out_kind))
            return -EMSGSIZE;
    }
    error = wire_decode(posed_Request_fields, body, n_body, out);
    if (!error && out->which_what != 0) {
        *out_kind = out->which_what;
        return has_zero(posed_Request_fields, out, body, n_body) ? -EILSEQ : 0;
    }
    scan_request(body, n_body, &id, out_kind);
    *out = (posed_Request)posed_Request_init_zero;
    out->id = id;
    if (error)
        return error;
    return *out_kind ? -ENOSYS : -EINVAL;
}

// Kinds of requests that are larger than nanopb's structs, or whose answers are.
static const struct {
    uint32_t kind;
    bool is_upload, is_download;
} large_kinds[] = {
    {posed_Request_register_sets_tag, true, false}, {posed_Request_search_pose_tag, true, false},
    {posed_Request_add_object_tag, true, false},    {posed_Request_get_depth_tag, false, true},
    {posed_Request_get_cloud_tag, false, true},     {posed_Request_get_map_cloud_tag, false, true},
};

bool wire_is_upload(uint32_t kind)
{
    for (size_t i = 0; i < sizeof large_kinds / sizeof *large_kinds; i++)
        if (large_kinds[i].kind == kind)
            return large_kinds[i].is_upload;
    return false;
}

bool wire_find_bytes(const uint8_t *message, size_t n_bytes, const uint32_t *path, size_t n_path,
                     const uint8_t **out, size_t *out_n)
{
    struct walk walk = walk_begin(message, n_bytes);
    const uint8_t *found = NULL;
    size_t n_found = 0;
    while (walk_next(&walk))
        if (walk.field == path[0] && walk.type == PB_WT_STRING) {
            found = walk.bytes;
            n_found = walk.n_bytes;
        }
    *out = NULL;
    *out_n = 0;
    if (!found)
        return false;
    if (n_path > 1)
        return wire_find_bytes(found, n_found, path + 1, n_path - 1, out, out_n);
    *out = found;
    *out_n = n_found;
    return true;
}

static int encode_framed(const pb_msgdesc_t *fields, const void *message, uint8_t *out,
                         size_t size_bytes)
{
    if (size_bytes < WIRE_MAGIC_BYTES)
        return -EMSGSIZE;
    memcpy(out, WIRE_MAGIC, WIRE_MAGIC_BYTES);
    int n = wire_encode(fields, message, out + WIRE_MAGIC_BYTES, size_bytes - WIRE_MAGIC_BYTES);
    return n < 0 ? n : n + WIRE_MAGIC_BYTES;
}

void wire_split_points(const uint8_t *bytes, size_t n_points, float *out)
{
    for (size_t i = 0; i < n_points; i++) {
        float xyz[3];
        memcpy(xyz, bytes + i * sizeof xyz, sizeof xyz);
        for (size_t k = 0; k < 3; k++)
            out[k * n_points + i] = xyz[k];
    }
}

int wire_encode_request(const posed_Request *request, uint8_t *out, size_t size_bytes)
{
    return encode_framed(posed_Request_fields, request, out, size_bytes);
}

int wire_encode_reply(const posed_Reply *reply, uint8_t *out, size_t size_bytes)
{
    return encode_framed(posed_Reply_fields, reply, out, size_bytes);
}

size_t wire_reply_size(const posed_Reply *reply)
{
    size_t n = 0;
    return pb_get_encoded_size(&n, posed_Reply_fields, reply) ? n + WIRE_MAGIC_BYTES
                                                              : WIRE_REPLY_MAX_BYTES;
}

bool wire_is_download(uint32_t kind)
{
    for (size_t i = 0; i < sizeof large_kinds / sizeof *large_kinds; i++)
        if (large_kinds[i].kind == kind)
            return large_kinds[i].is_download;
    return false;
}

int wire_decode_reply(const uint8_t *bytes, size_t n_bytes, posed_Reply *out)
{
    int error = check_magic(bytes, n_bytes);
    if (error)
        return error;
    return wire_decode(posed_Reply_fields, bytes + WIRE_MAGIC_BYTES, n_bytes - WIRE_MAGIC_BYTES,
                       out);
}

posed_Timestamp wire_timestamp(int64_t time_ns)
{
    posed_Timestamp out = {time_ns / NS_PER_S, (int32_t)(time_ns % NS_PER_S)};
    if (out.nanos < 0) {
        out.nanos += NS_PER_S;
        out.seconds--;
    }
    return out;
}

int wire_read_timestamp(const posed_Timestamp *timestamp, int64_t *out_time_ns)
{
    if (timestamp->nanos < 0 || timestamp->nanos >= NS_PER_S)
        return -ERANGE;
    if (timestamp->seconds < INT64_MIN / NS_PER_S || timestamp->seconds >= INT64_MAX / NS_PER_S)
        return -ERANGE;
    *out_time_ns = timestamp->seconds * NS_PER_S + timestamp->nanos;
    return 0;
}

posed_Pose wire_pose(const struct se3 *T, double previous_xyzw[4])
{
    double q[4];
    se3_to_quaternion(T, q);
    if (previous_xyzw) {
        double dot = 0;
        for (int i = 0; i < 4; i++)
            dot += q[i] * previous_xyzw[i];
        for (int i = 0; i < 4; i++)
            previous_xyzw[i] = q[i] = dot < 0 ? -q[i] : q[i];
    }
    return (posed_Pose){
        .has_position = true,
        .position = {T->t_m[0], T->t_m[1], T->t_m[2]},
        .has_orientation = true,
        .orientation = {q[0], q[1], q[2], q[3]},
    };
}

int wire_read_pose(const posed_Pose *pose, struct se3 *out_T, const char **out_field)
{
    const double t_m[3] = {pose->position.x, pose->position.y, pose->position.z};
    const double q[4] = {pose->orientation.x, pose->orientation.y, pose->orientation.z,
                         pose->orientation.w};
    static const char *const t_names[3] = {"position.x", "position.y", "position.z"};
    static const char *const q_names[4] = {"orientation.x", "orientation.y", "orientation.z",
                                           "orientation.w"};
    if (!pose->has_position) {
        *out_field = "position";
        return -EINVAL;
    }
    for (int i = 0; i < 3; i++)
        if (!(fabs(t_m[i]) <= WIRE_POSITION_MAX_M)) {
            *out_field = t_names[i];
            return -EINVAL;
        }
    double norm2 = 0;
    for (int i = 0; i < 4; i++) {
        if (!isfinite(q[i])) {
            *out_field = q_names[i];
            return -EINVAL;
        }
        norm2 += q[i] * q[i];
    }
    if (!pose->has_orientation || !(fabs(sqrt(norm2) - 1) <= 0.01)) {
        *out_field = "orientation";
        return -EINVAL;
    }
    *out_T = se3_from_quaternion(q, t_m);
    return 0;
}

// Bytes of the UTF-8 character at s, 0 when there is none (overlong forms, surrogates and values
// above U+10FFFF are refused, as RFC 3629 says).
static size_t utf8_length(const unsigned char *s)
{
    if (s[0] < 0x80)
        return 1;
    size_t n = s[0] >= 0xf0 ? 4 : s[0] >= 0xe0 ? 3 : 2;
    if (s[0] < 0xc2 || s[0] > 0xf4)
        return 0;
    for (size_t i = 1; i < n; i++)
        if ((s[i] & 0xc0) != 0x80)
            return 0;
    if ((s[0] == 0xe0 && s[1] < 0xa0) || (s[0] == 0xed && s[1] >= 0xa0) ||
        (s[0] == 0xf0 && s[1] < 0x90) || (s[0] == 0xf4 && s[1] >= 0x90))
        return 0;
    return n;
}

const char *wire_not_text(const char *text)
{
    const unsigned char *s = (const unsigned char *)text;
    for (size_t n; *s; s += n) {
        n = utf8_length(s);
        if (n == 0 || *s < 0x20 || *s == 0x7f)
            return (const char *)s;
    }
    return NULL;
}

void wire_copy_text(char *out, size_t size_bytes, const char *text)
{
    const unsigned char *s = (const unsigned char *)text;
    size_t n_out = 0;
    while (*s) {
        size_t n = utf8_length(s), n_copy = n ? n : 1;
        if (n_out + n_copy >= size_bytes)
            break;
        memcpy(out + n_out, n ? (const void *)s : "?", n_copy);
        n_out += n_copy;
        s += n_copy;
    }
    out[n_out] = 0;
}

const char *wire_code_name(posed_Code code)
{
    static const char *const names[] = {
        "OK",
        "CANCELLED",
        "UNKNOWN_ERROR",
        "INVALID_ARGUMENT",
        "DEADLINE_EXCEEDED",
        "NOT_FOUND",
        "ALREADY_EXISTS",
        "PERMISSION_DENIED",
        "RESOURCE_EXHAUSTED",
        "FAILED_PRECONDITION",
        "ABORTED",
        "OUT_OF_RANGE",
        "UNIMPLEMENTED",
        "INTERNAL",
        "UNAVAILABLE",
        "DATA_LOSS",
    };
    unsigned i = (unsigned)code;
    return i < sizeof names / sizeof names[0] ? names[i] : "UNKNOWN_ERROR";
}

const char *wire_state_name(posed_State state)
{
    static const char *const names[] = {"UNSPECIFIED", "INIT",      "TRACKING", "DEGRADED",
                                        "LOST",        "SEARCHING", "NO_INPUT"};
    unsigned i = (unsigned)state;
    return i < sizeof names / sizeof names[0] ? names[i] : "UNSPECIFIED";
}

const char *wire_reference_name(posed_Reference reference)
{
    return reference == posed_Reference_REFERENCE_KEYFRAME ? "keyframe"
           : reference == posed_Reference_REFERENCE_MODEL  ? "model"
                                                           : "previous";
}
