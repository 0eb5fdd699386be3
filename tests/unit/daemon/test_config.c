// SPDX-License-Identifier: Apache-2.0
// The configuration: config/posed.conf equals the built-in defaults, a later source wins, and every
// mistake is named with its place.
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "daemon/config/cameras.h"
#include "daemon/config/config.h"
#include "daemon/endpoint.h"

static char said[4096]; // everything logged

static void keep_line(void *user, enum log_level level, const char *line)
{
    (void)user;
    (void)level;
    size_t n = strlen(said);
    snprintf(said + n, sizeof said - n, "%s\n", line);
}

static const struct log_sink sink = {keep_line, NULL};

static int parse(struct config *config, const char *text)
{
    said[0] = 0;
    config_default(config);
    return config_parse(config, text, strlen(text), "test.conf", &sink);
}

static char *read_whole(const char *path, size_t *out_n)
{
    FILE *file = fopen(path, "re");
    assert_non_null(file);
    char *text = calloc(1, 1 << 16);
    assert_non_null(text);
    *out_n = fread(text, 1, 1 << 16, file);
    fclose(file);
    return text;
}

static void file_in_tree_equals_the_defaults(void **state)
{
    (void)state;
    struct config config;
    char path[512], *dumped = NULL;
    size_t n_dumped = 0, n_kept;
    snprintf(path, sizeof path, "%s/config/posed.conf", getenv("POSED_SOURCE_DIR"));
    config_default(&config);
    FILE *stream = open_memstream(&dumped, &n_dumped);
    assert_non_null(stream);
    config_dump(&config, stream);
    fclose(stream);
    char *kept = read_whole(path, &n_kept);
    if (n_kept != n_dumped || memcmp(kept, dumped, n_kept) != 0)
        print_error("config/posed.conf is not what `posed --dump-config` prints of the defaults\n");
    assert_int_equal(n_kept, n_dumped);
    assert_memory_equal(kept, dumped, n_kept);
    // And it can be read: every key gets its origin there.
    assert_int_equal(config_parse(&config, kept, n_kept, "posed.conf", &sink), 0);
    for (size_t i = 0; i < config_n_keys(); i++)
        assert_memory_equal(config.origin[i], "posed.conf:", 11);
    free(kept);
    free(dumped);
}

static void defaults_are_valid(void **state)
{
    (void)state;
    struct config config;
    char name[96], value[CONFIG_TEXT_MAX], error[300];
    config_default(&config);
    for (size_t i = 0; i < config_n_keys(); i++) {
        config_key_name(i, name, sizeof name);
        config_key_value(&config, i, value, sizeof value);
        assert_int_equal(config_set(&config, name, value, "test", error, sizeof error), 0);
        char again[CONFIG_TEXT_MAX];
        config_key_value(&config, i, again, sizeof again);
        assert_string_equal(value, again);
    }
    assert_int_equal(endpoint_check(&config, &sink), 0);
}

static void values_arrive(void **state)
{
    (void)state;
    struct config config;
    assert_int_equal(parse(&config, "\xef\xbb\xbf# a comment\r\n[camera]\r\nfx = 517.3\r\nfy=-480\n"
                                    "[tracker]\niterations = 7, 3 ,0\nearly_stop = no\n"
                                    "[capture]\nsource = tum:/data/a b\nspeed = 2.5\n"
                                    "[gpu]\nbackend = cpu ; the small machine\n"),
                     0);
    assert_true(config.capture.fx_px == 517.3 && config.capture.fy_px == -480);
    assert_int_equal(config.track.align.iterations[0], 7);
    assert_int_equal(config.track.align.iterations[1], 3);
    assert_int_equal(config.track.align.iterations[2], 0);
    assert_false(config.track.align.early_stop);
    assert_string_equal(config.source, "tum:/data/a b");
    assert_true(config.capture.rate == 2.5);
    assert_int_equal(config.backend, GPU_BACKEND_CPU);
    assert_int_equal(parse(&config, "[capture]\nspeed = max\n"), 0);
    assert_true(config.capture.rate == CAPTURE_RATE_MAX);
    assert_int_equal(parse(&config, ""), 0);
}

