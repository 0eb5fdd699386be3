// SPDX-License-Identifier: Apache-2.0
#include "tools/client/lookup.h"

#include <errno.h>
#include <netdb.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "proto/clock.h"

// Freed by whoever of the two lets go of it last.
struct lookup {
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    bool is_done, is_left;
    char *host, *port;
    struct addrinfo hints, *found;
};

static void destroy(struct lookup *lookup)
{
    if (lookup->found)
        freeaddrinfo(lookup->found);
    pthread_cond_destroy(&lookup->changed);
    pthread_mutex_destroy(&lookup->mutex);
    free(lookup->host);
    free(lookup->port);
    free(lookup);
}

static void *run(void *user)
{
    struct lookup *lookup = user;
    struct addrinfo *found = NULL;
    if (getaddrinfo(lookup->host, lookup->port, &lookup->hints, &found) != 0)
        found = NULL;
    pthread_mutex_lock(&lookup->mutex);
    lookup->found = found;
    lookup->is_done = true;
    const bool is_left = lookup->is_left;
    pthread_cond_signal(&lookup->changed);
    pthread_mutex_unlock(&lookup->mutex);
    if (is_left)
        destroy(lookup);
    return NULL;
}

static struct lookup *create(const char *host, const char *port, int family)
{
    struct lookup *lookup = calloc(1, sizeof *lookup);
    pthread_condattr_t attributes;
    if (!lookup)
        return NULL;
    lookup->hints = (struct addrinfo){.ai_socktype = SOCK_STREAM, .ai_family = family};
    lookup->host = strdup(host);
    lookup->port = strdup(port);
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(&lookup->changed, &attributes);
    pthread_condattr_destroy(&attributes);
    pthread_mutex_init(&lookup->mutex, NULL);
    if (lookup->host && lookup->port)
        return lookup;
    destroy(lookup);
    return NULL;
}

int lookup_host(const char *host, const char *port, int family, unsigned timeout_ms,
                struct sockaddr_storage *out, socklen_t *out_n)
{
    pthread_t thread;
    struct lookup *lookup = create(host, port, family);
    if (!lookup)
        return ENOMEM;
    if (pthread_create(&thread, NULL, run, lookup) != 0) {
        destroy(lookup);
        return ENOMEM;
    }
    pthread_detach(thread);
    const struct timespec end = clock_until((int64_t)timeout_ms * 1000000);
    pthread_mutex_lock(&lookup->mutex);
    while (!lookup->is_done && pthread_cond_timedwait(&lookup->changed, &lookup->mutex, &end) == 0)
        ;
    const bool is_done = lookup->is_done;
    lookup->is_left = true;
    pthread_mutex_unlock(&lookup->mutex);
    if (!is_done)
        return ETIMEDOUT;
    const struct addrinfo *found = lookup->found;
    if (found) {
        memcpy(out, found->ai_addr, found->ai_addrlen);
        *out_n = found->ai_addrlen;
    }
    destroy(lookup);
    return found ? 0 : ENOENT;
}
