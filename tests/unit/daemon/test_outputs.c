// SPDX-License-Identifier: Apache-2.0
// What is written, looked at before the first frame.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <string.h>

#include "daemon/config/cameras.h"
#include "daemon/map_export.h"
#include "daemon/output_name.h"
#include "daemon/outputs.h"
#include "tests/unit/scratch.h"

static struct scratch scratch;
static struct config config;

static int setup(void **state)
{
    (void)state;
    scratch_create(&scratch);
    config_default(&config);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    scratch_remove(&scratch);
    return 0;
}

static int check(void)
{
    const struct log_sink log = scratch_log(&scratch);
    scratch.line[0] = 0;
    scratch.worst = LOG_LEVEL_DEBUG;
    return outputs_check(&config, &log);
}

// Folders that the start makes: a file in their place is refused; one that cannot be made is warned
// about, by who looks only and by the start.
static void folders_that_are_made(void **state)
{
    (void)state;
    const struct log_sink log = scratch_log(&scratch);
    static void (*const warns[])(const struct config *, const struct log_sink *) = {
        outputs_look_at_folders, outputs_make_folders};
    const struct {
        char *path;
        const char *key, *says;
        bool is_recorders; // which makes its own
    } folders[] = {{config.recorder.folder, "recorder.folder", "nothing can be recorded", true},
                   {config.search.folder, "search.folder", "no object is kept before", false},
                   {config.map_folder, "map.folder", "no map can be saved", false}};
    char wanted[128];
    assert_int_equal(check(), 0);
    scratch_write_text(&scratch, "file", "");
    scratch_make_folder(&scratch, "closed");
    for (size_t i = 0; i < 3; i++) {
        config_default(&config);
        scratch_name(&scratch, "file", folders[i].path);
        assert_int_equal(check(), -EINVAL);
        assert_true(scratch_said(&scratch, folders[i].key));
        assert_true(scratch_said(&scratch, "/file cannot hold "));
        for (size_t k = 0; k < (folders[i].is_recorders ? 1 : 2); k++) {
            scratch_name(&scratch, "none/folder", folders[i].path);
            assert_int_equal(check(), 0);
            assert_string_equal(scratch.line, "");
            warns[k](&config, &log);
            assert_int_equal(scratch.worst, LOG_LEVEL_WARNING);
            assert_true(scratch_said(&scratch, folders[i].key));
            snprintf(wanted, sizeof wanted, "/none/folder: No such file or directory: %s",
                     folders[i].says);
            assert_true(scratch_said(&scratch, wanted));
            scratch_name(&scratch, "closed", folders[i].path);
            assert_int_equal(chmod(scratch.path, 0755), 0);
            assert_int_equal(chmod(folders[i].path, 0555), 0);
            scratch_be_nobody();
            warns[k](&config, &log);
            scratch_be_root_again();
            snprintf(wanted, sizeof wanted, "/closed: Permission denied: %s", folders[i].says);
            assert_true(scratch_said(&scratch, wanted));
        }
        snprintf(wanted, sizeof wanted, "new%zu", i);
        scratch_name(&scratch, wanted, folders[i].path);
        scratch.line[0] = 0;
        outputs_look_at_folders(&config, &log);
        assert_string_equal(scratch.line, "");
        assert_int_equal(access(folders[i].path, F_OK), -1);
        outputs_make_folders(&config, &log);
        assert_int_equal(access(folders[i].path, F_OK), folders[i].is_recorders ? -1 : 0);
    }
}

// One that is written at the end is refused, also the second camera's.
static void map_at_the_end(void **state)
{
    (void)state;
    char error[256];
    scratch_name(&scratch, "map.pcd", config.map_output);
    assert_int_equal(check(), -EINVAL);
    assert_true(scratch_said(&scratch, "map.pcd: the map's surface is written as .ply"));
    scratch_name(&scratch, "none/map.ply", config.map_output);
    assert_int_equal(check(), -ENOENT);
    assert_true(scratch_said(&scratch, "none/map.ply: No such file or directory (output.map)"));
    scratch_name(&scratch, "map.ply", config.map_output);
    assert_int_equal(check(), 0);
    assert_int_equal(cameras_add(&config, "left", "", error, sizeof error), 0);
    assert_int_equal(cameras_add(&config, "right", "", error, sizeof error), 1);
    assert_int_equal(check(), 0);
    scratch_write_text(&scratch, "map-right.ply", "");
    assert_int_equal(check(), -EEXIST);
    assert_true(scratch_said(&scratch, "map-right.ply: is there already (output.map)"));
}

