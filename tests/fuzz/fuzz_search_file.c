// SPDX-License-Identifier: Apache-2.0
// An object's file of reference views: damage behind a checksum that holds. The input is a list of
// changes to a good file, as a file in the tree would be of another layout with each change of the
// structs: 8 bytes each, 4 for the place, 4 that are written there; a place behind the end cuts the
// file off. What is accepted is searched with.
#include <sys/mman.h>

#include "gpu/search/object/file.c" // its checksum

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes);

#define CHANGE_BYTES 8u
#define MAX_CHANGES  32u
#define WIDTH        64u
#define HEIGHT       48u

static struct search *search;
static int fd;
static char path[64];
static unsigned char *good, *changed;
static size_t n_good;

// Two views of a tetrahedron are enough.
static void build(void)
{
    static const float vertices_m[] = {0, 0, 0, 0.1f, 0, 0, 0, 0.1f, 0, 0, 0, 0.1f};
    static const uint32_t triangles[] = {0, 2, 1, 0, 1, 3, 0, 3, 2, 1, 2, 3};
    const struct search_mesh mesh = {vertices_m, triangles, 4, 4};
    const struct search_settings settings = {
        .backend = GPU_BACKEND_CPU, .n_threads = 1, .cuda_device = -1};
    struct search_object_settings views;
    struct search_object *object;
    char name[] = "/tmp/posed-fuzz-XXXXXX";
    int made = mkstemp(name);
    search_object_settings_default(&views);
    views.n_views = 64;
    if (made < 0 || search_open(&search, &settings) ||
        search_object_create(search, &mesh, &views, &object))
        abort();
    uint32_t n_views = object->n_views, n_chunks = object->n_chunks;
    object->n_views = object->info.n_views = 2;
    object->n_chunks = object->views[1].first_chunk + object->views[1].n_chunks;
    if (search_object_save(object, name, NULL))
        abort();
    object->n_views = object->info.n_views = n_views;
    object->n_chunks = n_chunks;
    search_object_destroy(search, &object);
    close(made);
    made = open(name, O_RDONLY | O_CLOEXEC);
    unlink(name);
    struct stat status;
    if (made < 0 || fstat(made, &status))
        abort();
    n_good = (size_t)status.st_size;
    good = malloc(n_good);
    changed = malloc(n_good + sizeof(uint32_t));
    if (!good || !changed || read(made, good, n_good) != (ssize_t)n_good)
        abort();
    close(made);
    fd = memfd_create("views", MFD_CLOEXEC);
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
}

// The header tells the size and the checksum of what there is now.
static void make_it_hold(unsigned char *file, size_t n)
{
    struct file_header header;
    struct search_object object = {0};
    struct part parts[N_PARTS];
    if (n < sizeof header)
        return;
    memcpy(&header, file, sizeof header);
    header.n_bytes = n;
    list_parts(&object, &header, parts);
    size_t at = sizeof header;
    for (int i = 0; i < N_PARTS; i++) {
        if (parts[i].n_bytes > n - at)
            return;
        *parts[i].data = file + at;
        at += parts[i].n_bytes;
    }
    header.checksum = checksum(&header, parts);
    memcpy(file, &header, sizeof header);
}

static void search_with(const struct search_object *object, enum search_preset preset)
{
    static uint16_t depth[WIDTH * HEIGHT];
    struct search_query query;
    struct search_answer answer;
    for (uint32_t i = 0; i < WIDTH * HEIGHT; i++)
        depth[i] = (uint16_t)((i % WIDTH > 20 && i % WIDTH < 44 ? 500 : 900) + i / WIDTH);
    const struct search_image image = {.frame = {depth, WIDTH, HEIGHT, 1000, 0},
                                       .camera = {60, 60, WIDTH / 2, HEIGHT / 2, WIDTH, HEIGHT}};
    search_query_default(&query);
    query.preset = preset;
    if (search_run(search, object, &image, &query, &answer, NULL))
        return;
    if (answer.n_poses > query.top)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes)
{
    if (!search)
        build();
    size_t n = n_good;
    memcpy(changed, good, n_good);
    for (size_t i = 0; i + CHANGE_BYTES <= n_bytes && i < CHANGE_BYTES * MAX_CHANGES;
         i += CHANGE_BYTES) {
        uint32_t place;
        memcpy(&place, data + i, sizeof place);
        if (place < n_good)
            memcpy(changed + place, data + i + sizeof place, sizeof place);
        else
            n = place % n_good;
    }
    if (n_bytes % CHANGE_BYTES == 0) // else the checksum is wrong
        make_it_hold(changed, n);
    struct search_object *object;
    if (ftruncate(fd, 0) || pwrite(fd, changed, n, 0) != (ssize_t)n)
        abort();
    if (search_object_load(search, path, &object))
        return 0;
    search_with(object, n_bytes / CHANGE_BYTES % 2 ? SEARCH_PRESET_GERMANN : SEARCH_PRESET_DEFAULT);
    search_object_destroy(search, &object);
    return 0;
}
