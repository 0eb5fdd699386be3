// SPDX-License-Identifier: Apache-2.0
#include "capture/mcap/image_kinds.h"

#include <errno.h>

#include "capture/mcap/format.h"

// What stands at `offset` of an unpacked chunk, if it is a message of the channel.
static void look(struct mcap_channels *channels, uint16_t id, const unsigned char *chunk, size_t n,
                 uint64_t offset)
{
    if (offset >= n || n - offset < MCAP_RECORD_BYTES + MCAP_MESSAGE_HEADER_BYTES)
        return;
    const unsigned char *const record = chunk + offset, *const data = record + MCAP_RECORD_BYTES;
    const uint64_t n_data = mcap_get(record + 1, 8);
    if (record[0] == MCAP_MESSAGE && n_data >= MCAP_MESSAGE_HEADER_BYTES &&
        n_data <= n - offset - MCAP_RECORD_BYTES && mcap_get(data, 2) == id)
        mcap_channels_look(channels, id, data + MCAP_MESSAGE_HEADER_BYTES,
                           (size_t)n_data - MCAP_MESSAGE_HEADER_BYTES);
}

int mcap_look_at_images(struct mcap_reader *reader, const struct mcap_chunk *chunks,
                        struct mcap_channels *channels)
{
    for (size_t i = 0; i < channels->n_images; i++) {
        const struct mcap_image_channel *const image = &channels->images[i];
        const unsigned char *chunk;
        size_t n;
        if (image->kind != MCAP_IMAGE_UNKNOWN || !image->has_place)
            continue;
        const int err = mcap_reader_unpack(reader, &chunks[image->chunk], image->chunk, &chunk, &n);
        if (err && err != -EBADMSG && err != -ENOTSUP)
            return err;
        if (!err)
            look(channels, image->id, chunk, n, image->offset);
    }
    return 0;
}
