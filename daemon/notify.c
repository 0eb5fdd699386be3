// SPDX-License-Identifier: Apache-2.0
#include "daemon/notify.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

void notify_send(const char *state)
{
    const char *path = getenv("NOTIFY_SOCKET");
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    size_t n_path = path ? strlen(path) : 0;
    if (n_path == 0 || n_path >= sizeof address.sun_path || (path[0] != '/' && path[0] != '@'))
        return;
    memcpy(address.sun_path, path, n_path);
    if (path[0] == '@')
        address.sun_path[0] = 0; // abstract namespace
    int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return;
    socklen_t size = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + n_path);
    ssize_t sent = sendto(fd, state, strlen(state), MSG_NOSIGNAL, (void *)&address, size);
    (void)sent; // a service manager that is gone is no reason to stop
    close(fd);
}

int64_t notify_watchdog_ns(void)
{
    const char *text = getenv("WATCHDOG_USEC"), *pid = getenv("WATCHDOG_PID");
    if (!text || (pid && strtol(pid, NULL, 10) != (long)getpid()))
        return 0;
    long long usec = strtoll(text, NULL, 10);
    return usec > 0 && usec < INT64_MAX / 1000 ? usec * 1000 / 2 : 0;
}
