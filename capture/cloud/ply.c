// SPDX-License-Identifier: Apache-2.0
#include "capture/cloud/ply.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "capture/io/tokenizer.h"

#define MAX_ELEMENTS   16
#define MAX_PROPERTIES 64
#define MAX_GRID_SIDE  65536

enum ply_format { PLY_ASCII, PLY_LITTLE, PLY_BIG };

enum ply_type { PLY_I8, PLY_U8, PLY_I16, PLY_U16, PLY_I32, PLY_U32, PLY_F32, PLY_F64, PLY_N_TYPES };

static const struct {
    const char *old_name, *new_name;
    size_t n_bytes;
} types[PLY_N_TYPES] = {
    {"char", "int8", 1}, {"uchar", "uint8", 1}, {"short", "int16", 2},   {"ushort", "uint16", 2},
    {"int", "int32", 4}, {"uint", "uint32", 4}, {"float", "float32", 4}, {"double", "float64", 8},
};

// What a property is for. X..NZ are also the indices of the columns of a cloud.
enum ply_role {
    ROLE_X,
    ROLE_Y,
    ROLE_Z,
    ROLE_NX,
    ROLE_NY,
    ROLE_NZ,
    ROLE_INDICES,
    ROLE_GRID,
    ROLE_NONE
};

struct ply_property {
    enum ply_type type, count_type;
    bool list;
    enum ply_role role;
};

struct ply_element {
    char name[32];
    size_t count;
    struct ply_property properties[MAX_PROPERTIES];
    size_t n_properties;
};

struct ply_reader {
    struct tokenizer in;
    bool in_header;
    enum ply_format format;
    struct ply_element elements[MAX_ELEMENTS];
    size_t n_elements;
    size_t n_columns, n_rows; // of the range grid, as obj_info says; 0 = it does not
};

static int fail(const struct ply_reader *r, const char *what)
{
    bool text = r->in_header || r->format == PLY_ASCII;
    return text ? tokenizer_fail(&r->in, what) : tokenizer_fail_binary(&r->in, what);
}

static int parse_type(const struct ply_reader *r, const char *word, enum ply_type *out)
{
    for (int i = 0; i < PLY_N_TYPES; i++)
        if (!strcmp(word, types[i].old_name) || !strcmp(word, types[i].new_name)) {
            *out = (enum ply_type)i;
            return 0;
        }
    return fail(r, "unknown property type");
}

static enum ply_role property_role(const struct ply_element *element, bool list, const char *name)
{
    static const char *const columns[] = {"x", "y", "z", "nx", "ny", "nz"};
    if (!strcmp(element->name, "vertex") && !list)
        for (int i = 0; i < 6; i++)
            if (!strcmp(name, columns[i]))
                return (enum ply_role)i;
    if (!strcmp(element->name, "face") && list &&
        (!strcmp(name, "vertex_indices") || !strcmp(name, "vertex_index")))
        return ROLE_INDICES;
    if (!strcmp(element->name, "range_grid") && list && !strcmp(name, "vertex_indices"))
        return ROLE_GRID;
    return ROLE_NONE;
}

static int parse_property(struct ply_reader *r)
{
    if (r->n_elements == 0)
        return fail(r, "property before the first element");
    struct ply_element *element = &r->elements[r->n_elements - 1];
    if (element->n_properties == MAX_PROPERTIES)
        return fail(r, "more than 64 properties in an element");
    struct ply_property *property = &element->properties[element->n_properties];
    char word[64];
    int rc;
    if (!tokenizer_next(&r->in, word, sizeof word))
        return fail(r, "property without a type");
    property->list = !strcmp(word, "list");
    if (property->list) {
        if (!tokenizer_next(&r->in, word, sizeof word))
            return fail(r, "list without a count type");
        if ((rc = parse_type(r, word, &property->count_type)) < 0)
            return rc;
        if (property->count_type >= PLY_F32)
            return fail(r, "the count of a list must be an integer type");
        if (!tokenizer_next(&r->in, word, sizeof word))
            return fail(r, "list without an item type");
    }
    if ((rc = parse_type(r, word, &property->type)) < 0)
        return rc;
    if (!tokenizer_next(&r->in, word, sizeof word))
        return fail(r, "property without a name");
    property->role = property_role(element, property->list, word);
    for (size_t i = 0; i < element->n_properties; i++)
        if (property->role != ROLE_NONE && element->properties[i].role == property->role)
            return fail(r, "property declared twice");
    element->n_properties++;
    return 0;
}

