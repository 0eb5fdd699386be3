// SPDX-License-Identifier: Apache-2.0
// The command line. Every option but -c, --check-config and --dump-config is a setting in short
// form, and ends as an assignment that overrides all other sources.
#ifndef POSED_DAEMON_CONFIG_COMMAND_LINE_H
#define POSED_DAEMON_CONFIG_COMMAND_LINE_H

#include <stdbool.h>
#include <stddef.h>

#include "daemon/config/config.h"

#define OPTIONS_MAX_ASSIGNMENTS 64

struct options {
    const char *config_file; // NULL = the default one
    bool check, dump, has_source;
    struct config_assignment assignments[OPTIONS_MAX_ASSIGNMENTS];
    size_t n_assignments;
    char names[OPTIONS_MAX_ASSIGNMENTS][64]; // of --set, its name part
};

// Parses; --help and --version exit 0, a wrong command line is explained on stderr and exits 2.
// Strings stay in argv. argp_flags: 0, or ARGP_SILENT for a caller that must go on. Returns 0, or
// -EINVAL for a wrong command line where the flags let it return.
__attribute__((warn_unused_result)) int options_parse(struct options *out, int argc, char **argv,
                                                      unsigned argp_flags);

#endif
