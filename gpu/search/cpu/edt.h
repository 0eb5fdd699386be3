// SPDX-License-Identifier: Apache-2.0
// Edges of a range map and the signed Euclidean distance transform, on the CPU.
#ifndef POSED_GPU_SEARCH_CPU_EDT_H
#define POSED_GPU_SEARCH_CPU_EDT_H

#include <stdint.h>

// Signed EDT of a size x size grid of enum search_kind (size <= SEARCH_WINDOW_PX), in 1/64 px.
void search_edt(const uint8_t *kind, int size, int16_t *out);

// The paper's algorithm 1: n_sweeps sweeps over the eight neighbours, each reading the result of
// the one before. For comparison; values in 1/64 px.
void search_edt_sweeps(const uint8_t *kind, int size, int n_sweeps, int16_t *out);

// Kinds of a size x size map of z (1/64 px; SEARCH_Z_NONE = background); outside is background.
void search_kinds(const int16_t *z, int size, uint8_t *out);

#endif
