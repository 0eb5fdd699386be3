// SPDX-License-Identifier: Apache-2.0
#include "tools/posectl/connection.h"

#include <stdio.h>
#include <string.h>

#include <zmq.h>

#include "proto/clock.h"

#define NOBODY_NS  INT64_C(3000000000)
#define MAX_CUTS   2 // one may be a daemon that ends
#define EVENT_SIZE 6 // event, 16 bits, and its value

bool connection_begin(struct connection *connection, void *context, void *socket)
{
    const int linger_ms = 0;
    char name[64];
    *connection = (struct connection){.socket = socket, .since_ns = clock_monotonic_ns()};
    snprintf(name, sizeof name, "inproc://monitor-%p", socket);
    void *monitor = zmq_socket(context, ZMQ_PAIR);
    if (!monitor)
        return false;
    zmq_setsockopt(monitor, ZMQ_LINGER, &linger_ms, sizeof linger_ms);
    connection->monitor = monitor;
    return zmq_socket_monitor(socket, name, ZMQ_EVENT_ALL) == 0 && zmq_connect(monitor, name) == 0;
}

void connection_end(struct connection *connection)
{
    if (!connection->monitor)
        return;
    zmq_socket_monitor(connection->socket, NULL, 0);
    zmq_close(connection->monitor);
    connection->monitor = NULL;
}

static void take_event(struct connection *connection, unsigned event)
{
    enum connection_state *state = &connection->state;
    switch (event) {
    case ZMQ_EVENT_CLOSED:
        connection->n_failures++;
        *state = CONNECTION_NONE;
        break;
    case ZMQ_EVENT_CONNECTED:
        *state = CONNECTION_TAKEN;
        break;
    case ZMQ_EVENT_HANDSHAKE_SUCCEEDED:
        *state = CONNECTION_READY;
        break;
    case ZMQ_EVENT_HANDSHAKE_FAILED_NO_DETAIL:
        connection->n_cuts++;
        *state = CONNECTION_CUT;
        break;
    case ZMQ_EVENT_HANDSHAKE_FAILED_PROTOCOL:
        *state = CONNECTION_FOREIGN;
        break;
    case ZMQ_EVENT_HANDSHAKE_FAILED_AUTH:
        *state = CONNECTION_REFUSED;
        break;
    case ZMQ_EVENT_DISCONNECTED: // after a handshake that failed, too
        if (*state == CONNECTION_READY)
            *state = CONNECTION_LOST;
        else if (*state == CONNECTION_TAKEN)
            *state = CONNECTION_FOREIGN;
        break;
    }
}

bool connection_wait(struct connection *connection, int64_t timeout_ms)
{
    zmq_pollitem_t items[2] = {{.socket = connection->socket, .events = ZMQ_POLLIN},
                               {.socket = connection->monitor, .events = ZMQ_POLLIN}};
    zmq_poll(items, 2, (long)timeout_ms);
    uint8_t bytes[EVENT_SIZE];
    char address[512];
    while (zmq_recv(connection->monitor, bytes, sizeof bytes, ZMQ_DONTWAIT) >= EVENT_SIZE &&
           zmq_recv(connection->monitor, address, sizeof address, ZMQ_DONTWAIT) >= 0) {
        uint16_t event;
        memcpy(&event, bytes, sizeof event);
        take_event(connection, event);
    }
    return items[0].revents & ZMQ_POLLIN;
}

bool connection_is_over(const struct connection *connection)
{
    switch (connection->state) {
    case CONNECTION_NONE:
        return connection->n_failures > 0 &&
               clock_monotonic_ns() - connection->since_ns >= NOBODY_NS;
    case CONNECTION_CUT:
        return connection->n_cuts >= MAX_CUTS;
    default:
        return connection->state != CONNECTION_TAKEN && connection->state != CONNECTION_READY;
    }
}
