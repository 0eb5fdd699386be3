// SPDX-License-Identifier: Apache-2.0
// posectl: asks a running posed, and watches it. The commands that only ask stand here.
#include "tools/posectl.h"
#include "tools/posectl_doctor.h"
#include "tools/posectl_register.h"
#include "tools/posectl_search.h"

#include <errno.h>
#include <inttypes.h>
#include <netdb.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <zmq.h>

#include "proto/se3.h"
#include "proto/trajectory.h"

#define ENDPOINT_MAX 300
#define KEY_BYTES    41 // Z85 of 32 bytes, and the end
#define MAX_TOPICS   16

void posectl_complain(const char *format, ...)
{
    va_list args;
    fflush(stdout);
    fputs("posectl: ", stderr);
    va_start(args, format);
    vfprintf(stderr, format, args);
    va_end(args);
    fputc('\n', stderr);
}

enum { OPTION_SERVER_KEY = 1000, OPTION_KEY_FILE, OPTION_TIMEOUT };

static const struct argp_option common_options[] = {
    {"endpoint", 'e', "WHERE", 0,
     "The daemon's run directory, a host, or the address of the socket itself "
     "(tcp://HOST:PORT, ipc://PATH)",
     0},
    {"output", 'o', "json|text|FILE", 0, "Output format, or (trajectory) the file to write", 0},
    {"timeout", OPTION_TIMEOUT, "SECONDS", 0, "How long to wait for an answer (default 3)", 0},
    {"server-key", OPTION_SERVER_KEY, "KEY", 0, "CURVE: public key of the daemon", 0},
    {"key-file", OPTION_KEY_FILE, "FILE", 0, "CURVE: secret key of this client", 0},
    {0},
};

static error_t on_common_option(int key, char *arg, struct argp_state *state)
{
    struct posectl *ctl = state->input;
    char *end;
    double seconds;
    switch (key) {
    case 'e':
        ctl->endpoint = arg;
        return 0;
    case 'o':
        if (strcmp(arg, "json") == 0 || strcmp(arg, "text") == 0)
            ctl->json = arg[0] == 'j';
        else if (ctl->takes_file)
            ctl->file = arg;
        else
            argp_error(state, "-o %s: json or text is wanted (this command writes no file)", arg);
        return 0;
    case OPTION_TIMEOUT:
        seconds = strtod(arg, &end);
        if (end == arg || *end || !(seconds > 0 && seconds <= 3600))
            argp_error(state, "--timeout %s: seconds are wanted, above 0 and at most 3600", arg);
        ctl->timeout_ms = (unsigned)(seconds * 1000 + 0.5);
        return 0;
    case OPTION_SERVER_KEY:
        if (strlen(arg) != KEY_BYTES - 1)
            argp_error(state, "--server-key: 40 characters Z85 are wanted");
        ctl->server_key = arg;
        return 0;
    case OPTION_KEY_FILE:
        ctl->key_file = arg;
        return 0;
    }
    return ARGP_ERR_UNKNOWN;
}

static const struct argp common_argp = {.options = common_options, .parser = on_common_option};
const struct argp_child posectl_common[] = {{&common_argp, 0, "Common options:", 100}, {0}};

void posectl_parse(struct posectl *ctl, const struct argp *argp, int argc, char **argv)
{
    static char name[64];
    snprintf(name, sizeof name, "posectl %s", argv[0]);
    argv[0] = name;
    argp_err_exit_status = POSECTL_USAGE;
    argp_parse(argp, argc, argv, 0, NULL, ctl);
}

error_t posectl_option(int key, char *arg, struct argp_state *state)
{
    (void)arg;
    if (key != ARGP_KEY_INIT)
        return ARGP_ERR_UNKNOWN;
    state->child_inputs[0] = state->input;
    return 0;
}

