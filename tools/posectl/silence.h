// SPDX-License-Identifier: Apache-2.0
// Why nothing came from the daemon, as far as can be told from here, and what to do.
#ifndef POSED_TOOLS_POSECTL_SILENCE_H
#define POSED_TOOLS_POSECTL_SILENCE_H

#include "tools/posectl/connection.h"
#include "tools/posectl/posectl.h"

// On stderr. Connects to the address once more, plainly, for a second at most. `name`: the socket
// that was wanted there ("req"). public_key: this client's, "" without --server-key.
void silence_explain(const struct posectl *ctl, const struct connection *connection,
                     const char *address, const char *name, const char *public_key);

// The same of an address that cannot be connected to, for the reason of address_connect.
void silence_explain_nobody(const char *address, int error);

#endif
