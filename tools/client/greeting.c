// SPDX-License-Identifier: Apache-2.0
#include "tools/client/greeting.h"

#include <ctype.h>
#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "proto/clock.h"
#include "tools/client/address.h"

#define N_GREETING   64
#define N_SIGNATURE  10 // FF, eight bytes, 7F
#define AT_VERSION   10
#define AT_MECHANISM 12
#define PAUSE_NS     INT64_C(50000000)

// What has come of the other side's greeting.
struct heard {
    unsigned char bytes[N_GREETING];
    size_t n;
    bool has_closed;
};

// Reads until so many bytes are there, the peer hangs up or the time is over.
static void hear(int fd, size_t n_wanted, int64_t end_ns, struct heard *heard)
{
    while (heard->n < n_wanted && !heard->has_closed) {
        struct pollfd item = {.fd = fd, .events = POLLIN};
        const int64_t left_ns = end_ns - clock_monotonic_ns();
        if (left_ns <= 0 || poll(&item, 1, (int)(left_ns / 1000000) + 1) < 1)
            break;
        const ssize_t n = recv(fd, heard->bytes + heard->n, N_GREETING - heard->n, MSG_DONTWAIT);
        heard->has_closed = n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR);
        heard->n += n > 0 ? (size_t)n : 0;
    }
}

// libzmq hangs up on another mechanism before it has named its own, so it is given time for that; a
// posed names the one that it is asked for, if it has it.
static void greet(int fd, bool encrypts, int64_t end_ns, struct heard *heard)
{
    unsigned char ours[N_GREETING] = {0xff, [9] = 0x7f, [AT_VERSION] = 3};
    memcpy(ours + AT_MECHANISM, encrypts ? "CURVE" : "NULL", encrypts ? 5 : 4);
    if (send(fd, ours, AT_MECHANISM, MSG_NOSIGNAL) < 0)
        heard->has_closed = true;
    hear(fd, AT_MECHANISM, end_ns, heard);
    const int64_t pause_end_ns = clock_monotonic_ns() + PAUSE_NS;
    hear(fd, N_GREETING, pause_end_ns < end_ns ? pause_end_ns : end_ns, heard);
    if (heard->n < N_GREETING &&
        send(fd, ours + AT_MECHANISM, N_GREETING - AT_MECHANISM, MSG_NOSIGNAL) > 0)
        hear(fd, N_GREETING, end_ns, heard);
}

static bool is_signature(const struct heard *heard)
{
    return heard->n >= N_SIGNATURE && heard->bytes[0] == 0xff && heard->bytes[N_SIGNATURE - 1] & 1;
}

bool greeting_is_zeromq(const char *address, unsigned timeout_ms)
{
    struct heard heard = {0};
    int fd;
    if (address_connect(address, timeout_ms, &fd) != 0)
        return false;
    hear(fd, N_SIGNATURE, clock_monotonic_ns() + (int64_t)timeout_ms * 1000000, &heard);
    close(fd);
    return is_signature(&heard);
}

void greeting_look(const char *address, bool encrypts, unsigned timeout_ms, struct greeting *out)
{
    struct heard heard = {0};
    int fd;
    *out = (struct greeting){.error = address_connect(address, timeout_ms, &fd)};
    if (out->error)
        return;
    greet(fd, encrypts, clock_monotonic_ns() + (int64_t)timeout_ms * 1000000, &heard);
    close(fd);
    const unsigned char *theirs = heard.bytes;
    const size_t n = heard.n;
    out->has_closed = heard.has_closed;
    out->is_zeromq = is_signature(&heard);
    if (out->is_zeromq && n >= AT_MECHANISM + GREETING_MECHANISM_BYTES - 1)
        memcpy(out->mechanism, theirs + AT_MECHANISM, GREETING_MECHANISM_BYTES - 1);
    for (size_t i = 0; !out->is_zeromq && i < n && i < sizeof out->said - 1; i++) {
        if (!isprint(theirs[i]))
            break;
        out->said[i] = (char)theirs[i];
    }
}
