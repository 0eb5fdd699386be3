// SPDX-License-Identifier: Apache-2.0
// A saved map: damage behind checksums that hold. The input is a list of changes to a good file: 8
// bytes each, 4 for the place, 4 that are written there; a place behind the end cuts the file off.
// What is accepted is written again, and is the same file.
#include <sys/mman.h>

#include "daemon/map_saved.c" // its checksums

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes);

#define CHANGE_BYTES 8u
#define MAX_CHANGES  32u
#define N_GOOD       2
#define N_FILE               \
    (sizeof(struct header) + \
     N_GOOD * (sizeof(struct relocalise_keyframe) + sizeof(struct model_block)))

static const struct map_saved_place place = {.camera = {525, 525, 319.5, 239.5, 640, 480},
                                             .model = {.voxel_m = 0.008f, .memory_bytes = 1 << 20}};
static unsigned char good[N_FILE], changed[N_FILE + sizeof(uint32_t)], again[N_FILE];
static char again_path[64];
static int fd = -1;

static void build(void)
{
    static struct model_block blocks[N_GOOD] = {{.x = 1}, {.x = 2}};
    static struct relocalise_keyframe keyframes[N_GOOD];
    const struct map_contents contents = {.epoch = 3,
                                          .blocks = blocks,
                                          .n_blocks = N_GOOD,
                                          .keyframes = keyframes,
                                          .n_keyframes = N_GOOD};
    for (int i = 0; i < N_GOOD; i++)
        keyframes[i].T_map_camera = (struct se3){{1, 0, 0, 0, 1, 0, 0, 0, 1}, {i, 0, 0}};
    const struct header header = make_header(&place, &contents);
    memcpy(good, &header, sizeof header);
    memcpy(good + sizeof header, keyframes, sizeof keyframes);
    memcpy(good + sizeof header + sizeof keyframes, blocks, sizeof blocks);
    snprintf(again_path, sizeof again_path, "/tmp/posed-fuzz-map-%d", (int)getpid());
    fd = memfd_create("map", MFD_CLOEXEC);
    if (fd < 0)
        abort();
}

// The header tells the checksums of what there is now.
static void make_it_hold(size_t n)
{
    struct header header;
    if (n < sizeof header)
        return;
    memcpy(&header, changed, sizeof header);
    const uint64_t n_keyframes = keyframes_bytes(header.n_keyframes);
    const uint64_t n_blocks = blocks_bytes(header.n_blocks);
    if (n_keyframes <= n - sizeof header && n_blocks <= n - sizeof header - n_keyframes) {
        header.n_bytes = n;
        header.keyframes_crc = unzip_crc32(changed + sizeof header, (size_t)n_keyframes);
        header.blocks_crc = unzip_crc32(changed + sizeof header + n_keyframes, (size_t)n_blocks);
    }
    header.header_crc = header_crc(&header);
    memcpy(changed, &header, sizeof header);
}

// Zeros of the header are not looked at; all else comes back as it was.
static void write_again(const struct map_contents *contents, size_t n)
{
    uint64_t n_bytes;
    unlink(again_path);
    if (map_saved_write(again_path, &place, contents, &n_bytes) || n_bytes != n)
        abort();
    FILE *file = fopen(again_path, "rb");
    if (!file || fread(again, n, 1, file) != 1)
        abort();
    fclose(file);
    unlink(again_path);
    if (memcmp(again + sizeof(struct header), changed + sizeof(struct header),
               n - sizeof(struct header)) != 0)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes)
{
    char path[64], why[MAP_SAVED_ERROR_BYTES];
    struct map_contents contents;
    if (fd < 0)
        build();
    size_t n = N_FILE;
    memcpy(changed, good, N_FILE);
    for (size_t i = 0; i + CHANGE_BYTES <= n_bytes && i < CHANGE_BYTES * MAX_CHANGES;
         i += CHANGE_BYTES) {
        uint32_t at;
        memcpy(&at, data + i, sizeof at);
        if (at < N_FILE)
            memcpy(changed + at, data + i + sizeof at, sizeof at);
        else
            n = at % N_FILE;
    }
    if (n_bytes % CHANGE_BYTES == 0) // else the checksums are wrong
        make_it_hold(n);
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    if (ftruncate(fd, 0) || pwrite(fd, changed, n, 0) != (ssize_t)n)
        abort();
    if (map_saved_read(path, &place, &contents, why)) {
        if (!why[0] || contents.blocks || contents.keyframes)
            abort();
        return 0;
    }
    write_again(&contents, n);
    map_contents_free(&contents);
    return 0;
}
