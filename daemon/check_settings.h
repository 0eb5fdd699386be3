// SPDX-License-Identifier: Apache-2.0
// All that the settings must hold beyond what each says alone and config_load knows: the rules of
// the daemon's parts, and the files that settings name. `posed --check-config`, the start and
// SIGHUP come here, so that what one takes the others take.
#ifndef POSED_DAEMON_CHECK_SETTINGS_H
#define POSED_DAEMON_CHECK_SETTINGS_H

#include "daemon/config/config.h"

// Reads the files of keys, fields and places; opens no source, device or socket. Returns 0, or
// -EINVAL with every reason in the log, each with the setting and where it was set.
__attribute__((warn_unused_result)) int check_settings(const struct config *config,
                                                       const struct log_sink *log);

// Whether there is a driver for each source (capture_source_check); none is opened. Returns as
// check_settings.
__attribute__((warn_unused_result)) int check_sources(const struct config *config,
                                                      const struct log_sink *log);

#endif
