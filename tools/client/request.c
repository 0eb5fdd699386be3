// SPDX-License-Identifier: Apache-2.0
// libposed's requests: one at a time, each with its answer or given up for good.
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "proto/wire.h"
#include "tools/client/client.h"

#define ANSWER_MS 300 // longer than the deadline: the daemon's own refusal comes then

// The camera's name stands in front of the request: one in the request itself counts, as the last.
static int send_framed(struct posed *client, const void *request, size_t n_bytes)
{
    const size_t n_name = strlen(client->camera), n_camera = n_name ? 2 + n_name : 0;
    zmq_msg_t message;
    if (zmq_msg_init_size(&message, WIRE_MAGIC_BYTES + n_camera + n_bytes) != 0)
        return client_fail(client, -ENOMEM, "out of memory");
    uint8_t *to = zmq_msg_data(&message);
    memcpy(to, WIRE_MAGIC, WIRE_MAGIC_BYTES);
    if (n_camera) {
        to[WIRE_MAGIC_BYTES] = posed_Request_camera_tag << 3 | 2; // bytes with their length
        to[WIRE_MAGIC_BYTES + 1] = (uint8_t)n_name;
        memcpy(to + WIRE_MAGIC_BYTES + 2, client->camera, n_name);
    }
    memcpy(to + WIRE_MAGIC_BYTES + n_camera, request, n_bytes);
    if (zmq_msg_send(&message, client->sockets[ADDRESS_REQ], 0) >= 0)
        return 0;
    zmq_msg_close(&message);
    return client_fail(client, -EIO, "the request could not be sent: %s",
                       zmq_strerror(zmq_errno()));
}

int client_fail_silence(struct posed *client, int error, enum address_socket which)
{
    char address[ADDRESS_MAX];
    address_find(client->where[0] ? client->where : NULL, which, address);
    const int probed = address_probe(address, client->timeout_ms);
    const bool is_full = probed == ETIMEDOUT && strncmp(address, "ipc:", 4) == 0;
    return client_fail(
        client, error, "no posed answered at %s within %u ms: %s", address, client->timeout_ms,
        is_full ? "it takes no more connections: a posed that hangs, or another program"
        : probed == 0
            ? "something listens there, a posed without frames, that is busy or has CURVE keys, "
              "another of its sockets, or none"
            : "nothing listens there. Start one (posed --source synth:room --loop), or say "
              "with posed_options.where or POSED_HOST where it is");
}

// After a request without an answer: what waits to be sent goes with the socket, and so does an
// answer that comes late. Returns the error.
static int give_up(struct posed *client, int error)
{
    zmq_close(client->sockets[ADDRESS_REQ]);
    client->sockets[ADDRESS_REQ] = NULL;
    return error == -EAGAIN ? client_fail_silence(client, -ETIMEDOUT, ADDRESS_REQ) : error;
}

// Sends the request; its answer, framed, into an initialised message.
static int exchange(struct posed *client, const void *request, size_t n_bytes, zmq_msg_t *reply)
{
    void **socket = &client->sockets[ADDRESS_REQ];
    int error = client_open(client, socket, ZMQ_DEALER, ADDRESS_REQ);
    if (error)
        return error;
    error = send_framed(client, request, n_bytes);
    const int64_t end_ms = client_now_ms() + client->timeout_ms + ANSWER_MS;
    zmq_pollitem_t item = {.socket = *socket, .events = ZMQ_POLLIN};
    for (int n = 0; !error && n == 0;) {
        int64_t left_ms = end_ms - client_now_ms();
        n = zmq_poll(&item, 1, left_ms > 0 ? left_ms : 0);
        if (n == 0)
            error = -EAGAIN;
        else if (n < 0 && zmq_errno() == EINTR)
            n = 0;
        else if (n < 0 || zmq_msg_recv(reply, *socket, 0) < 0)
            error = client_fail(client, -EIO, "%s", zmq_strerror(zmq_errno()));
    }
    if (!error && (zmq_msg_size(reply) < WIRE_MAGIC_BYTES ||
                   memcmp(zmq_msg_data(reply), WIRE_MAGIC, WIRE_MAGIC_BYTES) != 0))
        error = client_fail(client, -EPROTO, "what answered is no posed");
    return error ? give_up(client, error) : 0;
}

