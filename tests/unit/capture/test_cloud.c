// SPDX-License-Identifier: Apache-2.0
// The readers of point clouds: what they read, and that bad files are refused with the place named.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "capture/cloud/cloud.h"
#include "capture/cloud/pcd.h"
#include "capture/cloud/ply.h"

static char last_line[1024];

static void remember(void *user, enum log_level level, const char *line)
{
    (void)user;
    (void)level;
    snprintf(last_line, sizeof last_line, "%s", line);
}

static const struct log_sink sink = {remember, NULL};

static int parse_ply(const char *text, struct cloud *out)
{
    last_line[0] = 0;
    return ply_parse(text, strlen(text), "a.ply", &sink, out);
}

#define HEAD_XYZ "property float x\nproperty float y\nproperty float z\n"

static void ply_ascii_with_normals_and_polygons(void **state)
{
    (void)state;
    struct cloud cloud;
    assert_int_equal(
        parse_ply("ply\r\nformat ascii 1.0\r\ncomment made by hand\r\nelement vertex 4\r\n"
                  "property double x\r\nproperty uchar red\r\nproperty float y\r\n"
                  "property float z\r\nproperty float nx\r\nproperty float ny\r\n"
                  "property float nz\r\nelement face 2\r\n"
                  "property list uchar int vertex_indices\r\nend_header\r\n"
                  "0 255 0 0 0 0 1\r\n1 255 0 0 0 0 1\r\n1 0 1 0 0 0 1\r\n0 1 1.5 -2e-3 0 0 1\r\n"
                  "4 0 1 2 3\r\n3 2 1 0\r\n",
                  &cloud),
        0);
    assert_int_equal(cloud.n_points, 4);
    assert_float_equal(cloud.y_m[3], 1.5f, 0);
    assert_float_equal(cloud.z_m[3], -2e-3f, 0);
    assert_float_equal(cloud.nz[2], 1, 0);
    assert_int_equal(cloud.n_triangles, 3);
    const uint32_t expected[9] = {0, 1, 2, 0, 2, 3, 2, 1, 0};
    assert_memory_equal(cloud.triangles, expected, sizeof expected);
    cloud_free(&cloud);
}

static void ply_both_byte_orders(void **state)
{
    (void)state;
    static const char *const orders[] = {"little", "big"};
    const float points[6] = {1, -2, 3.5f, 4, 5e-3f, -6};
    for (int big = 0; big < 2; big++) {
        uint8_t file[512];
        int n = snprintf((char *)file, sizeof file,
                         "ply\nformat binary_%s_endian 1.0\nelement range_grid 2\n"
                         "property list uchar short vertex_indices\nelement vertex 2\n" HEAD_XYZ
                         "element face 1\nproperty list uchar ushort vertex_index\nend_header\n",
                         orders[big]);
        uint8_t *at = file + n;
        *at++ = 0; // a grid place without a vertex
        *at++ = 1;
        *at++ = 0, *at++ = 0;
        for (int i = 0; i < 6; i++) {
            uint32_t bits;
            memcpy(&bits, &points[i], 4);
            for (int k = 0; k < 4; k++)
                *at++ = (uint8_t)(bits >> (big ? 24 - 8 * k : 8 * k));
        }
        *at++ = 3;
        for (int i = 0; i < 3; i++) {
            *at++ = big ? 0 : (i == 1);
            *at++ = big ? (i == 1) : 0;
        }
        struct cloud cloud;
        assert_int_equal(ply_parse(file, (size_t)(at - file), "b.ply", &sink, &cloud), 0);
        assert_int_equal(cloud.n_points, 2);
        assert_float_equal(cloud.x_m[1], 4, 0);
        assert_float_equal(cloud.y_m[1], 5e-3f, 0);
        assert_float_equal(cloud.z_m[0], 3.5f, 0);
        assert_null(cloud.nx);
        assert_int_equal(cloud.n_triangles, 1);
        assert_int_equal(cloud.triangles[1], 1);
        cloud_free(&cloud);
        // Every truncation is refused and names the byte.
        for (size_t cut = (size_t)n; cut < (size_t)(at - file); cut++) {
            assert_int_equal(ply_parse(file, cut, "b.ply", &sink, &cloud), -EINVAL);
            assert_non_null(strstr(last_line, "b.ply: byte "));
        }
    }
}

#define PLY_ASCII "ply\nformat ascii 1.0\n"
#define PLY_FACES "element face 1\nproperty list int float vertex_indices\nend_header\n"
#define PLY_GRID  "obj_info num_cols 2\nobj_info num_rows 1\nelement vertex 1\n" HEAD_XYZ
#define PLY_CELLS "property list uchar int vertex_indices\nend_header\n"

