// SPDX-License-Identifier: Apache-2.0
// The ranks of a run: rank 0 is the root, which solves; all have pairs. Calls are collective: every
// rank makes the same ones in the same order. Without MPI there is one rank.
#ifndef POSED_GPU_ALIGN_RANKS_H
#define POSED_GPU_ALIGN_RANKS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct align_ranks {
    uint32_t id, n;
    uint32_t local_id; // among the ranks of this host, and how many those are
    uint32_t n_local;
    // n_bytes from rank `from` to all.
    void (*broadcast)(void *data, size_t n_bytes, uint32_t from);
    // n_bytes of each rank (its own number) to the root, one behind the other by rank; all_bytes
    // says how many each rank has and counts on the root only.
    void (*gather)(const void *data, size_t n_bytes, void *out, const size_t *all_bytes);
};

// One rank: data stays where it is.
void align_ranks_one(struct align_ranks *out);

// mpi.c, in the library posed_ranks: starts MPI where the build has it and a launcher started this
// process (started by hand there is nobody to talk to, and MPI's start takes a second), else one
// rank. MPI's own errors end all ranks (its default).
void align_ranks_start(int *argc, char ***argv, bool launched, struct align_ranks *out);
void align_ranks_end(void);
// Ends all ranks with that exit status: for a rank that cannot go on.
__attribute__((noreturn)) void align_ranks_abort(int status);

#endif