// So is a trajectory in a folder that is not there, and both are told of. What is wrong itself
// comes before what may be mended on the disk.
static void trajectory(void **state)
{
    (void)state;
    scratch_name(&scratch, "track.txt", config.trajectory);
    assert_int_equal(check(), 0);
    assert_string_equal(scratch.line, "");
    scratch_name(&scratch, "none/track.txt", config.trajectory);
    assert_int_equal(check(), -ENOENT);
    assert_true(scratch_said(&scratch, "none/track.txt: No such file or directory"));
    assert_true(scratch_said(&scratch, "(output.trajectory)"));
    scratch_name(&scratch, "map.pcd", config.map_output);
    assert_int_equal(check(), -EINVAL);
    scratch_name(&scratch, "one.ply", config.map_output);
    strcpy(config.trajectory, config.map_output);
    assert_int_equal(check(), -EINVAL);
    assert_true(scratch_said(&scratch, "two files have two names"));
    config.map_output[0] = 0;
    strcpy(config.trajectory, scratch.path);
    assert_int_equal(check(), -EINVAL);
}

// One file is one file, however it is spelled, and though it is not there yet.
static void one_file_twice(void **state)
{
    (void)state;
    char link[256], folder[256];
    scratch_make_folder(&scratch, "sub");
    scratch_name(&scratch, "one.ply", config.map_output);
    assert_int_equal(symlink(scratch.path, scratch_name(&scratch, "sub/up", folder)), 0);
    assert_int_equal(symlink("sub/../one.ply", scratch_name(&scratch, "link", link)), 0);
    static const char *const same[] = {"one.ply", "sub/../one.ply", "sub/up//one.ply", "link"};
    for (size_t i = 0; i < sizeof same / sizeof *same; i++) {
        scratch_name(&scratch, same[i], config.trajectory);
        assert_int_equal(check(), -EINVAL);
        assert_true(scratch_said(&scratch, "two files have two names"));
    }
    scratch_name(&scratch, "sub/one.ply", config.trajectory);
    assert_int_equal(check(), 0);
    scratch_name(&scratch, "loop", config.trajectory);
    assert_int_equal(symlink("loop", config.trajectory), 0);
    assert_int_equal(check(), -ELOOP);
    // A map is a new file: a link is there, though it lead nowhere.
    config.trajectory[0] = 0;
    strcpy(config.map_output, link);
    assert_int_equal(check(), -EEXIST);
}

// Below /dev and /proc nothing is made, and what is there is a stream; /dev/shm is a folder.
static void streams(void **state)
{
    (void)state;
    strcpy(config.trajectory, "/dev/stdout");
    assert_int_equal(check(), 0);
    scratch_name(&scratch, "out", config.trajectory);
    assert_int_equal(symlink("/dev/null", config.trajectory), 0);
    assert_true(output_name_is_stream(config.trajectory));
    assert_int_equal(check(), 0);
    strcpy(config.trajectory, "/dev/none.txt");
    assert_int_equal(check(), -ENOENT);
    strcpy(config.trajectory, "/dev/../dev/none.txt");
    assert_int_equal(check(), -ENOENT);
    assert_true(output_name_is_stream("/proc/self/none"));
    assert_false(output_name_is_stream("/dev/shm/none.txt"));
    assert_false(output_name_is_stream("/tmp/dev/none.txt"));
    assert_false(output_name_is_stream("none.txt"));
}

static void long_names(void **state)
{
    (void)state;
    memset(config.trajectory, 'n', 255);
    assert_int_equal(check(), -EINVAL);
    assert_true(scratch_said(&scratch, "the name has 255 bytes, and at most 250 leave room"));
    config.trajectory[250] = 0;
    assert_int_equal(check(), 0);
}

// The map of a session is written beside what has taken its name meanwhile.
static void map_has_come(void **state)
{
    (void)state;
    static struct model_block block; // a wall
    const struct log_sink log = scratch_log(&scratch);
    static const char *const names[] = {"m.PLY", "m.1.PLY", "m.2.PLY"};
    char path[256], name[256];
    for (int i = 0; i < MODEL_BLOCK_VOXELS; i++) {
        block.distance[i] = (int16_t)(1000 * (i / 64) - 3500);
        block.weight[i] = 256;
    }
    scratch_name(&scratch, names[0], path);
    scratch_write_text(&scratch, names[1], "another's");
    for (int i = 0; i < 3; i += 2) {
        assert_int_equal(map_export_write(path, &block, 1, 0, 0.008F, &log), 0);
        assert_true(scratch_said(&scratch, " triangles"));
        assert_true(scratch_said(&scratch, names[i]));
        assert_int_equal(scratch.worst, i == 0 ? LOG_LEVEL_NOTICE : LOG_LEVEL_WARNING);
    }
    for (int i = 0; i < 3; i++) {
        char start[4] = "";
        FILE *file = fopen(scratch_name(&scratch, names[i], name), "r");
        assert_non_null(file);
        assert_int_equal(fread(start, 1, 3, file), 3);
        fclose(file);
        assert_string_equal(start, i == 1 ? "ano" : "ply");
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(folders_that_are_made, setup, teardown),
        cmocka_unit_test_setup_teardown(map_at_the_end, setup, teardown),
        cmocka_unit_test_setup_teardown(trajectory, setup, teardown),
        cmocka_unit_test_setup_teardown(one_file_twice, setup, teardown),
        cmocka_unit_test_setup_teardown(streams, setup, teardown),
        cmocka_unit_test_setup_teardown(long_names, setup, teardown),
        cmocka_unit_test_setup_teardown(map_has_come, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