static void ply_refuses(void **state)
{
    (void)state;
    static const struct {
        const char *text, *message;
    } cases[] = {
        {"", "a.ply:1: not a PLY file"},
        {"plywood\n", "a.ply:1: not a PLY file"},
        {"ply\n", "a.ply:2: the file ends inside the header"},
        {"ply\nelement vertex 1\n" HEAD_XYZ "end_header\n1 2 3\n", "without a format line"},
        {"ply\nformat ascii 2.0\nend_header\n", "a.ply:2: PLY version"},
        {"ply\nformat binary_middle_endian 1.0\nend_header\n", "a.ply:2: unknown format"},
        {"ply\nformat ascii 1.0\nelement vertex -1\n", "a.ply:3: element count"},
        {"ply\nformat ascii 1.0\nelement vertex 99999999999\n", "a.ply:3: element count"},
        {"ply\nformat ascii 1.0\nelement vertex 1\nproperty quad x\n", "a.ply:4: unknown property"},
        {"ply\nformat ascii 1.0\nproperty float x\n", "a.ply:3: property before"},
        {"ply\nformat ascii 1.0\nelement vertex 1\nproperty float x\nproperty float x\n", "twice"},
        {"ply\nformat ascii 1.0\nelement vertex 1\nproperty float x\nend_header\n1\n", "no x, y"},
        {"ply\nformat ascii 1.0\nend_header\n", "no element 'vertex'"},
        {"ply\nformat ascii 1.0\nelement vertex 9\n" HEAD_XYZ "end_header\n1 2 3\n", "larger than"},
        {"ply\nformat ascii 1.0\nelement vertex 2\n" HEAD_XYZ "end_header\n1 2 3\n1.2 3\n",
         "a.ply:10: the file ends"},
        {"ply\nformat ascii 1.0\nelement vertex 1\n" HEAD_XYZ "end_header\n1 two 3\n",
         "a.ply:8: not a number"},
        {"ply\nformat ascii 1.0\nelement vertex 1\n" HEAD_XYZ "end_header\n1 nan 3\n",
         "a.ply:8: coordinate is NaN"},
        {"ply\nformat ascii 1.0\nelement vertex 1\n" HEAD_XYZ "end_header\n1 1e99 3\n",
         "a.ply:8: coordinate is NaN"},
        {"ply\nformat ascii 1.0\nelement vertex 1\n" HEAD_XYZ
         "element face 1\nproperty list uchar int vertex_indices\nend_header\n1 2 3\n3 0 0 1\n",
         "a.ply:11: face names a vertex"},
        {"ply\nformat ascii 1.0\nelement vertex 1\n" HEAD_XYZ
         "element face 1\nproperty list uchar int vertex_indices\nend_header\n1 2 3\n9999 0\n",
         "a.ply:11: impossible number"},
        {PLY_ASCII "element vertex 1\nproperty list float int x\n", "a.ply:4: the count of a list"},
        {PLY_ASCII "element vertex 1\nelement vertex 1\n", "a.ply:4: element declared twice"},
        {PLY_ASCII "element vertex 1x\n", "a.ply:3: element count"},
        {PLY_ASCII "obj_info num_cols 0\n", "a.ply:3: side of the range grid"},
        {PLY_ASCII "obj_info num_rows 65537\n", "a.ply:3: side of the range grid"},
        {PLY_ASCII "obj_info num_rows -1\n", "a.ply:3: side of the range grid"},
        {PLY_ASCII "element vertex 1\n" HEAD_XYZ PLY_FACES "1 2 3\n-3 0 0 0\n",
         "impossible number"},
        {PLY_ASCII "element vertex 1\n" HEAD_XYZ PLY_FACES "1 2 3\n2.5 0 0 0\n", "impossible"},
        {PLY_ASCII "element vertex 1\n" HEAD_XYZ PLY_FACES "1 2 3\n3 0 0 -1\n", "face names"},
        {PLY_ASCII "element vertex 1\n" HEAD_XYZ PLY_FACES "1 2 3\n3 0 0.5 0\n", "face names"},
        {PLY_ASCII PLY_GRID "element range_grid 3\n" PLY_CELLS "1 2 3\n0\n0\n0\n",
         "num_cols times"},
        {PLY_ASCII PLY_GRID "element range_grid 2\n" PLY_CELLS "1 2 3\n2 0 0\n0\n",
         "more than one"},
        {PLY_ASCII PLY_GRID "element range_grid 2\n" PLY_CELLS "1 2 3\n1 1\n0\n", "face names"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct cloud cloud;
        assert_int_equal(parse_ply(cases[i].text, &cloud), -EINVAL);
        if (!strstr(last_line, cases[i].message))
            fail_msg("expected \"%s\", got \"%s\"", cases[i].message, last_line);
        assert_null(cloud.x_m);
    }
}

static void pcd_ascii_and_binary(void **state)
{
    (void)state;
    struct cloud cloud;
    const char *text = "# .PCD v.7\nVERSION .7\nFIELDS x y z rgb normal_x normal_y normal_z\n"
                       "SIZE 4 4 4 4 4 4 4\nTYPE F F F U F F F\nCOUNT 1 1 1 1 1 1 1\nWIDTH 3\n"
                       "HEIGHT 1\nVIEWPOINT 0 0 0 1 0 0 0\nPOINTS 3\nDATA ascii\n"
                       "1 2 3 77 0 0 1\nnan nan nan 0 nan nan nan\n4 5 6 78 1 0 0\n";
    assert_int_equal(pcd_parse(text, strlen(text), "c.pcd", &sink, &cloud), 0);
    assert_int_equal(cloud.n_points, 2);
    assert_float_equal(cloud.z_m[1], 6, 0);
    assert_float_equal(cloud.nx[1], 1, 0);
    assert_non_null(strstr(last_line, "1 of 3 points"));
    cloud_free(&cloud);

    uint8_t file[256];
    int n =
        snprintf((char *)file, sizeof file,
                 "FIELDS i x y z\nSIZE 2 4 4 8\nTYPE I F F F\nWIDTH 1\nHEIGHT 1\nDATA binary\n");
    const float xy[2] = {1.5f, -2.5f};
    const double z = 0.125;
    file[n] = file[n + 1] = 0xff;
    memcpy(file + n + 2, xy, 8); // the machines that run tests are little-endian
    memcpy(file + n + 10, &z, 8);
    assert_int_equal(pcd_parse(file, (size_t)n + 18, "d.pcd", &sink, &cloud), 0);
    assert_float_equal(cloud.y_m[0], -2.5f, 0);
    assert_float_equal(cloud.z_m[0], 0.125f, 0);
    cloud_free(&cloud);
    assert_int_equal(pcd_parse(file, (size_t)n + 17, "d.pcd", &sink, &cloud), -EINVAL);
    assert_non_null(strstr(last_line, "POINTS is larger"));
}

static void pcd_refuses(void **state)
{
    (void)state;
    static const struct {
        const char *text, *message;
    } cases[] = {
        {"", "ends inside the header"},
        {"FIELDS x y\nDATA ascii\n", "e.pcd:2: FIELDS has no x, y and z"},
        {"FIELDS x y z\nSIZE 4 3 4\n", "e.pcd:2: SIZE is not"},
        {"FIELDS x y z\nTYPE F F Q\n", "e.pcd:2: TYPE is not"},
        {"FIELDS x y z\nCOUNT 1 1 2\n", "e.pcd:2: COUNT of a coordinate"},
        {"FIELDS x y z x\n", "e.pcd:1: field named twice"},
        {"FIELDS x y z\nDATA binary_compressed\n", "e.pcd:2: DATA is neither"},
        {"FIELDS x y z\nPOINTS 7\nDATA ascii\n1 2 3\n", "POINTS is larger"},
        {"FIELDS x y z\nPOINTS 2\nDATA ascii\n1 2 3\n1 2\n", "e.pcd:5: a point has too few"},
        {"FIELDS x y z\nPOINTS 1\nDATA ascii\n1 2 c\n", "e.pcd:4: not a number"},
        {"NONSENSE\n", "e.pcd:1: unknown word"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct cloud cloud;
        assert_int_equal(pcd_parse(cases[i].text, strlen(cases[i].text), "e.pcd", &sink, &cloud),
                         -EINVAL);
        if (!strstr(last_line, cases[i].message))
            fail_msg("expected \"%s\", got \"%s\"", cases[i].message, last_line);
    }
}

static void text_reads_points_and_normals(void **state)
{
    (void)state;
    struct cloud cloud;
    const char *plain = "# x y z\n 1 2 3\r\n\n4,5,6\n7;8;9 # last\n";
    assert_int_equal(cloud_parse_text(plain, strlen(plain), "f.xyz", &sink, &cloud), 0);
    assert_int_equal(cloud.n_points, 3);
    assert_float_equal(cloud.y_m[2], 8, 0);
    assert_null(cloud.nx);
    cloud_free(&cloud);
    const char *normals = "1 2 3 0 0 1\n4 5 6 0 1 0", *colours = "1 2 3 255 0 1\n";
    assert_int_equal(cloud_parse_text(normals, strlen(normals), "f.xyz", &sink, &cloud), 0);
    assert_float_equal(cloud.ny[1], 1, 0);
    cloud_free(&cloud);
    assert_int_equal(cloud_parse_text(colours, strlen(colours), "f.xyz", &sink, &cloud), 0);
    assert_null(cloud.nx);
    cloud_free(&cloud);
    static const char *const bad[] = {"1 2 3\n1 2\n", "1 2 3\n1 b 3\n", "1 2 3\n1 inf 3\n"};
    for (int i = 0; i < 3; i++) {
        assert_int_equal(cloud_parse_text(bad[i], strlen(bad[i]), "f.xyz", &sink, &cloud), -EINVAL);
        assert_non_null(strstr(last_line, "f.xyz:2: "));
    }
}

static void written_ply_reads_back(void **state)
{
    (void)state;
    char path[] = "/tmp/posed_cloud_XXXXXX.ply";
    int fd = mkstemps(path, 4);
    assert_true(fd >= 0);
    close(fd);
    const float x[2] = {1, 2}, y[2] = {-3, 4}, z[2] = {5, -6.5f}, one[2] = {1, 1}, zero[2] = {0, 0};
    const struct point_set points = {x, y, z, zero, one, zero, 2};
    assert_int_equal(cloud_write_ply(path, &points, &sink), 0);
    struct cloud cloud;
    assert_int_equal(cloud_read(path, &sink, &cloud), 0);
    unlink(path);
    assert_int_equal(cloud.n_points, 2);
    assert_memory_equal(cloud.z_m, z, sizeof z);
    assert_memory_equal(cloud.ny, one, sizeof one);
    cloud_free(&cloud);
    assert_int_equal(cloud_read("/nonexistent/cloud.ply", &sink, &cloud), -ENOENT);
    assert_non_null(strstr(last_line, "/nonexistent/cloud.ply"));
}

static void full_disk_leaves_no_half_a_file(void **state)
{
    (void)state;
    // a limit of the file size fails the write like a full disk
    enum { N_POINTS = 5000 };
    static float zero[N_POINTS];
    const struct point_set points = {zero, zero, zero, .n_points = N_POINTS};
    char path[] = "/tmp/posed_cloud_XXXXXX.ply";
    int fd = mkstemps(path, 4);
    assert_true(fd >= 0);
    close(fd);
    struct rlimit old, small;
    signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &old), 0);
    small = (struct rlimit){10000, old.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
    char link[] = "/tmp/posed_cloud_XXXXXX.link"; // as /dev/stdout is
    memcpy(link, path, sizeof path - 5);
    assert_int_equal(symlink(path, link), 0);
    assert_true(cloud_write_ply(link, &points, &sink) < 0);
    assert_int_equal(unlink(link), 0); // it has stayed
    int rc = cloud_write_ply(path, &points, &sink);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &old), 0);
    assert_true(rc < 0);
    assert_non_null(strstr(last_line, "could not write"));
    assert_int_equal(access(path, F_OK), -1);
    assert_true(cloud_write_ply("/dev/full", &points, &sink) < 0);
    assert_int_equal(access("/dev/full", F_OK), 0); // even when root asks
}

