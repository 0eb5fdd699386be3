// SPDX-License-Identifier: Apache-2.0
// Pose files: TUM trajectories and the 4x4 matrices of 7-Scenes. Both readers take paths, so the
// input lies in a memory file, and in a folder on disk.
#include <math.h>
#include <stdlib.h>
#include <sys/mman.h>
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

static char folder[] = "/tmp/posed-fuzz-XXXXXX", file[sizeof folder + 32];

static void remove_folder(void)
{
    unlink(file);
    rmdir(folder);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes)
{
    static int memory = -1;
    static char path[64];
    if (memory < 0) {
        memory = memfd_create("poses", 0);
        if (memory < 0 || !mkdtemp(folder))
            abort();
        snprintf(path, sizeof path, "/proc/self/fd/%d", memory);
        snprintf(file, sizeof file, "%s/frame-000000.pose.txt", folder);
        if (symlink(path, file) || atexit(remove_folder))
            abort();
    }
    if (ftruncate(memory, 0) || pwrite(memory, data, n_bytes, 0) != (ssize_t)n_bytes)
        abort();
    struct trajectory trajectory;
    if (trajectory_read_tum(path, NULL, &trajectory) == 0)
        check_and_free(&trajectory);
    if (trajectory_read_sevenscenes(folder, NULL, &trajectory) == 0)
        check_and_free(&trajectory);
    return 0;
}
