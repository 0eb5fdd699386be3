// SPDX-License-Identifier: Apache-2.0
// Any bytes as what a browser sends: to the HTTP server as it runs in the daemon, WebSockets and
// requests of the page included. It answers or hangs up; after each input it still answers a probe.
#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "daemon/http.h"

#define MAX_BYTES 32768

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static uint16_t port;

static int connect_to(int patience_ms)
{
    const struct sockaddr_in address = {
        .sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    const struct timeval patience = {patience_ms / 1000, patience_ms % 1000 * 1000};
    const struct linger reset = {1, 0}; // no port waits for a connection that has gone
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), n = 0;
    while (connect(fd, (const struct sockaddr *)&address, sizeof address) != 0) {
        // The machine may have no port left for the moment: that says nothing of the server.
        if (errno != EADDRNOTAVAIL || n++ == 600) {
            fprintf(stderr, "no connection to the server: %s\n", strerror(errno));
            abort();
        }
        usleep(100000);
    }
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    setsockopt(fd, SOL_SOCKET, SO_LINGER, &reset, sizeof reset);
    return fd;
}

static void probe(void)
{
    static const char request[] = "GET /healthz HTTP/1.0\r\n\r\n";
    char answer[64] = "";
    ssize_t n;
    int fd = connect_to(30000);
    if (send(fd, request, sizeof request - 1, MSG_NOSIGNAL) != (ssize_t)sizeof request - 1)
        abort();
    do // libFuzzer's alarm interrupts what waits with a time limit
        n = recv(fd, answer, sizeof answer - 1, MSG_WAITALL);
    while (n < 0 && errno == EINTR);
    if (n <= 0 || strncmp(answer, "HTTP/1.", 7) != 0) {
        fprintf(stderr, "the probe was answered with \"%s\": %s\n", answer, strerror(errno));
        abort();
    }
    close(fd);
}

static void set(struct config *config, const char *key, const char *value)
{
    char reason[300];
    if (config_set(config, key, value, "fuzz", reason, sizeof reason) != 0)
        abort();
}

// The parts of the daemon that the server shows. They live as long as the process.
static void start(void)
{
    static struct config config;
    static struct settings *settings;
    static struct yield_frames yield_frames;
    static struct endpoint *endpoint;
    static struct publish *publish;
    static struct requests *requests;
    static struct shared *shared;
    static struct http *http;
    const struct publish_settings topics = {.cameras = {""}, .n_cameras = 1};
    const struct log_sink silent = {0};
    char folder[] = "/tmp/posed-fuzz-http-XXXXXX";
    const struct shared_info info = {.n_history = 10,
                                     .capture = {.camera = {525, 525, 319.5, 239.5, 640, 480}}};
    config_default(&config);
    if (!mkdtemp(folder))
        abort();
    set(&config, "endpoints.run_dir", folder);
    set(&config, "endpoints.pub", "ipc");
    set(&config, "endpoints.latest", "ipc");
    set(&config, "endpoints.img", "ipc");
    set(&config, "endpoints.req", "ipc");
    if (shared_create(&shared, &info) != 0 || settings_create(&settings, &config, NULL) != 0 ||
        endpoint_open(&endpoint, &config, &silent) != 0 ||
        publish_create(&publish, endpoint, &config, &topics, &silent) != 0)
        abort();
    shared_end_commands(shared); // no frame loop runs here: commands are refused at once
    const struct handlers handlers = {
        .camera = "", .shared = shared, .config = &config, .yield_frames = &yield_frames};
    if (requests_create(&requests, endpoint, &handlers, 1, settings) != 0)
        abort();
    struct http_settings wanted = {.control = true,
                                   .origins = "http://example.org",
                                   .cameras = {{"", shared, publish_channel(publish, 0)}},
                                   .n_cameras = 1,
                                   .requests = requests};
    for (port = (uint16_t)(20000 + getpid() % 20000);; port++) {
        wanted.port = port;
        int error = http_create(&http, &wanted);
        if (error == 0)
            return;
        if (error != -EADDRINUSE)
            abort();
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char answer[4096];
    if (!port)
        start();
    if (size > MAX_BYTES)
        return 0;
    int fd = connect_to(3); // a viewer may stay for long
    if (size && send(fd, data, size, MSG_NOSIGNAL) < 0 && errno != EPIPE && errno != ECONNRESET)
        abort();
    shutdown(fd, SHUT_WR);
    while (recv(fd, answer, sizeof answer, 0) > 0)
        ;
    close(fd);
    probe();
    return 0;
}
