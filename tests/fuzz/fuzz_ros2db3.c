// SPDX-License-Identifier: Apache-2.0
// A ROS 2 recording in SQLite, and every image in it.
#include "tests/fuzz/fuzz_driver.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes)
{
    fuzz_driver(&capture_driver_ros2db3, data, n_bytes);
    return 0;
}
