// SPDX-License-Identifier: Apache-2.0
#include "daemon/objects.h"

#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "capture/recorder/recorder.h"
#include "daemon/objects_mesh.h"

#define SUFFIX      ".object"
#define MESH_SUFFIX ".ply"

struct entry {
    char name[OBJECTS_NAME_BYTES];
    struct search_object *object;
};

struct objects {
    struct search *search;
    struct log_sink log;
    char folder[256];
    struct entry entries[OBJECTS_MAX];
    size_t n_entries;
};

static void make_path(const struct objects *objects, const char *name, const char *suffix,
                      char *out, size_t size_bytes)
{
    snprintf(out, size_bytes, "%s/%s%s", objects->folder, name, suffix);
}

// The views of a damaged file, drawn again from the mesh beside it.
static int build_again(struct objects *objects, const char *path, struct entry *entry)
{
    char mesh_path[512];
    struct search_mesh mesh;
    struct search_object_settings settings;
    make_path(objects, entry->name, MESH_SUFFIX, mesh_path, sizeof mesh_path);
    search_object_settings_default(&settings);
    int error = objects_mesh_load(mesh_path, &objects->log, &mesh, &settings);
    if (!error)
        log_to(&objects->log, LOG_LEVEL_WARNING, "%s: its %u views are drawn again from %s", path,
               settings.n_views, mesh_path);
    if (!error)
        error = search_object_create(objects->search, &mesh, &settings, &entry->object);
    objects_mesh_free(&mesh);
    if (!error && search_object_save(entry->object, path, &objects->log) != 0)
        log_to(&objects->log, LOG_LEVEL_WARNING, "%s stays damaged", path);
    return error;
}

static void load_one(struct objects *objects, const char *file)
{
    struct entry *entry = &objects->entries[objects->n_entries];
    char path[512];
    size_t n = strlen(file), n_suffix = strlen(SUFFIX);
    if (n <= n_suffix || n - n_suffix >= sizeof entry->name ||
        strcmp(file + n - n_suffix, SUFFIX) != 0 || objects->n_entries == OBJECTS_MAX)
        return;
    snprintf(entry->name, sizeof entry->name, "%.*s", (int)(n - n_suffix), file);
    if (!recorder_name_is_plain(entry->name))
        return;
    make_path(objects, entry->name, SUFFIX, path, sizeof path);
    int error = search_object_load(objects->search, path, &entry->object);
    if (error == -EBADMSG)
        error = build_again(objects, path, entry);
    if (error)
        log_to(&objects->log, LOG_LEVEL_WARNING, "%s: not loaded (%s); add the object again", path,
               strerror(-error));
    else
        objects->n_entries++;
}

static void load_folder(struct objects *objects)
{
    struct dirent **files;
    int n = scandir(objects->folder, &files, NULL, alphasort);
    for (int i = 0; i < n; i++) {
        load_one(objects, files[i]->d_name);
        free(files[i]);
    }
    if (n >= 0)
        free(files);
}

int objects_create(struct objects **out, const struct search_settings *settings, const char *folder,
                   const struct log_sink *log)
{
    *out = NULL;
    struct objects *objects = calloc(1, sizeof *objects);
    if (!objects)
        return -ENOMEM;
    objects->log = *log;
    snprintf(objects->folder, sizeof objects->folder, "%s", folder);
    int error = search_open(&objects->search, settings);
    if (error) {
        free(objects);
        return error;
    }
    if (folder[0])
        load_folder(objects);
    *out = objects;
    return 0;
}

void objects_destroy(struct objects **objects)
{
    struct objects *o = *objects;
    if (!o)
        return;
    for (size_t i = 0; i < o->n_entries; i++)
        search_object_destroy(o->search, &o->entries[i].object);
    search_close(&o->search);
    free(o);
    *objects = NULL;
}

int objects_add(struct objects *objects, const char *name, const struct search_mesh *mesh,
                const struct search_object_settings *settings)
{
    char path[512], mesh_path[512];
    if (objects_find(objects, name) >= 0)
        return -EEXIST;
    if (objects->n_entries == OBJECTS_MAX)
        return -ENOSPC;
    struct entry *entry = &objects->entries[objects->n_entries];
    int error = search_object_create(objects->search, mesh, settings, &entry->object);
    if (error)
        return error;
    snprintf(entry->name, sizeof entry->name, "%s", name);
    objects->n_entries++;
    make_path(objects, name, SUFFIX, path, sizeof path);
    make_path(objects, name, MESH_SUFFIX, mesh_path, sizeof mesh_path);
    if (objects->folder[0] && (search_object_save(entry->object, path, &objects->log) != 0 ||
                               objects_mesh_save(mesh_path, mesh, settings, &objects->log) != 0)) {
        log_to(&objects->log, LOG_LEVEL_WARNING, "%s is known, but could not be kept in %s", name,
               objects->folder);
        return OBJECTS_NOT_KEPT;
    }
    return 0;
}

int objects_remove(struct objects *objects, const char *name)
{
    char path[512];
    long i = objects_find(objects, name);
    if (i < 0)
        return -ENOENT;
    search_object_destroy(objects->search, &objects->entries[i].object);
    objects->n_entries--;
    memmove(&objects->entries[i], &objects->entries[i + 1],
            (objects->n_entries - (size_t)i) * sizeof objects->entries[0]);
    static const char *const suffixes[] = {SUFFIX, MESH_SUFFIX};
    for (size_t k = 0; k < sizeof suffixes / sizeof *suffixes && objects->folder[0]; k++) {
        make_path(objects, name, suffixes[k], path, sizeof path);
        if (unlink(path) != 0 && errno != ENOENT)
            log_to(&objects->log, LOG_LEVEL_WARNING, "%s: %s", path, strerror(errno));
    }
    return 0;
}

size_t objects_count(const struct objects *objects)
{
    return objects->n_entries;
}

const char *objects_name(const struct objects *objects, size_t i)
{
    return i < objects->n_entries ? objects->entries[i].name : NULL;
}

const struct search_object *objects_get(const struct objects *objects, size_t i)
{
    return i < objects->n_entries ? objects->entries[i].object : NULL;
}

long objects_find(const struct objects *objects, const char *name)
{
    for (size_t i = 0; i < objects->n_entries; i++)
        if (strcmp(objects->entries[i].name, name) == 0)
            return (long)i;
    return -1;
}

struct search *objects_search(struct objects *objects)
{
    return objects->search;
}
