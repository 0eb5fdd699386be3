// SPDX-License-Identifier: Apache-2.0
// Inside capture/ only: why a source was not opened, and what may be meant by it, for the log.
#ifndef POSED_CAPTURE_EXPLAIN_SOURCE_H
#define POSED_CAPTURE_EXPLAIN_SOURCE_H

#include <stddef.h>

#include "proto/log.h"

// `name_of`: the name of the i-th driver of this program, NULL behind the last.

// The source has no driver: a name mistyped, or a path that is none of a recording. `error`: of
// recognise.
void explain_unknown(const char *source, int error, const char *(*name_of)(size_t i),
                     const struct log_sink *log);

// What a driver cannot open may be another one's; why it cannot is in the log already. Nothing is
// said where nothing is known.
void explain_unopened(const char *driver, const char *location, const char *(*name_of)(size_t i),
                      const struct log_sink *log);

#endif