// Connects a plain socket. Returns 0 when somebody listens there, else errno, -1 when the address
// cannot be understood.
static int probe(const char *endpoint)
{
    int error = -1, fd = -1;
    if (strncmp(endpoint, "ipc://", 6) == 0) {
        struct sockaddr_un address = {.sun_family = AF_UNIX};
        if (strlen(endpoint + 6) >= sizeof address.sun_path)
            return -1;
        strcpy(address.sun_path, endpoint + 6);
        fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
        error = connect(fd, (void *)&address, sizeof address) == 0 ? 0 : errno;
    } else if (strncmp(endpoint, "tcp://", 6) == 0 && strrchr(endpoint + 6, ':')) {
        char host[ENDPOINT_MAX];
        const struct addrinfo hints = {.ai_socktype = SOCK_STREAM};
        struct addrinfo *found = NULL;
        const char *colon = strrchr(endpoint, ':'), *start = endpoint + 6;
        bool bracket = *start == '[' && colon > start + 1 && colon[-1] == ']';
        snprintf(host, sizeof host, "%.*s", (int)(colon - start) - (bracket ? 2 : 0),
                 start + (bracket ? 1 : 0));
        if (getaddrinfo(host, colon + 1, &hints, &found) != 0)
            return -1;
        fd = socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
        const struct timeval patience = {2, 0};
        setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience);
        error = connect(fd, found->ai_addr, found->ai_addrlen) == 0 ? 0 : errno;
        freeaddrinfo(found);
    }
    if (fd >= 0)
        close(fd);
    return error;
}

// Address of the daemon's socket `name` ("req", "pub"). Without --endpoint: the first run directory
// whose socket answers, else tcp on loopback.
static void find_endpoint(const struct posectl *ctl, const char *name, int tcp_port, char *out)
{
    const char *given = ctl->endpoint, *xdg = getenv("XDG_RUNTIME_DIR");
    struct stat info;
    if (given && strstr(given, "://")) {
        snprintf(out, ENDPOINT_MAX, "%s", given);
    } else if (given &&
               (strchr(given, '/') || (stat(given, &info) == 0 && S_ISDIR(info.st_mode)))) {
        // A run directory, also one that the daemon has not made yet.
        snprintf(out, ENDPOINT_MAX, "ipc://%s/%s", given, name);
    } else if (given) {
        snprintf(out, ENDPOINT_MAX, "tcp://%s:%d", given, tcp_port);
    } else {
        snprintf(out, ENDPOINT_MAX, "ipc:///run/posed/%s", name);
        if (probe(out) != 0 && xdg)
            snprintf(out, ENDPOINT_MAX, "ipc://%s/posed/%s", xdg, name);
        if (probe(out) != 0)
            snprintf(out, ENDPOINT_MAX, "ipc:///tmp/posed-%u/%s", (unsigned)getuid(), name);
        if (probe(out) != 0)
            snprintf(out, ENDPOINT_MAX, "tcp://127.0.0.1:%d", tcp_port);
    }
}

// Why nothing came from there, as far as a plain connection can tell.
static void explain_silence(const char *endpoint, const char *name)
{
    int error = probe(endpoint);
    if (error == 0)
        posectl_complain("something listens at %s but does not answer: is it the `%s` socket of a "
                         "posed? (defaults: pub tcp://127.0.0.1:5570, req tcp://127.0.0.1:5573; "
                         "a daemon with CURVE needs --server-key)",
                         endpoint, name);
    else if (error == ECONNREFUSED || error == ENOENT)
        posectl_complain("no posed at %s: %s. Start one (posed --source synth:room --loop), or say "
                         "with --endpoint where it is",
                         endpoint, strerror(error));
    else if (error == EACCES)
        posectl_complain("%s: %s. Its group may connect: see endpoints.group in posed.conf",
                         endpoint, strerror(error));
    else if (error > 0)
        posectl_complain("%s: %s", endpoint, strerror(error));
    else
        posectl_complain("%s is no address that can be reached: tcp://HOST:PORT, ipc://PATH, a run "
                         "directory or a host is wanted",
                         endpoint);
}