int posed_request(struct posed *client, const void *request, size_t n_bytes, const void **out_reply,
                  size_t *out_n_bytes)
{
    int error = exchange(client, request, n_bytes, &client->reply);
    if (error)
        return error;
    *out_reply = (const uint8_t *)zmq_msg_data(&client->reply) + WIRE_MAGIC_BYTES;
    *out_n_bytes = zmq_msg_size(&client->reply) - WIRE_MAGIC_BYTES;
    return 0;
}

// Sends a request without large fields; *out must stand in memory of the caller's.
static int ask(struct posed *client, posed_Request *request, posed_Reply *out)
{
    uint8_t bytes[512];
    zmq_msg_t reply;
    request->id = ++client->next_id;
    request->deadline_ms = client->timeout_ms;
    int n_bytes = wire_encode(posed_Request_fields, request, bytes, sizeof bytes);
    if (n_bytes < 0)
        return client_fail(client, -EMSGSIZE, "the request is too long");
    zmq_msg_init(&reply);
    int error = exchange(client, bytes, (size_t)n_bytes, &reply);
    if (!error && wire_decode_reply(zmq_msg_data(&reply), zmq_msg_size(&reply), out) != 0)
        error = client_fail(client, -EPROTO, "what answered is no posed");
    zmq_msg_close(&reply);
    if (error || out->code == posed_Code_OK)
        return error;
    if (out->code == posed_Code_NOT_FOUND)
        error = strcmp(out->field, "camera") == 0 ? -ENODEV : -ENOENT;
    else
        error = out->code == posed_Code_DEADLINE_EXCEEDED ? -ETIMEDOUT : -EIO;
    return client_fail(client, error, "%s%s%s: %s", wire_code_name(out->code),
                       out->field[0] ? " " : "", out->field, out->message);
}

int client_get_pose(struct posed *client, const int64_t *time_ns, struct posed_pose *out)
{
    posed_Request request = posed_Request_init_zero;
    posed_Reply *reply = malloc(sizeof *reply); // large
    if (!reply)
        return client_fail(client, -ENOMEM, "out of memory");
    request.which_what = posed_Request_get_pose_tag;
    request.what.get_pose.has_time = time_ns != NULL;
    if (time_ns)
        request.what.get_pose.time = wire_timestamp(*time_ns);
    int error = ask(client, &request, reply);
    const posed_TrajectoryPose *pose = &reply->what.get_pose;
    if (!error) {
        const posed_Vector3 *p = &pose->pose.position;
        const posed_Quaternion *q = &pose->pose.orientation;
        *out = (struct posed_pose){
            .seq = pose->seq,
            .time_ns = pose->timestamp.seconds * INT64_C(1000000000) + pose->timestamp.nanos,
            .state = (enum posed_state)pose->state,
            .position_m = {p->x, p->y, p->z},
            .orientation_xyzw = {q->x, q->y, q->z, q->w},
            .map_epoch = pose->map_epoch,
        };
    }
    free(reply);
    return error;
}

int posed_pose_at(struct posed *client, int64_t time_ns, struct posed_pose *out)
{
    return client_get_pose(client, &time_ns, out);
}

int posed_reset(struct posed *client, bool keep_pose)
{
    posed_Request request = posed_Request_init_zero;
    posed_Reply *reply = malloc(sizeof *reply);
    if (!reply)
        return client_fail(client, -ENOMEM, "out of memory");
    request.which_what = posed_Request_reset_tag;
    request.what.reset.keep_pose = keep_pose;
    int error = ask(client, &request, reply);
    free(reply);
    return error;
}
