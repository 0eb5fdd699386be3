// SPDX-License-Identifier: Apache-2.0
// A ROS 2 recording in SQLite, and every image in it. SQLite opens what a link points to, so the
// file has a name, as long as the target runs.
#include <fcntl.h>

#include "tests/fuzz/fuzz_driver.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes);

static char place[] = "/tmp/posed-fuzz-XXXXXX";

static void remove_file(void)
{
    unlink(place);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes)
{
    static int fd = -1;
    if (fd < 0 && ((fd = mkstemp(place)) < 0 || atexit(remove_file) != 0))
        abort();
    if (ftruncate(fd, 0) || pwrite(fd, data, n_bytes, 0) != (ssize_t)n_bytes)
        abort();
    fuzz_driver_at(&capture_driver_ros2db3, place);
    return 0;
}