// Text, and what the log must contain.
static const char *const mistakes[][2] = {
    {"[camera]\nfoo = 1\n", "test.conf:2: unknown key \"camera.foo\""},
    {"fx = 1\n", "test.conf:1: fx stands before the first [section]"},
    {"[camera]\n\nfx = abc\n", "test.conf:3: camera.fx: \"abc\" is not a number"},
    {"[camera]\nfx = 1e9\n", "test.conf:2: camera.fx: 1e9 is neither 0"},
    {"[camera]\nfx = nan\n", "\"nan\" is not a number"},
    {"[camera]\nfx = inf\n", "\"inf\" is not a number"},
    {"[camera]\nfx =\n", "\"\" is not a number"},
    {"[camera]\nfx = 1 2\n", "\"1 2\" is not a number"},
    {"[capture]\nstep = 1.5\n", "\"1.5\" is not a whole number"},
    {"[capture]\nstep = -1\n", "-1 is outside"},
    {"[capture]\nspeed = fast\n", "\"fast\" is neither real, max nor a number"},
    {"[capture]\nspeed = 0\n", "\"0\" is neither real"},
    {"[capture]\nloop = maybe\n", "\"maybe\" is neither true nor false"},
    {"[gpu]\nbackend = fpga\n", "\"fpga\" is none of: auto cpu cuda"},
    {"[log]\nlevel =\n", "is none of: error warning notice info debug"},
    {"[tracker]\niterations = 1,2\n", "is not 3 whole numbers"},
    {"[tracker]\niterations = 10\n", "fine to coarse, e.g. 10,5,4"},
    {"[tracker]\niterations = 1,2,3,4\n", "is not 3 whole numbers"},
    {"[tracker]\niterations = 1,,3\n", "is not 3 whole numbers"},
    {"[tracker]\niterations = 1,2,101\n", "101 is outside 0 .. 100"},
    {"[tracker]\niterations = 1,2,-3\n", "is not 3 whole numbers"},
    {"[tracker]\niterations = 1,2,99999999999999999999\n", "is outside 0 .. 100"},
    {"[camera\nfx = 1\n", "test.conf:1: neither [section]"},
    {"[camera] fx = 1\n", "test.conf:1: nothing but a comment may stand behind [camera]"},
    {"[recoder]\n", "test.conf:1: unknown section [recoder], did you mean [recorder]"},
    {"[]\n", "test.conf:1: unknown section []"},
    {"[Camera]\nfx = 500\n", "test.conf:1: unknown section [Camera], did you mean [camera]"},
    {"[camrea back]\nsource = synth:room\n", "[camrea back], did you mean [camera back]? (posed"},
    {"[Camera  back left]\n", "[Camera  back left], did you mean [camera  back left]?"},
    {"[recoder back]\n", "unknown section [recoder back], did you mean [recorder]?"},
    {"[nothing back]\n", "unknown section [nothing back] (posed"},
    {"[camera.left]\nfx = 500\n", "section [camera.left], did you mean [camera] or [camera NAME]"},
    {"[recorder]\nmax_bytes = 10G\n", "\"10G\" is not a whole number: nothing follows it, no unit"},
    {"[capture]\nsource = tum:~/x\nstep = 0\n", "test.conf:2: the value is tum:~/x: ~ and $ stand"},
    {"[camera]\nfx = 500 # wide\n", "test.conf:2: the value is 500 # wide: a comment behind"},
    {"[camera]\nfx = \"500\"\n", "test.conf:2: the value is \"500\": values stand without"},
    {"[camera]\nfx = 1\njunk\n", "test.conf:3: neither [section]"},
    {"[publish]\nodom_frame = 0123456789012345678901234567890123456789\n", "longer than 31 bytes"},
    {"[publish]\nodom_frame = a\tb\n",
     "its byte 2 (0x09) is a control character, no part of a name"},
    {"[publish]\nodom_frame = a\377\n", "its byte 2 (0xff) is no part of a text in UTF-8"},
};

