// SPDX-License-Identifier: Apache-2.0
#include "daemon/web/web.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <unistd.h>

#include "daemon/web/page.h" // made by the build from page.html
#include "daemon/web/subscriptions.h"
#include "proto/clock.h"
#include "proto/wire.h"

#define NICE               10
#define LOOK_MS            50 // for previews
#define TICK_NS            1000000000
#define VIEW_MAX_BYTES_S   950000.0
#define VIEW_QUEUE_BYTES   (1 << 20)
#define OTHERS_QUEUE_BYTES (16 << 20)
#define REPLY_MAX_BYTES    65536
#define SURFACE_ID         (UINT64_MAX - CONFIG_MAX_CAMERAS) // of our own requests, and the camera
#define INBOX_MESSAGES     128
#define INBOX_BYTES        (32 << 20)
#define REQUEST_BYTE       0x10 // in front of a Request, and of a Reply
#define REPLY_BYTE         0x11

struct slot {
    struct viewer *viewer; // NULL: free
    struct web_connection connection;
};

struct web {
    struct web_settings settings;
    pthread_t thread;
    pthread_mutex_t mutex;
    struct web_connection arrived[WEB_MAX_VIEWERS];
    size_t n_arrived, n_viewers; // n_viewers: those that arrived, too
    bool stopping;
    int wake_fd;

    // From other threads: the publisher's messages and answers to requests.
    struct arrival {
        struct subscriptions *subscriptions; // NULL: an answer
        uint32_t channel;
        struct payload *payload;
    } inbox[INBOX_MESSAGES];
    size_t first_inbox, n_inbox, n_inbox_bytes;

    struct slot slots[WEB_MAX_VIEWERS];
    struct subscriptions subscriptions[CONFIG_MAX_CAMERAS];
    const char *names[CONFIG_MAX_CAMERAS];
    int64_t tick_ns;
    char *advertise;
};

const char *web_page(size_t *out_n_bytes)
{
    *out_n_bytes = sizeof page_html;
    return (const char *)page_html;
}

// The camera of a channel as it is on the wire, and its channel there; NULL: there is none.
static struct subscriptions *find_feed(struct web *web, uint32_t *channel)
{
    uint32_t n = *channel / FOXGLOVE_N_CHANNELS;
    *channel %= FOXGLOVE_N_CHANNELS;
    return n < web->settings.n_cameras && *channel ? &web->subscriptions[n] : NULL;
}

static bool subscribe(struct web *web, struct viewer *viewer, const struct foxglove_op *op)
{
    uint32_t channel = op->channel;
    struct subscriptions *subscriptions = find_feed(web, &channel);
    if (!subscriptions ||
        (channel > FOXGLOVE_N_TOPICS && viewer_protocol(viewer) != HANDSHAKE_VIEW) ||
        !viewer_subscribe(viewer, op->id, op->channel))
        return false;
    subscriptions_add(subscriptions, channel);
    if (subscriptions->kept[channel])
        viewer_send_data(viewer, op->id, (uint64_t)clock_wall_ns(), subscriptions->kept[channel]);
    return true;
}

static void drop_interest(struct web *web, uint32_t channel) // that was subscribed to
{
    struct subscriptions *subscriptions = find_feed(web, &channel);
    subscriptions_drop(subscriptions, channel);
}

static void send_status(struct viewer *viewer, const char *wrong)
{
    char *answer = wrong ? foxglove_status(wrong) : NULL;
    if (answer)
        viewer_send_text(viewer, answer);
    free(answer);
}

static void on_text(struct web *web, struct viewer *viewer, const char *text, size_t n)
{
    struct foxglove_op ops[FOXGLOVE_MAX_OPS];
    int n_ops = foxglove_read(text, n, ops);
    bool all = true;
    for (int i = 0; i < n_ops; i++) {
        uint32_t channel;
        if (ops[i].subscribe)
            all &= subscribe(web, viewer, &ops[i]);
        else if (viewer_unsubscribe(viewer, ops[i].id, &channel))
            drop_interest(web, channel);
    }
    send_status(viewer, n_ops == -EOPNOTSUPP ? "not offered here: subscribe and unsubscribe are"
                        : n_ops < 0 || !all  ? "not understood, or no such channel"
                                             : NULL);
}

