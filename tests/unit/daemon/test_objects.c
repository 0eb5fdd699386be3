// SPDX-License-Identifier: Apache-2.0
// The daemon's folder of objects: what comes back after a new start, also when a file was damaged.
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "daemon/objects.h"
#include "daemon/objects_mesh.h"

#define N_VIEWS 128 // not what objects have that do not say how many

// A box with a corner cut off, without symmetry [m].
static const float vertices_m[] = {0, 0,     0,     0.2f,  0,     0,     0.2f,  0.12f,
                                   0, 0,     0.12f, 0,     0,     0,     0.06f, 0.2f,
                                   0, 0.06f, 0.2f,  0.12f, 0.02f, 0.05f, 0.12f, 0.06f};
static const uint32_t triangles[] = {0, 2, 1, 0, 3, 2, 4, 5, 6, 4, 6, 7, 0, 1, 5, 0, 5, 4,
                                     1, 2, 6, 1, 6, 5, 2, 3, 7, 2, 7, 6, 3, 0, 4, 3, 4, 7};
static const struct search_mesh box = {vertices_m, triangles, 8, 12};

struct folder {
    char at[64], views[96], mesh[96];
    char log[8192];
};

static void keep_line(void *user, enum log_level level, const char *line)
{
    (void)level;
    struct folder *folder = user;
    const size_t n = strlen(folder->log);
    snprintf(folder->log + n, sizeof folder->log - n, "%s\n", line);
}

static void setup(struct folder *out)
{
    memset(out, 0, sizeof *out);
    snprintf(out->at, sizeof out->at, "/tmp/posed-objects-XXXXXX");
    assert_non_null(mkdtemp(out->at));
    snprintf(out->views, sizeof out->views, "%s/box.object", out->at);
    snprintf(out->mesh, sizeof out->mesh, "%s/box.ply", out->at);
}

static struct objects *open_folder(struct folder *folder)
{
    struct search_settings settings;
    struct objects *objects;
    search_settings_default(&settings);
    settings.backend = GPU_BACKEND_CPU;
    const struct log_sink log = {keep_line, folder};
    folder->log[0] = '\0';
    assert_int_equal(objects_create(&objects, &settings, folder->at, &log), 0);
    return objects;
}

static void add_box(struct folder *folder)
{
    struct objects *objects = open_folder(folder);
    struct search_object_settings settings;
    search_object_settings_default(&settings);
    settings.n_views = N_VIEWS;
    assert_int_equal(objects_add(objects, "box", &box, &settings), 0);
    objects_destroy(&objects);
}

static void damage(const char *path)
{
    FILE *file = fopen(path, "r+b");
    assert_non_null(file);
    assert_int_equal(fseek(file, 5000, SEEK_SET), 0);
    assert_int_equal(fwrite("damage", 6, 1, file), 1);
    assert_int_equal(fclose(file), 0);
}

static void mesh_comes_back(void **unused)
{
    (void)unused;
    struct folder folder;
    struct search_mesh mesh;
    struct search_object_settings settings, read;
    search_object_settings_default(&settings);
    search_object_settings_default(&read);
    settings.n_views = 1234;
    settings.choice = SEARCH_CHOICE_GREEDY;
    setup(&folder);
    const struct log_sink log = {keep_line, &folder};
    assert_int_equal(objects_mesh_load(folder.mesh, &log, &mesh, &read), -ENOENT);
    assert_int_equal(objects_mesh_save(folder.mesh, &box, &settings, &log), 0);
    assert_int_equal(objects_mesh_load(folder.mesh, &log, &mesh, &read), 0);
    assert_int_equal(read.n_views, 1234);
    assert_int_equal(read.choice, SEARCH_CHOICE_GREEDY);
    assert_int_equal(mesh.n_vertices, box.n_vertices);
    assert_int_equal(mesh.n_triangles, box.n_triangles);
    assert_memory_equal(mesh.vertices_m, vertices_m, sizeof vertices_m);
    assert_memory_equal(mesh.triangles, triangles, sizeof triangles);
    objects_mesh_free(&mesh);
    const struct search_mesh points = {vertices_m, triangles, 8, 0};
    assert_int_equal(objects_mesh_save(folder.mesh, &points, &settings, &log), 0);
    assert_int_equal(objects_mesh_load(folder.mesh, &log, &mesh, &read), 0);
    assert_int_equal(mesh.n_vertices, 8);
    assert_int_equal(mesh.n_triangles, 0);
    objects_mesh_free(&mesh);
    const struct search_mesh nothing = {vertices_m, triangles, 0, 0};
    assert_int_equal(objects_mesh_save(folder.mesh, &nothing, &settings, &log), 0);
    assert_int_not_equal(objects_mesh_load(folder.mesh, &log, &mesh, &read), 0);
    assert_int_not_equal(objects_mesh_save("/nowhere/box.ply", &box, &settings, &log), 0);
    assert_int_equal(unlink(folder.mesh), 0);
    assert_int_equal(rmdir(folder.at), 0);
}

static void damaged_views_are_drawn_again(void **unused)
{
    (void)unused;
    struct folder folder;
    setup(&folder);
    add_box(&folder);
    damage(folder.views);
    for (int start = 0; start < 2; start++) {
        struct objects *objects = open_folder(&folder);
        assert_int_equal(objects_count(objects), 1);
        assert_string_equal(objects_name(objects, 0), "box");
        struct search_object_info info;
        search_object_describe(objects_get(objects, 0), &info);
        assert_int_equal(info.n_views, N_VIEWS); // as many as it was added with
        assert_true((strstr(folder.log, "drawn again from") != NULL) == (start == 0));
        objects_destroy(&objects);
    }
    struct objects *objects = open_folder(&folder);
    assert_int_equal(objects_remove(objects, "box"), 0);
    objects_destroy(&objects);
    assert_int_equal(rmdir(folder.at), 0); // nothing is left behind
}

static void without_its_mesh_it_is_wanted_again(void **unused)
{
    (void)unused;
    struct folder folder;
    setup(&folder);
    add_box(&folder);
    damage(folder.views);
    assert_int_equal(unlink(folder.mesh), 0);
    struct objects *objects = open_folder(&folder);
    assert_int_equal(objects_count(objects), 0);
    assert_non_null(strstr(folder.log, "add the object again"));
    objects_destroy(&objects);
    assert_int_equal(unlink(folder.views), 0);
    assert_int_equal(rmdir(folder.at), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(mesh_comes_back),
        cmocka_unit_test(damaged_views_are_drawn_again),
        cmocka_unit_test(without_its_mesh_it_is_wanted_again),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