// What is wrong with cameras: text, and what the log must contain.
static const char *const wrong_cameras[][2] = {
    {"[camera a]\nsource = synth:room\n\n[camera a]\n",
     "test.conf:4: [camera a] is there already: test.conf:1"},
    {"[camera front]\n[camera front2]\n", "one name is the beginning of the other"},
    {"[camera front2]\n[camera front]\n", "one name is the beginning of the other"},
    {"[camera a b]\nfoo = 1\n", "test.conf:1: [camera a b]: a name of 1 to 16"},
    {"[camera  ]\n", "test.conf:1: [camera ]: a name of 1 to 16"},
    {"[camera -a]\n", "test.conf:1: [camera -a]: a name of 1 to 16"},
    {"[camera abcdefghijklmnopq]\n", "a name of 1 to 16"},
    {"[camera rig]\n", "another name is wanted"},
    {"[camera a]\npub = ipc\n", "test.conf:2: camera a.pub: a camera's own keys"},
    {"[camera a]\nbackground_s = 1\n", "are those of [capture], [camera] and [gpu]\n"},
    {"[camera a]\nsorce = synth:room\n", "and [gpu], did you mean camera a.source?\n"},
    {"[camera a]\nbakend = cpu\n", "did you mean camera a.backend?\n"},
    {"[camera a]\nfx = 1e9\n", "test.conf:2: camera a.fx: 1e9 is neither 0"},
    {"[camera a]\nspeed = fast\n", "\"fast\" is neither real, max nor a number"},
};

static void cameras_are_refused(void **state)
{
    (void)state;
    struct config config;
    for (size_t i = 0; i < sizeof wrong_cameras / sizeof wrong_cameras[0]; i++) {
        assert_int_equal(parse(&config, wrong_cameras[i][0]), -EINVAL);
        if (!strstr(said, wrong_cameras[i][1]))
            print_error("%swanted: %s\n", said, wrong_cameras[i][1]);
        assert_non_null(strstr(said, wrong_cameras[i][1]));
    }
    assert_int_equal(parse(&config, "[camera a]\nstep = 2\n"), 0);
    assert_int_equal(cameras_check(&config, &sink), -EINVAL);
    assert_non_null(strstr(said, "test.conf:1: [camera a] has no source"));
    assert_int_equal(parse(&config, "[capture]\nsource = synth:room\n[camera a]\nsource = b:c\n"),
                     0);
    assert_int_equal(cameras_check(&config, &sink), -EINVAL);
    assert_non_null(strstr(said, "test.conf:2: capture.source beside [camera a] (test.conf:3)"));
    assert_int_equal(parse(&config, "[camera]\nrig = x\n[camera a]\nsource = a:b\nrig = x\n"
                                    "[camera b]\nsource = c:d\n"),
                     0);
    assert_int_equal(cameras_check(&config, &sink), -EINVAL);
    assert_non_null(strstr(said, "test.conf:2: camera.rig stands in [camera NAME]"));
    assert_non_null(strstr(said, "test.conf:3: [camera a] is the first"));
    assert_non_null(strstr(said, "test.conf:6: [camera b] has no rig"));
}

