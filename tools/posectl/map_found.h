// SPDX-License-Identifier: Apache-2.0
// posectl map load --until-found: waits for the camera to be found in the map that was loaded.
#ifndef POSED_TOOLS_POSECTL_MAP_FOUND_H
#define POSED_TOOLS_POSECTL_MAP_FOUND_H

#include "tools/posectl/posectl.h"

// Of the status before the load.
struct map_found_before {
    uint32_t epoch; // the load began another one
    uint64_t n_searched;
};

// Asks for the status until it is found or `seconds` have passed. On a terminal it shows meanwhile
// what is waited for. Returns POSECTL_OK with *out_status, which has map_from_odom, or with the
// reason on stderr POSECTL_FAILED: it was not found, or a new map was begun.
enum posectl_exit map_found_wait(const struct posectl *ctl, const struct map_found_before *before,
                                 double seconds, posed_Reply *reply, posed_Status *out_status);

#endif