// What the page's buttons do; everything else stays with the request socket.
static void on_request(struct web *web, struct viewer *viewer, const uint8_t *bytes, size_t n)
{
    static posed_Request request; // large; the web thread alone comes here
    uint8_t framed[REPLY_MAX_BYTES + WIRE_MAGIC_BYTES];
    bool may = false;
    for (size_t i = 0; i < WEB_MAX_VIEWERS; i++)
        may |= web->slots[i].viewer == viewer && web->slots[i].connection.may_control;
    uint32_t kind;
    const char *wrong = NULL;
    memcpy(framed, WIRE_MAGIC, WIRE_MAGIC_BYTES);
    memcpy(framed + WIRE_MAGIC_BYTES, bytes, n);
    if (!may || !web->settings.control)
        wrong = "requests from the page are off (http.control = true)";
    else if (wire_decode_request(framed, WIRE_MAGIC_BYTES + n, &request, &kind) != 0 ||
             !handlers_is_button(request.which_what))
        wrong = "no request that the page may send";
    else if (requests_ask(web->settings.requests, framed, WIRE_MAGIC_BYTES + n) != 0)
        wrong = "too many requests wait";
    send_status(viewer, wrong);
}

static void on_message(void *user, struct viewer *viewer, bool is_text, const uint8_t *bytes,
                       size_t n)
{
    if (is_text)
        on_text(user, viewer, (const char *)bytes, n);
    else if (n > 1 && n <= REPLY_MAX_BYTES && bytes[0] == REQUEST_BYTE)
        on_request(user, viewer, bytes + 1, n - 1);
    else
        send_status(viewer, "not offered here: such a binary message");
}

static void end_connection(struct web *web, const struct web_connection *connection)
{
    connection->close(connection->user);
    pthread_mutex_lock(&web->mutex);
    web->n_viewers--;
    pthread_mutex_unlock(&web->mutex);
}

static void close_slot(struct web *web, struct slot *slot)
{
    size_t n;
    const struct viewer_subscription *list = viewer_subscriptions(slot->viewer, &n);
    for (size_t i = 0; i < n; i++)
        drop_interest(web, list[i].channel);
    viewer_destroy(&slot->viewer);
    end_connection(web, &slot->connection);
}

static void greet(struct web *web, struct slot *slot)
{
    bool control = web->settings.control && slot->connection.may_control;
    char *info = foxglove_server_info(shared_info(web->subscriptions[0].camera.shared)->session,
                                      control, web->names, web->settings.n_cameras);
    if (info)
        viewer_send_text(slot->viewer, info);
    if (slot->connection.protocol != HANDSHAKE_VIEW && web->advertise) // the page knows them
        viewer_send_text(slot->viewer, web->advertise);
    free(info);
}

static void open_slot(struct web *web, const struct web_connection *connection)
{
    struct slot *slot = web->slots;
    while (slot->viewer)
        slot++; // web_take saw to it that one is free
    bool is_page = connection->protocol == HANDSHAKE_VIEW;
    const struct viewer_settings settings = {
        .fd = connection->fd,
        .protocol = connection->protocol,
        .queue_max_bytes = is_page ? VIEW_QUEUE_BYTES : OTHERS_QUEUE_BYTES,
        .max_bytes_s = is_page ? VIEW_MAX_BYTES_S : 0,
        .early = connection->early,
        .n_early = connection->n_early,
        .received = on_message,
        .user = web,
    };
    fcntl(connection->fd, F_SETFL, fcntl(connection->fd, F_GETFL) | O_NONBLOCK);
    slot->connection = *connection;
    slot->viewer = viewer_create(&settings);
    free((void *)(uintptr_t)connection->early);
    slot->connection.early = NULL;
    if (!slot->viewer) {
        end_connection(web, connection);
        return;
    }
    greet(web, slot);
    if (!viewer_run(slot->viewer, POLLIN))
        close_slot(web, slot);
}