// CURVE keys on a client socket: a key pair of its own unless --key-file gives one.
static bool set_keys(const struct posectl *ctl, void *socket)
{
    char public_key[KEY_BYTES], secret_key[KEY_BYTES] = "";
    if (!ctl->server_key)
        return true;
    if (ctl->key_file) {
        FILE *file = fopen(ctl->key_file, "re");
        bool read = file && fscanf(file, "%40s", secret_key) == 1;
        if (file)
            fclose(file);
        if (!read || zmq_curve_public(public_key, secret_key) != 0) {
            posectl_complain("%s: %s", ctl->key_file,
                             file ? "holds no CURVE secret key" : strerror(errno));
            return false;
        }
    } else if (zmq_curve_keypair(public_key, secret_key) != 0) {
        posectl_complain("CURVE: %s", zmq_strerror(zmq_errno()));
        return false;
    }
    return zmq_setsockopt(socket, ZMQ_CURVE_SERVERKEY, ctl->server_key, KEY_BYTES) == 0 &&
           zmq_setsockopt(socket, ZMQ_CURVE_PUBLICKEY, public_key, KEY_BYTES) == 0 &&
           zmq_setsockopt(socket, ZMQ_CURVE_SECRETKEY, secret_key, KEY_BYTES) == 0;
}

static void *open_socket(const struct posectl *ctl, void *context, int type, const char *endpoint)
{
    // A little longer than the deadline that goes with a request, so that its answer arrives.
    const int linger_ms = 0, timeout_ms = (int)ctl->timeout_ms + 300;
    void *socket = zmq_socket(context, type);
    if (!socket)
        return NULL;
    zmq_setsockopt(socket, ZMQ_LINGER, &linger_ms, sizeof linger_ms);
    zmq_setsockopt(socket, ZMQ_RCVTIMEO, &timeout_ms, sizeof timeout_ms);
    if (set_keys(ctl, socket)) {
        if (zmq_connect(socket, endpoint) == 0)
            return socket;
        explain_silence(endpoint, type == ZMQ_SUB ? "pub" : "req");
    }
    zmq_close(socket);
    return NULL;
}

static enum posectl_exit exchange(void *socket, const char *endpoint, const uint8_t *request,
                                  size_t n_bytes, posed_Reply *out)
{
    if (zmq_send(socket, request, n_bytes, 0) < 0) {
        posectl_complain("the request could not be sent");
        return POSECTL_FAILED;
    }
    zmq_msg_t message;
    zmq_msg_init(&message);
    if (zmq_msg_recv(&message, socket, 0) < 0) {
        explain_silence(endpoint, "req");
        return POSECTL_NO_ANSWER;
    }
    int error = wire_decode_reply(zmq_msg_data(&message), zmq_msg_size(&message), out);
    zmq_msg_close(&message);
    if (error) {
        posectl_complain("the answer of %s is not one of posed", endpoint);
        return POSECTL_FAILED;
    }
    if (out->code == posed_Code_OK)
        return POSECTL_OK;
    posectl_complain("%s%s%s: %s", wire_code_name(out->code), out->field[0] ? " " : "", out->field,
                     out->message);
    return POSECTL_FAILED;
}

enum posectl_exit posectl_request(const struct posectl *ctl, const posed_Request *request,
                                  posed_Reply *out)
{
    uint8_t bytes[WIRE_REQUEST_MAX_BYTES];
    int n = wire_encode_request(request, bytes, sizeof bytes);
    if (n < 0) {
        posectl_complain("the request is too long");
        return POSECTL_FAILED;
    }
    return posectl_exchange(ctl, bytes, (size_t)n, out);
}

enum posectl_exit posectl_exchange(const struct posectl *ctl, const uint8_t *request,
                                   size_t n_bytes, posed_Reply *out)
{
    char endpoint[ENDPOINT_MAX];
    enum posectl_exit result = POSECTL_NO_ANSWER;
    find_endpoint(ctl, "req", 5573, endpoint);
    void *context = zmq_ctx_new();
    void *socket = context ? open_socket(ctl, context, ZMQ_DEALER, endpoint) : NULL;
    if (socket) {
        result = exchange(socket, endpoint, request, n_bytes, out);
        zmq_close(socket);
    }
    if (context)
        zmq_ctx_term(context);
    return result;
}

