// SPDX-License-Identifier: Apache-2.0
#include "daemon/client.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

struct client {
    struct client *next, **link;
    unsigned n_users;
    _Atomic size_t unread_bytes;
    size_t n_identity;
    uint8_t identity[];
};

// The mutex is for who comes and goes. Bytes are counted without: the thread that sends all
// messages counts, and must not wait for one of the lowest priority.
static struct {
    pthread_mutex_t mutex;
    struct client *first;
    _Atomic size_t unread_bytes; // of all
} clients = {.mutex = PTHREAD_MUTEX_INITIALIZER};

static struct client *find(const void *identity, size_t n)
{
    for (struct client *client = clients.first; client; client = client->next)
        if (client->n_identity == n && memcmp(client->identity, identity, n) == 0)
            return client;
    return NULL;
}

static struct client *add(const void *identity, size_t n)
{
    struct client *client = calloc(1, sizeof *client + n);
    if (!client)
        return NULL;
    memcpy(client->identity, identity, n);
    client->n_identity = n;
    client->next = clients.first;
    client->link = &clients.first;
    if (client->next)
        client->next->link = &client->next;
    clients.first = client;
    return client;
}

struct client *client_enter(const void *identity, size_t n_identity_bytes)
{
    pthread_mutex_lock(&clients.mutex);
    struct client *client = find(identity, n_identity_bytes);
    if (!client)
        client = add(identity, n_identity_bytes);
    if (client)
        client->n_users++;
    pthread_mutex_unlock(&clients.mutex);
    return client;
}

void client_leave(struct client *client)
{
    pthread_mutex_lock(&clients.mutex);
    bool is_last = --client->n_users == 0;
    if (is_last) {
        *client->link = client->next;
        if (client->next)
            client->next->link = client->link;
    }
    pthread_mutex_unlock(&clients.mutex);
    if (is_last)
        free(client);
}

bool client_may_be_sent(const struct client *client)
{
    // The last answer may have gone beyond the limit.
    return clients.unread_bytes + client->unread_bytes < CLIENT_MAX_UNREAD_BYTES;
}

void client_add_unread(struct client *client, size_t n_bytes)
{
    client->unread_bytes += n_bytes;
    clients.unread_bytes += n_bytes;
}

void client_remove_unread(struct client *client, size_t n_bytes)
{
    client->unread_bytes -= n_bytes;
    clients.unread_bytes -= n_bytes;
}
