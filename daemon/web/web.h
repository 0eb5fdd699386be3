// SPDX-License-Identifier: Apache-2.0
// Viewers in a browser: our page, Foxglove, Lichtblick. A thread of its own, of lower priority than
// the tracking, that gets from the publisher's thread what its viewers want: nothing is made while
// nobody looks, and the frame loop never waits for it.
#ifndef POSED_DAEMON_WEB_WEB_H
#define POSED_DAEMON_WEB_WEB_H

#include "daemon/publish.h"
#include "daemon/request_socket.h"
#include "daemon/shared_state.h"
#include "daemon/web/handshake.h"

#define WEB_MAX_VIEWERS 32

struct web; // opaque

struct web_camera {
    const char *name; // "" = the only one, without a name
    struct shared *shared;
    struct publish_channel *publish;
};

struct web_settings {
    const struct web_camera *cameras; // copied; what they point to outlives the web
    uint32_t n_cameras;
    struct requests *requests; // of the page's buttons, and of what it shows of the map
    bool control;              // viewers of this machine's page may send requests
    struct log_sink log;
};

// Starts the thread. Returns 0 or negative errno with the reason in the log.
__attribute__((warn_unused_result)) int web_create(struct web **out,
                                                   const struct web_settings *settings);

// Ends the thread and closes all viewers; web_take takes none any more. Then, when nobody calls it
// any more, the memory.
void web_stop(struct web *web);
void web_destroy(struct web **web);

// A connection whose handshake is done; the web owns it from here on and calls close(user) when it
// is over. Any thread. False: there are WEB_MAX_VIEWERS; the caller closes it.
struct web_connection {
    int fd;
    enum handshake_protocol protocol;
    bool may_control;  // it comes from this machine's own page
    const void *early; // bytes behind the handshake
    size_t n_early;
    void (*close)(void *user);
    void *user;
};
bool web_take(struct web *web, const struct web_connection *connection);

// The page, not ended by a zero.
const char *web_page(size_t *out_n_bytes);

#endif
