// SPDX-License-Identifier: Apache-2.0
#include "gpu/register/cpu/kdtree.h"

#include <errno.h>
#include <stdlib.h>

// Ranges of at most this many points are searched one by one.
#define LEAF       12
// Of ranges of at least this many points the builder asks whether it is still wanted.
#define LONG_RANGE 32768

struct node_point {
    float p[3];
    uint32_t index;
};

struct kdtree {
    size_t n;
    uint8_t *axis; // of the node in the middle of a range
    struct node_point points[];
};

static int widest_axis(const struct node_point *points, size_t begin, size_t end)
{
    float low[3], high[3];
    for (int a = 0; a < 3; a++)
        low[a] = high[a] = points[begin].p[a];
    for (size_t i = begin + 1; i < end; i++)
        for (int a = 0; a < 3; a++) {
            low[a] = points[i].p[a] < low[a] ? points[i].p[a] : low[a];
            high[a] = points[i].p[a] > high[a] ? points[i].p[a] : high[a];
        }
    int best = 0;
    for (int a = 1; a < 3; a++)
        if (high[a] - low[a] > high[best] - low[best])
            best = a;
    return best;
}

// Quickselect: afterwards points[middle] is where sorting by `axis` would put it.
static void select_middle(struct node_point *points, size_t begin, size_t end, size_t middle,
                          int axis)
{
    while (end - begin > 1) {
        float pivot = points[begin + (end - begin) / 2].p[axis];
        size_t i = begin, j = end - 1;
        for (;;) {
            while (points[i].p[axis] < pivot)
                i++;
            while (points[j].p[axis] > pivot)
                j--;
            if (i >= j)
                break;
            struct node_point swap = points[i];
            points[i++] = points[j];
            points[j--] = swap;
        }
        size_t split = j + 1;
        if (split == end)
            split = end - 1;
        if (middle < split)
            end = split;
        else
            begin = split;
    }
}

struct builder {
    struct kdtree *tree;
    int (*stopped)(const void *user);
    const void *user;
};

static int build(const struct builder *builder, size_t begin, size_t end)
{
    struct kdtree *tree = builder->tree;
    while (end - begin > LEAF) {
        size_t middle = begin + (end - begin) / 2;
        if (end - begin >= LONG_RANGE && builder->stopped) {
            int rc = builder->stopped(builder->user);
            if (rc < 0)
                return rc;
        }
        int axis = widest_axis(tree->points, begin, end);
        select_middle(tree->points, begin, end, middle, axis);
        tree->axis[middle] = (uint8_t)axis;
        int rc = build(builder, begin, middle);
        if (rc < 0)
            return rc;
        begin = middle + 1;
    }
    return 0;
}

int kdtree_create(struct kdtree **out, const struct point_set *points, size_t n,
                  int (*stopped)(const void *user), const void *user)
{
    *out = NULL;
    struct kdtree *tree = malloc(sizeof *tree + n * sizeof tree->points[0]);
    uint8_t *axis = malloc(n ? n : 1);
    if (!tree || !axis) {
        free(tree);
        free(axis);
        return -ENOMEM;
    }
    tree->n = n;
    tree->axis = axis;
    for (size_t i = 0; i < n; i++)
        tree->points[i] =
            (struct node_point){{points->x_m[i], points->y_m[i], points->z_m[i]}, (uint32_t)i};
    const struct builder builder = {tree, stopped, user};
    int rc = build(&builder, 0, n);
    if (rc < 0)
        kdtree_destroy(&tree);
    *out = tree;
    return rc;
}

size_t kdtree_size(const struct kdtree *tree)
{
    return tree->n;
}

void kdtree_destroy(struct kdtree **tree)
{
    if (!*tree)
        return;
    free((*tree)->axis);
    free(*tree);
    *tree = NULL;
}

static inline float distance2(const float a[3], const float b[3])
{
    float x = a[0] - b[0], y = a[1] - b[1], z = a[2] - b[2];
    return x * x + y * y + z * z;
}

struct nearest {
    const float *p;
    float d2;
    size_t index;
};

static void search_nearest(const struct kdtree *tree, size_t begin, size_t end,
                           struct nearest *best)
{
    while (end - begin > LEAF) {
        size_t middle = begin + (end - begin) / 2;
        const struct node_point *node = &tree->points[middle];
        float d2 = distance2(node->p, best->p);
        if (d2 < best->d2) {
            best->d2 = d2;
            best->index = node->index;
        }
        float side = best->p[tree->axis[middle]] - node->p[tree->axis[middle]];
        bool low = side < 0;
        search_nearest(tree, low ? begin : middle + 1, low ? middle : end, best);
        if (side * side >= best->d2)
            return;
        if (low)
            begin = middle + 1;
        else
            end = middle;
    }
    for (size_t i = begin; i < end; i++) {
        float d2 = distance2(tree->points[i].p, best->p);
        if (d2 < best->d2) {
            best->d2 = d2;
            best->index = tree->points[i].index;
        }
    }
}

size_t kdtree_nearest(const struct kdtree *tree, const float p[3], float max_d2, float *out_d2)
{
    struct nearest best = {p, max_d2, SIZE_MAX};
    search_nearest(tree, 0, tree->n, &best);
    *out_d2 = best.d2;
    return best.index;
}

struct within {
    const float *p;
    float d2;
    void (*visit)(void *context, const float x[3], size_t index, float d2);
    void *context;
};

static inline void visit_if_near(const struct within *query, const struct node_point *node)
{
    float d2 = distance2(node->p, query->p);
    if (d2 <= query->d2)
        query->visit(query->context, node->p, node->index, d2);
}

static void search_within(const struct kdtree *tree, size_t begin, size_t end,
                          const struct within *query)
{
    while (end - begin > LEAF) {
        size_t middle = begin + (end - begin) / 2;
        const struct node_point *node = &tree->points[middle];
        float side = query->p[tree->axis[middle]] - node->p[tree->axis[middle]];
        bool both = side * side <= query->d2;
        visit_if_near(query, node);
        if (side < 0 || both)
            search_within(tree, begin, middle, query);
        if (side < 0 && !both)
            return;
        begin = middle + 1;
    }
    for (size_t i = begin; i < end; i++)
        visit_if_near(query, &tree->points[i]);
}

void kdtree_within(const struct kdtree *tree, const float p[3], float d2,
                   void (*visit)(void *context, const float x[3], size_t index, float d2),
                   void *context)
{
    struct within query = {p, d2, visit, context};
    search_within(tree, 0, tree->n, &query);
}
