// SPDX-License-Identifier: Apache-2.0
// A map's file: what is written is read back to the bit, and each damage is refused with a reason.
#include <errno.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "capture/io/unzip.h"
#include "daemon/map_saved.h"

#define HEADER_BYTES   128
#define KEYFRAME_BYTES 864
#define BLOCK_BYTES    2060
#define N_BLOCKS       3
#define N_KEYFRAMES    2
#define N_BYTES        (HEADER_BYTES + N_KEYFRAMES * KEYFRAME_BYTES + N_BLOCKS * BLOCK_BYTES)

static char folder[] = "/tmp/posed-map-XXXXXX", path[64];
static struct model_block blocks[N_BLOCKS];
static struct relocalise_keyframe keyframes[N_KEYFRAMES];
static const struct map_contents contents = {.epoch = 77,
                                             .dropped = 0.417f,
                                             .blocks = blocks,
                                             .n_blocks = N_BLOCKS,
                                             .keyframes = keyframes,
                                             .n_keyframes = N_KEYFRAMES};
static struct map_saved_place place = {
    .camera = {525, -525.5, 319.5, 239.5, 640, 480},
    .model = {.voxel_m = 0.008f, .memory_bytes = 1 << 20},
};

static int make(void **state)
{
    (void)state;
    for (int b = 0; b < N_BLOCKS; b++) {
        blocks[b].x = 5 - b;
        blocks[b].y = -2;
        blocks[b].z = b - 1;
        for (int i = 0; i < MODEL_BLOCK_VOXELS; i++) {
            blocks[b].distance[i] = (int16_t)(i * 97 - 20000 + b);
            blocks[b].weight[i] = (uint16_t)(i * 31 + b);
        }
    }
    for (int k = 0; k < N_KEYFRAMES; k++) {
        keyframes[k].T_map_camera =
            (struct se3){{0, -1, 0, 1, 0, 0, 0, 0, 1}, {0.1 * k, -2.5, 1e-9}};
        for (int i = 0; i < DEPTH_CELLS; i++)
            keyframes[k].log_z[i] = i % 5 ? 0.01f * (float)i : NAN;
    }
    return mkdtemp(folder) ? 0 : -1;
}

static int remove_folder(void **state)
{
    (void)state;
    return rmdir(folder);
}

static void write_good(void)
{
    uint64_t n_bytes;
    snprintf(path, sizeof path, "%s/a.map", folder);
    unlink(path);
    assert_int_equal(map_saved_write(path, &place, &contents, &n_bytes), 0);
    assert_int_equal(n_bytes, N_BYTES);
    assert_int_equal(map_saved_sync_name(path), 0);
}

static void test_round_trip(void **state)
{
    (void)state;
    char why[MAP_SAVED_ERROR_BYTES];
    struct map_contents out;
    uint64_t n_bytes;
    write_good();
    assert_int_equal(map_saved_read(path, &place, &out, why), 0);
    assert_int_equal(out.epoch, 77);
    assert_true(out.dropped == 0.417f);
    assert_int_equal(out.n_blocks, N_BLOCKS);
    assert_int_equal(out.n_keyframes, N_KEYFRAMES);
    assert_memory_equal(out.blocks, blocks, sizeof blocks);
    assert_memory_equal(out.keyframes, keyframes, sizeof keyframes);
    map_contents_free(&out);
    assert_int_equal(map_saved_write(path, &place, &contents, &n_bytes), -EEXIST);
    unlink(path);
    const struct map_contents empty = {0};
    assert_int_equal(map_saved_write(path, &place, &empty, &n_bytes), 0);
    assert_int_equal(map_saved_read(path, &place, &out, why), 0);
    assert_int_equal(out.n_blocks + out.n_keyframes, 0);
    map_contents_free(&out);
    unlink(path);
    assert_int_equal(map_saved_read(path, &place, &out, why), -ENOENT);
    snprintf(path, sizeof path, "%s/none/a.map", folder);
    assert_int_equal(map_saved_write(path, &place, &contents, &n_bytes), -ENOENT);
    assert_int_equal(map_saved_sync_name(path), -ENOENT);
}

static void refused(int error, const char *what)
{
    char why[MAP_SAVED_ERROR_BYTES];
    struct map_contents out;
    assert_int_equal(map_saved_read(path, &place, &out, why), error);
    assert_null(out.blocks);
    assert_null(out.keyframes);
    if (!strstr(why, what))
        fail_msg("\"%s\" does not say \"%s\"", why, what);
}

