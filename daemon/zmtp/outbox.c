// SPDX-License-Identifier: Apache-2.0
#include "daemon/zmtp/outbox.h"

#include <assert.h>
#include <stdlib.h>

#define CIPHER_KEPT 65536

static bool grow_queue(struct outbox *outbox)
{
    uint32_t capacity = outbox->capacity ? 2 * outbox->capacity : 8;
    struct zmtp_message **queue = calloc(capacity, sizeof *queue);
    if (!queue)
        return false;
    for (uint32_t i = 0; i < outbox->n_queue; i++)
        queue[i] = outbox->queue[(outbox->first + i) % outbox->capacity];
    free(outbox->queue);
    outbox->queue = queue;
    outbox->first = 0;
    outbox->capacity = capacity;
    return true;
}

bool outbox_has_room(const struct outbox *outbox, uint32_t hwm)
{
    return outbox->n_queue < hwm;
}

bool outbox_put(struct outbox *outbox, struct zmtp_message *message)
{
    if (outbox->n_queue == outbox->capacity && !grow_queue(outbox))
        return false;
    outbox->queue[(outbox->first + outbox->n_queue++) % outbox->capacity] =
        zmtp_message_hold(message);
    return true;
}

bool outbox_is_inside(const struct outbox *outbox)
{
    return outbox->n_sent > 0 || outbox->n_cipher > 0;
}

// Encrypts the first message. Returns whether there was memory.
static bool seal_first(struct outbox *outbox, struct curve *curve)
{
    const struct zmtp_message *message = outbox->queue[outbox->first];
    size_t n_most =
        message->n_head + message->n_body + 3 * (CURVE_OVERHEAD_BYTES + ZMTP_HEADER_MAX_BYTES);
    if (n_most > outbox->cipher_capacity) {
        uint8_t *cipher = realloc(outbox->cipher, n_most);
        if (!cipher)
            return false;
        outbox->cipher = cipher;
        outbox->cipher_capacity = n_most;
    }
    outbox->n_cipher = 0;
    for (size_t at = 0; at < message->n_head;) {
        struct zmtp_frame frame;
        int n = zmtp_read_header(message->head + at, message->n_head - at, &frame);
        assert(n > 0);
        at += (size_t)n;
        const uint8_t *body = frame.more ? message->head + at : message->body;
        outbox->n_cipher += curve_seal(curve, &frame, body, outbox->cipher + outbox->n_cipher);
        at += frame.more ? (size_t)frame.n_body : 0;
    }
    return true;
}

static void drop_first(struct outbox *outbox)
{
    zmtp_message_drop(outbox->queue[outbox->first]);
    outbox->first = (outbox->first + 1) % outbox->capacity;
    outbox->n_queue--;
    outbox->n_sent = outbox->n_cipher = 0;
    if (outbox->cipher_capacity > CIPHER_KEPT) {
        free(outbox->cipher);
        outbox->cipher = NULL;
        outbox->cipher_capacity = 0;
    }
}

static size_t add_piece(struct iovec *pieces, size_t n, const uint8_t *bytes, size_t n_bytes,
                        size_t skip)
{
    if (skip >= n_bytes)
        return n;
    pieces[n] = (struct iovec){(void *)(uintptr_t)(bytes + skip), n_bytes - skip};
    return n + 1;
}

size_t outbox_gather(struct outbox *outbox, struct curve *curve,
                     struct iovec out_pieces[OUTBOX_PIECES])
{
    if (outbox->n_queue == 0)
        return 0;
    if (curve) {
        if (outbox->n_cipher == 0 && !seal_first(outbox, curve))
            return 0;
        return add_piece(out_pieces, 0, outbox->cipher, outbox->n_cipher, outbox->n_sent);
    }
    size_t n = 0, skip = outbox->n_sent;
    for (uint32_t i = 0; i < outbox->n_queue && n + 2 <= OUTBOX_PIECES; i++) {
        const struct zmtp_message *m = outbox->queue[(outbox->first + i) % outbox->capacity];
        n = add_piece(out_pieces, n, m->head, m->n_head, skip);
        n = add_piece(out_pieces, n, m->body, m->n_body, skip > m->n_head ? skip - m->n_head : 0);
        skip = 0;
    }
    return n;
}

void outbox_sent(struct outbox *outbox, size_t n_bytes)
{
    outbox->n_sent += n_bytes;
    while (outbox->n_queue) {
        const struct zmtp_message *first = outbox->queue[outbox->first];
        size_t n_all = outbox->n_cipher ? outbox->n_cipher : first->n_head + first->n_body;
        if (outbox->n_sent < n_all)
            return;
        size_t n_more = outbox->n_sent - n_all;
        drop_first(outbox);
        outbox->n_sent = n_more;
    }
}

void outbox_end(struct outbox *outbox)
{
    for (; outbox->n_queue; outbox->n_queue--)
        zmtp_message_drop(outbox->queue[outbox->first++ % outbox->capacity]);
    free(outbox->queue);
    free(outbox->cipher);
    *outbox = (struct outbox){0};
}
