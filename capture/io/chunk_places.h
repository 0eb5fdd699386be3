// SPDX-License-Identifier: Apache-2.0
// Where the chunks of a file begin, as the index at its end names them: where reading goes on
// behind damage. Nothing of it is believed but that a chunk may stand there.
#ifndef POSED_CAPTURE_IO_CHUNK_PLACES_H
#define POSED_CAPTURE_IO_CHUNK_PLACES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct chunk_places {
    uint64_t *offsets; // strictly increasing
    size_t n, capacity;
    uint64_t end; // where the chunks end and the index begins; 0: no index
};

// Returns 0 or -ENOMEM.
__attribute__((warn_unused_result)) int chunk_places_add(struct chunk_places *places,
                                                         uint64_t offset);

// All were added: puts them in order. They are dropped, and false is returned, unless they are
// different and all in `begin` <= offset < `end`.
bool chunk_places_finish(struct chunk_places *places, uint64_t begin, uint64_t end);
void chunk_places_free(struct chunk_places *places);

bool chunk_places_has(const struct chunk_places *places, uint64_t offset);

// The next one beyond `offset`, else the end; UINT64_MAX where that is passed, or there is none.
uint64_t chunk_places_after(const struct chunk_places *places, uint64_t offset);

#endif