// Shared settings, with a camera's own instead; names in frames and files; a share of the cores.
static void cameras_have_settings_of_their_own(void **state)
{
    (void)state;
    struct config config, left, right;
    char error[300];
    assert_int_equal(parse(&config, "\xef\xbb\xbf[camera left]\nsource = tum:/data/a b\nfx = 500\n"
                                    "[capture]\nstep = 3\n[output]\ntrajectory = out.d/run\n"
                                    "map = out.d/map.ply\n"
                                    "[camera right]\nsource = synth:room ; a comment\nstep = 5\n"
                                    "cuda_device = 1\n"),
                     0);
    assert_int_equal(cameras_check(&config, &sink), 0);
    assert_int_equal(config.n_cameras, 2);
    assert_int_equal(config_set(&config, "camera right.step", "7", "--set", error, sizeof error),
                     0);
    assert_int_equal(config_set(&config, "camera right.step", "x", "--set", error, sizeof error),
                     -EINVAL);
    cameras_config(&config, 0, &left);
    cameras_config(&config, 1, &right);
    assert_string_equal(left.source, "tum:/data/a b");
    assert_string_equal(right.source, "synth:room");
    assert_true(left.capture.fx_px == 500 && right.capture.fx_px == 0);
    assert_int_equal(left.capture.step, 3);
    assert_int_equal(right.capture.step, 7);
    assert_int_equal(right.gpu.cuda_device, 1);
    assert_string_equal(left.trajectory, "out.d/run-left");
    assert_string_equal(right.map_output, "out.d/map-right.ply");
    assert_string_equal(right.publish.odom_frame, "right/odom");
    assert_true(left.gpu.n_threads >= 1 &&
                (long)left.gpu.n_threads <= (sysconf(_SC_NPROCESSORS_ONLN) + 1) / 2);
    assert_int_equal(left.gpu.n_sharing, 1); // two take turns
    // What is dumped reads back as the same.
    char *dumped = NULL;
    size_t n = 0;
    FILE *stream = open_memstream(&dumped, &n);
    assert_non_null(stream);
    config_dump(&config, stream);
    fclose(stream);
    config_default(&left);
    assert_int_equal(config_parse(&left, dumped, n, "dumped", &sink), 0);
    assert_true(cameras_are_same(&config, &left));
    assert_int_equal(config_set(&left, "camera left.fx", "501", "x", error, sizeof error), 0);
    assert_false(cameras_are_same(&config, &left));
    free(dumped);
    // Without cameras nothing changes.
    config_default(&config);
    cameras_config(&config, 0, &right);
    assert_memory_equal(&config, &right, sizeof config);
}

static void touch(const char *folder, const char *name)
{
    char path[128];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *file = fopen(path, "we");
    assert_non_null(file);
    fclose(file);
}

// What each of four cameras of a rig has as its field; `more`: of the second one's section.
static void read_fields(const char *folder, const char *more, char out[4][CONFIG_TEXT_MAX])
{
    struct config config, camera;
    char text[1024];
    snprintf(text, sizeof text,
             "[camera a]\nsource = s:a\n[camera b]\nsource = s:b\nrig = %s/ab\n%s"
             "[camera c]\nsource = s:c\nrig = %s/ac\n[camera d]\nsource = s:d\nrig = %s/ad\n",
             folder, more, folder, folder);
    assert_int_equal(parse(&config, text), 0);
    assert_int_equal(cameras_check(&config, &sink), 0);
    for (uint32_t i = 0; i < 4; i++) {
        cameras_config(&config, i, &camera);
        memcpy(out[i], camera.camera_field, CONFIG_TEXT_MAX);
    }
}

// The fields beside the files of a rig's places, unless the section says another, or none.
static void rigs_have_fields(void **state)
{
    (void)state;
    char folder[] = "/tmp/posed-test-XXXXXX", path[64], fields[4][CONFIG_TEXT_MAX];
    static const char *const names[] = {"ac.A.field", "ad.A.field", "ab.B.field", "ad.B.field"};
    assert_non_null(mkdtemp(folder));
    read_fields(folder, "", fields);
    for (int i = 0; i < 4; i++)
        assert_string_equal(fields[i], "");
    for (int i = 0; i < 4; i++)
        touch(folder, names[i]);
    read_fields(folder, "", fields);
    for (int i = 0; i < 4; i++) {
        static const char *const of[] = {"ac.A.field", "ab.B.field", "", "ad.B.field"};
        snprintf(path, sizeof path, "%s/%s", folder, of[i]);
        assert_string_equal(fields[i], of[i][0] ? path : "");
    }
    read_fields(folder, "field = other\n", fields);
    assert_string_equal(fields[1], "other");
    read_fields(folder, "field =\n", fields);
    assert_string_equal(fields[1], "");
    for (int i = 0; i < 4; i++) {
        snprintf(path, sizeof path, "%s/%s", folder, names[i]);
        unlink(path);
    }
    rmdir(folder);
}