FILE *posectl_open(const struct posectl *ctl)
{
    FILE *file = ctl->file ? fopen(ctl->file, "we") : stdout;
    if (!file)
        posectl_complain("%s: %s", ctl->file, strerror(errno));
    return file;
}

enum posectl_exit posectl_close(const struct posectl *ctl, FILE *file)
{
    bool failed = fflush(file) != 0 || ferror(file);
    int error = errno;
    if (ctl->file && fclose(file) != 0) {
        failed = true;
        error = errno;
    }
    if (failed)
        posectl_complain("%s: %s", ctl->file ? ctl->file : "standard output", strerror(error));
    return failed ? POSECTL_FAILED : POSECTL_OK;
}

void posectl_print_json(FILE *file, json_t *value, bool one_line)
{
    json_dumpf(value, file, (one_line ? JSON_COMPACT : JSON_INDENT(2)) | JSON_REAL_PRECISION(12));
    fputc('\n', file);
    json_decref(value);
}

json_t *posectl_json_pose(const posed_Pose *pose)
{
    return json_pack("{s:[fff], s:[ffff]}", "position_m", pose->position.x, pose->position.y,
                     pose->position.z, "orientation_xyzw", pose->orientation.x, pose->orientation.y,
                     pose->orientation.z, pose->orientation.w);
}

double posectl_seconds(const posed_Timestamp *timestamp)
{
    return (double)timestamp->seconds + timestamp->nanos * 1e-9;
}

// The messages are large; posectl makes one request at a time.
static posed_Reply reply;

static const char *reference_name(posed_Reference reference)
{
    return reference == posed_Reference_REFERENCE_KEYFRAME ? "keyframe"
           : reference == posed_Reference_REFERENCE_MODEL  ? "model"
                                                           : "previous";
}

static json_t *json_status(const posed_Status *s)
{
#define COUNT(name) #name, (json_int_t)s->name
    char session[24];
    snprintf(session, sizeof session, "%016" PRIx64, s->session);
    json_t *out = json_pack("{s:s, s:s, s:f, s:s, s:s, s:s, s:s, s:b, s:s, s:s, s:f, s:f}",
                            "session", session, "version", s->version, "uptime_s", s->uptime_s,
                            "state", wire_state_name(s->state), "reason", s->reason_text, "source",
                            s->source, "source_description", s->source_description, "live", s->live,
                            "backend", s->backend, "reference", reference_name(s->reference),
                            "rate_hz", s->rate_hz, "time_s", posectl_seconds(&s->timestamp));
    json_t *counts = json_pack(
        "{s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I}",
        COUNT(captured_frames), COUNT(tracked_frames), COUNT(degraded_frames), COUNT(lost_frames),
        COUNT(dropped_frames), COUNT(damaged_frames), COUNT(duplicate_frames),
        COUNT(expected_frames), COUNT(requests), COUNT(bad_requests), COUNT(rejected_requests),
        COUNT(unsent_messages), COUNT(resident_bytes), COUNT(map_epoch));
#undef COUNT
    json_object_update(out, counts);
    json_decref(counts);
    json_object_set_new(out, "recording",
                        s->recording[0] ? json_string(s->recording) : json_null());
    return out;
}

static void print_status(const posed_Status *s)
{
    printf("%-11s %s%s%s\n", "state", wire_state_name(s->state), s->reason_text[0] ? ": " : "",
           s->reason_text);
    printf("%-11s %s\n", "source", s->source_description);
    printf("%-11s %s, reference %s\n", "backend", s->backend, reference_name(s->reference));
    printf("%-11s %.1f frames/s\n", "rate", s->rate_hz);
    printf("%-11s %" PRIu64, "frames", s->captured_frames);
    if (s->expected_frames)
        printf(" of %" PRIu64, s->expected_frames);
    printf(": %" PRIu64 " tracked, %" PRIu64 " degraded, %" PRIu64 " lost, %" PRIu64
           " dropped, %" PRIu64 " damaged, %" PRIu64 " duplicates\n",
           s->tracked_frames, s->degraded_frames, s->lost_frames, s->dropped_frames,
           s->damaged_frames, s->duplicate_frames);
    printf("%-11s %" PRIu64 " answered, %" PRIu64 " malformed, %" PRIu64 " rejected\n", "requests",
           s->requests, s->bad_requests, s->rejected_requests);
    if (s->recording[0])
        printf("%-11s %s\n", "recording", s->recording);
    printf("%-11s %s, up %.1f s, %.1f MB resident\n", "daemon", s->version, s->uptime_s,
           (double)s->resident_bytes * 1e-6);
}