static int parse_element(struct ply_reader *r)
{
    if (r->n_elements == MAX_ELEMENTS)
        return fail(r, "more than 16 elements");
    struct ply_element *element = &r->elements[r->n_elements];
    char word[64];
    if (!tokenizer_next(&r->in, element->name, sizeof element->name) ||
        !tokenizer_next(&r->in, word, sizeof word))
        return fail(r, "element without name and count");
    char *end;
    errno = 0;
    unsigned long long count = strtoull(word, &end, 10);
    if (errno || *end || word[0] == '-' || count > INT32_MAX)
        return fail(r, "element count is not a number from 0 to 2^31 - 1");
    for (size_t i = 0; i < r->n_elements; i++)
        if (!strcmp(r->elements[i].name, element->name))
            return fail(r, "element declared twice");
    element->count = (size_t)count;
    r->n_elements++;
    return 0;
}

static int parse_format(struct ply_reader *r)
{
    static const char *const names[] = {"ascii", "binary_little_endian", "binary_big_endian"};
    char word[64];
    if (!tokenizer_next(&r->in, word, sizeof word))
        return fail(r, "format without a name");
    for (int i = 0; i < 3; i++)
        if (!strcmp(word, names[i])) {
            r->format = (enum ply_format)i;
            if (!tokenizer_next(&r->in, word, sizeof word) || strcmp(word, "1.0") != 0)
                return fail(r, "PLY version is not 1.0");
            return 0;
        }
    return fail(r, "unknown format (ascii, binary_little_endian, binary_big_endian)");
}

// `obj_info num_cols N` and `obj_info num_rows N`: the range grid's size; other words say nothing.
static int parse_info(struct ply_reader *r)
{
    char name[64], word[64], *end;
    if (!tokenizer_next(&r->in, name, sizeof name) || !tokenizer_next(&r->in, word, sizeof word))
        return 0;
    bool columns = !strcmp(name, "num_cols"), rows = !strcmp(name, "num_rows");
    if (!columns && !rows)
        return 0;
    errno = 0;
    unsigned long long n = strtoull(word, &end, 10);
    if (errno || *end || word[0] == '-' || n == 0 || n > MAX_GRID_SIDE)
        return fail(r, "side of the range grid is not a number from 1 to 65536");
    *(columns ? &r->n_columns : &r->n_rows) = (size_t)n;
    return 0;
}

static int parse_header(struct ply_reader *r)
{
    char word[64];
    bool has_format = false;
    r->in_header = true;
    if (!tokenizer_next(&r->in, word, sizeof word) || strcmp(word, "ply") != 0)
        return fail(r, "not a PLY file (the first line is not 'ply')");
    for (;;) {
        tokenizer_skip_line(&r->in);
        if (r->in.at >= r->in.n_bytes)
            return fail(r, "the file ends inside the header");
        if (!tokenizer_next(&r->in, word, sizeof word) || !strcmp(word, "comment"))
            continue;
        int rc = 0;
        if (!strcmp(word, "end_header"))
            break;
        else if (!strcmp(word, "obj_info"))
            rc = parse_info(r);
        else if (!strcmp(word, "format")) {
            rc = parse_format(r);
            has_format = rc == 0;
        } else if (!strcmp(word, "element"))
            rc = parse_element(r);
        else if (!strcmp(word, "property"))
            rc = parse_property(r);
        else if (r->n_elements > 0) // before: remarks, as in scanners' files
            rc = fail(r, "unknown word in the header");
        if (rc < 0)
            return rc;
    }
    if (!has_format)
        return fail(r, "header without a format line");
    tokenizer_skip_line(&r->in);
    r->in_header = false;
    return 0;
}

// A line of an element ended early or late: the next word must be on it.
static int read_ascii(struct ply_reader *r, double *out)
{
    char word[64], *end;
    while (!tokenizer_next(&r->in, word, sizeof word)) {
        if (r->in.at >= r->in.n_bytes)
            return fail(r, "the file ends before all elements are read");
        r->in.at++;
        r->in.line++;
    }
    *out = strtod(word, &end);
    return end != word && !*end ? 0 : fail(r, "not a number");
}

static double decode(const uint8_t *bytes, enum ply_type type, bool big)
{
    uint64_t u = 0;
    size_t n = types[type].n_bytes;
    for (size_t i = 0; i < n; i++)
        u |= (uint64_t)bytes[big ? n - 1 - i : i] << (8 * i);
    switch (type) {
    case PLY_I8:
        return (int8_t)u;
    case PLY_I16:
        return (int16_t)u;
    case PLY_I32:
        return (int32_t)u;
    case PLY_F32: {
        uint32_t bits = (uint32_t)u;
        float f;
        memcpy(&f, &bits, sizeof f);
        return f;
    }
    case PLY_F64: {
        double d;
        memcpy(&d, &u, sizeof d);
        return d;
    }
    default:
        return (double)u;
    }
}