static void mistakes_are_named(void **state)
{
    (void)state;
    struct config config;
    for (size_t i = 0; i < sizeof mistakes / sizeof mistakes[0]; i++) {
        assert_int_equal(parse(&config, mistakes[i][0]), -EINVAL);
        if (!strstr(said, mistakes[i][1]))
            print_error("%swanted: %s\n", said, mistakes[i][1]);
        assert_non_null(strstr(said, mistakes[i][1]));
    }
}

// An indented line is a line of its own, also where inih would add it to the value before.
static void lines_may_be_indented(void **state)
{
    (void)state;
    struct config config;
    assert_int_equal(parse(&config, "[capture] ; of all\n  source = synth:room\n  speed = max\n"
                                    "\t[camera  left ]\n\tsource = tum:/a\n\tfx = 500\n \n"),
                     0);
    assert_string_equal(config.source, "synth:room");
    assert_true(config.capture.rate == CAPTURE_RATE_MAX);
    assert_string_equal(config.cameras[0].name, "left");
    assert_string_equal(config_origin(&config, "camera left.fx"), "test.conf:6");
    assert_null(config_origin(&config, "camera left.fy"));
    assert_null(config_origin(&config, "camera.fy"));
    assert_string_equal(said, "");
}

static void second_values_are_told(void **state)
{
    (void)state;
    struct config config;
    assert_int_equal(parse(&config, "[camera]\nfx = 400\n[gpu]\nthreads = 2\n[camera]\nfx = 500\n"
                                    "[camera a]\nstep = 2\nstep = 3\n"),
                     0);
    assert_string_equal(said,
                        "test.conf:6: camera.fx is set a second time, and this one holds, not that "
                        "of test.conf:2\n"
                        "test.conf:9: camera a.step is set a second time, and this one holds, not "
                        "that of test.conf:8\n");
    assert_true(config.capture.fx_px == 500);
    said[0] = 0; // a later file is meant to say it again
    assert_int_equal(config_parse(&config, "[camera]\nfx = 600\n", 18, "a.conf", &sink), 0);
    assert_string_equal(said, "");
}

static void one_mistake_does_not_hide_the_next(void **state)
{
    (void)state;
    struct config config;
    assert_int_equal(
        parse(&config, "junk\n[camera]\nfoo = 1\nfx = 5\n[bar]\nx = 1\n[camera]\nfy = y\n"),
        -EINVAL);
    assert_non_null(strstr(said, "test.conf:1: neither [section]"));
    assert_non_null(strstr(said, "test.conf:3: unknown key \"camera.foo\""));
    assert_non_null(strstr(said, "test.conf:5: unknown section [bar]"));
    assert_null(strstr(said, "bar.x")); // said of the head
    assert_non_null(strstr(said, "test.conf:8: camera.fy: \"y\" is not a number"));
    said[0] = 0;
    setenv("POSED_CAMERA_CX", "x", 1);
    const struct config_assignment set[] = {
        {"camera.cy", "y", "--set"}, {"foo", "1", "--set"}, {"camera.left.fx", "500", "--set"}};
    assert_int_equal(config_load(&config, NULL, set, 3, &sink), -EINVAL);
    assert_non_null(strstr(said, "\"camera.left.fx\"; one of a camera's own is written \"camera "));
    assert_non_null(strstr(said, "environment POSED_CAMERA_CX: camera.cx: \"x\""));
    assert_non_null(strstr(said, "--set: camera.cy: \"y\""));
    assert_non_null(strstr(said, "--set: unknown key \"foo\""));
    unsetenv("POSED_CAMERA_CX");
}