// Returns false when it is time to stop.
static bool take_arrived(struct web *web)
{
    struct web_connection arrived[WEB_MAX_VIEWERS];
    uint64_t count;
    if (read(web->wake_fd, &count, sizeof count) < 0 && errno != EAGAIN)
        return false;
    pthread_mutex_lock(&web->mutex);
    size_t n = web->n_arrived;
    memcpy(arrived, web->arrived, n * sizeof *arrived);
    web->n_arrived = 0;
    bool stopping = web->stopping;
    pthread_mutex_unlock(&web->mutex);
    for (size_t i = 0; i < n; i++)
        open_slot(web, &arrived[i]);
    return !stopping;
}

static void deliver(struct web *web, const struct subscriptions *subscriptions, uint32_t channel,
                    struct payload *payload)
{
    const uint32_t wire_channel = subscriptions->index * FOXGLOVE_N_CHANNELS + channel;
    uint64_t now_ns = (uint64_t)clock_wall_ns();
    for (size_t i = 0; i < WEB_MAX_VIEWERS && subscriptions->n_wanting[channel]; i++) {
        size_t n;
        if (!web->slots[i].viewer)
            continue;
        const struct viewer_subscription *list = viewer_subscriptions(web->slots[i].viewer, &n);
        for (size_t k = 0; k < n; k++)
            if (list[k].channel == wire_channel)
                viewer_send_data(web->slots[i].viewer, list[k].id, now_ns, payload);
    }
}

// Takes the payload over.
static void on_topic(struct web *web, struct subscriptions *subscriptions, uint32_t channel,
                     struct payload *payload)
{
    subscriptions_look_at(subscriptions, channel, payload);
    deliver(web, subscriptions, channel, payload);
    subscriptions_keep(subscriptions, channel, payload);
}

static void send_answer(struct web *web, struct payload *payload)
{
    for (size_t i = 0; i < WEB_MAX_VIEWERS; i++)
        if (web->slots[i].viewer && web->slots[i].connection.may_control)
            viewer_send_bytes(web->slots[i].viewer, payload);
}

// Answers to our own requests, of the maps' surfaces; the others go to every page that may send
// requests: each knows its own ids.
static void on_answer(struct web *web, struct payload *payload)
{
    const uint64_t id = map_preview_reply_id(payload->bytes + 1, payload->n_bytes - 1);
    if (id >= SURFACE_ID && id - SURFACE_ID < web->settings.n_cameras) {
        struct subscriptions *subscriptions = &web->subscriptions[id - SURFACE_ID];
        struct payload *surface =
            subscriptions_surface(subscriptions, payload->bytes + 1, payload->n_bytes - 1);
        if (surface)
            on_topic(web, subscriptions, FOXGLOVE_CHANNEL_SURFACE, surface);
    } else if (payload->n_bytes <= REPLY_MAX_BYTES) {
        send_answer(web, payload);
    }
    payload_release(payload);
}

// The oldest message, or none; the mutex is held.
static struct arrival take_oldest(struct web *web)
{
    if (!web->n_inbox)
        return (struct arrival){0};
    const struct arrival oldest = web->inbox[web->first_inbox];
    web->first_inbox = (web->first_inbox + 1) % INBOX_MESSAGES;
    web->n_inbox--;
    web->n_inbox_bytes -= oldest.payload->n_bytes;
    return oldest;
}

