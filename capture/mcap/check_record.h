// SPDX-License-Identifier: Apache-2.0
// Whether the contents of an MCAP record are what its opcode says. Readers end at one that is not.
#ifndef POSED_CAPTURE_MCAP_CHECK_RECORD_H
#define POSED_CAPTURE_MCAP_CHECK_RECORD_H

#include <stdbool.h>
#include <stddef.h>

// Of header, schema, channel, message, attachment and metadata: all that the format asks for is
// there, each length fits, and no schema has the id 0. More may follow, as the format allows. True
// for any other opcode.
bool mcap_is_well_formed(unsigned opcode, const unsigned char *data, size_t n);

#endif
