// SPDX-License-Identifier: Apache-2.0
#include "tools/client/posed.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <zmq.h>

#include "proto/wire.h"
#include "tools/client/address.h"

#define KEY_BYTES          (ADDRESS_KEY_CHARS + 1)
#define DEFAULT_TIMEOUT_MS 3000
#define RECONNECT_MS       100
#define TOPIC_BYTES        32
#define FIRST_IMAGE        10 // of the topics

struct posed {
    char where[ADDRESS_MAX], server_key[KEY_BYTES], public_key[KEY_BYTES], secret_key[KEY_BYTES];
    unsigned timeout_ms;
    void *context;
    void *sockets[ADDRESS_REQ + 1]; // NULL until needed; PUB and IMG those of posed_subscribe
    void *poses;                    // pub, of posed_next
    zmq_msg_t message, reply;
    char topic[TOPIC_BYTES];
    struct posed_pose newest;
    bool has_newest;
    uint64_t next_id;
    char error[400];
};

__attribute__((format(printf, 3, 4))) static int fail(struct posed *client, int error,
                                                      const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(client->error, sizeof client->error, format, args);
    va_end(args);
    return error;
}

static int read_keys(struct posed *client, const struct posed_options *options)
{
    if (!options->server_key)
        return 0;
    if (strlen(options->server_key) != ADDRESS_KEY_CHARS)
        return -EINVAL;
    strcpy(client->server_key, options->server_key);
    if (!options->key_file)
        return zmq_curve_keypair(client->public_key, client->secret_key) == 0 ? 0 : -EINVAL;
    FILE *file = fopen(options->key_file, "re");
    bool read = file && fscanf(file, "%40s", client->secret_key) == 1;
    if (file)
        fclose(file);
    return read && zmq_curve_public(client->public_key, client->secret_key) == 0 ? 0 : -EINVAL;
}

int posed_connect(struct posed **out, const struct posed_options *options)
{
    static const struct posed_options none;
    struct posed *client = calloc(1, sizeof *client);
    *out = NULL;
    if (!client)
        return -ENOMEM;
    if (!options)
        options = &none;
    if (options->where)
        snprintf(client->where, sizeof client->where, "%s", options->where);
    client->timeout_ms = options->timeout_ms ? options->timeout_ms : DEFAULT_TIMEOUT_MS;
    zmq_msg_init(&client->message);
    zmq_msg_init(&client->reply);
    int error = read_keys(client, options);
    if (!error && !(client->context = zmq_ctx_new()))
        error = -ENOMEM;
    if (error)
        posed_close(&client);
    *out = client;
    return error;
}

void posed_close(struct posed **client)
{
    struct posed *c = *client;
    if (!c)
        return;
    zmq_msg_close(&c->message);
    zmq_msg_close(&c->reply);
    for (size_t i = 0; i <= ADDRESS_REQ; i++)
        if (c->sockets[i])
            zmq_close(c->sockets[i]);
    if (c->poses)
        zmq_close(c->poses);
    if (c->context)
        zmq_ctx_term(c->context);
    free(c);
    *client = NULL;
}

const char *posed_error(const struct posed *client)
{
    return client->error;
}

// Opens *socket unless it is open already.
static int open_socket(struct posed *client, void **socket, int type, enum address_socket which)
{
    const int linger_ms = 0, reconnect_ms = RECONNECT_MS, conflate = which == ADDRESS_LATEST;
    char address[ADDRESS_MAX];
    if (*socket)
        return 0;
    address_find(client->where[0] ? client->where : NULL, which, address);
    void *s = zmq_socket(client->context, type);
    if (!s)
        return fail(client, -ENOMEM, "no socket: %s", zmq_strerror(zmq_errno()));
    zmq_setsockopt(s, ZMQ_LINGER, &linger_ms, sizeof linger_ms);
    zmq_setsockopt(s, ZMQ_RECONNECT_IVL, &reconnect_ms, sizeof reconnect_ms);
    if (conflate) {
        zmq_setsockopt(s, ZMQ_CONFLATE, &conflate, sizeof conflate);
        zmq_setsockopt(s, ZMQ_SUBSCRIBE, "", 0);
    }
    if (client->server_key[0] &&
        (zmq_setsockopt(s, ZMQ_CURVE_SERVERKEY, client->server_key, KEY_BYTES) != 0 ||
         zmq_setsockopt(s, ZMQ_CURVE_PUBLICKEY, client->public_key, KEY_BYTES) != 0 ||
         zmq_setsockopt(s, ZMQ_CURVE_SECRETKEY, client->secret_key, KEY_BYTES) != 0)) {
        zmq_close(s);
        return fail(client, -EINVAL, "CURVE: a key is not valid");
    }
    if (zmq_connect(s, address) != 0) {
        zmq_close(s);
        return fail(client, -EINVAL, "%s is no address", address);
    }
    *socket = s;
    return 0;
}

