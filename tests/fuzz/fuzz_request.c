// SPDX-License-Identifier: Apache-2.0
// Any bytes as a request, and as a reply: refused or taken; what is taken is answered, and the
// answer is one that a client can read.
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "capture/buffers.h"
#include "daemon/handlers/handlers.h"
#include "proto/wire_misfit.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct shared *create_shared(void)
{
    struct shared *shared;
    const struct shared_info info = {
        .n_history = 300,
        .capture = {.camera = {525, 525, 319.5, 239.5, 640, 480}, .units_per_m = 1000}};
    if (shared_create(&shared, &info) != 0)
        abort();
    for (uint64_t seq = 0; seq < 500; seq++) {
        const struct past_pose pose = {.seq = seq,
                                       .time_ns = (int64_t)seq * 33333333,
                                       .q_xyzw = {0, 0, 0, 1},
                                       .state = posed_State_STATE_TRACKING};
        pose_history_put(shared_history(shared), &pose);
    }
    shared_end_commands(shared); // no frame loop runs here: commands are refused at once
    return shared;
}

static void put_frames(struct frames *frames)
{
    static struct buffers buffers;
    const struct intrinsics camera = {525, 525, 320, 240, 640, 480};
    if (buffers_create(&buffers, 2, 2, 640 * 480 * sizeof(uint16_t)) != 0)
        abort();
    for (uint64_t seq = 497; seq < 499; seq++) {
        uint16_t *depth = buffers_take(&buffers);
        for (size_t i = 0; i < 640 * 480; i++)
            depth[i] = i % 7 ? (uint16_t)(1000 + i % 640) : 0;
        const struct capture_frame frame = {.image = {depth, 640, 480, 1000, 0},
                                            .buffers = &buffers};
        frames_put(frames, seq, &frame, &camera);
    }
}

// A client finds the same bytes in it.
static void check_large(const posed_Reply *reply, struct handlers_payload *pieces)
{
    static posed_Reply back;
    uint8_t *bytes;
    size_t n_bytes;
    if (wire_encode_large_reply(reply, pieces->pieces, pieces->n_pieces, &bytes, &n_bytes) != 0 ||
        wire_decode_reply(bytes, n_bytes, &back) != 0 || back.id != reply->id ||
        back.code != posed_Code_OK || back.which_what != reply->which_what)
        abort();
    for (size_t i = 0; i < pieces->n_pieces; i++) {
        const uint32_t path[] = {reply->which_what, pieces->pieces[i].field};
        const uint8_t *found;
        size_t n;
        wire_find_bytes(bytes + WIRE_MAGIC_BYTES, n_bytes - WIRE_MAGIC_BYTES, path, 2, &found, &n);
        if (n != pieces->pieces[i].n_bytes || memcmp(found, pieces->pieces[i].bytes, n) != 0)
            abort();
    }
    free(bytes);
    free(pieces->memory);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct shared *shared;
    static struct frames *frames;
    static struct config config;
    static struct settings *settings;
    static posed_Reply reply, back;
    static uint8_t bytes[WIRE_REPLY_MAX_BYTES];
    posed_Request request;
    uint32_t kind;
    if (!shared) {
        shared = create_shared();
        config_default(&config);
        if (settings_create(&settings, &config, NULL) != 0 || frames_create(&frames, 2) != 0)
            abort();
        put_frames(frames);
    }
    if (wire_decode_reply(data, size, &reply) == 0) {
        int n = wire_encode_reply(&reply, bytes, sizeof bytes);
        if (n < 0)
            abort();
    }
    struct wire_misfit misfit;
    const int error = wire_decode_request(data, size, &request, &kind);
    const bool is_misfit = wire_find_misfit(data, size, &misfit);
    if (error == 0 && is_misfit)
        abort();
    if (error)
        return 0;
    struct handlers_payload pieces = {.memory = NULL};
    struct register_stop stop = {.deadline_mono_ns = 1}; // long past: nothing takes its time
    struct yield_frames yield_frames = {0};
    struct handlers_common common = {.settings = settings};
    struct handlers handlers = {.camera = "",
                                .shared = shared,
                                .config = &config,
                                .frames = frames,
                                .yield_frames = &yield_frames};
    struct map_turn turn = {0};
    handlers_open(&common, &handlers, 1);
    handlers_accept(&handlers, &request, &turn);
    memset(&reply, 0, sizeof reply);
    reply.id = request.id;
    const struct handlers_call call = {&request,
                                       data + WIRE_MAGIC_BYTES,
                                       size - WIRE_MAGIC_BYTES,
                                       1,
                                       &stop,
                                       turn.turns ? &turn : NULL,
                                       &reply,
                                       &pieces};
    handlers_run(&handlers, &call);
    map_turn_leave(&turn);
    handlers_close(&common);
    if (pieces.n_pieces) {
        check_large(&reply, &pieces);
        return 0;
    }
    free(pieces.memory);
    int n = wire_encode_reply(&reply, bytes, sizeof bytes);
    if (n < 0 || wire_decode_reply(bytes, (size_t)n, &back) != 0 || back.id != request.id)
        abort();
    return 0;
}
