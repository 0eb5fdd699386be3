// SPDX-License-Identifier: Apache-2.0
// Pose files: TUM trajectories and the 4x4 matrices of 7-Scenes. Both readers take paths, so the
// input lies in a file, which a reader follows no link to.
#include <fcntl.h>
#include <math.h>
#include <stdlib.h>
#include <unistd.h>

#include "proto/trajectory.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes);

static void check_and_free(struct trajectory *trajectory)
{
    for (size_t i = 0; i < trajectory->n_poses; i++) {
        const struct se3 *T = &trajectory->poses[i].T_world_camera;
        for (int k = 0; k < 9; k++)
            if (!isfinite(T->r[k]))
                abort();
        if (!isfinite(T->t_m[0]) || !isfinite(T->t_m[1]) || !isfinite(T->t_m[2]))
            abort();
    }
    trajectory_free(trajectory);
}

static char folder[64], path[sizeof folder + 32];

static void remove_folder(void)
{
    unlink(path);
    rmdir(folder);
}

static int make_file(void)
{
    const char *memory = access("/dev/shm", W_OK) ? "/tmp" : "/dev/shm";
    snprintf(folder, sizeof folder, "%s/posed-fuzz-XXXXXX", memory);
    if (!mkdtemp(folder))
        abort();
    snprintf(path, sizeof path, "%s/frame-000000.pose.txt", folder);
    int fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0 || atexit(remove_folder))
        abort();
    return fd;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes)
{
    static int fd = -1;
    if (fd < 0)
        fd = make_file();
    if (ftruncate(fd, 0) || pwrite(fd, data, n_bytes, 0) != (ssize_t)n_bytes)
        abort();
    struct trajectory trajectory;
    if (trajectory_read_tum(path, NULL, &trajectory) == 0)
        check_and_free(&trajectory);
    if (trajectory_read_sevenscenes(folder, NULL, &trajectory) == 0)
        check_and_free(&trajectory);
    return 0;
}