// A pose message. Returns 0 or -EPROTO.
static int read_pose(struct posed *client, const void *bytes, size_t n_bytes,
                     struct posed_pose *out)
{
    posed_Odometry message;
    if (wire_decode(posed_Odometry_fields, bytes, n_bytes, &message) != 0)
        return fail(client, -EPROTO, "what came is no pose of posed");
    const posed_Vector3 *p = &message.pose.position;
    const posed_Quaternion *q = &message.pose.orientation;
    *out = (struct posed_pose){
        .session = message.session,
        .seq = message.seq,
        .time_ns = message.timestamp.seconds * INT64_C(1000000000) + message.timestamp.nanos,
        .state = (enum posed_state)message.state,
        .position_m = {p->x, p->y, p->z},
        .orientation_xyzw = {q->x, q->y, q->z, q->w},
        .map_epoch = message.map_epoch,
        .captured_ns = message.capture_monotonic_ns,
    };
    memcpy(out->reason, message.reason_text, sizeof out->reason);
    if (message.pose_covariance_count == 36)
        memcpy(out->covariance, message.pose_covariance, sizeof out->covariance);
    return 0;
}

// The message that waits at the socket, of as many parts as it has. Returns 0, -EAGAIN, -EINTR.
static int receive(struct posed *client, void *socket, bool has_topic)
{
    if (has_topic) {
        memset(client->topic, 0, sizeof client->topic);
        if (zmq_recv(socket, client->topic, sizeof client->topic - 1, ZMQ_DONTWAIT) < 0)
            return fail(client, -zmq_errno(), "%s", zmq_strerror(zmq_errno()));
    }
    if (zmq_msg_recv(&client->message, socket, ZMQ_DONTWAIT) < 0)
        return fail(client, -zmq_errno(), "%s", zmq_strerror(zmq_errno()));
    return 0;
}

static int wait_for(struct posed *client, void *const *sockets, int n_sockets, int timeout_ms,
                    void **out_ready)
{
    zmq_pollitem_t items[2] = {{.socket = sockets[0], .events = ZMQ_POLLIN}};
    if (n_sockets == 2)
        items[1] = (zmq_pollitem_t){.socket = sockets[1], .events = ZMQ_POLLIN};
    int n = zmq_poll(items, n_sockets, timeout_ms);
    if (n < 0)
        return fail(client, -zmq_errno(), "%s", zmq_strerror(zmq_errno()));
    if (n == 0)
        return fail(client, -EAGAIN, "nothing came within %d ms", timeout_ms);
    *out_ready = items[0].revents ? sockets[0] : sockets[1];
    return 0;
}

int posed_newest(struct posed *client, struct posed_pose *out)
{
    void **socket = &client->sockets[ADDRESS_LATEST], *ready;
    int error = open_socket(client, socket, ZMQ_SUB, ADDRESS_LATEST);
    if (error)
        return error;
    error = wait_for(client, socket, 1, client->has_newest ? 0 : (int)client->timeout_ms, &ready);
    if (!error)
        error = receive(client, ready, false);
    if (!error)
        error = read_pose(client, zmq_msg_data(&client->message), zmq_msg_size(&client->message),
                          &client->newest);
    if (error && !(error == -EAGAIN && client->has_newest))
        return error;
    client->has_newest = true;
    *out = client->newest;
    return 0;
}

int posed_next(struct posed *client, int timeout_ms, struct posed_pose *out)
{
    void *ready;
    bool opened = client->poses != NULL;
    int error = open_socket(client, &client->poses, ZMQ_SUB, ADDRESS_PUB);
    if (!error && !opened)
        zmq_setsockopt(client->poses, ZMQ_SUBSCRIBE, "pose", 4);
    if (!error)
        error = wait_for(client, &client->poses, 1, timeout_ms, &ready);
    if (!error)
        error = receive(client, ready, true);
    return error ? error
                 : read_pose(client, zmq_msg_data(&client->message), zmq_msg_size(&client->message),
                             out);
}

int posed_subscribe(struct posed *client, const char *topic)
{
    static const char *const names[] = {"pose",  "tf",      "calib",    "status", "timing",
                                        "event", "imu",     "log",      "object", "rig",
                                        "depth", "normals", "residual", "cloud"};
    const size_t n_names = sizeof names / sizeof names[0], n = strcspn(topic, "/");
    size_t i = 0;
    while (i < n_names && (strlen(names[i]) != n || memcmp(names[i], topic, n) != 0))
        i++;
    if (i == n_names || strlen(topic) >= TOPIC_BYTES)
        return fail(client, -EINVAL, "no topic \"%s\"", topic);
    enum address_socket which = i < FIRST_IMAGE ? ADDRESS_PUB : ADDRESS_IMG;
    int error = open_socket(client, &client->sockets[which], ZMQ_SUB, which);
    if (!error)
        zmq_setsockopt(client->sockets[which], ZMQ_SUBSCRIBE, topic, strlen(topic));
    return error;
}