// Any thread: a message for the web thread, which loses the oldest where it does not keep up.
static void put_inbox(struct web *web, struct subscriptions *subscriptions, uint32_t channel,
                      struct payload *payload)
{
    const uint64_t one = 1;
    pthread_mutex_lock(&web->mutex);
    while (web->n_inbox == INBOX_MESSAGES ||
           (web->n_inbox && web->n_inbox_bytes + payload->n_bytes > INBOX_BYTES))
        payload_release(take_oldest(web).payload); // nobody else has it
    web->inbox[(web->first_inbox + web->n_inbox++) % INBOX_MESSAGES] =
        (struct arrival){subscriptions, channel, payload};
    web->n_inbox_bytes += payload->n_bytes;
    bool wake = web->n_inbox == 1;
    pthread_mutex_unlock(&web->mutex);
    if (wake && write(web->wake_fd, &one, sizeof one) < 0)
        return; // the counter is full: it is awake
}

static void on_published(void *user, enum publish_topic topic, const uint8_t *bytes, size_t n)
{
    struct subscriptions *subscriptions = user;
    struct payload *payload = payload_create(n);
    if (!payload)
        return;
    memcpy(payload->bytes, bytes, n);
    put_inbox(subscriptions->web, subscriptions, (uint32_t)topic + 1, payload);
}

static void on_replied(void *user, const uint8_t *framed, size_t n)
{
    struct payload *payload = n > WIRE_MAGIC_BYTES && n <= INBOX_BYTES / 2
                                  ? payload_create(n - WIRE_MAGIC_BYTES + 1)
                                  : NULL;
    if (!payload)
        return;
    payload->bytes[0] = REPLY_BYTE;
    memcpy(payload->bytes + 1, framed + WIRE_MAGIC_BYTES, n - WIRE_MAGIC_BYTES);
    put_inbox(user, NULL, 0, payload);
}

static void empty_inbox(struct web *web)
{
    for (;;) {
        pthread_mutex_lock(&web->mutex);
        const struct arrival next = take_oldest(web);
        pthread_mutex_unlock(&web->mutex);
        if (!next.payload)
            return;
        if (next.subscriptions)
            on_topic(web, next.subscriptions, next.channel, next.payload);
        else
            on_answer(web, next.payload);
    }
}

static void look_at_feeds(struct web *web, int64_t now_ns)
{
    uint8_t request[MAP_PREVIEW_REQUEST_BYTES];
    for (uint32_t i = 0; i < web->settings.n_cameras; i++) {
        struct subscriptions *subscriptions = &web->subscriptions[i];
        struct payload *payload = subscriptions_preview(subscriptions, now_ns);
        if (payload)
            deliver(web, subscriptions, FOXGLOVE_CHANNEL_PREVIEW, payload);
        payload_release(payload);
        size_t n = subscriptions_surface_request(subscriptions, now_ns, SURFACE_ID + i, request);
        if (n && requests_ask(web->settings.requests, request, n) != 0)
            subscriptions->surface_ns = now_ns; // too many wait: soon again
    }
}

static void on_clock(struct web *web, int64_t now_ns)
{
    look_at_feeds(web, now_ns);
    if (now_ns < web->tick_ns)
        return;
    web->tick_ns = now_ns + TICK_NS;
    for (size_t i = 0; i < WEB_MAX_VIEWERS; i++) {
        struct viewer *viewer = web->slots[i].viewer;
        char text[80];
        if (!viewer)
            continue;
        if (viewer_protocol(viewer) == HANDSHAKE_VIEW) {
            snprintf(text, sizeof text, "{\"op\":\"viewer\",\"dropped\":%llu}",
                     (unsigned long long)viewer_dropped(viewer));
            viewer_send_text(viewer, text);
        }
        if (!viewer_tick(viewer, now_ns))
            close_slot(web, &web->slots[i]);
    }
}

