// SPDX-License-Identifier: Apache-2.0
#include "daemon/objects_mesh.h"

#include <endian.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "capture/cloud/cloud.h"

static void put_le(FILE *file, uint32_t word)
{
    word = htole32(word);
    fwrite(&word, sizeof word, 1, file);
}

#define VIEWS_COMMENT "comment views %u choice %d\n"

static void write_ply(FILE *file, const struct search_mesh *mesh,
                      const struct search_object_settings *settings)
{
    fprintf(file, "ply\nformat binary_little_endian 1.0\n" VIEWS_COMMENT, settings->n_views,
            (int)settings->choice);
    fprintf(file,
            "element vertex %zu\nproperty float x\n"
            "property float y\nproperty float z\nelement face %zu\n"
            "property list uchar uint vertex_indices\nend_header\n",
            mesh->n_vertices, mesh->n_triangles);
    for (size_t i = 0; i < 3 * mesh->n_vertices; i++) {
        uint32_t word;
        memcpy(&word, &mesh->vertices_m[i], sizeof word);
        put_le(file, word);
    }
    for (size_t i = 0; i < 3 * mesh->n_triangles; i++) {
        if (i % 3 == 0)
            fputc(3, file);
        put_le(file, mesh->triangles[i]);
    }
}

int objects_mesh_save(const char *path, const struct search_mesh *mesh,
                      const struct search_object_settings *settings, const struct log_sink *log)
{
    char beside[512];
    if (snprintf(beside, sizeof beside, "%s.part", path) >= (int)sizeof beside)
        return -ENAMETOOLONG;
    FILE *file = fopen(beside, "wb");
    int error = file ? 0 : -errno;
    if (file) {
        errno = 0;
        write_ply(file, mesh, settings);
        error = ferror(file) ? (errno ? -errno : -EIO) : 0;
        if (fclose(file) != 0 && !error)
            error = -errno;
        if (!error && rename(beside, path) != 0)
            error = -errno;
        if (error)
            unlink(beside);
    }
    if (error)
        log_to(log, LOG_LEVEL_WARNING, "%s: cannot write: %s", path, strerror(-error));
    return error;
}

// The comment is the file's third line.
static void read_settings(const char *path, struct search_object_settings *out)
{
    FILE *file = fopen(path, "rb");
    char line[80] = "";
    uint32_t n_views;
    int choice;
    for (int i = 0; file && i < 3; i++)
        if (!fgets(line, sizeof line, file))
            line[0] = '\0';
    if (sscanf(line, VIEWS_COMMENT, &n_views, &choice) == 2) {
        out->n_views = n_views;
        out->choice = choice == SEARCH_CHOICE_GREEDY ? SEARCH_CHOICE_GREEDY : SEARCH_CHOICE_EVEN;
    }
    if (file)
        fclose(file);
}

int objects_mesh_load(const char *path, const struct log_sink *log, struct search_mesh *out,
                      struct search_object_settings *settings)
{
    struct cloud cloud;
    memset(out, 0, sizeof *out);
    int error = cloud_read(path, log, &cloud);
    if (error)
        return error;
    float *vertices_m = cloud.n_points ? malloc(3 * cloud.n_points * sizeof *vertices_m) : NULL;
    for (size_t i = 0; vertices_m && i < cloud.n_points; i++) {
        vertices_m[3 * i] = cloud.x_m[i];
        vertices_m[3 * i + 1] = cloud.y_m[i];
        vertices_m[3 * i + 2] = cloud.z_m[i];
    }
    if (vertices_m) {
        *out = (struct search_mesh){vertices_m, cloud.triangles, cloud.n_points, cloud.n_triangles};
        cloud.triangles = NULL; // out's now
        read_settings(path, settings);
    } else {
        error = cloud.n_points ? -ENOMEM : -EINVAL;
        log_to(log, LOG_LEVEL_WARNING, "%s: %s", path,
               error == -EINVAL ? "no points" : "no memory");
    }
    cloud_free(&cloud);
    return error;
}

void objects_mesh_free(struct search_mesh *mesh)
{
    free((void *)(uintptr_t)mesh->vertices_m);
    free((void *)(uintptr_t)mesh->triangles);
    memset(mesh, 0, sizeof *mesh);
}
