// SPDX-License-Identifier: Apache-2.0
// Any bytes as a configuration file: refused or taken, and what is taken can be dumped and read
// back.
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "daemon/config/config.h"
#include "daemon/endpoint.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct config config, again;
    const struct log_sink silent = {NULL, NULL};
    char value[CONFIG_TEXT_MAX], name[96], error[300], value_again[CONFIG_TEXT_MAX];
    config_default(&config);
    if (config_parse(&config, (const char *)data, size, "fuzz", &silent) != 0)
        return 0;
    again = config; // without its files, and groups of this machine
    again.endpoints.curve_secret_key_file[0] = again.endpoints.curve_clients_file[0] = 0;
    again.endpoints.group[0] = 0;
    int checked = endpoint_check(&again, &silent);
    (void)checked;
    config_default(&again);
    for (size_t i = 0; i < config_n_keys(); i++) {
        config_key_name(i, name, sizeof name);
        config_key_value(&config, i, value, sizeof value);
        if (config_set(&again, name, value, "again", error, sizeof error) != 0)
            abort();
        config_key_value(&again, i, value_again, sizeof value_again);
        for (size_t k = 0; k < sizeof value && (value[k] || value_again[k]); k++)
            if (value[k] != value_again[k])
                abort();
    }
    return 0;
}
