// SPDX-License-Identifier: Apache-2.0
#include "tools/align/compare_zoltan.h"

#include <errno.h>

#ifdef POSED_HAVE_ZOLTAN
#include <stdio.h>
#include <string.h>
#include <zoltan.h>

struct hypergraph {
    const struct align_pair *pairs;
    uint32_t n_pairs, n_images;
    const uint32_t *weight;
};

static int count_nodes(void *user, int *error)
{
    *error = ZOLTAN_OK;
    return (int)((const struct hypergraph *)user)->n_pairs;
}

static void list_nodes(void *user, int n_global, int n_local, ZOLTAN_ID_PTR ids,
                       ZOLTAN_ID_PTR local, int n_weights, float *weights, int *error)
{
    const struct hypergraph *g = user;
    (void)n_global;
    (void)n_local;
    (void)local;
    for (uint32_t k = 0; k < g->n_pairs; k++) {
        ids[k] = k;
        if (n_weights)
            weights[k] = (float)g->weight[g->pairs[k].i] + (float)g->weight[g->pairs[k].j];
    }
    *error = ZOLTAN_OK;
}

static void size_nets(void *user, int *n_lists, int *n_pins, int *format, int *error)
{
    const struct hypergraph *g = user;
    *n_lists = (int)g->n_pairs;
    *n_pins = 2 * (int)g->n_pairs;
    *format = ZOLTAN_COMPRESSED_VERTEX;
    *error = ZOLTAN_OK;
}

static void list_nets(void *user, int n_global, int n_lists, int n_pins, int format,
                      ZOLTAN_ID_PTR nodes, int *begin, ZOLTAN_ID_PTR nets, int *error)
{
    const struct hypergraph *g = user;
    (void)n_global;
    (void)n_lists;
    (void)n_pins;
    (void)format;
    for (uint32_t k = 0; k < g->n_pairs; k++) {
        nodes[k] = k;
        begin[k] = 2 * (int)k;
        nets[2 * k] = g->pairs[k].i;
        nets[2 * k + 1] = g->pairs[k].j;
    }
    *error = ZOLTAN_OK;
}

static void size_net_weights(void *user, int *n, int *error)
{
    *n = (int)((const struct hypergraph *)user)->n_images;
    *error = ZOLTAN_OK;
}

static void list_net_weights(void *user, int n_global, int n_local, int n_edges, int n_weights,
                             ZOLTAN_ID_PTR ids, ZOLTAN_ID_PTR local, float *weights, int *error)
{
    const struct hypergraph *g = user;
    (void)n_global;
    (void)n_local;
    (void)n_edges;
    (void)local;
    for (uint32_t i = 0; i < g->n_images; i++) {
        ids[i] = i;
        if (n_weights)
            weights[i] = (float)g->weight[i];
    }
    *error = ZOLTAN_OK;
}

int zoltan_partition(const struct align_pair *pairs, uint32_t n_pairs, const uint32_t *image_weight,
                     uint32_t n_images, const struct partition_settings *settings,
                     uint32_t *out_part)
{
    struct hypergraph g = {pairs, n_pairs, n_images, image_weight};
    float version;
    int started;
    MPI_Initialized(&started);
    if (!started && MPI_Init(NULL, NULL) != MPI_SUCCESS)
        return -EIO;
    if (Zoltan_Initialize(0, NULL, &version) != ZOLTAN_OK)
        return -EIO;
    struct Zoltan_Struct *z = Zoltan_Create(MPI_COMM_WORLD);
    if (!z)
        return -ENOMEM;
    char number[32];
    Zoltan_Set_Param(z, "DEBUG_LEVEL", "0");
    Zoltan_Set_Param(z, "LB_METHOD", "HYPERGRAPH");
    Zoltan_Set_Param(z, "HYPERGRAPH_PACKAGE", "PHG");
    Zoltan_Set_Param(z, "LB_APPROACH", "PARTITION");
    Zoltan_Set_Param(z, "NUM_GID_ENTRIES", "1");
    Zoltan_Set_Param(z, "NUM_LID_ENTRIES", "1");
    Zoltan_Set_Param(z, "OBJ_WEIGHT_DIM", "1");
    Zoltan_Set_Param(z, "EDGE_WEIGHT_DIM", "1");
    Zoltan_Set_Param(z, "RETURN_LISTS", "PART");
    snprintf(number, sizeof number, "%u", settings->n_parts);
    Zoltan_Set_Param(z, "NUM_GLOBAL_PARTS", number);
    snprintf(number, sizeof number, "%.4f", 1 + settings->max_imbalance);
    Zoltan_Set_Param(z, "IMBALANCE_TOL", number);
    Zoltan_Set_Num_Obj_Fn(z, count_nodes, &g);
    Zoltan_Set_Obj_List_Fn(z, list_nodes, &g);
    Zoltan_Set_HG_Size_CS_Fn(z, size_nets, &g);
    Zoltan_Set_HG_CS_Fn(z, list_nets, &g);
    Zoltan_Set_HG_Size_Edge_Wts_Fn(z, size_net_weights, &g);
    Zoltan_Set_HG_Edge_Wts_Fn(z, list_net_weights, &g);
    int changes, n_global, n_local, n_import, n_export, *import_ranks, *import_parts;
    int *export_ranks, *export_parts;
    ZOLTAN_ID_PTR import_global, import_local, export_global, export_local;
    int rc = Zoltan_LB_Partition(z, &changes, &n_global, &n_local, &n_import, &import_global,
                                 &import_local, &import_ranks, &import_parts, &n_export,
                                 &export_global, &export_local, &export_ranks, &export_parts);
    if (rc == ZOLTAN_OK)
        for (int k = 0; k < n_export; k++)
            out_part[export_global[k]] = (uint32_t)export_parts[k];
    Zoltan_LB_Free_Part(&import_global, &import_local, &import_ranks, &import_parts);
    Zoltan_LB_Free_Part(&export_global, &export_local, &export_ranks, &export_parts);
    Zoltan_Destroy(&z);
    if (!started)
        MPI_Finalize();
    return rc == ZOLTAN_OK || rc == ZOLTAN_WARN ? 0 : -EIO;
}

#else

int zoltan_partition(const struct align_pair *pairs, uint32_t n_pairs, const uint32_t *image_weight,
                     uint32_t n_images, const struct partition_settings *settings,
                     uint32_t *out_part)
{
    (void)pairs;
    (void)n_pairs;
    (void)image_weight;
    (void)n_images;
    (void)settings;
    (void)out_part;
    return -ENOTSUP;
}

#endif
