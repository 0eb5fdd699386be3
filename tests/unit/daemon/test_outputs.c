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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(folders_that_are_made, setup, teardown),
        cmocka_unit_test_setup_teardown(map_at_the_end, setup, teardown),
        cmocka_unit_test_setup_teardown(trajectory, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