static int read_scalar(struct ply_reader *r, enum ply_type type, double *out)
{
    if (r->format == PLY_ASCII)
        return read_ascii(r, out);
    if (tokenizer_left_bytes(&r->in) < types[type].n_bytes)
        return fail(r, "the file ends before all elements are read");
    *out = decode((const uint8_t *)r->in.data + r->in.at, type, r->format == PLY_BIG);
    r->in.at += types[type].n_bytes;
    return 0;
}

static int read_list_count(struct ply_reader *r, const struct ply_property *property, size_t *out)
{
    double count;
    int rc = read_scalar(r, property->count_type, &count);
    if (rc < 0)
        return rc;
    // A list of more items than bytes left cannot be there, whatever the format.
    if (!(count >= 0 && count <= (double)tokenizer_left_bytes(&r->in)) || count != floor(count))
        return fail(r, "impossible number of items in a list");
    *out = (size_t)count;
    return 0;
}

static int skip_property(struct ply_reader *r, const struct ply_property *property)
{
    double ignored;
    size_t n = 1;
    int rc = property->list ? read_list_count(r, property, &n) : 0;
    for (size_t i = 0; i < n && rc == 0; i++)
        rc = read_scalar(r, property->type, &ignored);
    return rc;
}

// The smallest number of bytes that one item of an element takes in the file.
static size_t least_bytes(const struct ply_reader *r, const struct ply_element *element)
{
    size_t n = 0;
    for (size_t i = 0; i < element->n_properties; i++) {
        const struct ply_property *p = &element->properties[i];
        n += r->format == PLY_ASCII ? 1 : types[p->list ? p->count_type : p->type].n_bytes;
    }
    return n;
}

static int read_vertices(struct ply_reader *r, const struct ply_element *element,
                         struct cloud *cloud)
{
    bool has[6] = {false};
    for (size_t i = 0; i < element->n_properties; i++)
        if (element->properties[i].role < 6)
            has[element->properties[i].role] = true;
    if (!has[ROLE_X] || !has[ROLE_Y] || !has[ROLE_Z])
        return fail(r, "element vertex has no x, y and z");
    bool with_normals = has[ROLE_NX] && has[ROLE_NY] && has[ROLE_NZ];
    int rc = cloud_alloc(cloud, element->count, with_normals);
    if (rc < 0)
        return rc;
    float *const columns[6] = {cloud->x_m, cloud->y_m, cloud->z_m, cloud->nx, cloud->ny, cloud->nz};
    for (size_t k = 0; k < element->count; k++)
        for (size_t i = 0; i < element->n_properties; i++) {
            const struct ply_property *property = &element->properties[i];
            if (property->role >= 6 || !columns[property->role]) {
                if ((rc = skip_property(r, property)) < 0)
                    return rc;
                continue;
            }
            double value;
            if ((rc = read_scalar(r, property->type, &value)) < 0)
                return rc;
            float narrow = (float)value;
            if (property->role <= ROLE_Z && !isfinite(narrow))
                return fail(r, "coordinate is NaN or infinite");
            columns[property->role][k] = isfinite(narrow) ? narrow : 0;
        }
    return 0;
}

static int read_index(struct ply_reader *r, const struct ply_property *property, size_t n_vertices,
                      uint32_t *out)
{
    double index;
    int rc = read_scalar(r, property->type, &index);
    if (rc < 0)
        return rc;
    if (!(index >= 0 && index < (double)n_vertices) || index != floor(index))
        return fail(r, "face names a vertex that is not there");
    *out = (uint32_t)index;
    return 0;
}

static int add_triangle(struct cloud *cloud, size_t *room, const uint32_t corners[3])
{
    if (cloud->n_triangles == *room) {
        size_t more = *room ? 2 * *room : 64;
        uint32_t *grown = realloc(cloud->triangles, more * 3 * sizeof *grown);
        if (!grown)
            return -ENOMEM;
        cloud->triangles = grown;
        *room = more;
    }
    memcpy(cloud->triangles + 3 * cloud->n_triangles++, corners, 3 * sizeof *corners);
    return 0;
}