static void written_pcd_reads_back(void **state)
{
    (void)state;
    float x[] = {1, 2}, y[] = {3, 4}, z[] = {5, 6}, one[] = {1, 0}, zero[] = {0, 1},
          none[] = {0, 0};
    const struct point_set sets[] = {{x, y, z, NULL, NULL, NULL, 2}, {x, y, z, one, zero, none, 2}};
    char folder[] = "/tmp/posed-cloud-XXXXXX", path[64];
    const uint32_t triangle[3] = {0, 1, 1};
    assert_non_null(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/a.pcd", folder);
    for (size_t i = 0; i < 2; i++) {
        struct cloud cloud;
        assert_int_equal(cloud_write_pcd(path, &sets[i], &sink), 0);
        assert_int_equal(cloud_read(path, &sink, &cloud), 0);
        assert_int_equal(cloud.n_points, 2);
        assert_true(cloud.x_m[1] == 2 && cloud.z_m[0] == 5);
        assert_int_equal(cloud.nx != NULL, i == 1);
        assert_true(i == 0 || cloud.nx[0] == 1);
        cloud_free(&cloud);
    }
    // what is there is not written over by a mesh, and nothing is written where no folder is
    assert_int_equal(cloud_write_mesh(path, &sets[0], triangle, 1, &sink), -EEXIST);
    snprintf(path, sizeof path, "%s/none/a.pcd", folder);
    assert_int_equal(cloud_write_pcd(path, &sets[0], &sink), -ENOENT);
    assert_int_equal(cloud_write_ply(path, &sets[0], &sink), -ENOENT);
    snprintf(path, sizeof path, "%s/a.pcd", folder);
    unlink(path);
    rmdir(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ply_ascii_with_normals_and_polygons),
        cmocka_unit_test(ply_both_byte_orders),
        cmocka_unit_test(ply_refuses),
        cmocka_unit_test(pcd_ascii_and_binary),
        cmocka_unit_test(pcd_refuses),
        cmocka_unit_test(text_reads_points_and_normals),
        cmocka_unit_test(written_ply_reads_back),
        cmocka_unit_test(written_pcd_reads_back),
        cmocka_unit_test(full_disk_leaves_no_half_a_file),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