static int run_status(struct posectl *ctl, int argc, char **argv)
{
    static const struct argp argp = {.parser = posectl_option,
                                     .children = posectl_common,
                                     .doc = "Shows what a running posed is doing."};
    posed_Request request = posed_Request_init_zero;
    posectl_parse(ctl, &argp, argc, argv);
    request.which_what = posed_Request_get_status_tag;
    enum posectl_exit result = posectl_request(ctl, &request, &reply);
    if (result)
        return (int)result;
    if (ctl->json)
        posectl_print_json(stdout, json_status(&reply.what.get_status), false);
    else
        print_status(&reply.what.get_status);
    return (int)posectl_close(ctl, stdout);
}

static bool keep_pose;

static error_t on_reset_option(int key, char *arg, struct argp_state *state)
{
    if (key != 'k')
        return posectl_option(key, arg, state);
    keep_pose = true;
    return 0;
}

static int run_reset(struct posectl *ctl, int argc, char **argv)
{
    static const struct argp_option options[] = {
        {"keep-pose", 'k', NULL, 0, "Start again at the newest pose, not at the origin", 0}, {0}};
    static const struct argp argp = {.options = options,
                                     .parser = on_reset_option,
                                     .children = posectl_common,
                                     .doc = "Starts the tracking afresh."};
    posed_Request request = posed_Request_init_zero;
    posectl_parse(ctl, &argp, argc, argv);
    request.deadline_ms = ctl->timeout_ms;
    request.which_what = posed_Request_reset_tag;
    request.what.reset.keep_pose = keep_pose;
    enum posectl_exit result = posectl_request(ctl, &request, &reply);
    if (result)
        return (int)result;
    if (ctl->json)
        posectl_print_json(
            stdout, json_pack("{s:I}", "next_seq", (json_int_t)reply.what.reset.next_seq), false);
    else
        printf("reset before frame %" PRIu64 "\n", reply.what.reset.next_seq);
    return (int)posectl_close(ctl, stdout);
}

static json_t *json_trajectory_pose(const posed_TrajectoryPose *pose)
{
    return json_pack("{s:I, s:f, s:s, s:I, s:o}", "seq", (json_int_t)pose->seq, "time_s",
                     posectl_seconds(&pose->timestamp), "state", wire_state_name(pose->state),
                     "map_epoch", (json_int_t)pose->map_epoch, "pose",
                     posectl_json_pose(&pose->pose));
}

// One page, as TUM lines to `file` or as values to `poses`.
static bool take_page(const posed_Trajectory *page, FILE *file, json_t *poses)
{
    for (pb_size_t i = 0; i < page->poses_count; i++) {
        const posed_TrajectoryPose *from = &page->poses[i];
        struct stamped_pose pose;
        const char *field;
        if (poses) {
            json_array_append_new(poses, json_trajectory_pose(from));
            continue;
        }
        if (wire_read_timestamp(&from->timestamp, &pose.time_ns) != 0 ||
            wire_read_pose(&from->pose, &pose.T_world_camera, &field) != 0) {
            posectl_complain("frame %" PRIu64 ": the daemon sent no valid pose", from->seq);
            return false;
        }
        if (trajectory_write_tum(file, &pose) != 0)
            return true; // posectl_close says why
    }
    return true;
}

