// SPDX-License-Identifier: Apache-2.0
#include "daemon/zmtp/message.h"

#include <assert.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

static struct zmtp_message *create(bool has_first, const void *first, size_t n_first, size_t n_body,
                                   size_t n_own)
{
    assert(n_first + 2 + ZMTP_HEADER_MAX_BYTES <= ZMTP_HEAD_MAX_BYTES);
    struct zmtp_message *message = malloc(sizeof *message + n_own);
    if (!message)
        return NULL;
    atomic_init(&message->n_users, 1);
    message->n_head = 0;
    message->n_body = n_body;
    message->release = NULL;
    if (has_first) {
        const struct zmtp_frame frame = {.more = true, .n_body = n_first};
        message->n_head = zmtp_put_header(&frame, message->head);
        if (n_first)
            memcpy(message->head + message->n_head, first, n_first);
        message->n_head += n_first;
    }
    const struct zmtp_frame last = {.n_body = n_body};
    message->n_head += zmtp_put_header(&last, message->head + message->n_head);
    return message;
}

struct zmtp_message *zmtp_message_create(bool has_first, const void *first, size_t n_first,
                                         size_t n_body, uint8_t **out_body)
{
    struct zmtp_message *message = create(has_first, first, n_first, n_body, n_body);
    if (!message)
        return NULL;
    *out_body = (uint8_t *)(message + 1);
    message->body = *out_body;
    return message;
}

struct zmtp_message *zmtp_message_wrap(bool has_first, const void *first, size_t n_first,
                                       const uint8_t *body, size_t n_body,
                                       void (*release)(void *user), void *user)
{
    struct zmtp_message *message = create(has_first, first, n_first, n_body, 0);
    if (!message)
        return NULL;
    message->body = body;
    message->release = release;
    message->user = user;
    return message;
}

struct zmtp_message *zmtp_message_hold(struct zmtp_message *message)
{
    message->n_users++;
    return message;
}

void zmtp_message_drop(struct zmtp_message *message)
{
    if (!message || --message->n_users > 0)
        return;
    if (message->release)
        message->release(message->user);
    free(message);
}
