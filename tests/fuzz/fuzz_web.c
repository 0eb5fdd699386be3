// SPDX-License-Identifier: Apache-2.0
// What a browser says, as text and as words of headers: the handshake's answers are whole, no host
// or origin of elsewhere passes, subscriptions are those of channels, and an image becomes a
// preview of its size. The first byte chooses.
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/web/foxglove.h"
#include "daemon/web/handshake.h"
#include "daemon/web/shrink_images.h"
#include "daemon/web/viewer_connection.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void try_headers(const char *text)
{
    char accept[HANDSHAKE_ACCEPT_BYTES];
    enum handshake_protocol protocol = handshake_choose(text);
    if (handshake_accept(text, accept) && strlen(accept) != HANDSHAKE_ACCEPT_BYTES - 1)
        abort();
    if (protocol < HANDSHAKE_N_PROTOCOLS && !strstr(text, handshake_name(protocol)))
        abort();
    // A host is this machine by name or by number, whatever stands around it.
    if (handshake_host_is_local(text) && !strstr(text, "127.") && !strstr(text, "::1") &&
        !strcasestr(text, "localhost"))
        abort();
    if (handshake_origin_may(text, "") && strstr(text, "://") && !strstr(text, "127.") &&
        !strstr(text, "::1") && !strcasestr(text, "localhost") && strncmp(text, "file://", 7) != 0)
        abort();
    (void)handshake_origin_may("http://example.org", text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct shrink_images preview;
    if (size == 0)
        return 0;
    unsigned what = data[0] % 3;
    char *text = malloc(size);
    if (!text)
        abort();
    memcpy(text, data + 1, size - 1);
    text[size - 1] = 0;
    if (what == 0) {
        try_headers(text);
    } else if (what == 1) {
        struct foxglove_op ops[FOXGLOVE_MAX_OPS];
        if (foxglove_read(text, size - 1, ops) > FOXGLOVE_MAX_OPS)
            abort();
    } else if (shrink_images_take(&preview, data + 1, size - 1)) {
        struct payload *payload = shrink_images_make(&preview);
        if (!payload || preview.width_px > SHRINK_IMAGES_MAX_WIDTH_PX ||
            (size_t)preview.width_px * preview.height_px > SHRINK_IMAGES_MAX_PX)
            abort();
        payload_release(payload);
    }
    free(text);
    return 0;
}
