// SPDX-License-Identifier: Apache-2.0
#include "capture/recorder/writer.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "capture/io/folder.h"
#include "capture/recording/sidecar.h"
#include "proto/se3.h"

bool writer_has_rig(const struct writer_camera *cameras, uint32_t n_cameras)
{
    const struct se3 identity = se3_identity();
    if (!cameras[0].T_rig_camera ||
        memcmp(cameras[0].T_rig_camera, &identity, sizeof identity) != 0)
        return false;
    for (uint32_t i = 1; i < n_cameras; i++)
        if (cameras[i].T_rig_camera)
            return true;
    return false;
}

int writer_check(int fd)
{
    struct stat info;
    return fstat(fd, &info) == 0 && info.st_nlink == 0 ? -ESTALE : 0;
}

int writer_append(int fd, const void *data, size_t n_bytes)
{
    off_t end = lseek(fd, 0, SEEK_END);
    if (end < 0)
        return -errno;
    int err = file_write(fd, data, n_bytes);
    if (err && ftruncate(fd, end))
        return err; // the reader leaves out an incomplete end
    return err ? err : writer_check(fd);
}

int writer_make_file(int folder, const char *name, const void *data, size_t n_bytes)
{
    int fd = openat(folder, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
    if (fd < 0)
        return -errno;
    int err = file_write(fd, data, n_bytes);
    if (close(fd) && !err)
        err = -errno;
    if (err)
        unlinkat(folder, name, 0);
    return err;
}

size_t writer_stamp_bytes(const char *text)
{
    static const char digits[] = "0123456789";
    const size_t n = strspn(text, digits);
    return n && text[n] == '.' && strspn(text + n + 1, digits) == 9 ? n + 10 : 0;
}

int writer_make_calibration(int folder, const char *name, const struct capture_info *info)
{
    char text[512];
    int n = sidecar_print(&info->camera, info->units_per_m, text, sizeof text);
    return n < 0 ? n : writer_make_file(folder, name, text, (size_t)n);
}