int posed_receive(struct posed *client, int timeout_ms, struct posed_message *out)
{
    void *open[2], *ready;
    int n = 0;
    if (client->sockets[ADDRESS_PUB])
        open[n++] = client->sockets[ADDRESS_PUB];
    if (client->sockets[ADDRESS_IMG])
        open[n++] = client->sockets[ADDRESS_IMG];
    if (n == 0)
        return fail(client, -EINVAL, "no topic is subscribed to");
    int error = wait_for(client, open, n, timeout_ms, &ready);
    if (!error)
        error = receive(client, ready, true);
    if (!error)
        *out = (struct posed_message){client->topic, zmq_msg_data(&client->message),
                                      zmq_msg_size(&client->message)};
    return error;
}

static int64_t now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * INT64_C(1000) + now.tv_nsec / 1000000;
}

static int send_framed(struct posed *client, const void *request, size_t n_bytes)
{
    zmq_msg_t message;
    if (zmq_msg_init_size(&message, WIRE_MAGIC_BYTES + n_bytes) != 0)
        return fail(client, -ENOMEM, "out of memory");
    memcpy(zmq_msg_data(&message), WIRE_MAGIC, WIRE_MAGIC_BYTES);
    memcpy((char *)zmq_msg_data(&message) + WIRE_MAGIC_BYTES, request, n_bytes);
    if (zmq_msg_send(&message, client->sockets[ADDRESS_REQ], 0) >= 0)
        return 0;
    zmq_msg_close(&message);
    return fail(client, -EIO, "the request could not be sent: %s", zmq_strerror(zmq_errno()));
}

// After a request that nobody answered in time its answer may still come: with the socket it goes.
static int give_up(struct posed *client, int error)
{
    char address[ADDRESS_MAX];
    address_find(client->where[0] ? client->where : NULL, ADDRESS_REQ, address);
    zmq_close(client->sockets[ADDRESS_REQ]);
    client->sockets[ADDRESS_REQ] = NULL;
    return error == -EAGAIN ? fail(client, -ETIMEDOUT, "no posed answered at %s within %u ms",
                                   address, client->timeout_ms)
                            : error;
}

int posed_request(struct posed *client, const void *request, size_t n_bytes, const void **out_reply,
                  size_t *out_n_bytes)
{
    void **socket = &client->sockets[ADDRESS_REQ], *ready;
    int error = open_socket(client, socket, ZMQ_DEALER, ADDRESS_REQ);
    if (!error)
        error = send_framed(client, request, n_bytes);
    if (error)
        return error;
    int64_t end_ms = now_ms() + client->timeout_ms + 300; // a refusal may come at the deadline
    do {
        int64_t left_ms = end_ms - now_ms();
        error = wait_for(client, socket, 1, left_ms > 0 ? (int)left_ms : 0, &ready);
    } while (error == -EINTR);
    if (error || zmq_msg_recv(&client->reply, *socket, 0) < 0)
        return give_up(client, error ? error : -EAGAIN);
    const uint8_t *bytes = zmq_msg_data(&client->reply);
    size_t n = zmq_msg_size(&client->reply);
    if (n < WIRE_MAGIC_BYTES || memcmp(bytes, WIRE_MAGIC, WIRE_MAGIC_BYTES) != 0)
        return fail(client, -EPROTO, "what answered is no posed");
    *out_reply = bytes + WIRE_MAGIC_BYTES;
    *out_n_bytes = n - WIRE_MAGIC_BYTES;
    return 0;
}

// Sends a request without large fields; *out must stand in memory of the caller's.
static int ask(struct posed *client, posed_Request *request, posed_Reply *out)
{
    uint8_t bytes[512];
    const void *reply;
    size_t n;
    request->id = ++client->next_id;
    request->deadline_ms = client->timeout_ms;
    int n_bytes = wire_encode(posed_Request_fields, request, bytes, sizeof bytes);
    if (n_bytes < 0)
        return fail(client, -EMSGSIZE, "the request is too long");
    int error = posed_request(client, bytes, (size_t)n_bytes, &reply, &n);
    if (error)
        return error;
    if (wire_decode(posed_Reply_fields, reply, n, out) != 0)
        return fail(client, -EPROTO, "what answered is no posed");
    if (out->code == posed_Code_OK)
        return 0;
    return fail(client, out->code == posed_Code_NOT_FOUND ? -ENOENT : -EIO, "%s: %s",
                wire_code_name(out->code), out->message);
}

int posed_pose_at(struct posed *client, int64_t time_ns, struct posed_pose *out)
{
    posed_Request request = posed_Request_init_zero;
    posed_Reply *reply = malloc(sizeof *reply); // large
    if (!reply)
        return fail(client, -ENOMEM, "out of memory");
    request.which_what = posed_Request_get_pose_tag;
    request.what.get_pose.has_time = true;
    request.what.get_pose.time = wire_timestamp(time_ns);
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

int posed_reset(struct posed *client, bool keep_pose)
{
    posed_Request request = posed_Request_init_zero;
    posed_Reply *reply = malloc(sizeof *reply);
    if (!reply)
        return fail(client, -ENOMEM, "out of memory");
    request.which_what = posed_Request_reset_tag;
    request.what.reset.keep_pose = keep_pose;
    int error = ask(client, &request, reply);
    free(reply);
    return error;
}