static int run_trajectory(struct posectl *ctl, int argc, char **argv)
{
    static const struct argp argp = {
        .parser = posectl_option,
        .children = posectl_common,
        .doc = "Writes the trajectory that the daemon remembers, in TUM format, to standard output "
               "or to the file of -o."};
    ctl->takes_file = true;
    posectl_parse(ctl, &argp, argc, argv);
    posed_Request request = posed_Request_init_zero;
    request.which_what = posed_Request_get_trajectory_tag;
    enum posectl_exit result = posectl_request(ctl, &request, &reply);
    if (result)
        return (int)result;
    FILE *file = posectl_open(ctl);
    if (!file)
        return POSECTL_FAILED;
    const posed_Trajectory *page = &reply.what.get_trajectory;
    json_t *poses = ctl->json ? json_array() : NULL;
    if (page->oldest_seq > 0)
        posectl_complain("the daemon no longer keeps the frames before %" PRIu64
                         " (requests.history)",
                         page->oldest_seq);
    uint64_t asked = 0;
    while (take_page(page, file, poses) && !page->end && page->next_seq > asked) {
        asked = request.what.get_trajectory.from_seq = page->next_seq;
        result = posectl_request(ctl, &request, &reply);
        if (result)
            break;
    }
    if (poses)
        posectl_print_json(file, json_pack("{s:o}", "poses", poses), false);
    enum posectl_exit closed = posectl_close(ctl, file);
    return (int)(result ? result : closed);
}

static const char *watch_topics[MAX_TOPICS];
static size_t n_watch_topics;
static unsigned long watch_count;

static error_t on_watch_option(int key, char *arg, struct argp_state *state)
{
    char *end;
    switch (key) {
    case 'n':
        watch_count = strtoul(arg, &end, 10);
        if (end == arg || *end || watch_count == 0)
            argp_error(state, "--count %s: a number above 0 is wanted", arg);
        return 0;
    case ARGP_KEY_ARG:
        if (strcmp(arg, "pose") != 0 && strcmp(arg, "status") != 0 && strcmp(arg, "event") != 0 &&
            strcmp(arg, "log") != 0)
            argp_error(state, "no topic \"%s\": pose, status, event, log are shown", arg);
        if (n_watch_topics < MAX_TOPICS)
            watch_topics[n_watch_topics++] = arg;
        return 0;
    }
    return posectl_option(key, arg, state);
}

static void show_odometry(const struct posectl *ctl, const posed_Odometry *o)
{
    if (ctl->json) {
        posectl_print_json(
            stdout,
            json_pack("{s:s, s:I, s:f, s:s, s:s, s:o, s:f, s:f, s:i, s:i, s:I, s:I, s:I, s:f, s:f}",
                      "topic", "pose", "seq", (json_int_t)o->seq, "time_s",
                      posectl_seconds(&o->timestamp), "state", wire_state_name(o->state), "reason",
                      o->reason_text, "pose", posectl_json_pose(&o->pose), "residual_rms_m",
                      o->residual_rms_m, "inlier_ratio", o->inlier_ratio, "iterations",
                      (int)o->iterations, "degenerate_mask", (int)o->degenerate_mask, "map_epoch",
                      (json_int_t)o->map_epoch, "dropped_frames", (json_int_t)o->dropped_frames,
                      "frame_index", (json_int_t)o->frame_index, "track_us",
                      (double)o->stages.track_us, "added_us", (double)o->stages.added_us),
            true);
        return;
    }
    const posed_Vector3 *p = &o->pose.position;
    const posed_Quaternion *q = &o->pose.orientation;
    printf("%7" PRIu64 " %15.6f %-8s %8.4f %8.4f %8.4f  %8.5f %8.5f %8.5f %8.5f  %6.2f ms %s\n",
           o->seq, posectl_seconds(&o->timestamp), wire_state_name(o->state), p->x, p->y, p->z,
           q->x, q->y, q->z, q->w, (double)o->stages.track_us * 1e-3, o->reason_text);
}

