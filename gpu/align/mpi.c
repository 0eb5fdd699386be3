// SPDX-License-Identifier: Apache-2.0
// The one file that speaks MPI.
#include "gpu/align/ranks.h"

#include <stdlib.h>

#ifdef POSED_HAVE_MPI
#include <mpi.h>

#define PIECE_BYTES ((size_t)1 << 30) // counts are ints

static void broadcast(void *data, size_t n_bytes, uint32_t from)
{
    for (size_t at = 0; at < n_bytes; at += PIECE_BYTES) {
        size_t n = n_bytes - at < PIECE_BYTES ? n_bytes - at : PIECE_BYTES;
        MPI_Bcast((char *)data + at, (int)n, MPI_BYTE, (int)from, MPI_COMM_WORLD);
    }
}

// Point to point, in the order of the ranks: messages are few and may be longer than an int counts.
static void gather(const void *data, size_t n_bytes, void *out, const size_t *all_bytes)
{
    int id, n;
    MPI_Comm_rank(MPI_COMM_WORLD, &id);
    MPI_Comm_size(MPI_COMM_WORLD, &n);
    char *to = out;
    for (int rank = 0; rank < n; rank++) {
        if (id == 0 && rank == 0) {
            for (size_t k = 0; k < n_bytes; k++)
                to[k] = ((const char *)data)[k];
        } else if (id == 0) {
            for (size_t at = 0; at < all_bytes[rank]; at += PIECE_BYTES) {
                size_t left = all_bytes[rank] - at;
                MPI_Recv(to + at, (int)(left < PIECE_BYTES ? left : PIECE_BYTES), MPI_BYTE, rank, 0,
                         MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            }
        } else if (id == rank) {
            for (size_t at = 0; at < n_bytes; at += PIECE_BYTES) {
                size_t left = n_bytes - at;
                MPI_Send((const char *)data + at, (int)(left < PIECE_BYTES ? left : PIECE_BYTES),
                         MPI_BYTE, 0, 0, MPI_COMM_WORLD);
            }
        }
        if (id == 0)
            to += all_bytes[rank];
    }
}

void align_ranks_start(int *argc, char ***argv, bool launched, struct align_ranks *out)
{
    align_ranks_one(out);
    if (!launched)
        return;
    int id, n, local_id, n_local;
    MPI_Comm local;
    MPI_Init(argc, argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &id);
    MPI_Comm_size(MPI_COMM_WORLD, &n);
    MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, id, MPI_INFO_NULL, &local);
    MPI_Comm_rank(local, &local_id);
    MPI_Comm_size(local, &n_local);
    MPI_Comm_free(&local);
    *out = (struct align_ranks){(uint32_t)id,      (uint32_t)n, (uint32_t)local_id,
                                (uint32_t)n_local, broadcast,   gather};
}

void align_ranks_end(void)
{
    int started;
    MPI_Initialized(&started);
    if (started)
        MPI_Finalize();
}

void align_ranks_abort(int status)
{
    int started;
    MPI_Initialized(&started);
    if (started)
        MPI_Abort(MPI_COMM_WORLD, status);
    exit(status);
}

#else

void align_ranks_start(int *argc, char ***argv, bool launched, struct align_ranks *out)
{
    (void)argc;
    (void)argv;
    (void)launched;
    align_ranks_one(out);
}

void align_ranks_end(void)
{
}

void align_ranks_abort(int status)
{
    exit(status);
}

#endif
