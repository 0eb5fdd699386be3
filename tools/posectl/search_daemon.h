// SPDX-License-Identifier: Apache-2.0
// The pose search's requests as a client sends them: meshes and images go behind the encoded part
// of a message. The field numbers are those of proto/requests.proto.
#ifndef POSED_TOOLS_POSECTL_SEARCH_DAEMON_H
#define POSED_TOOLS_POSECTL_SEARCH_DAEMON_H

#include "gpu/search/search.h"
#include "tools/posectl/posectl.h"
#include "tools/posectl/sought.h"

// All return an exit code with the reason on stderr.
__attribute__((warn_unused_result)) enum posectl_exit
posectl_send_object(const struct posectl *ctl, const char *name, const struct search_mesh *mesh,
                    const struct search_object_settings *settings, posed_Reply *out);

// For each object of `sought`, with --all for whatever the daemon knows. `image` NULL: the newest
// frame of the daemon, which then can go on following the best answer.
__attribute__((warn_unused_result)) enum posectl_exit
posectl_send_search(const struct posectl *ctl, const struct sought *sought,
                    const struct search_image *image, const struct search_query *query,
                    const uint32_t region[4], bool track, posed_Reply *out);

#endif
