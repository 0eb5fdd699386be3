// SPDX-License-Identifier: Apache-2.0
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <zmq.h>

#include "proto/wire.h"
#include "tools/client/client.h"

#define DEFAULT_TIMEOUT_MS 3000
#define RECONNECT_MS       100
#define FIRST_IMAGE        10 // of the topics
#define NEWEST_WAIT_MS     10 // between two looks for the first pose of a camera

// Messages that may wait here for a program that is slow: half a minute of poses, of images the
// next few (1 to 7 MB each).
#define QUEUE_PUB 1000
#define QUEUE_IMG 4

int client_fail(struct posed *client, int error, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(client->error, sizeof client->error, format, args);
    va_end(args);
    return error;
}

int64_t client_now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * INT64_C(1000) + now.tv_nsec / 1000000;
}

static int read_keys(struct posed *client, const struct posed_options *options)
{
    if (!options->server_key)
        return options->key_file ? -EINVAL : 0; // or what is meant to be secret is not
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

// NULL is "". Returns whether it fits.
static bool copy_text(char *out, size_t out_bytes, const char *text)
{
    return snprintf(out, out_bytes, "%s", text ? text : "") < (int)out_bytes;
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
    bool fits = copy_text(client->where, sizeof client->where, options->where) &&
                copy_text(client->camera, sizeof client->camera, options->camera);
    client->timeout_ms = options->timeout_ms ? options->timeout_ms : DEFAULT_TIMEOUT_MS;
    zmq_msg_init(&client->message);
    zmq_msg_init(&client->reply);
    int error = fits ? read_keys(client, options) : -EINVAL;
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
    if (c->watch)
        zmq_close(c->watch);
    if (c->context)
        zmq_ctx_term(c->context);
    free(c);
    *client = NULL;
}

const char *posed_error(const struct posed *client)
{
    return client->error;
}

int client_open(struct posed *client, void **socket, int type, enum address_socket which)
{
    const int linger_ms = 0, reconnect_ms = RECONNECT_MS, conflate = which == ADDRESS_LATEST;
    const int queue = which == ADDRESS_IMG ? QUEUE_IMG : QUEUE_PUB;
    char address[ADDRESS_MAX];
    if (*socket)
        return 0;
    address_find(client->where[0] ? client->where : NULL, which, address);
    void *s = zmq_socket(client->context, type);
    if (!s)
        return client_fail(client, -ENOMEM, "no socket: %s", zmq_strerror(zmq_errno()));
    zmq_setsockopt(s, ZMQ_LINGER, &linger_ms, sizeof linger_ms);
    zmq_setsockopt(s, ZMQ_RECONNECT_IVL, &reconnect_ms, sizeof reconnect_ms);
    zmq_setsockopt(s, ZMQ_RCVHWM, &queue, sizeof queue);
    if (conflate) {
        zmq_setsockopt(s, ZMQ_CONFLATE, &conflate, sizeof conflate);
        zmq_setsockopt(s, ZMQ_SUBSCRIBE, "", 0);
    }
    if (client->server_key[0] &&
        (zmq_setsockopt(s, ZMQ_CURVE_SERVERKEY, client->server_key, CLIENT_KEY_BYTES) != 0 ||
         zmq_setsockopt(s, ZMQ_CURVE_PUBLICKEY, client->public_key, CLIENT_KEY_BYTES) != 0 ||
         zmq_setsockopt(s, ZMQ_CURVE_SECRETKEY, client->secret_key, CLIENT_KEY_BYTES) != 0)) {
        zmq_close(s);
        return client_fail(client, -EINVAL, "CURVE: a key is not valid");
    }
    if (zmq_connect(s, address) != 0) {
        zmq_close(s);
        return client_fail(client, -EINVAL, "%s is no address", address);
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
        return client_fail(client, -EPROTO, "what came is no pose of posed");
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

// Reads the message that waits at the socket: its topic, unless out_topic is NULL, and its bytes,
// into an initialised message. Returns 0, -EAGAIN, -EINTR, -EPROTO.
static int receive(struct posed *client, void *socket, char *out_topic, zmq_msg_t *out)
{
    if (out_topic) {
        memset(out_topic, 0, CLIENT_TOPIC_BYTES);
        if (zmq_recv(socket, out_topic, CLIENT_TOPIC_BYTES - 1, ZMQ_DONTWAIT) < 0)
            return client_fail(client, -zmq_errno(), "%s", zmq_strerror(zmq_errno()));
        int more = 0;
        size_t n = sizeof more;
        if (zmq_getsockopt(socket, ZMQ_RCVMORE, &more, &n) != 0 || !more)
            return client_fail(client, -EPROTO, "what came is no message of posed");
    }
    if (zmq_msg_recv(out, socket, ZMQ_DONTWAIT) < 0)
        return client_fail(client, -zmq_errno(), "%s", zmq_strerror(zmq_errno()));
    return 0;
}

static int fail_camera(struct posed *client, const char *name, const posed_Status *status)
{
    char names[300] = "";
    for (pb_size_t i = 0; i < status->cameras_count; i++) {
        size_t n = strlen(names);
        snprintf(names + n, sizeof names - n, "%s%s", n ? ", " : "", status->cameras[i]);
    }
    return names[0] ? client_fail(client, -ENODEV, "no camera \"%s\": there are %s", name, names)
                    : client_fail(client, -ENODEV,
                                  "no camera \"%s\": there is one, and it has no name", name);
}

// Whether the daemon has the cameras whose topics are waited for. Returns 0 or -ENODEV.
static int check_cameras(struct posed *client)
{
    posed_Status status;
    zmq_msg_t message;
    char topic[CLIENT_TOPIC_BYTES];
    int error = 0;
    zmq_msg_init(&message);
    if (receive(client, client->watch, topic, &message) == 0 &&
        wire_decode(posed_Status_fields, zmq_msg_data(&message), zmq_msg_size(&message), &status) ==
            0)
        for (size_t i = 0; i < client->n_watched && !error; i++) {
            pb_size_t at = 0;
            while (at < status.cameras_count && strcmp(status.cameras[at], client->watched[i]) != 0)
                at++;
            if (at == status.cameras_count)
                error = fail_camera(client, client->watched[i], &status);
        }
    zmq_msg_close(&message);
    return error;
}

// From now on the daemon is asked, too, whether it has this camera.
static int watch_camera(struct posed *client, const char *name)
{
    for (size_t i = 0; i < client->n_watched; i++)
        if (strcmp(client->watched[i], name) == 0)
            return 0;
    if (client->n_watched == CLIENT_MAX_CAMERAS)
        return client_fail(client, -EINVAL, "no daemon has more than %d cameras",
                           CLIENT_MAX_CAMERAS);
    bool opened = client->watch != NULL;
    int error = client_open(client, &client->watch, ZMQ_SUB, ADDRESS_PUB);
    if (error)
        return error;
    strcpy(client->watched[client->n_watched++], name);
    if (!opened)
        zmq_setsockopt(client->watch, ZMQ_SUBSCRIBE, "status", 6);
    return 0;
}

// Which of one or two sockets has a message; two take turns. Returns 0, -EAGAIN, -EINTR, -ENODEV.
static int wait_for(struct posed *client, void *const *sockets, int n_sockets, int timeout_ms,
                    void **out_ready)
{
    const int64_t end_ms = client_now_ms() + timeout_ms;
    for (;;) {
        zmq_pollitem_t items[3] = {{.socket = sockets[0], .events = ZMQ_POLLIN}};
        zmq_pollitem_t *watch = &items[n_sockets];
        if (n_sockets == 2)
            items[1] = (zmq_pollitem_t){.socket = sockets[1], .events = ZMQ_POLLIN};
        if (client->watch)
            *watch = (zmq_pollitem_t){.socket = client->watch, .events = ZMQ_POLLIN};
        int64_t left_ms = end_ms - client_now_ms();
        if (timeout_ms < 0)
            left_ms = -1;
        else if (left_ms < 0)
            left_ms = 0;
        int n = zmq_poll(items, n_sockets + (client->watch != NULL), left_ms);
        if (n < 0)
            return client_fail(client, -zmq_errno(), "%s", zmq_strerror(zmq_errno()));
        if (n == 0)
            return client_fail(client, -EAGAIN, "nothing came within %d ms", timeout_ms);
        int error = client->watch && watch->revents ? check_cameras(client) : 0;
        if (error)
            return error;
        if (items[0].revents || (n_sockets == 2 && items[1].revents)) {
            bool second =
                n_sockets == 2 && items[1].revents && (client->images_next || !items[0].revents);
            client->images_next = !second;
            *out_ready = sockets[second];
            return 0;
        }
    }
}

// The topic of the client's camera, where one is named.
static void name_topic(const struct posed *client, const char *topic,
                       char out[CLIENT_TOPIC_BYTES * 2])
{
    bool named = client->camera[0] && !strchr(topic, '/') && strcmp(topic, "log") != 0 &&
                 strcmp(topic, "rig") != 0;
    snprintf(out, (size_t)CLIENT_TOPIC_BYTES * 2, "%s%s%s", topic, named ? "/" : "",
             named ? client->camera : "");
}

// The pose that waits at the socket.
static int receive_pose(struct posed *client, void *socket, bool has_topic, struct posed_pose *out)
{
    zmq_msg_t message;
    char topic[CLIENT_TOPIC_BYTES];
    zmq_msg_init(&message);
    int error = receive(client, socket, has_topic ? topic : NULL, &message);
    if (!error)
        error = read_pose(client, zmq_msg_data(&message), zmq_msg_size(&message), out);
    zmq_msg_close(&message);
    return error;
}

// `latest` has the first camera's: the daemon is asked for another one's.
static int newest_of_camera(struct posed *client, struct posed_pose *out)
{
    const struct timespec pause = {0, NEWEST_WAIT_MS * 1000000};
    const int64_t end_ms = client_now_ms() + client->timeout_ms;
    int error;
    while ((error = client_get_pose(client, NULL, out)) == -ENOENT && client_now_ms() < end_ms)
        nanosleep(&pause, NULL); // no frame yet
    return error == -ENOENT ? -EAGAIN : error;
}

int posed_newest(struct posed *client, struct posed_pose *out)
{
    void **socket = &client->sockets[ADDRESS_LATEST], *ready;
    if (client->camera[0])
        return newest_of_camera(client, out);
    int error = client_open(client, socket, ZMQ_SUB, ADDRESS_LATEST);
    if (error)
        return error;
    error = wait_for(client, socket, 1, client->has_newest ? 0 : (int)client->timeout_ms, &ready);
    if (!error)
        error = receive_pose(client, ready, false, &client->newest);
    if (error == -EAGAIN && !client->has_newest)
        return client_fail_silence(client, error, ADDRESS_LATEST);
    if (error && error != -EAGAIN)
        return error;
    client->has_newest = true;
    *out = client->newest;
    return 0;
}

int posed_next(struct posed *client, int timeout_ms, struct posed_pose *out)
{
    char topic[CLIENT_TOPIC_BYTES * 2];
    void *ready;
    bool opened = client->poses != NULL;
    int error = client->camera[0] ? watch_camera(client, client->camera) : 0;
    if (!error)
        error = client_open(client, &client->poses, ZMQ_SUB, ADDRESS_PUB);
    if (!error && !opened) {
        name_topic(client, "pose", topic);
        zmq_setsockopt(client->poses, ZMQ_SUBSCRIBE, topic, strlen(topic));
    }
    if (!error)
        error = wait_for(client, &client->poses, 1, timeout_ms, &ready);
    return error ? error : receive_pose(client, ready, true, out);
}

int posed_subscribe(struct posed *client, const char *topic)
{
    static const char *const names[] = {"pose",  "tf",      "calib",    "status", "timing",
                                        "event", "imu",     "log",      "object", "rig",
                                        "depth", "normals", "residual", "cloud"};
    const size_t n_names = sizeof names / sizeof names[0], n = strcspn(topic, "/");
    char full[CLIENT_TOPIC_BYTES * 2];
    size_t i = 0;
    while (i < n_names && (strlen(names[i]) != n || memcmp(names[i], topic, n) != 0))
        i++;
    if (i == n_names || strlen(topic) >= CLIENT_TOPIC_BYTES)
        return client_fail(client, -EINVAL, "no topic \"%s\"", topic);
    name_topic(client, topic, full);
    const char *name = strchr(full, '/');
    enum address_socket which = i < FIRST_IMAGE ? ADDRESS_PUB : ADDRESS_IMG;
    int error = name && name[1] ? watch_camera(client, name + 1) : 0;
    if (!error)
        error = client_open(client, &client->sockets[which], ZMQ_SUB, which);
    if (!error)
        zmq_setsockopt(client->sockets[which], ZMQ_SUBSCRIBE, full, strlen(full));
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
        return client_fail(client, -EINVAL, "no topic is subscribed to");
    int error = wait_for(client, open, n, timeout_ms, &ready);
    if (!error)
        error = receive(client, ready, client->topic, &client->message);
    if (!error)
        *out = (struct posed_message){client->topic, zmq_msg_data(&client->message),
                                      zmq_msg_size(&client->message)};
    return error;
}
