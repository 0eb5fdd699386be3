// SPDX-License-Identifier: Apache-2.0
// Where settings were set, for messages. What takes settings together (a rule between two, a
// library) names them as posed.conf does, "gpu.depth_min_m"; the log here adds where each was set:
// file and line, the variable, or the option of the command line.
#ifndef POSED_DAEMON_CONFIG_ORIGINS_H
#define POSED_DAEMON_CONFIG_ORIGINS_H

#include "daemon/config/config.h"

struct origins {
    const struct config *config; // must stay, as this must, while the log is used
    const char *camera;          // whose settings these are, NULL = the shared ones
    struct log_sink log;
};

// A log in front of origins->log: the place of the first setting that a line names comes before it,
// those of the others behind. A setting that nobody set has none.
struct log_sink origins_log(struct origins *origins);

#endif
