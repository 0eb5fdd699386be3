// SPDX-License-Identifier: Apache-2.0
#include "tools/posectl/objects.h"
#include "tools/posectl/progress.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "capture/cloud/cloud.h"
#include "proto/file_suffix.h"
#include "tools/posectl/posectl.h"

#define SUFFIX ".object"
#define MESH   ".ply"
#define KEPT   ".kept" // an empty file beside a mesh that was there before its object

// Of an object: its views, what they were made of, and whether that is to stay.
struct object_files {
    char views[4096], mesh[4096], kept[4096];
};

// For a message that names a command: the option that names the folder, or nothing.
static const char *folder_option(const struct objects *objects)
{
    static char text[3072];
    if (objects->folder)
        snprintf(text, sizeof text, " --objects %s", objects->folder);
    return text;
}

bool objects_is_name(const char *name)
{
    size_t n = strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-");
    return n > 0 && n <= 64 && name[n] == 0;
}

// The folder of the objects, made when missing: --objects, POSED_OBJECTS, or the user's data
// folder.
static int find_folder(const struct objects *objects, char *out, size_t size)
{
    const char *variable = getenv("POSED_OBJECTS");
    const char *asked = objects->folder ? objects->folder : variable && *variable ? variable : NULL;
    const char *data = getenv("XDG_DATA_HOME"), *home = getenv("HOME");
    int n;
    if (asked)
        n = snprintf(out, size, "%s", asked);
    else if (data && data[0] == '/')
        n = snprintf(out, size, "%s/posed/objects", data);
    else
        n = snprintf(out, size, "%s/.local/share/posed/objects", home ? home : "");
    if (n < 0 || (size_t)n >= size)
        return -ENAMETOOLONG;
    for (char *slash = strchr(out + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
        *slash = 0;
        mkdir(out, 0777);
        *slash = '/';
    }
    if (mkdir(out, 0777) != 0 && errno != EEXIST)
        return -errno;
    return 0;
}

static int object_path(const struct objects *objects, const char *name, const char *suffix,
                       char *out, size_t size)
{
    char folder[3072];
    int err = find_folder(objects, folder, sizeof folder);
    if (err) {
        posectl_complain("%s: %s", folder, strerror(-err));
        return err;
    }
    return snprintf(out, size, "%s/%s%s", folder, name, suffix) < (int)size ? 0 : -ENAMETOOLONG;
}

static int find_files(const struct objects *objects, const char *name, struct object_files *out)
{
    int err = object_path(objects, name, SUFFIX, out->views, sizeof out->views);
    if (!err)
        err = object_path(objects, name, MESH, out->mesh, sizeof out->mesh);
    return err ? err : object_path(objects, name, KEPT, out->kept, sizeof out->kept);
}

static int show_progress(void *user, uint32_t n_done, uint32_t n_views)
{
    (void)user;
    if (n_done < n_views)
        progress_show((double)n_done / n_views, "drawing views");
    else
        progress_end();
    return 0;
}

int objects_read_mesh(const char *path, struct search_mesh *out)
{
    struct cloud cloud;
    memset(out, 0, sizeof *out);
    int err = cloud_read(path, &posectl_log, &cloud);
    if (err)
        return err;
    float *vertices_m = malloc((cloud.n_points + 1) * 3 * sizeof *vertices_m);
    err = vertices_m ? 0 : -ENOMEM;
    for (size_t i = 0; !err && i < cloud.n_points; i++) {
        vertices_m[3 * i] = cloud.x_m[i];
        vertices_m[3 * i + 1] = cloud.y_m[i];
        vertices_m[3 * i + 2] = cloud.z_m[i];
    }
    *out = (struct search_mesh){vertices_m, cloud.triangles, cloud.n_points, cloud.n_triangles};
    cloud.triangles = NULL; // the caller's now
    cloud_free(&cloud);
    return err;
}

void objects_free_mesh(struct search_mesh *mesh)
{
    free((void *)(uintptr_t)mesh->vertices_m);
    free((void *)(uintptr_t)mesh->triangles);
}

int objects_build(const struct objects *objects, struct search *search, const char *path,
                  const struct search_mesh *mesh, struct search_object **out)
{
    struct search_object_settings settings;
    search_object_settings_default(&settings);
    settings.n_views = objects->n_views;
    settings.choice = objects->choice;
    settings.progress = show_progress;
    int err = search_object_create(search, mesh, &settings, out);
    if (err == -EINVAL)
        posectl_complain("%s: no object can be made of it", path);
    return err;
}

static int build_from_file(const struct objects *objects, struct search *search, const char *path,
                           struct search_object **out)
{
    struct search_mesh mesh;
    int err = objects_read_mesh(path, &mesh);
    if (!err)
        err = objects_build(objects, search, path, &mesh, out);
    objects_free_mesh(&mesh);
    return err;
}

int objects_open(const struct objects *objects, struct search *search, const char *name,
                 struct search_object **out)
{
    struct object_files files;
    if (!objects_is_name(name))
        return build_from_file(objects, search, name, out);
    int err = find_files(objects, name, &files);
    if (!err)
        err = search_object_load(search, files.views, out);
    if (err == -ENOENT)
        posectl_complain("no object \"%s\" here: posectl object list --local%s shows those there "
                         "are",
                         name, folder_option(objects));
    if (err != -EBADMSG)
        return err;
    posectl_complain("%s: its views are drawn again from %s", name, files.mesh);
    err = build_from_file(objects, search, files.mesh, out);
    return err ? err : search_object_save(*out, files.views, &posectl_log);
}

int objects_open_search(const struct objects *objects, struct search **out)
{
    struct search_settings settings;
    search_settings_default(&settings);
    settings.backend = objects->backend;
    settings.log = posectl_log;
    return search_open(out, &settings);
}

static bool is_one_file(const char *path, const char *other)
{
    struct stat a, b;
    return stat(path, &a) == 0 && stat(other, &b) == 0 && a.st_dev == b.st_dev &&
           a.st_ino == b.st_ino;
}

static int copy_file(const char *from, const char *to)
{
    FILE *in = fopen(from, "rb"), *out = in ? fopen(to, "wb") : NULL;
    int err = in && out ? 0 : -errno;
    static char buffer[1 << 16];
    size_t n;
    while (!err && (n = fread(buffer, 1, sizeof buffer, in)) > 0)
        err = fwrite(buffer, 1, n, out) == n ? 0 : -EIO;
    if (in)
        fclose(in);
    if (out && fclose(out) != 0 && !err)
        err = -EIO;
    if (err && out)
        unlink(to);
    if (err)
        posectl_complain("%s: cannot copy to %s: %s", from, to, strerror(-err));
    return err;
}

// What is in the folder already is not written over.
static int check_new(const struct objects *objects, const struct object_files *files,
                     const char *name, const char *file)
{
    if (access(files->views, F_OK) == 0) {
        posectl_complain("%s: there is an object of this name: posectl object remove --local%s "
                         "%s",
                         files->views, folder_option(objects), name);
        return -EEXIST;
    }
    if (access(files->mesh, F_OK) == 0 && !is_one_file(file, files->mesh)) {
        posectl_complain("%s: is there already, and a copy of %s would take its place: move it "
                         "away, or choose another name",
                         files->mesh, file);
        return -EEXIST;
    }
    return 0;
}

// The mesh beside the views: a copy, or the one that lies there already and will stay.
static int put_mesh(const struct object_files *files, const char *file)
{
    if (!is_one_file(file, files->mesh)) {
        unlink(files->kept);
        return copy_file(file, files->mesh);
    }
    FILE *kept = fopen(files->kept, "w");
    if (kept && fclose(kept) == 0)
        return 0;
    const int err = -errno;
    posectl_complain("%s: %s", files->kept, strerror(-err));
    return err;
}

static void drop_mesh(const struct object_files *files)
{
    if (unlink(files->kept) != 0 && errno == ENOENT)
        unlink(files->mesh);
}

int objects_add(const struct objects *objects, struct search *search, const char *name,
                const char *file, struct search_object_info *out)
{
    struct object_files files;
    if (!file_suffix_is(file, MESH)) {
        posectl_complain("%s: a PLY file is wanted (a mesh, or points of its surface)", file);
        return -EINVAL;
    }
    struct search_object *object = NULL;
    int err = find_files(objects, name, &files);
    if (!err)
        err = check_new(objects, &files, name, file);
    if (!err)
        err = build_from_file(objects, search, file, &object);
    if (!err)
        err = put_mesh(&files, file);
    if (!err) {
        search_object_describe(object, out);
        err = search_object_save(object, files.views, &posectl_log);
        if (err)
            drop_mesh(&files);
    }
    search_object_destroy(search, &object);
    return err;
}

static int is_object(const struct dirent *entry)
{
    return file_suffix_is(entry->d_name, SUFFIX);
}

int objects_visit_names(const struct objects *objects, int (*visit)(void *user, const char *name),
                        void *user)
{
    char folder[3072];
    struct dirent **entries = NULL;
    int err = find_folder(objects, folder, sizeof folder);
    int n = err ? -1 : scandir(folder, &entries, is_object, alphasort);
    if (n < 0) {
        posectl_complain("%s: %s", folder, strerror(err ? -err : errno));
        return -ENOENT;
    }
    for (int i = 0; i < n; i++) {
        entries[i]->d_name[strlen(entries[i]->d_name) - strlen(SUFFIX)] = 0;
        if (!err && objects_is_name(entries[i]->d_name))
            err = visit(user, entries[i]->d_name);
        free(entries[i]);
    }
    free(entries);
    return err;
}

struct listing {
    const struct objects *objects;
    struct search *search;
    void (*visit)(void *user, const char *name, const struct search_object_info *info);
    void *user;
};

static int describe(void *user, const char *name)
{
    const struct listing *listing = user;
    struct search_object *object = NULL;
    struct search_object_info info;
    if (objects_open(listing->objects, listing->search, name, &object) != 0)
        return 0;
    search_object_describe(object, &info);
    listing->visit(listing->user, name, &info);
    search_object_destroy(listing->search, &object);
    return 0;
}

int objects_list(const struct objects *objects, struct search *search,
                 void (*visit)(void *user, const char *name, const struct search_object_info *info),
                 void *user)
{
    struct listing listing = {objects, search, visit, user};
    return objects_visit_names(objects, describe, &listing);
}

int objects_remove(const struct objects *objects, const char *name)
{
    struct object_files files;
    int err = find_files(objects, name, &files);
    if (!err && unlink(files.views) != 0) {
        err = -errno;
        posectl_complain("no object \"%s\"", name);
    }
    if (!err)
        drop_mesh(&files);
    return err;
}
