// SPDX-License-Identifier: Apache-2.0
#include "tests/fake_wall.h"

#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static struct fake_wall inside; // without FAKE_WALL
struct fake_wall *fake_wall = &inside;

__attribute__((constructor)) static void find_file(void)
{
    const char *path = getenv("FAKE_WALL");
    int fd = path ? (int)syscall(SYS_openat, AT_FDCWD, path, O_RDWR | O_CLOEXEC) : -1;
    if (fd < 0)
        return;
    void *memory = mmap(NULL, sizeof inside, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (memory != MAP_FAILED)
        fake_wall = memory;
    syscall(SYS_close, fd);
}

int clock_gettime(clockid_t id, struct timespec *out)
{
    const int rc = (int)syscall(SYS_clock_gettime, id, out);
    if (rc != 0 || id != CLOCK_REALTIME)
        return rc;
    const int64_t ns = out->tv_nsec + INT64_C(1000000) * fake_wall->set_ms;
    const int64_t below = ns % 1000000000 < 0;
    out->tv_sec += fake_wall->set_s + ns / 1000000000 - below;
    out->tv_nsec = ns % 1000000000 + below * 1000000000;
    return rc;
}