// One message of a topic that is shown. Returns false when it is none.
static bool show_message(const struct posectl *ctl, const char *topic, const uint8_t *bytes,
                         size_t n_bytes)
{
    static union {
        posed_Odometry odometry;
        posed_Status status;
        posed_Event event;
        posed_Log log;
    } m;
    if (strcmp(topic, "pose") == 0) {
        if (wire_decode(posed_Odometry_fields, bytes, n_bytes, &m.odometry) != 0)
            return false;
        show_odometry(ctl, &m.odometry);
    } else if (strcmp(topic, "status") == 0) {
        if (wire_decode(posed_Status_fields, bytes, n_bytes, &m.status) != 0)
            return false;
        if (ctl->json) {
            json_t *status = json_status(&m.status);
            json_object_set_new(status, "topic", json_string("status"));
            posectl_print_json(stdout, status, true);
        } else {
            printf("status: %s, %" PRIu64 " frames, %.1f frames/s\n",
                   wire_state_name(m.status.state), m.status.captured_frames, m.status.rate_hz);
        }
    } else {
        bool is_event = strcmp(topic, "event") == 0;
        if (wire_decode(is_event ? posed_Event_fields : posed_Log_fields, bytes, n_bytes, &m) != 0)
            return false;
        const char *text = is_event ? m.event.message : m.log.message;
        if (ctl->json)
            posectl_print_json(stdout, json_pack("{s:s, s:s}", "topic", topic, "message", text),
                               true);
        else
            printf("%s: %s\n", topic, text);
    }
    return true;
}

static bool is_watched(const char *topic)
{
    for (size_t i = 0; i < n_watch_topics; i++)
        if (strcmp(watch_topics[i], topic) == 0)
            return true;
    return false;
}

// Shows messages until --count of them or until the daemon falls silent. Its heartbeat comes every
// second even without a camera.
static enum posectl_exit watch(const struct posectl *ctl, void *socket, const char *endpoint)
{
    unsigned long n_shown = 0;
    bool any = false;
    zmq_msg_t message;
    zmq_msg_init(&message);
    while (watch_count == 0 || n_shown < watch_count) {
        char topic[16] = "";
        int n = zmq_recv(socket, topic, sizeof topic - 1, 0);
        if (n < 0 || zmq_msg_recv(&message, socket, 0) < 0)
            break;
        topic[(size_t)n < sizeof topic - 1 ? n : (int)sizeof topic - 1] = 0;
        any = true;
        if (is_watched(topic) &&
            show_message(ctl, topic, zmq_msg_data(&message), zmq_msg_size(&message)))
            n_shown++;
        if (ferror(stdout) || fflush(stdout) != 0)
            break;
    }
    zmq_msg_close(&message);
    if (ferror(stdout))
        return POSECTL_FAILED;
    if (!any) {
        explain_silence(endpoint, "pub");
        return POSECTL_NO_ANSWER;
    }
    if (watch_count && n_shown < watch_count) {
        posectl_complain("%s has fallen silent after %lu messages", endpoint, n_shown);
        return POSECTL_NO_ANSWER;
    }
    if (!watch_count)
        posectl_complain("%s has fallen silent: the daemon has ended", endpoint);
    return POSECTL_OK;
}

static int run_watch(struct posectl *ctl, int argc, char **argv)
{
    static const struct argp_option options[] = {{"count", 'n', "N", 0, "End after N messages", 0},
                                                 {0}};
    static const struct argp argp = {
        .options = options,
        .parser = on_watch_option,
        .args_doc = "[TOPIC...]",
        .children = posectl_common,
        .doc = "Shows poses as they come: frame, time, state, position, quaternion x y z w, time "
               "of tracking, reason. TOPIC: pose (default), status, event, log."};
    char endpoint[ENDPOINT_MAX];
    enum posectl_exit result = POSECTL_NO_ANSWER;
    posectl_parse(ctl, &argp, argc, argv);
    if (n_watch_topics == 0)
        watch_topics[n_watch_topics++] = "pose";
    find_endpoint(ctl, "pub", 5570, endpoint);
    void *context = zmq_ctx_new();
    void *socket = context ? open_socket(ctl, context, ZMQ_SUB, endpoint) : NULL;
    if (socket) {
        zmq_setsockopt(socket, ZMQ_SUBSCRIBE, "status", 6);
        for (size_t i = 0; i < n_watch_topics; i++)
            zmq_setsockopt(socket, ZMQ_SUBSCRIBE, watch_topics[i], strlen(watch_topics[i]));
        result = watch(ctl, socket, endpoint);
        zmq_close(socket);
    }
    if (context)
        zmq_ctx_term(context);
    return (int)result;
}

