// SPDX-License-Identifier: Apache-2.0
// The daemon's counters for Prometheus (text format 0.0.4): names posed_*, base units, _total for
// what only grows. What is of one of several cameras has the label camera.
#ifndef POSED_DAEMON_METRICS_H
#define POSED_DAEMON_METRICS_H

#include <stdio.h>

#include "daemon/shared_state.h"

void metrics_print(struct shared *const *cameras, uint32_t n_cameras, FILE *file);

#endif