static void mistyped_variables_are_told(void **state)
{
    (void)state;
    static const char *const others[] = {"POSED_HOST",    "POSED_DATA",      "POSED_TEST_BACKEND",
                                         "POSED_FOO_BAR", "POSED_CAMERA_CX", "POSED_LOG"};
    struct config config;
    said[0] = 0;
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        setenv(others[i], "100", 1);
    assert_int_equal(config_load(&config, NULL, NULL, 0, &sink), 0);
    assert_null(strstr(said, "environment"));
    setenv("POSED_LOG_LEVLE", "1", 1);
    setenv("POSED_HTTP_SOMETHING_ELSE", "1", 1);
    assert_int_equal(config_load(&config, NULL, NULL, 0, &sink), 0);
    assert_non_null(strstr(said, "environment POSED_LOG_LEVLE: no setting, and ignored; did you "
                                 "mean POSED_LOG_LEVEL"));
    assert_non_null(strstr(said, "environment POSED_HTTP_SOMETHING_ELSE: no setting, and ignored"));
    unsetenv("POSED_LOG_LEVLE");
    unsetenv("POSED_HTTP_SOMETHING_ELSE");
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        unsetenv(others[i]);
}

static void long_lines_and_zero_bytes(void **state)
{
    (void)state;
    struct config config;
    char text[1000] = "[capture]\nsource = ";
    memset(text + strlen(text), 'x', 900);
    assert_int_equal(parse(&config, text), -EINVAL);
    assert_non_null(strstr(said, "test.conf:2: the line is longer than"));
    said[0] = 0;
    assert_int_equal(config_parse(&config, "[camera]\nfx = \0 1\n", 17, "test.conf", &sink),
                     -EINVAL);
    assert_non_null(strstr(said, "test.conf:2: a zero byte"));
}

static void write_text(const char *path, const char *text)
{
    FILE *file = fopen(path, "we");
    assert_non_null(file);
    fputs(text, file);
    assert_int_equal(fclose(file), 0);
}

