// SPDX-License-Identifier: Apache-2.0
// What of a Request the daemon's structs do not hold. nanopb decodes into arrays of fixed sizes
// (requests.options) and says no more than that a message cannot be decoded.
#ifndef POSED_PROTO_WIRE_MISFIT_H
#define POSED_PROTO_WIRE_MISFIT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct wire_misfit {
    uint32_t kind;  // of the request, posed_Request_..._tag; 0: the field is the envelope's
    char field[40]; // its path inside that, "params[2].name"
    size_t limit;   // bytes of a text, entries of a list
    bool is_list;   // too many entries, otherwise too long a text
};

// Looks at a framed request that wire_decode_request refused with -EBADMSG. Returns whether a text
// or list in it is too long; the first one is told.
bool wire_find_misfit(const uint8_t *bytes, size_t n_bytes, struct wire_misfit *out);

#endif
