// SPDX-License-Identifier: Apache-2.0
// The table of keys, for settings_table.c, which holds it, and values.c, which reads and prints
// what it describes. Nobody else needs it: config.h has the settings themselves.
#ifndef POSED_DAEMON_CONFIG_SETTINGS_TABLE_H
#define POSED_DAEMON_CONFIG_SETTINGS_TABLE_H

#include "daemon/config/config.h"

enum config_type {
    CONFIG_TEXT,   // char[CONFIG_TEXT_MAX]
    CONFIG_NAME,   // char[32]
    CONFIG_BOOL,   // bool
    CONFIG_UINT,   // uint32_t
    CONFIG_UINT64, // uint64_t
    CONFIG_INT,    // int
    CONFIG_FLOAT,  // float
    CONFIG_DOUBLE, // double
    CONFIG_SIGNED, // double, whose size has the range: it may be negative
    CONFIG_ENUM,   // an enum; `names` by value, NULL at values that have no name
    CONFIG_SPEED,  // double: "real", "max" or a number
    CONFIG_LEVELS, // uint32_t[GPU_LEVELS]
};

struct config_key {
    const char *section, *name;
    enum config_type type;
    size_t offset;
    double min, max;
    const char *const *names; // of an enum; of a number what 0 means where it is outside the range
    bool live;                // may change while the daemon runs
    const char *help;
};

extern const struct config_key config_keys[]; // config_n_keys of them

// Index of "section.name", config_n_keys() when there is none.
size_t config_find_key(const char *full_name);

// Sets a key's field, of any place that has room for one (CONFIG_TEXT_MAX), from text. Returns 0,
// -EINVAL or -ERANGE with the reason, and the field unchanged.
__attribute__((warn_unused_result)) int config_set_field(const struct config_key *key,
                                                         const char *value, void *field,
                                                         char *out_error, size_t error_bytes);

#endif
