// SPDX-License-Identifier: Apache-2.0
// Files of a recording: names that lead outside, also where the kernel has no openat2 (a container
// that forbids it), calls that fail, files that are none or too long.
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "capture/io/folder.h"
#include "tests/unit/fails.h"
#include "tests/unit/scratch.h"

static struct scratch scratch;
static int folder;

static int setup(void **state)
{
    (void)state;
    char path[256], link[256];
    scratch_create(&scratch);
    scratch_make_folder(&scratch, "in");
    scratch_make_folder(&scratch, "in/depth");
    scratch_write_text(&scratch, "in/depth/1.txt", "one");
    scratch_write_text(&scratch, "outside", "no");
    assert_int_equal(symlink("../outside", scratch_name(&scratch, "in/out", link)), 0);
    assert_int_equal(symlink("loop", scratch_name(&scratch, "in/loop", link)), 0);
    assert_int_equal(symlink("..", scratch_name(&scratch, "in/up", link)), 0);
    assert_int_equal(mkfifo(scratch_name(&scratch, "in/pipe", link), 0600), 0);
    folder = open(scratch_name(&scratch, "in", path), O_PATH | O_DIRECTORY | O_CLOEXEC);
    assert_true(folder >= 0);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    close(folder);
    scratch_remove(&scratch);
    return 0;
}

static void names_stay_inside(void **state)
{
    (void)state;
    char too_long[400];
    memset(too_long, 'x', sizeof too_long - 1);
    too_long[sizeof too_long - 1] = 0;
    const struct {
        const char *name;
        int with, without; // openat2
    } names[] = {{"depth/1.txt", 0, 0},
                 {"depth//1.txt", 0, 0},
                 {"./depth/1.txt", 0, 0},
                 {"depth/2.txt", -ENOENT, -ENOENT},
                 {"nothing/1.txt", -ENOENT, -ENOENT},
                 {"depth", -EINVAL, -EINVAL},
                 {"pipe", -EINVAL, -EINVAL},
                 {"out", -EXDEV, -ELOOP},
                 {"loop", -ELOOP, -ELOOP},
                 {"up/outside", -EXDEV, -ENOTDIR},
                 {"../outside", -EXDEV, -EXDEV},
                 {"/etc/passwd", -EXDEV, -EXDEV},
                 {"", -EXDEV, -EXDEV},
                 {too_long, -ENAMETOOLONG, -ENAMETOOLONG}};
    static const int errors[] = {0, ENOSYS, EPERM};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        for (size_t k = 0; k < 3; k++) {
            fails_at("syscall", errors[k] ? 1 : 0, errors[k]);
            const int fd = folder_open_file(folder, names[i].name);
            fails_end();
            const int wanted = errors[k] ? names[i].without : names[i].with;
            if (fd < 0 ? fd != wanted : wanted != 0)
                print_error("%s %zu: %d\n", names[i].name, k, fd);
            assert_true(fd < 0 ? fd == wanted : wanted == 0);
            if (fd >= 0)
                close(fd);
        }
    fails_at("syscall", 1, EACCES); // another error is one
    assert_int_equal(folder_open_file(folder, "depth/1.txt"), -EACCES);
    fails_end();
    assert_int_equal(folder_open_file(-1, "depth/1.txt"), -EBADF);
    fails_at("syscall", 1, ENOSYS);
    assert_int_equal(folder_open_file(-1, "depth/1.txt"), -EBADF);
    fails_end();
}

static void reading_a_file_of_a_folder(void **state)
{
    (void)state;
    struct file_bytes bytes = {0};
    const struct log_sink log = scratch_log(&scratch);
    assert_int_equal(folder_read(folder, "depth/1.txt", 100, &bytes), 0);
    assert_string_equal((const char *)bytes.data, "one");
    assert_int_equal(folder_read(folder, "depth/1.txt", 2, &bytes), -EFBIG);
    fails_at("fstat", 1, EIO);
    assert_int_equal(folder_read(folder, "depth/1.txt", 100, &bytes), -EINVAL);
    fails_at("fstat", 2, EIO);
    assert_int_equal(folder_read(folder, "depth/1.txt", 100, &bytes), -EIO);
    fails_end();
    free(bytes.data);
    bytes = (struct file_bytes){0};
    fails_at("memory", 1, ENOMEM);
    assert_int_equal(folder_read(folder, "depth/1.txt", 100, &bytes), -ENOMEM);
    fails_end();
    scratch_write(&scratch, "in/zero", "a\0b", 3);
    assert_int_equal(folder_read_text(folder, "in", "zero", &log, &bytes), -EINVAL);
    assert_true(scratch_said(&scratch, "in/zero: "));
    scratch.line[0] = 0;
    assert_int_equal(folder_read_text(folder, "in", "none", &log, &bytes), -ENOENT);
    assert_string_equal(scratch.line, ""); // may be left out
    assert_int_equal(folder_read_text(folder, "in", "out", &log, &bytes), -EXDEV);
    assert_true(scratch_said(&scratch, "in/out: "));
    free(bytes.data);
}

static void reading_a_file_as_named(void **state)
{
    (void)state;
    struct file_bytes bytes = {0};
    char path[256];
    const struct log_sink log = scratch_log(&scratch);
    scratch_name(&scratch, "outside", path);
    assert_int_equal(file_read(path, 100, &log, &bytes), 0);
    assert_string_equal((const char *)bytes.data, "no");
    assert_int_equal(file_read(path, 1, &log, &bytes), -EFBIG);
    assert_true(scratch_said(&scratch, "/outside: "));
    assert_int_equal(file_read("/dev/zero", 10000, &log, &bytes), -EFBIG);
    assert_true(scratch_said(&scratch, "/dev/zero: "));
    assert_int_equal(file_read(scratch.path, 100, &log, &bytes), -EISDIR);
    free(bytes.data);
    bytes = (struct file_bytes){0};
    fails_at("memory", 1, ENOMEM);
    assert_int_equal(file_read(path, 100, &log, &bytes), -ENOMEM);
    fails_end();
    free(bytes.data);
    assert_int_equal(file_open(scratch.path, &log), -EINVAL);
    assert_int_equal(file_open("/nonexistent", &log), -ENOENT);
    assert_true(scratch_said(&scratch, "/nonexistent: No such file or directory"));
    fails_at("fstat", 1, EIO);
    assert_int_equal(file_open(path, &log), -EIO);
    fails_end();
    const int fd = file_open(path, &log);
    assert_true(fd >= 0);
    char two[3];
    assert_int_equal(file_read_at(fd, two, 2, 0), 0);
    assert_int_equal(file_read_at(fd, two, 3, 0), -EBADMSG);
    close(fd);
    assert_int_equal(file_read_at(fd, two, 2, 0), -EBADF);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(names_stay_inside, setup, teardown),
        cmocka_unit_test_setup_teardown(reading_a_file_of_a_folder, setup, teardown),
        cmocka_unit_test_setup_teardown(reading_a_file_as_named, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
