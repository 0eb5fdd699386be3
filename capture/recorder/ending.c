// SPDX-License-Identifier: Apache-2.0
#include "capture/recorder/ending.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

bool ending_is_removal(int error)
{
    return error == -ESTALE || error == -ENOENT; // of a file, of its folder
}

// "" where the reason says it all.
static const char *what_to_do(int error)
{
    switch (-error) {
    case ENOSPC:
    case EDQUOT:
        return "; free space, or set recorder.keep_bytes";
    case EFBIG:
        return "; recorder.max_bytes ends one in time";
    case EIO:
        return "; the kernel's log tells of the disk";
    }
    return "";
}

void ending_describe(const struct ending *ending, char out[ENDING_BYTES])
{
    const int error = ending->error;
    char kept[160] = "";
    if (error && (ending->n_frames == 0 || ending_is_removal(error)))
        snprintf(kept, sizeof kept, "; nothing of it is kept");
    else if (error)
        snprintf(kept, sizeof kept, "; kept as %.80s%s", ending->file,
                 ending->is_torn && !ending->is_folder
                     ? " (for other programs: posectl record repair)"
                     : "");
    snprintf(out, ENDING_BYTES, "%s after %llu frames, %.1f MB, %llu frames dropped%s%s",
             ending_is_removal(error) ? "its files were removed while it was recorded,"
             : error                  ? strerror(-error)
                                      : ending->reason,
             (unsigned long long)ending->n_frames, (double)ending->n_bytes * 1e-6,
             (unsigned long long)ending->n_dropped, kept, what_to_do(error));
}
