// SPDX-License-Identifier: Apache-2.0
#include "daemon/ipc_socket.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

int ipc_socket_bind(struct ipc_socket *out, const char *path, const gid_t *group)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    if (strlen(path) >= sizeof address.sun_path)
        return -ENAMETOOLONG;
    strcpy(address.sun_path, path);
    snprintf(out->path, sizeof out->path, "%s", path);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return -errno;
    unlink(path);
    if (bind(fd, (void *)&address, sizeof address) != 0 || chmod(path, 0660) != 0 ||
        (group && chown(path, (uid_t)-1, *group) != 0) || lstat(path, &out->bound) != 0) {
        int error = -errno;
        close(fd);
        return error;
    }
    return fd;
}

void ipc_socket_remove(const struct ipc_socket *own)
{
    struct stat info;
    if (lstat(own->path, &info) == 0 && info.st_dev == own->bound.st_dev &&
        info.st_ino == own->bound.st_ino)
        unlink(own->path);
}