// Writes at a place of the good file.
static void change(long at, const void *bytes, size_t n)
{
    FILE *file = fopen(path, "r+b");
    assert_non_null(file);
    assert_int_equal(fseek(file, at, SEEK_SET), 0);
    assert_int_equal(fwrite(bytes, n, 1, file), 1);
    assert_int_equal(fclose(file), 0);
}

// The checksums hold again, as if the program had written it so.
static void make_it_hold(void)
{
    static unsigned char all[N_BYTES];
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    assert_int_equal(fread(all, sizeof all, 1, file), 1);
    fclose(file);
    uint32_t crc = unzip_crc32(all + HEADER_BYTES, N_KEYFRAMES * KEYFRAME_BYTES);
    memcpy(all + 112, &crc, sizeof crc);
    crc = unzip_crc32(all + HEADER_BYTES + N_KEYFRAMES * KEYFRAME_BYTES, N_BLOCKS * BLOCK_BYTES);
    memcpy(all + 116, &crc, sizeof crc);
    crc = unzip_crc32(all, 124);
    memcpy(all + 124, &crc, sizeof crc);
    change(0, all, sizeof all);
}

static void test_damage(void **state)
{
    (void)state;
    const uint8_t one = 0xa5;
    const struct {
        long at;
        const char *says;
    } bytes[] = {{0, "not a map"}, {20, "header"},         {60, "header"},
                 {124, "header"},  {128, "keyframes"},     {1855, "keyframes"},
                 {1856, "blocks"}, {N_BYTES - 1, "blocks"}};
    for (size_t i = 0; i < sizeof bytes / sizeof *bytes; i++) {
        write_good();
        change(bytes[i].at, &one, 1);
        refused(-EBADMSG, bytes[i].says);
    }
    static const long sizes[] = {0, 1, 127, 128, 1000, N_BYTES - 1};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        write_good();
        assert_int_equal(truncate(path, sizes[i]), 0);
        refused(-EBADMSG, "truncated");
    }
    write_good();
    change(N_BYTES, &one, 1);
    refused(-EBADMSG, "damaged");
    unlink(path);
    snprintf(path, sizeof path, "%s", folder);
    refused(-EBADMSG, "not a plain file");
}

// Damage behind checksums that hold.
static void test_impossible(void **state)
{
    (void)state;
    const int32_t far = 1 << 20;
    const float infinite = INFINITY;
    const double two = 2, not_finite = NAN;
    const uint32_t many = 1 << 30, more_than_all = 1001;
    const struct {
        long at;
        const void *bytes;
        size_t n;
    } changes[] = {
        {24, &many, 4},
        {28, &many, 4},
        {104, &more_than_all, 4},
        {HEADER_BYTES, &two, 8},             // no rotation
        {HEADER_BYTES + 72, &not_finite, 8}, // no position
        {HEADER_BYTES + 96, &infinite, 4},   // no depth
        {HEADER_BYTES + 2 * KEYFRAME_BYTES, &far, 4},
        {HEADER_BYTES + 2 * KEYFRAME_BYTES + 8, &far, 4}, // beyond the numbers
        {HEADER_BYTES + 2 * KEYFRAME_BYTES + BLOCK_BYTES + 8, "\376\377\377\377", 4}, // order
    };
    for (size_t i = 0; i < sizeof changes / sizeof *changes; i++) {
        write_good();
        change(changes[i].at, changes[i].bytes, changes[i].n);
        make_it_hold();
        refused(-EBADMSG, "damaged");
    }
    unlink(path);
}

static void test_another(void **state)
{
    (void)state;
    const uint32_t version = 2;
    const struct map_saved_place good = place;
    write_good();
    change(8, &version, sizeof version);
    refused(-EPROTONOSUPPORT, "version 2");
    write_good();
    place.model.voxel_m = 0.01f;
    refused(-EXDEV, "map.voxel_m = 0.008");
    place = good;
    place.camera.fx_px += 1;
    refused(-EXDEV, "another camera");
    place = good;
    place.camera.width_px = 320;
    refused(-EXDEV, "another camera");
    place = good;
    place.model.memory_bytes = 5000; // two blocks; the model itself would refuse so little
    refused(-ENOSPC, "map.memory_bytes");
    place = good;
    unlink(path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_round_trip),
        cmocka_unit_test(test_damage),
        cmocka_unit_test(test_impossible),
        cmocka_unit_test(test_another),
    };
    return cmocka_run_group_tests(tests, make, remove_folder);
}