static int run_params(struct posectl *ctl, int argc, char **argv)
{
    static const struct argp argp = {.parser = posectl_option,
                                     .children = posectl_common,
                                     .doc =
                                         "Shows the settings in force and where they come from."};
    posed_Request request = posed_Request_init_zero;
    posectl_parse(ctl, &argp, argc, argv);
    request.which_what = posed_Request_get_params_tag;
    enum posectl_exit result = posectl_request(ctl, &request, &reply);
    if (result)
        return (int)result;
    const posed_Params *params = &reply.what.get_params;
    json_t *all = ctl->json ? json_object() : NULL;
    for (pb_size_t i = 0; i < params->params_count; i++) {
        const posed_Params_Param *p = &params->params[i];
        if (all)
            json_object_set_new(all, p->name,
                                json_pack("{s:s, s:s, s:s}", "value", p->value, "default",
                                          p->default_value, "origin", p->origin));
        else
            printf("%-32s %-28s %s\n", p->name, p->value[0] ? p->value : "(empty)", p->origin);
    }
    if (all)
        posectl_print_json(stdout, all, false);
    return (int)posectl_close(ctl, stdout);
}

static const struct {
    const char *name;
    int (*run)(struct posectl *ctl, int argc, char **argv);
    const char *summary;
} commands[] = {
    {"status", run_status, "what the daemon is doing"},
    {"watch", run_watch, "poses as they come"},
    {"trajectory", run_trajectory, "the trajectory so far, TUM format; -o FILE"},
    {"reset", run_reset, "start the tracking afresh"},
    {"params", run_params, "the settings in force"},
    {"record", posectl_record, "start NAME, stop, list: recordings of what the camera sees"},
    {"doctor", posectl_doctor, "what this machine lacks, and what to do about it"},
    {"register", posectl_register, "the transform between two point clouds; --local"},
    {"object", posectl_object, "known objects: add NAME MODEL.ply, list, remove NAME"},
    {"search", posectl_search, "where a known object is in a depth image; --plot FILE"},
};

static void print_help(FILE *file)
{
    fprintf(file, "Usage: posectl COMMAND [--endpoint WHERE] [-o json] [OPTION...]\n"
                  "Asks a running posed, and watches it.\n\n");
    for (size_t i = 0; i < sizeof commands / sizeof commands[0]; i++)
        fprintf(file, "  %-12s %s\n", commands[i].name, commands[i].summary);
    fprintf(file,
            "\n`posectl COMMAND --help` explains a command. Exit codes: 0 done, 1 refused or\n"
            "failed, 2 wrong usage, 3 no daemon answers.\n");
}

int main(int argc, char **argv)
{
    struct posectl ctl = {.timeout_ms = 3000};
    const char *name = argc > 1 ? argv[1] : "";
    if (strcmp(name, "--help") == 0 || strcmp(name, "-h") == 0 || strcmp(name, "help") == 0) {
        print_help(stdout);
        return POSECTL_OK;
    }
    if (strcmp(name, "--version") == 0 || strcmp(name, "-V") == 0) {
        printf("posectl %s\n", POSED_VERSION);
        return POSECTL_OK;
    }
    for (size_t i = 0; i < sizeof commands / sizeof commands[0]; i++)
        if (strcmp(commands[i].name, name) == 0)
            return commands[i].run(&ctl, argc - 1, argv + 1);
    if (name[0])
        posectl_complain("no command \"%s\"", name);
    print_help(stderr);
    return POSECTL_USAGE;
}