// Polygons become fans around their first corner. Faces of fewer than three corners hold no area
// and are left out.
static int read_faces(struct ply_reader *r, const struct ply_element *element, size_t n_vertices,
                      struct cloud *cloud)
{
    size_t room = 0;
    for (size_t k = 0; k < element->count; k++)
        for (size_t i = 0; i < element->n_properties; i++) {
            const struct ply_property *property = &element->properties[i];
            int rc;
            size_t n;
            if (property->role != ROLE_INDICES) {
                if ((rc = skip_property(r, property)) < 0)
                    return rc;
                continue;
            }
            if ((rc = read_list_count(r, property, &n)) < 0)
                return rc;
            uint32_t corners[3] = {0, 0, 0};
            for (size_t j = 0; j < n; j++) {
                if ((rc = read_index(r, property, n_vertices, &corners[j < 2 ? j : 2])) < 0)
                    return rc;
                if (j < 2)
                    continue;
                if ((rc = add_triangle(cloud, &room, corners)) < 0)
                    return rc;
                corners[1] = corners[2];
            }
        }
    return 0;
}

// One item a cell, row by row: a list of no vertex or of one.
static int read_grid(struct ply_reader *r, const struct ply_element *element, size_t n_vertices,
                     struct cloud *cloud)
{
    if (element->count == 0 || element->count != r->n_columns * r->n_rows)
        return fail(r, "range_grid has not num_cols times num_rows cells (obj_info)");
    cloud->grid = malloc(element->count * sizeof *cloud->grid);
    if (!cloud->grid)
        return -ENOMEM;
    cloud->n_columns = (uint32_t)r->n_columns;
    cloud->n_rows = (uint32_t)r->n_rows;
    for (size_t k = 0; k < element->count; k++) {
        cloud->grid[k] = CLOUD_GRID_EMPTY;
        for (size_t i = 0; i < element->n_properties; i++) {
            const struct ply_property *property = &element->properties[i];
            size_t n = 0;
            int rc = property->role == ROLE_GRID ? read_list_count(r, property, &n)
                                                 : skip_property(r, property);
            if (rc == 0 && n > 1)
                rc = fail(r, "more than one vertex in a cell of the range grid");
            if (rc == 0 && n == 1)
                rc = read_index(r, property, n_vertices, &cloud->grid[k]);
            if (rc < 0)
                return rc;
        }
    }
    return 0;
}

// A grid is read where the header says its size; elsewhere the element is skipped, as any other.
static bool is_grid(const struct ply_reader *r, const struct ply_element *element)
{
    bool has = false;
    for (size_t i = 0; i < element->n_properties; i++)
        has = has || element->properties[i].role == ROLE_GRID;
    return has && r->n_columns && r->n_rows;
}

static int read_body(struct ply_reader *r, struct cloud *cloud)
{
    const struct ply_element *vertex = NULL;
    for (size_t e = 0; e < r->n_elements; e++)
        if (!strcmp(r->elements[e].name, "vertex"))
            vertex = &r->elements[e];
    if (!vertex)
        return fail(r, "no element 'vertex'");
    for (size_t e = 0; e < r->n_elements; e++) {
        const struct ply_element *element = &r->elements[e];
        size_t least = least_bytes(r, element);
        if (least == 0 && element != vertex)
            continue;
        // Before anything is taken for it: the rest of the file must be able to hold the count.
        if (least && element->count > tokenizer_left_bytes(&r->in) / least)
            return fail(r, "element count is larger than the rest of the file");
        int rc = 0;
        if (element == vertex)
            rc = read_vertices(r, element, cloud);
        else if (!strcmp(element->name, "face"))
            rc = read_faces(r, element, vertex->count, cloud);
        else if (is_grid(r, element))
            rc = read_grid(r, element, vertex->count, cloud);
        else
            for (size_t k = 0; k < element->count && rc == 0; k++)
                for (size_t i = 0; i < element->n_properties && rc == 0; i++)
                    rc = skip_property(r, &element->properties[i]);
        if (rc < 0)
            return rc;
    }
    return 0;
}

int ply_parse(const void *data, size_t n_bytes, const char *name, const struct log_sink *log,
              struct cloud *out)
{
    memset(out, 0, sizeof *out);
    struct ply_reader *r = calloc(1, sizeof *r);
    if (!r)
        return -ENOMEM;
    r->in =
        (struct tokenizer){.data = data, .n_bytes = n_bytes, .line = 1, .name = name, .log = log};
    int rc = parse_header(r);
    if (rc == 0)
        rc = read_body(r, out);
    if (rc < 0)
        cloud_free(out);
    free(r);
    return rc;
}
