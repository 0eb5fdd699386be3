// SPDX-License-Identifier: Apache-2.0
// The settings in force while the daemon runs. A few keys (config_is_live) change meanwhile, on
// SIGHUP and by SetParams; here they are changed and read, by any thread, and the log is told.
#ifndef POSED_DAEMON_CONFIG_SETTINGS_H
#define POSED_DAEMON_CONFIG_SETTINGS_H

#include "daemon/config/config.h"
#include "daemon/log.h"

struct settings; // opaque

// Begins with a copy of `config` and configures `log` (may be NULL, else it must outlive this) as
// it says, now and after each change. Returns 0 or -ENOMEM.
__attribute__((warn_unused_result)) int
settings_create(struct settings **out, const struct config *config, struct log *log);
void settings_destroy(struct settings **settings);

// A copy of them all.
void settings_get(struct settings *settings, struct config *out);

// Deadline of a request that names none.
uint32_t settings_deadline_ms(struct settings *settings);

// config_reload on them. What SetParams has changed is lost: the files, the environment and the
// command line say all again.
unsigned settings_reload(struct settings *settings, const struct config *fresh,
                         const struct log_sink *log);

// Changes some keys: all of them, or none. Returns 0, or with the index of the first wrong one in
// *out_wrong and the reason in out_error: -ENOENT (no such key), -EPERM (needs a restart), -EINVAL
// (not of its type), -ERANGE.
__attribute__((warn_unused_result)) int settings_change(struct settings *settings,
                                                        const struct config_assignment *assignments,
                                                        size_t n, size_t *out_wrong,
                                                        char *out_error, size_t error_bytes);

#endif