static void *run(void *user)
{
    struct web *web = user;
    pthread_setname_np(pthread_self(), "posed-web");
    setpriority(PRIO_PROCESS, (id_t)gettid(), NICE); // before the tracking nothing of this counts
    for (;;) {
        struct pollfd items[1 + WEB_MAX_VIEWERS] = {{.fd = web->wake_fd, .events = POLLIN}};
        struct slot *polled[WEB_MAX_VIEWERS];
        nfds_t n = 0;
        for (size_t i = 0; i < WEB_MAX_VIEWERS; i++) {
            struct viewer *viewer = web->slots[i].viewer;
            if (!viewer)
                continue;
            polled[n] = &web->slots[i];
            items[1 + n++] =
                (struct pollfd){.fd = viewer_fd(viewer), .events = viewer_wants(viewer)};
        }
        poll(items, 1 + n, n ? LOOK_MS : -1);
        if (!take_arrived(web))
            return NULL;
        empty_inbox(web);
        for (nfds_t i = 0; i < n; i++)
            if (polled[i]->viewer && !viewer_run(polled[i]->viewer, items[1 + i].revents))
                close_slot(web, polled[i]);
        on_clock(web, clock_monotonic_ns());
    }
}

static void free_web(struct web *web)
{
    for (size_t i = 0; i < web->settings.n_cameras; i++)
        subscriptions_free(&web->subscriptions[i]);
    for (size_t i = 0; i < web->n_inbox; i++)
        payload_release(web->inbox[(web->first_inbox + i) % INBOX_MESSAGES].payload);
    if (web->wake_fd >= 0)
        close(web->wake_fd);
    free(web->advertise);
    pthread_mutex_destroy(&web->mutex);
    free(web);
}

int web_create(struct web **out, const struct web_settings *settings)
{
    *out = NULL;
    struct web *web = calloc(1, sizeof *web);
    if (!web)
        return -ENOMEM;
    web->settings = *settings;
    for (uint32_t i = 0; i < settings->n_cameras; i++) {
        web->subscriptions[i] =
            (struct subscriptions){.camera = settings->cameras[i], .index = i, .web = web};
        web->names[i] = settings->cameras[i].name;
    }
    pthread_mutex_init(&web->mutex, NULL);
    web->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    web->advertise = foxglove_advertise(web->names, settings->n_cameras);
    if (web->wake_fd < 0 || !web->advertise || pthread_create(&web->thread, NULL, run, web) != 0) {
        log_to(&settings->log, LOG_LEVEL_ERROR, "no memory for viewers of the page");
        free_web(web);
        return -ENOMEM;
    }
    for (uint32_t i = 0; i < settings->n_cameras; i++)
        publish_listen(settings->cameras[i].publish, on_published, &web->subscriptions[i]);
    requests_listen(settings->requests, on_replied, web);
    *out = web;
    return 0;
}

void web_stop(struct web *web)
{
    const uint64_t one = 1;
    for (uint32_t i = 0; i < web->settings.n_cameras; i++) {
        publish_listen_to(web->subscriptions[i].camera.publish, 0);
        publish_listen(web->subscriptions[i].camera.publish, NULL, NULL);
    }
    requests_listen(web->settings.requests, NULL, NULL);
    pthread_mutex_lock(&web->mutex);
    web->stopping = true;
    pthread_mutex_unlock(&web->mutex);
    if (write(web->wake_fd, &one, sizeof one) < 0)
        return; // cannot be: the counter would have to be full
    pthread_join(web->thread, NULL);
    for (size_t i = 0; i < WEB_MAX_VIEWERS; i++)
        if (web->slots[i].viewer)
            close_slot(web, &web->slots[i]);
}

void web_destroy(struct web **web)
{
    if (*web)
        free_web(*web);
    *web = NULL;
}

bool web_take(struct web *web, const struct web_connection *connection)
{
    const uint64_t one = 1;
    pthread_mutex_lock(&web->mutex);
    bool taken = !web->stopping && web->n_viewers < WEB_MAX_VIEWERS;
    if (taken) {
        struct web_connection *to = &web->arrived[web->n_arrived++];
        *to = *connection;
        to->early = connection->n_early ? malloc(connection->n_early) : NULL;
        if (to->early)
            memcpy((void *)(uintptr_t)to->early, connection->early, connection->n_early);
        else
            to->n_early = 0;
        web->n_viewers++;
    }
    pthread_mutex_unlock(&web->mutex);
    return taken && write(web->wake_fd, &one, sizeof one) > 0;
}
