// SPDX-License-Identifier: Apache-2.0
// A program of a user of libposed, for 271_clients.py: ten poses in order, the newest one, one of
// the past, a topic, a request as bytes, a reset. Prints what it got, one line each.
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "tools/client/posed.h"

static int complain(const struct posed *client, const char *what)
{
    printf("%s: %s\n", what, posed_error(client));
    return 1;
}

int main(int argc, char **argv)
{
    const struct posed_options options = {.where = argc > 1 ? argv[1] : NULL,
                                          .server_key = argc > 2 ? argv[2] : NULL,
                                          .timeout_ms = 20000};
    struct posed *client;
    struct posed_pose pose, past;
    struct posed_message message;
    const void *reply;
    size_t n_reply;
    if (posed_connect(&client, &options) != 0)
        return 1;
    for (int i = 0; i < 10; i++) {
        if (posed_next(client, 20000, &pose) != 0)
            return complain(client, "next");
        const double *p = pose.position_m, *q = pose.orientation_xyzw;
        printf("next %" PRIu64 " %d %.17g %.17g %.17g %.17g %.17g %.17g %.17g\n", pose.seq,
               (int)pose.state, p[0], p[1], p[2], q[0], q[1], q[2], q[3]);
    }
    if (posed_pose_at(client, pose.time_ns, &past) != 0)
        return complain(client, "pose_at");
    printf("past %d %d\n", past.time_ns == pose.time_ns,
           memcmp(past.position_m, pose.position_m, sizeof past.position_m) == 0);
    printf("future %d\n", posed_pose_at(client, pose.time_ns + INT64_C(1000000000000), &past));
    if (posed_newest(client, &past) != 0)
        return complain(client, "newest");
    printf("newest %d\n", past.seq >= pose.seq && past.session == pose.session);
    printf("no topic %d\n", posed_subscribe(client, "nonsense"));
    if (posed_subscribe(client, "status") != 0 || posed_subscribe(client, "depth") != 0)
        return complain(client, "subscribe");
    int seen = 0;
    while (seen != 3) {
        if (posed_receive(client, 20000, &message) != 0)
            return complain(client, "receive");
        seen |= strcmp(message.topic, "depth") == 0 && message.n_bytes > 600000 ? 1 : 0;
        seen |= strcmp(message.topic, "status") == 0 ? 2 : 0;
    }
    // Request { ping: {} } of proto/requests.proto: field 10, a message of no bytes
    if (posed_request(client, "\x52\x00", 2, &reply, &n_reply) != 0)
        return complain(client, "request");
    printf("pong %d\n", n_reply > 0);
    if (posed_reset(client, true) != 0)
        return complain(client, "reset");
    posed_close(&client);
    posed_close(&client);
    printf("done\n");
    return 0;
}