static void later_sources_win(void **state)
{
    (void)state;
    char folder[] = "/tmp/posed-config-XXXXXX", path[128], drop_in[128], one[192], two[192];
    struct config config;
    assert_non_null(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/posed.conf", folder);
    snprintf(drop_in, sizeof drop_in, "%s/conf.d", folder);
    snprintf(one, sizeof one, "%s/10-one.conf", drop_in);
    snprintf(two, sizeof two, "%s/20-two.conf", drop_in);
    assert_int_equal(mkdir(drop_in, 0700), 0);
    write_text(path, "[camera]\nfx = 100\nfy = 100\ncx = 100\ncy = 100\ndepth_scale = 100\n");
    write_text(one, "[camera]\nfy = 200\ncx = 200\ncy = 200\ndepth_scale = 200\n");
    write_text(two, "[camera]\ncx = 300\ncy = 300\ndepth_scale = 300\n");
    setenv("POSED_CAMERA_CY", "400", 1);
    setenv("POSED_CAMERA_DEPTH_SCALE", "400", 1);
    const struct config_assignment set[] = {{"camera.depth_scale", "500", "--set"}};
    assert_int_equal(config_load(&config, path, set, 1, &sink), 0);
    assert_true(config.capture.fx_px == 100 && config.capture.fy_px == 200);
    assert_true(config.capture.cx_px == 300 && config.capture.cy_px == 400);
    assert_true(config.capture.depth_scale == 500);

    setenv("POSED_CAMERA_CY", "four", 1);
    said[0] = 0;
    assert_int_equal(config_load(&config, path, NULL, 0, &sink), -EINVAL);
    assert_non_null(strstr(said, "environment POSED_CAMERA_CY: camera.cy: \"four\""));
    unsetenv("POSED_CAMERA_CY");
    unsetenv("POSED_CAMERA_DEPTH_SCALE");
    said[0] = 0;
    assert_int_equal(config_load(&config, "/nonexistent/posed.conf", NULL, 0, &sink), -ENOENT);
    assert_non_null(strstr(said, "/nonexistent/posed.conf: No such file"));
    unlink(one);
    unlink(two);
    unlink(path);
    rmdir(drop_in);
    rmdir(folder);
}

static void files_that_are_none(void **state)
{
    (void)state;
    char folder[] = "/tmp/posed-config-XXXXXX", here[512];
    static char large[(1 << 20) + 1];
    struct config config;
    assert_non_null(getcwd(here, sizeof here));
    assert_non_null(mkdtemp(folder));
    said[0] = 0;
    assert_int_equal(config_load(&config, folder, NULL, 0, &sink), -EIO);
    assert_non_null(strstr(said, "Is a directory"));
    assert_int_equal(chdir(folder), 0);
    memset(large, '#', sizeof large - 1);
    write_text("large.conf", large);
    said[0] = 0;
    assert_int_equal(config_load(&config, "large.conf", NULL, 0, &sink), -EIO);
    assert_non_null(strstr(said, "large.conf: larger than 1 MiB"));

    // A conf.d that is there and cannot be read is not none.
    write_text("posed.conf", "[camera]\nfx = 100\n");
    assert_int_equal(symlink("conf.d", "conf.d"), 0);
    said[0] = 0;
    assert_int_equal(config_load(&config, "posed.conf", NULL, 0, &sink), -EIO);
    assert_non_null(strstr(said, "conf.d: Too many levels of symbolic links"));
    assert_int_equal(unlink("conf.d"), 0);

    // Of conf.d what is hidden or has another suffix is left out; a mistake is named with its file.
    static const char *const ignored[] = {"conf.d/.10.conf", "conf.d/.conf", "conf.d/10.conf~",
                                          "conf.d/a"};
    assert_int_equal(mkdir("conf.d", 0700), 0);
    for (size_t i = 0; i < sizeof ignored / sizeof *ignored; i++)
        write_text(ignored[i], "junk\n");
    write_text("posed.conf", "[camera]\nfx = 100\n");
    said[0] = 0;
    assert_int_equal(config_load(&config, "posed.conf", NULL, 0, &sink), 0);
    assert_true(config.capture.fx_px == 100);
    write_text("conf.d/10.conf", "[camera]\nfx = x\n");
    write_text("conf.d/20.conf", "[camera]\nfx = 200\n");
    assert_int_equal(config_load(&config, "posed.conf", NULL, 0, &sink), -EINVAL);
    assert_non_null(strstr(said, "conf.d/10.conf:2: camera.fx: \"x\""));
    assert_true(config.capture.fx_px == 200);
    for (size_t i = 0; i < sizeof ignored / sizeof *ignored; i++)
        unlink(ignored[i]);
    unlink("conf.d/10.conf");
    unlink("conf.d/20.conf");
    unlink("posed.conf");
    unlink("large.conf");
    rmdir("conf.d");
    assert_int_equal(chdir(here), 0);
    assert_int_equal(rmdir(folder), 0);
}

// A camera's name goes in front of frames and behind files: there has to be room for it.
static void names_need_room(void **state)
{
    (void)state;
    static char longest[CONFIG_TEXT_MAX];
    struct config config;
    memset(longest, 'x', sizeof longest - 2);
    const char *const frame = "a_frame_of_thirty_bytes_or_so_";
    const struct config_assignment set[][2] = {
        {{"camera a_left-1.source", "tum:/a", "--set"}, {"publish.camera_frame", frame, "--set"}},
        {{"camera a_left-1.source", "tum:/a", "--set"}, {"publish.odom_frame", frame, "--set"}},
        {{"camera a_left-1.source", "tum:/a", "--set"}, {"output.trajectory", longest, "--set"}},
        {{"camera a_left-1.source", "tum:/a", "--set"}, {"output.map", longest, "--set"}}};
    for (size_t i = 0; i < sizeof set / sizeof *set; i++) {
        said[0] = 0;
        assert_int_equal(config_load(&config, NULL, set[i], 2, &sink), -EINVAL);
        assert_non_null(strstr(said, "--set: [camera a_left-1]: with the name in front"));
    }
    const struct config_assignment bad = {"camera a/b.source", "tum:/a", "--set"};
    assert_int_equal(config_load(&config, NULL, &bad, 1, &sink), -EINVAL);
}

static void reload_takes_what_may_change(void **state)
{
    (void)state;
    struct config config, fresh;
    assert_int_equal(parse(&config, "[recorder]\nfolder = /a\n[search]\nfolder = /b\n"), 0);
    assert_int_equal(parse(&fresh, "[log]\nlevel = debug\n[camera]\nfx = 500\n[map]\n"
                                   "folder = /c\n[search]\nfolder =\n"),
                     0);
    said[0] = 0;
    assert_int_equal(config_reload(&config, &fresh, &sink), 1);
    assert_int_equal(config.log.level, LOG_LEVEL_DEBUG);
    assert_true(config.capture.fx_px == 0);
    static const char *const told[] = {
        "camera.fx = 500 (test.conf:4) needs a restart; 0 (built-in) stays in force",
        "map.folder = /c (test.conf:6) needs a restart; nothing (built-in) stays in force",
        "recorder.folder = nothing (built-in) needs a restart; /a (test.conf:2) stays in force",
        "search.folder = nothing (test.conf:8) needs a restart; /b (test.conf:4) stays in force"};
    for (size_t i = 0; i < sizeof told / sizeof *told; i++)
        assert_non_null(strstr(said, told[i]));
}

// Addresses, and whether they are allowed without a key.
static const struct {
    const char *addresses;
    bool allowed;
} addresses[] = {
    {"ipc", true},
    {"", true},
    {"ipc tcp://127.0.0.1:5579", true},
    {"ipc tcp://127.0.0.1:5570", false}, // of endpoints.pub
    {"ipc ipc", false},
    {"tcp://localhost:1", true},
    {"tcp://[::1]:5570", true},
    {"tcp://127.1.2.3:*", true},
    {"tcp://0.0.0.0:5570", false},
    {"tcp://*:5570", false},
    {"tcp://192.168.1.2:5570", false},
    {"tcp://127.0.0.1.example.org:5570", false},
    {"tcp://localhost.example.org:5570", false},
    {"tcp://[::]:5570", false},
    {"ipc tcp://eth0:5570", false},
    {"tcp://127.0.0.1", false},
    {"tcp://127.0.0.1:0", false},
    {"tcp://127.256.0.1:1", false},
    {"tcp://127.0.256.1:1", false},
    {"tcp://127.0.0.256:1", false},
    {"tcp://127.0.0:1", false},
    {"tcp://lo:1", true},
    {"tcp://:5570", false},
    {"tcp://", false},
    {"tcp://127.0.0.1:65536", false},
    {"tcp://127.0.0.1:12x", false},
    {"udp://127.0.0.1:5570", false},
    {"5570", false},
};

static void only_loopback_without_a_key(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof addresses / sizeof addresses[0]; i++) {
        struct config config;
        config_default(&config);
        snprintf(config.endpoints.req, sizeof config.endpoints.req, "%s", addresses[i].addresses);
        int expected = addresses[i].allowed ? 0 : -EINVAL;
        if (endpoint_check(&config, &sink) != expected)
            print_error("%s\n", addresses[i].addresses);
        assert_int_equal(endpoint_check(&config, &sink), expected);
    }
    struct config config;
    config_default(&config);
    snprintf(config.endpoints.pub, sizeof config.endpoints.pub, "tcp://*:5570");
    config.endpoints.insecure = true;
    assert_int_equal(endpoint_check(&config, &sink), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(file_in_tree_equals_the_defaults),
        cmocka_unit_test(defaults_are_valid),
        cmocka_unit_test(values_arrive),
        cmocka_unit_test(mistakes_are_named),
        cmocka_unit_test(cameras_are_refused),
        cmocka_unit_test(cameras_have_settings_of_their_own),
        cmocka_unit_test(rigs_have_fields),
        cmocka_unit_test(lines_may_be_indented),
        cmocka_unit_test(second_values_are_told),
        cmocka_unit_test(one_mistake_does_not_hide_the_next),
        cmocka_unit_test(mistyped_variables_are_told),
        cmocka_unit_test(long_lines_and_zero_bytes),
        cmocka_unit_test(later_sources_win),
        cmocka_unit_test(files_that_are_none),
        cmocka_unit_test(names_need_room),
        cmocka_unit_test(reload_takes_what_may_change),
        cmocka_unit_test(only_loopback_without_a_key),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
