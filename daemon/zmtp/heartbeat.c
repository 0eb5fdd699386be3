// SPDX-License-Identifier: Apache-2.0
#include "daemon/zmtp/heartbeat.h"

#define ASK_NS     INT64_C(5000000000)
#define SILENCE_NS INT64_C(15000000000)

void heartbeat_heard(struct heartbeat *heartbeat, int64_t now_ns)
{
    heartbeat->heard_ns = now_ns;
    heartbeat->asked_ns = 0;
}

enum heartbeat_due heartbeat_due(struct heartbeat *heartbeat, int64_t now_ns)
{
    const int64_t silent_ns = now_ns - heartbeat->heard_ns;
    if (silent_ns > SILENCE_NS && heartbeat->asked_ns)
        return HEARTBEAT_GIVE_UP;
    if (silent_ns <= ASK_NS || heartbeat->asked_ns)
        return HEARTBEAT_NOTHING;
    heartbeat->asked_ns = now_ns;
    return HEARTBEAT_ASK;
}
